/* The eager family: operations computed at once, on concrete tensors of any strides.
 *
 * out is made by the call: row-major storage of its own, freed by aster_ml_tensor_free. Operands
 * are read where they lie; strides that do not nest (each larger than what the smaller ones reach;
 * 0 repeats) are copied, as aster_ml_context_set_copies says. Names, broadcasting, dtypes and
 * errors are those of the aster_ml_lazy_* function. Those of functions.h stand there.
 */
#ifndef ASTER_ML_EAGER_H
#define ASTER_ML_EAGER_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* aster_ml_lazy_neg at once. */
ASTER_ML_API int32_t aster_ml_tensor_neg(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_abs at once. */
ASTER_ML_API int32_t aster_ml_tensor_abs(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_sign at once. */
ASTER_ML_API int32_t aster_ml_tensor_sign(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_square at once. */
ASTER_ML_API int32_t aster_ml_tensor_square(aster_ml_tensor *out, const aster_ml_context *context,
                                            const aster_ml_tensor *x);

/* aster_ml_lazy_trunc at once. */
ASTER_ML_API int32_t aster_ml_tensor_trunc(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_floor at once. */
ASTER_ML_API int32_t aster_ml_tensor_floor(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_ceil at once. */
ASTER_ML_API int32_t aster_ml_tensor_ceil(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_round at once. */
ASTER_ML_API int32_t aster_ml_tensor_round(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_relu at once. */
ASTER_ML_API int32_t aster_ml_tensor_relu(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_logical_not at once. */
ASTER_ML_API int32_t aster_ml_tensor_logical_not(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_tensor *x);

/* aster_ml_lazy_bitwise_not at once. Errors: DTYPE (float). */
ASTER_ML_API int32_t aster_ml_tensor_bitwise_not(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_tensor *x);

/* aster_ml_lazy_isnan at once. */
ASTER_ML_API int32_t aster_ml_tensor_isnan(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_isinf at once. */
ASTER_ML_API int32_t aster_ml_tensor_isinf(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_isfinite at once. */
ASTER_ML_API int32_t aster_ml_tensor_isfinite(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *x);

/* aster_ml_lazy_reciprocal at once. */
ASTER_ML_API int32_t aster_ml_tensor_reciprocal(aster_ml_tensor *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *x);

/* aster_ml_lazy_sqrt at once. */
ASTER_ML_API int32_t aster_ml_tensor_sqrt(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_rsqrt at once. */
ASTER_ML_API int32_t aster_ml_tensor_rsqrt(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_exp at once. */
ASTER_ML_API int32_t aster_ml_tensor_exp(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_exp2 at once. */
ASTER_ML_API int32_t aster_ml_tensor_exp2(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_log at once. */
ASTER_ML_API int32_t aster_ml_tensor_log(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_log2 at once. */
ASTER_ML_API int32_t aster_ml_tensor_log2(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_log10 at once. */
ASTER_ML_API int32_t aster_ml_tensor_log10(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *x);

/* aster_ml_lazy_sin at once. */
ASTER_ML_API int32_t aster_ml_tensor_sin(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_cos at once. */
ASTER_ML_API int32_t aster_ml_tensor_cos(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_tan at once. */
ASTER_ML_API int32_t aster_ml_tensor_tan(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_tanh at once. */
ASTER_ML_API int32_t aster_ml_tensor_tanh(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_erf at once. */
ASTER_ML_API int32_t aster_ml_tensor_erf(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x);

/* aster_ml_lazy_sigmoid at once. */
ASTER_ML_API int32_t aster_ml_tensor_sigmoid(aster_ml_tensor *out, const aster_ml_context *context,
                                             const aster_ml_tensor *x);

/* aster_ml_lazy_silu at once. */
ASTER_ML_API int32_t aster_ml_tensor_silu(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_gelu at once. */
ASTER_ML_API int32_t aster_ml_tensor_gelu(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x);

/* aster_ml_lazy_gelu_erf at once. */
ASTER_ML_API int32_t aster_ml_tensor_gelu_erf(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *x);

/* aster_ml_lazy_softplus at once. */
ASTER_ML_API int32_t aster_ml_tensor_softplus(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *x);

/* aster_ml_lazy_cast at once. Errors: UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_tensor_cast(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *x, int32_t dtype);

/* aster_ml_lazy_add at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_add(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_sub at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_sub(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_mul at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_mul(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_div at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_div(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_truncdiv at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_truncdiv(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_floordiv at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_floordiv(aster_ml_tensor *out, const aster_ml_context *context,
                                              const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_mod at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_mod(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_fmod at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_fmod(aster_ml_tensor *out, const aster_ml_context *context,
                                          const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_pow at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_pow(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_maximum at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_maximum(aster_ml_tensor *out, const aster_ml_context *context,
                                             const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_minimum at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_minimum(aster_ml_tensor *out, const aster_ml_context *context,
                                             const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_eq at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_eq(aster_ml_tensor *out, const aster_ml_context *context,
                                        const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_ne at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_ne(aster_ml_tensor *out, const aster_ml_context *context,
                                        const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_lt at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_lt(aster_ml_tensor *out, const aster_ml_context *context,
                                        const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_le at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_le(aster_ml_tensor *out, const aster_ml_context *context,
                                        const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_gt at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_gt(aster_ml_tensor *out, const aster_ml_context *context,
                                        const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_ge at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_ge(aster_ml_tensor *out, const aster_ml_context *context,
                                        const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_logical_and at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_logical_and(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_tensor *a,
                                                 const aster_ml_tensor *b);

/* aster_ml_lazy_logical_or at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_logical_or(aster_ml_tensor *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_logical_xor at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_logical_xor(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_tensor *a,
                                                 const aster_ml_tensor *b);

/* aster_ml_lazy_bitwise_and at once. Errors: SHAPE, DTYPE (float). */
ASTER_ML_API int32_t aster_ml_tensor_bitwise_and(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_tensor *a,
                                                 const aster_ml_tensor *b);

/* aster_ml_lazy_bitwise_or at once. Errors: SHAPE, DTYPE (float). */
ASTER_ML_API int32_t aster_ml_tensor_bitwise_or(aster_ml_tensor *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_bitwise_xor at once. Errors: SHAPE, DTYPE (float). */
ASTER_ML_API int32_t aster_ml_tensor_bitwise_xor(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_tensor *a,
                                                 const aster_ml_tensor *b);

/* aster_ml_lazy_shl at once. Errors: SHAPE, DTYPE (float, bool). */
ASTER_ML_API int32_t aster_ml_tensor_shl(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_shr at once. Errors: SHAPE, DTYPE (float, bool). */
ASTER_ML_API int32_t aster_ml_tensor_shr(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_where at once. Errors: SHAPE, DTYPE. */
ASTER_ML_API int32_t aster_ml_tensor_where(aster_ml_tensor *out, const aster_ml_context *context,
                                           const aster_ml_tensor *condition,
                                           const aster_ml_tensor *a, const aster_ml_tensor *b);

/* aster_ml_lazy_sum at once. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_tensor_sum(aster_ml_tensor *out, const aster_ml_context *context,
                                         const aster_ml_tensor *x, size_t count,
                                         const int64_t *axes, int32_t keepdim);

/* aster_ml_lazy_matmul at once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_tensor_matmul(aster_ml_tensor *out, const aster_ml_context *context,
                                            const aster_ml_tensor *a, const aster_ml_tensor *b);

#ifdef __cplusplus
}
#endif
#endif
