// Values of sticky dtypes against what exact integers say.
#include "dtype/sticky.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtype/convert.h"

namespace aster::dtype {
namespace {

constexpr DType kSticky[] = {DType::kTbb8, DType::kTbb16, DType::kTbb32, DType::kTbb64};

TEST(StickyValues, LeastPatternIsTheError) {
  const int64_t errors[] = {-128, -32768, INT32_MIN, INT64_MIN};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sticky_error(kSticky[i]), errors[i]);
    EXPECT_EQ(min_int(kSticky[i]), errors[i] + 1);
    EXPECT_EQ(max_int(kSticky[i]), static_cast<uint64_t>(-(errors[i] + 1)));
    EXPECT_FALSE(is_int(kSticky[i]) || is_float(kSticky[i]) || is_weak(kSticky[i]));
  }
}

TEST(StickyValues, MeetsItselfAndIntegerConstantsAlone) {
  for (DType d : kSticky) {
    EXPECT_EQ(least_upper(d, d), d);
    EXPECT_EQ(least_upper(d, DType::kWeakInt), d);
    EXPECT_EQ(least_upper(DType::kWeakInt, d), d);
    for (int code = 1; code < kDTypeLimit; ++code) {
      const DType other = static_cast<DType>(code);
      if (info(other).kind == Kind::kUnknown || other == d || other == DType::kWeakInt) continue;
      EXPECT_EQ(least_upper(d, other), DType::kNone) << name(d) << " " << name(other);
      EXPECT_EQ(least_upper(other, d), DType::kNone) << name(d) << " " << name(other);
    }
  }
  int32_t out = -1;
  EXPECT_EQ(aster_ml_dtype_promote(&out, ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_INT8), ASTER_ML_DTYPE);
  EXPECT_EQ(out, 0);
  EXPECT_EQ(aster_ml_dtype_promote_float(&out, ASTER_ML_DTYPE_TBB32), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_dtype_promote(&out, ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_WEAKINT), ASTER_ML_OK);
  EXPECT_EQ(out, ASTER_ML_DTYPE_TBB8);
}

TEST(StickyValues, FloatsAreComparedBeforeTheyAreTruncated) {
  struct Row {
    DType to;
    double value;
    int64_t expected;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  const Row rows[] = {
      {DType::kTbb8, 127.0, 127},
      {DType::kTbb8, 127.5, -128},
      {DType::kTbb8, -127.0, -127},
      {DType::kTbb8, -127.5, -128},
      {DType::kTbb8, -0.9, 0},
      {DType::kTbb8, 126.9, 126},
      {DType::kTbb8, nan, -128},
      {DType::kTbb8, inf, -128},
      {DType::kTbb8, -inf, -128},
      {DType::kTbb32, 2147483647.0, INT32_MAX},
      {DType::kTbb32, 2147483647.5, INT32_MIN},
      {DType::kTbb32, 0x1p31, INT32_MIN},
      {DType::kTbb64, 0x1p63, INT64_MIN},
      {DType::kTbb64, -0x1p63, INT64_MIN},
      {DType::kTbb64, 0x1.fffffffffffffp62, INT64_MAX - 1023},
      {DType::kTbb64, -0x1.fffffffffffffp62, -(INT64_MAX - 1023)},
  };
  for (const Row& row : rows) {
    int64_t at = 0;
    store_double(row.to, &at, row.value);
    EXPECT_EQ(load_int(row.to, &at), row.expected) << name(row.to) << " " << row.value;
  }
}

// Every pattern of tbb8, through every dtype and back.
TEST(StickyValues, ConvertsToAndFromEveryDType) {
  for (int code = 1; code <= static_cast<int>(DType::kFloat64); ++code) {
    const DType other = static_cast<DType>(code);
    for (int pattern = -128; pattern < 128; ++pattern) {
      const int8_t x = static_cast<int8_t>(pattern);
      int64_t there = 0, number = pattern;
      convert(&there, other, &x, DType::kTbb8, 1);
      if (is_float(other)) {
        double plain = 0;
        int64_t expected = 0;
        plain = pattern == -128 ? std::numeric_limits<double>::quiet_NaN() : pattern;
        store_double(other, &expected, plain);
        EXPECT_EQ(std::isnan(load_double(other, &there)), pattern == -128) << name(other);
        if (pattern != -128) {
          EXPECT_EQ(there, expected) << name(other) << pattern;
        }
      } else {
        EXPECT_EQ(load_int(other, &there), truncate_int(other, number)) << name(other) << pattern;
      }
    }
  }
  for (DType from : kSticky) {
    for (DType to : kSticky) {
      for (const int64_t value : {sticky_error(from), min_int(from), int64_t{-128}, int64_t{-127},
                                  int64_t{0}, int64_t{127}, sticky_most(from)}) {
        int64_t x = 0, y = 0;
        store_int(stored_as(from), &x, value);
        convert(&y, to, &x, from, 1);
        const bool error =
            value == sticky_error(from) || value > sticky_most(to) || value < -sticky_most(to);
        EXPECT_EQ(load_int(to, &y), error ? sticky_error(to) : value)
            << name(from) << " " << name(to) << " " << value;
      }
    }
    const uint64_t large = UINT64_MAX;
    int64_t y = 0;
    convert(&y, from, &large, DType::kUInt64, 1);
    EXPECT_EQ(load_int(from, &y), sticky_error(from));
  }
}

// Every pattern of every dtype of 8 and 16 bits, to every sticky dtype.
TEST(StickyValues, EveryNarrowPatternConverts) {
  int converted = 0;
  for (int code = 1; code <= static_cast<int>(DType::kFloat64); ++code) {
    const DType from = static_cast<DType>(code);
    if (info(from).kind == Kind::kUnknown || bits(from) == 0 || bits(from) > 16) continue;
    const uint32_t patterns = is_bool(from) ? 2 : 1u << bits(from);
    for (DType to : kSticky) {
      const auto most = static_cast<double>(sticky_most(to));
      for (uint32_t pattern = 0; pattern < patterns; ++pattern) {
        const auto x = static_cast<uint16_t>(pattern);
        int64_t y = 0;
        convert(&y, to, &x, from, 1);
        // Doubles hold all of them; NaN is in no bounds.
        const double value = load_double(from, &x);
        const bool fits = std::abs(value) <= most && std::abs(value) < 0x1p63;
        ASSERT_EQ(load_int(to, &y), fits ? static_cast<int64_t>(value) : sticky_error(to))
            << name(from) << " " << name(to) << " " << value;
        ++converted;
      }
    }
  }
  EXPECT_EQ(converted, 4 * (2 + 2 * 256 + 2 * 65536 + 4 * 256 + 2 * 65536));
}

TEST(StickyValues, Scalars) {
  aster_ml_scalar x;
  double real = 0;
  int64_t word = 0;
  ASSERT_EQ(aster_ml_scalar_from_int64(&x, ASTER_ML_DTYPE_TBB8, -128), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_scalar_to_double(&real, &x), ASTER_ML_OK);
  EXPECT_TRUE(std::isnan(real));
  ASSERT_EQ(aster_ml_scalar_to_int64(&word, &x), ASTER_ML_OK);
  EXPECT_EQ(word, -128);
  ASSERT_EQ(aster_ml_scalar_from_double(&x, ASTER_ML_DTYPE_TBB16, 32767.0), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_scalar_to_double(&real, &x), ASTER_ML_OK);
  EXPECT_EQ(real, 32767);
  ASSERT_EQ(aster_ml_scalar_min(&x, ASTER_ML_DTYPE_TBB32), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_scalar_to_int64(&word, &x), ASTER_ML_OK);
  EXPECT_EQ(word, -INT32_MAX);
}

}  // namespace
}  // namespace aster::dtype
