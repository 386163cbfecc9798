// Casts of narrow floats and from floats to integers. Narrow floats are their bits: to nearest,
// ties to even; NaN stays NaN and becomes quiet.
#include "codegen/functions_builder.h"

namespace aster::codegen::program::functions {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;
constexpr DType kI32 = DType::kInt32, kU32 = DType::kUInt32;
constexpr double kInf = __builtin_inf();

// ---- From narrow floats ----

V from_f16(V a) {
  const V u = a.bits().cast(kI32);
  const V m = (u & 0x7fff) << 13;
  const V quiet = where((u & 0x3ff) != 0, 0x400000, u.like(0));
  const V wide = m | 0x7f800000 | quiet;
  const V y = where((u & 0x7c00) == 0x7c00, wide, (m.as(kF32) * 0x1p112).ints());
  return (y | (u & 0x8000) << 16).as(kF32);
}

// |a| of fp8 codes, with their sign: `shift` is 23 less the bits of the fraction, bias the
// exponent's.
V widen_fp8(V u, int shift, int bias) {
  const V m = u & 0x7f;
  const V y = (m << shift) + ((127 - bias) << 23);
  const V unit = u.like((127 - bias + 1 - (23 - shift)) << 23).as(kF32);  // of denormal codes
  const V z = (m.cast(kF32) * unit).ints();
  return (where(m < 1 << (23 - shift), z, y) | (u & 0x80) << 24).as(kF32);
}

V from_fp8(V a) {
  const V u = a.bits().cast(kI32);
  switch (a.dtype()) {
    case DType::kFp8E4M3: {
      const V y = widen_fp8(u, 20, 7);
      return where((u & 0x7f) == 0x7f, y.like(__builtin_nan("")), y);
    }
    case DType::kFp8E5M2: {
      V y = widen_fp8(u, 21, 15);
      y = where((u & 0x7f) == 0x7c, copysign(y.like(kInf), y), y);
      return where((u & 0x7f) > 0x7c, y.like(__builtin_nan("")), y);
    }
    default: {
      const bool e4m3 = a.dtype() == DType::kFp8E4M3Fnuz;
      const V y = widen_fp8(u, e4m3 ? 20 : 21, e4m3 ? 8 : 16);
      return where(u == 0x80, y.like(__builtin_nan("")), y);
    }
  }
}

V to_f32(V a) {
  if (a.dtype() == DType::kBFloat16) return (a.bits().cast(kU32) << 16).as(kF32);
  return a.dtype() == DType::kFloat16 ? from_f16(a) : from_fp8(a);
}

// ---- To narrow floats ----

V to_f16(V a) {
  const V x = a.ints() & 0x7fffffff, u = x.as(kU32);
  V y = ((u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13).ints();
  y = where(x < 0x38800000, (x.as(kF32) + 0.5).ints() - 0x3f000000, y);
  y = where(x < 0x477ff000, y, 0x7c00);
  y = where(x > 0x7f800000, (x >> 13 & 0x3ff) | 0x7e00, y);
  const V sign = (a.bits() & 0x80000000u) >> 16;
  return (y.as(kU32) | sign).cast(DType::kUInt16).as(DType::kFloat16);
}

V to_bf16(V a) {
  const V x = a.bits();
  const V y = (x + 0x7fff + (x >> 16 & 1)) >> 16;
  const V quiet = x >> 16 | 0x40;
  return where(a != a, quiet, y).cast(DType::kUInt16).as(DType::kBFloat16);
}

// |a| without its sign bit: shift and bias as above, most the largest code; beyond it too.
V narrow_fp8(V a, int shift, int bias, int most) {
  const V x = a.ints() & 0x7fffffff, u = x.as(kU32);
  const V y = u + ((1u << (shift - 1)) - 1) + (u >> shift & 1) -
              ((127u - static_cast<unsigned>(bias)) << 23);
  const int least = (128 - bias) << 23;  // the smallest normal number; below it adding m rounds
  const V m = x.like((128 - bias + shift) << 23);
  const V z = where(x < least, (x.as(kF32) + m.as(kF32)).ints() - m, (y >> shift).ints());
  return where(z > most, z.like(most), z);
}

V to_fp8(V a, DType to) {
  const V x = a.ints() & 0x7fffffff, sign = a.ints() >> 24 & 0x80;
  V y{};
  switch (to) {
    case DType::kFp8E4M3:
      y = where(x < 0x7f800000, narrow_fp8(a, 20, 7, 0x7e), 0x7f) | sign;
      break;
    case DType::kFp8E5M2:
      y = where(x < 0x7f800000, narrow_fp8(a, 21, 15, 0x7b), 0x7c);
      y = where(x > 0x7f800000, 0x7f, y) | sign;
      break;
    default: {
      const bool e4m3 = to == DType::kFp8E4M3Fnuz;
      const V z = narrow_fp8(a, e4m3 ? 20 : 21, e4m3 ? 8 : 16, 0x7f);
      y = z | where(z != 0, sign, 0);
      y = where(x < 0x7f800000, y, 0x80);
    }
  }
  return y.cast(DType::kUInt8).as(to);
}

// f64 to f32 rounded to odd, finite numbers staying finite: rounding that once more, to far fewer
// bits, is as good as rounding once.
V to_odd(V a) {
  const V x = a.bits();
  const V sticky = where((x & 0x1fffffff) != 0, 0x20000000, x.like(0));
  const V y = ((x & ~uint64_t{0x1fffffff}) | sticky).as(kF64);
  const V bound = least(0x1.fffffep127, most(-0x1.fffffep127, y));
  return where(abs(a) < kInf, bound, a).cast(kF32);
}

// ---- Floats to integers: NaN and what int64 cannot hold give 0, the rest is truncated and wraps
// ----

V within(V a, double bound) { return where(abs(a) < bound, a, 0.0); }
// x less the multiple of 2^32 that makes it an int32.
V wrapped(V x) {
  const V m = x - rounded(Op::kFloor, x * 0x1p-32) * 0x1p32;
  return where(m >= 0x1p31, m - 0x1p32, m);
}

V to_i32(V a) {
  const V x = within(a, 0x1p63);
  if (a.dtype() == kF64) return to_int(wrapped(rounded(Op::kTrunc, x)), kI32);
  return to_int(where(abs(x) < 0x1p31, x, wrapped(x)), kI32);
}

}  // namespace

V build_from_narrow(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.operand);
  // A target that casts f16 but not at these lanes comes here too.
  if (what.result == kF32) {
    return b.fma() && what.operand == DType::kFloat16 ? a.cast(kF32) : to_f32(a);
  }
  return a.cast(kF32).cast(what.result);
}

V build_to_narrow(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.operand);
  if (what.operand == DType::kBool) {
    return where(a, b.constant(what.result, 1.0), b.constant(what.result, 0.0));
  }
  // bfloat16 is defined by way of float32.
  if (what.operand == kF64 && what.result != DType::kBFloat16) return to_odd(a).cast(what.result);
  if (what.operand != kF32) return a.cast(kF32).cast(what.result);
  if (what.result == DType::kBFloat16) return to_bf16(a);
  if (what.result != DType::kFloat16) return to_fp8(a, what.result);
  return b.fma() ? a.cast(what.result) : to_f16(a);
}

V build_to_int(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.operand);
  if (what.result == DType::kInt64) return to_int(within(a, 0x1p63), DType::kInt64);
  if (what.result == kI32) return to_i32(a);
  return a.cast(dtype::size(what.result) == 8 ? DType::kInt64 : kI32).cast(what.result);
}

}  // namespace aster::codegen::program::functions
