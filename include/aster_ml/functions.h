/* Lazy functions of elements and along axes: activations, losses, statistics, cumulative sums.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 */
#ifndef ASTER_ML_FUNCTIONS_H
#define ASTER_ML_FUNCTIONS_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise; narrow floats are computed in float32 and rounded once ---- */

/* Inverse sine; NaN outside [-1, 1]. Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_asin(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Inverse cosine; NaN outside [-1, 1]. Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_acos(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Inverse tangent. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_atan(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Hyperbolic sine. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_sinh(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Hyperbolic cosine. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_cosh(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Inverse hyperbolic sine. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_asinh(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Inverse hyperbolic cosine; NaN below 1. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_acosh(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Inverse hyperbolic tangent; NaN outside [-1, 1]. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_atanh(aster_ml_lazy *out, const aster_ml_lazy *x);

/* min(max(x, 0), 6). */
ASTER_ML_API int32_t aster_ml_lazy_relu6(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x * min(max(x + 3, 0), 6) / 6. Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_hardswish(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x * sigmoid(1.702 x). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_quick_gelu(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x * sigmoid(x): aster_ml_lazy_silu. Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_swish(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x * tanh(log(1 + e^x)). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_mish(aster_ml_lazy *out, const aster_ml_lazy *x);

/* -log(1 + e^-x). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_logsigmoid(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x / (1 + |x|). Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_softsign(aster_ml_lazy *out, const aster_ml_lazy *x);

/* |a| with the sign of b, that of -0 too. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_copysign(aster_ml_lazy *out, const aster_ml_lazy *a,
                                            const aster_ml_lazy *b);

/* log(e^a + e^b), without overflow. Dtypes: float. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_logaddexp(aster_ml_lazy *out, const aster_ml_lazy *a,
                                             const aster_ml_lazy *b);

/* threefry2x32 in 20 rounds of the counters a under the keys b; low halves first. Dtypes: uint64.
 * Errors: SHAPE, DTYPE (another dtype). */
ASTER_ML_API int32_t aster_ml_lazy_threefry(aster_ml_lazy *out, const aster_ml_lazy *a,
                                            const aster_ml_lazy *b);

/* min(max(alpha x + beta, 0), 1); 1/6 and 1/2 are usual. Dtypes: float; integers give the weak
 * float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_hardsigmoid(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               double alpha, double beta);

/* x, but low where x < low and high where x > high; NaN stays. Bounds that are whole numbers leave
 * integers as they are. */
ASTER_ML_API int32_t aster_ml_lazy_hardtanh(aster_ml_lazy *out, const aster_ml_lazy *x, double low,
                                            double high);

/* x where x > 0, else alpha (e^x - 1). Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_elu(aster_ml_lazy *out, const aster_ml_lazy *x, double alpha);

/* x where x > 0, else alpha (e^(x / alpha) - 1). Dtypes: float; integers give the weak float
 * dtype. */
ASTER_ML_API int32_t aster_ml_lazy_celu(aster_ml_lazy *out, const aster_ml_lazy *x, double alpha);

/* gamma * (x where x >= 0, else alpha (e^x - 1)); 1.67326 and 1.0507 are usual. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_selu(aster_ml_lazy *out, const aster_ml_lazy *x, double alpha,
                                        double gamma);

/* log(1 + e^(beta x)) / beta. Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_softplus_beta(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                 double beta);

/* x is +inf where positive is not 0, or -inf where negative is not 0. Dtypes: -> bool. */
ASTER_ML_API int32_t aster_ml_lazy_isinf_signed(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                int32_t positive, int32_t negative);

/* aster_ml_lazy_clamp. */
ASTER_ML_API int32_t aster_ml_lazy_clip(aster_ml_lazy *out, const aster_ml_lazy *x,
                                        const aster_ml_lazy *low, const aster_ml_lazy *high);

/* value where mask is 1, else x. Dtypes: those of x and value promoted. Errors: SHAPE, DTYPE (mask
 * is not bool). */
ASTER_ML_API int32_t aster_ml_lazy_masked_fill(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               const aster_ml_lazy *mask,
                                               const aster_ml_lazy *value);

/* a == b, or both finite and |a - b| <= atol + rtol |b|, or, with equal_nan, both NaN. Integers
 * are compared in float64. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_isclose(aster_ml_lazy *out, const aster_ml_lazy *a,
                                           const aster_ml_lazy *b, double rtol, double atol,
                                           int32_t equal_nan);

/* Whether all of isclose hold; one bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_allclose(aster_ml_lazy *out, const aster_ml_lazy *a,
                                            const aster_ml_lazy *b, double rtol, double atol,
                                            int32_t equal_nan);

/* The sum of count tensors, from the left; logical or for bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_usum(aster_ml_lazy *out, const aster_ml_lazy *const *tensors,
                                        size_t count);

/* The product of count tensors, from the left; logical and for bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_uprod(aster_ml_lazy *out, const aster_ml_lazy *const *tensors,
                                         size_t count);

/* x, whose gradient is materialised before it flows on. */
ASTER_ML_API int32_t aster_ml_lazy_contiguous_backward(aster_ml_lazy *out, const aster_ml_lazy *x);

/* ---- Creation after another tensor: its shape; dtype 0 is its dtype ---- */

/* value everywhere, as a constant; a weak dtype stays weak. */
ASTER_ML_API int32_t aster_ml_lazy_const_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              const aster_ml_scalar *value, int32_t dtype);

/* value everywhere. Dtypes: a weak dtype becomes strong. */
ASTER_ML_API int32_t aster_ml_lazy_full_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             const aster_ml_scalar *value, int32_t dtype);

/* Zeros. Dtypes: as full_like. */
ASTER_ML_API int32_t aster_ml_lazy_zeros_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              int32_t dtype);

/* Ones. Dtypes: as full_like. */
ASTER_ML_API int32_t aster_ml_lazy_ones_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             int32_t dtype);

/* Storage of unspecified content, to be assigned. Dtypes: as full_like. */
ASTER_ML_API int32_t aster_ml_lazy_empty_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              int32_t dtype);

/* ---- Reductions and statistics over count axes; null axes mean all of them ---- */

/* Sum of x converted to dtype, in dtype; 0 is aster_ml_lazy_sum. half, bfloat16 and fp8 are summed
 * in float32. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_sum_dtype(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             size_t count, const int64_t *axes, int32_t keepdim,
                                             int32_t dtype);

/* Product of x converted to dtype, in dtype; 0 is aster_ml_lazy_prod. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_prod_dtype(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              size_t count, const int64_t *axes, int32_t keepdim,
                                              int32_t dtype);

/* Square root of aster_ml_lazy_var. Dtypes: as mean. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_std(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim, int64_t correction);

/* aster_ml_lazy_var and aster_ml_lazy_mean. Out: out_var, out_mean. Dtypes: as mean. Errors:
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_var_mean(aster_ml_lazy *out_var, aster_ml_lazy *out_mean,
                                            const aster_ml_lazy *x, size_t count,
                                            const int64_t *axes, int32_t keepdim,
                                            int64_t correction);

/* aster_ml_lazy_std and aster_ml_lazy_mean. Out: out_std, out_mean. Dtypes: as mean. Errors:
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_std_mean(aster_ml_lazy *out_std, aster_ml_lazy *out_mean,
                                            const aster_ml_lazy *x, size_t count,
                                            const int64_t *axes, int32_t keepdim,
                                            int64_t correction);

/* x / sqrt(mean(x^2) + eps) over the last axes, times weight, which may be null and has the shape
 * of those axes. Dtypes: float; narrow ones are computed in float32 and rounded once before weight.
 * Errors: RANGE (axes is 0 or more than x has, eps < 0), SHAPE (weight). */
ASTER_ML_API int32_t aster_ml_lazy_rms_norm(aster_ml_lazy *out, const aster_ml_lazy *x, size_t axes,
                                            const aster_ml_lazy *weight, double eps);

/* x / max(norm, eps), norm = (sum |x|^p)^(1/p) along an axis; p 0 counts what is not 0. Dtypes:
 * float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_normalize(aster_ml_lazy *out, const aster_ml_lazy *x, double p,
                                             int64_t axis, double eps);

/* aster_ml_lazy_softmax, in dtype; 0 is that of x, made float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_softmax_dtype(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                 int64_t axis, int32_t dtype);

/* aster_ml_lazy_log_softmax, in dtype; 0 is that of x, made float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_log_softmax_dtype(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                     int64_t axis, int32_t dtype);

/* softmax(-x) along an axis, in dtype; 0 is that of x, made float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_softmin(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                           int32_t dtype);

/* (x - mean) / sqrt(mean((x - mean)^2) + eps) over count axes; null axes mean the last. Dtypes:
 * float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_layernorm(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             size_t count, const int64_t *axes, double eps);

/* (x - mean) * weight * invstd + bias, the four of the shape that count axes of x have; null axes
 * mean axis 1, null weight and bias 1 and 0. An invstd of another rank broadcasts as it is.
 * Dtypes: promoted. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_batchnorm(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             const aster_ml_lazy *weight, const aster_ml_lazy *bias,
                                             const aster_ml_lazy *mean, const aster_ml_lazy *invstd,
                                             size_t count, const int64_t *axes);

/* ---- Along one axis, cumulatively: element i is of elements 0 to i. A 0-d x is its own result
 * ---- */

/* Sums. Dtypes: as aster_ml_lazy_sum. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_cumsum(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis);

/* Products, in the dtype of x; logical and for bool. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_cumprod(aster_ml_lazy *out, const aster_ml_lazy *x,
                                           int64_t axis);

/* Maxima and the positions, int32, at which they first stood; NaN wins. Out: out_values,
 * out_indices. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_cummax(aster_ml_lazy *out_values, aster_ml_lazy *out_indices,
                                          const aster_ml_lazy *x, int64_t axis);

/* Minima and the positions, int32, at which they first stood; NaN wins. Out: out_values,
 * out_indices. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_cummin(aster_ml_lazy *out_values, aster_ml_lazy *out_indices,
                                          const aster_ml_lazy *x, int64_t axis);

/* log of the sums of e^x, without overflow. Dtypes: float. Errors: RANGE. Cost: log2 of the axis
 * passes. */
ASTER_ML_API int32_t aster_ml_lazy_logcumsumexp(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                int64_t axis);

/* ---- Losses. Dtypes: float; reduction is an aster_ml_reduction (ARGUMENT if it is none) ---- */

/* -(y log x + (1 - y) log(1 - x)) of probabilities x. A logarithm is taken of no less than the
 * smallest normal number, so that 0 log 0 is 0. Errors: SHAPE, ARGUMENT. */
ASTER_ML_API int32_t aster_ml_lazy_binary_crossentropy(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                       const aster_ml_lazy *y, int32_t reduction);

/* -(pos_weight y log s + (1 - y) log(1 - s)), s = sigmoid(x), without overflow; a null pos_weight
 * is 1. Errors: SHAPE, ARGUMENT. */
ASTER_ML_API int32_t aster_ml_lazy_binary_crossentropy_logits(aster_ml_lazy *out,
                                                              const aster_ml_lazy *x,
                                                              const aster_ml_lazy *y,
                                                              const aster_ml_lazy *pos_weight,
                                                              int32_t reduction);

/* aster_ml_lazy_cross_entropy of logits and labels; ignore_index -1 ignores none. Shapes: logits
 * [..., classes], labels [...]. Dtypes: labels of an integer dtype. Errors: SHAPE, DTYPE, RANGE,
 * ARGUMENT. */
ASTER_ML_API int32_t aster_ml_lazy_sparse_categorical_crossentropy(
    aster_ml_lazy *out, const aster_ml_lazy *logits, const aster_ml_lazy *labels,
    int32_t ignore_index, double label_smoothing, int32_t reduction);

/* -sum p log softmax(logits) over the classes, p = (1 - s) target + s / classes, s the smoothing.
 * target is labels, or probabilities where it has the shape of logits. Shapes: logits [n, classes,
 * ...] or [classes], labels without the axis of classes. Dtypes: labels of an integer dtype.
 * Errors: SHAPE, DTYPE, RANGE (s outside [0, 1]), ARGUMENT. */
ASTER_ML_API int32_t aster_ml_lazy_categorical_crossentropy(aster_ml_lazy *out,
                                                            const aster_ml_lazy *logits,
                                                            const aster_ml_lazy *target,
                                                            double label_smoothing,
                                                            int32_t reduction);

/* -log_p at the labels, times weight [classes] there (null: 1); the mean divides by the sum of
 * those weights. A label outside counts 0. Labels equal to *ignore_index count nothing; null
 * ignores none. Shapes: log_p [n, classes, ...], labels [n, ...]. Dtypes: labels of an integer
 * dtype. Errors: SHAPE, DTYPE, ARGUMENT. */
ASTER_ML_API int32_t aster_ml_lazy_nll_loss(aster_ml_lazy *out, const aster_ml_lazy *log_p,
                                            const aster_ml_lazy *labels,
                                            const aster_ml_lazy *weight,
                                            const int64_t *ignore_index, int32_t reduction);

/* ---- The eager form of the functions of tensors alone ---- */

/* aster_ml_lazy_asin at once. */
ASTER_ML_API int32_t aster_ml_tensor_asin(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_acos at once. */
ASTER_ML_API int32_t aster_ml_tensor_acos(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_atan at once. */
ASTER_ML_API int32_t aster_ml_tensor_atan(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_sinh at once. */
ASTER_ML_API int32_t aster_ml_tensor_sinh(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_cosh at once. */
ASTER_ML_API int32_t aster_ml_tensor_cosh(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_asinh at once. */
ASTER_ML_API int32_t aster_ml_tensor_asinh(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_acosh at once. */
ASTER_ML_API int32_t aster_ml_tensor_acosh(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_atanh at once. */
ASTER_ML_API int32_t aster_ml_tensor_atanh(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_relu6 at once. */
ASTER_ML_API int32_t aster_ml_tensor_relu6(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_hardswish at once. */
ASTER_ML_API int32_t aster_ml_tensor_hardswish(aster_ml_tensor *out,
                                               const aster_ml_context *context,
                                               const aster_ml_tensor *x);

/* aster_ml_lazy_quick_gelu at once. */
ASTER_ML_API int32_t aster_ml_tensor_quick_gelu(aster_ml_tensor *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *x);

/* aster_ml_lazy_swish at once. */
ASTER_ML_API int32_t aster_ml_tensor_swish(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_mish at once. */
ASTER_ML_API int32_t aster_ml_tensor_mish(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_logsigmoid at once. */
ASTER_ML_API int32_t aster_ml_tensor_logsigmoid(aster_ml_tensor *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *x);

/* aster_ml_lazy_softsign at once. */
ASTER_ML_API int32_t aster_ml_tensor_softsign(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *x);

/* aster_ml_lazy_copysign at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_copysign(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_logaddexp at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_logaddexp(aster_ml_tensor *out,
                                               const aster_ml_context *context,
                                               const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_threefry at once. Errors: SHAPE, DTYPE (another dtype). */
ASTER_ML_API int32_t aster_ml_tensor_threefry(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *a, const aster_ml_tensor *b);

#ifdef __cplusplus
}
#endif
#endif
