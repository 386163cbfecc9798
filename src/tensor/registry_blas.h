// Products by the gemm of OpenBLAS.
#pragma once

#include "tensor/registry.h"

namespace aster::tensor::registry {

void refuse_blas(Refusal* why, Context& context, const Call& call);
Node blas_product(engine::Engine& engine, const Call& call, Nodes operands);
// Whether it was measured to be faster at these sizes on this CPU (products.def).
bool blas_is_fast(Nodes operands, Node usual);

}  // namespace aster::tensor::registry
