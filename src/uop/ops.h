// The value column of ops.def: each operation on one C++ type, without undefined behaviour.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace aster::uop::ops {

template <typename T>
constexpr bool kReal = std::is_floating_point_v<T>;

// Wrapping integer arithmetic goes through the unsigned type.
template <typename T>
T wrap(uint64_t x) {
  return static_cast<T>(x);
}
template <typename T>
T add(T a, T b) {
  if constexpr (kReal<T>)
    return a + b;
  else
    return wrap<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <typename T>
T sub(T a, T b) {
  if constexpr (kReal<T>)
    return a - b;
  else
    return wrap<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <typename T>
T mul(T a, T b) {
  if constexpr (kReal<T>)
    return a * b;
  else
    return wrap<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <typename T>
T neg(T a) {
  if constexpr (kReal<T>)
    return -a;
  else
    return sub(T(0), a);
}
template <typename T>
T abs(T a) {
  if constexpr (kReal<T>)
    return std::fabs(a);
  else
    return a < T(0) ? neg(a) : a;
}
template <typename T>
T bit_not(T a) {
  return static_cast<T>(~static_cast<uint64_t>(a));
}
template <typename T>
T trunc(T a) {
  if constexpr (kReal<T>)
    return std::trunc(a);
  else
    return a;
}
template <typename T>
T floor(T a) {
  if constexpr (kReal<T>)
    return std::floor(a);
  else
    return a;
}
template <typename T>
T ceil(T a) {
  if constexpr (kReal<T>)
    return std::ceil(a);
  else
    return a;
}
template <typename T>
T round(T a) {
  if constexpr (kReal<T>)
    return std::nearbyint(a);
  else
    return a;
}
template <typename T>
T max(T a, T b) {
  if constexpr (kReal<T>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return a < b ? b : a;
}
template <typename T>
T min(T a, T b) {
  if constexpr (kReal<T>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return b < a ? b : a;
}
template <typename T>
T fma(T a, T b, T c) {
  if constexpr (kReal<T>)
    return std::fma(a, b, c);
  else
    return add(mul(a, b), c);
}
template <typename T>
bool divides_badly(T a, T b) {
  return b == T(0) || (std::is_signed_v<T> && b == T(-1) && a == std::numeric_limits<T>::min());
}
template <typename T>
T cdiv(T a, T b) {
  if (b == T(0)) return T(0);
  return divides_badly(a, b) ? a : static_cast<T>(a / b);
}
template <typename T>
T cmod(T a, T b) {
  if (b == T(0)) return a;
  return divides_badly(a, b) ? T(0) : static_cast<T>(a % b);
}
template <typename T>
T floordiv(T a, T b) {
  const T q = cdiv(a, b);
  return b != T(0) && cmod(a, b) != T(0) && ((a < T(0)) != (b < T(0))) ? static_cast<T>(q - T(1))
                                                                       : q;
}
template <typename T>
T floormod(T a, T b) {
  const T r = cmod(a, b);
  return b != T(0) && r != T(0) && ((r < T(0)) != (b < T(0))) ? add(r, b) : r;
}
// b is the power of two itself here: evaluate() knows what dtypes add to it.
template <typename T>
T scale(T a, T b) {
  if constexpr (kReal<T>)
    return std::isnan(a) || std::isnan(b) ? a + b : std::ldexp(a, static_cast<int>(b));
  else
    return T(0);
}
// Shift of a value of so many bits; amounts are taken as they are, negative or past the width: all
// bits leave.
inline int64_t shift(bool left, int64_t a, int64_t amount, int bits) {
  const bool past = amount < 0 || amount >= bits;
  if (left) return past ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << amount);
  return past ? (a < 0 ? -1 : 0) : a >> amount;
}
template <typename T>
T shl(T a, T b) {
  if constexpr (kReal<T>)
    return T(0);
  else
    return static_cast<uint64_t>(b) >= 64 ? T(0) : wrap<T>(static_cast<uint64_t>(a) << b);
}
template <typename T>
T shr(T a, T b) {
  if constexpr (kReal<T>)
    return T(0);
  else
    return static_cast<uint64_t>(b) >= 64 ? (a < T(0) ? static_cast<T>(~uint64_t{0}) : T(0))
                                          : static_cast<T>(a >> b);
}

// Two products of signed 16-bit numbers and their sum, of the halves of 32 bits each.
template <typename T>
T pair_dot(T a, T b) {
  const auto low = [](T x) {
    return static_cast<int64_t>(static_cast<int16_t>(static_cast<uint64_t>(x)));
  };
  const auto high = [](T x) {
    return static_cast<int64_t>(static_cast<int16_t>(static_cast<uint64_t>(x) >> 16));
  };
  return static_cast<T>(low(a) * low(b) + high(a) * high(b));
}

// c and four products of bytes, those of a unsigned and those of b signed, of 32 bits each.
template <typename T>
T quad_dot(T a, T b, T c) {
  uint64_t sum = static_cast<uint64_t>(c);
  for (int at = 0; at < 32; at += 8) {
    const auto first = static_cast<uint8_t>(static_cast<uint64_t>(a) >> at);
    const auto second = static_cast<int8_t>(static_cast<uint64_t>(b) >> at);
    sum += static_cast<uint64_t>(int64_t{first} * second);
  }
  return static_cast<T>(static_cast<int32_t>(sum));
}

// threefry2x32 with 20 rounds (Salmon et al., SC'11): counter and key as two 32-bit halves each,
// low half first.
inline uint64_t threefry_word(uint64_t counter, uint64_t key) {
  constexpr uint32_t kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t ks[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  uint32_t x0 = static_cast<uint32_t>(counter) + ks[0],
           x1 = static_cast<uint32_t>(counter >> 32) + ks[1];
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t r = kRotations[(round % 2) * 4 + i];
      x0 += x1;
      x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0;
    }
    x0 += ks[(round + 1) % 3];
    x1 += ks[(round + 2) % 3] + round + 1;
  }
  return (static_cast<uint64_t>(x1) << 32) | x0;
}
template <typename T>
T threefry(T counter, T key) {
  if constexpr (kReal<T>)
    return T(0);
  else
    return static_cast<T>(
        threefry_word(static_cast<uint64_t>(counter), static_cast<uint64_t>(key)));
}

}  // namespace aster::uop::ops
