// Emitted casts, integer arithmetic, roundings, reductions and threefry, on every build.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "codegen/prelude.h"
#include "codegen/prelude_support.h"
#include "dtype/convert.h"

namespace aster::codegen {
namespace {

using namespace testing;

const DType kInts[] = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                       DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};
const DType kAll[] = {DType::kBool,    DType::kInt8,        DType::kUInt8,       DType::kInt16,
                      DType::kUInt16,  DType::kInt32,       DType::kUInt32,      DType::kInt64,
                      DType::kUInt64,  DType::kFloat16,     DType::kBFloat16,    DType::kFp8E4M3,
                      DType::kFp8E5M2, DType::kFp8E4M3Fnuz, DType::kFp8E5M2Fnuz, DType::kFloat32,
                      DType::kFloat64};

bool is_narrow(DType d) { return dtype::is_narrow_float(d); }

int cast_lanes(int bytes, DType a, DType b) {
  size_t size = std::max(dtype::size(a), dtype::size(b));
  if (is_narrow(a) || is_narrow(b)) size = std::max(size, size_t{4});
  return bytes / static_cast<int>(size);
}
// All pairs at the widest vectors; elsewhere those that the others are made of.
bool is_tried(int bytes, DType a, DType b) {
  const auto basic = [](DType d) {
    return d == DType::kFloat32 || d == DType::kFloat64 || d == DType::kInt32 || d == DType::kInt64;
  };
  return bytes == widths().back() || basic(a) || basic(b);
}
std::string cast_name(DType a, DType b) {
  return std::string(short_name(a)) + "_to_" + short_name(b);
}
std::string spelled(const char* fn, DType d) { return std::string(fn) + "_" + short_name(d); }

struct IntFn {
  const char* name;
  MathFn fn;
};
const IntFn kIntFns[] = {{"div", MathFn::kDiv},           {"mod", MathFn::kMod},
                         {"floordiv", MathFn::kFloorDiv}, {"floormod", MathFn::kFloorMod},
                         {"shl", MathFn::kShl},           {"shr", MathFn::kShr},
                         {"max", MathFn::kMax},           {"min", MathFn::kMin}};
const IntFn kRounds[] = {{"floor", MathFn::kFloor},
                         {"ceil", MathFn::kCeil},
                         {"trunc", MathFn::kTrunc},
                         {"round", MathFn::kRound},
                         {"abs", MathFn::kAbs}};
const IntFn kReduces[] = {{"hsum", MathFn::kHorizontalSum},
                          {"hprod", MathFn::kHorizontalProd},
                          {"hmax", MathFn::kHorizontalMax},
                          {"hmin", MathFn::kHorizontalMin}};

const std::vector<Build>& builds() {
  static const std::vector<Build> all = build_all([](Program& p) {
    for (DType a : kAll) {
      for (DType b : kAll) {
        if (a != b && is_tried(p.bytes(), a, b)) {
          p.cast(cast_name(a, b), a, b, cast_lanes(p.bytes(), a, b));
        }
      }
    }
    for (DType d : kInts) {
      const int lanes = p.bytes() / static_cast<int>(dtype::size(d));
      for (const IntFn& f : kIntFns) {
        p.function(spelled(f.name, d), f.fn, d, 2, lanes);
        p.function(spelled(f.name, d) + "_1", f.fn, d, 2, 1);
      }
      for (const IntFn& f : kReduces) p.function(spelled(f.name, d), f.fn, d, 1, lanes);
      p.function(spelled("select", d), MathFn::kSelect, d, 3, lanes);
    }
    for (DType d : {DType::kFloat32, DType::kFloat64}) {
      const int lanes = p.bytes() / static_cast<int>(dtype::size(d));
      for (const IntFn& f : kRounds) p.function(spelled(f.name, d), f.fn, d, 1, lanes);
      for (const IntFn& f : kReduces) p.function(spelled(f.name, d), f.fn, d, 1, lanes);
      p.function(spelled("max", d), MathFn::kMax, d, 2, lanes);
      p.function(spelled("min", d), MathFn::kMin, d, 2, lanes);
      p.function(spelled("fma", d), MathFn::kFma, d, 3, lanes);
    }
    p.function("threefry", MathFn::kThreefry, DType::kUInt64, 2, p.bytes() / 8);
    p.function("threefry_1", MathFn::kThreefry, DType::kUInt64, 2, 1);
    // Fewer lanes than a vector of 16 bytes has.
    p.cast("f16_to_f32_1", DType::kFloat16, DType::kFloat32, 1);
    p.cast("f32_to_f16_2", DType::kFloat32, DType::kFloat16, 2);
    p.cast("f64_to_u8_1", DType::kFloat64, DType::kUInt8, 1);
    p.cast("f32_to_i64_2", DType::kFloat32, DType::kInt64, 2);
    p.function("round_1", MathFn::kRound, DType::kFloat32, 1, 1);
    p.function("hsum_4", MathFn::kHorizontalSum, DType::kInt8, 1, 4);
    p.function("hmax_2", MathFn::kHorizontalMax, DType::kFloat32, 1, 2);
  });
  return all;
}

// Where some cast rounds, overflows or changes its rule.
const double kEdges[] = {0.0,
                         -0.0,
                         0.5,
                         1.5,
                         2.5,
                         -0.5,
                         -1.0,
                         -1.5,
                         126.5,
                         127,
                         128,
                         255,
                         256,
                         257.9,
                         -128,
                         -129,
                         32767,
                         32768,
                         65504,
                         65519.9,
                         65520,
                         65535,
                         65536,
                         1e5,
                         1e-5,
                         6e-8,
                         2.9e-8,
                         0x1p-24,
                         0x1p-25,
                         0x1.000002p-25,
                         0x1p-9,
                         0x1p-10,
                         0x1.8p-9,
                         448,
                         464,
                         464.1,
                         480,
                         57344,
                         61440,
                         61439,
                         240,
                         248,
                         247.9,
                         2147483647,
                         2147483648.0,
                         -2147483648.0,
                         -2147483649.0,
                         4294967295.0,
                         4294967296.0,
                         6442450944.0,
                         0x1p52,
                         0x1p53,
                         0x1p62,
                         0x1.fffffep62,
                         0x1p63,
                         -0x1p63,
                         -0x1.000002p63,
                         0x1p64,
                         1e30,
                         -1e30,
                         3.4e38,
                         1e300,
                         std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()};

// Values of a dtype as bytes: all of 8 and 16 bits, else edges and random bits.
std::vector<unsigned char> values(DType d) {
  std::vector<unsigned char> out;
  const auto put = [&](uint64_t bits) {
    const size_t at = out.size();
    out.resize(at + dtype::size(d));
    std::memcpy(out.data() + at, &bits, dtype::size(d));
  };
  std::mt19937_64 random(3);
  if (d == DType::kBool) {
    for (uint64_t i = 0; i < 128; ++i) put(i & 1);
  } else if (dtype::size(d) <= 2) {
    for (uint64_t i = 0; i < uint64_t{1} << dtype::bits(d); ++i) put(i);
  } else {
    for (double e : kEdges) {
      if (d == DType::kFloat64) put(std::bit_cast<uint64_t>(e));
      if (d == DType::kFloat32) put(std::bit_cast<uint32_t>(static_cast<float>(e)));
      if (dtype::is_int(d) && std::fabs(e) < 0x1p63)
        put(static_cast<uint64_t>(static_cast<int64_t>(e)));
      if (d == DType::kUInt64) put(~uint64_t{0});
    }
    for (int i = 0; i < 4000; ++i) put(random());
    for (int i = 0; i < 4000; ++i) put(random() >> (random() % 64));
    std::uniform_real_distribution<double> exponent(-30, 70);
    for (int i = 0; i < 8000; ++i) {
      const double x = std::exp2(exponent(random)) * (i % 2 ? 1 : -1);
      // Few bits now and then, to meet ties.
      const double y =
          i % 3 == 0 ? std::ldexp(std::round(std::ldexp(x, 5 - std::ilogb(x))), std::ilogb(x) - 5)
                     : x;
      if (d == DType::kFloat64) put(std::bit_cast<uint64_t>(y));
      if (d == DType::kFloat32) put(std::bit_cast<uint32_t>(static_cast<float>(y)));
    }
  }
  while (out.size() / dtype::size(d) % 64 != 0) put(0);
  return out;
}

bool is_nan(DType d, const void* at) {
  return dtype::is_float(d) && std::isnan(dtype::load_double(d, at));
}

// Against the library's own conversion of arrays, which the dtype tests hold against the oracle.
TEST(PreludeCast, EveryPairAgreesWithTheInterpreter) {
  for (DType a : kAll) {
    const std::vector<unsigned char> x = values(a);
    const size_t n = x.size() / dtype::size(a);
    for (DType b : kAll) {
      if (a == b) continue;
      std::vector<unsigned char> want(n * dtype::size(b));
      dtype::convert(want.data(), b, x.data(), a, n);
      for (const Build& build : builds()) {
        if (!is_tried(build.bytes, a, b)) continue;
        std::vector<unsigned char> got(want.size());
        build[cast_name(a, b)](x.data(), nullptr, nullptr, got.data(), static_cast<long>(n));
        if (got == want) continue;
        for (size_t i = 0; i < n; ++i) {
          const void *w = want.data() + i * dtype::size(b), *g = got.data() + i * dtype::size(b);
          if (is_nan(b, w) && is_nan(b, g)) continue;
          ASSERT_EQ(std::memcmp(w, g, dtype::size(b)), 0)
              << build.name << ": " << cast_name(a, b) << " of "
              << dtype::load_double(a, x.data() + i * dtype::size(a)) << " gives "
              << dtype::load_double(b, g) << ", not " << dtype::load_double(b, w);
        }
      }
    }
  }
}

TEST(PreludeCast, FewLanes) {
  const float x[] = {1.5f, -0.0f, 65520, 1e-7f};
  const double d[] = {258.7, -1, 1e30, 3};
  for (const Build& b : builds()) {
    uint16_t h[4] = {};
    b["f32_to_f16_2"](x, nullptr, nullptr, h, 4);
    EXPECT_EQ(h[0], 0x3e00);
    EXPECT_EQ(h[1], 0x8000);
    EXPECT_EQ(h[2], 0x7c00);
    EXPECT_EQ(h[3], 2);  // 1e-7 is 1.68 * 2^-24
    float y[4] = {};
    b["f16_to_f32_1"](h, nullptr, nullptr, y, 4);
    EXPECT_EQ(y[0], 1.5f);
    EXPECT_TRUE(std::signbit(y[1]));
    uint8_t u[4] = {};
    b["f64_to_u8_1"](d, nullptr, nullptr, u, 4);
    EXPECT_EQ(u[0], 2);
    EXPECT_EQ(u[1], 255);
    EXPECT_EQ(u[2], 0);
    int64_t i[4] = {};
    b["f32_to_i64_2"](x, nullptr, nullptr, i, 4);
    EXPECT_EQ(i[2], 65520);
    b["round_1"](x, nullptr, nullptr, y, 4);
    EXPECT_EQ(y[0], 2.0f);
    EXPECT_TRUE(std::signbit(y[1]));
    const int8_t s[] = {100, 27, 1, 1};
    int8_t sum = 0;
    b["hsum_4"](s, nullptr, nullptr, &sum, 4);
    EXPECT_EQ(sum, static_cast<int8_t>(129));
    float most[2] = {};
    b["hmax_2"](x, nullptr, nullptr, most, 4);
    EXPECT_EQ(most[0], 1.5f);
    EXPECT_EQ(most[1], 65520);
  }
}

// Integer arithmetic in 128 bits, wrapped to the type.
__extension__ typedef __int128 Wide;
Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
template <typename T>
T reference(MathFn fn, T a, T b) {
  const Wide x = a, y = b;
  constexpr int kBits = 8 * sizeof(T);
  const bool past = y < 0 || y >= kBits;
  switch (fn) {
    case MathFn::kDiv:
      return y == 0 ? T{0} : static_cast<T>(x / y);
    case MathFn::kMod:
      return y == 0 ? a : static_cast<T>(x % y);
    case MathFn::kFloorDiv:
      return y == 0 ? T{0} : static_cast<T>(floor_div(x, y));
    case MathFn::kFloorMod:
      return y == 0 ? a : static_cast<T>(x - y * floor_div(x, y));
    case MathFn::kShl:
      return past ? T{0} : static_cast<T>(x * (Wide{1} << static_cast<int>(y)));
    case MathFn::kShr:
      return past ? static_cast<T>(x < 0 ? -1 : 0)
                  : static_cast<T>(floor_div(x, Wide{1} << static_cast<int>(y)));
    case MathFn::kMax:
      return x < y ? b : a;
    default:
      return y < x ? b : a;
  }
}

template <typename T>
void check_integers(DType d) {
  std::vector<T> a, b;
  const T edges[] = {0,
                     1,
                     static_cast<T>(-1),
                     2,
                     3,
                     7,
                     static_cast<T>(-7),
                     std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::max(),
                     static_cast<T>(sizeof(T) * 8),
                     static_cast<T>(sizeof(T) * 8 - 1)};
  for (T x : edges) {
    for (T y : edges) a.push_back(x), b.push_back(y);
  }
  std::mt19937_64 random(9);
  for (int i = 0; i < 4000; ++i) {
    a.push_back(static_cast<T>(random() >> (random() % 64)));
    b.push_back(static_cast<T>(random() >> (random() % 64)));
  }
  while (a.size() % 64 != 0) a.push_back(1), b.push_back(1);
  std::vector<T> y(a.size());
  const long n = static_cast<long>(a.size());
  for (const Build& build : builds()) {
    for (const IntFn& f : kIntFns) {
      for (const char* suffix : {"", "_1"}) {
        build[spelled(f.name, d) + suffix](a.data(), b.data(), nullptr, y.data(), n);
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(y[i], reference(f.fn, a[i], b[i]))
              << build.name << ": " << spelled(f.name, d) << suffix << " of " << +a[i] << ", "
              << +b[i];
        }
      }
    }
    std::vector<T> mask(a.size());
    for (size_t i = 0; i < a.size(); ++i) mask[i] = i % 3 == 0 ? static_cast<T>(-1) : T{0};
    build[spelled("select", d)](mask.data(), a.data(), b.data(), y.data(), n);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(y[i], i % 3 == 0 ? a[i] : b[i]);
  }
}

TEST(PreludeInteger, DivisionAndShiftsNeverTrap) {
  check_integers<int8_t>(DType::kInt8);
  check_integers<uint8_t>(DType::kUInt8);
  check_integers<int16_t>(DType::kInt16);
  check_integers<uint16_t>(DType::kUInt16);
  check_integers<int32_t>(DType::kInt32);
  check_integers<uint32_t>(DType::kUInt32);
  check_integers<int64_t>(DType::kInt64);
  check_integers<uint64_t>(DType::kUInt64);
}

// Integers wrap.
template <typename T>
T combine(bool product, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(product ? x * y : x + y);
  } else {
    return product ? a * b : a + b;
  }
}

// Halves joined until one element is left.
template <typename T>
T tree(MathFn fn, std::vector<T> x) {
  while (x.size() > 1) {
    const size_t half = x.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      const T a = x[i], b = x[i + half];
      x[i] = static_cast<T>(fn == MathFn::kHorizontalSum    ? combine(false, a, b)
                            : fn == MathFn::kHorizontalProd ? combine(true, a, b)
                            : fn == MathFn::kHorizontalMax  ? std::max(a, b)
                                                            : std::min(a, b));
    }
    x.resize(half);
  }
  return x[0];
}

template <typename T>
void check_reductions(DType d) {
  std::mt19937 random(1);
  std::vector<T> x(256);
  for (T& v : x)
    v = static_cast<T>(static_cast<int>(random() % 200) - (std::is_signed_v<T> ? 100 : 0));
  if (std::is_floating_point_v<T>) {
    for (T& v : x) v = static_cast<T>(v / T{7});
  }
  for (const Build& b : builds()) {
    const size_t lanes = static_cast<size_t>(b.bytes) / sizeof(T);
    for (const IntFn& f : kReduces) {
      std::vector<T> y(x.size() / lanes);
      b[spelled(f.name, d)](x.data(), nullptr, nullptr, y.data(), static_cast<long>(x.size()));
      for (size_t i = 0; i < y.size(); ++i) {
        const auto at = x.begin() + static_cast<ptrdiff_t>(i * lanes);
        EXPECT_EQ(y[i], tree(f.fn, std::vector<T>(at, at + static_cast<ptrdiff_t>(lanes))))
            << b.name << " " << f.name;
      }
    }
  }
}

TEST(PreludeReduce, FixedTreeOverTheLanes) {
  check_reductions<int8_t>(DType::kInt8);
  check_reductions<uint16_t>(DType::kUInt16);
  check_reductions<int32_t>(DType::kInt32);
  check_reductions<uint64_t>(DType::kUInt64);
  check_reductions<float>(DType::kFloat32);
  check_reductions<double>(DType::kFloat64);
}

template <typename T>
void check_rounding(DType d) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> x = {0,
                      static_cast<T>(-0.0),
                      T(0.5),
                      T(-0.5),
                      T(1.5),
                      T(2.5),
                      T(-2.5),
                      T(0.49999997),
                      inf,
                      -inf,
                      nan,
                      T(8388607.5),
                      T(-8388607.5),
                      T(16777216),
                      T(4503599627370495.5),
                      T(1e30),
                      T(-0.1),
                      T(1e-40)};
  std::mt19937 random(2);
  std::uniform_real_distribution<T> some(-100, 100);
  while (x.size() < 1024) x.push_back(some(random));
  std::vector<T> y(x.size()), z(x.rbegin(), x.rend()), zeros(x.size(), T(0.25));
  const long n = static_cast<long>(x.size());
  const auto equal = [](T a, T b) {
    return (a == b && std::signbit(a) == std::signbit(b)) || (a != a && b != b);
  };
  for (const Build& b : builds()) {
    for (const IntFn& f : kRounds) {
      b[spelled(f.name, d)](x.data(), nullptr, nullptr, y.data(), n);
      for (size_t i = 0; i < x.size(); ++i) {
        const T want = f.fn == MathFn::kFloor   ? std::floor(x[i])
                       : f.fn == MathFn::kCeil  ? std::ceil(x[i])
                       : f.fn == MathFn::kTrunc ? std::trunc(x[i])
                       : f.fn == MathFn::kRound ? std::nearbyint(x[i])
                                                : std::fabs(x[i]);
        ASSERT_TRUE(equal(y[i], want))
            << b.name << " " << f.name << " of " << x[i] << " is " << y[i];
      }
    }
    for (bool max : {true, false}) {
      b[spelled(max ? "max" : "min", d)](x.data(), z.data(), nullptr, y.data(), n);
      for (size_t i = 0; i < x.size(); ++i) {
        const bool unordered = std::isnan(x[i]) || std::isnan(z[i]);
        const T want = unordered ? nan
                       : max     ? (x[i] < z[i] ? z[i] : x[i])
                                 : (z[i] < x[i] ? z[i] : x[i]);
        ASSERT_TRUE(equal(y[i], want))
            << b.name << ", " << x[i] << " and " << z[i] << " give " << y[i];
      }
    }
    b[spelled("fma", d)](x.data(), z.data(), zeros.data(), y.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      const T twice = static_cast<T>(x[i] * z[i]) + zeros[i];
      ASSERT_TRUE(equal(y[i], b.bytes >= 32 ? std::fma(x[i], z[i], zeros[i]) : twice)) << b.name;
    }
  }
}

TEST(PreludeRound, MatchesTheCLibrary) {
  check_rounding<float>(DType::kFloat32);
  check_rounding<double>(DType::kFloat64);
}

// Known answers of the generator's authors (Random123, kat_vectors).
TEST(PreludeThreefry, KnownAnswers) {
  const uint64_t counter[8] = {0, ~uint64_t{0}, 0x85a308d3243f6a88, 0, 0, 0, 0, 0};
  const uint64_t key[8] = {0, ~uint64_t{0}, 0x0370734413198a2e, 0, 0, 0, 0, 0};
  for (const Build& b : builds()) {
    for (const char* name : {"threefry", "threefry_1"}) {
      uint64_t y[8] = {};
      b[name](counter, key, nullptr, y, 8);
      EXPECT_EQ(y[0], 0x99ba4efe6b200159u) << b.name;
      EXPECT_EQ(y[1], 0xbb002be71cb996fcu) << b.name;
      EXPECT_EQ(y[2], 0x483df7a0c4923a9cu) << b.name;
      EXPECT_EQ(y[7], y[0]) << b.name;
    }
  }
}

TEST(PreludeRequest, ReadsNamesOutOfText) {
  PreludeRequest by_text(process_heap()), by_hand(process_heap());
  EXPECT_EQ(by_text.add_used("void f(vf32x8 x) { vf32x8u y = am_exp_f32x8(x) + am_i8_to_f32x8(a); "
                             "am_floordiv_i64x1(am_ex, 1); }"),
            Status{static_cast<int32_t>(Code::kNOT_FOUND)});
  PreludeRequest text(process_heap());
  EXPECT_EQ(
      text.add_used("vf32x8 = am_exp_f32x8(am_bf16_to_f32x8(value)) am_floordiv_i64x1(x, v1)"),
      kOk);
  EXPECT_EQ(by_hand.add_type(DType::kFloat32, 8), kOk);
  EXPECT_EQ(by_hand.add(MathFn::kExp, DType::kFloat32, 8), kOk);
  EXPECT_EQ(by_hand.add_cast(DType::kBFloat16, DType::kFloat32, 8), kOk);
  EXPECT_EQ(by_hand.add(MathFn::kFloorDiv, DType::kInt64, 1), kOk);
  ASSERT_EQ(text.uses().size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(text.uses()[i], by_hand.uses()[i]);
}

TEST(PreludeRequest, RefusesWhatItDoesNotHave) {
  PreludeRequest request(process_heap());
  const auto code = [](Code c) { return Status{static_cast<int32_t>(c)}; };
  EXPECT_EQ(request.add(MathFn::kExp, DType::kInt32, 4), code(Code::kDTYPE));
  EXPECT_EQ(request.add(MathFn::kDiv, DType::kFloat32, 4), code(Code::kDTYPE));
  EXPECT_EQ(request.add(MathFn::kExp, DType::kFloat16, 4), code(Code::kDTYPE));
  EXPECT_EQ(request.add(MathFn::kExp, DType::kFloat32, 3), code(Code::kRANGE));
  EXPECT_EQ(request.add(MathFn::kExp, DType::kFloat32, 128), code(Code::kRANGE));
  EXPECT_EQ(request.add_cast(DType::kWeakInt, DType::kFloat32, 4), code(Code::kDTYPE));
  EXPECT_EQ(request.add_type(DType::kNone, 4), code(Code::kDTYPE));
  EXPECT_EQ(request.uses().size(), 0u);
  EXPECT_EQ(request.add(MathFn::kExp, DType::kFloat32, 16), kOk);
  Text out(process_heap());
  EXPECT_EQ(emit_prelude(out, request, target_of(32)), code(Code::kRANGE));
}

TEST(PreludeRequest, EmitsEachThingOnce) {
  PreludeRequest request(process_heap());
  EXPECT_EQ(request.add(MathFn::kTanh, DType::kFloat32, 8), kOk);
  EXPECT_EQ(request.add(MathFn::kExp, DType::kFloat32, 8), kOk);
  EXPECT_EQ(request.add(MathFn::kTanh, DType::kFloat32, 8), kOk);
  Text out(process_heap());
  ASSERT_EQ(emit_prelude(out, request, target_of(32)), kOk);
  const std::string text(out.view());
  for (const char* once : {"vf32x8 am_tanh_f32x8(", "vf32x8 am_exp_f32x8(",
                           "vf32x8 am_exp_reduce_f32x8(", " vf32x8 __attribute"}) {
    const size_t first = text.find(once);
    EXPECT_NE(first, std::string::npos) << once;
    EXPECT_EQ(text.find(once, first + 1), std::string::npos) << once;
  }
  EXPECT_EQ(text.find("am_sin"), std::string::npos);
}

struct Failing {
  long left;
};
TEST(PreludeRequest, EveryFailedAllocationIsAStatus) {
  for (long allowed = 0;; ++allowed) {
    Failing state = {allowed};
    aster_ml_allocator table = {};
    table.struct_size = sizeof(table);
    table.self = &state;
    table.allocate = [](void* self, size_t bytes, size_t alignment) -> void* {
      if (static_cast<Failing*>(self)->left-- <= 0) return nullptr;
      return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    table.release = [](void*, void* pointer, size_t, size_t) { free(pointer); };
    Heap heap(&table);
    Status status;
    {
      PreludeRequest request(heap);
      Text out(heap);
      status = request.add_used("am_pow_f32x8 am_f64_to_e4m3x4 am_hsum_f32x8 vf32x8");
      if (status.ok()) status = emit_prelude(out, request, target_of(32));
    }
    EXPECT_EQ(heap.bytes_now(), 0u);
    if (status.ok()) {
      EXPECT_GT(allowed, 5);
      break;
    }
    ASSERT_EQ(status, Status{static_cast<int32_t>(Code::kMEMORY)}) << "after " << allowed;
  }
}

}  // namespace
}  // namespace aster::codegen
