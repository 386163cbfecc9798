// What realising some tensors would do, found and not done.
#pragma once

#include "engine/engine.h"
#include "engine/leaves.h"
#include "engine/rangeify.h"

namespace aster::engine {

class DryRun {
 public:
  explicit DryRun(Engine& engine)
      : engine_(engine),
        memory_(engine.context.blocks()),
        scratch_(memory_, false),
        leaves_(memory_),
        schedule_(memory_) {}

  // The graph as fusion gets it. Errors: as realize's.
  Status prepare(uop::Nodes nodes);
  // Its schedule. Errors: UNSUPPORTED (a dtype that no kernel has), as realize's otherwise.
  Status schedule();

  uop::Node prepared() const { return sink_; }
  uop::Graph& graph() { return scratch_; }  // that kernels are of
  const Schedule& made() const { return schedule_; }
  Arena& memory() { return memory_; }

 private:
  Engine& engine_;
  Arena memory_;
  uop::Graph scratch_;
  Leaves leaves_;
  Schedule schedule_;
  uop::Node sink_ = nullptr;
  bool near_ = true;  // kernels are of the CPU
  bool here_ = true;  // the host computes
};

// Nodes behind handles of lazy tensors. Errors: ARGUMENT (null, freed, another context).
Status nodes_of(Vec<uop::Node>* out, const Engine& engine, const aster_ml_lazy* const* tensors,
                size_t count);

// What aster_ml_engine_graph writes of nodes.
Status write_graph_text(Text& out, Engine& engine, int32_t level, int32_t format, uop::Nodes nodes);

}  // namespace aster::engine
