// From a planned kernel to the text of its function.
#pragma once

#include "codegen/emit.h"
#include "codegen/plan.h"

namespace aster::codegen {

// Appends the function `name` to out.
Status lower(Text& out, const char* name, const Kernel& kernel, const Plan& plan,
             const Target& target, Memory& memory);

}  // namespace aster::codegen
