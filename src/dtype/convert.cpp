#include "dtype/convert.h"

#include <bit>
#include <cmath>
#include <limits>

#include "dtype/elements.h"
#include "dtype/float16.h"
#include "dtype/sticky.h"

namespace aster::dtype {
namespace {

// How a float of 8 bits is laid out, sign bit first.
struct Format {
  int mantissa;  // bits
  int bias;
  uint32_t sign;      // the sign bit
  uint32_t largest;   // code of the largest number
  uint32_t overflow;  // what finite overflow becomes
  uint32_t infinity;  // what infinity becomes; above largest unless there is none
  uint32_t nan;
  bool signless_special;  // NaN is one code, -0 does not exist
};

constexpr Format kE4M3Format = {3, 7, 0x80, 0x7E, 0x7E, 0x7F, 0x7F, false};
constexpr Format kE5M2Format = {2, 15, 0x80, 0x7B, 0x7B, 0x7C, 0x7F, false};
constexpr Format kE4M3FnuzFormat = {3, 8, 0x80, 0x7F, 0x7F, 0x80, 0x80, true};
constexpr Format kE5M2FnuzFormat = {2, 16, 0x80, 0x7F, 0x7F, 0x80, 0x80, true};

const Format& format_of(DType d) {
  switch (d) {
    case DType::kFp8E4M3:
      return kE4M3Format;
    case DType::kFp8E5M2:
      return kE5M2Format;
    case DType::kFp8E4M3Fnuz:
      return kE4M3FnuzFormat;
    default:
      return kE5M2FnuzFormat;
  }
}

constexpr int kDoubleMantissa = 52;
constexpr int kDoubleBias = 1023;

// The code of a finite |value|, as if exponents had no end.
uint64_t round_magnitude(const Format& format, uint64_t magnitude) {
  if (magnitude == 0) return 0;
  const int exponent = static_cast<int>(magnitude >> kDoubleMantissa) - kDoubleBias + format.bias;
  // Numbers below the least exponent keep its spacing: their leading bits are zero.
  const int dropped = kDoubleMantissa - format.mantissa + (exponent < 1 ? 1 - exponent : 0);
  if (dropped > kDoubleMantissa + 1) return 0;  // below half of the least number
  const uint64_t implicit = uint64_t{1} << kDoubleMantissa;
  const uint64_t significand = (magnitude & (implicit - 1)) | implicit;
  uint64_t kept = significand >> dropped;
  const uint64_t rest = significand & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // kept has the implicit bit when normal, and a carry moves on into the exponent.
  return exponent < 1 ? kept : (static_cast<uint64_t>(exponent - 1) << format.mantissa) + kept;
}

uint32_t load_code(DType d, const void* at) {
  return size(d) == 1 ? uint32_t{load<uint8_t>(at)} : uint32_t{load<uint16_t>(at)};
}
void store_code(DType d, void* at, uint32_t code) {
  if (size(d) == 1) {
    store(at, static_cast<uint8_t>(code));
  } else {
    store(at, static_cast<uint16_t>(code));
  }
}

size_t stored_size(DType d) { return is_weak(d) ? 8 : size(d); }

int64_t load_sticky(DType d, const void* at) { return load_int(stored_as(d), at); }
void store_sticky(DType d, void* at, int64_t value) { store_int(stored_as(d), at, value); }

// An element of a sticky dtype, as a value of any.
void convert_sticky(void* into, DType to, const void* at, DType from) {
  const int64_t value = load_sticky(from, at);
  if (is_sticky(to)) return store_sticky(to, into, sticky_resized(to, from, value));
  const bool error = value == sticky_error(from) && is_float(to);
  return error ? store_double(to, into, std::numeric_limits<double>::quiet_NaN())
               : store_int(to, into, value);
}

// NaN without its payload.
double widen(float value) {
  return std::isnan(value) ? std::copysign(std::numeric_limits<double>::quiet_NaN(), value) : value;
}

}  // namespace

double decode(DType d, uint32_t code) {
  if (d == DType::kFloat16) return widen(decode_float16(static_cast<uint16_t>(code)));
  if (d == DType::kBFloat16) return widen(decode_bfloat16(static_cast<uint16_t>(code)));
  const Format& format = format_of(d);
  const bool negative = (code & format.sign) != 0;
  const uint32_t magnitude = code & (format.sign - 1);
  double value;
  if (format.signless_special && code == format.nan) {
    return std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude > format.largest) {
    value = magnitude == format.infinity && format.infinity != format.nan
                ? std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int exponent = static_cast<int>(magnitude >> format.mantissa);
    const uint32_t implicit = uint32_t{1} << format.mantissa;
    const uint32_t fraction = magnitude & (implicit - 1);
    value = std::ldexp(static_cast<double>(exponent == 0 ? fraction : fraction | implicit),
                       (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa);
  }
  return negative ? -value : value;
}

uint32_t encode(DType d, double value) {
  if (d == DType::kFloat16) return encode_float16(value);
  if (d == DType::kBFloat16) return encode_bfloat16(static_cast<float>(value));
  const Format& format = format_of(d);
  const uint32_t sign = std::signbit(value) ? format.sign : 0;
  if (!std::isfinite(value)) {
    const uint32_t code = std::isnan(value) ? format.nan : format.infinity;
    return format.signless_special ? code : code | sign;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(std::fabs(value));
  const uint64_t rounded = round_magnitude(format, bits);
  const uint32_t code = rounded > format.largest ? format.overflow : static_cast<uint32_t>(rounded);
  return code == 0 && format.signless_special ? 0 : code | sign;
}

double load_double(DType d, const void* at) {
  if (is_sticky(d)) {
    const int64_t value = load_sticky(d, at);
    return value == sticky_error(d) ? std::numeric_limits<double>::quiet_NaN()
                                    : static_cast<double>(value);
  }
  if (d == DType::kBool) return load<uint8_t>(at) != 0 ? 1 : 0;
  if (is_narrow_float(d)) return decode(d, load_code(d, at));
  return with_type(d, [at](auto t) { return static_cast<double>(load<decltype(t)>(at)); });
}

int64_t load_int(DType d, const void* at) {
  if (is_sticky(d)) return load_sticky(d, at);
  if (d == DType::kBool) return load<uint8_t>(at) != 0;
  if (is_narrow_float(d)) return float_to_int(decode(d, load_code(d, at)));
  return with_type(d, [at](auto t) { return cast_native<int64_t>(load<decltype(t)>(at)); });
}

void store_double(DType d, void* at, double value) {
  if (is_sticky(d)) return store_sticky(d, at, sticky_from_double(d, value));
  if (d == DType::kBool) return store(at, static_cast<uint8_t>(value != 0));
  if (is_narrow_float(d)) return store_code(d, at, encode(d, value));
  with_type(d, [at, value](auto t) { store(at, cast_native<decltype(t)>(value)); });
}

void store_int(DType d, void* at, int64_t value) {
  if (is_sticky(d)) return store_sticky(d, at, sticky_checked(d, value));
  if (d == DType::kBool) return store(at, static_cast<uint8_t>(value != 0));
  // By way of float32, as kernels do: integers that differ between the two ways overflow the narrow
  // ones.
  if (is_narrow_float(d)) {
    return store_code(d, at, encode(d, static_cast<double>(static_cast<float>(value))));
  }
  with_type(d, [at, value](auto t) { store(at, cast_native<decltype(t)>(value)); });
}

void store_uint(DType d, void* at, uint64_t value) {
  if (is_sticky(d)) return store_sticky(d, at, sticky_checked(d, value));
  if (!is_float(d)) return store_int(d, at, static_cast<int64_t>(value));
  if (is_narrow_float(d)) {
    return store_code(d, at, encode(d, static_cast<double>(static_cast<float>(value))));
  }
  with_type(d, [at, value](auto t) { store(at, cast_native<decltype(t)>(value)); });
}

void convert(void* dst, DType to, const void* src, DType from, size_t count) {
  char* const out = static_cast<char*>(dst);
  const char* const in = static_cast<const char*>(src);
  const size_t to_size = stored_size(to), from_size = stored_size(from);
  if (count == 0) return;
  if (to == from && to != DType::kBool) {
    std::memmove(out, in, count * to_size);
  } else if (is_native(to) && is_native(from)) {
    with_type(to, [=](auto t) {
      with_type(from, [=](auto f) { convert_native<decltype(t), decltype(f)>(out, in, count); });
    });
  } else {
    for (size_t i = 0; i < count; ++i) {
      const void* at = in + i * from_size;
      void* into = out + i * to_size;
      if (is_sticky(from)) {
        convert_sticky(into, to, at, from);
      } else if (is_float(from)) {
        store_double(to, into, load_double(from, at));
      } else if (from == DType::kUInt64) {
        store_uint(to, into, load<uint64_t>(at));
      } else {
        store_int(to, into, load_int(from, at));
      }
    }
  }
}

}  // namespace aster::dtype
