// The rules: from the gradient of a node to those of its sources.
#pragma once

#include <span>

#include "uop/uop.h"

namespace aster::gradient {

using uop::Graph;
using uop::Node;

// What a rule sees and fills: dx[i] is the gradient of source i, left null where none flows.
// needed[i] says whether anyone asks for it. A failure leaves nil in a needed place and the error
// record set.
struct Flow {
  Graph& graph;
  Node y;
  Node dy;
  std::span<const bool> needed;
  std::span<Node> dx;
  bool failed = false;

  Node source(size_t i) const { return y->src(i); }
  void set(size_t i, Node gradient) {
    dx[i] = gradient;
    failed |= gradient == nullptr;
  }
};
using Rule = void (*)(Flow& flow);

// rules_indexed.cpp
void flow_gather(Flow& flow);
void flow_scatter(Flow& flow);
void flow_scan(Flow& flow);
void flow_log_scan(Flow& flow);
void flow_sort(Flow& flow);

// Null for an operation that no gradient flows through. A Call is asked by its composite; null
// there means: go through the body.
struct Lookup {
  bool known;  // false: the operation has no rule
  Rule rule;
};
Lookup rule_of(Node node);

}  // namespace aster::gradient
