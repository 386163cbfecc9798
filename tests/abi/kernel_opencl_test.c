/* Kernels in OpenCL C, and kernel programs, on the machine's OpenCL device: shapes, groups, local
 * memory, views, several results, gradients, replays, and what is wrong with them. With the word
 * `outside` it runs one that writes outside of its memory, for oclgrind to tell. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

static aster_ml_context context;
enum { kOpencl = ASTER_ML_DEVICE_OPENCL };

static aster_ml_kernel_options options_of(int32_t device) {
  return (aster_ml_kernel_options){.struct_size = sizeof(aster_ml_kernel_options),
                                   .device = device};
}
static aster_ml_kernel kernel_of(const char *source, const char *name, const char *signature,
                                 const aster_ml_kernel_options *options) {
  aster_ml_kernel out;
  SUCCEEDS(aster_ml_kernel_from_source(&out, &context, source, name, signature, options));
  return out;
}
/* 0, 1, .. on a device. */
static aster_ml_lazy counted(int64_t count, int32_t device) {
  float *values = malloc(sizeof(float) * (size_t)count);
  for (int64_t i = 0; i < count; i++) values[i] = (float)i;
  aster_ml_lazy here, out;
  SUCCEEDS(aster_ml_lazy_from(&here, &context, values, ASTER_ML_DTYPE_FLOAT32, 1, &count));
  SUCCEEDS(aster_ml_lazy_to(&out, &here, device));
  aster_ml_lazy *all[] = {&out};
  SUCCEEDS(aster_ml_lazy_realize(all, 1));
  aster_ml_lazy_free(&here);
  free(values);
  return out;
}
static aster_ml_lazy apply(const aster_ml_kernel *kernel, const aster_ml_lazy *x, int64_t result) {
  const aster_ml_lazy *const operands[] = {x};
  aster_ml_lazy out;
  SUCCEEDS(aster_ml_kernel_apply(&out, kernel, operands, 1, result));
  return out;
}
static void read_out(float *to, size_t count, aster_ml_lazy *x) {
  SUCCEEDS(aster_ml_lazy_copy_out(to, count * sizeof(float), x));
}
static uint64_t on_host(void) {
  aster_ml_engine_counters counters = {.struct_size = sizeof counters};
  SUCCEEDS(aster_ml_engine_count(&counters, &context));
  return counters.host_kernels + counters.interpreted + counters.copies;
}

static const char kSquare[] =
    "void square(__global float *y, __global const float *x, long count) {\n"
    "  const long i = get_global_id(0);\n"
    "  if (i < count) y[i] = x[i] * x[i];\n"
    "}\n";
static const char kSquareInC[] =
    "void square(float *y, const float *x, long long begin, long long end) {\n"
    "  for (long long i = begin; i < end; i++) y[i] = x[i] * x[i];\n"
    "}\n";

/* Elements of any shape, in groups of the device's choice and in whole ones of 64; of a slice,
 * whose memory begins in the midst of another's. */
static void test_elements(void) {
  aster_ml_lazy x = counted(103, kOpencl), part;
  SUCCEEDS(aster_ml_lazy_shrink(&part, &x, 1, (const int64_t[]){3}, (const int64_t[]){103}));
  for (int local = 0; local < 2; local++) {
    aster_ml_kernel_options options = options_of(kOpencl);
    if (local != 0) options.local_size[0] = 64;
    aster_ml_kernel square = kernel_of(kSquare, "square", "float32[...] -> float32[...]", &options);
    aster_ml_lazy whole = apply(&square, &x, 0), some = apply(&square, &part, 0), more;
    SUCCEEDS(aster_ml_lazy_add(&more, &some, &some));
    float got[103];
    const uint64_t before = on_host();
    read_out(got, 103, &whole);
    for (int i = 0; i < 103; i++) EXPECT(got[i] == (float)(i * i));
    read_out(got, 100, &more);
    for (int i = 0; i < 100; i++) EXPECT(got[i] == (float)(2 * (i + 3) * (i + 3)));
    EXPECT(on_host() == before);
    aster_ml_lazy *all[] = {&whole, &some, &more};
    for (size_t i = 0; i < 3; i++) aster_ml_lazy_free(all[i]);
    aster_ml_kernel_free(&square);
  }
  aster_ml_lazy_free(&part);
  aster_ml_lazy_free(&x);
}

/* Rows of 8 x 16 turned in local memory, by groups of two dimensions; the second result behind the
 * first. */
static const char kTurn[] =
    "__kernel void turn(__global float *y, __global float *sums, __global const float *x,\n"
    "                   long count, __local void *memory) {\n"
    "  __local float *tile = memory;\n"
    "  const int r = get_global_id(1), c = get_global_id(0), lr = get_local_id(1),\n"
    "            lc = get_local_id(0);\n"
    "  tile[lc * 4 + lr] = x[r * 16 + c];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  const int i = lr * 4 + lc;\n"
    "  y[(get_group_id(0) * 4 + i / 4) * 8 + get_group_id(1) * 4 + i % 4] = tile[i];\n"
    "  if (i == 0) {\n"
    "    float sum = 0;\n"
    "    for (int k = 0; k < 16; k++) sum += tile[k];\n"
    "    sums[get_group_id(1) * 4 + get_group_id(0)] = sum + count;\n"
    "  }\n"
    "}\n";
static void test_groups(void) {
  aster_ml_kernel_options options = options_of(kOpencl);
  options.global_size[0] = 16, options.global_size[1] = 8;
  options.local_size[0] = options.local_size[1] = 4;
  options.local_bytes = 16 * sizeof(float);
  aster_ml_kernel turn =
      kernel_of(kTurn, "turn", "float32[128] -> float32[16, 8], float32[8]", &options);
  aster_ml_lazy x = counted(128, kOpencl), y = apply(&turn, &x, 0), sums = apply(&turn, &x, 1);
  float got[128];
  read_out(got, 128, &y);
  for (int i = 0; i < 128; i++) EXPECT(got[i] == (float)(i % 8 * 16 + i / 8));
  read_out(got, 8, &sums);
  for (int i = 0; i < 8; i++) {
    float sum = 128; /* work-items */
    for (int k = 0; k < 16; k++) sum += (float)((i / 4 * 4 + k / 4) * 16 + i % 4 * 4 + k % 4);
    EXPECT(got[i] == sum);
  }
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_lazy_free(&sums);
  aster_ml_kernel_free(&turn);
}

/* Where there is a source for each, a kernel runs where its tensors are; else it says so. */
static void test_sources(void) {
  const aster_ml_kernel_options device = options_of(kOpencl);
  const char *const signature = "float32[...] -> float32[...]";
  aster_ml_kernel square = kernel_of(kSquare, "square", signature, &device);
  aster_ml_kernel in_c = kernel_of(kSquareInC, "square", signature, NULL);
  aster_ml_lazy here = counted(9, 0), there = counted(9, kOpencl), y;
  float got[9];
  y = apply(&square, &here, 0);
  FAILS(aster_ml_lazy_copy_out(got, sizeof got, &y), ASTER_ML_UNSUPPORTED,
        "kernel \"square\" has no source for the CPU");
  SUCCEEDS(aster_ml_kernel_add_source(&square, kSquareInC, NULL));
  read_out(got, 9, &y); /* the same tensor */
  EXPECT(got[8] == 64);
  aster_ml_lazy_free(&y);
  y = apply(&in_c, &there, 0);
  FAILS(aster_ml_lazy_copy_out(got, sizeof got, &y), ASTER_ML_UNSUPPORTED,
        "kernel \"square\" has no source for OPENCL");
  SUCCEEDS(aster_ml_kernel_add_source(&in_c, kSquare, &device));
  read_out(got, 9, &y);
  EXPECT(got[7] == 49);
  FAILS(aster_ml_kernel_add_source(&in_c, kSquare, &device), ASTER_ML_STATE,
        "has a source for OPENCL");
  aster_ml_lazy_free(&y);
  y = apply(&square, &there, 0);
  read_out(got, 9, &y);
  EXPECT(got[6] == 36);
  aster_ml_lazy_free(&y);
  aster_ml_lazy_free(&here);
  aster_ml_lazy_free(&there);
  aster_ml_kernel_free(&square);
  aster_ml_kernel_free(&in_c);
}

static void test_gradient(void) {
  const aster_ml_kernel_options device = options_of(kOpencl);
  aster_ml_kernel square = kernel_of(kSquare, "square", "float32[...] -> float32[...]", &device);
  aster_ml_kernel back = kernel_of(
      "void back(__global float *dx, __global const float *x, __global const float *y,\n"
      "          __global const float *dy, long count) {\n"
      "  dx[get_global_id(0)] = 2 * x[get_global_id(0)] * dy[get_global_id(0)];\n"
      "}\n",
      "back", "float32[...], float32[...], float32[...] -> float32[...]", &device);
  SUCCEEDS(aster_ml_kernel_set_gradient(&square, &back));
  aster_ml_lazy x = counted(50, kOpencl), y = apply(&square, &x, 0), loss, dx;
  SUCCEEDS(aster_ml_lazy_sum(&loss, &y, 0, NULL, 0));
  const aster_ml_lazy *targets[] = {&x};
  SUCCEEDS(aster_ml_gradient(&dx, &loss, targets, 1, NULL));
  float got[50];
  read_out(got, 50, &dx);
  for (int i = 0; i < 50; i++) EXPECT(got[i] == 2 * (float)i);
  aster_ml_lazy *all[] = {&x, &y, &loss, &dx};
  for (size_t i = 0; i < 4; i++) aster_ml_lazy_free(all[i]);
  aster_ml_kernel_free(&square);
  aster_ml_kernel_free(&back);
}

/* Both results of a kernel in a captured step, whose operand is a slice of what is given. */
static void test_replays(void) {
  const aster_ml_kernel_options device = options_of(kOpencl);
  aster_ml_kernel both = kernel_of(
      "void both(__global float *y, __global float *z, __global const float *x, long count) {\n"
      "  const long i = get_global_id(0);\n"
      "  y[i] = x[i] + 1;\n"
      "  z[i] = x[i] - count;\n"
      "}\n",
      "both", "float32[...] -> float32[...], float32[...]", &device);
  aster_ml_lazy x = counted(20, kOpencl), part, y, z, twice;
  aster_ml_lazy *inputs[] = {&x}, *outputs[] = {&twice, &z};
  aster_ml_program program;
  SUCCEEDS(aster_ml_engine_capture_begin(&context, inputs, 1));
  SUCCEEDS(aster_ml_lazy_shrink(&part, &x, 1, (const int64_t[]){5}, (const int64_t[]){15}));
  y = apply(&both, &part, 0);
  z = apply(&both, &part, 1);
  SUCCEEDS(aster_ml_lazy_add(&twice, &y, &y));
  SUCCEEDS(aster_ml_lazy_realize(outputs, 2));
  SUCCEEDS(aster_ml_engine_capture_end(&program, &context, outputs, 2));
  for (int run = 0; run < 3; run++) {
    float values[20], got[10];
    for (int i = 0; i < 20; i++) values[i] = (float)(100 * run + i);
    aster_ml_tensor in, first = {0}, second = {0};
    SUCCEEDS(aster_ml_tensor_init(&in, &context, ASTER_ML_DTYPE_FLOAT32, kOpencl, 1,
                                  (const size_t[]){20}));
    aster_ml_tensor out[] = {first, second};
    SUCCEEDS(aster_ml_tensor_copy_in(&in, values, 20));
    SUCCEEDS(aster_ml_program_run(&program, NULL, &in, 1, out, 2));
    SUCCEEDS(aster_ml_tensor_copy_out(got, &out[0], 10));
    for (int i = 0; i < 10; i++) EXPECT(got[i] == 2 * (values[i + 5] + 1));
    SUCCEEDS(aster_ml_tensor_copy_out(got, &out[1], 10));
    for (int i = 0; i < 10; i++) EXPECT(got[i] == values[i + 5] - 10);
    aster_ml_tensor_free(&in);
    aster_ml_tensor_free(&out[0]);
    aster_ml_tensor_free(&out[1]);
  }
  aster_ml_program_free(&program);
  aster_ml_lazy *all[] = {&x, &part, &y, &z, &twice};
  for (size_t i = 0; i < 5; i++) aster_ml_lazy_free(all[i]);
  aster_ml_kernel_free(&both);
}

/* By tasks; and rows of 16 turned round by groups, whose items meet in local memory: two results.
 */
static const char kTasks[] =
    "program twice\n"
    "%0 = Param f32 0 [64] write\n"
    "%1 = Param f32 1 [64]\n"
    "%2 = Loop task 0 8 1\n"
    "  %3 = Load f32x8 %1 + 8*%2\n"
    "  %4 = Add f32x8 %3 %3\n"
    "  Store %0 + 8*%2, %4\n"
    "End\n";
static const char kGroups[] =
    "program turn_rows\n"
    "%0 = Param f32 0 [64] write\n"
    "%1 = Param f32 1 [64] write\n"
    "%2 = Param f32 2 [64]\n"
    "%3 = Loop group 0 0 4 1\n"
    "  %4 = Array f32 [16] local\n"
    "  %5 = Loop local 0 0 16 1\n"
    "    %6 = Load f32 %2 + 16*%3 + %5\n"
    "    Store %4 + %5, %6\n"
    "    Barrier local\n"
    "    %10 = Load f32 %4 - %5 + 15\n"
    "    Store %0 + 16*%3 + %5, %10\n"
    "    %11 = Add f32 %10 %10\n"
    "    Store %1 + 16*%3 + %5, %11\n"
    "  End\n"
    "End\n";
static void test_programs(void) {
  aster_ml_kernel twice, rows;
  SUCCEEDS(
      aster_ml_kernel_from_program(&twice, &context, kTasks, "float32[64] -> float32[64]", NULL));
  const aster_ml_kernel_options device = options_of(kOpencl);
  SUCCEEDS(aster_ml_kernel_from_program(&rows, &context, kGroups,
                                        "float32[64] -> float32[64], float32[64]", &device));
  aster_ml_lazy x = counted(64, kOpencl), y = apply(&twice, &x, 0);
  float got[64];
  const uint64_t before = on_host();
  read_out(got, 64, &y);
  for (int i = 0; i < 64; i++) EXPECT(got[i] == (float)(2 * i));
  for (int result = 0; result < 2; result++) {
    aster_ml_lazy z = apply(&rows, &x, result);
    read_out(got, 64, &z);
    for (int i = 0; i < 64; i++)
      EXPECT(got[i] == (float)((1 + result) * (i / 16 * 16 + 15 - i % 16)));
    aster_ml_lazy_free(&z);
  }
  EXPECT(on_host() == before);
  aster_ml_kernel_options sized = device;
  sized.local_size[0] = 4;
  FAILS(aster_ml_kernel_from_program(&rows, &context, kTasks, "float32[64] -> float32[64]", &sized),
        ASTER_ML_ARGUMENT, "its own groups");
  FAILS(aster_ml_kernel_add_source(&twice, kSquare, &device), ASTER_ML_STATE, "not from source");
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_kernel_free(&twice);
  aster_ml_kernel_free(&rows);
}

static void test_mistakes(void) {
  aster_ml_kernel_options options = options_of(kOpencl);
  aster_ml_kernel out;
  const char *signature = "float32[...] -> float32[...]";
#define SOURCE(source, name, code, text)                                                      \
  FAILS(aster_ml_kernel_from_source(&out, &context, source, name, signature, &options), code, \
        text);                                                                                \
  EXPECT(out.impl == NULL)
  SOURCE("void f(__global float *y, __global const float *x, long n) { y = z; }\n", "f",
         ASTER_ML_COMPILE, "kernel \"f\": OPENCL did not compile a kernel: ");
  EXPECT(strstr(message(), "'z'") != NULL);
  SOURCE("void f(__global int *y, __global const float *x, long n) {}\n", "f", ASTER_ML_COMPILE,
         "conflicting types");
  SOURCE(
      "void f(__global float *y, __global const float *x, long n) {\n"
      "  __local float own[8];\n"
      "}\n",
      "f", ASTER_ML_COMPILE, "local address space");
  SOURCE(kSquareInC, "square", ASTER_ML_COMPILE, "kernel \"square\"");
  SOURCE(kSquare, "not a name", ASTER_ML_ARGUMENT, "no name of a function");
  options.local_size[0] = (int64_t)1 << 30;
  SOURCE(kSquare, "square", ASTER_ML_UNSUPPORTED, "groups of 1073741824 work-items, OPENCL has");
  options.local_size[1] = 4;
  SOURCE(kSquare, "square", ASTER_ML_ARGUMENT, "dimension 1 without");
  options = options_of(kOpencl);
  options.local_bytes = (int64_t)1 << 40;
  SOURCE(kSquare, "square", ASTER_ML_UNSUPPORTED,
         "1099511627776 bytes of local memory, OPENCL has");
  options.local_bytes = -8;
  SOURCE(kSquare, "square", ASTER_ML_ARGUMENT, "out of range");
  options.local_bytes = 64;
  SOURCE(kSquare, "square", ASTER_ML_COMPILE, "conflicting types");
  options = options_of(kOpencl);
  options.global_size[0] = 100;
  options.local_size[0] = 64;
  SOURCE(kSquare, "square", ASTER_ML_ARGUMENT, "100 work-items are no whole groups of 64");
  options.global_size[0] = 0;
  options.global_size[2] = 8;
  SOURCE(kSquare, "square", ASTER_ML_ARGUMENT, "dimension 2 without");
}

/* oclgrind tells of it; what it writes is nobody's. */
static void write_outside(void) {
  const aster_ml_kernel_options device = options_of(kOpencl);
  aster_ml_kernel outside = kernel_of(
      "void outside(__global float *y, __global const float *x, long count) { y[count] = 1; }\n",
      "outside", "float32[...] -> float32[...]", &device);
  aster_ml_lazy x = counted(16, kOpencl), y = apply(&outside, &x, 0);
  aster_ml_lazy *all[] = {&y};
  SUCCEEDS(aster_ml_lazy_realize(all, 1));
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_kernel_free(&outside);
}

int main(int count, char **words) {
  if (aster_ml_device_is_available(kOpencl) == 0 && getenv("ASTER_TEST_NO_SKIPS") == NULL) {
    fprintf(stderr, "SKIPPED: no OpenCL device is installed\n");
    return 77;
  }
  SUCCEEDS(aster_ml_context_init(&context, NULL));
  if (count > 1 && strcmp(words[1], "outside") == 0) {
    write_outside();
  } else {
    test_elements();
    test_groups();
    test_sources();
    test_gradient();
    test_replays();
    test_programs();
    test_mistakes();
  }
  SUCCEEDS(aster_ml_context_free(&context));
  return expect_failures;
}
