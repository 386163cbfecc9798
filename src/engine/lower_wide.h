// Wide floats as words, and what is computed of them as operations on words.
#pragma once

#include "uop/uop.h"

namespace aster::engine {

// *sink without wide dtypes: a tensor of them is one of uint64 with one more axis, the last, along
// which its words lie, so that movement, choices and storage are those of integers; what is
// computed is a Wide node on words (uop/wide.h). Calls that compute them are their bodies. Errors:
// UNSUPPORTED (an operation without a meaning on them), MEMORY.
Status lower_wide(uop::Node* sink, uop::Graph& g);

}  // namespace aster::engine
