/* Implementations from C: policies, errors, functions and kernels of the caller's with their
 * gradients. Expected values are sums written out here. */
#include <aster_ml/aster_ml.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "expect.h"

static aster_ml_context context;

static int says(const char *text) {
  aster_ml_error error;
  aster_ml_error_last(&error);
  if (strstr(error.message, text) != NULL) return 1;
  fprintf(stderr, "the message is: %s\n", error.message);
  return 0;
}

/* [rows, columns] of numbers that differ. */
static aster_ml_lazy matrix(float *data, int64_t rows, int64_t columns, int seed) {
  const int64_t shape[] = {rows, columns};
  aster_ml_lazy x = {0};
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = (float)((i * 37 + seed * 11) % 23 - 11) / 8;
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 2, shape) == 0);
  return x;
}

static void read_to(float *out, size_t count, aster_ml_lazy *x) {
  aster_ml_lazy *const all[] = {x};
  EXPECT(aster_ml_lazy_realize(all, 1) == 0);
  EXPECT(aster_ml_lazy_copy_out(out, count * sizeof *out, x) == 0);
}

enum { M = 3, K = 4, N = 2 };
static float a_data[M * K], b_data[K * N];

static void expect_product(aster_ml_lazy *c, float factor) {
  float out[M * N];
  read_to(out, M * N, c);
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += a_data[i * K + k] * b_data[k * N + j];
      EXPECT(fabsf(out[i * N + j] - factor * sum) < 1e-5f);
    }
  }
}

static const char *only_small(void *self, const aster_ml_op_call *call) {
  (void)self;
  EXPECT(strcmp(call->operation, "matmul") == 0 && call->operand_count == 2);
  return call->operands[0].shape[0] <= 8 ? NULL : "more than 8 rows";
}

/* Twice the product, so that a test sees who computed it. */
static int32_t twice_by_graph(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                              const aster_ml_lazy *operands) {
  (void)call;
  aster_ml_lazy product = {0};
  ++*(int *)self;
  if (aster_ml_lazy_matmul(&product, &operands[0], &operands[1]) != 0) return 1;
  const int32_t status = aster_ml_lazy_add(out, &product, &product);
  aster_ml_lazy_free(&product);
  return status;
}

static int32_t twice_by_function(void *self, const aster_ml_op_call *call, void *result,
                                 const void *const *operands) {
  if (self != NULL) return 7;
  const float *a = operands[0], *b = operands[1];
  const int64_t m = call->result.shape[0], n = call->result.shape[1],
                k = call->operands[0].shape[1];
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      for (int64_t p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
      ((float *)result)[i * n + j] = 2 * sum;
    }
  }
  return 0;
}

static int32_t wrong_shape(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                           const aster_ml_lazy *operands) {
  (void)self, (void)call;
  return aster_ml_lazy_copy(out, &operands[0]);
}
static int32_t fails(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                     const aster_ml_lazy *operands) {
  (void)self, (void)out, (void)call, (void)operands;
  return 42;
}
static int32_t leaves_nothing(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                              const aster_ml_lazy *operands) {
  (void)self, (void)out, (void)call, (void)operands;
  return 0;
}
static int32_t tenfold_gradient(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                                const aster_ml_lazy *operands, const aster_ml_lazy *result,
                                const aster_ml_lazy *gradient) {
  (void)self, (void)call, (void)result, (void)gradient;
  aster_ml_lazy ten = {0};
  if (aster_ml_lazy_number(&ten, &context, 10) != 0) return 1;
  const int32_t status = aster_ml_lazy_mul(&out[0], &operands[0], &ten);
  aster_ml_lazy_free(&ten);
  return status;
}

static int released;
static void note_release(void *self) {
  (void)self;
  ++released;
}

static aster_ml_implementation of_matmul(const char *name) {
  const aster_ml_implementation made = {
      .struct_size = sizeof made, .operation = "matmul", .name = name};
  return made;
}

static void test_policies(void) {
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0};
  int calls = 0;
  aster_ml_implementation graph = of_matmul("twice");
  graph.refuses = only_small;
  graph.build = twice_by_graph;
  graph.self = &calls;
  graph.release = note_release;
  EXPECT(aster_ml_registry_add(&context, &graph) == 0);
  EXPECT(aster_ml_registry_add(&context, &graph) == ASTER_ML_ARGUMENT && says("twice"));

  EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0); /* "default" takes the usual one */
  expect_product(&c, 1);
  aster_ml_lazy_free(&c);
  EXPECT(calls == 0);

  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"force=twice\"}") == 0);
  EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0);
  expect_product(&c, 2);
  EXPECT(calls == 1);
  EXPECT(aster_ml_registry_push_policies(&context, "{\"matmul\": \"force=generated\"}") == 0);
  EXPECT(aster_ml_registry_push_policies(&context, "{\"softmax\": \"default\"}") == 0);
  aster_ml_lazy_free(&c);
  EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0);
  expect_product(&c, 1);
  EXPECT(aster_ml_registry_pop_policies(&context) == 0);
  EXPECT(aster_ml_registry_pop_policies(&context) == 0);
  EXPECT(aster_ml_registry_pop_policies(&context) == ASTER_ML_STATE);
  aster_ml_lazy_free(&c);
  EXPECT(aster_ml_registry_remove(&context, "matmul", "twice") == ASTER_ML_STATE);

  /* More rows than it takes: nothing is built, and all are named with their reasons. */
  float big_data[9 * K];
  aster_ml_lazy big = matrix(big_data, 9, K, 1);
  EXPECT(aster_ml_lazy_matmul(&c, &big, &b) == ASTER_ML_UNSUPPORTED && c.impl == NULL);
  EXPECT(says("twice: more than 8 rows") && says("generated: takes it") && says("strassen: "));
  EXPECT(says("float32[9, 4]"));
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"default\"}") == 0);
  EXPECT(aster_ml_lazy_matmul(&c, &big, &b) == 0);
  aster_ml_lazy_free(&c), aster_ml_lazy_free(&big);
  EXPECT(aster_ml_registry_remove(&context, "matmul", "twice") == 0 && released == 1);
  EXPECT(aster_ml_registry_remove(&context, "matmul", "twice") == ASTER_ML_NOT_FOUND);
  EXPECT(aster_ml_registry_remove(&context, "matmul", "strassen") == ASTER_ML_ARGUMENT);
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

static void test_mistakes(void) {
  EXPECT(aster_ml_registry_set_policies(&context, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\" \"default\"}") == ASTER_ML_FORMAT);
  EXPECT(says("colon") && says("byte 10"));
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"forced=x\"}") == ASTER_ML_FORMAT);
  EXPECT(says("byte 11") && says("force=NAME"));
  char fast[1024];
  size_t length = 0;
  EXPECT(aster_ml_registry_set_policies(&context, "{\"conv2d\": \"fast\"}") == 0);
  EXPECT(aster_ml_registry_describe(fast, &length, sizeof fast, &context, "conv2d") == 0);
  EXPECT(strstr(fast, "\"policy\": \"fast\"") != NULL && strstr(fast, "winograd_4x4") != NULL);
  EXPECT(aster_ml_registry_set_policies(&context, "{\"conv2d\": \"default\"}") == 0);
  const char *const bad[] = {"",
                             "{\"conv2d\": \"faster\"}",
                             "[]",
                             "{\"matmul\": \"benchmark(cache=0)\"}",
                             "{\"matmul\": \"benchmark(cache=)\"}",
                             "{\"matmul\": \"benchmark(cache=9\"}",
                             "{\"matmul\": \"benchmark(cache=99999999999)\"}",
                             "{\"matmul\": \"force=\"}",
                             "{\"matmul\": \"force=a b\"}",
                             "{\"matmul\": 3}",
                             "{\"matmul\": \"default\"",
                             "{\"matmul\": \"default\"} x",
                             "{\"matmul\": \"default\",}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    EXPECT(aster_ml_registry_set_policies(&context, bad[i]) == ASTER_ML_FORMAT);
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmull\": \"default\"}") ==
         ASTER_ML_NOT_FOUND);
  EXPECT(says("matmull") && says("attention"));
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"force=fast\"}") ==
         ASTER_ML_NOT_FOUND);
  EXPECT(says("generated, openblas, strassen"));
  /* All or nothing. */
  EXPECT(aster_ml_registry_set_policies(&context,
                                        "{\"matmul\": \"force=strassen\", \"x\": \"default\"}") ==
         ASTER_ML_NOT_FOUND);
  char text[4096];
  length = 0;
  EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "matmul") == 0);
  EXPECT(strstr(text, "\"policy\": \"default\"") != NULL && strlen(text) == length);
  EXPECT(aster_ml_registry_describe(text, &length, 3, &context, "matmul") == ASTER_ML_RANGE);
  EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "x") ==
         ASTER_ML_NOT_FOUND);

  aster_ml_implementation made = of_matmul("mine");
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT && says("mine"));
  made.build = fails;
  made.compute = twice_by_function;
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT && says("not 2"));
  made.compute = NULL;
  made.name = "a b";
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT);
  made.name = "a_name_that_is_much_longer_than_31_letters";
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT);
  made.name = NULL;
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT);
  made.name = "mine";
  made.operation = "add";
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_NOT_FOUND);
  made.operation = "matmul";
  made.struct_size = 0;
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT);
  made.struct_size = sizeof made;
  const aster_ml_kernel none = {0};
  made.build = NULL;
  made.kernel = &none;
  EXPECT(aster_ml_registry_add(&context, &made) == ASTER_ML_ARGUMENT);
}

/* Registers made and forces it; c is the product by it, or its status. */
static int32_t forced(aster_ml_lazy *c, const aster_ml_implementation *made, const aster_ml_lazy *a,
                      const aster_ml_lazy *b) {
  char policy[80];
  snprintf(policy, sizeof policy, "{\"matmul\": \"force=%s\"}", made->name);
  EXPECT(aster_ml_registry_add(&context, made) == 0);
  EXPECT(aster_ml_registry_set_policies(&context, policy) == 0);
  return aster_ml_lazy_matmul(c, a, b);
}
static void let_go(const char *name, aster_ml_lazy *c) {
  aster_ml_lazy_free(c);
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"default\"}") == 0);
  EXPECT(aster_ml_registry_remove(&context, "matmul", name) == 0);
}

static void expect_gradient(const aster_ml_lazy *c, const aster_ml_lazy *a, float factor,
                            int by_operand) {
  aster_ml_lazy total = {0}, slope = {0};
  EXPECT(aster_ml_lazy_sum(&total, c, 0, NULL, 0) == 0);
  const aster_ml_lazy *const targets[] = {a};
  EXPECT(aster_ml_gradient(&slope, &total, targets, 1, NULL) == 0);
  float out[M * K];
  read_to(out, M * K, &slope);
  for (int i = 0; i < M * K; i++) {
    float row = 0;
    for (int j = 0; j < N; j++) row += b_data[i % K * N + j];
    EXPECT(fabsf(out[i] - factor * (by_operand ? a_data[i] : row)) < 1e-5f);
  }
  aster_ml_lazy_free(&total), aster_ml_lazy_free(&slope);
}

static void test_ways(void) {
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0}, d = {0};
  aster_ml_implementation made = of_matmul("function");
  made.compute = twice_by_function;
  EXPECT(forced(&c, &made, &a, &b) == 0);
  EXPECT(aster_ml_lazy_matmul(&d, &a, &b) == 0 && aster_ml_lazy_is_same(&c, &d));
  aster_ml_lazy_free(&d);
  /* That of the usual one, whose product is built as the policy says: by the function. */
  expect_gradient(&c, &a, 2, 0);
  EXPECT(aster_ml_registry_push_policies(&context, "{\"matmul\": \"default\"}") == 0);
  expect_gradient(&c, &a, 1, 0);
  EXPECT(aster_ml_registry_pop_policies(&context) == 0);
  expect_product(&c, 2);
  let_go("function", &c);

  made = of_matmul("function"); /* with the gradient of the caller's */
  made.compute = twice_by_function;
  made.gradient = tenfold_gradient;
  EXPECT(forced(&c, &made, &a, &b) == 0);
  expect_gradient(&c, &a, 10, 1);
  expect_product(&c, 2);
  let_go("function", &c);

  made = of_matmul("failing"); /* fails midway */
  int self = 0;
  made.compute = twice_by_function;
  made.self = &self;
  EXPECT(forced(&c, &made, &a, &b) == 0);
  aster_ml_lazy *const all[] = {&c};
  EXPECT(aster_ml_lazy_realize(all, 1) == ASTER_ML_ERROR && says("failing") && says("7"));
  let_go("failing", &c);

  made = of_matmul("graph");
  int calls = 0;
  made.build = twice_by_graph;
  made.self = &calls;
  EXPECT(forced(&c, &made, &a, &b) == 0);
  expect_product(&c, 2);
  aster_ml_lazy_free(&c);
  EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0);
  /* Its gradient is that of its graph; the products in it are built by it as well: doubled. */
  expect_gradient(&c, &a, 4, 0);
  let_go("graph", &c);

  made = of_matmul("graph");
  made.build = twice_by_graph;
  made.self = &calls;
  made.gradient = tenfold_gradient;
  EXPECT(forced(&c, &made, &a, &b) == 0);
  expect_gradient(&c, &a, 10, 1);
  expect_product(&c, 2);
  let_go("graph", &c);

  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

/* A product by the implementation that is forced, in the place of *c: it has the gradient of the
 * usual one. The policy is the default one then. */
static void expect_usual_gradient(aster_ml_lazy *c, aster_ml_lazy *a, aster_ml_lazy *b) {
  aster_ml_lazy_free(c);
  EXPECT(aster_ml_lazy_matmul(c, a, b) == 0);
  aster_ml_registry_set_policies(&context, "{\"matmul\": \"default\"}");
  expect_gradient(c, a, 1, 0);
}

static void test_kernels(void) {
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0}, d = {0};
  aster_ml_implementation made;
  aster_ml_kernel kernel = {0};
  const char *const source =
      "void twice(float *c, const float *a, const float *b, long long begin, long long end) {"
      "  for (long long i = begin; i < end; i++) for (int j = 0; j < 2; j++) {"
      "    float sum = 0; for (int k = 0; k < 4; k++) sum += a[i * 4 + k] * b[k * 2 + j];"
      "    c[i * 2 + j] = 2 * sum; } }";
  const aster_ml_kernel_options options = {.struct_size = sizeof options, .tasks = M};
  if (aster_ml_kernel_from_source(&kernel, &context, source, "twice",
                                  "float32[3, 4], float32[4, 2] -> float32[3, 2]", &options) == 0) {
    made = of_matmul("kernel");
    made.kernel = &kernel;
    EXPECT(forced(&c, &made, &a, &b) == 0);
    EXPECT(aster_ml_kernel_free(&kernel) == 0);
    expect_product(&c, 2);
    expect_usual_gradient(&c, &a, &b);
    EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"force=kernel\"}") == 0);
    EXPECT(aster_ml_lazy_matmul(&d, &b, &a) == ASTER_ML_SHAPE);
    aster_ml_lazy turned = {0};
    EXPECT(aster_ml_lazy_transpose(&turned, &b, 0, 1) == 0);
    aster_ml_lazy other = matrix(a_data, M, K, 1), third = {0};
    EXPECT(aster_ml_lazy_transpose(&third, &other, 0, 1) == 0);
    EXPECT(aster_ml_lazy_matmul(&d, &turned, &third) == ASTER_ML_UNSUPPORTED);
    EXPECT(says("kernel: its kernel's signature is another"));
    aster_ml_lazy_free(&turned), aster_ml_lazy_free(&other), aster_ml_lazy_free(&third);
    let_go("kernel", &c);
  }

  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

/* Twice the product as a kernel program, a row a task. */
static const char kProgram[] =
    "program twice\n"
    "%0 = Param f32 0 [6] write\n"
    "%1 = Param f32 1 [12]\n"
    "%2 = Param f32 2 [8]\n"
    "%3 = Loop task 0 3 1\n"
    "  %4 = Load f32 %1 + 4*%3\n"
    "  %5 = Load f32 %1 + 4*%3 + 1\n"
    "  %6 = Load f32 %1 + 4*%3 + 2\n"
    "  %7 = Load f32 %1 + 4*%3 + 3\n"
    "  %8 = Load f32 %2\n"
    "  %9 = Load f32 %2 + 2\n"
    "  %10 = Load f32 %2 + 4\n"
    "  %11 = Load f32 %2 + 6\n"
    "  %12 = Load f32 %2 + 1\n"
    "  %13 = Load f32 %2 + 3\n"
    "  %14 = Load f32 %2 + 5\n"
    "  %15 = Load f32 %2 + 7\n"
    "  %16 = Mul f32 %4 %8\n"
    "  %17 = Mul f32 %5 %9\n"
    "  %18 = Mul f32 %6 %10\n"
    "  %19 = Mul f32 %7 %11\n"
    "  %20 = Mul f32 %4 %12\n"
    "  %21 = Mul f32 %5 %13\n"
    "  %22 = Mul f32 %6 %14\n"
    "  %23 = Mul f32 %7 %15\n"
    "  %24 = Add f32 %16 %17\n"
    "  %25 = Add f32 %18 %19\n"
    "  %26 = Add f32 %24 %25\n"
    "  %27 = Add f32 %20 %21\n"
    "  %28 = Add f32 %22 %23\n"
    "  %29 = Add f32 %27 %28\n"
    "  %30 = Add f32 %26 %26\n"
    "  %31 = Add f32 %29 %29\n"
    "  Store %0 + 2*%3, %30\n"
    "  Store %0 + 2*%3 + 1, %31\n"
    "End\n";

/* The same of another library, through the Blaze interface. */
static int blaze_kernels;
static void blaze_product(char *const *dst, const char *const *src,
                          aster_ml_kernel_data_prefix *extra) {
  (void)extra;
  float c[M * N] = {0}, a[M * K], b[K * N];
  memcpy(a, src[0], sizeof a);
  memcpy(b, src[1], sizeof b);
  for (int i = 0; i < M * N * K; i++)
    c[i / K] += 2 * a[i / (N * K) * K + i % K] * b[i % K * N + i / K % N];
  memcpy(dst[0], c, sizeof c);
}
static void blaze_destroy(aster_ml_kernel_data_prefix *kernel) {
  (void)kernel;
  --blaze_kernels;
}
static aster_ml_dynamic_kernel_instance blaze_instance(void) {
  aster_ml_dynamic_kernel_instance made = {0};
  const aster_ml_arrays function = blaze_product;
  made.kernel = malloc(sizeof *made.kernel);
  made.kernel_size = sizeof *made.kernel;
  made.free_func = free;
  memcpy(&made.kernel->function, &function, sizeof function);
  made.kernel->destructor = blaze_destroy;
  ++blaze_kernels;
  return made;
}

/* Kernels as programs of ours and of another library: by both the same, and refused alike. */
static void test_programs(void) {
  const char *const signature = "float32[3, 4], float32[4, 2] -> float32[3, 2]";
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0}, d = {0};
  for (int blaze = 0; blaze < 2; blaze++) {
    aster_ml_kernel kernel = {0};
    aster_ml_implementation made = of_matmul(blaze ? "theirs" : "program");
    if (blaze) {
      aster_ml_dynamic_kernel_instance theirs = blaze_instance();
      EXPECT(aster_ml_kernel_from_blaze(&kernel, &context, &theirs, ASTER_ML_KERNEL_ARRAYS,
                                        "theirs", signature, NULL) == 0);
    } else {
      EXPECT(aster_ml_kernel_from_program(&kernel, &context, kProgram, signature, NULL) == 0);
    }
    made.kernel = &kernel;
    EXPECT(forced(&c, &made, &a, &b) == 0);
    EXPECT(aster_ml_kernel_free(&kernel) == 0);
    expect_product(&c, 2);
    expect_usual_gradient(&c, &a, &b);
    /* Other shapes are refused with its name, and by it alone. */
    float big_data[9 * K];
    aster_ml_lazy big = matrix(big_data, 9, K, 1);
    EXPECT(aster_ml_registry_set_policies(&context, blaze
                                                        ? "{\"matmul\": \"force=theirs\"}"
                                                        : "{\"matmul\": \"force=program\"}") == 0);
    EXPECT(aster_ml_lazy_matmul(&d, &big, &b) == ASTER_ML_UNSUPPORTED && d.impl == NULL);
    EXPECT(says(blaze ? "theirs: its kernel's signature" : "program: its kernel's signature"));
    EXPECT(says("generated: takes it"));
    aster_ml_lazy_free(&big);
    /* A benchmark takes part with it. */
    EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"benchmark(cache=2)\"}") == 0);
    EXPECT(aster_ml_lazy_matmul(&d, &a, &b) == 0);
    char text[8192];
    size_t length = 0;
    EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "matmul") == 0);
    const char *const measured = strstr(text, "\"measured\"");
    EXPECT(measured != NULL && strstr(measured, made.name) != NULL);
    aster_ml_lazy_free(&d);
    let_go(made.name, &c);
    EXPECT(aster_ml_registry_forget(&context) == 0);
  }
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
  EXPECT(aster_ml_engine_collect(&context) == 0);
}

static void test_broken(void) {
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0};
  aster_ml_implementation made;
  int32_t (*const broken[])(void *, aster_ml_lazy *, const aster_ml_op_call *,
                            const aster_ml_lazy *) = {wrong_shape, fails, leaves_nothing};
  const int32_t statuses[] = {ASTER_ML_SHAPE, ASTER_ML_ERROR, ASTER_ML_ARGUMENT};
  const char *const texts[] = {"float32[3, 4]", "42", "empty"};
  for (size_t i = 0; i < 3; i++) {
    made = of_matmul("broken");
    made.build = broken[i];
    EXPECT(forced(&c, &made, &a, &b) == statuses[i] && c.impl == NULL);
    EXPECT(says("broken") && says(texts[i]));
    let_go("broken", &c);
  }
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

static void test_devices(void) {
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0};
  aster_ml_implementation made;
  /* On a device of another type: not for these operands; for those of its own it is the default. */
  made = of_matmul("elsewhere");
  made.build = fails;
  made.device = ASTER_ML_DEVICE_REFERENCE;
  EXPECT(aster_ml_registry_add(&context, &made) == 0);
  EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0);
  aster_ml_lazy_free(&c);
  aster_ml_lazy there = {0}, too = {0};
  EXPECT(aster_ml_lazy_to(&there, &a, ASTER_ML_DEVICE_REFERENCE) == 0);
  EXPECT(aster_ml_lazy_to(&too, &b, ASTER_ML_DEVICE_REFERENCE) == 0);
  EXPECT(aster_ml_lazy_matmul(&c, &there, &too) == ASTER_ML_ERROR && says("elsewhere"));
  EXPECT(aster_ml_registry_remove(&context, "matmul", "elsewhere") == 0);
  EXPECT(aster_ml_lazy_matmul(&c, &there, &too) == 0);
  expect_product(&c, 1);
  aster_ml_lazy_free(&c), aster_ml_lazy_free(&there), aster_ml_lazy_free(&too);
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

/* The library's forms against the usual one, and a benchmark. */
static void test_forms(void) {
  enum { SIZE = 128 };
  static float a_all[SIZE * SIZE], b_all[SIZE * SIZE], usual[SIZE * SIZE], other[SIZE * SIZE];
  aster_ml_lazy a = matrix(a_all, SIZE, SIZE, 3), b = matrix(b_all, SIZE, SIZE, 4), c = {0};
  EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0);
  read_to(usual, SIZE * SIZE, &c);
  aster_ml_lazy_free(&c);
  const char *const policies[] = {"{\"matmul\": \"force=strassen\"}",
                                  "{\"matmul\": \"force=openblas\"}",
                                  "{\"matmul\": \"benchmark(cache=2)\"}"};
  for (size_t i = 0; i < 3; i++) {
    EXPECT(aster_ml_registry_set_policies(&context, policies[i]) == 0);
    const int32_t status = aster_ml_lazy_matmul(&c, &a, &b);
    if (i == 1 && status == ASTER_ML_UNSUPPORTED && says("no OpenBLAS")) continue;
    EXPECT(status == 0);
    read_to(other, SIZE * SIZE, &c);
    aster_ml_lazy_free(&c);
    for (int e = 0; e < SIZE * SIZE; e++) EXPECT(fabsf(other[e] - usual[e]) < 2e-3f);
  }
  char text[8192];
  size_t length = 0;
  EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "matmul") == 0);
  const char *const first = strstr(text, "\"measured\": [");
  EXPECT(first != NULL && strstr(first, "float32[128, 128], float32[128, 128]") != NULL);
  EXPECT(first != NULL && strstr(first, "\"fastest\"") != NULL);
  /* The least recently used of three leaves a cache of two. */
  float small_data[32];
  for (int64_t rows = 2; rows <= 4; rows += 2) {
    aster_ml_lazy x = matrix(small_data, rows, 4, 1), y = matrix(b_data, K, N, 2);
    EXPECT(aster_ml_lazy_matmul(&c, &x, &y) == 0);
    aster_ml_lazy_free(&c), aster_ml_lazy_free(&x), aster_ml_lazy_free(&y);
  }
  EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "matmul") == 0);
  EXPECT(strstr(text, "float32[128, 128]") == NULL && strstr(text, "float32[4, 4]") != NULL);
  EXPECT(strstr(text, "float32[2, 4]") != NULL);
  EXPECT(aster_ml_registry_forget(&context) == 0);
  EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "matmul") == 0);
  EXPECT(strstr(text, "fastest") == NULL);
  EXPECT(aster_ml_registry_set_policies(&context, "{\"matmul\": \"default\"}") == 0);
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

static double says_dear(void *self, const aster_ml_op_call *call) {
  (void)self;
  EXPECT(strcmp(call->operation, "matmul") == 0 && call->result.shape[0] == M);
  return 1e12;
}
static double says_cheap(void *self, const aster_ml_op_call *call) {
  (void)self, (void)call;
  return 100;
}

/* What says that it takes far longer than another one says is not even run by a benchmark. */
static void test_costs(void) {
  aster_ml_lazy a = matrix(a_data, M, K, 1), b = matrix(b_data, K, N, 2), c = {0};
  int dear_calls = 0, cheap_calls = 0;
  aster_ml_implementation dear = of_matmul("dear"), cheap = of_matmul("cheap");
  dear.build = cheap.build = twice_by_graph;
  dear.self = &dear_calls, cheap.self = &cheap_calls;
  dear.cost = says_dear, cheap.cost = says_cheap;
  EXPECT(aster_ml_registry_add(&context, &dear) == 0);
  for (int turn = 0; turn < 2; turn++) {
    EXPECT(aster_ml_registry_push_policies(&context, "{\"matmul\": \"benchmark\"}") == 0);
    EXPECT(aster_ml_lazy_matmul(&c, &a, &b) == 0);
    EXPECT(aster_ml_registry_pop_policies(&context) == 0);
    aster_ml_lazy_free(&c);
    /* Alone among those that say anything it takes part. */
    EXPECT((dear_calls != 0) == (turn == 0) && (cheap_calls != 0) == (turn == 1));
    if (turn == 0) EXPECT(aster_ml_registry_add(&context, &cheap) == 0);
    EXPECT(aster_ml_registry_forget(&context) == 0);
    dear_calls = cheap_calls = 0;
  }
  EXPECT(aster_ml_registry_remove(&context, "matmul", "dear") == 0);
  EXPECT(aster_ml_registry_remove(&context, "matmul", "cheap") == 0);
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&b);
}

static int on_a_thread(void *self) {
  EXPECT(aster_ml_registry_pop_policies(&context) == ASTER_ML_STATE); /* pushed by another */
  char text[4096];
  size_t length = 0;
  EXPECT(aster_ml_registry_describe(text, &length, sizeof text, &context, "matmul") == 0);
  *(int *)self = strstr(text, "\"policy\": \"default\"") != NULL;
  return 0;
}

static void test_threads(void) {
  EXPECT(aster_ml_registry_push_policies(&context, "{\"matmul\": \"force=strassen\"}") == 0);
  int is_default = 0;
  thrd_t thread;
  EXPECT(thrd_create(&thread, on_a_thread, &is_default) == thrd_success);
  EXPECT(thrd_join(thread, NULL) == thrd_success);
  EXPECT(is_default);
  EXPECT(aster_ml_registry_pop_policies(&context) == 0);
}

static void test_environment(void) {
  aster_ml_context other = {0};
  aster_ml_lazy x = {0}, y = {0};
  setenv("ASTER_ML_REGISTRY", "{\"softmax\": \"quick\"}", 1);
  EXPECT(aster_ml_context_init(&other, NULL) == 0);
  const float data[] = {1, 2};
  const int64_t shape[] = {2};
  EXPECT(aster_ml_lazy_from(&x, &other, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == ASTER_ML_FORMAT);
  EXPECT(says("ASTER_ML_REGISTRY") && says("byte 12") && x.impl == NULL);
  setenv("ASTER_ML_REGISTRY", "{\"matmul\": \"force=strassen\"}", 1);
  EXPECT(aster_ml_lazy_from(&x, &other, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  unsetenv("ASTER_ML_REGISTRY");
  EXPECT(aster_ml_lazy_matmul(&y, &x, &x) == ASTER_ML_UNSUPPORTED && says("strassen"));
  aster_ml_lazy_free(&x);
  EXPECT(aster_ml_context_free(&other) == 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_policies();
  test_mistakes();
  test_ways();
  test_kernels();
  test_programs();
  test_broken();
  test_devices();
  test_forms();
  test_costs();
  test_threads();
  test_environment();
  aster_ml_implementation last = of_matmul("last");
  last.build = fails;
  last.release = note_release;
  released = 0;
  EXPECT(aster_ml_registry_add(&context, &last) == 0);
  EXPECT(aster_ml_context_free(&context) == 0 && released == 1);
  EXPECT(blaze_kernels == 0);
  return expect_failures;
}
