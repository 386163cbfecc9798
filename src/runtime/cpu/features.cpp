#include "runtime/cpu/features.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace aster::runtime::cpu {
namespace {

#if defined(__x86_64__)

constexpr const char* kArchitecture = "x86_64";
constexpr uint64_t kStateYmm = 0x06;  // XCR0: SSE and AVX registers are saved
constexpr uint64_t kStateZmm = 0xe6;  // and the masks and both halves of the 512-bit registers

struct Leaf {
  uint32_t registers[4] = {};
};

// Zeros when the leaf lies beyond what the CPU has. Under a hypervisor every read is a trap of some
// 20 us, so that leaves are read once.
Leaf cpuid(uint32_t highest, uint32_t leaf, uint32_t subleaf) {
  Leaf out;
  if (leaf > highest) return out;
  uint32_t* const r = out.registers;
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  return out;
}

uint64_t saved_state(const Leaf& leaf_1) {
  constexpr uint32_t kOsxsave = 1u << 27;
  if ((leaf_1.registers[2] & kOsxsave) == 0) return 0;
  uint32_t low;
  uint32_t high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

constexpr uint32_t kAmd = 0x68747541;  // "Auth", of AuthenticAMD

// signature: how CPUs say which model they are.
CpuFeatures read_features(uint32_t* signature, uint32_t* vendor) {
  CpuFeatures out;
  const uint32_t highest = static_cast<uint32_t>(__get_cpuid_max(0, vendor));
  const Leaf leaves[] = {cpuid(highest, 1, 0), cpuid(highest, 7, 0), cpuid(highest, 7, 1)};
  *signature = leaves[0].registers[0];
  const uint64_t state = saved_state(leaves[0]);
  const bool ymm = (state & kStateYmm) == kStateYmm;
  const bool zmm = (state & kStateZmm) == kStateZmm;
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  out.name = (bytes == 64 ? zmm : ymm) &&                   \
             ((leaves[leaf == 1 ? 0 : 1 + subleaf].registers[reg] >> bit) & 1) != 0;
#include "runtime/cpu/features.def"
#undef FEATURE
  return out;
}

// Deterministic cache parameters: leaf 4 on Intel, 0x8000001D of the same form on AMD.
CacheSizes read_caches(uint32_t vendor) {
  CacheSizes out;
  for (const uint32_t leaf : {4u, 0x8000001Du}) {
    if (vendor == kAmd && leaf == 4) continue;
    const uint32_t highest = static_cast<uint32_t>(__get_cpuid_max(leaf & 0x80000000u, nullptr));
    for (uint32_t i = 0; i < 16; ++i) {
      const Leaf info = cpuid(highest, leaf, i);
      const uint32_t type = info.registers[0] & 31;
      if (type == 0) break;
      if (type == 2) continue;  // instructions
      const uint32_t level = (info.registers[0] >> 5) & 7;
      const uint32_t shape = info.registers[1];
      const size_t ways = (shape >> 22) + 1;
      const size_t partitions = ((shape >> 12) & 0x3ff) + 1;
      const size_t line = (shape & 0xfff) + 1;
      const size_t bytes = ways * partitions * line * (static_cast<size_t>(info.registers[2]) + 1);
      if (level == 1) out.l1 = bytes;
      if (level == 2) out.l2 = bytes;
      if (level >= 2 && bytes > out.last) out.last = bytes;
    }
    if (out.l1 != 0) break;
  }
  return out;
}

#else

constexpr const char* kArchitecture = "portable";
CpuFeatures read_features(uint32_t*, uint32_t*) { return {}; }
CacheSizes read_caches(uint32_t) { return {}; }

#endif

// The widest level whose whole set is there.
int natural_width(const CpuFeatures& f) {
  if (!(f.avx && f.f16c && f.fma && f.avx2 && f.bmi1 && f.bmi2)) return 16;
  return f.avx512f && f.avx512dq && f.avx512cd && f.avx512bw && f.avx512vl ? 64 : 32;
}

}  // namespace

CpuFeatures narrowed(const CpuFeatures& features, int vector_bytes) {
  CpuFeatures out = features;
  if (vector_bytes != 0 && vector_bytes < out.vector_bytes) out.vector_bytes = vector_bytes;
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  out.name = out.name && bytes <= out.vector_bytes;
#include "runtime/cpu/features.def"
#undef FEATURE
  return out;
}

namespace {

// What was read, once a process: by pthread_once, as a guarded static would link libstdc++.
struct Machine {
  CpuFeatures features;
  CacheSizes caches;
  uint32_t signature = 0;
};
constinit Machine g_machine{};

void read_machine() {
  uint32_t vendor = 0;
  g_machine.features = read_features(&g_machine.signature, &vendor);
  g_machine.features.vector_bytes = natural_width(g_machine.features);
  g_machine.features = narrowed(g_machine.features, 0);
  g_machine.caches = read_caches(vendor);
}

const Machine& machine() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_machine);
  return g_machine;
}

}  // namespace

CpuFeatures detect_features() { return machine().features; }

void write_features(Text& out, const CpuFeatures& features) {
  out << kArchitecture << " v" << static_cast<int32_t>(features.vector_bytes);
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  if (features.name) out << " " #name;
#include "runtime/cpu/features.def"
#undef FEATURE
}

void each_feature_flag(const CpuFeatures& features, void (*take)(void* self, const char* flag),
                       void* self) {
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  if (features.name && flag[0] != '\0') take(self, flag);
#include "runtime/cpu/features.def"
#undef FEATURE
}

uint32_t cpu_signature() { return machine().signature; }

CacheSizes detect_caches() { return machine().caches; }

}  // namespace aster::runtime::cpu
