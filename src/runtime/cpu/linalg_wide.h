// Decompositions and solutions of one row-major matrix of flt256 or flt512: on exact products
// (wide_factor.h), singular values and eigenvalues from those of float64 on (wide_spectrum.h).
#pragma once

#include "runtime/cpu/linalg.h"
#include "runtime/cpu/linalg_routines.h"

namespace aster::runtime::cpu::linalg {

Trouble wide(const Problem& problem, const void* const* operands, void* const* results,
             Scratch& scratch);

}  // namespace aster::runtime::cpu::linalg
