// Calls replaced by their bodies.
#pragma once

#include "uop/uop.h"

namespace aster::runtime::reference {

// For each root, in order, a node of the same value below which nothing is called.
// Errors: ARGUMENT (a body that asks for arguments the call does not have), MEMORY.
Status inline_calls(Vec<uop::Node>* out, uop::Graph& graph, uop::Nodes roots);

}  // namespace aster::runtime::reference
