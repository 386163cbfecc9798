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

/* out[batch.., i.., j..] = sum over contracted axes of a * b: axis a_contract[k] of a goes with
 * b_contract[k] of b and is summed, axis a_batch[k] with b_batch[k] and stays; i.. are the axes of
 * a that are left, in their order, j.. those of b. Nothing broadcasts. Axes may be negative.
 * Dtypes: operands are promoted; summed in accumulate, or as matmul does where it is 0; the result
 * is of dtype, or that of matmul where it is 0. Errors: SHAPE (sizes of a pair differ), RANGE (an
 * axis out of bounds, or twice). */
ASTER_ML_API int32_t aster_ml_lazy_dot_general(aster_ml_lazy *out, const aster_ml_lazy *a,
                                               const aster_ml_lazy *b, size_t contract_count,
                                               const int64_t *a_contract, const int64_t *b_contract,
                                               size_t batch_count, const int64_t *a_batch,
                                               const int64_t *b_batch, int32_t accumulate,
                                               int32_t dtype);

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

/* ---- Decompositions of the matrices in the last two axes ----
 *
 * Each is one operation of the graph: computed where it is realised, on the host, by the LAPACK
 * that OpenBLAS carries or, small matrices and all without it or under the context's option
 * no_library, by the library's own algorithms, which round differently; the matrices of a batch on
 * the context's threads, which share one matrix too in LU and in products of wide floats. Bits do
 * not depend on their number.
 * Further axes are the batch. Dtypes: float; narrow ones are computed in float32 and rounded once.
 * flt256 and flt512 are computed with as such, on exact products: residuals and orthogonality are
 * within a few n units of their last bit, singular values and eigenvalues within as much of the
 * largest one. Each operation within is rounded as the context's option flt_rounding says, so that
 * results of two modes differ by rounding errors; they are not bounds of the exact result.
 *
 * What only computing shows is NUMERIC then, with the number of the first such matrix of a batch:
 * a pivot that is 0, a leading minor that is not positive, values that do not converge, and, in
 * singular values, eigenvalues and expm, an element that is not finite (of wide floats in expm also
 * a norm of 2^1024 and more). What was to be realised
 * stays as it was; the outputs of a program's run are undefined.
 *
 * Gradients are graphs of the same operations, so they have gradients too; there are none of eig
 * and eigvals, nor of lu where the matrix is not square. Singular values and eigenvalues that are
 * equal have no gradient of their vectors. */

/* x = p l u by Gaussian elimination with partial pivoting: p a permutation, l unit lower, u upper
 * triangular; also of singular matrices.
 * Of sticky integers elimination is exact, without fractions: x = p l d^-1 u, where d is diagonal,
 * d[i] = u[i - 1, i - 1] u[i, i] (u[0, 0] of the first), and l has the diagonal of u. All are
 * minors of x, up to its determinant: ERR where they do not fit, and what is made of ERR.
 * Shapes: x [..., m, n], k = min(m, n) -> p [..., m, m], l [..., m, k], u [..., k, n].
 * Dtypes: float; or sticky -> that of its sums, tbb32 or tbb64. Errors: SHAPE, DTYPE; NUMERIC when
 * realised (sticky: a pivot is ERR or 0). Source: E. H. Bareiss 1968. */
ASTER_ML_API int32_t aster_ml_lazy_lu(aster_ml_lazy *out_p, aster_ml_lazy *out_l,
                                      aster_ml_lazy *out_u, const aster_ml_lazy *x);

/* The same in one matrix, l below the diagonal and u on and above it; row i of l u, of sticky
 * integers of l d^-1 u, is row rows[i] of x. Shapes: x [..., m, n] -> lu [..., m, n],
 * rows [..., m]. Dtypes: rows is int32. Errors: as lu. */
ASTER_ML_API int32_t aster_ml_lazy_lu_factor(aster_ml_lazy *out_lu, aster_ml_lazy *out_rows,
                                             const aster_ml_lazy *x);

/* Lower triangular l, x = l l^T; with upper 1 upper triangular u, x = u^T u. Only that triangle of
 * x is looked at, and has a gradient. Shapes: [..., n, n]. Errors: SHAPE, DTYPE; NUMERIC when
 * realised (not positive definite). */
ASTER_ML_API int32_t aster_ml_lazy_cholesky(aster_ml_lazy *out, const aster_ml_lazy *x,
                                            int32_t upper);

/* x = q r by Householder reflections; q is orthogonal, r upper triangular. Every step reflects, so
 * r[0, 0] has the sign that x[0, 0] has not.
 * Shapes: x [..., m, n] -> q [..., m, m], r [..., m, n]. Errors: SHAPE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_qr(aster_ml_lazy *out_q, aster_ml_lazy *out_r,
                                      const aster_ml_lazy *x);

/* The first k = min(m, n) columns of that q and rows of that r. Shapes: x [..., m, n] ->
 * q [..., m, k], r [..., k, n]. Errors: SHAPE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_qr_reduced(aster_ml_lazy *out_q, aster_ml_lazy *out_r,
                                              const aster_ml_lazy *x);

/* x = u diag(s) vt; s descends, u and vt have orthonormal columns and rows.
 * By divide and conquer (one-sided Jacobi rotations without LAPACK); under strict_parity by
 * tinygrad's rotations, whose signs the vectors then have, in O(k) graph nodes. Gradients pass
 * through the first k columns and rows alone: those beyond them are any basis of the rest.
 * Shapes: x [..., m, n], k = min(m, n) -> u [..., m, m], s [..., k], vt [..., n, n]; of the larger
 * of u and vt only k columns or rows unless full_matrices is 1. Errors: SHAPE, DTYPE; RANGE (under
 * strict_parity: k beyond 16384); NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_svd(aster_ml_lazy *out_u, aster_ml_lazy *out_s,
                                       aster_ml_lazy *out_vt, const aster_ml_lazy *x,
                                       int32_t full_matrices);

/* The singular values alone, descending. Shapes: [..., m, n] -> [..., min(m, n)]. Errors: SHAPE,
 * DTYPE; NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_svdvals(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Symmetric x = v diag(w) v^T; w rises, v is orthogonal. Only the lower triangle of x, with upper 1
 * the upper one, is looked at, and has a gradient. Shapes: x [..., n, n] -> w [..., n],
 * v [..., n, n]. Errors: SHAPE, DTYPE; NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_eigh(aster_ml_lazy *out_w, aster_ml_lazy *out_v,
                                        const aster_ml_lazy *x, int32_t upper);

/* The eigenvalues alone. Shapes: [..., n, n] -> [..., n]. Errors: as eigh. */
ASTER_ML_API int32_t aster_ml_lazy_eigvalsh(aster_ml_lazy *out, const aster_ml_lazy *x,
                                            int32_t upper);

/* Eigenvalues re + i im of any square matrix, and vectors of length 1 as LAPACK packs them: column
 * j of v where im[j] is 0; of a pair j, j + 1, which has im[j] > 0, columns j and j + 1 are the
 * real and the imaginary part of the vector of j, and that of j + 1 is its conjugate. Shapes: x
 * [..., n, n] -> re, im [..., n], v [..., n, n]. Errors: SHAPE, DTYPE; NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_eig(aster_ml_lazy *out_re, aster_ml_lazy *out_im,
                                       aster_ml_lazy *out_v, const aster_ml_lazy *x);

/* The eigenvalues alone. Shapes: [..., n, n] -> [..., n] each. Errors: as eig. */
ASTER_ML_API int32_t aster_ml_lazy_eigvals(aster_ml_lazy *out_re, aster_ml_lazy *out_im,
                                           const aster_ml_lazy *x);

/* ---- Solutions, inverses, determinants ---- */

/* a^-1 b by LU with partial pivoting. Shapes: a [..., n, n], b [..., n, k] or [n] -> b's; batch
 * axes broadcast. Dtypes: promoted. Errors: SHAPE, DTYPE; NUMERIC when realised (singular). */
ASTER_ML_API int32_t aster_ml_lazy_solve(aster_ml_lazy *out, const aster_ml_lazy *a,
                                         const aster_ml_lazy *b);

/* The same where a is triangular, lower or, with upper 1, upper: nothing else of it is looked at,
 * nor its diagonal with unit_diagonal 1, which is 1 then. transposed 1: a^-T b. Errors: as solve.
 */
ASTER_ML_API int32_t aster_ml_lazy_solve_triangular(aster_ml_lazy *out, const aster_ml_lazy *a,
                                                    const aster_ml_lazy *b, int32_t upper,
                                                    int32_t transposed, int32_t unit_diagonal);

/* x^-1. Shapes: [..., n, n]. Errors: SHAPE, DTYPE; NUMERIC when realised (singular). */
ASTER_ML_API int32_t aster_ml_lazy_inv(aster_ml_lazy *out, const aster_ml_lazy *x);

/* The determinant; 0 of a singular matrix, whose gradient is NUMERIC. Shapes: [..., n, n] -> [...].
 * Errors: SHAPE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_det(aster_ml_lazy *out, const aster_ml_lazy *x);

/* Its sign and the logarithm of its magnitude: 0 and -inf of a singular matrix. Shapes: [..., n, n]
 * -> [...] each. Errors: SHAPE, DTYPE, UNSUPPORTED (wide floats without MPFR). */
ASTER_ML_API int32_t aster_ml_lazy_slogdet(aster_ml_lazy *out_sign, aster_ml_lazy *out_logabs,
                                           const aster_ml_lazy *x);

/* The x of least |a x - b|, and of those the shortest, by singular values: those above rcond times
 * the largest count, where rcond is negative those above max(m, n) epsilon times it. rank says how
 * many do. Shapes: a [..., m, n], b [..., m, k] or [m] -> x [..., n, k] or [n], rank [...],
 * s [..., min(m, n)]. Dtypes: promoted; rank is int32. Errors: SHAPE (also no elements), DTYPE;
 * NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_lstsq(aster_ml_lazy *out_x, aster_ml_lazy *out_rank,
                                         aster_ml_lazy *out_s, const aster_ml_lazy *a,
                                         const aster_ml_lazy *b, double rcond);

/* The pseudo-inverse, by the singular values that count as in lstsq. Shapes: [..., m, n] ->
 * [..., n, m]. Errors: SHAPE, DTYPE; NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_pinv(aster_ml_lazy *out, const aster_ml_lazy *x, double rcond);

/* How many singular values count. Shapes: [..., m, n] -> [...]. Dtypes: int32. Errors: as pinv. */
ASTER_ML_API int32_t aster_ml_lazy_matrix_rank(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               double rcond);

/* The norm of an order: "fro" (Frobenius), "nuc" (the sum of singular values), "1" and "inf" (the
 * largest sum of magnitudes of a column, of a row), "2" (the largest singular value); "-1", "-inf",
 * "-2": the least one. Shapes: [..., m, n] -> [...]. Errors: SHAPE (also no elements), DTYPE,
 * ARGUMENT (order is null), NOT_FOUND (no such order); NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_matrix_norm(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               const char *order);

/* The condition |x| |x^-1| in such a norm; of "2" the largest singular value by the least, of any
 * shape. Shapes: [..., n, n] -> [...]. Errors: as matrix_norm; NUMERIC when realised (singular, but
 * of "2" and "-2"). */
ASTER_ML_API int32_t aster_ml_lazy_cond(aster_ml_lazy *out, const aster_ml_lazy *x,
                                        const char *order);

/* The exponential of a matrix, by scaling, Pade's approximant and squaring. Shapes: [..., n, n].
 * Errors: SHAPE, DTYPE; NUMERIC when realised. */
ASTER_ML_API int32_t aster_ml_lazy_expm(aster_ml_lazy *out, const aster_ml_lazy *x);

/* ---- Iterations ---- */

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
