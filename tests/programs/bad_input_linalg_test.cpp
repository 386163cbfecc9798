// What products, attention, decompositions, hashes and random numbers refuse: the code, and a
// message that names the function, the shapes and the dtypes.
#include <cmath>

#include "refusal.h"

namespace programs {
namespace {

class LinalgRefusals : public RefusalTest {
 protected:
  Tensor square = data({3, 3}), line = data({4}), wide = data({2, 4}), heads = data({4, 3, 3}),
         whole = Tensor(std::vector<int32_t>(9, 1), {3, 3}), single = Tensor(1.0);
};

TEST_F(LinalgRefusals, Products) {
  REFUSED(SHAPE, aster_ml_lazy_dot, ({"float32[3, 3]", "float32[2, 4]"}), square.get(), wide.get(),
          0);
  REFUSED(SHAPE, aster_ml_lazy_dot, ({"axis"}), square.get(), single.get(), 0);
  REFUSED(SHAPE, aster_ml_lazy_linear, ({"float32[3, 3]", "float32[2, 4]"}), square.get(),
          wide.get(), nullptr, 0);
  REFUSED(SHAPE, aster_ml_lazy_linear, ({"float32[3, 3]", "float32[4]"}), square.get(),
          square.get(), line.get(), 0);
  const aster_ml_lazy* two[] = {square.get(), wide.get()};
  REFUSED(ARGUMENT, aster_ml_lazy_einsum, ({"\"ij->i\"", "2 operands"}), "ij->i", two, 2, 0);
  REFUSED(SHAPE, aster_ml_lazy_einsum, ({"\"ij,jk\"", "float32[2, 4]", "3"}), "ij,jk", two, 2, 0);
  REFUSED(SHAPE, aster_ml_lazy_einsum, ({"\"ijk,kl\"", "float32[3, 3]"}), "ijk,kl", two, 2, 0);
  REFUSED(ARGUMENT, aster_ml_lazy_einsum, ({"letter"}), "i?,jk", two, 2, 0);
  REFUSED(ARGUMENT, aster_ml_lazy_einsum, ({"formula"}), nullptr, two, 2, 0);
  const aster_ml_lazy empty{}, *missing[] = {square.get(), &empty};
  REFUSED(ARGUMENT, aster_ml_lazy_einsum, ({"empty"}), "ij,jk", missing, 2, 0);
}

TEST_F(LinalgRefusals, Attention) {
  const auto refused = [&](int32_t code, const std::vector<std::string>& words, Tensor q, Tensor k,
                           Tensor v, const aster_ml_lazy* mask, double p, int32_t causal,
                           int32_t grouped) {
    expect(aster_ml_lazy_scaled_dot_product_attention(&out, q.get(), k.get(), v.get(), mask, p,
                                                      causal, grouped, 1),
           code, "aster_ml_lazy_scaled_dot_product_attention", words);
  };
  refused(ASTER_ML_SHAPE, {"float32[3, 3]", "float32[2, 4]"}, square, wide, square, nullptr, 0, 0,
          0);
  refused(ASTER_ML_SHAPE, {"float32[4]"}, line, line, line, nullptr, 0, 0, 0);
  refused(ASTER_ML_SHAPE, {"groups"}, square, square, square, nullptr, 0, 0, 1);
  refused(ASTER_ML_SHAPE, {"groups"}, heads, data({3, 3, 3}), heads, nullptr, 0, 0, 1);
  refused(ASTER_ML_ARGUMENT, {"is_causal"}, square, square, square, square.get(), 0, 1, 0);
  refused(ASTER_ML_DTYPE, {"int32[3, 3]"}, square, square, square, whole.get(), 0, 0, 0);
  refused(ASTER_ML_SHAPE, {"float32[2, 4]"}, square, square, square, wide.get(), 0, 0, 0);
  refused(ASTER_ML_RANGE, {"1.5"}, square, square, square, nullptr, 1.5, 0, 0);
}

TEST_F(LinalgRefusals, Decompositions) {
  expect(aster_ml_lazy_qr(&out, &second, line.get()), ASTER_ML_SHAPE, "aster_ml_lazy_qr",
         {"float32[4]"});
  expect(aster_ml_lazy_qr(&out, &second, whole.get()), ASTER_ML_DTYPE, "aster_ml_lazy_qr",
         {"int32[3, 3]"});
  expect(aster_ml_lazy_qr(&out, &out, square.get()), ASTER_ML_ARGUMENT, "aster_ml_lazy_qr",
         {"two"});
  expect(aster_ml_lazy_svd(&out, &second, &third, line.get(), 1), ASTER_ML_SHAPE,
         "aster_ml_lazy_svd", {"float32[4]"});
  expect(aster_ml_lazy_svd(&out, &second, &third, whole.get(), 0), ASTER_ML_DTYPE,
         "aster_ml_lazy_svd", {"int32[3, 3]"});
  expect(aster_ml_lazy_svd(&out, &second, &second, square.get(), 0), ASTER_ML_ARGUMENT,
         "aster_ml_lazy_svd", {"two"});
  const double one[] = {1};
  REFUSED(SHAPE, aster_ml_lazy_newton_schulz, ({"float32[4]"}), line.get(), 1, 1, one, 1e-7);
  REFUSED(RANGE, aster_ml_lazy_newton_schulz, ({"-2"}), square.get(), -2, 1, one, 1e-7);
  // What would make a graph without end.
  const std::vector<double> many(101, 1.0);
  REFUSED(RANGE, aster_ml_lazy_newton_schulz, ({"1099511627776", "100"}), square.get(),
          INT64_C(1) << 40, 1, one, 1e-7);
  REFUSED(RANGE, aster_ml_lazy_newton_schulz, ({"101"}), square.get(), 1, many.size(), many.data(),
          1e-7);
  const int64_t far[] = {INT64_C(1) << 20, INT64_C(1) << 20};
  aster_ml_lazy huge{};
  aster_ml_scalar two{};
  OK(aster_ml_scalar_from_double(&two, ASTER_ML_DTYPE_FLOAT32, 2));
  OK(aster_ml_lazy_full(&huge, s.get(), &two, 0, 2, far));
  expect(aster_ml_lazy_qr(&out, &second, &huge), ASTER_ML_RANGE, "aster_ml_lazy_qr",
         {"1048576 rows"});
  expect(aster_ml_lazy_svd(&out, &second, &third, &huge, 0), ASTER_ML_RANGE, "aster_ml_lazy_svd",
         {"1048576 rows"});
  REFUSED(RANGE, aster_ml_lazy_keccak, ({"557055"}), &huge, nullptr);
  OK(aster_ml_lazy_free(&huge));
  REFUSED(ARGUMENT, aster_ml_lazy_newton_schulz, ({"coefficients"}), square.get(), 1, 0, one, 1e-7);
}

TEST_F(LinalgRefusals, Hashes) {
  REFUSED(SHAPE, aster_ml_lazy_keccak, ({""}), single.get(), nullptr);
  REFUSED(NOT_FOUND, aster_ml_lazy_keccak, ({"md5"}), line.get(), "md5");
  REFUSED(RANGE, aster_ml_lazy_keccak_rate, ({"137"}), line.get(), 137, 6);
  REFUSED(RANGE, aster_ml_lazy_keccak_rate, ({"128"}), line.get(), 136, 128);
}

TEST_F(LinalgRefusals, RandomNumbers) {
  const int64_t three = 3, below = -3, far = INT64_MAX;
  const int32_t integers = ASTER_ML_DTYPE_INT32;
  REFUSED(DTYPE, aster_ml_lazy_rand_like, ({"int32"}), whole.get(), 0);
  REFUSED(DTYPE, aster_ml_lazy_randn_like, ({"int32"}), square.get(), integers);
  REFUSED(DTYPE, aster_ml_lazy_scaled_uniform, ({"int32"}), s.get(), integers, 1, &three);
  REFUSED(RANGE, aster_ml_lazy_scaled_uniform, ({"-3"}), s.get(), 0, 1, &below);
  REFUSED(RANGE, aster_ml_lazy_glorot_uniform, ({""}), s.get(), 0, 1, &far);
  REFUSED(SHAPE, aster_ml_lazy_glorot_uniform, ({"no axes"}), s.get(), 0, 0, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_kaiming_uniform, ({"no axes"}), s.get(), 0, 0, 0, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_kaiming_normal, ({"no axes"}), s.get(), 0, 0, 0, nullptr);
  REFUSED(RANGE, aster_ml_lazy_randperm, ({"-3"}), s.get(), below, 0);
  REFUSED(RANGE, aster_ml_lazy_randperm, ({""}), s.get(), far, 0);
  REFUSED(SHAPE, aster_ml_lazy_multinomial, ({"float32[4, 3, 3]"}), heads.get(), 1, 1);
  REFUSED(RANGE, aster_ml_lazy_multinomial, ({"5", "without", "float32[4]"}), line.get(), 5, 0);
  REFUSED(RANGE, aster_ml_lazy_multinomial, ({"0", "with"}), line.get(), 0, 1);
  REFUSED(RANGE, aster_ml_lazy_dropout, ({"-0.5"}), line.get(), -0.5, 0);
  REFUSED(RANGE, aster_ml_lazy_dropout, ({"nan"}), line.get(), std::nan(""), 1);
}

}  // namespace
}  // namespace programs
