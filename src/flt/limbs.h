// Unsigned integers of a fixed number of 64-bit limbs, least significant first.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace aster::flt {

using Limb = uint64_t;
__extension__ typedef unsigned __int128 Wide;
template <int M>
using Limbs = Limb[static_cast<size_t>(M)];

// One limb of a sum and of a difference; the carry out, 0 or 1.
inline unsigned char add_limb(unsigned char carry, Limb a, Limb b, Limb* r) {
#if defined(__x86_64__)
  unsigned long long sum;
  carry = _addcarry_u64(carry, a, b, &sum);
  *r = sum;
  return carry;
#else
  const Wide sum = Wide{a} + b + carry;
  *r = static_cast<Limb>(sum);
  return static_cast<unsigned char>(sum >> 64);
#endif
}
inline unsigned char subtract_limb(unsigned char borrow, Limb a, Limb b, Limb* r) {
#if defined(__x86_64__)
  unsigned long long difference;
  borrow = _subborrow_u64(borrow, a, b, &difference);
  *r = difference;
  return borrow;
#else
  const Wide difference = Wide{a} - b - borrow;
  *r = static_cast<Limb>(difference);
  return static_cast<unsigned char>(difference >> 64 & 1);
#endif
}

// r = a + b; the carry out. r may be a or b.
template <int M>
inline unsigned char add(Limb* r, const Limb* a, const Limb* b) {
  unsigned char carry = 0;
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) carry = add_limb(carry, a[i], b[i], &r[i]);
  return carry;
}

// r = a - b - borrow of a that is not less.
template <int M>
inline void subtract(Limb* r, const Limb* a, const Limb* b, bool less) {
  unsigned char borrow = less ? 1 : 0;
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) borrow = subtract_limb(borrow, a[i], b[i], &r[i]);
}

// r += 1 if so.
template <int M>
inline void increment(Limb* r, bool so) {
  unsigned char carry = so ? 1 : 0;
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) carry = add_limb(carry, r[i], 0, &r[i]);
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

// (c2, c1, c0) += a * b.
inline void add_product(Limb* c0, Limb* c1, Limb* c2, Limb a, Limb b) {
  const Wide t = Wide{a} * b;
#if defined(__x86_64__)
  __asm__("addq %3, %0\n\tadcq %4, %1\n\tadcq $0, %2"
          : "+r"(*c0), "+r"(*c1), "+r"(*c2)
          : "rm"(static_cast<Limb>(t)), "rm"(static_cast<Limb>(t >> 64))
          : "cc");
#else
  const Wide low = (Wide{*c1} << 64 | *c0) + t;
  *c2 += low < t ? 1 : 0;
  *c0 = static_cast<Limb>(low);
  *c1 = static_cast<Limb>(low >> 64);
#endif
}

// The products a[i] b[k - i] of one column of M by M limbs; i is from kFirst on.
template <int M, int k, int... i>
inline void add_column(Limb* c0, Limb* c1, Limb* c2, const Limb* a, const Limb* b,
                       std::integer_sequence<int, i...>) {
  constexpr int kFirst = k < M ? 0 : k - M + 1;
  (add_product(c0, c1, c2, a[kFirst + i], b[k - kFirst - i]), ...);
}
template <int M, int... k>
inline void multiply_columns(Limb* r, const Limb* a, const Limb* b,
                             std::integer_sequence<int, k...>) {
  Limb c0 = 0, c1 = 0, c2 = 0;
  ((add_column<M, k>(&c0, &c1, &c2, a, b,
                     std::make_integer_sequence<int, (k < M ? k + 1 : 2 * M - 1 - k)>()),
    r[k] = c0, c0 = c1, c1 = c2, c2 = 0),
   ...);
  r[2 * M - 1] = c0;
}
// r[0..2M) = a * b, column by column, without a loop.
template <int M>
inline void multiply(Limb* r, const Limb* a, const Limb* b) {
  multiply_columns<M>(r, a, b, std::make_integer_sequence<int, 2 * M - 1>());
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
