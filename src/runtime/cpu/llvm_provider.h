// libLLVM as a provider of machine code: opened at run time, by functions of its C interface alone,
// for versions 14 to 19. Texts are LLVM IR (codegen/render_llvm.h); each becomes an object in
// memory, in a context of LLVM's own, so threads compile side by side.
#pragma once

#include "runtime/cpu/module.h"

namespace aster::runtime::cpu {

// A library and what of it is called, once it is open.
struct Llvm {
#define LLVM_FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "runtime/cpu/llvm_functions.def"
#undef LLVM_FUNCTION
  char path[512] = {};  // the file that the loader found
  int64_t size = 0;
  int64_t modified_ns = 0;
  bool is_open = false;
};

// Opens `choice` (a path, or a name that the loader finds; null or empty for the newest that it
// finds of 19 to 14; "none" for none), for this process only: another library's LLVM would take
// what lies in the global scope for its own. It stays open. Errors: UNSUPPORTED, with the reason.
Status open_llvm(Llvm* out, const char* choice);

// The same by what an earlier process found and kept in the cache, if that file is as it was and
// the loader would find no other: it is opened when something is to be compiled, since opening
// takes longer than loading hundreds of kernels from disk.
Status find_llvm(Llvm* out, const char* choice, Cache& cache, Memory& memory);

// A provider on a library that outlives it. Errors of compile(): COMPILE with what LLVM said;
// CANCELLED (between texts: what LLVM has begun it ends); UNSUPPORTED (what was to be opened is
// gone); MEMORY. LLVM takes its memory from the process, and ends that where there is none.
Provider llvm_provider(Llvm* llvm);

}  // namespace aster::runtime::cpu
