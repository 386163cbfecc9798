// The reference runtime: a tensor graph evaluated by plain loops that read through movement
// operations. No code is generated; it is what the compiled runtimes are held against, and what
// answers where there is no compiler.
#pragma once

#include <span>

#include "base/interrupt.h"
#include "uop/uop.h"

namespace aster::runtime::reference {

// A leaf (Buffer or Param) and the row-major memory of its shape and dtype; null where it has no
// elements.
struct Binding {
  uop::Node leaf;
  void* data;
};

// A root and where its value goes, row-major. May overlap the memory of bindings.
struct Output {
  uop::Node node;
  void* data;
};

// Computes outputs from bindings. Every operation is rounded to its node's dtype; reductions of
// floats accumulate in double, in row-major order of the reduced axes, and round once.
//
// Reads of a Buffer see its memory as it was at the start. An Assign has the value of its source 1;
// every Assign that the outputs reach writes into the bound memory that its target views, in
// topological order, after all values are computed. After(x, effects), x a view of a Buffer, reads
// x with the writes of all Assigns below the node done; any other x has its own value.
//
// Bodies of calls are inlined into graph, which may gain nodes. Weak dtypes take 8 bytes an
// element. Memory: leaves are read in place; reductions and values that several others read at
// different indices are kept while they are needed.
//
// Errors: ARGUMENT (an unbound leaf, null memory, a target that views no storage), UNSUPPORTED (an
// operation that is not of tensor graphs), MEMORY, CANCELLED (interrupt, if given, is requested).
// After an error nothing is assigned; memory of outputs is unspecified.
Status interpret(uop::Graph& graph, Memory& memory, std::span<const Binding> bindings,
                 std::span<const Output> outputs, Interrupt* interrupt = nullptr);

}  // namespace aster::runtime::reference
