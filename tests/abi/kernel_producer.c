/* Memory is a pool of this library's own: giving a block to any other allocator would be seen. */
#include "kernel_producer.h"

#include <string.h>

struct scaling {
  kernel_data_prefix base;
  int32_t factor;
  int32_t owned; /* whether the destructor has something to do */
};

enum { kBlocks = 16 };
static union {
  struct scaling kernel;
  void *alignment;
} pool[kBlocks];
static int used[kBlocks], kernels;

static void scale(char *dst, const char *src, kernel_data_prefix *extra) {
  int32_t value;
  memcpy(&value, src, sizeof value);
  value *= ((struct scaling *)extra)->factor;
  memcpy(dst, &value, sizeof value);
}

static void scale_strided(char *dst, ptrdiff_t dst_stride, const char *src, ptrdiff_t src_stride,
                          size_t count, kernel_data_prefix *extra) {
  for (size_t i = 0; i < count; i++, dst += dst_stride, src += src_stride) scale(dst, src, extra);
}

static void add_strided(char *dst, ptrdiff_t dst_stride, const char *src0, ptrdiff_t stride0,
                        const char *src1, ptrdiff_t stride1, size_t count,
                        kernel_data_prefix *extra) {
  for (size_t i = 0; i < count; i++, dst += dst_stride, src0 += stride0, src1 += stride1) {
    int32_t a, b;
    memcpy(&a, src0, sizeof a);
    memcpy(&b, src1, sizeof b);
    a += ((struct scaling *)extra)->factor * b;
    memcpy(dst, &a, sizeof a);
  }
}

/* Sum and product of the arrays of three elements. */
static void sum_and_product(char *const *dst, const char *const *src, kernel_data_prefix *extra) {
  int32_t x[3], results[2] = {0, ((struct scaling *)extra)->factor};
  memcpy(x, src[0], sizeof x);
  for (int i = 0; i < 3; i++) {
    results[0] += x[i];
    results[1] *= x[i];
  }
  memcpy(dst[0], &results[0], sizeof results[0]);
  memcpy(dst[1], &results[1], sizeof results[1]);
}

static void destroy(kernel_data_prefix *kernel) {
  kernels -= ((struct scaling *)kernel)->owned;
  ((struct scaling *)kernel)->owned = 0;
}

static void give_back(void *memory) {
  for (int i = 0; i < kBlocks; i++)
    if (memory == &pool[i]) used[i]--;
}

int producer_get_scaling(dynamic_kernel_instance *out_kernel, int32_t factor) {
  for (int i = 0; i < kBlocks; i++) {
    if (used[i] != 0) continue;
    void (*const function)(char *, const char *, kernel_data_prefix *) = scale;
    memcpy(&pool[i].kernel.base.function, &function, sizeof function);
    pool[i].kernel.base.destructor = destroy;
    pool[i].kernel.factor = factor;
    pool[i].kernel.owned = 1;
    used[i] = 1;
    kernels++;
    out_kernel->kernel = &pool[i].kernel.base;
    out_kernel->kernel_size = sizeof(struct scaling);
    out_kernel->free_func = give_back;
    return 0;
  }
  return -1;
}

int producer_get(dynamic_kernel_instance *out_kernel, int which, int32_t factor) {
  const int status = producer_get_scaling(out_kernel, factor);
  if (status != 0) return status;
  if (which == PRODUCER_SCALE_STRIDED) {
    const aster_ml_unary_strided function = scale_strided;
    memcpy(&out_kernel->kernel->function, &function, sizeof function);
  } else if (which == PRODUCER_ADD_STRIDED) {
    const aster_ml_binary_strided function = add_strided;
    memcpy(&out_kernel->kernel->function, &function, sizeof function);
  } else if (which == PRODUCER_ARRAYS) {
    const aster_ml_arrays function = sum_and_product;
    memcpy(&out_kernel->kernel->function, &function, sizeof function);
  }
  return 0;
}

int producer_kernels(void) { return kernels; }

int producer_blocks(void) {
  int count = 0;
  for (int i = 0; i < kBlocks; i++) count += used[i];
  return count;
}
