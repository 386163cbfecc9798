// How much memory a realize takes, before it runs.
#include "engine/dry_run.h"
#include "runtime/state.h"

namespace aster::engine {
namespace {

Status count_peak(size_t* out, Engine& engine, uop::Nodes nodes) {
  DryRun run(engine);
  ASTER_TRY(run.prepare(nodes));
  ASTER_TRY(run.schedule());
  if (run.memory().failed()) return ASTER_FAIL(kMEMORY, "scheduling ran out of memory");
  auto bytes = static_cast<size_t>(run.made().arena_bytes);
  for (const Slot& slot : run.made().slots) {
    if (slot.kind == SlotKind::kOutput) bytes += static_cast<size_t>(slot.bytes());
  }
  *out = bytes;
  return kOk;
}

}  // namespace
}  // namespace aster::engine

int32_t aster_ml_engine_count_peak(size_t* out, const aster_ml_context* context,
                                   const aster_ml_lazy* const* tensors, size_t count) {
  using namespace aster;
  if (out != nullptr) *out = 0;
  ASTER_ENTER(engine::context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, *engine::context_of(context)));
  Vec<uop::Node> nodes(engine->context.heap());
  ASTER_TRY(engine::nodes_of(&nodes, *engine, tensors, count));
  return engine::count_peak(out, *engine, {nodes.data(), nodes.size()});
}
