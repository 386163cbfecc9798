// Loops written by hand for the CPU that builds them, one thread: what the generated kernels are
// held against. Also in libbench_hand.so, for the report.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows and columns are multiples of 64. The _stream variants write past the cache. */
void hand_add(float *out, const float *x, const float *y, size_t count);
void hand_add_stream(float *out, const float *x, const float *y, size_t count);
/* Bytes, whose sums wrap; any count. */
void hand_add_bytes(void *out, const void *x, const void *y, size_t count);
float hand_sum(const float *x, size_t count);
/* gelu(x * a + b) * c, the tanh form, a, b and c by column. */
void hand_gelu(float *out, const float *x, const float *a, const float *b, const float *c,
               size_t rows, size_t columns);
/* Softmax of every row; at most 16384 columns. */
void hand_softmax(float *out, const float *x, size_t rows, size_t columns);
/* GFLOP/s of fused multiply-adds in registers, measured over about 10 ms. */
double hand_peak(void);

#ifdef __cplusplus
}
#endif
