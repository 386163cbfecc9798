// OpenBLAS, found at its first use and never linked, for the LAPACK that it carries (lapack.h). It
// computes on the calling thread.
#pragma once

namespace aster::runtime::cpu {

struct Blas {
  bool available = false;
  bool parallel_calls = false;  // from several threads at once; else calls wait for each other
  void* library = nullptr;      // its handle
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

// Around a call of one of the library's functions: its turn where calls wait for each other, one
// thread where OpenMP would start several.
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
