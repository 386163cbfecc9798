// Movement operations as index arithmetic: where in its source an element of a movement node comes
// from.
#pragma once

#include "uop/uop.h"

namespace aster::engine {

// The status of a builder that gave this node.
inline Status need(uop::Node node) { return node != nullptr ? kOk : last_failure(); }

// The index of one element: an expression an axis, and the condition under which it is inside
// (null: always).
struct Place {
  explicit Place(Memory& memory) : index(memory) {}
  Vec<uop::Node> index;
  uop::Node gate = nullptr;
};

// The place in source number `source` of a movement node that its element at `at` reads. out->gate
// is at's gate and the node's own condition (Pad, Unwindow, Cat); *own is the latter alone, null
// where there is none.
Status source_place(Place* out, uop::Node* own, uop::Graph& graph, uop::Node node, size_t source,
                    std::span<const uop::Node> at, uop::Node gate);

// Whether such a condition is known to fail.
inline bool never(uop::Node own) {
  return own != nullptr && uop::is_const(own) && own->arg(0) == 0;
}

// An element of the source of a movement node, in the place of the node's.
Status step_down(Vec<uop::Node>* index, uop::Graph& graph, uop::Node node);
// A Range for every axis of a node; a constant for those of one element.
Status ranges_of(Vec<uop::Node>* out, uop::Graph& graph, uop::Node node);
// A constant and a factor for each range, if x is linear in them.
bool linear_in(Vec<int64_t>* words, uop::Node x, std::span<const uop::Node> ranges);

// Row-major position of an index in a shape.
uop::Node linear_index(uop::Graph& graph, uop::Words shape, std::span<const uop::Node> index);

}  // namespace aster::engine
