// How the arguments of what is not computed by generated code (runtime/cpu/native.h) lie in memory.
#pragma once

#include "base/memory.h"
#include "runtime/cpu/native.h"
#include "uop/uop.h"

namespace aster::engine {

namespace native = runtime::cpu::native;

}  // namespace aster::engine

namespace aster::engine::library {

// Whether a node of a prepared graph is not computed by generated code.
bool computes(uop::Node node);

// The node that has to lie in memory for source i of a call: below its views where the library can
// read those as strides, else the argument itself. Appends the view to words if given: offset in
// elements, a stride for every axis, and how it is read. Null base: the plan
// holds the argument, which is known.
Status view_base(uop::Node* base, Vec<int64_t>* words, uop::Graph& graph, uop::Node call, size_t i);

}  // namespace aster::engine::library
