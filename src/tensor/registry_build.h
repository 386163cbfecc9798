// How a call of a composite is built by an implementation.
#pragma once

#include "tensor/registry.h"

namespace aster::tensor::registry {

// Registry's answer to choose() of uop/composite.h.
Node choose_implementation(uop::Chooser& self, Composite composite, Words attributes,
                           Nodes arguments, Node usual);
void destroy_flow(Context& context, Flow* flow);

}  // namespace aster::tensor::registry
