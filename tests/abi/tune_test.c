/* Searches for plans from plain C: what they find computes the same, is told and is kept. */
#include <aster_ml/aster_ml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

enum { kRows = 33, kTerms = 50, kColumns = 40 };

static aster_ml_context context_in(const char *cache_dir) {
  const aster_ml_context_options options = {
      .struct_size = sizeof options, .threads = 1, .cache_dir = cache_dir};
  aster_ml_context context;
  EXPECT(aster_ml_context_init(&context, &options) == 0);
  return context;
}

/* softmax of rows of a product, into out. */
static void compute(float *out, const aster_ml_context *context) {
  static float a[kRows * kTerms], b[kTerms * kColumns];
  for (int i = 0; i < kRows * kTerms; ++i) a[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < kTerms * kColumns; ++i) b[i] = (float)(i * 53 % 89) / 40 - 1;
  const int64_t of_a[] = {kRows, kTerms}, of_b[] = {kTerms, kColumns};
  aster_ml_lazy x, y, product, result;
  EXPECT(aster_ml_lazy_from(&x, context, a, ASTER_ML_DTYPE_FLOAT32, 2, of_a) == 0);
  EXPECT(aster_ml_lazy_from(&y, context, b, ASTER_ML_DTYPE_FLOAT32, 2, of_b) == 0);
  EXPECT(aster_ml_lazy_matmul(&product, &x, &y) == 0);
  EXPECT(aster_ml_lazy_softmax(&result, &product, -1) == 0);
  EXPECT(aster_ml_lazy_copy_out(out, sizeof(float) * kRows * kColumns, &result) == 0);
  aster_ml_lazy *const lazies[] = {&x, &y, &product, &result};
  for (size_t i = 0; i < 4; ++i) EXPECT(aster_ml_lazy_free(lazies[i]) == 0);
}

static size_t tuned(const aster_ml_context *context, int32_t kept) {
  size_t count = 0;
  EXPECT(aster_ml_codegen_count_tuned(&count, context) == 0);
  for (size_t i = 0; i < count; ++i) {
    aster_ml_tuned row = {.struct_size = sizeof row};
    EXPECT(aster_ml_codegen_get_tuned(&row, context, i) == 0);
    EXPECT(row.kept == kept && row.plans > 1 && row.title[0] != 0);
    EXPECT(row.best_ns > 0 && row.best_ns <= row.planned_ns);
  }
  return count;
}

static void test_search(const char *cache_dir) {
  static float planned[kRows * kColumns], found[kRows * kColumns], again[kRows * kColumns];
  aster_ml_context context = context_in(cache_dir);
  EXPECT(aster_ml_context_set_beam(&context, 0) == 0);
  compute(planned, &context);
  EXPECT(tuned(&context, 0) == 0);
  EXPECT(aster_ml_context_set_beam(&context, 1) == 0);
  compute(found, &context); /* the schedule of before is not taken */
  const size_t kernels = tuned(&context, 0);
  EXPECT(kernels >= 1);
  EXPECT(aster_ml_context_set_beam(&context, 0) == 0);
  compute(again, &context);
  EXPECT(tuned(&context, 0) == kernels);
  for (int i = 0; i < kRows * kColumns; ++i) {
    EXPECT(fabsf(found[i] - planned[i]) < 1e-5f);
    EXPECT(again[i] == planned[i]);
  }
  EXPECT(aster_ml_context_free(&context) == 0);

  context = context_in(cache_dir); /* another one finds what was kept */
  EXPECT(aster_ml_context_set_beam(&context, 1) == 0);
  compute(again, &context);
  EXPECT(tuned(&context, 1) == kernels);
  for (int i = 0; i < kRows * kColumns; ++i) EXPECT(again[i] == found[i]);
  EXPECT(aster_ml_context_free(&context) == 0);
}

static void test_mistakes(const char *cache_dir) {
  aster_ml_context context = context_in(cache_dir);
  EXPECT(aster_ml_context_set_beam(&context, -1) == ASTER_ML_RANGE);
  EXPECT(aster_ml_context_set_beam(&context, 65) == ASTER_ML_RANGE);
  EXPECT(aster_ml_context_set_beam(NULL, 1) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_count_tuned(NULL, &context) == ASTER_ML_ARGUMENT);
  aster_ml_tuned row = {.struct_size = sizeof row};
  EXPECT(aster_ml_codegen_get_tuned(&row, &context, 0) == ASTER_ML_RANGE);
  EXPECT(aster_ml_codegen_get_tuned(NULL, &context, 0) == ASTER_ML_ARGUMENT);
  row.struct_size = 0;
  EXPECT(aster_ml_codegen_get_tuned(&row, &context, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_context_free(&context) == 0);

  EXPECT(setenv("ASTER_ML_BEAM", "many", 1) == 0);
  EXPECT(aster_ml_context_init(&context, NULL) == ASTER_ML_RANGE);
  EXPECT(unsetenv("ASTER_ML_BEAM") == 0);
}

int main(void) {
  char cache_dir[] = "/tmp/aster_tune_XXXXXX";
  EXPECT(mkdtemp(cache_dir) != NULL);
  test_search(cache_dir);
  test_mistakes(cache_dir);
  aster_ml_context context = context_in(cache_dir);
  EXPECT(aster_ml_cache_clear(&context) == 0);
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
