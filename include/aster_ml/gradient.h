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

#ifdef __cplusplus
}
#endif
#endif
