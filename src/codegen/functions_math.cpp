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

}  // namespace aster::codegen::program::functions
