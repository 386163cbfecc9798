// Numbers with operators and sums in a window of bits, against MPFR.
#include "flt/value.h"

#ifdef ASTER_TEST_MPFR
#include <bit>

#include "oracle.h"

namespace {

using namespace flt_test;
using aster::flt::current_rounding;
using aster::flt::Rounding;
using aster::flt::RoundingScope;
using aster::flt::Value;

template <int N>
Packed packed(const Value<N>& x) {
  Packed p;
  std::copy_n(x.w, N, p.w);
  return p;
}
template <int N>
Value<N> value(const Packed& p) {
  Value<N> x;
  std::copy_n(p.w, N, x.w);
  return x;
}
template <int N>
constexpr const Format& kFormat = kFormats[N == 4 ? 0 : 1];

template <int N>
void integers_and_powers() {
  const Format& f = kFormat<N>;
  for (const int64_t x :
       {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{3}, int64_t{-1} << 63, INT64_MAX,
        int64_t{1} << 53, (int64_t{1} << 53) + 1, int64_t{-12345678901}}) {
    Real y(f.precision());
    mpfr_set_si(y, x, MPFR_RNDN);
    EXPECT_EQ(packed(Value<N>(x)), y.pack(f)) << x;
  }
  Operands operands(51);
  for (int i = 0; i < cases(); ++i) {
    const Packed a = operands.any(f), b = operands.any(f);
    if (is_nan(f, a) || is_nan(f, b)) continue;
    const auto shift = static_cast<int64_t>(operands.below(2001)) - 1000;
    EXPECT_EQ(packed(scaled(value<N>(a), shift)), expected(f, 0, [&](mpfr_ptr y, mpfr_rnd_t mode) {
                Real x(f, a);
                return mpfr_mul_2si(y, x, shift, mode);
              }));
    Real x(f, a), y(f, b);
    EXPECT_EQ(compared(value<N>(a), value<N>(b)), std::clamp(mpfr_cmp(x, y), -1, 1));
    EXPECT_EQ(is_smaller(value<N>(a), value<N>(b)), mpfr_cmpabs(x, y) < 0);
    double number = 0;
    mpfr_exp_t exponent = x.pack(f) == Packed{} ? 0 : mpfr_get_exp(static_cast<mpfr_ptr>(x));
    if (mpfr_regular_p(static_cast<mpfr_ptr>(x)) && std::abs(exponent) < 1000) {
      number = mpfr_get_d(x, MPFR_RNDN);
      EXPECT_EQ(static_cast<double>(value<N>(a)), number);
    }
  }
}
TEST(FltValue, IntegersPowersAndOrder) {
  integers_and_powers<4>();
  integers_and_powers<8>();
}

// Of terms alike and of terms far apart: within half a unit of the sum and 2^-99 of the largest
// term.
template <int N>
void sums() {
  const Format& f = kFormat<N>;
  Operands operands(52);
  for (int i = 0; i < cases(); ++i) {
    const size_t count = operands.below(10);
    std::vector<Value<N>> a, b;
    const Packed c = operands.below(8) == 0 ? Packed{} : operands.near(f);
    Real sum(8 * f.precision()), term(2 * f.precision()), most(64);
    Real first(f, c);
    mpfr_set(sum, first, MPFR_RNDN);
    mpfr_abs(most, sum, MPFR_RNDU);
    for (size_t k = 0; k < count; ++k) {
      const Packed x = operands.below(9) == 0 ? Packed{} : operands.near(f), y = operands.near(f);
      a.push_back(value<N>(x));
      b.push_back(value<N>(y));
      Real p(f, x), q(f, y);
      mpfr_mul(term, p, q, MPFR_RNDN);
      mpfr_sub(sum, sum, term, MPFR_RNDN);
      if (mpfr_cmpabs(term, most) > 0) mpfr_abs(most, term, MPFR_RNDU);
    }
    const Packed got =
        packed(less_products(value<N>(c), a.data(), 1, b.data(), 1, static_cast<int64_t>(count)));
    Real found(f, got), rest(8 * f.precision()), limit(64), half(64);
    mpfr_sub(rest, found, sum, MPFR_RNDN);
    mpfr_mul_2si(limit, most, -99 - f.precision(), MPFR_RNDU);
    mpfr_abs(half, sum, MPFR_RNDU);
    mpfr_mul_2si(half, half, -f.precision(), MPFR_RNDU);
    mpfr_add(limit, limit, half, MPFR_RNDU);
    EXPECT_LE(mpfr_cmpabs(rest, limit), 0) << i << " of " << count;
  }
}
TEST(FltValue, SumsInAWindow) {
  sums<4>();
  sums<8>();
}

// In every mode: operations as MPFR has them, and sums in directed modes exact until they are
// rounded, also where all that decides lies far below.
template <int N>
void modes() {
  const Format& f = kFormat<N>;
  Operands operands(54);
  for (int i = 0; i < cases(); ++i) {
    const int mode = i % 4;
    const RoundingScope scope(static_cast<Rounding>(mode));
    const Packed a = operands.near(f), b = operands.near(f);
    const auto exact = [&](auto function) {
      Real x(f, a), y(f, b);
      return expected(f, mode, [&](mpfr_ptr z, mpfr_rnd_t m) { return function(z, x, y, m); });
    };
    EXPECT_EQ(packed(value<N>(a) + value<N>(b)), exact(mpfr_add));
    EXPECT_EQ(packed(value<N>(a) - value<N>(b)), exact(mpfr_sub));
    EXPECT_EQ(packed(value<N>(a) * value<N>(b)), exact(mpfr_mul));
    EXPECT_EQ(packed(value<N>(a) / value<N>(b)), exact(mpfr_div));
    EXPECT_EQ(packed(sqrt(magnitude(value<N>(a)))),
              exact([](mpfr_ptr z, mpfr_ptr x, mpfr_ptr, mpfr_rnd_t m) {
                mpfr_abs(x, x, MPFR_RNDN);
                return mpfr_sqrt(z, x, m);
              }));
    EXPECT_EQ(static_cast<double>(value<N>(a)), [&] {
      Real x(f, a);
      return mpfr_get_d(x, MPFR_RNDN);  // what float64 begins with is not rounded so
    }());
    {
      const RoundingScope within(Rounding::kNearest);
      EXPECT_EQ(current_rounding(), Rounding::kNearest);
    }
    EXPECT_EQ(current_rounding(), static_cast<Rounding>(mode));
    if (mode == 0) continue;
    std::vector<Value<N>> x, y;
    Real sum(5000), term(2 * f.precision());
    const Packed c = i % 8 < 4 ? Packed{} : operands.near(f);
    Real first(f, c);
    mpfr_set(sum, first, MPFR_RNDN);
    for (size_t k = 0, count = operands.below(6); k < count; ++k) {
      const int64_t down = k == 0 ? 0 : -static_cast<int64_t>(operands.below(1500));
      x.push_back(scaled(value<N>(operands.near(f)), down));
      y.push_back(k % 3 == 2 ? Value<N>(0) : k % 3 == 1 ? Value<N>(1) : value<N>(operands.near(f)));
      Real p(f, packed(x.back())), q(f, packed(y.back()));
      mpfr_mul(term, p, q, MPFR_RNDN);
      mpfr_sub(sum, sum, term, MPFR_RNDN);
    }
    const Value<N> got =
        less_products(value<N>(c), x.data(), 1, y.data(), 1, static_cast<int64_t>(x.size()));
    if (mpfr_zero_p(static_cast<mpfr_ptr>(sum))) {
      EXPECT_TRUE(got.is_zero());
      continue;
    }
    EXPECT_EQ(packed(got),
              expected(f, mode, [&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_set(z, sum, m); }))
        << i;
  }
}
TEST(FltValue, EveryMode) {
  modes<4>();
  modes<8>();
}

// What is no normal number goes term by term, as operators have it.
TEST(FltValue, SumsOfSpecialNumbers) {
  Operands operands(53);
  for (int i = 0; i < cases(); ++i) {
    Value<8> a[4], b[4];
    for (int k = 0; k < 4; ++k) {
      a[k] = value<8>(operands.special(kFormats[1]));
      b[k] = value<8>(operands.any(kFormats[1]));
    }
    Value<8> c = value<8>(operands.special(kFormats[1]));
    bool ordinary = c.is_finite();
    for (int k = 0; k < 4; ++k) ordinary &= a[k].is_finite() && b[k].is_finite();
    const Value<8> got = less_products(c, a, 1, b, 1, 4);
    for (int k = 0; k < 4; ++k) c -= a[k] * b[k];
    if (ordinary) continue;  // on the way to a sum of such numbers steps may overflow
    EXPECT_EQ(packed(got), packed(c));
  }
}

}  // namespace
#endif
