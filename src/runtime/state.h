// What the runtimes keep in a context.
#pragma once

#include "base/context.h"
#include "runtime/cpu/module.h"

namespace aster::runtime {

struct State {
  cpu::KernelLibrary* kernels = nullptr;
};

// The context's state, made at the first call. Errors: MEMORY.
Status state(Context& context, State** out);

// The context's kernels, made at the first call.
Status kernel_library(Context& context, cpu::KernelLibrary** out);

}  // namespace aster::runtime
