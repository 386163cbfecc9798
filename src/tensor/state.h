// What parts of the front end keep in a context, each by itself.
#pragma once

#include "base/context.h"

namespace aster::tensor {

enum class Part : uint8_t { kRandom, kMatrices, kRegistry, kProducts, kCount };

// Null until it is set.
void* part_of(const Context& context, Part part);
// Once for a part; destroy runs when the context ends.
Status set_part(Context& context, Part part, void* state,
                void (*destroy)(Context& context, void* state));

}  // namespace aster::tensor
