// float16 and bfloat16: how their codes are read and rounded, in one place. Rounding is to nearest,
// ties to even; overflow gives infinity, NaN a quiet one of the same sign.
#pragma once

#include <bit>
#include <cstdint>

namespace aster::dtype {

inline float decode_bfloat16(uint16_t code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
}
inline uint16_t encode_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(((bits >> 16) & 0x8000) | 0x7fc0);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float decode_float16(uint16_t code) {
  const uint32_t magnitude = code & 0x7fff;
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
  // Without subnormal floats, which a host may have switched off.
  const float value = magnitude < 0x400
                          ? static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f
                          : std::bit_cast<float>((magnitude << 13) +
                                                 (magnitude < 0x7c00 ? 0x38000000u : 0x70000000u));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}
inline uint16_t encode_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const uint32_t sign = bits >> 16 & 0x8000;
  uint32_t code;
  if (magnitude >= 0x7f800000) {
    code = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  } else if (magnitude >= 0x47800000) {  // 2^16
    code = 0x7c00;
  } else if (magnitude < 0x38800000) {  // subnormal: 0.5 ends with the unit that is rounded to
    code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  } else {  // may carry into the exponent, up to infinity
    code = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | code);
}

// With one rounding: by way of the float that is odd where the value lies between two, so that the
// second rounding sees on which side of a tie it is.
inline uint16_t encode_float16(double value) {
  float near = static_cast<float>(value);
  const double back = static_cast<double>(near);
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (back != value && value == value && (bits & 1) == 0) {
    const bool farther = (value < 0 ? -back : back) < (value < 0 ? -value : value);
    near = std::bit_cast<float>(farther ? bits + 1 : bits - 1);
  }
  return encode_float16(near);
}

}  // namespace aster::dtype
