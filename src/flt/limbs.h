// Unsigned integers of a fixed number of 64-bit limbs, least significant first.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
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
template <int M, int kFrom, int... k>
inline void multiply_columns(Limb* r, const Limb* a, const Limb* b,
                             std::integer_sequence<int, k...>) {
  Limb c0 = 0, c1 = 0, c2 = 0;
  ((add_column<M, kFrom + k>(
        &c0, &c1, &c2, a, b,
        std::make_integer_sequence<int, std::min(kFrom + k + 1, 2 * M - 1 - kFrom - k)>()),
    r[kFrom + k] = c0, c0 = c1, c1 = c2, c2 = 0),
   ...);
  r[2 * M - 1] = c0;
}
// r[0..2M) = a * b, column by column, without a loop.
template <int M>
inline void multiply(Limb* r, const Limb* a, const Limb* b) {
  multiply_columns<M, 0>(r, a, b, std::make_integer_sequence<int, 2 * M - 1>());
}
// r[kFrom..2M) of it, less what the columns below carry, which is less than M 2^64.
template <int M, int kFrom>
inline void multiply_upper(Limb* r, const Limb* a, const Limb* b) {
  multiply_columns<M, kFrom>(r, a, b, std::make_integer_sequence<int, 2 * M - 1 - kFrom>());
}

// r -= a * q over count limbs; what is to be taken from the limb above.
inline Limb subtract_product(Limb* r, const Limb* a, int count, Limb q) {
  Limb carry = 0;
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    const Wide t = Wide{a[i]} * q + carry;
    carry = static_cast<Limb>(t >> 64);
    carry += __builtin_sub_overflow(r[i], static_cast<Limb>(t), &r[i]);  // no branch
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

// floor((2^128 - 1) / d) - 2^64 of d with its top bit set.
inline Limb reciprocal_limb(Limb d) {
#if defined(__x86_64__)
  Limb quotient, rest;
  __asm__("divq %4" : "=a"(quotient), "=d"(rest) : "0"(~Limb{0}), "1"(~d), "r"(d) : "cc");
  return quotient;
#else
  return static_cast<Limb>((~Wide{0} - (Wide{d} << 64)) / d);
#endif
}

// Quotients of three limbs by two, of which the higher has its top bit set, by a reciprocal (Möller
// and Granlund, Improved division by invariant integers, 2011).
class Divisor {
 public:
  Divisor(Limb d1, Limb d0) : d1_(d1), d0_(d0), inverse_(reciprocal_limb(d1)) {
    Limb p = d1 * inverse_ + d0;
    if (p < d0) {
      --inverse_;
      if (p >= d1) {
        --inverse_;
        p -= d1;
      }
      p -= d1;
    }
    const Wide t = Wide{inverse_} * d0;
    p += static_cast<Limb>(t >> 64);
    if (p < static_cast<Limb>(t >> 64)) {
      --inverse_;
      if ((Wide{p} << 64 | static_cast<Limb>(t)) >= whole()) --inverse_;
    }
  }
  bool is(Limb d1, Limb d0) const { return d1 == d1_ && d0 == d0_; }
  bool exceeds(Limb high, Limb low) const { return (Wide{high} << 64 | low) < whole(); }
  // (u2, u1, u0) / d for (u2, u1) < d.
  Limb quotient(Limb u2, Limb u1, Limb u0) const {
    const Wide estimate = Wide{inverse_} * u2 + (Wide{u2} << 64 | u1);
    Limb q = static_cast<Limb>(estimate >> 64);
    Wide rest = Wide{u1 - q * d1_} << 64 | u0;
    rest -= Wide{d0_} * q + whole();
    ++q;
    // One too many or not, which nobody foresees.
    const Limb many =
        Limb{0} - static_cast<Limb>(static_cast<Limb>(rest >> 64) >= static_cast<Limb>(estimate));
    q += many;
    rest += whole() & (Wide{many} << 64 | many);
    return rest >= whole() ? q + 1 : q;
  }

 private:
  Wide whole() const { return Wide{d1_} << 64 | d0_; }
  Limb d1_, d0_, inverse_;
};

}  // namespace aster::flt
