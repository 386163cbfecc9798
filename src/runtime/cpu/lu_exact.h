// LU of matrices of sticky integers, which are stored as int32 or int64: elimination without
// fractions (E. H. Bareiss, Sylvester's identity and multistep integer-preserving Gaussian
// elimination, 1968), of which every number is a minor of the matrix.
#pragma once

#include "runtime/cpu/linalg.h"
#include "runtime/cpu/linalg_routines.h"

namespace aster::runtime::cpu::linalg {

// What a kLu or a kLuFactor of such a dtype gives. With pivots d[i] = u[i, i], d[-1] = 1, it is
// x[rows[i], j] = sum_k l[i, k] u[k, j] / (d[k - 1] d[k]); l has the pivots on its diagonal too.
// Numbers that do not fit are ERR, and what is made of ERR. Trouble: a pivot that is 0 or ERR.
Trouble exact_lu(const Problem& problem, const void* const* operands, void* const* results,
                 Scratch& scratch);

}  // namespace aster::runtime::cpu::linalg
