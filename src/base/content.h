// A digest of many bytes, as fast as they are read.
#pragma once

#include <cstdint>
#include <span>

namespace aster {

struct Content {
  uint64_t low, high;
  bool operator==(const Content&) const = default;
};

// Of 128 bits: bytes that differ have another one, but for chance (no guard against who chooses
// them).
Content content_of(std::span<const uint8_t> bytes);

}  // namespace aster
