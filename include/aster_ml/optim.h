/* Optimisers: over the trained tensors of a state, w, with gradients g.
 *
 * Conventions as in base.h and tensor.h.
 */
#ifndef ASTER_ML_OPTIM_H
#define ASTER_ML_OPTIM_H

#include "aster_ml/base.h"
#include "aster_ml/state.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An optimiser; empty when zeroed. */
typedef struct aster_ml_optimizer {
  void *impl;
} aster_ml_optimizer;

/* Options of the optimisers: 0 means the default that stands behind a number, -0.0 means 0. All
 * numbers need to be finite and not negative. Options may be null. What optimisers keep and compute
 * with is float32, or float64 for such tensors; narrow tensors are rounded once a step.
 *
 * Every init realises the state; what it keeps is on the device of the trained tensors, which is
 * one. Errors: RANGE, ARGUMENT (nothing is trained; read-only memory), DEVICE (tensors on several
 * devices), as realize. */

/* Stochastic gradient descent. */
typedef struct aster_ml_sgd_options {
  uint32_t struct_size;
  int32_t nesterov;
  double rate;         /* 0.001 */
  double momentum;     /* 0; less than 1 */
  double weight_decay; /* 0 */
  int32_t classic;     /* 1: the rate is part of what momentum gathers */
} aster_ml_sgd_options;

/* g += weight_decay * w; b = momentum * b + g; w -= rate * b; with nesterov
 * w -= rate * (g + momentum * b). classic: g is multiplied by the rate before b gathers it instead.
 */
ASTER_ML_API int32_t aster_ml_sgd_init(aster_ml_optimizer *out, const aster_ml_state *state,
                                       const aster_ml_sgd_options *options);

/* Layer-wise adaptive rate scaling. */
typedef struct aster_ml_lars_options {
  uint32_t struct_size;
  int32_t nesterov;
  double rate;         /* 0.001 */
  double momentum;     /* 0.9; less than 1 */
  double weight_decay; /* 1e-4 */
  double trust;        /* 0.001 */
  int32_t not_classic; /* 1: the rate is applied after momentum */
} aster_ml_lars_options;

/* SGD, classic by default, with the rate of every tensor multiplied by
 * trust * |w| / (|g| + weight_decay * |w|), 1 where a norm is 0.
 * Source: You, Gitman, Ginsburg, arXiv 1708.03888. */
ASTER_ML_API int32_t aster_ml_lars_init(aster_ml_optimizer *out, const aster_ml_state *state,
                                        const aster_ml_lars_options *options);

/* Momentum orthogonalised. */
typedef struct aster_ml_muon_options {
  uint32_t struct_size;
  int32_t no_nesterov;
  double rate;            /* 0.001 */
  double momentum;        /* 0.95; less than 1 */
  double weight_decay;    /* 0.1 */
  int32_t steps;          /* 5; -1: none */
  double coefficients[3]; /* 3.4445, -4.775, 2.0315; all 0: these */
} aster_ml_muon_options;

/* b = momentum * b + g; u = g + momentum * b (no_nesterov: b), as a matrix of its first axis
 * against the others made orthogonal by Newton-Schulz steps; w -= rate * (u + weight_decay * w).
 * Shapes: trained tensors have an axis at least. Errors: SHAPE.
 * Source: Jordan, kellerjordan.github.io/posts/muon; Liu et al., arXiv 2502.16982. */
ASTER_ML_API int32_t aster_ml_muon_init(aster_ml_optimizer *out, const aster_ml_state *state,
                                        const aster_ml_muon_options *options);

/* Adam and its kin. */
typedef struct aster_ml_adam_options {
  uint32_t struct_size;
  double rate;         /* 0.001 */
  double beta1;        /* 0.9; less than 1 */
  double beta2;        /* 0.999; less than 1 */
  double eps;          /* 1e-8; lamb 1e-6 */
  double weight_decay; /* 0; decoupled: AdamW */
} aster_ml_adam_options;

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
 * w -= rate * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w) in step t.
 */
ASTER_ML_API int32_t aster_ml_adam_init(aster_ml_optimizer *out, const aster_ml_state *state,
                                        const aster_ml_adam_options *options);

/* Adam with the rate of every tensor multiplied by |w| / |u|, u being what it is the rate of, 1
 * where a norm is 0. Source: You et al., arXiv 1904.00962. */
ASTER_ML_API int32_t aster_ml_lamb_init(aster_ml_optimizer *out, const aster_ml_state *state,
                                        const aster_ml_adam_options *options);

/* Updates every trained tensor by its gradient of loss, and realises together: the updates, the
 * tensors of the state that are not trained, and loss. Errors: SHAPE (loss is not 0-d), DTYPE, as
 * aster_ml_gradient and realize. */
ASTER_ML_API int32_t aster_ml_optimizer_step(const aster_ml_optimizer *optimizer,
                                             aster_ml_lazy *loss);

/* The same by gradients that the caller brings (clipped, say), in the order of the trained tensors.
 * Errors: SHAPE, DTYPE, RANGE (another count). */
ASTER_ML_API int32_t aster_ml_optimizer_step_by(const aster_ml_optimizer *optimizer,
                                                const aster_ml_lazy *const *gradients,
                                                size_t count);

/* One step of several optimisers by one loss, as of one: a single realize. Errors: as
 * aster_ml_optimizer_step, ARGUMENT (two contexts). */
ASTER_ML_API int32_t aster_ml_optimizer_step_group(const aster_ml_optimizer *const *optimizers,
                                                   size_t count, aster_ml_lazy *loss);

/* As aster_ml_optimizer_step_by, but nothing is computed yet: the trained tensors and what the
 * optimiser keeps are assigned. Errors: as aster_ml_optimizer_step_by. */
ASTER_ML_API int32_t aster_ml_optimizer_schedule_by(const aster_ml_optimizer *optimizer,
                                                    const aster_ml_lazy *const *gradients,
                                                    size_t count);

/* Realises together what optimisers have scheduled, and the tensors of their states that are not
 * trained. Errors: ARGUMENT (two contexts), as realize. */
ASTER_ML_API int32_t aster_ml_optimizer_realize(const aster_ml_optimizer *const *optimizers,
                                                size_t count);

/* The number of trained tensors; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_optimizer_count(const aster_ml_optimizer *optimizer);

/* A handle on a trained tensor, to take its gradient. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_optimizer_get(aster_ml_lazy *out, const aster_ml_optimizer *optimizer,
                                            size_t index);

/* A handle on the learning rate, [1], float32 or the default float if that is wider; what is
 * assigned to it counts from the next step on, captured ones included. */
ASTER_ML_API int32_t aster_ml_optimizer_get_rate(aster_ml_lazy *out,
                                                 const aster_ml_optimizer *optimizer);

/* The learning rate from the next step on, captured steps included. Errors: RANGE (negative), STATE
 * (in a capture). */
ASTER_ML_API int32_t aster_ml_optimizer_set_rate(const aster_ml_optimizer *optimizer, double rate);

/* Gives the optimiser up. Threads: any. */
ASTER_ML_API int32_t aster_ml_optimizer_free(aster_ml_optimizer *optimizer);

/* Adds what an optimiser keeps, so that training can go on later: prefix + "rate", "m.NAME", ...;
 * none is trained. prefix may be null. Errors: ARGUMENT (a name is there already). */
ASTER_ML_API int32_t aster_ml_state_set_optimizer(aster_ml_state *state, const char *prefix,
                                                  const aster_ml_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif
