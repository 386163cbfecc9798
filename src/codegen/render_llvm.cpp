// From steps to statements of LLVM IR: launches, functions and blocks.
#include "codegen/render_llvm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "codegen/render_llvm_writer.h"
#include "dtype/convert.h"

namespace aster::codegen::program {
namespace llvm {
namespace {

// Vectors stay as wide as they are written, whatever CPU a version of LLVM would split them for.
constexpr const char kAttributes[] =
    " nounwind \"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\" {\nb0:\n";

}  // namespace

// ---- Words of the language ----

Status Writer::cannot(const char* what) {
  return ASTER_FAIL(kUNSUPPORTED, "%s: no LLVM IR for %s on this target", program_.name, what);
}

Text& Writer::type(DType d, int n) {
  if (n > 1) out_ << '<' << int32_t{n} << " x ";
  if (d == DType::kFloat32 || d == DType::kFloat64) {
    out_ << (d == DType::kFloat32 ? "float" : "double");
  } else {
    out_ << 'i' << (d == DType::kBool ? 1 : static_cast<int32_t>(dtype::bits(d)));
  }
  return n > 1 ? out_ << '>' : out_;
}

void Writer::suffix(Text& out, DType d, int n) {
  if (n > 1) out << 'v' << int32_t{n};
  const bool real = d == DType::kFloat32 || d == DType::kFloat64;
  out << (real ? 'f' : 'i') << (d == DType::kBool ? 1 : static_cast<int32_t>(dtype::bits(d)));
}

void Writer::scalar(DType d, Word word) {
  if (dtype::is_narrow_float(d)) {
    uint16_t bits = 0;  // as it is stored
    dtype::store_double(d, &bits, std::bit_cast<double>(word));
    out_ << uint32_t{bits};
  } else if (d == DType::kBool) {
    out_ << (word != 0 ? "true" : "false");
  } else if (!dtype::is_float(d)) {
    out_ << word;
  } else {
    out_.format("0x%016llX", static_cast<unsigned long long>(word));
  }
}

Text& Writer::literal(DType d, int n, Word word) {
  if (n == 1) return scalar(d, word), out_;
  if (word == 0) return out_ << "zeroinitializer";
  for (int i = 0; i < n; ++i) {
    out_ << (i == 0 ? "<" : ", ");
    type(d, 1) << ' ';
    scalar(d, word);
  }
  return out_ << '>';
}

uint32_t Writer::begin() {
  const uint32_t n = fresh();
  number(n) << " = ";
  return n;
}

bool Writer::is_literal(Register r) const {
  const Instruction* in = &program_.at(r.value);
  if (in->op == Op::kAxis || in->op == Op::kLanes) return true;
  if (in->op == Op::kSpread) in = &program_.at(program_.operands(*in)[0]);
  return in->op == Op::kConst;
}

Writer::Operand Writer::use(Register r) {
  if (program_.at(r.value).op != Op::kAcc) return {r, 0};
  const uint32_t n = begin();
  out_ << "load ";
  type_of(r) << ", ";
  type_of(r) << "* %a" << r.value << '_' << r.instance << '\n';
  return {r, n};
}

Text& Writer::put(const Operand& x) {
  if (x.loaded != 0) return number(x.loaded);
  const Instruction& in = program_.at(x.at.value);
  const int n = lanes(in);
  if (!is_literal(x.at)) return out_ << "%t" << x.at.value << '_' << x.at.instance;
  if (in.op == Op::kAxis) return out_ << x.at.instance;
  if (in.op == Op::kLanes) {
    for (int i = 0; i < n; ++i) {
      out_ << (i == 0 ? "<" : ", ");
      type(in.dtype, 1) << ' ' << int32_t{i};
    }
    return out_ << '>';
  }
  const Instruction& from = in.op == Op::kConst ? in : program_.at(program_.operands(in)[0]);
  return literal(in.dtype, n, program_.words(from)[0]);
}

Text& Writer::define(const Step& s) {
  return out_ << "%t" << s.result.value << '_' << s.result.instance << " = ";
}

Status Writer::declare(std::string_view text) {
  const size_t at = text.find('@'), end = text.find('(', at);
  const std::string_view name = text_slice(text, at + 1, end - at - 1);
  for (const RenderedFunction& one : unit_.functions) {
    if (one.name == name) return kOk;
  }
  ASTER_TRY(unit_.functions.push(RenderedFunction(out_.memory())));
  RenderedFunction& one = unit_.functions.back();
  if (name.size() >= sizeof(one.name)) return ASTER_FAIL(kINTERNAL, "a long name");
  std::ranges::copy(name, one.name);
  one.text << text << '\n';
  return one.text.status();
}

void Writer::branch(const Operand& condition, uint32_t yes, uint32_t no) {
  out_ << "br i1 ";
  put(condition) << ", label %b" << yes << ", label %b" << no << '\n';
}

// ---- Function and launch ----

Status Writer::run() {
  ASTER_TRY(program_.function ? open_function() : open_program());
  if (program_.function && in_halves()) {
    ASTER_TRY(halved());
  } else {
    allocate();
    Walker<Writer> walker(program_, *this);
    ASTER_TRY(walker.run());
  }
  if (streams_) {
    ASTER_TRY(declare("declare void @llvm.x86.sse.sfence()"));
    out_ << "call void @llvm.x86.sse.sfence()\n";
  }
  out_ << (program_.function ? "}\n" : "ret void\n}\n") << tables_.view();
  ASTER_TRY(tables_.status());
  return out_.status();
}

const Instruction* Writer::argument(Word slot) const {
  for (const Instruction& in : program_.code()) {
    if (in.op == Op::kParam && program_.words(in)[0] == slot) return &in;
  }
  return nullptr;
}

void Writer::function_name(const Program& function, Wanted what) {
  out_ << '@' << function.name << "_x" << int32_t{what.lanes} << (what.cold ? "_cold" : "") << '(';
}

Status Writer::want(Wanted what) {
  return std::ranges::find(wanted_, what) == wanted_.end() ? wanted_.push(what) : kOk;
}

Status Writer::open_function() {
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  out_ << "define internal ";
  argument_type(result);
  out_ << ' ';
  function_name(program_, what_);
  for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
    out_ << (slot == 0 ? "" : ", ");
    argument_type(*in);
    out_ << " %x" << slot;
  }
  out_ << ')' << (what_.cold ? " noinline cold" : " alwaysinline") << kAttributes;
  return out_.status();
}

Status Writer::open_program() {
  for (const Instruction& in : program_.code()) {
    task_loops_ += in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask) ? 1 : 0;
  }
  out_ << "define void @" << program_.name
       << "(i8** %params, i64* %sizes, i8* %scratch, i64 %begin, i64 %end)" << kAttributes;
  if (task_loops_ > 1) out_ << "%done = alloca i64\nstore i64 0, i64* %done\n";
  return out_.status();
}

// Registers, counters and arrays: what is on the stack stands in front of all else.
void Writer::allocate() {
  for (Id id = 0; id < program_.code().size(); ++id) {
    const Instruction& in = program_.at(id);
    if (in.op == Op::kAcc) {
      for (size_t i = 0; i < program_.instances(in.axes); ++i) {
        out_ << "%a" << id << '_' << static_cast<uint64_t>(i) << " = alloca ";
        type(in.dtype, lanes(in)) << '\n';
      }
    } else if (in.op == Op::kLoop) {
      out_ << "%i" << id << " = alloca ";
      type(counter_of(id), 1) << '\n';
    } else if (in.op == Op::kArray && static_cast<Space>(in.kind) == Space::kPrivate) {
      const int64_t elements = in.constant + program_.words(in)[0];
      const auto whole = [&] {
        out_ << '[' << elements << " x ";
        memory_type(in.dtype) << ']';
      };
      out_ << "%m" << id << ".all = alloca ", whole();
      out_ << ", align 64\n%m" << id << " = bitcast ", whole();
      out_ << "* %m" << id << ".all to ", memory_type(in.dtype) << "*\n";
    }
  }
}

// Whether vectors are wider than those of the target: two calls then.
bool Writer::in_halves() const {
  int widest = 1;
  for (const Instruction& in : program_.code()) {
    if (has_value(in.op) && in.lanes == kAnyLanes)
      widest = std::max(widest, static_cast<int>(dtype::size(in.dtype)));
  }
  return what_.lanes > 1 && widest * what_.lanes > target_.register_bytes();
}

Status Writer::halved() {
  const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
  const Wanted half{what_.program, static_cast<uint8_t>(what_.lanes / 2), what_.cold};
  // Lanes [from, from + count) of two vectors, behind their names.
  const auto lanes_from = [&](int from, int count) {
    out_ << ", <" << int32_t{count} << " x i32> <";
    for (int i = 0; i < count; ++i) out_ << (i == 0 ? "i32 " : ", i32 ") << int32_t{from + i};
    out_ << ">\n";
  };
  uint32_t made[2];
  for (const int part : {0, 1}) {
    uint32_t arguments[8] = {};
    for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
      if (in->lanes != kAnyLanes) continue;
      if (slot >= 8) return cannot("a function of so many arguments");
      arguments[slot] = begin();
      out_ << "shufflevector ";
      argument_type(*in);
      out_ << " %x" << slot << ", ";
      argument_type(*in);
      out_ << " poison";
      lanes_from(part * half.lanes, half.lanes);
    }
    made[part] = begin();
    out_ << "call ";
    type(result.dtype, half.lanes) << ' ';
    function_name(program_, half);
    for (Word slot = 0; const Instruction* in = argument(slot); ++slot) {
      out_ << (slot == 0 ? "" : ", ");
      const bool whole = in->lanes != kAnyLanes;
      type(in->dtype, whole ? in->lanes : half.lanes) << ' ';
      whole ? void(out_ << "%x" << slot) : void(number(arguments[slot]));
    }
    out_ << ")\n";
  }
  const uint32_t all = begin();
  out_ << "shufflevector ";
  type(result.dtype, half.lanes) << ' ';
  number(made[0]) << ", ";
  type(result.dtype, half.lanes) << ' ';
  number(made[1]);
  lanes_from(0, what_.lanes);
  out_ << "ret ";
  argument_type(result);
  out_ << ' ', number(all) << '\n';
  return want(half);
}

// ---- Blocks ----

Status Writer::open(const Step& s) {
  if (s.op == Op::kIf) {
    ++conditions_;
    const Operand condition = use(s.operands[0]);
    const uint32_t inside = label(), behind = label();
    ASTER_TRY(scopes_.push(Scope{known_.size(), 0, behind}));
    branch(condition, inside, behind);
    start(inside);
    return out_.status();
  }
  return counts_tasks(s.id) ? open_tasks(s) : open_loop(s);
}

Status Writer::close(const Step& s) {
  const Scope scope = scopes_.back();
  scopes_.pop();
  if (s.op == Op::kIf) {
    --conditions_;
    jump(scope.behind);
  } else {
    const DType counter = counter_of(s.id);
    const auto variable = [&]() -> Text& {
      type(counter, 1) << "* %i" << s.id;
      return out_;
    };
    const uint32_t now = begin();
    out_ << "load ", type(counter, 1) << ", ", variable() << '\n';
    const uint32_t next = begin();
    out_ << "add ", type(counter, 1) << ' ';
    number(now) << ", " << (counts_tasks(s.id) ? 1 : s.words[2]) << "\nstore ";
    type(counter, 1) << ' ', number(next) << ", ", variable() << '\n';
    jump(scope.head);
  }
  known_.truncate(scope.known);
  start(scope.behind);
  if (scope.count != 0) {
    const uint32_t done = begin();
    out_ << "load i64, i64* %done\n";
    const uint32_t sum = begin();
    out_ << "add i64 ", number(done) << ", ", number(scope.count) << "\nstore i64 ";
    number(sum) << ", i64* %done\n";
  }
  return out_.status();
}

// Outer loops of tasks are gone along; the innermost counts those that are asked for.
bool Writer::counts_tasks(Id loop) const {
  return program_.at(loop).kind == static_cast<uint8_t>(LoopKind::kTask) &&
         (task_loops_ == 1 || inner_tasks(program_, loop) == kNone);
}

DType Writer::counter_of(Id loop) const {
  return counts_tasks(loop) ? DType::kInt64 : program_.at(loop).dtype;
}

// An end of a loop in i64.
uint32_t Writer::wide_bound(const Step& s, bool high) {
  const bool immediate = s.in->is(high ? kImmediateHigh : kImmediate);
  Operand x;
  if (!immediate) x = use(high ? s.operands.back() : s.operands.front());
  const uint32_t n = begin();
  const DType d = s.in->dtype;
  if (immediate) {
    out_ << "bitcast i64 " << s.words[high ? 1 : 0];
  } else {
    out_ << (d == DType::kInt64 ? "bitcast " : "sext "), typed(x);
  }
  out_ << " to i64\n";
  return n;
}

// The branch at the end of a loop's head.
Status Writer::enter(uint32_t head, uint32_t goes_on, uint32_t count) {
  const uint32_t inside = label(), behind = label();
  ASTER_TRY(scopes_.push(Scope{known_.size(), head, behind, count}));
  out_ << "br i1 ", number(goes_on) << ", label %b" << inside << ", label %b" << behind << '\n';
  start(inside);
  return out_.status();
}

Status Writer::open_loop(const Step& s) {
  const DType d = s.in->dtype;
  const auto put_bound = [&](bool high, const Operand& x) {
    if (s.in->is(high ? kImmediateHigh : kImmediate)) {
      out_ << s.words[high ? 1 : 0];
    } else {
      put(x);
    }
  };
  Operand low, high;
  if (!s.in->is(kImmediate)) low = use(s.operands.front());
  out_ << "store ", type(d, 1) << ' ', put_bound(false, low);
  out_ << ", ", type(d, 1) << "* %i" << s.id << '\n';
  const uint32_t head = label();
  jump(head);
  start(head);
  if (!s.in->is(kImmediateHigh)) high = use(s.operands.back());
  define(s) << "load ", type(d, 1) << ", ", type(d, 1) << "* %i" << s.id << '\n';
  const uint32_t goes_on = begin();
  out_ << "icmp slt ", type(d, 1) << ' ', put({s.result, 0}) << ", ", put_bound(true, high);
  out_ << '\n';
  return enter(head, goes_on, 0);
}

Status Writer::open_tasks(const Step& s) {
  const bool only = task_loops_ == 1;
  const auto line = [&](auto... parts) {
    const uint32_t n = begin();
    (write_part(parts), ...);
    out_ << '\n';
    return n;
  };
  const uint32_t low = wide_bound(s, false);
  uint32_t count = 0, done = 0;
  if (!only) {
    const uint32_t high = wide_bound(s, true);
    const uint32_t length = line("sub i64 ", Number{high}, ", ", Number{low});
    const uint32_t up = line("add i64 ", Number{length}, ", ", s.words[2] - 1);
    const uint32_t steps = line("sdiv i64 ", Number{up}, ", ", s.words[2]);
    const uint32_t some = line("icmp sgt i64 ", Number{length}, ", 0");
    count = line("select i1 ", Number{some}, ", i64 ", Number{steps}, ", i64 0");
    done = line("load i64, i64* %done");
  }
  if (only) {
    out_ << "store i64 %begin, i64* %i" << s.id << '\n';
  } else {
    const uint32_t left = line("sub i64 %begin, ", Number{done});
    const uint32_t some = line("icmp sgt i64 ", Number{left}, ", 0");
    const uint32_t first = line("select i1 ", Number{some}, ", i64 ", Number{left}, ", i64 0");
    out_ << "store i64 ", number(first) << ", i64* %i" << s.id << '\n';
  }
  const uint32_t end = only ? 0 : line("sub i64 %end, ", Number{done});
  const uint32_t head = label();
  jump(head);
  start(head);
  const uint32_t task = line("load i64, i64* %i", Word{s.id});
  uint32_t goes_on = 0;
  if (only) {
    goes_on = line("icmp slt i64 ", Number{task}, ", %end");
  } else {
    const uint32_t inside = line("icmp slt i64 ", Number{task}, ", ", Number{count});
    const uint32_t asked = line("icmp slt i64 ", Number{task}, ", ", Number{end});
    goes_on = line("and i1 ", Number{inside}, ", ", Number{asked});
  }
  ASTER_TRY(enter(head, goes_on, count));
  const uint32_t far = line("mul i64 ", Number{task}, ", ", s.words[2]);
  const uint32_t at = line("add i64 ", Number{far}, ", ", Number{low});
  const bool wide = s.in->dtype == DType::kInt64;
  define(s) << (wide ? "bitcast i64 " : "trunc i64 "), number(at) << " to ";
  type(s.in->dtype, 1) << '\n';
  return out_.status();
}

namespace {

Status write_function(RenderedC& out, const Module& module, Wanted what, const Target& target,
                      Vec<Wanted>& wanted) {
  RenderedFunction function(out.text.memory());
  std::snprintf(function.name, sizeof(function.name), "%s_x%d%s",
                module.programs[what.program].name, int{what.lanes}, what.cold ? "_cold" : "");
  ASTER_TRY(Writer(out, function.text, module, what, target, wanted).run());
  return out.functions.push(std::move(function));
}

}  // namespace
}  // namespace llvm

Status render_llvm(RenderedC& out, const Module& module, const Target& target) {
  if (module.programs.empty() || module.programs.back().function) {
    return ASTER_FAIL(kARGUMENT, "no program to render behind %zu functions",
                      module.programs.size());
  }
  if (target.vector_bytes < 16) return ASTER_FAIL(kUNSUPPORTED, "LLVM IR is of x86 here");
  Vec<llvm::Wanted> wanted(out.text.memory());
  const size_t last = module.programs.size() - 1;
  llvm::Writer writer(out, out.text, module, {last, 1, false}, target, wanted);
  ASTER_TRY(writer.run());
  out.scratch_bytes = writer.scratch_bytes();
  out.llvm = true;
  // Functions stand before their callers in the module: the last ones want those before them.
  for (size_t i = last; i-- > 0;) {
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (wanted[w].program == i)
        ASTER_TRY(llvm::write_function(out, module, wanted[w], target, wanted));
    }
  }
  return out.text.status();
}

void write_llvm_head(Text& out) {
  out << "target triple = \"x86_64-unknown-linux-gnu\"\n!0 = !{i32 1}\n";
}

}  // namespace aster::codegen::program
