/* Kernels of others as operations: foreign ones of the Blaze interface (kernel_producer.c), C, and
 * kernel programs; lazily, in captures, with gradients, and what is wrong with them. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_producer.h"
#include "status.h"

static aster_ml_context context;

static aster_ml_lazy from_int32(const int32_t *data, size_t ndim, const int64_t *shape) {
  aster_ml_lazy out;
  SUCCEEDS(aster_ml_lazy_from(&out, &context, data, ASTER_ML_DTYPE_INT32, ndim, shape));
  return out;
}
static aster_ml_lazy from_float32(const float *data, size_t ndim, const int64_t *shape) {
  aster_ml_lazy out;
  SUCCEEDS(aster_ml_lazy_from(&out, &context, data, ASTER_ML_DTYPE_FLOAT32, ndim, shape));
  return out;
}
static aster_ml_kernel foreign(int which, int32_t factor, int32_t form, const char *signature) {
  dynamic_kernel_instance k;
  aster_ml_kernel out;
  EXPECT(producer_get(&k, which, factor) == 0);
  SUCCEEDS(aster_ml_kernel_from_blaze(&out, &context, &k, form, "theirs", signature, NULL));
  EXPECT(k.kernel == NULL && k.free_func == NULL);
  return out;
}
static aster_ml_lazy apply(const aster_ml_kernel *kernel, const aster_ml_lazy *a,
                           const aster_ml_lazy *b, int64_t result) {
  const aster_ml_lazy *const operands[] = {a, b};
  aster_ml_lazy out;
  SUCCEEDS(aster_ml_kernel_apply(&out, kernel, operands, b == NULL ? 1 : 2, result));
  return out;
}
static void read_out(void *data, size_t bytes, aster_ml_lazy *x) {
  SUCCEEDS(aster_ml_lazy_copy_out(data, bytes, x));
}
static uint64_t launches(void) {
  aster_ml_engine_counters counters = {.struct_size = sizeof counters};
  SUCCEEDS(aster_ml_engine_count(&counters, &context));
  return counters.kernels_launched;
}

/* Of every form, on views that are read where they lie: rows backwards, columns, broadcast. */
static void test_foreign(void) {
  const int64_t shape[] = {2, 3}, three[] = {3};
  const int32_t values[] = {1, 2, 3, 4, 5, 6}, row[] = {10, 20, 30};
  aster_ml_lazy x = from_int32(values, 2, shape), r = from_int32(row, 1, three);
  aster_ml_kernel kernels[] = {
      foreign(PRODUCER_SCALE, 7, ASTER_ML_KERNEL_SINGLE, "int32[...] -> int32[...]"),
      foreign(PRODUCER_SCALE_STRIDED, 7, ASTER_ML_KERNEL_STRIDED, "int32[...]->int32[...]")};
  EXPECT(aster_ml_kernel_count_operands(&kernels[0]) == 1);
  EXPECT(aster_ml_kernel_count_results(&kernels[0]) == 1);
  for (int k = 0; k < 2; k++) {
    aster_ml_lazy turned, back;
    SUCCEEDS(aster_ml_lazy_transpose(&turned, &x, 0, 1));
    SUCCEEDS(aster_ml_lazy_flip(&back, &turned, 1, (const int64_t[]){0}));
    aster_ml_lazy y = apply(&kernels[k], &back, NULL, 0);
    int32_t got[6];
    const uint64_t before = launches();
    read_out(got, sizeof got, &y);
    EXPECT(launches() == before + 1); /* the kernel alone */
    const int32_t expected[] = {21, 42, 14, 35, 7, 28};
    EXPECT(memcmp(got, expected, sizeof got) == 0);
    aster_ml_lazy_free(&y);
    aster_ml_lazy_free(&back);
    aster_ml_lazy_free(&turned);
    aster_ml_kernel_free(&kernels[k]);
  }
  aster_ml_kernel add = foreign(PRODUCER_ADD_STRIDED, 2, ASTER_ML_KERNEL_STRIDED,
                                "int32[...], int32[...] -> int32[...]");
  aster_ml_lazy y = apply(&add, &x, &r, 0), doubled;
  SUCCEEDS(aster_ml_lazy_add(&doubled, &y, &y));
  int32_t got[6];
  read_out(got, sizeof got, &doubled);
  for (int i = 0; i < 6; i++) EXPECT(got[i] == 2 * (values[i] + 2 * row[i % 3]));
  aster_ml_kernel both =
      foreign(PRODUCER_ARRAYS, 2, ASTER_ML_KERNEL_ARRAYS, "int32[3] -> int32, int32[]");
  aster_ml_lazy sum = apply(&both, &r, NULL, 0), product = apply(&both, &r, NULL, 1), total;
  SUCCEEDS(aster_ml_lazy_add(&total, &sum, &product));
  int32_t one = 0;
  read_out(&one, sizeof one, &total);
  EXPECT(one == 60 + 2 * 6000);
  aster_ml_lazy *all[] = {&x, &r, &y, &doubled, &sum, &product, &total};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) aster_ml_lazy_free(all[i]);
  aster_ml_kernel_free(&add);
  aster_ml_kernel_free(&both);
}

/* Large ones by several threads, tails and all. */
static void test_many_elements(void) {
  enum { kRows = 61, kColumns = 9001 };
  int32_t *values = malloc(sizeof(int32_t) * kRows * kColumns);
  for (int i = 0; i < kRows * kColumns; i++) values[i] = i;
  const int64_t shape[] = {kRows, kColumns};
  aster_ml_lazy x = from_int32(values, 2, shape), turned;
  aster_ml_kernel scale =
      foreign(PRODUCER_SCALE_STRIDED, 3, ASTER_ML_KERNEL_STRIDED, "int32[...] -> int32[...]");
  SUCCEEDS(aster_ml_lazy_transpose(&turned, &x, 0, 1));
  aster_ml_lazy y = apply(&scale, &turned, NULL, 0);
  int32_t *got = malloc(sizeof(int32_t) * kRows * kColumns);
  read_out(got, sizeof(int32_t) * kRows * kColumns, &y);
  int wrong = 0;
  for (int c = 0; c < kColumns; c++)
    for (int r = 0; r < kRows; r++) wrong += got[c * kRows + r] != 3 * (r * kColumns + c);
  EXPECT(wrong == 0);
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&turned);
  aster_ml_lazy_free(&y);
  aster_ml_kernel_free(&scale);
  free(values);
  free(got);
}

/* What is wrong with an instance: nothing is taken over. */
static void test_bad_instances(void) {
  dynamic_kernel_instance k;
  aster_ml_kernel out;
  const char *signature = "int32[...] -> int32[...]";
  EXPECT(producer_get(&k, PRODUCER_SCALE, 3) == 0);
  const dynamic_kernel_instance good = k;
  const kernel_data_prefix prefix = *k.kernel;
#define TRY(code, text) \
  FAILS(aster_ml_kernel_from_blaze(&out, &context, &k, 0, "bad", signature, NULL), code, text)
  k.kernel->function = NULL;
  TRY(ASTER_ML_ARGUMENT, "the kernel's function is null");
  *k.kernel = prefix;
  k.kernel->destructor = NULL;
  TRY(ASTER_ML_ARGUMENT, "the kernel's destructor is null");
  *k.kernel = prefix;
  k.free_func = NULL;
  TRY(ASTER_ML_ARGUMENT, "free_func is null");
  k = good;
  k.kernel_size = 20;
  TRY(ASTER_ML_ARGUMENT, "20 bytes, is no multiple of 8");
  k.kernel_size = 8;
  TRY(ASTER_ML_ARGUMENT, "less than 16");
  k = good;
  k.kernel = (kernel_data_prefix *)(void *)((char *)good.kernel + 4);
  TRY(ASTER_ML_ARGUMENT, "not aligned");
  k.kernel = NULL;
  TRY(ASTER_ML_ARGUMENT, "null pointer");
  k = good;
  signature = "int32[3] -> int32[3]";
  TRY(ASTER_ML_ARGUMENT, "all of shape [...]");
  signature = "int32[...] -> ";
  TRY(ASTER_ML_FORMAT, "a result");
  signature = "int33[...] -> int32";
  TRY(ASTER_ML_FORMAT, "a dtype");
  signature = "int32[...] -> int32[..]";
  TRY(ASTER_ML_FORMAT, "a number");
  signature = "-> int32[...]";
  TRY(ASTER_ML_FORMAT, "none of its operands");
  signature = NULL;
  TRY(ASTER_ML_ARGUMENT, "signature");
  FAILS(aster_ml_kernel_from_blaze(&out, &context, &k, 9, "bad", "int32[...] -> int32[...]", NULL),
        ASTER_ML_ARGUMENT, "9 is no form");
  EXPECT(producer_kernels() == 1 && out.impl == NULL);
  k.kernel->destructor(k.kernel);
  k.free_func(k.kernel);
}

/* A kernel lives as long as its handle, a tensor, a schedule or a program, and ends once. */
static void test_lifetimes(void) {
  aster_ml_context own;
  const int64_t shape[] = {4};
  const int32_t values[] = {1, 2, 3, 4};
  EXPECT(producer_kernels() == 0);
  SUCCEEDS(aster_ml_context_init(&own, NULL));
  dynamic_kernel_instance k;
  aster_ml_kernel kernel;
  EXPECT(producer_get(&k, PRODUCER_SCALE_STRIDED, 5) == 0);
  SUCCEEDS(aster_ml_kernel_from_blaze(&kernel, &own, &k, ASTER_ML_KERNEL_STRIDED, NULL,
                                      "int32[...] -> int32[...]", NULL));
  aster_ml_lazy x, y, z;
  SUCCEEDS(aster_ml_lazy_from(&x, &own, values, ASTER_ML_DTYPE_INT32, 1, shape));
  const aster_ml_lazy *const operands[] = {&x};
  SUCCEEDS(aster_ml_kernel_apply(&y, &kernel, operands, 1, 0));
  SUCCEEDS(aster_ml_kernel_apply(&z, &kernel, operands, 1, 0));
  EXPECT(aster_ml_lazy_is_same(&y, &z) == 1); /* equal calls are one */
  aster_ml_lazy_free(&z);
  aster_ml_kernel copy = kernel;
  SUCCEEDS(aster_ml_kernel_free(&kernel));
  FAILS(aster_ml_kernel_apply(&z, &copy, operands, 1, 0), ASTER_ML_ARGUMENT, "was freed");
  EXPECT(producer_kernels() == 1);
  aster_ml_lazy *inputs[] = {&x}, *outputs[] = {&y};
  aster_ml_program program;
  SUCCEEDS(aster_ml_engine_capture_begin(&own, inputs, 1));
  SUCCEEDS(aster_ml_lazy_realize(outputs, 1));
  SUCCEEDS(aster_ml_engine_capture_end(&program, &own, outputs, 1));
  aster_ml_lazy_free(&y);
  aster_ml_tensor in, out = {0};
  const int32_t others[] = {5, 6, 7, 8};
  SUCCEEDS(
      aster_ml_tensor_from_data(&in, &own, others, ASTER_ML_DTYPE_INT32, 1, (const size_t[]){4}));
  SUCCEEDS(aster_ml_program_run(&program, NULL, &in, 1, &out, 1));
  int32_t got[4];
  SUCCEEDS(aster_ml_tensor_copy_out(got, &out, 4));
  for (int i = 0; i < 4; i++) EXPECT(got[i] == 5 * others[i]);
  aster_ml_tensor_free(&in);
  aster_ml_tensor_free(&out);
  aster_ml_program_free(&program);
  aster_ml_lazy_free(&x);
  EXPECT(producer_kernels() == 1); /* the schedule cache's */
  SUCCEEDS(aster_ml_context_free(&own));
  EXPECT(producer_kernels() == 0 && producer_blocks() == 0);
}

static const char kSquare[] =
    "void square(float *y, const float *x, long long begin, long long end) {\n"
    "  for (long long i = begin; i < end; i++) y[i] = x[i] * x[i];\n"
    "}\n";
static const char kSquareGradient[] =
    "void back(float *dx, const float *x, const float *y, const float *dy, long long begin,\n"
    "          long long end) {\n"
    "  for (long long i = begin; i < end; i++) dx[i] = 2 * x[i] * dy[i];\n"
    "}\n";

static int32_t released;
static void release(void *self) { released += *(int32_t *)self; }
/* 2 * x * dy, as a graph. */
static int32_t build_gradient(void *self, aster_ml_lazy *out, const aster_ml_lazy *operands,
                              const aster_ml_lazy *results, const aster_ml_lazy *gradients) {
  aster_ml_lazy twice, wrong;
  (void)results;
  if (*(int32_t *)self == 2) return ASTER_ML_ERROR;
  EXPECT(aster_ml_lazy_reshape(&wrong, &operands[0], 1, (const int64_t[]){7}) !=
         0); /* is left behind */
  const int32_t status = aster_ml_lazy_add(&twice, &operands[0], &operands[0]);
  if (status != 0) return status;
  const int32_t end = aster_ml_lazy_mul(&out[0], &twice, &gradients[0]);
  aster_ml_lazy_free(&twice);
  return end;
}

static void check_gradient(const aster_ml_kernel *square, int32_t expected) {
  const int64_t shape[] = {2, 2};
  const float values[] = {1, 2, -3, 4};
  aster_ml_lazy x = from_float32(values, 2, shape), loss, dx;
  aster_ml_lazy y = apply(square, &x, NULL, 0);
  SUCCEEDS(aster_ml_lazy_sum(&loss, &y, 0, NULL, 0));
  const aster_ml_lazy *targets[] = {&x};
  const int32_t status = aster_ml_gradient(&dx, &loss, targets, 1, NULL);
  EXPECT(status == expected);
  if (status == 0) {
    float got[4];
    read_out(got, sizeof got, &dx);
    for (int i = 0; i < 4; i++) EXPECT(got[i] == 2 * values[i]);
    read_out(got, sizeof got, &y);
    for (int i = 0; i < 4; i++) EXPECT(got[i] == values[i] * values[i]);
    aster_ml_lazy_free(&dx);
  }
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_lazy_free(&loss);
}

static void test_source(void) {
  aster_ml_kernel square, back;
  SUCCEEDS(aster_ml_kernel_from_source(&square, &context, kSquare, "square",
                                       "float32[...] -> float32[...]", NULL));
  SUCCEEDS(aster_ml_kernel_from_source(&back, &context, kSquareGradient, "back",
                                       "float32[...], float32[...], float32[...] -> float32[...]",
                                       NULL));
  check_gradient(&square, ASTER_ML_UNSUPPORTED);
  FAILS(aster_ml_kernel_set_gradient(&square, &square), ASTER_ML_ARGUMENT, "takes 3 tensors");
  SUCCEEDS(aster_ml_kernel_set_gradient(&square, &back));
  check_gradient(&square, 0);
  int32_t self = 1, failing = 2;
  SUCCEEDS(aster_ml_kernel_set_gradient_function(&square, build_gradient, &self, release));
  check_gradient(&square, 0);
  SUCCEEDS(aster_ml_kernel_set_gradient_function(&square, build_gradient, &failing, release));
  EXPECT(released == 1);
  check_gradient(&square, ASTER_ML_ERROR);
  SUCCEEDS(aster_ml_kernel_set_gradient(&square, NULL));
  EXPECT(released == 3);
  check_gradient(&square, ASTER_ML_UNSUPPORTED);
  /* What it is not called with. */
  const int64_t shape[] = {2};
  const int32_t whole[] = {1, 2};
  aster_ml_lazy i = from_int32(whole, 1, shape), out, number;
  const aster_ml_lazy *const operands[] = {&i, &i};
  FAILS(aster_ml_kernel_apply(&out, &square, operands, 1, 0), ASTER_ML_DTYPE, "not float32");
  FAILS(aster_ml_kernel_apply(&out, &square, operands, 2, 0), ASTER_ML_ARGUMENT, "takes 1 tensors");
  SUCCEEDS(aster_ml_lazy_number(&number, &context, 3));
  out = apply(&square, &number, NULL, 0);
  float nine = 0;
  read_out(&nine, sizeof nine, &out);
  EXPECT(nine == 9);
  const aster_ml_lazy *const numbers[] = {&number};
  aster_ml_lazy none;
  FAILS(aster_ml_kernel_apply(&none, &square, numbers, 1, 1), ASTER_ML_RANGE, "no result 1");
  aster_ml_lazy_free(&i);
  aster_ml_lazy_free(&number);
  aster_ml_lazy_free(&out);
  aster_ml_kernel_free(&square);
  aster_ml_kernel_free(&back);
}

static void test_bad_sources(void) {
  aster_ml_kernel out;
  const char *signature = "float32[...] -> float32[...]";
#define SOURCE(source, name, code, text)                                                         \
  FAILS(aster_ml_kernel_from_source(&out, &context, source, name, signature, NULL), code, text); \
  EXPECT(out.impl == NULL)
  SOURCE("void f(float *y, const float *x, long long begin, long long end) { y = z; }\n", "f",
         ASTER_ML_COMPILE, "f:1:");
  SOURCE("void f(double *y, const float *x, long long b, long long e) {}\n", "f", ASTER_ML_COMPILE,
         "conflicting types");
  SOURCE(kSquare, "not a name", ASTER_ML_ARGUMENT, "no name of a function");
  SOURCE(kSquare, "cube", ASTER_ML_COMPILE, "cube");
  SOURCE(NULL, "f", ASTER_ML_ARGUMENT, "null");
  signature = "float32[...] -> float32[...], int32[...]";
  SOURCE(kSquare, "square", ASTER_ML_UNSUPPORTED, "one dtype");
  aster_ml_kernel_options options = {.struct_size = sizeof options, .device = ASTER_ML_DEVICE_CUDA};
#define OPTIONS(code, text)                                                    \
  FAILS(aster_ml_kernel_from_source(&out, &context, kSquare, "square",         \
                                    "float32[...] -> float32[...]", &options), \
        code, text)
  OPTIONS(ASTER_ML_UNSUPPORTED, "CUDA");
  options.device = ASTER_ML_DEVICE_REFERENCE;
  OPTIONS(ASTER_ML_UNSUPPORTED, "REFERENCE, which takes none");
  options.device = ASTER_ML_DEVICE_CPU + 1;
  options.local_size[0] = 8;
  OPTIONS(ASTER_ML_ARGUMENT, "of OpenCL C");
  options.tasks = -1;
  OPTIONS(ASTER_ML_ARGUMENT, "negative");
  /* What a kernel may be given later. */
  aster_ml_kernel square = {0};
  options = (aster_ml_kernel_options){.struct_size = sizeof options};
  FAILS(aster_ml_kernel_add_source(&square, kSquare, NULL), ASTER_ML_ARGUMENT, "an empty");
  OPTIONS(0, "");
  FAILS(aster_ml_kernel_add_source(&out, NULL, NULL), ASTER_ML_ARGUMENT, "null");
  FAILS(aster_ml_kernel_add_source(&out, kSquare, NULL), ASTER_ML_STATE,
        "has a source for the CPU");
  options.device = ASTER_ML_DEVICE_CUDA;
  FAILS(aster_ml_kernel_add_source(&out, kSquare, &options), ASTER_ML_UNSUPPORTED, "CUDA");
  aster_ml_kernel_free(&out);
  square = foreign(PRODUCER_SCALE, 7, ASTER_ML_KERNEL_SINGLE, "int32[...] -> int32[...]");
  FAILS(aster_ml_kernel_add_source(&square, kSquare, NULL), ASTER_ML_STATE, "not from source");
  aster_ml_kernel_free(&square);
}

/* Rows of x * 2, by tasks. */
static const char kProgram[] =
    "program twice\n"
    "%0 = Param f32 0 [64] write\n"
    "%1 = Param f32 1 [64]\n"
    "%2 = Loop task 0 8 1\n"
    "  %3 = Load f32x8 %1 + 8*%2\n"
    "  %4 = Add f32x8 %3 %3\n"
    "  Store %0 + 8*%2, %4\n"
    "End\n";
static void test_program(void) {
  aster_ml_kernel twice;
  SUCCEEDS(aster_ml_kernel_from_program(&twice, &context, kProgram, "float32[8, 8] -> float32[64]",
                                        NULL));
  float values[64], got[64];
  for (int i = 0; i < 64; i++) values[i] = (float)i;
  const int64_t shape[] = {8, 8};
  aster_ml_lazy x = from_float32(values, 2, shape), y = apply(&twice, &x, NULL, 0);
  read_out(got, sizeof got, &y);
  for (int i = 0; i < 64; i++) EXPECT(got[i] == 2 * values[i]);
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_kernel_free(&twice);
#define PROGRAM(text, signature, code, words) \
  FAILS(aster_ml_kernel_from_program(&twice, &context, text, signature, NULL), code, words)
  PROGRAM(kProgram, "float32[64] -> float32[63]", ASTER_ML_ARGUMENT, "Param 0 is not written");
  PROGRAM(kProgram, "float32[64], float32 -> float32[64]", ASTER_ML_ARGUMENT, "has 2 Params");
  PROGRAM(kProgram, "float32[64] -> float64[64]", ASTER_ML_ARGUMENT, "float64 of 64");
  PROGRAM(kProgram, "float32[...] -> float32[...]", ASTER_ML_ARGUMENT, "[...]");
  PROGRAM("program bad\n%0 = Nonsense\n", "-> float32", ASTER_ML_FORMAT, "2");
  PROGRAM("program bad\n%0 = Param f32 0 [4] write\n%1 = Const f32 1\nStore %0 + 4, %1\n",
          "-> float32[4]", ASTER_ML_ARGUMENT, "bad");
}

/* Under the checker: what is written outside results, or to operands, is an error of the run. */
static void test_checker(void) {
  aster_ml_kernel kernels[3];
  setenv("ASTER_ML_CHECK_KERNELS", "1", 1);
  const char *const sources[] = {
      "void k(float *y, const float *x, long long b, long long e) { y[e] = x[0]; }\n",
      "void k(float *y, const float *x, long long b, long long e) { *(float *)x = *y = 1; }\n",
      "void k(float *y, const float *x, long long b, long long e) { y[b - 3] = 1; }\n"};
  const char *const said[] = {"wrote outside result 0: byte 0 behind it", "wrote to its operand 0",
                              "byte 12 before it"};
  const int64_t shape[] = {5};
  const float values[] = {2, 3, 4, 5, 6};
  for (int i = 0; i < 3; i++) {
    SUCCEEDS(aster_ml_kernel_from_source(&kernels[i], &context, sources[i], "k",
                                         "float32[...] -> float32[...]", NULL));
    aster_ml_lazy x = from_float32(values, 1, shape), y = apply(&kernels[i], &x, NULL, 0);
    float got[5];
    FAILS(aster_ml_lazy_copy_out(got, sizeof got, &y), ASTER_ML_ARGUMENT, said[i]);
    EXPECT(aster_ml_lazy_is_realized(&y) == 0);
    read_out(got, sizeof got, &x);
    EXPECT(memcmp(got, values, sizeof got) == 0);
    aster_ml_lazy_free(&x);
    aster_ml_lazy_free(&y);
    aster_ml_kernel_free(&kernels[i]);
  }
  test_foreign();
  test_source();
  test_program();
  unsetenv("ASTER_ML_CHECK_KERNELS");
}

int main(void) {
  SUCCEEDS(aster_ml_context_init(&context, NULL));
  test_bad_instances(); /* first: they count kernels, and schedules keep those that ran */
  test_lifetimes();
  test_foreign();
  test_many_elements();
  test_source();
  test_bad_sources();
  test_program();
  released = 0;
  test_checker();
  EXPECT(aster_ml_context_free(&context) == 0);
  EXPECT(producer_kernels() == 0 && producer_blocks() == 0);
  return expect_failures;
}
