#include "engine/lower_dtypes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dtype/sticky.h"
#include "engine/rangeify.h"
#include "runtime/cpu/native_sticky.h"
#include "uop/composite.h"
#include "uop/expr.h"
#include "uop/wide.h"

namespace aster::engine {
namespace {

using dtype::is_sticky;
using uop::alu;
using uop::DType;
using uop::Expr;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;
using uop::Word;

// ERR is the least pattern of the integers that store a sticky dtype: the minimum of several is
// ERR where one of them is, and one less than each puts ERR on top.

Expr number(Expr like, int64_t value) {
  if (like.n == nullptr) return like;
  return {like.g, like.g->constant_int(like.dtype(), value, like.shape())};
}
Expr error(Expr like) { return number(like, dtype::min_int(like.dtype())); }
Expr is_error(Expr x) { return x == error(x); }
// y, or ERR where bad.
Expr unless(Expr bad, Expr y) { return where(bad, error(y), y); }
Expr either_error(Expr a, Expr b) { return is_error(min(a, b)); }
// x of a wider dtype, or of the same, as one that is narrower, ERR where it does not fit.
Expr fitted(Expr x, DType to, Expr bad) {
  const Expr most = number(x, static_cast<int64_t>(dtype::max_int(to)));
  if (x.dtype() != to) bad = bad | (x > most) | (x < number(x, dtype::min_int(to) + 1));
  return unless(bad, x.cast(to));
}

// ---- Elementwise ----

DType twice(DType d) {
  return d == DType::kInt8 ? DType::kInt16 : d == DType::kInt16 ? DType::kInt32 : DType::kInt64;
}

Expr add(Expr a, Expr b) {
  const Expr y = a + b;
  return unless((((a ^ y) & (b ^ y)) < 0.0) | either_error(a, b), y);
}
Expr sub(Expr a, Expr b) {
  const Expr y = a - b;
  return unless((((a ^ b) & (a ^ y)) < 0.0) | either_error(a, b), y);
}

// Whether |a| * |b| is not below 2^63, by halves of 32 bits.
Expr product_overflows(Expr a, Expr b) {
  const auto low = [](Expr x) { return x & x.like(0xffffffff); };
  const auto high = [](Expr x) { return alu(Op::kShr, x, x.like(32)); };
  const Expr x = abs(a).cast(DType::kUInt64), y = abs(b).cast(DType::kUInt64);
  const Expr cross = high(x) * low(y) + low(x) * high(y), lowest = low(x) * low(y);
  return ((high(x) != 0.0) & (high(y) != 0.0)) | (cross + high(lowest) >= 0x80000000);
}
Expr mul(Expr a, Expr b) {
  const Expr bad = either_error(a, b);
  if (a.dtype() == DType::kInt64) return unless(bad | product_overflows(a, b), a * b);
  const DType wide = twice(a.dtype());
  return fitted(a.cast(wide) * b.cast(wide), a.dtype(), bad);
}
Expr greater(Expr a, Expr b) { return max(a - 1.0, b - 1.0) + 1.0; }
// Quotients and remainders of numbers fit.
template <Op op>
Expr divide(Expr a, Expr b) {
  return unless(either_error(a, b) | (b == 0.0), alu(op, a, b));
}
Expr less(Expr a, Expr b) { return (a < b) & (a != error(a)); }
Expr less_equal(Expr a, Expr b) { return (a <= b) & (a != error(a)); }

struct Binary {
  Op op;
  Expr (*lower)(Expr a, Expr b);
};
// The others mean the same on what is stored: -ERR and |ERR| wrap to ERR, patterns are equal.
constexpr Binary kBinaries[] = {
    {Op::kAdd, add},
    {Op::kSub, sub},
    {Op::kMul, mul},
    {Op::kMax, greater},
    {Op::kCDiv, divide<Op::kCDiv>},
    {Op::kCMod, divide<Op::kCMod>},
    {Op::kFloorDiv, divide<Op::kFloorDiv>},
    {Op::kFloorMod, divide<Op::kFloorMod>},
    {Op::kCmpLt, less},
    {Op::kCmpLe, less_equal},
};

Node lower_alu(Graph& g, Node node, Nodes src) {
  for (const Binary& row : kBinaries) {
    if (row.op == node->op) return row.lower({&g, src[0]}, {&g, src[1]}).n;
  }
  return g.alu(node->op, src);
}

// ---- Conversions ----

// The greatest number of a float dtype that is not above those of an integer dtype.
double greatest_float(DType from, DType to) {
  const double bound = static_cast<double>(dtype::max_int(to));  // rounded up to 2^63
  const double most = dtype::truncate_float(from, bound);
  if (dtype::bits(to) < 64 && most <= bound) return most;
  return from == DType::kFloat32
             ? static_cast<double>(std::nextafter(static_cast<float>(most), 0.0f))
             : std::nextafter(most, 0.0);
}

Expr from_float(Expr x, DType to) {
  if (dtype::is_narrow_float(x.dtype())) x = x.cast(DType::kFloat32);
  const double most = greatest_float(x.dtype(), to);
  const Expr y = x.cast(to);
  return where(abs(x) <= most, y, error(y));
}

Expr from_integer(Expr x, DType to) {
  if (x.dtype() == DType::kBool) return x.cast(to);
  const bool is_unsigned = dtype::is_unsigned(x.dtype());
  const size_t from_bits = dtype::is_weak(x.dtype()) ? 64 : dtype::bits(x.dtype());
  if (from_bits < dtype::bits(to) || (from_bits == dtype::bits(to) && !is_unsigned))
    return x.cast(to);
  const Expr most = number(x, static_cast<int64_t>(dtype::max_int(to))), y = x.cast(to);
  if (is_unsigned) return unless(x > most, y);
  return unless((x > most) | (x < number(x, dtype::min_int(to) + 1)), y);
}

// x is stored as an integer.
Expr from_sticky(Expr x, DType to, bool sticky) {
  const Expr y = x.cast(to);
  if (dtype::is_float(to))
    return where(is_error(x), y.like(std::numeric_limits<double>::quiet_NaN()), y);
  if (!sticky) return y;
  if (dtype::bits(to) < dtype::bits(x.dtype())) return fitted(x, to, is_error(x));
  return unless(is_error(x), y);
}

// Between wide floats and sticky integers, which src/flt converts.
Node cast_wide(Graph& g, Node node, Node x) {
  const Word words[] = {static_cast<Word>(uop::WideKind::kCast),
                        static_cast<Word>(node->src(0)->dtype), static_cast<Word>(node->dtype)};
  return g.make(Op::kWide, dtype::stored_as(node->dtype), std::array{x}, words, node->shape());
}

Expr lower_cast(Expr x, DType from, DType to) {
  if (is_sticky(from)) return from_sticky(x, dtype::stored_as(to), is_sticky(to));
  return dtype::is_float(from) ? from_float(x, dtype::stored_as(to))
                               : from_integer(x, dtype::stored_as(to));
}

// ---- What combines several elements ----

Expr itself(Expr x) { return x; }
Expr below(Expr x) { return x - 1.0; }
Expr to_int64(Expr x) { return x.cast(DType::kInt64); }
Expr low_half(Expr x) { return to_int64(x) & to_int64(x).like(0xffffffff); }
Expr high_half(Expr x) { return alu(Op::kShr, to_int64(x), to_int64(x).like(32)); }
Expr to_float64(Expr x) { return x.cast(DType::kFloat64); }
Expr size_of(Expr x) { return abs(x); }

// One native reduction or scatter in the place of a sticky one, on what prepare makes of operands.
class Folding {
 public:
  using Prepare = Expr (*)(Expr);
  Folding(Graph& g, Node node, Nodes src) : g_(g), node_(node), src_(src) {}
  Expr operator()(Op op, Prepare prepare) const {
    const Expr x = prepare({&g_, src_[0]});
    if (node_->op != Op::kScatter) return reduce(op, x, node_->arg().subspan(1));
    const Node value = prepare({&g_, src_[1]}).n;
    return {&g_, g_.scatter(op, x.n, value, src_.subspan(2), node_->arg().subspan(1))};
  }

 private:
  Graph& g_;
  const Node node_;
  const Nodes src_;
};

constexpr int64_t kMostTerms = int64_t{1} << 31;
constexpr int64_t kMostProducts = int64_t{1} << 29;

// low + high * 2^32, low not negative, as a value of a dtype.
Expr joined(Expr low, Expr high, DType to, Expr bad) {
  const Expr upper = high + alu(Op::kShr, low, low.like(32));
  const Expr half = upper.like(0x80000000);
  const Expr value = alu(Op::kShl, upper, upper.like(32)) | (low & low.like(0xffffffff));
  return fitted(value, to, bad | (upper >= half) | (upper < -half));
}

Expr sum(const Folding& fold, DType d) {
  const Expr bad = is_error(fold(Op::kMin, itself));
  if (dtype::bits(d) < 64) return fitted(fold(Op::kAdd, to_int64), d, bad);
  return joined(fold(Op::kAdd, low_half), fold(Op::kAdd, high_half), d, bad);
}

// Products of numbers other than 0 grow only: a product in float64 is exact up to 2^53 and tells
// what lies clearly beyond 2^63; what wraps at 2^64 tells the rest.
Expr product(const Folding& fold, DType d) {
  const Expr bad = is_error(fold(Op::kMin, itself));
  const Expr zero = fold(Op::kMin, size_of) == 0.0, about = fold(Op::kMul, to_float64);
  Expr y;
  if (dtype::bits(d) < 64) {
    y = from_float(about, d);
  } else {
    const Expr size = fold(Op::kMul, size_of);
    y = where(abs(about) < 0x1.8p63,
              where(size < 0.0, error(size), where(about < 0.0, -size, size)), error(size));
  }
  return unless(bad, where(zero, y.like(0), y));
}

Expr lower_fold(const Folding& fold, Op op, DType d) {
  if (op == Op::kAdd) return sum(fold, d);
  if (op == Op::kMul) return product(fold, d);
  return op == Op::kMax ? fold(op, below) + 1.0 : fold(op, itself);
}

// ---- Prefixes: the first that is ERR or does not fit spoils all behind it ----

Expr scan(Expr x, Op op, Node node) {
  return {x.g, x.g->scan(op, x.n, node->arg(1), node->arg(2) != 0)};
}

// What a scan is before each element; in front of the first, 1.
Expr before(Expr y, Node node) {
  if (y.n == nullptr) return y;
  const size_t axis = static_cast<size_t>(node->arg(1));
  const bool reverse = node->arg(2) != 0;
  uop::Dims start(y.ndim(), 0), step(y.ndim(), 1), size(y.shape()), none(y.ndim(), 0);
  uop::Dims room(y.ndim(), 0);
  size[axis] -= 1;
  if (reverse) start[axis] = 1;
  room[axis] = 1;
  const Node cut = y.g->slice(y.n, start, step, size);
  return {y.g, y.g->pad(cut, reverse ? none : room, reverse ? room : none, none, 1)};
}

Expr lower_scan(Expr x, Node node) {
  const Op op = static_cast<Op>(node->arg(0));
  if (op == Op::kMin) return scan(x, op, node);
  if (op == Op::kMax) return scan(below(x), op, node) + 1.0;
  // Up to the first that spoils, what wraps is right.
  const Expr y = scan(x, op, node);
  const Expr step = op == Op::kAdd ? add(y - x, x) : mul(before(y, node), x);
  return unless(scan(is_error(step), Op::kOr, node), y);
}

// ---- Sums of products ----

// A minimum over axes, once where Expand repeats its operand.
Expr least_over(Expr x, uop::Words axes) {
  if (x.n == nullptr || x.n->op != Op::kExpand) return reduce(Op::kMin, x, axes);
  return reduce(Op::kMin, {x.g, x.n->src(0)}, axes);
}

// The sum of a * b over axes in digits of 32 bits, where 64 bits do not hold a product.
Expr wide_sum(Expr a, Expr b, uop::Words axes, DType to, Expr bad) {
  const auto low = [](Expr x) { return x & x.like(0xffffffff); };
  const auto high = [](Expr x) { return alu(Op::kShr, x, x.like(32)); };
  const auto as = [](Expr x, DType d) { return x.cast(d); };
  const auto total = [&](Expr x) { return reduce(Op::kAdd, as(x, DType::kInt64), axes); };
  const Expr al = low(a), ah = high(a), bl = low(b), bh = high(b);
  const Expr lowest = as(al, DType::kUInt64) * as(bl, DType::kUInt64);
  const Expr left = ah * bl, right = al * bh, top = ah * bh;
  const Expr s0 = total(low(lowest));
  const Expr s1 = total(as(high(lowest), DType::kInt64) + low(left) + low(right)) + high(s0);
  const Expr s2 = total(high(left) + high(right) + low(top)) + high(s1);
  const Expr s3 = total(high(top)) + high(s2);
  const Expr value = alu(Op::kShl, s1, s1.like(32)) | low(s0);
  // What is above 64 bits is the sign of what is below.
  const Expr sign = where(value < 0.0, value.like(-1), value.like(0));
  return fitted(value, to, bad | (s3 != sign) | (low(s2) != low(sign)));
}

Expr lower_dot(Expr a, Expr b, Node node) {
  const DType from = a.dtype(), to = dtype::stored_as(node->dtype);
  const uop::Words axes = node->arg();
  const Expr bad = is_error(least_over(a, axes)) | is_error(least_over(b, axes));
  const int64_t terms = node->src(0)->count() / std::max<int64_t>(node->count(), 1);
  const auto total = [&](DType products, DType sums) {
    return reduce(Op::kAdd, (a.cast(products) * b.cast(products)).cast(sums), axes);
  };
  const auto checked = [&](Expr y) {
    return fitted(y.expand(node->shape()), to, bad.expand(node->shape()));
  };
  constexpr int64_t kFew = INT32_MAX / (127 * 127);
  if (from == DType::kInt8)
    return checked(total(DType::kInt32, terms <= kFew ? DType::kInt32 : DType::kInt64)
                       .cast(terms <= kFew && to == DType::kInt32 ? DType::kInt32 : DType::kInt64));
  if (from == DType::kInt16) return checked(total(DType::kInt32, DType::kInt64));
  const Expr spoiled = bad.expand(node->shape());
  if (from == DType::kInt64) return wide_sum(a, b, axes, to, spoiled);
  const Expr product = to_int64(a) * to_int64(b);
  return joined(reduce(Op::kAdd, low_half(product), axes),
                reduce(Op::kAdd, high_half(product), axes), to, spoiled);
}

// ---- The pass ----

bool computes_sticky(Node node) {
  if (is_sticky(node->dtype)) return true;
  return std::ranges::any_of(node->src(), [](Node x) { return is_sticky(x->dtype); });
}

// The same node on other sources, of the dtype that is stored.
Node stored_node(Graph& g, Node node, Nodes src) {
  const Node made =
      g.make(node->op, dtype::stored_as(node->dtype), src, node->arg(), node->shape());
  return made == nullptr || src.empty() ? made : g.with_sources(made, src);  // constants move
}

// Sums of so many that 64 bits may not hold their halves.
Status check_terms(Node node) {
  if (!is_sticky(node->dtype)) return kOk;
  const bool adds = node->narg > 0 && node->arg(0) == static_cast<Word>(Op::kAdd);
  int64_t terms = 0;
  if (node->op == Op::kDot || (node->op == Op::kReduce && adds))
    terms = node->src(0)->count() / std::max<int64_t>(node->count(), 1);
  if (node->op == Op::kScatter && adds) terms = node->src(1)->count();
  if (terms < (node->op == Op::kDot ? kMostProducts : kMostTerms)) return kOk;
  return ASTER_FAIL(kUNSUPPORTED, "a kernel that sums %lld elements of %s",
                    static_cast<long long>(terms), uop::brief(node->src(0)).text);
}

// A product of matrices by bytes, of operands that lie in memory.
Node lower_matmul(Graph& g, Node call, Node a, Node b) {
  Node operands[] = {a, b};
  for (Node& x : operands) {
    if (x != nullptr && is_const(x)) x = g.contiguous(x);
    if (x == nullptr) return nullptr;
  }
  const Word words[] = {static_cast<Word>(uop::WideKind::kBytes), static_cast<Word>(a->dtype)};
  return g.make(Op::kWide, dtype::stored_as(call->dtype), operands, words, call->shape());
}

Node lower_node(Graph& g, Node node, Nodes src, bool bytes) {
  const Expr x{&g, src.empty() ? nullptr : src[0]};
  const DType stored = dtype::stored_as(node->dtype);
  if (bytes && node->op == Op::kCall && uop::composite_of(node) == uop::Composite::kExactMatmul &&
      runtime::cpu::native::worth_bytes(src[1], src[2]))
    return lower_matmul(g, node, src[1], src[2]);
  const bool combines = is_sticky(node->dtype) && node->narg > 0 && node->arg(0) >= 0;
  if (uop::is_alu(node->op)) return lower_alu(g, node, src);
  if (node->op == Op::kCast && (dtype::is_wide(node->dtype) || dtype::is_wide(node->src(0)->dtype)))
    return cast_wide(g, node, x.n);
  if (node->op == Op::kCast) return lower_cast(x, node->src(0)->dtype, node->dtype).n;
  if (node->op == Op::kBitcast) return g.bitcast(x.n, stored);
  if (node->op == Op::kIota)
    return from_integer({&g, g.iota(DType::kInt64, node->dim(0))}, stored).n;
  if (node->op == Op::kDot) return lower_dot(x, {&g, src[1]}, node).n;
  if (node->op == Op::kScan) return lower_scan(x, node).n;
  if (node->op == Op::kScanPlace && static_cast<Op>(node->arg(0)) == Op::kMax)
    return g.scan_place(Op::kMax, below(x).n, node->arg(1));
  if (node->op == Op::kReduce || (node->op == Op::kScatter && combines))
    return lower_fold({g, node, src}, static_cast<Op>(node->arg(0)), stored).n;
  return stored_node(g, node, src);
}

}  // namespace

Status lower_dtypes(Node* sink, Graph& g, bool bytes) {
  Vec<Node> nodes(g.memory()), src(g.memory());
  Map<Node, Node> done(g.memory());
  ASTER_TRY(walk(&nodes, std::array{*sink}));
  if (std::ranges::none_of(nodes, computes_sticky)) return kOk;
  for (Node node : nodes) {
    src.clear();
    bool changed = false;
    for (size_t i = 0; i < node->nsrc; ++i) {
      Node source = node->src(i);
      if (i == 0 && node->op == Op::kCall) {
        ASTER_TRY(lower_dtypes(&source, g, bytes));
      } else {
        source = done.get(source, nullptr);
      }
      changed |= source != node->src(i);
      ASTER_TRY(src.push(source));
    }
    ASTER_TRY(check_terms(node));
    const Nodes lowered{src.data(), src.size()};
    Node made = node;
    if (computes_sticky(node)) {
      made = lower_node(g, node, lowered, bytes);
    } else if (changed) {
      made = g.with_sources(node, lowered);
    }
    if (made == nullptr) return last_failure();
    ASTER_TRY(done.set(node, made));
  }
  *sink = done.get(*sink, nullptr);
  return kOk;
}

}  // namespace aster::engine
