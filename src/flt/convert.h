// Single elements converted between the flt formats and the other dtypes.
#pragma once

#include "dtype/dtype.h"
#include "flt/formats.h"

namespace aster::flt {

using dtype::DType;

// An element of another dtype as a number; exact.
template <int N>
void from_element(Limb* out, DType from, const void* at);
// A number rounded to another dtype, as aster_ml_flt_copy says.
template <int N>
void to_element(void* at, DType to, const Limb* w, Rounding mode);
// A double as the limbs of a wide dtype; exact.
void from_number(Limb* out, DType dtype, double value);
// Whether an element of a wide dtype is a double's number; NaN is not unless it is the one NaN.
bool is_double(double* out, DType dtype, const void* at);
// An element converted from one dtype to another, one of them wide, as aster_ml_flt_copy says.
void convert_element(void* to, DType dst, const void* at, DType src, Rounding mode);
// From the format of M limbs to that of N.
template <int N, int M>
void resize(Limb* out, const Limb* w, Rounding mode);

}  // namespace aster::flt
