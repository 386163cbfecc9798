/* Reverse-mode gradients of lazy tensors, by rules over the graph; conventions as in tensor.h. */
#ifndef ASTER_ML_GRADIENT_H
#define ASTER_ML_GRADIENT_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of aster_ml_gradient. */
typedef struct aster_ml_gradient_options {
  uint32_t struct_size;
  int32_t
      require_path; /* 1: a target that loss does not depend on is an ARGUMENT error, not zeros */
  const aster_ml_lazy *seed;  /* gradient of loss itself, of its shape; null: ones */
  int32_t empty_without_path; /* 1: such a target gets an empty handle */
} aster_ml_gradient_options;

/* out[i] = d sum(loss * seed) / d targets[i], lazy, with the shape and dtype of targets[i]; zeros
 * where loss does not depend on it. A constant (of aster_ml_lazy_zeros, _full, ..) folds into what
 * it meets and is no longer there: what is trained is data, or such a tensor's aster_ml_lazy_clone.
 * options may be null. Ties of maxima share the gradient evenly; gradients of broadcast operands
 * are summed in aster_ml_dtype_sum_accumulator's dtype and cast back. Out: count handles. Errors:
 * SHAPE (seed), DTYPE (loss or a target is not float). Cost: O(nodes of loss). */
ASTER_ML_API int32_t aster_ml_gradient(aster_ml_lazy *out, const aster_ml_lazy *loss,
                                       const aster_ml_lazy *const *targets, size_t count,
                                       const aster_ml_gradient_options *options);

/* y, whose gradient computes anew what lies between the inputs and y, so that a training step need
 * not hold it from the forward pass to the backward pass: less memory, for the time of that part.
 * Values and gradients have the same bits as y's. Gradients flow to the inputs, to storage that y
 * is computed from and to tensors that ask for one; what else lies between is not seen from
 * outside. Inputs that y is not computed from have no effect; at most one of them is y itself.
 * What is computed anew is held until the last result that needs it is there: results are computed
 * in the order in which they are asked for, so gradients of the last layers come first.
 * Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016. */
ASTER_ML_API int32_t aster_ml_gradient_checkpoint(aster_ml_lazy *out, const aster_ml_lazy *y,
                                                  const aster_ml_lazy *const *inputs, size_t count);

/* ---- Gradients that tensors keep, as parameters do ---- */

/* Whether aster_ml_lazy_backward gives x a gradient. It is a matter of this handle's object: what
 * is computed of x, and other handles on its value, do not ask for one. Without, x keeps the one
 * that it has. Errors: DTYPE (x is not float). */
ASTER_ML_API int32_t aster_ml_lazy_set_requires_grad(aster_ml_lazy *x, int32_t requires_grad);

/* 1 where x asks for a gradient, else 0. */
ASTER_ML_API int32_t aster_ml_lazy_requires_grad(const aster_ml_lazy *x);

/* Options of aster_ml_lazy_backward. */
typedef struct aster_ml_backward_options {
  uint32_t struct_size;
  int32_t retain_graph;      /* 1: nothing is computed yet, and loss keeps its graph */
  const aster_ml_lazy *seed; /* gradient of loss itself, of its shape; null: ones */
} aster_ml_backward_options;

/* Adds the gradient of loss to that of every tensor of the context that asks for one and that loss
 * depends on; the first is what it is, further ones are assigned to it, so that handles on one that
 * is computed see the sum. Then loss and the gradients are computed, together, and the graph behind
 * loss is given up: it is a number, of which there is no second gradient. options may be null.
 * Errors: as aster_ml_gradient; STATE (loss depends on no tensor that asks for a gradient: none is
 * set, or what loss was computed of has been given up: no gradient has changed then); as realize.
 */
ASTER_ML_API int32_t aster_ml_lazy_backward(aster_ml_lazy *loss,
                                            const aster_ml_backward_options *options);

/* The gradient that backward has added up for x: a handle on it, which sees what is added later.
 * Errors: NOT_FOUND (there is none). */
ASTER_ML_API int32_t aster_ml_lazy_grad(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Forgets the gradient of x: the next one begins anew. */
ASTER_ML_API int32_t aster_ml_lazy_reset_grad(aster_ml_lazy *x);

#ifdef __cplusplus
}
#endif
#endif
