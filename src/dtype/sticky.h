// Sticky integers (twisted balanced binary): the least pattern of a width is no number but ERR, an
// error that every operation hands on. A result is computed exactly and then checked once.
#pragma once

#include "dtype/dtype.h"

namespace aster::dtype {

__extension__ typedef __int128 Exact;

constexpr int64_t sticky_most(DType d) { return INT64_MAX >> (64 - bits(d)); }
constexpr int64_t sticky_error(DType d) { return -sticky_most(d) - 1; }

// An exact result as a value of d.
constexpr int64_t sticky_checked(DType d, Exact exact) {
  const Exact most = sticky_most(d);
  return exact > most || exact < -most ? sticky_error(d) : static_cast<int64_t>(exact);
}

// A sum of any number of values or products, exact until it is checked once. In two parts: 128 bits
// would not hold many products of 64 bits.
struct StickySum {
  Exact low = 0, high = 0;  // low + high * 2^64
  bool error = false;

  constexpr void add(Exact value) {
    low += static_cast<uint64_t>(value);
    high += value >> 64;
  }
  constexpr StickySum& operator+=(const StickySum& other) {
    low += other.low;
    high += other.high;
    error |= other.error;
    return *this;
  }
  constexpr int64_t checked(DType d) const {
    const Exact above = high + (low >> 64);
    const Exact below = static_cast<uint64_t>(low);
    const bool near = above == 0 || above == -1;
    return error || !near ? sticky_error(d) : sticky_checked(d, above * (Exact{1} << 64) + below);
  }
};

// A float compared with the bounds of d before it is truncated toward zero; NaN is ERR.
constexpr int64_t sticky_from_double(DType d, double value) {
  // INT64_MAX is no double: the next one below 2^63 is the greatest that fits.
  const double most = bits(d) == 64 ? 0x1.fffffffffffffp62 : static_cast<double>(sticky_most(d));
  return value >= -most && value <= most ? static_cast<int64_t>(value) : sticky_error(d);
}

// A value of one sticky dtype in another.
constexpr int64_t sticky_resized(DType to, DType from, int64_t value) {
  return value == sticky_error(from) ? sticky_error(to) : sticky_checked(to, value);
}

}  // namespace aster::dtype
