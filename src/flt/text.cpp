#include "flt/text.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "flt/mpfr.h"

namespace aster::flt {
namespace {

constexpr size_t kMostText = size_t{1} << 22;
// Numbers of so many digits before the point, or zeros behind it, are out of every range.
constexpr int64_t kFar = 1'300'000;
constexpr size_t kOnStack = 512;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the digits at the beginning of text.
std::string_view take_digits(std::string_view* text) {
  size_t count = 0;
  while (count < text->size() && is_digit((*text)[count])) ++count;
  const std::string_view digits = text_slice(*text, 0, count);
  *text = text_slice(*text, count);
  return digits;
}

bool is_word(std::string_view text, std::string_view word) {
  return text.size() == word.size() &&
         std::equal(text.begin(), text.end(), word.begin(), [](char c, char lower) {
           return c == lower || (c >= 'A' && c <= 'Z' && c - 'A' + 'a' == lower);
         });
}

// An exponent with its sign; what is absurd stays far from every range.
bool read_exponent(int64_t* out, std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const std::string_view digits = take_digits(&text);
  if (digits.empty() || !text.empty()) return false;
  constexpr int64_t kAbsurd = int64_t{1} << 50;
  int64_t size = 0;
  for (const char c : digits) size = std::min(size * 10 + (c - '0'), kAbsurd);
  *out = negative ? -size : size;
  return true;
}

void strip_zeros(std::string_view* digits) {
  while (!digits->empty() && digits->front() == '0') digits->remove_prefix(1);
}

// MPFR's reading of digits that are no 0, with an exponent that is not absurd.
template <int N>
void read_digits(Limb* out, char* copy, const Decimal& d, Rounding mode) {
  char* end = copy;
  if (d.negative) *end++ = '-';
  end = std::copy(d.whole.begin(), d.whole.end(), end);
  end = std::copy(d.fraction.begin(), d.fraction.end(), end);
  *end++ = 'e';
  const auto count = static_cast<int64_t>(d.whole.size() + d.fraction.size());
  end = std::to_chars(end, end + 24, d.point - count).ptr;
  *end = '\0';
  const MpfrRange range = MpfrRange::of<N>();
  MpfrNumber<N> number;
  const int inexact = mpfr().strtofr(&number.value, copy, nullptr, 10, static_cast<int>(mode));
  number.pack(out, inexact, mode);
}

char* put(char* to, std::string_view text) { return std::copy(text.begin(), text.end(), to); }
char* put_zeros(char* to, int64_t count) {
  for (; count > 0; --count) *to++ = '0';
  return to;
}

// 0.digits * 10^point as people write it.
char* put_number(char* to, std::string_view digits, int64_t point) {
  const auto count = static_cast<int64_t>(digits.size());
  constexpr int64_t kMostZeros = 5, kMostWhole = 21;
  if (point > kMostWhole || point <= -kMostZeros) {
    to = put(to, text_slice(digits, 0, 1));
    if (count > 1) to = put(put(to, "."), text_slice(digits, 1));
    to = put(to, point > 0 ? "e+" : "e");
    return std::to_chars(to, to + 24, point - 1).ptr;
  }
  if (point <= 0) return put(put_zeros(put(to, "0."), -point), digits);
  if (point >= count) return put_zeros(put(to, digits), point - count);
  const auto whole = static_cast<size_t>(point);
  return put(put(put(to, text_slice(digits, 0, whole)), "."), text_slice(digits, whole));
}

}  // namespace

bool read_decimal(Decimal* out, std::string_view text) {
  *out = {};
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    out->negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (is_word(text, "inf") || is_word(text, "infinity")) out->is = Decimal::Is::kInfinity;
  if (is_word(text, "nan")) out->is = Decimal::Is::kNan;
  if (out->is != Decimal::Is::kNumber) return true;
  out->whole = take_digits(&text);
  bool any = !out->whole.empty();
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    out->fraction = take_digits(&text);
    any |= !out->fraction.empty();
  }
  int64_t exponent = 0;
  if (!any) return false;
  if (!text.empty()) {
    if (text[0] != 'e' && text[0] != 'E') return false;
    if (!read_exponent(&exponent, text_slice(text, 1))) return false;
  }
  strip_zeros(&out->whole);
  out->point = static_cast<int64_t>(out->whole.size());
  if (out->whole.empty()) {
    const size_t before = out->fraction.size();
    strip_zeros(&out->fraction);
    out->point = -static_cast<int64_t>(before - out->fraction.size());
  }
  out->point += exponent;
  return true;
}

template <int N>
Status from_text(Limb* out, std::string_view text, Rounding mode) {
  if (text.size() > kMostText) return ASTER_FAIL(kRANGE, "text of %zu characters", text.size());
  Decimal d;
  if (!read_decimal(&d, text)) {
    return ASTER_FAIL(kFORMAT, "\"%.*s\" is no number",
                      static_cast<int>(std::min<size_t>(text.size(), 80)), text.data());
  }
  if (d.is == Decimal::Is::kNan) {
    pack_nan<N>(out);
    return kOk;
  }
  if (d.is == Decimal::Is::kInfinity) {
    pack_infinity<N>(out, d.negative);
    return kOk;
  }
  if (d.whole.empty() && d.fraction.empty()) {
    pack_zero<N>(out, d.negative);
    return kOk;
  }
  if (d.point > kFar || d.point < -kFar) {
    // More than the greatest number, or less than half the least one.
    Limbs<N> m = {};
    m[N - 1] = Limb{1} << 63;
    round_pack<N>(out, d.negative, d.point > 0 ? 8 * kFar : -8 * kFar, m, true, mode);
    return kOk;
  }
  ASTER_TRY(mpfr_ready());
  const size_t bytes = d.whole.size() + d.fraction.size() + 32;
  char stack[kOnStack];
  char* const copy =
      bytes <= kOnStack ? stack : static_cast<char*>(process_heap().allocate(bytes, 1));
  if (copy == nullptr) return out_of_memory(bytes);
  read_digits<N>(out, copy, d, mode);
  if (copy != stack) process_heap().release(copy, bytes, 1);
  return kOk;
}

namespace {

// Of a finite number that is not 0.
template <int N>
size_t write_digits(char* out, const Number<N>& x, size_t digits) {
  char text[kTextBytes];
  long point = 0;
  {
    const MpfrRange range = MpfrRange::of<N>();
    const MpfrNumber<N> number(x);
    mpfr().get_str(text, &point, 10, digits, &number.value, 0);
  }
  std::string_view shown = text;
  if (x.negative) {
    *out = '-';
    shown.remove_prefix(1);
  }
  while (shown.size() > 1 && shown.back() == '0') shown.remove_suffix(1);
  return static_cast<size_t>(put_number(out + (x.negative ? 1 : 0), shown, point) - out);
}

}  // namespace

template <int N>
size_t to_text(char* out, const Limb* w, size_t digits) {
  const Number<N> x = unpack<N>(w);
  const char* const sign = x.negative ? "-" : "";
  const auto word = [&](std::string_view text) {
    return static_cast<size_t>(put(put(out, sign), text) - out);
  };
  switch (x.kind) {
    case Kind::kNan:
      return static_cast<size_t>(put(out, "nan") - out);
    case Kind::kInfinite:
      return word("inf");
    case Kind::kZero:
      return word("0");
    case Kind::kFinite:
      break;
  }
  if (digits != 0) return write_digits<N>(out, x, digits);
  const size_t length = write_digits<N>(out, x, kKeptDigits<N>);
  Limbs<N> same;
  if (from_text<N>(same, {out, length}, Rounding::kNearest).ok() && compare<N>(same, w) == 0) {
    return length;
  }
  return write_digits<N>(out, x, kDigits<N>);
}

#define INSTANTIATE(N, Name)                                       \
  template Status from_text<N>(Limb*, std::string_view, Rounding); \
  template size_t to_text<N>(char*, const Limb*, size_t);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::flt
