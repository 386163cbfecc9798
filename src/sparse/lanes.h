// The loop that takes the time of sparse x dense: rows of the result as sums of rows of the dense
// matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dtype/dtype.h"

namespace aster::sparse {

// One call: rows of out = sum of values[p] times rows places[p] of dense.
struct RowSums {
  const void* offsets;
  const void* places;
  const void* values;
  const void* dense;
  void* out;
  int64_t dense_stride, out_stride;  // in elements
  int64_t columns;
  const float* decoded;  // of 8-bit floats: what each code is
  dtype::DType dtype;
};
using RowSumsCode = void (*)(const RowSums& call, int64_t begin, int64_t end);

// For a dtype and width of indices: the widest vectors that the CPU has, vector_bytes (16, 32, 64;
// 0: any) allows and `columns` fill. The bits are the same.
RowSumsCode row_sums_for(dtype::DType dtype, bool wide_indices, int64_t columns,
                         int32_t vector_bytes);

}  // namespace aster::sparse
