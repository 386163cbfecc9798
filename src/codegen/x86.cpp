// Registers without end to those that there are, by intervals in the order of the lines; and bytes.
#include "codegen/x86.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace aster::codegen::x86 {

Reg Assembly::fresh(RegClass of) {
  fail(classes_.push(static_cast<uint8_t>(of)));
  return static_cast<Reg>(classes_.size() - 1);
}

int32_t Assembly::reserve(size_t bytes, int32_t unit) {
  const int32_t at = (frame_ + unit - 1) / unit * unit;
  frame_ = at + static_cast<int32_t>(bytes);
  return at;
}

int32_t Assembly::constant(const void* bytes, size_t size) {
  for (size_t at = 0; at + size <= constants_.size(); at += size) {
    if (std::memcmp(constants_.data() + at, bytes, size) == 0) return static_cast<int32_t>(at);
  }
  fail(constants_.resize((constants_.size() + size - 1) / size * size, 0));
  const size_t at = constants_.size();
  fail(constants_.append(static_cast<const uint8_t*>(bytes), size));
  return static_cast<int32_t>(at);
}

// ---- Registers ----

namespace {

constexpr uint8_t kNowhere = 0xFF;
constexpr size_t kClasses = 3;
constexpr uint8_t kStackPointer = 4;
// Those that calls keep come last.
constexpr uint8_t kGenerals[] = {0, 1, 2, 6, 7, 8, 9, 10, 11, 3, 12, 13, 14, 15};
constexpr uint8_t kKept[] = {3, 12, 13, 14, 15};
constexpr uint8_t kMasks[] = {1, 2, 3, 4, 5, 6, 7};
constexpr uint8_t kVectors[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
// Registers that reloads go through, in functions where some values are in memory.
constexpr size_t kScratches[kClasses] = {3, 3, 2};

struct Interval {
  uint32_t first = UINT32_MAX, last = 0;
  float weight = 0;
  Reg hint = kNoReg;
};

}  // namespace

class Allocator {
 public:
  explicit Allocator(Assembly& assembly)
      : all_(assembly),
        intervals_(assembly.lines.memory()),
        order_(assembly.lines.memory()),
        place(assembly.lines.memory()),
        slot(assembly.lines.memory()) {}

  Status run() {
    ASTER_TRY(find_intervals());
    ASTER_TRY(place.resize(intervals_.size(), kNowhere));
    ASTER_TRY(slot.resize(intervals_.size(), 0));
    for (Reg r = 0; r < intervals_.size(); ++r) {
      if (intervals_[r].first != UINT32_MAX) ASTER_TRY(order_.push(r));
    }
    std::sort(order_.begin(), order_.end(), [this](Reg a, Reg b) {
      const uint32_t x = intervals_[a].first, y = intervals_[b].first;
      return x != y ? x < y : a < b;
    });
    for (size_t c = 0; c < kClasses; ++c) {
      if (!assign(static_cast<RegClass>(c), 0)) {
        spills[c] = true;
        (void)assign(static_cast<RegClass>(c), kScratches[c]);
      }
    }
    return kOk;
  }

  std::span<const uint8_t> registers(RegClass of) const {
    if (of == RegClass::kGeneral) return kGenerals;
    if (of == RegClass::kMask) return kMasks;
    return std::span<const uint8_t>(kVectors).first(all_.avx512_ ? 32 : 16);
  }
  uint8_t scratch(RegClass of, size_t number) const {
    const auto those = registers(of);
    return those[those.size() - 1 - number];
  }

 private:
  // Of lines 2i is where they read, 2i + 1 where they write.
  Status find_intervals() {
    ASTER_TRY(intervals_.resize(all_.classes_.size(), Interval()));
    Vec<uint32_t> ends(all_.lines.memory()), open(all_.lines.memory());
    ASTER_TRY(ends.resize(all_.lines.size(), 0));
    for (uint32_t i = 0; i < all_.lines.size(); ++i) {
      if (all_.lines[i].kind == Kind::kLoopBegin) ASTER_TRY(open.push(i));
      if (all_.lines[i].kind != Kind::kLoopEnd) continue;
      ends[open.back()] = i;
      open.pop();
    }
    for (uint32_t i = 0; i < all_.lines.size(); ++i) {
      const Line& line = all_.lines[i];
      if (line.kind == Kind::kLoopBegin) ASTER_TRY(open.push(i));
      if (line.kind == Kind::kLoopEnd) open.pop();
      const float weight = weights_[std::min<size_t>(open.size(), std::size(weights_) - 1)];
      const auto met = [&](Reg r, uint32_t at) {
        if (r == kNoReg) return;
        Interval& one = intervals_[r];
        one.weight += weight;
        one.first = std::min(one.first, at);
        one.last = std::max(one.last, at);
        for (const uint32_t begin : open) {
          if (2 * begin <= one.first) continue;
          one.last = std::max(one.last, 2 * ends[begin] + 1);
          break;
        }
      };
      if (!line.zeroing) {
        for (const Reg r : {line.a, line.b, line.mask, line.mem.base, line.mem.index})
          met(r, 2 * i);
      }
      if (line.changes) met(line.d, 2 * i);
      met(line.d, line.early ? 2 * i : 2 * i + 1);
      if (line.kind == Kind::kDivide) met(line.d, 2 * i);
      // What is copied would best stay where it is.
      const bool copies = line.kind == Kind::kInstruction && line.a == kNoReg && !line.changes &&
                          line.b != kNoReg && line.d != kNoReg && line.mem.place == Place::kNone;
      if (!copies || all_.class_of(line.b) != all_.class_of(line.d)) continue;
      if (intervals_[line.d].hint == kNoReg) intervals_[line.d].hint = line.b;
      if (intervals_[line.b].hint == kNoReg) intervals_[line.b].hint = line.d;
    }
    return kOk;
  }

  // False where there are too few.
  bool assign(RegClass of, size_t kept_back) {
    const auto those = registers(of).first(registers(of).size() - kept_back);
    Reg holds[32];
    for (Reg& r : holds) r = kNoReg;
    bool all = true;
    for (const Reg r : order_) {
      if (all_.class_of(r) != of) continue;
      Interval& now = intervals_[r];
      place[r] = kNowhere;
      for (const uint8_t one : those) {
        if (holds[one] != kNoReg && intervals_[holds[one]].last < now.first) holds[one] = kNoReg;
      }
      uint8_t best = kNowhere;
      const Reg hint = now.hint;
      if (hint != kNoReg && place[hint] != kNowhere && intervals_[hint].first <= now.first &&
          holds[place[hint]] == kNoReg)
        best = place[hint];
      for (size_t i = 0; i < those.size() && best == kNowhere; ++i) {
        if (holds[those[i]] == kNoReg) best = those[i];
      }
      if (best == kNowhere) {
        all = false;
        if (kept_back == 0) return false;
        for (const uint8_t one : those) {
          if (best == kNowhere || worth(holds[one]) < worth(holds[best])) best = one;
        }
        if (worth(holds[best]) >= worth(r)) continue;
        place[holds[best]] = kNowhere;
      }
      holds[best] = r;
      place[r] = best;
    }
    for (const Reg r : order_) {
      if (all_.class_of(r) == of && place[r] == kNowhere)
        slot[r] =
            of == RegClass::kVector ? all_.reserve(all_.avx512_ ? 64 : 32, 32) : all_.reserve(8, 8);
    }
    return all;
  }
  float worth(Reg r) const {
    const Interval& one = intervals_[r];
    return one.weight / static_cast<float>(one.last - one.first + 1);
  }

  static constexpr float weights_[] = {1, 10, 100, 1000, 1e4f, 1e5f, 1e6f};
  Assembly& all_;
  Vec<Interval> intervals_;
  Vec<Reg> order_;

 public:
  Vec<uint8_t> place;
  Vec<int32_t> slot;
  bool spills[kClasses] = {};
};

// ---- Bytes ----

class Encoder {
 public:
  Encoder(Assembly& assembly, const Allocator& allocator)
      : all_(assembly),
        at_(allocator),
        fixes_(assembly.lines.memory()),
        labels_(assembly.lines.memory()) {}

  Status run() {
    ASTER_TRY(labels_.resize(static_cast<size_t>(all_.labels_), 0));
    all_.frame_ = (all_.frame_ + 63) / 64 * 64;
    open();
    for (const Line& line : all_.lines) write(line);
    close();
    for (size_t left = (64 - all_.code_.size() % 64) % 64; left > 0; --left) byte(0xCC);
    const size_t constants = all_.code_.size();
    all_.fail(all_.code_.append(all_.constants_.data(), all_.constants_.size()));
    ASTER_TRY(all_.status());
    for (const Fix& fix : fixes_) {
      const size_t target = fix.constant ? constants + static_cast<size_t>(fix.to)
                                         : labels_[static_cast<size_t>(fix.to)];
      const auto away = static_cast<int32_t>(static_cast<int64_t>(target) -
                                             static_cast<int64_t>(fix.at + 4 + fix.behind));
      std::memcpy(all_.code_.data() + fix.at, &away, sizeof(away));
    }
    return all_.status();
  }

 private:
  // Registers by number; 255: none.
  struct Operands {
    uint8_t d = kNowhere, a = kNowhere, b = kNowhere, mask = kNowhere;
    Place place = Place::kNone;
    uint8_t base = kNowhere, index = kNowhere, scale = 1;
    bool vector_index = false;
    int32_t offset = 0;
  };
  struct Fix {
    size_t at;
    int64_t to;
    uint8_t behind;
    bool constant;
  };

  void byte(uint32_t value) {
    if (all_.status_.ok()) all_.fail(all_.code_.push(static_cast<uint8_t>(value)));
  }
  void word(int64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) byte(static_cast<uint32_t>(value >> (8 * i)) & 0xFF);
  }
  static bool is_byte(int64_t value) { return value >= -128 && value < 128; }

  void open() {
    byte(0x55);         // push rbp
    word(0xE58948, 3);  // mov rbp, rsp
    for (const uint8_t one : kKept) {
      if (!uses(one)) continue;
      if (one >= 8) byte(0x41);
      byte(0x50u + (one & 7u));
      ++kept_;
    }
    word(0xC0E48348, 4);  // and rsp, -64
    word(0xEC8148, 3);    // sub rsp, frame
    word(all_.frame_, 4);
    constexpr uint8_t kArguments[] = {7, 6, 2, 1, 8};
    for (int32_t i = 0; i < 5; ++i) move_to_frame(kArguments[i], 8 * i);
  }
  void close() {
    word(0x77F8C5, 3);  // vzeroupper
    word(0x658D48, 3);  // lea rsp, [rbp - kept]
    byte(static_cast<uint32_t>(-8 * kept_) & 0xFF);
    for (size_t i = std::size(kKept); i-- > 0;) {
      if (!uses(kKept[i])) continue;
      if (kKept[i] >= 8) byte(0x41);
      byte(0x58u + (kKept[i] & 7u));
    }
    byte(0x5D);
    byte(0xC3);
  }
  bool uses(uint8_t general) const {
    if (at_.spills[0]) {
      for (size_t i = 0; i < kScratches[0]; ++i) {
        if (at_.scratch(RegClass::kGeneral, i) == general) return true;
      }
    }
    for (Reg r = 0; r < at_.place.size(); ++r) {
      if (all_.class_of(r) == RegClass::kGeneral && at_.place[r] == general) return true;
    }
    return false;
  }

  // ---- Moves between registers and the frame ----
  void move_general(uint8_t general, int32_t offset, bool loads) {
    byte(general >= 8 ? 0x4C : 0x48);
    byte(loads ? 0x8B : 0x89);
    byte(0x84u | (general & 7u) << 3);
    byte(0x24);
    word(offset, 4);
  }
  void move_to_frame(uint8_t general, int32_t offset) { move_general(general, offset, false); }
  void move(RegClass of, uint8_t number, int32_t offset, bool loads) {
    if (of == RegClass::kGeneral) return move_general(number, offset, loads);
    Operands x;
    x.place = Place::kStack;
    x.offset = offset;
    Line line;
    (loads ? x.d : x.b) = number;
    const auto flags = static_cast<uint16_t>(kVector | (loads ? 0 : kStores));
    if (of == RegClass::kMask) {
      line.form = {static_cast<uint8_t>(loads ? 0x90 : 0x91), OpcodeMap::k0F, Prefix::kNone, 1,
                   flags};
      line.bytes = 16;
    } else {
      line.form = {static_cast<uint8_t>(loads ? 0x10 : 0x11), OpcodeMap::k0F, Prefix::kNone, 0,
                   flags};
      line.bytes = all_.avx512_ ? 64 : 32;
    }
    line.size = line.bytes;
    vector(line, x);
  }

  // ---- Lines ----
  void write(const Line& line) {
    switch (line.kind) {
      case Kind::kLoopBegin:
      case Kind::kLoopEnd:
        return;
      case Kind::kLabel:
        labels_[static_cast<size_t>(line.imm)] = all_.code_.size();
        return;
      case Kind::kJump:
        return jump(line);
      case Kind::kDivide:
        return divide(line);
      default:
        break;
    }
    Operands x;
    next_[0] = next_[1] = next_[2] = 0;
    if (changes_memory(line) || copies_to_memory(line)) return;
    const bool stores_memory = line.mem.place != Place::kNone && line.d == kNoReg;
    x.place = line.mem.place;
    x.offset = line.mem.offset;
    x.scale = line.mem.scale;
    x.base = read(line.mem.base);
    x.vector_index = line.mem.index != kNoReg && all_.class_of(line.mem.index) == RegClass::kVector;
    x.index = read(line.mem.index);
    x.a = read(line.a);
    const bool folds = line.b != kNoReg && at_.place[line.b] == kNowhere && !stores_memory &&
                       line.mem.place == Place::kNone && line.kind == Kind::kInstruction &&
                       (line.form.flags & (kStores | kRegister)) == 0 && line.form.digit < 0 &&
                       all_.class_of(line.b) != RegClass::kMask;
    if (folds) {
      x.place = Place::kStack;
      x.offset = at_.slot[line.b];
    } else {
      x.b = read(line.b);
    }
    x.mask = read(line.mask);
    const bool lies = line.d != kNoReg && at_.place[line.d] == kNowhere;
    if (lies) {
      const RegClass of = all_.class_of(line.d);
      // What is only written may take the place of what was read.
      if (!line.changes && !line.early) next_[static_cast<size_t>(of)] = 0;
      x.d = take(of);
      if (line.changes) move(of, x.d, at_.slot[line.d], true);
    } else if (line.d != kNoReg) {
      x.d = at_.place[line.d];
    }
    if (line.kind == Kind::kNumber) {
      number(x.d, line.imm);
    } else if ((line.form.flags & kVector) != 0) {
      if (!is_idle(line, x)) vector(line, x);
    } else if (!is_idle(line, x)) {
      old(line, x);
    }
    if (lies) move(all_.class_of(line.d), x.d, at_.slot[line.d], false);
  }
  bool lies(Reg r) const { return r != kNoReg && at_.place[r] == kNowhere; }
  // Instructions on one operand and a number do what they do in memory as well.
  bool changes_memory(const Line& line) {
    const Reg only = line.d != kNoReg ? line.d : line.a;
    if (line.kind != Kind::kInstruction || (line.form.flags & kVector) != 0 ||
        line.form.digit < 0 || line.mem.place != Place::kNone || !lies(only))
      return false;
    Operands x;
    x.place = Place::kStack;
    x.offset = at_.slot[only];
    old(line, x);
    return true;
  }
  // A copy to memory needs no register between.
  bool copies_to_memory(const Line& line) {
    const bool copy = line.kind == Kind::kInstruction && line.mem.place == Place::kNone &&
                      line.a == kNoReg && line.mask == kNoReg && lies(line.d) && line.b != kNoReg &&
                      !lies(line.b) && is_copy(line);
    if (copy) move(all_.class_of(line.d), at_.place[line.b], at_.slot[line.d], false);
    return copy;
  }
  static bool is_copy(const Line& line) {
    return (line.form.flags & kVector) != 0
               ? (line.form.opcode == 0x10 || line.form.opcode == 0x90) &&
                     line.form.map == OpcodeMap::k0F && line.form.prefix == Prefix::kNone
               : line.form.opcode == 0x8B && line.form.map == OpcodeMap::kOne && line.bytes == 8;
  }
  // A copy of a register to itself.
  static bool is_idle(const Line& line, const Operands& x) {
    return is_copy(line) && line.mask == kNoReg && line.a == kNoReg && x.place == Place::kNone &&
           x.d == x.b;
  }
  uint8_t take(RegClass of) {
    uint8_t& number = next_[static_cast<size_t>(of)];
    if (number == kScratches[static_cast<size_t>(of)]) {
      all_.fail(ASTER_FAIL(kUNSUPPORTED, "an instruction on too many values in memory"));
      return 0;
    }
    return at_.scratch(of, number++);
  }
  uint8_t read(Reg r) {
    if (r == kNoReg) return kNowhere;
    if (at_.place[r] != kNowhere) return at_.place[r];
    const RegClass of = all_.class_of(r);
    const uint8_t number = take(of);
    move(of, number, at_.slot[r], true);
    return number;
  }

  void number(uint8_t d, int64_t value) {
    const bool high = d >= 8;
    if (value >= 0 && value <= UINT32_MAX) {
      if (high) byte(0x41);
      byte(0xB8u + (d & 7u));
      word(value, 4);
    } else if (value >= INT32_MIN && value < 0) {
      byte(high ? 0x49 : 0x48);
      byte(0xC7);
      byte(0xC0u | (d & 7u));
      word(value, 4);
    } else {
      byte(high ? 0x49 : 0x48);
      byte(0xB8u + (d & 7u));
      word(value, 8);
    }
  }
  void fix(int64_t to, uint8_t behind, bool constant) {
    all_.fail(fixes_.push(Fix{all_.code_.size(), to, behind, constant}));
    word(0, 4);
  }
  void jump(const Line& line) {
    if (line.form.opcode == kAlways) {
      byte(0xE9);
    } else {
      byte(0x0F);
      byte(0x80u | line.form.opcode);
    }
    fix(line.imm, 0, false);
  }

  // By way of rax and rdx, which others keep in the frame.
  void divide(const Line& line) {
    constexpr uint8_t kRax = 0, kRdx = 2;
    constexpr int32_t kOfRax = 40, kOfRdx = 48, kOther = 56;
    const auto copy = [&](Reg from, int32_t to) {  // to the frame, or, to < 0, to rax
      const uint8_t number = at_.place[from];
      if (number != kNowhere && to >= 0) return move_general(number, to, false);
      if (number == kNowhere) {
        move_general(kRax, at_.slot[from], true);
      } else if (number != kRax) {
        word(number >= 8 ? 0x4C : 0x48, 1);
        byte(0x89);
        byte(0xC0u | (number & 7u) << 3);
      }
      if (to >= 0) move_general(kRax, to, false);
    };
    const bool is_signed = (line.imm & 1) != 0, rest = (line.imm & 2) != 0;
    move_general(kRax, kOfRax, false);
    move_general(kRdx, kOfRdx, false);
    copy(line.b, kOther);
    if (at_.place[line.b] == kNowhere) move_general(kRax, kOfRax, true);
    copy(line.a, -1);
    const bool wide = line.bytes == 8;
    if (is_signed) {
      if (wide) byte(0x48);
      byte(0x99);  // cdq, cqo
    } else {
      word(0xD231, 2);  // xor edx, edx
    }
    if (wide) byte(0x48);
    byte(0xF7);
    byte(is_signed ? 0xBC : 0xB4);
    byte(0x24);
    word(kOther, 4);
    move_general(rest ? kRdx : kRax, kOther, false);
    move_general(kRax, kOfRax, true);
    move_general(kRdx, kOfRdx, true);
    if (at_.place[line.d] != kNowhere) return move_general(at_.place[line.d], kOther, true);
    // rax once more on the way to memory.
    move_general(kRax, kOther, true);
    move_general(kRax, at_.slot[line.d], false);
    move_general(kRax, kOfRax, true);
  }

  // ---- Operands ----
  // The byte behind the opcode, and what follows it; of EVEX short offsets count in `unit`, which
  // is what the instruction reads: 0 where that is not known.
  void operand(uint8_t reg, const Operands& x, uint8_t rm, int unit, uint8_t behind) {
    const uint32_t middle = (reg & 7u) << 3;
    if (x.place == Place::kNone) return byte(0xC0u | middle | (rm & 7u));
    if (x.place == Place::kConstants) {
      byte(middle | 5);
      return fix(x.offset, behind, true);
    }
    const bool framed = x.place != Place::kPointer;
    const uint8_t base = framed ? kStackPointer : x.base;
    const bool is_short = unit != 0 && x.offset % unit == 0 && is_byte(x.offset / unit);
    const uint32_t mod = x.offset == 0 && (base & 7) != 5 ? 0 : is_short ? 0x40 : 0x80;
    const bool indexed = !framed && x.index != kNowhere;
    if (indexed || (base & 7) == 4) {
      byte(mod | middle | 4);
      const uint32_t scale = static_cast<uint32_t>(std::countr_zero(x.scale)) << 6;
      byte(indexed ? scale | (x.index & 7u) << 3 | (base & 7u) : 0x20u | (base & 7u));
    } else {
      byte(mod | middle | (base & 7u));
    }
    if (mod == 0x40) byte(static_cast<uint32_t>(x.offset / unit) & 0xFF);
    if (mod == 0x80) word(x.offset, 4);
  }
  static bool high(uint8_t number) { return number != kNowhere && (number & 8) != 0; }

  void old(const Line& line, const Operands& x) {
    const Form& form = line.form;
    const bool stores = (form.flags & kStores) != 0;
    const uint8_t first = x.d != kNowhere ? x.d : x.a;
    const uint8_t reg = form.digit >= 0 ? static_cast<uint8_t>(form.digit) : stores ? x.b : first;
    const uint8_t rm = form.digit >= 0 || stores ? first : x.b;
    if (form.prefix == Prefix::k66 || (line.bytes == 2 && (form.flags & kFixedSize) == 0))
      byte(0x66);
    if (form.prefix == Prefix::kF3) byte(0xF3);
    if (form.prefix == Prefix::kF2) byte(0xF2);
    if ((form.flags & kLocked) != 0) byte(0xF0);
    const bool memory = x.place == Place::kPointer;
    uint32_t rex = 0;
    if (line.bytes == 8 && (form.flags & kFixedSize) == 0) rex |= 8;
    if (form.digit < 0 && high(reg)) rex |= 4;
    if (memory && high(x.index)) rex |= 2;
    if (memory ? high(x.base) : x.place == Place::kNone && high(rm)) rex |= 1;
    if (rex != 0 || (form.flags & kByteRegister) != 0) byte(0x40 | rex);
    if (form.map != OpcodeMap::kOne) byte(0x0F);
    if (form.map == OpcodeMap::k0F38) byte(0x38);
    if (form.map == OpcodeMap::k0F3A) byte(0x3A);
    byte(form.opcode);
    const uint8_t behind = (form.flags & kHasImm) != 0 ? 1 : (form.flags & kHasImm32) != 0 ? 4 : 0;
    operand(reg, x, rm, 1, behind);
    if (behind != 0) word(line.imm, behind);
  }

  void vector(const Line& line, const Operands& x) {
    const Form& form = line.form;
    const bool stores = (form.flags & kStores) != 0, by_digit = form.digit >= 0;
    const bool tests = x.d == kNowhere && !stores && !by_digit;  // writes nothing
    const uint8_t reg = by_digit ? static_cast<uint8_t>(form.digit)
                        : stores ? x.b
                        : tests  ? x.a
                                 : x.d;
    const uint8_t rm = stores ? x.d : x.b;
    const uint8_t other = by_digit ? x.d : tests ? kNowhere : x.a;
    const bool fourth = (form.flags & kFourth) != 0;
    const bool memory = x.place == Place::kPointer;
    const auto far = [](uint8_t number) { return number != kNowhere && number >= 16; };
    const bool evex = (form.flags & kEvexOnly) != 0 || line.bytes == 64 || far(reg) ||
                      (x.place == Place::kNone && far(rm)) || far(other) ||
                      (x.vector_index && far(x.index)) || (x.mask != kNowhere && !fourth);
    if (evex && !all_.avx512_) all_.fail(ASTER_FAIL(kINTERNAL, "an instruction of AVX-512"));
    const uint32_t map = static_cast<uint32_t>(form.map),
                   prefix = static_cast<uint32_t>(form.prefix);
    const uint32_t v = other == kNowhere ? 0 : other;
    const bool r = !by_digit && high(reg), b = memory ? high(x.base) : high(rm);
    const bool i = memory ? high(x.index) : false;
    const uint8_t behind = (form.flags & kHasImm) != 0 || fourth ? 1 : 0;
    const uint32_t length = (form.flags & kNoLength) != 0 ? 0
                            : line.bytes == 64            ? 2
                                                          : line.bytes == 32;
    if (evex) {
      const bool r2 = !by_digit && far(reg);
      const bool x2 = memory ? i : x.place == Place::kNone && far(rm);
      const uint32_t v2 = x.vector_index ? far(x.index) : (v & 16) != 0;
      byte(0x62);
      byte((r ? 0 : 0x80) | (x2 ? 0 : 0x40) | (b ? 0 : 0x20) | (r2 ? 0 : 0x10) | map);
      byte(uint32_t{form.w} << 7 | (~v & 15) << 3 | 4 | prefix);
      byte((line.zeroes ? 0x80u : 0) | length << 5 | (v2 != 0 ? 0 : 8) |
           (x.mask == kNowhere ? 0u : x.mask));
    } else {
      const uint32_t w = (form.flags & kVexW0) != 0 ? 0 : form.w;
      if (w == 0 && !b && !i && map == 1) {
        byte(0xC5);
        byte((r ? 0 : 0x80) | (~v & 15) << 3 | length << 2 | prefix);
      } else {
        byte(0xC4);
        byte((r ? 0 : 0x80) | (i ? 0 : 0x40) | (b ? 0 : 0x20) | map);
        byte(w << 7 | (~v & 15) << 3 | length << 2 | prefix);
      }
    }
    byte(form.opcode);
    // A value that lies in memory for want of registers is read in parts by some.
    const int unit = !evex ? 1 : x.place == Place::kStack ? 0 : std::max<int>(line.size, 1);
    operand(reg, x, rm, unit, behind);
    if (behind != 0) byte(fourth ? uint32_t{x.mask} << 4 : static_cast<uint32_t>(line.imm) & 0xFF);
  }

  Assembly& all_;
  const Allocator& at_;
  Vec<Fix> fixes_;
  Vec<size_t> labels_;
  uint8_t next_[kClasses] = {};
  int kept_ = 0;
};

Status Assembly::finish() {
  ASTER_TRY(status_);
  Allocator allocator(*this);
  ASTER_TRY(allocator.run());
  return Encoder(*this, allocator).run();
}

}  // namespace aster::codegen::x86
