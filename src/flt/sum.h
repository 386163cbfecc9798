// Sums and dot products, exact until they are rounded once.
#pragma once

#include "flt/elements.h"

namespace aster::flt {

// The sum of a[i], or of a[i] * b[i] if b is given. Errors: MEMORY (the exponents span more than
// fits on the stack).
template <int N>
Status exact_sum(Limb* out, const Caller& caller, const Elements& a, const Elements* b,
                 size_t count, Rounding mode);

}  // namespace aster::flt
