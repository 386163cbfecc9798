// Values of a kernel's graph as instructions.
#include "codegen/lower_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/functions.h"
#include "codegen/planner.h"
#include "codegen/render_c.h"

namespace aster::codegen {

using program::Term;
using program::Word;

namespace {

constexpr Word kNaN = 0x7ff8000000000000;

// Operations on conditions as And, Or, Xor and Not: arithmetic on bool is that of integers, a
// result other than 0 being true. What has no row is an identity on 0 and 1.
enum class Truth : uint8_t { kFirst, kAnd, kOr, kXor, kNot, kAndNot, kNotAnd, kNotOr, kSame };
constexpr struct {
  Op op;
  Truth truth;
} kTruths[] = {
    {Op::kAnd, Truth::kAnd},         {Op::kMul, Truth::kAnd},      {Op::kMin, Truth::kAnd},
    {Op::kCDiv, Truth::kAnd},        {Op::kFloorDiv, Truth::kAnd}, {Op::kOr, Truth::kOr},
    {Op::kAdd, Truth::kOr},          {Op::kMax, Truth::kOr},       {Op::kXor, Truth::kXor},
    {Op::kSub, Truth::kXor},         {Op::kCmpNe, Truth::kXor},    {Op::kCMod, Truth::kAndNot},
    {Op::kFloorMod, Truth::kAndNot}, {Op::kShr, Truth::kAndNot},   {Op::kCmpLt, Truth::kNotAnd},
    {Op::kCmpLe, Truth::kNotOr},     {Op::kCmpEq, Truth::kSame},   {Op::kNot, Truth::kNot},
};
Truth truth_of(Op op) {
  for (const auto& row : kTruths) {
    if (row.op == op) return row.truth;
  }
  return Truth::kFirst;
}

bool compares(Op op) {
  return op == Op::kCmpLt || op == Op::kCmpLe || op == Op::kCmpEq || op == Op::kCmpNe;
}

// Operations whose result on values of a narrow float is one of its values without rounding.
bool stays_narrow(Op op) {
  return op == Op::kNeg || op == Op::kAbs || op == Op::kMax || op == Op::kMin || op == Op::kWhere ||
         op == Op::kTrunc;
}

}  // namespace

// ---- Instructions ----

ValueLowering::Id ValueLowering::constant(DType dtype, Word word) {
  return b.pure({.op = Op::kConst, .dtype = dtype}, {}, std::array{word});
}

ValueLowering::Id ValueLowering::make(Op op, DType dtype, std::initializer_list<Id> operands) {
  const uint8_t lanes = operands.size() == 0 ? uint8_t{1} : b.at(*operands.begin()).lanes;
  return b.pure({.op = op, .dtype = dtype, .lanes = lanes}, {operands.begin(), operands.size()});
}

ValueLowering::Id ValueLowering::cast(Id value, DType dtype) {
  const DType from = b.at(value).dtype;
  if (from == dtype || !b.status().ok()) return value;
  const Instruction in = b.at(value);
  if (in.op == Op::kConst && from != DType::kBool && dtype != DType::kBool)
    return constant(dtype, uop::convert_word(b.words(value)[0], from, dtype));
  return native_or_call(Op::kCast, dtype, std::array{value});
}

ValueLowering::Id ValueLowering::spread(Id value, int lanes) {
  const Instruction in = b.at(value);
  if (lanes == 1 || in.lanes != 1) return value;
  return b.pure({.op = Op::kSpread, .dtype = in.dtype, .lanes = static_cast<uint8_t>(lanes)},
                std::array{value});
}

ValueLowering::Id ValueLowering::arithmetic(Op op, DType dtype, std::span<const Id> operands) {
  if (!b.status().ok()) return kNone;
  if (op == Op::kMulAcc && dtype::is_float(dtype) && !target_.fma) {
    return make(Op::kAdd, dtype, {make(Op::kMul, dtype, {operands[0], operands[1]}), operands[2]});
  }
  return native_or_call(op, dtype, operands);
}

// What the target has, else a function, else what a renderer makes of it lane by lane.
ValueLowering::Id ValueLowering::native_or_call(Op op, DType dtype, std::span<const Id> operands) {
  const Instruction last = b.at(operands.back());
  const program::FunctionKey key{op, dtype, b.at(operands[0]).dtype};
  if (program::is_native(target_, op, dtype, last.dtype, last.lanes) || !program::has_function(key))
    return b.pure({.op = op, .dtype = dtype, .lanes = last.lanes}, operands);
  size_t place = 0;
  b.fail(program::add_function(&place, &module_, key, target_.fma));
  return b.pure({.op = Op::kCall, .dtype = dtype, .lanes = last.lanes}, operands,
                std::array{static_cast<Word>(place)});
}

ValueLowering::Id ValueLowering::truth(Op op, std::span<const Id> v) {
  constexpr DType kBool = DType::kBool;
  const auto inverse = [&](Id x) { return make(Op::kNot, kBool, {x}); };
  if (op == Op::kWhere) {
    return make(
        Op::kOr, kBool,
        {make(Op::kAnd, kBool, {v[0], v[1]}), make(Op::kAnd, kBool, {inverse(v[0]), v[2]})});
  }
  if (op == Op::kMulAcc) return make(Op::kOr, kBool, {make(Op::kAnd, kBool, {v[0], v[1]}), v[2]});
  switch (truth_of(op)) {
    case Truth::kAnd:
      return make(Op::kAnd, kBool, {v[0], v[1]});
    case Truth::kOr:
      return make(Op::kOr, kBool, {v[0], v[1]});
    case Truth::kXor:
      return make(Op::kXor, kBool, {v[0], v[1]});
    case Truth::kNot:
      return inverse(v[0]);
    case Truth::kAndNot:
      return make(Op::kAnd, kBool, {v[0], inverse(v[1])});
    case Truth::kNotAnd:
      return make(Op::kAnd, kBool, {inverse(v[0]), v[1]});
    case Truth::kNotOr:
      return make(Op::kOr, kBool, {inverse(v[0]), v[1]});
    case Truth::kSame:
      return inverse(make(Op::kXor, kBool, {v[0], v[1]}));
    default:
      return v[0];
  }
}

ValueLowering::Id ValueLowering::axis_value(int axis) {
  const auto number = static_cast<uint8_t>(axis);
  return b.pure(
      {.op = Op::kAxis, .dtype = DType::kInt64, .axis = number, .axes = program::axis_bit(number)});
}

// ---- Nodes ----

DType ValueLowering::register_of(Node node) const {
  if (node->dtype == DType::kWeakInt)
    return varies(node) && fits_int32(node) ? DType::kInt32 : DType::kInt64;
  if (node->dtype == DType::kWeakFloat) return DType::kFloat64;
  return dtype::is_narrow_float(node->dtype) ? DType::kFloat32 : node->dtype;
}

ValueLowering::Id ValueLowering::value(Node node) {
  const Id* found = node->op == Op::kFold ? folds_.find(node) : values_.find(node);
  if (found != nullptr) return *found;
  if (b.status().ok())
    b.fail(ASTER_FAIL(kINTERNAL, "a kernel's %s has no value", info(node->op).name));
  return kNone;
}

// Makes the value of a node whose sources have theirs.
void ValueLowering::emit(Node node) {
  if (node->op == Op::kFold || values_.contains(node) || !b.status().ok()) return;
  Id id = kNone;
  const int known = assumed(node), picked = node->op == Op::kWhere ? assumed(node->src(0)) : -1;
  if (known >= 0) {
    id = constant(DType::kBool, known);
  } else if (picked >= 0 && node->dtype != DType::kWeakInt) {
    id = cast(operand(node->src(picked == 1 ? 1 : 2), node), register_of(node));
  } else if (const Id kept = from_kept(node); kept != kNone) {
    id = kept;
  } else if (node->op == Op::kConst) {
    id = emit_constant(node);
  } else if (node->op == Op::kLoad) {
    id = load(node);
  } else if (node->op == Op::kCarry) {
    id = emit_carry(node);
  } else if (node->op == Op::kCast) {
    id = emit_cast(node);
  } else if (node->op == Op::kBitcast) {
    id = emit_bitcast(node);
  } else if (uop::is_alu(node->op)) {
    id = emit_alu(node);
  } else {
    b.fail(ASTER_FAIL(kINTERNAL, "%s in a kernel", info(node->op).name));
  }
  remember(node, id);
}

ValueLowering::Id ValueLowering::emit_constant(Node node) {
  const DType dtype = register_of(node);
  if (!dtype::is_float(dtype)) return constant(dtype, node->arg(0));
  const double x = uop::const_double(node);
  return constant(dtype, x != x ? kNaN : std::bit_cast<Word>(x));
}

ValueLowering::Id ValueLowering::operand(Node source, Node user) {
  if (source->dtype == DType::kWeakInt)
    return index_value(source, fits_int32(user) ? DType::kInt32 : DType::kInt64);
  return value(source);
}

// By a known positive divisor: what compilers make multiplications of.
ValueLowering::Id ValueLowering::by_known_divisor(Node node, std::span<const Id> operands) {
  const bool quotient = node->op == Op::kFloorDiv || node->op == Op::kCDiv;
  if (!quotient && node->op != Op::kFloorMod && node->op != Op::kCMod) return kNone;
  const Node divisor = node->src(1);
  if (node->src(0)->vmin < 0 || divisor->vmin <= 0 || divisor->vmin != divisor->vmax) return kNone;
  const Instruction in = b.at(operands[0]);
  const DType dtype = in.dtype;
  const DType plain = dtype == DType::kInt64   ? DType::kUInt64
                      : dtype == DType::kInt32 ? DType::kUInt32
                                               : dtype;
  const Id a = dtype == plain ? operands[0] : make(Op::kBitcast, plain, {operands[0]});
  const Id d = spread(constant(plain, divisor->vmin), in.lanes);
  const Id out = make(quotient ? Op::kQuo : Op::kRem, plain, {a, d});
  return dtype == plain ? out : make(Op::kBitcast, dtype, {out});
}

ValueLowering::Id ValueLowering::emit_alu(Node node) {
  Id v[3] = {};
  const int n = lanes_of(node);
  for (uint32_t i = 0; i < node->nsrc; ++i) v[i] = operand(node->src(i), node);
  if (!b.status().ok()) return kNone;
  const Node last_source = node->src(node->nsrc - 1);
  DType dtype = b.at(v[node->nsrc - 1]).dtype;
  if (n > 1 && last_source->dtype == DType::kWeakInt)
    dtype = fits_int32(node) ? DType::kInt32 : DType::kInt64;
  for (uint32_t i = 0; i < node->nsrc; ++i) {
    const DType own = b.at(v[i]).dtype;
    if (own != DType::kBool && own != dtype && dtype != DType::kBool) v[i] = cast(v[i], dtype);
    v[i] = spread(v[i], n);
  }
  const std::span<const Id> operands(v, node->nsrc);
  if (dtype == DType::kBool) return truth(node->op, operands);
  if (compares(node->op)) return arithmetic(node->op, DType::kBool, operands);
  Id out = by_known_divisor(node, operands);
  // Where scaling is no instruction, exponentials of what is not positive are a quarter less work.
  const bool down = node->op == Op::kExp && !target_.avx512 && is_below_its_greatest(node->src(0));
  if (out == kNone) out = arithmetic(down ? Op::kExpDown : node->op, dtype, operands);
  const bool rounds = dtype::is_narrow_float(node->dtype) && !stays_narrow(node->op);
  return rounds ? round_to(out, node->dtype) : out;
}

// ---- Conversions ----

ValueLowering::Id ValueLowering::round_to(Id value, DType narrow) {
  return cast(cast(value, narrow), DType::kFloat32);
}

// A register as one of another dtype; to may be a narrow float, whose values are then floats.
ValueLowering::Id ValueLowering::convert(Id value, DType to) {
  const Instruction in = b.at(value);
  if (in.dtype == to) return value;
  if (to == DType::kBool)
    return make(Op::kCmpNe, to, {value, spread(constant(in.dtype, 0), in.lanes)});
  if (dtype::is_narrow_float(to)) {
    return in.dtype == DType::kBool ? cast(value, DType::kFloat32) : round_to(value, to);
  }
  if (to == DType::kWeakFloat) to = DType::kFloat64;
  return cast(value, to);
}

ValueLowering::Id ValueLowering::emit_cast(Node node) {
  const Node source = node->src(0);
  const Id v = operand(source, node);
  // Every value of a narrow float is one of itself, and of wider registers.
  if (source->dtype == node->dtype) return v;
  return convert(v, node->dtype == DType::kWeakInt ? register_of(node) : node->dtype);
}

ValueLowering::Id ValueLowering::emit_bitcast(Node node) {
  const Node source = node->src(0);
  const DType to = node->dtype;
  // The bits as they are in memory: a conversion and back would quiet a NaN.
  const bool narrow = dtype::is_narrow_float(source->dtype);
  Id v = narrow && source->op == Op::kLoad ? load_raw(source) : operand(source, node);
  if (narrow) v = cast(v, source->dtype);
  if (source->dtype == DType::kBool) v = cast(v, DType::kUInt8);
  if (to == DType::kBool) {
    if (b.at(v).dtype != DType::kUInt8) v = make(Op::kBitcast, DType::kUInt8, {v});
    return convert(v, DType::kBool);
  }
  if (b.at(v).dtype != to) v = make(Op::kBitcast, to, {v});
  return dtype::is_narrow_float(to) ? cast(v, DType::kFloat32) : v;
}

// ---- Indices ----

bool ValueLowering::is_linear(const Form& form) const {
  return std::ranges::none_of(form.terms, [&](const uop::sym::Term& term) {
    return term.node->op != Op::kRange && varies(term.node);
  });
}

Status ValueLowering::scalar_terms(Vec<Term>* out, const Form& form, int without_axis) {
  for (const uop::sym::Term& term : form.terms) {
    if (term.node->op != Op::kRange) {
      if (!varies(term.node)) ASTER_TRY(out->push({term.coefficient, value(term.node), false}));
      continue;
    }
    const int r = static_cast<int>(term.node->arg(0));
    const RangeState& state = ranges_[r];
    const auto apart = static_cast<int64_t>(static_cast<uint64_t>(term.coefficient) *
                                            static_cast<uint64_t>(state.lanes));
    if (state.index != kNone) ASTER_TRY(out->push({term.coefficient, state.index, false}));
    if (state.copy != kNone) ASTER_TRY(out->push({apart, state.copy, false}));
    if (state.axis >= 0 && r != without_axis)
      ASTER_TRY(out->push({apart, static_cast<uint32_t>(state.axis), true}));
  }
  return kOk;
}

// Of all that is the same for all lanes, the constant included.
ValueLowering::Id ValueLowering::scalar_index(const Form& form, int without_axis) {
  Vec<Term> terms(memory_);
  b.fail(scalar_terms(&terms, form, without_axis));
  Id sum = kNone;
  for (const Term& term : terms) {
    Id part = term.axis ? axis_value(static_cast<int>(term.at)) : Id{term.at};
    if (term.factor != 1) part = make(Op::kMul, DType::kInt64, {part, integer(term.factor)});
    sum = sum == kNone ? part : make(Op::kAdd, DType::kInt64, {sum, part});
  }
  if (sum == kNone) return integer(form.constant);
  return form.constant == 0 ? sum : make(Op::kAdd, DType::kInt64, {sum, integer(form.constant)});
}

// Of all that differs from lane to lane; kNone where nothing does.
ValueLowering::Id ValueLowering::vector_part(const Form& form, DType wide) {
  Id sum = kNone;
  const auto add = [&](Id part, int64_t factor) {
    if (factor != 1) {
      const Id times = constant(wide, dtype::truncate_int(wide, factor));
      part = make(Op::kMul, wide, {part, spread(times, lanes_)});
    }
    sum = sum == kNone ? part : make(Op::kAdd, wide, {sum, part});
  };
  for (const uop::sym::Term& term : form.terms) {
    if (term.node->op != Op::kRange) {
      if (varies(term.node)) add(cast(value(term.node), wide), term.coefficient);
    } else if (static_cast<int>(term.node->arg(0)) == vector_) {
      add(b.pure({.op = Op::kLanes, .dtype = wide, .lanes = static_cast<uint8_t>(lanes_)}),
          term.coefficient);
    }
  }
  return sum;
}

ValueLowering::Id ValueLowering::index_value(Node index, DType wide) {
  const Form form = kernel_.form(index);
  Id vector = varies(index) ? vector_part(form, wide) : kNone;
  const int axis = vector == kNone ? -1 : ranges_[vector_].axis;
  const Id scalar = scalar_index(form, axis < 0 ? -1 : vector_);
  if (vector == kNone) return scalar;
  // Vectors side by side are apart what no loop changes.
  const auto apart =
      axis < 0 ? 0
               : static_cast<int64_t>(static_cast<uint64_t>(kernel_.stride(index, vector_)) *
                                      static_cast<uint64_t>(ranges_[vector_].lanes));
  if (apart != 0) {
    const Id begin = make(Op::kMul, DType::kInt64, {axis_value(axis), integer(apart)});
    vector = make(Op::kAdd, wide, {vector, spread(cast(begin, wide), lanes_)});
  }
  const bool zero = b.at(scalar).op == Op::kConst && b.words(scalar)[0] == 0;
  return zero ? vector : make(Op::kAdd, wide, {vector, spread(cast(scalar, wide), lanes_)});
}

Word ValueLowering::identity(Op op, DType dtype) {
  const bool real = dtype::is_float(dtype);
  if (dtype == DType::kBool) return op == Op::kAnd || op == Op::kMul || op == Op::kMin ? 1 : 0;
  if (op == Op::kAnd) return dtype::truncate_int(dtype, -1);
  if (op == Op::kMul) return real ? std::bit_cast<Word>(1.0) : 1;
  if (op != Op::kMax && op != Op::kMin) return 0;
  if (real) return std::bit_cast<Word>(op == Op::kMax ? -HUGE_VAL : HUGE_VAL);
  const Word most = static_cast<Word>(dtype::max_int(dtype));
  if (op == Op::kMin) return most;
  return dtype::is_unsigned(dtype) ? 0 : -most - 1;
}

// ---- Folds ----

Node ValueLowering::product_of(Node fold) {
  Node value = fold->src(0);
  if (value->op == Op::kWhere && uop::is_const_value(value->src(2), 0)) value = value->src(1);
  const bool words = value->op == Op::kQuadDot && uop::is_const_value(value->src(2), 0);
  return value->op == Op::kMul || words ? value : nullptr;
}

bool ValueLowering::fuses(const Region& region, Node fold) {
  const Node product = product_of(fold), value = fold->src(0);
  if (operation(fold) != Op::kAdd || product == nullptr) return false;
  if (product->dtype != DType::kFloat32 && product->dtype != DType::kFloat64 &&
      product->op != Op::kQuadDot)
    return false;
  for (Node node : region.nodes) {
    for (Node source : node->src()) {
      if (source == value || (source == product && node != value)) return false;
    }
  }
  return std::ranges::none_of(region.roots, [&](Node other) {
    return other != fold && (other->src(0) == product || other->src(0) == value);
  });
}

bool ValueLowering::all_vary(const Region& region, int range) const {
  return std::ranges::all_of(region.roots,
                             [&](Node fold) { return has(kernel_.ranges(fold->src(0)), range); });
}

bool ValueLowering::overlaps(const Region& region, int range) const {
  return std::ranges::any_of(region.accesses, [&](const Access& a) {
    const int64_t stride = std::abs(kernel_.stride(a.node->src(1), range));
    for (int tiled = 0; tiled < kMaxRanges && stride != 0; ++tiled) {
      const bool rows = copies_[tiled] > 1 && ranges_[tiled].lanes == 1;
      const int64_t apart = rows ? std::abs(kernel_.stride(a.node->src(1), tiled)) : 0;
      if (apart > 0 && apart % stride == 0 && apart < stride * kernel_.size(range)) return true;
    }
    return false;
  });
}

}  // namespace aster::codegen
