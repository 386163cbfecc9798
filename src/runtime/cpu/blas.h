// OpenBLAS, found at its first use and never linked. Our own pool splits the work; the library
// computes on the calling thread.
#pragma once

#include <cstdint>

namespace aster::runtime::cpu {

// CBLAS's numbers.
enum BlasOrder : int { kRowMajor = 101 };
enum BlasTranspose : int { kNoTranspose = 111, kTranspose = 112 };

// C = alpha * op(A) op(B) + beta * C
template <typename T>
using BlasGemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                          const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);
// y = alpha * op(A) x + beta * y
template <typename T>
using BlasGemv = void (*)(int order, int transpose, int m, int n, T alpha, const T* a, int lda,
                          const T* x, int incx, T beta, T* y, int incy);

// Dimensions are 32-bit here; callers check that theirs fit. All functions may be called from any
// thread.
struct Blas {
  bool available = false;
  bool parallel_calls = false;  // from several threads at once; else calls wait for each other
  bool outdated =
      false;  // it took this CPU for an older one without its vectors: generated code is faster
  BlasGemm<float> sgemm = nullptr;
  BlasGemm<double> dgemm = nullptr;
  BlasGemv<float> sgemv = nullptr;
  BlasGemv<double> dgemv = nullptr;
  void* library = nullptr;  // its handle, for other functions of it (BlasCall)
  char path[256] = {};
  char config[160] = {};  // "OpenBLAS 0.3.21 ..." as it describes itself
  char core[32] = {};     // the kernels it chose
};

// The library: the first that there is of the builds that several threads may call at once, then of
// the others. It computes on the calling thread, with kernels for what this CPU can do, and has no
// threads of its own. Loaded at the first call; not available if there is none, or
// ASTER_ML_BLAS=none. What a host loaded before keeps the host's threads and kernels; where those
// threads are several, our calls wait for each other. Cost: 10 to 20 ms at the first call.
// Threads: any.
const Blas& blas();

// Around a call of another of the library's functions: its turn where calls wait for each other,
// one thread where OpenMP would start several. Not around Blas's own functions, which have it.
class BlasCall {
 public:
  BlasCall();
  ~BlasCall();
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;

 private:
  int before_ = 0;
};

}  // namespace aster::runtime::cpu
