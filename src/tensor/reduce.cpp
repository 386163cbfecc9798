// Reductions.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "tensor/ops.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

Node nil(Status) { return nullptr; }

// A reduction of x that leaves its axes, then dropped unless they are to be kept.
template <typename F>
Node over(Graph& g, Node x, Axes axes, bool keepdim, F f) {
  Dims at;
  if (x == nullptr || !resolve_axes(&at, axes, x->ndim).ok()) return nullptr;
  const Node y = f(Expr{&g, strong(g, x)}, Words(at)).n;
  return keepdim ? y : drop_axes(g, y, at);
}

double count_over(Expr x, Words axes) {
  double n = 1;
  for (Word axis : axes) n *= static_cast<double>(x.n->dim(static_cast<size_t>(axis)));
  return n;
}

// The dtype of a mean: that of a float, float32 of others.
DType mean_dtype(DType d) { return dtype::is_float(d) ? d : DType::kFloat32; }

Expr total(Expr x, Words axes) { return reduce(Op::kAdd, x.cast(dtype::sum_acc(x.dtype())), axes); }

Expr mean_over(Expr x, Words axes) {
  const DType result = mean_dtype(x.dtype());
  Expr sum = total(x, axes);
  if (!dtype::is_float(sum.dtype())) {
    sum = sum.cast(dtype::least_upper(x.g->defaults.real, DType::kFloat32));
  }
  return x.n == nullptr ? x : (sum / count_over(x, axes)).cast(result);
}

// Logical operations in place of arithmetic on bool.
Op bool_op(Expr x, Op logical, Op arithmetic) {
  return x.dtype() == DType::kBool ? logical : arithmetic;
}

// tinygrad compares with <, which NaN fails: it is passed over, but for the first element of a
// reduction that is unrolled there.
Expr reduce_passing_nan(Op op, Expr x, Words axes) {
  constexpr double kUnrolled = 32;
  if (x.n == nullptr) return x;
  const Expr y = reduce(op, without_nan(x, op), axes);
  const double count = count_over(x, axes);
  if (count == 0 || count > kUnrolled) return y;
  Dims start(x.ndim(), 0), step(x.ndim(), 1), size(x.shape());
  for (Word axis : axes) size[static_cast<size_t>(axis)] = 1;
  const Expr first{x.g, x.g->slice(x.n, start, step, size)};
  return where(first != first, first, y);
}

// First index along an axis where x is most, or NaN.
Node first_index(Graph& g, Node x, int64_t axis, bool keepdim, Op extremum) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  const Word size = x->dim(at);
  if (size == 0)
    return nil(
        ASTER_FAIL(kRANGE, "index of an extremum of %s: axis %zu is empty", brief(x).text, at));
  if (size > std::numeric_limits<int32_t>::max()) {
    return nil(ASTER_FAIL(kRANGE, "index of an extremum of %s beyond int32", brief(x).text));
  }
  const Expr e{&g, strong(g, x)};
  const std::array axes{static_cast<Word>(at)};
  const Expr y = reduce(extremum, e, axes);
  Expr hit = e == y;
  if (dtype::is_float(e.dtype())) hit = hit | (e != e);
  // The greatest of size - i over the hits is that of the first.
  const Expr rank = iota(g, DType::kInt32, x->shape(), at).like(static_cast<double>(size)) -
                    iota(g, DType::kInt32, x->shape(), at);
  const Expr best = reduce(Op::kMax, where(hit, rank, rank.like(0)), axes);
  const Node index = (best.like(static_cast<double>(size)) - best).n;
  return keepdim ? index : drop_axes(g, index, axes);
}

}  // namespace

Expr without_nan(Expr x, Op extremum) {
  if (x.n == nullptr || !dtype::is_float(x.dtype())) return x;
  const double lowest = std::bit_cast<double>(uop::lowest_word(x.dtype()));
  return where(x != x, x.like(extremum == Op::kMax ? lowest : -lowest), x);
}

Status resolve_axes(Dims* out, Axes axes, size_t ndim) {
  *out = Dims();
  if (axes.at == nullptr) {
    for (size_t i = 0; i < ndim; ++i) out->push(static_cast<Word>(i));
    return kOk;
  }
  for (size_t i = 0; i < axes.count; ++i) {
    size_t at;
    ASTER_TRY(resolve_axis(&at, axes.at[i], ndim));
    for (size_t k = 0; k < out->size(); ++k) {
      if ((*out)[k] == static_cast<Word>(at)) return ASTER_FAIL(kRANGE, "axis %zu given twice", at);
    }
    out->push(static_cast<Word>(at));
  }
  std::sort(out->at, out->at + out->count);
  return kOk;
}

Node sum(Graph& g, Node x, Axes axes, bool keepdim) {
  // A weak dtype has an accumulator of its own, whatever the defaults are.
  if (x != nullptr && dtype::is_weak(x->dtype)) x = cast(g, x, dtype::sum_acc(x->dtype));
  return over(g, x, axes, keepdim, [](Expr e, Words at) {
    const Expr y = total(e, at);
    return dtype::is_narrow_float(e.dtype()) ? y.cast(e.dtype()) : y;
  });
}

Node prod(Graph& g, Node x, Axes axes, bool keepdim) {
  return over(g, x, axes, keepdim,
              [](Expr e, Words at) { return reduce(bool_op(e, Op::kAnd, Op::kMul), e, at); });
}

Node max(Graph& g, Node x, Axes axes, bool keepdim) {
  return over(g, x, axes, keepdim,
              [](Expr e, Words at) { return reduce(bool_op(e, Op::kOr, Op::kMax), e, at); });
}

Node min(Graph& g, Node x, Axes axes, bool keepdim) {
  return over(g, x, axes, keepdim,
              [](Expr e, Words at) { return reduce(bool_op(e, Op::kAnd, Op::kMin), e, at); });
}

Node strict_max(Graph& g, Node x, Axes axes, bool keepdim) {
  if (x == nullptr || !dtype::is_float(x->dtype)) return max(g, x, axes, keepdim);
  return over(g, x, axes, keepdim,
              [](Expr e, Words at) { return reduce_passing_nan(Op::kMax, e, at); });
}

Node strict_min(Graph& g, Node x, Axes axes, bool keepdim) {
  if (x == nullptr || !dtype::is_float(x->dtype)) return min(g, x, axes, keepdim);
  return over(g, x, axes, keepdim,
              [](Expr e, Words at) { return reduce_passing_nan(Op::kMin, e, at); });
}

Node any(Graph& g, Node x, Axes axes, bool keepdim) {
  return x == nullptr ? nullptr : max(g, cast(g, x, DType::kBool), axes, keepdim);
}

Node all(Graph& g, Node x, Axes axes, bool keepdim) {
  return x == nullptr ? nullptr : prod(g, cast(g, x, DType::kBool), axes, keepdim);
}

Node mean(Graph& g, Node x, Axes axes, bool keepdim) {
  return over(g, x, axes, keepdim, mean_over);
}

Node var(Graph& g, Node x, Axes axes, bool keepdim, int64_t correction) {
  return over(g, x, axes, keepdim, [&](Expr e, Words at) {
    if (e.n == nullptr) return e;
    const DType result = mean_dtype(e.dtype());
    const Expr apart = e.cast(result) - mean_over(e, at);
    const double divisor = count_over(e, at) - static_cast<double>(correction);
    return (total(apart * apart, at) / std::max(divisor, 0.0)).cast(result);
  });
}

Node argmax(Graph& g, Node x, int64_t axis, bool keepdim) {
  return first_index(g, x, axis, keepdim, Op::kMax);
}
Node argmin(Graph& g, Node x, int64_t axis, bool keepdim) {
  return first_index(g, x, axis, keepdim, Op::kMin);
}

Node logsumexp(Graph& g, Node x, Axes axes, bool keepdim) {
  return over(g, x, axes, keepdim, [&](Expr e, Words at) {
    return Expr{&g, build_logsumexp(g, e.cast(g.real(e.dtype())).n, at)};
  });
}

}  // namespace aster::tensor
