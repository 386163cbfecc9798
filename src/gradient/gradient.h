// Reverse mode over the tensor graph, by one rule an operation.
#pragma once

#include <span>

#include "uop/uop.h"

namespace aster::gradient {

using uop::Graph;
using uop::Node;
using uop::Nodes;

// out[i] = d sum(y * seed) / d targets[i], of the target's shape and dtype; zeros where y does not
// depend on it, or an ARGUMENT error if require_path. seed null: ones. No gradient flows through
// nodes that are not float. Errors: DTYPE (y or a target is not float), SHAPE (seed), UNSUPPORTED
// (an operation without a rule).
Status gradient(Graph& graph, Node y, Node seed, Nodes targets, std::span<Node> out,
                bool require_path = false);

}  // namespace aster::gradient
