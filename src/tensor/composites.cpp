// Composite operations: their arguments checked and brought into the form that uop/composite.h
// takes.
#include "uop/composite.h"

#include <algorithm>
#include <array>

#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Composite;
using uop::Dims;

long long wide(int64_t value) { return value; }

// x in the float dtype that functions with real results compute in.
Node as_float(Graph& g, Node x) { return x == nullptr ? nullptr : cast(g, x, g.real(x->dtype)); }

// ---- Matrix product ----

// What matmul does to its operands before the composite, and to the result after it.
struct MatmulPlan {
  DType dtype, seen;  // computed in, and what the user sees
  Dims a, b;          // two axes at least, batch axes not yet equal
  Dims batch;         // that both broadcast to
  Dims result;
  bool flat;  // b has no batch: the batch of a is part of its rows
};

Status plan_matmul(MatmulPlan* plan, const Graph& g, Node a, Node b) {
  if (a->ndim == 0 || b->ndim == 0) {
    return ASTER_FAIL(kSHAPE, "matmul of %s and %s: both need an axis", brief(a).text,
                      brief(b).text);
  }
  plan->a = Dims(a->shape());
  plan->b = Dims(b->shape());
  if (a->ndim == 1) plan->a = Dims(std::array<Word, 2>{1, a->dim(0)});
  if (b->ndim == 1) plan->b = Dims(std::array<Word, 2>{b->dim(0), 1});
  const size_t na = plan->a.size(), nb = plan->b.size();
  const Words batch_a(plan->a.at, na - 2), batch_b(plan->b.at, nb - 2);
  const Word inner_a = plan->a[na - 1], inner_b = plan->b[nb - 2];
  if (inner_a != inner_b) {
    return ASTER_FAIL(kSHAPE, "matmul of %s and %s: rows of %lld meet columns of %lld",
                      brief(a).text, brief(b).text, static_cast<long long>(inner_a),
                      static_cast<long long>(inner_b));
  }
  if (!broadcast_shape(&plan->batch, batch_a, batch_b)) {
    return ASTER_FAIL(kSHAPE, "matmul of %s and %s: their batches do not broadcast", brief(a).text,
                      brief(b).text);
  }
  plan->seen = dtype::least_upper(a->dtype, b->dtype);
  if (plan->seen == DType::kNone)
    return ASTER_FAIL(kDTYPE, "matmul of %s and %s", brief(a).text, brief(b).text);
  plan->dtype = g.strong(plan->seen);
  if (dtype::is_sticky(plan->dtype)) plan->seen = dtype::sum_acc(plan->dtype);
  plan->result = plan->batch;
  if (a->ndim > 1) plan->result.push(plan->a[na - 2]);
  if (b->ndim > 1) plan->result.push(plan->b[nb - 1]);
  plan->flat = nb == 2 && na > 2;
  return kOk;
}

// x of a plan with its batch axes repeated to batch.
Node with_batch(Graph& g, Node x, const Dims& matrix, Words batch) {
  Dims shape(batch);
  shape.push(matrix[matrix.size() - 2]);
  shape.push(matrix[matrix.size() - 1]);
  return broadcast_to(g, g.reshape(x, matrix), shape);
}

// ---- Convolution and pooling ----

// Options of either, defaults filled in; bounds are checked with the operands.
struct Windows {
  Word kernel[2], stride[2], pad[4], dilation[2];
};

Status plan_windows(Windows* w, const int32_t (&stride)[2], const int32_t (&dilation)[2],
                    const int32_t (&padding)[4]) {
  for (size_t i = 0; i < 2; ++i) {
    if (stride[i] < 0 || dilation[i] < 0) {
      return ASTER_FAIL(kRANGE, "stride %d, dilation %d: both need to be positive", stride[i],
                        dilation[i]);
    }
    if (stride[i] > 0) w->stride[i] = stride[i];
    w->dilation[i] = std::max(dilation[i], 1);
  }
  for (size_t i = 0; i < 4; ++i) w->pad[i] = padding[i];
  return kOk;
}

// Whether windows fit on the last two axes of x.
Status check_windows(const char* what, Node x, const Windows& w) {
  for (size_t i = 0; i < 2; ++i) {
    const Word size = x->dim(x->ndim - 2 + i);
    if (w.kernel[i] < 1 || uop::windows_count(size, w.pad[2 * i] + w.pad[2 * i + 1], w.kernel[i],
                                              w.stride[i], w.dilation[i]) < 1) {
      return ASTER_FAIL(
          kSHAPE, "%s of %s: kernel %lldx%lld, dilation %lldx%lld, padding %lld %lld %lld %lld",
          what, brief(x).text, wide(w.kernel[0]), wide(w.kernel[1]), wide(w.dilation[0]),
          wide(w.dilation[1]), wide(w.pad[0]), wide(w.pad[1]), wide(w.pad[2]), wide(w.pad[3]));
    }
  }
  return kOk;
}

// Negative padding cuts off before the windows are laid.
Node cut_padding(Graph& g, Node x, Windows* w) {
  Dims begin(x->ndim, 0), end(x->shape());
  for (size_t i = 0; i < 2; ++i) {
    const size_t axis = x->ndim - 2 + i;
    begin[axis] = std::max<Word>(-w->pad[2 * i], 0);
    end[axis] += std::min<Word>(w->pad[2 * i + 1], 0);
    w->pad[2 * i] = std::max<Word>(w->pad[2 * i], 0);
    w->pad[2 * i + 1] = std::max<Word>(w->pad[2 * i + 1], 0);
  }
  return shrink(g, x, begin, end);
}

Status plan_pool(Windows* w, const char* what, Node x, const aster_ml_pool2d_options* given) {
  aster_ml_pool2d_options o;
  ASTER_TRY(options_argument(&o, given));
  if (x->ndim < 2) return ASTER_FAIL(kSHAPE, "%s of %s: two axes are needed", what, brief(x).text);
  for (size_t i = 0; i < 2; ++i) {
    if (o.kernel[i] < 0) return ASTER_FAIL(kRANGE, "%s: kernel %d", what, o.kernel[i]);
    w->kernel[i] = w->stride[i] = o.kernel[i] == 0 ? 2 : o.kernel[i];
  }
  ASTER_TRY(plan_windows(w, o.stride, o.dilation, o.padding));
  return check_windows(what, x, *w);
}

uop::Pool2d pool_of(const Windows& w) {
  uop::Pool2d o;
  std::copy_n(w.kernel, 2, o.kernel);
  std::copy_n(w.stride, 2, o.stride);
  std::copy_n(w.pad, 4, o.pad);
  std::copy_n(w.dilation, 2, o.dilation);
  return o;
}

// ---- Cross entropy ----

// The general form, from primitives: smoothing, ignored labels, every reduction.
Node general_cross_entropy(Graph& g, Node logits, Node labels,
                           const aster_ml_cross_entropy_options& o) {
  const Word last = logits->ndim - 1;
  const std::array classes{last};
  const Expr log_p{&g, build_log_softmax(g, logits, last)};
  Dims column(labels->shape());
  column.push(1);
  const Expr y = Expr{&g, labels}.reshape(column);
  const Expr hit = y == iota(g, labels->dtype, logits->shape(), static_cast<size_t>(last));
  Expr loss = sum(where(hit, log_p, 0.0), classes) * (1 - o.label_smoothing);
  if (o.label_smoothing != 0) loss = loss + mean(log_p, classes) * o.label_smoothing;
  Expr count{};
  if (o.ignore != 0) {
    const Expr counted = y != static_cast<double>(o.ignore_index);
    loss = where(counted, loss, 0.0);
    count = sum(counted.cast(g.real(logits->dtype)), Words());
  }
  const Node each = drop_axes(g, (-loss).n, classes);
  if (o.reduction == ASTER_ML_REDUCTION_NONE) return each;
  const Node total = sum(g, each, {0, nullptr}, false);
  if (o.reduction == ASTER_ML_REDUCTION_SUM || total == nullptr) return total;
  Node divisor = g.constant(total->dtype, static_cast<double>(labels->count()));
  if (o.ignore != 0) divisor = sum(g, count.n, {0, nullptr}, false);
  return binary(g, total, divisor, ops::div);
}

Status check_cross_entropy(Node logits, Node labels, const aster_ml_cross_entropy_options& o) {
  if (!dtype::is_int(labels->dtype)) {
    return ASTER_FAIL(kDTYPE, "cross_entropy of %s: labels need to be integers",
                      brief(labels).text);
  }
  const bool fits = logits->ndim == labels->ndim + 1 &&
                    std::ranges::equal(logits->shape().first(labels->ndim), labels->shape());
  if (!fits)
    return ASTER_FAIL(kSHAPE, "cross_entropy of %s and %s", brief(logits).text, brief(labels).text);
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1)) {
    return ASTER_FAIL(kRANGE, "label_smoothing %g is not from 0 to 1", o.label_smoothing);
  }
  if (o.reduction < ASTER_ML_REDUCTION_MEAN || o.reduction > ASTER_ML_REDUCTION_NONE) {
    return ASTER_FAIL(kARGUMENT, "unknown reduction %d", o.reduction);
  }
  return kOk;
}

}  // namespace

Node matmul(Graph& g, Node a, Node b) {
  MatmulPlan plan;
  if (a == nullptr || b == nullptr || !plan_matmul(&plan, g, a, b).ok()) return nullptr;
  const Node x = cast(g, a, plan.dtype), y = cast(g, b, plan.dtype);
  if (x == nullptr || y == nullptr) return nullptr;
  if (plan.flat) {
    // One product of all rows instead of many with the same right side.
    const size_t n = plan.a.size();
    Word rows = 1;
    for (size_t i = 0; i + 1 < n; ++i) rows *= plan.a[i];
    const Node product =
        build_matmul(g, g.reshape(x, std::array{rows, plan.a[n - 1]}), g.reshape(y, plan.b));
    return g.cast(g.reshape(product, plan.result), plan.seen);
  }
  const Node product =
      build_matmul(g, with_batch(g, x, plan.a, plan.batch), with_batch(g, y, plan.b, plan.batch));
  return g.cast(g.reshape(product, plan.result), plan.seen);
}

Node index_labels(Graph& g, Node labels) {
  if (labels == nullptr) return nullptr;
  const DType d = g.strong(labels->dtype);
  const bool wide = dtype::bits(d) == 64 || d == DType::kUInt32;
  return cast(g, labels, wide ? DType::kInt64 : DType::kInt32);
}

Node cross_entropy(Graph& g, Node logits, Node labels, const aster_ml_cross_entropy_options& o) {
  if (!check_cross_entropy(logits, labels, o).ok()) return nullptr;
  const Node scores = as_float(g, logits), at = index_labels(g, labels);
  if (scores == nullptr || at == nullptr) return nullptr;
  const bool plain =
      o.label_smoothing == 0 && o.ignore == 0 && o.reduction != ASTER_ML_REDUCTION_NONE;
  return plain ? build_cross_entropy(g, scores, at, o.reduction == ASTER_ML_REDUCTION_MEAN)
               : general_cross_entropy(g, scores, at, o);
}

Node softmax(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  return build_softmax(g, as_float(g, x), static_cast<Word>(at));
}

Node log_softmax(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  return build_log_softmax(g, as_float(g, x), static_cast<Word>(at));
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;
using aster::uop::brief;

int32_t aster_ml_lazy_conv2d(aster_ml_lazy* out, const aster_ml_lazy* x,
                             const aster_ml_lazy* weight, const aster_ml_lazy* bias,
                             const aster_ml_conv2d_options* options) {
  ASTER_API();
  Build build(out, {x, weight}, {bias});
  ASTER_TRY(build.status());
  aster_ml_conv2d_options o;
  ASTER_TRY(options_argument(&o, options));
  Graph& g = build.graph();
  const Node a = node(x), w = node(weight), shift = node(bias);
  const Word groups = o.groups == 0 ? 1 : o.groups;
  if (groups < 1) return ASTER_FAIL(kRANGE, "conv2d in %d groups", o.groups);
  if (a->ndim != 4 || w->ndim != 4 || a->dim(1) % groups != 0 || a->dim(1) / groups != w->dim(1) ||
      w->dim(0) % groups != 0 ||
      (shift != nullptr && (shift->ndim != 1 || shift->dim(0) != w->dim(0)))) {
    return ASTER_FAIL(kSHAPE, "conv2d of %s with weight %s, bias %s, %lld groups", brief(a).text,
                      brief(w).text, shift == nullptr ? "none" : brief(shift).text, wide(groups));
  }
  Windows windows{{w->dim(2), w->dim(3)}, {1, 1}, {}, {}};
  ASTER_TRY(plan_windows(&windows, o.stride, o.dilation, o.padding));
  ASTER_TRY(check_windows("conv2d", a, windows));
  const DType dtype = g.strong(aster::dtype::least_upper(a->dtype, w->dtype));
  aster::uop::Conv2d attributes;
  const Node cut = cut_padding(g, a, &windows);
  attributes.groups = groups;
  std::copy_n(windows.stride, 2, attributes.stride);
  std::copy_n(windows.pad, 4, attributes.pad);
  std::copy_n(windows.dilation, 2, attributes.dilation);
  Node y = build_conv2d(g, cast(g, cut, dtype), cast(g, w, dtype), attributes);
  if (shift != nullptr) {
    y = binary(g, y, reshape(g, shift, std::array<Word, 3>{shift->dim(0), 1, 1}), ops::add);
  }
  return build.finish(y);
}

int32_t aster_ml_lazy_max_pool2d(aster_ml_lazy* out, const aster_ml_lazy* x,
                                 const aster_ml_pool2d_options* options) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  Windows windows{};
  ASTER_TRY(plan_pool(&windows, "max_pool2d", node(x), options));
  const Node cut = cut_padding(g, strong(g, node(x)), &windows);
  return build.finish(build_max_pool2d(g, cut, pool_of(windows)));
}

int32_t aster_ml_lazy_avg_pool2d(aster_ml_lazy* out, const aster_ml_lazy* x,
                                 const aster_ml_pool2d_options* options) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  Windows windows{};
  ASTER_TRY(plan_pool(&windows, "avg_pool2d", node(x), options));
  aster_ml_pool2d_options o;
  ASTER_TRY(options_argument(&o, options));
  const Node cut = cut_padding(g, as_float(g, node(x)), &windows);
  return build.finish(build_avg_pool2d(g, cut, pool_of(windows), o.exclude_pad == 0));
}

// Over axes of which none is a variable's, with weights of numbers.
static aster::tensor::sized::Done layer_norm_sized(Build& build, Input x, size_t axes, Input weight,
                                                   Input bias, double eps) {
  namespace sized = aster::tensor::sized;
  Graph& g = build.graph();
  Sizes sizes;
  ASTER_TRY(sized::sizes_of(&sizes, build, x));
  for (size_t i = sizes.size() - axes; i < sizes.size(); ++i) {
    if (is_bound(sizes[i])) return {};
  }
  for (Input w : {weight, bias}) {
    if (w == nullptr) continue;
    if (cell(w)->sized != nullptr ||
        !std::ranges::equal(node(w)->shape(), node(x)->shape().last(axes)))
      return {};
  }
  Node y = build_layer_norm(g, as_float(g, sized::whole(x)), static_cast<Word>(axes), eps);
  if (weight != nullptr) y = binary(g, y, node(weight), ops::mul);
  if (bias != nullptr) y = binary(g, y, node(bias), ops::add);
  return build.finish(y, sizes);
}

int32_t aster_ml_lazy_layer_norm(aster_ml_lazy* out, const aster_ml_lazy* x, size_t axes,
                                 const aster_ml_lazy* weight, const aster_ml_lazy* bias,
                                 double eps) {
  ASTER_API();
  Build build(out, {x}, {weight, bias});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  const Node a = node(x);
  if (axes == 0 || axes > a->ndim)
    return ASTER_FAIL(kRANGE, "layer_norm of %s over %zu axes", brief(a).text, axes);
  if (build.sized()) {
    if (const auto done = layer_norm_sized(build, x, axes, weight, bias, eps)) return done->code;
  }
  for (const Node n : {node(weight), node(bias)}) {
    if (n != nullptr && !std::ranges::equal(n->shape(), a->shape().last(axes))) {
      return ASTER_FAIL(kSHAPE, "layer_norm of %s over %zu axes with %s", brief(a).text, axes,
                        brief(n).text);
    }
  }
  Node y = build_layer_norm(g, as_float(g, a), static_cast<Word>(axes), eps);
  if (weight != nullptr) y = binary(g, y, node(weight), ops::mul);
  if (bias != nullptr) y = binary(g, y, node(bias), ops::add);
  return build.finish(y);
}

int32_t aster_ml_lazy_batch_norm(aster_ml_lazy* out, const aster_ml_lazy* x,
                                 const aster_ml_lazy* weight, const aster_ml_lazy* bias,
                                 const aster_ml_lazy* mean, const aster_ml_lazy* invstd) {
  ASTER_API();
  Build build(out, {x, mean, invstd}, {weight, bias});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  const Node a = node(x);
  if (a->ndim < 2)
    return ASTER_FAIL(kSHAPE, "batch_norm of %s: two axes are needed", brief(a).text);
  DType dtype = a->dtype;
  const Node channels[] = {node(weight), node(bias), node(mean), node(invstd)};
  for (const Node n : channels) {
    if (n == nullptr) continue;
    if (n->ndim != 1 || n->dim(0) != a->dim(1)) {
      return ASTER_FAIL(kSHAPE, "batch_norm of %s with %s", brief(a).text, brief(n).text);
    }
    dtype = aster::dtype::least_upper(dtype, n->dtype);
  }
  if (weight != nullptr && bias != nullptr) {
    dtype = g.real(dtype);
    const auto in = [&](Node n) { return cast(g, n, dtype); };
    return build.finish(build_batch_norm(g, in(a), in(channels[0]), in(channels[1]),
                                         in(channels[2]), in(channels[3])));
  }
  Dims by_channel(a->ndim, 1);
  by_channel[1] = a->dim(1);
  const auto shaped = [&](Node n) { return reshape(g, n, by_channel); };
  Node y = binary(g, a, shaped(channels[2]), ops::sub);
  if (weight != nullptr) y = binary(g, y, shaped(channels[0]), ops::mul);
  y = binary(g, y, shaped(channels[3]), ops::mul);
  if (bias != nullptr) y = binary(g, y, shaped(channels[1]), ops::add);
  return build.finish(y);
}

int32_t aster_ml_lazy_cross_entropy(aster_ml_lazy* out, const aster_ml_lazy* logits,
                                    const aster_ml_lazy* labels,
                                    const aster_ml_cross_entropy_options* options) {
  ASTER_API();
  Build build(out, {logits, labels});
  ASTER_TRY(build.status());
  aster_ml_cross_entropy_options o;
  ASTER_TRY(options_argument(&o, options));
  return build.finish(cross_entropy(build.graph(), node(logits), node(labels), o));
}
