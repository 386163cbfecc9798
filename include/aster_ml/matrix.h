/* Matrices of fixed size for C: structs of the common sizes, and functions on them at once.
 *
 * The templates of aster_ml/matrix.hpp, for C++, have every size, and layouts equal to these.
 *
 * Names      2, 3, 4 or 8 rows and columns; f: float, d: double.
 * Layout     Column-major, columns padded and aligned: element (i, j) of aster_ml_mat3f is
 *            at[4 * j + i]. Of 2 to 4 rows as std140 has it, so that a struct may be copied into a
 *            buffer of uniforms; padding is written as 0, and not read. A vector of 3 is padded
 *            too.
 * Pointers   Aligned as the structs are, else ARGUMENT, and nothing is written where they are not.
 *            Out may be an operand: it is written last.
 * Results    Rounded as sums of products are that follow the order of the columns. Functions need
 *            no context and allocate nothing.
 */
#ifndef ASTER_ML_MATRIX_H
#define ASTER_ML_MATRIX_H

#include "aster_ml/base.h"

/* Alignment of a struct by its first field. */
#ifdef __cplusplus
#define ASTER_ML_ALIGN(bytes) alignas(bytes)
#else
#define ASTER_ML_ALIGN(bytes) _Alignas(bytes)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Vectors. */
typedef struct aster_ml_vec2f {
  ASTER_ML_ALIGN(8) float at[2];
} aster_ml_vec2f;
typedef struct aster_ml_vec3f {
  ASTER_ML_ALIGN(16) float at[4];
} aster_ml_vec3f;
typedef struct aster_ml_vec4f {
  ASTER_ML_ALIGN(16) float at[4];
} aster_ml_vec4f;
typedef struct aster_ml_vec2d {
  ASTER_ML_ALIGN(16) double at[2];
} aster_ml_vec2d;
typedef struct aster_ml_vec3d {
  ASTER_ML_ALIGN(32) double at[4];
} aster_ml_vec3d;
typedef struct aster_ml_vec4d {
  ASTER_ML_ALIGN(32) double at[4];
} aster_ml_vec4d;

/* Square matrices. */
typedef struct aster_ml_mat2f {
  ASTER_ML_ALIGN(16) float at[8];
} aster_ml_mat2f;
typedef struct aster_ml_mat3f {
  ASTER_ML_ALIGN(16) float at[12];
} aster_ml_mat3f;
typedef struct aster_ml_mat4f {
  ASTER_ML_ALIGN(16) float at[16];
} aster_ml_mat4f;
typedef struct aster_ml_mat8f {
  ASTER_ML_ALIGN(32) float at[64];
} aster_ml_mat8f;
typedef struct aster_ml_mat2d {
  ASTER_ML_ALIGN(16) double at[4];
} aster_ml_mat2d;
typedef struct aster_ml_mat3d {
  ASTER_ML_ALIGN(32) double at[12];
} aster_ml_mat3d;
typedef struct aster_ml_mat4d {
  ASTER_ML_ALIGN(32) double at[16];
} aster_ml_mat4d;
typedef struct aster_ml_mat8d {
  ASTER_ML_ALIGN(64) double at[64];
} aster_ml_mat8d;

/* out = a b. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_matrix_matmul_2f(aster_ml_mat2f *out, const aster_ml_mat2f *a,
                                               const aster_ml_mat2f *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_3f(aster_ml_mat3f *out, const aster_ml_mat3f *a,
                                               const aster_ml_mat3f *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_4f(aster_ml_mat4f *out, const aster_ml_mat4f *a,
                                               const aster_ml_mat4f *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_8f(aster_ml_mat8f *out, const aster_ml_mat8f *a,
                                               const aster_ml_mat8f *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_2d(aster_ml_mat2d *out, const aster_ml_mat2d *a,
                                               const aster_ml_mat2d *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_3d(aster_ml_mat3d *out, const aster_ml_mat3d *a,
                                               const aster_ml_mat3d *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_4d(aster_ml_mat4d *out, const aster_ml_mat4d *a,
                                               const aster_ml_mat4d *b);
ASTER_ML_API int32_t aster_ml_matrix_matmul_8d(aster_ml_mat8d *out, const aster_ml_mat8d *a,
                                               const aster_ml_mat8d *b);

/* out = m x, a combination of columns. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_matrix_apply_2f(aster_ml_vec2f *out, const aster_ml_mat2f *m,
                                              const aster_ml_vec2f *x);
ASTER_ML_API int32_t aster_ml_matrix_apply_3f(aster_ml_vec3f *out, const aster_ml_mat3f *m,
                                              const aster_ml_vec3f *x);
ASTER_ML_API int32_t aster_ml_matrix_apply_4f(aster_ml_vec4f *out, const aster_ml_mat4f *m,
                                              const aster_ml_vec4f *x);
ASTER_ML_API int32_t aster_ml_matrix_apply_2d(aster_ml_vec2d *out, const aster_ml_mat2d *m,
                                              const aster_ml_vec2d *x);
ASTER_ML_API int32_t aster_ml_matrix_apply_3d(aster_ml_vec3d *out, const aster_ml_mat3d *m,
                                              const aster_ml_vec3d *x);
ASTER_ML_API int32_t aster_ml_matrix_apply_4d(aster_ml_vec4d *out, const aster_ml_mat4d *m,
                                              const aster_ml_vec4d *x);

/* out[i, j] = m[j, i]. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_matrix_transpose_2f(aster_ml_mat2f *out, const aster_ml_mat2f *m);
ASTER_ML_API int32_t aster_ml_matrix_transpose_3f(aster_ml_mat3f *out, const aster_ml_mat3f *m);
ASTER_ML_API int32_t aster_ml_matrix_transpose_4f(aster_ml_mat4f *out, const aster_ml_mat4f *m);
ASTER_ML_API int32_t aster_ml_matrix_transpose_2d(aster_ml_mat2d *out, const aster_ml_mat2d *m);
ASTER_ML_API int32_t aster_ml_matrix_transpose_3d(aster_ml_mat3d *out, const aster_ml_mat3d *m);
ASTER_ML_API int32_t aster_ml_matrix_transpose_4d(aster_ml_mat4d *out, const aster_ml_mat4d *m);

/* The determinant. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_matrix_determinant_2f(float *out, const aster_ml_mat2f *m);
ASTER_ML_API int32_t aster_ml_matrix_determinant_3f(float *out, const aster_ml_mat3f *m);
ASTER_ML_API int32_t aster_ml_matrix_determinant_4f(float *out, const aster_ml_mat4f *m);
ASTER_ML_API int32_t aster_ml_matrix_determinant_2d(double *out, const aster_ml_mat2d *m);
ASTER_ML_API int32_t aster_ml_matrix_determinant_3d(double *out, const aster_ml_mat3d *m);
ASTER_ML_API int32_t aster_ml_matrix_determinant_4d(double *out, const aster_ml_mat4d *m);

/* out m = 1, by elimination with partial pivoting. Errors: ARGUMENT, NUMERIC (a pivot is 0 or NaN).
 */
ASTER_ML_API int32_t aster_ml_matrix_inverse_2f(aster_ml_mat2f *out, const aster_ml_mat2f *m);
ASTER_ML_API int32_t aster_ml_matrix_inverse_3f(aster_ml_mat3f *out, const aster_ml_mat3f *m);
ASTER_ML_API int32_t aster_ml_matrix_inverse_4f(aster_ml_mat4f *out, const aster_ml_mat4f *m);
ASTER_ML_API int32_t aster_ml_matrix_inverse_2d(aster_ml_mat2d *out, const aster_ml_mat2d *m);
ASTER_ML_API int32_t aster_ml_matrix_inverse_3d(aster_ml_mat3d *out, const aster_ml_mat3d *m);
ASTER_ML_API int32_t aster_ml_matrix_inverse_4d(aster_ml_mat4d *out, const aster_ml_mat4d *m);

/* out = the x of m x = b, as inverse. Errors: ARGUMENT, NUMERIC. */
ASTER_ML_API int32_t aster_ml_matrix_solve_2f(aster_ml_vec2f *out, const aster_ml_mat2f *m,
                                              const aster_ml_vec2f *b);
ASTER_ML_API int32_t aster_ml_matrix_solve_3f(aster_ml_vec3f *out, const aster_ml_mat3f *m,
                                              const aster_ml_vec3f *b);
ASTER_ML_API int32_t aster_ml_matrix_solve_4f(aster_ml_vec4f *out, const aster_ml_mat4f *m,
                                              const aster_ml_vec4f *b);
ASTER_ML_API int32_t aster_ml_matrix_solve_2d(aster_ml_vec2d *out, const aster_ml_mat2d *m,
                                              const aster_ml_vec2d *b);
ASTER_ML_API int32_t aster_ml_matrix_solve_3d(aster_ml_vec3d *out, const aster_ml_mat3d *m,
                                              const aster_ml_vec3d *b);
ASTER_ML_API int32_t aster_ml_matrix_solve_4d(aster_ml_vec4d *out, const aster_ml_mat4d *m,
                                              const aster_ml_vec4d *b);

#ifdef __cplusplus
}
#endif
#endif
