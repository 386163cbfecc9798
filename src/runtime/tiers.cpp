#include "runtime/tiers.h"

#include <algorithm>
#include <cstring>

#include "base/flags.h"
#include "runtime/reference/strip_program.h"

namespace aster::runtime {
namespace {

namespace program = codegen::program;
using program::Instruction;
using uop::Op;

// Nanoseconds of strips, about: of a step, which the turns of an innermost loop share; of a lane
// that is computed or moved with its neighbours, and of one that is moved alone; of combining
// lanes.
constexpr double kOfStep = 16, kOfLane = 0.2, kOfAlone = 4, kOfAcross = 40, kOfKernel = 3000;
constexpr double kTurnsTogether = 12;
// Of an operation and a byte of a kernel whose loops do not tell how often they turn.
constexpr double kOfOperation = 0.2, kOfByte = 3;

double lanes_of(const Instruction& in, double call) {
  return in.lanes == program::kAnyLanes ? call : in.lanes;
}

// Of an instruction on all its lanes, without its share of a step.
double instruction_nanoseconds(const program::Module& module, const program::Program& of,
                               const Instruction& in, double call) {
  const double lanes = lanes_of(in, call);
  if (in.op == Op::kCall) {
    const auto& called = module.programs[static_cast<size_t>(of.words(in)[0])];
    double all = 0;
    for (const Instruction& step : called.code())
      all += instruction_nanoseconds(module, called, step, lanes) + kOfStep / kTurnsTogether;
    return all;
  }
  if (program::is_access(in.op)) {
    const program::Access access = of.access(in);
    const bool rows = access.index == program::kNone && access.gate == program::kNone &&
                      access.mask == program::kNone && access.step == 1 && access.first == in.lanes;
    return lanes * (rows ? kOfLane : kOfAlone);
  }
  if (in.op == Op::kAcross) return kOfAcross;
  if (in.op == Op::kShuffle || in.op == Op::kTurn || in.op == Op::kZip) return lanes * kOfAlone;
  return lanes * kOfLane;
}

bool tells_turns(const Instruction& loop) {
  return loop.is(program::kImmediate) && loop.is(program::kImmediateHigh);
}
double turns_of(const program::Program& of, const Instruction& loop) {
  const uop::Words words = of.words(loop);
  return std::max(0.0, static_cast<double>((words[1] - words[0] + words[2] - 1) / words[2]));
}

void run(const cpu::native::Plan& plan, void* const* operands, void* scratch, int64_t begin,
         int64_t end) {
  const int64_t* const sizes = plan.words.data();
  if (void* const code = plan.later->load(std::memory_order_acquire)) {
    function_at<KernelFunction>(code)(operands, sizes, scratch, begin, end);
  } else if (plan.code != nullptr) {
    plan.code(operands, sizes, scratch, begin, end);
  } else {
    plan.strips->run(operands, sizes, scratch, begin, end);
  }
}

cpu::native::How generated(const cpu::native::Plan&) { return {"generated", false}; }

constexpr cpu::native::Implementation kTiered = {uop::Op::kSink, "tiered", nullptr, nullptr,
                                                 nullptr,        nullptr,  run,     generated};

}  // namespace

bool has_tiers() {
  const char* const said = flag_text(Flag::kTiers);
  return (said == nullptr || std::strcmp(said, "off") != 0) && reference::runs_strip_loops();
}

double strips_nanoseconds(const codegen::Rendered& kernel) {
  const double tasks = static_cast<double>(kernel.tasks);
  const double untold =
      kOfKernel + tasks * (kOfOperation * kernel.task_flops + kOfByte * kernel.task_bytes);
  if (kernel.module.programs.empty()) return untold;
  const program::Program& last = kernel.module.programs.back();
  const std::span<const Instruction> code = last.code();
  double turns[64] = {1};
  size_t depth = 0;
  double all = kOfKernel, innermost = 1;  // turns that share steps
  for (size_t i = 0; i < code.size(); ++i) {
    const Instruction& in = code[i];
    if (in.op == Op::kLoop) innermost = kTurnsTogether;
    if (program::is_block(in.op)) {
      if (++depth == std::size(turns) || (in.op == Op::kLoop && !tells_turns(in))) return untold;
      turns[depth] = turns[depth - 1] * (in.op == Op::kLoop ? turns_of(last, in) : 1);
    } else if (in.op == Op::kEnd) {
      if (--depth == 0) innermost = 1;
    } else {
      const double own = instruction_nanoseconds(kernel.module, last, in, 1) + kOfStep / innermost;
      all += turns[depth] * static_cast<double>(last.instances(in.axes)) * own;
    }
  }
  return all;
}

Status begin(cpu::native::Plan* out, const Request& request) {
  const codegen::Rendered& kernel = *request.kernel;
  if (request.at_once != nullptr) {
    out->code = function_at<KernelFunction>(request.at_once);
    out->scratch_bytes = kernel.code.scratch_bytes;
  } else {
    if (kernel.module.programs.empty() || strips_nanoseconds(kernel) > kMostByStrips)
      return ASTER_FAIL(kUNSUPPORTED, "a kernel that is not to begin without machine code");
    ASTER_TRY(reference::StripProgram::make(&out->strips, kernel.module, out->words.memory()));
    out->scratch_bytes =
        std::max(static_cast<int64_t>(out->strips->scratch_bytes()), kernel.code.scratch_bytes);
  }
  ASTER_TRY(out->words.append(kernel.sizes.data(), kernel.sizes.size()));
  out->implementation = &kTiered;
  out->later = request.later;
  out->tasks = kernel.tasks;
  return kOk;
}

bool is_beginning(const cpu::native::Plan& plan) {
  if (plan.evaluated != nullptr) return true;
  return (plan.strips != nullptr || plan.code != nullptr) &&
         (plan.later == nullptr || plan.later->load(std::memory_order_relaxed) == nullptr);
}

}  // namespace aster::runtime
