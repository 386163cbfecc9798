// The emitted functions: accuracy against the C library in double precision and MPFR, special
// cases, and the same bits from gcc and clang.
#include "codegen/prelude.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "codegen/prelude_support.h"
#ifdef ASTER_TEST_MPFR
#include <mpfr.h>
#endif

namespace aster::codegen {
namespace {

using namespace testing;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Unary {
  const char* name;
  MathFn fn;
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
    {"exp", MathFn::kExp, std::exp EXACT(mpfr_exp), -750, 715},
    {"exp2", MathFn::kExp2, std::exp2 EXACT(mpfr_exp2), -1080, 1030},
    {"log", MathFn::kLog, std::log EXACT(mpfr_log), 0.25, 4},
    {"log2", MathFn::kLog2, std::log2 EXACT(mpfr_log2), 0.25, 4},
    {"sin", MathFn::kSin, std::sin EXACT(mpfr_sin), -10, 10},
    {"cos", MathFn::kCos, std::cos EXACT(mpfr_cos), -10, 10},
    {"tanh", MathFn::kTanh, std::tanh EXACT(mpfr_tanh), -21, 21},
    {"erf", MathFn::kErf, std::erf EXACT(mpfr_erf), -6, 6},
    {"sqrt", MathFn::kSqrt, std::sqrt EXACT(mpfr_sqrt), 0, 100},
};

// Built once: everything that this file calls.
const std::vector<Build>& builds() {
  static const std::vector<Build> all = build_all([](Program& p) {
    for (DType d : {DType::kFloat32, DType::kFloat64}) {
      const int lanes = p.bytes() / static_cast<int>(dtype::size(d));
      for (const Unary& u : kUnaries)
        p.function(std::string(u.name) + short_name(d), u.fn, d, 1, lanes);
      p.function(std::string("pow") + short_name(d), MathFn::kPow, d, 2, lanes);
    }
    p.function("exp_1", MathFn::kExp, DType::kFloat32, 1, 1);
    p.function("exp_2", MathFn::kExp, DType::kFloat32, 1, 2);
    p.function("pow_1", MathFn::kPow, DType::kFloat32, 2, 1);
    p.function("sin_1", MathFn::kSin, DType::kFloat64, 1, 1);
  });
  return all;
}

template <typename T>
std::vector<T> call(const Build& b, const std::string& name, const std::vector<T>& x,
                    const std::vector<T>& y = {}) {
  std::vector<T> out(x.size());
  if (Loop f = b[name]) f(x.data(), y.data(), nullptr, out.data(), static_cast<long>(x.size()));
  return out;
}

// Equal as bits, any NaN like any other.
template <typename T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(a) && std::isnan(b));
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

template <typename T>
void expect_same_bits(const Build& a, const std::vector<T>& x, const Build& b,
                      const std::vector<T>& y, const char* what) {
  if (a.bytes != b.bytes) return;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(same(x[i], y[i])) << what << ": " << a.name << " " << x[i] << ", " << b.name << " "
                                  << y[i] << " at " << i;
  }
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
  while (x.size() % 16 != 0) x.push_back(0.5f);
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (x.size() >= 1 << 18 && x.size() % 16 == 0) {
      use(x);
      x.clear();
    }
  }
  while (x.size() % 16 != 0) x.push_back(0.5f);
  use(x);
}

TEST(Prelude, FloatFunctionsAreAccurate) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  for (const Unary& u : kUnaries) {
    std::vector<double> worst(builds().size(), 0.0);
    std::vector<float> where(builds().size(), 0.0f);
    each_block([&](const std::vector<float>& x) {
      std::vector<double> want(x.size());
      for (size_t i = 0; i < x.size(); ++i) want[i] = u.reference(static_cast<double>(x[i]));
      std::vector<float> before;
      for (size_t b = 0; b < builds().size(); ++b) {
        const std::vector<float> y = call(builds()[b], std::string(u.name) + "f32", x);
        for (size_t i = 0; i < x.size(); ++i) {
          const double e = ulps(y[i], want[i]);
          if (e > worst[b]) worst[b] = e, where[b] = x[i];
        }
        if (b > 0) expect_same_bits(builds()[b - 1], before, builds()[b], y, u.name);
        before = y;
      }
    });
    for (size_t b = 0; b < builds().size(); ++b) {
      EXPECT_LE(worst[b], 2.5) << u.name << ", " << builds()[b].name << ", at " << where[b];
      if (getenv("ASTER_ML_TEST_REPORT")) {
        printf("%s f32 %s: %.3f ULP at %a\n", u.name, builds()[b].name.c_str(), worst[b],
               static_cast<double>(where[b]));
      }
    }
  }
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
  while (pairs.size() % 16 != 0) pairs.emplace_back(2.0f, 3.0f);
  return pairs;
}

TEST(Prelude, FloatPowIsAccurate) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  std::vector<float> x, y, before;
  for (auto [a, b] : pow_pairs()) x.push_back(a), y.push_back(b);
  for (size_t b = 0; b < builds().size(); ++b) {
    const std::vector<float> z = call(builds()[b], "powf32", x, y);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
      const double e = ulps(z[i], want);
      worst = std::fmax(worst, e);
      ASSERT_LE(e, 2.5) << builds()[b].name << ": " << x[i] << " ^ " << y[i] << " = " << z[i]
                        << ", not " << want;
    }
    if (getenv("ASTER_ML_TEST_REPORT"))
      printf("pow f32 %s: %.3f ULP\n", builds()[b].name.c_str(), worst);
    if (b > 0) expect_same_bits(builds()[b - 1], before, builds()[b], z, "pow");
    before = z;
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
  while (x.size() % 8 != 0) x.push_back(0.5);
  return x;
}

TEST(Prelude, DoubleFunctionsAreAccurate) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  Exact exact;
  for (const Unary& u : kUnaries) {
    const std::vector<double> x = doubles(u.low, u.high);
    std::vector<double> before;
    for (size_t b = 0; b < builds().size(); ++b) {
      const std::vector<double> y = call(builds()[b], std::string(u.name) + "f64", x);
      double worst = 0, where = 0;
      const bool told = b > 0 && builds()[b].bytes == builds()[b - 1].bytes;  // by equal bits
      for (size_t i = 0; i < x.size() && !told; ++i) {
        const double e = exact.unary(u, x[i], y[i]);
        if (e > worst) worst = e, where = x[i];
      }
      EXPECT_LE(worst, 2.5) << u.name << ", " << builds()[b].name << ", at " << where;
      if (getenv("ASTER_ML_TEST_REPORT") && !told) {
        printf("%s f64 %s: %.3f ULP at %a\n", u.name, builds()[b].name.c_str(), worst, where);
      }
      if (b > 0) expect_same_bits(builds()[b - 1], before, builds()[b], y, u.name);
      before = y;
    }
  }
}

TEST(Prelude, DoublePowIsAccurate) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  std::vector<double> x, y, before;
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
  while (x.size() % 8 != 0) x.push_back(2), y.push_back(3);
  Exact exact;
  for (size_t b = 0; b < builds().size(); ++b) {
    const std::vector<double> z = call(builds()[b], "powf64", x, y);
    const bool told = b > 0 && builds()[b].bytes == builds()[b - 1].bytes;
    double worst = 0;
    for (size_t i = 0; i < x.size() && !told; ++i) {
      const double e = exact.power(x[i], y[i], z[i]);
      worst = std::fmax(worst, e);
      ASSERT_LE(e, 2.5) << builds()[b].name << ": " << x[i] << " ^ " << y[i] << " = " << z[i]
                        << ", not " << exact.value();
    }
    if (getenv("ASTER_ML_TEST_REPORT") && !told) {
      printf("pow f64 %s: %.3f ULP\n", builds()[b].name.c_str(), worst);
    }
    if (b > 0) expect_same_bits(builds()[b - 1], before, builds()[b], z, "pow");
    before = z;
  }
}
#endif

TEST(Prelude, EveryNumberOfLanesGivesTheSameBits) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1048573) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  x.resize(x.size() / 16 * 16);
  std::vector<float> y(x.rbegin(), x.rend());
  std::vector<double> d(x.begin(), x.end());
  for (const Build& b : builds()) {
    const auto wide = call(b, "expf32", x), one = call(b, "exp_1", x), two = call(b, "exp_2", x);
    const auto power = call(b, "powf32", x, y), power1 = call(b, "pow_1", x, y);
    const auto sines = call(b, "sinf64", d), sines1 = call(b, "sin_1", d);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same(wide[i], one[i]) && same(wide[i], two[i])) << b.name << ", " << x[i];
      ASSERT_TRUE(same(power[i], power1[i])) << b.name << ", " << x[i] << " ^ " << y[i];
      ASSERT_TRUE(same(sines[i], sines1[i])) << b.name << ", " << d[i];
    }
  }
}

}  // namespace
}  // namespace aster::codegen
