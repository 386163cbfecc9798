// Roundings where no instruction does them, operations at lanes that instructions lack, integer
// division that never traps, and the random number generator.
#include "codegen/functions_builder.h"

namespace aster::codegen::program::functions {
namespace {

// Trunc, Floor, Ceil and Round: from `whole` on every number is an integer, and adding it rounds.
V round_even(V a) {
  const double whole = a.dtype() == DType::kFloat32 ? 0x1p23 : 0x1p52;
  const V x = abs(a);
  return copysign(where(x < whole, (x + whole) - whole, x), a);
}
V one_where(V condition, V like) { return where(condition, 1.0, like.like(0.0)); }

V round_by_adding(V a, Op op) {
  if (op == Op::kRound) return round_even(a);
  if (op == Op::kTrunc) {
    const double whole = a.dtype() == DType::kFloat32 ? 0x1p23 : 0x1p52;
    const V x = abs(a), r = (x + whole) - whole;
    return copysign(where(x < whole, r - one_where(r > x, r), x), a);
  }
  const V r = round_even(a);
  return copysign(op == Op::kFloor ? r - one_where(r > a, r) : r + one_where(r < a, r), a);
}

// What division cannot divide by is 1.
V divisor(V b) {
  const V zero = b == 0;
  return where(dtype::is_signed(b.dtype()) ? zero | (b == -1) : zero, 1, b);
}
V divide(V a, V b) {
  V q = quo(a, divisor(b));
  if (dtype::is_signed(a.dtype())) q = where(b == -1, -a, q);
  return where(b == 0, 0, q);
}
V modulo(V a, V b) { return where(b == 0, a, rem(a, divisor(b))); }

}  // namespace

V build_same(Builder& b, const FunctionKey& what) {
  return b.unary(what.op, what.result, b.argument(what.operand));
}

V build_mul_acc(Builder& b, const FunctionKey& what) {
  const V x = b.argument(what.operand), y = b.argument(what.operand);
  return fma(x, y, b.argument(what.operand));
}

V build_rounding(Builder& b, const FunctionKey& what) {
  const V a = b.argument(what.operand);
  return b.fma() ? b.unary(what.op, what.result, a) : round_by_adding(a, what.op);
}

// Toward zero or down; x / 0 = 0, x % 0 = x, and the least by -1 wraps.
V build_division(Builder& builder, const FunctionKey& what) {
  const V a = builder.argument(what.operand), b = builder.argument(what.operand);
  const bool quotient = what.op == Op::kCDiv || what.op == Op::kFloorDiv;
  const bool down = what.op == Op::kFloorDiv || what.op == Op::kFloorMod;
  const V y = quotient ? divide(a, b) : modulo(a, b);
  if (!down || !dtype::is_signed(what.operand)) return y;
  if (quotient) {
    const V rest = a - y * b;
    return where((b != 0) & (rest != 0) & ((a ^ b) < 0), y - 1, y);
  }
  return where((y != 0) & (b != 0) & ((y ^ b) < 0), y + b, y);
}

// threefry2x32, 20 rounds: counter a, key b, low halves first (Salmon et al., SC'11).
V build_threefry(Builder& builder, const FunctionKey& what) {
  constexpr DType kU32 = DType::kUInt32;
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const V a = builder.argument(what.operand), b = builder.argument(what.operand);
  const V k0 = b.cast(kU32), k1 = (b >> 32).cast(kU32);
  const V keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bda};
  V x = a.cast(kU32) + k0, y = (a >> 32).cast(kU32) + k1;
  for (size_t round = 0; round < 5; ++round) {
    for (size_t i = 0; i < 4; ++i) {
      const int by = kRotations[round % 2 * 4 + i];
      x = x + y;
      y = (y << by | y >> (32 - by)) ^ x;
    }
    x = x + keys[(round + 1) % 3];
    y = y + (keys[(round + 2) % 3] + static_cast<unsigned>(round + 1));
  }
  return x.cast(what.result) | y.cast(what.result) << 32;
}

}  // namespace aster::codegen::program::functions
