// Numbers with operators, for algorithms that are written for any type with arithmetic: each
// operation is rounded once, as a RoundingScope around it says.
#pragma once

#include <limits>

#include "flt/formats.h"

namespace aster::flt {

// The mode of this thread's operations on Values until it ends; outside of all, to nearest.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding mode);
  ~RoundingScope();
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  Rounding before_;
};
Rounding current_rounding();

template <int N>
struct Value {
  Limbs<N> w;

  Value() = default;
  constexpr explicit Value(int64_t x) : w{} {
    if (x == 0) return;
    const bool negative = x < 0;
    const Limb size = negative ? Limb{0} - static_cast<Limb>(x) : static_cast<Limb>(x);
    const int lead = 63 - std::countl_zero(size);
    const Limb fraction = lead == 0 ? 0 : size << (64 - lead);  // its highest bit is one half
    w[N - 1] = static_cast<Limb>(Format<N>::kBias + lead) << Format<N>::kTop |
               fraction >> (64 - Format<N>::kTop) | (negative ? Format<N>::kSign : 0);
    w[N - 2] = fraction << Format<N>::kTop;
  }
  constexpr explicit Value(int x) : Value(int64_t{x}) {}
  explicit Value(double x);

  static constexpr Value power(int64_t exponent) {  // of two, normal
    Value out(1);
    out.w[N - 1] = static_cast<Limb>(Format<N>::kBias + exponent) << Format<N>::kTop;
    return out;
  }

  bool is_zero() const {
    Limb any = w[N - 1] << 1;
    for (int i = 0; i + 1 < N; ++i) any |= w[i];
    return any == 0;
  }
  bool is_negative() const { return (w[N - 1] & Format<N>::kSign) != 0; }
  bool is_finite() const { return biased_exponent<N>(w[N - 1]) != Format<N>::kSpecial; }
  // That of the leading bit, of subnormal numbers the least; INT32_MIN of 0.
  int64_t exponent() const {
    return is_zero() ? INT32_MIN : biased_exponent<N>(w[N - 1]) - Format<N>::kBias;
  }
  Value operator-() const {
    Value out = *this;
    out.w[N - 1] ^= Format<N>::kSign;
    return out;
  }
  explicit operator double() const;
};

template <int N>
Value<N> operator+(const Value<N>& a, const Value<N>& b);
template <int N>
Value<N> operator-(const Value<N>& a, const Value<N>& b);
template <int N>
Value<N> operator*(const Value<N>& a, const Value<N>& b);
template <int N>
Value<N> operator/(const Value<N>& a, const Value<N>& b);
template <int N>
Value<N> sqrt(const Value<N>& a);
// a 2^exponent
template <int N>
Value<N> scaled(const Value<N>& a, int64_t exponent);
// c - sum_k a[k] b[k], terms at steps: rounded once, but to nearest for what lies 2^100 and more
// below the last bit of the largest term, which may be left out.
template <int N>
Value<N> less_products(const Value<N>& c, const Value<N>* a, int64_t a_step, const Value<N>* b,
                       int64_t b_step, int64_t count);
// -1, 0, 1; 2 where there is no order.
template <int N>
int compared(const Value<N>& a, const Value<N>& b);

template <int N>
Value<N>& operator+=(Value<N>& a, const Value<N>& b) {
  return a = a + b;
}
template <int N>
Value<N>& operator-=(Value<N>& a, const Value<N>& b) {
  return a = a - b;
}
template <int N>
Value<N>& operator*=(Value<N>& a, const Value<N>& b) {
  return a = a * b;
}
template <int N>
Value<N>& operator/=(Value<N>& a, const Value<N>& b) {
  return a = a / b;
}
template <int N>
bool operator<(const Value<N>& a, const Value<N>& b) {
  return compared(a, b) == -1;
}
template <int N>
bool operator>(const Value<N>& a, const Value<N>& b) {
  return compared(a, b) == 1;
}
template <int N>
bool operator<=(const Value<N>& a, const Value<N>& b) {
  return compared(a, b) <= 0;
}
template <int N>
bool operator>=(const Value<N>& a, const Value<N>& b) {
  const int order = compared(a, b);
  return order == 0 || order == 1;
}
template <int N>
bool operator==(const Value<N>& a, const Value<N>& b) {
  return compared(a, b) == 0;
}

template <int N>
Value<N> magnitude(Value<N> a) {
  a.w[N - 1] &= ~Format<N>::kSign;
  return a;
}
// Whether |a| < |b|; NaN is above all.
template <int N>
bool is_smaller(const Value<N>& a, const Value<N>& b) {
  const Value<N> x = magnitude(a), y = magnitude(b);
  return compare<N>(x.w, y.w) < 0;
}

}  // namespace aster::flt

template <int N>
class std::numeric_limits<aster::flt::Value<N>> {
  using Value = aster::flt::Value<N>;
  using Format = aster::flt::Format<N>;

 public:
  static constexpr bool is_specialized = true;
  static constexpr int digits = Format::kPrecision;
  static constexpr Value epsilon() { return Value::power(1 - Format::kPrecision); }
  static constexpr Value min() { return Value::power(Format::kMin); }
  static constexpr Value max() {
    Value out = Value::power(Format::kMax);
    for (int i = 0; i + 1 < N; ++i) out.w[i] = ~aster::flt::Limb{0};
    out.w[N - 1] |= Format::kImplicit - 1;
    return out;
  }
};
