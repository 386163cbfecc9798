// Operations on packed numbers with N limbs, correctly rounded. An operand that is NaN, the first
// of several, is the result, made quiet; operations without a result give the one NaN of pack_nan.
#pragma once

#include <bit>
#include <cmath>

#include "flt/format.h"

namespace aster::flt {

// A magnitude m * 2^(exponent - 64 M + 1), highest bit of m set, or 0 if zero.
template <int M>
struct Magnitude {
  Limbs<M> m;
  int64_t exponent;
  bool more;  // and a little more
  bool zero;
};

// |a + b| or |a - b| of a >= b where more stands for what is below the last bit. Operands end with
// at least 19 zero bits, so what is shifted out of b lies far below the bits that rounding looks
// at.
template <int M>
inline void combine(Magnitude<M>* r, const Limb* a, int64_t a_exponent, const Limb* b,
                    int64_t b_exponent, bool opposite) {
  Limbs<M> small;
  r->more = shift_down<M>(small, b, a_exponent - b_exponent);
  r->exponent = a_exponent;
  r->zero = false;
  if (!opposite) {
    // One bit further down if there is a carry, which nobody foresees.
    const unsigned char carry = add<M>(r->m, a, small);
    r->more |= (r->m[0] & carry) != 0;
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const Limb above = i + 1 < M ? r->m[i + 1] : Limb{carry};
      r->m[i] = r->m[i] >> carry | (above << 1) << (63 - carry);
    }
    r->exponent += carry;
    return;
  }
  subtract<M>(r->m, a, small, r->more);
  const int zeros = leading_zeros<M>(r->m);
  if (zeros == 64 * M) {
    r->zero = true;
    return;
  }
  if (zeros != 0) shift_up<M>(r->m, r->m, zeros);
  r->exponent -= zeros;
}

// The zero that a sum of two numbers that are no zeros of one sign gives.
inline bool zero_is_negative(Rounding mode) { return mode == Rounding::kDown; }

// a + b, or a - b if minus.
template <int N>
inline void sum(Limb* out, const Limb* a, const Limb* b, bool minus, Rounding mode) {
  Number<N> x = unpack<N>(a), y = unpack<N>(b);
  if (x.kind == Kind::kNan) return pack_same_nan<N>(out, a);
  if (y.kind == Kind::kNan) return pack_same_nan<N>(out, b);
  y.negative ^= minus;
  const bool opposite = x.negative != y.negative;
  if (x.kind == Kind::kInfinite || y.kind == Kind::kInfinite) {
    if (x.kind == y.kind && opposite) return pack_nan<N>(out);
    return pack_infinity<N>(out, x.kind == Kind::kInfinite ? x.negative : y.negative);
  }
  if (x.kind == Kind::kZero || y.kind == Kind::kZero) {
    if (x.kind == y.kind) {
      return pack_zero<N>(out, opposite ? zero_is_negative(mode) : x.negative);
    }
    const Number<N>& z = x.kind == Kind::kZero ? y : x;
    return round_pack<N>(out, z.negative, z.exponent, z.m, false, mode);
  }
  const bool swap = x.exponent != y.exponent ? x.exponent < y.exponent : compare<N>(x.m, y.m) < 0;
  const Number<N>&high = swap ? y : x, &low = swap ? x : y;
  Magnitude<N> r;
  combine<N>(&r, high.m, high.exponent, low.m, low.exponent, opposite);
  if (r.zero) return pack_zero<N>(out, zero_is_negative(mode));
  round_pack<N>(out, high.negative, r.exponent, r.m, r.more, mode);
}

// The product of two finite numbers, its highest bit set.
template <int N>
inline void exact_product(Limb* m, int64_t* exponent, const Number<N>& x, const Number<N>& y) {
  multiply<N>(m, x.m, y.m);
  // One bit further up or not, which nobody foresees.
  const int missing = static_cast<int>(~m[2 * N - 1] >> 63);
#pragma GCC unroll 16
  for (int i = 2 * N - 1; i > 0; --i) m[i] = m[i] << missing | (m[i - 1] >> 1) >> (63 - missing);
  m[0] <<= missing;
  *exponent = x.exponent + y.exponent + 1 - missing;
}

// Rounds a number of 2 N limbs.
template <int N>
inline void round_pack_double(Limb* out, bool negative, int64_t exponent, const Limb* m, bool more,
                              Rounding mode) {
  round_pack<N>(out, negative, exponent, m + N, more || !is_zero<N>(m), mode);
}

// a * b.
template <int N>
inline void product(Limb* out, const Limb* a, const Limb* b, Rounding mode) {
  const Number<N> x = unpack<N>(a), y = unpack<N>(b);
  const bool negative = x.negative != y.negative;
  if (x.kind != Kind::kFinite || y.kind != Kind::kFinite) [[unlikely]] {
    if (x.kind == Kind::kNan) return pack_same_nan<N>(out, a);
    if (y.kind == Kind::kNan) return pack_same_nan<N>(out, b);
    const bool zero = x.kind == Kind::kZero || y.kind == Kind::kZero;
    const bool infinite = x.kind == Kind::kInfinite || y.kind == Kind::kInfinite;
    if (zero && infinite) return pack_nan<N>(out);
    return zero ? pack_zero<N>(out, negative) : pack_infinity<N>(out, negative);
  }
  Limbs<2 * N> m;
  int64_t exponent;
  exact_product<N>(m, &exponent, x, y);
  round_pack_double<N>(out, negative, exponent, m, false, mode);
}

// a * b + c, rounded once, where the result is no plain sum or product.
template <int N>
inline void fused_finite(Limb* out, const Number<N>& x, const Number<N>& y, const Number<N>& z,
                         Rounding mode) {
  const bool negative = x.negative != y.negative;
  Limbs<2 * N> m, added = {};
  int64_t exponent;
  exact_product<N>(m, &exponent, x, y);
  if (z.kind == Kind::kZero) return round_pack_double<N>(out, negative, exponent, m, false, mode);
  for (int i = 0; i < N; ++i) added[N + i] = z.m[i];
  const bool swap = exponent != z.exponent ? exponent < z.exponent : compare<2 * N>(m, added) < 0;
  Magnitude<2 * N> r;
  if (swap) {
    combine<2 * N>(&r, added, z.exponent, m, exponent, negative != z.negative);
  } else {
    combine<2 * N>(&r, m, exponent, added, z.exponent, negative != z.negative);
  }
  if (r.zero) return pack_zero<N>(out, zero_is_negative(mode));
  round_pack_double<N>(out, swap ? z.negative : negative, r.exponent, r.m, r.more, mode);
}

// a * b + c, rounded once.
template <int N>
inline void fused(Limb* out, const Limb* a, const Limb* b, const Limb* c, Rounding mode) {
  const Number<N> x = unpack<N>(a), y = unpack<N>(b), z = unpack<N>(c);
  if (x.kind == Kind::kNan) return pack_same_nan<N>(out, a);
  if (y.kind == Kind::kNan) return pack_same_nan<N>(out, b);
  if (z.kind == Kind::kNan) return pack_same_nan<N>(out, c);
  const bool zero = x.kind == Kind::kZero || y.kind == Kind::kZero;
  const bool infinite = x.kind == Kind::kInfinite || y.kind == Kind::kInfinite;
  const bool negative = x.negative != y.negative;
  if (zero && infinite) return pack_nan<N>(out);
  if (infinite) {
    if (z.kind == Kind::kInfinite && z.negative != negative) return pack_nan<N>(out);
    return pack_infinity<N>(out, negative);
  }
  if (z.kind == Kind::kInfinite) return pack_infinity<N>(out, z.negative);
  if (!zero) return fused_finite<N>(out, x, y, z, mode);
  if (z.kind != Kind::kZero) return round_pack<N>(out, z.negative, z.exponent, z.m, false, mode);
  pack_zero<N>(out, negative == z.negative ? negative : zero_is_negative(mode));
}

// q = rest / d, rounded down; rest has 2 N limbs, of which the upper N are less than d, and becomes
// the remainder. The highest bit of d is set.
template <int N>
inline void divide(Limb* q, Limb* rest, const Limb* d) {
  const Divisor top(d[N - 1], d[N - 2]);
#pragma GCC unroll 8
  for (int i = N - 1; i >= 0; --i) {
    Limb* const part = rest + i;  // N + 1 limbs, less than d * 2^64
    const bool most = !top.exceeds(part[N], part[N - 1]);
    Limb digit = most ? ~Limb{0} : top.quotient(part[N], part[N - 1], part[N - 2]);
    Limb borrow = subtract_product(part, d, N, digit);
    // Seldom too many.
    Limb high = part[N] - borrow;
    bool negative = part[N] < borrow;
    while (negative) {
      --digit;
      const Limb carry = add_to(part, d, N);
      high += carry;
      negative = carry == 0 || high != 0;
    }
    part[N] = 0;
    q[i] = digit;
  }
}

// a / b.
template <int N>
inline void quotient(Limb* out, const Limb* a, const Limb* b, Rounding mode) {
  const Number<N> x = unpack<N>(a), y = unpack<N>(b);
  const bool negative = x.negative != y.negative;
  if (x.kind != Kind::kFinite || y.kind != Kind::kFinite) [[unlikely]] {
    if (x.kind == Kind::kNan) return pack_same_nan<N>(out, a);
    if (y.kind == Kind::kNan) return pack_same_nan<N>(out, b);
    if (x.kind == y.kind) return pack_nan<N>(out);  // 0 / 0, infinity / infinity
    const bool zero = x.kind == Kind::kZero || y.kind == Kind::kInfinite;
    return zero ? pack_zero<N>(out, negative) : pack_infinity<N>(out, negative);
  }
  Limbs<2 * N> rest = {};
  Limbs<N> q;
  int64_t exponent = x.exponent - y.exponent;
  if (compare<N>(x.m, y.m) < 0) {
    for (int i = 0; i < N; ++i) rest[N + i] = x.m[i];
    exponent -= 1;
  } else {
    shift_down<N>(rest + N, x.m, 1);  // its lowest bit is 0
  }
  divide<N>(q, rest, y.m);
  round_pack<N>(out, negative, exponent, q, !is_zero<N>(rest), mode);
}

// floor(sqrt(high * 2^64 + low)) of high >= 2^62, and what is left.
inline Limb root_of_two(Limb high, Limb low, Wide* rest) {
  const Wide value = Wide{high} << 64 | low;
  const double near = std::sqrt(static_cast<double>(high)) * 0x1p32;
  Limb s = near >= 0x1p64 ? ~Limb{0} : static_cast<Limb>(near);
  // Newton's step from an estimate with an error of 2^12: off by one at most.
  const Wide step = (Wide{s} + value / s) >> 1;
  s = step >> 64 != 0 ? ~Limb{0} : static_cast<Limb>(step);
  while (Wide{s} * s > value) --s;
  while (value - Wide{s} * s > 2 * Wide{s}) ++s;
  *rest = value - Wide{s} * s;
  return s;
}

// s = floor(sqrt(a)) of 2 N limbs with a >= 2^(128 N - 2); whether a is no square. Limb by limb, as
// on paper: with s, and rest = a - s^2 <= 2 s, of the upper limbs, the next limb of the root is
// rest / (2 s), or a little less.
template <int N>
inline bool root(Limb* s, const Limb* a) {
  Limbs<N + 2> rest = {};  // of the limbs so far, least significant first
  Limbs<N> part = {};      // the root so far
  Wide first;
  part[0] = root_of_two(a[2 * N - 1], a[2 * N - 2], &first);
  rest[0] = static_cast<Limb>(first);
  rest[1] = static_cast<Limb>(first >> 64);
  Divisor top(part[0], 0);
#pragma GCC unroll 8
  for (int k = 1; k < N; ++k) {
    // rest becomes (rest, next limb), of k + 2 limbs.
    for (int i = k; i >= 0; --i) rest[i + 1] = rest[i];
    rest[0] = a[2 * (N - k) - 1];
    // By the root's two highest limbs, which seldom change.
    if (k > 1 && !top.is(part[k - 1], part[k - 2])) top = Divisor(part[k - 1], part[k - 2]);
    // Half of its four highest limbs by the root's two highest.
    const Limb h3 = rest[k + 1], h2 = rest[k], h1 = rest[k - 1], h0 = k > 1 ? rest[k - 2] : 0;
    const Limb n2 = h3 << 63 | h2 >> 1, n1 = h2 << 63 | h1 >> 1, n0 = h1 << 63 | h0 >> 1;
    const bool most = (h3 >> 1) != 0 || !top.exceeds(n2, n1);
    const Limb digit = most ? ~Limb{0} : top.quotient(n2, n1, n0);
    // rest -= 2 s digit
    Limbs<N + 1> twice;
    for (int i = 0; i <= k; ++i)
      twice[i] = (i < k ? part[i] << 1 : 0) | (i > 0 ? part[i - 1] >> 63 : 0);
    rest[k + 1] -= subtract_product(rest, twice, k + 1, digit);
    // rest = (rest, next limb) - digit^2; its sign is that of its highest limb.
    for (int i = k; i >= 0; --i) rest[i + 1] = rest[i];
    rest[0] = a[2 * (N - k) - 2];
    const Wide square = Wide{digit} * digit;
    Limb borrow = __builtin_sub_overflow(rest[0], static_cast<Limb>(square), &rest[0]) ? 1 : 0;
    const Wide high = (square >> 64) + borrow;
    borrow = __builtin_sub_overflow(rest[1], static_cast<Limb>(high), &rest[1]) ? 1 : 0;
    for (int i = 2; borrow != 0 && i < k + 2; ++i) {
      borrow = __builtin_sub_overflow(rest[i], borrow, &rest[i]) ? 1 : 0;
    }
    for (int i = k; i > 0; --i) part[i] = part[i - 1];
    part[0] = digit;
    while ((rest[k + 1] >> 63) != 0) {
      // rest += 2 s - 1; s -= 1: with s less one first, 2 s + 1.
      for (int i = 0, more = 1; more != 0 && i <= k; ++i) {
        more = __builtin_sub_overflow(part[i], Limb{1}, &part[i]) ? 1 : 0;
      }
      Limb carry = add_to(rest, part, k + 1);
      rest[k + 1] += carry;
      carry = add_to(rest, part, k + 1);
      rest[k + 1] += carry;
      for (int i = 0, more = 1; more != 0 && i < k + 2; ++i) {
        more = __builtin_add_overflow(rest[i], Limb{1}, &rest[i]) ? 1 : 0;
      }
    }
  }
  for (int i = 0; i < N; ++i) s[i] = part[i];
  return !is_zero<N + 2>(rest);
}

// sqrt(a).
template <int N>
inline void square_root(Limb* out, const Limb* a, Rounding mode) {
  const Number<N> x = unpack<N>(a);
  if (x.kind == Kind::kNan) return pack_same_nan<N>(out, a);
  if (x.kind == Kind::kZero) return pack_zero<N>(out, x.negative);
  if (x.negative) return pack_nan<N>(out);
  if (x.kind == Kind::kInfinite) return pack_infinity<N>(out, false);
  Limbs<2 * N> square = {};
  Limbs<N> s;
  // m 2^e = 4 (m / 4) 2^e for an odd exponent of the leading bit is (m / 2) 2^(e + 1).
  const bool odd = (x.exponent & 1) != 0;
  for (int i = 0; i < N; ++i) square[N + i] = x.m[i];
  if (!odd) shift_down<2 * N>(square, square, 1);
  const bool more = root<N>(s, square);
  round_pack<N>(out, false, (x.exponent - (odd ? 1 : 0)) / 2, s, more, mode);
}

template <int N>
inline bool is_nan(const Limb* a) {
  Limb low = 0;
  for (int i = 0; i < N - 1; ++i) low |= a[i];
  const Limb top = a[N - 1] & ~Format<N>::kSign;
  const Limb infinite = static_cast<Limb>(Format<N>::kSpecial) << Format<N>::kTop;
  return top > infinite || (top == infinite && low != 0);
}

// -1, 0 or 1 of numbers; -0 equals 0.
template <int N>
inline int order(const Limb* a, const Limb* b) {
  Limbs<N> x, y;
  for (int i = 0; i < N; ++i) {
    x[i] = a[i];
    y[i] = b[i];
  }
  const bool x_negative = (x[N - 1] & Format<N>::kSign) != 0;
  const bool y_negative = (y[N - 1] & Format<N>::kSign) != 0;
  x[N - 1] &= ~Format<N>::kSign;
  y[N - 1] &= ~Format<N>::kSign;
  if (x_negative != y_negative) {
    if (is_zero<N>(x) && is_zero<N>(y)) return 0;
    return x_negative ? -1 : 1;
  }
  const int sizes = compare<N>(x, y);
  return x_negative ? -sizes : sizes;
}

// The greater of a and b, or the lesser; of zeros the positive one is the greater.
template <int N>
inline void extreme(Limb* out, const Limb* a, const Limb* b, bool greater) {
  if (is_nan<N>(a)) return pack_same_nan<N>(out, a);
  if (is_nan<N>(b)) return pack_same_nan<N>(out, b);
  int difference = order<N>(a, b);
  if (difference == 0) difference = (a[N - 1] & Format<N>::kSign) != 0 ? -1 : 1;
  const Limb* const taken = (difference > 0) == greater ? a : b;
  for (int i = 0; i < N; ++i) out[i] = taken[i];
}

// a rounded to an integer; a zero keeps the sign.
template <int N>
inline void integral(Limb* out, const Limb* a, Rounding mode) {
  using F = Format<N>;
  Number<N> x = unpack<N>(a);
  if (x.kind == Kind::kNan) return pack_same_nan<N>(out, a);
  if (x.kind != Kind::kFinite || x.exponent >= F::kPrecision - 1) {
    for (int i = 0; i < N; ++i) out[i] = a[i];
    return;
  }
  // The integer part is that of m / 2^drop.
  const int64_t drop = 64 * N - 1 - x.exponent;
  Limbs<N> whole;
  const bool below = shift_down<N>(whole, x.m, drop - 1);
  const bool half = (whole[0] & 1) != 0;
  shift_down<N>(whole, whole, 1);
  increment<N>(whole, goes_up(mode, x.negative, (whole[0] & 1) != 0, half, below));
  const int zeros = leading_zeros<N>(whole);
  if (zeros == 64 * N) return pack_zero<N>(out, x.negative);
  shift_up<N>(whole, whole, zeros);
  round_pack<N>(out, x.negative, 64 * N - 1 - zeros, whole, false, mode);
}

}  // namespace aster::flt
