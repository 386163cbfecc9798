// Arithmetic and comparisons against MPFR, in every rounding mode and both formats.
#include "flt/apply.h"

#include <functional>

#ifdef ASTER_TEST_MPFR
#include "oracle.h"

namespace {

using namespace flt_test;

using Exact = std::function<int(mpfr_ptr, std::vector<mpfr_ptr>, mpfr_rnd_t)>;
struct Case {
  int32_t operation;
  Exact exact;
};

int unary(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t), mpfr_ptr y,
          const std::vector<mpfr_ptr>& x, mpfr_rnd_t mode) {
  return function(y, x[0], mode);
}
#define UNARY(name) \
  [](mpfr_ptr y, std::vector<mpfr_ptr> x, mpfr_rnd_t mode) { return unary(name, y, x, mode); }
#define BINARY(name) \
  [](mpfr_ptr y, std::vector<mpfr_ptr> x, mpfr_rnd_t mode) { return name(y, x[0], x[1], mode); }
#define INTEGRAL(name) \
  [](mpfr_ptr y, std::vector<mpfr_ptr> x, mpfr_rnd_t) { return name(y, x[0]) & 0; }

const Case kCases[] = {
    {ASTER_ML_FLT_SQRT, UNARY(mpfr_sqrt)},
    {ASTER_ML_FLT_RECIP, [](mpfr_ptr y, std::vector<mpfr_ptr> x,
                            mpfr_rnd_t mode) { return mpfr_ui_div(y, 1, x[0], mode); }},
    {ASTER_ML_FLT_TRUNC, INTEGRAL(mpfr_trunc)},
    {ASTER_ML_FLT_FLOOR, INTEGRAL(mpfr_floor)},
    {ASTER_ML_FLT_CEIL, INTEGRAL(mpfr_ceil)},
    {ASTER_ML_FLT_ROUND, INTEGRAL(mpfr_roundeven)},
    {ASTER_ML_FLT_ADD, BINARY(mpfr_add)},
    {ASTER_ML_FLT_SUB, BINARY(mpfr_sub)},
    {ASTER_ML_FLT_MUL, BINARY(mpfr_mul)},
    {ASTER_ML_FLT_DIV, BINARY(mpfr_div)},
    {ASTER_ML_FLT_FMA, [](mpfr_ptr y, std::vector<mpfr_ptr> x,
                          mpfr_rnd_t mode) { return mpfr_fma(y, x[0], x[1], x[2], mode); }},
};

int32_t apply(int32_t operation, const Format& f, int mode, Packed* out,
              const std::vector<Packed>& in) {
  const void* operands[3] = {};
  for (size_t i = 0; i < in.size(); ++i) operands[i] = in[i].w;
  return aster_ml_flt_apply(out->w, nullptr, operation, f.dtype, mode, operands, nullptr, 1);
}

// Operands of one case: any, or such that they nearly cancel.
std::vector<Packed> draw(Operands& operands, const Format& f, int arity) {
  std::vector<Packed> in;
  for (int i = 0; i < arity; ++i) in.push_back(operands.any(f));
  if (arity > 1 && operands.below(4) == 0) in[1] = operands.close(f, in[0]);
  if (arity == 3 && operands.below(3) == 0) {  // c near -a * b
    apply(ASTER_ML_FLT_MUL, f, static_cast<int>(operands.below(4)), &in[2],
          std::vector<Packed>{in[0], in[1]});
    in[2] = operands.close(f, in[2]);
  }
  return in;
}

void hold(const Format& f, const Case& c, int mode, std::vector<Packed> in) {
  Packed got;
  ASSERT_EQ(apply(c.operation, f, mode, &got, in), 0);
  const std::vector<Packed> given = in;
  std::vector<std::unique_ptr<Real>> reals;
  std::vector<mpfr_ptr> x;
  for (const Packed& p : in) {
    reals.push_back(std::make_unique<Real>(f, p));
    x.push_back(*reals.back());
  }
  Packed want = expected(f, mode, [&](mpfr_ptr y, mpfr_rnd_t rnd) { return c.exact(y, x, rnd); });
  if (is_nan(f, want)) {
    if (const Packed* nan = first_nan(f, in)) want = *nan;
  }
  ASSERT_EQ(got, want) << "operation " << c.operation << " mode " << mode << "\n"
                       << ::testing::PrintToString(given);
}

const Case kFunctions[] = {
#define ROW(NAME, name) \
  { ASTER_ML_FLT_##NAME, UNARY(mpfr_##name) }
    ROW(EXP, exp),
    ROW(EXP2, exp2),
    ROW(EXP10, exp10),
    ROW(EXPM1, expm1),
    ROW(LOG, log),
    ROW(LOG2, log2),
    ROW(LOG10, log10),
    ROW(LOG1P, log1p),
    ROW(SIN, sin),
    ROW(COS, cos),
    ROW(TAN, tan),
    ROW(ASIN, asin),
    ROW(ACOS, acos),
    ROW(ATAN, atan),
    ROW(SINH, sinh),
    ROW(COSH, cosh),
    ROW(TANH, tanh),
    ROW(ASINH, asinh),
    ROW(ACOSH, acosh),
    ROW(ATANH, atanh),
    ROW(ERF, erf),
    ROW(ERFC, erfc),
    ROW(CBRT, cbrt),
#undef ROW
    {ASTER_ML_FLT_POW, BINARY(mpfr_pow)},
    {ASTER_ML_FLT_ATAN2, BINARY(mpfr_atan2)},
    {ASTER_ML_FLT_HYPOT, BINARY(mpfr_hypot)},
};

TEST(FltApply, FunctionsAreMpfrs) {
  const int32_t ready = aster_ml_flt_apply(nullptr, nullptr, ASTER_ML_FLT_EXP,
                                           ASTER_ML_DTYPE_FLT256, 0, nullptr, nullptr, 0);
  if (std::getenv("ASTER_ML_MPFR") != nullptr) {
    aster_ml_error error;
    aster_ml_error_last(&error);
    ASSERT_EQ(ready, ASTER_ML_UNSUPPORTED);
    EXPECT_NE(std::strstr(error.message, "ASTER_ML_MPFR"), nullptr);
    return;
  }
  ASSERT_EQ(ready, 0);
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_clear_flags();
  for (const Format& f : kFormats) {
    Operands operands(4);
    for (const Case& c : kFunctions) {
      const int arity = aster_ml_flt_count_operands(c.operation);
      ASSERT_EQ(arity, c.operation < ASTER_ML_FLT_POW ? 1 : 2);
      for (int i = 0; i < cases() / 12 && !HasFatalFailure(); ++i) {
        std::vector<Packed> in;
        for (int k = 0; k < arity; ++k) {
          // Where the function is neither its limit nor its argument, and every special one.
          in.push_back(i % 4 == 0   ? operands.special(f)
                       : i % 4 == 1 ? operands.near(f, f.exponent_bits)
                                    : operands.near(f, 5));
        }
        // MPFR takes seconds to reduce the greatest numbers by multiples of pi.
        const uint64_t large = static_cast<uint64_t>(f.bias() + 20000) << (63 - f.exponent_bits);
        if (c.operation >= ASTER_ML_FLT_SIN && c.operation <= ASTER_ML_FLT_TAN &&
            in[0].w[f.words - 1] << 1 >> 1 > large &&
            mpfr_number_p(static_cast<mpfr_ptr>(Real(f, in[0])))) {
          in[0] = operands.near(f, 20000);
        }
        // Powers at the ends of the range, subnormal ones too.
        if (c.operation == ASTER_ML_FLT_EXP2 && i % 5 == 0) {
          const double at = static_cast<double>(f.emin()) + static_cast<double>(i % 600) + 0.25;
          ASSERT_EQ(aster_ml_flt_copy(in[0].w, nullptr, f.dtype, &at, ASTER_ML_DTYPE_FLOAT64, 0,
                                      nullptr, 1),
                    0);
        }
        hold(f, c, i / 4 % 4, in);
      }
    }
  }
  EXPECT_EQ(mpfr_get_emin(), emin);  // the host's, as they were
  EXPECT_EQ(mpfr_get_emax(), emax);
}

TEST(FltApply, ArithmeticIsMpfrs) {
  for (const Format& f : kFormats) {
    Operands operands(20261123);
    for (const Case& c : kCases) {
      const int arity = aster_ml_flt_count_operands(c.operation);
      for (int i = 0; i < cases() && !HasFatalFailure(); ++i) {
        hold(f, c, i % 4, draw(operands, f, arity));
      }
    }
  }
}

// All operands that are special, in every combination and mode.
TEST(FltApply, SpecialOperandsAreMpfrs) {
  constexpr uint64_t kAll = Operands::kSpecials;
  for (const Format& f : kFormats) {
    const auto hold_all = [&](const Case& c) {
      const int arity = aster_ml_flt_count_operands(c.operation);
      uint64_t tuples = 1;
      for (int k = 0; k < arity; ++k) tuples *= kAll;
      for (uint64_t t = 0; t < tuples && !::testing::Test::HasFatalFailure(); ++t) {
        std::vector<Packed> in;
        for (uint64_t rest = t; in.size() < static_cast<size_t>(arity); rest /= kAll)
          in.push_back(Operands::special(f, rest % kAll));
        // MPFR takes seconds to reduce the greatest number by multiples of pi.
        const bool turns = c.operation >= ASTER_ML_FLT_SIN && c.operation <= ASTER_ML_FLT_TAN;
        if (turns && (t / 2 == 6)) continue;
        for (int mode = 0; mode < 4; ++mode) hold(f, c, mode, in);
      }
    };
    for (const Case& c : kCases) hold_all(c);
    if (std::getenv("ASTER_ML_MPFR") != nullptr) continue;  // functions are not there
    for (const Case& c : kFunctions) hold_all(c);
  }
}

// Sums and products in the middle between two numbers, and just beside it.
TEST(FltApply, TiesGoToEvenOrAsTheModeSays) {
  for (const Format& f : kFormats) {
    Operands operands(1);
    for (int i = 0; i < cases() && !HasFatalFailure(); ++i) {
      Packed a = operands.near(f, 2);
      Packed half;  // half a unit of a's last place, a little more or less now and then
      const int bits = 63 - f.exponent_bits;
      const uint64_t exponent =
          (a.w[f.words - 1] << 1 >> 1 >> bits) - static_cast<uint64_t>(f.precision());
      half.w[f.words - 1] = exponent << bits;
      if (i % 3 == 1) half.w[0] = 1;
      if (i % 3 == 2) {
        for (int k = 0; k < f.words - 1; ++k) half.w[k] = ~uint64_t{0};
        half.w[f.words - 1] -= 1;
      }
      const Case& c = kCases[i % 2 == 0 ? 6 : 7];
      for (int mode = 0; mode < 4; ++mode) hold(f, c, mode, {a, half});
    }
  }
}

TEST(FltApply, SignsAndExtremes) {
  for (const Format& f : kFormats) {
    Operands operands(2);
    for (int i = 0; i < cases() && !HasFatalFailure(); ++i) {
      const std::vector<Packed> in = draw(operands, f, 2);
      std::vector<Packed> quiet = in;
      Packed got, want = in[0];
      const uint64_t sign = uint64_t{1} << 63;
      want.w[f.words - 1] ^= sign;
      ASSERT_EQ(apply(ASTER_ML_FLT_NEG, f, 0, &got, in), 0);
      EXPECT_EQ(got, want);
      want.w[f.words - 1] &= ~sign;
      ASSERT_EQ(apply(ASTER_ML_FLT_ABS, f, 0, &got, in), 0);
      EXPECT_EQ(got, want);
      const Packed* const nan = first_nan(f, quiet);
      Real a(f, in[0]), b(f, in[1]);
      for (const int32_t operation : {ASTER_ML_FLT_MAX, ASTER_ML_FLT_MIN}) {
        const bool max = operation == ASTER_ML_FLT_MAX;
        bool first = max ? mpfr_greater_p(a, b) != 0 : mpfr_less_p(a, b) != 0;
        if (mpfr_equal_p(a, b)) first = (mpfr_signbit(static_cast<mpfr_ptr>(a)) == 0) == max;
        ASSERT_EQ(apply(operation, f, 0, &got, in), 0);
        ASSERT_EQ(got, nan != nullptr ? *nan : first ? in[0] : in[1]);
      }
    }
  }
}

TEST(FltApply, Comparisons) {
  for (const Format& f : kFormats) {
    Operands operands(3);
    for (int i = 0; i < cases() && !HasFatalFailure(); ++i) {
      const std::vector<Packed> in = draw(operands, f, 2);
      const void* const at[] = {in[0].w, in[1].w};
      Real a(f, in[0]), b(f, in[1]);
      const struct {
        int32_t operation;
        bool want;
      } rows[] = {{ASTER_ML_FLT_CMPLT, mpfr_less_p(a, b) != 0},
                  {ASTER_ML_FLT_CMPLE, mpfr_lessequal_p(a, b) != 0},
                  {ASTER_ML_FLT_CMPEQ, mpfr_equal_p(a, b) != 0},
                  {ASTER_ML_FLT_CMPNE, mpfr_equal_p(a, b) == 0}};
      for (const auto& row : rows) {
        uint8_t got[2] = {7, 7};
        ASSERT_EQ(aster_ml_flt_apply(got, nullptr, row.operation, f.dtype, 0, at, nullptr, 1), 0);
        EXPECT_EQ(got[0], row.want ? 1 : 0) << row.operation << in[0] << in[1];
        EXPECT_EQ(got[1], 7);
      }
    }
  }
}

}  // namespace
#endif
