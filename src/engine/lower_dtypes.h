// Sticky integers in operations on the integers that they are stored as.
#pragma once

#include "uop/uop.h"

namespace aster::engine {

// *sink without sticky dtypes, bodies of calls included: what they compute becomes integer
// arithmetic and choices of the error pattern, so that every backend has them. bytes: products of
// matrices that are worth it are native calls (runtime/cpu/native_sticky.h). Errors: UNSUPPORTED
// (a sum of more than 2^31 elements that int64 may not hold), MEMORY.
Status lower_dtypes(uop::Node* sink, uop::Graph& g, bool bytes);

}  // namespace aster::engine
