/* Random tensors: numbers, initialisers, dropout, sampling, permutations. The numbers are
 * threefry2x32 of a seed and a counter, both state of the context.
 *
 * Every device has a counter of its own: functions of a tensor draw on its device, the others on
 * the default one (aster_ml_engine_set_device). Multinomial with replacement moves numbers of the
 * latter.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 */
#ifndef ASTER_ML_RANDOM_H
#define ASTER_ML_RANDOM_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the seed (its low 32 bits) and resets the counters. Devices are numbered as they are first
 * drawn on from then on, and that number is the other half of their keys. */
ASTER_ML_API int32_t aster_ml_lazy_manual_seed(const aster_ml_context *context, uint64_t seed);

/* count uniform words, uint32. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_lazy_random_bits(aster_ml_lazy *out, const aster_ml_context *context,
                                               int64_t count);

/* Uniform in [0, 1). Dtypes: a float dtype; 0 is the default float. Errors: RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_rand(aster_ml_lazy *out, const aster_ml_context *context,
                                        int32_t dtype, size_t ndim, const int64_t *shape);

/* Uniform in [low, high): (high - low) * rand in float32, cast, then + low. Dtypes: a float dtype;
 * 0 is the default float. Errors: RANGE (high <= low), DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_uniform(aster_ml_lazy *out, const aster_ml_context *context,
                                           double low, double high, int32_t dtype, size_t ndim,
                                           const int64_t *shape);

/* Integers in [low, high), from uniform numbers. Dtypes: an integer dtype; 0 is int32. Errors:
 * RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_randint(aster_ml_lazy *out, const aster_ml_context *context,
                                           int64_t low, int64_t high, int32_t dtype, size_t ndim,
                                           const int64_t *shape);

/* Standard normal, by Box and Muller in float32. Dtypes: a float dtype; 0 is the default float.
 * Errors: RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_randn(aster_ml_lazy *out, const aster_ml_context *context,
                                         int32_t dtype, size_t ndim, const int64_t *shape);

/* mean + std * randn. Dtypes: as randn. Errors: RANGE (std < 0), DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_normal(aster_ml_lazy *out, const aster_ml_context *context,
                                          double mean, double std, int32_t dtype, size_t ndim,
                                          const int64_t *shape);

/* Uniform in [0, 1), in the shape of x. Dtypes: a float dtype; 0 is that of x. Errors: DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_rand_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                             int32_t dtype);

/* Standard normal, in the shape of x, by Box and Muller in float32. Dtypes: a float dtype; 0 is
 * that of x. Errors: DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_randn_like(aster_ml_lazy *out, const aster_ml_lazy *x,
                                              int32_t dtype);

/* uniform(-1, 1) / sqrt(number of elements). Dtypes: a float dtype; 0 is the default float. Errors:
 * RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_scaled_uniform(aster_ml_lazy *out,
                                                  const aster_ml_context *context, int32_t dtype,
                                                  size_t ndim, const int64_t *shape);

/* uniform(-b, b), b = sqrt(6 / (shape[0] + product of the other dimensions)). Dtypes: a float
 * dtype; 0 is the default float. Errors: SHAPE (no axes), RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_glorot_uniform(aster_ml_lazy *out,
                                                  const aster_ml_context *context, int32_t dtype,
                                                  size_t ndim, const int64_t *shape);

/* uniform(-b, b), b = sqrt(6 / (1 + a^2) / product of shape[1..]); a is the slope of the leaky relu
 * that follows. Dtypes: a float dtype; 0 is the default float. Errors: SHAPE (no axes), RANGE,
 * DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_kaiming_uniform(aster_ml_lazy *out,
                                                   const aster_ml_context *context, double a,
                                                   int32_t dtype, size_t ndim,
                                                   const int64_t *shape);

/* normal(0, sqrt(2 / (1 + a^2) / product of shape[1..])). Dtypes: a float dtype; 0 is the default
 * float. Errors: SHAPE (no axes), RANGE, DTYPE. */
ASTER_ML_API int32_t aster_ml_lazy_kaiming_normal(aster_ml_lazy *out,
                                                  const aster_ml_context *context, double a,
                                                  int32_t dtype, size_t ndim, const int64_t *shape);

/* 0 .. n - 1 in random order: the positions that sort n uniform numbers. Dtypes: 0 is int32.
 * Errors: RANGE (n beyond int32). */
ASTER_ML_API int32_t aster_ml_lazy_randperm(aster_ml_lazy *out, const aster_ml_context *context,
                                            int64_t n, int32_t dtype);

/* Indices, int32, drawn with chances in proportion to the weights x, which are not negative; each
 * at most once unless replacement is 1.
 * Shapes: x [n] -> [samples]; x [rows, n] -> [rows, samples]. Errors: SHAPE, RANGE (no samples, or
 * more than n of them without replacement). */
ASTER_ML_API int32_t aster_ml_lazy_multinomial(aster_ml_lazy *out, const aster_ml_lazy *x,
                                               int64_t samples, int32_t replacement);

/* x / (1 - p), or 0 with chance p, element by element; x itself unless training is 1. Draws nothing
 * where p is 0 or 1. Dtypes: float. Errors: RANGE (p is not from 0 to 1). */
ASTER_ML_API int32_t aster_ml_lazy_dropout(aster_ml_lazy *out, const aster_ml_lazy *x, double p,
                                           int32_t training);

#ifdef __cplusplus
}
#endif
#endif
