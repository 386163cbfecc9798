/* Dtypes: codes, names, promotion, lossless casts, and scalars that cross the interface by pointer.
 *
 * A dtype is an int32_t code. Functions that return a plain value answer 0 (or null) for a code
 * they do not know and never fail; those with a status give ARGUMENT for an unknown code and
 * UNSUPPORTED, by name, for the flt codes, which tensors do not have.
 *
 * Sticky integers (tbb8 to tbb64) hold the numbers from -(2^(bits-1)-1) to 2^(bits-1)-1, and ERR,
 * stored as the least pattern. What an operation cannot say in its dtype is ERR, and so is all that
 * is computed of an ERR: sums, differences and products that do not fit, quotients by 0, sums and
 * products of axes and of matrices, which are exact and checked once. Comparisons of order with ERR
 * are false, == and != compare patterns, sorting puts ERR first. They meet no other dtype but by a
 * cast (DTYPE), integer constants apart, and have no bits to combine or shift.
 */
#ifndef ASTER_ML_DTYPE_H
#define ASTER_ML_DTYPE_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Codes; never reused. 64 to 79 are kept for dtypes below a byte, 96 on for complex ones. */
enum {
  ASTER_ML_DTYPE_NONE = 0,
  ASTER_ML_DTYPE_BOOL = 1, /* one byte, 0 or 1; other values are read as true */
  ASTER_ML_DTYPE_INT8 = 2,
  ASTER_ML_DTYPE_UINT8 = 3,
  ASTER_ML_DTYPE_INT16 = 4,
  ASTER_ML_DTYPE_UINT16 = 5,
  ASTER_ML_DTYPE_INT32 = 6,
  ASTER_ML_DTYPE_UINT32 = 7,
  ASTER_ML_DTYPE_INT64 = 8,
  ASTER_ML_DTYPE_UINT64 = 9,
  ASTER_ML_DTYPE_FP8E4M3 = 10,     /* no infinity; overflow gives 448, infinity gives NaN */
  ASTER_ML_DTYPE_FP8E4M3FNUZ = 11, /* no infinity, one NaN (0x80), no -0 */
  ASTER_ML_DTYPE_FP8E5M2 = 12,     /* finite overflow gives 57344 */
  ASTER_ML_DTYPE_FP8E5M2FNUZ = 13,
  ASTER_ML_DTYPE_FLOAT16 = 14,
  ASTER_ML_DTYPE_BFLOAT16 = 15,
  ASTER_ML_DTYPE_FLOAT32 = 16,
  ASTER_ML_DTYPE_FLOAT64 = 17,
  ASTER_ML_DTYPE_WEAKINT = 32,   /* of an integer constant: yields to the other operand */
  ASTER_ML_DTYPE_WEAKFLOAT = 33, /* of a real constant; the weak ones are never stored */
  ASTER_ML_DTYPE_TBB8 = 48,      /* sticky integers: ERR is the least pattern */
  ASTER_ML_DTYPE_TBB16 = 49,
  ASTER_ML_DTYPE_TBB32 = 50,
  ASTER_ML_DTYPE_TBB64 = 51,
  ASTER_ML_DTYPE_FLT256 = 56,
  ASTER_ML_DTYPE_FLT512 = 57
};

/* Bytes and bits of one stored element; 0 for none and the weak dtypes. */
ASTER_ML_API size_t aster_ml_dtype_size(int32_t dtype);
ASTER_ML_API size_t aster_ml_dtype_bits(int32_t dtype);

/* "float32", ...; null for an unknown code. Owns: static text. */
ASTER_ML_API const char *aster_ml_dtype_name(int32_t dtype);

/* The dtype of a name ("int8") or alias ("char", "half", "long"). Errors: ARGUMENT,
 * NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_dtype_from_name(int32_t *out, const char *name);

/* 1 or 0. Floats include fp8 and weakfloat, integers weakint and not bool. */
ASTER_ML_API int32_t aster_ml_dtype_is_float(int32_t dtype);
ASTER_ML_API int32_t aster_ml_dtype_is_int(int32_t dtype);
ASTER_ML_API int32_t aster_ml_dtype_is_unsigned(int32_t dtype);
ASTER_ML_API int32_t aster_ml_dtype_is_weak(int32_t dtype);
ASTER_ML_API int32_t aster_ml_dtype_is_fp8(int32_t dtype);

/* 1 if every value of from is a value of to: a cast that loses nothing. */
ASTER_ML_API int32_t aster_ml_dtype_is_lossless_cast(int32_t from, int32_t to);

/* The least dtype that a and b may both become: what an operation on them computes in. Errors:
 * ARGUMENT, DTYPE (there is none: one is sticky or a flt and the other not). */
ASTER_ML_API int32_t aster_ml_dtype_promote(int32_t *out, int32_t a, int32_t b);

/* What a function with real results gives: floats stay, weakint gives weakfloat, others float32.
 * Errors: as promote (DTYPE: sticky ones become no float unasked). */
ASTER_ML_API int32_t aster_ml_dtype_promote_float(int32_t *out, int32_t dtype);

/* The dtype that a sum accumulates in: at least 32 bits of the same kind. Errors: as promote. */
ASTER_ML_API int32_t aster_ml_dtype_sum_accumulator(int32_t *out, int32_t dtype);

/* The dtype that is stored: int32 for weakint, float32 for weakfloat, else dtype. Errors: as
 * promote. */
ASTER_ML_API int32_t aster_ml_dtype_strong(int32_t *out, int32_t dtype);

/* count elements at src converted to dst. Integers wrap; float to integer truncates, NaN and what
 * lies beyond 2^63 give 0; anything but 0 becomes true; floats round to nearest even. To a sticky
 * dtype what does not fit before it is truncated becomes ERR, NaN too; from one ERR becomes ERR,
 * NaN, or the least pattern cut to the width of an integer. Alias: dst
 * and src are the same address or do not overlap; the same address needs elements of one size.
 * Errors: ARGUMENT, DTYPE (weak dtypes have no storage), UNSUPPORTED (a flt; aster_ml_flt_copy). */
ASTER_ML_API int32_t aster_ml_dtype_copy(void *dst, int32_t dst_dtype, const void *src,
                                         int32_t src_dtype, size_t count);

/* A value of any dtype: its bytes as stored, native-endian, the rest of value zero. weakint is
 * stored as int64, weakfloat as double. Two scalars are the same constant when their bytes are
 * equal. */
typedef struct aster_ml_scalar {
  int32_t dtype;
  uint32_t zero;     /* 0 */
  uint64_t value[8]; /* room for a flt512 */
} aster_ml_scalar;

/* A number converted to dtype, as aster_ml_dtype_copy converts. Errors: ARGUMENT, UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_scalar_from_double(aster_ml_scalar *out, int32_t dtype, double value);
ASTER_ML_API int32_t aster_ml_scalar_from_int64(aster_ml_scalar *out, int32_t dtype, int64_t value);
ASTER_ML_API int32_t aster_ml_scalar_from_uint64(aster_ml_scalar *out, int32_t dtype,
                                                 uint64_t value);
/* The element at data. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_scalar_from_data(aster_ml_scalar *out, int32_t dtype,
                                               const void *data);

/* Its number in another type, converted likewise. Errors: ARGUMENT, UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_scalar_to_double(double *out, const aster_ml_scalar *scalar);
ASTER_ML_API int32_t aster_ml_scalar_to_int64(int64_t *out, const aster_ml_scalar *scalar);
ASTER_ML_API int32_t aster_ml_scalar_to_uint64(uint64_t *out, const aster_ml_scalar *scalar);

/* The least and greatest value of a dtype: infinities for floats, numbers for sticky ones. Errors:
 * ARGUMENT, UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_scalar_min(aster_ml_scalar *out, int32_t dtype);
ASTER_ML_API int32_t aster_ml_scalar_max(aster_ml_scalar *out, int32_t dtype);

#ifdef __cplusplus
}
#endif
#endif
