// From steps to statements: launches, functions and blocks. A register is a variable
// t<value>_<instance>.
#include "codegen/render_c.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "codegen/render_c_writer.h"

namespace aster::codegen::program {
namespace c {

Status Writer::run() {
  ASTER_TRY(masks_.resize(program_.code().size(), DType::kInt32));
  if (opencl()) ASTER_TRY(check_device());
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
  if (streams_ && !opencl()) out_ << "__builtin_ia32_sfence();\n";
  out_ << "}\n";
  return out_.status();
}

Status Writer::step(const Step& s) {
  if (s.op == Op::kBarrier) return barrier(s);
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
    const bool unlikely = program_.function && !opencl();
    out_ << (unlikely ? "if (__builtin_expect(" : "if (");
    operand(s, 0);
    out_ << (unlikely ? ", 0)) {\n" : ") {\n");
  } else if (opencl() && s.in->kind != 0) {
    return open_items(s);
  } else if (s.in->kind == static_cast<uint8_t>(LoopKind::kTask)) {
    open_tasks(s);
  } else {
    open_loop(s);
  }
  return out_.status();
}

Status Writer::close(const Step& s) {
  out_ << "}\n";
  if (s.op == Op::kIf) --conditions_;
  if (opencl() && s.op == Op::kLoop) close_items(s);
  const bool task = s.op == Op::kLoop && s.in->kind == static_cast<uint8_t>(LoopKind::kTask);
  if (!task || task_loops_ == 1) return out_.status();
  if (inner_tasks(program_, s.id) == kNone) {
    out_ << "done += count" << s.id << ";\n}\n";
  } else if (opencl() && turns_known(s.id)) {
    out_ << "else done += count" << s.id << " * each" << s.id << ";\n}\n";
  }
  return out_.status();
}

Status Writer::cannot(const char* what) {
  return ASTER_FAIL(kUNSUPPORTED, "%s: no %s for %s on this target", program_.name,
                    opencl() ? "OpenCL C" : "C", what);
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
  if (opencl()) {
    out_ << (what_.cold ? "static __attribute__((noinline)) " : "static inline ");
  } else {
    out_ << "static "
         << (what_.cold ? "__attribute__((noinline, cold, unused)) "
                        : "inline __attribute__((always_inline, unused)) ");
  }
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
  const int room = target_.register_bytes();
  if (widest * call_lanes_ > room) return call_lanes_ / 2;
  const bool widens = real * call_lanes_ < 16 && real != 0 && widest * (16 / real) <= room;
  return widens ? 16 / real : call_lanes_;
}

void Writer::call_with(Wanted what, int first) {
  function_name(program_, what);
  for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
    out_ << (slot == 0 ? "" : ", ");
    if (in->lanes == kAnyLanes) {
      Word which[kMaxLanes];
      for (int i = 0; i < what.lanes; ++i) which[i] = (first + i) % call_lanes_;
      const auto write = [&](size_t) { out_ << 'a' << slot; };
      shuffled(argument_type(*in), call_lanes_, {which, static_cast<size_t>(what.lanes)}, write);
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
  out_ << ";\nreturn ";
  const Word first[4] = {0, 1, 2, 3};
  shuffled(argument_type(result), wide, {first, static_cast<size_t>(call_lanes_)},
           [&](size_t) { out_ << 'y'; });
  out_ << ";\n";
  return want(what);
}

Status Writer::lane_by_lane() {
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  const Wanted what{what_.program, 1, what_.cold};
  out_ << "return ";
  open_vector(argument_type(result), call_lanes_);
  for (int lane = 0; lane < call_lanes_; ++lane) {
    out_ << (lane == 0 ? "" : ", ") << (result.dtype == DType::kBool ? "-" : "");
    function_name(program_, what);
    for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
      out_ << (slot == 0 ? "a" : ", a") << slot;
      if (in->lanes != kAnyLanes) continue;
      lane_suffix(lane) << (in->dtype == DType::kBool ? " != 0" : "");
    }
    out_ << ')';
  }
  close_vector() << ";\n";
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
  out_ << "return ";
  Word all[kMaxLanes];
  for (int i = 0; i < call_lanes_; ++i) all[i] = i;
  shuffled(argument_type(result), half, {all, static_cast<size_t>(call_lanes_)},
           [&](size_t part) { out_ << 'y' << part; });
  out_ << ";\n";
  return want(what);
}

DType Writer::argument_type(const Instruction& in) const {
  return in.dtype == DType::kBool && lanes(in) > 1 ? DType::kInt32 : in.dtype;
}

Status Writer::open_program() {
  for (const Instruction& in : program_.code()) {
    task_loops_ += in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask) ? 1 : 0;
  }
  if (opencl()) return open_kernel();
  out_ << "void " << program_.name
       << "(void *const *params, const long long *sizes, void *scratch, long long begin, "
          "long long end) {\n(void)sizes, (void)scratch, (void)params, (void)begin, (void)end;\n"
       << (task_loops_ > 1 ? "long long done = 0;\n" : "");
  return out_.status();
}

void Writer::declare_tasks(const Step& s, const char* integer) {
  const uint32_t n = s.id;
  const auto step = static_cast<long long>(s.words[2]);
  out_.format("{\nconst %s low%u = ", integer, n);
  bound(s, false);
  out_.format(", high%u = ", n);
  bound(s, true);
  out_.format(", count%u = high%u > low%u ? (high%u - low%u + %lld) / %lld : 0;\n", n, n, n, n, n,
              step - 1, step);
}

void Writer::open_tasks(const Step& s) {
  const bool innermost = inner_tasks(program_, s.id) == kNone;
  if (task_loops_ == 1) {
    out_ << "for (long long task = begin; task < end; ++task) {\nconst ";
    type(s.in->dtype, 1);
    out_ << ' ';
    name(s.result) << " = ";
    bound(s, false);
    out_ << " + task * " << s.words[2] << ";\n";
    return;
  }
  const auto write = [&](const char* text) { out_ << text << s.id; };
  if (innermost) {
    declare_tasks(s, "long long");
    out_ << "for (long long ";
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
  open_loop(s);
}

void Writer::open_loop(const Step& s) {
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

namespace {

void write_name(char (&name)[kMaxName + 16], const Program& program, Wanted what) {
  std::snprintf(name, sizeof(name), "%s_x%d%s", program.name, int{what.lanes},
                what.cold ? "_cold" : "");
}

}  // namespace

Status render_last(RenderedC& out, const Module& module, const Target& target) {
  if (module.programs.empty() || module.programs.back().function) {
    return ASTER_FAIL(kARGUMENT, "no program to render behind %zu functions",
                      module.programs.size());
  }
  Memory& memory = out.text.memory();
  Types types(out.types, target.language);
  Vec<Wanted> wanted(memory);
  const size_t last = module.programs.size() - 1;
  Writer writer(out.text, module, {last, 1, false}, target, types, wanted);
  ASTER_TRY(writer.run());
  out.scratch_bytes = writer.scratch_bytes();
  out.streams = writer.streams();
  std::ranges::copy(writer.groups(), out.groups);
  std::ranges::copy(writer.locals(), out.locals);
  // Functions stand before their callers in the module: the last ones want those before them.
  for (size_t i = last; i-- > 0;) {
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (wanted[w].program != i) continue;
      ASTER_TRY(out.functions.push(RenderedFunction(memory)));
      RenderedFunction& function = out.functions.back();
      write_name(function.name, module.programs[i], wanted[w]);
      ASTER_TRY(Writer(function.text, module, wanted[w], target, types, wanted).run());
    }
  }
  std::reverse(out.functions.begin(), out.functions.end());
  return out.text.status();
}

}  // namespace c

Status render_c(RenderedC& out, const Module& module, const Target& target) {
  return c::render_last(out, module, target);
}

}  // namespace aster::codegen::program
