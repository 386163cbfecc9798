// From steps to statements: the launch, blocks and memory. A register is a variable
// t<value>_<instance>, a memory a pointer m<value>.
#include "codegen/render_c.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "codegen/render_c_writer.h"

namespace aster::codegen::program {
namespace c {

Status Writer::run() {
  ASTER_TRY(masks_.resize(program_.code().size(), DType::kInt32));
  ASTER_TRY(find_register_values());
  ASTER_TRY(program_.function ? open_function() : open_program());
  const int computed = program_.function ? computed_lanes() : 1;
  if (computed > call_lanes_ && program_.function) {
    ASTER_TRY(widened(computed));
  } else if (computed < call_lanes_) {
    ASTER_TRY(computed == 1 ? lane_by_lane() : halved());
  } else {
    Walker<Writer> walker(program_, *this);
    ASTER_TRY(walker.run());
  }
  if (!program_.function && !tasks_) out_ << "}\n";
  if (streams_) out_ << "__builtin_ia32_sfence();\n";
  out_ << "}\n";
  return out_.status();
}

Status Writer::step(const Step& s) {
  if (s.op == Op::kBarrier) return cannot("a barrier");
  if (s.op == Op::kResult) return out_ << "return ", operand(s, 0), out_ << ";\n", out_.status();
  if (s.op == Op::kParam) return param(s);
  if (s.op == Op::kArray || s.op == Op::kTable) return array(s);
  if (is_access(s.op)) return access(s);
  if (s.op == Op::kSet) {
    if (registers_[s.operands[1].value] != kNone) return kOk;
    name(s.operands[0]);
    out_ << " = ";
    converted(s, 1, s.operands[0].value);
    out_ << ";\n";
    return out_.status();
  }
  learn_mask(s);
  if (s.op == Op::kAcross) return across(s);
  define(s);
  ASTER_TRY(value(s));
  out_ << ";\n";
  return out_.status();
}

Status Writer::open(const Step& s) {
  if (s.op == Op::kIf) {
    ++conditions_;
    // In functions these are slow paths.
    out_ << (program_.function ? "if (__builtin_expect(" : "if (");
    operand(s, 0);
    out_ << (program_.function ? ", 0)) {\n" : ") {\n");
  } else if (s.in->kind == static_cast<uint8_t>(LoopKind::kTask)) {
    open_tasks(s);
  } else {
    out_ << "for (";
    type(s.in->dtype, 1);
    out_ << ' ';
    name(s.result);
    out_ << " = ";
    bound(s, false);
    out_ << "; ";
    name(s.result);
    out_ << " < ";
    bound(s, true);
    out_ << "; ";
    name(s.result);
    out_ << " += " << s.words[2] << ") {\n";
  }
  return out_.status();
}

Status Writer::close(const Step& s) {
  out_ << "}\n";
  if (s.op == Op::kIf) --conditions_;
  const bool task = s.op == Op::kLoop && s.in->kind == static_cast<uint8_t>(LoopKind::kTask);
  if (task && innermost_tasks(s.id)) out_ << "done += count" << s.id << ";\n}\n";
  return out_.status();
}

Status Writer::cannot(const char* what) {
  return ASTER_FAIL(kUNSUPPORTED, "%s: no C for %s on this target", program_.name, what);
}

DType Writer::held(Id id) const {
  const Instruction& in = program_.at(id);
  return in.dtype == DType::kBool && lanes(in) > 1 ? masks_[id] : in.dtype;
}

Status Writer::find_register_values() {
  const std::span<const Instruction> code = program_.code();
  Vec<uint32_t> uses(out_.memory());
  ASTER_TRY(registers_.resize(code.size(), kNone));
  ASTER_TRY(uses.resize(code.size(), uint32_t{0}));
  for (const Instruction& in : code) {
    for (Id id : program_.operands(in)) ++uses[id];
    for (const Term& term : program_.terms(in)) uses[term.at] += term.axis ? 0u : 1u;
  }
  AxisSet fixed = 0;
  Vec<AxisSet> outer(out_.memory());
  for (Id id = 0; id < code.size(); ++id) {
    const Instruction& in = code[id];
    if (is_block(in.op)) {
      ASTER_TRY(outer.push(fixed));
      if (in.op == Op::kEach) fixed = static_cast<AxisSet>(fixed | axis_bit(in.axis));
    } else if (in.op == Op::kEnd) {
      fixed = outer.back();
      outer.pop();
    }
    if (in.op != Op::kSet) continue;
    const Id acc = program_.operands(in)[0], value = program_.operands(in)[1];
    const Instruction& made = code[value];
    // Each copy of the register is changed once, and before the next copy of its value is made.
    const bool once = ((made.axes ^ code[acc].axes) & ~fixed) == 0;
    const bool plain = is_arithmetic(made.op) && made.dtype != DType::kBool;
    if (value + 1 == id && uses[value] == 1 && once && plain) registers_[value] = acc;
  }
  return kOk;
}

uint32_t Writer::instance_of(Id id, const Step& s) const {
  uint32_t out = 0;
  for (size_t i = 0; i < program_.axes().size(); ++i) {
    if (has(program_.at(id).axes, i)) out = out * program_.axes()[i].size + s.values[i];
  }
  return out;
}

void Writer::define(const Step& s) {
  if (const Id acc = registers_[s.id]; acc != kNone) {
    name({acc, instance_of(acc, s)}) << " = ";
    return;
  }
  if (s.op != Op::kAcc) out_ << "const ";
  type(held(s.id), lanes(*s.in));
  out_ << ' ';
  name(s.result) << " = ";
}

void Writer::as(Register r, DType mask) {
  const bool converts = dtype_of(r) == DType::kBool && lanes(r) > 1 && held(r.value) != mask;
  if (!converts) {
    name(r);
    return;
  }
  convert(r, held(r.value), mask, lanes(r));
}

void Writer::function_name(const Program& function, Wanted what) {
  out_ << function.name << "_x" << int32_t{what.lanes} << (what.cold ? "_cold" : "") << '(';
}

Status Writer::want(Wanted what) {
  return std::ranges::find(wanted_, what) == wanted_.end() ? wanted_.push(what) : kOk;
}

Status Writer::open_function() {
  out_ << "static "
       << (what_.cold ? "__attribute__((noinline, cold, unused)) "
                      : "inline __attribute__((always_inline, unused)) ");
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  type(argument_type(result), lanes(result));
  out_ << ' ';
  function_name(program_, what_);
  // By slot: a call gives its arguments in that order.
  for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
    out_ << (slot == 0 ? "" : ", ");
    type(argument_type(*in), lanes(*in));
    out_ << " a" << slot;
  }
  out_ << ") {\n";
  return out_.status();
}

const Instruction* Writer::argument(Word slot) const {
  for (const Instruction& in : program_.code()) {
    if (in.op == Op::kParam && program_.words(in)[0] == slot) return &in;
  }
  return nullptr;
}

int Writer::computed_lanes() const {
  // Slow paths shift and multiply 64 bits, which 16 byte vectors do not.
  if (call_lanes_ == 1 || (what_.cold && target_.vector_bytes < 32)) return 1;
  int widest = 1, real = 0;
  for (const Instruction& in : program_.code()) {
    if (!has_value(in.op) || in.lanes != kAnyLanes) continue;
    const int bytes = static_cast<int>(dtype::size(in.dtype));
    widest = std::max(widest, bytes);
    if (in.dtype == DType::kFloat32 || in.dtype == DType::kFloat64) real = std::max(real, bytes);
  }
  const int room = std::max(target_.vector_bytes, 16);
  if (widest * call_lanes_ > room) return call_lanes_ / 2;
  const bool widens = real * call_lanes_ < 16 && real != 0 && widest * (16 / real) <= room;
  return widens ? 16 / real : call_lanes_;
}

void Writer::call_with(Wanted what, int first) {
  function_name(program_, what);
  for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
    out_ << (slot == 0 ? "" : ", ");
    if (in->lanes == kAnyLanes) {
      out_ << "__builtin_shufflevector(a" << slot << ", a" << slot;
      for (int i = 0; i < what.lanes; ++i) out_ << ", " << int32_t{(first + i) % call_lanes_};
      out_ << ')';
    } else {
      out_ << 'a' << slot;
    }
  }
  out_ << ')';
}

Status Writer::widened(int wide) {
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  const Wanted what{what_.program, static_cast<uint8_t>(wide), false};
  out_ << "const ";
  type(argument_type(result), wide);
  out_ << " y = ";
  call_with(what, 0);
  out_ << ";\nreturn __builtin_shufflevector(y, y";
  for (int i = 0; i < call_lanes_; ++i) out_ << ", " << int32_t{i};
  out_ << ");\n";
  return want(what);
}

Status Writer::lane_by_lane() {
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  const Wanted what{what_.program, 1, what_.cold};
  out_ << "return (";
  type(argument_type(result), call_lanes_);
  out_ << "){";
  for (int lane = 0; lane < call_lanes_; ++lane) {
    out_ << (lane == 0 ? "" : ", ") << (result.dtype == DType::kBool ? "-" : "");
    function_name(program_, what);
    for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
      out_ << (slot == 0 ? "a" : ", a") << slot;
      if (in->lanes != kAnyLanes) continue;
      out_ << '[' << int32_t{lane} << ']' << (in->dtype == DType::kBool ? " != 0" : "");
    }
    out_ << ')';
  }
  out_ << "};\n";
  return want(what);
}

Status Writer::halved() {
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  const int half = call_lanes_ / 2;
  // Of a slow path one half is enough text.
  const Wanted what{what_.program, static_cast<uint8_t>(half), what_.cold};
  for (const int part : {0, 1}) {
    out_ << "const ";
    type(argument_type(result), half);
    out_ << " y" << int32_t{part} << " = ";
    call_with(what, part * half);
    out_ << ";\n";
  }
  out_ << "return __builtin_shufflevector(y0, y1";
  for (int i = 0; i < call_lanes_; ++i) out_ << ", " << int32_t{i};
  out_ << ");\n";
  return want(what);
}

DType Writer::argument_type(const Instruction& in) const {
  return in.dtype == DType::kBool && lanes(in) > 1 ? DType::kInt32 : in.dtype;
}

Status Writer::open_program() {
  for (const Instruction& in : program_.code()) {
    tasks_ |= in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask);
  }
  out_ << "void " << program_.name
       << "(void *const *params, const long long *sizes, void *scratch, long long begin, "
          "long long end) {\n(void)sizes, (void)scratch, (void)params;\n"
       << (tasks_ ? "long long done = 0;\n" : "if (begin <= 0 && end > 0) {\n");
  return out_.status();
}

bool Writer::innermost_tasks(Id id) const {
  int depth = 0;
  for (Id i = id + 1; i < program_.code().size() && depth >= 0; ++i) {
    const Instruction& in = program_.at(i);
    if (in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask)) return false;
    depth += is_block(in.op) ? 1 : in.op == Op::kEnd ? -1 : 0;
  }
  return true;
}

void Writer::open_tasks(const Step& s) {
  const bool innermost = innermost_tasks(s.id);
  const auto write = [&](const char* text) { out_ << text << s.id; };
  if (innermost) {
    out_ << "{\nconst long long ";
    write("low");
    out_ << " = ";
    bound(s, false);
    out_ << ", ";
    write("high");
    out_ << " = ";
    bound(s, true);
    out_ << ", ";
    write("count");
    out_ << " = ";
    write("high");
    write(" > low");
    write(" ? (high");
    write(" - low");
    out_ << " + " << s.words[2] - 1 << ") / " << s.words[2] << " : 0;\nfor (long long ";
    write("task");
    out_ << " = begin > done ? begin - done : 0; ";
    write("task");
    write(" < count");
    write(" && task");
    out_ << " < end - done; ++";
    write("task");
    out_ << ") {\nconst ";
    type(s.in->dtype, 1);
    out_ << ' ';
    name(s.result) << " = ";
    write("low");
    write(" + task");
    out_ << " * " << s.words[2] << ";\n";
    return;
  }
  out_ << "for (";
  type(s.in->dtype, 1);
  out_ << ' ';
  name(s.result) << " = ";
  bound(s, false);
  out_ << "; ";
  name(s.result) << " < ";
  bound(s, true);
  out_ << "; ";
  name(s.result) << " += " << s.words[2] << ") {\n";
}

void Writer::bound(const Step& s, bool high) {
  if (s.in->is(high ? kImmediateHigh : kImmediate)) {
    out_ << s.words[high ? 1 : 0];
  } else {
    name(high ? s.operands.back() : s.operands.front());
  }
}

Status Writer::param(const Step& s) {
  const Instruction& in = *s.in;
  out_ << (in.is(kSize) || in.is(kArgument) || in.is(kWrite) ? "" : "const ");
  if (in.is(kArgument)) {
    masks_[s.id] = DType::kInt32;
    define(s);
    out_ << 'a' << s.words[0] << ";\n";
  } else if (in.is(kSize)) {
    define(s);
    out_ << '(';
    type(in.dtype, 1);
    out_ << ")sizes[" << s.words[0] << "];\n";
  } else {
    type(in.dtype, 1);
    out_ << " *const __restrict m" << s.id << " = params[" << s.words[0] << "];\n";
  }
  return out_.status();
}

Status Writer::array(const Step& s) {
  const Instruction& in = *s.in;
  if (s.op == Op::kTable) {
    out_ << "static const ";
    type(in.dtype, 1);
    out_ << " m" << s.id << "[] = {";
    for (size_t i = 0; i < s.words.size(); ++i) {
      out_ << (i == 0 ? "" : ", ");
      constant(in.dtype, s.words[i]);
    }
    out_ << "};\n";
    return out_.status();
  }
  const int64_t elements = in.constant + s.words[0];
  type(in.dtype, 1);
  if (static_cast<Space>(in.kind) == Space::kPrivate) {
    out_ << " m" << s.id << '[' << elements << "] __attribute__((aligned(64)));\n";
    return out_.status();
  }
  out_ << " *const m" << s.id << " = (void *)((char *)scratch + " << scratch_ << ");\n";
  const int64_t bytes = elements * static_cast<int64_t>(dtype::size(in.dtype));
  scratch_ += (bytes + 63) / 64 * 64;
  return out_.status();
}

void Writer::element(const Step& s, const Access& a, int lane) {
  out_ << 'm' << a.memory << '[';
  address(s, a, lane);
  out_ << ']';
}

void Writer::form(const Step& s, int64_t constant) {
  for (const Product& p : s.products) {
    out_ << (dtype_of(p.at) == DType::kInt64 ? "" : "(long long)");
    name(p.at);
    if (p.factor != 1) out_ << " * " << p.factor;
    out_ << " + ";
  }
  out_ << constant;
}

void Writer::address(const Step& s, const Access& a, int lane) {
  if (a.index != kNone) {
    out_ << "(long long)";
    lane_of(s.operands[index_operand(s)], lane) << " + ";
  }
  form(s, s.constant + (a.index != kNone ? 0 : a.step * lane));
}

size_t Writer::index_operand(const Step& s) {
  return s.op == Op::kStore || s.op == Op::kAtomic ? 2 : 1;
}

Status Writer::access(const Step& s) {
  const Access a = program_.access(*s.in);
  const size_t gate = index_operand(s) + (a.index != kNone ? 1 : 0);
  const size_t mask = gate + (a.gate != kNone ? 1 : 0);
  if (s.op == Op::kPrefetch) {
    out_ << "__builtin_prefetch(&";
    element(s, a, 0);
    out_ << ", " << (s.in->is(kWrite) ? "1" : "0") << ");\n";
    return out_.status();
  }
  if (s.op == Op::kLoad) learn_mask(s);
  if (s.op == Op::kLoad) define(s);
  if (a.gate != kNone) {
    out_ << (s.op == Op::kLoad ? "" : "if (");
    name(s.operands[gate]) << (s.op == Op::kLoad ? " ? " : ") {\n");
  }
  const Register* const masked = a.mask != kNone ? &s.operands[mask] : nullptr;
  if (s.op == Op::kLoad) {
    load(s, a, masked);
    if (a.gate != kNone) {
      out_ << " : (";
      type(held(s.id), lanes(*s.in));
      out_ << "){0}";
    }
    out_ << ";\n";
    return out_.status();
  }
  ASTER_TRY(s.op == Op::kStore ? store(s, a, masked) : atomic(s, a, masked));
  if (a.gate != kNone) out_ << "}\n";
  return out_.status();
}

int Writer::first_lanes(const Step& s, const Access& a) const {
  return s.in->lanes == kAnyLanes ? call_lanes_ : static_cast<int>(a.first);
}

// The stem and the letter of the instructions for masked vectors, by size of element.
struct MaskedRow {
  const char *load, *store, *bits, *pointer;
  const char* avx2;  // "" where there is none
};
constexpr MaskedRow kMasked[] = {{"loaddquqi", "storedquqi", "b", "char", ""},
                                 {"loaddquhi", "storedquhi", "w", "short", ""},
                                 {"loaddqusi", "storedqusi", "d", "int", "maskloadd"},
                                 {"loaddqudi", "storedqudi", "q", "long long", "maskloadq"}};
const MaskedRow& masked_row(DType d) { return kMasked[std::countr_zero(dtype::size(d))]; }

bool Writer::masks_memory(DType d, int n) const {
  return n > 1 && target_.avx512 && loads_under_mask(target_, d, n);
}

// The builtins' bytes are char, which is a type of its own.
void Writer::builtin_type(DType d, int n) {
  if (dtype::size(d) == 1) {
    out_ << "char __attribute__((vector_size(" << int32_t{n} << ")))";
  } else {
    type(integer(d, true), n);
  }
}

void Writer::write_bits(DType d, int n, int first, const Register* mask) {
  const uint64_t some = first == 64 ? ~uint64_t{0} : (uint64_t{1} << first) - 1;
  if (mask == nullptr) {
    out_ << some << "ull";
    return;
  }
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  out_ << "(__builtin_ia32_cvt" << masked_row(d).bits << "2mask" << bits << "((";
  builtin_type(d, n);
  out_ << ')';
  as(*mask, integer(d, true));
  out_ << ')';
  if (first < n) out_ << " & " << some << "ull";
  out_ << ')';
}

void Writer::write_masked(const Step& s, const Access& a, DType d, int n, int first,
                          const Register* mask) {
  const bool loads = s.op == Op::kLoad;
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  // Where no lane at all is asked for, the address may be in no page of the process, which costs
  // the CPU hundreds of cycles to find out. Behind a gate it is hardly ever that far away.
  const bool asks = loads && mask != nullptr && a.gate == kNone;
  if (asks) {
    out_ << "({ const unsigned long long k = ";
    write_bits(d, n, first, mask);
    out_ << "; k ? ";
  }
  if (loads) {
    out_ << '(';
    type(d, n);
    out_ << ')';
  }
  const MaskedRow& row = masked_row(d);
  out_ << "__builtin_ia32_" << (loads ? row.load : row.store) << bits << "_mask(("
       << (loads ? "const " : "") << row.pointer << " *)&";
  element(s, a, 0);
  out_ << ", (";
  builtin_type(d, n);
  out_ << ')';
  if (loads) {
    out_ << "{0}";
  } else {
    name(s.operands[1]);
  }
  out_ << ", ";
  if (asks) {
    out_ << "k) : (";
    type(d, n);
    out_ << "){0}; })";
    return;
  }
  write_bits(d, n, first, mask);
  out_ << ')';
}

// The same on AVX2, whose masks are vectors.
void Writer::load_by_vector(const Step& s, const Access& a, int first, const Register* mask) {
  const int n = lanes(*s.in);
  const DType d = s.in->dtype, whole = integer(d, true);
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  out_ << '(';
  type(d, n);
  out_ << ")__builtin_ia32_" << masked_row(d).avx2 << (bits == 256 ? "256" : "") << "((const ";
  type(whole, n);
  out_ << " *)&";
  element(s, a, 0);
  out_ << ", ";
  if (mask != nullptr) as(*mask, whole);
  if (first < n) {
    out_ << (mask != nullptr ? " & (" : "(");
    type(whole, n);
    out_ << "){";
    for (int i = 0; i < first; ++i) out_ << (i == 0 ? "-1" : ", -1");
    out_ << '}';
  }
  out_ << ')';
}

void Writer::load_contiguous(const Step& s, const Access& a) {
  const int n = lanes(*s.in);
  const DType d = s.in->dtype;
  const bool truth = d == DType::kBool;  // what is not 0 is true
  out_ << '(';
  type(truth ? DType::kInt8 : d, n);
  out_ << (truth ? ")(*(const " : ")*(const ");
  types_.unaligned(out_, d, n);
  out_ << " *)&";
  element(s, a, 0);
  out_ << (truth ? " != 0)" : "");
}

// Instructions that load lanes at indices of 32 bits.
struct GatherRow {
  size_t bytes;  // of an element
  int lanes;
  const char* name;
};
constexpr GatherRow kGathers[] = {{4, 4, "gather3siv4si"},
                                  {4, 8, "gather3siv8si"},
                                  {4, 16, "gathersiv16si"},
                                  {8, 4, "gather3siv4di"},
                                  {8, 8, "gathersiv8di"}};

bool Writer::gather(const Step& s, const Access& a) {
  const DType d = s.in->dtype;
  const int n = lanes(*s.in);
  const auto* const row = std::ranges::find_if(kGathers, [&](const GatherRow& one) {
    return one.bytes == dtype::size(d) && one.lanes == n;
  });
  const bool fits = target_.avx512 && row != std::end(kGathers) && a.index != kNone &&
                    program_.at(a.index).dtype == DType::kInt32 && target_.vector_bytes >= 64;
  if (!fits) return false;
  const DType whole = integer(d, true);
  out_ << '(';
  type(d, n);
  out_ << ")__builtin_ia32_" << row->name << "((";
  type(whole, n);
  out_ << "){0}, (const void *)(m" << a.memory << " + ";
  form(s, s.constant);
  out_ << "), ";
  name(s.operands[index_operand(s)]);
  out_ << ", " << (uint64_t{1} << n) - 1 << ", " << static_cast<uint64_t>(row->bytes) << ')';
  return true;
}

void Writer::load(const Step& s, const Access& a, const Register* mask) {
  const int n = lanes(*s.in), first = first_lanes(s, a);
  const DType d = s.in->dtype;
  const bool some = first < n || mask != nullptr, truth = d == DType::kBool;
  if (n > 1 && contiguous(a) && !some) return load_contiguous(s, a);
  if (n > 1 && contiguous(a) && !truth && loads_under_mask(target_, d, n)) {
    if (target_.avx512) return write_masked(s, a, d, n, first, mask);
    return load_by_vector(s, a, first, mask);
  }
  if (!some && gather(s, a)) return;
  if (n > 1) out_ << "({ ", pointer(s, a), out_ << '(', type(held(s.id), n), out_ << "){";
  for (int lane = 0; lane < first; ++lane) {
    if (mask != nullptr) lane_of(*mask, lane) << " ? ";
    if (truth) out_ << (n > 1 ? "-(" : "(");
    piece_of(s, a, lane);
    out_ << (truth ? " != 0)" : "") << (mask != nullptr ? " : 0" : "");
    out_ << (lane + 1 < first ? ", " : "");
  }
  if (n > 1) out_ << "}; })";
}

// What lanes are reached from one by one: compilers take long for an address a lane.
void Writer::pointer(const Step& s, const Access& a) {
  out_ << (s.op == Op::kLoad ? "const " : "");
  type(program_.at(a.memory).dtype, 1);
  out_ << " *const q = &m" << a.memory << '[';
  form(s, s.constant);
  out_ << "]; ";
}

void Writer::piece_of(const Step& s, const Access& a, int lane) {
  if (s.op == Op::kLoad && lanes(*s.in) == 1) return element(s, a, 0);
  out_ << "q[";
  if (a.index != kNone) {
    lane_of(s.operands[index_operand(s)], lane);
  } else {
    out_ << a.step * lane;
  }
  out_ << ']';
}

Text& Writer::lane_of(Register r, int lane) {
  name(r);
  if (lanes(r) > 1) out_ << '[' << int32_t{lane} << ']';
  return out_;
}

Status Writer::store(const Step& s, const Access& a, const Register* mask) {
  const Register value = s.operands[1];
  const int n = lanes(value), first = first_lanes(s, a);
  const DType d = dtype_of(value);
  const bool truth = d == DType::kBool && n > 1;
  if (!truth && contiguous(a) && (first < n || mask != nullptr) && masks_memory(d, n)) {
    write_masked(s, a, d, n, first, mask);
    out_ << ";\n";
  } else if (truth && contiguous(a) && mask == nullptr && first == n) {
    out_ << "*(";
    types_.unaligned(out_, d, n);
    out_ << " *)&";
    element(s, a, 0);
    out_ << " = (";
    type(d, n);
    out_ << ")(";
    as(value, DType::kInt8);
    out_ << " & 1);\n";
  } else if (n > 1 && contiguous(a) && mask == nullptr && !truth) {
    stream(s, a, value, first);
    // Vectors of 2, 4, 8, .. lanes, as many as there are.
    for (int at = 0; at < first;) {
      const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(first - at)));
      piece(s, a, value, at, size);
      at += size;
    }
  } else if (n == 1) {
    if (mask != nullptr) out_ << "if (", lane_of(*mask, 0) << ") ";
    element(s, a, 0);
    out_ << " = ";
    name(value) << ";\n";
  } else {
    out_ << "{ ";
    pointer(s, a);
    // Compilers make of a loop what they take long for written out.
    if (mask == nullptr && a.index == kNone && first == n) {
      out_ << "for (int l = 0; l < " << int32_t{n} << "; ++l) q[l * " << a.step << "ll] = ";
      name(value) << (truth ? "[l] & 1;\n}\n" : "[l];\n}\n");
      return out_.status();
    }
    for (int lane = 0; lane < first; ++lane) {
      if (mask != nullptr) {
        out_ << "if (";
        lane_of(*mask, lane) << ") ";
      }
      piece_of(s, a, lane);
      out_ << " = ";
      lane_of(value, lane) << (truth ? " & 1" : "") << ";\n";
    }
    out_ << "}\n";
  }
  return out_.status();
}

// A whole vector that goes past the caches where its address allows it; what follows is the other
// case.
void Writer::stream(const Step& s, const Access& a, Register value, int first) {
  const int n = lanes(value);
  const size_t bytes = dtype::size(dtype_of(value)) * static_cast<size_t>(n);
  const bool streams = s.in->is(kStream) && first == n && target_.vector_bytes >= 16 &&
                       bytes == static_cast<size_t>(target_.vector_bytes);
  if (!streams) return;
  streams_ = true;
  out_ << "if (((unsigned long long)&";
  element(s, a, 0);
  out_ << " & " << target_.vector_bytes - 1 << ") == 0) x86_stream" << target_.vector_bytes << "(&";
  element(s, a, 0);
  out_ << ", ";
  name(value) << "); else ";
}

void Writer::piece(const Step& s, const Access& a, Register value, int at, int size) {
  if (size == 1) {
    element(s, a, at);
    out_ << " = ";
    lane_of(value, at) << ";\n";
    return;
  }
  out_ << "*(";
  types_.unaligned(out_, dtype_of(value), size);
  out_ << " *)&";
  element(s, a, at);
  out_ << " = ";
  if (size == lanes(value)) {
    name(value) << ";\n";
    return;
  }
  out_ << "__builtin_shufflevector(";
  name(value) << ", ";
  name(value);
  for (int i = 0; i < size; ++i) out_ << ", " << int32_t{at + i};
  out_ << ");\n";
}

Status Writer::atomic(const Step& s, const Access& a, const Register* mask) {
  const char* call = s.in->with == Op::kAdd   ? "add"
                     : s.in->with == Op::kAnd ? "and"
                     : s.in->with == Op::kOr  ? "or"
                     : s.in->with == Op::kXor ? "xor"
                                              : nullptr;
  if (call == nullptr) return cannot(uop::info(s.in->with).name);
  for (int lane = 0; lane < first_lanes(s, a); ++lane) {
    if (mask != nullptr) {
      out_ << "if (";
      lane_of(*mask, lane) << ") ";
    }
    out_ << "__atomic_fetch_" << call << "(&";
    element(s, a, lane);
    out_ << ", ";
    lane_of(s.operands[1], lane) << ", __ATOMIC_RELAXED);\n";
  }
  return out_.status();
}

namespace {

void write_name(char (&name)[kMaxName + 16], const Program& program, Wanted what) {
  std::snprintf(name, sizeof(name), "%s_x%d%s", program.name, int{what.lanes},
                what.cold ? "_cold" : "");
}

}  // namespace
}  // namespace c

Status render_c(RenderedC& out, const Module& module, const Target& target) {
  if (module.programs.empty() || module.programs.back().function) {
    return ASTER_FAIL(kARGUMENT, "no program to render behind %zu functions",
                      module.programs.size());
  }
  Memory& memory = out.text.memory();
  c::Types types(out.types);
  Vec<c::Wanted> wanted(memory);
  const size_t last = module.programs.size() - 1;
  c::Writer writer(out.text, module, {last, 1, false}, target, types, wanted);
  ASTER_TRY(writer.run());
  out.scratch_bytes = writer.scratch_bytes();
  out.streams = writer.streams();
  // Functions stand before their callers in the module: the last ones want those before them.
  for (size_t i = last; i-- > 0;) {
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (wanted[w].program != i) continue;
      ASTER_TRY(out.functions.push(RenderedFunction(memory)));
      RenderedFunction& function = out.functions.back();
      c::write_name(function.name, module.programs[i], wanted[w]);
      ASTER_TRY(c::Writer(function.text, module, wanted[w], target, types, wanted).run());
    }
  }
  std::reverse(out.functions.begin(), out.functions.end());
  return out.text.status();
}

}  // namespace aster::codegen::program
