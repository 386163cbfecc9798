#include "flt/value.h"

#include <algorithm>

#include "flt/accumulator.h"
#include "flt/arithmetic.h"
#include "flt/convert.h"

namespace aster::flt {

namespace {
constinit thread_local Rounding t_rounding = Rounding::kNearest;
}

RoundingScope::RoundingScope(Rounding mode) : before_(t_rounding) { t_rounding = mode; }
RoundingScope::~RoundingScope() { t_rounding = before_; }
Rounding current_rounding() { return t_rounding; }

template <int N>
Value<N>::Value(double x) {
  from_number(w, kDTypeOf<N>, x);
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
  sum<N>(out.w, a.w, b.w, false, current_rounding());
  return out;
}
template <int N>
Value<N> operator-(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  sum<N>(out.w, a.w, b.w, true, current_rounding());
  return out;
}
template <int N>
Value<N> operator*(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  product<N>(out.w, a.w, b.w, current_rounding());
  return out;
}
template <int N>
Value<N> operator/(const Value<N>& a, const Value<N>& b) {
  Value<N> out;
  quotient<N>(out.w, a.w, b.w, current_rounding());
  return out;
}
template <int N>
Value<N> sqrt(const Value<N>& a) {
  Value<N> out;
  square_root<N>(out.w, a.w, current_rounding());
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
  round_pack<N>(out.w, x.negative, x.exponent + exponent, x.m, false, current_rounding());
  return out;
}

template <int N>
int compared(const Value<N>& a, const Value<N>& b) {
  if (is_nan<N>(a.w) || is_nan<N>(b.w)) return 2;
  return order<N>(a.w, b.w);
}

namespace {

// A number as an integer, its significand, and an exponent.
enum class Part { kZero, kNormal, kOther };
template <int N>
Part part_of(Limb* m, int64_t* exponent, const Value<N>& x) {
  const int64_t biased = biased_exponent<N>(x.w[N - 1]);
  if (biased == 0 && x.is_zero()) return Part::kZero;
  if (biased == 0 || biased == Format<N>::kSpecial) return Part::kOther;
  for (int i = 0; i < N; ++i) m[i] = x.w[i];
  m[N - 1] = (m[N - 1] & (Format<N>::kImplicit - 1)) | Format<N>::kImplicit;
  *exponent = biased - Format<N>::kBias;
  return Part::kNormal;
}

// Sums of products of two significands, cut below: the greatest of them has its bits from kTop on
// down in a number of kLimbs limbs with a sign.
template <int N>
class Window {
 public:
  static constexpr int kLimbs = N + 3, kTop = 64 * (N + 2) - 12;
  static constexpr int kBits = 2 * Format<N>::kPrecision;  // of a product
  static constexpr int kRoom = 2 * N + kLimbs + 1;         // of a product with zeros above
  explicit Window(int64_t greatest) : greatest_(greatest) {}

  void add(const Limb* product, int64_t exponent, bool negative) {
    const int64_t down = kBits - kTop + greatest_ - exponent;
    if (down >= kBits) return;
    const auto limbs = static_cast<int>(down / 64), rest = static_cast<int>(down % 64);
    const Limb* const at = product + limbs;
    const Limb flip = negative ? ~Limb{0} : 0;
    unsigned char carry = negative ? 1 : 0;
#pragma GCC unroll 16
    for (int i = 0; i < kLimbs; ++i) {
      const Limb limb = at[i] >> rest | (at[i + 1] << 1) << (63 - rest);
      carry = add_limb(carry, sum_[i], limb ^ flip, &sum_[i]);
    }
  }
  Value<N> rounded() {
    Value<N> out;
    const bool negative = (sum_[kLimbs - 1] >> 63) != 0;
    unsigned char carry = negative ? 1 : 0;
    for (int i = 0; negative && i < kLimbs; ++i) carry = add_limb(carry, ~sum_[i], 0, &sum_[i]);
    const int zeros = leading_zeros<kLimbs>(sum_);
    if (zeros == 64 * kLimbs) return Value<N>(0);
    shift_up<kLimbs>(sum_, sum_, zeros);
    Limb below = 0;
    for (int i = 0; i < kLimbs - N; ++i) below |= sum_[i];
    const int64_t lowest = kBits - kTop + greatest_ - 2 * (Format<N>::kPrecision - 1);
    round_pack<N>(out.w, negative, 64 * kLimbs - 1 - zeros + lowest, sum_ + (kLimbs - N),
                  below != 0, current_rounding());
    return out;
  }

 private:
  Limbs<kLimbs> sum_ = {};
  int64_t greatest_;
};

template <int N>
Value<N> less_products_in_turn(Value<N> c, const Value<N>* a, int64_t a_step, const Value<N>* b,
                               int64_t b_step, int64_t count) {
  for (int64_t k = 0; k < count; ++k) c -= a[k * a_step] * b[k * b_step];
  return c;
}

// Of numbers that are normal or 0: with all that lies far below, which a directed mode looks at.
template <int N>
Value<N> less_products_exactly(const Value<N>& c, const Value<N>* a, int64_t a_step,
                               const Value<N>* b, int64_t b_step, int64_t count) {
  using F = Format<N>;
  constexpr size_t kOnStack = 256;  // limbs: exponents span 8,000 bits
  const auto lowest = [](const Value<N>& x) { return x.exponent() - (F::kPrecision - 1); };
  Terms terms;
  if (!c.is_zero()) terms.finite(lowest(c), F::kPrecision);
  for (int64_t k = 0; k < count; ++k) {
    const Value<N>&x = a[k * a_step], &y = b[k * b_step];
    if (!x.is_zero() && !y.is_zero()) terms.finite(lowest(x) + lowest(y), 2 * F::kPrecision);
  }
  const size_t limbs = Accumulator::limbs(terms, static_cast<size_t>(count) + 1);
  if (limbs > kOnStack) return less_products_in_turn(c, a, a_step, b, b_step, count);
  Limb held[kOnStack];
  Accumulator sum(held, limbs, terms.least);
  if (!c.is_zero()) sum.add<N>(scaled<N>(c.w).m, lowest(c), c.is_negative());
  for (int64_t k = 0; k < count; ++k) {
    const Value<N>&x = a[k * a_step], &y = b[k * b_step];
    if (x.is_zero() || y.is_zero()) continue;
    Limbs<2 * N> m;
    multiply<N>(m, scaled<N>(x.w).m, scaled<N>(y.w).m);
    sum.add<2 * N>(m, lowest(x) + lowest(y), x.is_negative() == y.is_negative());
  }
  Value<N> out;
  if (!sum.template round<N>(out.w, current_rounding()))
    pack_zero<N>(out.w, zero_is_negative(current_rounding()));
  return out;
}

}  // namespace

template <int N>
Value<N> less_products(const Value<N>& c, const Value<N>* a, int64_t a_step, const Value<N>* b,
                       int64_t b_step, int64_t count) {
  // Exponents first: all but normal numbers go term by term.
  constexpr int64_t kMostTerms = 512;  // what the bits above a window hold
  const auto biased = [](const Value<N>& x) { return biased_exponent<N>(x.w[N - 1]); };
  const int64_t of_c = biased(c);
  bool others = count > kMostTerms || of_c == Format<N>::kSpecial || (of_c == 0 && !c.is_zero());
  int64_t greatest = of_c == 0 ? INT64_MIN : of_c - Format<N>::kBias;
  for (int64_t k = 0; k < count; ++k) {
    const Value<N>&x = a[k * a_step], &y = b[k * b_step];
    const int64_t of_x = biased(x), of_y = biased(y);
    others |= of_x == Format<N>::kSpecial || of_y == Format<N>::kSpecial;
    if (of_x == 0 || of_y == 0) {
      others |= (of_x == 0 && !x.is_zero()) || (of_y == 0 && !y.is_zero());
    } else {
      greatest = std::max(greatest, of_x + of_y - 2 * Format<N>::kBias);
    }
  }
  if (others) return less_products_in_turn(c, a, a_step, b, b_step, count);
  if (greatest == INT64_MIN) return c;
  constexpr bool kShort = Window<N>::kBits < Window<N>::kTop;  // than a window is whole products
  if (kShort || current_rounding() != Rounding::kNearest)
    return less_products_exactly(c, a, a_step, b, b_step, count);
  Window<N> window(greatest);
  Limbs<Window<N>::kRoom> product = {};
  Limbs<N + 1> m;
  Limbs<N> other;
  int64_t exponent, other_exponent;
  m[N] = 0;
  if (part_of(m, &exponent, c) == Part::kNormal) {
    // As a product with 1.
    shift_up_bits<N + 1>(product + N - 1, m, Format<N>::kTop);
    window.add(product, exponent, c.is_negative());
  }
  for (int64_t k = 0; k < count; ++k) {
    const Value<N>&x = a[k * a_step], &y = b[k * b_step];
    if (part_of(m, &exponent, x) != Part::kNormal ||
        part_of(other, &other_exponent, y) != Part::kNormal)
      continue;
    multiply_upper<N, N - 3>(product, m, other);
    window.add(product, exponent + other_exponent, x.is_negative() == y.is_negative());
  }
  return window.rounded();
}

#define INSTANTIATE(N, Name)                                                                  \
  template Value<N>::Value(double);                                                           \
  template Value<N>::operator double() const;                                                 \
  template Value<N> operator+(const Value<N>&, const Value<N>&);                              \
  template Value<N> operator-(const Value<N>&, const Value<N>&);                              \
  template Value<N> operator*(const Value<N>&, const Value<N>&);                              \
  template Value<N> operator/(const Value<N>&, const Value<N>&);                              \
  template Value<N> sqrt(const Value<N>&);                                                    \
  template Value<N> scaled(const Value<N>&, int64_t);                                         \
  template Value<N> less_products(const Value<N>&, const Value<N>*, int64_t, const Value<N>*, \
                                  int64_t, int64_t);                                          \
  template int compared(const Value<N>&, const Value<N>&);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::flt
