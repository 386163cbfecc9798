// How near functions are: within 2.5 ULP for all arguments, against the C library in double
// precision and MPFR, special cases included; the same bits from every compiler at a width.
#include <random>

#include "codegen/functions_support.h"
#ifdef ASTER_TEST_MPFR
#include <mpfr.h>
#endif

namespace aster::codegen::program::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Unary {
  Op op;
  double (*reference)(double);
#ifdef ASTER_TEST_MPFR
  int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
#define EXACT(f) , f
#else
#define EXACT(f)
#endif
  double low, high;  // interesting f64 arguments
};
const Unary kUnaries[] = {
    {Op::kExp, std::exp EXACT(mpfr_exp), -750, 715},
    {Op::kExp2, std::exp2 EXACT(mpfr_exp2), -1080, 1030},
    {Op::kLog, std::log EXACT(mpfr_log), 0.25, 4},
    {Op::kLog2, std::log2 EXACT(mpfr_log2), 0.25, 4},
    {Op::kSin, std::sin EXACT(mpfr_sin), -10, 10},
    {Op::kCos, std::cos EXACT(mpfr_cos), -10, 10},
    {Op::kTanh, std::tanh EXACT(mpfr_tanh), -21, 21},
    {Op::kErf, std::erf EXACT(mpfr_erf), -6, 6},
    {Op::kSqrt, std::sqrt EXACT(mpfr_sqrt), 0, 100},
};

// The worst of a build, where it was, and its bits against those of the build before.
class Worst {
 public:
  explicit Worst(const Sample& c) : case_(c) {}
  void add(double error, double at) {
    if (error > worst_) worst_ = error, at_ = at;
  }
  void end(const Built& build) {
    EXPECT_LE(worst_, 2.5) << case_.name() << ", " << build.name() << ", at " << at_;
    if (std::getenv("ASTER_ML_TEST_REPORT") != nullptr)
      std::printf("%s %s: %.3f ULP at %a\n", case_.name().c_str(), build.name().c_str(), worst_,
                  at_);
    worst_ = 0;
  }

 private:
  Sample case_;
  double worst_ = 0, at_ = 0;
};

// Builds whose multiply-adds are as those of another give the same bits (functions_exact_test.cpp).
const Built* first_like(size_t b) {
  for (size_t i = 0; i < b; ++i) {
    if (builds()[i]->fma() == builds()[b]->fma()) return builds()[i].get();
  }
  return nullptr;
}

// Distance of `got` from `want` in units of f32's last place there; beyond the largest number the
// spacing goes on.
double ulps(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(want) && static_cast<double>(got) == want) return 0;
  const double limit = 0x1p128;
  const double w = std::fmax(-limit, std::fmin(limit, want));
  const double g = std::fmax(-limit, std::fmin(limit, static_cast<double>(got)));
  if (std::isinf(want) && std::isfinite(got)) return 1e9;
  if (w == 0 && g == 0) return std::signbit(want) == std::signbit(got) ? 0 : 1e9;
  const int exponent = std::max(std::ilogb(w), -126);
  return std::fabs(g - w) / std::ldexp(1.0, exponent - 23);
}

// Every Nth f32 argument with ASTER_ML_EXHAUSTIVE=N, else every 8191st; and all of interest.
void each_block(const std::function<void(const std::vector<float>&)>& use) {
  const char* exhaustive = getenv("ASTER_ML_EXHAUSTIVE");
  const int given = exhaustive != nullptr ? atoi(exhaustive) : 0;
  const uint64_t step = given > 0 ? static_cast<uint64_t>(given) : 8191;
  std::vector<float> x = {0.0f,
                          -0.0f,
                          kInf,
                          -kInf,
                          kNan,
                          1,
                          -1,
                          0x1p-149f,
                          -0x1p-149f,
                          0x1p-126f,
                          88.72283f,
                          88.72284f,
                          -103.97f,
                          -103.98f,
                          -87.33f,
                          128,
                          -149,
                          -150,
                          -150.5f,
                          1e30f,
                          3.4e38f,
                          0x1.921fb6p+0f,
                          0x1.921fb6p+1f,
                          0x1.2d97c8p+2f,
                          32768,
                          32769};
  for (int k = -160; k <= 130; ++k) x.push_back(static_cast<float>(k));
  for (int k = -148; k <= 127; ++k) x.push_back(std::ldexp(1.0f, k));
  while (x.size() % 64 != 0) x.push_back(0.5f);
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (x.size() >= 1 << 18 && x.size() % 64 == 0) {
      use(x);
      x.clear();
    }
  }
  while (x.size() % 64 != 0) x.push_back(0.5f);
  use(x);
}

TEST(FunctionsAccuracy, Floats) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  for (const Unary& u : kUnaries) {
    const Sample c = of_real(u.op, kF32);
    std::vector<Worst> worst(builds().size(), Worst(c));
    each_block([&](const std::vector<float>& x) {
      std::vector<double> want(x.size());
      for (size_t i = 0; i < x.size(); ++i) want[i] = u.reference(static_cast<double>(x[i]));
      for (size_t b = 0; b < builds().size(); ++b) {
        const std::vector<float> y = (*builds()[b])(c, x);
        for (size_t i = 0; i < x.size(); ++i)
          worst[b].add(ulps(y[i], want[i]), static_cast<double>(x[i]));
      }
    });
    for (size_t b = 0; b < builds().size(); ++b) worst[b].end(*builds()[b]);
  }
}

// What is not positive has the bits that every argument has.
TEST(FunctionsAccuracy, ExponentialsBelowTheGreatest) {
  const Sample exp = of_real(Op::kExp, kF32), down = of_real(Op::kExpDown, kF32);
  const Sample exp64 = of_real(Op::kExp, kF64), down64 = of_real(Op::kExpDown, kF64);
  const auto built = build({exp, down, exp64, down64});
  if (built.empty()) GTEST_SKIP() << "no C compiler";
  std::mt19937_64 bits(17);
  std::uniform_real_distribution<double> some(-760, 0), small(-1, 0);
  each_block([&](std::vector<float> x) {
    std::vector<double> wide;
    for (float& value : x) {
      value = std::isnan(value) ? kNan : -std::fabs(value);
      const double values[] = {static_cast<double>(value), some(bits), small(bits), -0.0};
      wide.push_back(values[wide.size() % 4]);
    }
    for (const auto& one : built) {
      const std::vector<float> a = (*one)(exp, x), b = (*one)(down, x);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << one->name() << " at " << x[i];
        if (!std::isnan(a[i])) {
          ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
              << one->name() << " at " << x[i];
        }
      }
      const std::vector<double> c = (*one)(exp64, wide), d = (*one)(down64, wide);
      for (size_t i = 0; i < wide.size(); ++i) {
        if (!std::isnan(wide[i])) {
          ASSERT_EQ(std::bit_cast<uint64_t>(c[i]), std::bit_cast<uint64_t>(d[i]))
              << one->name() << " at " << wide[i];
        }
      }
    }
  });
}

std::vector<std::pair<float, float>> pow_pairs() {
  const float edges[] = {0.0f,
                         -0.0f,
                         1,
                         -1,
                         2,
                         -2,
                         3,
                         -3,
                         0.5f,
                         -0.5f,
                         2.5f,
                         -2.5f,
                         kInf,
                         -kInf,
                         kNan,
                         0x1p-149f,
                         -0x1p-149f,
                         0x1p-126f,
                         3.4e38f,
                         -3.4e38f,
                         16777215,
                         16777216,
                         -16777215,
                         1e30f,
                         1 + 0x1p-23f,
                         1 - 0x1p-24f,
                         -1 - 0x1p-23f,
                         149,
                         150,
                         -149};
  std::vector<std::pair<float, float>> pairs;
  for (float a : edges) {
    for (float b : edges) pairs.emplace_back(a, b);
  }
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-60, 60), plain(-4, 4), near(0.99f, 1.01f);
  for (int i = 0; i < 200000; ++i) {
    const float a = i % 3 == 0 ? near(random) : std::exp2(exponent(random));
    // Results spread over the whole range, over- and underflow included.
    const float span = 160 / std::fmax(std::fabs(std::log2(a)), 1e-6f);
    pairs.emplace_back(a, i % 4 == 0 ? plain(random) : span * plain(random) / 4);
  }
  for (int i = 0; i < 50000; ++i) {
    pairs.emplace_back(std::bit_cast<float>(static_cast<uint32_t>(random())),
                       std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  while (pairs.size() % 64 != 0) pairs.emplace_back(2.0f, 3.0f);
  return pairs;
}

TEST(FunctionsAccuracy, FloatPow) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  const Sample pow = of_real(Op::kPow, kF32, 2);
  std::vector<float> x, y;
  for (auto [a, b] : pow_pairs()) x.push_back(a), y.push_back(b);
  Worst worst(pow);
  for (const auto& build : builds()) {
    const std::vector<float> z = (*build)(pow, x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
      const double e = ulps(z[i], want);
      worst.add(e, static_cast<double>(x[i]));
      ASSERT_LE(e, 2.5) << build->name() << ": " << x[i] << " ^ " << y[i] << " = " << z[i]
                        << ", not " << want;
    }
    worst.end(*build);
  }
}

#ifdef ASTER_TEST_MPFR
// The same for f64 with the correctly rounded value and its distance from the exact one as
// reference.
class Exact {
 public:
  Exact() {
    for (auto& n : numbers_) mpfr_init2(n, 160);
  }
  ~Exact() {
    for (auto& n : numbers_) mpfr_clear(n);
  }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  double unary(const Unary& u, double x, double got) {
    mpfr_set_d(numbers_[0], x, MPFR_RNDN);
    u.exact(numbers_[2], numbers_[0], MPFR_RNDN);
    return distance(got);
  }
  double power(double x, double y, double got) {
    mpfr_set_d(numbers_[0], x, MPFR_RNDN);
    mpfr_set_d(numbers_[1], y, MPFR_RNDN);
    mpfr_pow(numbers_[2], numbers_[0], numbers_[1], MPFR_RNDN);
    return distance(got);
  }
  double value() { return mpfr_get_d(numbers_[2], MPFR_RNDN); }

 private:
  double distance(double got) {
    mpfr_t& want = numbers_[2];
    if (mpfr_nan_p(want) || std::isnan(got)) return mpfr_nan_p(want) && std::isnan(got) ? 0 : 1e9;
    const double w = mpfr_get_d(want, MPFR_RNDN);
    if (mpfr_inf_p(want) || std::isinf(got) || std::isinf(w)) {
      return got == w || std::fabs(got) == std::numeric_limits<double>::max() ||
                     std::fabs(w) == std::numeric_limits<double>::max()
                 ? 0
                 : 1e9;
    }
    if (w == 0 && got == 0) return std::signbit(w) == std::signbit(got) ? 0 : 1e9;
    const int exponent = w == 0 ? -1022 : std::max(std::ilogb(w), -1022);
    mpfr_sub_d(numbers_[3], want, got, MPFR_RNDN);
    return std::ldexp(std::fabs(mpfr_get_d(numbers_[3], MPFR_RNDN)), 52 - exponent);
  }
  mpfr_t numbers_[4];
};

constexpr double kEdges[] = {0.0,
                             -0.0,
                             1,
                             -1,
                             0.5,
                             2,
                             -2,
                             3,
                             1e300,
                             -1e300,
                             1e-300,
                             5e-324,
                             -5e-324,
                             0x1p-1022,
                             709.78,
                             709.79,
                             -745.13,
                             -745.14,
                             -708.5,
                             1024,
                             -1074,
                             -1075,
                             -1075.5,
                             20,
                             22,
                             5.9,
                             6.1,
                             0x1.921fb54442d18p+0,
                             0x1.921fb54442d18p+1,
                             0x1.6ac5b262ca1ffp+849,
                             1048576,
                             1048577,
                             3e5,
                             0x1.7499cb3eba2d6p+16,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::max()};

std::vector<double> doubles(double low, double high) {
  std::vector<double> x(std::begin(kEdges), std::end(kEdges));
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> inside(low, high), exponent(-60, 12), far(-1, 1024);
  for (int k = -1074; k < 1024; k += 7) x.push_back(std::ldexp(1.0, k));
  for (int i = 0; i < 6000; ++i) x.push_back(inside(random));
  for (int i = 0; i < 3000; ++i) x.push_back((i % 2 ? 1 : -1) * std::exp2(exponent(random)));
  for (int i = 0; i < 1000; ++i) x.push_back(std::exp2(far(random)));
  for (int i = 1; i < 1000; ++i)
    x.push_back(i * 0x1.921fb54442d18p+0);  // close to zeros of sin, cos
  for (int i = 0; i < 1000; ++i) x.push_back(1 + inside(random) * 0x1p-30);
  while (x.size() % 64 != 0) x.push_back(0.5);
  return x;
}

TEST(FunctionsAccuracy, Doubles) {
  Exact exact;
  for (const Unary& u : kUnaries) {
    const Sample c = of_real(u.op, kF64);
    const std::vector<double> x = doubles(u.low, u.high);
    Worst worst(c);
    for (size_t b = 0; b < builds().size(); ++b) {
      if (first_like(b) != nullptr) continue;
      const std::vector<double> y = (*builds()[b])(c, x);
      for (size_t i = 0; i < x.size(); ++i) worst.add(exact.unary(u, x[i], y[i]), x[i]);
      worst.end(*builds()[b]);
    }
  }
}

TEST(FunctionsAccuracy, DoublePow) {
  const Sample pow = of_real(Op::kPow, kF64, 2);
  std::vector<double> x, y;
  for (double a : kEdges) {
    for (double b : kEdges) x.push_back(a), y.push_back(b);
  }
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-500, 500), plain(-1, 1), near(0.999, 1.001);
  for (int i = 0; i < 8000; ++i) {
    const double a =
        i % 3 == 0 ? near(random) : std::exp2(i % 3 == 1 ? exponent(random) : plain(random));
    x.push_back(a);
    y.push_back(plain(random) *
                (i % 4 == 0 ? 4 : 1080 / std::fmax(std::fabs(std::log2(a)), 1e-12)));
  }
  while (x.size() % 64 != 0) x.push_back(2), y.push_back(3);
  Exact exact;
  Worst worst(pow);
  for (size_t b = 0; b < builds().size(); ++b) {
    if (first_like(b) != nullptr) continue;
    const std::vector<double> z = (*builds()[b])(pow, x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = exact.power(x[i], y[i], z[i]);
      worst.add(e, x[i]);
      ASSERT_LE(e, 2.5) << builds()[b]->name() << ": " << x[i] << " ^ " << y[i] << " = " << z[i]
                        << ", not " << exact.value();
    }
    worst.end(*builds()[b]);
  }
}
#endif

}  // namespace
}  // namespace aster::codegen::program::tests
