// sin and cos: a quick reduction by pi / 2 in parts, and for large arguments the product with as
// many bits of 2 / pi as it takes.
#include "codegen/functions_builder.h"

namespace aster::codegen::program::functions {
namespace {

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;
constexpr DType kU32 = DType::kUInt32, kU64 = DType::kUInt64;

V sign_of(V a) { return a.bits() & (a.dtype() == kF32 ? uint64_t{1} << 31 : uint64_t{1} << 63); }

// ---- Large arguments ----

// Two over pi in words of 64 bits, from 2^-1 down; a zero word above so that any window may be
// taken, and some below so that any index may be read.
Id two_over_pi(Builder& b) {
  constexpr uint64_t kBits[36] = {0,
                                  0xa2f9836e4e441529,
                                  0xfc2757d1f534ddc0,
                                  0xdb6295993c439041,
                                  0xfe5163abdebbc561,
                                  0xb7246e3a424dd2e0,
                                  0x06492eea09d1921c,
                                  0xfe1deb1cb129a73e,
                                  0xe88235f52ebb4484,
                                  0xe99c7026b45f7e41,
                                  0x3991d639835339f4,
                                  0x9c845f8bbdf9283b,
                                  0x1ff897ffde05980f,
                                  0xef2f118b5a0a6d1f,
                                  0x6d367ecf27cb09b7,
                                  0x4f463f669e5fea2d,
                                  0x7527bac7ebe5f17b,
                                  0x3d0739f78a5292ea,
                                  0x6bfb5fb11f8d5d08,
                                  0x56033046fc7b6bab,
                                  0xf0cfbc209af4361d};
  Word words[std::size(kBits)];
  for (size_t i = 0; i < std::size(kBits); ++i) words[i] = static_cast<Word>(kBits[i]);
  return b.table(kU64, words);
}

// The product of 53 bits with 192, its lowest 192 bits in words from the highest down.
void multiply_wide(V m, const V (&w)[3], V (&out)[3]) {
  const V halves[2] = {m & 0xffffffff, m >> 32};
  V digits[6];  // of 32 bits, from the lowest up; then those of the product
  for (size_t i = 0; i < 6; ++i) {
    const V word = w[2 - i / 2];
    digits[i] = i % 2 == 0 ? word & 0xffffffff : word >> 32;
  }
  V product[6];
  for (size_t half = 0; half < 2; ++half) {
    V carry{};
    for (size_t i = half; i < 6; ++i) {
      V t = halves[half] * digits[i - half];
      if (half == 1) t = t + product[i];
      if (carry.b != nullptr) t = t + carry;
      product[i] = t & 0xffffffff;
      carry = t >> 32;
    }
  }
  for (size_t i = 0; i < 3; ++i) out[2 - i] = product[2 * i] | product[2 * i + 1] << 32;
}

// high:low shifted left until its first bit is set; the result is by how many.
V normalise(V* high, V* low) {
  const V none = *high == 0;
  *high = where(none, *low, *high);
  *low = where(none, 0, *low);
  const V half = (*high >> 32) == 0;
  *high = where(half, *high << 32 | *low >> 32, *high);
  *low = where(half, *low << 32, *low);
  // The exponent of the upper 32 bits as a number.
  const V upper = ((*high >> 32) | 0x4330000000000000).as(kF64) - 0x1p52;
  const V more = (1023 + 31 - (upper.bits() >> 52)) & 63;
  *high = *high << more | *low >> 1 >> (63 - more);
  *low = *low << more;
  return more + where(none, 64, more.like(0)) + where(half, 32, more.like(0));
}

// Nearest integer to a * 2 / pi, its low bits, for a >= 0.75; *high and *low the parts of what
// remains, in radians (NaN for infinity and NaN). The product of the 53 bits of a with a window of
// 192 bits of 2 / pi (Payne and Hanek) leaves 137 good bits below the units.
V turn(V a, V* high, V* low) {
  const Id table = two_over_pi(*a.b);
  const V bits = a.bits();
  const V from = (bits >> 52) - (1023 + 52 - 62);  // the first bit of the window
  const V index = (from >> 6).as(DType::kInt64) & 31, s = from & 63, back = 63 - s;
  V words[4], window[3], product[3];
  for (size_t i = 0; i < 4; ++i) words[i] = a.b->load(table, index, static_cast<int64_t>(i));
  for (size_t i = 0; i < 3; ++i) window[i] = words[i] << s | words[i + 1] >> 1 >> back;
  multiply_wide((bits & 0xfffffffffffff) | 0x10000000000000, window, product);
  const auto [top, mid, rest] = product;
  const V turns = (top >> 62) + (top >> 61 & 1);
  // What is behind the units, as a number of 128 bits with a sign.
  V f1 = top << 2 | mid >> 62, f0 = mid << 2 | rest >> 62;
  const V negative = (f1 >> 63) != 0;
  f1 = where(negative, ~f1 + where(f0 == 0, 1, f0.like(0)), f1);
  f0 = where(negative, 0 - f0, f0);
  const V z = normalise(&f1, &f0);
  // f = (first + second) * 2^(-64 - z), with 53 bits each.
  const auto real = [](V x) { return x.as(DType::kInt64).cast(kF64); };
  const V scale = ((1023 - 64 - z) << 52).as(kF64);
  const V unit = where(negative, -scale, scale);
  const V first = real(f1 >> 11) * 0x1p11 * unit;
  const V second = real((f1 & 0x7ff) << 42 | f0 >> 22) * 0x1p-42 * unit;
  const V h = first.cast(kF32).cast(kF64);
  const V p = h * 0x1.921fb4p+0;  // exact: 24 bits by 24
  const V q = h * 0x1.4442d18469899p-24 + ((first - h) + second) * 0x1.921fb54442d18p+0;
  const V none = a.b->alu(Op::kCmpLe, DType::kBool, {bits.like(uint64_t{2047} << 52), bits});
  const V nan = a.like(__builtin_nan(""));
  *high = where(none, nan, p + q);
  *low = where(none, nan, (p - (p + q)) + q);
  return where(none, 0, turns);
}

// ---- Quick reductions ----

struct Turned {
  V rest, low, turns;  // low of f64 alone
};

// Without FMA, in f64: the helpers below.
V turn_half(V x, V* rest) {
  const V t = x * 0x1.45f306dc9c883p-1 + 0x1.8p52;
  const V n = t - 0x1.8p52;
  *rest = (x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a626331p-34;
  return t.bits();
}

// Nearest integer to x * 2 / pi (low bits) for x >= 0, and x less that many right angles: pi / 2 in
// three parts (Cody and Waite).
Turned turn_fast_f32(V x) {
  Builder& b = *x.b;
  if (!b.fma()) {
    return {b.call(Helper::kTurnRest, {Op::kSin, kF32, kF32}, {x}), V{},
            b.call(Helper::kTurnCount, {Op::kSin, kU32, kF32}, {x})};
  }
  const V t = fma(x, 0x1.45f306p-1, 0x1.8p23);
  const V n = t - 0x1.8p23;
  const V r = fma(n, -0x1.4442d0p-24, fma(n, -0x1.921fb4p+0, x));
  return {fma(n, -0x1.84698ap-48, r), V{}, t.bits()};
}
Turned turn_fast_f64(V a) {
  const V t = fma(a, 0x1.45f306dc9c883p-1, 0x1.8p52);
  const V n = t - 0x1.8p52;
  const V x = fma(n, -0x1.921fb54400000p+0, a);  // exact, and so is n * the second part
  const V y = n * 0x1.0b4611a600000p-34;
  const V s = x - y, v = s - x;
  const V e = fma(n, -0x1.3198a2e037073p-69, (x - (s - v)) - (y + v));
  const V high = s + e;
  return {high, (s - high) + e, t.bits()};
}

// ---- Polynomials: sin(rest + turns * pi / 2), |rest| <= pi / 4 ----

V turned_sin_f32(V a, V turns) {  // sin_f32, cos_f32
  const V z = a * a;
  V p = horner(z, {-0x1.994334p-13f, 0x1.11073ap-7f, -0x1.555546p-3f});
  p = fma(a * z, p, a);
  V q = horner(z, {0x1.99eafcp-16f, -0x1.6c0c32p-10f, 0x1.55554ap-5f});
  q = fma(z * z, q, fma(z, -0.5, 1.0));
  const V y = where((turns & 1) != 0, q, p);
  return (y.bits() ^ ((turns & 2) << 30)).as(kF32);
}
V turned_sin_f64(V a, V low, V turns) {  // sin_f64, cos_f64
  const V z = a * a;
  V p = horner(z, {-0x1.aaa1e5a1ea836p-41, 0x1.61208b86f19eap-33, -0x1.ae64528c55cadp-26,
                   0x1.71de3a532facdp-19, -0x1.a01a01a018a62p-13, 0x1.111111111110bp-7,
                   -0x1.5555555555555p-3});
  p = a + fma(a * z, p, low);
  V q = horner(z, {-0x1.8fa434ee3fad7p-37, 0x1.1ee9d6f68aa93p-29, -0x1.27e4f7e9b448ep-22,
                   0x1.a01a019c82e14p-16, -0x1.6c16c16c14f83p-10, 0x1.555555555554bp-5});
  const V h = z * 0.5, w = 1.0 - h;
  q = w + (((1.0 - w) - h) + fma(z * z, q, -(a * low)));
  const V y = where((turns & 1) != 0, q, p);
  return (y.bits() ^ ((turns & 2) << 62)).as(kF64);
}
V turned_sin(const Turned& x, V more) {
  const V turns = more.b == nullptr ? x.turns : x.turns + more;
  return x.low.b == nullptr ? turned_sin_f32(x.rest, turns) : turned_sin_f64(x.rest, x.low, turns);
}

V signed_like(V y, V a) { return (y.bits() ^ sign_of(a)).as(y.dtype()); }

// sin(a), or cos(a)
V sine(V a, bool cosine) {
  Builder& b = *a.b;
  const bool f32 = a.dtype() == kF32;
  const V x = abs(a);
  const Turned fast = f32 ? turn_fast_f32(x) : turn_fast_f64(x);
  const V more = fast.turns.like(cosine ? 1 : 0);
  V quick = turned_sin(fast, cosine ? more : V{});
  if (!cosine) quick = signed_like(quick, a);
  // Not arguments that are too large, and remainders that are too small.
  V serves = x <= (f32 ? 0x1p15 : 0x1p20);
  if (!f32) serves = serves & ((abs(fast.rest) >= 0x1p-25) | (x <= 0.75));
  const FunctionKey key{Op::kSin, a.dtype(), a.dtype()};
  return b.unless_all(serves, quick, [&] {
    return b.call(Helper::kSine, key, {a, more, serves, quick});
  });
}

}  // namespace

// sin(a), or cos(a) where `more` is 1; where the quick reduction serves its result.
V build_sine(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.operand);
  const V more = b.argument(what.operand == kF32 ? kU32 : kU64);
  const V serves = b.argument(DType::kBool), quick = b.argument(what.operand);
  Turned turned;
  turned.turns = turn(abs(a).cast(kF64), &turned.rest, &turned.low);
  if (what.operand == kF32) {
    turned = {turned.rest.cast(kF32), V{}, turned.turns.cast(kU32)};
  }
  const V y = turned_sin(turned, more);
  return where(serves, quick, where(more == 0, signed_like(y, a), y));
}
V build_turn_rest(Builder& b, const FunctionKey& what) {
  V rest;
  turn_half(b.argument(what.operand).cast(kF64), &rest);
  return rest.cast(kF32);
}
V build_turn_count(Builder& b, const FunctionKey& what) {
  V rest;
  return turn_half(b.argument(what.operand).cast(kF64), &rest).cast(kU32);
}

V build_sin(Builder& b, const FunctionKey& what) { return sine(b.argument(what.operand), false); }
V build_cos(Builder& b, const FunctionKey& what) { return sine(b.argument(what.operand), true); }

}  // namespace aster::codegen::program::functions
