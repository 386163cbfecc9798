// What movement, convolutions, pools and interpolation refuse: the code, and a message that names
// the function and the shapes.
#include <limits>

#include "refusal.h"

namespace programs {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

class SpatialRefusals : public RefusalTest {
 protected:
  void expect(int32_t status, int32_t expected, const char* function,
              const std::vector<std::string>& words) {
    RefusalTest::expect(status, expected, function, words);
    EXPECT_EQ(count, 0u) << function;
  }

  Tensor square = data({3, 3}), line = data({4}), image = data({1, 2, 5, 5}),
         cube = data({1, 1, 3, 3, 3}), zero = Tensor(1.0);
  size_t count = 0;
};

TEST_F(SpatialRefusals, Shapes) {
  const int64_t two[] = {2, 2}, far[] = {kFar, kFar}, below[] = {-2, 1}, unknown[] = {-1, -1},
                one[] = {1};
  REFUSED(RANGE, aster_ml_lazy_shrink_to, ({"float32[3, 3]"}), square.get(), 2, far);
  REFUSED(RANGE, aster_ml_lazy_shrink_to, ({"float32[3, 3]"}), square.get(), 2, below);
  REFUSED(SHAPE, aster_ml_lazy_shrink_to, ({"float32[3, 3]", "1"}), square.get(), 1, two);
  REFUSED(RANGE, aster_ml_lazy_pad_to, ({"float32[3, 3]", "2, 2"}), square.get(), 2, two, nullptr);
  REFUSED(RANGE, aster_ml_lazy_pad_to, ({"float32[3, 3]"}), square.get(), 2, far, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_pad_to, ({"float32[3, 3]"}), square.get(), 1, two, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_unflatten, ({"float32[4]", "1"}), line.get(), 0, 1, one);
  REFUSED(RANGE, aster_ml_lazy_unflatten, ({"float32[4]"}), line.get(), 0, 2, unknown);
  REFUSED(RANGE, aster_ml_lazy_unflatten, ({"float32[4]"}), line.get(), 0, 2, far);
  REFUSED(RANGE, aster_ml_lazy_unflatten, ({"axis 1"}), line.get(), 1, 1, one);
  REFUSED(SHAPE, aster_ml_lazy_bitcast, ({"float32[3, 3]", "float64"}), square.get(),
          ASTER_ML_DTYPE_FLOAT64);
  Tensor whole = make(aster_ml_lazy_select, line.get(), int64_t{0}, int64_t{0});
  REFUSED(SHAPE, aster_ml_lazy_bitcast, ({"float32[]", "uint8"}), whole.get(),
          ASTER_ML_DTYPE_UINT8);
  REFUSED(DTYPE, aster_ml_lazy_bitcast, ({"weak"}), zero.get(), ASTER_ML_DTYPE_UINT8);
}

TEST_F(SpatialRefusals, Formulas) {
  const char* const names[] = {"c"};
  const char* const holes[] = {nullptr};
  const int64_t two = 2, negative = -2;
  const auto refuse = [&](int32_t code, const char* formula, std::vector<std::string> words) {
    expect(aster_ml_lazy_rearrange(&out, square.get(), formula, 0, nullptr, nullptr), code,
           "aster_ml_lazy_rearrange", words);
  };
  for (const char* formula :
       {"a b", "a b -> b -> a", "a b -> a", "a b -> a c", "a a -> a", "(a b -> a b)", "a b) -> a b",
        "((a) b) -> a b", "_a b -> b _a", "a_ b -> b a_", "2a b -> b 2a", "a b 2 -> b a 2",
        "a-b c -> c a-b", "... ... -> ...", "(... a) b -> b a ...", ""}) {
    refuse(ASTER_ML_FORMAT, formula, {formula});
  }
  refuse(ASTER_ML_SHAPE, "a b c -> c b a", {"float32[3, 3]", "3 axes"});
  refuse(ASTER_ML_SHAPE, "a -> a", {"float32[3, 3]"});
  refuse(ASTER_ML_SHAPE, "(a b) c -> a b c", {"float32[3, 3]", "a"});
  refuse(ASTER_ML_SHAPE, "1 a -> a", {"float32[3, 3]"});
  REFUSED(NOT_FOUND, aster_ml_lazy_rearrange, ({"\"c\""}), square.get(), "a b -> b a", 1, names,
          &two);
  REFUSED(SHAPE, aster_ml_lazy_rearrange, ({"float32[3, 3]", "3"}), square.get(),
          "a (b c) -> a b c", 1, names, &two);
  REFUSED(SHAPE, aster_ml_lazy_rearrange, ({"float32[3, 3]"}), square.get(), "a c -> c a", 1, names,
          &two);
  REFUSED(RANGE, aster_ml_lazy_rearrange, ({"-2"}), square.get(), "a c -> c a", 1, names,
          &negative);
  REFUSED(ARGUMENT, aster_ml_lazy_rearrange, ({""}), square.get(), "a c -> c a", 1, holes, &two);
}

TEST_F(SpatialRefusals, Parts) {
  const int64_t sizes[] = {1, 1}, negative[] = {-1, 5}, far[] = {kFar, kFar};
  aster_ml_lazy parts[4]{};
  const auto empty = [&] {
    for (const aster_ml_lazy& part : parts) EXPECT_EQ(part.impl, nullptr);
  };
  expect(aster_ml_lazy_split(parts, 2, line.get(), sizes, 0), ASTER_ML_SHAPE, "aster_ml_lazy_split",
         {"float32[4]", "2"});
  expect(aster_ml_lazy_split(parts, 2, line.get(), negative, 0), ASTER_ML_RANGE,
         "aster_ml_lazy_split", {"float32[4]", "-1"});
  expect(aster_ml_lazy_split(parts, 2, line.get(), far, 0), ASTER_ML_RANGE, "aster_ml_lazy_split",
         {"float32[4]"});
  expect(aster_ml_lazy_split(parts, 2, line.get(), sizes, 3), ASTER_ML_RANGE, "aster_ml_lazy_split",
         {"axis 3"});
  expect(aster_ml_lazy_split_every(parts, &count, 4, line.get(), 0, 0), ASTER_ML_RANGE,
         "aster_ml_lazy_split_every", {"float32[4]"});
  expect(aster_ml_lazy_split_every(parts, &count, 1, line.get(), 2, 0), ASTER_ML_RANGE,
         "aster_ml_lazy_split_every", {"2 parts", "room for 1"});
  expect(aster_ml_lazy_chunk(parts, &count, 0, line.get(), 0), ASTER_ML_RANGE,
         "aster_ml_lazy_chunk", {"float32[4]"});
  expect(aster_ml_lazy_chunk(parts, &count, 2, line.get(), -2), ASTER_ML_RANGE,
         "aster_ml_lazy_chunk", {"axis -2"});
  const aster_ml_lazy* const grids[] = {line.get(), square.get()};
  expect(aster_ml_lazy_meshgrid(parts, grids, 2, 0), ASTER_ML_SHAPE, "aster_ml_lazy_meshgrid",
         {"float32[3, 3]"});
  expect(aster_ml_lazy_meshgrid(parts, grids, 1, 7), ASTER_ML_ARGUMENT, "aster_ml_lazy_meshgrid",
         {"7"});
  empty();
  // One of several outputs is an input.
  parts[1] = *line.get();
  EXPECT_EQ(aster_ml_lazy_split(parts, 2, &parts[1], sizes, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(parts[1].impl, line.get()->impl);
}

TEST_F(SpatialRefusals, Movement) {
  const int64_t one[] = {1}, axes[] = {0, 2}, shifts[] = {1, 1}, negative[] = {-1, 1},
                far[] = {kFar, kFar}, four[] = {4}, five[] = {5}, none[] = {0}, cut[] = {-9};
  Tensor gone = make(aster_ml_lazy_slice, line.get(), size_t{1}, four, nullptr, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_diag, ({"float32[3, 3]"}), square.get());
  REFUSED(RANGE, aster_ml_lazy_diagonal, ({"float32[3, 3]", "twice"}), square.get(), 0, 1, -1);
  REFUSED(RANGE, aster_ml_lazy_diagonal, ({"axis 1"}), line.get(), 0, 0, 1);
  REFUSED(SHAPE, aster_ml_lazy_tril, ({"float32[4]"}), line.get(), 0);
  REFUSED(SHAPE, aster_ml_lazy_triu, ({"float32[4]"}), line.get(), 0);
  REFUSED(SHAPE, aster_ml_lazy_roll, ({"float32[3, 3]", "2"}), square.get(), 2, shifts, nullptr);
  REFUSED(RANGE, aster_ml_lazy_roll, ({"axis 2"}), square.get(), 2, shifts, axes);
  REFUSED(SHAPE, aster_ml_lazy_repeat, ({"float32[3, 3]"}), square.get(), 1, one);
  REFUSED(RANGE, aster_ml_lazy_repeat, ({"float32[3, 3]"}), square.get(), 2, negative);
  REFUSED(RANGE, aster_ml_lazy_repeat, ({"float32[3, 3]"}), square.get(), 2, far);
  REFUSED(RANGE, aster_ml_lazy_repeat_interleave, ({"float32[4]"}), line.get(), kFar, 0);
  REFUSED(RANGE, aster_ml_lazy_repeat_interleave, ({"float32[4]"}), line.get(), -1, 0);
  REFUSED(RANGE, aster_ml_lazy_unfold, ({"float32[4]", "5"}), line.get(), 0, 5, 1);
  REFUSED(RANGE, aster_ml_lazy_unfold, ({"float32[4]"}), line.get(), 0, 2, 0);
  REFUSED(RANGE, aster_ml_lazy_unfold, ({"float32[4]"}), line.get(), 0, -1, 1);
  REFUSED(RANGE, aster_ml_lazy_pad_mode, ({"float32[4]", "4"}), line.get(), 1, four, none,
          ASTER_ML_PADDING_REFLECT, nullptr);
  REFUSED(RANGE, aster_ml_lazy_pad_mode, ({"float32[4]", "5"}), line.get(), 1, none, five,
          ASTER_ML_PADDING_CIRCULAR, nullptr);
  REFUSED(RANGE, aster_ml_lazy_pad_mode, ({"float32[0]"}), gone.get(), 1, one, none,
          ASTER_ML_PADDING_REPLICATE, nullptr);
  REFUSED(RANGE, aster_ml_lazy_pad_mode, ({"float32[4]"}), line.get(), 1, cut, none,
          ASTER_ML_PADDING_CIRCULAR, nullptr);
  REFUSED(RANGE, aster_ml_lazy_pad_mode, ({"float32[4]"}), line.get(), 1, far, none,
          ASTER_ML_PADDING_REPLICATE, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_pad_mode, ({"float32[3, 3]"}), square.get(), 1, one, one,
          ASTER_ML_PADDING_REPLICATE, nullptr);
  REFUSED(ARGUMENT, aster_ml_lazy_pad_mode, ({"9"}), line.get(), 1, one, one, 9, nullptr);
}

TEST_F(SpatialRefusals, Convolutions) {
  Tensor weight = data({4, 2, 3, 3}), narrow = data({4, 1, 3, 3}), flat = data({4}),
         bias = data({3}), big = data({4, 2, 9, 9}), turned = data({2, 4, 3, 3});
  const int64_t none[] = {0, 0}, far[] = {kFar, kFar}, below[] = {-1, -1}, cut[] = {-3, -3};
  aster_ml_conv_options o{};
  const auto conv = [&](int32_t code, Tensor& w, const Tensor* b,
                        const std::vector<std::string>& words) {
    o.struct_size = sizeof(o);
    expect(aster_ml_lazy_conv(&out, image.get(), w.get(), b == nullptr ? nullptr : b->get(), &o),
           code, "aster_ml_lazy_conv", words);
  };
  const auto back = [&](int32_t code, Tensor& w, const std::vector<std::string>& words) {
    o.struct_size = sizeof(o);
    expect(aster_ml_lazy_conv_transpose(&out, image.get(), w.get(), nullptr, &o), code,
           "aster_ml_lazy_conv_transpose", words);
  };
  conv(ASTER_ML_SHAPE, narrow, nullptr, {"float32[1, 2, 5, 5]", "float32[4, 1, 3, 3]"});
  conv(ASTER_ML_SHAPE, flat, nullptr, {"float32[1, 2, 5, 5]", "float32[4]"});
  conv(ASTER_ML_SHAPE, big, nullptr, {"float32[1, 2, 5, 5]", "9, 9"});
  conv(ASTER_ML_SHAPE, weight, &bias, {"float32[4, 2, 3, 3]", "float32[3]"});
  back(ASTER_ML_SHAPE, weight, {"float32[1, 2, 5, 5]", "float32[4, 2, 3, 3]"});
  o.groups = -1;
  conv(ASTER_ML_RANGE, weight, nullptr, {"-1"});
  back(ASTER_ML_RANGE, turned, {"-1"});
  o.groups = 3;
  conv(ASTER_ML_SHAPE, weight, nullptr, {"3 groups"});
  o.groups = 0;
  for (const int64_t* bad : {none, far, below}) {
    o.stride = bad;
    conv(ASTER_ML_RANGE, weight, nullptr, {"stride"});
    back(ASTER_ML_RANGE, turned, {"stride"});
    o.stride = nullptr;
    o.dilation = bad;
    conv(ASTER_ML_RANGE, weight, nullptr, {"dilation"});
    back(ASTER_ML_RANGE, turned, {"dilation"});
    o.dilation = nullptr;
  }
  o.before = far;
  conv(ASTER_ML_RANGE, weight, nullptr, {"before"});
  o.before = o.after = cut;
  conv(ASTER_ML_SHAPE, weight, nullptr, {"float32[1, 2, 5, 5]"});
  o.before = o.after = nullptr;
  o.output_padding = below;
  back(ASTER_ML_RANGE, turned, {"output_padding"});
  o.output_padding = nullptr;
  o.dtype = 999;
  conv(ASTER_ML_ARGUMENT, weight, nullptr, {"999"});
  o.dtype = ASTER_ML_DTYPE_FLT256;
  conv(ASTER_ML_DTYPE, weight, nullptr, {"flt256"});
  o = {};
  REFUSED(ARGUMENT, aster_ml_lazy_conv, ({"struct_size"}), image.get(), weight.get(), nullptr, &o);
}

TEST_F(SpatialRefusals, PoolsAndInterpolation) {
  const int64_t two[] = {2, 2}, nine[] = {9, 9}, none[] = {0, 0}, far[] = {kFar, kFar},
                negative[] = {-1};
  aster_ml_pool_options o{};
  o.struct_size = sizeof(o);
  const auto pools = [&](int32_t code, size_t rank, const int64_t* kernel,
                         const std::vector<std::string>& words) {
    expect(aster_ml_lazy_max_pool(&out, image.get(), rank, kernel, &o), code,
           "aster_ml_lazy_max_pool", words);
    expect(aster_ml_lazy_avg_pool(&out, image.get(), rank, kernel, &o), code,
           "aster_ml_lazy_avg_pool", words);
    expect(aster_ml_lazy_max_pool_with_indices(&out, &second, image.get(), rank, kernel, &o), code,
           "aster_ml_lazy_max_pool_with_indices", words);
  };
  pools(ASTER_ML_SHAPE, 0, two, {"float32[1, 2, 5, 5]", "0 axes"});
  pools(ASTER_ML_SHAPE, 2, nine, {"float32[1, 2, 5, 5]", "9, 9"});
  pools(ASTER_ML_RANGE, 2, none, {"kernel"});
  pools(ASTER_ML_RANGE, 2, far, {"kernel"});
  const int64_t five[] = {1, 1, 1, 1, 1};
  pools(ASTER_ML_SHAPE, 5, five, {"float32[1, 2, 5, 5]", "5 axes"});
  o.stride = none;
  pools(ASTER_ML_RANGE, 2, two, {"stride"});
  o.stride = nullptr;
  EXPECT_EQ(aster_ml_lazy_max_pool_with_indices(&out, &out, image.get(), 2, two, &o),
            ASTER_ML_ARGUMENT);
  Tensor at = Tensor(std::vector<int32_t>(50, 1), {1, 2, 5, 5});
  REFUSED(DTYPE, aster_ml_lazy_max_unpool, ({"float32"}), image.get(), image.get(), 2, two,
          nullptr);
  Tensor lonely = Tensor(std::vector<int32_t>{1, 2, 3, 4}, {4});
  REFUSED(SHAPE, aster_ml_lazy_max_unpool, ({"float32[1, 2, 5, 5]", "int32[4]"}), image.get(),
          lonely.get(), 2, two, nullptr);
  o.size = far;
  REFUSED(RANGE, aster_ml_lazy_max_unpool, ({"float32[1, 2, 5, 5]"}), image.get(), at.get(), 2, two,
          &o);
  REFUSED(SHAPE, aster_ml_lazy_interpolate, ({"float32[4]", "2"}), line.get(), 2, two, 0, 0);
  REFUSED(SHAPE, aster_ml_lazy_interpolate, ({"float32[4]", "0"}), line.get(), 0, two, 0, 0);
  REFUSED(RANGE, aster_ml_lazy_interpolate, ({"-1"}), line.get(), 1, negative, 0, 0);
  REFUSED(RANGE, aster_ml_lazy_interpolate, ({"float32[4]"}), line.get(), 1, far, 0, 0);
  REFUSED(ARGUMENT, aster_ml_lazy_interpolate, ({"5"}), line.get(), 1, two, 5, 0);
  REFUSED(ARGUMENT, aster_ml_lazy_interpolate, ({"align_corners"}), line.get(), 1, two,
          ASTER_ML_INTERPOLATION_NEAREST, 1);
  const int64_t four[] = {4};
  Tensor gone = make(aster_ml_lazy_slice, line.get(), size_t{1}, four, nullptr, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_interpolate, ({"float32[0]", "empty"}), gone.get(), 1, two, 0, 0);
}

}  // namespace
}  // namespace programs
