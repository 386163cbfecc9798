// From a planned kernel to its program: loops, registers and addresses become instructions, each
// value of the graph once, with an axis for every tile that it depends on.
#pragma once

#include "codegen/plan.h"
#include "codegen/program.h"

namespace aster::codegen {

// Appends the program `name`, behind the functions that it calls. Errors: UNSUPPORTED (an operation
// that the target has not, nor a function), INTERNAL, MEMORY.
Status lower_program(program::Module* out, const char* name, const Kernel& kernel, const Plan& plan,
                     const Target& target, Memory& memory);

// The same from the kernel's graph, by the plan that the engine would take.
Status lower_kernel(program::Module* out, const char* name, Node kernel, const Target& target,
                    Memory& memory);
// The same by a plan for many sizes, which gives the same bits; `plan`: that which the engine
// takes.
Status lower_general(program::Module* out, Plan* general, const char* name, const Kernel& kernel,
                     const Plan& plan, const Target& target, Memory& memory);

}  // namespace aster::codegen
