// Reverse mode over the tensor graph, by one rule an operation.
#pragma once

#include <span>

#include "uop/uop.h"

namespace aster::gradient {

using uop::Graph;
using uop::Node;
using uop::Nodes;

// What a target gets that the differentiated node does not depend on.
enum class Unreached { kZeros, kNull, kError };

// out[i] = d sum(y * seed) / d targets[i], of the target's shape and dtype. seed null: ones. No
// gradient flows through nodes that are not float. Errors: DTYPE (y or a target is not float),
// SHAPE (seed), UNSUPPORTED (an operation without a rule), ARGUMENT (kError).
Status gradient(Graph& graph, Node y, Node seed, Nodes targets, std::span<Node> out,
                Unreached unreached = Unreached::kZeros);

// x to the bit, but computed from `late`, so that what is computed of it comes after that, and is
// not what is computed of x elsewhere. Gradients flow to x. Nil absorbs.
Node after(Graph& graph, Node x, Node late);

}  // namespace aster::gradient
