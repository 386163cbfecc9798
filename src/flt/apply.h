// Loops over elements, one a row of ops.def and format.
#pragma once

#include "flt/elements.h"
#include "flt/formats.h"

namespace aster::flt {

// Elements [begin, end) of out from those of the operands.
using Loop = void (*)(const Elements& out, const Elements* in, size_t begin, size_t end,
                      Rounding mode);

struct Operation {
  const char* name;
  int arity;  // 0: no such operation
  bool test;  // the result is a byte
  bool mpfr;  // a function of that library
  int64_t ns;
  EachFormat<Loop> loops;
  Loop loop_of(int limbs) const { return loops[row_of(limbs)]; }
};
// Null for a code that is none.
const Operation* operation_of(int32_t code);

}  // namespace aster::flt
