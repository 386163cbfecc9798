#include "flt/value.h"

#include <algorithm>

#include "flt/arithmetic.h"
#include "flt/convert.h"

namespace aster::flt {

template <int N>
Value<N>::Value(double x) {
  from_number(w, N == 4 ? DType::kFlt256 : DType::kFlt512, x);
}

template <int N>
Value<N>::operator double() const {
  double out;
  to_element<N>(&out, DType::kFloat64, w, Rounding::kNearest);
  return out;
}

template <int N>
Value<N> operator+(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  sum<N>(out.w, a.w, b.w, false, Rounding::kNearest);
  return out;
}
template <int N>
Value<N> operator-(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  sum<N>(out.w, a.w, b.w, true, Rounding::kNearest);
  return out;
}
template <int N>
Value<N> operator*(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  product<N>(out.w, a.w, b.w, Rounding::kNearest);
  return out;
}
template <int N>
Value<N> operator/(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  quotient<N>(out.w, a.w, b.w, Rounding::kNearest);
  return out;
}
template <int N>
Value<N> sqrt(const Value<N>& a) {
  Value<N> out;
  square_root<N>(out.w, a.w, Rounding::kNearest);
  return out;
}

template <int N>
Value<N> scaled(const Value<N>& a, int64_t exponent) {
  const int64_t biased = biased_exponent<N>(a.w[N - 1]);
  if (a.is_zero() || biased == Format<N>::kSpecial) return a;
  const int64_t moved = biased + exponent;
  Value<N> out = a;
  if (biased != 0 && moved > 0 && moved < Format<N>::kSpecial) {
    out.w[N - 1] += static_cast<Limb>(exponent) << Format<N>::kTop;
    return out;
  }
  Number<N> x = unpack<N>(a.w);
  round_pack<N>(out.w, x.negative, x.exponent + exponent, x.m, false, Rounding::kNearest);
  return out;
}

template <int N>
int compared(const Value<N>& a, const Value<N>& b) {
  if (is_nan<N>(a.w) || is_nan<N>(b.w)) return 2;
  return order<N>(a.w, b.w);
}

#define INSTANTIATE(N)                                           \
  template Value<N>::Value(double);                              \
  template Value<N>::operator double() const;                    \
  template Value<N> operator+(const Value<N>&, const Value<N>&); \
  template Value<N> operator-(const Value<N>&, const Value<N>&); \
  template Value<N> operator*(const Value<N>&, const Value<N>&); \
  template Value<N> operator/(const Value<N>&, const Value<N>&); \
  template Value<N> sqrt(const Value<N>&);                       \
  template Value<N> scaled(const Value<N>&, int64_t);            \
  template int compared(const Value<N>&, const Value<N>&);
INSTANTIATE(4)
INSTANTIATE(8)
#undef INSTANTIATE

}  // namespace aster::flt
