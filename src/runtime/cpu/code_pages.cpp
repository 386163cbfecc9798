#include "runtime/cpu/code_pages.h"

#include <sys/mman.h>

#include <cstring>

namespace aster::runtime::cpu {

Status CodePages::map(CodePages** out, std::span<const uint8_t> code, Memory& memory) {
  void* const at =
      mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return out_of_memory(code.size());
  std::memcpy(at, code.data(), code.size());
  if (mprotect(at, code.size(), PROT_READ | PROT_EXEC) != 0) {
    munmap(at, code.size());
    return ASTER_FAIL(kUNSUPPORTED, "the system does not let memory become executable");
  }
  *out = memory.create<CodePages>(at, code.size());
  if (*out == nullptr) {
    munmap(at, code.size());
    return out_of_memory(sizeof(CodePages));
  }
  return kOk;
}

CodePages::~CodePages() { munmap(at_, size_); }

}  // namespace aster::runtime::cpu
