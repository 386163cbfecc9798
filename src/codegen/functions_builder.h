// Inside the functions: arithmetic as C++ expressions that append to a program. Operands of one
// operation have one dtype; a number stands for a constant of the other operand's. Failures are
// sticky in the program.
#pragma once

#include <concepts>
#include <initializer_list>

#include "codegen/functions.h"

namespace aster::codegen::program::functions {

class Builder;

// A number of either kind, made canonical for the dtype that it meets.
struct Number {
  Number(double value) : real(value), whole(0) {}  // NOLINT: is what it is
  template <std::integral T>
  Number(T value)  // NOLINT: likewise
      : real(static_cast<double>(value)), whole(static_cast<int64_t>(value)) {}
  double real;
  int64_t whole;
};

// A value of all lanes.
struct V {
  Builder* b = nullptr;
  Id id = kNone;

  DType dtype() const;
  V like(Number number) const;  // a constant of this dtype
  V cast(DType to) const;       // native ones and those that functions compute
  V as(DType to) const;         // the same bits
  V bits() const;               // as the unsigned integer of its width
  V ints() const;               // as the signed one
};

// A helper of several functions that only they call.
enum class Helper : uint8_t { kNone, kSine, kTurnRest, kTurnCount, kPower };

// The program of one function in the making.
class Builder {
 public:
  Builder(Module* module, Program* program, bool fma)
      : module_(module), program_(program), constants_(program->memory()), fma_(fma) {}

  bool fma() const { return fma_; }
  Program& program() { return *program_; }

  V argument(DType dtype);  // the next one
  V constant(DType dtype, Number number);
  V alu(Op op, DType result, std::initializer_list<V> operands);
  V unary(Op op, DType result, V x) { return alu(op, result, {x}); }
  // What the target may lack: the operation, or a call of the function that computes it.
  V native_or_call(Op op, DType result, V x);
  V call(const FunctionKey& key, std::initializer_list<V> arguments);
  V call(Helper helper, const FunctionKey& key, std::initializer_list<V> arguments);
  // Elements of a table at indices (i64) that an And bounds.
  V load(Id table, V index, int64_t constant);
  Id table(DType dtype, Words words);
  // value, or where some lane is not `fast` what `slow` makes, which keeps the fast lanes.
  template <typename Slow>
  V unless_all(V fast, V value, Slow slow) {
    const Id all = append(Op::kAcross, DType::kBool, 1, {fast.id}, Op::kAnd);
    const Id some_slow = append(Op::kNot, DType::kBool, 1, {all});
    const V out{this, append(Op::kAcc, value.dtype(), kAnyLanes, {value.id})};
    const size_t kept = constants_.size();
    append(Op::kIf, DType::kNone, 1, {some_slow});
    append(Op::kSet, DType::kNone, 1, {out.id, slow().id});
    append(Op::kEnd, DType::kNone, 1, {});
    constants_.truncate(kept);
    return out;
  }
  void result(V value) { append(Op::kResult, DType::kNone, 1, {value.id}); }

 private:
  struct Constant {
    DType dtype;
    Word word;
    Id id;
  };
  Id append(Op op, DType dtype, uint8_t lanes, std::initializer_list<Id> operands,
            Op with = Op::kCount);
  V called(size_t place, DType result, std::initializer_list<V> arguments);

  Module* module_;
  Program* program_;
  Vec<Constant> constants_;
  bool fma_;
  Word arguments_ = 0;
};

inline V alu(Op op, V a, V b) { return a.b->alu(op, a.dtype(), {a, b}); }
inline V compare(Op op, V a, V b) { return a.b->alu(op, DType::kBool, {a, b}); }

#define ASTER_V_BINARY(name, make, op)                                \
  inline V name(V a, V b) { return make(Op::op, a, b); }              \
  inline V name(V a, Number b) { return make(Op::op, a, a.like(b)); } \
  inline V name(Number a, V b) { return make(Op::op, b.like(a), b); }
ASTER_V_BINARY(operator+, alu, kAdd)
ASTER_V_BINARY(operator-, alu, kSub)
ASTER_V_BINARY(operator*, alu, kMul)
ASTER_V_BINARY(operator/, alu, kDiv)
ASTER_V_BINARY(operator&, alu, kAnd)
ASTER_V_BINARY(operator|, alu, kOr)
ASTER_V_BINARY(operator^, alu, kXor)
ASTER_V_BINARY(operator<<, alu, kLeft)
ASTER_V_BINARY(operator>>, alu, kRight)
ASTER_V_BINARY(operator<, compare, kCmpLt)
ASTER_V_BINARY(operator<=, compare, kCmpLe)
ASTER_V_BINARY(operator==, compare, kCmpEq)
ASTER_V_BINARY(operator!=, compare, kCmpNe)
ASTER_V_BINARY(least, alu, kLeast)
ASTER_V_BINARY(most, alu, kMost)
#undef ASTER_V_BINARY
inline V operator>(V a, V b) { return b < a; }
inline V operator>(V a, Number b) { return b < a; }
inline V operator>=(V a, V b) { return b <= a; }
inline V operator>=(V a, Number b) { return b <= a; }
inline V operator-(V a) { return a.b->unary(Op::kNeg, a.dtype(), a); }
inline V operator~(V a) { return a.b->unary(Op::kNot, a.dtype(), a); }
inline V abs(V a) { return a.b->unary(Op::kAbs, a.dtype(), a); }
inline V to_int(V a, DType to) { return a.b->unary(Op::kToInt, to, a); }
inline V quo(V a, V b) { return alu(Op::kQuo, a, b); }
inline V rem(V a, V b) { return alu(Op::kRem, a, b); }
inline V scale(V a, V b) { return alu(Op::kScale, a, b); }
inline V where(V c, V a, V b) { return c.b->alu(Op::kWhere, a.dtype(), {c, a, b}); }
inline V where(V c, V a, Number b) { return where(c, a, a.like(b)); }
inline V where(V c, Number a, V b) { return where(c, b.like(a), b); }
// Trunc, Floor, Ceil, Round.
inline V rounded(Op op, V a) { return a.b->native_or_call(op, a.dtype(), a); }
// a * b + c, rounded once where the target can.
inline V fma(V a, V b, V c) {
  return a.b->fma() ? a.b->alu(Op::kMulAcc, a.dtype(), {a, b, c}) : a * b + c;
}
inline V fma(V a, Number b, V c) { return fma(a, a.like(b), c); }
inline V fma(Number a, V b, V c) { return fma(b.like(a), b, c); }
inline V fma(V a, Number b, Number c) { return fma(a, a.like(b), a.like(c)); }
inline V fma(V a, V b, Number c) { return fma(a, b, a.like(c)); }
// Coefficients from the highest power down.
inline V horner(V x, std::initializer_list<double> coefficients) {
  V out{};
  for (double c : coefficients) out = out.b == nullptr ? x.like(c) : fma(out, x, c);
  return out;
}
V copysign(V a, V b);

// What builds the functions of a row: its arguments, its instructions, its result.
using Build = V (*)(Builder& b, const FunctionKey& what);

V build_exp(Builder& b, const FunctionKey& what);
V build_exp_down(Builder& b, const FunctionKey& what);
V build_exp2(Builder& b, const FunctionKey& what);
V build_log(Builder& b, const FunctionKey& what);
V build_log2(Builder& b, const FunctionKey& what);
V build_tanh(Builder& b, const FunctionKey& what);
V build_erf(Builder& b, const FunctionKey& what);
V build_sin(Builder& b, const FunctionKey& what);
V build_cos(Builder& b, const FunctionKey& what);
V build_pow(Builder& b, const FunctionKey& what);
V build_same(Builder& b, const FunctionKey& what);
V build_mul_acc(Builder& b, const FunctionKey& what);
V build_rounding(Builder& b, const FunctionKey& what);
V build_division(Builder& b, const FunctionKey& what);
V build_threefry(Builder& b, const FunctionKey& what);
V build_to_narrow(Builder& b, const FunctionKey& what);
V build_from_narrow(Builder& b, const FunctionKey& what);
V build_to_int(Builder& b, const FunctionKey& what);
// Helpers.
V build_sine(Builder& b, const FunctionKey& what);
V build_turn_rest(Builder& b, const FunctionKey& what);
V build_turn_count(Builder& b, const FunctionKey& what);
V build_power(Builder& b, const FunctionKey& what);
// Parts of several files: 2^r for small r, and a = 2^n * (1 + f) for log and pow.
V exp2_poly(V r);
V log_split(V a, V* n);

}  // namespace aster::codegen::program::functions
