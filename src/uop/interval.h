// Closed intervals of int64 and the rounding divisions, without overflow.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace aster::uop {

// One end at its extreme stands for "may be anything, may have wrapped".
struct Interval {
  int64_t lo, hi;
};
constexpr Interval kUnknown{INT64_MIN, INT64_MAX};
constexpr bool known(Interval x) { return x.lo != INT64_MIN && x.hi != INT64_MAX; }

// Rounded down; b > 0, or b < 0 and a > INT64_MIN.
constexpr int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}
constexpr int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

// Unknown if an end overflows.
constexpr Interval sum(Interval a, Interval b) {
  Interval out{};
  return checked_add(a.lo, b.lo, &out.lo) && checked_add(a.hi, b.hi, &out.hi) ? out : kUnknown;
}
constexpr Interval scaled(Interval a, int64_t k) {
  Interval out{};
  const bool ok = checked_mul(a.lo, k, &out.lo) && checked_mul(a.hi, k, &out.hi);
  if (!ok) return kUnknown;
  return k < 0 ? Interval{out.hi, out.lo} : out;
}

}  // namespace aster::uop
