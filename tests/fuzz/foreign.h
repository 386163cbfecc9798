// Kernels that are not the library's, for random graphs.
#pragma once

#include "uop/foreign.h"
#include "uop/uop.h"

namespace aster::fuzz {

// On elements of int32 or float32: the larger one of two.
const uop::Foreign& larger_of(uop::DType dtype);
// On an array of elements of 4 bytes, as many as the node counts: the last one first.
const uop::Foreign& turned_around();

}  // namespace aster::fuzz
