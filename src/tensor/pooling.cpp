// Pools of any rank.
#include <algorithm>
#include <array>
#include <limits>

#include "aster_ml/spatial.h"
#include "tensor/sized.h"
#include "tensor/spatial.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::brief_shape;
using uop::Dims;
using uop::Op;

Node nil(Status) { return nullptr; }

struct Pool {
  Windows w;
  bool ceil, exclude_pad;
  const int64_t* size;  // of what is unpooled, or null
};

Status plan_pool(Pool* pool, const char* what, Node x, size_t rank, const int64_t* kernel,
                 const aster_ml_pool_options* options) {
  aster_ml_pool_options o;
  ASTER_TRY(options_argument(&o, options));
  Words sizes;
  ASTER_TRY(shape_argument(&sizes, rank, kernel));
  if (rank == 0 || x->ndim < rank) {
    return ASTER_FAIL(kSHAPE, "%s of %s over %zu axes", what, brief(x).text, rank);
  }
  pool->w.what = what;
  pool->w.rank = rank;
  pool->w.kernel = Dims(sizes);
  pool->ceil = o.ceil_mode != 0;
  pool->exclude_pad = o.exclude_pad != 0;
  pool->size = o.size;
  return plan_windows(&pool->w, {o.stride, o.dilation, o.before, o.after}, sizes);
}

// x without negative padding, the windows known to fit.
Node prepare(Graph& g, Node x, Pool* pool) {
  x = cut_padding(g, x, &pool->w);
  if (x == nullptr || !check_windows(pool->w, x).ok()) return nullptr;
  return x;
}

uop::Pool2d image_pool(const Windows& w) {
  uop::Pool2d o;
  for (size_t i = 0; i < 2; ++i) {
    o.kernel[i] = w.kernel[i];
    o.stride[i] = w.stride[i];
    o.dilation[i] = w.dilation[i];
    o.pad[2 * i] = w.before[i];
    o.pad[2 * i + 1] = w.after[i];
  }
  return o;
}

// How many elements of the i-th axis' windows lie at begin <= position < end of the axis, padding
// before it counted from -before on. Column along the axis' place among the last `rank`.
Expr counted(Graph& g, const Windows& w, size_t i, Word windows, Word begin, Word end) {
  Dims shape(w.rank, 1);
  shape[i] = windows;
  const double d = static_cast<double>(w.dilation[i]);
  const Expr start = iota(g, DType::kInt64, shape, i) * static_cast<double>(w.stride[i]) -
                     static_cast<double>(w.before[i]);
  // Elements before a bound: of start + k * dilation < bound, the number of k from 0 on.
  const auto below = [&](Word bound) {
    const Expr room = start.like(static_cast<double>(bound)) - start;
    const Expr some = w.dilation[i] == 1 ? room : alu(Op::kFloorDiv, room + (d - 1), d);
    return min(max(some, 0.0), static_cast<double>(w.kernel[i]));
  };
  return below(end) - below(begin);
}

Node max_pool(Graph& g, Node x, Pool pool) {
  x = prepare(g, x, &pool);
  if (x == nullptr) return nullptr;
  if (pool.ceil) round_up(&pool.w, x);
  if (pool.w.rank == 2) return build_max_pool2d(g, x, image_pool(pool.w));
  const Node cut = cut_windows(g, x, pool.w, uop::lowest_word(x->dtype));
  if (cut == nullptr) return nullptr;
  const Dims axes = kernel_axes(cut->ndim, pool.w.rank);
  return drop_axes(g, g.reduce(Op::kMax, cut, axes), axes);
}

Node avg_pool(Graph& g, Node x, Pool pool) {
  x = prepare(g, x, &pool);
  if (x == nullptr) return nullptr;
  if (pool.w.rank == 2 && !pool.ceil) {
    return build_avg_pool2d(g, x, image_pool(pool.w), !pool.exclude_pad);
  }
  Windows w = pool.w;
  if (pool.ceil) round_up(&w, x);
  const Expr wide = Expr{&g, x}.cast(dtype::sum_acc(x->dtype));
  const Node cut = cut_windows(g, wide.n, w, 0);
  if (cut == nullptr) return nullptr;
  const Dims axes = kernel_axes(cut->ndim, w.rank);
  const Expr total{&g, drop_axes(g, g.reduce(Op::kAdd, cut, axes), axes)};
  if (total.n == nullptr) return nullptr;
  Expr count{};
  for (size_t i = 0; i < w.rank; ++i) {
    const size_t axis = x->ndim - w.rank + i;
    const Word size = x->dim(axis);
    const Expr here = pool.exclude_pad ? counted(g, w, i, total.shape()[axis], 0, size)
                                       : counted(g, w, i, total.shape()[axis], -pool.w.before[i],
                                                 size + pool.w.after[i]);
    count = i == 0 ? here : count * here;
  }
  return (total / count.cast(total.dtype())).cast(x->dtype).n;
}

// Means of the elements of an axis that a mask shows, of those alone.
Node avg_pool_within(Graph& g, Node x, Node within, Pool pool) {
  if (x == nullptr) return nullptr;
  const DType wide = dtype::sum_acc(x->dtype);
  const Node ones = uop::broadcast_to(g, cast(g, within, wide), x->shape());
  pool.exclude_pad = false;
  const Expr total{&g, avg_pool(g, cast(g, x, wide), pool)}, count{&g, avg_pool(g, ones, pool)};
  return (total / count).cast(x->dtype).n;
}

// Values and positions.
Status max_pool_with_indices(Node* values, Node* positions, Graph& g, Node x, Pool pool) {
  x = prepare(g, x, &pool);
  if (x == nullptr) return last_failure();
  const size_t rank = pool.w.rank;
  Windows& w = pool.w;
  const Words plane = x->shape().last(rank);
  Word count = 1;
  for (Word dim : plane) {
    if (!checked_mul(count, dim, &count) || count > std::numeric_limits<int32_t>::max()) {
      return ASTER_FAIL(kRANGE, "%s of %s: positions beyond int32", w.what, brief(x).text);
    }
  }
  if (pool.ceil) round_up(&w, x);
  const Expr cut{&g, cut_windows(g, x, w, uop::lowest_word(x->dtype))};
  if (cut.n == nullptr) return last_failure();
  const Dims axes = kernel_axes(cut.ndim(), rank);
  const Expr most = reduce(Op::kMax, cut, axes);
  Expr hit = cut == most;
  if (dtype::is_float(x->dtype)) hit = hit | (cut != cut);
  // The greatest of count - position is that of the first; padding has 0.
  const Expr place{&g, g.reshape(g.iota(DType::kInt32, count), plane)};
  const Expr rank_of{&g, cut_windows(g, (place.like(static_cast<double>(count)) - place).n, w, 0)};
  const Expr best = reduce(Op::kMax, where(hit, rank_of, rank_of.like(0)), axes);
  *values = drop_axes(g, most.n, axes);
  *positions = drop_axes(g, (best.like(static_cast<double>(count)) - best).n, axes);
  return *values == nullptr || *positions == nullptr ? last_failure() : kOk;
}

// Sizes of the axes that windows of pool cover, all of them of x's last axes.
Status unpooled_sizes(Dims* out, const Windows& w, Node x, const int64_t* given) {
  for (size_t i = 0; i < w.rank; ++i) {
    int64_t size = 0;
    const Word windows = x->dim(x->ndim - w.rank + i);
    bool fits = checked_mul(windows - 1, w.stride[i], &size) &&
                checked_add(size, w.span(i) - w.before[i] - w.after[i], &size);
    if (given != nullptr) fits = true, size = given[i];
    if (!fits || size < 0) {
      return ASTER_FAIL(kRANGE, "%s of %s: %lld elements on axis %zu of the windows", w.what,
                        brief(x).text, static_cast<long long>(size), i);
    }
    out->push(size);
  }
  return kOk;
}

Node max_unpool(Graph& g, Node x, Node indices, const Windows& w, const Dims& sizes) {
  const size_t lead = x->ndim - w.rank;
  Dims flat(x->shape().first(lead)), plane(flat), result(flat), coordinates;
  Word here = 1, there = 1;
  for (size_t i = 0; i < w.rank; ++i) {
    here *= x->dim(lead + i);
    if (!checked_mul(there, sizes[i], &there)) {
      return nil(
          ASTER_FAIL(kRANGE, "%s of %s to %s", w.what, brief(x).text, brief_shape(sizes).text));
    }
    result.push(sizes[i]);
  }
  flat.push(here);
  plane.push(there);
  for (size_t i = 0; i < lead; ++i) coordinates.push(static_cast<Word>(i));
  coordinates.push(-1);
  const Node target = g.constant_int(x->dtype, 0, plane), at = g.reshape(indices, flat);
  return g.reshape(g.scatter(Op::kAdd, target, g.reshape(x, flat), std::array{at}, coordinates),
                   result);
}

Node as_float(Graph& g, Node x) { return cast(g, x, g.real(x->dtype)); }

// A public function of one result: pooled(g, x, pool).
template <typename Pooled>
Status build_pool(aster_ml_lazy* out, const char* what, Input x, size_t rank, const int64_t* kernel,
                  const aster_ml_pool_options* options, sized::Fill fill, Pooled pooled) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  Pool pool;
  Node within = nullptr;
  ASTER_TRY(plan_pool(&pool, what, node(x), rank, kernel, options));
  ASTER_TRY(sized::windows(build, x, pool.w, fill, pool.ceil, &within));
  return build.finish_beside(pooled(build.graph(), node(x), within, pool));
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;
using aster::uop::brief;

int32_t aster_ml_lazy_avg_pool(aster_ml_lazy* out, const aster_ml_lazy* x, size_t rank,
                               const int64_t* kernel, const aster_ml_pool_options* options) {
  ASTER_API();
  return build_pool(out, "avg_pool", x, rank, kernel, options, sized::Fill::kZero,
                    [](Graph& g, Node n, Node within, const Pool& p) {
                      n = as_float(g, n);
                      return within != nullptr && p.exclude_pad ? avg_pool_within(g, n, within, p)
                                                                : avg_pool(g, n, p);
                    });
}

int32_t aster_ml_lazy_max_pool(aster_ml_lazy* out, const aster_ml_lazy* x, size_t rank,
                               const int64_t* kernel, const aster_ml_pool_options* options) {
  ASTER_API();
  return build_pool(
      out, "max_pool", x, rank, kernel, options, sized::Fill::kLowest,
      [](Graph& g, Node n, Node, const Pool& p) { return max_pool(g, strong(g, n), p); });
}

int32_t aster_ml_lazy_max_pool_with_indices(aster_ml_lazy* out, aster_ml_lazy* out_indices,
                                            const aster_ml_lazy* x, size_t rank,
                                            const int64_t* kernel,
                                            const aster_ml_pool_options* options) {
  ASTER_API();
  if (out_indices != nullptr && out_indices != x) out_indices->impl = nullptr;
  ASTER_TRY(clear_handles(out, 1, std::array{x}));
  ASTER_TRY(clear_handles(out_indices, 1, std::array{x}));
  if (out == out_indices) return ASTER_FAIL(kARGUMENT, "one handle is given for two results");
  aster_ml_lazy unused{};
  Build build(&unused, {x});
  ASTER_TRY(build.status());
  Pool pool;
  ASTER_TRY(plan_pool(&pool, "max_pool_with_indices", node(x), rank, kernel, options));
  // A position counts in the sizes of all axes of the windows but the first.
  const size_t ndim = node(x)->ndim;
  if (!sized::bound_among(build, x, ndim - rank + 1, ndim - 1))
    ASTER_TRY(sized::windows(build, x, pool.w, sized::Fill::kLowest, pool.ceil));
  Node values, positions;
  ASTER_TRY(max_pool_with_indices(&values, &positions, build.graph(),
                                  strong(build.graph(), node(x)), pool));
  aster_ml_lazy both[2] = {};
  ASTER_TRY(make_handles_beside(both, build, std::array{values, positions}));
  *out = both[0];
  *out_indices = both[1];
  return kOk;
}

int32_t aster_ml_lazy_max_unpool(aster_ml_lazy* out, const aster_ml_lazy* x,
                                 const aster_ml_lazy* indices, size_t rank, const int64_t* kernel,
                                 const aster_ml_pool_options* options) {
  ASTER_API();
  Build build(out, {x, indices});
  ASTER_TRY(build.status());
  Pool pool;
  ASTER_TRY(plan_pool(&pool, "max_unpool", node(x), rank, kernel, options));
  ASTER_TRY(sized::paired(build, x, indices, rank));
  const Node a = node(x), at = node(indices);
  if (!aster::dtype::is_int(at->dtype)) {
    return ASTER_FAIL(kDTYPE, "max_unpool of %s at %s: indices need to be integers", brief(a).text,
                      brief(at).text);
  }
  if (!std::ranges::equal(a->shape(), at->shape())) {
    return ASTER_FAIL(kSHAPE, "max_unpool of %s at %s", brief(a).text, brief(at).text);
  }
  aster::uop::Dims sizes;
  ASTER_TRY(unpooled_sizes(&sizes, pool.w, a, pool.size));
  Graph& g = build.graph();
  return build.finish_beside(max_unpool(g, strong(g, a), strong(g, at), pool.w, sizes));
}
