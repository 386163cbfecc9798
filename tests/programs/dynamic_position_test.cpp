// A decoding step captured once for all positions: the position is a 0-d tensor, an input like
// others. What is new goes to its row by index; what lies beyond is left out by a mask.
#include <cmath>

#include "aster.h"

namespace programs {
namespace {

constexpr int kRows = 8;
constexpr int kWidth = 3;

std::vector<float> vector_of(int step) {
  std::vector<float> out;
  for (int i = 0; i < kWidth; ++i) out.push_back(std::sin(static_cast<float>(step * 5 + i)));
  return out;
}

// softmax(q k^T) v over the rows written so far, with k = v = those rows and q the last of them.
std::vector<float> expected(int step) {
  const std::vector<float> q = vector_of(step);
  std::vector<float> out(kWidth, 0);
  float total = 0;
  for (int row = 0; row <= step; ++row) {
    const std::vector<float> k = vector_of(row);
    float dot = 0;
    for (size_t i = 0; i < kWidth; ++i) dot += q[i] * k[i];
    const float weight = std::exp(dot);
    total += weight;
    for (size_t i = 0; i < kWidth; ++i) out[i] += weight * k[i];
  }
  for (float& x : out) x /= total;
  return out;
}

TEST(DynamicPosition, OneProgramServesAllPositions) {
  Session s;
  // What has not been written yet is not read: not even its NaN.
  T cache = from(s, std::vector<float>(kRows * kWidth, NAN), {kRows, kWidth});
  T x = from(s, vector_of(0), {1, kWidth});
  T position = from(s, std::vector<int32_t>{0}, {});
  aster_ml_lazy* inputs[] = {&x.h, &position.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 2));

  // cache[position] = x
  const aster_ml_index row = {ASTER_ML_INDEX_TENSOR, 0, 0, 0, &position.h};
  T flat;
  OK(aster_ml_lazy_reshape(&flat.h, &x.h, 1, std::vector<int64_t>{kWidth}.data()));
  OK(aster_ml_lazy_index_assign(&cache.h, 1, &row, &flat.h));
  // rows = where(arange(kRows)[:, None] <= position, cache, 0); a row beyond scores -inf.
  T places, column, seen, rows, turned, scores, shown, weights, zero = number(s, 0);
  OK(aster_ml_lazy_arange(&places.h, &s.context, 0, kRows, 1, ASTER_ML_DTYPE_INT32));
  OK(aster_ml_lazy_reshape(&column.h, &places.h, 2, std::vector<int64_t>{kRows, 1}.data()));
  OK(aster_ml_lazy_le(&seen.h, &column.h, &position.h));
  OK(aster_ml_lazy_where(&rows.h, &seen.h, &cache.h, &zero.h));
  OK(aster_ml_lazy_transpose(&turned.h, &rows.h, 0, 1));
  OK(aster_ml_lazy_matmul(&scores.h, &x.h, &turned.h));
  OK(aster_ml_lazy_le(&shown.h, &places.h, &position.h));
  T nothing = number(s, -INFINITY), masked, y;
  OK(aster_ml_lazy_where(&masked.h, &shown.h, &scores.h, &nothing.h));
  OK(aster_ml_lazy_softmax(&weights.h, &masked.h, 1));
  OK(aster_ml_lazy_matmul(&y.h, &weights.h, &rows.h));
  aster_ml_lazy* computed[] = {&y.h, &cache.h};
  OK(aster_ml_lazy_realize(computed, 2));
  aster_ml_program program{};
  aster_ml_lazy* outputs[] = {&y.h};
  OK(aster_ml_engine_capture_end(&program, &s.context, outputs, 1));

  const uint64_t compiled = s.counters().kernels_compiled;
  for (int32_t step = 1; step < kRows; ++step) {
    T next = from(s, vector_of(step), {1, kWidth});
    T at = from(s, std::vector<int32_t>{step}, {});
    aster_ml_tensor given[2] = {};
    OK(aster_ml_lazy_view(&given[0], &next.h));
    OK(aster_ml_lazy_view(&given[1], &at.h));
    aster_ml_tensor result{};
    OK(aster_ml_program_run(&program, nullptr, given, 2, &result, 1));
    const std::vector<float> want = expected(step);
    for (size_t i = 0; i < kWidth; ++i)
      EXPECT_NEAR(static_cast<const float*>(result.storage.data)[i], want[i], 1e-5f) << step;
    OK(aster_ml_tensor_free(&result));
  }
  EXPECT_EQ(s.counters().kernels_compiled, compiled);
  OK(aster_ml_program_free(&program));
}

}  // namespace
}  // namespace programs
