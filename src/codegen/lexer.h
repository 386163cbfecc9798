// Tokens of the texts of programs and plans.
#pragma once

#include <algorithm>

#include "base/status.h"
#include "base/text.h"

namespace aster::codegen {

enum class TokenKind : uint8_t { kEnd, kBreak, kName, kNumber, kValue, kSign };
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  int line = 1;
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : rest_(text) {}

  Token next() {
    skip();
    if (rest_.empty()) return {TokenKind::kEnd, "the end", line_};
    const char c = rest_[0];
    if (c == '\n' || c == ';') {
      const Token out{TokenKind::kBreak, c == ';' ? ";" : "the end of the line", line_};
      line_ += c == '\n' ? 1 : 0;
      rest_.remove_prefix(1);
      return out;
    }
    if (is_letter(c)) {
      return take(TokenKind::kName,
                  length([](char x, char) { return is_letter(x) || is_digit(x) || x == ':'; }));
    }
    if (is_digit(c) || c == '.') {
      return take(TokenKind::kNumber, length([](char x, char last) {
                    const bool sign = (x == '+' || x == '-') && (last == 'e' || last == 'E');
                    return is_letter(x) || is_digit(x) || x == '.' || sign;
                  }));
    }
    if (c == '%') {
      const size_t size = length([](char x, char) { return is_digit(x); });
      return take(size > 1 ? TokenKind::kValue : TokenKind::kSign, size);
    }
    return take(TokenKind::kSign, rest_.starts_with("->") ? 2 : 1);
  }

 private:
  void skip() {
    while (!rest_.empty()) {
      const char c = rest_[0];
      if (c == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (c == ' ' || c == '\t' || c == '\r') {
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }
  template <typename Goes>
  size_t length(Goes goes) const {
    size_t size = 1;
    while (size < rest_.size() && goes(rest_[size], rest_[size - 1])) ++size;
    return size;
  }
  Token take(TokenKind kind, size_t size) {
    const Token out{kind, text_slice(rest_, 0, size), line_};
    rest_.remove_prefix(size);
    return out;
  }
  std::string_view rest_;
  int line_ = 1;
};

// What readers of such texts share: the token that is looked at.
class TokenReader {
 protected:
  explicit TokenReader(std::string_view text) : lexer_(text) {}

  Status expected(const char* what) const {
    return ASTER_FAIL(kFORMAT, "line %d: %s expected, not \"%.*s\"", token_.line, what,
                      static_cast<int>(std::min<size_t>(token_.text.size(), 40)),
                      token_.text.data());
  }
  void move() { token_ = lexer_.next(); }
  // A word, a sign or the ";" between lines.
  bool at(std::string_view text) const {
    const bool word = token_.kind == TokenKind::kName || token_.kind == TokenKind::kSign ||
                      token_.kind == TokenKind::kBreak;
    return word && token_.text == text;
  }
  bool accept(std::string_view text) {
    const bool met = at(text);
    if (met) move();
    return met;
  }

  Token token_;

 private:
  Lexer lexer_;
};

}  // namespace aster::codegen
