// Forms of attention beside the composed one.
#pragma once

#include "tensor/registry.h"

namespace aster::tensor::registry {

void refuse_tiled(Refusal* why, Context& context, const Call& call);
bool prefer_tiled(Words attributes, Nodes operands, Node usual);
Node tiled(engine::Engine& engine, const Call& call, Nodes operands);
Status tiled_gradient(const Backward& of);

void refuse_streaming(Refusal* why, Context& context, const Call& call);
Node streaming(engine::Engine& engine, const Call& call, Nodes operands);

}  // namespace aster::tensor::registry
