// Programs as machine code of x86-64, made at once and without a compiler: the same bits as from C.
// Lines follow the program's instructions; nothing is looked for but what the program says, a place
// for its values in registers, and addresses outside of the loops that do not change them. Code
// from a compiler runs some faster; this one is there in a tenth of a millisecond.
#pragma once

#include "codegen/program.h"
#include "codegen/target.h"

namespace aster::codegen::program {

// The last program of a module that verify() has passed, as a function
//   void (void *const *params, const long long *sizes, void *scratch, long long begin,
//         long long end)
// that lies anywhere, aligned to 64 bytes. Errors: UNSUPPORTED (a target without AVX2 and FMA, what
// of this is not written: barriers, vectors of more than a register), ARGUMENT (the last one is a
// function), MEMORY.
Status render_x86(Vec<uint8_t>* out, const Module& module, const Target& target);

}  // namespace aster::codegen::program
