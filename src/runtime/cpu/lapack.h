// LAPACK, as OpenBLAS carries it; calls go inside a BlasCall.
//
// Functions are Fortran's own, on column-major matrices: what LAPACKE's *_work functions call for
// such, without a second library that may be bound to another build of BLAS. Hidden arguments are
// the lengths of texts. LAPACK prints and stops where an argument is wrong: none may be.
#pragma once

#include <cstddef>

#include "runtime/cpu/blas.h"

namespace aster::runtime::cpu {

template <typename T>
struct Lapack {
  void (*getrf)(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info) = nullptr;
  void (*getri)(const int* n, T* a, const int* lda, const int* pivots, T* work, const int* lwork,
                int* info) = nullptr;
  void (*potrf)(const char* uplo, const int* n, T* a, const int* lda, int* info, size_t) = nullptr;
  void (*geqrf)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork,
                int* info) = nullptr;
  void (*larft)(const char* direct, const char* storev, const int* n, const int* k, const T* v,
                const int* ldv, const T* tau, T* t, const int* ldt, size_t, size_t) = nullptr;
  void (*larfb)(const char* side, const char* trans, const char* direct, const char* storev,
                const int* m, const int* n, const int* k, const T* v, const int* ldv, const T* t,
                const int* ldt, T* c, const int* ldc, T* work, const int* ldwork, size_t, size_t,
                size_t, size_t) = nullptr;
  void (*gesdd)(const char* job, const int* m, const int* n, T* a, const int* lda, T* s, T* u,
                const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* iwork,
                int* info, size_t) = nullptr;
  void (*syevd)(const char* job, const char* uplo, const int* n, T* a, const int* lda, T* w,
                T* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t,
                size_t) = nullptr;
  void (*geev)(const char* left, const char* right, const int* n, T* a, const int* lda, T* wr,
               T* wi, T* vl, const int* ldvl, T* vr, const int* ldvr, T* work, const int* lwork,
               int* info, size_t, size_t) = nullptr;
  void (*trsm)(const char* side, const char* uplo, const char* trans, const char* diag,
               const int* m, const int* n, const T* alpha, const T* a, const int* lda, T* b,
               const int* ldb, size_t, size_t, size_t, size_t) = nullptr;
  void (*gemm)(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
               const T* alpha, const T* a, const int* lda, const T* b, const int* ldb,
               const T* beta, T* c, const int* ldc, size_t, size_t) = nullptr;
};

// Its functions for float or double; null where no library has them all (ASTER_ML_BLAS=none, or an
// OpenBLAS without LAPACK). Threads: any. Calls stand in a BlasCall.
template <typename T>
const Lapack<T>* lapack();

}  // namespace aster::runtime::cpu
