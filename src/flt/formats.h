// The wide formats: all that is chosen by dtype or instantiated follows from these rows.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "dtype/dtype.h"
#include "flt/format.h"

namespace aster::flt {

// Limbs, and the name of the dtype.
#define FLT_FORMATS(ROW) \
  ROW(4, Flt256)         \
  ROW(8, Flt512)

#define FLT_LIMBS(N, Name) , N
using AllLimbs = std::integer_sequence<int FLT_FORMATS(FLT_LIMBS)>;
#undef FLT_LIMBS
constexpr size_t kFormats = AllLimbs::size();

// Limbs of a dtype; 0: it is no wide one.
constexpr int limbs_of(dtype::DType d) {
  return dtype::is_wide(d) ? static_cast<int>(dtype::size(d) / sizeof(Limb)) : 0;
}

template <int N>
constexpr dtype::DType kDTypeOf = dtype::DType::kNone;
#define FLT_DTYPE(N, Name) \
  template <>              \
  inline constexpr dtype::DType kDTypeOf<N> = dtype::DType::k##Name;
FLT_FORMATS(FLT_DTYPE)
#undef FLT_DTYPE

// f(std::integral_constant<int, N>{}) of a wide dtype's limbs.
template <typename F>
decltype(auto) with_limbs(int limbs, const F& f) {
  switch (limbs) {
#define FLT_CASE(N, Name) \
  case N:                 \
    return f(std::integral_constant<int, N>{});
    FLT_FORMATS(FLT_CASE)
#undef FLT_CASE
    default:
      return f(std::integral_constant<int, kLongest>{});
  }
}
template <typename F>
decltype(auto) with_limbs(dtype::DType d, const F& f) {
  return with_limbs(limbs_of(d), f);
}

// One for each format, in the order of the rows.
template <typename T>
using EachFormat = std::array<T, kFormats>;
template <typename T, typename F, int... N>
constexpr EachFormat<T> each_format(const F& f, std::integer_sequence<int, N...>) {
  return {f(std::integral_constant<int, N>{})...};
}
constexpr size_t row_of(int limbs) {
  size_t row = 0, found = 0;
#define FLT_ROW(N, Name) found = limbs == N ? row : found, ++row;
  FLT_FORMATS(FLT_ROW)
#undef FLT_ROW
  return found;
}

}  // namespace aster::flt
