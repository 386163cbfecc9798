/* sum(x * w + b) with the installed library; exits 0 where the result is right. */
#include <aster_ml/aster_ml.h>
#include <stdio.h>

int main(void) {
  const int64_t shape[] = {3};
  const float x_data[] = {1, 2, 3}, w_data[] = {4, 5, 6};
  double result = 0;

  aster_ml_context context = {0};
  aster_ml_scope scope = {0};
  aster_ml_lazy x = {0}, w = {0}, b = {0}, y = {0}, z = {0}, sum = {0};
  aster_ml_context_init(&context, NULL);
  aster_ml_scope_begin(&scope, &context);
  aster_ml_lazy_from(&x, &context, x_data, ASTER_ML_DTYPE_FLOAT32, 1, shape);
  aster_ml_lazy_from(&w, &context, w_data, ASTER_ML_DTYPE_FLOAT32, 1, shape);
  aster_ml_lazy_number(&b, &context, 0.5);
  aster_ml_lazy_mul(&y, &x, &w);
  aster_ml_lazy_add(&z, &y, &b);
  aster_ml_lazy_sum(&sum, &z, 0, NULL, 0);
  int32_t status = aster_ml_lazy_to_double(&result, &sum);
  if (status != ASTER_ML_OK) {
    aster_ml_error error;
    aster_ml_error_last(&error);
    fprintf(stderr, "%s: %s\n", error.function, error.message);
  }
  aster_ml_scope_end(&scope);
  aster_ml_context_free(&context);
  printf("aster_ml %s: %g\n", aster_ml_version(), result);
  return status == ASTER_ML_OK && result == 4 + 10 + 18 + 1.5 ? 0 : 1;
}
