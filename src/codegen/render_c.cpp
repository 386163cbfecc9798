// From steps to statements: the launch, blocks and memory. A register is a variable
// t<value>_<instance>, a memory a pointer m<value>.
#include "codegen/render_c.h"

#include <algorithm>
#include <bit>

#include "codegen/render_c_writer.h"

namespace aster::codegen::program {
namespace c {

Status Writer::run() {
  ASTER_TRY(masks_.resize(program_.code().size(), DType::kInt32));
  ASTER_TRY(program_.function ? open_function() : open_program());
  Walker<Writer> walker(program_, *this);
  ASTER_TRY(walker.run());
  if (!program_.function && !tasks_) out_ << "}\n";
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
    out_ << "if (";
    operand(s, 0);
    out_ << ") {\n";
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

void Writer::define(const Step& s) {
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
  out_ << "__builtin_convertvector(";
  name(r) << ", ";
  type(mask, lanes(r));
  out_ << ')';
}

Status Writer::open_function() {
  out_ << "static inline ";
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  type(argument_type(result), lanes(result));
  out_ << ' ' << program_.name << "_x" << int32_t{call_lanes_} << '(';
  bool first = true;
  // By slot: a call gives its arguments in that order.
  for (Word slot = 0;; ++slot) {
    const Instruction* found = nullptr;
    for (const Instruction& in : program_.code()) {
      if (in.op == Op::kParam && program_.words(in)[0] == slot) found = &in;
    }
    if (found == nullptr) break;
    out_ << (first ? "" : ", ");
    type(argument_type(*found), lanes(*found));
    out_ << " a" << slot;
    first = false;
  }
  out_ << ") {\n";
  return out_.status();
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

void Writer::address(const Step& s, const Access& a, int lane) {
  for (const Product& p : s.products) {
    out_ << "(long long)";
    name(p.at);
    if (p.factor != 1) out_ << " * " << p.factor;
    out_ << " + ";
  }
  int64_t constant = s.constant;
  if (a.index != kNone) {
    out_ << "(long long)";
    lane_of(s.operands[index_operand(s)], lane) << " + ";
  } else {
    constant += a.step * lane;
  }
  out_ << constant;
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

bool Writer::masks_memory(DType d, int n) const {
  const size_t bytes = dtype::size(d) * static_cast<size_t>(n);
  return target_.avx512 && target_.vector_bytes >= 64 && dtype::size(d) >= 4 && n > 1 &&
         (bytes == 16 || bytes == 32 || bytes == 64) && d != DType::kBool;
}

void Writer::write_bits(DType d, int n, int first, const Register* mask) {
  const uint64_t some = first == 64 ? ~uint64_t{0} : (uint64_t{1} << first) - 1;
  if (mask == nullptr) {
    out_ << some;
    return;
  }
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  out_ << "(__builtin_ia32_cvt" << (dtype::size(d) == 4 ? "d" : "q") << "2mask" << bits << '(';
  as(*mask, integer(d, true));
  out_ << ") & " << some << ')';
}

void Writer::write_masked(const Step& s, const Access& a, DType d, int n, int first,
                          const Register* mask) {
  const DType whole = integer(d, true);
  const bool loads = s.op == Op::kLoad;
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  if (loads) {
    out_ << '(';
    type(d, n);
    out_ << ')';
  }
  out_ << "__builtin_ia32_" << (loads ? "load" : "store")
       << (dtype::size(d) == 4 ? "dqusi" : "dqudi") << bits << "_mask((" << (loads ? "const " : "")
       << c_type(whole) << " *)&";
  element(s, a, 0);
  out_ << ", (";
  type(whole, n);
  out_ << ')';
  if (loads) {
    out_ << "{0}";
  } else {
    name(s.operands[1]);
  }
  out_ << ", ";
  write_bits(d, n, first, mask);
  out_ << ')';
}

void Writer::load(const Step& s, const Access& a, const Register* mask) {
  const int n = lanes(*s.in), first = first_lanes(s, a);
  const DType d = s.in->dtype;
  const bool some = first < n || mask != nullptr;
  if (n > 1 && contiguous(a) && some && masks_memory(d, n)) {
    write_masked(s, a, d, n, first, mask);
  } else if (n > 1 && contiguous(a) && !some && d == DType::kBool) {
    out_ << '(';
    type(DType::kInt8, n);
    out_ << ")-*(const ";
    types_.unaligned(out_, d, n);
    out_ << " *)&";
    element(s, a, 0);
  } else if (n > 1 && contiguous(a) && !some) {
    out_ << '(';
    type(d, n);
    out_ << ")*(const ";
    types_.unaligned(out_, d, n);
    out_ << " *)&";
    element(s, a, 0);
  } else {
    if (n > 1) out_ << '(', type(held(s.id), n), out_ << "){";
    for (int lane = 0; lane < first; ++lane) {
      if (mask != nullptr) lane_of(*mask, lane) << " ? ";
      out_ << (d == DType::kBool && n > 1 ? "-" : "");
      element(s, a, lane);
      out_ << (mask != nullptr ? " : 0" : "") << (lane + 1 < first ? ", " : "");
    }
    if (n > 1) out_ << '}';
  }
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
  if (n > 1 && contiguous(a) && (first < n || mask != nullptr) && masks_memory(d, n)) {
    write_masked(s, a, d, n, first, mask);
    out_ << ";\n";
  } else if (n > 1 && contiguous(a) && mask == nullptr && !truth) {
    // Vectors of 2, 4, 8, .. lanes, as many as there are.
    for (int at = 0; at < first;) {
      const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(first - at)));
      piece(s, a, value, at, size);
      at += size;
    }
  } else {
    for (int lane = 0; lane < first; ++lane) {
      if (mask != nullptr) {
        out_ << "if (";
        lane_of(*mask, lane) << ") ";
      }
      element(s, a, lane);
      out_ << " = ";
      lane_of(value, lane) << (truth ? " & 1" : "") << ";\n";
    }
  }
  return out_.status();
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

}  // namespace c

Status render_c(RenderedC& out, const Module& module, const Target& target) {
  if (module.programs.empty() || module.programs.back().function) {
    return ASTER_FAIL(kARGUMENT, "no program to render behind %zu functions",
                      module.programs.size());
  }
  Memory& memory = out.text.memory();
  c::Types types;
  Vec<c::Wanted> wanted(memory);
  Text body(memory);
  const size_t last = module.programs.size() - 1;
  c::Writer writer(body, module, last, 1, target, types, wanted);
  ASTER_TRY(writer.run());
  out.scratch_bytes = writer.scratch_bytes();
  // Functions stand before their callers in the module: the last ones want those before them.
  Vec<Text> texts(memory);
  for (size_t i = last; i-- > 0;) {
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (wanted[w].program != i) continue;
      ASTER_TRY(texts.push(Text(memory)));
      ASTER_TRY(c::Writer(texts.back(), module, i, wanted[w].lanes, target, types, wanted).run());
    }
  }
  types.write(out.text);
  for (size_t i = texts.size(); i-- > 0;) out.text << texts[i].view();
  out.text << body.view();
  return out.text.status();
}

}  // namespace aster::codegen::program
