// The system's C compiler as a subprocess: finding it, knowing its identity, and turning C text
// into object code in memory. No file is written: source, object and messages pass through
// anonymous memory files.
#pragma once

#include <span>
#include <string_view>

#include "base/text.h"
#include "runtime/cpu/features.h"
#include "runtime/cpu/process.h"

namespace aster::runtime::cpu {

enum class CompilerKind : uint8_t { kNone, kGcc, kClang };

struct CompilerInfo {
  CompilerKind kind = CompilerKind::kNone;
  char path[512] = {};     // absolute
  char version[128] = {};  // first line of --version
  uint64_t device = 0;     // of the file that path leads to
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0;
};

// What the last identity of a compiler file is remembered in (the disk cache). Either function may
// be null.
struct IdentityMemory {
  void* self = nullptr;
  // Fills kind and version for the file named by path, device, inode, size and modified_ns; false
  // when not known.
  bool (*recall)(void* self, CompilerInfo* info) = nullptr;
  void (*keep)(void* self, const CompilerInfo& info) = nullptr;
};

// Finds the compiler: `choice` (a path, or a name looked up on PATH; "none" for no compiler; null
// or empty for clang, gcc, cc in this order), on PATH's absolute directories, then in
// /usr/local/bin, /usr/bin, /bin. Errors: UNSUPPORTED (switched off, not found, or does not answer
// --version: the message says how); DEVICE, MEMORY, CANCELLED, which may be otherwise next time.
Status find_compiler(CompilerInfo* out, const char* choice, const IdentityMemory& identities,
                     Memory& memory, const Patience& patience = {});

// Path, version and file identity, for cache keys. Device and inode are left out: they differ
// between equal machines.
void write_identity(Text& out, const CompilerInfo& compiler);
// All flags given to the compiler, separated by spaces, for cache keys and reports.
void write_flags(Text& out, const CompilerInfo& compiler, const CpuFeatures& features);

// The line of what a compiler said that tells what is wrong; gcc and clang may print where they are
// before it.
std::string_view error_line(std::string_view text);

// Compiles each C source to a relocatable object, all at the same time, one process each.
// Errors: COMPILE with the first line of the first compiler message, or with how it ended; DEVICE,
// MEMORY, CANCELLED.  Threads: any.
Status compile(const CompilerInfo& compiler, const CpuFeatures& features,
               std::span<const std::string_view> sources, std::span<Vec<uint8_t>> objects,
               Memory& memory, const Patience& patience = {});

// Links one relocatable object to a shared object, for hosts where memory may not be made
// executable. Errors: as compile.
Status link_shared(const CompilerInfo& compiler, std::span<const uint8_t> object,
                   Vec<uint8_t>* shared, Memory& memory, const Patience& patience = {});

}  // namespace aster::runtime::cpu
