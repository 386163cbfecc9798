// Tiers of a kernel: by strips (reference/strip_program.h) until its machine code, which others
// make meanwhile, is there; then by that. Both give the same bits, so what runs may change between
// any two tasks.
#pragma once

#include "codegen/codegen.h"
#include "runtime/cpu/native.h"

namespace aster::runtime {

// Whether kernels may begin by strips here: the CPU has what those are made for, and the
// environment does not say otherwise.
bool has_tiers();
// What all tasks of a kernel take by strips, about.
double strips_nanoseconds(const codegen::Rendered& kernel);
// Beyond which a kernel waits for its machine code: about what a compiler takes for one.
inline constexpr double kMostByStrips = 5e6;

// A kernel as a call. later: where its machine code will be. Errors: UNSUPPORTED (there is no
// program of it, or no strips of that), MEMORY.
Status begin_by_strips(cpu::native::Plan* out, const codegen::Rendered& kernel,
                       const std::atomic<void*>* later);
// Whether a call goes by strips as of now.
bool goes_by_strips(const cpu::native::Plan& plan);

}  // namespace aster::runtime
