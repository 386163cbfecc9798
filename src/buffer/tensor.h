// Descriptors made inside the library.
#pragma once

#include <span>

#include "aster_ml/buffer.h"
#include "base/context.h"
#include "dtype/dtype.h"

namespace aster::buffer {

// A row-major descriptor that borrows memory it does not own. Owns: its shape and strides.
Status describe(aster_ml_tensor* out, Context& context, void* data, dtype::DType dtype,
                int32_t device, std::span<const int64_t> shape);

}  // namespace aster::buffer
