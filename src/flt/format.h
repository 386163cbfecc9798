// flt256 and flt512: how they are packed, unpacked and rounded. Both are IEEE binary interchange
// formats, little-endian limbs, sign, exponent and the top of the fraction in the last one.
#pragma once

#include <bit>
#include <cstring>

#include "aster_ml/flt.h"
#include "flt/limbs.h"

namespace aster::flt {

enum class Rounding : int32_t {
  kNearest = ASTER_ML_FLT_NEAREST,
  kZero = ASTER_ML_FLT_TO_ZERO,
  kUp = ASTER_ML_FLT_UP,
  kDown = ASTER_ML_FLT_DOWN
};

constexpr int kLongest = 8;

// Of the format with N limbs, whose exponent has 4 log2(bits) - 13 bits as IEEE 754 says.
template <int N>
struct Format {
  static_assert(N >= 2 && N <= kLongest && std::has_single_bit(static_cast<unsigned>(N)));
  static constexpr int kExponentBits = 4 * std::countr_zero(static_cast<unsigned>(64 * N)) - 13;
  static constexpr int kPrecision = 64 * N - kExponentBits;  // with the implicit bit: 237, 489
  static constexpr int kTop = 63 - kExponentBits;  // bits of the fraction in the last limb
  static constexpr int64_t kBias = (int64_t{1} << (kExponentBits - 1)) - 1;
  static constexpr int64_t kMax = kBias;  // exponents of the leading bit of normal numbers
  static constexpr int64_t kMin = 1 - kBias;
  static constexpr int64_t kSpecial = (int64_t{1} << kExponentBits) - 1;  // of infinity and NaN
  static constexpr Limb kImplicit = Limb{1} << kTop;
  static constexpr Limb kSign = Limb{1} << 63;
  // Bits below the last of the significand when its leading bit is the highest of N limbs.
  static constexpr int kSpare = kExponentBits;
};

enum class Kind : uint8_t { kZero, kFinite, kInfinite, kNan };

// m * 2^(exponent - 64 N + 1) with the highest bit of m set if finite; of a NaN m is the fraction
// as stored.
template <int N>
struct Number {
  Limbs<N> m;
  int64_t exponent;
  Kind kind;
  bool negative;
};

template <int N>
inline int64_t biased_exponent(Limb top) {
  return static_cast<int64_t>(top >> Format<N>::kTop) & Format<N>::kSpecial;
}

template <int N>
inline Number<N> unpack(const Limb* w) {
  using F = Format<N>;
  Number<N> x;
  const Limb top = w[N - 1];
  const int64_t biased = biased_exponent<N>(top);
  x.negative = (top & F::kSign) != 0;
  x.kind = Kind::kFinite;
  Limbs<N> fraction;
  for (int i = 0; i < N; ++i) fraction[i] = w[i];
  fraction[N - 1] &= F::kImplicit - 1;
  if (biased == F::kSpecial) {
    for (int i = 0; i < N; ++i) x.m[i] = fraction[i];
    x.kind = is_zero<N>(fraction) ? Kind::kInfinite : Kind::kNan;
    x.exponent = 0;
    return x;
  }
  x.exponent = biased - F::kBias;
  if (biased != 0) {
    fraction[N - 1] |= F::kImplicit;
    shift_up_bits<N>(x.m, fraction, F::kSpare);
    return x;
  }
  shift_up_bits<N>(x.m, fraction, F::kSpare);
  const int zeros = leading_zeros<N>(x.m);
  if (zeros == 64 * N) {
    x.kind = Kind::kZero;
    x.exponent = 0;
  } else {
    shift_up<N>(x.m, x.m, zeros);
    x.exponent = F::kMin - zeros;
  }
  return x;
}

template <int N>
inline void pack_zero(Limb* out, bool negative) {
  for (int i = 0; i < N; ++i) out[i] = 0;
  if (negative) out[N - 1] = Format<N>::kSign;
}
template <int N>
inline void pack_infinity(Limb* out, bool negative) {
  pack_zero<N>(out, negative);
  out[N - 1] |= static_cast<Limb>(Format<N>::kSpecial) << Format<N>::kTop;
}
// The one that operations make: positive, the highest bit of the fraction.
template <int N>
inline void pack_nan(Limb* out) {
  pack_infinity<N>(out, false);
  out[N - 1] |= Format<N>::kImplicit >> 1;
}
// An operand that is NaN, made quiet.
template <int N>
inline void pack_same_nan(Limb* out, const Limb* operand) {
  for (int i = 0; i < N; ++i) out[i] = operand[i];
  out[N - 1] |= Format<N>::kImplicit >> 1;
}

// Whether the size grows by a unit, of what ends with an odd bit or not, half a unit and more. No
// branches on bits, which nobody foresees.
inline bool goes_up(Rounding mode, bool negative, bool odd, bool half, bool below) {
  if (mode == Rounding::kNearest) return half & (below | odd);
  const bool away = mode == (negative ? Rounding::kDown : Rounding::kUp);
  return away & (half | below);
}

template <int N>
void pack_overflow(Limb* out, bool negative, Rounding mode) {
  pack_infinity<N>(out, negative);
  if (mode == Rounding::kNearest || mode == (negative ? Rounding::kDown : Rounding::kUp)) return;
  // The greatest number is just below.
  for (int i = 0; i < N - 1; ++i) out[i] = ~Limb{0};
  out[N - 1] -= 1;
}

// The number m * 2^(exponent - 64 N + 1), and a little more in size if more: rounded once. The
// highest bit of m is set.
template <int N>
inline void round_pack(Limb* out, bool negative, int64_t exponent, const Limb* m, bool more,
                       Rounding mode) {
  using F = Format<N>;
  Limbs<N> kept;
  bool half;
  Limb biased = 0;
  if (exponent >= F::kMin) [[likely]] {
    if (exponent > F::kMax) return pack_overflow<N>(out, negative, mode);
    half = (m[0] >> (F::kSpare - 1) & 1) != 0;
    more |= (m[0] & ((Limb{1} << (F::kSpare - 1)) - 1)) != 0;
    for (int i = 0; i < N - 1; ++i) kept[i] = m[i] >> F::kSpare | m[i + 1] << (64 - F::kSpare);
    kept[N - 1] = m[N - 1] >> F::kSpare;
    // The implicit bit adds one.
    biased = static_cast<Limb>(exponent + F::kBias - 1) << F::kTop;
  } else {
    const int64_t drop = F::kSpare + (F::kMin - exponent);
    more |= shift_down<N>(kept, m, drop - 1);
    half = (kept[0] & 1) != 0;
    shift_down<N>(kept, kept, 1);
  }
  kept[N - 1] += biased;
  // A carry moves on into the exponent, up to infinity.
  increment<N>(kept, goes_up(mode, negative, (kept[0] & 1) != 0, half, more));
  for (int i = 0; i < N; ++i) out[i] = kept[i];
  if (negative) out[N - 1] |= F::kSign;
}

template <int N>
inline void load(Limb* out, const void* at) {
  std::memcpy(out, at, N * sizeof(Limb));
}
template <int N>
inline void store(void* at, const Limb* w) {
  std::memcpy(at, w, N * sizeof(Limb));
}

}  // namespace aster::flt
