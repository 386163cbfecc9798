// The launch in OpenCL C: kernels and their arguments, tasks, groups and items, barriers, arrays.
#include "codegen/render_opencl.h"

#include <algorithm>

#include "codegen/render_c_writer.h"

namespace aster::codegen::program {
namespace c {
namespace {

constexpr int kOpenclLanes = 16;
// Of a work-item's stack.
constexpr int64_t kItemBytes = int64_t{64} << 10;

int dimension(LoopKind kind) {
  const LoopKind first = is_local(kind) ? LoopKind::kLocal0 : LoopKind::kGroup0;
  return static_cast<int>(kind) - static_cast<int>(first);
}

}  // namespace

Status Writer::check_device() {
  for (const Instruction& in : program_.code()) {
    if (has_value(in.op) && lanes(in) > kOpenclLanes) return cannot("more than 16 lanes");
    if (in.dtype == DType::kFloat64 && !target_.fp64) return cannot("float64");
  }
  return kOk;
}

Status Writer::open_kernel() {
  Word slots = 0, sizes = 0;
  for (const Instruction& in : program_.code()) {
    if (in.op != Op::kParam) continue;
    Word& count = in.is(kSize) ? sizes : slots;
    count = std::max(count, program_.words(in)[0] + 1);
  }
  out_ << "__kernel ";
  say_items();
  out_ << "void " << program_.name << '(';
  for (Word i = 0; i < slots; ++i) {
    out_ << (i == 0 ? "" : ", ") << "__global uchar *restrict p" << i << ", ulong o" << i;
  }
  for (Word i = 0; i < sizes; ++i) out_ << (i + slots == 0 ? "long s" : ", long s") << i;
  out_ << ") {\n";
  if (task_loops_ > 1) out_ << "const long item = (long)get_global_id(0);\nlong done = 0;\n";
  // Local memory is declared where the kernel begins.
  for (Id id = 0; id < program_.code().size(); ++id) {
    const Instruction& in = program_.at(id);
    if (in.op != Op::kArray || static_cast<Space>(in.kind) != Space::kLocal) continue;
    memory_type(id);
    out_ << 'm' << id << '[' << in.constant + program_.words(in)[0]
         << "] __attribute__((aligned(64)));\n";
  }
  return out_.status();
}

// Groups of one size: a compiler gives their items no more registers than there are.
void Writer::say_items() {
  Word items[3] = {1, 1, 1};
  bool any = false;
  for (const Instruction& in : program_.code()) {
    const LoopKind kind = static_cast<LoopKind>(in.kind);
    if (in.op != Op::kLoop || !is_local(kind) || !in.is(kImmediate) || !in.is(kImmediateHigh))
      continue;
    const Words words = program_.words(in);
    items[dimension(kind)] = std::max<Word>((words[1] - words[0] + words[2] - 1) / words[2], 1);
    any = true;
  }
  if (!any) return;
  out_ << "__attribute__((reqd_work_group_size(" << items[0] << ", " << items[1] << ", " << items[2]
       << "))) ";
}

void Writer::memory_type(Id memory) {
  const Instruction& in = program_.at(memory);
  if (in.op == Op::kParam) out_ << (in.is(kWrite) ? "__global " : "__global const ");
  if (in.op == Op::kArray && static_cast<Space>(in.kind) == Space::kLocal) out_ << "__local ";
  if (in.op == Op::kTable) out_ << "const ";
  type(in.dtype, 1);
  out_ << ' ';
}

Status Writer::item_array(const Step& s, int64_t elements) {
  if (static_cast<Space>(s.in->kind) == Space::kLocal) return out_.status();
  if (elements * static_cast<int64_t>(dtype::size(s.in->dtype)) > kItemBytes) {
    return cannot("an array of this size");
  }
  memory_type(s.id);
  out_ << 'm' << s.id << '[' << elements << "] __attribute__((aligned(64)));\n";
  return out_.status();
}

Status Writer::open_items(const Step& s) {
  const LoopKind kind = static_cast<LoopKind>(s.in->kind);
  if (kind == LoopKind::kTask) {
    open_item_tasks(s);
    return out_.status();
  }
  if (!s.in->is(kImmediate) || !s.in->is(kImmediateHigh)) return cannot("groups of any number");
  const Word low = s.words[0], high = s.words[1], step = s.words[2];
  const int d = dimension(kind);
  int64_t& count = is_local(kind) ? locals_[d] : groups_[d];
  const int64_t mine = high > low ? (high - low + step - 1) / step : 0;
  if (count != 0 && count != mine) return cannot("loops of items of several sizes");
  count = mine;
  items_ += is_local(kind) ? 1 : 0;
  out_ << "{\nconst ";
  type(s.in->dtype, 1);
  out_ << ' ';
  name(s.result) << " = " << low << " + (";
  type(s.in->dtype, 1);
  out_ << ')' << (is_local(kind) ? "get_local_id(" : "get_group_id(") << int32_t{d} << ") * "
       << step << ";\n";
  return out_.status();
}

void Writer::open_item_tasks(const Step& s) {
  if (task_loops_ == 1) {
    // Groups are whole: there may be more items than tasks.
    if (target_.group > 0) {
      out_ << "if (";
      bound(s, false);
      out_ << " + (long)get_global_id(0) * " << s.words[2] << " < ";
      bound(s, true);
      out_ << ") ";
    }
    out_ << "{\nconst ";
    type(s.in->dtype, 1);
    out_ << ' ';
    name(s.result) << " = ";
    bound(s, false);
    out_ << " + (", type(s.in->dtype, 1), out_ << ")get_global_id(0) * " << s.words[2] << ";\n";
    return;
  }
  if (inner_tasks(program_, s.id) != kNone)
    return turns_known(s.id) ? open_item_turn(s) : open_tasks(s);
  declare_tasks(s, "long");
  out_.format("if (item >= done && item < done + count%u) {\nconst ", s.id);
  type(s.in->dtype, 1);
  out_ << ' ';
  name(s.result) << " = ";
  out_.format("low%u + (item - done) * ", s.id) << s.words[2] << ";\n";
}

bool Writer::turns_known(Id loop) const {
  for (Id inner = inner_tasks(program_, loop); inner != kNone;
       inner = inner_tasks(program_, inner)) {
    for (Id bound : program_.operands(program_.at(inner))) {
      if (bound > loop) return false;
    }
  }
  return true;
}

void Writer::say_turn(Id loop) {
  const char* times = "";
  for (Id inner = inner_tasks(program_, loop); inner != kNone;
       inner = inner_tasks(program_, inner), times = " * ") {
    const Instruction& in = program_.at(inner);
    const Words words = program_.words(in);
    const auto bound = [&](bool high) {
      if (in.is(high ? kImmediateHigh : kImmediate)) {
        out_ << words[high ? 1 : 0] << 'l';
      } else {
        const std::span<const Id> bounds = program_.operands(in);
        out_ << "(long)", name({high ? bounds.back() : bounds.front(), 0});
      }
    };
    out_ << times << "max(0l, (", bound(true), out_ << " - ", bound(false);
    out_ << " + " << words[2] - 1 << ") / " << words[2] << ')';
  }
}

// An item goes to the turn that its task is in. Were each to walk along the loop, all together
// would take the square of their number.
void Writer::open_item_turn(const Step& s) {
  declare_tasks(s, "long");
  out_.format("const long each%u = ", s.id);
  say_turn(s.id);
  out_.format(";\nif (item >= done && item < done + count%u * each%u) {\n", s.id, s.id);
  out_.format("const long turn%u = (item - done) / each%u;\nconst ", s.id, s.id);
  type(s.in->dtype, 1);
  out_ << ' ';
  name(s.result) << " = ";
  out_.format("low%u + turn%u * ", s.id, s.id) << s.words[2];
  out_.format(";\ndone += turn%u * each%u;\n", s.id, s.id);
}

Status Writer::barrier(const Step& s) {
  if (!opencl()) return cannot("a barrier");
  const bool local = static_cast<Space>(s.in->kind) == Space::kLocal;
  out_ << (local ? "barrier(CLK_LOCAL_MEM_FENCE);\n"
                 : "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n");
  return out_.status();
}

// Items that follow see what these wrote.
void Writer::close_items(const Step& s) {
  if (!is_local(static_cast<LoopKind>(s.in->kind)) || --items_ != 0) return;
  if (!last_items(s.id)) out_ << "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n";
}

bool Writer::last_items(Id id) const {
  const std::span<const Instruction> code = program_.code();
  for (Id i = id + 1; i < code.size(); ++i) {
    if (code[i].op == Op::kLoop && is_local(static_cast<LoopKind>(code[i].kind))) return false;
  }
  return true;
}

}  // namespace c

void write_opencl_options(Text& out, const UsedTypes& used) {
  out << "#pragma OPENCL FP_CONTRACT OFF\n";
  const bool* const doubles = used.types + static_cast<int>(DType::kFloat64) * UsedTypes::kLogs;
  if (std::any_of(doubles, doubles + UsedTypes::kLogs, [](bool one) { return one; })) {
    out << "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n";
  }
  const auto uses = [&](DType d, int log) {
    return used.types[static_cast<int>(d) * UsedTypes::kLogs + log];
  };
  for (int log = 0; log <= 4; ++log) {
    if (!uses(DType::kUInt16, log) || !uses(DType::kFloat32, log)) continue;
    Text n(out.memory());
    if (log != 0) n << (int32_t{1} << log);
    const std::string_view x = n.view();
    out << "static inline float" << x << " from_half_ushort" << x << "(ushort" << x
        << " a) {\nreturn vload_half" << x << "(0, (const half *)&a);\n}\nstatic inline ushort" << x
        << " to_half_float" << x << "(float" << x << " a) {\nushort" << x << " b;\nvstore_half" << x
        << "_rte(a, 0, (half *)&b);\nreturn b;\n}\n";
  }
}

Status render_opencl(RenderedC& out, const Module& module, const Target& target) {
  if (target.language != Language::kOpencl) {
    return ASTER_FAIL(kARGUMENT, "the target's language is not OpenCL C");
  }
  return c::render_last(out, module, target);
}

}  // namespace aster::codegen::program
