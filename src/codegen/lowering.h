// From a planned kernel to its program: loops, registers and addresses become instructions, each
// value of the graph once, with an axis for every tile that it depends on.
#pragma once

#include "codegen/planner.h"
#include "codegen/program.h"

namespace aster::codegen {

// Appends the program `name`, behind the functions that it calls. Errors: UNSUPPORTED (an operation
// that the target has not, nor a function), INTERNAL, MEMORY.
Status lower_program(program::Module* out, const char* name, const Kernel& kernel, const Plan& plan,
                     const Target& target, Memory& memory);

// The program that makes one of the copies that are ready for another's (find_ready): it takes the
// same params, and writes the one behind the kernel's that this copy is.
Status lower_ready(program::Module* out, const char* name, const Kernel& kernel, const Plan& plan,
                   int copy, const Target& target, Memory& memory);

// The same as lower_program from the kernel's graph, by a plan or, where it is null, the planner's;
// name null: the one that render() gives it. Errors: ARGUMENT (a plan that is none of this
// kernel's, or whose program is too long) as well.
Status lower_kernel(program::Module* out, const char* name, Node kernel, const Target& target,
                    Memory& memory, const Plan* plan = nullptr);
// The same by a plan for many sizes, which gives the same bits; `plan`: that which the engine
// takes, without items.
Status lower_general(program::Module* out, Plan* general, const char* name, const Kernel& kernel,
                     const Plan& plan, const Target& target, Memory& memory);
// Of a target and all that a kernel's graph says.
Status digest_kernel(program::Digest* out, Node kernel, const Target& target, Memory& memory);
// The planner's plan of a kernel's graph. constants: slots whose memory does not change.
Status plan_kernel(Plan* out, Node kernel, const Target& target, Memory& memory,
                   uint64_t constants = 0);

}  // namespace aster::codegen
