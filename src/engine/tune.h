// A search over the plans of a kernel: neighbours of the planner's, compiled and run on memory of
// their own. What it finds is kept on disk beside the kernels, for the CPU that it was found on.
#pragma once

#include "codegen/plan.h"
#include "engine/engine.h"

namespace aster::engine {

// Where the context's beam is set, the best plan of a kernel of the host that is known or found;
// *found: whether there is one. Kernels whose operands would take too much memory have none.
// Errors: MEMORY, CANCELLED.
Status tuned_plan(codegen::Plan* out, bool* found, Engine& engine, const runtime::Device& host,
                  uop::Graph& scratch, uop::Node kernel);

}  // namespace aster::engine
