// From steps to lines of machine code: values, blocks, launches.
#include "codegen/render_x86.h"

#include <algorithm>
#include <cstring>

#include "codegen/render_x86_writer.h"
#include "dtype/convert.h"

namespace aster::codegen::program {
namespace native {
namespace {

// More than that is not worth having at once.
constexpr size_t kMostLines = 40000;
constexpr int32_t kParams = 0, kSizes = 8, kScratch = 16, kBegin = 24, kEnd = 32;

Mem frame(int32_t offset) {
  Mem mem;
  mem.place = Place::kFrame;
  mem.offset = offset;
  return mem;
}

constexpr Form kMov = {0x8B, OpcodeMap::kOne, Prefix::kNone, 0, 0};
constexpr Form kMovToMemory = {0x89, OpcodeMap::kOne, Prefix::kNone, 0, x86::kStores};
constexpr Form kLea = {0x8D, OpcodeMap::kOne, Prefix::kNone, 0, 0};

}  // namespace

Status Writer::cannot(const char* what) const {
  return ASTER_FAIL(kUNSUPPORTED, "no machine code for %s on this target", what);
}

// ---- Lines ----

void Writer::put_at(uint16_t depth, const Line& line) {
  if (depth == this->depth()) return put(line);
  out_.fail(blocks_[depth + 1u].before.push(line));
}

Line Writer::vector(const Form& form, int bytes, Reg d, Reg a, const Source& b, int64_t imm,
                    Reg mask) {
  Line line;
  line.form = form;
  line.bytes = static_cast<uint8_t>(bytes);
  line.size = b.size != 0 ? b.size : static_cast<uint8_t>(bytes);
  line.d = d;
  line.a = a;
  line.b = b.reg;
  line.mem = b.mem;
  line.imm = imm;
  line.mask = mask;
  return line;
}

void Writer::vector_line(const Form& form, int bytes, Reg d, Reg a, const Source& b, int64_t imm,
                         Reg mask, bool zeroes, bool changes) {
  Line line = vector(form, bytes, d, a, b, imm, mask);
  line.zeroes = zeroes;
  line.changes = changes;
  put(line);
}

Reg Writer::vector_op(const Form& form, int bytes, Reg a, const Source& b, int64_t imm) {
  const Reg d = fresh(RegClass::kVector);
  vector_line(form, bytes, d, a, b, imm);
  return d;
}

void Writer::general_line(const Form& form, int bytes, Reg d, const Source& b, bool changes,
                          int64_t imm) {
  Line line;
  line.form = form;
  line.bytes = static_cast<uint8_t>(bytes);
  line.d = d;
  line.b = b.reg;
  line.mem = b.mem;
  line.imm = imm;
  line.changes = changes;
  put(line);
}

Reg Writer::general_op(uint8_t opcode, int bytes, Reg a, const Source& b) {
  const Reg d = fresh(RegClass::kGeneral);
  copy(d, a);
  general_line({opcode, OpcodeMap::kOne, Prefix::kNone, 0, 0}, bytes, d, b, true);
  return d;
}

Reg Writer::number(int64_t value) {
  Line line;
  line.kind = Kind::kNumber;
  line.d = fresh(RegClass::kGeneral);
  line.imm = value;
  put(line);
  return line.d;
}

void Writer::copy(Reg to, Reg from) {
  if (to == from) return;
  switch (out_.class_of(to)) {
    case RegClass::kGeneral:
      return general_line(kMov, 8, to, at(from), false);
    case RegClass::kMask:
      return vector_line({0x90, OpcodeMap::k0F, Prefix::kNone, 1, x86::kVector | x86::kNoLength},
                         16, to, x86::kNoReg, at(from));
    default:
      return vector_line({0x10}, evex_ ? 64 : 32, to, x86::kNoReg, at(from));
  }
}

void Writer::jump(uint8_t condition, int64_t label) {
  Line line;
  line.kind = Kind::kJump;
  line.form.opcode = condition;
  line.imm = label;
  put(line);
}

void Writer::label(int64_t label) {
  Line line;
  line.kind = Kind::kLabel;
  line.imm = label;
  put(line);
}

void Writer::compare(int bytes, Reg a, const Source& b) {
  Line line;
  line.form = {0x3B, OpcodeMap::kOne, Prefix::kNone, 0, 0};
  line.bytes = static_cast<uint8_t>(bytes);
  line.a = a;
  line.b = b.reg;
  line.mem = b.mem;
  put(line);
}

void Writer::compare_number(int bytes, Reg a, int64_t number) {
  if (number != static_cast<int32_t>(number)) return compare(bytes, a, at(this->number(number)));
  Line line;
  line.form = {0x81, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 7};
  line.bytes = static_cast<uint8_t>(bytes);
  line.a = a;
  line.imm = number;
  put(line);
}

Reg Writer::set_if(uint8_t condition) {
  const Reg d = number(0);
  Line line;
  line.form = {static_cast<uint8_t>(0x90 | condition),
               OpcodeMap::k0F,
               Prefix::kNone,
               0,
               x86::kByteRegister | x86::kFixedSize,
               0};
  line.bytes = 4;
  line.d = d;
  line.changes = true;
  put(line);
  return d;
}

void Writer::move_if(uint8_t condition, int bytes, Reg to, Reg from) {
  general_line({static_cast<uint8_t>(0x40 | condition), OpcodeMap::k0F, Prefix::kNone, 0, 0}, bytes,
               to, at(from), true);
}

Mem Writer::pooled(const void* bytes, size_t size) {
  Mem mem;
  mem.place = Place::kConstants;
  mem.offset = out_.constant(bytes, size);
  return mem;
}

// What a canonical word is in memory.
uint64_t Writer::bits_of(DType d, Word word) {
  uint64_t bits = 0;
  if (dtype::is_float(d)) {
    dtype::store_double(d, &bits, std::bit_cast<double>(word));
  } else {
    bits = static_cast<uint64_t>(word);
  }
  const size_t size = dtype::size(c::stored(d));
  return size == 8 ? bits : bits & ((uint64_t{1} << (8 * size)) - 1);
}

Mem Writer::pooled_word(DType d, Word word) {
  uint8_t bytes[64];
  const uint64_t bits = bits_of(d, word);
  const size_t size = dtype::size(c::stored(d));
  for (size_t i = 0; i < sizeof(bytes); i += size) std::memcpy(bytes + i, &bits, size);
  return pooled(bytes, evex_ ? 64 : 32);
}

// ---- Values ----

Value Writer::in_new(DType d, int n, Reg reg) const {
  Value out;
  out.held = Held::kRegister;
  out.dtype = d;
  out.lanes = static_cast<uint8_t>(n);
  out.reg = reg;
  out.depth = depth();
  return out;
}

Value Writer::of_number(DType d, int n, Word word) const {
  Value out = in_new(d, n, x86::kNoReg);
  out.held = Held::kNumber;
  out.word = word;
  out.mask = mask_bytes(n);
  out.depth = 0;
  return out;
}

Value Writer::find(Register r) const {
  const Value* const found = body_->values.find(key(r));
  return found != nullptr ? *found : Value();
}

Status Writer::define(const Step& s, Value value) {
  value.depth = depth();
  const Id acc = s.op == s.in->op ? body_->sets[s.id] : kNone;
  if (acc != kNone) {
    const Value to = register_of(acc, s);
    Line* const last = blocks_.back().lines.empty() ? nullptr : &blocks_.back().lines.back();
    if (value.held == Held::kRegister && value.reg != to.reg && last != nullptr && !value.changes &&
        last->kind == Kind::kInstruction && last->d == value.reg && !last->changes) {
      last->d = to.reg;
    } else {
      copy_value(to.reg, value);
    }
    value.reg = to.reg;
    value.held = Held::kRegister;
    value.changes = true;
  }
  ASTER_TRY(body_->values.set(key(s.result), value));
  return out_.status();
}

// The instance of a register that a step's value belongs to.
Value Writer::register_of(Id acc, const Step& s) const {
  const Program& p = body_->program;
  uint32_t instance = 0;
  for (size_t i = 0; i < p.axes().size(); ++i) {
    if (has(p.at(acc).axes, i)) instance = instance * p.axes()[i].size + s.values[i];
  }
  return find({acc, instance});
}

Reg Writer::in_register(const Value& v) {
  if (v.held == Held::kRegister) return v.reg;
  if (v.held == Held::kHalves || v.held == Held::kNothing) {
    out_.fail(cannot("vectors of more than a register"));
    return fresh(class_of(v.dtype, v.lanes));
  }
  if (v.lanes == 1 && !is_real(v.dtype)) {
    const auto bits = static_cast<int64_t>(bits_of(v.dtype, v.word));
    const bool narrow_signed = dtype::is_signed(v.dtype) && element(v.dtype) <= 4;
    return number(narrow_signed ? static_cast<int64_t>(static_cast<uint32_t>(v.word)) : bits);
  }
  if (v.dtype == DType::kBool && evex_) return mask_of_bits(number(v.word != 0 ? -1 : 0));
  const Reg out = fresh(RegClass::kVector);
  load_number(out, v.lanes == 1 ? 16 : bytes_of(v), v);
  return out;
}

// A constant of a whole register: in one while an innermost loop goes on, if there are not many.
Source Writer::hoisted(const Mem& constant) {
  Block& block = blocks_.back();
  if (!block.innermost) return at(constant, 0);
  for (int i = 0; i < block.constant_count; ++i) {
    if (block.constants[i].place == constant.offset) return at(block.constants[i].reg);
  }
  if (block.constant_count == (evex_ ? 12 : 4)) return at(constant, 0);
  Line line;
  line.form = {0x10};
  line.bytes = line.size = evex_ ? 64 : 32;
  line.d = fresh(RegClass::kVector);
  line.mem = constant;
  out_.fail(block.before.push(line));
  block.constants[block.constant_count++] = {constant.offset, line.d};
  return at(line.d);
}

// Nothing is read for zeros.
void Writer::load_number(Reg to, int bytes, const Value& v) {
  const bool zero = v.held == Held::kNumber && v.word == 0;
  if (!zero) return vector_line({0x10}, bytes, to, x86::kNoReg, source(v));
  Line line = vector({0x57}, 16, to, to, at(to));
  line.zeroing = true;
  put(line);
}

Source Writer::source(const Value& v) {
  if (v.held == Held::kRegister) return at(v.reg);
  if (v.held == Held::kHalves || v.held == Held::kNothing) return at(in_register(v));
  if (v.held == Held::kLanes) {
    uint8_t bytes[64] = {};
    const auto size = static_cast<size_t>(element(v.dtype));
    for (uint64_t i = 0; i < 64 / size; ++i) {
      const uint64_t number = i + static_cast<uint64_t>(v.word);
      std::memcpy(bytes + i * size, &number, size);
    }
    return at(pooled(bytes, evex_ ? 64 : 32), 0);
  }
  if (v.dtype == DType::kBool) {
    if (v.lanes == 1 || evex_) return at(in_register(v));
    return at(pooled_word(DType::kInt8, v.word != 0 ? -1 : 0), 0);
  }
  if (v.lanes == 1 && !is_real(v.dtype)) return at(in_register(v));
  return hoisted(pooled_word(v.dtype, v.word));
}

void Writer::copy_value(Reg to, const Value& from) {
  if (from.held == Held::kRegister) return copy(to, from.reg);
  const bool loads = out_.class_of(to) == RegClass::kVector;
  if (loads) return load_number(to, evex_ ? 64 : 32, from);
  copy(to, in_register(from));
}

// ---- Programs ----

// Values that only a register of the program takes are computed in its place.
Status Writer::find_sets(Body& body) {
  const Program& p = body.program;
  const auto count = static_cast<Id>(p.code().size());
  Vec<uint32_t>& uses = body.uses;
  ASTER_TRY(uses.resize(count, 0));
  ASTER_TRY(body.sets.resize(count, kNone));
  ASTER_TRY(body.made.resize(count, 0));
  for (const Instruction& in : p.code()) {
    for (const Id operand : p.operands(in)) ++uses[operand];
    for (const Term& term : p.terms(in)) uses[term.at] += term.axis ? 0 : 1;
  }
  Vec<AxisSet> blocks(p.memory());
  AxisSet each = 0;  // axes that the block at hand is repeated for
  for (Id id = 0; id < count; ++id) {
    const Instruction& set = p.at(id);
    if (is_block(set.op)) {
      ASTER_TRY(blocks.push(set.op == Op::kEach ? axis_bit(set.axis) : AxisSet{0}));
      each |= blocks.back();
    } else if (set.op == Op::kEnd && !blocks.empty()) {
      each = static_cast<AxisSet>(each & ~blocks.back());
      blocks.pop();
    }
    if (set.op != Op::kSet) continue;
    const Id acc = p.operands(set)[0], from = p.operands(set)[1];
    const Instruction& in = p.at(from);
    const AxisSet own = p.at(acc).axes;
    const bool each_alone = (in.axes & ~own & ~each) == 0 && (own & ~in.axes) == 0;
    if (!is_arithmetic(in.op) || uses[from] != 1 || !each_alone || from < acc ||
        in.dtype == DType::kBool || is_wide(in.dtype, in.lanes))
      continue;
    bool alone = true;
    for (Id between = from + 1; between < id && alone; ++between) {
      const Instruction& other = p.at(between);
      alone = !is_block(other.op) && other.op != Op::kEnd;
      for (const Id operand : p.operands(other)) alone = alone && operand != acc;
      for (const Term& term : p.terms(other)) alone = alone && (term.axis || term.at != acc);
    }
    if (alone) body.sets[from] = acc;
  }
  return kOk;
}

Status Writer::walk(Body& body) {
  Body* const outer = body_;
  body_ = &body;
  ASTER_TRY(find_sets(body));
  Walker<Writer> walker(body.program, *this);
  const Status status = walker.run();
  body_ = outer;
  return status;
}

Status Writer::run(Vec<uint8_t>* code) {
  const size_t last = module_.programs.size() - 1;
  const Program& program = module_.programs[last];
  for (const Instruction& in : program.code()) {
    task_loops_ += in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask) ? 1 : 0;
    if (in.op == Op::kBarrier || (in.op == Op::kLoop && in.kind > uint8_t{1}))
      return cannot("groups");
  }
  Memory& memory = code->memory();
  ASTER_TRY(open_block());
  if (task_loops_ > 1) {
    done_ = out_.reserve(8);
    Line line;
    line.form = kMovToMemory;
    line.bytes = 8;
    line.b = number(0);
    line.mem = frame(done_);
    put(line);
  }
  Body body(program, 1, memory);
  ASTER_TRY(walk(body));
  if (streams_) {  // sfence
    Line line;
    line.form = {0xAE, OpcodeMap::k0F, Prefix::kNone, 0, x86::kFixedSize, 7};
    line.bytes = 4;
    line.a = number(0);
    put(line);
  }
  ASTER_TRY(out_.status());
  out_.lines = std::move(blocks_[0].lines);
  if (out_.lines.size() > kMostLines) return cannot("so long a program");
  ASTER_TRY(out_.finish());
  return code->append(out_.code().data(), out_.code().size());
}

// All that an instance's value follows from, of what gives the same again; false: nothing does.
bool Writer::digest(Digest* out, const Step& s) const {
  const bool loads = s.op == Op::kLoad;
  if (s.in->axes == 0 || s.op != s.in->op ||
      !(loads || is_arithmetic(s.op) || s.op == Op::kShuffle || s.op == Op::kSpread ||
        s.op == Op::kToInt))
    return false;
  Mixer mix;
  const auto add = [&](Register r) {
    const Value v = find(r);
    mix.word(static_cast<uint64_t>(v.held) << 32 | v.reg);
    mix.word(static_cast<uint64_t>(v.word));
    return !v.changes;
  };
  for (size_t i = loads ? 1 : 0; i < s.operands.size(); ++i) {
    if (!add(s.operands[i])) return false;
  }
  for (const Product& p : s.products) {
    mix.word(static_cast<uint64_t>(p.factor));
    if (!add(p.at)) return false;
  }
  mix.word(static_cast<uint64_t>(s.constant));
  *out = mix.get();
  return true;
}

// Instances that compute the same of the same, as the windows of neighbours do of rows that both
// have, are one.
Status Writer::step(const Step& s) {
  Digest what;
  if (!digest(&what, s)) return write(s);
  uint32_t& last = body_->made[s.id];
  for (uint32_t at = last; at != 0; at = made_[at - 1].before) {
    const Made& one = made_[at - 1];
    const uint16_t depth = one.value.depth;
    if (one.what == what && depth < blocks_.size() && blocks_[depth].number == one.block &&
        (s.op != Op::kLoad || one.stores == stores_) && body_->sets[s.id] == kNone)
      return body_->values.set(key(s.result), one.value);
  }
  ASTER_TRY(write(s));
  const Value made = find(s.result);
  if (made.held != Held::kRegister || made.changes || made.depth >= blocks_.size()) return kOk;
  ASTER_TRY(made_.push(Made{what, made, blocks_[made.depth].number, stores_, last}));
  last = static_cast<uint32_t>(made_.size());
  return kOk;
}

Status Writer::open_block() {
  ASTER_TRY(blocks_.push(Block(blocks_.memory())));
  blocks_.back().number = ++numbers_;
  return kOk;
}

Status Writer::write(const Step& s) {
  if (blocks_.back().lines.size() > kMostLines) return cannot("so long a program");
  if (s.op == Op::kParam) return param(s);
  if (s.op == Op::kArray) return array(s);
  if (s.op == Op::kTable) return table(s);
  if (is_access(s.op)) return access(s);
  if (s.op == Op::kResult) {
    body_->result = find(s.operands[0]);
  } else if (s.op == Op::kSet) {
    if (body_->sets[s.operands[1].value] == s.operands[0].value) return kOk;
    set_register(find(s.operands[0]), find(s.operands[1]));
  } else if (s.op == Op::kAcc) {
    const int n = lanes(*s.in);
    const Value out = new_register(s.in->dtype, n);
    set_register(
        out, s.in->is(kImmediate) ? of_number(s.in->dtype, n, s.words[0]) : find(s.operands[0]));
    ASTER_TRY(body_->values.set(key(s.result), out));
  } else {
    return value(s);
  }
  return out_.status();
}

// ---- Blocks ----

Status Writer::open(const Step& s) {
  ASTER_TRY(out_.status());
  if (s.op == Op::kLoop) return counts_tasks(s.id) ? open_tasks(s) : open_loop(s);
  ASTER_TRY(open_block());
  blocks_.back().behind = out_.label();
  skip_unless(find(s.operands[0]), blocks_.back().behind);
  std::swap(blocks_.back().entry, blocks_.back().lines);
  return out_.status();
}

bool Writer::counts_tasks(Id loop) const {
  return body_->program.at(loop).kind == static_cast<uint8_t>(LoopKind::kTask) &&
         (task_loops_ == 1 || inner_tasks(body_->program, loop) == kNone);
}

bool Writer::is_innermost(Id loop) const {
  const auto code = body_->program.code();
  int depth = 1;
  for (Id id = loop + 1; id < code.size() && depth > 0; ++id) {
    if (code[id].op == Op::kLoop) return false;
    depth += is_block(code[id].op) ? 1 : code[id].op == Op::kEnd ? -1 : 0;
  }
  return true;
}

// An end of a loop in 64 bits: a number, or what is in a register.
Reg Writer::bound(const Step& s, bool high, int64_t* number) {
  *number = s.words[high ? 1 : 0];
  if (s.in->is(high ? kImmediateHigh : kImmediate)) return x86::kNoReg;
  const Value v = find(high ? s.operands.back() : s.operands.front());
  *number = v.word;
  return v.held == Held::kNumber ? x86::kNoReg : wide(v);
}

Status Writer::open_loop(const Step& s) {
  int64_t low = 0, high = 0;
  const Reg from = bound(s, false, &low), to = bound(s, true, &high);
  ASTER_TRY(open_block());
  Block& block = blocks_.back();
  block.loop = true;
  block.innermost = is_innermost(s.id);
  block.head = out_.label();
  block.behind = out_.label();
  block.high = high;
  block.end = to;
  if (from != x86::kNoReg) {
    block.counter = fresh(RegClass::kGeneral);
    copy(block.counter, from);
  } else {
    block.counter = number(low);
  }
  if (from != x86::kNoReg || to != x86::kNoReg || low >= high) {
    to != x86::kNoReg ? compare(8, block.counter, at(to)) : compare_number(8, block.counter, high);
    jump(0xD, block.behind);  // not less
  }
  std::swap(block.entry, block.lines);
  Value index = in_new(s.in->dtype, 1, block.counter);
  index.counts = true;
  return body_->values.set(key(s.result), index);
}

Status Writer::open_tasks(const Step& s) {
  int64_t low = 0, high = 0;
  const Reg from = bound(s, false, &low);
  const bool only = task_loops_ == 1;
  const Reg to = only ? x86::kNoReg : bound(s, true, &high);
  ASTER_TRY(open_block());
  Block& block = blocks_.back();
  block.loop = block.tasks = true;
  block.innermost = is_innermost(s.id);
  block.head = out_.label();
  block.behind = out_.label();
  const int64_t step = s.words[2];
  block.counter = fresh(RegClass::kGeneral);
  block.end = fresh(RegClass::kGeneral);
  general_line(kMov, 8, block.counter, at(frame(kBegin), 8), false);
  general_line(kMov, 8, block.end, at(frame(kEnd), 8), false);
  if (!only) {
    // How many tasks this loop has; of those that are asked for, which.
    const Reg zero = number(0);
    Reg count = to;
    if (to == x86::kNoReg) count = number(high);
    count = general_op(0x2B, 8, count, at(from != x86::kNoReg ? from : number(low)));
    count = general_op(0x03, 8, count, at(number(step - 1)));
    Line divide;
    divide.kind = Kind::kDivide;
    divide.bytes = 8;
    divide.d = fresh(RegClass::kGeneral);
    divide.a = count;
    divide.b = number(step);
    divide.imm = 1;
    put(divide);
    compare_number(8, divide.d, 0);
    move_if(0xC, 8, divide.d, zero);  // less
    block.passed = divide.d;
    const Reg done = fresh(RegClass::kGeneral);
    general_line(kMov, 8, done, at(frame(done_), 8), false);
    general_line({0x2B, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, block.counter, at(done), true);
    general_line({0x2B, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, block.end, at(done), true);
    compare_number(8, block.counter, 0);
    move_if(0xC, 8, block.counter, zero);
    compare(8, block.end, at(block.passed));
    move_if(0xF, 8, block.end, block.passed);  // greater
  }
  compare(8, block.counter, at(block.end));
  jump(0xD, block.behind);
  std::swap(block.entry, block.lines);
  // The index of the task.
  const Reg index = fresh(RegClass::kGeneral);
  general_line({0x69, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32}, 8, index,
               at(block.counter), false, step);
  if (from != x86::kNoReg) {
    general_line({0x03, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, index, at(from), true);
  } else if (low != 0) {
    general_line({0x03, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, index, at(number(low)), true);
  }
  Value value = in_new(s.in->dtype, 1, index);
  value.counts = true;
  return body_->values.set(key(s.result), value);
}

Status Writer::close(const Step& s) {
  ASTER_TRY(out_.status());
  Block block = std::move(blocks_.back());
  const bool loop = block.loop;
  if (loop) {
    std::swap(blocks_.back().lines, block.lines);
    const int64_t step = block.tasks ? 1 : s.words[2];
    general_line({0x81, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 0}, 8, block.counter,
                 Source(), true, step);
    Reg end = block.end;
    if (!block.tasks && end != x86::kNoReg) {
      const Value high = find(s.operands.back());
      if (high.changes) end = wide(high);
    }
    end != x86::kNoReg ? compare(8, block.counter, at(end))
                       : compare_number(8, block.counter, block.high);
    jump(0xC, block.head);
    std::swap(blocks_.back().lines, block.lines);
  }
  blocks_.pop();
  const auto append = [&](const Vec<Line>& lines) {
    out_.fail(blocks_.back().lines.append(lines.data(), lines.size()));
  };
  append(block.before);
  append(block.entry);
  Line mark;
  if (loop) {
    mark.kind = Kind::kLoopBegin;
    put(mark);
    label(block.head);
  }
  append(block.lines);
  if (loop) {
    mark.kind = Kind::kLoopEnd;
    put(mark);
  }
  label(block.behind);
  if (block.passed != x86::kNoReg) {  // tasks of this loop, whether they were asked for or not
    const Reg done = fresh(RegClass::kGeneral);
    general_line(kMov, 8, done, at(frame(done_), 8), false);
    general_line({0x03, OpcodeMap::kOne, Prefix::kNone, 0, 0}, 8, done, at(block.passed), true);
    Line line;
    line.form = kMovToMemory;
    line.bytes = 8;
    line.b = done;
    line.mem = frame(done_);
    put(line);
  }
  size_t kept = 0;
  for (const Known& one : known_) {
    if (one.depth <= depth()) known_[kept++] = one;
  }
  known_.truncate(kept);
  return out_.status();
}

// ---- Params and arrays ----

Status Writer::param(const Step& s) {
  if (s.in->is(kArgument)) {
    Value out = kept(body_->arguments[s.words[0]]);
    out.depth = depth();
    return body_->values.set(key(s.result), out);
  }
  const Reg list = fresh(RegClass::kGeneral), found = fresh(RegClass::kGeneral);
  general_line(kMov, 8, list, at(frame(s.in->is(kSize) ? kSizes : kParams), 8), false);
  Mem mem;
  mem.place = Place::kPointer;
  mem.base = list;
  mem.offset = static_cast<int32_t>(8 * s.words[0]);
  general_line(kMov, 8, found, at(mem, 8), false);
  Value out = in_new(s.in->dtype, 1, found);
  out.counts = s.in->is(kSize);
  if (!s.in->is(kSize)) {
    out.memory.place = Place::kPointer;
    out.memory.base = found;
  }
  return body_->values.set(key(s.result), out);
}

Status Writer::array(const Step& s) {
  Value out = in_new(s.in->dtype, 1, fresh(RegClass::kGeneral));
  out.memory.place = Place::kPointer;
  out.memory.base = out.reg;
  if (static_cast<Space>(s.in->kind) == Space::kPrivate) {
    const int64_t elements = s.in->constant + body_->program.words(*s.in)[0];
    const int32_t where = out_.reserve(static_cast<size_t>(elements * element(s.in->dtype)));
    general_line(kLea, 8, out.reg, at(frame(where), 8), false);
  } else {
    general_line(kMov, 8, out.reg, at(frame(kScratch), 8), false);
    if (scratch_ != 0)
      general_line({0x81, OpcodeMap::kOne, Prefix::kNone, 0, x86::kHasImm32, 0}, 8, out.reg,
                   Source(), true, scratch_);
    scratch_ += array_bytes(body_->program, *s.in);
    if (scratch_ > INT32_MAX) return cannot("so much memory");
  }
  return body_->values.set(key(s.result), out);
}

Status Writer::table(const Step& s) {
  const auto size = static_cast<size_t>(element(s.in->dtype));
  Vec<uint8_t> bytes(blocks_.memory());
  ASTER_TRY(bytes.resize((s.words.size() * size + 63) / 64 * 64, 0));
  for (size_t i = 0; i < s.words.size(); ++i) {
    const uint64_t bits = bits_of(s.in->dtype, s.words[i]);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  Value out = in_new(s.in->dtype, 1, fresh(RegClass::kGeneral));
  general_line(kLea, 8, out.reg, at(pooled(bytes.data(), bytes.size()), 8), false);
  out.memory.place = Place::kPointer;
  out.memory.base = out.reg;
  return body_->values.set(key(s.result), out);
}

}  // namespace native

Status render_x86(Vec<uint8_t>* out, const Module& module, const Target& target) {
  if (module.programs.empty() || module.programs.back().function) {
    return ASTER_FAIL(kARGUMENT, "no program to render behind %zu functions",
                      module.programs.size());
  }
  if (!target.fma || target.vector_bytes < 32)
    return ASTER_FAIL(kUNSUPPORTED, "machine code is for AVX2 here");
  return native::Writer(module, target, out->memory()).run(out);
}

}  // namespace aster::codegen::program
