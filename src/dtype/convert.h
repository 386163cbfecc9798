// Stored values: encoding of the narrow floats, loads and stores of one element, conversion of
// arrays.
#pragma once

#include "dtype/dtype.h"

namespace aster::dtype {

// Codes of float16, bfloat16 and the fp8 dtypes. encode rounds to nearest, ties to even; bfloat16
// by way of float32. Overflow: infinity in float16 and bfloat16, the largest number in fp8.
double decode(DType d, uint32_t code);
uint32_t encode(DType d, double value);

// One element at an address of any alignment. Weak dtypes are stored as int64 and double.
double load_double(DType d, const void* at);
int64_t load_int(DType d, const void* at);  // floats by float_to_int; uint64 as the same bits
// ERR of sticky dtypes: NaN, or the least pattern. What they cannot hold is stored as ERR.
void store_double(DType d, void* at, double value);
void store_int(DType d, void* at, int64_t value);
void store_uint(DType d, void* at, uint64_t value);  // differs from store_int above 2^63 for floats

// count elements converted from src to dst, which are the same memory or do not overlap. Integers
// wrap, floats become integers by float_to_int, anything becomes bool by being other than 0,
// integers become floats with one rounding. ERR stays ERR of sticky dtypes and is NaN as a float;
// what they cannot hold becomes ERR.
void convert(void* dst, DType to, const void* src, DType from, size_t count);

}  // namespace aster::dtype
