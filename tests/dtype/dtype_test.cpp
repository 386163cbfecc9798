// The table of dtypes and promotion, against tinygrad's answers (oracle/make.py).
#include "dtype/dtype.h"

#include <gtest/gtest.h>

#include <set>

#include "dtype/oracle.h"

namespace {

using aster::dtype::DType;
using aster_test::read_oracle;
namespace dt = aster::dtype;

DType named(const std::string& name) {
  DType d;
  EXPECT_TRUE(dt::from_name(&d, name).ok()) << name;
  return d;
}

TEST(DType, PromotionEqualsTinygradOnAllPairs) {
  const auto rows = read_oracle("promotion.tsv");
  ASSERT_EQ(rows.size(), 20u);
  for (size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 20u);
    for (size_t j = 1; j < rows[i].size(); ++j) {
      const DType a = named(rows[i][0]), b = named(rows[0][j]);
      EXPECT_STREQ(dt::name(dt::least_upper(a, b)), rows[i][j].c_str())
          << rows[i][0] << " and " << rows[0][j];
    }
  }
}

TEST(DType, LosslessCastsEqualTinygradOnAllPairs) {
  const auto rows = read_oracle("lossless.tsv");
  ASSERT_EQ(rows.size(), 20u);
  for (size_t i = 1; i < rows.size(); ++i) {
    for (size_t j = 1; j < rows[i].size(); ++j) {
      EXPECT_EQ(dt::can_lossless_cast(named(rows[i][0]), named(rows[0][j])), rows[i][j] == "1")
          << rows[i][0] << " to " << rows[0][j];
    }
  }
}

TEST(DType, PromotionIsALattice) {
  const auto rows = read_oracle("unary.tsv");
  for (const auto& x : rows) {
    const DType a = named(x[0]);
    EXPECT_EQ(dt::least_upper(a, a), a);
    for (const auto& y : rows) {
      const DType b = named(y[0]), joined = dt::least_upper(a, b);
      EXPECT_EQ(dt::least_upper(b, a), joined);
      EXPECT_EQ(dt::least_upper(joined, a), joined);
    }
  }
}

TEST(DType, UnaryAnswersEqualTinygrad) {
  const auto rows = read_oracle("unary.tsv");
  ASSERT_EQ(rows.size(), 19u);
  for (const auto& row : rows) {
    const DType d = named(row[0]);
    EXPECT_STREQ(dt::name(dt::least_upper_float(d, {})), row[1].c_str()) << row[0];
    EXPECT_STREQ(dt::name(dt::sum_acc(d)), row[2].c_str()) << row[0];
    EXPECT_STREQ(dt::name(dt::strong(d, {})), row[3].c_str()) << row[0];
  }
}

TEST(DType, DefaultsStandForWeakDTypes) {
  const dt::Defaults wide{DType::kFloat64, DType::kInt8};
  EXPECT_EQ(dt::strong(DType::kWeakFloat, wide), DType::kFloat64);
  EXPECT_EQ(dt::strong(DType::kWeakInt, wide), DType::kInt8);
  EXPECT_EQ(dt::strong(DType::kInt32, wide), DType::kInt32);
  EXPECT_EQ(dt::least_upper_float(DType::kUInt8, wide), DType::kFloat64);
  EXPECT_EQ(dt::least_upper_float(DType::kFloat16, wide), DType::kFloat16);
  EXPECT_EQ(dt::least_upper_float(DType::kWeakInt, wide), DType::kWeakFloat);
}

TEST(DType, CodesAreThoseOfTheAbi) {
  // Pinned: these numbers are written into files.
  const std::pair<int32_t, const char*> codes[] = {
      {1, "bool"},         {2, "int8"},     {3, "uint8"},        {4, "int16"},
      {5, "uint16"},       {6, "int32"},    {7, "uint32"},       {8, "int64"},
      {9, "uint64"},       {10, "fp8e4m3"}, {11, "fp8e4m3fnuz"}, {12, "fp8e5m2"},
      {13, "fp8e5m2fnuz"}, {14, "float16"}, {15, "bfloat16"},    {16, "float32"},
      {17, "float64"},     {32, "weakint"}, {33, "weakfloat"},   {48, "tbb8"},
      {49, "tbb16"},       {50, "tbb32"},   {51, "tbb64"},       {56, "flt256"},
      {57, "flt512"}};
  std::set<int32_t> known = {0};
  for (const auto& [code, name] : codes) {
    known.insert(code);
    EXPECT_STREQ(aster_ml_dtype_name(code), name);
    int32_t found = -1;
    const int32_t status = aster_ml_dtype_from_name(&found, name);
    EXPECT_EQ(status, ASTER_ML_OK) << name;
    EXPECT_EQ(found, code) << name;
  }
  for (int32_t code = -300; code < 300; ++code) {
    EXPECT_EQ(aster_ml_dtype_name(code) != nullptr, known.count(code) == 1) << code;
  }
}

TEST(DType, SizesAndKinds) {
  EXPECT_EQ(aster_ml_dtype_size(ASTER_ML_DTYPE_BOOL), 1u);
  EXPECT_EQ(aster_ml_dtype_size(ASTER_ML_DTYPE_BFLOAT16), 2u);
  EXPECT_EQ(aster_ml_dtype_size(ASTER_ML_DTYPE_FLOAT64), 8u);
  EXPECT_EQ(aster_ml_dtype_size(ASTER_ML_DTYPE_WEAKINT), 0u);
  EXPECT_EQ(aster_ml_dtype_size(ASTER_ML_DTYPE_FLT512), 64u);
  EXPECT_EQ(aster_ml_dtype_bits(ASTER_ML_DTYPE_INT16), 16u);
  EXPECT_EQ(aster_ml_dtype_size(77), 0u);
  EXPECT_EQ(aster_ml_dtype_size(-5), 0u);
  int floats = 0, ints = 0, unsigneds = 0, weaks = 0, fp8s = 0;
  for (int32_t code = -10; code < 100; ++code) {
    floats += aster_ml_dtype_is_float(code);
    ints += aster_ml_dtype_is_int(code);
    unsigneds += aster_ml_dtype_is_unsigned(code);
    weaks += aster_ml_dtype_is_weak(code);
    fp8s += aster_ml_dtype_is_fp8(code);
  }
  EXPECT_EQ(floats, 11);
  EXPECT_EQ(ints, 9);
  EXPECT_EQ(unsigneds, 4);
  EXPECT_EQ(weaks, 2);
  EXPECT_EQ(fp8s, 4);
  for (int32_t code = 0; code < 100; ++code) {  // alignment is told by a mask
    const size_t size = aster_ml_dtype_size(code);
    EXPECT_EQ(size & (size - 1), 0u) << code;
  }
}

TEST(DType, Aliases) {
  const std::pair<const char*, int32_t> aliases[] = {
      {"half", 14},  {"float", 16}, {"double", 17}, {"char", 2}, {"uchar", 3}, {"short", 4},
      {"ushort", 5}, {"int", 6},    {"uint", 7},    {"long", 8}, {"ulong", 9}};
  for (const auto& [name, code] : aliases) {
    int32_t found = 0;
    EXPECT_EQ(aster_ml_dtype_from_name(&found, name), ASTER_ML_OK);
    EXPECT_EQ(found, code) << name;
  }
}

TEST(DType, BadInput) {
  int32_t out = 9;
  for (const char* name : {"", "none", "void", "floot", "float32 ", "Float32", "complex64"}) {
    EXPECT_EQ(aster_ml_dtype_from_name(&out, name), ASTER_ML_NOT_FOUND) << name;
    EXPECT_EQ(out, 0);
  }
  EXPECT_EQ(aster_ml_dtype_from_name(&out, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_from_name(nullptr, "int8"), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_promote(&out, 6, 99), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_promote(&out, 0, 6), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_promote(&out, 16, 56), ASTER_ML_DTYPE);
  aster_ml_error error;
  ASSERT_EQ(aster_ml_error_last(&error), ASTER_ML_OK);
  EXPECT_NE(std::string(error.message).find("flt256"), std::string::npos) << error.message;
  EXPECT_STREQ(error.function, "aster_ml_dtype_promote");
  EXPECT_STREQ(error.module, "dtype");
  EXPECT_EQ(aster_ml_dtype_promote_float(&out, -1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_sum_accumulator(nullptr, 6), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_strong(&out, 34), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dtype_is_lossless_cast(6, 99), 0);
  EXPECT_EQ(aster_ml_dtype_is_lossless_cast(99, 99), 0);
  DType d;
  EXPECT_EQ(dt::from_storage_code(&d, 32), ASTER_ML_DTYPE);
}

TEST(DType, IntegerBounds) {
  EXPECT_EQ(dt::min_int(DType::kInt8), -128);
  EXPECT_EQ(dt::max_int(DType::kInt8), 127u);
  EXPECT_EQ(dt::max_int(DType::kUInt16), 65535u);
  EXPECT_EQ(dt::min_int(DType::kUInt16), 0);
  EXPECT_EQ(dt::min_int(DType::kInt64), INT64_MIN);
  EXPECT_EQ(dt::max_int(DType::kInt64), static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(dt::max_int(DType::kUInt64), UINT64_MAX);
  EXPECT_EQ(dt::min_int(DType::kWeakInt), INT64_MIN);
  EXPECT_EQ(dt::max_int(DType::kBool), 1u);
}

}  // namespace
