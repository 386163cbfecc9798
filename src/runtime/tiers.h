// Tiers of a kernel: by machine code of our own (codegen/render_x86.h), or by strips
// (reference/strip_program.h), until a compiler's, which others make meanwhile, is there; then by
// that. All give the same bits, so what runs may change between any two tasks.
#pragma once

#include "codegen/codegen.h"
#include "runtime/cpu/native.h"
#include "runtime/load.h"

namespace aster::runtime {

// Whether kernels may begin by strips here: the CPU has what those are made for, and the
// environment does not say otherwise.
bool has_tiers();
// What all tasks of a kernel take by strips, about.
double strips_nanoseconds(const codegen::Rendered& kernel);
// Beyond which a kernel waits for its machine code: about what a compiler takes for one.
inline constexpr double kMostByStrips = 5e6;

// A kernel that has no function yet as a call. Errors: UNSUPPORTED (it has no code of ours, and
// strips there are none of, or they would take too long), MEMORY.
Status begin(cpu::native::Plan* out, const Request& request);
// Whether a call goes without a compiler's code as of now.
bool is_beginning(const cpu::native::Plan& plan);

}  // namespace aster::runtime
