// Programs as LLVM IR, for libLLVM 14 to 19: pointers have types, which newer ones read as plain
// ones. The bits are those of render_c for the same target: what is native there is said here, in
// target_llvm.def and a little code, and what is not is UNSUPPORTED, for a whole program.
#pragma once

#include "codegen/render_c.h"

namespace aster::codegen::program {

// Renders the last program of a module that verify() has passed; registers are allocas, so a pass
// that makes values of them must run, and one that inlines what says so. Errors: as render_c.
Status render_llvm(RenderedC& out, const Module& module, const Target& target);

// What stands in front of all programs of a unit.
void write_llvm_head(Text& out);

}  // namespace aster::codegen::program
