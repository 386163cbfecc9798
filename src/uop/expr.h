// Expressions over nodes: arithmetic that broadcasts, for bodies of composites, gradients and
// front-end compositions.
//
// Operands of one operation have one dtype (promotion is the front end's); a double stands for a
// constant of the other operand's dtype. Nil nodes absorb: the first failure stays in the thread's
// error record.
#pragma once

#include "uop/uop.h"

namespace aster::uop {

// A list of words on the stack, long enough for every rank.
struct Dims {
  static constexpr size_t kMost = 255;
  size_t count = 0;
  Word at[kMost];  // the first count are set

  Dims() {}  // NOLINT: at stays uninitialised
  explicit Dims(Words words) {
    for (Word w : words) push(w);
  }
  Dims(size_t n, Word fill) {
    for (size_t i = 0; i < n; ++i) push(fill);
  }
  void push(Word word) {
    if (count < kMost) at[count++] = word;
  }
  Word& operator[](size_t i) { return at[i]; }
  Word operator[](size_t i) const { return at[i]; }
  size_t size() const { return count; }
  operator Words() const { return {at, count}; }  // NOLINT: a list of words is what it is
};

// The shape that a and b broadcast to, aligned at their last axes; false if they do not fit, or
// have too many axes.
[[nodiscard]] bool broadcast_shape(Dims* out, Words a, Words b);
// x repeated to shape. SHAPE if it does not fit.
Node broadcast_to(Graph& g, Node x, Words shape);
// x without the given axes, all of size 1 (ascending).
Node drop_axes(Graph& g, Node x, Words axes);

struct Expr {
  Graph* g = nullptr;
  Node n = nullptr;

  DType dtype() const { return n == nullptr ? DType::kNone : n->dtype; }
  Words shape() const { return n == nullptr ? Words() : n->shape(); }
  size_t ndim() const { return n == nullptr ? 0 : n->ndim; }
  // A constant of this dtype and shape.
  Expr like(double value) const {
    return n == nullptr ? *this : Expr{g, g->constant(n->dtype, value, n->shape())};
  }
  Expr cast(DType dtype) const { return {g, g->cast(n, dtype)}; }
  Expr detach() const { return {g, g->detach(n)}; }
  Expr reshape(Words to) const { return {g, g->reshape(n, to)}; }
  Expr permute(Words axes) const { return {g, g->permute(n, axes)}; }
  Expr expand(Words to) const { return {g, n == nullptr ? nullptr : broadcast_to(*g, n, to)}; }
};

// One operation on operands that broadcast.
Expr alu(Op op, Expr a);
Expr alu(Op op, Expr a, Expr b);
Expr alu(Op op, Expr a, Expr b, Expr c);
inline Expr alu(Op op, Expr a, double b) { return alu(op, a, a.like(b)); }
inline Expr alu(Op op, double a, Expr b) { return alu(op, b.like(a), b); }

#define ASTER_EXPR_BINARY(name, op)                                \
  inline Expr name(Expr a, Expr b) { return alu(Op::op, a, b); }   \
  inline Expr name(Expr a, double b) { return alu(Op::op, a, b); } \
  inline Expr name(double a, Expr b) { return alu(Op::op, a, b); }
ASTER_EXPR_BINARY(operator+, kAdd)
ASTER_EXPR_BINARY(operator-, kSub)
ASTER_EXPR_BINARY(operator*, kMul)
ASTER_EXPR_BINARY(operator/, kDiv)
ASTER_EXPR_BINARY(operator<, kCmpLt)
ASTER_EXPR_BINARY(operator<=, kCmpLe)
ASTER_EXPR_BINARY(operator==, kCmpEq)
ASTER_EXPR_BINARY(operator!=, kCmpNe)
ASTER_EXPR_BINARY(max, kMax)
ASTER_EXPR_BINARY(min, kMin)
ASTER_EXPR_BINARY(pow, kPow)
#undef ASTER_EXPR_BINARY
inline Expr operator>(Expr a, Expr b) { return b < a; }
inline Expr operator>(Expr a, double b) { return b < a; }
inline Expr operator>=(Expr a, Expr b) { return b <= a; }
inline Expr operator>=(Expr a, double b) { return b <= a; }
inline Expr operator&(Expr a, Expr b) { return alu(Op::kAnd, a, b); }
inline Expr operator|(Expr a, Expr b) { return alu(Op::kOr, a, b); }
inline Expr operator^(Expr a, Expr b) { return alu(Op::kXor, a, b); }
inline Expr operator~(Expr a) { return alu(Op::kNot, a); }
inline Expr operator-(Expr a) { return alu(Op::kNeg, a); }
inline Expr exp(Expr a) { return alu(Op::kExp, a); }
inline Expr log(Expr a) { return alu(Op::kLog, a); }
inline Expr log2(Expr a) { return alu(Op::kLog2, a); }
inline Expr sqrt(Expr a) { return alu(Op::kSqrt, a); }
inline Expr recip(Expr a) { return alu(Op::kRecip, a); }
inline Expr sin(Expr a) { return alu(Op::kSin, a); }
inline Expr cos(Expr a) { return alu(Op::kCos, a); }
inline Expr tanh(Expr a) { return alu(Op::kTanh, a); }
inline Expr erf(Expr a) { return alu(Op::kErf, a); }
inline Expr abs(Expr a) { return alu(Op::kAbs, a); }
inline Expr floor(Expr a) { return alu(Op::kFloor, a); }
inline Expr trunc(Expr a) { return alu(Op::kTrunc, a); }
// A function of aster_ml/flt.h of a wide float.
inline Expr wide_function(int32_t code, Expr a) {
  return {a.g, a.n == nullptr ? nullptr : a.g->wide_function(code, std::array{a.n})};
}
inline Expr where(Expr c, Expr a, Expr b) { return alu(Op::kWhere, c, a, b); }
inline Expr where(Expr c, Expr a, double b) { return where(c, a, a.like(b)); }
inline Expr where(Expr c, double a, Expr b) { return where(c, b.like(a), b); }

// Reductions leave the axes with size 1; axes ascending.
Expr reduce(Op op, Expr x, Words axes);
// Summed in the accumulator's dtype, then cast back to that of x.
Expr sum(Expr x, Words axes);
// Mean of float x, likewise.
Expr mean(Expr x, Words axes);
// 0, 1, 2, ... along one axis of shape (the other axes have size 1).
Expr iota(Graph& g, DType dtype, Words shape, size_t axis);

}  // namespace aster::uop
