#include "flt/accumulator.h"

#include "flt/arithmetic.h"

namespace aster::flt {

void Terms::merge(const Terms& other) {
  if (other.least < least) least = other.least;
  if (other.greatest > greatest) greatest = other.greatest;
  nan |= other.nan;
  positive_infinity |= other.positive_infinity;
  negative_infinity |= other.negative_infinity;
  positive_zero |= other.positive_zero;
  negative_zero |= other.negative_zero;
}

size_t Accumulator::limbs(const Terms& terms, size_t count) {
  // Carries of count terms, and the limb that the last part of a shifted term begins in.
  const int64_t bits = terms.greatest - terms.least + static_cast<int64_t>(std::bit_width(count));
  return 2 * (static_cast<size_t>(bits) / 64 + 3);
}

Accumulator::Accumulator(Limb* limbs, size_t count, int64_t least)
    : Accumulator(on(limbs, count, least)) {
  for (size_t i = 0; i < count; ++i) limbs[i] = 0;
}

void Accumulator::merge(const Accumulator& other) {
  add_to(above_, other.above_, static_cast<int>(count_));
  add_to(below_, other.below_, static_cast<int>(count_));
}

template <int N>
bool Accumulator::round(Limb* out, Rounding mode) {
  // The greater one less the other.
  size_t top = count_;
  while (top > 0 && above_[top - 1] == below_[top - 1]) --top;
  if (top == 0) return false;
  const bool negative = above_[top - 1] < below_[top - 1];
  Limb* const high = negative ? below_ : above_;
  const Limb* const low = negative ? above_ : below_;
  Limb borrow = 0;
  for (size_t i = 0; i < top; ++i) {
    const Wide difference = Wide{high[i]} - low[i] - borrow;
    high[i] = static_cast<Limb>(difference);
    borrow = static_cast<Limb>(difference >> 64) & 1;
  }
  while (high[top - 1] == 0) --top;
  // Its highest N limbs, and the one below that shifting brings in.
  const int zeros = std::countl_zero(high[top - 1]);
  const auto limb = [&](size_t i) { return i < top ? high[top - 1 - i] : 0; };
  Limbs<N> m;
  for (size_t i = 0; i < N; ++i) {
    m[N - 1 - i] = zeros == 0 ? limb(i) : limb(i) << zeros | limb(i + 1) >> (64 - zeros);
  }
  bool more = zeros != 0 && limb(N) << zeros != 0;
  for (size_t i = N + (zeros != 0 ? 1 : 0); !more && i < top; ++i) more = limb(i) != 0;
  const int64_t exponent = base_ + static_cast<int64_t>(top) * 64 - 1 - zeros;
  round_pack<N>(out, negative, exponent, m, more, mode);
  return true;
}

template <int N>
bool special_sum(Limb* out, const Terms& terms, Rounding mode) {
  if (terms.nan || (terms.positive_infinity && terms.negative_infinity)) {
    pack_nan<N>(out);
  } else if (terms.positive_infinity || terms.negative_infinity) {
    pack_infinity<N>(out, terms.negative_infinity);
  } else if (!terms.any()) {
    const bool both = terms.positive_zero && terms.negative_zero;
    pack_zero<N>(out, both ? zero_is_negative(mode) : terms.negative_zero);
  } else {
    return false;
  }
  return true;
}

#define INSTANTIATE(N, Name)                            \
  template bool Accumulator::round<N>(Limb*, Rounding); \
  template bool special_sum<N>(Limb*, const Terms&, Rounding);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::flt
