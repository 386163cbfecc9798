// From the value of a torch file's pickle to a state.
#pragma once

#include "nn/pickle.h"
#include "nn/source.h"

namespace aster::nn {

// FORMAT: a damaged torch file.
Status damaged_torch(const char* what);

// The tensors below root by their paths, and the structure as JSON. The storages of the pickle are
// found in source. Errors: FORMAT, UNSUPPORTED.
Status fill_from_value(State& state, engine::Engine& engine, const Source& source, Pickle& pickle,
                       Pickle::Index root);

}  // namespace aster::nn
