// Decompositions of flt256 and flt512 against what defines them, computed by MPFR with three times
// as many bits: residuals and orthogonality in units of n eps |A|, and values that are known.
#ifdef ASTER_TEST_MPFR
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/pool.h"
#include "flt/oracle.h"
#include "runtime/cpu/lapack.h"
#include "runtime/cpu/linalg.h"
#include "sanitizers.h"

namespace aster::runtime::cpu::linalg {
namespace {

using dtype::DType;
using flt_test::Format;
using flt_test::Packed;
using flt_test::Real;

constexpr double kRatio = 30;  // LAPACK's threshold
constexpr mpfr_prec_t kBits = 1600;

class Big {
 public:
  Big(double x = 0) {  // NOLINT: numbers mean themselves
    mpfr_init2(x_, kBits);
    mpfr_set_d(x_, x, MPFR_RNDN);
  }
  Big(const Big& other) : Big() { mpfr_set(x_, other.x_, MPFR_RNDN); }
  Big& operator=(const Big& other) {
    mpfr_set(x_, other.x_, MPFR_RNDN);
    return *this;
  }
  ~Big() { mpfr_clear(x_); }
  operator mpfr_ptr() { return x_; }
  operator mpfr_srcptr() const { return x_; }
  double number() const { return mpfr_get_d(x_, MPFR_RNDN); }
  // x / y as a double, whatever their exponents are.
  friend double ratio(const Big& x, const Big& y) {
    Big out;
    mpfr_div(out, x, y, MPFR_RNDN);
    return mpfr_zero_p(static_cast<mpfr_srcptr>(x)) ? 0 : out.number();
  }

 private:
  mpfr_t x_;
};
#define OPERATOR(op, call)                      \
  Big operator op(const Big& a, const Big& b) { \
    Big out;                                    \
    call(out, a, b, MPFR_RNDN);                 \
    return out;                                 \
  }
OPERATOR(+, mpfr_add)
OPERATOR(-, mpfr_sub)
OPERATOR(*, mpfr_mul)
OPERATOR(/, mpfr_div)
#undef OPERATOR
bool operator<(const Big& a, const Big& b) { return mpfr_cmp(a, b) < 0; }
Big size_of(const Big& a) {
  Big out;
  mpfr_abs(out, a, MPFR_RNDN);
  return out;
}
Big power(long exponent) {
  Big out(1);
  mpfr_mul_2si(out, out, exponent, MPFR_RNDN);
  return out;
}

struct Matrix {
  int64_t m, n;
  std::vector<Big> at;
  Matrix(int64_t rows, int64_t columns)
      : m(rows), n(columns), at(static_cast<size_t>(rows * columns)) {}
  Big& operator()(int64_t i, int64_t j) { return at[static_cast<size_t>(i * n + j)]; }
  const Big& operator()(int64_t i, int64_t j) const { return at[static_cast<size_t>(i * n + j)]; }
};
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c(a.m, b.n);
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t l = 0; l < a.n; ++l) {
      if (mpfr_zero_p(static_cast<mpfr_srcptr>(a(i, l)))) continue;
      for (int64_t j = 0; j < b.n; ++j) mpfr_fma(c(i, j), a(i, l), b(l, j), c(i, j), MPFR_RNDN);
    }
  }
  return c;
}
Matrix operator-(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.at.size(); ++i) a.at[i] = a.at[i] - b.at[i];
  return a;
}
Matrix turned(const Matrix& a) {
  Matrix t(a.n, a.m);
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t j = 0; j < a.n; ++j) t(j, i) = a(i, j);
  }
  return t;
}
Matrix diagonal(const Matrix& values, int64_t m, int64_t n) {
  Matrix a(m, n);
  for (int64_t i = 0; i < std::min(m, n); ++i) a(i, i) = values(std::min(i, values.m - 1), 0);
  return a;
}
Matrix unit(int64_t n) {
  Matrix one(1, 1);
  one(0, 0) = 1;
  return diagonal(one, n, n);
}
// The largest sum of a row, and never 0.
Big size_of(const Matrix& a) {
  Big most;
  for (int64_t i = 0; i < a.m; ++i) {
    Big sum;
    for (int64_t j = 0; j < a.n; ++j) sum = sum + size_of(a(i, j));
    if (most < sum || mpfr_nan_p(static_cast<mpfr_srcptr>(sum))) most = sum;
  }
  return most;
}

Big epsilon(const Format& f) { return power(1 - f.precision()); }
Big unit_of(const Format& f, const Matrix& a) {
  return epsilon(f) * Big(static_cast<double>(std::max<int64_t>({a.m, a.n, 1})));
}

// Rounded to the format.
std::vector<Packed> pack(const Format& f, const Matrix& a) {
  std::vector<Packed> out;
  for (const Big& x : a.at) {
    Real y(f.precision());
    mpfr_set(y, x, MPFR_RNDN);
    out.push_back(y.pack(f));
  }
  return out;
}
Matrix unpack(const Format& f, const std::vector<Packed>& at, int64_t m, int64_t n) {
  Matrix out(m, n);
  for (size_t i = 0; i < out.at.size(); ++i) {
    Real x(f, at[i]);  // not a temporary: MPFR's macros keep its address
    mpfr_set(out.at[i], x, MPFR_RNDN);
  }
  return out;
}
Matrix rounded(const Format& f, const Matrix& a) { return unpack(f, pack(f, a), a.m, a.n); }

std::vector<uint64_t> words(const Format& f, const std::vector<Packed>& at) {
  std::vector<uint64_t> out;
  for (const Packed& p : at) out.insert(out.end(), p.w, p.w + f.words);
  return out;
}

struct Answer {
  const Format* f;
  std::vector<std::vector<Packed>> results;
  std::string trouble;
  long long at = 0;
  Matrix result(size_t i, int64_t m, int64_t n) const { return unpack(*f, results[i], m, n); }
};

Answer answer(const Format& f, Problem p, const std::vector<Packed>& a,
              const std::vector<Packed>& b = {}) {
  p.dtype = f.words == 4 ? DType::kFlt256 : DType::kFlt512;
  EXPECT_TRUE(check(p).ok());
  const Results sizes = results_of(p);
  std::vector<std::vector<uint64_t>> memory(sizes.count);
  void* results[kMostResults] = {};
  for (size_t i = 0; i < sizes.count; ++i) {
    memory[i].assign(static_cast<size_t>(sizes.of[i].count() * f.words), ~uint64_t{0});
    results[i] = memory[i].data();
  }
  const std::vector<uint64_t> x = words(f, a), y = words(f, b);
  const void* operands[] = {x.data(), y.data()};
  const auto bytes = static_cast<size_t>(scratch_bytes(p)) + 64;
  void* const scratch = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::fill_n(static_cast<unsigned char*>(scratch), bytes, 0xFF);  // NaN
  const Trouble trouble = compute(p, operands, results, scratch);
  std::free(scratch);
  Answer out;
  out.f = &f;
  for (const std::vector<uint64_t>& result : memory) {
    std::vector<Packed> packed(result.size() / static_cast<size_t>(f.words));
    for (size_t i = 0; i < packed.size(); ++i)
      std::copy_n(result.data() + i * static_cast<size_t>(f.words), f.words, packed[i].w);
    out.results.push_back(packed);
  }
  if (trouble.text != nullptr) out.trouble = trouble.text;
  out.at = trouble.at;
  return out;
}
Answer answer(const Format& f, const Problem& p, const Matrix& a) {
  return answer(f, p, pack(f, a));
}

// Matrices that go wrong easily, and random ones; numbers of the format.
std::vector<std::pair<std::string, Matrix>> matrices(const Format& f, int64_t m, int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(m * 1000 + n));
  std::vector<std::pair<std::string, Matrix>> out;
  const auto add = [&](const char* name, const std::function<Big(int64_t, int64_t)>& element) {
    Matrix a(m, n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) a(i, j) = element(i, j);
    }
    out.emplace_back(name, rounded(f, a));
  };
  // All bits count.
  const auto draw = [&] {
    std::normal_distribution<double> normal;
    Big x;
    for (int part = 0; part < 10; ++part) x = x + Big(normal(random)) * power(-52 * part);
    return x;
  };
  const auto d = [](int64_t i) { return static_cast<double>(i); };
  add("random", [&](int64_t, int64_t) { return draw(); });
  add("hilbert", [&](int64_t i, int64_t j) { return Big(1) / Big(d(i) + d(j) + 1); });
  add("wilkinson", [&](int64_t i, int64_t j) {  // of the largest growth in LU
    return Big(j == n - 1 || i == j ? 1.0 : i > j ? -1.0 : 0.0);
  });
  add("rank 1", [&](int64_t i, int64_t j) { return Big((d(i) + 1) * (d(j) - 1.5)); });
  add("zero", [&](int64_t, int64_t) { return Big(); });
  add("unit", [&](int64_t i, int64_t j) { return Big(i == j ? 1.0 : 0.0); });
  add("graded", [&](int64_t i, int64_t j) { return draw() * power(-20 * (i + j)); });
  add("repeated",
      [&](int64_t i, int64_t j) { return Big(i == j ? (i % 2 == 0 ? 2.0 : -2.0) : 0.0); });
  // Values that float64 cannot tell apart, at two distances.
  add("close", [&](int64_t i, int64_t j) {
    return Big(i == j ? 1.0 : 0.0) + draw() * power(i == j ? -100 : -150);
  });
  add("huge", [&](int64_t, int64_t) { return draw() * power(f.bias() - 8); });
  add("tiny", [&](int64_t, int64_t) { return draw() * power(20 - f.bias()); });
  add("triangular", [&](int64_t i, int64_t j) { return Big(i <= j ? d(i + 2 * j + 1) : 0.0); });
  return out;
}

struct Shape {
  int64_t m, n;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 3}, {3, 1},   {2, 2},  {5, 5},
                             {7, 4}, {4, 7}, {20, 20}, {33, 17}};

void expect_orthonormal(const Format& f, const Matrix& columns, const std::string& what) {
  const Matrix rest = turned(columns) * columns - unit(columns.n);
  EXPECT_LE(ratio(size_of(rest), unit_of(f, columns)), kRatio) << what;
}
void expect_same(const Format& f, const Matrix& a, const Matrix& b, const std::string& what) {
  const Big least = power(f.emin() + f.precision());
  EXPECT_LE(ratio(size_of(a - b), unit_of(f, b) * (size_of(b) + least)), kRatio) << what;
}
bool is_zero(const Big& x) { return mpfr_zero_p(static_cast<mpfr_srcptr>(x)) != 0; }

// f(format, problem, matrix, its name): of both formats, with LAPACK's vectors to begin with and
// our own, rounded to nearest and, in turn, in another mode.
template <typename F>
void all(bool square, F each) {
  int64_t turn = 0;
  for (const Format& f : flt_test::kFormats) {
    for (const bool library : {true, false}) {
      for (const Shape& s : kShapes) {
        if ((square && s.m != s.n) || (!library && s.m > 7)) continue;
        for (const auto& [name, a] : matrices(f, s.m, s.n)) {
#ifdef ASTER_TEST_TSAN  // which watches threads, not values; the others are watched by ASan
          if (s.m > 7 && name != "random") continue;
#endif
          Problem p{};
          p.m = s.m;
          p.n = s.n;
          p.library = library;
          for (const int mode : {0, static_cast<int>(1 + (turn++ + s.m) % 3)}) {
            p.rounding = mode;
            each(f, p, a,
                 name + " " + std::to_string(s.m) + "x" + std::to_string(s.n) + " of " +
                     std::to_string(f.precision()) + (library ? " bits" : " bits, no library") +
                     ", mode " + std::to_string(mode));
          }
        }
      }
    }
  }
}

TEST(WideDecompositions, Lu) {
  all(false, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    if (!p.library) return;
    const int64_t k = std::min(p.m, p.n);
    p.what = What::kLu;
    const Answer r = answer(f, p, a);
    ASSERT_EQ(r.trouble, "") << what;
    const Matrix l = r.result(1, p.m, k), u = r.result(2, k, p.n);
    // Rows of |l| |u| grow with the elements of u.
    const Matrix rest = r.result(0, p.m, p.m) * (l * u) - a;
    EXPECT_LE(ratio(size_of(rest), unit_of(f, a) * (size_of(u) + power(f.emin() + f.precision()))),
              kRatio)
        << what;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        EXPECT_EQ(j >= i ? l(i, j).number() : 0, i == j) << what;
        EXPECT_LE(size_of(l(i, j)).number(), 1) << what;
        EXPECT_TRUE(i >= k || j >= i || is_zero(u(i, j))) << what;
      }
    }
    p.what = What::kLuFactor;
    const Answer packed = answer(f, p, a);
    const Matrix rows = packed.result(1, p.m, 1);
    for (int64_t i = 0; i < p.m; ++i) {
      EXPECT_EQ(r.result(0, p.m, p.m)(static_cast<int64_t>(rows(i, 0).number()), i).number(), 1)
          << what;
      for (int64_t j = 0; j < p.n; ++j) {
        const Packed& both = packed.results[0][static_cast<size_t>(i * p.n + j)];
        EXPECT_EQ(both, i > j ? r.results[1][static_cast<size_t>(i * k + j)]
                              : r.results[2][static_cast<size_t>(i * p.n + j)])
            << what;
      }
    }
    p.turned = true;  // the same matrix, lying as its transpose
    EXPECT_EQ(answer(f, p, turned(a)).results, packed.results) << what;
  });
}

TEST(WideDecompositions, Qr) {
  all(false, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    if (!p.library) return;
    p.what = What::kQr;
    for (const bool reduced : {false, true}) {
      p.reduced = reduced;
      const int64_t columns = reduced ? std::min(p.m, p.n) : p.m;
      const Answer found = answer(f, p, a);
      ASSERT_EQ(found.trouble, "") << what;
      const Matrix q = found.result(0, p.m, columns), r = found.result(1, columns, p.n);
      expect_same(f, q * r, a, what);
      expect_orthonormal(f, q, what);
      for (int64_t i = 0; i < columns; ++i) {
        for (int64_t j = 0; j < std::min(i, p.n); ++j) EXPECT_TRUE(is_zero(r(i, j))) << what;
      }
      // The first step turns the first column to minus its sign.
      EXPECT_TRUE(mpfr_sgn(static_cast<mpfr_srcptr>(a(0, 0))) <= 0 ||
                  mpfr_sgn(static_cast<mpfr_srcptr>(r(0, 0))) < 0)
          << what;
    }
  });
}

TEST(WideDecompositions, Svd) {
  all(false, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    const int64_t k = std::min(p.m, p.n);
    p.what = What::kSvdValues;
    const Answer values = answer(f, p, a);
    ASSERT_EQ(values.trouble, "") << what;
    p.what = What::kSvd;
    for (const bool reduced : {false, true}) {
      p.reduced = reduced;
      const Answer found = answer(f, p, a);
      ASSERT_EQ(found.trouble, "") << what;
      const Matrix u = found.result(0, p.m, reduced ? k : p.m), s = found.result(1, k, 1),
                   vt = found.result(2, reduced ? k : p.n, p.n);
      expect_orthonormal(f, u, what);
      expect_orthonormal(f, turned(vt), what);
      expect_same(f, u * diagonal(s, u.n, vt.m) * vt, a, what);
      for (int64_t i = 0; i < k; ++i) {
        EXPECT_FALSE(s(i, 0) < Big(0)) << what;
        EXPECT_FALSE(i > 0 && s(i - 1, 0) < s(i, 0)) << what;
      }
      EXPECT_LE(ratio(size_of(values.result(0, k, 1) - s),
                      unit_of(f, a) * (s(0, 0) + power(f.emin() + f.precision()))),
                kRatio)
          << what;
    }
  });
}

TEST(WideDecompositions, SymmetricEigenvalues) {
  all(true, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    Matrix whole(p.n, p.n);
    for (const bool upper : {false, true}) {
      std::vector<Packed> half = pack(f, a);
      Real nan(f.precision());
      mpfr_set_nan(nan);
      for (int64_t i = 0; i < p.n; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          const bool in = upper ? i <= j : i >= j;
          whole(i, j) = in ? a(i, j) : a(j, i);
          if (!in) half[static_cast<size_t>(i * p.n + j)] = nan.pack(f);
        }
      }
      p.upper = upper;
      p.what = What::kEigh;
      const Answer found = answer(f, p, half);
      ASSERT_EQ(found.trouble, "") << what;
      const Matrix w = found.result(0, p.n, 1), v = found.result(1, p.n, p.n);
      expect_orthonormal(f, v, what);
      expect_same(f, v * diagonal(w, p.n, p.n) * turned(v), whole, what);
      for (int64_t i = 1; i < p.n; ++i) EXPECT_FALSE(w(i, 0) < w(i - 1, 0)) << what;
      p.what = What::kEighValues;
      EXPECT_EQ(answer(f, p, half).results[0], found.results[0]) << what;
    }
  });
}

TEST(WideDecompositions, Eigenvalues) {
  all(true, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    if (!p.library || p.n > 7 || what.starts_with("huge") || what.starts_with("tiny")) return;
    const int64_t n = p.n;
    p.what = What::kEig;
    const Answer found = answer(f, p, a);
    ASSERT_EQ(found.trouble, "") << what;
    const Matrix re = found.result(0, n, 1), im = found.result(1, n, 1), v = found.result(2, n, n);
    Matrix d(n, n);
    for (int64_t j = 0; j < n; ++j) {
      d(j, j) = re(j, 0);
      if (!(Big(0) < im(j, 0))) continue;
      d(j, j + 1) = im(j, 0);
      d(j + 1, j) = im(j + 1, 0);
    }
    EXPECT_LE(ratio(size_of(a * v - v * d), unit_of(f, a) * (size_of(a) + power(-500))), kRatio)
        << what;
  });
}

TEST(WideDecompositions, Cholesky) {
  all(true, [](const Format& f, Problem p, const Matrix& x, const std::string& what) {
    if (!p.library || what.starts_with("huge") || what.starts_with("tiny")) return;
    const int64_t n = p.n;
    const Matrix product = turned(x) * x;
    Matrix whole(n, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        whole(i, j) = product(i, j) + Big(i == j ? 1.0 : 0.0) * (Big(1) + size_of(product));
    }
    whole = rounded(f, whole);
    Real nan(f.precision());
    mpfr_set_nan(nan);
    for (const bool upper : {false, true}) {
      std::vector<Packed> half = pack(f, whole);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          if (upper ? j < i : j > i) half[static_cast<size_t>(i * n + j)] = nan.pack(f);
        }
      }
      p.what = What::kCholesky;
      p.upper = upper;
      const Answer found = answer(f, p, half);
      ASSERT_EQ(found.trouble, "") << what;
      const Matrix r = found.result(0, n, n);
      expect_same(f, upper ? turned(r) * r : r * turned(r), whole, what);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) EXPECT_TRUE(is_zero(upper ? r(j, i) : r(i, j))) << what;
      }
      Matrix one(1, 1);
      one(0, 0) = -1;
      half[static_cast<size_t>(n / 2 * (n + 1))] = pack(f, one)[0];
      const Answer none = answer(f, p, half);
      EXPECT_NE(none.trouble.find("not positive definite"), std::string::npos) << what;
      EXPECT_EQ(none.at, n / 2 + 1) << what;
    }
  });
}

bool regular(const std::string& what) {
  return what.starts_with("random") || what.starts_with("unit") || what.starts_with("repeated") ||
         what.starts_with("triangular") || what.starts_with("close");
}

// Gaussian elimination in MPFR; the determinant.
Big eliminate(Matrix a, Matrix* b) {
  Big out(1);
  for (int64_t k = 0; k < a.n; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a.n; ++i) best = size_of(a(best, k)) < size_of(a(i, k)) ? i : best;
    for (int64_t j = 0; j < a.n; ++j) std::swap(a(k, j), a(best, j));
    for (int64_t j = 0; j < b->n; ++j) std::swap((*b)(k, j), (*b)(best, j));
    out = out * a(k, k) * Big(best == k ? 1 : -1);
    for (int64_t i = 0; i < a.n; ++i) {
      if (i == k || is_zero(a(i, k))) continue;
      const Big factor = a(i, k) / a(k, k);
      for (int64_t j = k; j < a.n; ++j) a(i, j) = a(i, j) - factor * a(k, j);
      for (int64_t j = 0; j < b->n; ++j) (*b)(i, j) = (*b)(i, j) - factor * (*b)(k, j);
    }
  }
  for (int64_t i = 0; i < a.n; ++i) {
    for (int64_t j = 0; j < b->n; ++j) (*b)(i, j) = (*b)(i, j) / a(i, i);
  }
  return out;
}

TEST(WideDecompositions, SolutionsInversesDeterminants) {
  all(true, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    const int64_t n = p.n;
    if (!p.library || !regular(what)) return;
    Matrix b(n, 3), inverse = unit(n);
    for (size_t i = 0; i < b.at.size(); ++i) b.at[i] = static_cast<double>(i % 5) - 2.5;
    const Big determinant = eliminate(a, &inverse);
    const Big condition = size_of(a) * size_of(inverse);
    for (const bool turn : {false, true}) {
      p.what = What::kSolve;
      p.columns = 3;
      p.turned = turn;
      const Answer found = answer(f, p, pack(f, a), pack(f, b));
      ASSERT_EQ(found.trouble, "") << what;
      Matrix x = b;
      eliminate(turn ? turned(a) : a, &x);
      EXPECT_LE(ratio(size_of(found.result(0, n, 3) - x), unit_of(f, a) * condition * size_of(x)),
                kRatio)
          << what;
    }
    p.turned = false;
    p.what = What::kInverse;
    EXPECT_LE(ratio(size_of(answer(f, p, a).result(0, n, n) - inverse),
                    unit_of(f, a) * condition * size_of(inverse)),
              kRatio)
        << what;
    p.what = What::kDeterminant;
    const Answer d = answer(f, p, a);
    EXPECT_LE(ratio(size_of(d.result(0, 1, 1)(0, 0) - determinant),
                    unit_of(f, a) * condition * size_of(determinant)),
              kRatio)
        << what;
    EXPECT_EQ(d.result(1, 1, 1)(0, 0).number(), mpfr_sgn(static_cast<mpfr_srcptr>(determinant)));
    Big log;
    mpfr_log(log, size_of(determinant), MPFR_RNDN);
    EXPECT_LE(ratio(size_of(d.result(2, 1, 1)(0, 0) - log), unit_of(f, a) * (condition + log)),
              kRatio)
        << what;
  });
}

TEST(WideDecompositions, Triangles) {
  all(true, [](const Format& f, Problem p, const Matrix& a, const std::string& what) {
    const int64_t n = p.n;
    if (!p.library || !regular(what)) return;
    Matrix b(n, 2);
    for (size_t i = 0; i < b.at.size(); ++i) b.at[i] = static_cast<double>(i % 7) - 2.5;
    Real nan(f.precision());
    mpfr_set_nan(nan);
    for (int flags = 0; flags < 8; ++flags) {
      p.what = What::kTriangular;
      p.columns = 2;
      p.upper = (flags & 1) != 0;
      p.unit = (flags & 2) != 0;
      p.turned = (flags & 4) != 0;
      Matrix t(n, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          if (p.upper ? i < j : i > j) t(i, j) = a(i, j) / Big(static_cast<double>(n));
        }
        t(i, i) = p.unit ? Big(1) : Big(3) + a(i, i);
      }
      t = rounded(f, t);
      std::vector<Packed> half = pack(f, t);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          if (i == j ? p.unit : p.upper != (i < j))
            half[static_cast<size_t>(i * n + j)] = nan.pack(f);
        }
      }
      const Answer found = answer(f, p, half, pack(f, b));
      ASSERT_EQ(found.trouble, "") << what;
      const Matrix x = found.result(0, n, 2), m = p.turned ? turned(t) : t;
      EXPECT_LE(ratio(size_of(m * x - b), unit_of(f, m) * size_of(m) * size_of(x)), kRatio) << what;
      if (p.unit) continue;
      half[static_cast<size_t>(n * n - 1)] = Packed{};
      const Answer none = answer(f, p, half, pack(f, b));
      EXPECT_NE(none.trouble.find("singular"), std::string::npos) << what;
      EXPECT_EQ(none.at, n - 1) << what;
    }
  });
}

// Every operation within is rounded in the problem's mode, as MPFR's is.
TEST(WideDecompositions, OperationsAreRoundedInTheMode) {
  for (const Format& f : flt_test::kFormats) {
    flt_test::Operands operands(91);
    for (int i = 0; i < 200; ++i) {
      const int mode = i % 4;
      const auto made = [&](auto call) { return flt_test::expected(f, mode, call); };
      const Packed small = operands.near(f), large = operands.near(f), b = operands.near(f),
                   d = operands.near(f);
      Real x(f, small), y(f, large);
      const bool swapped = mpfr_cmpabs(x, y) > 0;  // the pivot is the larger one
      const Packed pivot = swapped ? small : large, below = swapped ? large : small;
      Problem p{};
      p.m = p.n = 2;
      p.rounding = mode;
      p.what = What::kLuFactor;
      const Answer lu = answer(f, p, std::vector<Packed>{pivot, b, below, d});
      Real of_pivot(f, pivot), of_below(f, below), of_b(f, b), of_d(f, d);
      const Packed inverse =
          made([&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_ui_div(z, 1, of_pivot, m); });
      Real of_inverse(f, inverse);
      const Packed factor =
          made([&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_mul(z, of_below, of_inverse, m); });
      Real minus(f, factor);
      mpfr_neg(minus, minus, MPFR_RNDN);
      EXPECT_EQ(lu.results[0][2], factor) << i;
      EXPECT_EQ(lu.results[0][3],
                made([&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_fma(z, minus, of_b, of_d, m); }))
          << i;
      p.m = p.n = 1;
      p.columns = 1;
      p.what = What::kTriangular;
      EXPECT_EQ(answer(f, p, std::vector<Packed>{pivot}, {b}).results[0][0],
                made([&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_div(z, of_b, of_pivot, m); }));
      p.what = What::kCholesky;
      mpfr_abs(of_d, of_d, MPFR_RNDN);
      EXPECT_EQ(answer(f, p, std::vector<Packed>{of_d.pack(f)}).results[0][0],
                made([&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_sqrt(z, of_d, m); }));
    }
  }
}

// exp of a nilpotent matrix is a polynomial, of a diagonal one its elements'.
TEST(WideDecompositions, Exponentials) {
  for (const Format& f : flt_test::kFormats) {
    for (const int64_t n : {1, 2, 4, 9}) {
      Problem p{};
      p.what = What::kExpm;
      p.m = p.n = n;
      Matrix steps(n, n), values(n, n), both(n, n);
      for (int64_t i = 0; i + 1 < n; ++i) steps(i, i + 1) = 3;
      Matrix expected(n, n);
      for (int64_t i = 0; i < n; ++i) {
        Big term(1);
        for (int64_t j = i; j < n; ++j) {
          expected(i, j) = term;
          term = term * Big(3) / Big(static_cast<double>(j - i + 1));
        }
        values(i, i) = static_cast<double>(i) - 2.25;
      }
      const Matrix found = answer(f, p, steps).result(0, n, n);
      EXPECT_LE(ratio(size_of(found - expected), unit_of(f, steps) * size_of(expected)),
                kRatio * 30)
          << n;
      const Matrix diagonals = answer(f, p, values).result(0, n, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          Big e;
          if (i == j) mpfr_exp(e, values(i, i), MPFR_RNDN);
          EXPECT_LE(ratio(size_of(diagonals(i, j) - e), unit_of(f, steps) * (e + power(-20))), 3000)
              << i << j;
        }
      }
    }
  }
}

// 2 - 2 cos(pi k / (n + 1)), of the second difference.
TEST(WideDecompositions, EigenvaluesThatAreKnown) {
  constexpr int64_t n = 24;
  Big pi;
  mpfr_const_pi(pi, MPFR_RNDN);
  for (const Format& f : flt_test::kFormats) {
    Matrix a(n, n);
    for (int64_t i = 0; i < n; ++i) {
      a(i, i) = 2;
      if (i > 0) a(i, i - 1) = a(i - 1, i) = -1;
    }
    Problem p{};
    p.m = p.n = n;
    for (const What what : {What::kEighValues, What::kSvdValues}) {
      p.what = what;
      p.library = true;
      const Matrix w = answer(f, p, a).result(0, n, 1);
      for (int64_t k = 1; k <= n; ++k) {
        Big value = pi * Big(static_cast<double>(k)) / Big(static_cast<double>(n + 1));
        mpfr_cos(value, value, MPFR_RNDN);
        value = Big(2) - Big(2) * value;
        const Big& found = w(what == What::kEighValues ? k - 1 : n - k, 0);
        EXPECT_LE(ratio(size_of(found - value), unit_of(f, a) * Big(4)), kRatio) << k;
      }
    }
  }
}

TEST(WideDecompositions, WhatHasNoResultIsSaid) {
  for (const Format& f : flt_test::kFormats) {
    Problem p{};
    p.m = p.n = 3;
    Matrix a(3, 3), zero(3, 3);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 3; ++j) a(i, j) = static_cast<double>(3 * i + j);
    }
    p.what = What::kInverse;
    EXPECT_NE(answer(f, p, zero).trouble.find("singular"), std::string::npos);
    EXPECT_EQ(answer(f, p, zero).at, 0);
    Matrix two = a;
    for (int64_t j = 0; j < 3; ++j) two(1, j) = two(0, j);
    EXPECT_EQ(answer(f, p, two).at, 2);
    Real infinity(f.precision());
    mpfr_set_inf(infinity, -1);
    std::vector<Packed> wrong = pack(f, a);
    wrong[6] = infinity.pack(f);
    for (const What what :
         {What::kSvd, What::kSvdValues, What::kEigh, What::kEighValues, What::kEig, What::kExpm}) {
      p.what = what;
      const Answer found = answer(f, p, wrong);
      EXPECT_NE(found.trouble.find("not finite"), std::string::npos);
      EXPECT_EQ(found.at, 6) << static_cast<int>(what);
    }
    p.what = What::kExpm;
    a(0, 0) = power(1024);
    EXPECT_NE(answer(f, p, a).trouble.find("norm"), std::string::npos);
  }
}

// Threads that share one matrix: as many as there are, and more.
TEST(WideDecompositions, ThreadsChangeNothing) {
  constexpr int64_t kSize = 72;
  for (const Format& f : flt_test::kFormats) {
    const std::vector<Packed> a = pack(f, matrices(f, kSize, kSize)[0].second);
    Problem p{};
    p.m = p.n = kSize;
    p.library = true;
    for (const What what : {What::kLu, What::kQr, What::kSvd, What::kEigh, What::kInverse}) {
      p.what = what;
      const Answer alone = answer(f, p, a);
      for (const int threads : {2, 5}) {
        const pool::Spare spare(threads);
        EXPECT_EQ(answer(f, p, a).results, alone.results) << static_cast<int>(what);
      }
    }
  }
}

}  // namespace
}  // namespace aster::runtime::cpu::linalg
#endif
