// Operands that lie on another device than the one that computes.
#pragma once

#include "engine/engine.h"

namespace aster::engine {

// A copy on a device of every piece of storage that roots read and that lies elsewhere: into map.
// Asks the context for each. Errors: UNSUPPORTED (refused), DEVICE (inside a capture, whose replays
// would not copy again).
Status bring(Map<uop::Node, uop::Node>* map, Engine& engine, uop::Nodes roots, int32_t device);

}  // namespace aster::engine
