#include "base/text.h"

#include <charconv>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace aster {
namespace {

template <typename T>
void put_number(Text& text, T value) {
  char digits[24];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  text << std::string_view(digits, static_cast<size_t>(end.ptr - digits));
}

}  // namespace

// std::from_chars of a double is all for which the library would need the C++ library at run time.
bool parse_double(double* out, std::string_view text) {
  char line[64];
  if (text.empty() || text.size() >= sizeof(line)) return false;
  if (text.find_first_not_of("+-.0123456789einfaEINFA") != std::string_view::npos) return false;
  std::memcpy(line, text.data(), text.size());
  line[text.size()] = '\0';
  char* end = nullptr;
  const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);  // glibc's own object
  if (plain == nullptr) return false;
  *out = strtod_l(line, &end, plain);
  freelocale(plain);
  return end == line + text.size();
}

Text& Text::operator<<(int64_t value) {
  put_number(*this, value);
  return *this;
}

Text& Text::operator<<(uint64_t value) {
  put_number(*this, value);
  return *this;
}

Text& Text::format(const char* format, ...) {
  if (!status_.ok()) return *this;
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  char brief[256];
  const int length = std::vsnprintf(brief, sizeof(brief), format, arguments);
  va_end(arguments);
  if (length < 0) {
    status_ = ASTER_FAIL(kINTERNAL, "text that cannot be formatted");
  } else if (static_cast<size_t>(length) < sizeof(brief)) {
    *this << std::string_view(brief, static_cast<size_t>(length));
  } else {
    const size_t old = chars_.size();
    status_ = chars_.resize(old + static_cast<size_t>(length) + 1);
    if (status_.ok()) {
      std::vsnprintf(chars_.data() + old, static_cast<size_t>(length) + 1, format, again);
      chars_.pop();
    }
  }
  va_end(again);
  return *this;
}

const char* Text::c_str() {
  if (status_.ok()) status_ = chars_.push('\0');
  if (!status_.ok()) return nullptr;
  chars_.pop();
  return chars_.data();
}

Status give_text(char* out, size_t* length, size_t capacity, std::string_view text) {
  if (length == nullptr) return ASTER_FAIL(kARGUMENT, "length is null");
  if (out != nullptr) {
    if (capacity <= text.size())
      return ASTER_FAIL(kRANGE, "%zu bytes do not fit in %zu", text.size() + 1, capacity);
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = 0;
  }
  *length = text.size();
  return kOk;
}

}  // namespace aster
