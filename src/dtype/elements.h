// Elements of the dtypes that C++ has types for, at addresses of any alignment.
#pragma once

#include <cstring>
#include <type_traits>

#include "dtype/dtype.h"

namespace aster::dtype {

template <typename T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void store(void* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// The values of an integer or native float dtype (sticky ones have others), given to f as their own
// C++ type.
template <typename F>
auto with_type(DType d, F&& f) {
  switch (d) {
    case DType::kInt8:
      return f(int8_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kUInt16:
      return f(uint16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kUInt32:
      return f(uint32_t{});
    case DType::kUInt64:
      return f(uint64_t{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
    case DType::kWeakFloat:
      return f(double{});
    default:
      return f(int64_t{});
  }
}

inline bool is_native(DType d) { return !is_narrow_float(d) && d != DType::kBool && !is_sticky(d); }

template <typename To, typename From>
To cast_native(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return static_cast<To>(float_to_int(static_cast<double>(value)));
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
void convert_native(char* dst, const char* src, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    store(dst + i * sizeof(To), cast_native<To>(load<From>(src + i * sizeof(From))));
  }
}

}  // namespace aster::dtype
