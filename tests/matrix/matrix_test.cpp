// Matrices of fixed size, without the library; tests/cpp compiles the same as C++17.
#include "aster_ml/matrix.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "aster_ml/buffer.h"

namespace matrix_test {
namespace {

using namespace aster_ml;

// ---- In constant expressions ----

constexpr matrix<float, 2, 2> kTwo({{1, 2}, {3, 4}});
static_assert(determinant(kTwo) == -2);
static_assert(kTwo * kTwo == matrix<float, 2, 2>({{7, 10}, {15, 22}}));
static_assert(transpose(kTwo)(0, 1) == 3);
static_assert(kTwo * vec2<float>{{1, 1}} == vec2<float>{{3, 7}});
constexpr matrix<int32_t, 3, 3> kWhole({{2, 1, 0}, {1, 1, 0}, {4, 3, 1}});
static_assert(determinant(kWhole) == 1);
constexpr matrix<int32_t, 3, 3> inverted() {
  matrix<int32_t, 3, 3> out;
  return inverse(out, kWhole) ? out : out;
}
static_assert(inverted() * kWhole == matrix<int32_t, 3, 3>::identity());
static_assert(pack(kWhole)[3] == 1 && unpack(pack(kWhole)) == kWhole);
static_assert(dot(vec3<int>{{1, 2, 3}}, vec3<int>{{4, 5, 6}}) == 32);

static_assert(std::is_trivially_copyable_v<matrix<float, 4, 4>>);
static_assert(std::is_trivially_copyable_v<vec4<float>>);

// ---- Products of every size against sums, for every element ----

template <class T>
T number(std::mt19937& random) {
  return static_cast<T>(static_cast<int>(random() % 7) - (std::is_unsigned_v<T> ? 0 : 3));
}
template <class T, size_t R, size_t C>
matrix<T, R, C> random_matrix(std::mt19937& random) {
  matrix<T, R, C> out;
  for (size_t i = 0; i < R; ++i) {
    for (size_t j = 0; j < C; ++j) out(i, j) = number<T>(random);
  }
  return out;
}

template <class T, size_t R, size_t K, size_t C>
void expect_product(std::mt19937& random) {
  const auto a = random_matrix<T, R, K>(random);
  const auto b = random_matrix<T, K, C>(random);
  const auto out = a * b;
  for (size_t i = 0; i < R; ++i) {
    for (size_t j = 0; j < C; ++j) {
      T sum = 0;
      for (size_t k = 0; k < K; ++k) sum = static_cast<T>(sum + static_cast<T>(a(i, k) * b(k, j)));
      EXPECT_EQ(out(i, j), sum) << R << " " << K << " " << C << " of " << sizeof(T);
    }
  }
  // Padding stays 0.
  for (size_t j = 0; j < C; ++j) {
    for (size_t i = R; i < out.stride; ++i) EXPECT_EQ(out.column(j)[i], T(0));
  }
  vec<T, K> x;
  for (size_t k = 0; k < K; ++k) x[k] = b(k, 0);
  const vec<T, R> y = a * x;
  for (size_t i = 0; i < R; ++i) EXPECT_EQ(y[i], out(i, 0));
}

template <class T>
void expect_products() {
  std::mt19937 random(1);
  expect_product<T, 1, 1, 1>(random);
  expect_product<T, 2, 2, 2>(random);
  expect_product<T, 3, 3, 3>(random);
  expect_product<T, 4, 4, 4>(random);
  expect_product<T, 3, 2, 4>(random);
  expect_product<T, 5, 7, 6>(random);
  expect_product<T, 8, 8, 8>(random);
  expect_product<T, 15, 3, 15>(random);
  expect_product<T, 16, 16, 16>(random);
  expect_product<T, 20, 17, 2>(random);
}
TEST(Matrix, ProductsOfEveryElement) {
  expect_products<float>();
  expect_products<double>();
  expect_products<int8_t>();
  expect_products<uint8_t>();
  expect_products<int16_t>();
  expect_products<uint16_t>();
  expect_products<int32_t>();
  expect_products<uint32_t>();
  expect_products<int64_t>();
  expect_products<uint64_t>();
}

TEST(Matrix, NineNumbersWithoutPadding) {
  std::mt19937 random(2);
  const auto m = random_matrix<float, 3, 3>(random);
  const vec9<float> packed = pack(m);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(packed[i], m(i % 3, i / 3));
  EXPECT_EQ(unpack(packed), m);
  EXPECT_EQ(unpack(packed).column(1)[3], 0);
}

TEST(Matrix, IntegersWrap) {
  const matrix<int32_t, 2, 2> a({{INT32_MAX, 1}, {0, 1}}), b({{2, 0}, {0, 1}});
  EXPECT_EQ((a * b)(0, 0), -2);
  EXPECT_EQ((a + a)(0, 0), -2);
  const matrix<int8_t, 2, 2> c({{100, 0}, {0, 1}});
  EXPECT_EQ((c * c)(0, 0), static_cast<int8_t>(10000));
}

// ---- Inverses and solutions ----

template <class T, size_t N>
void expect_inverse(double tolerance) {
  std::mt19937 random(N);
  std::normal_distribution<double> normal;
  for (int turn = 0; turn < 50; ++turn) {
    matrix<T, N, N> a, inverted;
    matrix<T, N, 2> sides, x;
    for (size_t i = 0; i < N; ++i) {
      for (size_t j = 0; j < N; ++j) a(i, j) = static_cast<T>(normal(random));
      for (size_t j = 0; j < 2; ++j) sides(i, j) = static_cast<T>(normal(random));
      a(i, i) += T(4);
    }
    ASSERT_TRUE(inverse(inverted, a));
    ASSERT_TRUE(solve(x, a, sides));
    const auto one = a * inverted;
    const auto back = a * x;
    for (size_t i = 0; i < N; ++i) {
      for (size_t j = 0; j < N; ++j) EXPECT_NEAR(one(i, j), i == j ? 1 : 0, tolerance);
      for (size_t j = 0; j < 2; ++j) EXPECT_NEAR(back(i, j), sides(i, j), tolerance);
    }
    // By the determinant of the inverse, and by swapping two rows.
    EXPECT_NEAR(static_cast<double>(determinant(a)) * static_cast<double>(determinant(inverted)), 1,
                tolerance * 10);
    if (N > 1) {
      matrix<T, N, N> swapped = a;
      for (size_t j = 0; j < N; ++j) std::swap(swapped(0, j), swapped(1 % N, j));
      EXPECT_NEAR(static_cast<double>(determinant(swapped)), -static_cast<double>(determinant(a)),
                  tolerance * std::fabs(static_cast<double>(determinant(a))) * 10);
    }
  }
}
TEST(Matrix, InversesAndSolutions) {
  expect_inverse<double, 1>(1e-12);
  expect_inverse<double, 2>(1e-11);
  expect_inverse<double, 3>(1e-11);
  expect_inverse<double, 4>(1e-11);
  expect_inverse<double, 8>(1e-10);
  expect_inverse<float, 3>(1e-3);
  expect_inverse<float, 4>(1e-3);
}

TEST(Matrix, SingularOnesAreRefusedAndNothingIsWritten) {
  const matrix<double, 3, 3> a({{1, 2, 3}, {2, 4, 6}, {1, 0, 1}});
  matrix<double, 3, 3> out({{7, 7, 7}, {7, 7, 7}, {7, 7, 7}});
  const auto before = out;
  EXPECT_FALSE(inverse(out, a));
  EXPECT_EQ(out, before);
  EXPECT_EQ(determinant(a), 0);
  const matrix<double, 2, 2> zero, odd({{NAN, 1}, {1, 1}});
  matrix<double, 2, 2> other;
  EXPECT_FALSE(inverse(other, zero));
  EXPECT_FALSE(inverse(other, odd));
  EXPECT_TRUE(std::isnan(determinant(odd)));
  // A zero on the diagonal is no singular matrix.
  EXPECT_TRUE(inverse(other, matrix<double, 2, 2>({{0, 1}, {1, 0}})));
  EXPECT_EQ(determinant(matrix<double, 2, 2>({{0, 1}, {1, 0}})), -1);
}

TEST(Matrix, WholeSolutions) {
  const matrix<int, 2, 2> a({{2, 1}, {1, 1}});
  vec2<int> x;
  EXPECT_TRUE(solve(x, a, vec2<int>{{5, 3}}));
  EXPECT_EQ(x, (vec2<int>{{2, 1}}));
  const matrix<int, 2, 2> two({{2, 0}, {0, 2}});
  EXPECT_FALSE(solve(x, two, vec2<int>{{1, 2}}));
  EXPECT_EQ(x, (vec2<int>{{2, 1}}));
  EXPECT_TRUE(solve(x, two, vec2<int>{{4, -2}}));
  EXPECT_EQ(x, (vec2<int>{{2, -1}}));
  // Against expansion by minors.
  std::mt19937 random(4);
  for (int turn = 0; turn < 200; ++turn) {
    const auto m = random_matrix<int64_t, 4, 4>(random);
    int64_t sum = 0;
    for (size_t k = 0; k < 4; ++k) {
      matrix<int64_t, 3, 3> minor;
      for (size_t i = 1; i < 4; ++i) {
        for (size_t j = 0, to = 0; j < 4; ++j) {
          if (j != k) minor(i - 1, to++) = m(i, j);
        }
      }
      const auto& n = minor;
      const int64_t part = n(0, 0) * (n(1, 1) * n(2, 2) - n(1, 2) * n(2, 1)) -
                           n(0, 1) * (n(1, 0) * n(2, 2) - n(1, 2) * n(2, 0)) +
                           n(0, 2) * (n(1, 0) * n(2, 1) - n(1, 1) * n(2, 0));
      sum += (k % 2 == 0 ? 1 : -1) * m(0, k) * part;
    }
    EXPECT_EQ(determinant(m), sum);
  }
}

// ---- Sticky integers ----

static_assert(tbb8(100) + tbb8(27) == tbb8(127) && (tbb8(100) + tbb8(28)).is_error());
static_assert(matrix<tbb8, 2, 2>({{1, 2}, {3, 4}}) * matrix<tbb8, 2, 2>::identity() ==
              matrix<tbb8, 2, 2>({{1, 2}, {3, 4}}));
static_assert(std::is_trivially_copyable_v<matrix<tbb16, 3, 3>> && sizeof(tbb32) == 4);
static_assert(!std::is_convertible_v<tbb8, tbb16> && !std::is_constructible_v<tbb8, double>);

// Every pair, as what integers of 32 bits say.
TEST(Matrix, StickyPairs) {
  const auto checked = [](int value) { return value < -127 || value > 127 ? -128 : value; };
  for (int a = -128; a < 128; ++a) {
    for (int b = -128; b < 128; ++b) {
      const tbb8 x(a), y(b);
      const bool error = a == -128 || b == -128, by_zero = error || b == 0;
      EXPECT_EQ((x + y).pattern(), error ? -128 : checked(a + b));
      EXPECT_EQ((x - y).pattern(), error ? -128 : checked(a - b));
      EXPECT_EQ((x * y).pattern(), error ? -128 : checked(a * b));
      EXPECT_EQ((x / y).pattern(), by_zero ? -128 : a / b);
      EXPECT_EQ((x % y).pattern(), by_zero ? -128 : a % b);
      EXPECT_EQ(x == y, a == b);
      EXPECT_EQ(x < y, !error && a < b);
      EXPECT_EQ(x <= y, !error && a <= b);
      EXPECT_EQ(x > y, !error && a > b);
      EXPECT_EQ(x >= y, !error && a >= b);
    }
    EXPECT_EQ(tbb64(tbb8(a)), a == -128 ? tbb64::error() : tbb64(a));
    EXPECT_EQ((-tbb8(a)).pattern(), a == -128 ? -128 : -a);
    EXPECT_EQ(tbb8(a).value_or(5), a == -128 ? 5 : a);
  }
  EXPECT_TRUE(tbb8(UINT64_MAX).is_error() && tbb64(UINT64_MAX).is_error() && tbb8(-200).is_error());
  EXPECT_TRUE(tbb8(tbb16(128)).is_error());
}

// Products against 128 bits, ERR in rows and columns; sums that only fit at their end.
template <class T>
void sticky_products() {
  using Stored = decltype(T().pattern());
  std::mt19937_64 random(7);
  __extension__ typedef __int128 Exact;
  __extension__ typedef unsigned __int128 Wrapping;
  for (int turn = 0; turn < 2000; ++turn) {
    matrix<T, 3, 4> a;
    matrix<T, 4, 2> b;
    const auto draw = [&] {
      const auto bits = static_cast<Stored>(random() >> random() % 64);
      return random() % 12 == 0 ? T::error() : bits == T::error().pattern() ? T() : T(bits);
    };
    for (size_t i = 0; i < 12; ++i) a(i % 3, i / 3) = draw();
    for (size_t i = 0; i < 8; ++i) b(i % 4, i / 4) = draw();
    const auto out = a * b;
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        long double near = 0;
        Exact sum = 0;
        bool error = false;
        for (size_t k = 0; k < 4; ++k) {
          error = error || a(i, k).is_error() || b(k, j).is_error();
          const Exact term = Exact{a(i, k).pattern()} * b(k, j).pattern();
          near += static_cast<long double>(term);
          sum = static_cast<Exact>(static_cast<Wrapping>(sum) + static_cast<Wrapping>(term));
        }
        // What 128 bits do not hold is far from fitting.
        error = error || near > 0x1p70L || near < -0x1p70L || sum > T::most() || sum < -T::most();
        EXPECT_EQ(out(i, j), error ? T::error() : T(static_cast<int64_t>(sum)));
        vec<T, 4> row, column;
        for (size_t k = 0; k < 4; ++k) row[k] = a(i, k), column[k] = b(k, j);
        EXPECT_EQ(dot(row, column), out(i, j));
      }
    }
  }
}
TEST(Matrix, StickyProductsAreCheckedOnce) {
  sticky_products<tbb8>();
  sticky_products<tbb16>();
  sticky_products<tbb32>();
  sticky_products<tbb64>();
  const vec3<tbb8> big{{100, 100, 100}}, signs{{1, 1, -1}};
  EXPECT_EQ(dot(big, signs), tbb8(100));
  const int64_t most = tbb64::most();
  EXPECT_EQ(dot(vec4<tbb64>{{most, most, 1, 7}}, vec4<tbb64>{{most, -most, 1, 1}}), tbb64(8));
  EXPECT_TRUE(
      dot(vec4<tbb64>{{most, most, most, most}}, vec4<tbb64>{{most, most, most, most}}).is_error());
}

TEST(Matrix, StickyDeterminantsAndSolutions) {
  std::mt19937 random(8);
  for (int turn = 0; turn < 300; ++turn) {
    const auto m = random_matrix<int64_t, 4, 4>(random);
    matrix<tbb16, 4, 4> a;
    matrix<tbb8, 4, 4> narrow;
    for (size_t i = 0; i < 16; ++i) {
      a(i % 4, i / 4) = tbb16(m(i % 4, i / 4));
      narrow(i % 4, i / 4) = tbb8(m(i % 4, i / 4));
    }
    const int64_t whole = determinant(m);
    EXPECT_EQ(determinant(a), tbb16(whole));
    EXPECT_EQ(determinant(narrow), tbb8(whole));  // ERR beyond 127
    vec4<tbb16> x{{3, -1, 2, 5}}, found;
    EXPECT_EQ(solve(found, a, a * x), whole != 0);
    if (whole != 0) {
      EXPECT_EQ(found, x);
    }
  }
  matrix<tbb8, 2, 2> out({{1, 2}, {3, 4}});
  const auto before = out;
  for (const auto& bad : {matrix<tbb8, 2, 2>({{tbb8::error(), 1}, {0, 1}}),
                          matrix<tbb8, 2, 2>({{2, 0}, {0, 1}}), matrix<tbb8, 2, 2>()}) {
    EXPECT_FALSE(inverse(out, bad));
    EXPECT_EQ(out, before);
  }
  EXPECT_TRUE(determinant(matrix<tbb8, 2, 2>({{tbb8::error(), 1}, {0, 1}})).is_error());
  EXPECT_TRUE(inverse(out, matrix<tbb8, 2, 2>({{2, 1}, {1, 1}})));
  EXPECT_EQ(out, (matrix<tbb8, 2, 2>({{1, -1}, {-1, 2}})));
}

// ---- Another type of elements ----

struct Sticky {  // -128 is an error, which stays
  int8_t value = 0;
};

}  // namespace
}  // namespace matrix_test

template <>
struct aster_ml::element_traits<matrix_test::Sticky, void> {
  using T = matrix_test::Sticky;
  static constexpr bool is_exact = true, is_vector = false, is_std140 = false;
  static constexpr T made(int value, T a, T b) {
    const bool bad = a.value == -128 || b.value == -128 || value < -127 || value > 127;
    return T{static_cast<int8_t>(bad ? -128 : value)};
  }
  static constexpr T zero() { return T{0}; }
  static constexpr T one() { return T{1}; }
  static constexpr T add(T a, T b) { return made(a.value + b.value, a, b); }
  static constexpr T sub(T a, T b) { return made(a.value - b.value, a, b); }
  static constexpr T mul(T a, T b) { return made(a.value * b.value, a, b); }
};

namespace matrix_test {
namespace {

TEST(Matrix, ElementsThatDefineTheirOwnArithmetic) {
  matrix<Sticky, 2, 2> a({{{1}, {2}}, {{3}, {4}}}), b = a;
  EXPECT_EQ((a * b)(1, 1).value, 22);
  EXPECT_EQ(determinant(a).value, -2);
  a(0, 1).value = -128;
  const auto out = a * b;
  EXPECT_EQ(out(0, 0).value, -128);  // row 0 is infected, row 1 is not
  EXPECT_EQ(out(0, 1).value, -128);
  EXPECT_EQ(out(1, 0).value, 15);
}

// ---- Views ----

TEST(Matrix, ViewsOfDescriptorsAreInPlace) {
  std::vector<float> data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  size_t shape[] = {4, 3};
  ptrdiff_t strides[] = {6, -1};
  aster_ml_tensor t{};
  t.storage = {data.data(), data.size() * 4, ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
  t.byte_offset = 8;
  t.ndim = 2;
  t.shape = shape;
  t.strides = strides;
  t.dtype = ASTER_ML_DTYPE_FLOAT32;
  const auto v = view_of<float, 2>(t);
  ASSERT_TRUE(v.ok());
  EXPECT_EQ(v(1, 0), 8);
  EXPECT_EQ(v(1, 2), 6);
  v(0, 0) = 50;
  EXPECT_EQ(data[2], 50);
  EXPECT_EQ(v.transposed()(2, 1), 6);
  EXPECT_FALSE((view_of<double, 2>(t).ok()));
  EXPECT_FALSE((view_of<float, 3>(t).ok()));
  EXPECT_TRUE((view_of<float, 2, 4, 3>(t).ok()));
  EXPECT_TRUE((view_of<float, 2, dynamic, 3>(t).ok()));
  EXPECT_FALSE((view_of<float, 2, 4, 4>(t).ok()));
  t.storage.device = ASTER_ML_DEVICE_OPENCL;
  EXPECT_FALSE((view_of<float, 2>(t).ok()));
  EXPECT_EQ(dtype_code<int8_t>(), ASTER_ML_DTYPE_INT8);
  EXPECT_EQ(dtype_code<uint64_t>(), ASTER_ML_DTYPE_UINT64);
  EXPECT_EQ(dtype_code<double>(), ASTER_ML_DTYPE_FLOAT64);
  EXPECT_EQ(dtype_code<bool>(), ASTER_ML_DTYPE_BOOL);
  EXPECT_EQ(dtype_code<tbb8>(), ASTER_ML_DTYPE_TBB8);
  EXPECT_EQ(dtype_code<tbb64>(), ASTER_ML_DTYPE_TBB64);
}

TEST(Matrix, ViewsComputeAndCheckShapes) {
  std::mt19937 random(6);
  auto a = random_matrix<double, 3, 4>(random), a2 = a;
  auto b = random_matrix<double, 4, 2>(random);
  matrix<double, 3, 2> out;
  EXPECT_TRUE(matmul(view_of(out), view_of(a), view_of(b)));
  EXPECT_EQ(out, a * b);
  EXPECT_TRUE(
      combine(view_of(a2), view_of(a), view_of(a), [](double x, double y) { return x + y; }));
  EXPECT_EQ(a2, a + a);
  double data[12] = {};
  const tensor<double, 2> loose(data, {3, 3}, {3, 1}), fits(data, {3, 4}, {4, 1});
  EXPECT_FALSE(matmul(view_of(out), loose, view_of(b)));
  EXPECT_TRUE(combine(fits, view_of(a), view_of(a), [](double x, double) { return x; }));
  EXPECT_EQ(data[4 * 2 + 3], a(2, 3));
  EXPECT_FALSE(combine(loose, view_of(a), view_of(a), [](double x, double) { return x; }));
}

TEST(Matrix, MemoryOfATensorAsAMatrix) {
  alignas(64) float data[16];
  for (int i = 0; i < 16; ++i) data[i] = static_cast<float>(i);
  const tensor<float, 2> columns(data, {3, 4}, {1, 4});
  auto* const m = matrix_in<3, 4>(columns);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ((*m)(2, 1), 6);
  (*m)(0, 3) = 99;
  EXPECT_EQ(data[12], 99);
  EXPECT_EQ((matrix_in<3, 4>(tensor<float, 2>(data, {3, 4}, {4, 1}))), nullptr);
  EXPECT_EQ((matrix_in<3, 3>(tensor<float, 2>(data + 1, {3, 3}, {1, 4}))), nullptr);
  EXPECT_EQ((matrix_in<3, 4>(tensor<float, 2>())), nullptr);
}

}  // namespace
}  // namespace matrix_test
