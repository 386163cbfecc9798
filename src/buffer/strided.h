// Extents of strided descriptors, and copies of their elements.
#pragma once

#include "aster_ml/buffer.h"
#include "base/status.h"

namespace aster::buffer {

// Product of a shape, and the bytes of that many elements. Errors: RANGE (overflow), ARGUMENT (null
// shape).
Status count_elements(size_t* count, size_t* bytes, size_t ndim, const size_t* shape, size_t size);
// Strides of a row-major tensor.
void row_major(ptrdiff_t* strides, size_t ndim, const size_t* shape);
bool is_row_major(size_t ndim, const size_t* shape, const ptrdiff_t* strides);
// A descriptor's own fields: dtype, device, arrays, every element inside the buffer. Errors:
// ARGUMENT, DTYPE, RANGE.
Status check_tensor(const aster_ml_tensor* tensor);

// Elements in memory from outside: their strides count units of some bytes; null: row-major. Memory
// of a device is named by a handle, data, and offset is where in it the first one lies.
struct Elements {
  void* data;
  size_t offset;
  bool host;
  size_t size;  // of an element
  size_t ndim;
  const size_t* shape;
  const ptrdiff_t* strides;
  size_t unit;
};
// The bytes that they lie in: of addresses from the lowest one, and where in them the first one is.
struct Extent {
  void* data;
  size_t bytes;
  size_t first;
};
// Errors: ARGUMENT (null, not aligned), RANGE (overflow).
Status surround(Extent* out, const Elements& elements);

// Copies elements of 1, 2, 4 or 8 bytes; steps in bytes.
void copy_row(char* to, ptrdiff_t to_step, const char* from, ptrdiff_t from_step, size_t count,
              size_t size);

// Between a tensor and count row-major elements at memory (on device; kHost for host memory).
Status gather(void* memory, int32_t device, const aster_ml_tensor& tensor);
Status scatter(const aster_ml_tensor& tensor, const void* host);

}  // namespace aster::buffer
