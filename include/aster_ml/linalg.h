/* Linear algebra: einsum, attention, decompositions; and hashes.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 */
#ifndef ASTER_ML_LINALG_H
#define ASTER_ML_LINALG_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Products ---- */

/* matmul(a, b) summed in, and of, dtype. Dtypes: 0 is that of matmul. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_dot(aster_ml_lazy *out, const aster_ml_lazy *a,
                                       const aster_ml_lazy *b, int32_t dtype);

/* matmul(x, weight) + bias; x * weight + bias where weight has one axis. bias may be null.
 * Shapes: x [..., n], weight [n, m] -> [..., m]; bias broadcasts. Dtypes: operands are cast to
 * dtype first; 0 promotes. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_linear(aster_ml_lazy *out, const aster_ml_lazy *x,
                                          const aster_ml_lazy *weight, const aster_ml_lazy *bias,
                                          int32_t dtype);

/* Sum of products by a formula such as "bij,bjk->bik": a letter an axis, one list an operand;
 * letters that the result lacks are summed. A letter twice in one list takes a diagonal; "..." is
 * any axes, aligned at the last; without "->" the result has the axes of "..." and, sorted, the
 * letters that occur once. Blanks count nothing. Axes of size 1 broadcast.
 * Dtypes: promoted; sums are as aster_ml_lazy_sum's, or in and of dtype where it is not 0.
 * Errors: ARGUMENT (formula, count), SHAPE. */
ASTER_ML_API int32_t aster_ml_lazy_einsum(aster_ml_lazy *out, const char *formula,
                                          const aster_ml_lazy *const *tensors, size_t count,
                                          int32_t dtype);

/* softmax(query key^T / sqrt(e) + mask) value.
 * attn_mask may be null; bool: where false, a pair counts nothing; float: added. is_causal 1:
 * position i sees j <= i, without attn_mask. enable_gqa 1: each head of key and value serves a run
 * of the query's heads. dropout_p is the chance that a weight is dropped, if training is 1.
 * Shapes: query [..., l, e], key [..., s, e], value [..., s, v] -> [..., l, v]; attn_mask
 * broadcasts to [..., l, s]; with enable_gqa axis -3 is the heads. Dtypes: float; scores in float32
 * at least, weights in that of query. Errors: SHAPE, DTYPE (attn_mask of integers), RANGE
 * (dropout_p), ARGUMENT (attn_mask beside is_causal). */
ASTER_ML_API int32_t aster_ml_lazy_scaled_dot_product_attention(
    aster_ml_lazy *out, const aster_ml_lazy *query, const aster_ml_lazy *key,
    const aster_ml_lazy *value, const aster_ml_lazy *attn_mask, double dropout_p, int32_t is_causal,
    int32_t enable_gqa, int32_t training);

/* ---- Decompositions of the matrices in the last two axes ---- */

/* x = q r by Householder reflections; q is orthogonal, r upper triangular.
 * Shapes: x [..., m, n] -> q [..., m, m], r [..., m, n]. Dtypes: float. Errors: SHAPE, DTYPE,
 * RANGE (min(m, n) beyond 16384). Cost: O(min(m, n)) graph nodes. */
ASTER_ML_API int32_t aster_ml_lazy_qr(aster_ml_lazy *out_q, aster_ml_lazy *out_r,
                                      const aster_ml_lazy *x);

/* x = u diag(s) vt by Jacobi rotations; s descends, u and vt have orthonormal columns and rows.
 * Shapes: x [..., m, n], k = min(m, n) -> u [..., m, m], s [..., k], vt [..., n, n]; of the larger
 * of u and vt only k columns or rows unless full_matrices is 1. Dtypes: float. Errors: SHAPE,
 * DTYPE, RANGE (k beyond 16384). Cost: O(k) graph nodes. */
ASTER_ML_API int32_t aster_ml_lazy_svd(aster_ml_lazy *out_u, aster_ml_lazy *out_s,
                                       aster_ml_lazy *out_vt, const aster_ml_lazy *x,
                                       int32_t full_matrices);

/* Newton-Schulz iteration towards the orthogonal factor: from g = x / (|x| + eps), steps times
 * g = sum_i params[i] (g g^T)^i g.
 * Errors: SHAPE (fewer than two axes), RANGE (steps below 0; steps or count beyond 100), ARGUMENT
 * (no params). Cost: O(steps * count) graph nodes. */
ASTER_ML_API int32_t aster_ml_lazy_newton_schulz(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                 int64_t steps, size_t count, const double *params,
                                                 double eps);

/* ---- Hashes ---- */

/* The Keccak hash of the bytes along the last axis: "sha3_224", "sha3_256" or "shake_128" (null:
 * "sha3_256"), as many bytes as half the capacity. Shapes: [..., n] -> [..., bytes]. Dtypes: any ->
 * uint8. Errors: SHAPE (no axis), NOT_FOUND (name), RANGE (a message of 4096 blocks: about half a
 * megabyte; aster_ml_lazy_hash takes any). Cost: O(n) graph nodes. */
ASTER_ML_API int32_t aster_ml_lazy_keccak(aster_ml_lazy *out, const aster_ml_lazy *x,
                                          const char *name);

/* As keccak, by a rate in bytes and the bits that follow the message. Errors: SHAPE (no axis),
 * RANGE (rate is no multiple of 8 below 200, suffix is not from 1 to 127; as keccak). */
ASTER_ML_API int32_t aster_ml_lazy_keccak_rate(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               int64_t rate, int64_t suffix);

/* [16] uint8: shake_128 over hashes of the elements' bytes, in pieces of 4096 bytes. */
ASTER_ML_API int32_t aster_ml_lazy_hash(aster_ml_lazy *out, const aster_ml_lazy *x);

#ifdef __cplusplus
}
#endif
#endif
