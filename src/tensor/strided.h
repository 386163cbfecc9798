// Strided memory as movements over it.
#pragma once

#include "tensor/api.h"

namespace aster::tensor {

// The elements of a checked descriptor, whose first one is at byte offset of storage: slices,
// flips, permutations and repetitions of a Buffer. *out is null where no movements say it: its
// strides overlap, or reach beyond what reaches next. to_write: a view that can be assigned to, if
// there is one; else a piece of memory moved as a whole gives the same graph at every place.
Status strided_node(Node* out, Build& build, buffer::Storage* storage, size_t offset,
                    const aster_ml_tensor& tensor, DType dtype, bool to_write);

}  // namespace aster::tensor
