// Decompositions of one matrix, by LAPACK and by our own algorithms, against what defines them:
// residuals and orthogonality in units of n eps |A|, as LAPACK's own tests have them.
#include "runtime/cpu/linalg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/pool.h"
#include "runtime/cpu/general_own.h"
#include "runtime/cpu/lapack.h"
#include "runtime/cpu/spectrum_own.h"

namespace aster::runtime::cpu::linalg {

// A double of which nothing is negligible: what waits until something is never ends.
struct Stubborn {
  double x = 0;
  Stubborn() = default;
  explicit Stubborn(double value) : x(value) {}
  Stubborn operator-() const { return Stubborn(-x); }
  friend Stubborn operator+(Stubborn a, Stubborn b) { return Stubborn(a.x + b.x); }
  friend Stubborn operator-(Stubborn a, Stubborn b) { return Stubborn(a.x - b.x); }
  friend Stubborn operator*(Stubborn a, Stubborn b) { return Stubborn(a.x * b.x); }
  friend Stubborn operator/(Stubborn a, Stubborn b) { return Stubborn(a.x / b.x); }
  Stubborn& operator+=(Stubborn b) { return x += b.x, *this; }
  Stubborn& operator-=(Stubborn b) { return x -= b.x, *this; }
  Stubborn& operator*=(Stubborn b) { return x *= b.x, *this; }
  Stubborn& operator/=(Stubborn b) { return x /= b.x, *this; }
  friend auto operator<=>(Stubborn a, Stubborn b) = default;
  friend Stubborn sqrt(Stubborn a) { return Stubborn(std::sqrt(a.x)); }
};

}  // namespace aster::runtime::cpu::linalg

template <>
class std::numeric_limits<aster::runtime::cpu::linalg::Stubborn> {
  using Stubborn = aster::runtime::cpu::linalg::Stubborn;

 public:
  static Stubborn epsilon() { return Stubborn(-1); }
  static Stubborn min() { return Stubborn(std::numeric_limits<double>::min()); }
  static Stubborn max() { return Stubborn(std::numeric_limits<double>::max()); }
};

namespace aster::runtime::cpu::linalg {
namespace {

using dtype::DType;

constexpr double kRatio = 30;  // LAPACK's threshold

template <typename T>
struct Matrix {
  int64_t m, n;
  std::vector<T> at;
  Matrix(int64_t rows, int64_t columns)
      : m(rows), n(columns), at(static_cast<size_t>(rows * columns)) {}
  T& operator()(int64_t i, int64_t j) { return at[static_cast<size_t>(i * n + j)]; }
  T operator()(int64_t i, int64_t j) const { return at[static_cast<size_t>(i * n + j)]; }
};

// Sums in long double: an exact answer for float, a better one for double.
template <typename T>
Matrix<long double> wide(const Matrix<T>& a) {
  Matrix<long double> out(a.m, a.n);
  std::copy(a.at.begin(), a.at.end(), out.at.begin());
  return out;
}
using Wide = Matrix<long double>;
// Most of the time that goes into large ones, and no sanitizer's business.
#if defined(__clang__)
__attribute__((no_sanitize("address", "thread", "undefined")))
#endif
void multiply(auto* c, const auto* a, const auto* b, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
}
Wide operator*(const Wide& a, const Wide& b) {
  Wide c(a.m, b.n);
  multiply(c.at.data(), a.at.data(), b.at.data(), a.m, b.n, a.n);
  return c;
}
Wide operator-(Wide a, const Wide& b) {
  for (size_t i = 0; i < a.at.size(); ++i) a.at[i] -= b.at[i];
  return a;
}
Wide turned(const Wide& a) {
  Wide t(a.n, a.m);
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t j = 0; j < a.n; ++j) t(j, i) = a(i, j);
  }
  return t;
}
Wide unit(int64_t n) {
  Wide a(n, n);
  for (int64_t i = 0; i < n; ++i) a(i, i) = 1;
  return a;
}
double size_of(const Wide& a) {  // the largest sum of a row
  long double most = 0;
  for (int64_t i = 0; i < a.m; ++i) {
    long double sum = 0;
    for (int64_t j = 0; j < a.n; ++j) sum += std::abs(a(i, j));
    most = std::max(most, sum);
    if (std::isnan(sum)) return NAN;
  }
  return static_cast<double>(most);
}

template <typename T>
struct Answer {
  std::vector<std::vector<T>> results;
  std::string trouble;
  long long at = 0;
  Wide result(size_t i, int64_t m, int64_t n) const {
    Matrix<T> out(m, n);
    out.at = results[i];
    return wide(out);
  }
};

template <typename T>
Answer<T> answer(Problem p, const Matrix<T>& a, const Matrix<T>* b = nullptr) {
  p.dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
  EXPECT_TRUE(check(p).ok());
  const Results sizes = results_of(p);
  Answer<T> out;
  void* results[kMostResults] = {};
  out.results.resize(sizes.count);
  for (size_t i = 0; i < sizes.count; ++i) {
    out.results[i].assign(static_cast<size_t>(sizes.of[i].count()), T(77));
    results[i] = out.results[i].data();
  }
  const void* operands[] = {a.at.data(), b == nullptr ? nullptr : b->at.data()};
  const auto bytes = static_cast<size_t>(scratch_bytes(p)) + 64;
  void* const scratch = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::fill_n(static_cast<unsigned char*>(scratch), bytes, 0xFF);  // NaN
  const Trouble trouble = compute(p, operands, results, scratch);
  std::free(scratch);
  if (trouble.text != nullptr) out.trouble = trouble.text;
  out.at = trouble.at;
  return out;
}

// Matrices that go wrong easily, and random ones.
template <typename T>
std::vector<std::pair<std::string, Matrix<T>>> matrices(int64_t m, int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(m * 1000 + n));
  std::normal_distribution<double> normal;
  std::vector<std::pair<std::string, Matrix<T>>> out;
  const auto add = [&](const char* name, auto element) {
    Matrix<T> a(m, n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) a(i, j) = static_cast<T>(element(i, j));
    }
    out.emplace_back(name, a);
  };
  const auto d = [](int64_t i) { return static_cast<double>(i); };
  add("random", [&](int64_t, int64_t) { return normal(random); });
  add("hilbert", [&](int64_t i, int64_t j) { return 1 / (d(i) + d(j) + 1); });
  add("wilkinson", [&](int64_t i, int64_t j) {  // of the largest growth in LU
    return j == n - 1 || i == j ? 1.0 : i > j ? -1.0 : 0.0;
  });
  add("rank 1", [&](int64_t i, int64_t j) { return (d(i) + 1) * (d(j) - 1.5); });
  add("zero", [&](int64_t, int64_t) { return 0.0; });
  add("unit", [&](int64_t i, int64_t j) { return i == j ? 1.0 : 0.0; });
  add("graded",
      [&](int64_t i, int64_t j) { return normal(random) * std::pow(10.0, -d(i + j) / 2); });
  add("repeated", [&](int64_t i, int64_t j) { return i == j ? (i % 2 == 0 ? 2.0 : -2.0) : 0.0; });
  add("huge", [&](int64_t, int64_t) {
    return normal(random) * (static_cast<double>(std::numeric_limits<T>::max()) * 1e-6);
  });
  add("triangular", [&](int64_t i, int64_t j) { return i <= j ? d(i + 2 * j + 1) : 0.0; });
  return out;
}

template <typename T>
double unit_of(const Wide& a) {
  const double n = static_cast<double>(std::max<int64_t>({a.m, a.n, 1}));
  return n * static_cast<double>(std::numeric_limits<T>::epsilon());
}
template <typename T>
void expect_orthonormal(const Wide& columns, const std::string& what) {
  const Wide product = turned(columns) * columns;
  EXPECT_LE(size_of(product - unit(columns.n)), kRatio * unit_of<T>(columns)) << what;
}
template <typename T>
void expect_same(const Wide& a, const Wide& b, const std::string& what, double growth = 1) {
  EXPECT_LE(size_of(a - b), kRatio * unit_of<T>(b) * size_of(b) * growth) << what;
}

struct Shape {
  int64_t m, n;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 3},   {3, 1},   {2, 2},   {5, 5},  {7, 4},
                             {4, 7}, {24, 24}, {40, 40}, {33, 17}, {17, 33}};

template <typename T>
class Decompositions : public testing::Test {
 protected:
  // f(problem of the matrix, matrix, its name), both ways.
  template <typename F>
  void all(bool square, F f) {
    for (const bool library : {true, false}) {
      if (library && lapack<T>() == nullptr) continue;
      for (const Shape& s : kShapes) {
        if (square && s.m != s.n) continue;
        for (const auto& [name, a] : matrices<T>(s.m, s.n)) {
          Problem p{};
          p.m = s.m;
          p.n = s.n;
          p.library = library;
          f(p, a,
            name + " " + std::to_string(s.m) + "x" + std::to_string(s.n) +
                (library ? " by LAPACK" : " by ours"));
        }
      }
    }
  }
};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Decompositions, Reals);

TYPED_TEST(Decompositions, Lu) {
  using T = TypeParam;
  this->all(false, [](Problem p, const Matrix<T>& a, const std::string& what) {
    const int64_t k = std::min(p.m, p.n);
    p.what = What::kLu;
    const Answer<T> r = answer(p, a);
    ASSERT_EQ(r.trouble, "") << what;
    const Wide l = r.result(1, p.m, k), u = r.result(2, k, p.n);
    // Elimination is right to the largest element on its way: 2^39 in a Wilkinson matrix of 40.
    const double growth =
        std::max(1.0, size_of(u) / std::max(size_of(wide(a)),
                                            static_cast<double>(std::numeric_limits<T>::min())));
    expect_same<T>(r.result(0, p.m, p.m) * (l * u), wide(a), what, growth);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        EXPECT_EQ(j >= i ? l(i, j) : 0, i == j) << what;
        EXPECT_LE(std::abs(l(i, j)), 1) << what;
        EXPECT_EQ(i < k && j < i ? u(i, j) : 0, 0) << what;
      }
    }
    p.what = What::kLuFactor;
    const Answer<T> packed = answer(p, a);
    const Wide both = packed.result(0, p.m, p.n), rows = packed.result(1, p.m, 1);
    for (int64_t i = 0; i < p.m; ++i) {
      EXPECT_EQ(r.result(0, p.m, p.m)(static_cast<int64_t>(rows(i, 0)), i), 1) << what;
      for (int64_t j = 0; j < p.n; ++j) EXPECT_EQ(both(i, j), i > j ? l(i, j) : u(i, j)) << what;
    }
  });
}

TYPED_TEST(Decompositions, Qr) {
  using T = TypeParam;
  this->all(false, [](Problem p, const Matrix<T>& a, const std::string& what) {
    p.what = What::kQr;
    for (const bool reduced : {false, true}) {
      p.reduced = reduced;
      const int64_t columns = reduced ? std::min(p.m, p.n) : p.m;
      const Answer<T> found = answer(p, a);
      ASSERT_EQ(found.trouble, "") << what;
      const Wide q = found.result(0, p.m, columns), r = found.result(1, columns, p.n);
      expect_same<T>(q * r, wide(a), what);
      expect_orthonormal<T>(q, what);
      for (int64_t i = 0; i < columns; ++i) {
        for (int64_t j = 0; j < std::min(i, p.n); ++j) EXPECT_EQ(r(i, j), 0) << what;
      }
      // The first step turns the first column to minus its sign.
      EXPECT_TRUE(a(0, 0) <= T(0) || r(0, 0) < 0) << what;
    }
  });
}

TYPED_TEST(Decompositions, Svd) {
  using T = TypeParam;
  this->all(false, [](Problem p, const Matrix<T>& a, const std::string& what) {
    const int64_t k = std::min(p.m, p.n);
    p.what = What::kSvdValues;
    const Answer<T> values = answer(p, a);
    ASSERT_EQ(values.trouble, "") << what;
    p.what = What::kSvd;
    for (const bool reduced : {false, true}) {
      p.reduced = reduced;
      const Answer<T> found = answer(p, a);
      ASSERT_EQ(found.trouble, "") << what;
      const Wide u = found.result(0, p.m, reduced ? k : p.m), s = found.result(1, k, 1),
                 vt = found.result(2, reduced ? k : p.n, p.n);
      expect_orthonormal<T>(u, what);
      expect_orthonormal<T>(turned(vt), what);
      Wide middle(u.n, vt.m);
      for (int64_t i = 0; i < k; ++i) middle(i, i) = s(i, 0);
      expect_same<T>(u * middle * vt, wide(a), what);
      for (int64_t i = 0; i < k; ++i) {
        EXPECT_GE(s(i, 0), 0) << what;
        EXPECT_TRUE(i == 0 || s(i - 1, 0) >= s(i, 0)) << what;
        EXPECT_NEAR(static_cast<double>(values.results[0][static_cast<size_t>(i)] - s(i, 0)), 0,
                    kRatio * unit_of<T>(u) * static_cast<double>(s(0, 0)))
            << what;
      }
    }
  });
}

TYPED_TEST(Decompositions, SymmetricEigenvalues) {
  using T = TypeParam;
  this->all(true, [](Problem p, Matrix<T> a, const std::string& what) {
    if (what.starts_with("huge")) return;  // sums of two elements overflow
    Wide whole(p.n, p.n);
    for (const bool upper : {false, true}) {
      for (int64_t i = 0; i < p.n; ++i) {
        for (int64_t j = 0; j < p.n; ++j)
          whole(i, j) = (upper ? i <= j : i >= j) ? a(i, j) : a(j, i);
      }
      Matrix<T> half = a;
      for (int64_t i = 0; i < p.n; ++i) {  // what is not looked at
        for (int64_t j = 0; j < i; ++j)
          (upper ? half(i, j) : half(j, i)) = std::numeric_limits<T>::quiet_NaN();
      }
      p.upper = upper;
      p.what = What::kEigh;
      const Answer<T> found = answer(p, half);
      ASSERT_EQ(found.trouble, "") << what;
      const Wide w = found.result(0, p.n, 1), v = found.result(1, p.n, p.n);
      expect_orthonormal<T>(v, what);
      Wide middle(p.n, p.n);
      for (int64_t i = 0; i < p.n; ++i) middle(i, i) = w(i, 0);
      expect_same<T>(v * middle * turned(v), whole, what);
      p.what = What::kEighValues;
      const Wide values = answer(p, half).result(0, p.n, 1);
      EXPECT_LE(size_of(values - w), kRatio * unit_of<T>(whole) * size_of(whole)) << what;
      for (int64_t i = 1; i < p.n; ++i) EXPECT_LE(w(i - 1, 0), w(i, 0)) << what;
    }
  });
}

// a v = v d, v of length 1; the pairs of complex values one behind the other.
TYPED_TEST(Decompositions, Eigenvalues) {
  using T = TypeParam;
  this->all(true, [](Problem p, const Matrix<T>& a, const std::string& what) {
    const int64_t n = p.n;
    p.what = What::kEig;
    const Answer<T> found = answer(p, a);
    ASSERT_EQ(found.trouble, "") << what;
    const Wide re = found.result(0, n, 1), im = found.result(1, n, 1), v = found.result(2, n, n);
    Wide d(n, n);
    long double trace = 0;
    for (int64_t j = 0; j < n; ++j) {
      trace += re(j, 0) - wide(a)(j, j);
      d(j, j) = re(j, 0);
      if (im(j, 0) > 0) {
        ASSERT_EQ(im(j + 1, 0), -im(j, 0)) << what;
        d(j, j + 1) = im(j, 0);
        d(j + 1, j) = -im(j, 0);
      }
      long double length = 0;
      const int64_t columns = im(j, 0) != 0 ? 2 : 1, from = im(j, 0) < 0 ? j - 1 : j;
      for (int64_t c = from; c < from + columns; ++c) {
        for (int64_t i = 0; i < n; ++i) length += v(i, c) * v(i, c);
      }
      EXPECT_NEAR(static_cast<double>(length), 1, kRatio * unit_of<T>(v)) << what;
    }
    const Wide left = wide(a) * v, right = v * d;
    EXPECT_LE(size_of(left - right), kRatio * unit_of<T>(left) * size_of(wide(a))) << what;
    EXPECT_LE(std::abs(static_cast<double>(trace)), kRatio * unit_of<T>(left) * size_of(wide(a)))
        << what;
    p.what = What::kEigValues;
    EXPECT_EQ(answer(p, a).trouble, "") << what;
  });
}

// Of a^T a and a multiple of 1: both triangles, NaN in the other one.
TYPED_TEST(Decompositions, Cholesky) {
  using T = TypeParam;
  this->all(true, [](Problem p, const Matrix<T>& x, const std::string& what) {
    if (what.starts_with("huge") || what.starts_with("graded")) return;
    const int64_t n = p.n;
    const Wide product = turned(wide(x)) * wide(x);
    for (const bool upper : {false, true}) {
      Matrix<T> a(n, n);
      Wide whole(n, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          whole(i, j) = static_cast<T>(product(i, j) + (i == j) * (1 + size_of(product)));
          a(i, j) = (upper ? j < i : j > i) ? std::numeric_limits<T>::quiet_NaN()
                                            : static_cast<T>(whole(i, j));
        }
      }
      p.what = What::kCholesky;
      p.upper = upper;
      const Answer<T> found = answer(p, a);
      ASSERT_EQ(found.trouble, "") << what;
      const Wide r = found.result(0, n, n);
      expect_same<T>(upper ? turned(r) * r : r * turned(r), whole, what);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) EXPECT_EQ(upper ? r(j, i) : r(i, j), 0) << what;
      }
      a(n / 2, n / 2) = T(-1);
      const Answer<T> none = answer(p, a);
      EXPECT_NE(none.trouble.find("not positive definite"), std::string::npos) << what;
      EXPECT_EQ(none.at, n / 2 + 1) << what;
    }
  });
}

bool regular(const std::string& what) {
  return what.starts_with("random") || what.starts_with("unit") || what.starts_with("repeated") ||
         what.starts_with("triangular");
}

TYPED_TEST(Decompositions, SolutionsAndInverses) {
  using T = TypeParam;
  this->all(true, [](Problem p, const Matrix<T>& a, const std::string& what) {
    const int64_t n = p.n;
    if (!regular(what)) return;
    for (const int64_t columns : {1, 3}) {
      Matrix<T> b(n, columns);
      for (size_t i = 0; i < b.at.size(); ++i) b.at[i] = static_cast<T>(i % 5) - T(2.5);
      for (const bool turn : {false, true}) {
        p.what = What::kSolve;
        p.columns = columns;
        p.turned = turn;
        const Answer<T> found = answer(p, a, &b);
        ASSERT_EQ(found.trouble, "") << what;
        const Wide x = found.result(0, n, columns), m = turn ? turned(wide(a)) : wide(a);
        EXPECT_LE(size_of(m * x - wide(b)), kRatio * unit_of<T>(m) * size_of(m) * size_of(x))
            << what;
        for (const bool upper : {false, true}) {
          for (const bool unit_diagonal : {false, true}) {
            Wide t(n, n);
            Matrix<T> half(n, n);
            for (int64_t i = 0; i < n; ++i) {
              for (int64_t j = 0; j < n; ++j) {
                const bool in = upper ? i < j : i > j;
                half(i, j) = in || (i == j && !unit_diagonal) ? a(i, j) / static_cast<T>(n)
                                                              : std::numeric_limits<T>::quiet_NaN();
                if (i == j && !unit_diagonal) half(i, i) += T(2);
                t(i, j) = in || (i == j && !unit_diagonal) ? half(i, j) : T(i == j);
              }
            }
            p.what = What::kTriangular;
            p.upper = upper;
            p.unit = unit_diagonal;
            const Answer<T> y = answer(p, half, &b);
            ASSERT_EQ(y.trouble, "") << what;
            const Wide f = turn ? turned(t) : t, z = y.result(0, n, columns);
            EXPECT_LE(size_of(f * z - wide(b)), kRatio * unit_of<T>(f) * size_of(f) * size_of(z))
                << what;
            if (unit_diagonal) continue;
            half(n - 1, n - 1) = T(0);
            const Answer<T> none = answer(p, half, &b);
            EXPECT_NE(none.trouble.find("singular"), std::string::npos) << what;
            EXPECT_EQ(none.at, n - 1) << what;
          }
        }
      }
    }
    p.what = What::kInverse;
    const Wide x = answer(p, a).result(0, n, n);
    EXPECT_LE(size_of(wide(a) * x - unit(n)),
              kRatio * unit_of<T>(x) * size_of(wide(a)) * size_of(x))
        << what;
  });
}

TYPED_TEST(Decompositions, SingularOnesNameTheirPivot) {
  using T = TypeParam;
  for (const bool library : {true, false}) {
    Matrix<T> a(3, 3), b(3, 1);
    const T rows[] = {1, 2, 3, 2, 4, 6, 0, 0, 5};
    std::copy(std::begin(rows), std::end(rows), a.at.begin());
    for (const What what : {What::kSolve, What::kInverse}) {
      Problem p{};
      p.what = what;
      p.m = p.n = 3;
      p.columns = 1;
      p.library = library;
      const Answer<T> found = answer(p, a, &b);
      EXPECT_NE(found.trouble.find("singular: pivot"), std::string::npos);
      EXPECT_GE(found.at, 1);
      EXPECT_LE(found.at, 2);
    }
    Problem p{};
    p.what = What::kDeterminant;
    p.m = p.n = 3;
    p.library = library;
    const Answer<T> zero = answer(p, a);
    EXPECT_EQ(zero.results[0][0], T(0));
    EXPECT_EQ(zero.results[1][0], T(0));
    EXPECT_EQ(zero.results[2][0], -std::numeric_limits<T>::infinity());
    a.at = {0, 2, 0, 3, 0, 0, 0, 0, std::numeric_limits<T>::max() / 4};
    const Answer<T> large = answer(p, a);  // -6 max / 4 overflows, its logarithm does not
    EXPECT_EQ(large.results[0][0], -std::numeric_limits<T>::infinity());
    EXPECT_EQ(large.results[1][0], T(-1));
    EXPECT_NEAR(large.results[2][0], std::log(6.0) + std::log(double(a.at[8])), 1e-3);
    a.at[8] = std::numeric_limits<T>::min();
    EXPECT_EQ(answer(p, a).results[0][0], T(-6) * std::numeric_limits<T>::min());
  }
}

TYPED_TEST(Decompositions, WhatIsNotFiniteIsSaid) {
  using T = TypeParam;
  for (const bool library : {true, false}) {
    for (const What what : {What::kSvd, What::kSvdValues, What::kEigh, What::kEighValues,
                            What::kEig, What::kEigValues, What::kExpm}) {
      for (const T bad :
           {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
        Matrix<T> a(4, 4);
        a(2, 1) = bad;
        Problem p{};
        p.what = what;
        p.m = p.n = 4;
        p.library = library;
        EXPECT_NE(answer(p, a).trouble.find("not finite"), std::string::npos) << name_of(what);
      }
    }
  }
}

// Our own iterations end, with a count, where none converges: here because of NaN, which the
// functions above have refused before.
TYPED_TEST(Decompositions, IterationsEnd) {
  using T = TypeParam;
  constexpr int64_t kSize = 4;
  std::vector<T> a(kSize * kSize, std::numeric_limits<T>::quiet_NaN());
  std::vector<T> s(kSize), u(kSize * kSize), v(kSize * kSize), work(64);
  const std::vector<T> given = a;
  EXPECT_EQ(own::svd(kSize, kSize, a.data(), s.data(), u.data(), kSize, v.data(), work.data()), 1);
  a = given;
  EXPECT_GT(own::eigh(kSize, a.data(), s.data(), true, work.data()), 0);
  std::vector<Stubborn> h, none;
  for (size_t i = 0; i < kSize * kSize; ++i) h.emplace_back(static_cast<double>(i * 5 % 7));
  EXPECT_EQ(own::schur(kSize, h.data(), static_cast<Stubborn*>(nullptr)), kSize);
}

// exp by 40 squarings of a Taylor polynomial in long double.
TYPED_TEST(Decompositions, Exponentials) {
  using T = TypeParam;
  for (const bool library : {true, false}) {
    for (const int64_t n : {1, 3, 8}) {
      for (const double size : {0.01, 1.0, 12.0}) {
        Matrix<T> a(n, n);
        for (int64_t i = 0; i < n * n; ++i)
          a.at[static_cast<size_t>(i)] =
              static_cast<T>(size * (static_cast<double>(i * 7 % 11) - 5) / 10);
        Problem p{};
        p.what = What::kExpm;
        p.m = p.n = n;
        p.library = library;
        const Wide found = answer(p, a).result(0, n, n);
        Wide x = wide(a), sum = unit(n), power = unit(n);
        for (long double& v : x.at) v = std::ldexp(v, -12);
        for (int i = 1; i < 12; ++i) {
          power = power * x;
          for (long double& v : power.at) v /= i;
          sum = sum - power;
          for (size_t e = 0; e < sum.at.size(); ++e) sum.at[e] += 2 * power.at[e];
        }
        for (int i = 0; i < 12; ++i) sum = sum * sum;
        EXPECT_LE(size_of(found - sum), 300 * unit_of<T>(sum) * size_of(sum)) << n << " " << size;
      }
    }
  }
}

// Of many panels and strips, which threads share: a = p l u, and the same bits with any threads.
template <typename T>
void hold_large_lu(int64_t m, int64_t n) {
  const Matrix<T> a = matrices<T>(m, n)[0].second;
  const int64_t k = std::min(m, n);
  Problem p{};
  p.what = What::kLu;
  p.m = m;
  p.n = n;
  p.library = true;
  const Answer<T> alone = answer(p, a);
  const Wide made = alone.result(0, m, m) * (alone.result(1, m, k) * alone.result(2, k, n));
  const double unit = static_cast<double>(std::max(m, n)) *
                      static_cast<double>(std::numeric_limits<T>::epsilon()) * size_of(wide(a));
  EXPECT_LT(size_of(wide(a) - made), kRatio * unit) << m << " " << n;
  for (const T x : alone.results[1]) ASSERT_LE(std::abs(x), T(1));  // partial pivoting
  for (const int threads : {2, 5}) {
    const pool::Spare spare(threads);
    EXPECT_EQ(answer(p, a).results, alone.results) << threads << " threads";
  }
  Matrix<T> lies(n, m);  // as its transpose
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) lies(j, i) = a(i, j);
  }
  p.turned = true;
  EXPECT_EQ(answer(p, lies).results, alone.results);
}
TEST(Linalg, LargeLuIsSharedByThreads) {
  constexpr int64_t kSizes[][2] = {{300, 300}, {190, 420}, {420, 190}, {33, 400}, {400, 40}};
  for (const auto& [m, n] : kSizes) {
    hold_large_lu<double>(m, n);
    hold_large_lu<float>(m, n);
  }
}

template <typename T>
void hold_large_qr(int64_t m, int64_t n, bool reduced) {
  if (lapack<T>() == nullptr) GTEST_SKIP() << "no LAPACK";
  const Matrix<T> a = matrices<T>(m, n)[0].second;
  Problem p{};
  p.what = What::kQr;
  p.m = m;
  p.n = n;
  p.library = true;
  p.reduced = reduced;
  const int64_t columns = reduced ? std::min(m, n) : m;
  const Answer<T> alone = answer(p, a);
  const Wide q = alone.result(0, m, columns);
  expect_orthonormal<T>(q, "q");
  expect_same<T>(q * alone.result(1, columns, n), wide(a), "a");
  for (const int threads : {2, 5}) {
    const pool::Spare spare(threads);
    EXPECT_EQ(answer(p, a).results, alone.results) << threads << " threads";
  }
}
TEST(Linalg, LargeQrIsSharedByThreads) {
  constexpr int64_t kSizes[][2] = {{300, 300}, {190, 420}, {420, 190}, {33, 400}, {400, 40}};
  for (const auto& [m, n] : kSizes) {
    hold_large_qr<double>(m, n, true);
    hold_large_qr<float>(m, n, m > n);
  }
}

TEST(Lapack, IsThatOfOpenBlas) {
  if (!blas().available) GTEST_SKIP() << "no BLAS";
  ASSERT_NE(blas().library, nullptr);
  ASSERT_NE(lapack<float>(), nullptr);
  EXPECT_NE(lapack<double>()->getrf, nullptr);
}

TEST(Linalg, SizesBeyondWhatIsCounted) {
  Problem p{};
  p.what = What::kSvd;
  p.dtype = DType::kFloat64;
  p.m = p.n = 1 << 20;
  EXPECT_EQ(check(p).code, ASTER_ML_RANGE);
  p.n = 8;
  EXPECT_TRUE(check(p).ok());
}

}  // namespace
}  // namespace aster::runtime::cpu::linalg
