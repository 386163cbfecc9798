// What a machine can do at most, measured once and kept beside the compiled kernels.
#pragma once

#include "base/context.h"

namespace aster::runtime::cpu {

struct Limits {
  double gflops = 0;  // float32 products with sums, each as two operations
  double gbytes = 0;  // read from memory beyond the caches
};

// With so many threads. Errors: MEMORY.
Status limits_of(Limits* out, Context& context, int threads);

}  // namespace aster::runtime::cpu
