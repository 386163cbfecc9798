#include "engine/dry_run.h"

#include <algorithm>

#include "engine/indexing.h"
#include "engine/prepare.h"
#include "runtime/device.h"

namespace aster::engine {
namespace {

using uop::Node;
using uop::Nodes;
using uop::Op;

class Roots {
 public:
  explicit Roots(Engine& engine) : engine_(engine), all(engine.context.heap()) {}
  // As realize takes it: what is to be computed for node, and the writes on its way.
  Status add(Node node) {
    uop::Graph& g = engine_.graph;
    node = g.cast(node, g.strong(node->dtype));
    ASTER_TRY(need(node));
    while (node->op == Op::kReshape || node->op == Op::kDetach) node = node->src(0);
    if (node->op == Op::kAfter) {
      for (Node source : node->src().subspan(1)) ASTER_TRY(add(source));
      return add(node->src(0));
    }
    const Node state = below_views(node);
    if (memory_below(node) != nullptr || node->op == Op::kParam) return kOk;
    if (state != node && buffer_below(state) != nullptr) return add(state);
    if (std::find(all.begin(), all.end(), node) != all.end()) return kOk;
    return all.push(node);
  }
  Status add_writes() {
    Vec<Node> nodes(engine_.context.heap());
    ASTER_TRY(uop::toposort(&nodes, {all.data(), all.size()}));
    for (Node node : nodes) {
      if (node->op == Op::kAssign) ASTER_TRY(add(node));
    }
    return kOk;
  }

 private:
  Engine& engine_;

 public:
  Vec<Node> all;
};

}  // namespace

Status DryRun::prepare(Nodes nodes) {
  Roots roots(engine_);
  for (Node node : nodes) ASTER_TRY(roots.add(node));
  ASTER_TRY(roots.add_writes());
  const Nodes all{roots.all.data(), roots.all.size()};
  Vec<Node> order(memory_);
  ASTER_TRY(walk(&order, all));
  ASTER_TRY(find_leaves(&leaves_, &order, engine_, all, true));
  int32_t on = 0;
  if (!all.empty()) ASTER_TRY(known_device(&on, engine_, all[0]));
  const runtime::Device* device = nullptr;
  ASTER_TRY(runtime::device_of(&device, engine_.context, on != 0 ? on : default_device(engine_)));
  near_ = is_near(device);
  here_ = device == nullptr || !device->computes();
  return engine_.prepare_graph(&sink_, scratch_, all, leaves_, device);
}

Status DryRun::schedule() {
  ASTER_TRY(rangeify(&schedule_, memory_, scratch_,
                     {leaves_.regions.data(), leaves_.regions.size()}, sink_, here_));
  if (near_) ASTER_TRY(split_divided(&schedule_, scratch_));
  return plan_memory(schedule_);
}

Status nodes_of(Vec<Node>* out, const Engine& engine, const aster_ml_lazy* const* tensors,
                size_t count) {
  if (tensors == nullptr && count != 0) return ASTER_FAIL(kARGUMENT, "tensors is null");
  for (size_t i = 0; i < count; ++i) {
    const auto* cell = tensors[i] == nullptr ? nullptr : object_of<Lazy>(tensors[i]->impl);
    if (cell == nullptr) return ASTER_FAIL(kARGUMENT, "tensor %zu is an empty handle or freed", i);
    if (cell->engine != &engine) return ASTER_FAIL(kARGUMENT, "tensor %zu: another context", i);
    ASTER_TRY(out->push(cell->node));
  }
  return kOk;
}

}  // namespace aster::engine
