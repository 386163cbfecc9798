// State of a context's random numbers.
#pragma once

#include "engine/lazy.h"

namespace aster::tensor {

// The counter's cell where a capture has left it to be written; null if there is nothing to write.
engine::Lazy* pending_counter(engine::Engine& engine);

}  // namespace aster::tensor
