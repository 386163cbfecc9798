/* Sparse matrices: three arrays that say which elements are stored; all others are 0.
 *
 * COO        first: the row, second: the column, values: the value of each stored element, in any
 *            order; elements of one place are summed where the matrix is computed with.
 * CSR        first: rows + 1 offsets from 0 up, row i being [first[i], first[i + 1]) of second, the
 *            columns, and of values. Their order within a row is free, duplicates are summed.
 * CSC        the same by columns: first has columns + 1 offsets, second is the rows.
 * Canonical  Places rise and none is stored twice. What a function makes is canonical where it says
 *            nothing else, stored zeros included: nothing looks at values to leave one out, so that
 *            an element that is stored, as ERR of the sticky integers, stays stored.
 * Arrays     One axis, row-major, on the host: indices of int32 or int64, both arrays alike. They
 *            stay where they are, without a copy: a matrix keeps memory that the library knows
 *            alive, any other has to outlive it. All of them are checked when a matrix is made, and
 *            indices must not be written as long as it lives; values may be.
 *            Further elements behind the last one that offsets name count nothing.
 * Indices    What is made of int32 has int32, and int64 where that does not hold it.
 * Dtypes     All. Of two operands they are promoted.
 *            Integers wrap, bool knows or and and; narrow floats are computed in float32 and
 *            rounded once an element. Sticky integers promote to and from no others (DTYPE); sums
 *            of theirs are exact and checked once, products of matrices have the dtype of sums.
 *            Wide floats promote within their family; sums of theirs, of duplicates and of products
 *            are exact and rounded once, as the option flt_rounding of the context says.
 * Order      Terms of a sum are added in a fixed order, so the bits do not depend on the threads,
 *            nor on the vectors that a CPU has.
 * Zeros      What is not stored is exactly 0 and 0 * x is 0 there, also of NaN, infinity and ERR.
 * Handles    Immutable. Not bound to scopes. Operands are of one context.
 */
#ifndef ASTER_ML_SPARSE_H
#define ASTER_ML_SPARSE_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Formats; codes are never reused. */
enum { ASTER_ML_SPARSE_COO = 1, ASTER_ML_SPARSE_CSR = 2, ASTER_ML_SPARSE_CSC = 3 };

/* A sparse matrix. Empty when zeroed. */
typedef struct aster_ml_sparse {
  void *impl;
} aster_ml_sparse;

/* What a sparse matrix is. */
typedef struct aster_ml_sparse_info {
  uint32_t struct_size;
  int32_t format;
  int32_t dtype;       /* of the values */
  int32_t index_dtype; /* INT32 or INT64 */
  int32_t is_canonical;
  uint32_t zero;
  int64_t rows;
  int64_t columns;
  int64_t count; /* of the stored elements */
} aster_ml_sparse_info;

/* A matrix in arrays of the caller's. Owns: references of their memory, which stays in place.
 * Errors: FORMAT (an index outside the matrix, offsets that do not begin with 0, fall, or reach
 * beyond the arrays, arrays of different lengths), SHAPE (not one axis, not row-major), DTYPE
 * (indices of another dtype), RANGE (a size below 0), ARGUMENT (format), UNSUPPORTED (memory of a
 * device). Cost: one pass over the indices. */
ASTER_ML_API int32_t aster_ml_sparse_init(aster_ml_sparse *out, const aster_ml_context *context,
                                          int32_t format, int64_t rows, int64_t columns,
                                          const aster_ml_tensor *first,
                                          const aster_ml_tensor *second,
                                          const aster_ml_tensor *values);

/* Gives the handle up. */
ASTER_ML_API int32_t aster_ml_sparse_free(aster_ml_sparse *x);

/* What x is; struct_size may be less than known or more. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_sparse_get(aster_ml_sparse_info *info, const aster_ml_sparse *x);

/* The arrays of x, in place, each a descriptor of its own to be freed. Owns: the descriptors keep
 * the memory alive. Errors: ARGUMENT (also two of them that are one). */
ASTER_ML_API int32_t aster_ml_sparse_view(aster_ml_tensor *out_first, aster_ml_tensor *out_second,
                                          aster_ml_tensor *out_values, const aster_ml_sparse *x);

/* The elements of a dense matrix that are not 0; -0 is 0, NaN is not. Shapes: [rows, columns].
 * Errors: SHAPE, ARGUMENT (format), UNSUPPORTED (memory of a device). */
ASTER_ML_API int32_t aster_ml_sparse_from_dense(aster_ml_sparse *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *dense, int32_t format);

/* x with its zeros, row-major, duplicates summed. Shapes: [rows, columns]. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_sparse_to_dense(aster_ml_tensor *out, const aster_ml_sparse *x);

/* x in a format and canonical: places sorted, duplicates summed, each sum in the order of the
 * arrays. Shares the arrays of an x that is so already. Errors: ARGUMENT (format), RANGE. */
ASTER_ML_API int32_t aster_ml_sparse_compress(aster_ml_sparse *out, const aster_ml_sparse *x,
                                              int32_t format);

/* out[j, i] = x[i, j]. Shares the arrays: CSR becomes CSC and the other way round. */
ASTER_ML_API int32_t aster_ml_sparse_transpose(aster_ml_sparse *out, const aster_ml_sparse *x);

/* x with other values at the same places, so that any function of tensors can be applied to the
 * stored elements. Shares the arrays. Shapes: values [count]. Errors: SHAPE, FORMAT (another
 * count), UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_sparse_with_values(aster_ml_sparse *out, const aster_ml_sparse *x,
                                                 const aster_ml_tensor *values);

/* x with its values converted, as aster_ml_dtype_copy and aster_ml_flt_copy have it. Errors:
 * DTYPE, ARGUMENT. */
ASTER_ML_API int32_t aster_ml_sparse_cast(aster_ml_sparse *out, const aster_ml_sparse *x,
                                          int32_t dtype);

/* Rows [begin, end) of x, as CSR; negative positions count from the last row. A CSR x shares
 * columns and values, and stays canonical if it is. Errors: RANGE (begin > end, outside x). */
ASTER_ML_API int32_t aster_ml_sparse_slice(aster_ml_sparse *out, const aster_ml_sparse *x,
                                           int64_t begin, int64_t end);

/* out = x dense, by Gustavson's rows: every row of out is the sum of rows of dense. COO and CSC are
 * compressed first. Shapes: x [m, k], dense [k, n] or [k] -> [m, n] or [m]. Out: row-major. Of [k]
 * each row is summed in four parts. Errors: SHAPE, UNSUPPORTED (memory of a device). Threads: parts
 * of rows on the context's. */
ASTER_ML_API int32_t aster_ml_sparse_matmul_dense(aster_ml_tensor *out, const aster_ml_sparse *x,
                                                  const aster_ml_tensor *dense);

/* out = a b, CSR; places that come of stored elements are stored. Shapes: [m, k], [k, n] -> [m, n].
 * Errors: SHAPE, ARGUMENT (another context). */
ASTER_ML_API int32_t aster_ml_sparse_matmul(aster_ml_sparse *out, const aster_ml_sparse *a,
                                            const aster_ml_sparse *b);

/* a + b and a - b where either is stored, a * b where both are. CSC if both are, else CSR.
 * Shapes: equal. Errors: SHAPE, DTYPE (a difference of bool), ARGUMENT (another context). */
ASTER_ML_API int32_t aster_ml_sparse_add(aster_ml_sparse *out, const aster_ml_sparse *a,
                                         const aster_ml_sparse *b);
ASTER_ML_API int32_t aster_ml_sparse_sub(aster_ml_sparse *out, const aster_ml_sparse *a,
                                         const aster_ml_sparse *b);
ASTER_ML_API int32_t aster_ml_sparse_mul(aster_ml_sparse *out, const aster_ml_sparse *a,
                                         const aster_ml_sparse *b);

/* Over one axis, [columns] for 0 and [rows] for 1, or of all, 0-d. count is that of axes; null:
 * both. Dtypes: that of aster_ml_lazy_sum; floats are summed in float64, wide ones exactly. Errors:
 * RANGE (axes). */
ASTER_ML_API int32_t aster_ml_sparse_sum(aster_ml_tensor *out, const aster_ml_sparse *x,
                                         size_t count, const int64_t *axes);

/* The greatest and the least, of the zeros too; NaN wins, and ERR. Dtypes: that of x. Errors: RANGE
 * (axes), SHAPE (of no elements). */
ASTER_ML_API int32_t aster_ml_sparse_max(aster_ml_tensor *out, const aster_ml_sparse *x,
                                         size_t count, const int64_t *axes);
ASTER_ML_API int32_t aster_ml_sparse_min(aster_ml_tensor *out, const aster_ml_sparse *x,
                                         size_t count, const int64_t *axes);

#ifdef __cplusplus
}
#endif
#endif
