// SHA-256 (FIPS 180-4), the name of what is cached. Our own: the libraries that have it bring an
// allocator, an error queue or an engine registry into the host, for eighty lines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace aster::runtime::cpu {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  Sha256& add(const void* data, size_t size);
  // The text and its length, so that ("ab", "c") and ("a", "bc") differ.
  Sha256& add_text(std::string_view text);
  Digest finish();  // the object is spent afterwards

 private:
  uint32_t state_[8];
  uint64_t length_ = 0;
  uint8_t pending_[64];
};

// Lower-case hexadecimal digits, not terminated.
void write_hex(const uint8_t* bytes, size_t count, char* out);

}  // namespace aster::runtime::cpu
