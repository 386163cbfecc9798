// Products of matrices of sticky integers, for machines of any width of vectors.
#pragma once

#include "runtime/cpu/features.h"
#include "runtime/cpu/native.h"

namespace aster::runtime::cpu::native {

// Whether matrices [.., M, K] and [.., K, N] of sticky integers, or of what stores them, are
// multiplied by bytes: not beyond what 32 bits hold, nor where generated loops are faster.
bool worth_bytes(uop::Node a, uop::Node b);
// A plan of a Wide node (kBytes) with vectors of at most so many bytes.
Status prepare_sticky_matmul(Plan* out, uop::Node node, std::span<const int64_t> views,
                             int vector_bytes);

}  // namespace aster::runtime::cpu::native
