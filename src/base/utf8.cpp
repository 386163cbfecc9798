#include "base/utf8.h"

#include <cstdint>

namespace aster {

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
    };
    const uint32_t first = byte(i);
    if (first == 0) return false;
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    uint32_t point = first & (0x7Fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0u) != 0x80) return false;
      point = point << 6 | (byte(i + k) & 0x3Fu);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    if (first < 0xC0 || first > 0xF7 || point < kLeast[length] || point > 0x10FFFF || surrogate) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace aster
