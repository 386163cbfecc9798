#include "runtime/cpu/blas_core.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

namespace aster::runtime::cpu {
namespace {

// What has AVX without AVX2 counts with SSE: generated code is faster than it.
struct CoreWidth {
  std::string_view name;
  int bytes;
};
constexpr CoreWidth kCores[] = {
    {"Unknown", 16},    {"Katmai", 16},       {"Coppermine", 16},  {"Northwood", 16},
    {"Banias", 16},     {"Prescott", 16},     {"Core2", 16},       {"Penryn", 16},
    {"Dunnington", 16}, {"Nehalem", 16},      {"Atom", 16},        {"Athlon", 16},
    {"Opteron", 16},    {"Opteron_SSE3", 16}, {"Barcelona", 16},   {"Bobcat", 16},
    {"Nano", 16},       {"generic", 16},      {"Sandybridge", 16}, {"Bulldozer", 16},
    {"Piledriver", 16}, {"Steamroller", 16},  {"Excavator", 32},   {"Haswell", 32},
    {"Zen", 32}};

// A place in a library's tables that names a function of another one.
struct Reference {
  uintptr_t inside;    // any address of the library
  const char* symbol;  // the function
  void** slot = nullptr;
  bool read_only = false;  // once the loader is done with it
};

const ElfW(Rela) * end_of(const ElfW(Rela) * begin, size_t bytes) {
  return begin + bytes / sizeof(ElfW(Rela));
}

// The tables that a library's dynamic section names.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * entries[2] = {};
  size_t bytes[2] = {};

  Tables(const ElfW(Dyn) * dynamic, uintptr_t base) {
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
      // glibc has already added the library's base.
      const uintptr_t value = dynamic->d_un.d_ptr, at = value < base ? value + base : value;
      if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
      if (dynamic->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(at);
      if (dynamic->d_tag == DT_RELA) entries[0] = reinterpret_cast<const ElfW(Rela)*>(at);
      if (dynamic->d_tag == DT_RELASZ) bytes[0] = value;
      if (dynamic->d_tag == DT_JMPREL) entries[1] = reinterpret_cast<const ElfW(Rela)*>(at);
      if (dynamic->d_tag == DT_PLTRELSZ) bytes[1] = value;
    }
  }

  uintptr_t find(const char* symbol) const {
    if (symbols == nullptr || names == nullptr) return 0;
    for (size_t i = 0; i < 2; ++i) {
      if (entries[i] == nullptr) continue;
      for (const ElfW(Rela)* r = entries[i]; r != end_of(entries[i], bytes[i]); ++r) {
        const uint64_t type = ELF64_R_TYPE(r->r_info);
        if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
        if (strcmp(names + symbols[ELF64_R_SYM(r->r_info)].st_name, symbol) == 0) {
          return r->r_offset;
        }
      }
    }
    return 0;
  }
};

int find_in(dl_phdr_info* info, size_t, void* self) {
  Reference& reference = *static_cast<Reference*>(self);
  const uintptr_t base = info->dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  uintptr_t relro = 0, relro_end = 0;
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const uintptr_t begin = base + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type == PT_LOAD) here |= reference.inside >= begin && reference.inside < end;
    if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (part.p_type == PT_GNU_RELRO) relro = begin, relro_end = end;
  }
  if (!here || dynamic == nullptr) return 0;
  const uintptr_t offset = Tables(dynamic, base).find(reference.symbol);
  if (offset != 0) {
    reference.slot = reinterpret_cast<void**>(base + offset);
    reference.read_only = base + offset >= relro && base + offset < relro_end;
  }
  return 1;
}

// Stores to a slot; false where its page stays read-only.
bool redirect(const Reference& reference, void* target) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(reference.slot) & ~(page - 1));
  if (reference.read_only && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
  *reference.slot = target;
  if (reference.read_only) (void)mprotect(start, page, PROT_READ);
  return true;
}

// Set by the one thread that loads the library.
const char* wanted_core = nullptr;

char* answer(const char* name) {
  if (strcmp(name, "OPENBLAS_CORETYPE") == 0) return const_cast<char*>(wanted_core);
  return getenv(name);
}

}  // namespace

int core_vector_bytes(const char* core) {
  for (const CoreWidth& row : kCores) {
    if (core == row.name) return row.bytes;
  }
  return 64;
}

const char* core_for(const CpuFeatures& features) {
  if (features.vector_bytes < 32) return nullptr;
  if (features.vector_bytes < 64) return "Haswell";
  return features.avx512_bf16 ? "Cooperlake" : "SkylakeX";
}

bool choose_core(void* library, const CpuFeatures& features) {
  const auto name = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_corename"));
  const char* wanted = core_for(features);
  if (name == nullptr || wanted == nullptr) return false;
  return core_vector_bytes(name()) < features.vector_bytes && force_core(library, wanted);
}

bool force_core(void* library, const char* core) {
  const auto quit = reinterpret_cast<void (*)()>(dlsym(library, "gotoblas_dynamic_quit"));
  const auto choose = reinterpret_cast<void (*)()>(dlsym(library, "gotoblas_dynamic_init"));
  if (quit == nullptr || choose == nullptr) return false;
  Reference reference{reinterpret_cast<uintptr_t>(choose), "getenv"};
  dl_iterate_phdr(find_in, &reference);
  if (reference.slot == nullptr) return false;
  void* before = *reference.slot;
  wanted_core = core;
  if (!redirect(reference, reinterpret_cast<void*>(answer))) return false;
  quit();
  choose();
  (void)redirect(reference, before);
  return true;
}

}  // namespace aster::runtime::cpu
