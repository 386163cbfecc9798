// What every graph of a level must satisfy, as one table of checks an operation.
#pragma once

#include "uop/uop.h"

namespace aster::uop {

enum class Level : uint8_t { kTensor, kKernel };

// Checks every node that root is made of, and for kernels that loops hold what uses them. Bodies of
// calls included. Errors: INTERNAL, naming the first node that fails and what it lacks.
Status verify(Graph& g, Node root, Level level);

// The checks on one node, its sources taken for granted; the text of the first that fails, null if
// none does.
const char* find_fault(Node node, Level level);

}  // namespace aster::uop
