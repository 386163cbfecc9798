// The system's C compiler as a provider, and the disk cache as the memory of what compilers are.
#pragma once

#include "runtime/cpu/module.h"

namespace aster::runtime::cpu {

// A provider on a compiler that outlives it.
Provider system_provider(CompilerInfo* compiler);

// IdentityMemory on a cache; self points to an IdentityCache.
struct IdentityCache {
  Cache* cache;
  Memory* memory;
  static bool recall(void* self, CompilerInfo* info);
  static void keep(void* self, const CompilerInfo& info);
};

}  // namespace aster::runtime::cpu
