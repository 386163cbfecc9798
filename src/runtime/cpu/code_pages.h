// Machine code of our own, mapped: bytes that the process made itself (render_x86.h).
#pragma once

#include <span>

#include "base/memory.h"
#include "base/status.h"

namespace aster::runtime::cpu {

// Pages that are never writable and executable at once.
class CodePages {
 public:
  // A copy of some code, which is position-independent. Errors: UNSUPPORTED (the system does not
  // let memory become executable), MEMORY.
  static Status map(CodePages** out, std::span<const uint8_t> code, Memory& memory);
  CodePages(void* at, size_t size) : at_(at), size_(size) {}
  ~CodePages();
  CodePages(const CodePages&) = delete;
  CodePages& operator=(const CodePages&) = delete;

  void* at(size_t offset) const { return static_cast<uint8_t*>(at_) + offset; }

 private:
  void* at_;
  size_t size_;
};

}  // namespace aster::runtime::cpu
