// A JSON object built member by member, in order.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace cli {

class Json {
 public:
  static std::string quote(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (byte < 0x20) {
        out += "\\u00";
        out += kHex[byte >> 4];
        out += kHex[byte & 15];
      } else {
        out += c;
      }
    }
    return out + '"';
  }

  Json& set(std::string_view name, std::string_view text) { return raw(name, quote(text)); }
  Json& set(std::string_view name, const char* text) { return set(name, std::string_view(text)); }
  Json& set(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  Json& set(std::string_view name, double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.10g", value);
    return raw(name, std::isfinite(value) ? text : "null");
  }
  template <typename T>
  requires std::is_integral_v<T> Json& set(std::string_view name, T value) {
    return raw(name, std::to_string(value));
  }
  // Text of a JSON value.
  Json& raw(std::string_view name, std::string_view value) {
    members_ += members_.empty() ? "" : ", ";
    members_ += quote(name) + ": " + std::string(value);
    return *this;
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace cli
