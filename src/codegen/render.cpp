#include <cstdio>
#include <cstring>

#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "codegen/render_c.h"
#include "codegen/render_opencl.h"
#include "codegen/sizes.h"
#include "codegen/title.h"

namespace aster::codegen {
namespace {

// Two hashes of the kernel's structure, its plan and the target: equal ones mean equal text.
Status name_kernel(char (&name)[64], const Kernel& kernel, const Plan& plan, const Target& target,
                   Memory& memory) {
  Map<Node, uint64_t> numbers(memory);
  uint64_t low = 1, high = 2;
  const auto mix = [&](uint64_t word) {
    low = hash_mix(low, word);
    high = hash_mix(high ^ 0x5bd1e995u, word);
  };
  for (const bool flag :
       {target.fma, target.f16c, target.avx512, target.streaming, target.fp64, target.portable}) {
    mix(flag);
  }
  mix(static_cast<uint64_t>(target.language));
  mix(static_cast<uint64_t>(target.max_lanes));
  mix(static_cast<uint64_t>(target.vector_bytes));
  const program::Digest planned = digest(plan);
  mix(planned.low), mix(planned.high);
  for (Node node : kernel.order()) {
    mix(static_cast<uint64_t>(node->op) << 32 | static_cast<uint64_t>(node->dtype) << 16 |
        node->ndim);
    mix(static_cast<uint64_t>(node->nsrc) << 32 | node->narg);
    for (Node source : node->src()) mix(numbers.get(source, 0));
    for (uop::Word word : node->arg()) mix(static_cast<uint64_t>(word));
    for (uop::Word word : node->shape()) mix(static_cast<uint64_t>(word));
    ASTER_TRY(numbers.set(node, numbers.size() + 1));
  }
  std::snprintf(name, sizeof(name), "r_%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return kOk;
}

// What C is made for: of a portable one nothing is assumed.
Target c_target(const Target& target) {
  Target out = target;
  if (target.portable) {
    out.vector_bytes = 0;
    out.fma = out.f16c = out.avx512 = out.streaming = false;
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
  ASTER_TRY(lower_program(out, name, kernel, *plan, target, memory));
  return given == nullptr ? kOk : program::verify(*out, {true});
}

Status plan_kernel(Plan* out, Node node, const Target& target, Memory& memory) {
  Kernel kernel(memory);
  ASTER_TRY(kernel.analyse(node));
  return make_plan(out, kernel, target, memory);
}

Status lower_general(program::Module* out, Plan* general, const char* name, const Kernel& kernel,
                     const Plan& plan, const Target& target, Memory& memory) {
  general->general = true;
  ASTER_TRY(make_plan(general, kernel, target, memory));
  if (!folds_alike(*general, plan)) {
    ASTER_TRY(copy(general, plan));
    general->general = true;
    choose_rests(general, kernel);
  }
  return lower_program(out, name, kernel, *general, target, memory);
}

Status render(Rendered& out, uop::Graph& graph, uop::Node node, const Target& target,
              SizeClasses* classes, const Plan* given) {
  if (node == nullptr) return ASTER_FAIL(kINTERNAL, "no kernel");
  Memory& memory = graph.memory();
  Kernel kernel(memory);
  ASTER_TRY(kernel.analyse(node));
  Plan own(memory);
  const Plan* plan = nullptr;
  ASTER_TRY(take_plan(&own, &plan, given, kernel, target, memory));
  ASTER_TRY(name_kernel(out.name, kernel, *plan, target, memory));
  ASTER_TRY(write_title(out.title, node, memory));
  program::Module module(memory);
  Plan general(memory);
  // A plan from outside is for these sizes.
  if (classes != nullptr && given == nullptr) {
    ASTER_TRY(lower_general(&module, &general, out.name, kernel, *plan, target, memory));
    ASTER_TRY(classes->choose(&module, &out.sizes));
  }
  if (out.sizes.empty()) {
    module.programs.clear();
    ASTER_TRY(lower_program(&module, out.name, kernel, *plan, target, memory));
  }
  if (given != nullptr) ASTER_TRY(program::verify(module, {true}));
  std::memcpy(out.name, module.programs.back().name, sizeof(out.name));
  ASTER_TRY(render_module(out.code, module, target));
  out.tasks = 0;
  const Plan& taken = out.sizes.empty() ? *plan : general;
  for (int root : kernel.roots) out.tasks += task_count(kernel, taken.at(root));
  const Work work = work_of(kernel);
  out.task_flops = work.flops / static_cast<double>(out.tasks);
  out.task_bytes = work.bytes / static_cast<double>(out.tasks);
  return out.code.text.status();
}

Status render_unit(Text& out, const Rendered& kernel, const Target& target) {
  const program::RenderedC* const one[] = {&kernel.code};
  if (target.language != Language::kProgram) return program::write_unit(out, one, c_target(target));
  out << kernel.code.text.view();
  return out.status();
}

}  // namespace aster::codegen
