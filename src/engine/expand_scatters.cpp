// A Scatter of few values to few places as a reduction: every place looks at all values that may
// come to it and takes those whose indices name it.
#include <algorithm>

#include "engine/indexing.h"
#include "engine/prepare.h"
#include "uop/composite.h"
#include "uop/expr.h"

namespace aster::engine {
namespace {

using uop::Dims;
using uop::Expr;
using uop::Graph;
using uop::Node;
using uop::Op;
using uop::Word;

// Looks of a place at a value, in all and for each value, up to which this is faster than a native
// call, and up to which the call costs more than its work (replays of scatter_reduce).
constexpr int64_t kMostLooks = int64_t{1} << 18, kMostLooksEach = 32;
constexpr int64_t kFewLooks = int64_t{1} << 12;

// The axes of an expansion: those of the target, then those of the value that it has not.
class Expansion {
 public:
  Expansion(Graph& g, Node scatter) : g_(g), scatter_(scatter), shape_(scatter->shape()) {}
  // Whether it is worth it.
  bool plan();
  // The values whose places are met, reduced by op; others count as the neutral element.
  Expr combined(Op op) const;
  // Where any value comes.
  Expr met() const;

 private:
  size_t places() const { return scatter_->ndim; }
  Word from(size_t i) const { return scatter_->arg(1 + i); }
  Expr lay_out(Node source, Word beyond) const;
  Expr hits() const;
  Expr reduced(Op op, Expr x) const;

  Graph& g_;
  const Node scatter_;
  Dims order_;  // axes of the value in that order
  Dims shape_;  // lengths
};

bool Expansion::plan() {
  const Node value = scatter_->src(1);
  Dims seen(value->ndim, 0);
  for (size_t i = 0; i < places(); ++i) {
    if (from(i) < 0) continue;
    if (seen[static_cast<size_t>(from(i))]++ > 0) return false;  // a diagonal
    order_.push(from(i));
  }
  int64_t looks = scatter_->count();
  for (size_t a = 0; a < value->ndim && looks <= kMostLooks; ++a) {
    if (seen[a] > 0) continue;
    order_.push(static_cast<Word>(a));
    shape_.push(value->dim(a));
    looks *= value->dim(a);
  }
  const int64_t most = std::clamp(value->count() * kMostLooksEach, kFewLooks, kMostLooks);
  return looks <= most && scatter_->nsrc > 2;
}

// The value or an index, filled up where it is shorter than the target.
Expr Expansion::lay_out(Node source, Word beyond) const {
  Dims shape(shape_), after, none(source->ndim, 0);
  size_t next = 0;
  bool longer = false;
  for (size_t i = 0; i < shape_.size(); ++i) {
    const bool indexed = i < places() && from(i) < 0;
    if (indexed) {
      shape[i] = 1;
      continue;
    }
    after.push(shape_[i] - source->dim(static_cast<size_t>(order_[next++])));
    longer |= after[after.size() - 1] > 0;
  }
  Node laid = g_.permute(source, order_);
  if (longer) laid = g_.pad(laid, none, after, none, beyond);
  return {&g_, g_.reshape(laid, shape)};
}

Expr Expansion::hits() const {
  Expr all;
  bool first = true;
  for (size_t i = 0; i < places(); ++i) {
    if (from(i) >= 0) continue;
    Expr index{&g_, scatter_->src(static_cast<size_t>(1 - from(i)))};
    if (dtype::size(index.dtype()) < 4) index = index.cast(DType::kInt32);  // holds all positions
    const Expr there =
        lay_out(index.n, scatter_->dim(i)) == uop::iota(g_, index.dtype(), shape_, i);
    all = first ? there : all & there;
    first = false;
  }
  return all;
}

Expr Expansion::reduced(Op op, Expr x) const {
  Dims axes;
  for (size_t i = places(); i < shape_.size(); ++i) axes.push(static_cast<Word>(i));
  return reduce(op, x.expand(shape_), axes).reshape(scatter_->shape());
}

Expr Expansion::combined(Op op) const {
  const Word neutral = uop::neutral_word(op, scatter_->dtype);
  const Expr value = lay_out(scatter_->src(1), neutral);
  const Expr none{&g_, g_.constant_word(scatter_->dtype, neutral)};
  return reduced(op, where(hits(), value, none));
}

Expr Expansion::met() const { return reduced(Op::kMax, hits()); }

bool has_neutral(Op op) {
  return op == Op::kAdd || op == Op::kMul || op == Op::kMax || op == Op::kMin;
}

// The target, emptied first where it is a Scatter of one value to everywhere.
Status expand_target(Expr* out, Graph& g, Node target) {
  *out = Expr{&g, target};
  if (target->op != Op::kScatter || target->arg(0) >= 0 || !uop::is_const(target->src(1)))
    return kOk;
  Expansion expansion(g, target);
  if (!expansion.plan()) return kOk;
  const Expr value{&g, g.constant_word(target->dtype, target->src(1)->arg(0))};
  *out = where(expansion.met(), value, Expr{&g, target->src(0)});
  return need(out->n);
}

}  // namespace

Status expand_scatter(Node* out, Graph& g, Node scatter) {
  *out = scatter;
  if (scatter->arg(0) < 0 || dtype::is_narrow_float(scatter->dtype)) return kOk;
  const Op op = static_cast<Op>(scatter->arg(0));
  Expansion expansion(g, scatter);
  if (!has_neutral(op) || !expansion.plan()) return kOk;
  const Node target = scatter->src(0);
  Expr result = expansion.combined(op);
  if (!(uop::is_const(target) && target->arg(0) == uop::neutral_word(op, target->dtype))) {
    Expr start;
    ASTER_TRY(expand_target(&start, g, target));
    result = alu(op, start, result);
  }
  *out = result.n;
  return need(*out);
}

}  // namespace aster::engine
