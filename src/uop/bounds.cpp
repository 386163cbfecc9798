// Intervals of integer scalars. What may overflow is unknown: a bound is never wrong.
#include <algorithm>

#include "uop/interval.h"
#include "uop/uop.h"

namespace aster::uop {
namespace {

Interval of(Node node) { return {node->vmin, node->vmax}; }

// All values that the dtype can hold.
Interval whole(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  const unsigned bits = static_cast<unsigned>(dtype::bits(dtype));
  if (dtype::is_float(dtype) || dtype == DType::kWeakInt || bits == 0 || bits >= 64)
    return kUnknown;
  if (dtype::is_unsigned(dtype)) return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

// The interval spanned by some products or quotients, or unknown.
class Hull {
 public:
  void add(bool ok, int64_t value) {
    ok_ &= ok;
    lo_ = std::min(lo_, value);
    hi_ = std::max(hi_, value);
  }
  Interval get() const { return ok_ ? Interval{lo_, hi_} : kUnknown; }

 private:
  bool ok_ = true;
  int64_t lo_ = INT64_MAX, hi_ = INT64_MIN;
};

Interval difference(Interval a, Interval b) {
  Interval out{};
  return checked_sub(a.lo, b.hi, &out.lo) && checked_sub(a.hi, b.lo, &out.hi) ? out : kUnknown;
}

// Of values above INT64_MIN.
Interval magnitude(Interval a) {
  if (a.lo >= 0) return a;
  return {std::max<int64_t>(0, -a.hi), std::max(-a.lo, a.hi)};
}

Interval product(Interval a, Interval b) {
  Hull hull;
  for (int64_t x : {a.lo, a.hi}) {
    for (int64_t y : {b.lo, b.hi}) {
      int64_t p = 0;
      const bool ok = checked_mul(x, y, &p);
      hull.add(ok, p);
    }
  }
  return hull.get();
}

// Division by an interval that does not hold 0.
Interval quotient(Interval a, Interval b, bool floors) {
  if (b.lo <= 0 && b.hi >= 0) return kUnknown;
  Hull hull;
  for (int64_t x : {a.lo, a.hi}) {
    for (int64_t y : {b.lo, b.hi}) hull.add(true, floors ? floor_div(x, y) : x / y);
  }
  return hull.get();
}

Interval remainder(Interval a, Interval b, bool floors) {
  if (b.lo <= 0) return kUnknown;
  if (a.lo >= 0 && a.hi < b.lo) return a;
  if (floors && b.lo == b.hi && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) {
    return {floor_mod(a.lo, b.lo), floor_mod(a.hi, b.lo)};
  }
  const int64_t most = b.hi - 1;
  if (floors) return {0, a.lo >= 0 ? std::min(most, a.hi) : most};
  return {a.lo >= 0 ? 0 : std::max(-most, a.lo), a.hi <= 0 ? 0 : std::min(most, a.hi)};
}

Interval bitwise(Op op, Interval a, Interval b, DType dtype) {
  if (a.lo < 0 || b.lo < 0) return whole(dtype);
  if (op == Op::kAnd) return {0, std::min(a.hi, b.hi)};
  int64_t ones = 1;
  while (ones - 1 < std::max(a.hi, b.hi) && ones <= INT64_MAX / 2) ones *= 2;
  return ones - 1 < std::max(a.hi, b.hi)
             ? kUnknown
             : Interval{op == Op::kOr ? std::max(a.lo, b.lo) : 0, ones - 1};
}

Interval compare(Op op, Interval a, Interval b) {
  if (!known(a) || !known(b)) return {0, 1};
  bool always = false, never = false;
  if (op == Op::kCmpLt) always = a.hi < b.lo, never = a.lo >= b.hi;
  if (op == Op::kCmpLe) always = a.hi <= b.lo, never = a.lo > b.hi;
  const bool apart = a.hi < b.lo || b.hi < a.lo,
             same = a.lo == a.hi && a.lo == b.lo && b.lo == b.hi;
  if (op == Op::kCmpEq) always = same, never = apart;
  if (op == Op::kCmpNe) always = apart, never = same;
  return always ? Interval{1, 1} : never ? Interval{0, 0} : Interval{0, 1};
}

Interval binary(Op op, Interval a, Interval b, DType dtype) {
  switch (op) {
    case Op::kAdd:
      return sum(a, b);
    case Op::kSub:
      return difference(a, b);
    case Op::kMul:
      return product(a, b);
    case Op::kMax:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case Op::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Op::kCDiv:
    case Op::kQuo:
      return quotient(a, b, false);
    case Op::kFloorDiv:
      return quotient(a, b, true);
    case Op::kCMod:
    case Op::kRem:
      return remainder(a, b, false);
    case Op::kFloorMod:
      return remainder(a, b, true);
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      return bitwise(op, a, b, dtype);
    default:
      return kUnknown;
  }
}

}  // namespace

Interval derive_bounds(Op op, DType operand, DType result, std::span<const Interval> sources) {
  const Interval all = whole(result);
  if (result == DType::kNone || dtype::is_float(result)) return all;
  Interval out = all;
  switch (op) {
    case Op::kNeg:
      out = difference({0, 0}, sources[0]);
      break;
    case Op::kAbs:
      if (sources[0].lo > INT64_MIN) out = magnitude(sources[0]);
      break;
    case Op::kWhere:
      out = {std::min(sources[1].lo, sources[2].lo), std::max(sources[1].hi, sources[2].hi)};
      break;
    case Op::kCast:
      if (!dtype::is_float(operand) && operand != DType::kUInt64) out = sources[0];
      break;
    case Op::kCmpLt:
    case Op::kCmpLe:
    case Op::kCmpEq:
    case Op::kCmpNe:
      if (!dtype::is_float(operand)) out = compare(op, sources[0], sources[1]);
      break;
    case Op::kNot:
      if (result == DType::kBool) out = {1 - sources[0].hi, 1 - sources[0].lo};
      break;
    default:
      if ((is_alu(op) || op == Op::kQuo || op == Op::kRem) && sources.size() == 2 &&
          known(sources[0]) && known(sources[1])) {
        out = binary(op, sources[0], sources[1], result);
      }
      break;
  }
  // Arithmetic that leaves the dtype wraps, so only an interval inside it says anything.
  if (result == DType::kUInt64 && out.lo < 0) out = kUnknown;
  if (out.lo < all.lo || out.hi > all.hi) out = all;
  if (result == DType::kBool) {
    out = {std::clamp<int64_t>(out.lo, 0, 1), std::clamp<int64_t>(out.hi, 0, 1)};
  }
  return out;
}

void derive_bounds(UOp& node) {
  Interval out = whole(node.dtype);
  // What may become ERR lies anywhere, and comparisons with ERR are no order.
  bool integral = node.dtype != DType::kNone && !dtype::is_float(node.dtype);
  if (is_alu(node.op) || node.op == Op::kCast) {
    for (Node source : node.src()) integral &= !dtype::is_sticky(source->dtype);
    integral &= !dtype::is_sticky(node.dtype);
  }
  if (integral && node.op == Op::kConst) {
    if (node.dtype != DType::kUInt64 || node.arg(0) >= 0) out = {node.arg(0), node.arg(0)};
  } else if (integral && node.op == Op::kRange) {
    out = {0, std::max<int64_t>(node.arg(1) - 1, 0)};
  } else if (integral && (is_alu(node.op) || node.op == Op::kCast)) {
    Interval sources[3] = {};
    for (size_t i = 0; i < node.nsrc; ++i) sources[i] = of(node.src(i));
    out = derive_bounds(node.op, node.src(0)->dtype, node.dtype, {sources, node.nsrc});
  }
  node.vmin = out.lo;
  node.vmax = out.hi;
}

}  // namespace aster::uop
