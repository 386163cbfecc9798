// Descriptors made inside the library.
#pragma once

#include <span>

#include "aster_ml/buffer.h"
#include "base/context.h"
#include "buffer/storage.h"
#include "dtype/dtype.h"

namespace aster::buffer {

// A row-major descriptor that borrows memory it does not own. Owns: its shape and strides.
Status describe(aster_ml_tensor* out, Context& context, void* data, dtype::DType dtype,
                int32_t device, std::span<const int64_t> shape, size_t byte_offset = 0);

// A row-major tensor in new memory of so many bytes, those of its elements. Owns: its shape and
// strides, which hold the memory.
Status create(aster_ml_tensor* out, Context& context, dtype::DType dtype, int32_t device,
              size_t bytes, size_t ndim, const size_t* shape);

// The memory that a descriptor describes, with a reference; null where nobody knows of it.
Storage* storage_of(const aster_ml_tensor& tensor);

// Room for the shape and the strides of a descriptor, which the table knows by the address of
// shape; the memory that it keeps alive becomes axes->held. Threads: any.
Status axes_create(Storage** axes, size_t** shape, ptrdiff_t** strides, Context& context,
                   size_t ndim);

// A descriptor in memory that storage holds (null: that nobody knows of), as
// aster_ml_tensor_from_buffer says. Owns: takes the caller's reference of storage over, if it
// succeeds.
Status describe_in(aster_ml_tensor* out, Context& context, const aster_ml_buffer& memory,
                   Storage* storage, size_t byte_offset, size_t ndim, const size_t* shape,
                   const ptrdiff_t* strides);

}  // namespace aster::buffer
