// The public functions on matrices of fixed size: the templates of matrix.hpp at the common sizes.
#include "aster_ml/matrix.h"

#include "aster_ml/matrix.hpp"
#include "base/float_modes.h"
#include "base/status.h"

namespace aster {
namespace {

using aster_ml::matrix;
using aster_ml::vec;

// The templates' own, of a struct with the same layout. By copies: out may be an operand.
template <typename Mine, typename Struct>
Mine load(const Struct* given) {
  static_assert(sizeof(Mine) == sizeof(Struct) && alignof(Mine) == alignof(Struct));
  Mine out;
  std::memcpy(static_cast<void*>(&out), given, sizeof(out));
  return out;
}
template <typename Struct, typename Mine>
void store(Struct* out, const Mine& made) {
  static_assert(sizeof(Mine) == sizeof(Struct));
  std::memcpy(out, &made, sizeof(made));
}
// What a caller left in the padding is not computed with.
template <typename Mine, typename Struct>
Mine load_square(const Struct* given) {
  Mine out = load<Mine>(given);
  for (size_t j = 0; j < Mine::columns; ++j) {
    for (size_t i = Mine::rows; i < Mine::stride; ++i) out.column(j)[i] = 0;
  }
  return out;
}

// Whole products of 8 x 8, a column in one vector or two.
#if defined(__x86_64__)
typedef float Floats __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(32)));
// Loaded and stored as these, in loops that are unrolled at once: gcc keeps columns in memory
// otherwise, where it copies them by halves, for which loads of whole vectors wait.
typedef float FloatsAt __attribute__((vector_size(32), may_alias, aligned(4)));
typedef double DoublesAt __attribute__((vector_size(32), may_alias, aligned(8)));

[[gnu::target("avx2,fma")]] void product8(float* out, const float* a, const float* b) {
  Floats columns[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) columns[k] = *reinterpret_cast<const FloatsAt*>(a + 8 * k);
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j, out += 8, b += 8) {  // a column of b is read before it is written
    Floats sum = columns[0] * b[0];
#pragma GCC unroll 8
    for (int k = 1; k < 8; ++k) {
      sum = __builtin_ia32_vfmaddps256(columns[k], b[k] - Floats{}, sum);
    }
    *reinterpret_cast<FloatsAt*>(out) = sum;
  }
}
[[gnu::target("avx2,fma")]] void product8(double* out, const double* a, const double* b) {
  Doubles made[16];
  for (int half = 0; half < 2; ++half) {
    Doubles columns[8];
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      columns[k] = *reinterpret_cast<const DoublesAt*>(a + 8 * k + 4 * half);
    for (int j = 0; j < 8; ++j) {
      Doubles sum = columns[0] * b[8 * j];
#pragma GCC unroll 8
      for (int k = 1; k < 8; ++k) {
        sum = __builtin_ia32_vfmaddpd256(columns[k], b[8 * j + k] - Doubles{}, sum);
      }
      made[2 * j + half] = sum;
    }
  }
  std::memcpy(out, made, sizeof(made));
}
bool has_fused() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
bool has_fused() { return false; }
template <typename T>
void product8(T*, const T*, const T*) {}
#endif

template <typename T, size_t kSize, typename Struct>
void multiply(Struct* out, const Struct* a, const Struct* b) {
  using M = matrix<T, kSize, kSize>;
  if constexpr (kSize == 8) {
    if (has_fused()) return product8(out->at, a->at, b->at);
  }
  store(out, load_square<M>(a) * load<M>(b));
}

// Whether all are addresses of structs as the compiler aligns them: reading and writing others
// may be a fault.
template <typename T>
bool is_aligned(const T* at) {
  return reinterpret_cast<uintptr_t>(at) % alignof(T) == 0;
}
template <typename... Structs>
bool are_structs(const Structs*... at) {
  return ((at != nullptr) && ...) && (is_aligned(at) && ...);
}
template <typename T>
Status refuse(T* out) {
  const bool aligned = is_aligned(out);
  if (out != nullptr && aligned) *out = T{};
  return ASTER_FAIL(kARGUMENT, "a pointer to a matrix or vector is null or not aligned as it is");
}
template <typename T>
Status singular(T* out) {
  *out = T{};
  return ASTER_FAIL(kNUMERIC, "the matrix is singular, or has a NaN");
}

}  // namespace
}  // namespace aster

// Names the function where it fails alone, which is what most of such a call's time would be.
#define REFUSE_WRONG(...)                   \
  do {                                      \
    if (!aster::are_structs(__VA_ARGS__)) { \
      ASTER_API();                          \
      return aster::refuse(out);            \
    }                                       \
  } while (0)

#define MATMUL(T, N, S)                                                                       \
  int32_t aster_ml_matrix_matmul_##N##S(aster_ml_mat##N##S* out, const aster_ml_mat##N##S* a, \
                                        const aster_ml_mat##N##S* b) {                        \
    REFUSE_WRONG(out, a, b);                                                                  \
    aster::multiply<T, N>(out, a, b);                                                         \
    return ASTER_ML_OK;                                                                       \
  }
#define SMALL(T, N, S)                                                                             \
  MATMUL(T, N, S)                                                                                  \
  int32_t aster_ml_matrix_apply_##N##S(aster_ml_vec##N##S* out, const aster_ml_mat##N##S* m,       \
                                       const aster_ml_vec##N##S* x) {                              \
    REFUSE_WRONG(out, m, x);                                                                       \
    const auto y = aster::load<aster::matrix<T, N, N>>(m) * aster::load<aster::vec<T, N>>(x);      \
    aster_ml_vec##N##S made = {};                                                                  \
    for (size_t i = 0; i < N; ++i) made.at[i] = y[i];                                              \
    *out = made;                                                                                   \
    return ASTER_ML_OK;                                                                            \
  }                                                                                                \
  int32_t aster_ml_matrix_transpose_##N##S(aster_ml_mat##N##S* out, const aster_ml_mat##N##S* m) { \
    REFUSE_WRONG(out, m);                                                                          \
    aster::store(out, transpose(aster::load<aster::matrix<T, N, N>>(m)));                          \
    return ASTER_ML_OK;                                                                            \
  }                                                                                                \
  int32_t aster_ml_matrix_determinant_##N##S(T* out, const aster_ml_mat##N##S* m) {                \
    REFUSE_WRONG(out, m);                                                                          \
    const aster::FloatModes modes;                                                                 \
    *out = determinant(aster::load<aster::matrix<T, N, N>>(m));                                    \
    return ASTER_ML_OK;                                                                            \
  }                                                                                                \
  int32_t aster_ml_matrix_inverse_##N##S(aster_ml_mat##N##S* out, const aster_ml_mat##N##S* m) {   \
    REFUSE_WRONG(out, m);                                                                          \
    const aster::FloatModes modes;                                                                 \
    aster::matrix<T, N, N> made;                                                                   \
    if (!inverse(made, aster::load<aster::matrix<T, N, N>>(m))) {                                  \
      ASTER_API();                                                                                 \
      return aster::singular(out);                                                                 \
    }                                                                                              \
    aster::store(out, made);                                                                       \
    return ASTER_ML_OK;                                                                            \
  }                                                                                                \
  int32_t aster_ml_matrix_solve_##N##S(aster_ml_vec##N##S* out, const aster_ml_mat##N##S* m,       \
                                       const aster_ml_vec##N##S* b) {                              \
    REFUSE_WRONG(out, m, b);                                                                       \
    const aster::FloatModes modes;                                                                 \
    aster::vec<T, N> x;                                                                            \
    if (!solve(x, aster::load<aster::matrix<T, N, N>>(m), aster::load<aster::vec<T, N>>(b))) {     \
      ASTER_API();                                                                                 \
      return aster::singular(out);                                                                 \
    }                                                                                              \
    aster_ml_vec##N##S made = {};                                                                  \
    for (size_t i = 0; i < N; ++i) made.at[i] = x[i];                                              \
    *out = made;                                                                                   \
    return ASTER_ML_OK;                                                                            \
  }

extern "C" {

SMALL(float, 2, f)
SMALL(float, 3, f)
SMALL(float, 4, f)
MATMUL(float, 8, f)
SMALL(double, 2, d)
SMALL(double, 3, d)
SMALL(double, 4, d)
MATMUL(double, 8, d)

}  // extern "C"
