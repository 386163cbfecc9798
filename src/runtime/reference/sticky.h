// Sums, products and their like of sticky integers, by definition: exact, then checked once.
#pragma once

#include "uop/uop.h"

namespace aster::runtime::reference {

// Whether a node combines sticky elements: Reduce, Dot, Scatter with an operation.
bool computes_sticky(uop::Node node);
// sources: memory of each, row-major. Errors: MEMORY.
Status compute_sticky(Memory& memory, uop::Node node, const void* const* sources, void* result);

}  // namespace aster::runtime::reference
