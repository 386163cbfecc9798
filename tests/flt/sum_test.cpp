// Sums and dot products against MPFR's exact ones, in any order, on any number of threads.
#include "flt/sum.h"

#include <algorithm>

#ifdef ASTER_TEST_MPFR
#include "oracle.h"

namespace {

using namespace flt_test;

// A context with threads of its own.
class Threads {
 public:
  explicit Threads(int count) {
    aster_ml_context_options options = {};
    options.struct_size = sizeof(options);
    options.threads = count;
    EXPECT_EQ(aster_ml_context_init(&context_, &options), 0);
  }
  ~Threads() { aster_ml_context_free(&context_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  const aster_ml_context* get() const { return &context_; }

 private:
  aster_ml_context context_ = {};
};

std::vector<uint64_t> laid_out(const Format& f, const std::vector<Packed>& numbers) {
  std::vector<uint64_t> out;
  for (const Packed& p : numbers) out.insert(out.end(), p.w, p.w + f.words);
  return out;
}

Packed sum_of(const Format& f, int mode, const std::vector<Packed>& a,
              const std::vector<Packed>* b = nullptr, const aster_ml_context* context = nullptr) {
  Packed got;
  const std::vector<uint64_t> x = laid_out(f, a);
  if (b == nullptr) {
    EXPECT_EQ(aster_ml_flt_sum(got.w, context, f.dtype, mode, x.data(), nullptr, a.size()), 0);
  } else {
    const std::vector<uint64_t> y = laid_out(f, *b);
    EXPECT_EQ(
        aster_ml_flt_dot(got.w, context, f.dtype, mode, x.data(), y.data(), nullptr, a.size()), 0);
  }
  return got;
}

// MPFR's sum of the terms, or of the products, which are exact in twice the precision.
Packed exact_sum(const Format& f, int mode, const std::vector<Packed>& a,
                 const std::vector<Packed>* b = nullptr) {
  std::vector<std::unique_ptr<Real>> terms;
  std::vector<mpfr_ptr> pointers;
  for (size_t i = 0; i < a.size(); ++i) {
    terms.push_back(std::make_unique<Real>(2 * f.precision()));
    Real x(f, a[i]);
    if (b == nullptr) {
      mpfr_set(*terms.back(), x, MPFR_RNDN);
    } else {
      Real y(f, (*b)[i]);
      EXPECT_EQ(mpfr_mul(*terms.back(), x, y, MPFR_RNDN), 0);
    }
    pointers.push_back(*terms.back());
  }
  return expected(f, mode, [&](mpfr_ptr y, mpfr_rnd_t rnd) {
    // Terms lie outside the range of the result.
    const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    const int inexact = mpfr_sum(y, pointers.data(), pointers.size(), rnd);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    return mpfr_check_range(y, inexact, rnd);
  });
}

// Terms of a kind each: alike, of many sizes, nearly cancelling, tied, at the ends of the range.
std::vector<Packed> terms(Operands& operands, const Format& f, int kind, size_t count) {
  std::vector<Packed> out;
  for (size_t i = 0; i < count; ++i) {
    switch (kind) {
      case 0:
        out.push_back(operands.near(f, 3));
        break;
      case 1:
        out.push_back(operands.near(f, 3L * f.precision()));
        break;
      case 2:  // pairs that cancel, but for a unit or so
        out.push_back(i % 2 == 0 ? operands.near(f, 20) : operands.close(f, out.back()));
        break;
      case 3:
        out.push_back(operands.any(f));
        break;
      default:  // without those that are no numbers, or few distinct ones
        out.push_back(operands.below(3) == 0 && i > 0 ? out[operands.below(i)]
                                                      : operands.near(f, f.bias() - 3));
        if (operands.below(3) == 0) out.back().w[f.words - 1] ^= uint64_t{1} << 63;
        break;
    }
  }
  return out;
}

TEST(FltSum, SumsAreExactOnce) {
  for (const Format& f : kFormats) {
    Operands operands(21);
    for (int i = 0; i < cases() / 4; ++i) {
      const std::vector<Packed> a = terms(operands, f, i % 5, operands.below(13));
      ASSERT_EQ(sum_of(f, i / 5 % 4, a), exact_sum(f, i / 5 % 4, a))
          << ::testing::PrintToString(a) << " mode " << i / 5 % 4;
    }
  }
}

TEST(FltSum, DotsAreExactOnce) {
  for (const Format& f : kFormats) {
    Operands operands(22);
    for (int i = 0; i < cases() / 4; ++i) {
      const size_t count = operands.below(13);
      std::vector<Packed> a = terms(operands, f, i % 5, count);
      std::vector<Packed> b = terms(operands, f, static_cast<int>(operands.below(5)), count);
      if (i % 3 == 0) {  // the sum of products cancels, but for what close() changes
        for (size_t k = 1; k < count; k += 2) {
          a[k] = a[k - 1];
          b[k] = operands.close(f, b[k - 1]);
        }
      }
      ASSERT_EQ(sum_of(f, i / 5 % 4, a, &b), exact_sum(f, i / 5 % 4, a, &b))
          << ::testing::PrintToString(a) << ::testing::PrintToString(b) << i / 5 % 4;
    }
  }
}

TEST(FltSum, OrderAndThreadsChangeNothing) {
  const Threads threads(4);
  std::mt19937_64 random(23);
  for (const Format& f : kFormats) {
    Operands operands(24);
    for (const int kind : {0, 1, 2, 4}) {
      const size_t count = kind == 4 ? 3000 : 9001;
      std::vector<Packed> a = terms(operands, f, kind, count), b = terms(operands, f, 0, count);
      const Packed sum = sum_of(f, 0, a), dot = sum_of(f, 0, a, &b);
      EXPECT_EQ(sum_of(f, 0, a, nullptr, threads.get()), sum);
      EXPECT_EQ(sum_of(f, 0, a, &b, threads.get()), dot);
      EXPECT_EQ(sum_of(f, 0, b, &a, threads.get()), dot);
      std::vector<size_t> order(count);
      for (size_t i = 0; i < count; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Packed> c, d;
      for (const size_t i : order) {
        c.push_back(a[i]);
        d.push_back(b[i]);
      }
      EXPECT_EQ(sum_of(f, 0, c, nullptr, threads.get()), sum);
      EXPECT_EQ(sum_of(f, 0, c, &d), dot);
      EXPECT_EQ(sum, exact_sum(f, 0, a));
    }
  }
}

TEST(FltSum, Strides) {
  for (const Format& f : kFormats) {
    Operands operands(25);
    const std::vector<Packed> a = terms(operands, f, 0, 30), b = terms(operands, f, 0, 30);
    const std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b);
    std::vector<Packed> some, others;
    for (size_t i = 0; i < 10; ++i) {
      some.push_back(a[29 - 2 * i]);
      others.push_back(b[3 * i]);
    }
    const int64_t strides[] = {-2, 3};
    const uint64_t* const last = x.data() + 29 * static_cast<size_t>(f.words);
    Packed got;
    ASSERT_EQ(aster_ml_flt_sum(got.w, nullptr, f.dtype, 0, last, strides, 10), 0);
    EXPECT_EQ(got, sum_of(f, 0, some));
    ASSERT_EQ(aster_ml_flt_dot(got.w, nullptr, f.dtype, 0, last, y.data(), strides, 10), 0);
    EXPECT_EQ(got, sum_of(f, 0, some, &others));
  }
}

TEST(FltSum, WrongCalls) {
  uint64_t a[8] = {}, out[8] = {7};
  EXPECT_EQ(aster_ml_flt_sum(nullptr, nullptr, ASTER_ML_DTYPE_FLT256, 0, a, nullptr, 2),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_sum(out, nullptr, ASTER_ML_DTYPE_FLT256, 0, nullptr, nullptr, 2),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_sum(out, nullptr, ASTER_ML_DTYPE_FLT256, 7, a, nullptr, 2),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_sum(out, nullptr, ASTER_ML_DTYPE_INT8, 0, a, nullptr, 2), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_flt_dot(out, nullptr, ASTER_ML_DTYPE_FLT256, 0, a, nullptr, nullptr, 2),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_dot(out, nullptr, ASTER_ML_DTYPE_FLT256, 0, a,
                             reinterpret_cast<const char*>(a) + 2, nullptr, 1),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_sum(out, nullptr, ASTER_ML_DTYPE_FLT512, 0, a, nullptr, SIZE_MAX / 8),
            ASTER_ML_RANGE);
  EXPECT_EQ(out[0], 7u);
  EXPECT_EQ(aster_ml_flt_sum(out, nullptr, ASTER_ML_DTYPE_FLT256, 3, nullptr, nullptr, 0), 0);
  EXPECT_EQ(out[0], 0u);  // +0
}

}  // namespace
#endif
