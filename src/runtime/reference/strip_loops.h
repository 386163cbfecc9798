// Loops over strips of elements as they lie in memory, one for each arithmetic row of ops.def and
// dtype: what a step of an interpreted program is made of (strip_program.h).
#pragma once

#include "uop/uop.h"

namespace aster::runtime::reference {

// Strips have room for whole groups of so many elements: loops of more than one element may go on
// to the end of the last group.
constexpr size_t kStripGroup = 8;

// y[i] = op(a[i], b[i], c[i]) for n elements. What a loop does not take is null.
using StripLoop = void (*)(void* y, const void* a, const void* b, const void* c, int64_t n);
// For so many turns: r[l] = op(r[l], a[l]), op(a[l], r[l]) or, of MulAcc, a[l] * b[l] + r[l] for
// all lanes, and a and b go on by so many elements.
using StripFold = void (*)(void* r, const void* a, const void* b, int64_t lanes, int64_t turns,
                           int64_t a_step, int64_t b_step);

// Whether this CPU runs them: they are made for AVX2 with FMA and F16C.
bool runs_strip_loops();

// dtype: of the last operand. scalars: bit k is set where operand k is one element for all. Null:
// there is none, as for what is a function of programs.
StripLoop strip_loop(uop::Op op, uop::DType operand, unsigned scalars);
// Cast, and ToInt, which is only asked of what the dtype holds; null: there is none.
StripLoop strip_cast_loop(uop::Op op, uop::DType from, uop::DType to);
// left: the register is the first operand; of MulAcc it is the last. scalars: bits of a and b, of
// each of which a turn takes one element.
StripFold strip_fold(uop::Op op, uop::DType dtype, bool left, unsigned scalars);

}  // namespace aster::runtime::reference
