#include "engine/rangeify.h"

#include "base/set.h"
#include "engine/fusion.h"

namespace aster::engine {

using uop::Node;
using uop::Op;

Status walk(Vec<Node>* out, uop::Nodes roots) {
  struct Frame {
    Node node;
    uint32_t next;
  };
  Set<Node> seen(out->memory());
  Vec<Frame> stack(out->memory());
  const auto enter = [&](Node node) -> Status {
    bool fresh = false;
    ASTER_TRY(seen.add(&fresh, node));
    return fresh ? stack.push(Frame{node, node->op == Op::kCall ? 1u : 0u}) : kOk;
  };
  for (Node root : roots) {
    ASTER_TRY(enter(root));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.node->nsrc) {
        ASTER_TRY(out->push(frame.node));
        stack.pop();
      } else {
        ASTER_TRY(enter(frame.node->src(frame.next++)));
      }
    }
  }
  return kOk;
}

Status rangeify(Schedule* out, Arena& memory, uop::Graph& graph,
                std::span<const LeafRegion> regions, Node sink, bool here) {
  fusion::Analysis nodes(memory, regions);
  fusion::Fusion kernels(memory);
  fusion::Slots slots(*out, memory);
  ASTER_TRY(fusion::analyse(&nodes, graph, sink, here));
  ASTER_TRY(fusion::choose(&kernels, graph, nodes));
  ASTER_TRY(fusion::separate_writes(&kernels, graph, nodes));
  ASTER_TRY(fusion::find_order(&kernels, graph, nodes));
  ASTER_TRY(fusion::build(&kernels, &slots, graph, nodes, here));
  ASTER_TRY(fusion::merge(&kernels, *out, graph, nodes));
  ASTER_TRY(fusion::drop_unread(&kernels, slots));
  return fusion::emit(&slots, &kernels, graph, nodes);
}

}  // namespace aster::engine
