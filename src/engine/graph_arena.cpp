#include "engine/graph_arena.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/options.h"
#include "base/set.h"
#include "engine/indexing.h"

namespace aster::engine {
namespace {

using uop::Node;

// Handles of the arenas that are open in a thread, whichever of them still live.
struct Open {
  std::array<void*, 64> handles;
  size_t depth;
};
constinit thread_local Open open_arenas{};

void join(GraphArena& arena, Lazy& lazy) {
  lazy.arena = &arena;
  lazy.beside_in_arena = arena.cells;
  lazy.arena_link = &arena.cells;
  if (arena.cells != nullptr) arena.cells->arena_link = &lazy.beside_in_arena;
  arena.cells = &lazy;
  note_change(arena);
}

void free_arena(HandleObject* object) {
  auto* arena = static_cast<GraphArena*>(object);
  while (arena->cells != nullptr) leave_arena(*arena->cells);
  --arena->engine.living_arenas;
  object->context->heap().destroy(arena);
}

// Whether there is something to compute for a node.
bool is_pending(Node node) {
  return !dtype::is_weak(node->dtype) && memory_below(node) == nullptr &&
         !uop::is_const(below_views(node));
}

Status add_pending(Vec<Lazy*>* out, const GraphArena& arena) {
  Set<Lazy*> there(out->memory());
  bool fresh = false;
  for (Lazy* given : *out) ASTER_TRY(there.add(&fresh, given));
  for (Lazy* cell = arena.cells; cell != nullptr; cell = cell->beside_in_arena) {
    if (!is_pending(cell->node)) continue;
    ASTER_TRY(there.add(&fresh, cell));
    if (fresh) ASTER_TRY(out->push(cell));
  }
  return kOk;
}

// A cell of an arena that keeps apart reads what has cells of others alone: one of these.
Lazy* other_cell(const GraphArena* reader, Node node) {
  if (reader == nullptr || (reader->flags & ASTER_ML_ARENA_APART) == 0 || !is_pending(node))
    return nullptr;
  for (const Lazy* cell = cells_of(node); cell != nullptr; cell = cell->beside) {
    if (cell->arena == reader) return nullptr;
  }
  return cells_of(node);
}

// What cells of an arena read of others, in the order in which it can be realised.
Status find_others(Vec<Lazy*>* out, GraphArena& arena, std::span<Lazy* const> cells) {
  Heap& heap = arena.engine.context.heap();
  Vec<Node> roots(heap), nodes(heap);
  Map<Node, GraphArena*> readers(heap);
  for (Lazy* cell : cells) {
    ASTER_TRY(roots.push(cell->node));
    ASTER_TRY(readers.set(cell->node, &arena));
  }
  ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node node = nodes[i];
    GraphArena* reader = readers.get(node, nullptr);
    if (Lazy* other = other_cell(reader, node)) {
      ASTER_TRY(out->push(other));
      reader = other->arena;
    }
    for (Node source : node->src()) {
      if (!readers.contains(source)) ASTER_TRY(readers.set(source, reader));
    }
  }
  std::reverse(out->begin(), out->end());
  return kOk;
}

Status realize_of(GraphArena& arena, std::span<Lazy* const> cells) {
  Engine& engine = arena.engine;
  const aster_ml_engine_counters before = engine.counters;
  Plans* const outer = std::exchange(engine.plans_now, &arena.plans);
  const Status status = realize_here(engine, cells);
  engine.plans_now = outer;
  const aster_ml_engine_counters& now = engine.counters;
  aster_ml_arena_counters& c = arena.counters;
  c.plan_hits += now.schedule_hits - before.schedule_hits;
  c.plan_misses += now.schedule_misses - before.schedule_misses;
  c.realizes = c.plan_hits + c.plan_misses;
  c.kernels += now.kernels_scheduled - before.kernels_scheduled;
  c.planned_bytes += now.planned_bytes - before.planned_bytes;
  c.schedule_ms += now.schedule_ms - before.schedule_ms;
  c.compile_ms += now.compile_ms - before.compile_ms;
  return status;
}

// Cells of one arena, or of none, one group behind the other.
template <typename Function>
Status each_run(std::span<Lazy* const> cells, Function&& function) {
  for (size_t first = 0, end; first < cells.size(); first = end) {
    GraphArena* const arena = cells[first]->arena;
    for (end = first + 1; end < cells.size() && cells[end]->arena == arena;) ++end;
    ASTER_TRY(function(arena, cells.subspan(first, end - first)));
  }
  return kOk;
}

Status realize_group(Engine& engine, GraphArena* arena, std::span<Lazy* const> cells) {
  if (arena == nullptr) return realize_here(engine, cells);
  Heap& heap = engine.context.heap();
  Vec<Lazy*> all(heap), others(heap);
  ASTER_TRY(all.append(cells.data(), cells.size()));
  if ((arena->flags & ASTER_ML_ARENA_TOGETHER) != 0) ASTER_TRY(add_pending(&all, *arena));
  if ((arena->flags & ASTER_ML_ARENA_APART) != 0) {
    ASTER_TRY(find_others(&others, *arena, {all.data(), all.size()}));
    ASTER_TRY(each_run({others.data(), others.size()}, [&](GraphArena* of, auto group) {
      return of == nullptr ? realize_here(engine, group) : realize_of(*of, group);
    }));
  }
  return realize_of(*arena, {all.data(), all.size()});
}

}  // namespace

void note_change(GraphArena& arena) { ++arena.counters.version; }

void join_open_arena(Lazy& lazy) {
  for (size_t i = std::min(open_arenas.depth, open_arenas.handles.size()); i-- > 0;) {
    auto* arena = object_of<GraphArena>(open_arenas.handles[i]);
    if (arena == nullptr || &arena->engine != lazy.engine) continue;
    join(*arena, lazy);
    return;
  }
}

void leave_arena(Lazy& lazy) {
  if (lazy.arena == nullptr) return;
  *lazy.arena_link = lazy.beside_in_arena;
  if (lazy.beside_in_arena != nullptr) lazy.beside_in_arena->arena_link = lazy.arena_link;
  note_change(*lazy.arena);
  lazy.arena = nullptr;
}

Status realize_by_arenas(Engine& engine, std::span<Lazy* const> cells) {
  // Cells that are asked for together and are of one arena stay together.
  Heap& heap = engine.context.heap();
  Vec<Lazy*> sorted(heap);
  for (size_t i = 0; i < cells.size(); ++i) {
    GraphArena* const arena = cells[i]->arena;
    bool seen = false;
    for (size_t before = 0; before < i && !seen; ++before) seen = cells[before]->arena == arena;
    for (size_t at = i; at < cells.size() && !seen; ++at) {
      if (cells[at]->arena == arena) ASTER_TRY(sorted.push(cells[at]));
    }
  }
  return each_run({sorted.data(), sorted.size()}, [&](GraphArena* arena, auto group) {
    return realize_group(engine, arena, group);
  });
}

}  // namespace aster::engine

using aster::engine::GraphArena;

namespace {

GraphArena* arena_of(const aster_ml_arena* arena) {
  return arena == nullptr ? nullptr : aster::object_of<GraphArena>(arena->impl);
}

aster::Status no_arena() { return ASTER_FAIL(kARGUMENT, "an empty arena, or one that was freed"); }

}  // namespace

// Names the public function and holds the context of an arena, or returns.
#define ASTER_ENTER_ARENA(name, handle)           \
  ASTER_API();                                    \
  GraphArena* const name = arena_of(handle);      \
  if (name == nullptr) return no_arena();         \
  ::aster::ContextLock aster_lock(name->context); \
  ASTER_TRY(aster_lock.status())

int32_t aster_ml_arena_init(aster_ml_arena* out, const aster_ml_context* context, uint32_t flags) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER(aster::context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  constexpr uint32_t kKnown = ASTER_ML_ARENA_TOGETHER | ASTER_ML_ARENA_APART;
  if ((flags & ~kKnown) != 0)
    return ASTER_FAIL(kARGUMENT, "flags %u of an arena: TOGETHER is 1, APART 2", flags);
  aster::engine::Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *aster::context_of(context)));
  aster::Heap& heap = engine->context.heap();
  auto* arena = heap.create<GraphArena>(*engine, flags);
  if (arena == nullptr) return aster::out_of_memory(sizeof(GraphArena));
  const aster::Status status =
      aster::handle_init(arena, engine->context, aster::engine::free_arena);
  if (!status.ok()) {
    heap.destroy(arena);
    return status;
  }
  aster::scope_remove(arena);
  ++engine->living_arenas;
  out->impl = arena->handle;
  return aster::kOk;
}

int32_t aster_ml_arena_begin(const aster_ml_arena* arena) {
  ASTER_API();
  if (arena_of(arena) == nullptr) return no_arena();
  auto& open = aster::engine::open_arenas;
  if (open.depth == open.handles.size())
    return ASTER_FAIL(kSTATE, "%zu arenas are open in this thread", open.depth);
  open.handles[open.depth++] = arena->impl;
  return aster::kOk;
}

int32_t aster_ml_arena_end(void) {
  ASTER_API();
  auto& open = aster::engine::open_arenas;
  if (open.depth == 0) return ASTER_FAIL(kSTATE, "no arena is open in this thread");
  --open.depth;
  return aster::kOk;
}

int32_t aster_ml_arena_add(const aster_ml_arena* arena, const aster_ml_lazy* x) {
  ASTER_ENTER_ARENA(a, arena);
  auto* cell = x == nullptr ? nullptr : aster::object_of<aster::engine::Lazy>(x->impl);
  if (cell == nullptr) return ASTER_FAIL(kARGUMENT, "an empty tensor, or one that was freed");
  if (cell->engine != &a->engine)
    return ASTER_FAIL(kARGUMENT, "the tensor and the arena are of different contexts");
  cell = aster::engine::whole_of(cell);
  aster::engine::leave_arena(*cell);
  aster::engine::join(*a, *cell);
  return aster::kOk;
}

int32_t aster_ml_arena_realize(const aster_ml_arena* arena) {
  ASTER_ENTER_ARENA(a, arena);
  aster::Vec<aster::engine::Lazy*> cells(a->context->heap());
  ASTER_TRY(aster::engine::add_pending(&cells, *a));
  if (cells.empty()) return aster::kOk;
  return aster::engine::realize_by_arenas(a->engine, {cells.data(), cells.size()});
}

int32_t aster_ml_arena_to_uop(const aster_ml_uop** out, const aster_ml_arena* arena) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER_ARENA(a, arena);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  aster::Heap& heap = a->context->heap();
  aster::Vec<aster::engine::Lazy*> cells(heap);
  aster::Vec<aster::uop::Node> roots(heap);
  ASTER_TRY(aster::engine::add_pending(&cells, *a));
  if (cells.empty()) return ASTER_FAIL(kNOT_FOUND, "nothing is pending in the arena");
  for (const auto* cell : cells) ASTER_TRY(roots.push(cell->node));
  const aster::uop::Node sink = a->engine.graph.sink({roots.data(), roots.size()});
  ASTER_TRY(aster::engine::need(sink));
  a->engine.graph.retain(sink);
  *out = reinterpret_cast<const aster_ml_uop*>(sink);
  return aster::kOk;
}

int32_t aster_ml_arena_count(aster_ml_arena_counters* counters, const aster_ml_arena* arena) {
  ASTER_ENTER_ARENA(a, arena);
  if (counters == nullptr || counters->struct_size < sizeof(uint32_t))
    return ASTER_FAIL(kARGUMENT, "null counters, or struct_size not set");
  aster_ml_arena_counters now = a->counters;
  now.flags = a->flags;
  now.plans = a->plans.size();
  aster::Heap& heap = a->context->heap();
  aster::Vec<aster::uop::Node> roots(heap), nodes(heap);
  for (auto* cell = a->cells; cell != nullptr; cell = cell->beside_in_arena) {
    ++now.tensors;
    if (!aster::engine::is_pending(cell->node)) continue;
    ++now.pending;
    ASTER_TRY(roots.push(cell->node));
  }
  ASTER_TRY(aster::uop::toposort(&nodes, {roots.data(), roots.size()}));
  now.nodes = nodes.size();
  for (aster::uop::Node node : nodes) now.parameters += node->op == aster::uop::Op::kBuffer;
  aster::write_struct(counters, now);
  return aster::kOk;
}

int32_t aster_ml_arena_reset(const aster_ml_arena* arena) {
  ASTER_ENTER_ARENA(a, arena);
  a->plans.clear();
  return aster::kOk;
}

int32_t aster_ml_arena_free(aster_ml_arena* arena) {
  ASTER_API();
  if (arena != nullptr) aster::give_up(&arena->impl);
  return aster::kOk;
}
