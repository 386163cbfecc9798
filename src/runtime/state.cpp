#include "runtime/state.h"

#include "runtime/opencl/backend.h"

namespace aster::runtime {
namespace {

// Linkers take from static libraries only what is named.
[[gnu::used]] constexpr auto kOpencl = &opencl::find_backend;

void destroy_state(Context& context, void* pointer) {
  State* state = static_cast<State*>(pointer);
  cpu::KernelLibrary::destroy(state->kernels);
  state->modules.clear();  // before the devices that they are of
  for (const auto& device : state->devices) context.heap().destroy(device.value);
  context.heap().destroy(state);
}

}  // namespace

Status state(Context& context, State** out) {
  void* present = context.state(Module::kRuntime);
  if (present == nullptr) {
    present = context.heap().create<State>(context.heap());
    if (present == nullptr) return out_of_memory(sizeof(State));
    context.set_state(Module::kRuntime, present, destroy_state);
  }
  *out = static_cast<State*>(present);
  return kOk;
}

Status kernel_library(Context& context, cpu::KernelLibrary** out) {
  State* runtime = nullptr;
  ASTER_TRY(state(context, &runtime));
  if (runtime->kernels == nullptr)
    ASTER_TRY(cpu::KernelLibrary::create(&runtime->kernels, context, {}));
  *out = runtime->kernels;
  return kOk;
}

}  // namespace aster::runtime
