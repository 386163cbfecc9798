/* Convolutions and pooling of any rank, their transposes, and interpolation.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 *
 * Rank      The number of axes that windows lie on: those after the second of a convolution's
 *           operands, the last `rank` axes of a pool's. Lists have an element for each of them, in
 *           their order; a null list means what its comment says.
 * Windows   An axis of n elements with padding holds (n + before + after - dilation * (kernel - 1)
 *           - 1) / stride + 1 windows, rounded down; SHAPE where that is none. Negative padding
 *           cuts off.
 */
#ifndef ASTER_ML_SPATIAL_H
#define ASTER_ML_SPATIAL_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of conv and conv_transpose. Zero means the default. */
typedef struct aster_ml_conv_options {
  uint32_t struct_size;
  int32_t groups;                /* 1 */
  int32_t dtype;                 /* of the sums and of the result; that of the operands */
  const int64_t *stride;         /* 1 */
  const int64_t *dilation;       /* 1 */
  const int64_t *before;         /* padding: 0 */
  const int64_t *after;          /* padding: 0 */
  const int64_t *output_padding; /* conv_transpose, added at the ends of the result: 0 */
} aster_ml_conv_options;

/* Cross-correlation over any number of axes; bias and options may be null.
 * Shapes: x [n, groups * c, ...], weight [o, c, kernel...], bias [o] -> [n, o, ...]. Dtypes:
 * promoted; summed in the accumulator's dtype, then cast back for half, bfloat16 and fp8; with an
 * option dtype, operands are cast up to it before they are multiplied. Errors: SHAPE, RANGE,
 * DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_conv(aster_ml_lazy *out, const aster_ml_lazy *x,
                                        const aster_ml_lazy *weight, const aster_ml_lazy *bias,
                                        const aster_ml_conv_options *options);

/* The transpose of conv in x: windows of the result, weighted by x, are added up. An axis of n
 * elements becomes (n - 1) * stride - before - after + dilation * (kernel - 1) + output_padding +
 * 1; bias and options may be null.
 * Shapes: x [n, groups * c, ...], weight [groups * c, o, kernel...], bias [groups * o] -> [n,
 * groups * o, ...]. Dtypes: as conv. Errors: SHAPE, RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_conv_transpose(aster_ml_lazy *out, const aster_ml_lazy *x,
                                                  const aster_ml_lazy *weight,
                                                  const aster_ml_lazy *bias,
                                                  const aster_ml_conv_options *options);

/* Options of the pools. Zero means the default. */
typedef struct aster_ml_pool_options {
  uint32_t struct_size;
  int32_t ceil_mode;       /* 1: windows counted rounding up, if they begin before the end of x */
  int32_t exclude_pad;     /* avg_pool: 1 divides by the elements that are no padding */
  const int64_t *stride;   /* the kernel's sizes */
  const int64_t *dilation; /* 1 */
  const int64_t *before;   /* padding: 0 */
  const int64_t *after;    /* padding: 0 */
  const int64_t *size;     /* max_unpool: of the result's axes; what the windows reach */
} aster_ml_pool_options;

/* Mean over windows of the last `rank` axes; what ceil_mode adds is never counted. options may be
 * null. Dtypes: as mean. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_avg_pool(aster_ml_lazy *out, const aster_ml_lazy *x, size_t rank,
                                            const int64_t *kernel,
                                            const aster_ml_pool_options *options);

/* Maximum over windows of the last `rank` axes; padding never wins, NaN does. options may be null.
 * Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_max_pool(aster_ml_lazy *out, const aster_ml_lazy *x, size_t rank,
                                            const int64_t *kernel,
                                            const aster_ml_pool_options *options);

/* As max_pool, and where each maximum stands first: its position in row-major order among the last
 * `rank` axes of x, int32; their count where a window is all padding. Errors: SHAPE, RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_max_pool_with_indices(aster_ml_lazy *out,
                                                         aster_ml_lazy *out_indices,
                                                         const aster_ml_lazy *x, size_t rank,
                                                         const int64_t *kernel,
                                                         const aster_ml_pool_options *options);

/* x at the positions that max_pool_with_indices tells, 0 elsewhere; equal positions are added up,
 * those outside dropped. An axis has (n - 1) * stride - before - after + dilation * (kernel - 1) +
 * 1 elements unless options say its size. options may be null. Shapes: indices of x's. Dtypes:
 * indices of an integer dtype. Errors: SHAPE, RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_max_unpool(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              const aster_ml_lazy *indices, size_t rank,
                                              const int64_t *kernel,
                                              const aster_ml_pool_options *options);

/* How interpolate reads between elements. */
typedef int32_t aster_ml_interpolation;
enum {
  ASTER_ML_INTERPOLATION_LINEAR = 0,
  ASTER_ML_INTERPOLATION_NEAREST = 1,      /* element floor(i * n / size) */
  ASTER_ML_INTERPOLATION_NEAREST_EXACT = 2 /* element floor((i + 1/2) * n / size) */
};

/* x resampled to `size` on its last `rank` axes, one axis after the other from the last. Element i
 * of linear reads (i + 1/2) * n / size - 1/2, kept inside; with align_corners i * (n - 1) / (size -
 * 1). Dtypes: that of x; half is computed in float32, so are integers, then truncated (uint8:
 * rounded). Errors: SHAPE (an empty axis), RANGE, ARGUMENT (mode, align_corners without linear). */
ASTER_ML_API int32_t aster_ml_lazy_interpolate(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               size_t rank, const int64_t *size,
                                               aster_ml_interpolation mode, int32_t align_corners);

#ifdef __cplusplus
}
#endif
#endif
