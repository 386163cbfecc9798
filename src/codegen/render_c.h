// Programs as C with vector extensions, for gcc and clang, with rows of instructions for x86
// (target_c.def, target_x86.def). The text computes what the program says to the bit, by
// `-std=gnu11 -O1 -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno`, without headers
// or libraries.
#pragma once

#include "codegen/codegen.h"
#include "codegen/program.h"

namespace aster::codegen::program {

struct RenderedC {
  explicit RenderedC(Memory& memory) : text(memory) {}
  // Types, functions and
  //   void NAME(void *const *params, const long long *sizes, void *scratch,
  //             long long begin, long long end)
  // which runs tasks [begin, end); a program without task loops is one task. sizes: by slot.
  Text text;
  int64_t scratch_bytes = 0;  // that scratch points to, aligned to 64 bytes
};

// Renders the last program of a module that verify() has passed. Vectors may be wider than the
// target's. A vector_bytes of 0 is C for any CPU. Errors: UNSUPPORTED (what the target cannot say:
// an operation, MulAcc of floats without FMA, barriers), ARGUMENT (the last one is a function),
// MEMORY.
Status render_c(RenderedC& out, const Module& module, const Target& target);

}  // namespace aster::codegen::program
