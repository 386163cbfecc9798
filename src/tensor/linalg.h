// Products and decompositions as nodes. Nil absorbs; errors stay in the thread's record.
#pragma once

#include "tensor/ops.h"

namespace aster::tensor {

// Steps of Newton and Schulz, and coefficients of one: each is a product in the graph.
constexpr int64_t kMostSteps = 100;

// matmul(a, b) summed in, and of, dtype; kNone: as matmul.
Node dot(Graph& g, Node a, Node b, DType dtype);
// x with its last two axes swapped.
Node turned(Graph& g, Node x);

}  // namespace aster::tensor
