/* Sticky integers: where the errors of tensors of tbb8 to tbb64 are (dtype.h says what they are).
 *
 * Errors besides the conventions of base.h: DTYPE where x is not sticky.
 */
#ifndef ASTER_ML_STICKY_H
#define ASTER_ML_STICKY_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = whether x is ERR, element by element. Dtypes: -> bool. Errors: DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_is_error(aster_ml_lazy *out, const aster_ml_lazy *x);

/* How many elements of x are ERR. Shapes: -> []. Dtypes: -> int64. Errors: DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_error_count(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Which rows of x, vectors along its last axis, have an ERR: those that a product with x on the
 * left spoils. Shapes: [.., m, n] -> [.., m]. Dtypes: -> bool. Errors: DTYPE, SHAPE (0-d). */
ASTER_ML_API int32_t aster_ml_lazy_error_rows(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Which columns of x, vectors along its last axis but one, have an ERR: those that a product with x
 * on the right spoils. Shapes: [.., m, n] -> [.., n]. Dtypes: -> bool. Errors: DTYPE, SHAPE (less
 * than two axes). */
ASTER_ML_API int32_t aster_ml_lazy_error_columns(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Where the first ERR of x in row-major order is: an index for every axis, -1 for all where there
 * is none. Shapes: of n axes -> [n]. Dtypes: -> int64. Errors: DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_first_error(aster_ml_lazy *out, const aster_ml_lazy *x);

/* The number of a sticky scalar as decimal text, or "ERR". size: of out; 21 is enough for any.
 * Errors: ARGUMENT, DTYPE, RANGE (it does not fit). */
ASTER_ML_API int32_t aster_ml_sticky_text(char *out, size_t size, const aster_ml_scalar *scalar);

#ifdef __cplusplus
}
#endif
#endif
