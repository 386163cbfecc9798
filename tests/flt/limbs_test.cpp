// Quotients against products of limbs, where digits are extreme.
#include "flt/arithmetic.h"

#include <gtest/gtest.h>

#include <random>

namespace aster::flt {
namespace {

// q d for q of one limb and d of two.
void times(Limb* out, Limb q, Limb d1, Limb d0) {
  const Wide low = Wide{q} * d0, high = Wide{q} * d1 + (low >> 64);
  out[0] = static_cast<Limb>(low);
  out[1] = static_cast<Limb>(high);
  out[2] = static_cast<Limb>(high >> 64);
}

TEST(FltLimbs, QuotientsAreRoundedDown) {
  std::mt19937_64 random(51);
  const Limb corners[] = {0,
                          1,
                          2,
                          ~Limb{0},
                          ~Limb{0} - 1,
                          Limb{1} << 63,
                          (Limb{1} << 63) + 1,
                          (Limb{1} << 63) - 1,
                          Limb{1} << 32};
  const auto draw = [&] {
    return random() % 3 != 0 ? corners[random() % std::size(corners)] : Limb{random()};
  };
  int compared = 0;
  for (int turn = 0; turn < 300000; ++turn) {
    const Limb d1 = draw() | Limb{1} << 63, d0 = draw();
    const Divisor divisor(d1, d0);
    EXPECT_TRUE(divisor.is(d1, d0));
    Limb u[3] = {draw(), draw(), draw()};
    if (random() % 2 == 0) {  // a multiple, or one less, or more
      times(u, draw(), d1, d0);
      const Limb less = random() % 3;
      const Limb before = u[0];
      u[0] -= less;
      if (u[0] > before && u[1]-- == 0) --u[2];
    }
    const bool smaller = u[2] < d1 || (u[2] == d1 && u[1] < d0);
    ASSERT_EQ(divisor.exceeds(u[2], u[1]), smaller);
    if (!smaller) continue;
    ++compared;
    const Limb q = divisor.quotient(u[2], u[1], u[0]);
    // u - q d is at least 0 and less than d.
    Limb product[3], rest[3];
    times(product, q, d1, d0);
    ASSERT_GE(compare<3>(u, product), 0) << turn;
    subtract<3>(rest, u, product, false);
    const Limb d[3] = {d0, d1, 0};
    ASSERT_LT(compare<3>(rest, d), 0) << turn;
  }
  EXPECT_GT(compared, 50000);
}

// What is left is the divisor less one, whose lower limbs are ones: digits that the highest limbs
// tell are one too many.
template <int N>
void divide_back(std::mt19937_64& random) {
  Limbs<N> d, q, found;
  for (int i = 0; i < N; ++i) {
    d[i] = random() % 4 == 0 ? Limb{random()} : ~Limb{0};
    q[i] = random() % 4 == 0 ? ~Limb{0} : random() % 4 == 0 ? 0 : Limb{random()};
  }
  d[N - 1] = (random() % 2 == 0 ? 0 : Limb{random()}) | Limb{1} << 63;
  if (random() % 2 == 0) d[N - 2] = 0;
  Limbs<2 * N> rest, more = {};
  multiply<N>(rest, q, d);
  for (int i = 0; i < N; ++i) more[i] = d[i];
  add<2 * N>(rest, rest, more);
  Limbs<2 * N> one = {1};
  subtract<2 * N>(rest, rest, one, false);
  divide<N>(found, rest, d);
  EXPECT_EQ(compare<N>(found, q), 0);
  subtract<N>(more, d, one, false);
  EXPECT_EQ(compare<2 * N>(rest, more), 0);
}

TEST(FltLimbs, DigitsThatAreOneTooManyAreFound) {
  std::mt19937_64 random(52);
  for (int turn = 0; turn < 20000; ++turn) {
    divide_back<4>(random);
    divide_back<8>(random);
  }
}

}  // namespace
}  // namespace aster::flt
