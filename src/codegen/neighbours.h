// Plans beside a plan, for a search over them (engine/tune.h).
#pragma once

#include "codegen/plan.h"

namespace aster::codegen {

// All legal plans of a kernel that differ from one in a single choice: copies of a tile or how two
// of them share the registers, the vectorised range and its lanes, the order of two loops, blocks,
// what is packed, streamed, written out, rolled or kept. Ends, and what a choice makes impossible
// elsewhere, follow it. Those of the largest effect first. Errors: MEMORY.
Status neighbours(Vec<Plan>* out, const Plan& plan, const Kernel& kernel, const Target& target,
                  Memory& memory);

}  // namespace aster::codegen
