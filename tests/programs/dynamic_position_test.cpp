// A decoding step captured once for all positions: the position is a 0-d tensor, an input like
// others. What is new goes to its row by index; what lies beyond is left out by a mask.
#include <cmath>

#include "aster.h"

namespace programs {
namespace {

constexpr int kRows = 8;
constexpr int kWidth = 3;

Floats vector_of(int step) {
  Floats out;
  for (int i = 0; i < kWidth; ++i) out.push_back(std::sin(static_cast<float>(step * 5 + i)));
  return out;
}

// softmax(q k^T) v over the rows written so far, with k = v = those rows and q the last of them.
Floats expected(int step) {
  const Floats q = vector_of(step);
  Floats out(kWidth, 0);
  float total = 0;
  for (int row = 0; row <= step; ++row) {
    const Floats k = vector_of(row);
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
  Tensor cache(Floats(kRows * kWidth, NAN), {kRows, kWidth}), x(vector_of(0), {1, kWidth}),
      position(Ints{0}, {});
  aster_ml::Program program({x, position}, [&] {
    EXPECT_OK(cache[position] = x.reshape(kWidth));
    const Tensor places = Tensor::arange(kRows);
    const Tensor rows = (places.reshape({kRows, 1}) <= position).where(cache, 0.0);
    const Tensor scores = (places <= position).where(x.matmul(rows.T()), -INFINITY);
    const Tensor y = scores.softmax().matmul(rows);
    EXPECT_OK(realize(y, cache));
    return y;
  });
  OK(program);

  const uint64_t compiled = s.counters().kernels_compiled;
  for (int32_t step = 1; step < kRows; ++step) {
    const Floats got =
        read(program({Tensor(vector_of(step), {1, kWidth}), Tensor(Ints{step}, {})}));
    const Floats want = expected(step);
    for (size_t i = 0; i < kWidth; ++i) EXPECT_NEAR(got[i], want[i], 1e-5f) << step;
  }
  EXPECT_EQ(s.counters().kernels_compiled, compiled);
}

}  // namespace
}  // namespace programs
