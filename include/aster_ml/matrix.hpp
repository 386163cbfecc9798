/* Matrices of fixed size and views of tensors: templates, without the library, without exceptions.
 *
 *   constexpr aster_ml::matrix<float, 2, 2> a({{1, 2}, {3, 4}});
 *   static_assert(aster_ml::determinant(a) == -2);
 *   aster_ml::matrix<float, 4, 4> b = m * n;              // unrolled, in registers
 *   auto v = aster_ml::view_of<float, 2>(descriptor);     // an aster_ml_tensor's elements, in
 * place
 *
 * Layout     Columns one behind the other, each padded and aligned. Of 4-byte numbers with 2 to 4
 *            rows, and of doubles with 2 to 4, that is what std140 says: a 3x3 float is 48 bytes, a
 *            column of 2 floats 16, a 4x4 double aligned to 32. Else a column is aligned to the
 * next power of 2 of its bytes, 64 at most, and padded to a multiple of that. Padding is 0. Sizes
 * Beyond 4 KB the compiler warns (deprecated): a tensor would be the better place. Products   Below
 * 16 x 16 all loops are unrolled over vectors of a column, with fused multiply-adds where the
 * target has them (not in constant expressions). Integers   wrap. Determinants are exact where 64
 * bits hold them; solve and inverse give whole numbers or say that there are none. Failures   A
 * function that may fail gives a bool, and writes nothing where that is false. Elements   float,
 * double, integers, tbb8 to tbb64 (sticky integers, as the library's); of other types:
 * element_traits, specialised.
 */
#ifndef ASTER_ML_MATRIX_HPP
#define ASTER_ML_MATRIX_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace aster_ml {

/* How elements are computed with. A further type specialises it: sums and products as it defines
 * them, is_exact where determinants are to be taken without divisions. */
template <class T, class = void>
struct element_traits {
  static constexpr bool is_exact = std::is_integral_v<T>;
  static constexpr bool is_vector = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
  static constexpr bool is_std140 = is_vector && (sizeof(T) == 4 || std::is_same_v<T, double>);
  static constexpr T zero() { return T(0); }
  static constexpr T one() { return T(1); }
  static constexpr T add(T a, T b) {
    return wrap([](auto x, auto y) { return x + y; }, a, b);
  }
  static constexpr T sub(T a, T b) {
    return wrap([](auto x, auto y) { return x - y; }, a, b);
  }
  static constexpr T mul(T a, T b) {
    return wrap([](auto x, auto y) { return x * y; }, a, b);
  }
  static constexpr T div(T a, T b) { return static_cast<T>(a / b); }
  static constexpr bool is_zero(T a) { return a == T(0); }
  static constexpr T magnitude(T a) { return a < T(0) ? sub(T(0), a) : a; }

 private:
  template <class F>
  static constexpr T wrap(F f, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    } else {
      return f(a, b);
    }
  }
};

/* ---- Sticky integers ---- */

namespace detail {

/* A sum of products of 64-bit numbers, exact: digits of 32 bits, the highest one with the sign. */
struct exact_sum {
  int64_t at[4] = {};
  constexpr void add_product(int64_t a, int64_t b) {
    const uint64_t x = a < 0 ? uint64_t{0} - static_cast<uint64_t>(a) : static_cast<uint64_t>(a),
                   y = b < 0 ? uint64_t{0} - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
    const uint64_t parts[] = {low(x) * low(y), low(x) * (y >> 32), (x >> 32) * low(y),
                              (x >> 32) * (y >> 32)};
    const int64_t sign = (a < 0) != (b < 0) ? -1 : 1;
    for (size_t i = 0; i < 4; ++i) {
      const size_t to = (i + 1) / 2;
      at[to] += sign * static_cast<int64_t>(low(parts[i]));
      at[to + 1] += sign * static_cast<int64_t>(parts[i] >> 32);
    }
  }
  /* The sum in *value; false where 64 bits do not hold it. */
  constexpr bool get(int64_t* value) const {
    constexpr int64_t kUnit = int64_t{1} << 32;
    int64_t digits[4] = {}, carry = 0;
    for (size_t i = 0; i < 4; ++i) {
      const int64_t x = at[i] + carry;
      digits[i] = i == 3 ? x : static_cast<int64_t>(low(static_cast<uint64_t>(x)));
      carry = (x - static_cast<int64_t>(low(static_cast<uint64_t>(x)))) / kUnit;
    }
    *value = static_cast<int64_t>(static_cast<uint64_t>(digits[1]) << 32 |
                                  static_cast<uint64_t>(digits[0]));
    const int64_t rest = *value < 0 ? -1 : 0;
    return digits[3] == rest && digits[2] == static_cast<int64_t>(low(static_cast<uint64_t>(rest)));
  }
  static constexpr uint64_t low(uint64_t x) { return x & 0xffffffff; }
};

}  // namespace detail

/* An integer whose least pattern is ERR: what is no number of it, and what is computed of ERR. */
template <class Stored>
class sticky {
  static_assert(std::is_integral_v<Stored> && std::is_signed_v<Stored>, "a signed integer");

 public:
  constexpr sticky() = default; /* 0 */
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  constexpr sticky(Integer value) : pattern_(checked(value)) {}
  /* Of another width: ERR stays ERR. */
  template <class Other>
  constexpr explicit sticky(sticky<Other> x)
      : pattern_(x.is_error() ? kError : checked(x.pattern())) {}
  static constexpr sticky error() {
    sticky out;
    out.pattern_ = kError;
    return out;
  }
  static constexpr Stored most() {
    return static_cast<Stored>(static_cast<std::make_unsigned_t<Stored>>(-1) / 2);
  }

  constexpr Stored pattern() const { return pattern_; }
  constexpr bool is_error() const { return pattern_ == kError; }
  constexpr Stored value_or(Stored other) const { return is_error() ? other : pattern_; }

  friend constexpr sticky operator+(sticky a, sticky b) {
    return total(a, b, [&](detail::exact_sum& sum) {
      sum.add_product(a.pattern_, 1);
      sum.add_product(b.pattern_, 1);
    });
  }
  friend constexpr sticky operator-(sticky a, sticky b) { return a + -b; }
  friend constexpr sticky operator*(sticky a, sticky b) {
    return total(a, b, [&](detail::exact_sum& sum) { sum.add_product(a.pattern_, b.pattern_); });
  }
  /* Toward zero; by 0 it is ERR, and so is the rest. */
  friend constexpr sticky operator/(sticky a, sticky b) {
    if (a.is_error() || b.is_error() || b.pattern_ == 0) return error();
    return sticky(a.pattern_ / b.pattern_);
  }
  friend constexpr sticky operator%(sticky a, sticky b) {
    if (a.is_error() || b.is_error() || b.pattern_ == 0) return error();
    return sticky(a.pattern_ % b.pattern_);
  }
  constexpr sticky operator-() const {
    sticky out = *this;
    if (!is_error()) out.pattern_ = static_cast<Stored>(-pattern_);
    return out;
  }
  /* ERR equals ERR; of an order with ERR everything is false. */
  friend constexpr bool operator==(sticky a, sticky b) { return a.pattern_ == b.pattern_; }
  friend constexpr bool operator!=(sticky a, sticky b) { return a.pattern_ != b.pattern_; }
  friend constexpr bool operator<(sticky a, sticky b) {
    return !a.is_error() && !b.is_error() && a.pattern_ < b.pattern_;
  }
  friend constexpr bool operator>(sticky a, sticky b) { return b < a; }
  friend constexpr bool operator<=(sticky a, sticky b) {
    return !a.is_error() && !b.is_error() && a.pattern_ <= b.pattern_;
  }
  friend constexpr bool operator>=(sticky a, sticky b) { return b <= a; }

  /* What fits, else ERR. */
  static constexpr sticky of(const detail::exact_sum& sum) {
    int64_t value = 0;
    return sum.get(&value) ? sticky(value) : error();
  }

 private:
  static constexpr Stored kError = static_cast<Stored>(-most() - 1);
  template <class Integer>
  static constexpr Stored checked(Integer value) {
    if constexpr (std::is_signed_v<Integer>) {
      const auto wide = static_cast<int64_t>(value);
      return wide > most() || wide < -static_cast<int64_t>(most()) ? kError
                                                                   : static_cast<Stored>(wide);
    } else {
      const auto wide = static_cast<uint64_t>(value);
      return wide > static_cast<uint64_t>(most()) ? kError : static_cast<Stored>(wide);
    }
  }
  template <class F>
  static constexpr sticky total(sticky a, sticky b, F f) {
    if (a.is_error() || b.is_error()) return error();
    detail::exact_sum sum;
    f(sum);
    return of(sum);
  }
  Stored pattern_ = 0;
};
using tbb8 = sticky<int8_t>;
using tbb16 = sticky<int16_t>;
using tbb32 = sticky<int32_t>;
using tbb64 = sticky<int64_t>;

template <class Stored>
struct element_traits<sticky<Stored>, void> {
  using T = sticky<Stored>;
  static constexpr bool is_exact = true, is_vector = false, is_std140 = false;
  static constexpr T zero() { return T(); }
  static constexpr T one() { return T(1); }
  static constexpr T add(T a, T b) { return a + b; }
  static constexpr T sub(T a, T b) { return a - b; }
  static constexpr T mul(T a, T b) { return a * b; }
  static constexpr T div(T a, T b) { return a / b; }
  static constexpr bool is_zero(T a) { return a == T(); }
  static constexpr T magnitude(T a) { return a < T() ? -a : a; }
};

namespace detail {

/* A sum of products. */
template <class T>
class sum_of_products {
  using traits = element_traits<T>;

 public:
  constexpr void add(T a, T b) { sum_ = traits::add(sum_, traits::mul(a, b)); }
  constexpr T get() const { return sum_; }

 private:
  T sum_ = traits::zero();
};
/* Exact and checked once, whatever the order of the terms. */
template <class Stored>
class sum_of_products<sticky<Stored>> {
 public:
  constexpr void add(sticky<Stored> a, sticky<Stored> b) {
    error_ = error_ || a.is_error() || b.is_error();
    sum_.add_product(a.pattern(), b.pattern());
  }
  constexpr sticky<Stored> get() const {
    return error_ ? sticky<Stored>::error() : sticky<Stored>::of(sum_);
  }

 private:
  exact_sum sum_;
  bool error_ = false;
};

template <class T>
struct is_sticky : std::false_type {};
template <class Stored>
struct is_sticky<sticky<Stored>> : std::true_type {};

constexpr size_t power_above(size_t bytes, size_t most) {
  size_t power = 1;
  while (power < bytes && power < most) power *= 2;
  return power;
}
template <class T>
constexpr size_t column_alignment(size_t rows) {
  const size_t own = power_above(rows * sizeof(T), 64);
  const bool std140 = element_traits<T>::is_std140 && rows >= 2 && rows <= 4;
  const size_t wanted = std140 && own < 16 ? 16 : own;
  return wanted < alignof(T) ? alignof(T) : wanted;
}
template <class T>
constexpr size_t column_stride(size_t rows) {  // in elements
  const size_t alignment = column_alignment<T>(rows);
  return (rows * sizeof(T) + alignment - 1) / alignment * alignment / sizeof(T);
}

/* Says that a matrix is large, where it is made. */
template <class T, size_t kBytes>
struct size_note {
  static constexpr void note() {}
};
template <class T>
struct size_note<T, 1> {
  [[deprecated("a matrix beyond 4 KB: a tensor would be the better place")]] static constexpr void
  note() {}
};

/* f(std::integral_constant<size_t, 0>), ..., unrolled. */
template <size_t kCount, size_t kAt = 0, class F>
constexpr void unroll(F&& f) {
  if constexpr (kAt < kCount) {
    f(std::integral_constant<size_t, kAt>{});
    unroll<kCount, kAt + 1>(f);
  }
}
/* The same, as a loop from 16 on. */
template <size_t kCount, class F>
constexpr void each(F&& f) {
  if constexpr (kCount < 16) {
    unroll<kCount>(f);
  } else {
    for (size_t i = 0; i < kCount; ++i) f(i);
  }
}

#if defined(__GNUC__)
/* Vectors of a column: as wide as the target has registers. */
#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif
template <class T, size_t kBytes>
struct lanes {
  typedef T type __attribute__((vector_size(kBytes)));
};
#if defined(__clang__)
using mask8 = unsigned char;
using mask16 = unsigned short;
#else
using mask8 = signed char;
using mask16 = short;
#endif
/* a * b + c. */
template <class T, size_t kBytes>
inline typename lanes<T, kBytes>::type fused(typename lanes<T, kBytes>::type a,
                                             typename lanes<T, kBytes>::type b,
                                             typename lanes<T, kBytes>::type c) {
#if defined(__FMA__)
  if constexpr (std::is_same_v<T, float> && kBytes == 16) return __builtin_ia32_vfmaddps(a, b, c);
  if constexpr (std::is_same_v<T, double> && kBytes == 16) return __builtin_ia32_vfmaddpd(a, b, c);
  if constexpr (std::is_same_v<T, float> && kBytes == 32)
    return __builtin_ia32_vfmaddps256(a, b, c);
  if constexpr (std::is_same_v<T, double> && kBytes == 32)
    return __builtin_ia32_vfmaddpd256(a, b, c);
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && kBytes == 64)
    return __builtin_ia32_vfmaddps512_mask(a, b, c, static_cast<mask16>(-1), 4);
  if constexpr (std::is_same_v<T, double> && kBytes == 64)
    return __builtin_ia32_vfmaddpd512_mask(a, b, c, static_cast<mask8>(-1), 4);
#endif
#endif
  return a * b + c;
}

/* Signed integers are multiplied as unsigned ones, which wrap. */
template <class T, bool = std::is_integral_v<T>>
struct lane_of {
  using type = T;
};
template <class T>
struct lane_of<T, true> {
  using type = std::make_unsigned_t<T>;
};
#endif

}  // namespace detail

/* Whether constant expressions are what is computed. */
#if defined(__GNUC__)
#define ASTER_ML_MATRIX_CONSTANT() __builtin_is_constant_evaluated()
#else
#define ASTER_ML_MATRIX_CONSTANT() true
#endif

/* ---- Vectors ---- */

/* kSize numbers. Of 2 to 4 they are aligned as a column of a matrix is in std140's structs: 2
 * numbers to both, 3 and 4 to 4 of them. Others are dense: vec<float, 9> is 36 bytes. */
template <class T, size_t kSize>
struct alignas(kSize >= 2 && kSize <= 4 ? (kSize == 2 ? 2 : 4) * sizeof(T) : alignof(T)) vec {
  static_assert(kSize > 0, "a vector of nothing");
  T at[kSize] = {};
  constexpr T& operator[](size_t i) { return at[i]; }
  constexpr const T& operator[](size_t i) const { return at[i]; }
  static constexpr size_t size() { return kSize; }
  friend constexpr bool operator==(const vec& a, const vec& b) {
    bool equal = true;
    for (size_t i = 0; i < kSize; ++i) equal = equal && a.at[i] == b.at[i];
    return equal;
  }
  friend constexpr bool operator!=(const vec& a, const vec& b) { return !(a == b); }
  friend constexpr vec operator+(vec a, const vec& b) {
    for (size_t i = 0; i < kSize; ++i) a.at[i] = element_traits<T>::add(a.at[i], b.at[i]);
    return a;
  }
  friend constexpr vec operator-(vec a, const vec& b) {
    for (size_t i = 0; i < kSize; ++i) a.at[i] = element_traits<T>::sub(a.at[i], b.at[i]);
    return a;
  }
  friend constexpr vec operator*(vec a, T factor) {
    for (size_t i = 0; i < kSize; ++i) a.at[i] = element_traits<T>::mul(a.at[i], factor);
    return a;
  }
};
template <class T>
using vec2 = vec<T, 2>;
template <class T>
using vec3 = vec<T, 3>;
template <class T>
using vec4 = vec<T, 4>;
template <class T>
using vec9 = vec<T, 9>;

template <class T, size_t kSize>
constexpr T dot(const vec<T, kSize>& a, const vec<T, kSize>& b) {
  detail::sum_of_products<T> sum;
  for (size_t i = 0; i < kSize; ++i) sum.add(a[i], b[i]);
  return sum.get();
}

/* ---- Matrices ---- */

template <class T, size_t kRows, size_t kColumns>
class alignas(detail::column_alignment<T>(kRows)) matrix {
  static_assert(kRows > 0 && kColumns > 0, "a matrix of nothing");
  using traits = element_traits<T>;

 public:
  static constexpr size_t rows = kRows, columns = kColumns;
  static constexpr size_t stride = detail::column_stride<T>(kRows);  // of columns, in elements

  /* Zeros. */
  constexpr matrix() : at_{} {
    detail::size_note<T, (sizeof(T) * stride * kColumns > 4096 ? 1 : 0)>::note();
  }
  /* By rows, as one writes a matrix. */
  constexpr explicit matrix(const T (&by_rows)[kRows][kColumns]) : matrix() {
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kColumns; ++j) at_[j][i] = by_rows[i][j];
    }
  }
  static constexpr matrix identity() {
    matrix out;
    for (size_t i = 0; i < kRows && i < kColumns; ++i) out.at_[i][i] = traits::one();
    return out;
  }

  constexpr T& operator()(size_t i, size_t j) { return at_[j][i]; }
  constexpr const T& operator()(size_t i, size_t j) const { return at_[j][i]; }
  constexpr T* column(size_t j) { return at_[j]; }
  constexpr const T* column(size_t j) const { return at_[j]; }
  T* data() { return at_[0]; }
  const T* data() const { return at_[0]; }

  friend constexpr bool operator==(const matrix& a, const matrix& b) {
    bool equal = true;
    for (size_t j = 0; j < kColumns; ++j) {
      for (size_t i = 0; i < kRows; ++i) equal = equal && a.at_[j][i] == b.at_[j][i];
    }
    return equal;
  }
  friend constexpr bool operator!=(const matrix& a, const matrix& b) { return !(a == b); }
  friend constexpr matrix operator+(const matrix& a, const matrix& b) {
    return a.with(b, [](T x, T y) { return traits::add(x, y); });
  }
  friend constexpr matrix operator-(const matrix& a, const matrix& b) {
    return a.with(b, [](T x, T y) { return traits::sub(x, y); });
  }
  friend constexpr matrix operator*(const matrix& a, T factor) {
    return a.with(a, [factor](T x, T) { return traits::mul(x, factor); });
  }

 private:
  template <class F>
  constexpr matrix with(const matrix& other, F f) const {
    matrix out;
    for (size_t j = 0; j < kColumns; ++j) {
      for (size_t i = 0; i < kRows; ++i) out.at_[j][i] = f(at_[j][i], other.at_[j][i]);
    }
    return out;
  }
  T at_[kColumns][stride];
};

namespace detail {

/* out = the columns of a, each times an element of b, summed. */
template <class T, size_t kRows, size_t kInner>
constexpr void combine_plain(T* out, const matrix<T, kRows, kInner>& a, const T* b) {
  for (size_t i = 0; i < kRows; ++i) {
    sum_of_products<T> sum;
    for (size_t k = 0; k < kInner; ++k) sum.add(a(i, k), b[k]);
    out[i] = sum.get();
  }
}

#if defined(__GNUC__)
template <class T, size_t kRows, size_t kInner>
inline void combine_lanes(T* out, const matrix<T, kRows, kInner>& a, const T* b) {
  constexpr size_t kBytes = matrix<T, kRows, kInner>::stride * sizeof(T);
  constexpr size_t kWide = kBytes < kVectorBytes ? kBytes : kVectorBytes;
  using Lane = typename lane_of<T>::type;
  using V = typename lanes<Lane, kWide>::type;
  constexpr size_t kVectors = kBytes / kWide;
  constexpr size_t kTogether = kVectors < 8 ? kVectors : 1;
  each<kVectors / kTogether>([&](auto part) {
    V sums[kTogether];
    each<kInner>([&](auto k) {
      const V factor = static_cast<Lane>(b[k]) - V{};
      unroll<kTogether>([&](auto v) {
        V x;
        std::memcpy(&x, a.column(k) + (part * kTogether + v) * (kWide / sizeof(T)), kWide);
        if (k == 0) {
          sums[v] = x * factor;
        } else {
          sums[v] = fused<Lane, kWide>(x, factor, sums[v]);
        }
      });
    });
    unroll<kTogether>([&](auto v) {
      std::memcpy(out + (part * kTogether + v) * (kWide / sizeof(T)), &sums[v], kWide);
    });
  });
}
#endif

/* out has room for a whole column. */
template <class T, size_t kRows, size_t kInner>
constexpr void combine(T* out, const matrix<T, kRows, kInner>& a, const T* b) {
#if defined(__GNUC__)
  constexpr size_t kBytes = matrix<T, kRows, kInner>::stride * sizeof(T);
  constexpr bool kWhole = kBytes % kVectorBytes == 0 || power_above(kBytes, 64) == kBytes;
  if constexpr (element_traits<T>::is_vector && kWhole && kBytes >= 16) {
    if (!ASTER_ML_MATRIX_CONSTANT()) return combine_lanes(out, a, b);
  }
#endif
  combine_plain(out, a, b);
}

}  // namespace detail

/* a b. */
template <class T, size_t kRows, size_t kInner, size_t kColumns>
constexpr matrix<T, kRows, kColumns> operator*(const matrix<T, kRows, kInner>& a,
                                               const matrix<T, kInner, kColumns>& b) {
  matrix<T, kRows, kColumns> out;
  detail::each<kColumns>([&](auto j) { detail::combine(out.column(j), a, b.column(j)); });
  return out;
}
/* Refused: the number of a's columns is not that of b's rows. */
template <class T, size_t kRows, size_t kInner, size_t kOther, size_t kColumns,
          class = std::enable_if_t<kInner != kOther>>
constexpr void operator*(const matrix<T, kRows, kInner>&, const matrix<T, kOther, kColumns>&) {
  static_assert(kInner == kOther, "matrices whose shapes do not multiply");
}

/* m x, as a linear combination of columns. */
template <class T, size_t kRows, size_t kColumns>
constexpr vec<T, kRows> operator*(const matrix<T, kRows, kColumns>& m, const vec<T, kColumns>& x) {
  matrix<T, kRows, 1> column;
  detail::combine(column.column(0), m, x.at);
  vec<T, kRows> out;
  for (size_t i = 0; i < kRows; ++i) out[i] = column(i, 0);
  return out;
}

template <class T, size_t kRows, size_t kColumns>
constexpr matrix<T, kColumns, kRows> transpose(const matrix<T, kRows, kColumns>& m) {
  matrix<T, kColumns, kRows> out;
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) out(j, i) = m(i, j);
  }
  return out;
}

/* 3x3 matrices without their padding, column by column, and back. */
template <class T>
constexpr vec9<T> pack(const matrix<T, 3, 3>& m) {
  vec9<T> out;
  for (size_t k = 0; k < 9; ++k) out[k] = m(k % 3, k / 3);
  return out;
}
template <class T>
constexpr matrix<T, 3, 3> unpack(const vec9<T>& packed) {
  matrix<T, 3, 3> out;
  for (size_t k = 0; k < 9; ++k) out(k % 3, k / 3) = packed[k];
  return out;
}

namespace detail {

/* Without divisions (Bird 2011), in a ring: exact where all that is computed in T is. */
template <class T, size_t kSize>
constexpr T ring_determinant(const matrix<T, kSize, kSize>& a) {
  using traits = element_traits<T>;
  matrix<T, kSize, kSize> f = a;
  for (size_t step = 1; step < kSize; ++step) {
    matrix<T, kSize, kSize> upper;  // f above the diagonal, minus sums of f's diagonal on it
    T sum = traits::zero();
    for (size_t i = kSize; i-- > 0;) {
      upper(i, i) = traits::sub(traits::zero(), sum);
      sum = traits::add(sum, f(i, i));
      for (size_t j = i + 1; j < kSize; ++j) upper(i, j) = f(i, j);
    }
    f = upper * a;
  }
  return kSize % 2 == 1 ? f(0, 0) : traits::sub(traits::zero(), f(0, 0));
}

/* In place, with partial pivoting, on kSize rows and the right sides behind them. *sign: of the
 * rows' permutation. False where a pivot is 0. */
template <class T, size_t kSize, size_t kColumns>
constexpr bool eliminate(matrix<T, kSize, kColumns>& m, bool* odd) {
  using traits = element_traits<T>;
  for (size_t k = 0; k < kSize; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < kSize; ++i) {
      if (traits::magnitude(m(pivot, k)) < traits::magnitude(m(i, k))) pivot = i;
    }
    if (traits::is_zero(m(pivot, k)) || m(pivot, k) != m(pivot, k)) return false;
    if (pivot != k) {
      *odd = !*odd;
      for (size_t j = k; j < kColumns; ++j) {
        const T kept = m(k, j);
        m(k, j) = m(pivot, j);
        m(pivot, j) = kept;
      }
    }
    for (size_t i = k + 1; i < kSize; ++i) {
      const T factor = traits::div(m(i, k), m(k, k));
      for (size_t j = k; j < kColumns; ++j) {
        m(i, j) = traits::sub(m(i, j), traits::mul(factor, m(k, j)));
      }
    }
  }
  return true;
}

/* Up to 3 x 3 by products, without a division. */
template <class T, size_t kSize>
constexpr T expanded(const matrix<T, kSize, kSize>& m) {
  using traits = element_traits<T>;
  const auto minor = [&m](size_t i, size_t j, size_t k, size_t l) {
    return traits::sub(traits::mul(m(i, k), m(j, l)), traits::mul(m(i, l), m(j, k)));
  };
  if constexpr (kSize == 1) {
    return m(0, 0);
  } else if constexpr (kSize == 2) {
    return minor(0, 1, 0, 1);
  } else {
    const T left = traits::sub(traits::mul(m(0, 0), minor(1, 2, 1, 2)),
                               traits::mul(m(0, 1), minor(1, 2, 0, 2)));
    return traits::add(left, traits::mul(m(0, 2), minor(1, 2, 0, 1)));
  }
}

template <class Wide, class T, size_t kSize>
constexpr matrix<Wide, kSize, kSize> widened(const matrix<T, kSize, kSize>& m) {
  matrix<Wide, kSize, kSize> out;
  for (size_t j = 0; j < kSize; ++j) {
    for (size_t i = 0; i < kSize; ++i) out(i, j) = static_cast<Wide>(m(i, j));
  }
  return out;
}

/* a / b in *out where it is whole and T holds it. */
template <class T>
constexpr bool divide_whole(T* out, int64_t a, int64_t b) {
  const int64_t value = b == -1 ? element_traits<int64_t>::sub(0, a) : a / b;
  if (b != -1 && a % b != 0) return false;
  *out = static_cast<T>(value);
  return static_cast<int64_t>(*out) == value;
}
template <class Stored>
constexpr bool divide_whole(sticky<Stored>* out, tbb64 a, tbb64 b) {
  if (a.is_error() || (a % b) != tbb64()) return false;
  *out = sticky<Stored>(a / b);
  return !out->is_error();
}

/* By Cramer's rule, where every element of the answer is whole. */
template <class Wide, class T, size_t kSize, size_t kSides>
constexpr bool solve_whole(matrix<T, kSize, kSides>& out, const matrix<T, kSize, kSize>& a,
                           const matrix<T, kSize, kSides>& b) {
  const auto wide = widened<Wide>(a);
  const Wide whole = ring_determinant(wide);
  if (whole == Wide(0)) return false;
  matrix<T, kSize, kSides> made;
  for (size_t side = 0; side < kSides; ++side) {
    for (size_t k = 0; k < kSize; ++k) {
      auto other = wide;
      for (size_t i = 0; i < kSize; ++i) other(i, k) = static_cast<Wide>(b(i, side));
      if (!divide_whole(&made(k, side), ring_determinant(other), whole)) return false;
    }
  }
  out = made;
  return true;
}

}  // namespace detail

/* The determinant; of integers exact where 64 bits hold it and T does. Of sticky integers it is
 * exact or ERR: where T does not hold it, or 64 bits a part of what is computed. */
template <class T, size_t kSize>
constexpr T determinant(const matrix<T, kSize, kSize>& m) {
  using traits = element_traits<T>;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(detail::ring_determinant(detail::widened<int64_t>(m)));
  } else if constexpr (detail::is_sticky<T>::value) {
    return static_cast<T>(detail::ring_determinant(detail::widened<tbb64>(m)));
  } else if constexpr (traits::is_exact) {
    return detail::ring_determinant(m);
  } else if constexpr (kSize <= 3) {
    return detail::expanded(m);
  } else {
    matrix<T, kSize, kSize> upper = m;
    bool odd = false;
    if (!detail::eliminate(upper, &odd)) {
      T nothing = traits::zero();  // NaN where the matrix has one
      for (size_t i = 0; i < kSize; ++i) {
        for (size_t j = 0; j < kSize; ++j) nothing = nothing + (m(i, j) - m(i, j));
      }
      return nothing;
    }
    T product = odd ? traits::sub(traits::zero(), traits::one()) : traits::one();
    for (size_t i = 0; i < kSize; ++i) product = traits::mul(product, upper(i, i));
    return product;
  }
}

/* out = the x of a x = b; false where a is singular, or where x is not whole and T is, or where an
 * element is ERR. */
template <class T, size_t kSize, size_t kSides>
constexpr bool solve(matrix<T, kSize, kSides>& out, const matrix<T, kSize, kSize>& a,
                     const matrix<T, kSize, kSides>& b) {
  using traits = element_traits<T>;
  if constexpr (std::is_integral_v<T>) {
    return detail::solve_whole<int64_t>(out, a, b);
  } else if constexpr (detail::is_sticky<T>::value) {
    return detail::solve_whole<tbb64>(out, a, b);
  } else {
    matrix<T, kSize, kSize + kSides> both;
    for (size_t i = 0; i < kSize; ++i) {
      for (size_t j = 0; j < kSize; ++j) both(i, j) = a(i, j);
      for (size_t j = 0; j < kSides; ++j) both(i, kSize + j) = b(i, j);
    }
    bool odd = false;
    if (!detail::eliminate(both, &odd)) return false;
    for (size_t side = 0; side < kSides; ++side) {
      for (size_t i = kSize; i-- > 0;) {
        T value = both(i, kSize + side);
        for (size_t j = i + 1; j < kSize; ++j) {
          value = traits::sub(value, traits::mul(both(i, j), both(j, kSize + side)));
        }
        both(i, kSize + side) = traits::div(value, both(i, i));
      }
    }
    for (size_t i = 0; i < kSize; ++i) {
      for (size_t side = 0; side < kSides; ++side) out(i, side) = both(i, kSize + side);
    }
    return true;
  }
}
/* The same of one right side. */
template <class T, size_t kSize>
constexpr bool solve(vec<T, kSize>& out, const matrix<T, kSize, kSize>& a, const vec<T, kSize>& b) {
  matrix<T, kSize, 1> x, side;
  for (size_t i = 0; i < kSize; ++i) side(i, 0) = b[i];
  if (!solve(x, a, side)) return false;
  for (size_t i = 0; i < kSize; ++i) out[i] = x(i, 0);
  return true;
}

/* out = the inverse; false as solve. */
template <class T, size_t kSize>
constexpr bool inverse(matrix<T, kSize, kSize>& out, const matrix<T, kSize, kSize>& m) {
  return solve(out, m, matrix<T, kSize, kSize>::identity());
}

/* ---- Views of tensors ---- */

constexpr int64_t dynamic = -1; /* a dimension that is known at run time */

/* Elements of kRank axes in somebody's memory, strides in elements. kShape: nothing, or a number an
 * axis, or dynamic; constant dimensions that do not fit each other do not compile. */
template <class T, size_t kRank, int64_t... kShape>
class tensor {
  static_assert(sizeof...(kShape) == 0 || sizeof...(kShape) == kRank, "a number an axis, or none");

 public:
  using element = T;
  static constexpr size_t rank = kRank;

  constexpr tensor() = default;
  /* False from ok() where a constant dimension is another one. */
  constexpr tensor(T* data, const int64_t (&shape)[kRank], const int64_t (&strides)[kRank])
      : data_(data) {
    for (size_t i = 0; i < kRank; ++i) {
      shape_[i] = shape[i];
      strides_[i] = strides[i];
      if (constant(i) != dynamic && constant(i) != shape[i]) data_ = nullptr;
    }
  }
  /* The dimension of an axis where it is constant, else dynamic. */
  static constexpr int64_t constant(size_t axis) {
    if constexpr (sizeof...(kShape) == 0) {
      return axis < kRank ? dynamic : dynamic;
    } else {
      const int64_t all[] = {kShape...};
      return all[axis];
    }
  }
  constexpr bool ok() const { return data_ != nullptr; }
  constexpr T* data() const { return data_; }
  constexpr int64_t shape(size_t axis) const { return shape_[axis]; }
  constexpr int64_t stride(size_t axis) const { return strides_[axis]; }
  /* One index an axis, not checked against the shape. */
  template <class... Index>
  constexpr T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == kRank, "an index an axis");
    const int64_t all[] = {static_cast<int64_t>(index)...};
    int64_t at = 0;
    for (size_t i = 0; i < kRank; ++i) at += all[i] * strides_[i];
    return data_[at];
  }
  constexpr tensor<T, 2> transposed() const {
    static_assert(kRank == 2, "the transposed of a matrix");
    return tensor<T, 2>(data_, {shape_[1], shape_[0]}, {strides_[1], strides_[0]});
  }

 private:
  T* data_ = nullptr;
  int64_t shape_[kRank] = {};
  int64_t strides_[kRank] = {};
};

namespace detail {

/* Whether two dimensions may be one. */
constexpr bool may_fit(int64_t a, int64_t b) { return a == b || a == dynamic || b == dynamic; }

template <class A, class B>
constexpr bool same_shape(const A& a, const B& b) {
  static_assert(A::rank == B::rank, "tensors of different ranks");
  bool same = true;
  for (size_t i = 0; i < A::rank; ++i) same = same && a.shape(i) == b.shape(i);
  return same;
}
template <class A, class B>
constexpr bool constants_fit() {
  bool fit = A::rank == B::rank;
  for (size_t i = 0; fit && i < A::rank; ++i) fit = may_fit(A::constant(i), B::constant(i));
  return fit;
}

}  // namespace detail

/* out[...] = f(a[...], b[...]); false where shapes known at run time differ. */
template <class Out, class A, class B, class F>
constexpr bool combine(const Out& out, const A& a, const B& b, F f) {
  static_assert(detail::constants_fit<Out, A>() && detail::constants_fit<Out, B>() &&
                    detail::constants_fit<A, B>(),
                "tensors whose shapes differ");
  if (!out.ok() || !a.ok() || !b.ok()) return false;
  if (!detail::same_shape(out, a) || !detail::same_shape(out, b)) return false;
  constexpr size_t kRank = Out::rank;
  int64_t index[kRank] = {};
  for (size_t i = 0; i < kRank; ++i) {
    if (out.shape(i) <= 0) return true;
  }
  for (;;) {
    int64_t to = 0, x = 0, y = 0;
    for (size_t i = 0; i < kRank; ++i) {
      to += index[i] * out.stride(i);
      x += index[i] * a.stride(i);
      y += index[i] * b.stride(i);
    }
    out.data()[to] = f(a.data()[x], b.data()[y]);
    size_t axis = kRank;
    while (axis > 0 && ++index[axis - 1] == out.shape(axis - 1)) index[--axis] = 0;
    if (axis == 0) return true;
  }
}

/* out = a b of tensors of two axes; false where shapes known at run time do not multiply. */
template <class Out, class A, class B>
constexpr bool matmul(const Out& out, const A& a, const B& b) {
  static_assert(Out::rank == 2 && A::rank == 2 && B::rank == 2, "tensors of two axes");
  static_assert(detail::may_fit(A::constant(1), B::constant(0)) &&
                    detail::may_fit(Out::constant(0), A::constant(0)) &&
                    detail::may_fit(Out::constant(1), B::constant(1)),
                "tensors whose shapes do not multiply");
  using T = std::remove_const_t<typename Out::element>;
  if (!out.ok() || !a.ok() || !b.ok() || a.shape(1) != b.shape(0) || out.shape(0) != a.shape(0) ||
      out.shape(1) != b.shape(1)) {
    return false;
  }
  for (int64_t i = 0; i < out.shape(0); ++i) {
    for (int64_t j = 0; j < out.shape(1); ++j) {
      detail::sum_of_products<T> sum;
      for (int64_t k = 0; k < a.shape(1); ++k) sum.add(a(i, k), b(k, j));
      out(i, j) = sum.get();
    }
  }
  return true;
}

/* The dtype code of elements; 0 where aster_ml/dtype.h has none. */
template <class T>
constexpr int32_t dtype_code() {
  if (std::is_same_v<T, bool>) return 1;
  if (std::is_same_v<T, float>) return 16;
  if (std::is_same_v<T, double>) return 17;
  if (!std::is_integral_v<T> && !detail::is_sticky<T>::value) return 0;
  const int32_t size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return detail::is_sticky<T>::value ? 48 + size : 2 + 2 * size + (std::is_unsigned_v<T> ? 1 : 0);
}

/* A descriptor's elements (aster_ml_tensor, or what has its fields) in place; not ok() where rank,
 * dtype or a constant dimension is another one, or the memory is a device's. */
template <class T, size_t kRank, int64_t... kShape, class Descriptor>
tensor<T, kRank, kShape...> view_of(const Descriptor& t) {
  constexpr int32_t kCpu = 1 << 16;
  int64_t shape[kRank] = {}, strides[kRank] = {};
  const bool fits = t.ndim == kRank && t.dtype == dtype_code<std::remove_const_t<T>>() &&
                    t.storage.device / kCpu <= 1;
  if (!fits) return {};
  for (size_t i = 0; i < kRank; ++i) {
    shape[i] = static_cast<int64_t>(t.shape[i]);
    strides[i] = static_cast<int64_t>(t.strides[i]);
  }
  char* const at = static_cast<char*>(t.storage.data) + t.byte_offset;
  return {static_cast<T*>(static_cast<void*>(at)), shape, strides};
}

/* A matrix as a tensor, in place. */
template <class T, size_t kRows, size_t kColumns>
constexpr tensor<T, 2, static_cast<int64_t>(kRows), static_cast<int64_t>(kColumns)> view_of(
    matrix<T, kRows, kColumns>& m) {
  return {m.column(0),
          {static_cast<int64_t>(kRows), static_cast<int64_t>(kColumns)},
          {1, static_cast<int64_t>(matrix<T, kRows, kColumns>::stride)}};
}
template <class T, size_t kRows, size_t kColumns>
constexpr tensor<const T, 2, static_cast<int64_t>(kRows), static_cast<int64_t>(kColumns)> view_of(
    const matrix<T, kRows, kColumns>& m) {
  return {m.column(0),
          {static_cast<int64_t>(kRows), static_cast<int64_t>(kColumns)},
          {1, static_cast<int64_t>(matrix<T, kRows, kColumns>::stride)}};
}

/* The tensor's own memory as a matrix: columns as matrix has them, padding included; null where
 * they lie otherwise. */
template <size_t kRows, size_t kColumns, class T, int64_t... kShape>
matrix<T, kRows, kColumns>* matrix_in(const tensor<T, 2, kShape...>& t) {
  using Made = matrix<T, kRows, kColumns>;
  static_assert(std::is_trivially_copyable_v<Made> && std::is_standard_layout_v<Made>);
  static_assert(detail::may_fit(tensor<T, 2, kShape...>::constant(0), kRows) &&
                    detail::may_fit(tensor<T, 2, kShape...>::constant(1), kColumns),
                "a tensor of another shape");
  const bool fits = t.ok() && t.shape(0) == static_cast<int64_t>(kRows) &&
                    t.shape(1) == static_cast<int64_t>(kColumns) && t.stride(0) == 1 &&
                    t.stride(1) == static_cast<int64_t>(Made::stride) &&
                    reinterpret_cast<uintptr_t>(t.data()) % alignof(Made) == 0;
  return fits ? static_cast<Made*>(static_cast<void*>(t.data())) : nullptr;
}

/* ---- What the layouts are ---- */

static_assert(sizeof(matrix<float, 3, 3>) == 48 && alignof(matrix<float, 3, 3>) == 16, "std140");
static_assert(sizeof(matrix<float, 2, 2>) == 32 && matrix<float, 2, 2>::stride == 4, "std140");
static_assert(sizeof(matrix<float, 4, 4>) == 64 && alignof(matrix<float, 4, 4>) == 16, "std140");
static_assert(sizeof(matrix<int32_t, 2, 3>) == 48, "std140");
static_assert(sizeof(matrix<double, 2, 2>) == 32 && alignof(matrix<double, 2, 2>) == 16, "std140");
static_assert(sizeof(matrix<double, 3, 3>) == 96 && alignof(matrix<double, 3, 3>) == 32, "std140");
static_assert(sizeof(matrix<double, 4, 4>) == 128 && alignof(matrix<double, 4, 4>) == 32, "std140");
static_assert(sizeof(matrix<float, 8, 8>) == 256 && alignof(matrix<float, 8, 8>) == 32, "columns");
static_assert(sizeof(vec2<float>) == 8 && alignof(vec2<float>) == 8, "std140");
static_assert(sizeof(vec3<float>) == 16 && alignof(vec3<float>) == 16, "std140");
static_assert(sizeof(vec4<float>) == 16 && alignof(vec4<float>) == 16, "std140");
static_assert(sizeof(vec4<double>) == 32 && alignof(vec4<double>) == 32, "std140");
static_assert(sizeof(vec9<float>) == 36 && alignof(vec9<float>) == 4, "dense");

#undef ASTER_ML_MATRIX_CONSTANT

}  // namespace aster_ml

#endif
