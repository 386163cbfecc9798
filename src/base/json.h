// As much JSON as the headers of files need: a reader that pulls one value after the other, without
// recursion, and text as a string literal.
#pragma once

#include <string_view>

#include "base/text.h"

namespace aster {

// Every failure is FORMAT with the byte it stands at (or MEMORY).
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // '{' or '['.
  Status open(char bracket);
  // Before each member of what was opened: *more is false when the closing bracket was read.
  Status next(bool* more, char closing);
  // A string, decoded to UTF-8 without zero bytes.
  Status string(Text* out);
  // A string and the colon.
  Status key(Text* out);
  // A number of digits only.
  Status integer(uint64_t* out);
  // Any value, nested at most kDepth deep.
  Status skip();
  // Nothing but white space is left.
  Status end();

  Status fail(const char* what) const;
  // Where it is, in bytes.
  size_t at() const { return at_; }
  static constexpr int kDepth = 64;

 private:
  void skip_space();
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c);
  Status escape(Text* out);
  Status hex(uint32_t* out);
  Status word();  // a number, true, false or null, skipped
  std::string_view text_;
  size_t at_ = 0;
  bool first_ = false;  // no member was read since the last bracket was opened
};

// text in quotes, escaped.
void write_json_string(Text& out, std::string_view text);

}  // namespace aster
