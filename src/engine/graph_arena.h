// Arenas of a graph (aster_ml/arena.h): lists of cells with schedules of their own.
#pragma once

#include "aster_ml/arena.h"
#include "engine/engine.h"

namespace aster::engine {

struct GraphArena : HandleObject {
  explicit GraphArena(Engine& of, uint32_t given)
      : engine(of), flags(given), plans(of.context.heap()) {}
  Engine& engine;
  uint32_t flags;
  Lazy* cells = nullptr;
  Plans plans;
  aster_ml_arena_counters counters = {};
};

// A cell becomes one of the arena that is open in this thread, if there is one in its context.
void join_open_arena(Lazy& lazy);
void leave_arena(Lazy& lazy);
// A cell became another node.
void note_change(GraphArena& arena);

// Realises cells of any arenas, each by its own plans.
Status realize_by_arenas(Engine& engine, std::span<Lazy* const> cells);
// The same by the plans that are looked into now.
Status realize_here(Engine& engine, std::span<Lazy* const> cells);

}  // namespace aster::engine
