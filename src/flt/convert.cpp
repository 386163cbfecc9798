#include "flt/convert.h"

#include <cmath>
#include <limits>

#include "dtype/convert.h"
#include "dtype/sticky.h"

namespace aster::flt {
namespace {

// Precision and exponents of the leading bit, those of normal numbers.
struct Narrow {
  int precision;
  int64_t least, greatest;
};
Narrow narrow_of(DType d) {
  switch (d) {
    case DType::kFp8E4M3:
      return {4, -6, 8};
    case DType::kFp8E4M3Fnuz:
      return {4, -7, 7};
    case DType::kFp8E5M2:
      return {3, -14, 15};
    case DType::kFp8E5M2Fnuz:
      return {3, -15, 15};
    case DType::kFloat16:
      return {11, -14, 15};
    case DType::kBFloat16:
      return {8, -126, 127};
    case DType::kFloat32:
      return {24, -126, 127};
    default:
      return {53, -1022, 1023};
  }
}

template <int N>
void from_unsigned(Limb* out, uint64_t value, bool negative) {
  if (value == 0) return pack_zero<N>(out, false);
  Limbs<N> m = {};
  const int zeros = std::countl_zero(value);
  m[N - 1] = value << zeros;
  round_pack<N>(out, negative, 63 - zeros, m, false, Rounding::kNearest);
}

template <int N>
void from_double(Limb* out, double value) {
  if (std::isnan(value)) return pack_nan<N>(out);
  if (std::isinf(value)) return pack_infinity<N>(out, std::signbit(value));
  if (value == 0) return pack_zero<N>(out, std::signbit(value));
  int exponent;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  Limbs<N> m = {};
  m[N - 1] = static_cast<Limb>(fraction * 0x1p53) << 11;
  round_pack<N>(out, std::signbit(value), exponent - 1, m, false, Rounding::kNearest);
}

// A finite number rounded to a narrower format, as a double. What overflows is the greatest number
// of the format, or more than any.
template <int N>
double rounded(const Number<N>& x, const Narrow& to, Rounding mode) {
  const int64_t missing = x.exponent < to.least ? to.least - x.exponent : 0;
  const int64_t drop = 64 - to.precision + missing;  // of the highest limb
  Limb lower = 0;
  for (int i = 0; i < N - 1; ++i) lower |= x.m[i];
  bool half = false, below = lower != 0;
  Limb kept = 0;
  if (drop <= 64) {
    half = (x.m[N - 1] >> (drop - 1) & 1) != 0;
    below |= (x.m[N - 1] & ((Limb{1} << (drop - 1)) - 1)) != 0;
    if (drop < 64) kept = x.m[N - 1] >> drop;
  } else {
    below = true;
  }
  if (goes_up(mode, x.negative, (kept & 1) != 0, half, below)) ++kept;
  int64_t exponent = x.exponent + missing - (to.precision - 1);  // of the last bit kept
  const bool over =
      x.exponent > to.greatest || (x.exponent == to.greatest && (kept >> to.precision) != 0);
  if (over) {
    const bool stays =
        mode == Rounding::kZero || mode == (x.negative ? Rounding::kUp : Rounding::kDown);
    if (!stays)
      return x.negative ? -std::numeric_limits<double>::infinity()
                        : std::numeric_limits<double>::infinity();
    kept = (Limb{1} << to.precision) - 1;
    exponent = to.greatest - (to.precision - 1);
  }
  const double size = std::ldexp(static_cast<double>(kept), static_cast<int>(exponent));
  return x.negative ? -size : size;
}

// ERR: the NaN that its name is in, as the type system of sticky integers has it.
template <int N>
void pack_error(Limb* out) {
  pack_nan<N>(out);
  out[0] = 0x5442425F455252;  // "TBB_ERR"
}

// Toward zero; NaN and what int64 cannot hold give 0.
template <int N>
int64_t whole(const Number<N>& x) {
  if (x.kind != Kind::kFinite || x.exponent < 0 || x.exponent > 62) return 0;
  const auto size = static_cast<int64_t>(x.m[N - 1] >> (63 - x.exponent));
  return x.negative ? -size : size;
}

// ERR where it is none of the numbers of a sticky dtype: compared with them before it is cut.
template <int N>
int64_t sticky(const Number<N>& x, DType to) {
  if (x.kind == Kind::kZero) return 0;
  if (x.kind != Kind::kFinite || x.exponent > 62) return dtype::sticky_error(to);
  const int64_t value = whole(x), most = dtype::sticky_most(to), size = std::abs(value);
  bool more = x.exponent < 0;  // behind the point
  if (x.exponent >= 0 && x.exponent < 63) more = (x.m[N - 1] << 1 << x.exponent) != 0;
  for (int i = 0; i < N - 1; ++i) more |= x.m[i] != 0;
  return size > most || (size == most && more) ? dtype::sticky_error(to) : value;
}

}  // namespace

template <int N>
void from_element(Limb* out, DType from, const void* at) {
  if (dtype::is_float(from)) return from_double<N>(out, dtype::load_double(from, at));
  const int64_t value = dtype::load_int(from, at);
  if (dtype::is_sticky(from) && value == dtype::sticky_error(from)) return pack_error<N>(out);
  const auto bits = static_cast<uint64_t>(value);
  const bool negative = value < 0 && from != DType::kUInt64;
  from_unsigned<N>(out, negative ? 0 - bits : bits, negative);
}

template <int N>
void to_element(void* at, DType to, const Limb* w, Rounding mode) {
  const Number<N> x = unpack<N>(w);
  if (dtype::is_sticky(to)) return dtype::store_int(dtype::stored_as(to), at, sticky(x, to));
  if (dtype::is_bool(to)) return dtype::store_int(to, at, x.kind != Kind::kZero ? 1 : 0);
  if (!dtype::is_float(to)) return dtype::store_int(to, at, whole(x));
  double value = 0;
  switch (x.kind) {
    case Kind::kNan:
      return dtype::store_double(to, at, std::numeric_limits<double>::quiet_NaN());
    case Kind::kInfinite:
      value = std::numeric_limits<double>::infinity();
      break;
    case Kind::kZero:
      break;
    case Kind::kFinite:
      value = rounded<N>(x, narrow_of(to), mode);
      // Floats of 8 bits have no infinity to overflow to.
      if (dtype::is_fp8(to) && std::isinf(value)) {
        value = std::copysign(std::numeric_limits<double>::max(), value);
      }
      return dtype::store_double(to, at, value);
  }
  dtype::store_double(to, at, x.negative ? -value : value);
}

template <int N, int M>
void resize(Limb* out, const Limb* w, Rounding mode) {
  const Number<M> x = unpack<M>(w);
  switch (x.kind) {
    case Kind::kNan:
      return pack_nan<N>(out);
    case Kind::kInfinite:
      return pack_infinity<N>(out, x.negative);
    case Kind::kZero:
      return pack_zero<N>(out, x.negative);
    case Kind::kFinite:
      break;
  }
  Limbs<N> m = {};
  bool more = false;
  for (int i = 0; i < M; ++i) {
    if (i - M + N >= 0) {
      m[i - M + N] = x.m[i];
    } else {
      more |= x.m[i] != 0;
    }
  }
  round_pack<N>(out, x.negative, x.exponent, m, more, mode);
}

void from_number(Limb* out, DType dtype, double value) {
  with_limbs(dtype, [&](auto n) { from_double<n>(out, value); });
}

bool is_double(double* out, DType dtype, const void* at) {
  Limb w[8], back[8];
  const size_t bytes = dtype::size(dtype);
  std::memcpy(w, at, bytes);
  with_limbs(dtype, [&](auto n) { to_element<n>(out, DType::kFloat64, w, Rounding::kNearest); });
  from_number(back, dtype, *out);
  return std::memcmp(w, back, bytes) == 0;
}

namespace {

template <int N>
void convert_into(void* to, const void* at, DType src, Rounding mode) {
  Limb w[8];
  Limbs<N> y;
  if (!dtype::is_wide(src)) {
    from_element<N>(y, src, at);
  } else {
    with_limbs(src, [&](auto n) {
      load<n>(w, at);
      resize<N, n>(y, w, mode);
    });
  }
  store<N>(to, y);
}

}  // namespace

void convert_element(void* to, DType dst, const void* at, DType src, Rounding mode) {
  if (dtype::is_wide(dst)) {
    return with_limbs(dst, [&](auto n) { convert_into<n>(to, at, src, mode); });
  }
  Limb w[8];
  with_limbs(src, [&](auto n) {
    load<n>(w, at);
    to_element<n>(to, dst, w, mode);
  });
}

#define INSTANTIATE(N, Name)                                \
  template void from_element<N>(Limb*, DType, const void*); \
  template void to_element<N>(void*, DType, const Limb*, Rounding);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::flt
