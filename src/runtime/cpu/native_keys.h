// Elements as unsigned keys that order as they do: what sorts by radix, and back.
#pragma once

#include <limits>

#include "runtime/cpu/native_types.h"

namespace aster::runtime::cpu::native {

// NaN is largest, -0 equals 0. No branches: signs are random, and loops over this vectorise.
template <typename Bits>
Bits float_key(Bits bits, Bits infinity, Bits sign) {
  using Signed = std::make_signed_t<Bits>;
  const Bits magnitude = bits & (sign - 1);
  const Bits negative = Bits{0} - (bits / sign);  // all ones, or 0
  const Bits nan = Bits{0} - Bits{static_cast<Signed>(magnitude) > static_cast<Signed>(infinity)};
  return (sign + ((magnitude ^ negative) - negative)) | (nan & (sign | (sign - 1)));
}

// The bits of an element of a key; of NaN some NaN, of zeros 0.
template <typename Bits>
Bits float_of_key(Bits key, Bits sign) {
  const Bits negative = Bits{0} - Bits{key < sign};
  return (((key - sign) ^ negative) - negative) | (negative & sign);
}

// An unsigned integer that orders as an element does.
template <DType d>
struct Key {
  static constexpr DType kDType = d;
  using Stored = typename Element<d>::Stored;
  using Bits = std::conditional_t<sizeof(Stored) == 8, uint64_t, uint32_t>;
  static Bits of(Stored x) {
    if constexpr (dtype::is_fp8(d)) {
      const float value = static_cast<float>(dtype::decode(d, x));
      return float_key<uint32_t>(std::bit_cast<uint32_t>(value), 0x7f800000, 0x80000000);
    } else if constexpr (d == DType::kFloat16) {
      return float_key<uint32_t>(x, 0x7c00, 0x8000);
    } else if constexpr (d == DType::kBFloat16) {
      return float_key<uint32_t>(x, 0x7f80, 0x8000);
    } else if constexpr (d == DType::kFloat32) {
      return float_key<uint32_t>(std::bit_cast<uint32_t>(x), 0x7f800000, 0x80000000);
    } else if constexpr (dtype::is_float(d)) {
      return float_key<uint64_t>(std::bit_cast<uint64_t>(x), uint64_t{0x7ff} << 52,
                                 uint64_t{1} << 63);
    } else if constexpr (d == DType::kBool) {
      return x != 0;
    } else if constexpr (std::is_signed_v<Stored>) {
      using Unsigned = std::make_unsigned_t<Stored>;
      constexpr Unsigned kFlip = static_cast<Unsigned>(std::numeric_limits<Stored>::min());
      return static_cast<Unsigned>(static_cast<Unsigned>(x) ^ kFlip);
    } else {
      return x;
    }
  }
  // An element of a key; of no fp8.
  static Stored element(Bits key) {
    if constexpr (d == DType::kFloat16 || d == DType::kBFloat16) {
      return static_cast<Stored>(float_of_key<uint32_t>(key, 0x8000));
    } else if constexpr (dtype::is_float(d)) {
      return std::bit_cast<Stored>(float_of_key(key, Bits{1} << (8 * sizeof(Bits) - 1)));
    } else if constexpr (std::is_signed_v<Stored>) {
      using Unsigned = std::make_unsigned_t<Stored>;
      constexpr Unsigned kFlip = static_cast<Unsigned>(std::numeric_limits<Stored>::min());
      return static_cast<Stored>(static_cast<Unsigned>(key) ^ kFlip);
    } else {
      return static_cast<Stored>(key);
    }
  }
};

}  // namespace aster::runtime::cpu::native
