// Unsigned integers of a fixed number of 64-bit limbs, least significant first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace aster::flt {

using Limb = uint64_t;
__extension__ typedef unsigned __int128 Wide;
template <int M>
using Limbs = Limb[static_cast<size_t>(M)];

// r = a + b + carry; the carry out. r may be a or b.
template <int M>
inline Limb add(Limb* r, const Limb* a, const Limb* b, Limb carry = 0) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
    const Wide sum = Wide{a[i]} + b[i] + carry;
    r[i] = static_cast<Limb>(sum);
    carry = static_cast<Limb>(sum >> 64);
  }
  return carry;
}

// r = a - b - borrow; the borrow out.
template <int M>
inline Limb subtract(Limb* r, const Limb* a, const Limb* b, Limb borrow = 0) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
    const Wide difference = Wide{a[i]} - b[i] - borrow;
    r[i] = static_cast<Limb>(difference);
    borrow = static_cast<Limb>(difference >> 64) & 1;
  }
  return borrow;
}

// r = a + carry.
template <int M>
inline Limb increment(Limb* r, Limb carry) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) carry = __builtin_add_overflow(r[i], carry, &r[i]) ? 1 : 0;
  return carry;
}

// -1, 0 or 1 as a is less than b, equal or greater.
template <int M>
inline int compare(const Limb* a, const Limb* b) {
  for (int i = M - 1; i >= 0; --i) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

template <int M>
inline bool is_zero(const Limb* a) {
  Limb any = 0;
  for (int i = 0; i < M; ++i) any |= a[i];
  return any == 0;
}

// r = a * 2^bits, 0 < bits < 64, without what leaves the top.
template <int M>
inline void shift_up_bits(Limb* r, const Limb* a, int bits) {
#pragma GCC unroll 16
  for (int i = M - 1; i > 0; --i) r[i] = a[i] << bits | a[i - 1] >> (64 - bits);
  r[0] = a[0] << bits;
}

// r = a * 2^bits, 0 <= bits < 64 M. r may be a.
template <int M>
inline void shift_up(Limb* r, const Limb* a, int64_t bits) {
  Limbs<2 * M + 1> from;  // zeros below
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) from[i + M + 1] = a[i];
#pragma GCC unroll 17
  for (int i = 0; i <= M; ++i) from[i] = 0;
  const Limb* const at = from + M - bits / 64;
  const int rest = static_cast<int>(bits % 64);
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) r[i] = at[i + 1] << rest | (at[i] >> 1) >> (63 - rest);
}

// r = a / 2^bits, 0 <= bits, rounded down; whether it is less than the quotient. r may be a.
template <int M>
inline bool shift_down(Limb* r, const Limb* a, int64_t bits) {
  if (bits >= 64 * M) [[unlikely]] {
    const bool lost = !is_zero<M>(a);
    for (int i = 0; i < M; ++i) r[i] = 0;
    return lost;
  }
  Limbs<2 * M + 1> from;  // zeros above
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) from[i] = a[i];
#pragma GCC unroll 17
  for (int i = M; i <= 2 * M; ++i) from[i] = 0;
  const int limbs = static_cast<int>(bits / 64), rest = static_cast<int>(bits % 64);
  Limb lost = (from[limbs] << 1) << (63 - rest);
  for (int i = 0; i < limbs; ++i) lost |= from[i];
  const Limb* const at = from + limbs;
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) r[i] = at[i] >> rest | (at[i + 1] << 1) << (63 - rest);
  return lost != 0;
}

// Zero bits above the leading one; 64 M of 0.
template <int M>
inline int leading_zeros(const Limb* a) {
  for (int i = M - 1; i >= 0; --i) {
    if (a[i] != 0) return 64 * (M - 1 - i) + std::countl_zero(a[i]);
  }
  return 64 * M;
}

// r[0..2M) = a * b.
template <int M>
inline void multiply(Limb* r, const Limb* a, const Limb* b) {
  for (int i = 0; i < M; ++i) r[i] = 0;
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    Limb carry = 0;
#pragma GCC unroll 8
    for (int j = 0; j < M; ++j) {
      const Wide t = Wide{a[i]} * b[j] + r[i + j] + carry;
      r[i + j] = static_cast<Limb>(t);
      carry = static_cast<Limb>(t >> 64);
    }
    r[i + M] = carry;
  }
}

// r -= a * q over count limbs; what is to be taken from the limb above.
inline Limb subtract_product(Limb* r, const Limb* a, int count, Limb q) {
  Limb carry = 0;
  for (int i = 0; i < count; ++i) {
    const Wide t = Wide{a[i]} * q + carry;
    carry = static_cast<Limb>(t >> 64);
    if (__builtin_sub_overflow(r[i], static_cast<Limb>(t), &r[i])) ++carry;
  }
  return carry;
}

// r += a over count limbs; the carry out.
inline Limb add_to(Limb* r, const Limb* a, int count) {
  Limb carry = 0;
  for (int i = 0; i < count; ++i) {
    const Wide t = Wide{r[i]} + a[i] + carry;
    r[i] = static_cast<Limb>(t);
    carry = static_cast<Limb>(t >> 64);
  }
  return carry;
}

// Quotients of two limbs by one with its top bit set, by a reciprocal (Möller and Granlund,
// Improved division by invariant integers, 2011).
class Divisor {
 public:
  explicit Divisor(Limb d) : d_(d), inverse_(static_cast<Limb>((~Wide{0} - (Wide{d} << 64)) / d)) {}
  // (high, low) / d for high < d.
  Limb quotient(Limb high, Limb low) const {
    const Wide estimate = Wide{inverse_} * high + ((Wide{high} << 64) | low);
    Limb q = static_cast<Limb>(estimate >> 64) + 1;
    Limb rest = low - q * d_;
    if (rest > static_cast<Limb>(estimate)) {
      --q;
      rest += d_;
    }
    return rest >= d_ ? q + 1 : q;
  }

 private:
  Limb d_, inverse_;
};

}  // namespace aster::flt
