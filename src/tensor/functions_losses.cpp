// Losses.
#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/functions.h"
#include "tensor/sized.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;

Node nil(Status) { return nullptr; }

// The loss of each element, reduced, in dtype.
Node reduced(Graph& g, Expr each, int32_t reduction, DType dtype) {
  constexpr Axes kAll{0, nullptr};
  switch (reduction) {
    case ASTER_ML_REDUCTION_MEAN:
      return cast(g, mean(g, each.n, kAll, false), dtype);
    case ASTER_ML_REDUCTION_SUM:
      return cast(g, sum(g, each.n, kAll, false), dtype);
    case ASTER_ML_REDUCTION_NONE:
      return cast(g, each.n, dtype);
    default:
      return nil(ASTER_FAIL(kARGUMENT, "unknown reduction %d", reduction));
  }
}

// The float dtype of a loss, and what it is computed in.
struct LossDType {
  DType seen, wide;
};
LossDType loss_dtype(const Graph& g, std::initializer_list<Node> operands) {
  DType d = (*operands.begin())->dtype;
  for (Node x : operands) {
    if (x != nullptr) d = dtype::least_upper(d, x->dtype);
  }
  d = g.real(d);
  return {d, dtype::is_narrow_float(d) ? DType::kFloat32 : d};
}

Expr in(Graph& g, Node x, DType dtype) { return {&g, cast(g, x, dtype)}; }

// ln x, of the smallest normal number at least: 0 * log 0 is 0 then.
Expr log_of_probability(Expr p, bool strict) {
  const double least = p.dtype() == DType::kFloat64 ? 0x1p-1022 : 0x1p-126;
  return log(strict ? p : max(p, least));
}

Node binary_crossentropy(Build& build, Node x, Node y, int32_t reduction) {
  Graph& g = build.graph();
  const LossDType d = loss_dtype(g, {x, y});
  const Expr p = in(g, x, d.wide), t = in(g, y, d.wide);
  const Expr hit = log_of_probability(p, build.strict()) * t;
  const Expr miss = log_of_probability(1.0 - p, build.strict()) * (1.0 - t);
  return reduced(g, -(hit + miss), reduction, d.seen);
}

Node binary_crossentropy_logits(Graph& g, Node x, Node y, Node pos_weight, int32_t reduction) {
  const LossDType d = loss_dtype(g, {x, y, pos_weight});
  const Expr s = in(g, x, d.wide), t = in(g, y, d.wide);
  const auto softplus = [&](Expr e) { return Expr{&g, unary(g, e.n, ops::softplus)}; };
  Expr hit = softplus(-s) * t;
  if (pos_weight != nullptr) hit = in(g, pos_weight, d.wide) * hit;
  return reduced(g, hit + softplus(s) * (1.0 - t), reduction, d.seen);
}

// Elements of x at labels of an axis, which the labels do not have; 0 where a label is outside.
Expr at_labels(Expr x, Expr labels, size_t axis) {
  if (x.n == nullptr || labels.n == nullptr) return {x.g, nullptr};
  Dims column(x.shape());
  column[axis] = 1;
  const Expr hit = labels.reshape(column) == iota(*x.g, labels.dtype(), x.shape(), axis);
  const std::array axes{static_cast<Word>(axis)};
  return {x.g, drop_axes(*x.g, reduce(uop::Op::kAdd, where(hit, x, 0.0), axes).n, axes)};
}

// Whether labels have the shape of x without an axis.
bool labels_fit(Node x, Node labels, size_t axis) {
  if (labels->ndim + 1u != x->ndim) return false;
  for (size_t i = 0; i < labels->ndim; ++i) {
    if (labels->dim(i) != x->dim(i < axis ? i : i + 1)) return false;
  }
  return true;
}

Status check_labels(const char* what, Node x, Node labels, size_t axis) {
  if (x->ndim <= axis || !labels_fit(x, labels, axis)) {
    return ASTER_FAIL(kSHAPE, "%s of %s and %s", what, brief(x).text, brief(labels).text);
  }
  if (!dtype::is_int(labels->dtype)) {
    return ASTER_FAIL(kDTYPE, "%s of %s: labels need to be integers", what, brief(labels).text);
  }
  return kOk;
}

Node categorical_crossentropy(Graph& g, Node logits, Node target, double smoothing,
                              int32_t reduction) {
  constexpr const char* kName = "categorical_crossentropy";
  const size_t axis = logits->ndim == 1 ? 0 : 1;
  const bool probabilities =
      logits->ndim > 0 && std::ranges::equal(logits->shape(), target->shape());
  if (!probabilities && !check_labels(kName, logits, target, axis).ok()) return nullptr;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return nil(ASTER_FAIL(kRANGE, "label_smoothing %g is not from 0 to 1", smoothing));
  }
  const LossDType d = probabilities ? loss_dtype(g, {logits, target}) : loss_dtype(g, {logits});
  const Word at = static_cast<Word>(axis);
  const std::array axes{at};
  const Expr log_p{&g, build_log_softmax(g, in(g, logits, d.wide).n, at)};
  if (log_p.n == nullptr) return nullptr;
  const double rest = smoothing / static_cast<double>(std::max<Word>(logits->dim(axis), 1));
  Expr each;
  if (probabilities) {
    Expr p = in(g, target, d.wide) * (1 - smoothing);
    if (smoothing != 0) p = p + rest;
    each = {&g, drop_axes(g, reduce(uop::Op::kAdd, log_p * p, axes).n, axes)};
  } else {
    each = at_labels(log_p, {&g, index_labels(g, target)}, axis) * (1 - smoothing);
    if (smoothing != 0) {
      const Expr all{&g, drop_axes(g, reduce(uop::Op::kAdd, log_p, axes).n, axes)};
      each = each + all * rest;
    }
  }
  return reduced(g, -each, reduction, d.seen);
}

Node nll_loss(Graph& g, Node log_p, Node labels, Node weight, const int64_t* ignore_index,
              int32_t reduction) {
  if (!check_labels("nll_loss", log_p, labels, 1).ok()) return nullptr;
  if (weight != nullptr && (weight->ndim != 1 || weight->dim(0) != log_p->dim(1))) {
    return nil(
        ASTER_FAIL(kSHAPE, "nll_loss of %s with weight %s", brief(log_p).text, brief(weight).text));
  }
  const LossDType d = loss_dtype(g, {log_p, weight});
  const Expr x = in(g, log_p, d.wide), at{&g, index_labels(g, labels)};
  Expr factor{&g, g.constant(d.wide, 1, labels->shape())};
  if (weight != nullptr) {
    Dims across(log_p->ndim, 1);
    across[1] = weight->dim(0);
    factor = at_labels(in(g, weight, d.wide).reshape(across).expand(log_p->shape()), at, 1);
  }
  if (ignore_index != nullptr) {
    // Compared as int64, so that no label equals what its dtype cannot hold.
    const Expr wide = at.cast(DType::kInt64);
    const Expr ignored{&g, g.constant_int(DType::kInt64, *ignore_index, labels->shape())};
    factor = where(wide != ignored, factor, 0.0);
  }
  const Expr each = -at_labels(x, at, 1) * factor;
  if (reduction != ASTER_ML_REDUCTION_MEAN) return reduced(g, each, reduction, d.seen);
  constexpr Axes kAll{0, nullptr};
  const Node divisor = sum(g, factor.n, kAll, false);
  return cast(g, binary(g, sum(g, each.n, kAll, false), divisor, ops::div), d.seen);
}

// ---- Of tensors of symbolic sizes: the losses of elements, then what is made of these ----

// Whether one of the inputs has symbolic sizes and losses are to be reduced; out is none of them.
bool reduces_sized(const aster_ml_lazy* out, std::initializer_list<Input> inputs,
                   int32_t reduction) {
  bool sized = false;
  for (Input x : inputs) {
    if (x == out) return false;
    sized |= x != nullptr && aster_ml_lazy_is_symbolic(x) != 0;
  }
  return sized && (reduction == ASTER_ML_REDUCTION_MEAN || reduction == ASTER_ML_REDUCTION_SUM);
}

// each(&losses) gives the losses, weigh(&counts) what each counts for in a mean.
template <typename Each, typename Weigh>
Status reduce_sized(aster_ml_lazy* out, int32_t reduction, Each each, Weigh weigh) {
  aster_ml_lazy losses{}, counts{}, sums[3]{};
  const bool mean = reduction == ASTER_ML_REDUCTION_MEAN;
  Status status{each(&losses)};
  if (status.ok() && mean) status = Status{weigh(&counts)};
  if (status.ok() && counts.impl == nullptr) {
    status = Status{mean ? aster_ml_lazy_mean(out, &losses, 0, nullptr, 0)
                         : aster_ml_lazy_sum(out, &losses, 0, nullptr, 0)};
  } else if (status.ok()) {
    status = Status{aster_ml_lazy_sum(&sums[0], &losses, 0, nullptr, 0)};
    if (status.ok()) status = Status{aster_ml_lazy_sum(&sums[1], &counts, 0, nullptr, 0)};
    if (status.ok())
      status = Status{aster_ml_lazy_cast(&sums[2], &sums[1], aster_ml_lazy_dtype(&losses))};
    if (status.ok()) status = Status{aster_ml_lazy_div(out, &sums[0], &sums[2])};
  }
  for (aster_ml_lazy* x : {&losses, &counts, &sums[0], &sums[1], &sums[2]}) {
    if (x->impl != nullptr) (void)aster_ml_lazy_free(x);
  }
  return status;
}
int32_t equal_weights(aster_ml_lazy*) { return ASTER_ML_OK; }

// Shows scores of classes along an axis and labels in equal sizes, which those of losses are.
Status labelled(Build& build, Input scores, Input labels, size_t axis) {
  if (!build.sized() || node(scores)->ndim != node(labels)->ndim + 1u) return kOk;
  Graph& g = build.graph();
  std::array<Sizes, 2> sizes;
  std::array<Node, 2> wholes{sized::whole(scores), sized::whole(labels)};
  ASTER_TRY(sized::sizes_of(&sizes[0], build, scores));
  ASTER_TRY(sized::sizes_of(&sizes[1], build, labels));
  if (axis >= sizes[0].size() || is_bound(sizes[0][axis])) return kOk;
  sizes[0].remove(axis);
  for (size_t k = 0; k < sizes[1].size(); ++k) {
    if (sizes[0][k] != sizes[1][k]) return kOk;
    const size_t at = k < axis ? k : k + 1;
    const Word least = std::min(wholes[0]->dim(at), wholes[1]->dim(k));
    wholes[0] = sized::cut(g, wholes[0], at, least);
    wholes[1] = sized::cut(g, wholes[1], k, least);
    if (wholes[0] == nullptr || wholes[1] == nullptr) return last_failure();
  }
  build.show(scores, wholes[0]);
  build.show(labels, wholes[1]);
  build.take_rule(sizes[1]);
  return kOk;
}

// The same of probabilities, which are as large as the scores.
Status beside_probabilities(Build& build, Input scores, Input target, size_t axis) {
  if (!build.sized()) return kOk;
  std::array<Sizes, 2> sizes;
  std::array<Node, 2> wholes{sized::whole(scores), sized::whole(target)};
  ASTER_TRY(sized::sizes_of(&sizes[0], build, scores));
  ASTER_TRY(sized::sizes_of(&sizes[1], build, target));
  Sizes out;
  if (is_bound(sizes[0][axis]) || !sized::align(&out, wholes.data(), build.graph(), sizes, 0))
    return kOk;
  build.show(scores, wholes[0]);
  build.show(target, wholes[1]);
  out.remove(axis);
  build.take_rule(out);
  return kOk;
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_binary_crossentropy(aster_ml_lazy* out, const aster_ml_lazy* x,
                                          const aster_ml_lazy* y, int32_t reduction) {
  ASTER_API();
  if (reduces_sized(out, {x, y}, reduction)) {
    const auto each = [&](aster_ml_lazy* losses) {
      return aster_ml_lazy_binary_crossentropy(losses, x, y, ASTER_ML_REDUCTION_NONE);
    };
    return reduce_sized(out, reduction, each, equal_weights).code;
  }
  Build build(out, {x, y});
  ASTER_TRY(build.status());
  if (reduction == ASTER_ML_REDUCTION_NONE) ASTER_TRY(sized::elementwise(build, {x, y}));
  return build.finish(binary_crossentropy(build, node(x), node(y), reduction));
}

int32_t aster_ml_lazy_binary_crossentropy_logits(aster_ml_lazy* out, const aster_ml_lazy* x,
                                                 const aster_ml_lazy* y,
                                                 const aster_ml_lazy* pos_weight,
                                                 int32_t reduction) {
  ASTER_API();
  if (reduces_sized(out, {x, y, pos_weight}, reduction)) {
    const auto each = [&](aster_ml_lazy* losses) {
      return aster_ml_lazy_binary_crossentropy_logits(losses, x, y, pos_weight,
                                                      ASTER_ML_REDUCTION_NONE);
    };
    return reduce_sized(out, reduction, each, equal_weights).code;
  }
  Build build(out, {x, y}, {pos_weight});
  ASTER_TRY(build.status());
  if (reduction == ASTER_ML_REDUCTION_NONE)
    ASTER_TRY(sized::elementwise(build, {x, y, pos_weight}));
  return build.finish(
      binary_crossentropy_logits(build.graph(), node(x), node(y), node(pos_weight), reduction));
}

int32_t aster_ml_lazy_sparse_categorical_crossentropy(aster_ml_lazy* out,
                                                      const aster_ml_lazy* logits,
                                                      const aster_ml_lazy* labels,
                                                      int32_t ignore_index, double label_smoothing,
                                                      int32_t reduction) {
  ASTER_API();
  if (reduces_sized(out, {logits, labels}, reduction)) {
    const auto each = [&](aster_ml_lazy* losses) {
      return aster_ml_lazy_sparse_categorical_crossentropy(
          losses, logits, labels, ignore_index, label_smoothing, ASTER_ML_REDUCTION_NONE);
    };
    const auto counted = [&](aster_ml_lazy* counts) -> int32_t {
      if (ignore_index == -1) return ASTER_ML_OK;
      aster_ml_lazy ignored{};
      const aster_ml_context context = cell(labels)->context->inner_handle();
      ASTER_TRY(Status{aster_ml_lazy_number(&ignored, &context, ignore_index)});
      const int32_t status = aster_ml_lazy_ne(counts, labels, &ignored);
      (void)aster_ml_lazy_free(&ignored);
      return status;
    };
    return reduce_sized(out, reduction, each, counted).code;
  }
  Build build(out, {logits, labels});
  ASTER_TRY(build.status());
  if (reduction == ASTER_ML_REDUCTION_NONE)
    ASTER_TRY(labelled(build, logits, labels, node(logits)->ndim - 1u));
  const aster_ml_cross_entropy_options o{sizeof(o), reduction, label_smoothing,
                                         ignore_index == -1 ? 0 : 1, ignore_index};
  return build.finish(cross_entropy(build.graph(), node(logits), node(labels), o));
}

int32_t aster_ml_lazy_categorical_crossentropy(aster_ml_lazy* out, const aster_ml_lazy* logits,
                                               const aster_ml_lazy* target, double label_smoothing,
                                               int32_t reduction) {
  ASTER_API();
  if (reduces_sized(out, {logits, target}, reduction)) {
    const auto each = [&](aster_ml_lazy* losses) {
      return aster_ml_lazy_categorical_crossentropy(losses, logits, target, label_smoothing,
                                                    ASTER_ML_REDUCTION_NONE);
    };
    return reduce_sized(out, reduction, each, equal_weights).code;
  }
  Build build(out, {logits, target});
  ASTER_TRY(build.status());
  const size_t axis = node(logits)->ndim > 1 ? 1 : 0;
  if (reduction == ASTER_ML_REDUCTION_NONE && node(logits)->ndim != 0) {
    ASTER_TRY(node(target)->ndim == node(logits)->ndim
                  ? beside_probabilities(build, logits, target, axis)
                  : labelled(build, logits, target, axis));
  }
  return build.finish(categorical_crossentropy(build.graph(), node(logits), node(target),
                                               label_smoothing, reduction));
}

int32_t aster_ml_lazy_nll_loss(aster_ml_lazy* out, const aster_ml_lazy* log_p,
                               const aster_ml_lazy* labels, const aster_ml_lazy* weight,
                               const int64_t* ignore_index, int32_t reduction) {
  ASTER_API();
  if (reduces_sized(out, {log_p, labels}, reduction)) {
    const auto of = [&](aster_ml_lazy* losses, Input scores) {
      return aster_ml_lazy_nll_loss(losses, scores, labels, weight, ignore_index,
                                    ASTER_ML_REDUCTION_NONE);
    };
    const auto counted =
        [&](aster_ml_lazy* counts) -> int32_t {  // the loss of -1 is what it counts for
      aster_ml_lazy negative{};
      aster_ml_scalar one{};
      ASTER_TRY((Status{aster_ml_scalar_from_int64(&one, ASTER_ML_DTYPE_INT32, -1)}));
      ASTER_TRY((Status{aster_ml_lazy_full_like(&negative, log_p, &one, 0)}));
      const int32_t status = of(counts, &negative);
      (void)aster_ml_lazy_free(&negative);
      return status;
    };
    return reduce_sized(
               out, reduction, [&](aster_ml_lazy* losses) { return of(losses, log_p); }, counted)
        .code;
  }
  Build build(out, {log_p, labels}, {weight});
  ASTER_TRY(build.status());
  if (reduction == ASTER_ML_REDUCTION_NONE &&
      (weight == nullptr || aster_ml_lazy_is_symbolic(weight) == 0))
    ASTER_TRY(labelled(build, log_p, labels, 1));
  return build.finish(
      nll_loss(build.graph(), node(log_p), node(labels), node(weight), ignore_index, reduction));
}
