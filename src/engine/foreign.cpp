#include "engine/foreign.h"

#include "runtime/state.h"

namespace aster::engine {

using uop::Foreign;
using uop::ForeignCode;
using uop::Node;
using uop::Op;

Status check_foreign(Executable* exe, uop::Nodes roots, int32_t device) {
  const bool away = exe->device != nullptr && exe->device->computes();
  Vec<Node> nodes(exe->heap_);
  ASTER_TRY(uop::toposort(&nodes, roots));
  for (Node node : nodes) {
    if (node->op != Op::kForeign) continue;
    const Foreign& kernel = uop::foreign_of(node);
    if (away && kernel.device_code != nullptr) {
      ForeignCode code(exe->heap_);
      ASTER_TRY(kernel.device_code(kernel, &code, exe->device->code, node->arg(2)));
      exe->own_kernels = true;
    } else if (!kernel.on_host()) {
      const bool host = device::is_host(device);
      return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\" has no source for the CPU%s%s", kernel.name,
                        host ? "" : ", which computes for ", host ? "" : device::name(device).text);
    }
  }
  return kOk;
}

Status load_foreign(void** function, runtime::Loaded* held, runtime::LoadCounts* counts,
                    Context& context, const runtime::Device& device, const Foreign& kernel,
                    ForeignCode& code, size_t operands) {
  aster_ml_code out = runtime::code_for(device);
  out.name = code.name;
  out.text = code.text.c_str();
  out.length = code.text.view().size();
  out.params = static_cast<uint32_t>(code.places.size() + operands);
  out.sizes = static_cast<uint32_t>(code.sizes.size());
  out.local_bytes = code.local_bytes;
  out.scratch_bytes = code.scratch_bytes;
  out.group_size = code.locals[0] * code.locals[1] * code.locals[2];
  ASTER_TRY(code.text.status());
  runtime::State* runtime = nullptr;
  ASTER_TRY(runtime::state(context, &runtime));
  size_t found = 0;
  const Status loaded =
      runtime->modules.load(&held->modules, {function, 1}, &found, device, {&out, 1});
  if (loaded.code == ASTER_ML_COMPILE || loaded.code == ASTER_ML_UNSUPPORTED) {
    return fail_at(static_cast<Code>(loaded.code), ASTER_MODULE, __FILE__, __LINE__,
                   "kernel \"%s\": %s", kernel.name, SavedError::message());
  }
  ASTER_TRY(loaded);
  counts->found += found;
  counts->compiled += 1 - found;
  return *function != nullptr ? kOk
                              : ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\" is beyond %s", kernel.name,
                                           device::name(device.code).text);
}

Status make_foreign(Kernels* kernels, Executable* exe, Engine& engine, const Schedule& schedule) {
  runtime::LoadCounts counts;
  for (const Item& item : schedule.items) {
    if (item.kind != ItemKind::kLibrary || item.kernel->op != Op::kForeign) continue;
    const Foreign& kernel = uop::foreign_of(item.kernel);
    if (kernel.device_code == nullptr || kernels->function(item.kernel) != nullptr) continue;
    ForeignKernel one{item.kernel, ForeignCode(schedule.items.memory()), nullptr};
    ASTER_TRY(kernel.device_code(kernel, &one.code, exe->device->code, item.kernel->arg(2)));
    ASTER_TRY(load_foreign(&one.function, &exe->code, &counts, engine.context, *exe->device, kernel,
                           one.code, item.kernel->nsrc));
    ASTER_TRY(kernels->foreign.push(std::move(one)));
  }
  engine.counters.kernels_cached += counts.found;
  engine.counters.kernels_compiled += counts.compiled;
  return kOk;
}

Status ForeignOperands::take(const Schedule& schedule, const Item& item, const ForeignCode& code) {
  const uint32_t* const given = schedule.operands.data() + item.first_operand;
  const int64_t* view = schedule.words.data() + item.first_word;
  for (const int64_t place : code.places) {
    ASTER_TRY(slots.push(given[item.operand_count - 1]));
    ASTER_TRY(shifts.push(place));
    ASTER_TRY(written.push(uint8_t{1}));
  }
  for (uint32_t i = 0; i + 1 < item.operand_count; ++i) {
    const Node operand = item.kernel->src(i);
    ASTER_TRY(slots.push(given[i]));
    ASTER_TRY(shifts.push(view[0] * static_cast<int64_t>(dtype::size(operand->dtype))));
    ASTER_TRY(written.push(uint8_t{0}));
    view += operand->ndim + 2;  // the place of the first element, strides, how it is read
  }
  return kOk;
}

}  // namespace aster::engine
