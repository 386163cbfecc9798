// Decompositions and solutions of the matrices in the last two axes, as nodes: a kernel
// (uop/foreign.h) each, whose results lie one behind the other. Nil absorbs; errors stay in the
// thread's record.
#pragma once

#include "base/context.h"
#include "runtime/cpu/linalg.h"
#include "tensor/ops.h"

namespace aster::tensor {

using runtime::cpu::linalg::kMostResults;
using runtime::cpu::linalg::Problem;
using runtime::cpu::linalg::What;

// Results in order; nil where there is none, and everywhere after a failure.
struct Decomposed {
  Node of[kMostResults] = {};
};

// What is computed of a, and of b where there is one, whose batch axes broadcast. how: what and its
// flags. SHAPE, DTYPE (float32, float64 and wide
// floats alone), RANGE. Where the kernel fails, because a matrix
// is singular for example, what reads it is NUMERIC when it is realised.
Decomposed decompose(Context& context, Graph& g, Problem how, Node a, Node b = nullptr);
// The same of one result.
inline Node decompose_one(Context& context, Graph& g, const Problem& how, Node a,
                          Node b = nullptr) {
  return decompose(context, g, how, a, b).of[0];
}

// The results in a node of a kernel, or their gradients in that of the node.
Decomposed parts_of(Graph& g, const Problem& problem, Words batch, Node whole);

// The gradient of a problem's node: of a, and of b.
Status decomposed_gradient(Context& context, const Problem& problem, Graph& g, Node y, Node dy,
                           std::span<const bool> needed, std::span<Node> dx);
// Whether there is one.
bool has_gradient(const Problem& problem);

// x = q r by Householder's reflections as a graph of primitives, q complete.
struct QrGraph {
  Node q, r;
};
Status qr_graph(QrGraph* out, Context& context, Graph& g, Node x);
// x = u diag(s) vt by Jacobi's rotations, as tinygrad has it; full: u and vt are square.
Decomposed svd_graph(Context& context, Graph& g, Node x, bool full);

}  // namespace aster::tensor
