// What environment variables choose: seeds and numbers of cases.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace aster::fuzz {

inline uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace aster::fuzz
