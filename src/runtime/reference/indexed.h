// Gather, Scatter, Scan, Argsort and Sort, element by element.
#pragma once

#include "uop/uop.h"

namespace aster::runtime::reference {

// Whether node is one of them: its sources are kept in memory, and so is its value.
bool is_indexed(uop::Node node);

// The value of such a node, which has elements, from the row-major memory of its sources. Scans and
// combinations go one by one, each rounded to the dtype (scans of narrow floats: to float32,
// results to the dtype). Errors: MEMORY.
Status compute_indexed(Memory& memory, uop::Node node, const void* const* sources, void* result);

}  // namespace aster::runtime::reference
