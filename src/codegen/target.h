// What code is made for: a language, the features of a CPU or device, and what of its memory
// decides how kernels are made.
#pragma once

#include <cstdint>

namespace aster::codegen {

// What kernels are rendered as.
enum class Language : uint8_t { kC, kOpencl, kProgram };

// What a machine is taken to do well: what plans are chosen by.
struct Machine {
#define MACHINE(type, name, number, meaning) type name = number;
#include "codegen/machine.def"
#undef MACHINE
};

// A device that hides what takes long by having very many items at hand.
constexpr Machine machine_of_items() {
  Machine out;
  out.task = 0;
  out.tasks = INT64_MAX;
  return out;
}

// Two products a cycle wait for what comes from beyond the first-level cache: tiles of four vectors
// read less of it (bench/products.py).
constexpr Machine machine_of_avx512() {
  Machine out;
  out.far_vectors = 4;
  out.far_loads = 1.2;
  return out;
}

// What the code is made for. The same kernel and target give the same text.
struct Target {
  int vector_bytes = 32;  // 16, 32 or 64; 0: any CPU's vectors of 16, and none of these features
  bool fma = true;        // fused multiply-add on vectors
  bool f16c = true;       // half <-> float on vectors
  bool avx512 = false;    // F, DQ, BW, VL: masks and masked accesses
  bool vnni = false;      // dot products of four bytes on vectors
  bool streaming = true;  // non-temporal stores pay for results larger than the last-level cache
  int64_t cache_bytes = int64_t{32} << 20;  // last-level cache
  Language language = Language::kC;
  bool portable = false;  // C for any CPU, planned for vectors of vector_bytes
  bool llvm = false;      // as C, in LLVM IR where that says it
  int max_lanes = 64;     // of a vector; a power of two
  bool fp64 = true;       // doubles
  // Work-items of a group on devices that want very many: a task is an item, which does one step,
  // and items next to each other touch memory next to each other. 0: CPUs, and what is like them.
  int group = 0;
  int group_limit = 0;             // the largest group, where that is more
  int64_t local_bytes = 32 << 10;  // memory of a group
  Machine machine;

  constexpr int register_bytes() const { return vector_bytes > 16 ? vector_bytes : 16; }
};

}  // namespace aster::codegen
