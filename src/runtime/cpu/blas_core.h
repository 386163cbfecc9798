// Which of its kernels OpenBLAS takes. It knows CPUs by their model, so what is newer than the
// library gets the kernels of an older one, or of their oldest ancestor.
#pragma once

#include "runtime/cpu/features.h"

namespace aster::runtime::cpu {

// Width of the vectors that a core's kernels use; names as openblas_get_corename gives them. 64 for
// names that are not known: cores newer than this list.
int core_vector_bytes(const char* core);

// The core whose kernels use what a CPU can do: "Cooperlake", "SkylakeX", "Haswell"; null for CPUs
// without AVX2.
const char* core_for(const CpuFeatures& features);

// Has a library, a handle of dlopen, choose anew where its choice is narrower than the CPU's
// vectors; tells whether it did. The environment is neither changed nor stood in for: for as long
// as the library chooses, its own reference to getenv is answered here. Nobody may be computing
// with it.
bool choose_core(void* library, const CpuFeatures& features);
// The same for a core by name.
bool force_core(void* library, const char* core);

}  // namespace aster::runtime::cpu
