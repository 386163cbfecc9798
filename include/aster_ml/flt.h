/* flt256 and flt512: floating-point numbers of 237 and 489 bits, correctly rounded.
 *
 * These functions are of elements in memory. Lazy tensors and eager functions have the two as
 * dtypes: operations round once (option flt_rounding of the context), sums and matrix products are
 * exact before that, functions need MPFR. They promote within their family and meet numbers (0.1 is
 * the double); linalg.h is of them too. Sorts, random numbers, scatters that combine, and formulas
 * with numbers known to 53 bits only (gelu) are DTYPE or UNSUPPORTED errors.
 *
 * Formats    IEEE binary interchange formats of 32 and 64 bytes, little-endian words: sign,
 * exponent (19 and 23 bits, bias 262143 and 4194303), fraction (236 and 488 bits), with subnormal
 * numbers, infinities, signed zeros and NaN. From 1.6e-78985 to 1.6e78913, and from 1e-1262759 to
 * 2e1262611. NaN        An operand that is NaN, the first of several, is the result, made quiet. An
 * operation without a result (0 / 0, sqrt(-1)) gives the one that is positive and has the highest
 *            bit of its fraction alone.
 * Rounding   Every result is the exact one rounded once, subnormal ones too, in the mode that the
 *            call names. What overflows is infinity or the greatest number, as the mode says.
 * Elements   Pointers to numbers are aligned to 8 bytes at least, else ARGUMENT; in
 *            aster_ml_scalar.value, for example. Strides count elements, may be 0 or negative;
 *            null strides, or those of a count below 2, mean elements one behind the other.
 * Alias      What is written is the same elements as an operand's, or does not overlap it; nor do
 *            two elements that are written. ARGUMENT otherwise, and nothing is written.
 * Functions  exp, sin, pow and their like are MPFR's, opened at run time; UNSUPPORTED where it is
 *            missing. Its scratch memory is not the context's, and sines of numbers near the
 * greatest take seconds. Context    Gives threads; long arrays are cut for them. Null: the calling
 * thread alone. The bits do not depend on it.
 */
#ifndef ASTER_ML_FLT_H
#define ASTER_ML_FLT_H

#include "aster_ml/base.h"
#include "aster_ml/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rounding modes. */
enum {
  ASTER_ML_FLT_NEAREST = 0, /* ties to even */
  ASTER_ML_FLT_TO_ZERO = 1,
  ASTER_ML_FLT_UP = 2,
  ASTER_ML_FLT_DOWN = 3
};

/* Operations on elements; codes are never reused. */
enum {
  ASTER_ML_FLT_NEG = 1,
  ASTER_ML_FLT_ABS = 2,
  ASTER_ML_FLT_SQRT = 3,
  ASTER_ML_FLT_RECIP = 4, /* 1 / a */
  ASTER_ML_FLT_TRUNC = 5, /* to an integer, whatever the rounding mode */
  ASTER_ML_FLT_FLOOR = 6,
  ASTER_ML_FLT_CEIL = 7,
  ASTER_ML_FLT_ROUND = 8, /* to nearest, ties to even */
  ASTER_ML_FLT_ADD = 16,
  ASTER_ML_FLT_SUB = 17,
  ASTER_ML_FLT_MUL = 18,
  ASTER_ML_FLT_DIV = 19,
  ASTER_ML_FLT_MAX = 20, /* NaN wins; -0 is less than 0 */
  ASTER_ML_FLT_MIN = 21,
  ASTER_ML_FLT_FMA = 22,   /* a * b + c, rounded once */
  ASTER_ML_FLT_CMPLT = 32, /* comparisons give bytes, 0 or 1; NaN is not equal to anything */
  ASTER_ML_FLT_CMPLE = 33,
  ASTER_ML_FLT_CMPEQ = 34,
  ASTER_ML_FLT_CMPNE = 35,
  ASTER_ML_FLT_EXP = 64, /* functions, by MPFR from here on */
  ASTER_ML_FLT_EXP2 = 65,
  ASTER_ML_FLT_EXP10 = 66,
  ASTER_ML_FLT_EXPM1 = 67,
  ASTER_ML_FLT_LOG = 68, /* natural */
  ASTER_ML_FLT_LOG2 = 69,
  ASTER_ML_FLT_LOG10 = 70,
  ASTER_ML_FLT_LOG1P = 71,
  ASTER_ML_FLT_SIN = 72,
  ASTER_ML_FLT_COS = 73,
  ASTER_ML_FLT_TAN = 74,
  ASTER_ML_FLT_ASIN = 75,
  ASTER_ML_FLT_ACOS = 76,
  ASTER_ML_FLT_ATAN = 77,
  ASTER_ML_FLT_SINH = 78,
  ASTER_ML_FLT_COSH = 79,
  ASTER_ML_FLT_TANH = 80,
  ASTER_ML_FLT_ASINH = 81,
  ASTER_ML_FLT_ACOSH = 82,
  ASTER_ML_FLT_ATANH = 83,
  ASTER_ML_FLT_ERF = 84,
  ASTER_ML_FLT_ERFC = 85,
  ASTER_ML_FLT_CBRT = 86,  /* the cube root */
  ASTER_ML_FLT_POW = 96,   /* a^b */
  ASTER_ML_FLT_ATAN2 = 97, /* the angle of the point (b, a) */
  ASTER_ML_FLT_HYPOT = 98  /* sqrt(a * a + b * b) */
};

/* How many operands an operation has: 1, 2 or 3; 0 for a code that is none. */
ASTER_ML_API int32_t aster_ml_flt_count_operands(int32_t operation);

/* out[i] = operation(operands[0][i], ...) of count elements of a dtype, FLT256 or FLT512.
 * operands: as many addresses as the operation has operands. strides: of out, then of the operands.
 * Negation and absolute value change the sign of NaN too; functions that do not depend on a NaN, as
 * pow(NaN, 0), have their value. Errors: ARGUMENT (no such operation or
 * rounding mode, an address that is null or not aligned, overlap), DTYPE (not a flt), RANGE (a size
 * overflows), UNSUPPORTED (MPFR is missing). */
ASTER_ML_API int32_t aster_ml_flt_apply(void *out, const aster_ml_context *context,
                                        int32_t operation, int32_t dtype, int32_t rounding,
                                        const void *const *operands, const int64_t *strides,
                                        size_t count);

/* dst[i] = src[i] converted, count elements, of which one dtype at least is FLT256 or FLT512. To a
 * float it is rounded once; floats of 8 bits saturate as aster_ml_dtype_copy has it, so do the
 * integers: toward zero whatever the mode, NaN and what lies beyond 2^63 give 0, then they wrap.
 * NaN becomes the one NaN. To a tbb what its numbers do not reach before it is cut is ERR, NaN too;
 * from one ERR is NaN with the payload "TBB_ERR" (0x5442425F455252). strides: of dst, then of src.
 * Errors: ARGUMENT (as apply; an unknown dtype), DTYPE (neither is a flt, a weak one), RANGE. */
ASTER_ML_API int32_t aster_ml_flt_copy(void *dst, const aster_ml_context *context,
                                       int32_t dst_dtype, const void *src, int32_t src_dtype,
                                       int32_t rounding, const int64_t *strides, size_t count);

/* out = the number that text says, rounded: digits with at most one point, and an exponent of ten
 * of any size; or inf, infinity, nan, in capitals or not; with a sign in front; nothing else
 * around. Errors: ARGUMENT, DTYPE, FORMAT (it is no number), RANGE (more than 4 Mi characters),
 * UNSUPPORTED (MPFR is missing). */
ASTER_ML_API int32_t aster_ml_flt_from_text(void *out, int32_t dtype, int32_t rounding,
                                            const char *text);

/* The number at value as decimal text, rounded to nearest with so many digits, without zeros at the
 * end: "-1.25", "1e+100", "inf". digits: 2 to 10,000; 0: what aster_ml_flt_from_text makes the same
 * number of, with at most 71 digits of FLT256 and 146 of FLT512 if they do, else 73 and 149. out
 * may be null; length is that of the text, which ends with a zero behind it. Errors: ARGUMENT,
 * DTYPE, RANGE (digits; the text does not fit capacity), UNSUPPORTED (MPFR is missing). */
ASTER_ML_API int32_t aster_ml_flt_to_text(char *out, size_t *length, size_t capacity, int32_t dtype,
                                          const void *value, int32_t digits);

/* out = a[0] + a[1] + ..., count elements; and a[0] * b[0] + a[1] * b[1] + ...: the exact sum,
 * rounded once, so that the order of the terms does not matter. The sum of zeros of one sign is
 * that zero, any other that is 0 has the sign of 0 - 0 in the rounding mode, that of no terms is
 * +0. NaN among the terms, infinities of both signs and 0 * infinity give the one NaN. strides: of
 * a, or of a and b. Errors: ARGUMENT (as apply), DTYPE, RANGE. Cost: two passes; memory for the
 * span of the terms' exponents where that is more than 6,000 bits. */
ASTER_ML_API int32_t aster_ml_flt_sum(void *out, const aster_ml_context *context, int32_t dtype,
                                      int32_t rounding, const void *a, const int64_t *strides,
                                      size_t count);
ASTER_ML_API int32_t aster_ml_flt_dot(void *out, const aster_ml_context *context, int32_t dtype,
                                      int32_t rounding, const void *a, const void *b,
                                      const int64_t *strides, size_t count);

/* out[i, j] = sum_k a[i, k] * b[k, j], each as aster_ml_flt_dot has it: exact until it is rounded
 * once, whatever the order, the threads and the vectors. By residues of small primes where the
 * exponents of the rows and columns allow it (a spread of a thousand bits does), else each by
 * itself. strides: of the rows and the columns of out, of a, of b, six in all; null: row-major.
 * Shapes: a [rows, inner], b [inner, columns] -> out [rows, columns], which overlaps neither.
 * Errors: ARGUMENT, DTYPE, RANGE. */
ASTER_ML_API int32_t aster_ml_flt_matmul(void *out, const aster_ml_context *context, int32_t dtype,
                                         int32_t rounding, const void *a, const void *b,
                                         size_t rows, size_t inner, size_t columns,
                                         const int64_t *strides);

/* How a matrix product is computed; the bits of the result are the same whichever it is. */
enum {
  ASTER_ML_FLT_AUTO = 0,     /* what is fastest */
  ASTER_ML_FLT_RESIDUES = 1, /* residues of small primes, and back */
  ASTER_ML_FLT_NAIVE = 2,    /* each element by itself */
  ASTER_ML_FLT_STRASSEN = 3  /* residues, by halves while all sizes exceed 64 (AVX2: twice) */
};

/* The same by an algorithm of choice. out_ran: null, or which one ran: NAIVE also where exponents
 * lie too far apart for residues, RESIDUES also where a size is not beyond 64; AUTO may run each.
 * Every one of them sums exactly and rounds once. Errors: as matmul; ARGUMENT also of an algorithm
 * that is none. */
ASTER_ML_API int32_t aster_ml_flt_matmul_by(void *out, int32_t *out_ran,
                                            const aster_ml_context *context, int32_t algorithm,
                                            int32_t dtype, int32_t rounding, const void *a,
                                            const void *b, size_t rows, size_t inner,
                                            size_t columns, const int64_t *strides);

#ifdef __cplusplus
}
#endif
#endif
