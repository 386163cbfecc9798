/* Matrices of fixed size in C: layouts, and every function against loops. */
#include <aster_ml/matrix.h>
#include <math.h>
#include <string.h>

#include "expect.h"

_Static_assert(sizeof(aster_ml_mat2f) == 32 && _Alignof(aster_ml_mat2f) == 16, "std140");
_Static_assert(sizeof(aster_ml_mat3f) == 48 && _Alignof(aster_ml_mat3f) == 16, "std140");
_Static_assert(sizeof(aster_ml_mat4f) == 64 && _Alignof(aster_ml_mat4f) == 16, "std140");
_Static_assert(sizeof(aster_ml_mat8f) == 256 && _Alignof(aster_ml_mat8f) == 32, "columns");
_Static_assert(sizeof(aster_ml_mat2d) == 32 && _Alignof(aster_ml_mat2d) == 16, "std140");
_Static_assert(sizeof(aster_ml_mat3d) == 96 && _Alignof(aster_ml_mat3d) == 32, "std140");
_Static_assert(sizeof(aster_ml_mat4d) == 128 && _Alignof(aster_ml_mat4d) == 32, "std140");
_Static_assert(sizeof(aster_ml_mat8d) == 512 && _Alignof(aster_ml_mat8d) == 64, "columns");
_Static_assert(sizeof(aster_ml_vec3f) == 16 && _Alignof(aster_ml_vec3f) == 16, "std140");
_Static_assert(sizeof(aster_ml_vec2d) == 16 && sizeof(aster_ml_vec3d) == 32, "std140");

static int32_t last_code(void) {
  aster_ml_error error;
  memset(&error, 0, sizeof error);
  (void)aster_ml_error_last(&error);
  return error.code;
}

/* Element (i, j) is a small number; what lies in padding must not matter. */
#define FILL(m, n, stride, seed)                                                      \
  for (int j = 0; j < n; j++) {                                                       \
    for (int i = 0; i < stride; i++)                                                  \
      (m).at[j * stride + i] = i < n ? (float)((i * 3 + j * 5 + seed) % 7 - 3) : NAN; \
  }

#define PRODUCT(T, n, s, stride)                                                                 \
  static void product_##n##s(void) {                                                             \
    aster_ml_mat##n##s a, b, out;                                                                \
    FILL(a, n, stride, 1)                                                                        \
    FILL(b, n, stride, 4)                                                                        \
    EXPECT(aster_ml_matrix_matmul_##n##s(&out, &a, &b) == ASTER_ML_OK);                          \
    for (int j = 0; j < n; j++) {                                                                \
      for (int i = 0; i < stride; i++) {                                                         \
        T sum = 0;                                                                               \
        for (int k = 0; k < n && i < n; k++) sum += a.at[k * stride + i] * b.at[j * stride + k]; \
        EXPECT(out.at[j * stride + i] == sum);                                                   \
      }                                                                                          \
    }                                                                                            \
    aster_ml_mat##n##s same = a; /* out may be an operand */                                     \
    EXPECT(aster_ml_matrix_matmul_##n##s(&same, &same, &b) == ASTER_ML_OK);                      \
    EXPECT(memcmp(&same, &out, sizeof out) == 0);                                                \
    same = b;                                                                                    \
    EXPECT(aster_ml_matrix_matmul_##n##s(&same, &a, &same) == ASTER_ML_OK);                      \
    EXPECT(memcmp(&same, &out, sizeof out) == 0);                                                \
    EXPECT(aster_ml_matrix_matmul_##n##s(&out, NULL, &b) == ASTER_ML_ARGUMENT);                  \
    EXPECT(last_code() == ASTER_ML_ARGUMENT && out.at[0] == 0);                                  \
    EXPECT(aster_ml_matrix_matmul_##n##s(NULL, &a, &b) == ASTER_ML_ARGUMENT);                    \
  }

#define SMALL(T, n, s, stride)                                                       \
  PRODUCT(T, n, s, stride)                                                           \
  static void small_##n##s(void) {                                                   \
    aster_ml_mat##n##s m, turned, inverse, one;                                      \
    aster_ml_vec##n##s x = {{1, -2}}, y, back;                                       \
    FILL(m, n, stride, 2)                                                            \
    for (int i = 0; i < n; i++) m.at[i * stride + i] = 9;                            \
    EXPECT(aster_ml_matrix_apply_##n##s(&y, &m, &x) == ASTER_ML_OK);                 \
    for (int i = 0; i < n; i++) {                                                    \
      EXPECT(y.at[i] == m.at[i] - 2 * m.at[stride + i]);                             \
    }                                                                                \
    EXPECT(aster_ml_matrix_solve_##n##s(&back, &m, &y) == ASTER_ML_OK);              \
    for (int i = 0; i < n; i++) EXPECT(fabs((double)(back.at[i] - x.at[i])) < 1e-5); \
    EXPECT(aster_ml_matrix_transpose_##n##s(&turned, &m) == ASTER_ML_OK);            \
    EXPECT(turned.at[1] == m.at[stride] && turned.at[stride] == m.at[1]);            \
    EXPECT(aster_ml_matrix_inverse_##n##s(&inverse, &m) == ASTER_ML_OK);             \
    EXPECT(aster_ml_matrix_matmul_##n##s(&one, &m, &inverse) == ASTER_ML_OK);        \
    for (int j = 0; j < n; j++) {                                                    \
      for (int i = 0; i < stride; i++)                                               \
        EXPECT(fabs((double)one.at[j * stride + i] - (i == j)) < 1e-5);              \
    }                                                                                \
    T whole = 0, part = 0;                                                           \
    EXPECT(aster_ml_matrix_determinant_##n##s(&whole, &m) == ASTER_ML_OK);           \
    EXPECT(aster_ml_matrix_determinant_##n##s(&part, &inverse) == ASTER_ML_OK);      \
    EXPECT(fabs((double)(whole * part) - 1) < 1e-5);                                 \
    memset(&m, 0, sizeof m);                                                         \
    EXPECT(aster_ml_matrix_inverse_##n##s(&inverse, &m) == ASTER_ML_NUMERIC);        \
    EXPECT(inverse.at[0] == 0 && last_code() == ASTER_ML_NUMERIC);                   \
    EXPECT(aster_ml_matrix_solve_##n##s(&back, &m, &y) == ASTER_ML_NUMERIC);         \
    EXPECT(aster_ml_matrix_determinant_##n##s(&whole, &m) == ASTER_ML_OK);           \
    EXPECT(whole == 0);                                                              \
  }

SMALL(float, 2, f, 4)
SMALL(float, 3, f, 4)
SMALL(float, 4, f, 4)
PRODUCT(float, 8, f, 8)
SMALL(double, 2, d, 2)
SMALL(double, 3, d, 4)
SMALL(double, 4, d, 4)
PRODUCT(double, 8, d, 8)

/* Structs that lie one element further than they may, as operands and as results. */
#define ODD(T, n, s)                                                                         \
  static void odd_##n##s(void) {                                                             \
    _Alignas(64) T memory[16 * n] = {0};                                                     \
    aster_ml_mat##n##s m, *const far = (aster_ml_mat##n##s *)(void *)(memory + 1);           \
    memset(&m, 0, sizeof m);                                                                 \
    for (int i = 0; i < 16 * n; i++) memory[i] = 7;                                          \
    EXPECT(aster_ml_matrix_matmul_##n##s(far, &m, &m) == ASTER_ML_ARGUMENT);                 \
    EXPECT(last_code() == ASTER_ML_ARGUMENT);                                                \
    EXPECT(aster_ml_matrix_matmul_##n##s(&m, far, &m) == ASTER_ML_ARGUMENT);                 \
    EXPECT(aster_ml_matrix_matmul_##n##s(&m, &m, far) == ASTER_ML_ARGUMENT && m.at[0] == 0); \
    for (int i = 0; i < 16 * n; i++) EXPECT(memory[i] == 7);                                 \
  }
#define ODD_SMALL(T, n, s)                                                                     \
  ODD(T, n, s)                                                                                 \
  static void odd_small_##n##s(void) {                                                         \
    _Alignas(64) T memory[8 * n] = {0};                                                        \
    aster_ml_mat##n##s m, *const far = (aster_ml_mat##n##s *)(void *)(memory + 1);             \
    aster_ml_vec##n##s x = {{1}}, y, *const away = (aster_ml_vec##n##s *)(void *)(memory + 1); \
    T d = 5, *const odd = (T *)(void *)((char *)memory + 2);                                   \
    memset(&m, 0, sizeof m);                                                                   \
    EXPECT(aster_ml_matrix_apply_##n##s(&y, far, &x) == ASTER_ML_ARGUMENT && y.at[0] == 0);    \
    EXPECT(aster_ml_matrix_apply_##n##s(&y, &m, away) == ASTER_ML_ARGUMENT);                   \
    EXPECT(aster_ml_matrix_apply_##n##s(away, &m, &x) == ASTER_ML_ARGUMENT);                   \
    EXPECT(aster_ml_matrix_transpose_##n##s(far, &m) == ASTER_ML_ARGUMENT);                    \
    EXPECT(aster_ml_matrix_inverse_##n##s(&m, far) == ASTER_ML_ARGUMENT);                      \
    EXPECT(aster_ml_matrix_solve_##n##s(away, &m, &x) == ASTER_ML_ARGUMENT);                   \
    EXPECT(aster_ml_matrix_determinant_##n##s(&d, far) == ASTER_ML_ARGUMENT && d == 0);        \
    EXPECT(aster_ml_matrix_determinant_##n##s(odd, &m) == ASTER_ML_ARGUMENT);                  \
    for (int i = 0; i < 8 * n; i++) EXPECT(memory[i] == 0);                                    \
  }

ODD_SMALL(float, 2, f)
ODD_SMALL(float, 3, f)
ODD_SMALL(float, 4, f)
ODD(float, 8, f)
ODD_SMALL(double, 2, d)
ODD_SMALL(double, 3, d)
ODD_SMALL(double, 4, d)
ODD(double, 8, d)

int main(void) {
  void (*const tests[])(void) = {
      product_2f,   product_3f,   product_4f,   product_8f,  product_2d,   product_3d,
      product_4d,   product_8d,   small_2f,     small_3f,    small_4f,     small_2d,
      small_3d,     small_4d,     odd_2f,       odd_3f,      odd_4f,       odd_8f,
      odd_2d,       odd_3d,       odd_4d,       odd_8d,      odd_small_2f, odd_small_3f,
      odd_small_4f, odd_small_2d, odd_small_3d, odd_small_4d};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i]();
  return expect_failures;
}
