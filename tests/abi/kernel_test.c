/* Kernels across the boundaries of libraries: those of this library and those of another one
 * (kernel_producer.c), called, moved and given up by code that knows the interface alone. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "kernel_producer.h"

/* The layouts of the interface. */
_Static_assert(offsetof(kernel_data_prefix, function) == 0, "function");
_Static_assert(offsetof(kernel_data_prefix, destructor) == sizeof(void *), "destructor");
_Static_assert(sizeof(kernel_data_prefix) == 2 * sizeof(void *), "kernel_data_prefix");
_Static_assert(_Alignof(kernel_data_prefix) == _Alignof(void *), "kernel_data_prefix");
_Static_assert(offsetof(dynamic_kernel_instance, kernel) == 0, "kernel");
_Static_assert(offsetof(dynamic_kernel_instance, kernel_size) == sizeof(void *), "kernel_size");
_Static_assert(offsetof(dynamic_kernel_instance, free_func) == 2 * sizeof(void *), "free_func");
_Static_assert(sizeof(dynamic_kernel_instance) == 3 * sizeof(void *), "dynamic_kernel_instance");
_Static_assert(ASTER_ML_KERNEL_ASSIGNMENT_BYTES % _Alignof(void *) == 0, "room for a kernel");

/* A kernel of somebody's own begins with the prefix. */
struct kernel_data {
  kernel_data_prefix base;
  double more;
};
_Static_assert(offsetof(struct kernel_data, more) == sizeof(kernel_data_prefix), "kernel_data");

static aster_ml_context context;

/* ISO C has no cast between pointers to objects and to functions; the interface has. */
static unary_single_operation_t single_of(const kernel_data_prefix *kernel) {
  unary_single_operation_t function;
  memcpy(&function, &kernel->function, sizeof function);
  return function;
}
static aster_ml_unary_strided strided_of(const kernel_data_prefix *kernel) {
  aster_ml_unary_strided function;
  memcpy(&function, &kernel->function, sizeof function);
  return function;
}

/* What anybody does with a kernel that was got from somewhere; get_status is that of its getter. */
static int apply(char *dst, const char *src, int get_status, dynamic_kernel_instance k) {
  if (get_status < 0) return -1;
  EXPECT(k.kernel_size % _Alignof(void *) == 0);
  EXPECT((size_t)k.kernel % _Alignof(void *) == 0);
  single_of(k.kernel)(dst, src, k.kernel);
  k.kernel->destructor(k.kernel);
  k.free_func(k.kernel);
  return 0;
}

static int get(dynamic_kernel_instance *out, int32_t form, int32_t to, int32_t from) {
  return aster_ml_kernel_get_assignment(out, &context, form, to, from);
}

static void test_both_producers(void) {
  dynamic_kernel_instance k;
  const float half = 2.5f;
  const int32_t seven = 7;
  int32_t got = 0;
  size_t before, after;
  EXPECT(aster_ml_context_count_bytes(&before, NULL, &context) == 0);
  const int ours = get(&k, ASTER_ML_KERNEL_SINGLE, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_FLOAT32);
  EXPECT(apply((char *)&got, (const char *)&half, ours, k) == 0);
  EXPECT(got == 2);
  EXPECT(aster_ml_context_count_bytes(&after, NULL, &context) == 0);
  EXPECT(before == after);
  const int theirs = producer_get_scaling(&k, 6);
  EXPECT(producer_blocks() == 1 && producer_kernels() == 1);
  EXPECT(apply((char *)&got, (const char *)&seven, theirs, k) == 0);
  EXPECT(got == 42);
  EXPECT(producer_blocks() == 0 && producer_kernels() == 0);
}

/* Failures are less than 0 and leave nothing to free. */
static void test_failures(void) {
  dynamic_kernel_instance k;
  aster_ml_error error;
  char memory[64];
  memset(&k, 0xA5, sizeof k);
  EXPECT(get(&k, 0, ASTER_ML_DTYPE_INT32, 99) == -ASTER_ML_ARGUMENT);
  EXPECT(k.kernel == NULL && k.kernel_size == 0 && k.free_func == NULL);
  EXPECT(aster_ml_error_last(&error) == 0);
  EXPECT(error.code == ASTER_ML_ARGUMENT);
  EXPECT(strcmp(error.function, "aster_ml_kernel_get_assignment") == 0);
  EXPECT(get(&k, 0, ASTER_ML_DTYPE_WEAKINT, ASTER_ML_DTYPE_INT32) == -ASTER_ML_DTYPE);
  EXPECT(get(&k, 0, ASTER_ML_DTYPE_INT32, 56) == -ASTER_ML_UNSUPPORTED);
  EXPECT(get(&k, 2, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_INT32) == -ASTER_ML_ARGUMENT);
  EXPECT(get(NULL, 0, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_INT32) == -ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_kernel_get_assignment(&k, NULL, 0, 1, 1) == -ASTER_ML_ARGUMENT);
  char *const aligned = memory + (8 - (size_t)memory % 8) % 8;
  EXPECT(aster_ml_kernel_get_assignment_in(&k, aligned, 8, 0, 1, 1) == -ASTER_ML_RANGE);
  EXPECT(aster_ml_kernel_get_assignment_in(&k, aligned + 1, 40, 0, 1, 1) == -ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_kernel_get_assignment_in(&k, NULL, 40, 0, 1, 1) == -ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_kernel_get_assignment_in(NULL, aligned, 40, 0, 1, 1) == -ASTER_ML_ARGUMENT);
  EXPECT(k.kernel == NULL);
  EXPECT(apply(NULL, NULL, -ASTER_ML_ARGUMENT, k) == -1);
}

/* On the stack, with nothing of the context's; memory beside the kernel is left alone. */
static void test_on_the_stack(void) {
  void *memory[ASTER_ML_KERNEL_ASSIGNMENT_BYTES / sizeof(void *) + 1];
  dynamic_kernel_instance k;
  const int16_t minus = -3;
  double got = 0;
  memset(memory, 0x5A, sizeof memory);
  const int status = aster_ml_kernel_get_assignment_in(
      &k, memory, ASTER_ML_KERNEL_ASSIGNMENT_BYTES, ASTER_ML_KERNEL_SINGLE, ASTER_ML_DTYPE_FLOAT64,
      ASTER_ML_DTYPE_INT16);
  EXPECT(status == 0 && (void *)k.kernel == (void *)memory);
  EXPECT(k.kernel_size <= ASTER_ML_KERNEL_ASSIGNMENT_BYTES);
  for (size_t i = k.kernel_size; i < sizeof memory; i++) EXPECT(((char *)memory)[i] == 0x5A);
  EXPECT(apply((char *)&got, (const char *)&minus, status, k) == 0);
  EXPECT(got == -3);
}

/* Moves a kernel by memcpy, gives the old memory up, calls it at addresses that are aligned as a
 * pointer and no more, and again; then ends it where it lies. */
static void moved(int status, dynamic_kernel_instance k, const char *src, size_t bytes,
                  const char *expected) {
  char got[8] = {0}, *homes[3];
  EXPECT(status == 0);
  kernel_data_prefix *at = k.kernel;
  for (int i = 0; i < 3; i++) {
    homes[i] = malloc(k.kernel_size + 64);
    char *home = homes[i] + (64 - (size_t)homes[i] % 64) % 64 + (i == 1 ? sizeof(void *) : 0);
    memcpy(home, at, k.kernel_size);
    if (i == 0) {
      k.free_func(k.kernel);
    } else {
      memset(at, 0xFF, k.kernel_size);
    }
    at = (kernel_data_prefix *)(void *)home;
    memset(got, 0, sizeof got);
    single_of(at)(got, src, at);
    EXPECT(memcmp(got, expected, bytes) == 0);
  }
  at->destructor(at);
  for (int i = 0; i < 3; i++) free(homes[i]);
}

static void test_kernels_move(void) {
  dynamic_kernel_instance k;
  const float one = 1;
  const uint8_t truth = 1;
  int status = get(&k, ASTER_ML_KERNEL_SINGLE, ASTER_ML_DTYPE_BOOL, ASTER_ML_DTYPE_FLOAT32);
  moved(status, k, (const char *)&one, 1, (const char *)&truth);
  const int64_t whole = 1;
  status = get(&k, ASTER_ML_KERNEL_SINGLE, ASTER_ML_DTYPE_INT64, ASTER_ML_DTYPE_FLOAT32);
  moved(status, k, (const char *)&one, 8, (const char *)&whole);
  const int32_t five = 5, fifty = 50;
  status = producer_get_scaling(&k, 10);
  moved(status, k, (const char *)&five, 4, (const char *)&fifty);
  EXPECT(producer_blocks() == 0 && producer_kernels() == 0);
}

/* Every pair, both forms, against aster_ml_dtype_copy: forwards, backwards, spread, one source for
 * all, unaligned. */
enum { kCount = 300, kMost = 8 };
static void check_pair(int32_t to, int32_t from, const char *src) {
  const size_t ts = aster_ml_dtype_size(to), fs = aster_ml_dtype_size(from);
  const struct {
    ptrdiff_t dst, src;
  } steps[] = {{(ptrdiff_t)ts, (ptrdiff_t)fs},
               {-(ptrdiff_t)ts, (ptrdiff_t)fs},
               {(ptrdiff_t)ts + 5, -(ptrdiff_t)fs},
               {(ptrdiff_t)ts, 0},
               {(ptrdiff_t)ts * 2, (ptrdiff_t)fs * 3 + 1}};
  char expected[kCount * kMost], dst[kCount * 2 * (kMost + 5) + 1];
  char spread[kCount * (kMost * 3 + 1) + 1];
  dynamic_kernel_instance one, many;
  void *memory[ASTER_ML_KERNEL_ASSIGNMENT_BYTES / sizeof(void *)];
  EXPECT(get(&one, ASTER_ML_KERNEL_SINGLE, to, from) == 0);
  EXPECT(aster_ml_kernel_get_assignment_in(&many, memory, sizeof memory, ASTER_ML_KERNEL_STRIDED,
                                           to, from) == 0);
  for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
    const ptrdiff_t d = steps[s].dst, f = steps[s].src;
    char *const first = dst + 1 + (d < 0 ? -d * (kCount - 1) : 0);
    char *const given = spread + 1 + (f < 0 ? -f * (kCount - 1) : 0);
    for (int i = 0; i < kCount; i++) {
      const char *element = src + (f == 0 ? 0 : (size_t)i * fs);
      memcpy(given + i * f, element, fs);
      EXPECT(aster_ml_dtype_copy(expected + (size_t)i * ts, to, element, from, 1) == 0);
    }
    memset(dst, 0x77, sizeof dst);
    strided_of(many.kernel)(first, d, given, f, kCount, many.kernel);
    for (int i = 0; i < kCount; i++)
      EXPECT(memcmp(first + i * d, expected + (size_t)i * ts, ts) == 0);
    for (int i = 0; i < kCount; i++) {
      char got[kMost + 1];
      single_of(one.kernel)(got + 1, given + i * f, one.kernel);
      EXPECT(memcmp(got + 1, expected + (size_t)i * ts, ts) == 0);
    }
    char none = 0x33;
    strided_of(many.kernel)(&none, d, given, f, 0, many.kernel);
    EXPECT(none == 0x33);
  }
  one.kernel->destructor(one.kernel);
  one.free_func(one.kernel);
  many.kernel->destructor(many.kernel);
  many.free_func(many.kernel);
}

static void test_every_pair(void) {
  const double values[kCount] = {0,    -0.0, 1,     -1,    2.5,    -2.5,  127,    128,
                                 255,  256,  -129,  65504, -65536, 1e-7,  3e9,    -3e9,
                                 1e10, 1e19, -1e19, 1e39,  0.1,    448.5, 1.0 / 3};
  char src[kCount * kMost];
  for (int32_t from = 1; from <= 17; from++) {
    const size_t bytes = aster_ml_dtype_size(from);
    for (int i = 0; i < kCount; i++) {
      EXPECT(aster_ml_dtype_copy(src + (size_t)i * bytes, from, &values[i], ASTER_ML_DTYPE_FLOAT64,
                                 1) == 0);
    }
    for (int32_t to = 1; to <= 17; to++) check_pair(to, from, src);
  }
}

/* A kernel outlives the context that its memory is from. */
static void test_outlives_the_context(void) {
  aster_ml_context own;
  dynamic_kernel_instance k;
  const uint32_t word = 70000;
  uint16_t got = 0;
  EXPECT(aster_ml_context_init(&own, NULL) == 0);
  const int status = aster_ml_kernel_get_assignment(&k, &own, ASTER_ML_KERNEL_SINGLE,
                                                    ASTER_ML_DTYPE_UINT16, ASTER_ML_DTYPE_UINT32);
  EXPECT(aster_ml_context_free(&own) == 0);
  EXPECT(apply((char *)&got, (const char *)&word, status, k) == 0);
  EXPECT(got == 70000 - 65536);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_both_producers();
  test_failures();
  test_on_the_stack();
  test_kernels_move();
  test_every_pair();
  test_outlives_the_context();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
