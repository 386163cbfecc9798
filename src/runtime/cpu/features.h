// What the CPU can do, found at run time, and the compiler flags that say so.
#pragma once

#include "base/text.h"

namespace aster::runtime::cpu {

struct CpuFeatures {
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) bool name = false;
#include "runtime/cpu/features.def"
#undef FEATURE
  // Widest vectors that code is made for: 64 (AVX-512 F DQ CD BW VL), 32 (AVX2, FMA, F16C, BMI) or
  // 16 (SSE2 alone). Features beyond that width are false, so that equal widths on equal CPUs mean
  // equal code.
  int vector_bytes = 16;

  bool operator==(const CpuFeatures&) const = default;
};

// Of this machine, read once a process; what the operating system does not save (XCR0) counts as
// absent.
CpuFeatures detect_features();

// The same CPU with vectors of at most vector_bytes (16, 32 or 64; 0: as they are).
CpuFeatures narrowed(const CpuFeatures& features, int vector_bytes);

// What CPUID calls the model; 0: not told.
uint32_t cpu_signature();

// "x86_64 v64 avx f16c ...": the full set, for cache keys and reports.
void write_features(Text& out, const CpuFeatures& features);

// Calls take(self, flag) for every compiler flag of the set; flags are static text. Never
// -march=native.
void each_feature_flag(const CpuFeatures& features, void (*take)(void* self, const char* flag),
                       void* self);

// Data caches in bytes, as seen by one core; a level that cannot be told is 0.
struct CacheSizes {
  size_t l1 = 0;
  size_t l2 = 0;
  size_t last = 0;  // last-level cache, shared or not
};
CacheSizes detect_caches();

}  // namespace aster::runtime::cpu
