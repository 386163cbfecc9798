#include "uop/context_graph.h"

namespace aster::uop {

Status graph_of_context(Graph** out, Context& context) {
  void* state = context.state(Module::kUop);
  if (state == nullptr) {
    Graph* graph = context.heap().create<Graph>(context.heap());
    if (graph == nullptr) return out_of_memory(sizeof(Graph));
    context.set_state(Module::kUop, graph, [](Context& owner, void* self) {
      owner.heap().destroy(static_cast<Graph*>(self));
    });
    state = graph;
  }
  *out = static_cast<Graph*>(state);
  return kOk;
}

}  // namespace aster::uop
