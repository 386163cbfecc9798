// What code is made for: a language, the features of a CPU or device, and what of its memory
// decides how kernels are made.
#pragma once

#include <cstdint>

namespace aster::codegen {

// What kernels are rendered as.
enum class Language : uint8_t { kC, kOpencl, kProgram };

// What the code is made for. The same kernel and target give the same text.
struct Target {
  int vector_bytes = 32;  // 16, 32 or 64; 0: any CPU's vectors of 16, and none of these features
  bool fma = true;        // fused multiply-add on vectors
  bool f16c = true;       // half <-> float on vectors
  bool avx512 = false;    // F, DQ, BW, VL: masks and masked accesses
  bool streaming = true;  // non-temporal stores pay for results larger than the last-level cache
  int64_t cache_bytes = int64_t{32} << 20;  // last-level cache
  Language language = Language::kC;
  bool portable = false;  // C for any CPU, planned for vectors of vector_bytes
  int max_lanes = 64;     // of a vector; a power of two
  bool fp64 = true;       // doubles

  constexpr int register_bytes() const { return vector_bytes > 16 ? vector_bytes : 16; }
};

}  // namespace aster::codegen
