#include "base/json.h"

#include "base/utf8.h"

namespace aster {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(Text& out, uint32_t point) {
  const auto tail = [&](int shift) {
    out << static_cast<char>(0x80u | ((point >> shift) & 0x3Fu));
  };
  if (point < 0x80) {
    out << static_cast<char>(point);
  } else if (point < 0x800) {
    out << static_cast<char>(0xC0u | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    out << static_cast<char>(0xE0u | point >> 12);
    tail(6);
    tail(0);
  } else {
    out << static_cast<char>(0xF0u | point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

Status JsonReader::fail(const char* what) const {
  return ASTER_FAIL(kFORMAT, "JSON: %s at byte %zu", what, at_);
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool JsonReader::take(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status JsonReader::open(char bracket) {
  skip_space();
  if (!take(bracket)) return fail(bracket == '{' ? "no object" : "no array");
  first_ = true;
  return kOk;
}

Status JsonReader::next(bool* more, char closing) {
  skip_space();
  *more = false;
  if (take(closing)) {
    first_ = false;
    return kOk;
  }
  if (!first_ && !take(',')) return fail("neither a comma nor the end");
  first_ = false;
  *more = true;
  return kOk;
}

Status JsonReader::hex(uint32_t* out) {
  *out = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = peek();
    const char lower = static_cast<char>(c | 0x20);
    if (is_digit(c)) {
      *out = *out << 4 | static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      *out = *out << 4 | static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      return fail("no four hex digits after \\u");
    }
  }
  return kOk;
}

Status JsonReader::escape(Text* out) {
  constexpr std::string_view kShort = "\"\\/bfnrt", kMeans = "\"\\/\b\f\n\r\t";
  const char c = peek();
  ++at_;
  if (c != 'u') {
    const size_t which = c == '\0' ? std::string_view::npos : kShort.find(c);
    if (which == std::string_view::npos) return fail("an unknown escape");
    *out << kMeans[which];
    return kOk;
  }
  uint32_t point, low;
  ASTER_TRY(hex(&point));
  if (point >= 0xD800 && point < 0xDC00) {
    if (!take('\\') || !take('u')) return fail("half a surrogate pair");
    ASTER_TRY(hex(&low));
    if (low < 0xDC00 || low > 0xDFFF) return fail("half a surrogate pair");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  } else if (point >= 0xDC00 && point <= 0xDFFF) {
    return fail("half a surrogate pair");
  }
  if (point == 0) return fail("a zero character");
  append_utf8(*out, point);
  return kOk;
}

Status JsonReader::string(Text* out) {
  skip_space();
  out->clear();
  if (!take('"')) return fail("no string");
  const size_t begin = at_;
  while (peek() != '"') {
    const size_t plain = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return fail("a control character");
      ++at_;
    }
    *out << text_slice(text_, plain, at_ - plain);
    if (at_ >= text_.size()) return fail("an unfinished string");
    if (take('\\')) ASTER_TRY(escape(out));
  }
  if (!is_utf8(text_slice(text_, begin, at_ - begin))) return fail("a string that is not UTF-8");
  ++at_;
  return out->status();
}

Status JsonReader::key(Text* out) {
  ASTER_TRY(string(out));
  skip_space();
  return take(':') ? kOk : fail("no colon");
}

Status JsonReader::integer(uint64_t* out) {
  skip_space();
  const size_t begin = at_;
  *out = 0;
  for (; is_digit(peek()); ++at_) {
    if (!checked_mul(*out, uint64_t{10}, out) ||
        !checked_add(*out, static_cast<uint64_t>(peek() - '0'), out)) {
      return fail("a number beyond 64 bits");
    }
  }
  const bool zero_first = at_ > begin + 1 && text_[begin] == '0';
  const char c = peek();
  if (at_ == begin || zero_first || c == '.' || c == 'e' || c == 'E') {
    return fail("no natural number");
  }
  return kOk;
}

Status JsonReader::word() {
  for (const std::string_view known : {"true", "false", "null"}) {
    if (text_slice(text_, at_, known.size()) != known) continue;
    at_ += known.size();
    return kOk;
  }
  (void)take('-');
  const size_t begin = at_;
  const auto digits = [&] {
    const size_t from = at_;
    while (is_digit(peek())) ++at_;
    return at_ > from;
  };
  if (!digits() || (at_ > begin + 1 && text_[begin] == '0')) return fail("no value");
  if (take('.') && !digits()) return fail("no digits after the point");
  if (take('e') || take('E')) {
    if (!take('-')) (void)take('+');
    if (!digits()) return fail("no exponent");
  }
  return kOk;
}

Status JsonReader::skip() {
  char closing[kDepth];
  int depth = 0;
  Text ignored(process_heap());
  do {
    skip_space();
    const char c = peek();
    if (c == '{' || c == '[') {
      if (depth == kDepth) return fail("brackets nested too deep");
      ASTER_TRY(open(c));
      closing[depth++] = c == '{' ? '}' : ']';
    } else if (c == '"') {
      ASTER_TRY(string(&ignored));
    } else {
      ASTER_TRY(word());
    }
    bool more = false;
    while (depth > 0 && !more) {
      ASTER_TRY(next(&more, closing[depth - 1]));
      if (!more) --depth;
    }
    if (more && closing[depth - 1] == '}') ASTER_TRY(key(&ignored));
  } while (depth > 0);
  return kOk;
}

Status JsonReader::end() {
  skip_space();
  return at_ == text_.size() ? kOk : fail("something after the end");
}

void write_json_string(Text& out, std::string_view text) {
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out.format("\\u%04x", static_cast<unsigned>(c));
    } else {
      out << c;
    }
  }
  out << '"';
}

}  // namespace aster
