// Matrix products against MPFR's exact sums of products rounded once: every width of vectors, odd
// sizes, strides, and data that cancels, ties, spreads, overflows and is no number.
#include "flt/product.h"

#include <algorithm>

#include "flt/residues.h"

#ifdef ASTER_TEST_MPFR
#include "oracle.h"

namespace {

using namespace flt_test;

class Context {
 public:
  Context(int threads, int vector_bytes) {
    aster_ml_context_options options = {};
    options.struct_size = sizeof(options);
    options.threads = threads;
    options.vector_bytes = vector_bytes;
    EXPECT_EQ(aster_ml_context_init(&context_, &options), 0);
  }
  ~Context() { aster_ml_context_free(&context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  const aster_ml_context* get() const { return &context_; }

 private:
  aster_ml_context context_ = {};
};

struct Sizes {
  size_t rows, inner, columns;
};

using Numbers = std::vector<Packed>;
std::vector<uint64_t> laid_out(const Format& f, const Numbers& numbers) {
  std::vector<uint64_t> out;
  for (const Packed& p : numbers) out.insert(out.end(), p.w, p.w + f.words);
  return out;
}

Numbers multiplied(const Format& f, const Sizes& s, const Numbers& a, const Numbers& b, int mode,
                   const aster_ml_context* context, int32_t* ran = nullptr) {
  const size_t words = static_cast<size_t>(f.words);
  const std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b);
  std::vector<uint64_t> z(s.rows * s.columns * words);
  EXPECT_EQ(aster_ml_flt_matmul_by(z.data(), ran, context, ASTER_ML_FLT_AUTO, f.dtype, mode,
                                   x.data(), y.data(), s.rows, s.inner, s.columns, nullptr),
            0);
  Numbers out(s.rows * s.columns);
  for (size_t i = 0; i < out.size(); ++i) std::copy_n(&z[i * words], words, out[i].w);
  return out;
}

Packed exact(const Format& f, const Sizes& s, const Numbers& a, const Numbers& b, int mode,
             size_t i, size_t j) {
  std::vector<std::unique_ptr<Real>> terms;
  std::vector<mpfr_ptr> pointers;
  for (size_t k = 0; k < s.inner; ++k) {
    terms.push_back(std::make_unique<Real>(2 * f.precision()));
    Real x(f, a[i * s.inner + k]), y(f, b[k * s.columns + j]);
    EXPECT_EQ(mpfr_mul(*terms.back(), x, y, MPFR_RNDN), 0);
    pointers.push_back(*terms.back());
  }
  return expected(f, mode, [&](mpfr_ptr sum, mpfr_rnd_t rnd) {
    const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    const int inexact = mpfr_sum(sum, pointers.data(), pointers.size(), rnd);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    return mpfr_check_range(sum, inexact, rnd);
  });
}

// By a power of two; 0 stays.
void scale(const Format& f, Packed* p, long exponent) {
  if (*p == Packed()) return;
  p->w[f.words - 1] += static_cast<uint64_t>(exponent) << (63 - f.exponent_bits);
}
Packed integer(Operands& operands, const Format& f) {
  Packed p = operands.near(f, 2);
  for (int w = 0; w < f.words - 1; ++w) p.w[w] = 0;
  p.w[f.words - 1] &= ~uint64_t{0} << 37;
  return operands.below(3) == 0 ? Packed() : p;
}

constexpr int kKinds = 11;
Numbers drawn(Operands& operands, const Format& f, int kind, size_t rows, size_t columns) {
  Numbers out;
  for (size_t i = 0; i < rows * columns; ++i) {
    switch (kind) {
      case 0:  // alike
        out.push_back(operands.near(f, 4));
        break;
      case 1:  // a spread of hundreds of bits
        out.push_back(operands.near(f, 70));
        break;
      case 6:  // as much as residues hold
        out.push_back(operands.near(f, 250));
        break;
      case 2:  // integers of few bits: sums that are 0, ties
        out.push_back(integer(operands, f));
        break;
      case 3:  // neighbours that cancel
        out.push_back(i % columns == 0 || operands.below(3) == 0 ? operands.near(f, 3)
                                                                 : operands.close(f, out.back()));
        break;
      case 4:  // small and large ones, further apart than residues hold
        out.push_back(operands.near(f, 6));
        scale(f, &out.back(), (operands.below(2) == 0 ? 1 : -1) * (f.bias() / 2));
        break;
      case 7:  // squares of them are about the least numbers, most of them subnormal
        out.push_back(operands.near(f, 60));
        scale(f, &out.back(), -(f.bias() + f.precision() - 20) / 2);
        break;
      case 8:  // the same of few bits: halves of the least number are ties
        out.push_back(integer(operands, f));
        scale(f, &out.back(), -(f.bias() + f.precision() - 3) / 2);
        break;
      case 9:  // sums of them are about the greatest number
        out.push_back(operands.near(f, 3));
        scale(f, &out.back(), f.bias() / 2);
        break;
      case 10:  // graded: rows and columns each of a size of their own
        out.push_back(operands.near(f, 4));
        scale(f, &out.back(), static_cast<long>(i % columns) - 2 * static_cast<long>(i / columns));
        break;
      default:  // some that are no numbers
        out.push_back(operands.below(60) == 0 ? operands.special(f) : operands.near(f, 4));
        break;
    }
  }
  return out;
}

TEST(FltProduct, ElementsAreExactOnce) {
  const Context contexts[] = {{1, 0}, {1, 32}, {1, 16}};
  constexpr Sizes kSizes[] = {{17, 19, 33}, {8, 130, 40}, {70, 16, 9}, {1, 300, 20}, {33, 32, 64}};
  for (const Format& f : kFormats) {
    Operands operands(41);
    int turn = 0, subnormal = 0, infinite = 0, greatest = 0;
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const Sizes& s : kSizes) {
        const Numbers a = drawn(operands, f, kind, s.rows, s.inner);
        const Numbers b = drawn(operands, f, kind == 4 ? 0 : kind, s.inner, s.columns);
        const int mode = turn++ % 4;
        int32_t ran = -1;
        const Numbers got = multiplied(f, s, a, b, mode, contexts[turn % 3].get(), &ran);
        EXPECT_TRUE(kind == 4 || kind == 5 || ran == ASTER_ML_FLT_RESIDUES) << kind;
        for (int sample = 0; sample < 60; ++sample) {
          const size_t i = operands.below(s.rows), j = operands.below(s.columns);
          const Packed& element = got[i * s.columns + j];
          ASSERT_EQ(element, exact(f, s, a, b, mode, i, j))
              << "kind " << kind << " mode " << mode << " " << s.rows << "x" << s.inner << "x"
              << s.columns << " at " << i << ", " << j;
          const uint64_t exponent = element.w[f.words - 1] << 1 >> (64 - f.exponent_bits);
          const auto top = static_cast<uint64_t>(2 * f.bias() + 1);
          if (kind < 7 || element == Packed()) continue;
          subnormal += exponent == 0;
          infinite += exponent == top;
          greatest += exponent == top - 1;
        }
      }
    }
    EXPECT_GT(subnormal, 300);
    EXPECT_GT(infinite, 30);
    EXPECT_GT(greatest, 30);
  }
}

// Neither do sums depend on which term comes first.
TEST(FltProduct, OrderOfTermsChangesNothing) {
  constexpr Sizes kProduct{20, 90, 33};
  std::mt19937_64 random(46);
  for (const Format& f : kFormats) {
    Operands operands(47);
    for (const int kind : {0, 3, 4, 6, 8}) {
      const Numbers a = drawn(operands, f, kind, kProduct.rows, kProduct.inner);
      const Numbers b = drawn(operands, f, kind, kProduct.inner, kProduct.columns);
      std::vector<size_t> order(kProduct.inner);
      for (size_t k = 0; k < order.size(); ++k) order[k] = k;
      std::shuffle(order.begin(), order.end(), random);
      Numbers c(a.size()), d(b.size());
      for (size_t k = 0; k < order.size(); ++k) {
        for (size_t i = 0; i < kProduct.rows; ++i)
          c[i * kProduct.inner + k] = a[i * kProduct.inner + order[k]];
        for (size_t j = 0; j < kProduct.columns; ++j)
          d[k * kProduct.columns + j] = b[order[k] * kProduct.columns + j];
      }
      EXPECT_EQ(multiplied(f, kProduct, c, d, 0, nullptr),
                multiplied(f, kProduct, a, b, 0, nullptr))
          << kind;
    }
  }
}

// Both ends of what a digit, a residue and a sum can be.
TEST(FltProduct, OnesAndHalvesEverywhere) {
  const Context context(1, 0);
  const Sizes s{16, 513, 32};
  for (const Format& f : kFormats) {
    for (const uint64_t pattern : {~uint64_t{0}, uint64_t{0}, uint64_t{0x8000800080008000},
                                   uint64_t{0x7fff7fff7fff7fff}, uint64_t{0x8000000000000000}}) {
      Packed p;
      for (int w = 0; w < f.words; ++w) p.w[w] = pattern;
      const int bits = 63 - f.exponent_bits;
      uint64_t& top = p.w[f.words - 1];
      top = (top & ((uint64_t{1} << bits) - 1)) | static_cast<uint64_t>(f.bias()) << bits;
      for (const bool negative : {false, true}) {
        Packed q = p;
        if (negative) q.w[f.words - 1] ^= uint64_t{1} << 63;
        const Numbers a(s.rows * s.inner, p), b(s.inner * s.columns, q);
        const Numbers got = multiplied(f, s, a, b, 0, context.get());
        const Packed want = exact(f, s, a, b, 0, 0, 0);
        for (const Packed& element : got) ASSERT_EQ(element, want);
      }
    }
  }
}

TEST(FltProduct, ThreadsVectorsAndStridesChangeNothing) {
  const Context one(1, 0), many(4, 0), narrow(2, 16), middle(3, 32);
  const Sizes s{150, 70, 290};
  for (const Format& f : kFormats) {
    Operands operands(42);
    const Numbers a = drawn(operands, f, 0, s.rows, s.inner);
    const Numbers b = drawn(operands, f, 3, s.inner, s.columns);
    const Numbers want = multiplied(f, s, a, b, 0, one.get());
    EXPECT_EQ(multiplied(f, s, a, b, 0, many.get()), want);
    EXPECT_EQ(multiplied(f, s, a, b, 0, narrow.get()), want);
    EXPECT_EQ(multiplied(f, s, a, b, 0, middle.get()), want);
    EXPECT_EQ(multiplied(f, s, a, b, 0, nullptr), want);
    // out transposed, a with its rows backwards and b with its columns apart, turned.
    const size_t words = static_cast<size_t>(f.words);
    const std::vector<uint64_t> x = laid_out(f, a);
    std::vector<uint64_t> y(2 * s.inner * s.columns * words), z(s.rows * s.columns * words);
    for (size_t k = 0; k < s.inner; ++k) {
      for (size_t j = 0; j < s.columns; ++j) {
        std::copy_n(b[k * s.columns + j].w, words, &y[(j * 2 * s.inner + 2 * k) * words]);
      }
    }
    const auto n = [](size_t v) { return static_cast<int64_t>(v); };
    const int64_t strides[] = {1, n(s.rows), -n(s.inner), 1, 2, 2 * n(s.inner)};
    ASSERT_EQ(aster_ml_flt_matmul(z.data(), many.get(), f.dtype, 0,
                                  x.data() + (s.rows - 1) * s.inner * words, y.data(), s.rows,
                                  s.inner, s.columns, strides),
              0);
    for (size_t i = 0; i < s.rows; ++i) {
      for (size_t j = 0; j < s.columns; ++j) {
        const Packed& w = want[(s.rows - 1 - i) * s.columns + j];
        ASSERT_TRUE(std::equal(w.w, w.w + words, &z[(j * s.rows + i) * words]));
      }
    }
  }
}

// Bits do not depend on what computes them, and it says which one did.
TEST(FltProduct, EveryAlgorithmGivesTheSameBits) {
  struct Case {
    Sizes sizes;
    int kind;
  };
  constexpr Case kProducts[] = {
      {{65, 66, 67}, 0}, {{66, 65, 70}, 2}, {{40, 30, 30}, 3}, {{3, 4, 5}, 5}};
  for (const Format& f : kFormats) {
    Operands operands(43);
    int turn = 0;
    for (const auto& [s, kind] : kProducts) {
      const Numbers a = drawn(operands, f, kind, s.rows, s.inner);
      const Numbers b = drawn(operands, f, kind, s.inner, s.columns);
      const int mode = turn++ % 4;
      const std::vector<uint64_t> want = laid_out(f, multiplied(f, s, a, b, mode, nullptr));
      const std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b);
      for (const int32_t how :
           {ASTER_ML_FLT_AUTO, ASTER_ML_FLT_RESIDUES, ASTER_ML_FLT_NAIVE, ASTER_ML_FLT_STRASSEN}) {
        std::vector<uint64_t> z(want.size());
        int32_t ran = -1;
        ASSERT_EQ(aster_ml_flt_matmul_by(z.data(), &ran, nullptr, how, f.dtype, mode, x.data(),
                                         y.data(), s.rows, s.inner, s.columns, nullptr),
                  0);
        EXPECT_EQ(z, want) << "kind " << kind << " of " << s.rows << " by " << how;
        const bool halves = std::min({s.rows, s.inner, s.columns}) > 64;
        const int32_t expected_ran = how == ASTER_ML_FLT_STRASSEN && !halves ? ASTER_ML_FLT_RESIDUES
                                     : how != ASTER_ML_FLT_AUTO              ? how
                                     : s.rows == 3                           ? ASTER_ML_FLT_NAIVE
                                                   : ASTER_ML_FLT_RESIDUES;
        // Special numbers lie too far apart for residues.
        EXPECT_TRUE(ran == expected_ran || kind == 5) << s.rows;
      }
    }
  }
}

// Halves, once and twice, of sizes that leave rows, columns and terms over, and few of them; by
// threads and every width of vectors. The largest is of a size that auto takes them for.
TEST(FltProduct, HalvesLeaveNothingOver) {
  const Context one(1, 0), many(3, 0), narrow(1, 16), middle(1, 32);
  constexpr Sizes kProducts[] = {{65, 65, 65},   {66, 129, 300}, {129, 130, 131},
                                 {96, 131, 128}, {300, 140, 97}, {129, 257, 161}};
  for (const Format& f : kFormats) {
    Operands operands(46);
    int turn = 0;
    for (const Sizes& s : kProducts) {
      const int mode = turn % 4, kind = turn++ % 3;
      const Numbers a = drawn(operands, f, kind, s.rows, s.inner);
      const Numbers b = drawn(operands, f, kind, s.inner, s.columns);
      const std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b);
      const auto run = [&](const Context& context, int32_t how, int32_t expected) {
        std::vector<uint64_t> z(s.rows * s.columns * static_cast<size_t>(f.words));
        int32_t ran = -1;
        EXPECT_EQ(aster_ml_flt_matmul_by(z.data(), &ran, context.get(), how, f.dtype, mode,
                                         x.data(), y.data(), s.rows, s.inner, s.columns, nullptr),
                  0);
        EXPECT_EQ(ran, expected);
        return z;
      };
      const auto want = run(one, ASTER_ML_FLT_RESIDUES, ASTER_ML_FLT_RESIDUES);
      for (const Context* context : {&one, &many, &narrow, &middle}) {
        EXPECT_EQ(run(*context, ASTER_ML_FLT_STRASSEN, ASTER_ML_FLT_STRASSEN), want)
            << s.rows << " x " << s.inner << " x " << s.columns;
      }
    }
  }
}
TEST(FltProduct, LargeOnesAreByHalvesAndTheSame) {
  const Context one(1, 32), many(2, 32);
  const Format& f = kFormats[0];
  Operands operands(47);
  for (const Sizes s : {Sizes{768, 768, 768}, Sizes{801, 769, 775}}) {
    const Numbers a = drawn(operands, f, 0, s.rows, s.inner);
    const Numbers b = drawn(operands, f, 0, s.inner, s.columns);
    const std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b);
    const auto run = [&](const Context& context, int32_t how) {
      std::vector<uint64_t> z(s.rows * s.columns * static_cast<size_t>(f.words));
      EXPECT_EQ(aster_ml_flt_matmul_by(z.data(), nullptr, context.get(), how, f.dtype, 0, x.data(),
                                       y.data(), s.rows, s.inner, s.columns, nullptr),
                0);
      return z;
    };
    const auto want = run(one, ASTER_ML_FLT_RESIDUES);
    EXPECT_EQ(run(one, ASTER_ML_FLT_AUTO), want);
    EXPECT_EQ(run(many, ASTER_ML_FLT_AUTO), want);
  }
}

// A weight that is off by one in any table, of the residues of either operand or of the digits that
// they become again, makes a product wrong: these tests would find it.
template <int N>
void flip_weights(const Format& f, size_t step) {
  constexpr Sizes kProduct{16, 16, 32};
  constexpr auto kSize = static_cast<int64_t>(N * 8);
  Operands operands(45);
  const aster::flt::Caller caller(nullptr, aster::process_heap());
  // Full significands have every digit; of integers of few bits the last digit decides where all
  // that is not 0 is rounded up.
  for (const int kind : {0, 2}) {
    const Numbers a = drawn(operands, f, kind, 16, 16), b = drawn(operands, f, kind, 16, 32);
    const auto mode = static_cast<aster::flt::Rounding>(kind);
    std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b), z(16 * 32 * N);
    aster::flt::Residues residues(aster::process_heap());
    const auto product = [&] {
      const auto matrix = [](std::vector<uint64_t>& words, size_t rows, size_t columns) {
        return aster::flt::Matrix{reinterpret_cast<char*>(words.data()),
                                  static_cast<int64_t>(columns) * kSize, kSize, rows, columns};
      };
      aster::flt::Algorithm how = aster::flt::Algorithm::kResidues;
      EXPECT_EQ(aster::flt::product_of<N>(caller, matrix(z, 16, 32), matrix(x, 16, 16),
                                          matrix(y, 16, 32), mode, &residues, &how)
                    .code,
                0);
      EXPECT_EQ(how, aster::flt::Algorithm::kResidues);
      return z;
    };
    const std::vector<uint64_t> right = product();
    ASSERT_EQ(right, laid_out(f, multiplied(f, kProduct, a, b, kind, nullptr)));
    const auto flip = [&](const int32_t* at, size_t half, const char* table, size_t i) {
      auto* const weight = const_cast<int32_t*>(at);
      *weight ^= 1 << (16 * half);
      EXPECT_NE(product(), right) << table << " " << i;
      *weight ^= 1 << (16 * half);
    };
    const size_t count = residues.count(), digits = static_cast<size_t>(N) * 4;
    const size_t full = static_cast<size_t>(f.precision()) / 16;  // that all elements have
    if (kind == 0) {
      for (size_t i = 0; i < count * full; i += step) {
        const size_t d = i % full, at = i / full * digits / 2 + d / 2;
        flip(residues.a_weights() + at, d % 2, "of the left operand", i);
        flip(residues.b_weights() + at, d % 2, "of the right operand", i);
      }
    } else {
      for (size_t i = 0; i < residues.rows() * (count + 1); i += step) {
        const size_t row = i / (count + 1), l = i % (count + 1);
        flip(residues.digits() + row * residues.pairs() + l / 2, l % 2, "of digits", i);
      }
    }
    EXPECT_EQ(product(), right);
  }
}
TEST(FltProduct, EveryWeightCounts) {
  flip_weights<4>(kFormats[0], 1);
  flip_weights<8>(kFormats[1], 7);
}

// Exponents so far apart that no residues hold them.
TEST(FltProduct, WhatSpreadsTooFarIsComputedAlone) {
  const Format& f = kFormats[1];
  Operands operands(44);
  const Sizes s{70, 70, 70};
  const Numbers a = drawn(operands, f, 4, s.rows, s.inner), b = drawn(operands, f, 0, 70, 70);
  const std::vector<uint64_t> x = laid_out(f, a), y = laid_out(f, b);
  std::vector<uint64_t> z(x.size());
  int32_t ran = -1;
  ASSERT_EQ(aster_ml_flt_matmul_by(z.data(), &ran, nullptr, ASTER_ML_FLT_STRASSEN, f.dtype, 0,
                                   x.data(), y.data(), 70, 70, 70, nullptr),
            0);
  EXPECT_EQ(ran, ASTER_ML_FLT_NAIVE);
  EXPECT_EQ(z, laid_out(f, multiplied(f, s, a, b, 0, nullptr)));
  for (const int32_t wrong : {-1, 4}) {
    EXPECT_EQ(aster_ml_flt_matmul_by(z.data(), nullptr, nullptr, wrong, f.dtype, 0, x.data(),
                                     y.data(), 70, 70, 70, nullptr),
              ASTER_ML_ARGUMENT);
  }
}

TEST(FltProduct, WrongCalls) {
  constexpr int32_t kDtype = ASTER_ML_DTYPE_FLT256;
  std::vector<uint64_t> a(64), b(64), out(64, 3);
  const auto run = [&](void* to, int32_t dtype, int32_t mode, const void* x, const void* y,
                       size_t rows, const int64_t* strides) {
    return aster_ml_flt_matmul(to, nullptr, dtype, mode, x, y, rows, 2, 4, strides);
  };
  EXPECT_EQ(run(nullptr, kDtype, 0, a.data(), b.data(), 3, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(out.data(), kDtype, 0, nullptr, b.data(), 3, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(out.data(), kDtype, 0, a.data(), nullptr, 3, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(out.data(), kDtype, 5, a.data(), b.data(), 3, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(out.data(), ASTER_ML_DTYPE_FLOAT32, 0, a.data(), b.data(), 3, nullptr),
            ASTER_ML_DTYPE);
  EXPECT_EQ(run(reinterpret_cast<char*>(out.data()) + 1, kDtype, 0, a.data(), b.data(), 3, nullptr),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(a.data(), kDtype, 0, a.data(), b.data(), 3, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(b.data() + 16, kDtype, 0, a.data(), b.data(), 2, nullptr), ASTER_ML_ARGUMENT);
  const int64_t same_rows[] = {0, 1, 2, 1, 4, 1}, crossing[] = {3, 1, 2, 1, 4, 1},
                far[] = {INT64_MAX / 8, 1, 2, 1, 4, 1};
  EXPECT_EQ(run(out.data(), kDtype, 0, a.data(), b.data(), 3, same_rows), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(out.data(), kDtype, 0, a.data(), b.data(), 3, crossing), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(out.data(), kDtype, 0, a.data(), b.data(), 3, far), ASTER_ML_RANGE);
  EXPECT_EQ(run(out.data(), kDtype, 0, a.data(), b.data(), SIZE_MAX / 4, nullptr), ASTER_ML_RANGE);
  EXPECT_EQ(out, std::vector<uint64_t>(64, 3));
  EXPECT_EQ(run(nullptr, kDtype, 0, nullptr, b.data(), 0, nullptr), 0);
  // No terms: zeros.
  EXPECT_EQ(aster_ml_flt_matmul(out.data(), nullptr, kDtype, 0, nullptr, nullptr, 2, 0, 2, nullptr),
            0);
  EXPECT_EQ(out[0] | out[15], 0u);
  EXPECT_EQ(out[16], 3u);
}

}  // namespace
#endif
