/* Lazy tensors: building, realising and reading them.
 *
 * A lazy tensor is a mutable cell that names a node of its context's graph. Builders compute
 * nothing: they check, add nodes and give a new handle; aster_ml_lazy_realize computes. Realising
 * and assigning change what every handle on the same storage sees.
 *
 * Chaining   A builder given an empty handle returns the code of the thread's error record
 *            (ARGUMENT if it is clear) and leaves that record alone: a caller may check every call,
 *            or only realize.
 * Contexts   All operands belong to one context (ARGUMENT otherwise).
 * Shapes     Binary and ternary operations broadcast: shapes are aligned at their last axis, axes
 *            of size 1 and missing axes repeat (SHAPE if they do not fit). Dimensions are int64_t;
 *            negative ones are RANGE errors, and those whose product overflows, where one is 0 that
 *            of the others. Axes may be negative and count from the
 *            end then; an axis out of bounds or given twice is RANGE.
 * Dtypes     Operands are promoted to their least common dtype (aster_ml_dtype_promote). Constants
 *            of a weak dtype (aster_ml_lazy_number, _integer) take the dtype of the other operand's
 *            kind: float32 + 2.5 is float32, int8 + 1 is int8. A dtype argument of 0 means the
 *            default that the function names. The default float and integer are float32 and int32
 *            unless the context is told others (aster_ml_engine_set_default_dtype).
 * Errors     Besides the conventions of base.h: ARGUMENT (null pointer, empty handle, out is an
 *            input, another context's handle). The comments name only what comes on top.
 */
#ifndef ASTER_ML_TENSOR_H
#define ASTER_ML_TENSOR_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"
#include "aster_ml/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a lazy tensor; empty when zeroed. */
typedef struct aster_ml_lazy {
  void *impl;
} aster_ml_lazy;

/* ---- Handles ---- */

/* Gives the handle up. Threads: any. */
ASTER_ML_API int32_t aster_ml_lazy_free(aster_ml_lazy *x);

/* Takes x out of its scope: it stays until it is freed. */
ASTER_ML_API int32_t aster_ml_lazy_keep(aster_ml_lazy *x);

/* A second handle on the value of x as it is now. */
ASTER_ML_API int32_t aster_ml_lazy_copy(aster_ml_lazy *out, const aster_ml_lazy *x);

/* The dtype code of x; 0 for an empty handle. */
ASTER_ML_API int32_t aster_ml_lazy_dtype(const aster_ml_lazy *x);

/* The number of axes of x; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_lazy_ndim(const aster_ml_lazy *x);

/* Size of one axis; -1 for an empty handle or an axis out of bounds. */
ASTER_ML_API int64_t aster_ml_lazy_dim(const aster_ml_lazy *x, int64_t axis);

/* The number of elements of x; 0 for an empty handle. */
ASTER_ML_API int64_t aster_ml_lazy_count(const aster_ml_lazy *x);

/* The ndim dimensions of x; ndim is that of x. Errors: SHAPE (another ndim). */
ASTER_ML_API int32_t aster_ml_lazy_shape(int64_t *out, size_t ndim, const aster_ml_lazy *x);

/* The code of the device that holds x or will compute it. */
ASTER_ML_API int32_t aster_ml_lazy_device(int32_t *out, const aster_ml_lazy *x);

/* x on a device: computed where x is and copied there when realised, or computed there if x reads
 * no memory. The gradient comes back to the device of x. Dtypes: a weak one becomes strong.
 * Errors: ARGUMENT (no such device), UNSUPPORTED (no memory can be allocated on it). */
ASTER_ML_API int32_t aster_ml_lazy_to(aster_ml_lazy *out, const aster_ml_lazy *x, int32_t device);

/* 1 where x names realised storage or a view of it, so that nothing is left to compute, else 0. */
ASTER_ML_API int32_t aster_ml_lazy_is_realized(const aster_ml_lazy *x);

/* 1 if x is storage or a view of it, with writes that wait for it or not: assigning to x writes
 * there. */
ASTER_ML_API int32_t aster_ml_lazy_is_stored(const aster_ml_lazy *x);

/* ---- Computing and reading ---- */

/* Computes the tensors, together. Views of storage stay views, where they lie, once the writes that
 * they wait for are done. Weak dtypes become storage of the default ones. Null tensors are
 * allowed where count is 0. What the compiler fails to compile, or is too long at, the reference
 * runtime computes unless the context's options say otherwise (compile_timeout_ms, no_fallback).
 * Errors: whatever building left in the error record; ARGUMENT (empty handles, tensors of several
 * contexts, an assignment to read-only memory); UNSUPPORTED (what no kernel of a device can do;
 * work on another device in a capture; a copy that the context refuses); DEVICE (operands on two
 * devices in a capture; a backend failed); COMPILE (the options want no fallback); CANCELLED
 * (should_cancel, or aster_ml_engine_cancel, which says what is valid then); MEMORY and INTERNAL.
 * After any but CANCELLED storages are as before. */
ASTER_ML_API int32_t aster_ml_lazy_realize(aster_ml_lazy *const *tensors, size_t count);

/* Realises x where that takes no longer than a call: x has storage, or is a small expression (to
 * 100 us, by estimate) like one realised before. *done: 1; else 0, and nothing was done: realize
 * does it. For bindings, which prepare calls that take long. Errors: as realize.   Source: a table
 * from operations, dtypes and shapes to kernels. */
ASTER_ML_API int32_t aster_ml_lazy_realize_ready(int32_t *done, aster_ml_lazy *x);

/* Realises x and lends its descriptor: row-major, valid until x is freed, realised anew or
 * assigned. Not to be freed. Where x is a view that is not row-major it becomes a copy in memory of
 * its own, as aster_ml_context_set_copies says. Owns: x. Errors: as realize, STATE (in a capture).
 */
ASTER_ML_API int32_t aster_ml_lazy_view(aster_ml_tensor *out, aster_ml_lazy *x);

/* The same without a copy: x as it lies, with strides of any sign. Only a view whose elements no
 * strides reach, as that of a transposed matrix in one axis, becomes a copy as above. */
ASTER_ML_API int32_t aster_ml_lazy_view_strided(aster_ml_tensor *out, aster_ml_lazy *x);

/* Realises x and copies its elements, row-major, to host memory; bytes is their exact size. A view
 * stays one. Weak dtypes are read as the default ones. Errors: as view, RANGE (another size). */
ASTER_ML_API int32_t aster_ml_lazy_copy_out(void *data, size_t bytes, aster_ml_lazy *x);

/* The one element of x, converted to double. Errors: as view, SHAPE (more or less than one
 * element). */
ASTER_ML_API int32_t aster_ml_lazy_to_double(double *out, aster_ml_lazy *x);

/* 1 in *out if both are realised and lie, in whole or in part, in the same memory: handles copied
 * from one another and views, whose writes each sees in the other; memory that was wrapped twice;
 * and tensors of equal expressions, built apart, until one is assigned to: it gets a copy of its
 * own then. */
ASTER_ML_API int32_t aster_ml_lazy_shares_storage(int32_t *out, const aster_ml_lazy *x,
                                                  const aster_ml_lazy *y);

/* 1 if both handles stand for one value of the graph, so that what is built of either is the same;
 * a movement that moves nothing gives such a handle. */
ASTER_ML_API int32_t aster_ml_lazy_is_same(const aster_ml_lazy *x, const aster_ml_lazy *y);

/* target = value, written into target's storage at the next realize; value broadcasts to target.
 * Copies of target's handle and views of it see the write, and what else stands for that memory;
 * what was built apart does not, though it lies there because it computed the same (strict_parity:
 * it does). Alias: value may read target. Errors: SHAPE, DTYPE
 * (value's dtype is not target's). */
ASTER_ML_API int32_t aster_ml_lazy_assign(aster_ml_lazy *target, const aster_ml_lazy *value);

/* x, materialised row-major when realised. */
ASTER_ML_API int32_t aster_ml_lazy_contiguous(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x in storage of its own: later assignments to x do not reach it. */
ASTER_ML_API int32_t aster_ml_lazy_clone(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x, through which no gradient flows. */
ASTER_ML_API int32_t aster_ml_lazy_detach(aster_ml_lazy *out, const aster_ml_lazy *x);

/* ---- Creation ---- */

/* A copy of host data: count of shape elements of dtype, row-major. data may be null where a
 * dimension is 0. Errors: RANGE, DTYPE (a weak dtype). */
ASTER_ML_API int32_t aster_ml_lazy_from(aster_ml_lazy *out, const aster_ml_context *context,
                                        const void *data, int32_t dtype, size_t ndim,
                                        const int64_t *shape);

/* The concrete tensor's own storage, no copy: writes by either side are seen by the other. Memory
 * that the library does not know must outlive every use. Strides are read where they lie, if they
 * nest: each is larger than what the smaller ones reach; 0 repeats. What is assigned to such a
 * tensor goes there too where its rows are whole in that memory (aster_ml_lazy_is_stored), else to
 * storage of its own. Strides that do not nest are copied, as aster_ml_context_set_copies says.
 * Errors: RANGE, UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_lazy_from_tensor(aster_ml_lazy *out, const aster_ml_context *context,
                                               const aster_ml_tensor *tensor);

/* A 0-d constant; a weak dtype stays weak. */
ASTER_ML_API int32_t aster_ml_lazy_scalar(aster_ml_lazy *out, const aster_ml_context *context,
                                          const aster_ml_scalar *value);

/* A 0-d constant of the weak float dtype: an operand that takes the other operand's dtype. */
ASTER_ML_API int32_t aster_ml_lazy_number(aster_ml_lazy *out, const aster_ml_context *context,
                                          double value);

/* A 0-d constant of the weak integer dtype. */
ASTER_ML_API int32_t aster_ml_lazy_integer(aster_ml_lazy *out, const aster_ml_context *context,
                                           int64_t value);

/* value everywhere. Dtypes: 0 is value's, a weak one made strong. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_full(aster_ml_lazy *out, const aster_ml_context *context,
                                        const aster_ml_scalar *value, int32_t dtype, size_t ndim,
                                        const int64_t *shape);

/* Zeros. Dtypes: 0 is the default float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_zeros(aster_ml_lazy *out, const aster_ml_context *context,
                                         int32_t dtype, size_t ndim, const int64_t *shape);

/* Ones. Dtypes: 0 is the default float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_ones(aster_ml_lazy *out, const aster_ml_context *context,
                                        int32_t dtype, size_t ndim, const int64_t *shape);

/* Storage of unspecified content, to be assigned. Dtypes: 0 is the default float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_empty(aster_ml_lazy *out, const aster_ml_context *context,
                                         int32_t dtype, size_t ndim, const int64_t *shape);

/* start, start + step, ... up to but not including stop; empty where step leads away from stop.
 * Dtypes: 0 is the default integer, or int64 where the values need it. Errors: RANGE (step 0, a
 * value beyond dtype). */
ASTER_ML_API int32_t aster_ml_lazy_arange(aster_ml_lazy *out, const aster_ml_context *context,
                                          int64_t start, int64_t stop, int64_t step, int32_t dtype);

/* As arange, on floating-point bounds: ceil((stop - start) / step) elements. Dtypes: 0 is the
 * default float. Errors: RANGE (step 0, bounds not finite). */
ASTER_ML_API int32_t aster_ml_lazy_arange_float(aster_ml_lazy *out, const aster_ml_context *context,
                                                double start, double stop, double step,
                                                int32_t dtype);

/* out[i] = start + i * (stop - start) / (count - 1). Dtypes: 0 is the default float. Errors: RANGE,
 * DTYPE (bool). */
ASTER_ML_API int32_t aster_ml_lazy_linspace(aster_ml_lazy *out, const aster_ml_context *context,
                                            double start, double stop, int64_t count,
                                            int32_t dtype);

/* [rows, columns], 1 where i = j, else 0. Dtypes: 0 is the default float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_eye(aster_ml_lazy *out, const aster_ml_context *context,
                                       int64_t rows, int64_t columns, int32_t dtype);

/* ---- Elementwise, one operand. "Dtypes: float" means that integers and bool are computed in
 * the default float. ---- */

/* -x; logical not for bool. */
ASTER_ML_API int32_t aster_ml_lazy_neg(aster_ml_lazy *out, const aster_ml_lazy *x);

/* |x|. */
ASTER_ML_API int32_t aster_ml_lazy_abs(aster_ml_lazy *out, const aster_ml_lazy *x);

/* -1, 0 or 1; 1 for NaN. */
ASTER_ML_API int32_t aster_ml_lazy_sign(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x * x. */
ASTER_ML_API int32_t aster_ml_lazy_square(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x rounded toward zero; integers unchanged. */
ASTER_ML_API int32_t aster_ml_lazy_trunc(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x rounded down; integers unchanged. */
ASTER_ML_API int32_t aster_ml_lazy_floor(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x rounded up; integers unchanged. */
ASTER_ML_API int32_t aster_ml_lazy_ceil(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x rounded to the nearest integer, ties to even; integers unchanged. */
ASTER_ML_API int32_t aster_ml_lazy_round(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x where x > 0, else 0. */
ASTER_ML_API int32_t aster_ml_lazy_relu(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x == 0. Dtypes: -> bool. */
ASTER_ML_API int32_t aster_ml_lazy_logical_not(aster_ml_lazy *out, const aster_ml_lazy *x);

/* ~x; logical for bool. Errors: DTYPE (float). */
ASTER_ML_API int32_t aster_ml_lazy_bitwise_not(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x != x. Dtypes: -> bool. */
ASTER_ML_API int32_t aster_ml_lazy_isnan(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x is +inf or -inf. Dtypes: -> bool. */
ASTER_ML_API int32_t aster_ml_lazy_isinf(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x is neither infinite nor NaN. Dtypes: -> bool. */
ASTER_ML_API int32_t aster_ml_lazy_isfinite(aster_ml_lazy *out, const aster_ml_lazy *x);

/* 1 / x. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_reciprocal(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Square root. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_sqrt(aster_ml_lazy *out, const aster_ml_lazy *x);

/* 1 / sqrt(x). Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_rsqrt(aster_ml_lazy *out, const aster_ml_lazy *x);

/* e^x. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_exp(aster_ml_lazy *out, const aster_ml_lazy *x);

/* 2^x. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_exp2(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Natural logarithm. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_log(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Logarithm to base 2. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_log2(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Logarithm to base 10. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_log10(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Sine. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_sin(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Cosine. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_cos(aster_ml_lazy *out, const aster_ml_lazy *x);

/* sin(x) / cos(x). Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_tan(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Hyperbolic tangent. Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_tanh(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Error function. Dtypes: float. */
ASTER_ML_API int32_t aster_ml_lazy_erf(aster_ml_lazy *out, const aster_ml_lazy *x);

/* 1 / (1 + e^-x). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_sigmoid(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x * sigmoid(x). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_silu(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))). Dtypes: float; integers give the weak float
 * dtype. */
ASTER_ML_API int32_t aster_ml_lazy_gelu(aster_ml_lazy *out, const aster_ml_lazy *x);

/* x/2 * (1 + erf(x / sqrt(2))). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_gelu_erf(aster_ml_lazy *out, const aster_ml_lazy *x);

/* log(1 + e^x). Dtypes: float; integers give the weak float dtype. */
ASTER_ML_API int32_t aster_ml_lazy_softplus(aster_ml_lazy *out, const aster_ml_lazy *x);

/* max(x, 0) + slope * min(x, 0). */
ASTER_ML_API int32_t aster_ml_lazy_leaky_relu(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              double slope);

/* x converted to dtype: integers wrap; float to integer truncates, NaN and what lies beyond 2^63
 * give 0; to bool is x != 0. Errors: UNSUPPORTED (a dtype without arithmetic). */
ASTER_ML_API int32_t aster_ml_lazy_cast(aster_ml_lazy *out, const aster_ml_lazy *x, int32_t dtype);

/* The bits of x read as dtype; where its size is another, the last axis grows or shrinks, lowest
 * bits first. Storage stays what it is: a view, as a reshape is one. Errors: DTYPE (a weak dtype),
 * SHAPE (the last axis does not divide). */
ASTER_ML_API int32_t aster_ml_lazy_bitcast(aster_ml_lazy *out, const aster_ml_lazy *x,
                                           int32_t dtype);

/* ---- Elementwise, two and three operands; they broadcast and promote ---- */

/* a + b; logical or for bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_add(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* a - b; a or not b for bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_sub(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* a * b; logical and for bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_mul(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* a / b. Dtypes: float; integers and bool give the default float. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_div(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* a / b rounded toward zero; integers: a / 0 = 0, MIN / -1 = MIN. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_truncdiv(aster_ml_lazy *out, const aster_ml_lazy *a,
                                            const aster_ml_lazy *b);

/* a / b rounded down; integers: a / 0 = 0. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_floordiv(aster_ml_lazy *out, const aster_ml_lazy *a,
                                            const aster_ml_lazy *b);

/* a - b * floordiv(a, b), the sign of b; integers: a mod 0 = a. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_mod(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* a - b * truncdiv(a, b), the sign of a; integers: a mod 0 = a. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_fmod(aster_ml_lazy *out, const aster_ml_lazy *a,
                                        const aster_ml_lazy *b);

/* a^b; integers are computed in float64 and truncated. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_pow(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* The larger; NaN wins. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_maximum(aster_ml_lazy *out, const aster_ml_lazy *a,
                                           const aster_ml_lazy *b);

/* The smaller; NaN wins. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_minimum(aster_ml_lazy *out, const aster_ml_lazy *a,
                                           const aster_ml_lazy *b);

/* a == b. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_eq(aster_ml_lazy *out, const aster_ml_lazy *a,
                                      const aster_ml_lazy *b);

/* a != b. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_ne(aster_ml_lazy *out, const aster_ml_lazy *a,
                                      const aster_ml_lazy *b);

/* a < b. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_lt(aster_ml_lazy *out, const aster_ml_lazy *a,
                                      const aster_ml_lazy *b);

/* a <= b. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_le(aster_ml_lazy *out, const aster_ml_lazy *a,
                                      const aster_ml_lazy *b);

/* a > b. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_gt(aster_ml_lazy *out, const aster_ml_lazy *a,
                                      const aster_ml_lazy *b);

/* a >= b. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_ge(aster_ml_lazy *out, const aster_ml_lazy *a,
                                      const aster_ml_lazy *b);

/* a and b, both non-zero. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_logical_and(aster_ml_lazy *out, const aster_ml_lazy *a,
                                               const aster_ml_lazy *b);

/* a or b, either non-zero. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_logical_or(aster_ml_lazy *out, const aster_ml_lazy *a,
                                              const aster_ml_lazy *b);

/* Exactly one of a and b non-zero. Dtypes: -> bool. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_logical_xor(aster_ml_lazy *out, const aster_ml_lazy *a,
                                               const aster_ml_lazy *b);

/* a & b; logical for bool. Errors: SHAPE, DTYPE (float). */
ASTER_ML_API int32_t aster_ml_lazy_bitwise_and(aster_ml_lazy *out, const aster_ml_lazy *a,
                                               const aster_ml_lazy *b);

/* a | b; logical for bool. Errors: SHAPE, DTYPE (float). */
ASTER_ML_API int32_t aster_ml_lazy_bitwise_or(aster_ml_lazy *out, const aster_ml_lazy *a,
                                              const aster_ml_lazy *b);

/* a ^ b; logical for bool. Errors: SHAPE, DTYPE (float). */
ASTER_ML_API int32_t aster_ml_lazy_bitwise_xor(aster_ml_lazy *out, const aster_ml_lazy *a,
                                               const aster_ml_lazy *b);

/* a << b, 0 past the width. Errors: SHAPE, DTYPE (float, bool). */
ASTER_ML_API int32_t aster_ml_lazy_shl(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* a >> b, arithmetic for signed dtypes; past the width 0 or the sign. Errors: SHAPE, DTYPE (float,
 * bool). */
ASTER_ML_API int32_t aster_ml_lazy_shr(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b);

/* condition ? a : b. Errors: SHAPE, DTYPE (condition is not bool). */
ASTER_ML_API int32_t aster_ml_lazy_where(aster_ml_lazy *out, const aster_ml_lazy *condition,
                                         const aster_ml_lazy *a, const aster_ml_lazy *b);

/* a * b + c, rounded once. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_fma(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b, const aster_ml_lazy *c);

/* x, but low where x < low and high where x > high; a null bound is none, both null are an ARGUMENT
 * error. NaN stays. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_clamp(aster_ml_lazy *out, const aster_ml_lazy *x,
                                         const aster_ml_lazy *low, const aster_ml_lazy *high);

/* start + (end - start) * weight. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_lerp(aster_ml_lazy *out, const aster_ml_lazy *start,
                                        const aster_ml_lazy *end, const aster_ml_lazy *weight);

/* ---- Movement ---- */

/* The same elements in row-major order; one dimension may be -1 and is inferred. Errors: SHAPE,
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_reshape(aster_ml_lazy *out, const aster_ml_lazy *x, size_t ndim,
                                           const int64_t *shape);

/* x broadcast to shape; -1 keeps the dimension of x. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_expand(aster_ml_lazy *out, const aster_ml_lazy *x, size_t ndim,
                                          const int64_t *shape);

/* Axis k of the result is axis axes[k] of x; count is the ndim of x. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_permute(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                           const int64_t *axes);

/* Swaps two axes. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_transpose(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             int64_t axis0, int64_t axis1);

/* Reverses axes. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_flip(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                        const int64_t *axes);

/* before[k] and after[k] elements of fill around axis k; negative amounts cut elements off. count
 * is the ndim of x; a null fill is 0. Dtypes: fill is converted to that of x. Errors: SHAPE
 * (count), RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_pad(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *before, const int64_t *after,
                                       const aster_ml_scalar *fill);

/* Elements begin[k] <= i < end[k] of every axis; count is the ndim of x. Errors: SHAPE (count),
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_shrink(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                          const int64_t *begin, const int64_t *end);

/* Python's x[start:stop:step] on the first count axes, negative steps included; bounds are clamped
 * as Python does, so INT64_MAX and INT64_MIN reach the ends. A null step is 1, a null start or stop
 * everything. Errors: RANGE (step 0). */
ASTER_ML_API int32_t aster_ml_lazy_slice(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                         const int64_t *start, const int64_t *stop,
                                         const int64_t *step);

/* x[..., index, ...]: one element of an axis, which disappears; negative indices count from its
 * end. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_select(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                          int64_t index);

/* Removes an axis of size 1; another size is left alone. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_squeeze(aster_ml_lazy *out, const aster_ml_lazy *x,
                                           int64_t axis);

/* Inserts an axis of size 1 before axis; -1 appends one. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_unsqueeze(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             int64_t axis);

/* Axes first to last become one. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_flatten(aster_ml_lazy *out, const aster_ml_lazy *x,
                                           int64_t first, int64_t last);

/* Joins tensors along an axis. Dtypes: promoted. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_cat(aster_ml_lazy *out, const aster_ml_lazy *const *tensors,
                                       size_t count, int64_t axis);

/* Joins tensors of one shape along a new axis. Dtypes: promoted. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_stack(aster_ml_lazy *out, const aster_ml_lazy *const *tensors,
                                         size_t count, int64_t axis);

/* [..., classes]: 1 at the label, else 0, int32. Dtypes: labels of an integer dtype. Errors: DTYPE,
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_one_hot(aster_ml_lazy *out, const aster_ml_lazy *labels,
                                           int64_t classes);

/* ---- Reductions over count axes; null axes mean all of them. keepdim 1 leaves the axes with
 * size 1. ---- */

/* Sum. Dtypes: summed in aster_ml_dtype_sum_accumulator's; half, bfloat16 and fp8 are cast back.
 * Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_sum(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim);

/* Product, in the dtype of x. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_prod(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                        const int64_t *axes, int32_t keepdim);

/* Maximum; NaN wins; of nothing the lowest value. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_max(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim);

/* Minimum; NaN wins; of nothing the highest value. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_min(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim);

/* Mean. Dtypes: integers and bool give float32. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_mean(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                        const int64_t *axes, int32_t keepdim);

/* sum (x - mean)^2 / max(n - correction, 0). Dtypes: as mean. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_var(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim, int64_t correction);

/* 1 where any element is non-zero, bool. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_any(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim);

/* 1 where all elements are non-zero, bool. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_all(aster_ml_lazy *out, const aster_ml_lazy *x, size_t count,
                                       const int64_t *axes, int32_t keepdim);

/* Index of the first maximum along an axis, int32; a NaN counts as the maximum. Errors: RANGE (no
 * elements). */
ASTER_ML_API int32_t aster_ml_lazy_argmax(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                          int32_t keepdim);

/* Index of the first minimum along an axis, int32; a NaN counts as the minimum. Errors: RANGE (no
 * elements). */
ASTER_ML_API int32_t aster_ml_lazy_argmin(aster_ml_lazy *out, const aster_ml_lazy *x, int64_t axis,
                                          int32_t keepdim);

/* log sum e^x, without overflow. Dtypes: float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_logsumexp(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             size_t count, const int64_t *axes, int32_t keepdim);

/* ---- Composites ---- */

/* out[..., i, j] = sum_k a[..., i, k] * b[..., k, j].
 * Shapes: a [..., m, k], b [..., k, n] -> [..., m, n]; leading axes broadcast; a 1-d a has no m, a
 * 1-d b no n. Dtypes: promoted; summed in the accumulator's dtype, then cast back. Errors: SHAPE.
 * Cost: O(1) graph nodes. */
ASTER_ML_API int32_t aster_ml_lazy_matmul(aster_ml_lazy *out, const aster_ml_lazy *a,
                                          const aster_ml_lazy *b);

/* Options of conv2d. Zero means: one group, stride 1, no padding, dilation 1. Pairs are rows,
 * columns. */
typedef struct aster_ml_conv2d_options {
  uint32_t struct_size;
  int32_t groups;
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[4]; /* top, bottom, left, right; negative amounts cut off */
} aster_ml_conv2d_options;

/* Cross-correlation of images; bias and options may be null.
 * Shapes: x [n, groups * c, h, w], weight [o, c, kh, kw], bias [o] -> [n, o, oh, ow].
 * Dtypes: promoted; summed in the accumulator's dtype, then cast back for half, bfloat16 and fp8.
 * Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_conv2d(aster_ml_lazy *out, const aster_ml_lazy *x,
                                          const aster_ml_lazy *weight, const aster_ml_lazy *bias,
                                          const aster_ml_conv2d_options *options);

/* Options of the pools. Zero means: kernel 2, stride that of the kernel, no padding, dilation 1.
 * Pairs are rows, columns. */
typedef struct aster_ml_pool2d_options {
  uint32_t struct_size;
  int32_t kernel[2];
  int32_t stride[2];
  int32_t dilation[2];
  int32_t padding[4];  /* top, bottom, left, right */
  int32_t exclude_pad; /* avg_pool2d: 1 divides by the elements that are no padding */
} aster_ml_pool2d_options;

/* Maximum over windows of the last two axes; padding never wins. options may be null. Errors:
 * SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_max_pool2d(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              const aster_ml_pool2d_options *options);

/* Mean over windows of the last two axes. options may be null. Dtypes: as mean. Errors: SHAPE,
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_avg_pool2d(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              const aster_ml_pool2d_options *options);

/* e^(x - max) / sum e^(x - max) along an axis. Dtypes: float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_softmax(aster_ml_lazy *out, const aster_ml_lazy *x,
                                           int64_t axis);

/* log(softmax(x)) along an axis. Dtypes: float. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_log_softmax(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               int64_t axis);

/* (x - mean) / sqrt(var + eps) over the last axes, then * weight + bias, which may be null.
 * Shapes: weight and bias have the last `axes` dimensions of x. Dtypes: float. Errors: SHAPE,
 * RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_layer_norm(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              size_t axes, const aster_ml_lazy *weight,
                                              const aster_ml_lazy *bias, double eps);

/* (x - mean) * weight * invstd + bias by channel; weight and bias may be null.
 * Shapes: x [n, c, ...], the others [c]. Dtypes: promoted. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_batch_norm(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              const aster_ml_lazy *weight,
                                              const aster_ml_lazy *bias, const aster_ml_lazy *mean,
                                              const aster_ml_lazy *invstd);

/* How a loss is reduced. */
typedef int32_t aster_ml_reduction;
enum { ASTER_ML_REDUCTION_MEAN = 0, ASTER_ML_REDUCTION_SUM = 1, ASTER_ML_REDUCTION_NONE = 2 };

/* Options of cross_entropy. */
typedef struct aster_ml_cross_entropy_options {
  uint32_t struct_size;
  int32_t reduction;      /* aster_ml_reduction */
  double label_smoothing; /* 0 to 1 */
  int32_t ignore;         /* 1: labels equal to ignore_index count nothing */
  int32_t ignore_index;
} aster_ml_cross_entropy_options;

/* Mean (or sum) of -log_softmax(logits) at the labels. options may be null.
 * Shapes: logits [..., classes], labels [...]. Dtypes: labels of an integer dtype, logits float.
 * Errors: SHAPE, DTYPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_cross_entropy(aster_ml_lazy *out, const aster_ml_lazy *logits,
                                                 const aster_ml_lazy *labels,
                                                 const aster_ml_cross_entropy_options *options);

#ifdef __cplusplus
}
#endif
#endif
