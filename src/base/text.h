// Text built into memory that can fail, without iostreams.
#pragma once

#include <string_view>

#include "base/memory.h"

namespace aster {

// As std::string_view::substr, which throws: a start past the end gives an empty view.
constexpr std::string_view text_slice(std::string_view text, size_t from,
                                      size_t count = std::string_view::npos) {
  text.remove_prefix(from < text.size() ? from : text.size());
  return {text.data(), count < text.size() ? count : text.size()};
}

// The number that text is as a whole, as C and Python write it ("0.25", "-1e-5", "inf", "nan"), in
// any locale; false if it is none or of more than 63 characters.
[[nodiscard]] bool parse_double(double* out, std::string_view text);

// Growing text, sticky: after a failed allocation it takes no more and status() says so.
class Text {
 public:
  explicit Text(Memory& memory) : chars_(memory) {}
  Text& operator<<(std::string_view text) {
    if (status_.ok()) status_ = chars_.append(text.data(), text.size());
    return *this;
  }
  Text& operator<<(char c) { return *this << std::string_view(&c, 1); }
  Text& operator<<(int64_t value);
  Text& operator<<(int32_t value) { return *this << static_cast<int64_t>(value); }
  Text& operator<<(uint64_t value);
  Text& operator<<(uint32_t value) { return *this << static_cast<uint64_t>(value); }
  [[gnu::format(printf, 2, 3)]] Text& format(const char* format, ...);
  std::string_view view() const { return {chars_.data(), chars_.size()}; }
  // Zero-terminated, valid until the next change; null after a failure.
  const char* c_str();
  void clear() { chars_.clear(); }
  void truncate(size_t size) { chars_.truncate(size); }
  Status status() const { return status_; }
  Memory& memory() const { return chars_.memory(); }

 private:
  Vec<char> chars_;
  Status status_;
};

// A text for a caller: into out, which holds room for capacity bytes or is null, with a zero behind
// it; its length without that. Errors: ARGUMENT (length is null), RANGE (it does not fit).
Status give_text(char* out, size_t* length, size_t capacity, std::string_view text);
// What both are where that fails, or nothing came so far.
inline void clear_text(char* out, size_t* length, size_t capacity) {
  if (length != nullptr) *length = 0;
  if (out != nullptr && capacity != 0) out[0] = 0;
}

}  // namespace aster
