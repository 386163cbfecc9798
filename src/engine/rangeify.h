// Fusion: decides which nodes of a tensor graph are materialised, and turns everything else into
// index arithmetic inside the kernels that materialise them.
//
// A walk from users to sources hands every node the places at which its users read it (demands). A
// node with one place is computed inside its user's kernel; one with several is recomputed there if
// that is cheap, else it becomes a kernel of its own with fresh loop ranges. A second walk from
// sources to users builds the scalar expressions. The passes and what they hand on to each other:
// engine/fusion.h.
#pragma once

#include "base/arena.h"
#include "engine/regions.h"
#include "engine/schedule.h"

namespace aster::engine {

// Sources before users, bodies of calls left out.
Status walk(Vec<uop::Node>* out, uop::Nodes roots);

// Appends items for every root, in an order that respects what they read and write. regions: where
// the Params lie. here: the host computes. What is lost with memory that could not be had,
// memory.failed() tells.
Status rangeify(Schedule* out, Arena& memory, uop::Graph& graph,
                std::span<const LeafRegion> regions, uop::Node sink, bool here);

// Of kernels of the CPU: loops whose index something divides become loops over quotients and
// remainders.
Status split_divided(Schedule* schedule, uop::Graph& graph);

}  // namespace aster::engine
