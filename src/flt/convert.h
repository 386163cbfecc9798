// Single elements converted between the flt formats and the other dtypes.
#pragma once

#include "dtype/dtype.h"
#include "flt/format.h"

namespace aster::flt {

using dtype::DType;

// An element of another dtype as a number; exact.
template <int N>
void from_element(Limb* out, DType from, const void* at);
// A number rounded to another dtype, as aster_ml_flt_copy says.
template <int N>
void to_element(void* at, DType to, const Limb* w, Rounding mode);
// From the format of M limbs to that of N.
template <int N, int M>
void resize(Limb* out, const Limb* w, Rounding mode);

}  // namespace aster::flt
