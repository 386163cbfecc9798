/* Symbolic dimensions: lazy tensors whose sizes are expressions of variables.
 *
 * A variable is an integer with a name and bounds. An expression of variables is a node (uop.h);
 * where its variables have values it is bound, and can be the size of a tensor, or a position in
 * one. Such a tensor computes with the present sizes and serves every value: a program that is
 * captured with it (aster_ml_engine_capture_begin) takes the values anew at every run.
 *
 *   const aster_ml_uop *n = NULL, *now = NULL;
 *   aster_ml_symbolic_init(&n, context, "n", 1, 2048);
 *   aster_ml_symbolic_bind(&now, context, n, "n", 5);
 *   aster_ml_dim begin[2] = {{0, NULL}, {0, NULL}}, end[2] = {{0, now}, {64, NULL}};
 *   aster_ml_lazy_shrink_dims(&keys, &cache, 2, begin, end);    cache: 2048 x 64, keys: n x 64
 *   aster_ml_lazy_sum(&sums, &keys, 1, axes, 0);                as any tensor: of the first 5 rows
 *
 * Shapes     aster_ml_lazy_shape and its like give the present sizes, aster_ml_lazy_dims the
 *            expressions. Memory is taken for the greatest sizes; reading gives the present ones.
 * Functions  All take such tensors. Those that are elementwise, move, join, repeat, select or write
 *            elements, sum and otherwise reduce, products, windows (convolutions and pools) and
 *            what is computed of matrices beside such axes stay symbolic, as far as sizes go
 *            together whatever the values are: equal expressions, or numbers within the bounds. The
 *            results of others are tensors of the present sizes.
 * Captures   Where a function used a value, or a size was read as a number, what is captured is for
 *            this value alone: a run with another is UNSUPPORTED. aster_ml_program_get_variable
 *            tells. Where positions or sizes have to be inside others (a part of a tensor, an axis
 *            that is padded by its own elements, windows), it is for values for which they are: a
 *            run with another is RANGE, and has done nothing (aster_ml_program_is_for). What was
 * realised before the capture holds what it was computed with: a run with a greater value finds no
 * more elements in it than the memory that it views has.
 */
#ifndef ASTER_ML_SYMBOLIC_H
#define ASTER_ML_SYMBOLIC_H

#include "aster_ml/base.h"
#include "aster_ml/spatial.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One size or position: value, unless there is an expression, which is bound then. */
typedef struct aster_ml_dim {
  int64_t value;
  const aster_ml_uop *expression;
} aster_ml_dim;

/* A variable from min to max, both included, as an expression; retained. Equal names and bounds are
 * the same variable. Errors: ARGUMENT (name is not UTF-8, or empty), RANGE (min > max). */
ASTER_ML_API int32_t aster_ml_symbolic_init(const aster_ml_uop **out,
                                            const aster_ml_context *context, const char *name,
                                            int64_t min, int64_t max);

/* The expression a op b; retained. op: "Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min" or "Max",
 * the divisions rounded down, as in Python. Errors: ARGUMENT (another op; an expression that is not
 * of integers), RANGE (division by 0). */
ASTER_ML_API int32_t aster_ml_symbolic_combine(const aster_ml_uop **out,
                                               const aster_ml_context *context, const char *op,
                                               const aster_ml_dim *a, const aster_ml_dim *b);

/* The expression with a value in the place of the variables of a name; retained. Errors: ARGUMENT
 * (no variable of the context has the name), RANGE (value is out of its bounds). */
ASTER_ML_API int32_t aster_ml_symbolic_bind(const aster_ml_uop **out,
                                            const aster_ml_context *context,
                                            const aster_ml_uop *expression, const char *name,
                                            int64_t value);

/* What a bound expression comes to. Errors: ARGUMENT (not made of variables and numbers), STATE (a
 * variable has no value), RANGE (division by 0). */
ASTER_ML_API int32_t aster_ml_symbolic_value(int64_t *out, const aster_ml_context *context,
                                             const aster_ml_uop *expression);

/* The variable that node stands for, less its min: one of the nodes without sources that an
 * expression is made of (aster_ml_uop_walk), and no number. bound: 1 where it has a value. Owns:
 * name is the context's. Errors: ARGUMENT (no variable). */
ASTER_ML_API int32_t aster_ml_symbolic_get(const char **name, int64_t *min, int64_t *max,
                                           int64_t *value, int32_t *bound,
                                           const aster_ml_context *context,
                                           const aster_ml_uop *node);

/* 1 where a size of x is an expression of variables, else 0. */
ASTER_ML_API int32_t aster_ml_lazy_is_symbolic(const aster_ml_lazy *x);

/* The ndim dimensions of x: present values, and expressions, null for numbers. They are valid while
 * x is. Errors: SHAPE (ndim is another). */
ASTER_ML_API int32_t aster_ml_lazy_dims(aster_ml_dim *out, size_t ndim, const aster_ml_lazy *x);

/* The value of a dimension as a 0-d tensor: int32, or int64 where a part does not fit. Errors: as
 * aster_ml_symbolic_value. */
ASTER_ML_API int32_t aster_ml_lazy_from_dim(aster_ml_lazy *out, const aster_ml_context *context,
                                            const aster_ml_dim *dim);

/* The tensor of the greatest sizes that x is the first part of; what lies beyond the sizes of x is
 * unspecified. x itself where its sizes are numbers. */
ASTER_ML_API int32_t aster_ml_lazy_whole(aster_ml_lazy *out, const aster_ml_lazy *x);

/* As aster_ml_lazy_view, of the whole tensor; out is valid while x is. */
ASTER_ML_API int32_t aster_ml_lazy_view_whole(aster_ml_tensor *out, aster_ml_lazy *x);

/* Makes x, which has symbolic sizes, the first part of those sizes of its whole tensor. Errors:
 * ARGUMENT, STATE, RANGE (as aster_ml_lazy_shrink_dims), SHAPE (ndim is another). */
ASTER_ML_API int32_t aster_ml_lazy_set_dims(aster_ml_lazy *x, size_t ndim,
                                            const aster_ml_dim *dims);

/* As the functions without _dims (tensor.h), which say more. A value in a dimension with an
 * expression is not read. Errors: as those, and ARGUMENT, STATE, RANGE (what is no bound expression
 * of variables, or has no upper bound). */
ASTER_ML_API int32_t aster_ml_lazy_reshape_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                size_t ndim, const aster_ml_dim *dims);
ASTER_ML_API int32_t aster_ml_lazy_expand_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               size_t ndim, const aster_ml_dim *dims);
ASTER_ML_API int32_t aster_ml_lazy_shrink_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               size_t count, const aster_ml_dim *begin,
                                               const aster_ml_dim *end);
ASTER_ML_API int32_t aster_ml_lazy_pad_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                            size_t count, const aster_ml_dim *before,
                                            const aster_ml_dim *after, const aster_ml_scalar *fill);
ASTER_ML_API int32_t aster_ml_lazy_select_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               int64_t axis, const aster_ml_dim *index);
/* One item of x[...], as aster_ml_index (indexing.h); a step is a number. */
typedef struct aster_ml_dim_index {
  int32_t kind; /* aster_ml_index_kind */
  aster_ml_dim start;
  aster_ml_dim stop;
  int64_t step;
  const aster_ml_lazy *tensor; /* null but for ASTER_ML_INDEX_TENSOR */
} aster_ml_dim_index;

/* x[items]. An integer or the start of a slice that is an expression makes no view, but a new
 * value. */
ASTER_ML_API int32_t aster_ml_lazy_index_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              size_t count, const aster_ml_dim_index *items);
/* target[items] = value. Where target has symbolic sizes, elements beyond them stay what they
 * are. */
ASTER_ML_API int32_t aster_ml_lazy_index_assign_dims(aster_ml_lazy *target, size_t count,
                                                     const aster_ml_dim_index *items,
                                                     const aster_ml_lazy *value);
ASTER_ML_API int32_t aster_ml_lazy_rearrange_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                  const char *formula, size_t count,
                                                  const char *const *names,
                                                  const aster_ml_dim *sizes);
/* As aster_ml_lazy_interpolate (spatial.h), which says more. */
ASTER_ML_API int32_t aster_ml_lazy_interpolate_dims(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                    size_t rank, const aster_ml_dim *size,
                                                    aster_ml_interpolation mode,
                                                    int32_t align_corners);
ASTER_ML_API int32_t aster_ml_lazy_full_dims(aster_ml_lazy *out, const aster_ml_context *context,
                                             const aster_ml_scalar *value, int32_t dtype,
                                             size_t ndim, const aster_ml_dim *dims);
ASTER_ML_API int32_t aster_ml_lazy_empty_dims(aster_ml_lazy *out, const aster_ml_context *context,
                                              int32_t dtype, size_t ndim, const aster_ml_dim *dims);
/* start, start + 1, .. below stop, which is not less. */
ASTER_ML_API int32_t aster_ml_lazy_arange_dims(aster_ml_lazy *out, const aster_ml_context *context,
                                               const aster_ml_dim *start, const aster_ml_dim *stop,
                                               int32_t dtype);

#ifdef __cplusplus
}
#endif
#endif
