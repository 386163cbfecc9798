// UTF-8, the encoding of every text of the interface.
#pragma once

#include <string_view>

namespace aster {

// Whether text is UTF-8 without zero bytes.
bool is_utf8(std::string_view text);

}  // namespace aster
