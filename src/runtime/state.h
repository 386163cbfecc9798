// What the runtimes keep in a context.
#pragma once

#include "base/context.h"
#include "runtime/cpu/module.h"
#include "runtime/modules.h"

namespace aster::runtime {

struct State {
  explicit State(Memory& memory) : devices(memory), modules(memory) {}
  cpu::KernelLibrary* kernels = nullptr;
  Device host;
  Map<int32_t, Device*> devices;  // by code
  Modules modules;                // kernels of devices
};

// The context's state, made at the first call. Errors: MEMORY.
Status state(Context& context, State** out);

// The context's kernels, made at the first call.
Status kernel_library(Context& context, cpu::KernelLibrary** out);

}  // namespace aster::runtime
