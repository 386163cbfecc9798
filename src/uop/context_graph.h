// The graph of a context: tensors, the engine and aster_ml/uop.h all build in it.
#pragma once

#include "base/context.h"
#include "uop/uop.h"

namespace aster::uop {

// Made at the first call, destroyed with the context. Errors: MEMORY.
Status graph_of_context(Graph** out, Context& context);

}  // namespace aster::uop
