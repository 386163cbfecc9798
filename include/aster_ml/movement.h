/* Movement beyond reshape and permute: rolling, diagonals, windows, padding modes, repetition.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 */
#ifndef ASTER_ML_MOVEMENT_H
#define ASTER_ML_MOVEMENT_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shapes ---- */

/* Elements 0 <= i < shape[k] of every axis; -1 keeps an axis. Shapes: count is the ndim of x.
 * Errors: SHAPE (count), RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_shrink_to(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             size_t count, const int64_t *shape);

/* x, then fill up to shape[k] on every axis; -1 keeps an axis, a null fill is 0. Shapes: count is
 * the ndim of x. Dtypes: fill is converted to that of x. Errors: SHAPE (count), RANGE (less than x
 * has). */
ASTER_ML_API int32_t aster_ml_lazy_pad_to(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                          const int64_t *shape, const aster_ml_scalar *fill);

/* One axis becomes count axes of the given sizes, of which one may be -1 and is inferred. Errors:
 * SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_unflatten(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             int64_t axis, size_t count, const int64_t *sizes);

/* Removes every axis of size 1. */
ASTER_ML_API int32_t aster_ml_lazy_squeeze_all(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Axes split, reordered and joined as a formula says: "b (h p) c -> b h (p c)". Names are letters,
 * digits and inner underscores; a group in parentheses is one axis, "1" or "()" an axis of size 1,
 * "..." any number of axes (not in a group on the left). Both sides name the same axes, each once.
 * Of a group on the left one size is inferred, the others are given: sizes[k] is that of names[k].
 * Errors: FORMAT (the formula), NOT_FOUND (a name that is not in it), SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_rearrange(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             const char *formula, size_t count,
                                             const char *const *names, const int64_t *sizes);

/* ---- Parts and grids ---- */

/* Parts of the given sizes along an axis, in order. Out: count handles. Errors: SHAPE (sizes do not
 * add up to the axis), RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_split(aster_ml_lazy *out, size_t count, const aster_ml_lazy *x,
                                         const int64_t *sizes, int64_t axis);

/* Parts of one size along an axis, the last one smaller where it does not divide; of an empty axis
 * one empty part. Out: out_count of `capacity` handles, the others empty. Errors: RANGE (size < 1
 * unless the axis is empty, capacity). */
ASTER_ML_API int32_t aster_ml_lazy_split_every(aster_ml_lazy *out, size_t *out_count,
                                               size_t capacity, const aster_ml_lazy *x,
                                               int64_t size, int64_t axis);

/* At most `chunks` parts of equal size along an axis, the last one smaller where it does not
 * divide; of an empty axis that many empty parts. Out: out_count of `chunks` handles, the others
 * empty. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_chunk(aster_ml_lazy *out, size_t *out_count, size_t chunks,
                                         const aster_ml_lazy *x, int64_t axis);

/* How the axes of a grid are ordered. */
typedef int32_t aster_ml_indexing;
enum { ASTER_ML_INDEXING_IJ = 0, ASTER_ML_INDEXING_XY = 1 };

/* out[k][i_0, i_1, ...] = tensors[k][i_k]; with XY the first two axes swap places. One tensor is
 * given back as it is. Shapes: 0-d or 1-d tensors. Out: count handles. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_meshgrid(aster_ml_lazy *out, const aster_ml_lazy *const *tensors,
                                            size_t count, aster_ml_indexing indexing);

/* ---- Diagonals and triangles ---- */

/* [n, n] with x on the diagonal, 0 elsewhere. Shapes: x [n]. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_diag(aster_ml_lazy *out, const aster_ml_lazy *x);

/* out[..., i] = x[.., i, .., i + offset, ..] (a negative offset: i - offset, i): the diagonal of
 * two axes, which disappear; it becomes the last axis. Errors: RANGE (axes, equal ones). */
ASTER_ML_API int32_t aster_ml_lazy_diagonal(aster_ml_lazy *out, const aster_ml_lazy *x,
                                            int64_t offset, int64_t axis0, int64_t axis1);

/* x where j <= i + diagonal, else 0; i and j are the last two axes. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_tril(aster_ml_lazy *out, const aster_ml_lazy *x,
                                        int64_t diagonal);

/* x where j >= i + diagonal, else 0; i and j are the last two axes. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_triu(aster_ml_lazy *out, const aster_ml_lazy *x,
                                        int64_t diagonal);

/* ---- Rolling, repeating, windows ---- */

/* out[.., (i + shifts[k]) mod n, ..] = x[.., i, ..] along axes[k]; null axes: x flattened, rolled
 * by the one shift and given its shape again. Errors: SHAPE (several shifts without axes), RANGE.
 */
ASTER_ML_API int32_t aster_ml_lazy_roll(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                        const int64_t *shifts, const int64_t *axes);

/* x of the given shape, axis k of x being axis axes[k] of the result and everything the same along
 * the others: out[i..] = x[i[axes[0]], i[axes[1]], ..], where an axis of size 1 repeats. Shapes:
 * count is the ndim of x. Axes may be negative. Errors: SHAPE (count; a size of x that is neither 1
 * nor that of its axis), RANGE (an axis out of bounds, or twice). */
ASTER_ML_API int32_t aster_ml_lazy_broadcast(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             size_t ndim, const int64_t *shape, size_t count,
                                             const int64_t *axes);

/* x repeated[k] times along its axes, which are aligned at the last. Shapes: count is at least the
 * ndim of x. Errors: SHAPE (count), RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_repeat(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                          const int64_t *repeats);

/* Every element of an axis `repeats` times in a row. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_repeat_interleave(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                     int64_t repeats, int64_t axis);

/* out[.., o, .., k] = x[.., o * step + k, ..]: windows of an axis, their elements a new last axis.
 * Errors: RANGE (step < 1, a size beyond the axis). */
ASTER_ML_API int32_t aster_ml_lazy_unfold(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                          int64_t size, int64_t step);

/* What stands beyond the ends of an axis. */
typedef int32_t aster_ml_padding;
enum {
  ASTER_ML_PADDING_CONSTANT = 0,  /* the fill */
  ASTER_ML_PADDING_REFLECT = 1,   /* ... 2 1 | 0 1 2 | 1 0 ... */
  ASTER_ML_PADDING_REPLICATE = 2, /* ... 0 0 | 0 1 2 | 2 2 ... */
  ASTER_ML_PADDING_CIRCULAR = 3   /* ... 1 2 | 0 1 2 | 0 1 ... */
};

/* As aster_ml_lazy_pad, with other fillings; negative amounts cut off, before wrapping but after
 * reflecting and replicating. A null fill is 0. Shapes: count is the ndim of x. Errors: SHAPE
 * (count), RANGE (more than the axis can reflect or wrap once, an empty axis), ARGUMENT (mode). */
ASTER_ML_API int32_t aster_ml_lazy_pad_mode(aster_ml_lazy *out, const aster_ml_lazy *x,
                                            size_t count, const int64_t *before,
                                            const int64_t *after, aster_ml_padding mode,
                                            const aster_ml_scalar *fill);

#ifdef __cplusplus
}
#endif
#endif
