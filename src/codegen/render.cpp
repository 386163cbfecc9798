#include <cstdio>
#include <cstring>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "codegen/render_c.h"
#include "codegen/render_llvm.h"
#include "codegen/render_opencl.h"
#include "codegen/sizes.h"
#include "codegen/title.h"

namespace aster::codegen {
namespace {

// By kernel, target and plan: equal names mean equal text.
void name_kernel(char (&name)[64], const program::Digest& kernel, const Plan& plan) {
  program::Mixer mix;
  for (const program::Digest& part : {digest(plan), kernel})
    mix.word(part.low), mix.word(part.high);
  const program::Digest all = mix.get();
  std::snprintf(name, sizeof(name), "r_%016llx%016llx", static_cast<unsigned long long>(all.high),
                static_cast<unsigned long long>(all.low));
}

// What C is made for: of a portable one nothing is assumed.
Target c_target(const Target& target) {
  Target out = target;
  if (target.portable) {
    out.vector_bytes = 0;
    out.fma = out.f16c = out.avx512 = out.vnni = out.streaming = false;
  }
  return out;
}

bool computes_in(const program::Module& module, DType dtype) {
  for (const program::Program& one : module.programs) {
    for (const program::Instruction& in : one.code()) {
      if (in.dtype == dtype) return true;
    }
  }
  return false;
}

Status render_module(program::RenderedC& out, const program::Module& module, const Target& target) {
  if (target.language == Language::kOpencl) return program::render_opencl(out, module, target);
  if (!target.fp64 && computes_in(module, DType::kFloat64))
    return ASTER_FAIL(kUNSUPPORTED, "a kernel in float64, which the device has not");
  if (target.language == Language::kProgram) return program::print(out.text, module);
  if (target.llvm) {
    const SavedError before;
    const Status status = program::render_llvm(out, module, target);
    if (status.code != ASTER_ML_UNSUPPORTED) return status;
    before.restore();
    out = program::RenderedC(out.text.memory());
  }
  return program::render_c(out, module, c_target(target));
}

// A plan from outside, or the planner's own.
Status take_plan(Plan* out, const Plan** taken, const Plan* given, const Kernel& kernel,
                 const Target& target, Memory& memory) {
  *taken = given != nullptr ? given : out;
  return given != nullptr ? check(*given, kernel, target) : make_plan(out, kernel, target, memory);
}

}  // namespace

Status lower_kernel(program::Module* out, const char* name, Node node, const Target& target,
                    Memory& memory, const Plan* given) {
  Kernel kernel(memory);
  ASTER_TRY(kernel.analyse(node));
  Plan own(memory);
  const Plan* plan = nullptr;
  ASTER_TRY(take_plan(&own, &plan, given, kernel, target, memory));
  char hashed[64];
  program::Digest digest;
  if (name == nullptr) {
    ASTER_TRY(digest_kernel(&digest, node, target, memory));
    name_kernel(hashed, digest, *plan);
  }
  ASTER_TRY(lower_program(out, name != nullptr ? name : hashed, kernel, *plan, target, memory));
  return given == nullptr ? kOk : program::verify(*out, {true});
}

Status digest_kernel(program::Digest* out, Node sink, const Target& target, Memory& memory) {
  Vec<Node> order(memory);
  ASTER_TRY(uop::toposort(&order, std::array{sink}));
  Map<Node, uint64_t> numbers(memory);
  program::Mixer mix;
  for (const bool flag : {target.fma, target.f16c, target.avx512, target.vnni, target.streaming,
                          target.fp64, target.portable}) {
    mix.word(flag ? 1 : 0);
  }
  mix.word(static_cast<uint64_t>(target.language));
  mix.word(static_cast<uint64_t>(target.max_lanes));
  mix.word(static_cast<uint64_t>(target.vector_bytes));
  mix.word(static_cast<uint64_t>(target.group));
  if (target.group > 0) {
    mix.word(static_cast<uint64_t>(target.group_limit));
    mix.word(static_cast<uint64_t>(target.local_bytes));
  }
  for (Node node : order) {
    mix.word(static_cast<uint64_t>(node->op) << 32 | static_cast<uint64_t>(node->dtype) << 16 |
             node->ndim);
    mix.word(static_cast<uint64_t>(node->nsrc) << 32 | node->narg);
    for (Node source : node->src()) mix.word(numbers.get(source, 0));
    for (uop::Word word : node->arg()) mix.word(static_cast<uint64_t>(word));
    for (uop::Word word : node->shape()) mix.word(static_cast<uint64_t>(word));
    ASTER_TRY(numbers.set(node, numbers.size() + 1));
  }
  *out = mix.get();
  return kOk;
}

Status plan_kernel(Plan* out, Node node, const Target& target, Memory& memory, uint64_t constants) {
  Kernel kernel(memory);
  ASTER_TRY(kernel.analyse(node));
  kernel.constants = constants;
  return make_plan(out, kernel, target, memory);
}

Status lower_general(program::Module* out, Plan* general, const char* name, const Kernel& kernel,
                     const Plan& plan, const Target& target, Memory& memory) {
  general->general = true;
  ASTER_TRY(make_plan(general, kernel, target, memory));
  if (!folds_alike(*general, plan)) {
    ASTER_TRY(copy(general, plan));
    general->general = true;
    take_few_copies(general, kernel);
    choose_rests(general, kernel);
  }
  return lower_program(out, name, kernel, *general, target, memory);
}

namespace {

// The kernel for its own sizes; no text where its code is at hand.
Status write_own(Rendered& out, const Kernel& kernel, const Plan& plan, const Target& target,
                 bool from_outside, Memory& memory) {
  program::Module module(memory);
  ASTER_TRY(lower_program(&module, out.name, kernel, plan, target, memory));
  if (from_outside) ASTER_TRY(program::verify(module, {true}));
  out.code.scratch_bytes = program::scratch_bytes(module.programs.back());
  if (!out.at_hand) ASTER_TRY(render_module(out.code, module, target));
  out.module = std::move(module);
  return kOk;
}

// Unless its code is at hand. *taken: the plan that it has.
Status write_shared(Rendered& out, const Plan** taken, Plan* general, const Kernel& kernel,
                    const Plan& plan, const Target& target, SizeClasses& classes, Memory& memory) {
  program::Module module(memory);
  ASTER_TRY(lower_general(&module, general, out.name, kernel, plan, target, memory));
  ASTER_TRY(classes.choose(&module, &out));
  if (!out.sizes.empty()) {
    *taken = general;
    out.code.scratch_bytes = program::scratch_bytes(module.programs.back());
    if (out.at_hand) return kOk;  // and the module is of these sizes
    ASTER_TRY(render_module(out.code, module, target));
    out.module = std::move(module);
    return kOk;
  }
  out.at_hand = classes.is_at_hand(out.name);
  // Of code that is at hand, the program tells how much scratch memory it needs.
  const bool packs = std::ranges::any_of(
      plan.segments, [](const SegmentPlan& segment) { return !segment.packed.empty(); });
  return out.at_hand && !packs ? kOk : write_own(out, kernel, plan, target, false, memory);
}

// Whether a program reads or writes a param.
bool uses(const program::Program& program, program::Word slot) {
  const auto is_param = [&](program::Id id) {
    const program::Instruction& in = program.at(id);
    return in.op == Op::kParam && !in.is(program::Flag::kSize) && program.words(in)[0] == slot;
  };
  return std::ranges::any_of(program.code(), [&](const program::Instruction& in) {
    return std::ranges::any_of(program.operands(in), is_param);
  });
}

// Makes one of the copies that a plan has ready.
Status write_copy(Rendered* out, const Kernel& kernel, const Plan& plan, int number,
                  const Target& target, Memory& memory) {
  program::Module module(memory);
  ASTER_TRY(lower_ready(&module, "copy", kernel, plan, number, target, memory));
  program::Program& last = module.programs.back();
  const program::Digest digest = last.digest();
  std::snprintf(out->name, sizeof(out->name), "c_%016llx%016llx",
                static_cast<unsigned long long>(digest.high),
                static_cast<unsigned long long>(digest.low));
  static_assert(sizeof(out->name) <= sizeof(last.name));
  std::memcpy(last.name, out->name, sizeof(out->name));
  out->code.scratch_bytes = program::scratch_bytes(last);
  ASTER_TRY(render_module(out->code, module, target));
  out->module = std::move(module);
  return out->code.text.status();
}

Status write_copies(Constants* out, const Kernel& kernel, const Plan& plan,
                    const program::Module& module, const Target& target, Memory& memory) {
  Vec<ReadyCopy> ready(memory);
  ASTER_TRY(find_ready(&ready, kernel, plan));
  for (const ReadyCopy& copy : ready) {
    const auto number = static_cast<int>(&copy - ready.data());
    const Node param = copy.access->node->src(0);
    ConstantCopy one(memory);
    ASTER_TRY(write_copy(&one.code, kernel, plan, number, target, memory));
    one.source = static_cast<int>(param->arg(0));
    one.dtype = param->dtype;
    one.elements = copy.elements;
    one.padded = copy.padded;
    one.alone = !uses(module.programs.back(), one.source);
    ASTER_TRY(out->copies.push(std::move(one)));
  }
  return kOk;
}

}  // namespace

Status render(Rendered& out, uop::Graph& graph, uop::Node node, const Target& target,
              SizeClasses* classes, const Plan* given, Constants* constants) {
  if (node == nullptr) return ASTER_FAIL(kINTERNAL, "no kernel");
  Memory& memory = graph.memory();
  if (given != nullptr) classes = nullptr;  // a plan from outside is for these sizes
  program::Digest digest;
  ASTER_TRY(digest_kernel(&digest, node, target, memory));
  bool met = false;
  if (classes != nullptr) ASTER_TRY(classes->recall(&out, &met, digest));
  if (met) return kOk;
  Kernel kernel(memory);
  ASTER_TRY(kernel.analyse(node));
  if (constants != nullptr) kernel.constants = constants->slots;
  Plan own(memory), general(memory);
  const Plan* plan = nullptr;
  ASTER_TRY(take_plan(&own, &plan, given, kernel, target, memory));
  if (has_items(*plan)) classes = nullptr;
  name_kernel(out.name, digest, *plan);
  ASTER_TRY(write_title(out.title, node, memory));
  const Plan* taken = plan;
  const Status written =
      classes == nullptr
          ? write_own(out, kernel, *plan, target, given != nullptr, memory)
          : write_shared(out, &taken, &general, kernel, *plan, target, *classes, memory);
  // More than a program may have of the planner's own is nobody's mistake.
  if (given == nullptr && written.code == ASTER_ML_ARGUMENT)
    return ASTER_FAIL(kUNSUPPORTED, "%s", SavedError::message());
  ASTER_TRY(written);
  out.tasks = 0;
  for (int root : kernel.roots) out.tasks += task_count(kernel, taken->at(root));
  const Work work = work_of(kernel);
  out.task_flops = work.flops / static_cast<double>(out.tasks);
  out.task_bytes = work.bytes / static_cast<double>(out.tasks);
  ASTER_TRY(out.code.text.status());
  if (constants != nullptr)
    ASTER_TRY(write_copies(constants, kernel, *plan, out.module, target, memory));
  return classes != nullptr ? classes->remember(digest, out) : kOk;
}

namespace {

Status write_one(Text& out, const program::RenderedC& code, const Target& target) {
  const program::RenderedC* const one[] = {&code};
  if (target.language != Language::kProgram) return program::write_unit(out, one, c_target(target));
  out << code.text.view();
  return out.status();
}

}  // namespace

Status render_unit(Text& out, const Rendered& kernel, const Target& target) {
  return write_one(out, kernel.code, target);
}

Status render_unit(Text& out, std::span<const program::RenderedC* const> kernels,
                   const Target& target) {
  return program::write_unit(out, kernels, c_target(target));
}

Status render_text(Text& out, const program::Module& module, const Target& target,
                   program::RenderedC* code) {
  program::RenderedC own(out.memory());
  if (code == nullptr) code = &own;
  ASTER_TRY(render_module(*code, module, target));
  return write_one(out, *code, target);
}

}  // namespace aster::codegen
