/* Reductions as kernels: every operation on every dtype, any length and any strides, against loops
 * over the elements one by one; moved, on many threads, after their context. */
#include <math.h>

#include "made_kernel.h"

static aster_ml_context context;
static int32_t get(instance *k, int32_t form, const char *operation, int32_t dtype) {
  const int32_t status = aster_ml_kernel_get_reduction(k, &context, form, operation, dtype);
  if (status != 0) {
    aster_ml_error error;
    aster_ml_error_last(&error);
    fprintf(stderr, "%s of %s: %s\n", operation, aster_ml_dtype_name(dtype), error.message);
    expect_failures++;
  }
  return status;
}

static double number(const char *at, int32_t dtype) {
  double value = 0;
  aster_ml_dtype_copy(&value, ASTER_ML_DTYPE_FLOAT64, at, dtype, 1);
  return value;
}
static void put(char *at, int32_t dtype, double value) {
  aster_ml_dtype_copy(at, dtype, &value, ASTER_ML_DTYPE_FLOAT64, 1);
}
static int is_floating(int32_t dtype) {
  double half = 0.5;
  char element[8] = {0};
  put(element, dtype, half);
  return number(element, dtype) == 0.5;
}

static const char *const kOperations[] = {"sum", "mean", "prod",   "max",   "min",
                                          "any", "all",  "argmax", "argmin"};
enum { kOperationCount = 9 };

/* Elements one by one; values are small integers, which every dtype here holds. */
static double wanted(const char *operation, const char *src, int32_t dtype, ptrdiff_t step,
                     size_t length) {
  double sum = 0, product = 1, most = -INFINITY, least = INFINITY;
  size_t true_ones = 0, most_at = 0, least_at = 0;
  for (size_t i = 0; i < length; i++) {
    const double x = number(src + (ptrdiff_t)i * step, dtype);
    sum += x;
    product *= x;
    true_ones += x != 0;
    if (x > most) most = x, most_at = i;
    if (x < least) least = x, least_at = i;
  }
  if (strcmp(operation, "sum") == 0) return sum;
  if (strcmp(operation, "mean") == 0) return sum / (double)length;
  if (strcmp(operation, "prod") == 0) return product;
  if (strcmp(operation, "max") == 0) return most;
  if (strcmp(operation, "min") == 0) return least;
  if (strcmp(operation, "any") == 0) return true_ones != 0;
  if (strcmp(operation, "all") == 0) return true_ones == length;
  return (double)(strcmp(operation, "argmax") == 0 ? most_at : least_at);
}

static int32_t result_dtype(const char *operation, int32_t dtype) {
  const int boolean = dtype == ASTER_ML_DTYPE_BOOL;
  int32_t wide = 0;
  aster_ml_dtype_sum_accumulator(&wide, dtype);
  if (strncmp(operation, "arg", 3) == 0) return ASTER_ML_DTYPE_INT64;
  if (strcmp(operation, "any") == 0 || strcmp(operation, "all") == 0) return ASTER_ML_DTYPE_BOOL;
  if (strcmp(operation, "sum") == 0) return is_floating(dtype) ? dtype : wide;
  if (strcmp(operation, "mean") == 0) return is_floating(dtype) ? dtype : ASTER_ML_DTYPE_FLOAT32;
  return boolean ? ASTER_ML_DTYPE_BOOL : dtype;
}

enum { kRoom = 300000 };
static char memory[kRoom * 8], results[16384];

/* Small integers, so that every sum is exact; ones and what negates them where they are multiplied,
 * with a zero now and then. */
static void fill(int32_t dtype, int ones) {
  const size_t size = aster_ml_dtype_size(dtype);
  const int negative = number((put(memory, dtype, -1), memory), dtype) < 0;
  unsigned state = 12345;
  for (size_t i = 0; i < kRoom; i++) {
    state = state * 1103515245u + 12345u;
    const int draw = (int)(state >> 16 & 4095);
    double value = draw % 7 - (negative ? 3 : 0);
    if (ones) value = draw == 0 ? 0 : negative && draw % 3 == 0 ? -1 : 1;
    put(memory + i * size, dtype, value);
  }
}

static int close_to(double got, double want, int32_t dtype, const char *operation) {
  char rounded[8] = {0};
  put(rounded, dtype, want);
  if (got == number(rounded, dtype)) return 1;
  /* A mean is divided in another dtype than ours here. */
  return strcmp(operation, "mean") == 0 && fabs(got - want) <= 0.005 * fabs(want) + 1e-6;
}

static void check_rows(const char *operation, int32_t dtype, const instance *one,
                       const instance *many, size_t rows, ptrdiff_t apart, ptrdiff_t step,
                       size_t length) {
  const ptrdiff_t size = (ptrdiff_t)aster_ml_dtype_size(dtype);
  const int32_t to = result_dtype(operation, dtype);
  const ptrdiff_t bytes = (ptrdiff_t)aster_ml_dtype_size(to);
  FUNCTION(aster_ml_reduce_single, single, *one);
  FUNCTION(aster_ml_reduce_strided, strided, *many);
  ptrdiff_t low = 0;
  if (apart < 0) low += -apart * (ptrdiff_t)(rows - 1);
  if (step < 0) low += -step * (ptrdiff_t)(length == 0 ? 0 : length - 1);
  const char *src = memory + low * size;
  const ptrdiff_t dst_stride = 2 * bytes;
  memset(results, 0x55, sizeof results);
  strided(results, dst_stride, src, apart * size, rows, step * size, length, many->kernel);
  int wrong = 0;
  for (size_t row = 0; row < rows; row++) {
    const char *at = src + (ptrdiff_t)row * apart * size;
    const double want = wanted(operation, at, dtype, step * size, length);
    char alone[8];
    single(alone, at, step * size, length, one->kernel);
    wrong += !close_to(number(results + (ptrdiff_t)row * dst_stride, to), want, to, operation);
    wrong += !close_to(number(alone, to), want, to, operation);
    wrong += results[(ptrdiff_t)row * dst_stride + bytes] != 0x55; /* nothing beside is written */
  }
  if (wrong != 0)
    fprintf(stderr, "%s of %s: %zu rows %td apart, %zu elements %td apart\n", operation,
            aster_ml_dtype_name(dtype), rows, apart, length, step);
  EXPECT(wrong == 0);
}

static const int32_t kDtypes[] = {
    ASTER_ML_DTYPE_BOOL,     ASTER_ML_DTYPE_INT8,       ASTER_ML_DTYPE_UINT8,
    ASTER_ML_DTYPE_INT16,    ASTER_ML_DTYPE_UINT16,     ASTER_ML_DTYPE_INT32,
    ASTER_ML_DTYPE_UINT32,   ASTER_ML_DTYPE_INT64,      ASTER_ML_DTYPE_UINT64,
    ASTER_ML_DTYPE_FLOAT16,  ASTER_ML_DTYPE_FLOAT32,    ASTER_ML_DTYPE_FLOAT64,
    ASTER_ML_DTYPE_BFLOAT16, ASTER_ML_DTYPE_FP8E4M3,    ASTER_ML_DTYPE_FP8E4M3FNUZ,
    ASTER_ML_DTYPE_FP8E5M2,  ASTER_ML_DTYPE_FP8E5M2FNUZ};
enum { kDtypeCount = sizeof kDtypes / sizeof *kDtypes };

static void test_every_operation_and_dtype(void) {
  for (int o = 0; o < kOperationCount; o++) {
    const int product = o == 2 || o == 6;
    for (int d = 0; d < kDtypeCount; d++) {
      instance one, many;
      if (get(&one, ASTER_ML_KERNEL_SINGLE, kOperations[o], kDtypes[d]) != 0 ||
          get(&many, ASTER_ML_KERNEL_STRIDED, kOperations[o], kDtypes[d]) != 0)
        continue;
      const size_t lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1100, 2100};
      fill(kDtypes[d], product);
      for (int n = 0; n < 13; n++) {
        const ptrdiff_t long_row = (ptrdiff_t)lengths[n];
        check_rows(kOperations[o], kDtypes[d], &one, &many, 1, 0, 1, lengths[n]);
        check_rows(kOperations[o], kDtypes[d], &one, &many, 3, long_row, 1, lengths[n]);
        check_rows(kOperations[o], kDtypes[d], &one, &many, 2, -1, -3, lengths[n]);
        if (n % 4 == 1 && lengths[n] <= 600) { /* many columns, and what is left of a block */
          check_rows(kOperations[o], kDtypes[d], &one, &many, 520, 1, 530, lengths[n]);
          check_rows(kOperations[o], kDtypes[d], &one, &many, 40, -2, 90, lengths[n]);
        }
        if (n % 3 != 0) continue;
        check_rows(kOperations[o], kDtypes[d], &one, &many, 21, 1, 21, lengths[n]); /* columns */
        check_rows(kOperations[o], kDtypes[d], &one, &many, 70, 0, 2, lengths[n]);
        check_rows(kOperations[o], kDtypes[d], &one, &many, 5, 7, 0, lengths[n]);
      }
      end(&one);
      end(&many);
    }
  }
}

static void test_no_elements(void) {
  struct {
    const char *operation;
    double want;
  } rows[] = {{"sum", 0}, {"prod", 1}, {"max", -INFINITY}, {"min", INFINITY},
              {"any", 0}, {"all", 1},  {"argmax", -1},     {"argmin", -1}};
  for (int i = 0; i < 8; i++) {
    instance k;
    if (get(&k, ASTER_ML_KERNEL_SINGLE, rows[i].operation, ASTER_ML_DTYPE_FLOAT32) != 0) continue;
    FUNCTION(aster_ml_reduce_single, reduce, k);
    char result[8];
    reduce(result, NULL, 4, 0, k.kernel);
    EXPECT(number(result, result_dtype(rows[i].operation, ASTER_ML_DTYPE_FLOAT32)) == rows[i].want);
    end(&k);
  }
  instance mean;
  float result = 0;
  if (get(&mean, ASTER_ML_KERNEL_SINGLE, "mean", ASTER_ML_DTYPE_FLOAT32) != 0) return;
  FUNCTION(aster_ml_reduce_single, reduce, mean);
  reduce((char *)&result, NULL, 4, 0, mean.kernel);
  EXPECT(isnan(result));
  end(&mean);
}

/* A long sum of floats is as near as one in doubles, sums of halves do not stop at 2048, and an
 * extremum among many equal ones is the first. NaN is found by max and its position by argmax. */
static void test_long_rows(void) {
  enum { kLong = 3000000 };
  float *x = malloc(kLong * sizeof *x);
  double exact = 0;
  for (int i = 0; i < kLong; i++) x[i] = 0.1f + (float)(i % 7), exact += (double)x[i];
  instance sum, most, place, half;
  if (get(&sum, 0, "sum", ASTER_ML_DTYPE_FLOAT32) != 0 ||
      get(&most, 0, "max", ASTER_ML_DTYPE_FLOAT32) != 0 ||
      get(&place, 0, "argmax", ASTER_ML_DTYPE_FLOAT32) != 0 ||
      get(&half, 0, "sum", ASTER_ML_DTYPE_FLOAT16) != 0)
    return;
  FUNCTION(aster_ml_reduce_single, add, sum);
  FUNCTION(aster_ml_reduce_single, max, most);
  FUNCTION(aster_ml_reduce_single, argmax, place);
  FUNCTION(aster_ml_reduce_single, add_halves, half);
  float result = 0;
  int64_t at = 0;
  add((char *)&result, (const char *)x, sizeof *x, kLong, sum.kernel);
  EXPECT(fabs((double)result - exact) < 1e-6 * exact);
  argmax((char *)&at, (const char *)x, sizeof *x, kLong, place.kernel);
  EXPECT(at == 6);
  argmax((char *)&at, (const char *)(x + kLong - 1), -(ptrdiff_t)sizeof *x, kLong, place.kernel);
  EXPECT(at == (kLong - 7) % 7);
  x[1234567] = NAN;
  max((char *)&result, (const char *)x, sizeof *x, kLong, most.kernel);
  EXPECT(isnan(result));
  argmax((char *)&at, (const char *)x, sizeof *x, kLong, place.kernel);
  EXPECT(at == 1234567);
  uint16_t *halves = malloc(5000 * sizeof *halves), total = 0;
  for (int i = 0; i < 5000; i++) put((char *)&halves[i], ASTER_ML_DTYPE_FLOAT16, 1);
  add_halves((char *)&total, (const char *)halves, 2, 5000, half.kernel);
  EXPECT(number((const char *)&total, ASTER_ML_DTYPE_FLOAT16) == 5000);
  free(halves);
  free(x);
  end(&sum);
  end(&most);
  end(&place);
  end(&half);
}

static void *call_often(void *kernel) {
  aster_ml_kernel_data_prefix *at = kernel;
  aster_ml_reduce_strided function;
  memcpy(&function, &at->function, sizeof function);
  int32_t x[3 * 700], sums[3];
  size_t wrong = 0;
  for (int i = 0; i < 3 * 700; i++) x[i] = i;
  for (int round = 0; round < 300; round++) {
    function((char *)sums, 4, (const char *)x, 700 * 4, 3, 4, 700, at);
    for (int row = 0; row < 3; row++) wrong += sums[row] != 700 * (1400 * row + 699) / 2;
  }
  return wrong == 0 ? NULL : kernel;
}
static void test_moves_and_runs_on_threads(void) {
  aster_ml_context own;
  instance k;
  EXPECT(aster_ml_context_init(&own, NULL) == 0);
  EXPECT(aster_ml_kernel_get_reduction(&k, &own, ASTER_ML_KERNEL_STRIDED, "sum",
                                       ASTER_ML_DTYPE_INT32) == 0);
  EXPECT(aster_ml_context_free(&own) == 0); /* the kernel outlives it */
  move(&k);
  call_on_threads(&k, call_often);
  end(&k);
}

static void test_failures(void) {
  instance k;
#define GET(form, name, dtype) aster_ml_kernel_get_reduction(&k, &context, form, name, dtype)
  EXPECT(GET(0, "nonsense", ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_NOT_FOUND);
  EXPECT(GET(ASTER_ML_KERNEL_PREDICATE, "sum", ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_ARGUMENT);
  EXPECT(GET(0, NULL, ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_ARGUMENT);
  EXPECT(GET(0, "sum", 99) == -ASTER_ML_ARGUMENT);
  EXPECT(k.kernel == NULL);
  EXPECT(aster_ml_kernel_get_reduction(NULL, &context, 0, "sum", ASTER_ML_DTYPE_FLOAT32) ==
         -ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_kernel_get_reduction(&k, NULL, 0, "sum", ASTER_ML_DTYPE_FLOAT32) ==
         -ASTER_ML_ARGUMENT);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_failures();
  test_no_elements();
  test_long_rows();
  test_moves_and_runs_on_threads();
  test_every_operation_and_dtype();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
