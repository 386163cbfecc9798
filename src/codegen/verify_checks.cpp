// What an instruction must have by itself, as one table of checks an operation.
#include "codegen/verify.h"

#include <algorithm>
#include <bit>

namespace aster::codegen::program {
namespace {

using dtype::is_float;
using uop::DTypeRule;

// An instruction with what its checks look at. Operands are of the program (Program::add).
struct View {
  const Module& module;
  const Program& program;
  const Instruction& in;
  const Instruction& operand(size_t i) const { return program.at(program.operands(in)[i]); }
  Word word(size_t i) const { return program.words(in)[i]; }
  Words words() const { return program.words(in); }
  AxisSet operand_axes() const { return program.operand_axes(in); }
};

bool is_index(const Instruction& x) { return x.dtype == DType::kInt32 || x.dtype == DType::kInt64; }
bool is_value(const Instruction& x) { return has_value(x.op) && !is_memory(x); }
bool scalar(const Instruction& x) { return is_value(x) && x.lanes == 1; }
bool condition(const Instruction& x, uint8_t lanes) {
  return is_value(x) && x.dtype == DType::kBool && x.lanes == lanes;
}
bool same_type(const Instruction& a, const Instruction& b) {
  return is_value(b) && a.dtype == b.dtype && a.lanes == b.lanes;
}
bool canonical(DType dtype, Word word) {
  const Word same = uop::convert_word(word, dtype, dtype);
  if (!is_float(dtype)) return same == word;
  const double value = std::bit_cast<double>(word);
  return value != value ? word == 0x7ff8000000000000 : same == word;
}
bool lanes_fit(uint8_t lanes) { return std::has_single_bit(lanes) && lanes <= kMaxLanes; }

// ---- Checks of one operation ----

bool constants(const View& v) {
  const bool table = v.in.op == Op::kTable;
  const size_t bytes = v.words().size() * dtype::size(v.in.dtype);
  return v.in.lanes == 1 && (table ? bytes >= 1 && bytes <= kTableBytes : v.words().size() == 1) &&
         std::ranges::all_of(v.words(), [&](Word w) { return canonical(v.in.dtype, w); });
}
bool params(const View& v) {
  if (v.words().empty() || v.word(0) < 0 || v.word(0) > INT32_MAX) return false;
  if (v.in.is(kArgument)) return v.program.function && v.words().size() == 1;
  if (v.program.function || v.in.lanes != 1) return false;
  if (!v.in.is(kSize)) return v.in.is(kWrite) || !v.in.is(kAtomic);
  return is_index(v.in) && v.words().size() == 4 && v.word(1) <= v.word(2) && v.word(3) >= 1 &&
         v.word(1) > INT64_MIN && v.word(2) < INT64_MAX && canonical(v.in.dtype, v.word(1)) &&
         canonical(v.in.dtype, v.word(2));
}
bool elements(const View& v) {
  const bool sizes = std::ranges::all_of(v.program.terms(v.in), [&](const Term& term) {
    return !term.axis && v.program.at(term.at).is(kSize) &&
           v.program.at(term.at).op == Op::kParam && v.in.op == Op::kParam;
  });
  return sizes && (v.in.is(kSize) || v.in.is(kArgument) || v.in.constant >= 0 || v.in.terms != 0);
}
bool arrays(const View& v) {
  int64_t bytes = 0;
  const Space space = static_cast<Space>(v.in.kind);
  return v.words().size() == 1 && v.word(0) >= 0 && v.in.lanes == 1 && v.in.constant >= 1 &&
         space <= Space::kLocal && checked_add(v.in.constant, v.word(0), &bytes) &&
         checked_mul(bytes, static_cast<int64_t>(dtype::size(v.in.dtype)), &bytes) &&
         (space != Space::kPrivate || bytes <= kPrivateBytes);
}
bool axes_value(const View& v) {
  return is_index(v.in) && v.in.lanes == 1 && v.in.axes == axis_bit(v.in.axis);
}
bool lanes_value(const View& v) { return is_index(v.in) && v.in.lanes != 1; }
bool loops(const View& v) {
  const uint32_t values = (v.in.is(kImmediate) ? 0u : 1u) + (v.in.is(kImmediateHigh) ? 0u : 1u);
  if (!is_index(v.in) || v.in.operands != values || v.words().size() != 3 || v.word(2) < 1) {
    return false;
  }
  for (size_t i = 0; i < values; ++i) {
    if (!scalar(v.operand(i)) || v.operand(i).dtype != v.in.dtype || v.operand(i).axes != 0) {
      return false;
    }
  }
  // So that no index leaves the dtype on its way past hi.
  Word past = 0;
  for (size_t i = 0; i < 2; ++i) {
    if (!checked_add(v.word(i), v.word(2), &past) || !canonical(v.in.dtype, past) ||
        !canonical(v.in.dtype, v.word(i)) || v.word(i) == INT64_MIN) {
      return false;
    }
  }
  return v.in.kind <= static_cast<uint8_t>(LoopKind::kLocal2);
}
bool conditions(const View& v) { return condition(v.operand(0), 1); }
bool spaces(const View& v) {
  return v.in.kind == static_cast<uint8_t>(Space::kLocal) ||
         v.in.kind == static_cast<uint8_t>(Space::kGlobal);
}
bool begins(const View& v) {
  if (v.in.is(kImmediate)) return v.words().size() == 1 && canonical(v.in.dtype, v.word(0));
  return same_type(v.in, v.operand(0)) && (v.operand(0).axes & ~v.in.axes) == 0;
}
bool sets(const View& v) {
  return v.operand(0).op == Op::kAcc && same_type(v.operand(0), v.operand(1));
}
bool limits(const View& v) {
  const Access access = v.program.access(v.in);
  if (!is_memory(v.program.at(access.memory))) return false;
  for (const Term& term : v.program.terms(v.in)) {
    if (term.axis) continue;
    const Instruction& x = v.program.at(term.at);
    if (!scalar(x) || !is_index(x)) return false;
  }
  const auto fits = [&](Id id, auto test) { return id == kNone || test(v.program.at(id)); };
  // Of a function's lanes nothing is known: they come from a table, each by its index.
  const bool lanes = v.in.lanes == kAnyLanes ? access.index != kNone && access.first == kAnyLanes
                                             : access.first >= 1 && access.first <= v.in.lanes;
  return v.words().size() == 2 && lanes && access.step != 0 && access.step > INT32_MIN &&
         access.step <= INT32_MAX && (v.in.lanes != 1 || access.step == 1) &&
         (access.index == kNone || access.step == 1) &&
         fits(access.index,
              [&](const Instruction& x) {
                return is_value(x) && is_index(x) && x.lanes == v.in.lanes;
              }) &&
         fits(access.gate, [](const Instruction& x) { return condition(x, 1); }) &&
         fits(access.mask, [&](const Instruction& x) { return condition(x, v.in.lanes); });
}
bool loads(const View& v) {
  const Instruction& memory = v.operand(0);
  return memory.dtype == v.in.dtype && !memory.is(kAtomic);
}
bool writable(const View& v) {
  const Instruction& memory = v.operand(0);
  if (memory.op == Op::kTable) return false;
  const bool atomic = memory.is(kAtomic);
  return (memory.op == Op::kArray || memory.is(kWrite)) && atomic == (v.in.op == Op::kAtomic);
}
bool stores(const View& v) {
  const Instruction& value = v.operand(1);
  return is_value(value) && value.dtype == v.operand(0).dtype && value.lanes == v.in.lanes;
}
bool combines_integers(const View& v) {
  const bool known = v.in.with == Op::kAdd || v.in.with == Op::kMax || v.in.with == Op::kMin ||
                     v.in.with == Op::kAnd || v.in.with == Op::kOr || v.in.with == Op::kXor;
  return known && dtype::is_int(v.operand(0).dtype) && dtype::size(v.operand(0).dtype) >= 4;
}
bool spreads(const View& v) {
  return scalar(v.operand(0)) && v.operand(0).dtype == v.in.dtype && v.in.lanes != 1;
}
bool picks(const View& v) {
  const Instruction& x = v.operand(0);
  return is_value(x) && x.dtype == v.in.dtype && v.in.lanes == 1 && v.words().size() == 1 &&
         v.word(0) >= 0 && v.word(0) < x.lanes;
}
bool shuffles(const View& v) {
  const Instruction &a = v.operand(0), &b = v.operand(1);
  return is_value(a) && same_type(a, b) && a.dtype == v.in.dtype && a.lanes != kAnyLanes &&
         v.words().size() == v.in.lanes &&
         std::ranges::all_of(v.words(), [&](Word w) { return w >= 0 && w < 2 * a.lanes; });
}
int size_of(const View& v, uint8_t axis) {
  return axis < v.program.axes().size() ? v.program.axes()[axis].size : 0;
}
bool turns(const View& v) {
  const Instruction& x = v.operand(0);
  const AxisSet rest = static_cast<AxisSet>(x.axes & ~axis_bit(v.in.axis));
  return same_type(v.in, x) && v.in.lanes > 1 && has(x.axes, v.in.axis) && !has(rest, v.in.to) &&
         size_of(v, v.in.axis) <= v.in.lanes && size_of(v, v.in.to) <= v.in.lanes &&
         v.in.axes == (rest | axis_bit(v.in.to));
}
bool zips(const View& v) {
  return turns(v) && size_of(v, v.in.axis) == 2 && size_of(v, v.in.to) == 2;
}
bool reduces(Op op, DType dtype) {
  if (op == Op::kCount || (uop::info(op).traits & uop::REDUCE) == 0) return false;
  return uop::info(op).rule == DTypeRule::kIntegral ? !is_float(dtype) : dtype != DType::kBool;
}
bool joins(const View& v) {
  const Instruction& x = v.operand(0);
  return same_type(v.in, x) && has(x.axes, v.in.axis) && reduces(v.in.with, v.in.dtype) &&
         std::has_single_bit(static_cast<unsigned>(size_of(v, v.in.axis))) &&
         v.in.axes == (x.axes & ~axis_bit(v.in.axis));
}
bool folds_lanes(const View& v) {
  const Instruction& x = v.operand(0);
  const bool any_all =
      v.in.dtype == DType::kBool && (v.in.with == Op::kAnd || v.in.with == Op::kOr);
  return is_value(x) && x.dtype == v.in.dtype && x.lanes != 1 && v.in.lanes == 1 &&
         reduces(v.in.with, v.in.dtype) && (any_all || x.lanes != kAnyLanes);
}
bool casts(const View& v) {
  const Instruction& x = v.operand(0);
  if (!is_value(x) || x.lanes != v.in.lanes) return false;
  if (v.in.op == Op::kToInt) return is_float(x.dtype) && dtype::is_int(v.in.dtype);
  if (v.in.op == Op::kCast) return true;
  return dtype::bits(x.dtype) == dtype::bits(v.in.dtype) && x.dtype != DType::kBool &&
         v.in.dtype != DType::kBool;
}
// The dtype of an arithmetic result, kNone where the operands do not go together.
DType arithmetic_type(const View& v) {
  const Instruction& last = v.operand(v.in.operands - 1u);
  const DType d = last.dtype;
  const DTypeRule rule = uop::info(v.in.op).rule;
  for (size_t i = 0; i < v.in.operands; ++i) {
    const Instruction& x = v.operand(i);
    if (!is_value(x) || x.lanes != v.in.lanes) return DType::kNone;
    if (x.dtype != (rule == DTypeRule::kWhere && i == 0 ? DType::kBool : d)) return DType::kNone;
  }
  if (rule == DTypeRule::kFloating && !is_float(d)) return DType::kNone;
  if (rule == DTypeRule::kIntegral && is_float(d)) return DType::kNone;
  if (rule == DTypeRule::kBits64 && d != DType::kUInt64) return DType::kNone;
  if (rule == DTypeRule::kInt32 && d != DType::kInt32) return DType::kNone;
  return rule == DTypeRule::kCompare ? DType::kBool : d;
}
bool arithmetic(const View& v) { return arithmetic_type(v) == v.in.dtype; }
bool calls(const View& v) {
  const Program& callee = v.module.programs[static_cast<size_t>(v.word(0))];
  size_t arguments = 0;
  const Instruction* result = nullptr;
  for (const Instruction& in : callee.code()) {
    if (in.op == Op::kResult) result = &callee.at(callee.operands(in)[0]);
    if (in.op != Op::kParam) continue;
    const size_t slot = static_cast<size_t>(callee.words(in)[0]);
    if (slot >= v.in.operands) return false;
    const Instruction& x = v.operand(slot);
    const uint8_t lanes = in.lanes == kAnyLanes ? v.in.lanes : in.lanes;
    if (!is_value(x) || x.dtype != in.dtype || x.lanes != lanes) return false;
    ++arguments;
  }
  return callee.function && arguments == v.in.operands && result != nullptr &&
         result->dtype == v.in.dtype && result->lanes == kAnyLanes;
}
bool called_before(const View& v) {
  const size_t own = static_cast<size_t>(&v.program - v.module.programs.begin());
  return v.words().size() == 1 && v.word(0) >= 0 && static_cast<size_t>(v.word(0)) < own;
}
bool results(const View& v) {
  const bool last = &v.in == &v.program.code().back();
  return v.program.function && last && is_value(v.operand(0)) && v.operand(0).lanes == kAnyLanes;
}

struct Check {
  Op op;
  const char* holds;  // what the instruction must have
  bool (*test)(const View&);
};
// clang-format off
constexpr Check kChecks[] = {
    {Op::kConst,    "one canonical number",                              constants},
    {Op::kTable,    "canonical numbers, of at most 4 KB",                constants},
    {Op::kParam,    "a slot, and elements or bounds as its kind asks",   params},
    {Op::kParam,    "elements that sizes tell",                          elements},
    {Op::kArray,    "elements, a space, at most 16 KB where private",    arrays},
    {Op::kArray,    "a constant number of elements",                     elements},
    {Op::kAxis,     "an integer along its axis",                         axes_value},
    {Op::kLanes,    "integer lanes",                                     lanes_value},
    {Op::kLoop,     "integer bounds and a step above 0",                 loops},
    {Op::kIf,       "a scalar condition",                                conditions},
    {Op::kBarrier,  "local or global memory",                            spaces},
    {Op::kAcc,      "a beginning of its type",                           begins},
    {Op::kSet,      "a register and a value of its type",                sets},
    {Op::kLoad,     "a memory, integer indices and limits that fit",     limits},
    {Op::kLoad,     "memory of its dtype that is not atomic",            loads},
    {Op::kStore,    "a memory, integer indices and limits that fit",     limits},
    {Op::kStore,    "memory that it may write",                          writable},
    {Op::kStore,    "a value of the memory's dtype",                     stores},
    {Op::kAtomic,   "a memory, integer indices and limits that fit",     limits},
    {Op::kAtomic,   "memory that is atomic",                             writable},
    {Op::kAtomic,   "a value of the memory's dtype",                     stores},
    {Op::kAtomic,   "an operation on integers of 4 or 8 bytes",          combines_integers},
    {Op::kPrefetch, "a memory and integer indices",                      limits},
    {Op::kSpread,   "a scalar of its dtype",                             spreads},
    {Op::kLane,     "one of its operand's lanes",                        picks},
    {Op::kShuffle,  "lanes of two operands of one type",                 shuffles},
    {Op::kTurn,     "axes and lanes that it can turn",                   turns},
    {Op::kZip,      "two axes of two values",                            zips},
    {Op::kJoin,     "an operation, and an axis of 1, 2, 4, .. values",   joins},
    {Op::kAcross,   "an operation on the lanes of its operand",          folds_lanes},
    {Op::kCast,     "a value of as many lanes",                          casts},
    {Op::kBitcast,  "a value of as many lanes and bits",                 casts},
    {Op::kToInt,    "a float made an integer",                           casts},
    {Op::kCall,     "a function that stands before",                     called_before},
    {Op::kCall,     "the function's arguments and result",               calls},
    {Op::kResult,   "the last place of a function, with its value",      results},
};
// What functions are made of, arithmetic besides.
constexpr Op kFunctionOps[] = {
    Op::kConst, Op::kTable, Op::kParam, Op::kCast, Op::kBitcast, Op::kToInt, Op::kSpread, Op::kIf,
    Op::kEnd,   Op::kAcc,   Op::kSet,   Op::kAcross, Op::kCall,  Op::kLoad,  Op::kResult};
// clang-format on

// Operands that the syntax of an operation has, -1 for those that its check counts.
int operands_of(const Instruction& in) {
  if (in.op == Op::kLoop || in.op == Op::kCall) return -1;
  if (in.op == Op::kAcc) return in.is(kImmediate) ? 0 : 1;
  const int limits = (in.is(kIndexed) ? 1 : 0) + (in.is(kGated) ? 1 : 0) + (in.is(kMasked) ? 1 : 0);
  if (in.op == Op::kLoad || in.op == Op::kPrefetch) return 1 + limits;
  if (in.op == Op::kStore || in.op == Op::kAtomic) return 2 + limits;
  return uop::info(in.op).sources;
}

}  // namespace

const char* find_fault(const Module& module, const Program& program, const Instruction& in) {
  const View v{module, program, in};
  if (!uop::info(in.op).program) return "an operation of programs";
  const int operands = operands_of(in);
  if (operands >= 0 && in.operands != static_cast<uint32_t>(operands)) return "its operands";
  if (has_value(in.op)) {
    if (type_name(in.dtype) == nullptr) return "a type that programs have";
    if (in.lanes == kAnyLanes ? !v.program.function : !lanes_fit(in.lanes)) {
      return "1, 2, 4, .. 64 lanes";
    }
  }
  if (v.program.function && !is_arithmetic(in.op) &&
      std::ranges::find(kFunctionOps, in.op) == std::end(kFunctionOps)) {
    return "a place in a function";
  }
  if (is_arithmetic(in.op)) {
    if (!arithmetic(v)) return "dtypes and lanes that go together";
  }
  for (const Check& check : kChecks) {
    if (check.op == in.op && !check.test(v)) return check.holds;
  }
  const bool own_axes =
      sets_axes(in.op) || in.op == Op::kAcc || in.op == Op::kIf || in.op == Op::kEach;
  if (!own_axes && in.axes != v.operand_axes()) return "the axes of its operands";
  return nullptr;
}

}  // namespace aster::codegen::program
