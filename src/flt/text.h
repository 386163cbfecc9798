// Decimal text.
#pragma once

#include <string_view>

#include "base/memory.h"
#include "flt/formats.h"

namespace aster::flt {

// A number as text says it: decimal digits without leading zeros, 0.digits * 10^point.
struct Decimal {
  enum class Is : uint8_t { kNumber, kInfinity, kNan };
  Is is = Is::kNumber;
  bool negative = false;
  std::string_view whole, fraction;  // digits before and behind the point
  int64_t point = 0;                 // of no use if there are no digits but 0
};
// False where text is no number.
bool read_decimal(Decimal* out, std::string_view text);

// Errors: FORMAT, UNSUPPORTED, MEMORY, RANGE (text of more than 4 Mi characters).
template <int N>
Status from_text(Limb* out, std::string_view text, Rounding mode);

constexpr size_t kMostDigits = 10'000;
constexpr size_t kTextBytes = kMostDigits + 40;
// The digits that tell numbers of a format apart, and those that every number of so many has kept.
template <int N>
constexpr size_t kDigits = Format<N>::kPrecision * 30103 / 100000 + 2;
template <int N>
constexpr size_t kKeptDigits = (Format<N>::kPrecision - 1) * 30103 / 100000;

// Rounded to nearest with so many digits, without zeros at the end, into kTextBytes; 0: as few as
// above that say the same number. Returns the length. MPFR is there.
template <int N>
size_t to_text(char* out, const Limb* w, size_t digits);

}  // namespace aster::flt
