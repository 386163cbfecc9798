/* Kernels that this library makes of its operations and of captured programs, called by code that
 * knows the interface alone: strided, moved, on many threads, after their context. */
#include <math.h>

#include "made_kernel.h"

static aster_ml_context context;
static instance get(int32_t form, const char *operation, int32_t dtype) {
  instance k;
  const int status = aster_ml_kernel_get_elementwise(&k, &context, form, operation, dtype);
  if (status != 0) {
    aster_ml_error error;
    aster_ml_error_last(&error);
    fprintf(stderr, "%s: %s\n", operation, error.message);
    expect_failures++;
  }
  return k;
}

static void test_unary(void) {
  enum { kCount = 1300 };
  static float from[kCount * 3], to[kCount * 2], y = 0;
  for (int i = 0; i < kCount * 3; i++) from[i] = (float)i / kCount - 1;
  instance one = get(ASTER_ML_KERNEL_SINGLE, "exp", ASTER_ML_DTYPE_FLOAT32);
  instance many = get(ASTER_ML_KERNEL_STRIDED, "exp", ASTER_ML_DTYPE_FLOAT32);
  EXPECT(many.kernel_size % sizeof(void *) == 0 && (size_t)many.kernel % sizeof(void *) == 0);
  move(&many);
  FUNCTION(aster_ml_unary_single, single, one);
  FUNCTION(aster_ml_unary_strided, strided, many);
  const ptrdiff_t f = sizeof(float), strides[][2] = {{f, f}, {2 * f, 3 * f}, {f, -2 * f}, {f, 0}};
  const size_t counts[] = {0, 1, 8, 9, 512, 513, kCount};
  for (int s = 0; s < 4; s++) {
    for (int c = 0; c < 7; c++) {
      const char *src = (const char *)&from[strides[s][1] < 0 ? kCount * 2 : 1];
      memset(to, 0, sizeof to);
      strided((char *)to, strides[s][0], src, strides[s][1], counts[c], many.kernel);
      int wrong = 0;
      for (size_t i = 0; i < counts[c]; i++) {
        const char *x = src + (ptrdiff_t)i * strides[s][1];
        single((char *)&y, x, one.kernel);
        float value;
        memcpy(&value, x, sizeof value);
        wrong += fabsf(y - expf(value)) > 1e-5f * y;
        wrong += memcmp((char *)to + (ptrdiff_t)i * strides[s][0], &y, sizeof y) != 0;
      }
      EXPECT(wrong == 0);
    }
  }
  end(&one);
  end(&many);
}

static void test_binary_and_predicates(void) {
  const int16_t a[] = {7, -3, 4, 9}, b[] = {2, 2, 5, 9};
  int16_t sum[4], quotient = 0;
  instance add = get(ASTER_ML_KERNEL_STRIDED, "add", ASTER_ML_DTYPE_INT16);
  FUNCTION(aster_ml_binary_strided, add_all, add);
  add_all((char *)sum, 2, (const char *)a, 2, (const char *)b, 2, 4, add.kernel);
  for (int i = 0; i < 4; i++) EXPECT(sum[i] == a[i] + b[i]);
  instance floordiv = get(ASTER_ML_KERNEL_SINGLE, "floordiv", ASTER_ML_DTYPE_INT16);
  FUNCTION(aster_ml_binary_single, divide, floordiv);
  divide((char *)&quotient, (const char *)&a[1], (const char *)&b[1], floordiv.kernel);
  EXPECT(quotient == -2);
  instance lt = get(ASTER_ML_KERNEL_PREDICATE, "lt", ASTER_ML_DTYPE_INT16);
  FUNCTION(aster_ml_binary_predicate, less, lt);
  for (int i = 0; i < 4; i++)
    EXPECT(less((const char *)&a[i], (const char *)&b[i], lt.kernel) == (a[i] < b[i]));
  instance nan = get(ASTER_ML_KERNEL_PREDICATE, "isnan", ASTER_ML_DTYPE_FLOAT64);
  FUNCTION(aster_ml_unary_predicate, is_nan, nan);
  const double numbers[] = {1, NAN};
  EXPECT(is_nan((const char *)&numbers[0], nan.kernel) == 0);
  EXPECT(is_nan((const char *)&numbers[1], nan.kernel) == 1);
  end(&add);
  end(&floordiv);
  end(&lt);
  end(&nan);
}

/* Every operation of the table on a dtype that it has, against the eager function's lazy form. */
static void test_every_operation(void) {
  static const char *const unary[] = {
#define UNARY(name, domain, expression) #name,
#include "tensor/elementwise.def"
  };
  static const char *const binary[] = {
#define BINARY(name, domain, expression) #name,
#include "tensor/elementwise.def"
  };
  const int32_t dtypes[] = {ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_UINT64};
  for (size_t i = 0; i < sizeof unary / sizeof *unary + sizeof binary / sizeof *binary; i++) {
    const size_t count = sizeof unary / sizeof *unary;
    const char *name = i < count ? unary[i] : binary[i - count];
    int made = 0;
    for (int d = 0; d < 3 && !made; d++) {
      instance k;
      if (aster_ml_kernel_get_elementwise(&k, &context, 0, name, dtypes[d]) != 0) continue;
      made = 1;
      char to[8], from[8] = {0}, other[8] = {0};
      from[0] = other[0] = 1;
      FUNCTION(aster_ml_unary_single, one, k);
      FUNCTION(aster_ml_binary_single, two, k);
      if (i < count) {
        one(to, from, k.kernel);
      } else {
        two(to, from, other, k.kernel);
      }
      end(&k);
    }
    if (!made) fprintf(stderr, "%s\n", name);
    EXPECT(made);
  }
}

static void test_failures(void) {
  instance k;
#define GET(form, name, dtype) aster_ml_kernel_get_elementwise(&k, &context, form, name, dtype)
  EXPECT(GET(0, "nonsense", ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_NOT_FOUND);
  EXPECT(GET(9, "exp", ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_ARGUMENT);
  EXPECT(GET(0, NULL, ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_ARGUMENT);
  EXPECT(GET(0, "exp", 99) == -ASTER_ML_ARGUMENT);
  EXPECT(GET(0, "shl", ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_DTYPE);
  EXPECT(GET(ASTER_ML_KERNEL_PREDICATE, "exp", ASTER_ML_DTYPE_FLOAT32) == -ASTER_ML_DTYPE);
  EXPECT(k.kernel == NULL);
  EXPECT(aster_ml_kernel_get_program(&k, NULL, 1) == -ASTER_ML_ARGUMENT);
}

/* softmax(x) @ w, captured. */
static aster_ml_program capture(const aster_ml_context *own) {
  const int64_t shape[] = {3, 4};
  float values[12], weights[12];
  for (int i = 0; i < 12; i++) values[i] = weights[i] = (float)i;
  aster_ml_lazy x, w, turned, soft, y;
  aster_ml_program program = {0};
  EXPECT(aster_ml_lazy_from(&x, own, values, ASTER_ML_DTYPE_FLOAT32, 2, shape) == 0);
  EXPECT(aster_ml_lazy_from(&w, own, weights, ASTER_ML_DTYPE_FLOAT32, 2, shape) == 0);
  aster_ml_lazy *inputs[] = {&x}, *outputs[] = {&y};
  EXPECT(aster_ml_engine_capture_begin(own, inputs, 1) == 0);
  EXPECT(aster_ml_lazy_transpose(&turned, &w, 0, 1) == 0);
  EXPECT(aster_ml_lazy_softmax(&soft, &x, 1) == 0);
  EXPECT(aster_ml_lazy_matmul(&y, &soft, &turned) == 0);
  EXPECT(aster_ml_engine_capture_end(&program, own, outputs, 1) == 0);
  aster_ml_lazy *all[] = {&x, &w, &turned, &soft, &y};
  for (int i = 0; i < 5; i++) aster_ml_lazy_free(all[i]);
  return program;
}

static void *call_often(void *kernel) {
  aster_ml_kernel_data_prefix *at = kernel;
  aster_ml_arrays function;
  memcpy(&function, &at->function, sizeof function);
  size_t wrong = 0;
  for (int round = 0; round < 200; round++) {
    float x[12] = {0}, y[9];
    for (int i = 0; i < 3; i++) x[4 * i + 2] = 100; /* the weights of column 2 */
    char *const to[] = {(char *)y};
    const char *const from[] = {(const char *)x};
    function(to, from, at);
    for (int i = 0; i < 9; i++) wrong += y[i] != (float)(4 * (i % 3) + 2);
  }
  return wrong == 0 ? NULL : kernel;
}
static void test_program(void) {
  aster_ml_context own;
  instance k;
  EXPECT(aster_ml_context_init(&own, NULL) == 0);
  aster_ml_program program = capture(&own);
  EXPECT(aster_ml_kernel_get_program(&k, &program, 0) == -ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_kernel_get_program(&k, &program, 65) == -ASTER_ML_ARGUMENT);
  EXPECT(program.impl != NULL);
  EXPECT(aster_ml_kernel_get_program(&k, &program, 2) == 0);
  EXPECT(program.impl == NULL);
  EXPECT(aster_ml_context_free(&own) == 0); /* the kernel outlives it */
  call_on_threads(&k, call_often);
  end(&k);
}

/* A kernel of ours as an operation of another context's graphs. */
static void test_both_ways(void) {
  instance k = get(ASTER_ML_KERNEL_STRIDED, "sqrt", ASTER_ML_DTYPE_FLOAT32);
  aster_ml_context other;
  EXPECT(aster_ml_context_init(&other, NULL) == 0);
  aster_ml_kernel kernel;
  EXPECT(aster_ml_kernel_from_blaze(&kernel, &other, &k, ASTER_ML_KERNEL_STRIDED, "sqrt",
                                    "float32[...] -> float32[...]", NULL) == 0);
  const float values[] = {1, 4, 9, 16};
  float got[4];
  aster_ml_lazy x, y;
  EXPECT(aster_ml_lazy_from(&x, &other, values, ASTER_ML_DTYPE_FLOAT32, 1, (const int64_t[]){4}) ==
         0);
  const aster_ml_lazy *const operands[] = {&x};
  EXPECT(aster_ml_kernel_apply(&y, &kernel, operands, 1, 0) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &y) == 0);
  for (int i = 0; i < 4; i++) EXPECT(got[i] == (float)(i + 1));
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_kernel_free(&kernel);
  EXPECT(aster_ml_context_free(&other) == 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_unary();
  test_binary_and_predicates();
  test_failures();
  test_program();
  test_both_ways();
  test_every_operation();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
