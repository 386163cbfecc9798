/* A graph from plain C: chaining on empty handles, scopes, gradients, capture and replay. */
#include <aster_ml/aster_ml.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

static void make(aster_ml_lazy *out, size_t count, const float *data) {
  const int64_t shape[] = {(int64_t)count};
  aster_ml_lazy_from(out, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape);
}

static void test_chaining(void) {
  aster_ml_scope scope;
  aster_ml_lazy a = {0}, b = {0}, wrong = {0}, still = {0};
  const float two[] = {1, 2}, three[] = {1, 2, 3};
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  make(&a, 2, two);
  make(&b, 3, three);
  EXPECT(aster_ml_lazy_add(&wrong, &a, &b) == ASTER_ML_SHAPE);
  EXPECT(wrong.impl == NULL);
  EXPECT(aster_ml_lazy_exp(&still, &wrong) == ASTER_ML_SHAPE); /* the first failure's code */
  EXPECT(still.impl == NULL);
  aster_ml_lazy *const all[] = {&still};
  EXPECT(aster_ml_lazy_realize(all, 1) == ASTER_ML_SHAPE);
  aster_ml_error error;
  EXPECT(aster_ml_error_last(&error) == 0);
  EXPECT(strcmp(error.function, "aster_ml_lazy_add") == 0);   /* the record is left alone */
  EXPECT(aster_ml_lazy_add(&a, &a, &a) == ASTER_ML_ARGUMENT); /* out is an input */
  EXPECT(aster_ml_lazy_ndim(&a) == 1);
  EXPECT(aster_ml_scope_end(&scope) == 0);
}

static void test_gradient(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, square = {0}, loss = {0}, slope = {0};
  const float data[] = {1, -2, 3};
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  make(&x, 3, data);
  aster_ml_lazy_mul(&square, &x, &x);
  aster_ml_lazy_sum(&loss, &square, 0, NULL, 0);
  const aster_ml_lazy *const targets[] = {&x};
  EXPECT(aster_ml_gradient(&slope, &loss, targets, 1, NULL) == 0);
  float got[3] = {0};
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &slope) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] == 2 * data[i]);
  double total = 0;
  EXPECT(aster_ml_lazy_to_double(&total, &loss) == 0 && total == 14);
  EXPECT(aster_ml_scope_end(&scope) == 0);
}

static void test_capture(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, two = {0}, y = {0};
  aster_ml_program program;
  const float first[] = {1, 2, 3, 4};
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  make(&x, 4, first);
  aster_ml_lazy *const inputs[] = {&x}, *const outputs[] = {&y};
  EXPECT(aster_ml_engine_capture_begin(&context, inputs, 1) == 0);
  aster_ml_lazy_number(&two, &context, 2);
  aster_ml_lazy_mul(&y, &x, &two);
  EXPECT(aster_ml_engine_capture_end(&program, &context, outputs, 1) == 0);
  EXPECT(aster_ml_program_count_kernels(&program) == 1);
  aster_ml_program_array array = {.struct_size = sizeof(array)};
  EXPECT(aster_ml_program_count_arrays(&program, ASTER_ML_PROGRAM_INPUTS) == 1);
  EXPECT(aster_ml_program_count_arrays(&program, ASTER_ML_PROGRAM_CAPTURED) == 0);
  EXPECT(aster_ml_program_set_name(&program, ASTER_ML_PROGRAM_INPUTS, 0, "x") == 0);
  EXPECT(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_INPUTS, 0) == 0);
  EXPECT(strcmp(array.name, "x") == 0);
  EXPECT(array.dtype == ASTER_ML_DTYPE_FLOAT32 && array.ndim == 1 && array.shape[0] == 4);
  EXPECT(array.bytes == 16 && array.assigned == 0 && array.data == NULL);
  EXPECT(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_OUTPUTS, 1) ==
         ASTER_ML_RANGE);

  const float second[] = {5, 6, 7, 8};
  const size_t shape[] = {4};
  aster_ml_tensor in, out = {0};
  float got[4] = {0};
  EXPECT(aster_ml_tensor_from_data(&in, &context, second, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_program_run(&program, NULL, &in, 1, &out, 1) == 0);
  EXPECT(aster_ml_tensor_copy_out(got, &out, 4) == 0);
  for (int i = 0; i < 4; i++) EXPECT(got[i] == 2 * second[i]);
  EXPECT(aster_ml_program_run(&program, NULL, &in, 0, &out, 1) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_tensor_free(&out) == 0);
  EXPECT(aster_ml_tensor_free(&in) == 0);
  EXPECT(aster_ml_scope_end(&scope) == 0);
  EXPECT(aster_ml_program_free(&program) == 0);
}

/* What a realize will take is known before it; small ones that were done before are done again in a
 * call; gradients may compute anew what they need. */
static void test_peak_ready_checkpoint(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, y = {0}, z = {0}, marked = {0}, slope = {0};
  const float data[] = {1, 2, 3, 4};
  float got[4] = {0};
  size_t bytes = 0;
  int32_t done = 1;
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  make(&x, 4, data);
  aster_ml_lazy_mul(&y, &x, &x);
  const aster_ml_lazy *const asked[] = {&y};
  EXPECT(aster_ml_engine_count_peak(&bytes, &context, asked, 1) == 0);
  EXPECT(bytes == sizeof(data) && aster_ml_lazy_is_realized(&y) == 0);
  EXPECT(aster_ml_engine_count_peak(NULL, &context, asked, 1) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_engine_count_peak(&bytes, NULL, asked, 1) == ASTER_ML_ARGUMENT && bytes == 0);
  aster_ml_lazy *const all[] = {&y};
  EXPECT(aster_ml_lazy_realize(all, 1) == 0);
  aster_ml_lazy_mul(&z, &y, &y);
  EXPECT(aster_ml_lazy_realize_ready(&done, &z) == 0 && done == 1);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof(got), &z) == 0);
  for (int i = 0; i < 4; i++) EXPECT(got[i] == data[i] * data[i] * data[i] * data[i]);
  aster_ml_lazy cube = {0}, square = {0}, loss = {0};
  aster_ml_lazy_mul(&square, &x, &x);
  aster_ml_lazy_mul(&cube, &square, &x);
  const aster_ml_lazy *const inputs[] = {&x};
  EXPECT(aster_ml_gradient_checkpoint(&marked, &cube, inputs, 1) == 0);
  aster_ml_lazy_sum(&loss, &marked, 0, NULL, 0);
  EXPECT(aster_ml_gradient(&slope, &loss, inputs, 1, NULL) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof(got), &slope) == 0);
  for (int i = 0; i < 4; i++) EXPECT(got[i] == 3 * data[i] * data[i]);
  EXPECT(aster_ml_scope_end(&scope) == 0);
}

/* Garbage-collected callers free in any order. */
static void test_any_order(void) {
  aster_ml_context other;
  aster_ml_lazy x = {0};
  const float one[] = {1};
  const int64_t shape[] = {1};
  EXPECT(aster_ml_context_init(&other, NULL) == 0);
  EXPECT(aster_ml_lazy_from(&x, &other, one, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  aster_ml_lazy mixed = {0}, mine = {0};
  make(&mine, 1, one);
  EXPECT(aster_ml_lazy_add(&mixed, &x, &mine) == ASTER_ML_ARGUMENT); /* another context's */
  EXPECT(aster_ml_lazy_free(&mine) == 0);
  EXPECT(aster_ml_context_free(&other) == 0);
  EXPECT(aster_ml_lazy_dtype(&x) == ASTER_ML_DTYPE_FLOAT32);
  EXPECT(aster_ml_lazy_free(&x) == 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_chaining();
  test_gradient();
  test_capture();
  test_peak_ready_checkpoint();
  test_any_order();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
