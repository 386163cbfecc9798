// Operations on sticky integers by their definition: an operand that is ERR makes the result ERR,
// else the exact result is checked against the dtype. Kernels have what engine/lower_dtypes.cpp
// makes of them; tests hold the two against each other.
#include <algorithm>

#include "dtype/sticky.h"
#include "uop/ops.h"
#include "uop/uop.h"

namespace aster::uop {
namespace {

using dtype::Exact;

int64_t compare(Op op, int64_t a, int64_t b, bool error) {
  switch (op) {
    case Op::kCmpEq:
      return a == b;
    case Op::kCmpNe:
      return a != b;
    case Op::kCmpLt:
      return !error && a < b;
    default:
      return !error && a <= b;
  }
}

}  // namespace

Word evaluate_sticky(Op op, DType operand, const Word* words) {
  const int64_t error = dtype::sticky_error(operand), a = words[0];
  const int64_t b = info(op).sources > 1 ? words[1] : 0;
  const bool spoiled = a == error || b == error;
  if (info(op).rule == DTypeRule::kCompare) return compare(op, a, b, spoiled);
  const bool divides =
      op == Op::kCDiv || op == Op::kCMod || op == Op::kFloorDiv || op == Op::kFloorMod;
  if (spoiled || (divides && b == 0)) return error;
  const auto checked = [operand](Exact exact) { return dtype::sticky_checked(operand, exact); };
  switch (op) {
    case Op::kNeg:
      return checked(-Exact{a});
    case Op::kAbs:
      return checked(a < 0 ? -Exact{a} : Exact{a});
    case Op::kAdd:
      return checked(Exact{a} + b);
    case Op::kSub:
      return checked(Exact{a} - b);
    case Op::kMul:
      return checked(Exact{a} * b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kCDiv:
      return checked(a / b);
    case Op::kCMod:
      return checked(a % b);
    case Op::kFloorDiv:
      return checked(ops::floordiv(a, b));
    case Op::kFloorMod:
      return checked(ops::floormod(a, b));
    default:  // what rounds
      return a;
  }
}

}  // namespace aster::uop
