// What a kernel computes, in a few words for people.
#pragma once

#include "base/text.h"
#include "uop/uop.h"

namespace aster::codegen {

constexpr size_t kTitleBytes = 64;

// "matmul_add_relu_64x512_r784": its operations in the order of their values, the loops of its
// results, the loops of its reductions. Equal kernels have equal titles; unequal ones may. Cheap
// operations are left out where there are many.
Status write_title(char (&out)[kTitleBytes], uop::Node sink, Memory& memory);

// "64x512", or "n32768" where that is too long for a title.
void write_sizes(Text& out, uop::Words sizes);

}  // namespace aster::codegen
