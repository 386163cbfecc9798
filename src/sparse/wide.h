// What sums of wide floats take besides the loops of the other dtypes.
#pragma once

#include "sparse/matrix.h"

namespace aster::sparse {

// m of CSR by rows of `columns` elements, which begin `stride` elements from each other.
Status wide_product_dense(void* out, Context& context, const Matrix& m, const void* dense,
                          int64_t stride, int64_t columns);
// Both CSR, of one dtype and one width of indices.
Status wide_product(Matrix* out, Context& context, const Matrix& a, const Matrix& b);
// Of a canonical m by lines: over lines, a sum a place; over places, a sum a line; or of all.
Status wide_sums(void* out, Context& context, const Matrix& m, bool over_lines, bool all);

}  // namespace aster::sparse
