// Arithmetic of programs as lines of machine code.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/render_x86_writer.h"

namespace aster::codegen::program::native {
namespace {

constexpr uint16_t kScalar = x86::kVector | x86::kNoLength;
constexpr uint16_t kEvex = x86::kVector | x86::kEvexOnly;
constexpr uint8_t kAboveOrEqual = 0x3, kEqual = 0x4, kNotEqual = 0x5, kLess = 0xC, kBelow = 0x2;
constexpr uint8_t kLessOrEqual = 0xE, kBelowOrEqual = 0x6, kGreater = 0xF, kAbove = 0x7;
constexpr uint8_t kNotSign = 0x9;
constexpr uint8_t kAddCode = 0x03, kOrCode = 0x0B, kAndCode = 0x23, kSubCode = 0x2B,
                  kXorCode = 0x33;
constexpr Form kNegate = {0xF7, OpcodeMap::kOne, Prefix::kNone, 0, 0, 3};
constexpr Form kInvert = {0xF7, OpcodeMap::kOne, Prefix::kNone, 0, 0, 2};
constexpr Form kMultiply = {0xAF, OpcodeMap::k0F, Prefix::kNone, 0, 0};

// ---- The table ----

enum Elements : uint16_t {
  F32 = 1,
  F64 = 2,
  S8 = 4,
  S16 = 8,
  S32 = 16,
  S64 = 32,
  U8 = 64,
  U16 = 128,
  U32 = 256,
  U64 = 512,
  B8 = S8 | U8,
  B16 = S16 | U16,
  B32 = S32 | U32,
  B64 = S64 | U64
};
enum Features : uint8_t { ANY, EVEX };
struct Row {
  Op op;
  uint16_t elements;
  Features features;
  Form form;
};
constexpr Row kRows[] = {
#define CODE(op, elements, opcode, map, prefix, w, features) \
  {Op::k##op,                                                \
   elements,                                                 \
   features,                                                 \
   {opcode, OpcodeMap::map, Prefix::prefix, w,               \
    static_cast<uint16_t>(x86::kVector | (features == EVEX ? x86::kEvexOnly : 0))}},
#include "codegen/target_x86_64.def"
#undef CODE
};

uint16_t elements_of(DType d) {
  if (d == DType::kFloat32) return F32;
  if (d == DType::kFloat64) return F64;
  const int log = std::countr_zero(static_cast<unsigned>(dtype::size(d)));
  return static_cast<uint16_t>((dtype::is_unsigned(d) ? U8 : S8) << log);
}

const Form* form_of(Op op, DType d, bool evex) {
  for (const Row& row : kRows) {
    if (row.op == op && (row.elements & elements_of(d)) != 0 && (evex || row.features == ANY))
      return &row.form;
  }
  return nullptr;
}

// Logic of conditions: whether the first is inverted before both are combined, and what comes of
// it.
struct Truth {
  Op op;
  bool inverts_first;
  Logic how;
  bool inverts;
};
constexpr Truth kTruths[] = {
    {Op::kNot, true, Logic::kNone, false},   {Op::kAnd, false, Logic::kAnd, false},
    {Op::kOr, false, Logic::kOr, false},     {Op::kXor, false, Logic::kXor, false},
    {Op::kCmpNe, false, Logic::kXor, false}, {Op::kCmpEq, false, Logic::kXor, true},
    {Op::kCmpLt, true, Logic::kAnd, false},  {Op::kCmpLe, true, Logic::kOr, false}};

// Codes of operations on scalars of integers: of two operands, and digits of those of one.
struct ScalarCode {
  Op op;
  uint8_t code;
};
constexpr ScalarCode kBinaries[] = {{Op::kAdd, kAddCode},
                                    {Op::kSub, kSubCode},
                                    {Op::kAnd, kAndCode},
                                    {Op::kOr, kOrCode},
                                    {Op::kXor, kXorCode}};
// How floats are rounded to whole ones; of integers these are nothing.
constexpr ScalarCode kRoundings[] = {
    {Op::kRound, 8}, {Op::kFloor, 9}, {Op::kCeil, 10}, {Op::kTrunc, 11}};
const ScalarCode* code_of(std::span<const ScalarCode> codes, Op op) {
  const auto found = std::ranges::find(codes, op, &ScalarCode::op);
  return found == codes.end() ? nullptr : &*found;
}

bool is_compare(Op op) {
  return op == Op::kCmpLt || op == Op::kCmpLe || op == Op::kCmpEq || op == Op::kCmpNe;
}

}  // namespace

// What is above the bits of a scalar of less than 32.
void Writer::normalise(DType d, Reg reg) {
  const int size = element(d);
  if (size >= 4) return;
  const auto opcode =
      static_cast<uint8_t>((dtype::is_signed(d) ? 0xBE : 0xB6) + (size == 2 ? 1 : 0));
  general_line({opcode, OpcodeMap::k0F, Prefix::kNone, 0, x86::kByteRegister}, 4, reg, at(reg),
               false);
}

Status Writer::arithmetic(Op op, DType result, int n, const Value* x, size_t count, Value* out) {
  if (op == Op::kWhere) return choose(n, x, out);
  const DType d = x[count - 1].dtype;
  if (d == DType::kBool) return conditions(op, n, x, out);
  if (dtype::is_narrow_float(d)) return cannot("arithmetic of narrow floats");
  if (is_compare(op)) return compare_values(op, n, x, out);
  *out = in_new(result, n, x86::kNoReg);
  return n == 1 && !is_real(d) ? general(op, x, out) : vectors(op, n, x, out);
}

// ---- Conditions ----

Status Writer::conditions(Op op, int n, const Value* x, Value* out) {
  const auto* const found = std::ranges::find(kTruths, op, &Truth::op);
  if (found == std::end(kTruths)) return cannot(uop::info(op).name);
  *out = in_new(DType::kBool, n, x86::kNoReg);
  Value a = x[0], b = op == Op::kNot ? x[0] : x[1];
  if (n > 1 && !evex_) {
    out->mask = a.held == Held::kRegister ? a.mask : b.mask;
    a = masked_as(a, out->mask);
    b = masked_as(b, out->mask);
  }
  Reg reg = in_register(a);
  if (found->inverts_first) reg = inverted(reg, *out);
  if (found->how != Logic::kNone) reg = combined(found->how, reg, in_register(b), *out);
  out->reg = found->inverts ? inverted(reg, *out) : reg;
  return out_.status();
}

// Of conditions as `like` has them.
Reg Writer::combined(Logic how, Reg a, Reg b, const Value& like) {
  const auto which = static_cast<size_t>(how);
  constexpr uint8_t kScalars[] = {0, kAndCode, kOrCode, kXorCode};
  constexpr uint8_t kMasks[] = {0, 0x41, 0x45, 0x47}, kVectors[] = {0, 0xDB, 0xEB, 0xEF};
  if (like.lanes == 1) return general_op(kScalars[which], 4, a, at(b));
  if (!evex_)
    return vector_op({kVectors[which], OpcodeMap::k0F, Prefix::k66}, bytes_of(like), a, at(b));
  const Reg d = fresh(RegClass::kMask);
  vector_line({kMasks[which], OpcodeMap::k0F, Prefix::kNone, 1, x86::kVector | x86::kRegister}, 32,
              d, a, at(b));
  return d;
}

Reg Writer::inverted(Reg of, const Value& like) {
  if (like.lanes == 1) return general_op(kXorCode, 4, of, at(number(1)));
  if (!evex_) {
    return vector_op({0xEF, OpcodeMap::k0F, Prefix::k66}, bytes_of(like), of,
                     at(pooled_word(DType::kInt8, -1), 0));
  }
  const Reg d = fresh(RegClass::kMask);
  vector_line({0x44, OpcodeMap::k0F, Prefix::kNone, 1, kScalar | x86::kRegister}, 16, d,
              x86::kNoReg, at(of));
  return d;
}

// The lanes for which it holds, as a mask.
Reg Writer::mask_of_compare(Op op, DType d, int n, Reg a, const Source& b) {
  const int bytes = vector_bytes(d, n), size = element(d);
  const bool real = is_real(d);
  const auto wide = static_cast<uint8_t>(size == 8);
  if (real) {
    const int64_t how = op == Op::kCmpLt   ? 0x11
                        : op == Op::kCmpLe ? 0x12
                        : op == Op::kCmpEq ? 0
                                           : 4;
    const Form form = {
        0xC2, OpcodeMap::k0F, wide != 0 ? Prefix::k66 : Prefix::kNone, wide,
        static_cast<uint16_t>((evex_ ? kEvex : uint16_t{x86::kVector}) | x86::kHasImm)};
    const Reg out = fresh(evex_ ? RegClass::kMask : RegClass::kVector);
    vector_line(form, bytes, out, a, b, how);
    return out;
  }
  const bool is_unsigned = dtype::is_unsigned(d);
  if (evex_) {
    const int64_t how = op == Op::kCmpLt ? 1 : op == Op::kCmpLe ? 2 : op == Op::kCmpEq ? 0 : 4;
    const int opcode = (size <= 2 ? 0x3F : 0x1F) - (is_unsigned ? 1 : 0);
    const Reg out = fresh(RegClass::kMask);
    vector_line({static_cast<uint8_t>(opcode), OpcodeMap::k0F3A, Prefix::k66,
                 static_cast<uint8_t>(size == 2 || size == 8), kEvex | x86::kHasImm},
                bytes, out, a, b, how);
    return out;
  }
  const auto compared = [&](bool equal, Reg first, const Source& second) {
    const int log = std::countr_zero(static_cast<unsigned>(size));
    const Form form =
        size == 8
            ? Form{static_cast<uint8_t>(equal ? 0x29 : 0x37), OpcodeMap::k0F38, Prefix::k66}
            : Form{static_cast<uint8_t>((equal ? 0x74 : 0x64) + log), OpcodeMap::k0F, Prefix::k66};
    return vector_op(form, bytes, first, second);
  };
  const Source ones = at(pooled_word(DType::kInt8, -1), 0);
  const auto inverted = [&](Reg of) {
    return vector_op({0xEF, OpcodeMap::k0F, Prefix::k66}, bytes, of, ones);
  };
  if (op == Op::kCmpEq) return compared(true, a, b);
  if (op == Op::kCmpNe) return inverted(compared(true, a, b));
  Reg first = a;
  Reg second = b.reg;
  if (second == x86::kNoReg) second = vector_op({0x10}, bytes, x86::kNoReg, b);
  if (is_unsigned) {
    const auto sign = static_cast<Word>(~uint64_t{0} << (8 * size - 1));
    const Source signs = at(pooled_word(whole_of(size, true), sign), 0);
    first = vector_op({0xEF, OpcodeMap::k0F, Prefix::k66}, bytes, first, signs);
    second = vector_op({0xEF, OpcodeMap::k0F, Prefix::k66}, bytes, second, signs);
  }
  if (op == Op::kCmpLt) return compared(false, second, at(first));
  return inverted(compared(false, first, at(second)));
}

Status Writer::compare_values(Op op, int n, const Value* x, Value* out) {
  const DType d = x[1].dtype;
  *out = in_new(DType::kBool, n, x86::kNoReg);
  out->mask = static_cast<uint8_t>(element(d));
  if (n > 1) {
    out->reg = mask_of_compare(op, d, n, in_register(x[0]), source(x[1]));
    return out_.status();
  }
  if (!is_real(d)) {
    const int bytes = element(d) == 8 ? 8 : 4;
    const bool is_unsigned = dtype::is_unsigned(d);
    const Reg a = in_register(x[0]);
    if (x[1].held == Held::kNumber && x[1].word == static_cast<int32_t>(x[1].word)) {
      compare_number(bytes, a, x[1].word);
    } else {
      compare(bytes, a, at(in_register(x[1])));
    }
    const uint8_t condition = op == Op::kCmpEq   ? kEqual
                              : op == Op::kCmpNe ? kNotEqual
                              : op == Op::kCmpLt ? (is_unsigned ? kBelow : kLess)
                              : is_unsigned      ? kBelowOrEqual
                                                 : kLessOrEqual;
    out->reg = set_if(condition);
    return out_.status();
  }
  const Reg mask = mask_of_compare(op, d, 1, in_register(x[0]), source(x[1]));
  const Reg bits = fresh(RegClass::kGeneral);
  if (evex_) {
    vector_line({0x93, OpcodeMap::k0F, Prefix::kF2, 0, kScalar | x86::kRegister}, 16, bits,
                x86::kNoReg, at(mask));
  } else {
    vector_line({0x7E, OpcodeMap::k0F, Prefix::k66, 0, kScalar | x86::kStores}, 16, bits,
                x86::kNoReg, at(mask));
  }
  out->reg = general_op(kAndCode, 4, bits, at(number(1)));
  return out_.status();
}

// `where` in the lanes of the mask, else the other.
Reg Writer::blended(Reg mask, Reg otherwise, const Source& where, int bytes, int element) {
  if (!evex_) {
    const Reg out = fresh(RegClass::kVector);
    vector_line({0x4C, OpcodeMap::k0F3A, Prefix::k66, 0, x86::kVector | x86::kFourth}, bytes, out,
                otherwise, where, 0, mask);
    return out;
  }
  const Reg out = fresh(RegClass::kVector);
  vector_line({static_cast<uint8_t>(element >= 4 ? 0x64 : 0x66), OpcodeMap::k0F38, Prefix::k66,
               static_cast<uint8_t>(element == 8 || element == 2), kEvex},
              bytes, out, otherwise, where, 0, mask);
  return out;
}

Status Writer::choose(int n, const Value* x, Value* out) {
  const DType d = x[2].dtype;
  *out = in_new(d, n, x86::kNoReg);
  if (x[0].held == Held::kNumber) {
    *out = kept(x[x[0].word != 0 ? 1 : 2]);
    return out_.status();
  }
  if (n == 1 && is_real(d)) {  // without a jump, which nothing could foresee
    Reg mask = fresh(evex_ ? RegClass::kMask : RegClass::kGeneral);
    if (evex_) {
      vector_line({0x92, OpcodeMap::k0F, Prefix::kF2, 0, kScalar | x86::kRegister}, 16, mask,
                  x86::kNoReg, at(x[0].reg));
    } else {
      copy(mask, x[0].reg);
      general_line(kNegate, 8, mask, Source(), true);
      mask = vector_op({0x6E, OpcodeMap::k0F, Prefix::k66, 1, kScalar}, 16, x86::kNoReg, at(mask));
    }
    out->reg = blended(mask, in_register(x[2]), source(x[1]), 16, element(d));
    return out_.status();
  }
  if (n == 1) {
    out->reg = fresh_of(*out);
    const Reg taken = in_register(x[1]);
    copy_value(out->reg, x[2]);
    compare_number(4, x[0].reg, 0);
    move_if(kNotEqual, 8, out->reg, taken);
    return out_.status();
  }
  const Value condition = x[0].lanes == 1 ? spread(x[0], DType::kBool, n) : x[0];
  if (d == DType::kBool) {
    // (c and a) or (not c and b)
    const Value first[2] = {condition, x[1]}, second[2] = {condition, x[2]};
    Value both[2];
    ASTER_TRY(conditions(Op::kAnd, n, first, &both[0]));
    ASTER_TRY(conditions(Op::kCmpLt, n, second, &both[1]));
    return conditions(Op::kOr, n, both, out);
  }
  const int size = element(d);
  const Reg mask = evex_ ? condition.reg : masked_as(condition, size).reg;
  out->reg = blended(mask, in_register(x[2]), source(x[1]), vector_bytes(d, n), size);
  return out_.status();
}

// ---- Scalars of integers ----

Status Writer::general(Op op, const Value* x, Value* out) {
  const DType d = x[0].dtype;
  const int size = element(d), bytes = size == 8 ? 8 : 4;
  const bool is_unsigned = dtype::is_unsigned(d);
  if (op == Op::kAdd && size >= 4 && x[1].held == Held::kNumber &&
      sum_of(x[0], x[1].word, bytes, out))
    return out_.status();
  if (op == Op::kPairDot || op == Op::kQuadDot) return dots(op, x, out);
  if (op == Op::kShl || op == Op::kShr || op == Op::kLeft || op == Op::kRight)
    return shifts(op, x, out);
  const Reg a = in_register(x[0]);
  if (const ScalarCode* const code = code_of(kBinaries, op)) {
    out->reg = general_op(code->code, bytes, a, at(in_register(x[1])));
    return normalise(d, out->reg), out_.status();
  }
  const bool greatest = op == Op::kMax || op == Op::kMost;
  const bool extreme = greatest || op == Op::kMin || op == Op::kLeast;
  const bool inverts = op == Op::kNeg || op == Op::kNot,
             multiplies = op == Op::kMul || op == Op::kMulAcc;
  if (!extreme && !inverts && !multiplies && op != Op::kAbs && code_of(kRoundings, op) == nullptr)
    return divisions(op, x, out);
  out->reg = fresh(RegClass::kGeneral);
  copy(out->reg, a);
  if (extreme) {
    const Reg other = in_register(x[1]);
    compare(bytes, other, at(a));
    const uint8_t taken = greatest      ? (is_unsigned ? kAbove : kGreater)
                          : is_unsigned ? kBelow
                                        : kLess;
    move_if(taken, 8, out->reg, other);
  } else if (multiplies) {
    general_line(kMultiply, bytes, out->reg, at(in_register(x[1])), true);
    if (op == Op::kMulAcc) {
      general_line({kAddCode, OpcodeMap::kOne, Prefix::kNone, 0, 0}, bytes, out->reg,
                   at(in_register(x[2])), true);
    }
  } else if (inverts) {
    general_line(op == Op::kNeg ? kNegate : kInvert, bytes, out->reg, Source(), true);
  } else if (op == Op::kAbs && !is_unsigned) {
    general_line(kNegate, bytes, out->reg, Source(), true);
    compare_number(bytes, a, 0);
    move_if(kNotSign, 8, out->reg, a);
  }
  return normalise(d, out->reg), out_.status();
}

// Shl and Shr have an answer for every amount.
Status Writer::shifts(Op op, const Value* x, Value* out) {
  const DType d = x[0].dtype;
  const int size = element(d), bytes = size == 8 ? 8 : 4, bits = 8 * size;
  const bool is_unsigned = dtype::is_unsigned(d), left = op == Op::kShl || op == Op::kLeft;
  const Prefix how = left ? Prefix::k66 : is_unsigned ? Prefix::kF2 : Prefix::kF3;
  const Reg a = in_register(x[0]);
  Reg by = in_register(x[1]);
  const bool checks = op == Op::kShl || op == Op::kShr, fills = checks && how == Prefix::kF3;
  Reg other = x86::kNoReg;
  if (checks) {
    other = number(fills ? bits - 1 : 0);
    const Reg own = fresh(RegClass::kGeneral);
    copy(own, by);
    by = own;
    compare_number(bytes, by, bits);
    if (fills) move_if(kAboveOrEqual, 8, by, other);
  }
  out->reg = fresh(RegClass::kGeneral);
  vector_line({0xF7, OpcodeMap::k0F38, how, static_cast<uint8_t>(bytes == 8), kScalar}, 16,
              out->reg, by, at(a));
  if (checks && !fills) move_if(kAboveOrEqual, 8, out->reg, other);
  return normalise(d, out->reg), out_.status();
}

// A value and a number: of sums with numbers the first value and one number.
bool Writer::sum_of(const Value& x, int64_t number, int bytes, Value* out) {
  if (x.held != Held::kRegister || x.changes || x.depth != depth()) return false;
  const Reg origin = x.origin != x86::kNoReg ? x.origin : x.reg;
  const int64_t sum = x.added + number;
  if (sum != static_cast<int32_t>(sum)) return false;
  out->origin = origin;
  out->added = sum;
  for (const Known& one : known_) {
    if (one.from == origin && one.value == x86::kNoReg && one.factor == sum * 16 + bytes) {
      out->reg = one.result;
      return true;
    }
  }
  out->reg = fresh(RegClass::kGeneral);
  copy(out->reg, origin);
  general_line({0x81, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 0}, bytes, out->reg,
               Source(), true, sum);
  out_.fail(known_.push(Known{origin, x86::kNoReg, sum * 16 + bytes, out->reg, depth()}));
  return true;
}

// Sums of products of parts of words.
Status Writer::dots(Op op, const Value* x, Value* out) {
  const Reg a = in_register(x[0]), b = in_register(x[1]);
  Reg sum = x86::kNoReg;
  const int parts = op == Op::kPairDot ? 2 : 4, bits = 32 / parts;
  const auto part = [&](Reg from, int which, bool is_signed) {
    const Reg r = fresh(RegClass::kGeneral);
    copy(r, from);
    const int left = 32 - bits * (which + 1);
    if (left != 0)
      general_line({0xC1, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm, 4}, 4, r, Source(), true,
                   left);
    general_line({0xC1, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm,
                  static_cast<int8_t>(is_signed ? 7 : 5)},
                 4, r, Source(), true, 32 - bits);
    return r;
  };
  if (op == Op::kQuadDot) sum = in_register(x[2]);
  for (int i = 0; i < parts; ++i) {
    const Reg product = part(a, i, op == Op::kPairDot);
    general_line(kMultiply, 4, product, at(part(b, i, true)), true);
    sum = sum == x86::kNoReg ? product : general_op(kAddCode, 4, sum, at(product));
  }
  out->reg = sum;
  return out_.status();
}

// Nothing traps but Quo and Rem, which are only asked for where they do not.
Status Writer::divisions(Op op, const Value* x, Value* out) {
  const DType d = x[0].dtype;
  const bool is_unsigned = dtype::is_unsigned(d), plain = op == Op::kQuo || op == Op::kRem;
  const bool rest = op == Op::kRem || op == Op::kCMod || op == Op::kFloorMod;
  const bool floors = op == Op::kFloorDiv || op == Op::kFloorMod;
  if (!plain && !floors && op != Op::kCDiv && op != Op::kCMod) return cannot(uop::info(op).name);
  const int bytes = element(d) == 8 ? 8 : 4;
  const Reg a = in_register(x[0]), b = in_register(x[1]);
  const auto divided = [&](Reg to, bool of_rest) {
    Line line;
    line.kind = Kind::kDivide;
    line.bytes = static_cast<uint8_t>(bytes);
    line.d = to;
    line.a = a;
    line.b = b;
    line.imm = (is_unsigned ? 0 : 1) | (of_rest ? 2 : 0);
    put(line);
  };
  out->reg = fresh(RegClass::kGeneral);
  if (plain) {
    divided(out->reg, rest);
    normalise(d, out->reg);
    return out_.status();
  }
  const int64_t behind = out_.label(), by_minus_one = out_.label();
  if (rest) {
    copy(out->reg, a);
  } else {
    copy(out->reg, number(0));
  }
  compare_number(bytes, b, 0);
  jump(kEqual, behind);
  if (!is_unsigned) {
    compare_number(bytes, b, -1);
    jump(kEqual, by_minus_one);
  }
  divided(out->reg, rest);
  if (floors && !is_unsigned) {
    const Reg left = fresh(RegClass::kGeneral), signs = fresh(RegClass::kGeneral);
    if (rest) {
      copy(left, out->reg);
    } else {
      divided(left, true);
    }
    compare_number(bytes, left, 0);
    jump(kEqual, behind);
    copy(signs, a);
    general_line({kXorCode, OpcodeMap::kOne, Prefix::kNone, 0, 0}, bytes, signs, at(b), true);
    compare_number(bytes, signs, 0);
    jump(kNotSign, behind);
    rest ? general_line({kAddCode, OpcodeMap::kOne, Prefix::kNone, 0, 0}, bytes, out->reg, at(b),
                        true)
         : general_line({0x81, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 5}, bytes,
                        out->reg, Source(), true, 1);
  }
  if (!is_unsigned) {
    jump(x86::kAlways, behind);
    label(by_minus_one);
    if (rest) {
      copy(out->reg, number(0));
    } else {
      copy(out->reg, a);
      general_line(kNegate, bytes, out->reg, Source(), true);
    }
  }
  label(behind);
  normalise(d, out->reg);
  return out_.status();
}

// ---- Vectors, and scalars of floats ----

Status Writer::vectors(Op op, int n, const Value* x, Value* out) {
  const DType d = x[0].dtype;
  const bool real = is_real(d);
  if (op == Op::kNeg || op == Op::kNot || op == Op::kAbs) return signs(op, n, x, out);
  if (const ScalarCode* const how = code_of(kRoundings, op)) {
    if (!real) return copied(x[0], out);
    const bool scalar = n == 1, wide = element(d) == 8;
    const auto opcode = static_cast<uint8_t>((scalar ? 0x0A : 0x08) + (wide ? 1 : 0));
    const auto flags =
        static_cast<uint16_t>((scalar ? kScalar : uint16_t{x86::kVector}) | x86::kHasImm);
    const Reg a = in_register(x[0]);
    out->reg = vector_op({opcode, OpcodeMap::k0F3A, Prefix::k66, static_cast<uint8_t>(wide), flags},
                         vector_bytes(d, n), scalar ? a : x86::kNoReg, at(a), how->code);
    return out_.status();
  }
  if (op == Op::kRecip) {
    const double one = 1;
    const Value both[2] = {of_number(d, n, std::bit_cast<Word>(one)), x[0]};
    return vectors(Op::kDiv, n, both, out);
  }
  if (op == Op::kMax || op == Op::kMin) {
    if (real) return extremum(op, d, n, x, out);
    return vectors(op == Op::kMax ? Op::kMost : Op::kLeast, n, x, out);
  }
  if (op == Op::kScale) return scaled(d, n, x, out);
  if (op == Op::kQuadDot) return quad_dot(n, x, out);
  if (op == Op::kMulAcc && real) return fused(d, n, x, out, x86::kNoReg);
  if (op == Op::kMulAcc) {
    Value both[2] = {in_new(d, n, x86::kNoReg), x[2]};
    ASTER_TRY(arithmetic(Op::kMul, d, n, x, 2, &both[0]));
    return vectors(Op::kAdd, n, both, out);
  }
  return by_row(op == Op::kLeft ? Op::kShl : op == Op::kRight ? Op::kShr : op, n, x, out);
}

// One instruction of the table, or what stands for it.
Status Writer::by_row(Op op, int n, const Value* x, Value* out) {
  const DType d = x[0].dtype;
  const int bytes = vector_bytes(d, n), size = element(d);
  const Form* const found = form_of(op, d, evex_);
  if (found == nullptr) {
    if (op == Op::kMul && size == 8) return products_of_quads(n, x, out);
    if (op == Op::kLeast || op == Op::kMost) {
      const Reg a = in_register(x[0]), b = in_register(x[1]);
      const Reg less = op == Op::kLeast ? mask_of_compare(Op::kCmpLt, d, n, a, at(b))
                                        : mask_of_compare(Op::kCmpLt, d, n, b, at(a));
      out->reg = blended(less, b, at(a), bytes, size);
      return out_.status();
    }
    return is_real(d) ? cannot(uop::info(op).name) : by_lanes(op, d, n, x, 2, out);
  }
  Form form = *found;
  const bool single = op == Op::kSqrt;
  const Source last = source(x[single ? 0 : 1]);
  if (n > 1) {
    out->reg = vector_op(form, bytes, single ? x86::kNoReg : in_register(x[0]), last);
    return out_.status();
  }
  form.prefix = form.prefix == Prefix::kNone ? Prefix::kF3 : Prefix::kF2;
  form.flags = kScalar;
  out->reg = vector_op(form, 16, in_register(x[0]),
                       Source{last.reg, last.mem, static_cast<uint8_t>(size)});
  return out_.status();
}

// Neg, Not and Abs.
Status Writer::signs(Op op, int n, const Value* x, Value* out) {
  const DType d = x[0].dtype;
  const bool real = is_real(d), negates = op == Op::kNeg;
  const int bytes = vector_bytes(d, n), size = element(d);
  const auto wide = static_cast<uint8_t>(size == 8);
  if (real || op == Op::kNot) {
    const auto sign = static_cast<Word>(~uint64_t{0} << (8 * size - 1));
    const Word word = !real ? -1 : negates ? sign : ~sign;
    const auto opcode = static_cast<uint8_t>(real && !negates ? 0xDB : 0xEF);
    out->reg = vector_op({opcode, OpcodeMap::k0F, Prefix::k66, wide}, bytes, in_register(x[0]),
                         at(pooled_word(size == 8 ? DType::kInt64
                                        : real    ? DType::kInt32
                                                  : DType::kInt8,
                                        word),
                            0));
    return out_.status();
  }
  const Value from_zero[2] = {of_number(d, n, 0), x[0]};
  if (negates) return vectors(Op::kSub, n, from_zero, out);
  if (dtype::is_unsigned(d)) return copied(x[0], out);
  if (size < 8 || evex_) {
    const int log = std::countr_zero(static_cast<unsigned>(size));
    out->reg = vector_op({static_cast<uint8_t>(0x1C + log), OpcodeMap::k0F38, Prefix::k66, wide,
                          size == 8 ? kEvex : uint16_t{x86::kVector}},
                         bytes, x86::kNoReg, source(x[0]));
    return out_.status();
  }
  Value both[2] = {in_new(d, n, x86::kNoReg), x[0]};
  ASTER_TRY(vectors(Op::kSub, n, from_zero, &both[0]));
  return vectors(Op::kMost, n, both, out);
}

Status Writer::copied(const Value& x, Value* out) {
  out->reg = fresh_of(*out);
  copy_value(out->reg, x);
  return out_.status();
}

// Of 64 bits, from products of their halves.
Status Writer::products_of_quads(int n, const Value* x, Value* out) {
  const int bytes = vector_bytes(x[0].dtype, n);
  const Reg a = in_register(x[0]), b = in_register(x[1]);
  const auto by32 = [&](Reg of, int8_t digit) {
    const Reg r = fresh(RegClass::kVector);
    vector_line({0x73, OpcodeMap::k0F, Prefix::k66, 0, x86::kVector | x86::kHasImm, digit}, bytes,
                r, x86::kNoReg, at(of), 32);
    return r;
  };
  const auto product = [&](Reg of, Reg and_of) {
    return vector_op({0xF4, OpcodeMap::k0F, Prefix::k66}, bytes, of, at(and_of));
  };
  constexpr Form kAddQuads = {0xD4, OpcodeMap::k0F, Prefix::k66, 1};
  const Reg crossed =
      vector_op(kAddQuads, bytes, product(by32(a, 2), b), at(product(a, by32(b, 2))));
  out->reg = vector_op(kAddQuads, bytes, product(a, b), at(by32(crossed, 6)));
  return out_.status();
}

// The instruction gives its second operand where either is NaN: that is right but where the second
// one of the program is, which no number is that it says.
Status Writer::extremum(Op op, DType d, int n, const Value* x, Value* out) {
  const int bytes = vector_bytes(d, n), size = element(d);
  const bool wide = size == 8;
  const Reg a = in_register(x[0]), b = in_register(x[1]);
  const Reg most = vector_op({static_cast<uint8_t>(op == Op::kMax ? 0x5F : 0x5D), OpcodeMap::k0F,
                              wide ? Prefix::k66 : Prefix::kNone, static_cast<uint8_t>(wide)},
                             bytes, b, at(a));
  if (x[1].held == Held::kNumber && !std::isnan(std::bit_cast<double>(x[1].word))) {
    out->reg = most;
    return out_.status();
  }
  const Reg unordered = mask_of_compare(Op::kCmpNe, d, n, b, at(b));
  out->reg = blended(unordered, most, at(b), bytes, size);
  return out_.status();
}

Status Writer::scaled(DType d, int n, const Value* x, Value* out) {
  const int bytes = vector_bytes(d, n);
  const bool wide = element(d) == 8;
  const auto w = static_cast<uint8_t>(wide);
  const Reg a = in_register(x[0]), b = in_register(x[1]);
  if (evex_) {
    const double shifter = wide ? 6755399441055744.0 : 12582912.0;
    const Reg power = vector_op({0x5C, OpcodeMap::k0F, wide ? Prefix::k66 : Prefix::kNone, w},
                                bytes, b, source(of_number(d, n, std::bit_cast<Word>(shifter))));
    out->reg = vector_op({0x2C, OpcodeMap::k0F38, Prefix::k66, w, kEvex}, bytes, a, at(power));
    return out_.status();
  }
  // By two factors, of which none leaves the normal numbers.
  const DType whole = wide ? DType::kInt64 : DType::kInt32;
  const auto with = [&](uint8_t opcode, Reg of, Word word) {
    return vector_op({opcode, OpcodeMap::k0F, Prefix::k66, w}, bytes, of,
                     at(pooled_word(whole, word), 0));
  };
  const auto shifted = [&](Reg of, int8_t digit, int by) {
    const Reg r = fresh(RegClass::kVector);
    vector_line({static_cast<uint8_t>(wide ? 0x73 : 0x72), OpcodeMap::k0F, Prefix::k66, w,
                 x86::kVector | x86::kHasImm, digit},
                bytes, r, x86::kNoReg, at(of), by);
    return r;
  };
  const uint8_t add = wide ? 0xD4 : 0xFE, sub = wide ? 0xFB : 0xFA;
  const Word bias = wide ? 1023 - 2048 : 127 - 256;
  const int mantissa = wide ? 52 : 23;
  const Reg power = with(sub, b, wide ? Word{0x4338000000000000} - 4096 : Word{0x4b400000} - 512);
  const Reg half = shifted(power, 2, 1);
  const Reg rest = vector_op({sub, OpcodeMap::k0F, Prefix::k66, w}, bytes, power, at(half));
  const auto times = [&](Reg of, Reg exponent) {
    return vector_op({0x59, OpcodeMap::k0F, wide ? Prefix::k66 : Prefix::kNone, w}, bytes, of,
                     at(shifted(with(add, exponent, bias), 6, mantissa)));
  };
  out->reg = times(times(a, half), rest);
  return out_.status();
}

Status Writer::quad_dot(int n, const Value* x, Value* out) {
  const int bytes = vector_bytes(x[0].dtype, n);
  const Reg a = in_register(x[0]), b = in_register(x[1]);
  if (target_.vnni) {
    out->reg = fresh(RegClass::kVector);
    copy_value(out->reg, x[2]);
    vector_line({0x50, OpcodeMap::k0F38, Prefix::k66, 0, evex_ ? kEvex : uint16_t{x86::kVector}},
                bytes, out->reg, a, at(b), 0, x86::kNoReg, false, true);
    return out_.status();
  }
  const auto shifted = [&](Reg of, int8_t digit, int by) {
    if (by == 0) return of;
    const Reg r = fresh(RegClass::kVector);
    vector_line({0x72, OpcodeMap::k0F, Prefix::k66, 0, x86::kVector | x86::kHasImm, digit}, bytes,
                r, x86::kNoReg, at(of), by);
    return r;
  };
  Reg sum = in_register(x[2]);
  for (int i = 0; i < 4; ++i) {
    const Reg first = shifted(shifted(a, 6, 24 - 8 * i), 2, 24);
    const Reg second = shifted(shifted(b, 6, 24 - 8 * i), 4, 24);
    const Reg product = vector_op({0x40, OpcodeMap::k0F38, Prefix::k66}, bytes, first, at(second));
    sum = vector_op({0xFE, OpcodeMap::k0F, Prefix::k66}, bytes, sum, at(product));
  }
  out->reg = sum;
  return out_.status();
}

// a * b + c, rounded once.
Status Writer::fused(DType d, int n, const Value* x, Value* out, Reg into) {
  const bool scalar = n == 1, wide = element(d) == 8;
  const int bytes = vector_bytes(d, n);
  *out = in_new(d, n, into);
  const auto form = [&](uint8_t opcode) {
    return Form{static_cast<uint8_t>(opcode + (scalar ? 1 : 0)), OpcodeMap::k0F38, Prefix::k66,
                static_cast<uint8_t>(wide),
                static_cast<uint16_t>(scalar ? kScalar : uint16_t{x86::kVector})};
  };
  const auto sized = [&](Source of) {
    if (scalar) of.size = static_cast<uint8_t>(element(d));
    return of;
  };
  const bool swaps = x[0].held == Held::kNumber;
  const Value &a = x[swaps ? 1 : 0], &b = x[swaps ? 0 : 1];
  if (into == x86::kNoReg) {
    out->reg = fresh(RegClass::kVector);
    if (x[2].held == Held::kNumber) {
      copy_value(out->reg, a);
      vector_line(form(0xA8), bytes, out->reg, in_register(b), sized(source(x[2])), 0, x86::kNoReg,
                  false, true);
      return out_.status();
    }
    copy_value(out->reg, x[2]);
  }
  vector_line(form(0xB8), bytes, out->reg, in_register(a), sized(source(b)), 0, x86::kNoReg, false,
              true);
  return out_.status();
}

// What no instruction does on vectors, one lane after the other through memory.
Status Writer::by_lanes(Op op, DType result, int n, const Value* x, size_t count, Value* out) {
  Mem rooms[3];
  const auto held = [](DType d) { return d == DType::kBool ? DType::kUInt8 : d; };
  for (size_t i = 0; i < count; ++i) {
    const bool truth = x[i].dtype == DType::kBool;
    if (x[i].lanes == 1) continue;
    rooms[i] = spill(truth ? as_ones(x[i], DType::kUInt8, n) : in_register(x[i]),
                     vector_bytes(held(x[i].dtype), n));
  }
  const Mem to = spill(x86::kNoReg, 64);
  for (int lane = 0; lane < n; ++lane) {
    Value scalars[3], made;
    for (size_t i = 0; i < count; ++i) {
      scalars[i] = x[i];
      if (x[i].lanes == 1) continue;
      scalars[i] = in_new(x[i].dtype, 1, x86::kNoReg);
      scalars[i].reg = fresh_of(scalars[i]);
      Mem place = rooms[i];
      place.offset += lane * element(x[i].dtype);
      load_scalar(x[i].dtype, place, scalars[i].reg);
    }
    const bool casts = op == Op::kCast || op == Op::kToInt;
    ASTER_TRY(casts ? cast(scalars[0], result, 1, op == Op::kCast, &made)
                    : arithmetic(op, result, 1, scalars, count, &made));
    Mem place = to;
    place.offset += lane * element(result);
    store_scalar(result, place, in_register(made));
  }
  *out = in_new(result, n, fresh(RegClass::kVector));
  load_whole(held(result), n, to, out->reg);
  return out_.status();
}

}  // namespace aster::codegen::program::native
