// Exact sums: integers of as many limbs as the terms' exponents span, rounded once at the end. The
// order of the terms and who adds them do not matter.
#pragma once

#include "base/memory.h"
#include "flt/formats.h"

namespace aster::flt {

// A finite number as an integer times a power of two: its significand, not normalised.
template <int N>
struct Scaled {
  Limbs<N> m;        // less than 2^precision
  int64_t exponent;  // of the lowest bit
  bool negative;
};
template <int N>
inline Scaled<N> scaled(const Limb* w) {
  using F = Format<N>;
  Scaled<N> x;
  const int64_t biased = biased_exponent<N>(w[N - 1]);
  for (int i = 0; i < N; ++i) x.m[i] = w[i];
  x.m[N - 1] &= F::kImplicit - 1;
  if (biased != 0) x.m[N - 1] |= F::kImplicit;
  x.exponent = (biased == 0 ? 1 : biased) - F::kBias - (F::kPrecision - 1);
  x.negative = (w[N - 1] & F::kSign) != 0;
  return x;
}

// What is known of terms before they are added. Terms are merged in any order.
struct Terms {
  int64_t least = INT64_MAX;     // exponents of lowest bits
  int64_t greatest = INT64_MIN;  // one above those of highest bits
  bool nan = false, positive_infinity = false, negative_infinity = false;
  bool positive_zero = false, negative_zero = false;  // terms that are 0

  void finite(int64_t exponent, int64_t bits) {
    if (exponent < least) least = exponent;
    if (exponent + bits > greatest) greatest = exponent + bits;
  }
  void zero(bool negative) { (negative ? negative_zero : positive_zero) = true; }
  void infinite(bool negative) { (negative ? negative_infinity : positive_infinity) = true; }
  void merge(const Terms& other);
  bool any() const { return least != INT64_MAX; }
};

// Two sums of magnitudes, of the positive and of the negative terms, in limbs of the caller's.
class Accumulator {
 public:
  // How many limbs the sum of count terms takes in all.
  static size_t limbs(const Terms& terms, size_t count);
  // On that many limbs, which are cleared; with what was added to them before.
  Accumulator(Limb* limbs, size_t count, int64_t least);
  static Accumulator on(Limb* limbs, size_t count, int64_t least) {
    return Accumulator(limbs, limbs + count / 2, count / 2, least);
  }

  // m * 2^exponent of M limbs.
  template <int M>
  void add(const Limb* m, int64_t exponent, bool negative) {
    const uint64_t at = static_cast<uint64_t>(exponent - base_);
    Limb* const to = (negative ? below_ : above_) + at / 64;
    const int bits = static_cast<int>(at % 64);
    Limb carry = 0, spilled = 0;
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const Limb part = bits == 0 ? m[i] : m[i] << bits | spilled;
      spilled = bits == 0 ? 0 : m[i] >> (64 - bits);
      const Wide sum = Wide{to[i]} + part + carry;
      to[i] = static_cast<Limb>(sum);
      carry = static_cast<Limb>(sum >> 64);
    }
    carry = __builtin_add_overflow(to[M], spilled + carry, &to[M]) ? 1 : 0;
    for (Limb* next = to + M + 1; carry != 0; ++next) carry = ++*next == 0 ? 1 : 0;
  }
  void merge(const Accumulator& other);

  // The rounded sum; false if it is 0. What was added is used up.
  template <int N>
  bool round(Limb* out, Rounding mode);

 private:
  Accumulator(Limb* above, Limb* below, size_t count, int64_t base)
      : above_(above), below_(below), count_(count), base_(base) {}
  Limb *above_, *below_;
  size_t count_;  // limbs of each
  int64_t base_;  // exponent of the lowest bit
};

// The sum where it does not come from an accumulator: NaN, infinity, zeros alone. False otherwise.
template <int N>
bool special_sum(Limb* out, const Terms& terms, Rounding mode);

}  // namespace aster::flt
