// Exponentials, logarithms, tanh, erf. Coefficients: tools/minimax/minimax.py, whose names stand
// beside them.
#include "codegen/functions_builder.h"

namespace aster::codegen::program::functions {
namespace {

constexpr DType kF32 = DType::kFloat32;
bool single(V x) { return x.dtype() == kF32; }
// n + this holds n in its low bits.
double shifter(V x) { return single(x) ? 0x1.8p23 : 0x1.8p52; }

V exp_poly(V r) {
  if (single(r)) {  // exp_f32
    return horner(r, {0x1.6a2418p-10f, 0x1.1239e2p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f,
                      0x1.fffffcp-2f, 1.0f, 1.0f});
  }
  const V q = horner(
      r, {0x1.ad7fc7ce23364p-26, 0x1.28ad71fe0ca08p-22, 0x1.71df2517fe6e3p-19,
          0x1.a0199a0d3b33ap-16, 0x1.a01a012a72951p-13, 0x1.6c16c18429ca3p-10, 0x1.1111111127b94p-7,
          0x1.555555555087ep-5, 0x1.55555555554fap-3, 0x1.000000000000ap-1});  // exp_f64
  return 1.0 + fma(r * r, q, r);
}

// n = nearest integer to a / ln 2, returned as n + shifter; *r = a - n ln 2.
V exp_reduce(V a, V* r) {
  const bool f32 = single(a);
  const V t = fma(a, f32 ? 0x1.715476p+0 : 0x1.71547652b82fep+0, shifter(a));
  const V n = t - shifter(a);
  *r = fma(n, f32 ? -0x1.7f7d1cp-20 : -0x1.3de6af278ece6p-42,
           fma(n, f32 ? -0x1.62e400p-1 : -0x1.62e42fefa3000p-1, a));
  return t;
}

}  // namespace

// What rounds to 0 is scaled from 0: from anything else the CPU takes 60 times as long (the masked
// half of an attention).
V build_exp(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  const bool f32 = single(a);
  V r;
  const V t = exp_reduce(least(f32 ? 90.0 : 711.0, most(f32 ? -105.0 : -747.0, a)), &r);
  return scale(where(a < (f32 ? -104.0 : -746.0), 0.0, exp_poly(r)), t);
}

// The same of what is not positive, with the same bits: one factor goes as far as the least result
// does, and one that is known brings it back.
V build_exp_down(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  const bool f32 = single(a);
  V r;
  const V t = exp_reduce(most(f32 ? -105.0 : -747.0, a), &r);
  const V y = where(a < (f32 ? -104.0 : -746.0), 0.0, exp_poly(r));
  constexpr int kUp = 64;
  const V factor = f32 ? (t.ints() << 23) + (int64_t{127 + kUp} << 23)
                       : (t.ints() << 52) + (int64_t{1023 + kUp} << 52);
  return y * factor.as(a.dtype()) * 0x1p-64;
}

V exp2_poly(V r) {
  if (single(r)) {  // exp2_f32
    return horner(r, {0x1.41fba4p-13f, 0x1.5f3e7ep-10f, 0x1.3b2d4ep-7f, 0x1.c6aee8p-5f,
                      0x1.ebfbdcp-3f, 0x1.62e430p-1f, 1.0f});
  }
  return horner(r, {0x1.e79b605059052p-32, 0x1.e61b6e8d98891p-28, 0x1.b5267d4a1b20bp-24,
                    0x1.62bfc78c957aap-20, 0x1.ffcbfba9355ebp-17, 0x1.4309130edeea5p-13,
                    0x1.5d87fe78cd81fp-10, 0x1.3b2ab6fba00fep-7, 0x1.c6b08d7049fe7p-5,
                    0x1.ebfbdff82c5a4p-3, 0x1.62e42fefa39efp-1, 1.0});  // exp2_f64
}

V build_exp2(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  const bool f32 = single(a);
  const V x = least(f32 ? 130.0 : 1030.0, most(f32 ? -151.0 : -1080.0, a));
  const V t = x + shifter(a);
  return scale(where(a < (f32 ? -150.5 : -1075.5), 0.0, exp2_poly(x - (t - shifter(a)))), t);
}

// ---- Logarithms ----

V log_split(V a, V* n) {
  if (single(a)) {
    const V tiny = a < 0x1p-126;
    const V i = where(tiny, a * 0x1p23, a).ints() - 0x3f3504f3;
    *n = (i >> 23).cast(kF32) - where(tiny, 23.0, a.like(0.0));
    return ((i & 0x007fffff) + 0x3f3504f3).as(kF32) - 1.0;
  }
  const V tiny = a < 0x1p-1022;
  const V i = where(tiny, a * 0x1p54, a).bits() + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
  *n = ((i >> 52) | 0x4330000000000000).as(a.dtype()) - (0x1p52 + 1023.0) -
       where(tiny, 54.0, a.like(0.0));
  return ((i & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd).as(a.dtype()) - 1.0;
}

namespace {

// What a logarithm is at 0, below 0, at infinity and NaN; y elsewhere.
V log_edges(V a, V y) {
  const V out = where(a == 0.0, -__builtin_inf(), a.like(__builtin_nan("")));
  return where(a > 0.0, where(a < __builtin_inf(), y, a), out);
}

// f32: log(1 + f) - f + f^2 / 2. f64: 2 atanh(s) / s - 2 for s = f / (2 + f), whence log(1 + f) =
// f - (f^2 / 2 - s (f^2 / 2 + that)).
V log_tail(V a) {
  if (single(a)) {  // log_f32
    return a * a * a *
           horner(a, {-0x1.38bf5ap-4f, 0x1.0563bap-3f, -0x1.0d8768p-3f, 0x1.22d92ep-3f,
                      -0x1.5471f8p-3f, 0x1.99a010p-3f, -0x1.000228p-2f, 0x1.555554p-2f});
  }
  const V z = a * a;
  return z * horner(z, {0x1.2f0b0ebe28a32p-3, 0x1.39a1361369713p-3, 0x1.746643962b7dap-3,
                        0x1.c71c51f4ed381p-3, 0x1.2492494207359p-2, 0x1.999999997fc64p-2,
                        0x1.5555555555593p-1});  // log_f64
}

}  // namespace

V build_log(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  V n;
  const V f = log_split(a, &n);
  if (single(a)) {
    V y = fma(n, 0x1.7f7d1cp-20, log_tail(f));
    y = f + fma(-0.5, f * f, y);
    return log_edges(a, fma(n, 0x1.62e400p-1, y));
  }
  const V s = f / (f + 2.0), h = f * f * 0.5;
  const V y = fma(n, 0x1.3de6af278ece6p-42, s * (h + log_tail(s)));
  return log_edges(a, fma(n, 0x1.62e42fefa3000p-1, f - (h - y)));
}

V build_log2(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  V n;
  const V f = log_split(a, &n);
  if (single(a)) {
    const V y = fma(-0.5, f * f, log_tail(f)), l = f.like(0x1.715476p+0);
    return log_edges(a, n + fma(y, l, fma(f, 0x1.4ae0c0p-26, f * l)));
  }
  const V s = f / (f + 2.0), h = f * f * 0.5;
  const V high = ((f - h).bits() & 0xffffffff00000000).as(a.dtype());
  const V low = ((f - high) - h) + s * (h + log_tail(s));
  const V y = high * 0x1.715470p+0;  // exact
  const V rest = fma(low + high, 0x1.94ae0bf85ddf4p-22, low * 0x1.715470p+0);
  const V sum = n + y;
  return log_edges(a, sum + ((n - sum + y) + rest));
}

// ---- tanh: -m / (m + 2), m = expm1(-2 |a|) = 2^n q + 2^n - 1, rounded once in both places ----

namespace {

// 2^n for n + shifter, where that is a normal number.
V pow2(V t) {
  if (single(t)) return ((t.bits() << 23) + 0x3f800000).as(kF32);
  return ((t.bits() << 52) + 0x3ff0000000000000).as(t.dtype());
}

// exp where neither the argument nor the result is extreme.
V exp_mild(V a) {
  V r;
  const V t = exp_reduce(a, &r);
  return exp_poly(r) * pow2(t);
}

V over(V s, V q, V a) { return copysign(fma(s, q, s - 1.0) / fma(s, q, s + 1.0), a); }

V tanh_f64(V a) {  // expm1_f64
  V x = abs(a);
  x = most(-40.0, -x - x);
  const V t = fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
  const V n = t - 0x1.8p52;
  const V h = fma(n, -0x1.62e42fefa3000p-1, x);
  V l = n * 0x1.3de6af278ece6p-42;
  const V r = h - l;
  l = (h - r) - l;
  V q = horner(r, {0x1.1ef514ddd64c4p-29, 0x1.af5d2bb321e2dp-26, 0x1.27e52b3abf550p-22,
                   0x1.71ddf94df27f4p-19, 0x1.a01a0182fd233p-16, 0x1.a01a01af77abap-13,
                   0x1.6c16c16c1cd06p-10, 0x1.111111110f7e8p-7, 0x1.5555555555549p-5,
                   0x1.5555555555559p-3, 0.5});
  q = r + fma(r * r, q, fma(l, r, l));
  return over(pow2(t), q, a);
}

}  // namespace

V build_tanh(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  if (!single(a)) return tanh_f64(a);
  const V x = abs(a);
  V r;
  const V t = exp_reduce(most(-20.0, -x - x), &r);
  const V q = horner(r, {0x1.9fbe0cp-13f, 0x1.6d407ap-10f, 0x1.1111cap-7f, 0x1.5554f2p-5f,
                         0x1.555554p-3f, 0.5f});  // expm1_f32
  return over(pow2(t), fma(r * r, q, r), a);
}

// ---- erf: a + a P(a^2), or 1 - exp(Q(|a|)) ----

namespace {

V erf_f32(V a) {  // erf_small_f32, erf_tail_f32
  const V x = abs(a), z = a * a;
  V p = horner(z, {0x1.5cd56ap-14f, -0x1.aa3f68p-11f, 0x1.54c7fcp-8f, -0x1.b80e92p-6f,
                   0x1.ce2e0ap-4f, -0x1.812742p-2f, 0x1.06eba8p-3f});
  p = fma(x, p, x);
  const V u = least(4.0, x);
  V q = horner(
      u, {-0x1.185098p-21f, -0x1.e01a88p-17f, 0x1.9ff5a2p-12f, -0x1.09a58ep-8f, 0x1.97e216p-6f,
          -0x1.ba6ac0p-4f, -0x1.445fcep-1f, -0x1.212298p+0f, 0x1.506572p-13f});
  q = 1.0 - exp_mild(q);
  return copysign(where(x < 0.925f, p, q), a);
}

V erf_f64(V a) {  // erf_small_f64, erf_tail_f64
  const V x = abs(a), z = least(1.0, a * a);
  V p = horner(z, {-0x1.e5459542d8fd9p-31, 0x1.e7693cc013ac8p-27, -0x1.5e091541266bcp-23,
                   0x1.b9c7d2e9d451bp-20, -0x1.f4d09ac9b4c71p-17, 0x1.f9a315e7c73d1p-14,
                   -0x1.c02db392ad449p-11, 0x1.565bcd0cab5bcp-8, -0x1.b82ce3128048ep-6,
                   0x1.ce2f21a042a91p-4, -0x1.812746b0379e5p-2, 0x1.06eba8214db69p-3});
  p = fma(x, p, x);
  const V u = least(5.95, x) - 1.0;
  V q = horner(u, {-0x1.06a571888027cp-49, 0x1.fbfa47e783c35p-45,  -0x1.b5a486c71053ap-41,
                   0x1.ad787a59667cbp-38,  -0x1.deb4e7f15d7efp-36, 0x1.1d8969f525ec6p-35,
                   0x1.08aa6855f6a10p-31,  -0x1.279217141bd05p-28, 0x1.669c0f818a489p-26,
                   -0x1.22c77b30d8f3cp-24, 0x1.1029190674461p-23,  0x1.b9778978dc28ap-24,
                   -0x1.0eef623d82e5ap-19, 0x1.415c64741b539p-17,  -0x1.c75a2177d5c7ap-16,
                   0x1.b8be64255353bp-16,  0x1.f1b4bb6d05032p-13,  -0x1.033f6994add4bp-9,
                   0x1.48c9d40c0bcf0p-7,   -0x1.5477f09ca9515p-5,  -0x1.afabc11a28f38p-1,
                   -0x1.51c9b0006c23dp+1,  -0x1.d97fbf27aa2a1p+0});
  q = 1.0 - exp_mild(q);
  return copysign(where(x < 0.845, p, q), a);
}

}  // namespace

V build_erf(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.result);
  return single(a) ? erf_f32(a) : erf_f64(a);
}

}  // namespace aster::codegen::program::functions
