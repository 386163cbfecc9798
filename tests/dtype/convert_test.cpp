// Narrow floats, scalars and conversion of arrays, against tinygrad and NumPy (oracle/make.py).
#include "dtype/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dtype/oracle.h"

namespace {

using aster::dtype::DType;
using aster_test::read_oracle;
namespace dt = aster::dtype;

constexpr DType kNarrow[] = {DType::kFp8E4M3,     DType::kFp8E4M3Fnuz, DType::kFp8E5M2,
                             DType::kFp8E5M2Fnuz, DType::kFloat16,     DType::kBFloat16};

DType named(const std::string& name) {
  DType d;
  EXPECT_TRUE(dt::from_name(&d, name).ok()) << name;
  return d;
}

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }
uint32_t codes_of(DType d) { return 1u << dt::bits(d); }

uint64_t fnv(uint64_t state, uint64_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    state = (state ^ (bytes >> (8 * i) & 0xFF)) * 0x100000001B3u;
  }
  return state;
}
constexpr uint64_t kFnvStart = 0xCBF29CE484222325u;

TEST(Narrow, Fp8CodesEqualTinygrad) {
  const auto rows = read_oracle("fp8.tsv");
  ASSERT_EQ(rows.size(), 257u);
  for (size_t i = 1; i < rows.size(); ++i) {
    for (size_t j = 1; j < rows[i].size(); ++j) {
      const double expected = number(rows[i][j]);
      const double got = dt::decode(named(rows[0][j]), static_cast<uint32_t>(i - 1));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << rows[0][j] << " " << i - 1;
      } else {
        EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(expected))
            << rows[0][j] << " " << i - 1;
      }
    }
  }
}

TEST(Narrow, EncodingOfSpecialsEqualsTinygrad) {
  const auto rows = read_oracle("encode.tsv");
  ASSERT_EQ(rows.size(), 6u * 43u);
  for (const auto& row : rows) {
    EXPECT_EQ(dt::encode(named(row[0]), number(row[1])), std::stoul(row[2]))
        << row[0] << " " << row[1];
  }
}

TEST(Narrow, AllCodesDecodeAndEncodeAsTinygrad) {
  for (const auto& row : read_oracle("digest.tsv")) {
    const DType d = named(row[0]);
    uint64_t decoded = kFnvStart, encoded = kFnvStart;
    for (uint32_t code = 0; code < codes_of(d); ++code) {
      const double v = dt::decode(d, code);
      decoded = fnv(decoded, std::isnan(v) ? 0x7FF8000000000000u : std::bit_cast<uint64_t>(v), 8);
      if (!std::isfinite(v)) continue;
      const double next = code + 1 < codes_of(d) ? dt::decode(d, code + 1) : NAN;
      const double points[] = {v, (v + next) / 2};
      for (int p = 0; p < (std::isfinite(next) ? 2 : 1); ++p) {
        for (const double x : {points[p], std::nextafter(points[p], INFINITY),
                               std::nextafter(points[p], -INFINITY)}) {
          encoded = fnv(encoded, dt::encode(d, x), 2);
        }
      }
    }
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx",
                  static_cast<unsigned long long>(row[1] == "decode" ? decoded : encoded));
    EXPECT_EQ(text, row[2]) << row[0] << " " << row[1];
  }
}

// A second algorithm: the nearest of all values, found by looking at every one.
TEST(Narrow, EncodingIsNearestWithTiesToEven) {
  for (const DType d :
       {DType::kFp8E4M3, DType::kFp8E4M3Fnuz, DType::kFp8E5M2, DType::kFp8E5M2Fnuz}) {
    uint64_t seed = 12345;
    for (int trial = 0; trial < 20000; ++trial) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const double x =
          std::ldexp(static_cast<double>(seed >> 20), static_cast<int>(seed % 37) - 66);
      uint32_t best = 0;
      double distance = INFINITY;
      for (uint32_t code = 0; code < 128; ++code) {
        const double v = dt::decode(d, code);
        if (!std::isfinite(v)) continue;
        const double here = std::fabs(v - x);
        if (here < distance || (here == distance && code % 2 == 0)) {
          distance = here;
          best = code;
        }
      }
      ASSERT_EQ(dt::encode(d, x), best) << dt::name(d) << " " << x << " trial " << trial;
    }
  }
}

TEST(Narrow, EveryCodeSurvives) {
  for (const DType d : kNarrow) {
    for (uint32_t code = 0; code < codes_of(d); ++code) {
      const double v = dt::decode(d, code);
      if (!std::isnan(v)) {
        ASSERT_EQ(dt::encode(d, v), code) << dt::name(d);
      }
      if (std::isnan(v)) {
        ASSERT_TRUE(std::isnan(dt::decode(d, dt::encode(d, v)))) << dt::name(d);
      }
    }
  }
}

// Between two neighbours, and the least bit of a double on either side of it.
TEST(Narrow, DoublesAreRoundedToFloat16AtOnce) {
  for (uint32_t code = 0; code < 0x7c00; ++code) {
    const double low = dt::decode(DType::kFloat16, code);
    const double high = code == 0x7bff ? 65536 : dt::decode(DType::kFloat16, code + 1);
    const double middle = (low + high) / 2;
    for (const double sign : {1.0, -1.0}) {
      const auto encoded = [&](double x) {
        return dt::encode(DType::kFloat16, sign * x) ^ (sign < 0 ? 0x8000 : 0);
      };
      ASSERT_EQ(encoded(middle), code + code % 2) << middle;
      ASSERT_EQ(encoded(std::nextafter(middle, high)), code + 1) << middle;
      ASSERT_EQ(encoded(std::nextafter(middle, low)), code) << middle;
    }
  }
}

// The compiler's own conversions are a third route for the two 16-bit formats.
TEST(Narrow, SixteenBitFormatsByTheirDefinition) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float b = std::bit_cast<float>(code << 16);
    if (!std::isnan(b)) {
      ASSERT_EQ(dt::decode(DType::kBFloat16, code), static_cast<double>(b));
    }
    const int exponent = static_cast<int>(code >> 10 & 31);
    const double fraction = (code & 1023) / 1024.0;
    double h = exponent == 0 ? std::pow(2.0, -14) * fraction
                             : std::pow(2.0, exponent - 15) * (1 + fraction);
    if (exponent == 31) h = (code & 1023) != 0 ? NAN : INFINITY;
    if (code & 0x8000) h = -h;
    if (!std::isnan(h)) {
      ASSERT_EQ(dt::decode(DType::kFloat16, code), h);
    }
  }
}

std::vector<uint8_t> bytes_of(const std::string& hex) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

// Equal, or both NaN.
bool same(DType d, const uint8_t* a, const uint8_t* b) {
  if (std::memcmp(a, b, dt::size(d)) == 0) return true;
  return dt::is_float(d) && std::isnan(dt::load_double(d, a)) && std::isnan(dt::load_double(d, b));
}

TEST(Convert, ArraysOfEveryPairEqualTheOracle) {
  const auto rows = read_oracle("convert.tsv");
  ASSERT_EQ(rows.size(), 17u * 17u);
  for (const auto& row : rows) {
    const DType from = named(row[0]), to = named(row[1]);
    const std::vector<uint8_t> source = bytes_of(row[2]), expected = bytes_of(row[3]);
    const size_t count = source.size() / dt::size(from);
    ASSERT_EQ(expected.size(), count * dt::size(to));
    // At an odd address: nothing may assume alignment.
    std::vector<uint8_t> in(source.size() + 1), out(expected.size() + 1);
    std::memcpy(in.data() + 1, source.data(), source.size());
    ASSERT_EQ(aster_ml_dtype_copy(out.data() + 1, static_cast<int32_t>(to), in.data() + 1,
                                  static_cast<int32_t>(from), count),
              ASTER_ML_OK);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(same(to, out.data() + 1 + i * dt::size(to), expected.data() + i * dt::size(to)))
          << row[0] << " to " << row[1] << ", element " << i << ": "
          << dt::load_double(from, source.data() + i * dt::size(from)) << " gives "
          << dt::load_double(to, out.data() + 1 + i * dt::size(to));
    }
  }
}

TEST(Convert, BoolIsReadByTruth) {
  const uint8_t in[] = {0, 1, 2, 255};
  float out[4];
  dt::convert(out, DType::kFloat32, in, DType::kBool, 4);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[2], 1);
  uint8_t normal[4];
  dt::convert(normal, DType::kBool, in, DType::kBool, 4);
  EXPECT_EQ(normal[3], 1);
}

TEST(Convert, FloatToInt) {
  EXPECT_EQ(dt::float_to_int(NAN), 0);
  EXPECT_EQ(dt::float_to_int(INFINITY), 0);
  EXPECT_EQ(dt::float_to_int(0x1p63), 0);
  EXPECT_EQ(dt::float_to_int(-0x1p63), 0);
  EXPECT_EQ(dt::float_to_int(-1.9), -1);
  EXPECT_EQ(dt::float_to_int(std::nextafter(0x1p63, 0)), INT64_MAX - 1023);
}

TEST(Convert, TruncationOfConstants) {
  EXPECT_EQ(dt::truncate_int(DType::kInt8, 1000), -24);
  EXPECT_EQ(dt::truncate_int(DType::kUInt8, -1), 255);
  EXPECT_EQ(dt::truncate_int(DType::kBool, 7), 1);
  EXPECT_EQ(dt::truncate_int(DType::kUInt32, -1), 4294967295);
  EXPECT_EQ(dt::truncate_float(DType::kFloat32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(dt::truncate_float(DType::kFloat64, 0.1), 0.1);
  EXPECT_EQ(dt::truncate_float(DType::kFloat16, 65520), INFINITY);
  EXPECT_EQ(dt::truncate_float(DType::kFp8E4M3, 1000), 448);
  EXPECT_TRUE(std::isnan(dt::truncate_float(DType::kFp8E4M3, INFINITY)));
}

TEST(Convert, BadInput) {
  float x = 1, y = 2;
  EXPECT_EQ(aster_ml_dtype_copy(&x, 16, &y, 32, 1), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_dtype_copy(&x, 99, &y, 16, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_copy(&x, 16, &y, 56, 1), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(aster_ml_dtype_copy(nullptr, 16, &y, 16, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_copy(&x, 2, &x, 16, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_copy(nullptr, 16, nullptr, 16, 0), ASTER_ML_OK);
  EXPECT_EQ(x, 1);
}

TEST(Scalar, RoundTrips) {
  aster_ml_scalar s;
  ASSERT_EQ(aster_ml_scalar_from_double(&s, ASTER_ML_DTYPE_FLOAT32, 1.5), ASTER_ML_OK);
  EXPECT_EQ(s.dtype, ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(s.zero, 0u);
  EXPECT_EQ(s.value[0], 0x3FC00000u);
  EXPECT_EQ(s.value[1], 0u);
  double d = 0;
  EXPECT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
  EXPECT_EQ(d, 1.5);
  ASSERT_EQ(aster_ml_scalar_from_int64(&s, ASTER_ML_DTYPE_INT8, 1000), ASTER_ML_OK);
  int64_t i = 0;
  EXPECT_EQ(aster_ml_scalar_to_int64(&i, &s), ASTER_ML_OK);
  EXPECT_EQ(i, -24);
  EXPECT_EQ(s.value[0], 0xE8u);
  ASSERT_EQ(aster_ml_scalar_from_uint64(&s, ASTER_ML_DTYPE_UINT64, UINT64_MAX), ASTER_ML_OK);
  uint64_t u = 0;
  EXPECT_EQ(aster_ml_scalar_to_uint64(&u, &s), ASTER_ML_OK);
  EXPECT_EQ(u, UINT64_MAX);
  EXPECT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
  EXPECT_EQ(d, 0x1p64);
  ASSERT_EQ(aster_ml_scalar_from_uint64(&s, ASTER_ML_DTYPE_FLOAT64, UINT64_MAX), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
  EXPECT_EQ(d, 0x1p64);
  ASSERT_EQ(aster_ml_scalar_from_int64(&s, ASTER_ML_DTYPE_WEAKINT, -7), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
  EXPECT_EQ(d, -7);
  ASSERT_EQ(aster_ml_scalar_from_double(&s, ASTER_ML_DTYPE_WEAKFLOAT, 0.1), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
  EXPECT_EQ(d, 0.1);
  const uint16_t half_two = 0x4000;
  ASSERT_EQ(aster_ml_scalar_from_data(&s, ASTER_ML_DTYPE_FLOAT16, &half_two), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scalar_to_int64(&i, &s), ASTER_ML_OK);
  EXPECT_EQ(i, 2);
}

TEST(Scalar, ZerosAreToldApart) {
  aster_ml_scalar plus, minus;
  ASSERT_EQ(aster_ml_scalar_from_double(&plus, ASTER_ML_DTYPE_FLOAT64, 0.0), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_scalar_from_double(&minus, ASTER_ML_DTYPE_FLOAT64, -0.0), ASTER_ML_OK);
  EXPECT_NE(std::memcmp(&plus, &minus, sizeof(plus)), 0);
}

TEST(Scalar, Extremes) {
  aster_ml_scalar s;
  double d = 0;
  const std::tuple<int32_t, double, double> bounds[] = {
      {ASTER_ML_DTYPE_BOOL, 0, 1},
      {ASTER_ML_DTYPE_INT8, -128, 127},
      {ASTER_ML_DTYPE_UINT32, 0, 4294967295.0},
      {ASTER_ML_DTYPE_FLOAT16, -INFINITY, INFINITY},
      {ASTER_ML_DTYPE_FLOAT32, -INFINITY, INFINITY},
      {ASTER_ML_DTYPE_FP8E4M3, -448, 448},
      {ASTER_ML_DTYPE_FP8E5M2, -INFINITY, INFINITY},
      {ASTER_ML_DTYPE_FP8E4M3FNUZ, -240, 240},
      {ASTER_ML_DTYPE_FP8E5M2FNUZ, -57344, 57344},
      {ASTER_ML_DTYPE_INT64, -0x1p63, 0x1p63},
      {ASTER_ML_DTYPE_UINT64, 0, 0x1p64}};
  for (const auto& [code, low, high] : bounds) {
    ASSERT_EQ(aster_ml_scalar_min(&s, code), ASTER_ML_OK);
    ASSERT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
    EXPECT_EQ(d, low) << aster_ml_dtype_name(code);
    ASSERT_EQ(aster_ml_scalar_max(&s, code), ASTER_ML_OK);
    ASSERT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_OK);
    EXPECT_EQ(d, high) << aster_ml_dtype_name(code);
  }
}

TEST(Scalar, BadInput) {
  aster_ml_scalar s;
  std::memset(&s, 0xFF, sizeof(s));
  EXPECT_EQ(aster_ml_scalar_from_double(&s, 99, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(s.dtype, 0);
  EXPECT_EQ(s.value[7], 0u);
  EXPECT_EQ(aster_ml_scalar_from_int64(nullptr, 6, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_scalar_from_data(&s, 6, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_scalar_from_uint64(&s, ASTER_ML_DTYPE_FLT256, 1), ASTER_ML_UNSUPPORTED);
  double d = 7;
  EXPECT_EQ(aster_ml_scalar_to_double(&d, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(d, 0);
  s = {};
  EXPECT_EQ(aster_ml_scalar_to_double(&d, &s), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_scalar_min(&s, 0), ASTER_ML_ARGUMENT);
}

}  // namespace
