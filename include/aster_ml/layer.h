/* Layers: parameters, and what they compute.
 *
 * Initial values are those that tinygrad's layers begin with for the same seed, of the default
 * float of the context. Parameters are shared with the states and optimisers that they are put
 * into; handles stay until they are freed, scopes leave them alone.
 *
 * Conventions as in base.h and tensor.h.
 */
#ifndef ASTER_ML_LAYER_H
#define ASTER_ML_LAYER_H

#include "aster_ml/base.h"
#include "aster_ml/spatial.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer: parameters, and how it computes with them; empty when zeroed. */
typedef struct aster_ml_layer {
  void *impl;
} aster_ml_layer;

/* y = x weight^T + bias, the bias left out where bias is 0. Both begin uniform in +-1/sqrt(inputs),
 * of the context's random numbers, weight first.
 * Shapes: x [..., inputs] -> y [..., outputs]; weight [outputs, inputs], bias [outputs].
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_linear_init(aster_ml_layer *out, const aster_ml_context *context,
                                          int64_t inputs, int64_t outputs, int32_t bias);

/* y = aster_ml_lazy_conv2d(x, weight, bias, options), the bias left out where bias is 0; options
 * may be null. Both begin uniform in +-1/sqrt(inputs * rows * columns), weight first. Shapes:
 * weight [outputs, inputs / groups, rows, columns], bias [outputs]. Errors: RANGE, SHAPE
 * (groups do not divide the channels). */
ASTER_ML_API int32_t aster_ml_conv2d_init(aster_ml_layer *out, const aster_ml_context *context,
                                          int64_t inputs, int64_t outputs, int64_t rows,
                                          int64_t columns, int32_t bias,
                                          const aster_ml_conv2d_options *options);

/* y = aster_ml_lazy_conv(x, weight, bias, options) with a kernel on any number of axes, the bias
 * left out where bias is 0; options, which are copied, may be null. Both begin uniform in
 * +-1/sqrt(inputs * kernel sizes), weight first. Shapes: weight [outputs, inputs / groups,
 * kernel...], bias [outputs]. Errors: RANGE, SHAPE (groups do not divide the channels). */
ASTER_ML_API int32_t aster_ml_conv_init(aster_ml_layer *out, const aster_ml_context *context,
                                        int64_t inputs, int64_t outputs, size_t rank,
                                        const int64_t *kernel, int32_t bias,
                                        const aster_ml_conv_options *options);

/* y = aster_ml_lazy_conv_transpose(x, weight, bias, options), else as conv_init. Shapes: weight
 * [inputs, outputs / groups, kernel...], bias [outputs]. Errors: as aster_ml_conv_init. */
ASTER_ML_API int32_t aster_ml_conv_transpose_init(aster_ml_layer *out,
                                                  const aster_ml_context *context, int64_t inputs,
                                                  int64_t outputs, size_t rank,
                                                  const int64_t *kernel, int32_t bias,
                                                  const aster_ml_conv_options *options);

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
 * to be realised with the step; others take the running ones. Without running statistics only
 * num_batches_tracked is there, and stays 0. options may be null.
 * Shapes: x [n, channels, ...]; all [channels]; num_batches_tracked [], int64.
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_batch_norm_init(aster_ml_layer *out, const aster_ml_context *context,
                                              int64_t channels,
                                              const aster_ml_batch_norm_options *options);

/* y = group_norm: x normalised over each group of channels and the axes after them, then * weight +
 * bias by channel. affine 0: neither; they begin as ones and zeros.
 * Shapes: x [n, channels, ...]; weight, bias [channels]. Errors: RANGE, SHAPE (the groups
 * do not divide the channels). */
ASTER_ML_API int32_t aster_ml_group_norm_init(aster_ml_layer *out, const aster_ml_context *context,
                                              int64_t groups, int64_t channels, double eps,
                                              int32_t affine);

/* group_norm with a group for every channel. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_instance_norm_init(aster_ml_layer *out,
                                                 const aster_ml_context *context, int64_t channels,
                                                 double eps, int32_t affine);

/* y = (x - mean) / sqrt(var + eps) * weight + bias over the last ndim axes. affine 0: no weight and
 * bias; they begin as ones and zeros. Shapes: x [..., shape], weight and bias of shape.
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_layer_norm_init(aster_ml_layer *out, const aster_ml_context *context,
                                              size_t ndim, const int64_t *shape, double eps,
                                              int32_t affine);

/* layer_norm over the channels of images. Shapes: x [n, channels, h, w]; weight, bias [channels].
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_layer_norm2d_init(aster_ml_layer *out,
                                                const aster_ml_context *context, int64_t channels,
                                                double eps, int32_t affine);

/* y = x / sqrt(mean(x^2) + eps) * weight over the last axis, computed in float32 or wider. affine
 * 0: no weight; it begins as ones. Shapes: x [..., size]; weight [size]. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_rms_norm_init(aster_ml_layer *out, const aster_ml_context *context,
                                            int64_t size, double eps, int32_t affine);

/* y[i.., :] = weight[x[i..], :], zeros where x is no row. weight begins uniform in
 * +-sqrt(6 / (rows + size)). Shapes: x [...] -> y [..., size]; weight [rows, size].
 * Dtypes: x integer. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_embedding_init(aster_ml_layer *out, const aster_ml_context *context,
                                             int64_t rows, int64_t size);

/* A long short-term memory cell, for aster_ml_lstm_cell_run. Parameters weight_ih [4 hidden,
 * inputs], weight_hh [4 hidden, hidden], uniform in +-1/sqrt(hidden), then bias_ih and bias_hh
 * [4 hidden], zeros, left out where bias is 0. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lstm_cell_init(aster_ml_layer *out, const aster_ml_context *context,
                                             int64_t inputs, int64_t hidden, int32_t bias);

/* One step of a cell: i, f, g, o = x weight_ih^T + bias_ih + h weight_hh^T + bias_hh in quarters;
 * c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c'). h and c may both be null:
 * zeros. Shapes: x [n, inputs], h, c and results [n, hidden]. Errors: SHAPE, DTYPE, ARGUMENT (the
 * layer is no such cell; one of h and c). */
ASTER_ML_API int32_t aster_ml_lstm_cell_run(aster_ml_lazy *out_h, aster_ml_lazy *out_c,
                                            const aster_ml_layer *layer, const aster_ml_lazy *x,
                                            const aster_ml_lazy *h, const aster_ml_lazy *c);

/* y of the layer, lazy; training is 0 or 1. Errors: SHAPE, DTYPE. */
ASTER_ML_API int32_t aster_ml_layer_run(aster_ml_lazy *out, const aster_ml_layer *layer,
                                        const aster_ml_lazy *x, int32_t training);

/* A handle on a parameter: "weight", "bias", "running_mean", ... Errors: NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_layer_get(aster_ml_lazy *out, const aster_ml_layer *layer,
                                        const char *name);

/* Gives the layer up. Threads: any. */
ASTER_ML_API int32_t aster_ml_layer_free(aster_ml_layer *layer);

#ifdef __cplusplus
}
#endif
#endif
