// Addresses, loads and stores of programs as lines of machine code. In memory conditions are bytes.
#include "codegen/render_x86_writer.h"

namespace aster::codegen::program::native {
namespace {

constexpr uint16_t kScalar = x86::kVector | x86::kNoLength;
constexpr Form kMov = {0x8B, OpcodeMap::kOne, Prefix::kNone, 0, 0};
constexpr Form kMovSigned = {0x63, OpcodeMap::kOne, Prefix::kNone, 0, 0};
constexpr Form kLea = {0x8D, OpcodeMap::kOne, Prefix::kNone, 0, 0};
constexpr uint8_t kEqual = 0x4, kNotBelow = 0x3, kNotEqual = 0x5;

Mem moved_by(Mem mem, int64_t bytes) {
  mem.offset += static_cast<int32_t>(bytes);
  return mem;
}

}  // namespace

// A value in all 64 bits.
Reg Writer::wide(const Value& v) {
  if (v.held == Held::kNumber) return number(v.word);
  if (v.counts || element(v.dtype) == 8) return v.reg;
  if (!v.changes) {
    for (const Known& one : known_) {
      if (one.from == x86::kNoReg && one.value == v.reg && one.factor == 0) return one.result;
    }
  }
  Line line;
  const bool is_signed = dtype::is_signed(v.dtype);
  line.form = is_signed ? kMovSigned : kMov;
  line.bytes = is_signed ? 8 : 4;
  line.d = fresh(RegClass::kGeneral);
  line.b = v.reg;
  if (v.changes) return put(line), line.d;
  put_at(v.depth, line);
  out_.fail(known_.push(Known{x86::kNoReg, v.reg, 0, line.d, v.depth}));
  return line.d;
}

Reg Writer::multiple(const Value& v, int64_t factor) {
  const Reg from = wide(v);
  if (factor == 1) return from;
  if (!v.changes) {
    for (const Known& one : known_) {
      if (one.from == x86::kNoReg && one.value == from && one.factor == factor) return one.result;
    }
  }
  Line line;
  line.form = {0x69, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32};
  line.bytes = 8;
  line.d = fresh(RegClass::kGeneral);
  line.b = from;
  line.imm = factor;
  if (factor != static_cast<int32_t>(factor))
    out_.fail(ASTER_FAIL(kUNSUPPORTED, "no machine code for so far a distance"));
  if (v.changes) return put(line), line.d;
  put_at(v.depth, line);
  out_.fail(known_.push(Known{x86::kNoReg, from, factor, line.d, v.depth}));
  return line.d;
}

// from + by; of a depth past all: computed here, and not known later.
Reg Writer::moved(Reg from, Reg by, uint16_t depth) {
  const bool keeps = depth != UINT16_MAX;
  for (const Known& one : known_) {
    if (keeps && one.from == from && one.value == by) return one.result;
  }
  Line line;
  line.form = kLea;
  line.bytes = 8;
  line.d = fresh(RegClass::kGeneral);
  line.mem.place = Place::kPointer;
  line.mem.base = from;
  line.mem.index = by;
  if (!keeps) return put(line), line.d;
  put_at(depth, line);
  out_.fail(known_.push(Known{from, by, 1, line.d, depth}));
  return line.d;
}

// The address of the first lane: a pointer for what changes further out, a register for the rest.
Mem Writer::address(const Step& s, const Access& a) {
  const Value memory = find({a.memory, 0});
  const int64_t size = element(body_->program.at(a.memory).dtype);
  Mem out = memory.memory;
  uint16_t depth = memory.depth;
  int64_t constant = s.constant;
  const Product* last = nullptr;
  for (const Product& p : s.products) {
    const Value v = find(p.at);
    if (v.held == Held::kNumber) {
      constant += p.factor * v.word;
    } else {
      last = &p;
    }
  }
  for (const Product& p : s.products) {
    const Value v = find(p.at);
    if (v.held == Held::kNumber) continue;
    const int64_t bytes = p.factor * size;
    if (&p == last) {
      const bool scaled = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
      out.index = scaled ? wide(v) : multiple(v, bytes);
      out.scale = scaled ? static_cast<uint8_t>(bytes) : 1;
      break;
    }
    const Reg by = multiple(v, bytes);
    depth = v.changes || depth == UINT16_MAX ? UINT16_MAX : std::max(depth, v.depth);
    out.base = moved(out.base, by, depth);
  }
  const int64_t offset = constant * size;
  constexpr int64_t kFar = int64_t{1} << 30;
  if (offset > -kFar && offset < kFar) {
    out.offset = static_cast<int32_t>(offset);
  } else {
    out.base = moved(out.base, number(offset), UINT16_MAX);
  }
  return out;
}

// Without an index.
Mem Writer::simple(const Mem& from) {
  if (from.index == x86::kNoReg) return from;
  Mem out;
  out.place = Place::kPointer;
  out.base = fresh(RegClass::kGeneral);
  out.offset = from.offset;
  Mem begin = from;
  begin.offset = 0;
  general_line(kLea, 8, out.base, at(begin, 8), false);
  return out;
}

// In memory of the function, until the next one.
Mem Writer::spill(Reg from, int bytes) {
  if (spill_ == 0) spill_ = out_.reserve(kSpills * 64);
  Mem out;
  out.place = Place::kFrame;
  out.offset = spill_ + 64 * (spills_++ % kSpills);
  if (from != x86::kNoReg) {
    Line line;
    line.form = {0x11, OpcodeMap::k0F, Prefix::kNone, 0, x86::kVector | x86::kStores};
    line.bytes = line.size = static_cast<uint8_t>(bytes);
    line.b = from;
    line.mem = out;
    put(line);
  }
  return out;
}

void Writer::skip_unless(const Value& condition, int64_t to) {
  if (condition.held == Held::kNumber) {
    if (condition.word == 0) jump(x86::kAlways, to);
    return;
  }
  compare_number(4, condition.reg, 0);
  jump(kEqual, to);
}

void Writer::skip_unless_lane(const Value& mask, int lane, int64_t to) {
  if (mask.lanes == 1) return skip_unless(mask, to);
  Line bit;  // bt
  bit.form = {0xBA, OpcodeMap::k0F, Prefix::kNone, 0, x86::kHasImm, 4};
  bit.bytes = 8;
  bit.a = mask_bits(mask);
  bit.imm = evex_ ? lane : lane * mask.mask;
  put(bit);
  jump(kNotBelow, to);
}

// Bits of a mask in a general register: one a lane, or, without AVX-512, one a byte.
Reg Writer::mask_bits(const Value& mask) {
  const Reg bits = fresh(RegClass::kGeneral), from = in_register(mask);
  if (evex_) {
    vector_line({0x93, OpcodeMap::k0F, Prefix::kF2, 1, kScalar | x86::kRegister}, 16, bits,
                x86::kNoReg, at(from));
  } else {
    vector_line({0xD7, OpcodeMap::k0F, Prefix::k66, 0, x86::kVector | x86::kRegister},
                bytes_of(mask), bits, x86::kNoReg, at(from));
  }
  return bits;
}

Reg Writer::mask_of_bits(Reg bits) {
  const Reg mask = fresh(RegClass::kMask);
  vector_line({0x92, OpcodeMap::k0F, Prefix::kF2, 1, kScalar | x86::kRegister}, 16, mask,
              x86::kNoReg, at(bits));
  return mask;
}

// ---- One element, or all lanes ----

void Writer::load_scalar(DType d, const Mem& from, Reg to) {
  const int size = element(d);
  if (is_real(d)) {
    const Form form = {0x10, OpcodeMap::k0F, size == 4 ? Prefix::kF3 : Prefix::kF2,
                       static_cast<uint8_t>(size == 8), kScalar};
    return vector_line(form, 16, to, x86::kNoReg, at(from, size));
  }
  if (size >= 4) return general_line(kMov, size, to, at(from, size), false);
  const bool is_signed = dtype::is_signed(d);
  const auto opcode = static_cast<uint8_t>((is_signed ? 0xBE : 0xB6) + (size == 2 ? 1 : 0));
  general_line({opcode, OpcodeMap::k0F, Prefix::kNone, 0, 0}, 4, to, at(from, size), false);
  if (d != DType::kBool) return;
  compare_number(4, to, 0);
  copy(to, set_if(kNotEqual));
}

void Writer::store_scalar(DType d, const Mem& to, Reg from) {
  const int size = element(d);
  Line line;
  line.b = from;
  line.mem = to;
  line.size = static_cast<uint8_t>(size);
  if (is_real(d)) {
    line.form = {0x11, OpcodeMap::k0F, size == 4 ? Prefix::kF3 : Prefix::kF2,
                 static_cast<uint8_t>(size == 8), kScalar | x86::kStores};
    line.bytes = 16;
  } else {
    line.form = {static_cast<uint8_t>(size == 1 ? 0x88 : 0x89), OpcodeMap::kOne, Prefix::kNone, 0,
                 static_cast<uint16_t>(x86::kStores | (size == 1 ? x86::kByteRegister : 0))};
    line.bytes = static_cast<uint8_t>(size);
  }
  put(line);
}

void Writer::load_whole(DType d, int n, const Mem& from, Reg to) {
  const int bytes = element(d) * n;
  if (bytes >= 16) return vector_line({0x10}, bytes, to, x86::kNoReg, at(from, bytes));
  if (bytes == 8) {
    return vector_line({0x7E, OpcodeMap::k0F, Prefix::kF3, 1, kScalar | x86::kVexW0}, 16, to,
                       x86::kNoReg, at(from, 8));
  }
  if (bytes == 4)
    return vector_line({0x10, OpcodeMap::k0F, Prefix::kF3, 0, kScalar}, 16, to, x86::kNoReg,
                       at(from, 4));
  const Reg zero = in_register(of_number(DType::kFloat32, 1, 0));
  vector_line({0xC4, OpcodeMap::k0F, Prefix::k66, 0, kScalar | x86::kHasImm}, 16, to, zero,
              at(from, 2));
}

void Writer::store_whole(DType d, int n, const Mem& to, Reg from) {
  const int bytes = element(d) * n;
  Line line;
  line.b = from;
  line.mem = to;
  line.size = static_cast<uint8_t>(bytes);
  line.bytes = static_cast<uint8_t>(std::max(bytes, 16));
  if (bytes >= 16) {
    line.form = {0x11, OpcodeMap::k0F, Prefix::kNone, 0, x86::kVector | x86::kStores};
  } else if (bytes == 8) {
    line.form = {0xD6, OpcodeMap::k0F, Prefix::k66, 1, kScalar | x86::kVexW0 | x86::kStores};
  } else if (bytes == 4) {
    line.form = {0x11, OpcodeMap::k0F, Prefix::kF3, 0, kScalar | x86::kStores};
  } else {
    line.form = {0x15, OpcodeMap::k0F3A, Prefix::k66, 0, kScalar | x86::kStores | x86::kHasImm};
  }
  put(line);
}

// Past the caches where the address allows it.
void Writer::store_stream(DType d, int n, const Mem& to, Reg from) {
  streams_ = true;
  const Reg place = fresh(RegClass::kGeneral);
  general_line(kLea, 8, place, at(to, 8), false);
  Line test;
  test.form = {0xF7, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 0};
  test.bytes = 8;
  test.a = place;
  test.imm = target_.vector_bytes - 1;
  put(test);
  const int64_t other = out_.label(), behind = out_.label();
  jump(kNotEqual, other);
  Line line;
  line.form = {0x2B, OpcodeMap::k0F, Prefix::kNone, 0, x86::kVector | x86::kStores};
  line.bytes = line.size = static_cast<uint8_t>(element(d) * n);
  line.b = from;
  line.mem = to;
  put(line);
  jump(x86::kAlways, behind);
  label(other);
  store_whole(d, n, to, from);
  label(behind);
}

// ---- Accesses ----

// Which lanes are touched, as a mask of elements of so many bytes; none where all are.
Reg Writer::lanes_mask(const Value* mask, int n, int first, int bytes) {
  if (mask == nullptr && first == n) return x86::kNoReg;
  const bool all = first == n && n * bytes >= 16;
  const uint64_t bits = first == 64 ? ~uint64_t{0} : (uint64_t{1} << first) - 1;
  if (evex_) {
    if (mask != nullptr && all) return in_register(*mask);
    const Reg some = mask_of_bits(number(static_cast<int64_t>(bits)));
    if (mask == nullptr) return some;
    const Reg both = fresh(RegClass::kMask);
    vector_line({0x41, OpcodeMap::k0F, Prefix::kNone, 1, x86::kVector | x86::kRegister}, 32, both,
                some, at(in_register(*mask)));
    return both;
  }
  uint8_t words[64] = {};
  for (int i = 0; i < first * bytes; ++i) words[i] = 0xFF;
  const Source some = at(pooled(words, 32), 0);
  const int whole = std::max(16, n * bytes);
  if (mask == nullptr) return vector_op({0x10}, whole, x86::kNoReg, some);
  const Reg given = masked_as(*mask, bytes).reg;
  return all ? given : vector_op({0xDB, OpcodeMap::k0F, Prefix::k66}, whole, given, some);
}

Status Writer::load_lanes(const Access& a, const Mem& from, const Value& index, const Value* mask,
                          DType d, int n, int first, Reg to) {
  const int size = element(d);
  const Mem room = spill(x86::kNoReg, 64);
  if (first < n || mask != nullptr) {
    const Reg zero = in_register(of_number(DType::kFloat32, evex_ ? 16 : 8, 0));
    Line line;
    line.form = {0x11, OpcodeMap::k0F, Prefix::kNone, 0, x86::kVector | x86::kStores};
    line.bytes = line.size = evex_ ? 64 : 32;
    line.b = zero;
    line.mem = room;
    put(line);
  }
  const DType whole = whole_of(size, false);
  const Reg one = fresh(RegClass::kGeneral);
  Lanes places(*this, a, from, index, size);
  for (int i = 0; i < first; ++i) {
    const int64_t behind = out_.label();
    if (mask != nullptr) skip_unless_lane(*mask, i, behind);
    load_scalar(whole, places.at(i), one);
    store_scalar(whole, moved_by(room, int64_t{size} * i), one);
    label(behind);
  }
  load_whole(whole, n, room, to);
  return out_.status();
}

Writer::Lanes::Lanes(Writer& writer, const Access& a, const Mem& from, const Value& index, int size)
    : writer_(writer), access_(a), size_(size), from_(from), index_(index) {
  if (a.index == kNone) return;
  from_ = writer.simple(from);
  if (index.lanes > 1) spilled_ = writer.spill(writer.in_register(index), writer.bytes_of(index));
}

Mem Writer::Lanes::at(int lane) {
  Mem out = from_;
  if (access_.index == kNone) return moved_by(out, access_.step * lane * size_);
  const int size = element(index_.dtype);
  out.index = writer_.fresh(RegClass::kGeneral);
  out.scale = static_cast<uint8_t>(size_);
  if (index_.lanes == 1) {
    writer_.copy(out.index, writer_.wide(index_));
    return out;
  }
  const Source place = Writer::at(moved_by(spilled_, int64_t{size} * lane), size);
  const bool extends = size == 4 && dtype::is_signed(index_.dtype);
  writer_.general_line(extends ? kMovSigned : kMov, size == 4 && !extends ? 4 : 8, out.index, place,
                       false);
  return out;
}

Status Writer::load(const Access& a, const Mem& from, const Value& index, const Value* mask,
                    DType of, int n, int first, Reg to) {
  const DType d = c::stored(of);
  const int size = element(d), bytes = size * n;
  const bool whole = a.index == kNone && a.step == 1, some = first < n || mask != nullptr;
  if (n == 1) {
    const int64_t behind = out_.label();
    if (some) {
      copy_value(to, of_number(of, 1, 0));
      skip_unless(*mask, behind);
    }
    Lanes places(*this, a, from, index, size);
    load_scalar(is_real(of) || of == DType::kBool ? of : d, places.at(0), to);
    label(behind);
    return out_.status();
  }
  Reg made = of == DType::kBool ? fresh(RegClass::kVector) : to;
  const bool masks = evex_ || size >= 4;
  if (whole && !some) {
    load_whole(d, n, from, made);
  } else if (whole && masks) {
    const Reg those = lanes_mask(mask, n, first, size);
    const int all = std::max(16, bytes);
    if (evex_) {
      const Form form = size >= 4
                            ? Form{0x10, OpcodeMap::k0F, size == 8 ? Prefix::k66 : Prefix::kNone,
                                   static_cast<uint8_t>(size == 8)}
                            : Form{0x6F, OpcodeMap::k0F, Prefix::kF2,
                                   static_cast<uint8_t>(size == 2), x86::kVector | x86::kEvexOnly};
      vector_line(form, all, made, x86::kNoReg, at(from, all), 0, those, true);
    } else {
      vector_line({0x8C, OpcodeMap::k0F38, Prefix::k66, static_cast<uint8_t>(size == 8)}, all, made,
                  those, at(from, all));
    }
  } else {
    const bool indices = a.index != kNone && index.held == Held::kRegister &&
                         (element(index.dtype) == 4 || (size == 8 && element(index.dtype) == 8)) &&
                         dtype::is_signed(index.dtype);
    const bool gathers = evex_ && size >= 4 && bytes >= 16 && (a.index == kNone || indices);
    if (!gathers) {
      ASTER_TRY(load_lanes(a, from, index, mask, d, n, first, made));
    } else {
      Reg those = lanes_mask(mask, n, first, size);
      if (those == x86::kNoReg) {
        those = in_register(of_number(DType::kBool, n, 1));
      } else {
        const Reg own = fresh(RegClass::kMask);
        copy(own, those);
        those = own;
      }
      int32_t steps[16] = {};
      for (int i = 0; i < n; ++i) steps[i] = static_cast<int32_t>(a.step * i);
      Mem place = simple(from);
      const bool far = a.index != kNone && element(index.dtype) == 8;
      place.index = a.index != kNone ? index.reg
                                     : vector_op({0x10}, std::max(16, 4 * n), x86::kNoReg,
                                                 at(pooled(steps, sizeof(steps)), 0));
      place.scale = static_cast<uint8_t>(size);
      copy_value(made, of_number(DType::kFloat32, 16, 0));
      Line line = vector({static_cast<uint8_t>(far ? 0x93 : 0x92), OpcodeMap::k0F38, Prefix::k66,
                          static_cast<uint8_t>(size == 8), x86::kVector | x86::kEvexOnly},
                         bytes, made, x86::kNoReg, at(place, size), 0, those);
      line.changes = line.early = true;
      put(line);
    }
  }
  if (of != DType::kBool) return out_.status();
  const Reg zero = in_register(of_number(DType::kUInt8, n, 0));
  const Reg truth = mask_of_compare(Op::kCmpNe, DType::kUInt8, n, made, at(zero));
  copy(to, truth);
  return out_.status();
}

Status Writer::store(const Access& a, const Value& value, const Mem& to, const Value& index,
                     const Value* mask, int first, bool streams) {
  const int n = value.lanes;
  const bool truth = value.dtype == DType::kBool;
  const DType d = c::stored(value.dtype);
  const int size = element(d), bytes = size * n;
  const bool whole = a.index == kNone && a.step == 1, some = first < n || mask != nullptr;
  if (n == 1) {
    const int64_t behind = out_.label();
    const Reg from = in_register(value);
    if (mask != nullptr) skip_unless(*mask, behind);
    Lanes places(*this, a, to, index, size);
    store_scalar(is_real(value.dtype) ? value.dtype : d, places.at(0), from);
    label(behind);
    return out_.status();
  }
  const Reg from = truth ? as_ones(value, DType::kUInt8, n) : in_register(value);
  if (whole && !some) {
    streams&& bytes == target_.vector_bytes ? store_stream(d, n, to, from)
                                            : store_whole(d, n, to, from);
    return out_.status();
  }
  if (whole && (evex_ || size >= 4)) {
    const Reg those = lanes_mask(mask, n, first, size);
    Line line;
    line.b = from;
    line.mem = to;
    line.bytes = line.size = static_cast<uint8_t>(std::max(16, bytes));
    constexpr uint16_t kStoring = x86::kVector | x86::kStores;
    if (evex_) {
      line.form = size >= 4
                      ? Form{0x11, OpcodeMap::k0F, size == 8 ? Prefix::k66 : Prefix::kNone,
                             static_cast<uint8_t>(size == 8), kStoring}
                      : Form{0x7F, OpcodeMap::k0F, Prefix::kF2, static_cast<uint8_t>(size == 2),
                             static_cast<uint16_t>(kStoring | x86::kEvexOnly)};
      line.mask = those;
    } else {
      line.form = {0x8E, OpcodeMap::k0F38, Prefix::k66, static_cast<uint8_t>(size == 8), kStoring};
      line.a = those;
    }
    put(line);
    return out_.status();
  }
  const Mem room = spill(from, std::max(16, bytes));
  const DType unit = whole_of(size, false);
  const Reg one = fresh(RegClass::kGeneral);
  Lanes places(*this, a, to, index, size);
  for (int i = 0; i < first; ++i) {
    const int64_t behind = out_.label();
    if (mask != nullptr) skip_unless_lane(*mask, i, behind);
    load_scalar(unit, moved_by(room, int64_t{size} * i), one);
    store_scalar(unit, places.at(i), one);
    label(behind);
  }
  return out_.status();
}

Status Writer::atomic(const Step& s, const Access& a, const Value& value, const Mem& to,
                      const Value& index, const Value* mask) {
  const uint8_t opcode = s.in->with == Op::kAdd   ? 0x01
                         : s.in->with == Op::kOr  ? 0x09
                         : s.in->with == Op::kAnd ? 0x21
                         : s.in->with == Op::kXor ? 0x31
                                                  : 0;
  const int n = value.lanes, size = element(value.dtype);
  if (opcode == 0 || size < 4) return cannot(uop::info(s.in->with).name);
  const int first = s.in->lanes == kAnyLanes ? n : static_cast<int>(a.first);
  Mem room;
  if (n > 1) room = spill(in_register(value), std::max(16, n * size));
  Lanes places(*this, a, to, index, size);
  for (int i = 0; i < first; ++i) {
    const int64_t behind = out_.label();
    if (mask != nullptr) skip_unless_lane(*mask, i, behind);
    Line line;
    line.form = {opcode, OpcodeMap::kOne, Prefix::kNone, 0, x86::kStores | x86::kLocked};
    line.bytes = static_cast<uint8_t>(size);
    line.b = n == 1 ? in_register(value) : fresh(RegClass::kGeneral);
    if (n > 1) general_line(kMov, size, line.b, at(moved_by(room, int64_t{size} * i), size), false);
    line.mem = places.at(i);
    put(line);
    label(behind);
  }
  return out_.status();
}

Status Writer::access(const Step& s) {
  const Access a = body_->program.access(*s.in);
  const Mem from = address(s, a);
  if (s.op == Op::kPrefetch) {
    Line line;
    const bool writes = s.in->is(kWrite);
    line.form = {static_cast<uint8_t>(writes ? 0x0D : 0x18),
                 OpcodeMap::k0F,
                 Prefix::kNone,
                 0,
                 x86::kFixedSize,
                 1};
    line.bytes = 4;
    line.mem = from;
    put(line);
    return out_.status();
  }
  size_t next = s.op == Op::kLoad ? 1 : 2;
  const auto take = [&](Id id) { return id == kNone ? Value() : find(s.operands[next++]); };
  const Value index = take(a.index), gate = take(a.gate), mask = take(a.mask);
  const Value* const given = a.mask != kNone ? &mask : nullptr;
  // What is known later is computed ahead of what may be left out.
  if (a.index != kNone && index.lanes == 1) (void)wide(index);
  const int64_t behind = out_.label();
  const int n = lanes(*s.in);
  Value out = in_new(s.in->dtype, n, x86::kNoReg);
  out.mask = 1;
  if (s.op == Op::kLoad) {
    out = new_register(s.in->dtype, n);
    out.changes = false;
    out.mask = 1;
    if (a.gate != kNone) set_register(out, of_zero(out));
  }
  if (a.gate != kNone) skip_unless(gate, behind);
  stores_ += s.op == Op::kLoad ? 0 : 1;
  const int first = s.in->lanes == kAnyLanes ? n : static_cast<int>(a.first);
  if (s.op == Op::kLoad) {
    ASTER_TRY(load_halves(a, from, index, given, s.in->dtype, n, first, &out));
  } else if (s.op == Op::kStore) {
    ASTER_TRY(store_halves(a, find(s.operands[1]), from, index, given, first, s.in->is(kStream)));
  } else {
    ASTER_TRY(atomic(s, a, find(s.operands[1]), from, index, given));
  }
  label(behind);
  return s.op == Op::kLoad ? define(s, out) : out_.status();
}

}  // namespace aster::codegen::program::native
