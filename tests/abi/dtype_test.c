/* Dtype codes never change: pinned here, not taken from the header. Scalars cross by pointer. */
#include <aster_ml/dtype.h>
#include <string.h>

#include "expect.h"

static const struct {
  int32_t code;
  const char *name;
  size_t bytes;
} kDtypes[] = {
    {1, "bool", 1},         {2, "int8", 1},     {3, "uint8", 1},        {4, "int16", 2},
    {5, "uint16", 2},       {6, "int32", 4},    {7, "uint32", 4},       {8, "int64", 8},
    {9, "uint64", 8},       {10, "fp8e4m3", 1}, {11, "fp8e4m3fnuz", 1}, {12, "fp8e5m2", 1},
    {13, "fp8e5m2fnuz", 1}, {14, "float16", 2}, {15, "bfloat16", 2},    {16, "float32", 4},
    {17, "float64", 8},
};

static void test_codes(void) {
  for (size_t i = 0; i < sizeof kDtypes / sizeof *kDtypes; i++) {
    int32_t code = -1;
    EXPECT(aster_ml_dtype_from_name(&code, kDtypes[i].name) == ASTER_ML_OK);
    EXPECT(code == kDtypes[i].code);
    EXPECT(strcmp(aster_ml_dtype_name(kDtypes[i].code), kDtypes[i].name) == 0);
    EXPECT(aster_ml_dtype_size(kDtypes[i].code) == kDtypes[i].bytes);
    EXPECT(aster_ml_dtype_bits(kDtypes[i].code) == 8 * kDtypes[i].bytes || kDtypes[i].code == 1);
  }
  EXPECT(strcmp(aster_ml_dtype_name(32), "weakint") == 0);
  EXPECT(strcmp(aster_ml_dtype_name(33), "weakfloat") == 0);
  EXPECT(aster_ml_dtype_name(99) == NULL);
  EXPECT(aster_ml_dtype_size(99) == 0);
}

static void test_failures_zero_outputs(void) {
  int32_t code = 77;
  EXPECT(aster_ml_dtype_from_name(&code, "int7") == ASTER_ML_NOT_FOUND);
  EXPECT(code == 0);
  code = 77;
  EXPECT(aster_ml_dtype_promote(&code, 16, 99) == ASTER_ML_ARGUMENT);
  EXPECT(code == 0);
  EXPECT(aster_ml_dtype_from_name(NULL, "int8") == ASTER_ML_ARGUMENT);
  aster_ml_scalar scalar;
  memset(&scalar, 0xff, sizeof scalar);
  EXPECT(aster_ml_scalar_from_double(&scalar, 56, 1.0) == ASTER_ML_UNSUPPORTED);
  aster_ml_scalar zero = {0};
  EXPECT(memcmp(&scalar, &zero, sizeof scalar) == 0);
}

static void test_scalars(void) {
  _Static_assert(sizeof(aster_ml_scalar) == 72, "a dtype, four zero bytes, 64 bytes of value");
  _Static_assert(offsetof(aster_ml_scalar, value) == 8, "the value is aligned");
  aster_ml_scalar scalar;
  EXPECT(aster_ml_scalar_from_double(&scalar, ASTER_ML_DTYPE_FLOAT32, 0.1) == ASTER_ML_OK);
  const float tenth = 0.1f;
  EXPECT(memcmp(scalar.value, &tenth, sizeof tenth) == 0);
  EXPECT(aster_ml_scalar_from_int64(&scalar, ASTER_ML_DTYPE_INT8, 300) == ASTER_ML_OK);
  int64_t wrapped = 0;
  EXPECT(aster_ml_scalar_to_int64(&wrapped, &scalar) == ASTER_ML_OK);
  EXPECT(wrapped == 300 - 256);
}

int main(void) {
  test_codes();
  test_failures_zero_outputs();
  test_scalars();
  return expect_failures;
}
