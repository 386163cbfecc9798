// The compilers and vector widths of this machine, for tests and benches of kernels.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "codegen/target.h"

namespace aster::codegen::tests {

// Bytes of the vectors that this machine has.
inline std::vector<int> widths() {
  std::vector<int> out{16};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back(32);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    out.push_back(64);
  }
  return out;
}

// 0: C for any CPU.
inline Target target_of(int vector_bytes) {
  Target t;
  t.vector_bytes = vector_bytes;
  t.fma = t.f16c = vector_bytes >= 32;
  t.avx512 = vector_bytes == 64;
  return t;
}

inline std::string flags_of(const std::string& compiler, int vector_bytes) {
  std::string flags =
      " -std=gnu11 -Wall -Wno-unused -Wno-psabi -O1 -fwrapv -fno-strict-aliasing -fno-math-errno "
      "-fno-trapping-math -fno-unroll-loops -ffp-contract=off -fno-stack-protector "
      "-fno-asynchronous-unwind-tables ";
  if (compiler.ends_with("gcc")) flags += "-fexpensive-optimizations -fschedule-insns2 ";
  if (vector_bytes >= 32) flags += "-mavx2 -mfma -mf16c -mbmi -mbmi2 ";
  if (vector_bytes >= 64)
    flags += "-mavx512f -mavx512dq -mavx512cd -mavx512bw -mavx512vl -mprefer-vector-width=512 ";
  return flags;
}
inline constexpr const char kShared[] = "-shared -nostdlib -fPIC ";

inline bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

inline const std::vector<std::string>& compilers() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const char* name : {"gcc", "clang"}) {
      if (has_program(name)) out.push_back(name);
    }
    return out;
  }();
  return all;
}

}  // namespace aster::codegen::tests
