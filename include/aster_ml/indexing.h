/* Indexing, gathering, scattering, sorting and selecting.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 *
 * Indices    Tensors of integers. One that lies outside its axis reads 0 and writes nothing; an
 *            integer that is known when the graph is built is a RANGE error instead. In x[...]
 *            negative ones count from the end of the axis; in gather and scatter they are outside.
 * Order      NaN is greater than every number; equal elements keep their order, in descending
 *            order too.
 */
#ifndef ASTER_ML_INDEXING_H
#define ASTER_ML_INDEXING_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What one item of x[...] is. */
typedef int32_t aster_ml_index_kind;
enum {
  ASTER_ML_INDEX_INTEGER = 0,  /* start: the axis disappears */
  ASTER_ML_INDEX_SLICE = 1,    /* start:stop:step */
  ASTER_ML_INDEX_NEW_AXIS = 2, /* an axis of size 1 */
  ASTER_ML_INDEX_ELLIPSIS = 3, /* all axes that the other items leave */
  ASTER_ML_INDEX_TENSOR = 4    /* integers, or a mask of bool that stands for its axes */
};

/* One item of x[...]. Of a slice, INT64_MAX and INT64_MIN reach the ends: start INT64_MIN and stop
 * INT64_MAX is everything, with a negative step start INT64_MAX and stop INT64_MIN; step 0 is 1. */
typedef struct aster_ml_index {
  int32_t kind; /* aster_ml_index_kind */
  int64_t start;
  int64_t stop;
  int64_t step;
  const aster_ml_lazy *tensor; /* null but for ASTER_ML_INDEX_TENSOR */
} aster_ml_index;

/* x[items]: the view that integers and slices make, then the elements that tensors name. Tensors
 * broadcast together; their axes stand where the first tensor stood if they are neighbours (after
 * integers have gone), else first. Missing items are whole axes. A mask of bool reads its data
 * (STATE in a capture). Errors: SHAPE (indices do not broadcast, a mask of another shape), RANGE
 * (too many items, an integer outside), DTYPE (indices that are no integers), ARGUMENT (two
 * ellipses, a null tensor). */
ASTER_ML_API int32_t aster_ml_lazy_index(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                         const aster_ml_index *items);

/* target[items] = value, as aster_ml_lazy_assign for a realised target, and for another one a new
 * value of it. value broadcasts to the part. Of several values for one element the last counts.
 * Views of the target see the write; what other handles compute from its storage is realised
 * before, so that it keeps its values (not so value itself). One value by one mask does not read
 * the mask's data. Alias: value may read target. Errors: as index, DTYPE (value's dtype is not
 * target's). */
ASTER_ML_API int32_t aster_ml_lazy_index_assign(aster_ml_lazy *target, size_t count,
                                                const aster_ml_index *items,
                                                const aster_ml_lazy *value);

/* out[i][j][k] = x[i][index[i][j][k]][k] for axis 1. Shapes: index has as many axes as x and none
 * longer but axis. Errors: SHAPE, RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_gather(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                          const aster_ml_lazy *index);

/* How a scatter combines what meets in one element. */
typedef int32_t aster_ml_scatter_mode;
enum {
  ASTER_ML_SCATTER_WRITE = 0, /* the last one, in row-major order of index */
  ASTER_ML_SCATTER_ADD = 1,
  ASTER_ML_SCATTER_MULTIPLY = 2,
  ASTER_ML_SCATTER_MEAN = 3,
  ASTER_ML_SCATTER_MAX = 4,
  ASTER_ML_SCATTER_MIN = 5
};

/* x, but out[i][index[i][j][k]][k] = src[i][j][k] combined as mode says, for axis 1. include_self:
 * whether the elements of x take part where something meets them. Shapes: index has as many axes as
 * x and src, and is nowhere longer than src, nor than x but on axis; only src's first elements are
 * used. Errors: SHAPE, RANGE, DTYPE, ARGUMENT (mode). */
ASTER_ML_API int32_t aster_ml_lazy_scatter(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                           const aster_ml_lazy *index, const aster_ml_lazy *src,
                                           int32_t mode, int32_t include_self);

/* The elements of an axis in order, and where they stood (int32). Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_sort(aster_ml_lazy *out_values, aster_ml_lazy *out_indices,
                                        const aster_ml_lazy *x, int64_t axis, int32_t descending);

/* Where the elements of an axis in order stand. Dtypes: -> int32. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_argsort(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                           int32_t descending);

/* The first k of sort, largest ones first unless largest is 0. Errors: RANGE (k). */
ASTER_ML_API int32_t aster_ml_lazy_topk(aster_ml_lazy *out_values, aster_ml_lazy *out_indices,
                                        const aster_ml_lazy *x, int64_t k, int64_t axis,
                                        int32_t largest);

/* The elements of x where mask is true, in row-major order, the mask broadcast to x. size: so many
 * of them, the rest fill (null: 0); -1: as many as there are, which reads the mask's data. Errors:
 * SHAPE, DTYPE (mask is no bool), RANGE (size), STATE (-1 in a capture). */
ASTER_ML_API int32_t aster_ml_lazy_masked_select(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                 const aster_ml_lazy *mask, int64_t size,
                                                 const aster_ml_scalar *fill);

/* [n, ndim] positions of the elements of x that are not 0, in row-major order; size and fill as in
 * masked_select. Dtypes: -> int32. Errors: RANGE, STATE. */
ASTER_ML_API int32_t aster_ml_lazy_nonzero(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t size,
                                           const aster_ml_scalar *fill);

#ifdef __cplusplus
}
#endif
#endif
