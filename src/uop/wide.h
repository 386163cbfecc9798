// What a Wide node (uop/ops.def) computes of flt256 and flt512 by src/flt, or kBytes by
// runtime/cpu/sticky_product.h: its first argument, and what the others say. As tensors have them
// its operands are of a wide dtype; lowered (engine/lower_wide.h) they are words, uint64 along one
// more axis, the last.
#pragma once

#include "uop/uop.h"

namespace aster::uop {

enum class WideKind : Word {
  kApply,    // elementwise; code of an operation of aster_ml/flt.h
  kCast,     // from the first dtype to the second; one of them is wide
  kSum,      // over the last axis: exact, rounded once; dtype
  kProduct,  // a[..] * b[..] summed over the last axis, likewise; dtype
  kFold,     // over the last axis, in order; dtype, operation of flt.h
  kScan,     // sums up to each place of the last axis, likewise; dtype, 1 if from the end
  kMatmul,   // [.., M, K] by [.., K, N], likewise; dtype
  kBytes     // the same of what stores sticky integers: exact, checked once; dtype that is stored
};

// The argument behind all of these is the rounding mode of flt.h; where it lacks, to nearest.
constexpr size_t kWideRounding = 3;

inline WideKind wide_kind(Node node) { return static_cast<WideKind>(node->arg(0)); }
// The operation of aster_ml/flt.h that an elementwise operation is on wide floats; 0 for one that
// is none.
int32_t wide_operation(Op op);

}  // namespace aster::uop
