// Rules (sized.h) of reductions and of what is made of them.
#include <algorithm>
#include <array>

#include "tensor/sized.h"

namespace aster::tensor::sized {

using uop::Dims;

namespace {

bool has(Words axes, size_t axis) {
  return std::ranges::find(axes, static_cast<Word>(axis)) != axes.end();
}

// The sizes that are left of x.
Sizes reduced(const Sizes& sizes, Words axes, bool keepdim, Graph& g) {
  Sizes out;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (!has(axes, k)) out.push(sizes[k]);
    if (has(axes, k) && keepdim) out.push(g.index(1));
  }
  return out;
}

bool bound_along(const Sizes& sizes, Words axes) {
  return std::ranges::any_of(axes,
                             [&](Word axis) { return is_bound(sizes[static_cast<size_t>(axis)]); });
}

// Means of elements within the sizes, and what they are made of, in a wide dtype.
struct Spread {
  Build& build;
  Graph& g;
  Sizes sizes;
  Dims axes;
  Node all = nullptr;            // the whole tensor
  DType wide = DType::kFloat32;  // that it is computed in
  DType result = DType::kFloat32;

  explicit Spread(Build& b) : build(b), g(b.graph()) {}
  Status start(Input x, Axes along) {
    ASTER_TRY(sizes_of(&sizes, build, x));
    ASTER_TRY(resolve_axes(&axes, along, node(x)->ndim));
    all = strong(g, whole(x));
    if (all == nullptr) return last_failure();
    const DType from = all->dtype;
    const bool own = from == DType::kFloat64 || dtype::is_wide(from);
    wide = own ? from : DType::kFloat32;
    result = dtype::is_float(from) ? from : DType::kFloat32;
    return kOk;
  }
  Axes at(const Dims& list) const { return {list.size(), list.at}; }
  // The number of elements that one of the result is made of.
  Status count(Expr* out) const {
    Node product = g.index(1);
    for (Word axis : Words(axes)) product = sym::mul(g, product, sizes[static_cast<size_t>(axis)]);
    if (product == nullptr) return last_failure();
    return value_of(out, build.engine(), product);
  }
  Status total(Expr* out, Expr x) const {
    Node kept = nullptr;
    ASTER_TRY(masked(&kept, build, x.n, sizes, axes, Fill::kZero));
    *out = uop::reduce(uop::Op::kAdd, Expr{&g, kept}, axes);
    return out->n == nullptr ? last_failure() : kOk;
  }
  // The axes stay, with size 1.
  Status mean(Expr* out) const {
    Expr elements, sum;
    ASTER_TRY(count(&elements));
    ASTER_TRY(total(&sum, Expr{&g, g.cast(all, wide)}));
    *out = sum / elements.cast(wide);
    return out->n == nullptr ? last_failure() : kOk;
  }
  Status variance(Expr* out, int64_t correction) const {
    Expr elements, middle, sum;
    ASTER_TRY(count(&elements));
    ASTER_TRY(mean(&middle));
    const Expr apart = Expr{&g, g.cast(all, wide)} - middle;
    if (apart.n == nullptr) return last_failure();
    ASTER_TRY(total(&sum, apart * apart));
    const Expr divisor = uop::max(elements.cast(wide) - static_cast<double>(correction), 0.0);
    *out = sum / divisor;
    return out->n == nullptr ? last_failure() : kOk;
  }
  Status finish(Expr y, bool keepdim) const {
    y = y.cast(result);
    const Node out = keepdim ? y.n : drop_axes(g, y.n, axes);
    return build.finish(out, reduced(sizes, axes, keepdim, g));
  }
};

}  // namespace

Status reduce(Build& build, Input x, Axes axes, bool keepdim, Fill fill) {
  if (!build.sized()) return kOk;
  Dims at;
  ASTER_TRY(resolve_axes(&at, axes, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Node all = nullptr;
  ASTER_TRY(masked(&all, build, whole(x), sizes, at, fill));
  build.show(x, all);
  build.take_rule(reduced(sizes, at, keepdim, build.graph()));
  return kOk;
}

Status along(Build& build, Input x, int64_t axis, Fill fill) {
  if (!build.sized() || node(x)->ndim == 0) return kOk;
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Node all = nullptr;
  const std::array<Word, 1> one{static_cast<Word>(at)};
  ASTER_TRY(masked(&all, build, whole(x), sizes, one, fill));
  build.show(x, all);
  build.take_rule(sizes);
  return kOk;
}

Status blank(Node* y, Build& build, Input x) {
  if (*y == nullptr) return last_failure();
  if (!build.sized()) return kOk;
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  return masked(y, build, *y, sizes, all_axes(sizes.size()), Fill::kZero);
}

// Behind every element stands what comes last: NaN in ascending order, where there is one.
Status ordered(Build& build, Input x, int64_t axis, bool descending, Node count) {
  if (!build.sized() || node(x)->ndim == 0) return kOk;
  Graph& g = build.graph();
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  if (count != nullptr && !holds_le(build, count, sizes[at])) return kOk;
  const bool real = dtype::is_float(g.strong(node(x)->dtype));
  const Fill fill = descending ? Fill::kLowest : real ? Fill::kNan : Fill::kHighest;
  ASTER_TRY(along(build, x, axis, fill));
  if (count != nullptr) sizes[at] = count;
  build.take_rule(sizes);
  return kOk;
}

Done mean(Build& build, Input x, Axes axes, bool keepdim) {
  if (!build.sized()) return {};
  Spread of(build);
  ASTER_TRY(of.start(x, axes));
  if (!bound_along(of.sizes, of.axes)) {
    const Sizes left = reduced(of.sizes, of.axes, keepdim, of.g);
    return build.finish(tensor::mean(of.g, whole(x), axes, keepdim), left);
  }
  Expr y;
  ASTER_TRY(of.mean(&y));
  return of.finish(y, keepdim);
}

Done var(Build& build, Input x, Axes axes, bool keepdim, int64_t correction, bool root) {
  if (!build.sized()) return {};
  Spread of(build);
  ASTER_TRY(of.start(x, axes));
  if (!root && !bound_along(of.sizes, of.axes)) {
    const Sizes left = reduced(of.sizes, of.axes, keepdim, of.g);
    return build.finish(tensor::var(of.g, whole(x), axes, keepdim, correction), left);
  }
  Expr y;
  ASTER_TRY(of.variance(&y, correction));
  return of.finish(root ? uop::sqrt(y) : y, keepdim);
}

Done softmax(Build& build, Input x, int64_t axis, AlongAxis f) {
  if (!build.sized() || node(x)->ndim == 0) return {};
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Node all = nullptr;
  const std::array<Word, 1> along{static_cast<Word>(at)};
  ASTER_TRY(masked(&all, build, whole(x), sizes, along, Fill::kLowest));
  all = f(build.graph(), all, axis);
  ASTER_TRY(blank(&all, build, x));
  return build.finish(all, sizes);
}

Done layer_norm(Build& build, Input x, Axes axes, double eps, Node weight, Node bias) {
  if (!build.sized()) return {};
  Spread of(build);
  ASTER_TRY(of.start(x, axes));
  if (!bound_along(of.sizes, of.axes)) return {};
  Graph& g = of.g;
  Expr middle, spread;
  ASTER_TRY(of.mean(&middle));
  ASTER_TRY(of.variance(&spread, 0));
  const Expr apart = Expr{&g, g.cast(of.all, of.wide)} - middle;
  Node y = (apart * uop::recip(uop::sqrt(spread + eps))).cast(g.real(of.all->dtype)).n;
  if (weight != nullptr) y = binary(g, y, weight, ops::mul);
  if (bias != nullptr) y = binary(g, y, bias, ops::add);
  return build.finish(y, of.sizes);
}

}  // namespace aster::tensor::sized
