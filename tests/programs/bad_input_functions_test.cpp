// What functions of elements and along axes refuse: the code, and a message that names the function
// and the shapes.
#include "refusal.h"

namespace programs {
namespace {

constexpr int32_t kMean = ASTER_ML_REDUCTION_MEAN;

class FunctionRefusals : public RefusalTest {
 protected:
  Tensor a = data({2, 3}), b = data({4, 5}), v = data({3}), whole = Tensor(1.0);
  Tensor labels = Tensor(std::vector<int32_t>{1, 0}, {2});
};

TEST_F(FunctionRefusals, ShapesThatDoNotFit) {
  const std::vector<std::string> both{"float32[2, 3]", "float32[4, 5]"};
  REFUSED(SHAPE, aster_ml_lazy_copysign, (both), a.get(), b.get());
  REFUSED(SHAPE, aster_ml_lazy_logaddexp, (both), a.get(), b.get());
  REFUSED(SHAPE, aster_ml_lazy_isclose, ({"[2, 3]", "[4, 5]"}), a.get(), b.get(), 0.0, 0.0, 0);
  REFUSED(SHAPE, aster_ml_lazy_allclose, ({"[2, 3]", "[4, 5]"}), a.get(), b.get(), 0.0, 0.0, 0);
  REFUSED(SHAPE, aster_ml_lazy_binary_crossentropy, ({"[2, 3]", "[4, 5]"}), a.get(), b.get(),
          kMean);
  REFUSED(SHAPE, aster_ml_lazy_binary_crossentropy_logits, ({"[2, 3]", "[4, 5]"}), a.get(), b.get(),
          nullptr, kMean);
  REFUSED(SHAPE, aster_ml_lazy_clip, (both), a.get(), b.get(), nullptr);
  const aster_ml_lazy* mixed[] = {a.get(), b.get()};
  REFUSED(SHAPE, aster_ml_lazy_usum, (both), mixed, size_t{2});
  REFUSED(SHAPE, aster_ml_lazy_uprod, (both), mixed, size_t{2});
  REFUSED(ARGUMENT, aster_ml_lazy_usum, ({""}), mixed, size_t{0});
  REFUSED(SHAPE, aster_ml_lazy_categorical_crossentropy, (both), a.get(), b.get(), 0.0, kMean);
  REFUSED(SHAPE, aster_ml_lazy_nll_loss, (both), a.get(), b.get(), nullptr, nullptr, kMean);
  REFUSED(SHAPE, aster_ml_lazy_nll_loss, ({"float32[3]"}), v.get(), labels.get(), nullptr, nullptr,
          kMean);
  REFUSED(SHAPE, aster_ml_lazy_nll_loss, ({"float32[2, 3]", "weight", "float32[4, 5]"}), a.get(),
          labels.get(), b.get(), nullptr, kMean);
  REFUSED(SHAPE, aster_ml_lazy_sparse_categorical_crossentropy, ({"float32[3]", "int32[2]"}),
          v.get(), labels.get(), -1, 0.0, kMean);
  REFUSED(SHAPE, aster_ml_lazy_batchnorm, ({"float32[4, 5]"}), a.get(), v.get(), v.get(), b.get(),
          v.get(), size_t{0}, nullptr);
}

TEST_F(FunctionRefusals, AxesOutside) {
  const int64_t far[] = {5}, twice[] = {1, -1};
  REFUSED(RANGE, aster_ml_lazy_cumsum, ({"axis 2"}), a.get(), int64_t{2});
  REFUSED(RANGE, aster_ml_lazy_cumprod, ({"axis -3"}), a.get(), int64_t{-3});
  REFUSED(RANGE, aster_ml_lazy_logcumsumexp, ({"axis 1"}), whole.get(), int64_t{1});
  REFUSED(RANGE, aster_ml_lazy_normalize, ({"axis 9"}), a.get(), 2.0, int64_t{9}, 0.0);
  REFUSED(RANGE, aster_ml_lazy_softmin, ({"axis 2"}), a.get(), int64_t{2}, 0);
  REFUSED(RANGE, aster_ml_lazy_softmax_dtype, ({"axis 2"}), a.get(), int64_t{2}, 0);
  REFUSED(RANGE, aster_ml_lazy_log_softmax_dtype, ({"axis 2"}), a.get(), int64_t{2}, 0);
  REFUSED(RANGE, aster_ml_lazy_sum_dtype, ({"axis 5"}), a.get(), size_t{1}, far, 0, 0);
  REFUSED(RANGE, aster_ml_lazy_prod_dtype, ({"twice"}), a.get(), size_t{2}, twice, 0, 0);
  REFUSED(RANGE, aster_ml_lazy_std, ({"axis 5"}), a.get(), size_t{1}, far, 0, int64_t{1});
  REFUSED(RANGE, aster_ml_lazy_layernorm, ({"axis 5"}), a.get(), size_t{1}, far, 1e-5);
  REFUSED(RANGE, aster_ml_lazy_batchnorm, ({"axis 5"}), a.get(), nullptr, nullptr, v.get(), v.get(),
          size_t{1}, far);
  REFUSED(RANGE, aster_ml_lazy_cummax, ({"axis 2"}), &second, a.get(), int64_t{2});
  REFUSED(RANGE, aster_ml_lazy_cummin, ({"axis 2"}), &second, a.get(), int64_t{2});
  REFUSED(RANGE, aster_ml_lazy_var_mean, ({"axis 5"}), &second, a.get(), size_t{1}, far, 0,
          int64_t{1});
  REFUSED(RANGE, aster_ml_lazy_std_mean, ({"twice"}), &second, a.get(), size_t{2}, twice, 0,
          int64_t{1});
  REFUSED(RANGE, aster_ml_lazy_std, ({"300 axes"}), a.get(), size_t{300}, far, 0, int64_t{1});
}

TEST_F(FunctionRefusals, DtypesAndNumbersThatDoNotFit) {
  Tensor floats = data({2});
  REFUSED(DTYPE, aster_ml_lazy_threefry, ({"threefry", "float32[2, 3]"}), a.get(), a.get());
  REFUSED(DTYPE, aster_ml_lazy_masked_fill, ({"float32[2, 3]", "bool"}), a.get(), a.get(), a.get());
  REFUSED(DTYPE, aster_ml_lazy_sparse_categorical_crossentropy, ({"float32[2]"}), a.get(),
          floats.get(), -1, 0.0, kMean);
  REFUSED(DTYPE, aster_ml_lazy_categorical_crossentropy, ({"float32[2]"}), a.get(), floats.get(),
          0.0, kMean);
  REFUSED(DTYPE, aster_ml_lazy_nll_loss, ({"float32[2]"}), a.get(), floats.get(), nullptr, nullptr,
          kMean);
  REFUSED(RANGE, aster_ml_lazy_categorical_crossentropy, ({"1.5"}), a.get(), labels.get(), 1.5,
          kMean);
  REFUSED(RANGE, aster_ml_lazy_sparse_categorical_crossentropy, ({"-0.5"}), a.get(), labels.get(),
          -1, -0.5, kMean);
  for (const int32_t unknown : {-1, 3, 99}) {
    const std::string number = std::to_string(unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_binary_crossentropy, ({number}), a.get(), a.get(), unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_binary_crossentropy_logits, ({number}), a.get(), a.get(),
            nullptr, unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_sparse_categorical_crossentropy, ({number}), a.get(),
            labels.get(), -1, 0.0, unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_categorical_crossentropy, ({number}), a.get(), labels.get(),
            0.0, unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_nll_loss, ({number}), a.get(), labels.get(), nullptr, nullptr,
            unknown);
  }
  aster_ml_scalar one{};
  EXPECT_OK(aster_ml_scalar_from_double(&one, ASTER_ML_DTYPE_FLOAT32, 1));
  for (const int32_t unknown : {-1, 1000}) {
    const std::string number = std::to_string(unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_full_like, ({number}), a.get(), &one, unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_const_like, ({number}), a.get(), &one, unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_zeros_like, ({number}), a.get(), unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_ones_like, ({number}), a.get(), unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_empty_like, ({number}), a.get(), unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_sum_dtype, ({number}), a.get(), size_t{0}, nullptr, 0, unknown);
    REFUSED(ARGUMENT, aster_ml_lazy_softmin, ({number}), a.get(), int64_t{0}, unknown);
  }
  REFUSED(ARGUMENT, aster_ml_lazy_clip, ({"bound"}), a.get(), nullptr, nullptr);
}

// Two results: both or neither, in two handles that are no input's.
TEST_F(FunctionRefusals, HandlesOfTwoResults) {
  aster_ml_lazy* const kept = a.get();
  void* const before = a.get()->impl;
  expect(aster_ml_lazy_cummax(&out, &out, a.get(), 0), ASTER_ML_ARGUMENT, "aster_ml_lazy_cummax",
         {""});
  expect(aster_ml_lazy_cummax(&out, kept, a.get(), 0), ASTER_ML_ARGUMENT, "aster_ml_lazy_cummax",
         {"input"});
  expect(aster_ml_lazy_cummin(kept, &out, a.get(), 0), ASTER_ML_ARGUMENT, "aster_ml_lazy_cummin",
         {"input"});
  EXPECT_EQ(a.get()->impl, before);
  second.impl = before;  // rubbish in an output is cleared
  expect(aster_ml_lazy_var_mean(nullptr, &second, a.get(), 0, nullptr, 0, 1), ASTER_ML_ARGUMENT,
         "aster_ml_lazy_var_mean", {""});
}

}  // namespace
}  // namespace programs
