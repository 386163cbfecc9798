// Shapes, values and errors of builders, with expected values from the definitions.
#include <array>
#include <numeric>

#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

class Builders : public ::testing::TestWithParam<bool> {
 protected:
  const World world{GetParam()};
  T counted(const Shape& shape) {  // 0, 1, 2, ...
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    Floats values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), 0.0f);
    return from(world, values, shape);
  }
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Builders, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

TEST_P(Builders, Creation) {
  const Shape shape{2, 2};
  T t;
  aster_ml_scalar seven;
  OK(aster_ml_scalar_from_int64(&seven, ASTER_ML_DTYPE_WEAKINT, 7));
  OK(aster_ml_lazy_full(t, world, &seven, 0, 2, shape.data()));
  EXPECT_EQ(t.dtype(), ASTER_ML_DTYPE_INT32);
  EXPECT_EQ(t.read<int32_t>(), (std::vector<int32_t>{7, 7, 7, 7}));
  T ones, zeros, eye, line, steps, back, none, real, big;
  OK(aster_ml_lazy_ones(ones, world, ASTER_ML_DTYPE_INT8, 2, shape.data()));
  EXPECT_EQ(ones.read<int8_t>(), (std::vector<int8_t>{1, 1, 1, 1}));
  OK(aster_ml_lazy_zeros(zeros, world, 0, 0, nullptr));
  EXPECT_EQ(zeros.floats(), (Floats{0}));
  OK(aster_ml_lazy_eye(eye, world, 2, 3, 0));
  EXPECT_EQ(eye.floats(), (Floats{1, 0, 0, 0, 1, 0}));
  OK(aster_ml_lazy_linspace(line, world, 1, 2, 5, 0));
  EXPECT_EQ(line.floats(), (Floats{1, 1.25, 1.5, 1.75, 2}));
  OK(aster_ml_lazy_arange(steps, world, 2, 11, 3, 0));
  EXPECT_EQ(steps.read<int32_t>(), (std::vector<int32_t>{2, 5, 8}));
  OK(aster_ml_lazy_arange(back, world, 3, 0, -1, ASTER_ML_DTYPE_UINT8));
  EXPECT_EQ(back.read<uint8_t>(), (std::vector<uint8_t>{3, 2, 1}));
  OK(aster_ml_lazy_arange(none, world, 3, 3, 1, 0));
  EXPECT_EQ(none.shape(), (Shape{0}));
  EXPECT_TRUE(none.read<int32_t>().empty());
  OK(aster_ml_lazy_arange_float(real, world, 0, 1, 0.25, 0));
  EXPECT_EQ(real.floats(), (Floats{0, .25f, .5f, .75f}));
  OK(aster_ml_lazy_arange(big, world, INT64_C(1) << 40, (INT64_C(1) << 40) + 2, 1, 0));
  EXPECT_EQ(big.dtype(), ASTER_ML_DTYPE_INT64);
  EXPECT_EQ(big.read<int64_t>(), (std::vector<int64_t>{INT64_C(1) << 40, (INT64_C(1) << 40) + 1}));
}

TEST_P(Builders, Movement) {
  const T x = counted({2, 3});
  const auto reshape = [&](const Shape& s) {
    T t;
    EXPECT_EQ(aster_ml_lazy_reshape(t, x, s.size(), s.data()), 0) << message();
    return t.shape();
  };
  EXPECT_EQ(reshape({3, -1}), (Shape{3, 2}));
  EXPECT_EQ(reshape({-1}), (Shape{6}));
  EXPECT_EQ(reshape({1, 6, 1}), (Shape{1, 6, 1}));
  T wide, turned, swapped, cut, padded, picked, thin, fat, flat, reversed;
  OK(aster_ml_lazy_expand(wide, x, 3, Shape{2, -1, 3}.data()));
  EXPECT_EQ(wide.floats(), (Floats{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  OK(aster_ml_lazy_permute(turned, x, 2, Shape{-1, 0}.data()));
  EXPECT_EQ(turned.floats(), (Floats{0, 3, 1, 4, 2, 5}));
  OK(aster_ml_lazy_transpose(swapped, x, 0, 1));
  EXPECT_EQ(swapped.floats(), turned.floats());
  OK(aster_ml_lazy_shrink(cut, x, 2, Shape{0, 1}.data(), Shape{2, 3}.data()));
  EXPECT_EQ(cut.floats(), (Floats{1, 2, 4, 5}));
  OK(aster_ml_lazy_pad(padded, x, 2, Shape{0, 1}.data(), Shape{1, -1}.data(), nullptr));
  EXPECT_EQ(padded.floats(), (Floats{0, 0, 1, 0, 3, 4, 0, 0, 0}));
  OK(aster_ml_lazy_select(picked, x, 1, -1));
  EXPECT_EQ(picked.floats(), (Floats{2, 5}));
  OK(aster_ml_lazy_unsqueeze(fat, x, -1));
  EXPECT_EQ(fat.shape(), (Shape{2, 3, 1}));
  OK(aster_ml_lazy_squeeze(thin, fat, 2));
  EXPECT_EQ(thin.shape(), (Shape{2, 3}));
  T same;
  OK(aster_ml_lazy_squeeze(same, x, 0));
  EXPECT_EQ(same.shape(), (Shape{2, 3}));
  OK(aster_ml_lazy_flatten(flat, fat, 0, 1));
  EXPECT_EQ(flat.shape(), (Shape{6, 1}));
  OK(aster_ml_lazy_flip(reversed, x, 2, Shape{0, 1}.data()));
  EXPECT_EQ(reversed.floats(), (Floats{5, 4, 3, 2, 1, 0}));
}

// Every start, stop and step against the definition of Python's slice, on a small axis.
TEST_P(Builders, SlicesAsPython) {
  const int64_t size = 5;
  const T x = counted({size});
  std::vector<T> results;
  std::vector<Floats> expected;
  for (int64_t step : {-7, -2, -1, 1, 2, 6}) {
    for (int64_t start = -7; start <= 7; ++start) {
      for (int64_t stop = -7; stop <= 7; ++stop) {
        Floats want;
        const auto place = [&](int64_t i) {
          if (i < 0) i += size;
          if (step > 0) return i < 0 ? 0 : i > size ? size : i;
          return i < 0 ? -1 : i > size - 1 ? size - 1 : i;
        };
        const int64_t last = place(stop);
        for (int64_t i = place(start); step > 0 ? i < last : i > last; i += step) {
          want.push_back(static_cast<float>(i));
        }
        T t;
        OK(aster_ml_lazy_slice(t, x, 1, &start, &stop, &step));
        ASSERT_EQ(aster_ml_lazy_count(t), static_cast<int64_t>(want.size()))
            << start << ":" << stop << ":" << step;
        if (!GetParam() && results.size() >= 40) continue;  // the compiler need not see them all
        results.push_back(std::move(t));
        expected.push_back(want);
      }
    }
  }
  std::vector<aster_ml_lazy*> all;
  for (T& t : results) all.push_back(t);
  OK(aster_ml_lazy_realize(all.data(), all.size()));
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].floats(), expected[i]) << i;
  T whole, back;
  OK(aster_ml_lazy_slice(whole, x, 0, nullptr, nullptr, nullptr));
  EXPECT_EQ(whole.floats(), (Floats{0, 1, 2, 3, 4}));
  const int64_t lowest = INT64_MIN;
  OK(aster_ml_lazy_slice(back, x, 1, nullptr, nullptr, &lowest));
  EXPECT_EQ(back.floats(), (Floats{4}));
}

TEST_P(Builders, CatAndStack) {
  const T a = counted({2, 2}), b = counted({2, 1});
  const T whole = from<int32_t>(world, {7, 8}, {2, 1});
  T wide, mixed, deep;
  const aster_ml_lazy* const two[] = {a, b};
  OK(aster_ml_lazy_cat(wide, two, 2, -1));
  EXPECT_EQ(wide.floats(), (Floats{0, 1, 0, 2, 3, 1}));
  const aster_ml_lazy* const kinds[] = {whole, b};
  OK(aster_ml_lazy_cat(mixed, kinds, 2, 1));
  EXPECT_EQ(mixed.floats(), (Floats{7, 0, 8, 1}));
  const aster_ml_lazy* const same[] = {a, a};
  OK(aster_ml_lazy_stack(deep, same, 2, 1));
  EXPECT_EQ(deep.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(deep.floats(), (Floats{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST_P(Builders, ReductionsKeepAndDropAxes) {
  const T x = counted({2, 3, 2});
  T all, kept, some, none, empty, most;
  OK(aster_ml_lazy_sum(all, x, 0, nullptr, 0));
  EXPECT_EQ(all.shape(), Shape{});
  EXPECT_EQ(all.floats(), (Floats{66}));
  const Shape axes{-1, 0};
  OK(aster_ml_lazy_sum(kept, x, 2, axes.data(), 1));
  EXPECT_EQ(kept.shape(), (Shape{1, 3, 1}));
  OK(aster_ml_lazy_sum(some, x, 2, axes.data(), 0));
  EXPECT_EQ(some.floats(), (Floats{14, 22, 30}));
  OK(aster_ml_lazy_sum(none, x, 0, axes.data(), 0));
  EXPECT_EQ(none.shape(), x.shape());
  const T nothing = counted({0, 3});
  OK(aster_ml_lazy_sum(empty, nothing, 0, nullptr, 0));
  EXPECT_EQ(empty.floats(), (Floats{0}));
  OK(aster_ml_lazy_max(most, nothing, 1, axes.data() + 1, 0));
  EXPECT_EQ(most.floats(), Floats(3, -INFINITY));
}

TEST_P(Builders, NaNWinsExtremaAndTheirIndices) {
  const T x = from<float>(world, {1, 5, NAN, 7, 2, 7}, {2, 3});
  const int64_t axis = 1;
  T most, least, first, last, larger;
  OK(aster_ml_lazy_max(most, x, 1, &axis, 0));
  OK(aster_ml_lazy_min(least, x, 1, &axis, 0));
  EXPECT_TRUE(std::isnan(most.floats()[0]) && std::isnan(least.floats()[0]));
  EXPECT_EQ(most.floats()[1], 7);
  OK(aster_ml_lazy_argmax(first, x, 1, 0));
  EXPECT_EQ(first.read<int32_t>(), (std::vector<int32_t>{2, 0}));
  OK(aster_ml_lazy_argmin(last, x, 1, 1));
  EXPECT_EQ(last.shape(), (Shape{2, 1}));
  EXPECT_EQ(last.read<int32_t>(), (std::vector<int32_t>{2, 1}));
  OK(aster_ml_lazy_maximum(larger, x, number(world, 3)));
  EXPECT_TRUE(std::isnan(larger.floats()[2]));
}

TEST_P(Builders, WeakConstantsYield) {
  const T bytes = from<int8_t>(world, {100, -3}, {2});
  T wrapped, mixed, half, below, beyond;
  OK(aster_ml_lazy_add(wrapped, bytes, integer(world, 1000)));
  EXPECT_EQ(wrapped.dtype(), ASTER_ML_DTYPE_INT8);
  EXPECT_EQ(wrapped.read<int8_t>(), (std::vector<int8_t>{76, -27}));
  OK(aster_ml_lazy_mul(mixed, bytes, number(world, 1.5)));
  EXPECT_EQ(mixed.dtype(), ASTER_ML_DTYPE_WEAKFLOAT);
  T halves;
  OK(aster_ml_lazy_empty(halves, world, ASTER_ML_DTYPE_FLOAT16, 1, Shape{2}.data()));
  OK(aster_ml_lazy_add(half, mixed, halves));
  EXPECT_EQ(half.dtype(), ASTER_ML_DTYPE_FLOAT16);
  EXPECT_EQ(mixed.floats(), (Floats{150, -4.5f}));
  EXPECT_EQ(mixed.dtype(), ASTER_ML_DTYPE_FLOAT32);  // storage is never weak
  // A constant that the dtype cannot hold compares by its value.
  OK(aster_ml_lazy_lt(below, bytes, integer(world, 1000)));
  EXPECT_EQ(below.read<uint8_t>(), (std::vector<uint8_t>{1, 1}));
  OK(aster_ml_lazy_gt(beyond, bytes, integer(world, -1000)));
  EXPECT_EQ(beyond.read<uint8_t>(), (std::vector<uint8_t>{1, 1}));
}

TEST_P(Builders, IntegerDivisionNeverTraps) {
  const T a = from<int32_t>(world, {7, -7, 7, INT32_MIN}, {4}),
          b = from<int32_t>(world, {2, 2, 0, -1}, {4});
  T floors, truncs, mods, fmods;
  OK(aster_ml_lazy_floordiv(floors, a, b));
  EXPECT_EQ(floors.read<int32_t>(), (std::vector<int32_t>{3, -4, 0, INT32_MIN}));
  OK(aster_ml_lazy_truncdiv(truncs, a, b));
  EXPECT_EQ(truncs.read<int32_t>(), (std::vector<int32_t>{3, -3, 0, INT32_MIN}));
  OK(aster_ml_lazy_mod(mods, a, b));
  EXPECT_EQ(mods.read<int32_t>(), (std::vector<int32_t>{1, 1, 7, 0}));
  OK(aster_ml_lazy_fmod(fmods, a, b));
  EXPECT_EQ(fmods.read<int32_t>(), (std::vector<int32_t>{1, -1, 7, 0}));
}

TEST_P(Builders, MatmulShapes) {
  const T v = counted({3}), m = counted({3, 2}), deep = counted({2, 1, 2, 3}),
          more = counted({4, 3, 1});
  T dot, row, column, flat, batch;
  OK(aster_ml_lazy_matmul(dot, v, v));
  EXPECT_EQ(dot.shape(), Shape{});
  EXPECT_EQ(dot.floats(), (Floats{5}));
  OK(aster_ml_lazy_matmul(row, v, m));
  EXPECT_EQ(row.floats(), (Floats{10, 13}));
  T turned;
  OK(aster_ml_lazy_transpose(turned, m, 0, 1));
  OK(aster_ml_lazy_matmul(column, turned, v));
  EXPECT_EQ(column.floats(), (Floats{10, 13}));
  OK(aster_ml_lazy_matmul(flat, deep, m));
  EXPECT_EQ(flat.shape(), (Shape{2, 1, 2, 2}));
  EXPECT_EQ(flat.floats(), (Floats{10, 13, 28, 40, 46, 67, 64, 94}));
  OK(aster_ml_lazy_matmul(batch, deep, more));
  EXPECT_EQ(batch.shape(), (Shape{2, 4, 2, 1}));
  T small;
  const T bytes = from<int8_t>(world, {100, 100, 100, 100}, {2, 2});
  OK(aster_ml_lazy_matmul(small, bytes, bytes));
  EXPECT_EQ(small.read<int8_t>(), std::vector<int8_t>(4, static_cast<int8_t>(20000 % 256)));
}

// A convolution of ones counts the taps that lie inside.
TEST_P(Builders, ConvolutionAndPools) {
  const T x = from(world, Floats(9, 1), {1, 1, 3, 3}), w = from(world, Floats(4, 1), {1, 1, 2, 2});
  const T bias = from<float>(world, {10}, {1});
  aster_ml_conv2d_options o{};
  o.struct_size = sizeof(o);
  o.padding[0] = o.padding[2] = 1;
  T y, cut, most, mean, counted_mean;
  OK(aster_ml_lazy_conv2d(y, x, w, bias, &o));
  EXPECT_EQ(y.floats(), (Floats{11, 12, 12, 12, 14, 14, 12, 14, 14}));
  o.padding[0] = -1;  // cuts the first row off
  o.padding[2] = 0;
  OK(aster_ml_lazy_conv2d(cut, x, w, nullptr, &o));
  EXPECT_EQ(cut.shape(), (Shape{1, 1, 1, 2}));
  aster_ml_pool2d_options p{};
  p.struct_size = sizeof(p);
  p.padding[0] = p.padding[2] = 1;
  const T square = from<float>(world, {-1, -2, -3, -4}, {2, 2});
  OK(aster_ml_lazy_max_pool2d(most, square, &p));
  EXPECT_EQ(most.floats(), (Floats{-1}));  // rows -1 and 0, columns -1 and 0: padding never wins
  OK(aster_ml_lazy_avg_pool2d(mean, square, &p));
  EXPECT_EQ(mean.floats(), (Floats{-0.25f}));
  p.exclude_pad = 1;
  OK(aster_ml_lazy_avg_pool2d(counted_mean, square, &p));
  EXPECT_EQ(counted_mean.floats(), (Floats{-1}));
}

TEST_P(Builders, LossesAndNorms) {
  const T logits = from<float>(world, {0, 0, 0, 0, 0, 0}, {2, 3}),
          labels = from<int32_t>(world, {2, 0}, {2});
  T mean, total, each, hot;
  OK(aster_ml_lazy_cross_entropy(mean, logits, labels, nullptr));
  EXPECT_NEAR(mean.floats()[0], std::log(3.0), 1e-6);
  aster_ml_cross_entropy_options o{};
  o.struct_size = sizeof(o);
  o.reduction = ASTER_ML_REDUCTION_SUM;
  OK(aster_ml_lazy_cross_entropy(total, logits, labels, &o));
  EXPECT_NEAR(total.floats()[0], 2 * std::log(3.0), 1e-6);
  o.reduction = ASTER_ML_REDUCTION_NONE;
  OK(aster_ml_lazy_cross_entropy(each, logits, labels, &o));
  EXPECT_EQ(each.shape(), (Shape{2}));
  OK(aster_ml_lazy_one_hot(hot, labels, 3));
  EXPECT_EQ(hot.read<int32_t>(), (std::vector<int32_t>{0, 0, 1, 1, 0, 0}));
  const T x = from<float>(world, {1, 3, 2, 6}, {2, 2}), scale = from<float>(world, {2, 3}, {2});
  const T shift = from<float>(world, {10, 20}, {2});
  T normal, batch;
  OK(aster_ml_lazy_layer_norm(normal, x, 1, scale, shift, 0));
  const Floats expected{8, 23, 8, 23};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(normal.floats()[i], expected[i], 1e-5);
  OK(aster_ml_lazy_batch_norm(batch, x, scale, shift, scale, shift));
  EXPECT_EQ(batch.floats(), (Floats{(1 - 2) * 2 * 10 + 10, (3 - 3) * 3 * 20 + 20,
                                    (2 - 2) * 2 * 10 + 10, (6 - 3) * 3 * 20 + 20}));
}

TEST_P(Builders, SelectionAndCasts) {
  const T x = from<float>(world, {-2.7f, 0, 3.9f, NAN}, {4});
  T whole, truth, bits, kept, leaky, between;
  OK(aster_ml_lazy_cast(whole, x, ASTER_ML_DTYPE_INT32));
  EXPECT_EQ(whole.read<int32_t>(), (std::vector<int32_t>{-2, 0, 3, 0}));
  OK(aster_ml_lazy_cast(truth, x, ASTER_ML_DTYPE_BOOL));
  EXPECT_EQ(truth.read<uint8_t>(), (std::vector<uint8_t>{1, 0, 1, 1}));
  const T one = from<float>(world, {1}, {1});
  OK(aster_ml_lazy_bitcast(bits, one, ASTER_ML_DTYPE_INT32));
  EXPECT_EQ(bits.read<int32_t>(), (std::vector<int32_t>{0x3F800000}));
  OK(aster_ml_lazy_clamp(kept, x, number(world, -1), number(world, 2)));
  EXPECT_EQ(kept.floats()[0], -1);
  EXPECT_EQ(kept.floats()[2], 2);
  EXPECT_TRUE(std::isnan(kept.floats()[3]));
  OK(aster_ml_lazy_leaky_relu(leaky, x, 0.5));
  EXPECT_EQ(leaky.floats()[0], -2.7f * 0.5f);
  const T a = from<float>(world, {0, 10}, {2}), b = from<float>(world, {4, 20}, {2});
  OK(aster_ml_lazy_lerp(between, a, b, number(world, 0.25)));
  EXPECT_EQ(between.floats(), (Floats{1, 12.5}));
  T fused;
  OK(aster_ml_lazy_fma(fused, a, b, b));
  EXPECT_EQ(fused.floats(), (Floats{4, 220}));
}

TEST(Strict, IsSwitchedForWhatIsBuiltNext) {
  const World world;
  const T a = from<float>(world, {2}, {1}), b = from<float>(world, {NAN}, {1});
  T ours, theirs, again;
  OK(aster_ml_lazy_maximum(ours, a, b));
  OK(aster_ml_context_set_strict_parity(world, 1));
  OK(aster_ml_lazy_maximum(theirs, a, b));
  OK(aster_ml_context_set_strict_parity(world, 0));
  OK(aster_ml_lazy_maximum(again, a, b));
  EXPECT_TRUE(std::isnan(ours.floats()[0]));
  EXPECT_EQ(theirs.floats()[0], 2);
  EXPECT_TRUE(std::isnan(again.floats()[0]));
  EXPECT_EQ(aster_ml_context_set_strict_parity(nullptr, 1), ASTER_ML_ARGUMENT);
}

// Where exp2 overflows the steps' own gradient were 0 * inf; tinygrad rewrites it as well.
TEST(Strict, SigmoidIsFlatFarBelowZero) {
  for (const int32_t strict : {0, 1}) {
    aster_ml_context_options options{};
    options.strict_parity = strict;
    const World world(true, options);
    const T x = from<float>(world, {-200, -90, 0, 200}, {4});
    T y, total, slope;
    OK(aster_ml_lazy_sigmoid(y, x));
    OK(aster_ml_lazy_sum(total, y, 0, nullptr, 0));
    const aster_ml_lazy* targets[] = {x};
    OK(aster_ml_gradient(slope, total, targets, 1, nullptr));
    EXPECT_EQ(slope.floats(), (Floats{0, 0, 0.25, 0})) << strict;
  }
}

// Under strict_parity extrema pick as tinygrad's comparison does, and functions are its
// compositions.
TEST(Strict, Parity) {
  aster_ml_context_options options{};
  options.strict_parity = 1;
  const World world(true, options);
  const T a = from<float>(world, {2, NAN, -0.0f}, {3}), b = from<float>(world, {NAN, 2, 1}, {3});
  T larger, smaller, slope, size;
  OK(aster_ml_lazy_maximum(larger, a, b));
  EXPECT_EQ(larger.floats()[0], 2);
  EXPECT_TRUE(std::isnan(larger.floats()[1]));
  OK(aster_ml_lazy_minimum(smaller, a, b));
  EXPECT_EQ(smaller.floats()[0], 2);
  OK(aster_ml_lazy_abs(size, a));
  EXPECT_TRUE(std::signbit(size.floats()[2]));
  for (const auto& row : oracle("values.tsv")) {
    if (row[1] != "float32" || !unaries().contains(row[0])) continue;
    const T x = tensor_of(world, data(ASTER_ML_DTYPE_FLOAT32, 12, 1), ASTER_ML_DTYPE_FLOAT32, {12});
    T y;
    OK(unaries().at(row[0])(y, x));
    if (y.dtype() != ASTER_ML_DTYPE_FLOAT32) continue;
    const Floats expected = numbers<float>(row[3]), got = y.floats();
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
      const double bound = row[0] == "tan" ? 2e-5 : 3e-7;
      EXPECT_NEAR(got[i], expected[i], bound * std::max(1.0f, std::abs(expected[i])))
          << row[0] << " " << i;
    }
  }
}

}  // namespace
}  // namespace aster::tensor::test
