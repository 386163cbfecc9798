/* Neural networks: layers, named tensors (states) with safetensors files, and optimisers.
 *
 * Layers, states and optimisers share the parameters themselves: what an optimiser updates, its
 * layers compute with and its states write. Their handles stay until they are freed; scopes leave
 * them alone. A parameter lives as long as one of them holds it.
 *
 * A training step, uncaptured or captured, is one realize:
 *
 *   aster_ml_layer_run(&y, &layer, &x, 1);
 *   ... loss ...
 *   aster_ml_optimizer_step(&optimizer, &loss);
 *
 * Everything that changes from step to step (rate, moments, powers of the decay rates, running
 * statistics) is a tensor: all steps are one schedule, and a captured step may be replayed.
 *
 * Conventions as in base.h and tensor.h.
 */
#ifndef ASTER_ML_NN_H
#define ASTER_ML_NN_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers ---- */

/* A layer: parameters, and how it computes with them; empty when zeroed. */
typedef struct aster_ml_layer {
  void *impl;
} aster_ml_layer;

/* y = x weight^T + bias, the bias left out where bias is 0. Both begin uniform in +-1/sqrt(inputs),
 * of the context's random numbers, weight first.
 * Shapes: x [..., inputs] -> y [..., outputs]; weight [outputs, inputs], bias [outputs], float32.
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_linear_init(aster_ml_layer *out, const aster_ml_context *context,
                                          int64_t inputs, int64_t outputs, int32_t bias);

/* y = aster_ml_lazy_conv2d(x, weight, bias, options), the bias left out where bias is 0; options
 * may be null. Both begin uniform in +-1/sqrt(inputs * rows * columns), weight first. Shapes:
 * weight [outputs, inputs / groups, rows, columns], bias [outputs], float32. Errors: RANGE, SHAPE
 * (groups do not divide the channels). */
ASTER_ML_API int32_t aster_ml_conv2d_init(aster_ml_layer *out, const aster_ml_context *context,
                                          int64_t inputs, int64_t outputs, int64_t rows,
                                          int64_t columns, int32_t bias,
                                          const aster_ml_conv2d_options *options);

/* Options of batch_norm. Zero means: eps 1e-5, momentum 0.1, weight and bias, running statistics.
 */
typedef struct aster_ml_batch_norm_options {
  uint32_t struct_size;
  int32_t no_affine; /* 1: no weight and bias */
  int32_t no_track;  /* 1: no running statistics; those of the batch, always */
  double eps;
  double momentum; /* of the running statistics: running += momentum * (batch - running) */
} aster_ml_batch_norm_options;

/* y = (x - mean) / sqrt(var + eps) * weight + bias by channel. A training run takes mean and
 * variance of the batch, and assigns running_mean, running_var (of n - 1) and num_batches_tracked,
 * to be realised with the step; others take the running ones. options may be null.
 * Shapes: x [n, channels, ...]; all [channels], float32; num_batches_tracked [], int64.
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_batch_norm_init(aster_ml_layer *out, const aster_ml_context *context,
                                              int64_t channels,
                                              const aster_ml_batch_norm_options *options);

/* y of the layer, lazy; training is 0 or 1. Errors: SHAPE, DTYPE. */
ASTER_ML_API int32_t aster_ml_layer_run(aster_ml_lazy *out, const aster_ml_layer *layer,
                                        const aster_ml_lazy *x, int32_t training);

/* A handle on a parameter: "weight", "bias", "running_mean", ... Errors: NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_layer_get(aster_ml_lazy *out, const aster_ml_layer *layer,
                                        const char *name);

/* Gives the layer up. Threads: any. */
ASTER_ML_API int32_t aster_ml_layer_free(aster_ml_layer *layer);

/* ---- States: tensors by name, in the order they were added ---- */

/* A state; empty when zeroed. */
typedef struct aster_ml_state {
  void *impl;
} aster_ml_state;

/* An optimiser; empty when zeroed. */
typedef struct aster_ml_optimizer {
  void *impl;
} aster_ml_optimizer;

/* A state without tensors. */
ASTER_ML_API int32_t aster_ml_state_init(aster_ml_state *out, const aster_ml_context *context);

/* Gives the state up. Threads: any. */
ASTER_ML_API int32_t aster_ml_state_free(aster_ml_state *state);

/* Adds x under a name, or puts it in the place of what has that name. x is realised; the state
 * keeps a handle of its own on the storage. trained 1: an optimiser updates it. name is UTF-8.
 * Errors: ARGUMENT (name is empty or no UTF-8), DTYPE (trained, but not float), as realize. */
ASTER_ML_API int32_t aster_ml_state_set(aster_ml_state *state, const char *name, aster_ml_lazy *x,
                                        int32_t trained);

/* Adds the parameters of a layer as prefix + "weight" and so on; running statistics are not
 * trained. prefix may be null. Errors: ARGUMENT (a name is there already). */
ASTER_ML_API int32_t aster_ml_state_set_layer(aster_ml_state *state, const char *prefix,
                                              const aster_ml_layer *layer);

/* Adds what an optimiser keeps, so that training can go on later: prefix + "rate", "m.NAME", ...;
 * none is trained. prefix may be null. Errors: ARGUMENT (a name is there already). */
ASTER_ML_API int32_t aster_ml_state_set_optimizer(aster_ml_state *state, const char *prefix,
                                                  const aster_ml_optimizer *optimizer);

/* The number of tensors; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_state_count(const aster_ml_state *state);

/* The name of a tensor; null for an index out of bounds. Owns: the state, until it is freed. */
ASTER_ML_API const char *aster_ml_state_name(const aster_ml_state *state, size_t index);

/* A handle on the tensor of a name. Errors: NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_state_get(aster_ml_lazy *out, const aster_ml_state *state,
                                        const char *name);

/* Sets a text that is written along with the tensors; a null text removes it. Errors: ARGUMENT (not
 * UTF-8). */
ASTER_ML_API int32_t aster_ml_state_set_metadata(aster_ml_state *state, const char *key,
                                                 const char *text);

/* The text of a key. Owns: the state, until it is changed. Errors: NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_state_get_metadata(const char **out, const aster_ml_state *state,
                                                 const char *key);

/* Computes all tensors of the state, together. Errors: as aster_ml_lazy_realize. */
ASTER_ML_API int32_t aster_ml_state_realize(const aster_ml_state *state);

/* Copies the elements of source into the tensors of state, name by name, at once; what only source
 * has is left out. On failure nothing is copied. Errors: NOT_FOUND (source lacks a name), SHAPE,
 * DTYPE, ARGUMENT (read-only memory, two contexts), STATE (in a capture). */
ASTER_ML_API int32_t aster_ml_state_load(aster_ml_state *state, const aster_ml_state *source);

/* Realises the state and writes it as a safetensors file; a file of that name is replaced when all
 * is written, and stays as it is on a failure. Errors: IO, NOT_FOUND (the folder), UNSUPPORTED (a
 * dtype that the format lacks: fp8 fnuz), STATE (in a capture). */
ASTER_ML_API int32_t aster_ml_state_write(const aster_ml_state *state, const char *path);

/* The tensors of a safetensors file, none trained, in the order of its header. The file is mapped,
 * and stays so until the last tensor is freed: nothing is read before it is used, and the tensors
 * are read-only. (Who cuts the file short meanwhile ends the process.) Only tensors whose elements
 * do not lie aligned are copied. Errors: NOT_FOUND, IO, FORMAT (the header is no header, tensors
 * overlap, leave gaps or reach outside the file), UNSUPPORTED (a dtype of the format that this
 * build has not). */
ASTER_ML_API int32_t aster_ml_state_read(aster_ml_state *out, const aster_ml_context *context,
                                         const char *path);

/* ---- Optimisers: over the trained tensors of a state, w, with gradients g ---- */

/* Options of SGD. Zero means: rate 0.001, no momentum, no decay. */
typedef struct aster_ml_sgd_options {
  uint32_t struct_size;
  int32_t nesterov;
  double rate;
  double momentum;
  double weight_decay;
} aster_ml_sgd_options;

/* g += weight_decay * w; b = momentum * b + g; w -= rate * b; with nesterov
 * w -= rate * (g + momentum * b). Realises the state. options may be null.
 * Errors: RANGE (a negative number, a momentum from 1 on), ARGUMENT (nothing is trained; read-only
 * memory), as realize. */
ASTER_ML_API int32_t aster_ml_sgd_init(aster_ml_optimizer *out, const aster_ml_state *state,
                                       const aster_ml_sgd_options *options);

/* Options of Adam. Zero means: rate 0.001, beta1 0.9, beta2 0.999, eps 1e-8, no decay. */
typedef struct aster_ml_adam_options {
  uint32_t struct_size;
  double rate;
  double beta1;
  double beta2;
  double eps;
  double weight_decay; /* decoupled: AdamW */
} aster_ml_adam_options;

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
 * w -= rate * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w) in step t.
 * Realises the state. options may be null. Errors: as aster_ml_sgd_init. */
ASTER_ML_API int32_t aster_ml_adam_init(aster_ml_optimizer *out, const aster_ml_state *state,
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

/* The number of trained tensors; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_optimizer_count(const aster_ml_optimizer *optimizer);

/* A handle on a trained tensor, to take its gradient. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_optimizer_get(aster_ml_lazy *out, const aster_ml_optimizer *optimizer,
                                            size_t index);

/* The learning rate from the next step on, captured steps included. Errors: RANGE (negative), STATE
 * (in a capture). */
ASTER_ML_API int32_t aster_ml_optimizer_set_rate(const aster_ml_optimizer *optimizer, double rate);

/* Gives the optimiser up. Threads: any. */
ASTER_ML_API int32_t aster_ml_optimizer_free(aster_ml_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif
