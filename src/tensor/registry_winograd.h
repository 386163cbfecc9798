// Convolutions of 3 x 3 by S. Winograd's minimal filtering.
#pragma once

#include "tensor/registry.h"

namespace aster::tensor::registry {

void refuse_winograd(Refusal* why, Context& context, const Call& call);
// Tiles of 2 x 2 results, and of 4 x 4.
Node winograd_2(engine::Engine& engine, const Call& call, Nodes operands);
Node winograd_4(engine::Engine& engine, const Call& call, Nodes operands);
bool winograd_4_is_fast(Nodes operands, Node usual);

}  // namespace aster::tensor::registry
