// pow: by logarithms and powers of two with more bits than the result has; of f32 in f64, of f64 in
// pairs of numbers.
#include "codegen/functions_builder.h"

namespace aster::codegen::program::functions {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;
constexpr double kInf = __builtin_inf();

// The sign and the special cases of a to the b, given y = |a| to the b.
V pow_edges(V a, V b, V y) {
  const uint64_t sign = a.dtype() == kF32 ? uint64_t{1} << 31 : uint64_t{1} << 63;
  const V half = b * 0.5;
  const V whole = rounded(Op::kTrunc, b) == b;
  const V odd = whole & (rounded(Op::kTrunc, half) != half);
  y = (y.bits() | (where(odd, a, 0.0).bits() & sign)).as(a.dtype());
  const V not_real = (a < 0.0) & ~whole & (a > -kInf);
  y = where(not_real, __builtin_nan(""), y);
  return where((a == 1.0) | (b == 0.0), 1.0, y);
}

// The logarithm l of what is not positive and finite.
V log_bounds(V a, V l) { return where(a == 0.0, -kInf, where(a < kInf, l, a)); }
// A bounded exponent keeps 0 times it 0 where |a| is 1.
V bounded(V b) { return least(0x1p80, most(-0x1p80, b)); }

// a * b = the result + *low, exactly.
V two_prod(V a, V b, V* low) {
  const V p = a * b;
  if (a.b->fma()) {
    *low = fma(a, b, -p);
    return p;
  }
  const V s = a * 134217729.0, t = b * 134217729.0;
  const V ah = s - (s - a), bh = t - (t - b);
  const V al = a - ah, bl = b - bh;
  *low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  return p;
}

// log2(a) to about 2^-66, as the result + *low, for positive finite a: by 2 atanh(s), s = f / (2 +
// f), in pairs of numbers up to the fifth power of s.
V log2_pair(V a, V* low) {  // pow_log_f64
  V n, pl, zl, ul, vl, tl;
  const V f = log_split(a, &n);
  const V d = f + 2.0, dl = f - (d - 2.0);
  const V s = f / d;
  const V p = two_prod(s, d, &pl);
  const V sl = (((f - p) - pl) - s * dl) / d;
  const V z = two_prod(s, s, &zl);
  zl = fma(s + s, sl, zl);
  const V u = two_prod(s, z, &ul);
  ul = ul + fma(s, zl, sl * z);
  const V v = two_prod(u, u.like(0x1.5555555555555p-1), &vl);
  vl = vl + fma(u, 0x1.5555555555555p-55, ul * 0x1.5555555555555p-1);
  const V q = horner(
      z, {0x1.eb1ca48d52be0p-4, 0x1.de32168338d50p-4, 0x1.1120bdf1e4f96p-3, 0x1.3b136280525edp-3,
          0x1.745d1833156f5p-3, 0x1.c71c71c57ee2fp-3, 0x1.2492492493041p-2, 0x1.9999999999996p-2});
  const V h = (s + s) + v;
  V l = (((s + s) - h) + v) + ((sl + sl) + fma(u * z, q, vl));
  const V hh = h + l;
  l = (h - hh) + l;
  const V t = two_prod(hh, hh.like(0x1.71547652b82fep+0), &tl);
  tl = tl + fma(hh, 0x1.777d0ffda0d24p-56, l * 0x1.71547652b82fep+0);
  const V sum = n + t;
  *low = ((n - sum) + t) + tl;
  return sum;
}

V log2_mid(V a) {  // pow_log2_f32
  const V i = a.bits() + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
  const V n = ((i >> 52) | 0x4330000000000000).as(kF64) - (0x1p52 + 1023.0);
  const V f = ((i & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd).as(kF64) - 1.0;
  const V q = horner(
      f, {-0x1.1db6970c6f879p-4, 0x1.0f712a76bb3acp-3, -0x1.13be08486f405p-3, 0x1.0acba0b4e60d9p-3,
          -0x1.23d4ddc84d525p-3, 0x1.481fc01e2a15fp-3, -0x1.7188f27ad524cp-3, 0x1.a61b7eb82c436p-3,
          -0x1.ec6f2cdca2bafp-3, 0x1.2776b6c5e4ddep-2, -0x1.7154788a69a93p-2, 0x1.ec709de3530a8p-2,
          -0x1.71547651b5d91p-1, 0x1.71547652b58d0p+0});
  return fma(q, f, n);
}

}  // namespace

// |a| to the b of f32 in f64, exact to about 2^-30.
V build_power(Builder& builder, const FunctionKey& what) {
  const V a = builder.argument(what.operand).cast(kF64);
  const V b = builder.argument(what.operand).cast(kF64);
  const V l = log_bounds(a, log2_mid(a));
  const V w = least(300.0, most(-300.0, bounded(b) * l));
  const V t = w + 0x1.8p52;
  const V r = w - (t - 0x1.8p52);
  const V p = horner(
      r, {0x1.fde5b453c333fp-17, 0x1.445ca4b7a2e96p-13, 0x1.5d8a8694f2eeap-10, 0x1.3b29f3785e746p-7,
          0x1.c6b08abf8aef9p-5, 0x1.ebfbe077a9ed7p-3, 0x1.62e42ff0e21bdp-1, 1.0});  // pow_exp2_f32
  const V power = ((t.bits() << 52) + 0x3ff0000000000000).as(kF64);
  return (p * power).cast(kF32);
}

V build_pow(Builder& builder, const FunctionKey& what) {
  const V a = builder.argument(what.operand), b = builder.argument(what.operand);
  const V x = abs(a);
  if (what.operand == kF32) {
    return pow_edges(a, b, builder.call(Helper::kPower, what, {x, b}));
  }
  V ll, wl;
  const V l = log_bounds(x, log2_pair(x, &ll));
  const V y = bounded(b);
  V w = two_prod(y, l, &wl);
  wl = fma(y, ll, wl);
  wl = where(abs(w) < 1100.0, wl, 0.0);
  w = least(1100.0, most(-1100.0, w));
  const V t = w + 0x1.8p52;
  const V r = (w - (t - 0x1.8p52)) + wl;
  return pow_edges(a, b, scale(exp2_poly(r), t));
}

}  // namespace aster::codegen::program::functions
