// Values that are moved, cast and combined, as lines of machine code.
#include <cstring>

#include "codegen/render_x86_writer.h"

namespace aster::codegen::program::native {
namespace {

constexpr uint16_t kScalar = x86::kVector | x86::kNoLength;
constexpr uint16_t kEvex = x86::kVector | x86::kEvexOnly;
constexpr uint8_t kBelow = 0x2, kEqual = 0x4, kNotEqual = 0x5;
constexpr Form kExtract = {0x39, OpcodeMap::k0F3A, Prefix::k66, 0,
                           x86::kVector | x86::kStores | x86::kHasImm};
constexpr Form kShiftBytes = {0x73, OpcodeMap::k0F, Prefix::k66, 0, x86::kVector | x86::kHasImm, 3};
constexpr Form kMoveToVector = {0x6E, OpcodeMap::k0F, Prefix::k66, 0, kScalar};
constexpr Form kMoveQuadToVector = {0x6E, OpcodeMap::k0F, Prefix::k66, 1, kScalar};
constexpr Form kShiftRight = {0xC1, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm, 5};
constexpr Form kAndNumber = {0x81, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 4};

// Of elements of 1, 2, 4, 8 bytes.
int log_of(int element) { return std::countr_zero(static_cast<unsigned>(element)); }

}  // namespace

Status Writer::value(const Step& s) {
  const int n = lanes(*s.in);
  const DType d = s.in->dtype;
  if (s.op == Op::kConst) return define(s, of_number(d, n, s.in->op == Op::kTurn ? 0 : s.words[0]));
  if (s.op == Op::kAxis) return define(s, of_number(d, n, s.values[s.in->axis]));
  Value out = in_new(d, n, x86::kNoReg);
  if (s.op == Op::kLanes) {
    out.held = Held::kLanes;
    return define(s, out);
  }
  if (s.op == Op::kSpread && n > 1 && !is_wide(d, n)) {
    Value all = find(s.operands[0]);
    if (broadcasts(s.operands[0], n, &all)) return define(s, all);
  }
  Value x[8];
  const size_t count = std::min(s.operands.size(), std::size(x));
  for (size_t i = 0; i < count; ++i) x[i] = find(s.operands[i]);
  // A sum of products in its register.
  const Id acc = s.op == s.in->op ? body_->sets[s.id] : kNone;
  if (acc != kNone && s.op == Op::kMulAcc && is_real(d)) {
    const Value to = register_of(acc, s);
    if (to.reg == x[2].reg) {
      ASTER_TRY(fused(d, n, x, &out, to.reg));
      out.changes = true;
      ASTER_TRY(body_->values.set(key(s.result), out));
      return out_.status();
    }
  }
  ASTER_TRY(compute(s, x, count, n, &out));
  return define(s, out);
}

// Of values of a register or less.
Status Writer::compute_whole(const Step& s, const Value* x, size_t count, int n, Value* out) {
  const DType d = s.in->dtype;
  if (s.op == Op::kShuffle) return shuffle(s, out);
  if (s.op == Op::kBitcast) return bitcast(x[0], d, n, out);
  if (s.op == Op::kCast || s.op == Op::kToInt) return cast(x[0], d, n, s.op == Op::kCast, out);
  if (s.op == Op::kCall) return call_whole(static_cast<size_t>(s.words[0]), x, count, n, out);
  if (s.op == Op::kAcross) return across(s, x[0], out);
  if (s.op != Op::kSpread && s.op != Op::kLane) return arithmetic(s.op, d, n, x, count, out);
  *out = s.op == Op::kSpread ? spread(x[0], d, n) : lane(x[0], static_cast<int>(s.words[0]));
  return out_.status();
}

// A scalar that is loaded for this alone is loaded into all lanes.
bool Writer::broadcasts(Register from, int n, Value* x) {
  const int size = element(x->dtype);
  if (x->held != Held::kRegister || x->changes || size < 4 || x->dtype == DType::kBool ||
      body_->uses[from.value] != 1)
    return false;
  Vec<Line>& lines = blocks_.back().lines;
  constexpr size_t kNear = 64;
  for (size_t i = lines.size(); i-- > 0 && i + kNear > lines.size();) {
    Line& line = lines[i];
    if (line.d != x->reg) continue;
    if (line.kind != Kind::kInstruction || line.mem.place != Place::kPointer || line.changes)
      return false;
    const bool real = is_real(x->dtype);
    if (!(real ? line.form.opcode == 0x10 : line.form.opcode == 0x8B)) return false;
    // Of a register of another class: not where it is 0 without being loaded, or instances are one.
    const Instruction& load = body_->program.at(from.value);
    if (!real && (load.axes != 0 || load.is(kGated) || load.is(kMasked))) return false;
    if (!real) line.d = fresh(RegClass::kVector);
    line.form = {static_cast<uint8_t>(size == 8 ? 0x59 : 0x58), OpcodeMap::k0F38, Prefix::k66,
                 static_cast<uint8_t>(size == 8), x86::kVector | x86::kVexW0};
    line.bytes = static_cast<uint8_t>(vector_bytes(x->dtype, n));
    line.size = static_cast<uint8_t>(size);
    x->reg = line.d;
    x->lanes = static_cast<uint8_t>(n);
    return true;
  }
  return false;
}

// The same value, also when the register that it is in changes.
Value Writer::kept(const Value& x) {
  Value out = x;
  if (x.changes) {
    out.reg = fresh_of(x);
    copy_value(out.reg, x);
    out.changes = false;
  }
  return out;
}

Value Writer::spread(const Value& x, DType d, int n) {
  if (x.held == Held::kNumber) return of_number(d, n, x.word);
  if (n == 1) return kept(x);
  Value out = in_new(d, n, x86::kNoReg);
  if (d == DType::kBool) {
    const Reg all = fresh(RegClass::kGeneral);
    copy(all, x.reg);
    general_line({0xF7, OpcodeMap::kOne, Prefix::kNone, 0, 0, 3}, 8, all, Source(), true);  // neg
    if (evex_) {
      out.reg = mask_of_bits(all);
      return out;
    }
    const Reg low = vector_op(kMoveToVector, 16, x86::kNoReg, at(all));
    out.mask = mask_bytes(n);
    out.reg = vector_op({0x58, OpcodeMap::k0F38, Prefix::k66}, bytes_of(out), x86::kNoReg, at(low));
    return out;
  }
  const int size = element(d);
  Reg low = x.reg;
  if (!is_real(d)) {
    low = vector_op(size == 8 ? kMoveQuadToVector : kMoveToVector, 16, x86::kNoReg, at(x.reg));
  }
  constexpr uint8_t kOpcodes[] = {0x78, 0x79, 0x58, 0x59};
  const Form form = {kOpcodes[log_of(size)], OpcodeMap::k0F38, Prefix::k66,
                     static_cast<uint8_t>(size == 8), x86::kVector | x86::kVexW0};
  out.reg = vector_op(form, vector_bytes(d, n), x86::kNoReg, at(low));
  return out;
}

Value Writer::lane(const Value& x, int which) {
  if (x.held == Held::kNumber) return of_number(x.dtype, 1, x.word);
  if (x.held == Held::kLanes) return of_number(x.dtype, 1, which);
  if (x.lanes == 1) return kept(x);
  Value out = in_new(x.dtype, 1, x86::kNoReg);
  if (x.dtype == DType::kBool) {
    out.reg = mask_bits(x);
    const int bit = evex_ ? which : which * x.mask;
    if (bit != 0) general_line(kShiftRight, 8, out.reg, Source(), true, bit);
    general_line(kAndNumber, 4, out.reg, Source(), true, 1);
    return out;
  }
  const int size = element(x.dtype), at_byte = which * size;
  Reg part = x.reg;
  if (at_byte >= 16) {
    part = fresh(RegClass::kVector);
    vector_line(kExtract, vector_bytes(x.dtype, x.lanes), part, x86::kNoReg, at(x.reg),
                at_byte / 16);
  }
  const int rest = at_byte % 16;
  if (is_real(x.dtype)) {
    out.reg = fresh(RegClass::kVector);
    if (rest == 0) {
      copy(out.reg, part);
    } else {
      vector_line(kShiftBytes, 16, out.reg, x86::kNoReg, at(part), rest);
    }
    return out;
  }
  out.reg = fresh(RegClass::kGeneral);
  constexpr uint8_t kOpcodes[] = {0x14, 0x15, 0x16, 0x16};
  vector_line({kOpcodes[log_of(size)], OpcodeMap::k0F3A, Prefix::k66,
               static_cast<uint8_t>(size == 8), kScalar | x86::kStores | x86::kHasImm},
              16, out.reg, x86::kNoReg, at(part), rest / size);
  normalise(c::stored(x.dtype), out.reg);
  return out;
}

// The lanes behind the first half.
Reg Writer::upper_half(const Value& x) {
  const Reg from = in_register(x);
  if (x.dtype == DType::kBool && evex_) {  // kshiftrq
    const Reg out = fresh(RegClass::kMask);
    vector_line({0x31, OpcodeMap::k0F3A, Prefix::k66, 1, kScalar | x86::kHasImm | x86::kRegister},
                16, out, x86::kNoReg, at(from), x.lanes / 2);
    return out;
  }
  const int bytes = (x.dtype == DType::kBool ? x.mask : element(x.dtype)) * x.lanes;
  const Reg out = fresh(RegClass::kVector);
  if (bytes == 64) {
    Form form = kExtract;
    form.opcode = 0x3B;
    form.w = 1;
    form.flags |= x86::kEvexOnly;
    vector_line(form, 64, out, x86::kNoReg, at(from), 1);
  } else if (bytes == 32) {
    vector_line(kExtract, 32, out, x86::kNoReg, at(from), 1);
  } else {
    vector_line(kShiftBytes, 16, out, x86::kNoReg, at(from), bytes / 2);
  }
  return out;
}

// Both one behind the other.
Value Writer::joined(const Value& low, const Value& high) {
  const int n = 2 * low.lanes;
  Value out = in_new(low.dtype, n, x86::kNoReg);
  if (low.dtype == DType::kBool && evex_) {
    const Reg first = in_register(low), second = in_register(high);
    const uint64_t bits = (uint64_t{1} << low.lanes) - 1;
    const Reg part = mask_of_bits(number(static_cast<int64_t>(bits)));
    const Reg mine = fresh(RegClass::kMask), shifted = fresh(RegClass::kMask);
    out.reg = fresh(RegClass::kMask);
    vector_line({0x41, OpcodeMap::k0F, Prefix::kNone, 1, x86::kVector | x86::kRegister}, 32, mine,
                first, at(part));
    vector_line({0x33, OpcodeMap::k0F3A, Prefix::k66, 1, kScalar | x86::kHasImm | x86::kRegister},
                16, shifted, x86::kNoReg, at(second), low.lanes);
    vector_line({0x45, OpcodeMap::k0F, Prefix::kNone, 1, x86::kVector | x86::kRegister}, 32,
                out.reg, mine, at(shifted));
    return out;
  }
  const bool truth = low.dtype == DType::kBool;
  Value a = low, b = high;
  if (truth) {
    a = masked_as(low, low.mask);
    b = masked_as(high, low.mask);
    out.mask = low.mask;
  }
  const int size = truth ? low.mask : element(low.dtype), bytes = size * low.lanes;
  if (bytes == 32) {
    out.reg = vector_op({0x3A, OpcodeMap::k0F3A, Prefix::k66, 1, kEvex | x86::kHasImm}, 64,
                        in_register(a), at(in_register(b)), 1);
  } else if (bytes == 16) {
    out.reg = vector_op({0x38, OpcodeMap::k0F3A, Prefix::k66, 0, x86::kVector | x86::kHasImm}, 32,
                        in_register(a), at(in_register(b)), 1);
  } else if (bytes == 8) {
    out.reg =
        vector_op({0x6C, OpcodeMap::k0F, Prefix::k66, 1}, 16, in_register(a), at(in_register(b)));
  } else {  // the second one shifted behind the first, whose rest is cut off
    const Reg shifted = fresh(RegClass::kVector), cut = fresh(RegClass::kVector);
    Form left = kShiftBytes;
    left.digit = 7;
    vector_line(left, 16, shifted, x86::kNoReg, at(in_register(b)), bytes);
    uint8_t mask[64] = {};
    std::memset(mask, 0xFF, static_cast<size_t>(bytes));
    vector_line({0xDB, OpcodeMap::k0F, Prefix::k66}, 16, cut, in_register(a),
                at(pooled(mask, evex_ ? 64 : 32), 0));
    out.reg = vector_op({0xEB, OpcodeMap::k0F, Prefix::k66}, 16, cut, at(shifted));
  }
  return out;
}

// ---- Shuffles ----

Status Writer::shuffle(const Step& s, Value* out) {
  const int n = lanes(*s.in);
  const Value a = find(s.operands[0]), b = find(s.operands[s.operands.size() > 1 ? 1 : 0]);
  const DType d = s.in->dtype;
  const int from = a.lanes;
  if (n == 1) {
    const auto which = static_cast<int>(s.words[0]);
    *out = lane(which >= from ? b : a, which % from);
    return kOk;
  }
  if (d == DType::kBool && from > 1) {
    // As numbers 0 and -1.
    const int size = evex_ ? std::clamp(target_.vector_bytes / std::max(n, from), 1, 8)
                     : a.held == Held::kRegister ? a.mask
                                                 : b.mask;
    const Value x = as_numbers(a, size), y = as_numbers(b, size);
    *out = in_new(d, n, shuffled(x, y, s.words, n));
    out->mask = static_cast<uint8_t>(size);
    if (evex_) {
      const Reg mask = fresh(RegClass::kMask);
      vector_line({static_cast<uint8_t>(size >= 4 ? 0x39 : 0x29), OpcodeMap::k0F38, Prefix::kF3,
                   static_cast<uint8_t>(size == 8 || size == 2), kEvex},
                  std::max(16, size * n), mask, x86::kNoReg, at(out->reg));
      out->reg = mask;
    }
    return out_.status();
  }
  *out = in_new(d, n, x86::kNoReg);
  if (from > 1) {
    out->reg = shuffled(a, b, s.words, n);
    return out_.status();
  }
  // Of scalars: through memory.
  const int size = element(d);
  const Mem room = spill(x86::kNoReg, 64);
  for (int i = 0; i < n; ++i) {
    Mem place = room;
    place.offset += i * size;
    const Value& x = s.words[static_cast<size_t>(i)] >= from ? b : a;
    store_scalar(is_real(d) ? d : c::stored(d), place, in_register(x));
  }
  out->reg = fresh(RegClass::kVector);
  load_whole(c::stored(d), n, room, out->reg);
  if (d == DType::kBool) {
    const Reg zero = in_register(of_number(DType::kUInt8, n, 0));
    out->reg = mask_of_compare(Op::kCmpNe, DType::kUInt8, n, out->reg, at(zero));
    out->mask = 1;
  }
  return out_.status();
}

// The lanes of a mask as integers 0 and -1 of so many bytes.
Value Writer::as_numbers(const Value& mask, int size) {
  Value out = in_new(whole_of(size, true), mask.lanes, x86::kNoReg);
  if (!evex_) {
    out.reg = masked_as(mask, size).reg;
    return out;
  }
  out.reg = vector_op({static_cast<uint8_t>(size >= 4 ? 0x38 : 0x28), OpcodeMap::k0F38, Prefix::kF3,
                       static_cast<uint8_t>(size == 8 || size == 2), kEvex},
                      vector_bytes(out.dtype, mask.lanes), x86::kNoReg, at(in_register(mask)));
  return out;
}

Reg Writer::shuffled(const Value& a, const Value& b, Words words, int n) {
  const int size = element(a.dtype), from = a.lanes;
  const int bytes = std::max(16, size * std::max(from, n)), all = bytes / size;
  bool first = false, second = false;
  uint8_t control[64] = {}, other[64] = {};
  uint32_t chosen = 0;  // of 4 bytes, those from the second one
  const bool wide_indices = evex_ && size >= 2;
  for (int i = 0; i < n; ++i) {
    const auto word = static_cast<int>(words[static_cast<size_t>(i)]);
    const bool is_second = word >= from;
    const int which = is_second ? word - from : word;
    (is_second ? second : first) = true;
    if (wide_indices) {
      const int64_t index = is_second ? all + which : which;
      std::memcpy(control + i * size, &index, static_cast<size_t>(size));
    } else if (size >= 4) {
      for (int part = 0; part < size / 4; ++part) {
        const int at = i * size / 4 + part, index = which * size / 4 + part;
        std::memcpy((is_second ? other : control) + 4 * at, &index, 4);
        if (is_second) chosen |= 1u << at;
      }
    }
  }
  const Reg x = in_register(a), y = in_register(b);
  const auto table = [&](const uint8_t* of) { return at(pooled(of, evex_ ? 64 : 32), 0); };
  if (wide_indices) {
    const Form form = {static_cast<uint8_t>(size == 2 ? 0x75 : 0x76), OpcodeMap::k0F38, Prefix::k66,
                       static_cast<uint8_t>(size != 4), kEvex};
    const Reg out = vector_op({0x10}, bytes, x86::kNoReg, table(control));
    vector_line(form, bytes, out, x, at(y), 0, x86::kNoReg, false, true);
    return out;
  }
  if (size >= 4) {
    const auto permuted = [&](Reg of, const uint8_t* by) {
      if (bytes == 16) return vector_op({0x0C, OpcodeMap::k0F38, Prefix::k66}, 16, of, table(by));
      const Reg indices = vector_op({0x10}, 32, x86::kNoReg, table(by));
      return vector_op({0x36, OpcodeMap::k0F38, Prefix::k66}, 32, indices, at(of));
    };
    if (!second) return permuted(x, control);
    if (!first) return permuted(y, other);
    return vector_op({0x02, OpcodeMap::k0F3A, Prefix::k66, 0, x86::kVector | x86::kHasImm}, bytes,
                     permuted(x, control), at(permuted(y, other)), chosen);
  }
  const Mem room = spill(x86::kNoReg, 64), one = spill(x, bytes), two = spill(y, bytes);
  const DType d = whole_of(size, false);
  const Reg element = fresh(RegClass::kGeneral);
  for (int i = 0; i < n; ++i) {
    const auto word = static_cast<int>(words[static_cast<size_t>(i)]);
    Mem place = word >= from ? two : one, to = room;
    place.offset += (word >= from ? word - from : word) * size;
    to.offset += i * size;
    load_scalar(d, place, element);
    store_scalar(d, to, element);
  }
  const Reg out = fresh(RegClass::kVector);
  load_whole(d, n, room, out);
  return out;
}

// ---- Casts ----

Status Writer::bitcast(const Value& x, DType to, int n, Value* out) {
  if (x.dtype == to) return *out = kept(x), kOk;
  if (to == DType::kBool || x.dtype == DType::kBool) return cast(x, to, n, false, out);
  if (x.held == Held::kNumber) {
    const uint64_t bits = bits_of(x.dtype, x.word);
    Word word = static_cast<Word>(bits);
    if (dtype::is_float(to)) {
      if (dtype::is_narrow_float(to)) return cannot("this cast of a number");
      word = element(to) == 4 ? std::bit_cast<Word>(static_cast<double>(
                                    std::bit_cast<float>(static_cast<uint32_t>(bits))))
                              : word;
    } else if (dtype::is_signed(to) && element(to) < 8) {
      const int shift = 64 - 8 * element(to);
      word = static_cast<Word>(bits << shift) >> shift;
    }
    *out = of_number(to, n, word);
    return kOk;
  }
  const bool was_real = n == 1 && is_real(x.dtype), is_to = n == 1 && is_real(to);
  *out = in_new(to, n, x86::kNoReg);
  const bool wide = element(to) == 8;
  if (was_real == is_to) {
    out->reg = fresh_of(*out);
    copy_value(out->reg, x);
    if (n == 1) normalise(c::stored(to), out->reg);
  } else if (is_to) {
    out->reg = vector_op(wide ? kMoveQuadToVector : kMoveToVector, 16, x86::kNoReg, at(x.reg));
  } else {
    out->reg = fresh(RegClass::kGeneral);
    vector_line(
        {0x7E, OpcodeMap::k0F, Prefix::k66, static_cast<uint8_t>(wide), kScalar | x86::kStores}, 16,
        out->reg, x86::kNoReg, at(x.reg));
  }
  return out_.status();
}

// A mask as numbers 0 and 1.
Reg Writer::as_ones(const Value& mask, DType to, int n) {
  const double one = 1;
  const Source ones =
      at(pooled_word(to, dtype::is_float(to) ? std::bit_cast<Word>(one) : Word{1}), 0);
  const int size = element(to), bytes = vector_bytes(to, n);
  if (!evex_) {
    return vector_op({0xDB, OpcodeMap::k0F, Prefix::k66}, bytes, masked_as(mask, size).reg, ones);
  }
  const Reg out = fresh(RegClass::kVector);
  const Form form =
      size >= 4 ? Form{0x10, OpcodeMap::k0F, size == 8 ? Prefix::k66 : Prefix::kNone,
                       static_cast<uint8_t>(size == 8)}
                : Form{0x6F, OpcodeMap::k0F, Prefix::kF2, static_cast<uint8_t>(size == 2), kEvex};
  vector_line(form, bytes, out, x86::kNoReg, ones, 0, in_register(mask), true);
  return out;
}

// Half as wide elements, what is above left out.
Reg Writer::narrowed(Reg from, int element, int bytes) {
  const auto upper = [&](Reg of) {
    if (bytes == 16) return of;
    const Reg out = fresh(RegClass::kVector);
    vector_line(kExtract, 32, out, x86::kNoReg, at(of), 1);
    return out;
  };
  if (element == 8) {
    return vector_op({0xC6, OpcodeMap::k0F, Prefix::kNone, 0, x86::kVector | x86::kHasImm}, 16,
                     from, at(upper(from)), 0x88);
  }
  const Mem low =
      element == 4 ? pooled_word(DType::kUInt32, 0xFFFF) : pooled_word(DType::kUInt16, 0xFF);
  const Reg cut = vector_op({0xDB, OpcodeMap::k0F, Prefix::k66}, bytes, from, at(low, 0));
  const Form form = element == 4 ? Form{0x2B, OpcodeMap::k0F38, Prefix::k66}
                                 : Form{0x67, OpcodeMap::k0F, Prefix::k66};
  return vector_op(form, 16, cut, at(upper(cut)));
}

Value Writer::masked_as(const Value& v, int bytes) {
  Value out = v;
  out.mask = static_cast<uint8_t>(bytes);
  if (v.held != Held::kRegister) {
    out.reg = in_register(out);
    out.held = Held::kRegister;
    return out;
  }
  if (v.mask < bytes) {
    out.reg = resized(v.reg, whole_of(v.mask, true), whole_of(bytes, true), v.lanes);
    return out;
  }
  for (int now = v.mask; now > bytes; now /= 2)
    out.reg = narrowed(out.reg, now, std::max(16, now * v.lanes));
  return out;
}

Reg Writer::resized(Reg from, DType of, DType to, int n) {
  const int was = element(of), now = element(to);
  if (was == now) return from;
  if (was < now) {
    // Rows: from 1, 2, 4 bytes.
    const int step = log_of(now) - log_of(was) - 1;
    const int opcode = (was == 1 ? 0x20 : was == 2 ? 0x23 : 0x25) + step;
    const bool is_signed = dtype::is_signed(of);
    return vector_op(
        {static_cast<uint8_t>(is_signed ? opcode : opcode + 0x10), OpcodeMap::k0F38, Prefix::k66},
        vector_bytes(to, n), x86::kNoReg,
        Source{from, {}, static_cast<uint8_t>(std::max(was * n, 2))});
  }
  if (!evex_) {
    for (int at = was; at > now; at /= 2) from = narrowed(from, at, std::max(16, at * n));
    return from;
  }
  const int opcode = was == 2   ? 0x30
                     : was == 4 ? (now == 1 ? 0x31 : 0x33)
                     : now == 1 ? 0x32
                     : now == 2 ? 0x34
                                : 0x35;
  const Reg out = fresh(RegClass::kVector);
  vector_line(
      {static_cast<uint8_t>(opcode), OpcodeMap::k0F38, Prefix::kF3, 0, kEvex | x86::kStores},
      vector_bytes(of, n), out, x86::kNoReg, at(from));
  return out;
}

Status Writer::cast(const Value& x, DType to, int n, bool checked, Value* out) {
  const DType from = x.dtype;
  if (from == to) return *out = kept(x), kOk;
  *out = in_new(to, n, x86::kNoReg);
  if (dtype::is_narrow_float(from) || dtype::is_narrow_float(to)) {
    const bool widens = from == DType::kFloat16 && to == DType::kFloat32;
    if (!widens && !(from == DType::kFloat32 && to == DType::kFloat16))
      return cannot("this cast of narrow floats");
    Reg in = in_register(x);
    if (widens) {
      if (n == 1) in = vector_op(kMoveToVector, 16, x86::kNoReg, at(in));
      out->reg = vector_op({0x13, OpcodeMap::k0F38, Prefix::k66}, vector_bytes(to, n), x86::kNoReg,
                           Source{in, {}, static_cast<uint8_t>(2 * n)});
      return out_.status();
    }
    const Reg made = fresh(RegClass::kVector);
    vector_line(
        {0x1D, OpcodeMap::k0F3A, Prefix::k66, 0, x86::kVector | x86::kStores | x86::kHasImm},
        vector_bytes(from, n), made, x86::kNoReg, at(in), 0);
    out->reg = made;
    if (n > 1) return out_.status();
    out->reg = fresh(RegClass::kGeneral);
    vector_line({0x7E, OpcodeMap::k0F, Prefix::k66, 0, kScalar | x86::kStores}, 16, out->reg,
                x86::kNoReg, at(made));
    normalise(DType::kUInt16, out->reg);
    return out_.status();
  }
  if (to == DType::kBool) {
    const Value both[2] = {x, of_number(from, n, 0)};
    return arithmetic(Op::kCmpNe, to, n, both, 2, out);
  }
  if (from == DType::kBool && n > 1) {
    out->reg = as_ones(x, to, n);
    return out_.status();
  }
  if (is_real(from) && is_real(to)) {
    const bool widens = element(to) == 8;
    const Reg in = in_register(x);
    Form form = {0x5A, OpcodeMap::k0F, widens ? Prefix::kNone : Prefix::k66,
                 static_cast<uint8_t>(!widens)};
    if (n == 1) {
      form.prefix = widens ? Prefix::kF3 : Prefix::kF2;
      form.flags = kScalar;
      out->reg = vector_op(form, 16, in, at(in));
      return out_.status();
    }
    out->reg = vector_op(form, std::max(16, 8 * n), x86::kNoReg,
                         Source{in, {}, static_cast<uint8_t>(widens ? 4 * n : 8 * n)});
    return out_.status();
  }
  if (is_real(to)) return to_real(x, to, n, out);
  if (is_real(from)) return to_int(x, to, n, checked, out);
  const Reg in = in_register(x);
  if (n > 1) {
    out->reg = resized(in, from, to, n);
    if (out->reg == in) {  // as wide
      out->reg = fresh(RegClass::kVector);
      copy(out->reg, in);
    }
    return out_.status();
  }
  out->reg = fresh(RegClass::kGeneral);
  if (element(to) == 8 && element(from) < 8) {
    Value now = x;
    if (x.held != Held::kRegister) now = in_new(from, 1, in);
    copy(out->reg, wide(now));
  } else {
    copy(out->reg, in);
    normalise(to, out->reg);
  }
  return out_.status();
}

Status Writer::to_real(const Value& x, DType to, int n, Value* out) {
  const DType from = x.dtype;
  const int was = element(from);
  const bool single = element(to) == 4, is_unsigned = dtype::is_unsigned(from);
  if (n == 1) {
    const Prefix prefix = single ? Prefix::kF3 : Prefix::kF2;
    const Reg zero = in_register(of_number(DType::kFloat32, 1, 0));
    Value held = x;
    if (x.held != Held::kRegister) held = in_new(from, 1, in_register(x));
    const Reg in = from == DType::kBool ? held.reg : wide(held);
    out->reg = fresh(RegClass::kVector);
    const auto convert = [&](Reg number) {
      vector_line({0x2A, OpcodeMap::k0F, prefix, 1, kScalar}, 16, out->reg, zero, at(number));
    };
    if (!is_unsigned || was < 8) {
      convert(in);
    } else if (evex_) {
      vector_line({0x7B, OpcodeMap::k0F, prefix, 1, kScalar | x86::kEvexOnly}, 16, out->reg, zero,
                  at(in));
    } else {  // of large ones half, which the last bit keeps to the right side, twice
      const int64_t large = out_.label(), behind = out_.label();
      compare_number(8, in, 0);
      jump(0x8, large);
      convert(in);
      jump(x86::kAlways, behind);
      label(large);
      const Reg half = fresh(RegClass::kGeneral), last = fresh(RegClass::kGeneral);
      copy(half, in);
      copy(last, in);
      general_line(kShiftRight, 8, half, Source(), true, 1);
      general_line(kAndNumber, 8, last, Source(), true, 1);
      general_line({0x0B, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, half, at(last), true);
      convert(half);
      vector_line({0x58, OpcodeMap::k0F, prefix, static_cast<uint8_t>(!single), kScalar}, 16,
                  out->reg, out->reg, at(out->reg));
      label(behind);
    }
    return out_.status();
  }
  if (!evex_ && ((was == 4 && is_unsigned) || was == 8))
    return by_lanes(Op::kCast, to, n, &x, 1, out);
  Reg in = in_register(x);
  int size = was;
  bool whole_unsigned = is_unsigned;
  if (was < 4) {
    in = resized(in, from, is_unsigned ? DType::kUInt32 : DType::kInt32, n);
    size = 4;
    whole_unsigned = false;
  }
  Form form;
  if (whole_unsigned) {
    form = {0x7A, OpcodeMap::k0F, single ? Prefix::kF2 : Prefix::kF3,
            static_cast<uint8_t>(size == 8), kEvex};
  } else {
    form = single ? Form{0x5B} : Form{0xE6, OpcodeMap::k0F, Prefix::kF3};
    form.w = size == 8;
    if (size == 8) form.flags = kEvex;
  }
  const int bytes = std::max({16, size * n, element(to) * n});
  out->reg = vector_op(form, bytes, x86::kNoReg, Source{in, {}, static_cast<uint8_t>(size * n)});
  return out_.status();
}

Status Writer::to_int(const Value& x, DType to, int n, bool checked, Value* out) {
  const bool single = element(x.dtype) == 4, is_unsigned = dtype::is_unsigned(to);
  const int now = element(to);
  if (n == 1) {
    const Prefix prefix = single ? Prefix::kF3 : Prefix::kF2;
    const Reg in = in_register(x);
    out->reg = fresh(RegClass::kGeneral);
    const auto convert = [&](Reg from) {
      vector_line({0x2C, OpcodeMap::k0F, prefix, 1, kScalar}, 16, out->reg, x86::kNoReg, at(from));
    };
    if (checked) {  // 0 where 64 bits do not hold it
      convert(in);
      const Reg zero = number(0);
      compare(8, out->reg, at(number(INT64_MIN)));
      move_if(kEqual, 8, out->reg, zero);
    } else if (!is_unsigned || now < 8) {
      convert(in);
    } else if (evex_) {
      vector_line({0x78, OpcodeMap::k0F, prefix, 1, kScalar | x86::kEvexOnly}, 16, out->reg,
                  x86::kNoReg, at(in));
    } else {
      const Value limit = of_number(x.dtype, 1, 0x43E0000000000000);  // 2^63
      convert(in);
      const Reg less =
          vector_op({0x5C, OpcodeMap::k0F, prefix, static_cast<uint8_t>(!single), kScalar}, 16, in,
                    source(limit));
      const int64_t behind = out_.label();
      compare(8, out->reg, at(number(INT64_MIN)));
      jump(kNotEqual, behind);
      convert(less);
      general_line({0x33, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, out->reg, at(number(INT64_MIN)),
                   true);
      label(behind);
    }
    normalise(to, out->reg);
    return out_.status();
  }
  const bool plain = now < 4 || (now == 4 && !is_unsigned);
  if (checked || (!evex_ && !plain))
    return by_lanes(checked ? Op::kCast : Op::kToInt, to, n, &x, 1, out);
  Form form;
  if (plain) {
    form = single ? Form{0x5B, OpcodeMap::k0F, Prefix::kF3}
                  : Form{0xE6, OpcodeMap::k0F, Prefix::k66, 1};
  } else if (now == 4) {
    form = {0x78, OpcodeMap::k0F, Prefix::kNone, static_cast<uint8_t>(!single), kEvex};
  } else {
    form = {static_cast<uint8_t>(is_unsigned ? 0x78 : 0x7A), OpcodeMap::k0F, Prefix::k66,
            static_cast<uint8_t>(!single), kEvex};
  }
  const int made = std::max(now, 4), bytes = std::max({16, element(x.dtype) * n, made * n});
  const Reg whole =
      vector_op(form, bytes, x86::kNoReg,
                Source{in_register(x), {}, static_cast<uint8_t>(element(x.dtype) * n)});
  out->reg = now < 4 ? resized(whole, DType::kInt32, to, n) : whole;
  return out_.status();
}

// ---- Functions, and lanes combined ----

Status Writer::call_whole(size_t place, const Value* arguments, size_t count, int n, Value* out) {
  const Program& program = module_.programs[place];
  int widest = 1;
  for (const Instruction& in : program.code()) {
    if (has_value(in.op) && in.lanes == kAnyLanes && in.dtype != DType::kBool)
      widest = std::max(widest, element(in.dtype));
  }
  if (n > 1 && widest * n > target_.register_bytes()) {
    Value halves[2], low[8], high[8];
    for (size_t i = 0; i < count; ++i) {
      low[i] = high[i] = arguments[i];
      if (arguments[i].lanes == 1) continue;
      low[i].lanes = high[i].lanes = static_cast<uint8_t>(n / 2);
      if (arguments[i].held != Held::kNumber) {
        low[i].reg = in_register(arguments[i]);
        high[i].reg = upper_half(arguments[i]);
        low[i].held = high[i].held = Held::kRegister;
      }
      if (n == 2) {
        low[i] = lane(arguments[i], 0);
        high[i] = lane(arguments[i], 1);
      }
    }
    ASTER_TRY(call_whole(place, low, count, n / 2, &halves[0]));
    ASTER_TRY(call_whole(place, high, count, n / 2, &halves[1]));
    if (n == 2) return cannot("a function of two lanes in halves");
    *out = joined(halves[0], halves[1]);
    return out_.status();
  }
  Body body(program, n, blocks_.memory());
  body.arguments = arguments;
  ASTER_TRY(walk(body));
  *out = body.result;
  out->changes = false;
  out->depth = depth();
  return out_.status();
}

Status Writer::across(const Step& s, Value x, Value* out) {
  if (x.lanes == 1) return *out = kept(x), kOk;
  if (s.in->dtype == DType::kBool) {
    const bool all = s.in->with == Op::kAnd;
    if (!all && s.in->with != Op::kOr) return cannot("conditions combined so");
    if (x.held == Held::kNumber) return *out = of_number(DType::kBool, 1, x.word), kOk;
    if (evex_ && x.lanes >= 8) {  // kortest: carry where all are set, zero where none is
      const int log = log_of(x.lanes / 8);
      constexpr Form kTests[] = {
          {0x98, OpcodeMap::k0F, Prefix::k66, 0, kScalar | x86::kRegister},
          {0x98, OpcodeMap::k0F, Prefix::kNone, 0, kScalar | x86::kRegister},
          {0x98, OpcodeMap::k0F, Prefix::k66, 1, kScalar | x86::kRegister},
          {0x98, OpcodeMap::k0F, Prefix::kNone, 1, kScalar | x86::kRegister}};
      Line test;
      test.form = kTests[log];
      test.bytes = 16;
      test.a = test.b = x.reg;
      put(test);
      *out = in_new(DType::kBool, 1, set_if(all ? kBelow : kNotEqual));
      return out_.status();
    }
    const int bits = evex_ ? x.lanes : x.lanes * x.mask;
    const uint64_t full = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const Reg found = general_op(0x23, 8, mask_bits(x), at(number(static_cast<int64_t>(full))));
    if (all) {
      compare(8, found, at(number(static_cast<int64_t>(full))));
    } else {
      compare_number(8, found, 0);
    }
    *out = in_new(DType::kBool, 1, set_if(all ? kEqual : kNotEqual));
    return out_.status();
  }
  if (x.held != Held::kRegister) x.reg = in_register(x), x.held = Held::kRegister;
  while (x.lanes > 1) {
    Value both[2] = {x, x};
    if (x.lanes == 2) {
      both[0] = lane(x, 0);
      both[1] = lane(x, 1);
    } else {
      both[1].reg = upper_half(x);
      both[0].lanes = both[1].lanes = static_cast<uint8_t>(x.lanes / 2);
    }
    ASTER_TRY(arithmetic(s.in->with, x.dtype, x.lanes / 2, both, 2, &x));
  }
  *out = x;
  return out_.status();
}

}  // namespace aster::codegen::program::native
