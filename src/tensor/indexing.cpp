// x[...]: integers and slices are views; tensors are Gather and Scatter nodes.
#include "tensor/indexing.h"

#include <algorithm>
#include <array>

namespace aster::tensor {
namespace {

using uop::brief;
using uop::brief_shape;
using uop::Dims;
using uop::Op;

long long wide(int64_t value) { return value; }

// Negative indices counted from the end.
Node wrapped(Graph& g, Node index, int64_t size) {
  if (dtype::is_unsigned(index->dtype)) return index;
  const bool fits = dtype::truncate_int(index->dtype, size) == size;
  const Expr i{&g, fits ? index : g.cast(index, DType::kInt64)};
  return where(i < 0.0, i + i.like(static_cast<double>(size)), i).n;
}

}  // namespace

Status Indexing::plan(Indexing* out, Graph& g, Node x, std::span<const IndexItem> items) {
  out->x_ = Dims(x->shape());
  size_t ellipsis = items.size(), covered = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    covered += items[i].covers;
    if (items[i].kind != ASTER_ML_INDEX_ELLIPSIS) continue;
    if (ellipsis != items.size()) return ASTER_FAIL(kARGUMENT, "two ellipses in one index");
    ellipsis = i;
  }
  if (covered > x->ndim) {
    return ASTER_FAIL(kRANGE, "index of %s by %zu items", brief(x).text, covered);
  }
  const auto whole = [&](size_t count) -> Status {
    for (size_t i = 0; i < count; ++i) {
      const size_t axis = out->start_.size();
      out->start_.push(INT64_MIN);
      out->stop_.push(INT64_MAX);
      out->step_.push(1);
      ASTER_TRY(out->axes_.push(Axis{x->dim(axis), static_cast<Word>(axis)}));
    }
    return kOk;
  };
  for (size_t i = 0; i <= items.size(); ++i) {
    if (i == ellipsis) ASTER_TRY(whole(x->ndim - covered));
    if (i == items.size()) break;
    ASTER_TRY(out->take(g, x, items[i]));
  }
  return out->lay_out();
}

// One item: its axes of x, and what stands for them in the view.
Status Indexing::take(Graph& g, Node x, const IndexItem& item) {
  const size_t axis = start_.size();
  switch (item.kind) {
    case ASTER_ML_INDEX_ELLIPSIS:
      return kOk;
    case ASTER_ML_INDEX_NEW_AXIS:
      return axes_.push(Axis{1, -1});
    case ASTER_ML_INDEX_INTEGER: {
      const int64_t size = x->dim(axis);
      if (item.start < -size || item.start >= size) {
        return ASTER_FAIL(kRANGE, "element %lld of axis %zu of %s", wide(item.start), axis,
                          brief(x).text);
      }
      const int64_t at = item.start < 0 ? item.start + size : item.start;
      start_.push(at);
      stop_.push(at + 1);
      step_.push(1);
      return kOk;
    }
    case ASTER_ML_INDEX_SLICE: {
      start_.push(item.start);
      stop_.push(item.stop);
      step_.push(item.step == 0 ? 1 : item.step);
      return axes_.push(Axis{span(axis).count, static_cast<Word>(axis)});
    }
    default:
      break;
  }
  Word size = 1;
  for (size_t k = 0; k < item.covers; ++k) {
    size *= x->dim(axis + k);
    start_.push(INT64_MIN);
    stop_.push(INT64_MAX);
    step_.push(1);
  }
  ASTER_TRY(at_.push(axes_.size()));
  Axis made{size, static_cast<Word>(axis), item.covers};
  made.tensor = item.covers == 1 ? wrapped(g, item.tensor, size) : item.tensor;
  if (made.tensor == nullptr) return last_failure();
  if (!broadcast_shape(&broadcast_, Dims(broadcast_), made.tensor->shape())) {
    return ASTER_FAIL(kSHAPE, "index of %s: %s does not broadcast with %s", brief(x).text,
                      brief(item.tensor).text, brief_shape(broadcast_).text);
  }
  return axes_.push(made);
}

// The result's axes: those of the view, the tensors' own where the first of them stands, or first.
Status Indexing::lay_out() {
  bool neighbours = true;
  for (size_t i = 1; i < at_.size(); ++i) neighbours &= at_[i] == at_[i - 1] + 1;
  front_ = !at_.empty() && neighbours ? at_[0] : 0;
  size_t kept = 0;
  for (size_t k = 0; k <= axes_.size(); ++k) {
    if (!at_.empty() && kept == front_ && shape_.size() == front_) {
      for (Word dim : Words(broadcast_)) shape_.push(dim);
      if (broadcast_.size() == 0) kept = front_;
    }
    if (k == axes_.size()) break;
    if (axes_[k].tensor != nullptr) continue;
    shape_.push(axes_[k].size);
    ++kept;
  }
  if (shape_.size() >= Dims::kMost) return ASTER_FAIL(kRANGE, "an index of too many axes");
  return kOk;
}

// The axis of the result that axis k of the view becomes; it has no tensor.
Word Indexing::axis_in_result(size_t k) const {
  size_t before = 0;
  for (size_t i = 0; i < k; ++i) before += axes_[i].tensor == nullptr;
  if (!at_.empty() && before >= front_) before += broadcast_.size();
  return static_cast<Word>(before);
}

Node Indexing::view(Graph& g, Node x) const {
  const Node part = slice(g, x, x->ndim, start_.at, stop_.at, step_.at);
  Dims shape;
  for (const Axis& axis : axes_) shape.push(axis.size);
  return reshape(g, part, shape);
}

// A tensor of indices, at every element of the result.
Node Indexing::spread(Graph& g, Node tensor) const {
  Dims shape(shape_.size(), 1);
  const size_t lead = broadcast_.size() - tensor->ndim;
  for (size_t i = 0; i < tensor->ndim; ++i) shape[front_ + lead + i] = tensor->dim(i);
  return uop::broadcast_to(g, g.reshape(tensor, shape), shape_);
}

Node Indexing::read(Graph& g, Node x) const {
  const Node seen = view(g, x);
  if (at_.empty() || seen == nullptr) return seen;
  Dims coordinates;
  Vec<Node> indices(g.memory());
  for (size_t k = 0; k < axes_.size(); ++k) {
    if (axes_[k].tensor == nullptr) {
      coordinates.push(axis_in_result(k));
      continue;
    }
    if (!indices.push(spread(g, axes_[k].tensor)).ok()) return nullptr;
    coordinates.push(-static_cast<Word>(indices.size()));
  }
  return keeping_weak(g, seen, [&](Node y) {
    return g.gather(y, {indices.data(), indices.size()}, coordinates, shape_);
  });
}

Node Indexing::write(Graph& g, Node x, Node value) const {
  return at_.empty() ? place(g, x, value) : scatter(g, x, value);
}

// value, padded to where it goes, and chosen there.
Node Indexing::place(Graph& g, Node x, Node value) const {
  Dims before, after, interior, mask, size;
  const Node ones = g.constant_int(DType::kBool, 1, x->shape());
  const Node part = slice(g, ones, x->ndim, start_.at, stop_.at, step_.at);
  if (part == nullptr) return nullptr;
  if (part->count() == 0) return x;
  for (size_t i = 0; i < x->ndim; ++i) {
    const Word step = step_[i], count = part->dim(i), pace = step < 0 ? -step : step;
    const Word gap = count > 1 ? pace : 1, reach = (count - 1) * gap;
    const Word first = span(i).start - (step < 0 ? reach : 0);
    before.push(first);
    interior.push(gap - 1);
    after.push(x->dim(i) - first - reach - 1);
    mask.push(step < 0);
  }
  const auto padded = [&](Node y) {
    return g.pad(g.flip(g.reshape(y, part->shape()), mask), before, after, interior, 0);
  };
  return where(g, padded(g.constant_int(DType::kBool, 1, part->shape())), padded(value), x);
}

Node Indexing::scatter(Graph& g, Node x, Node value) const {
  Dims coordinates(x->ndim, 0);
  Vec<Node> indices(g.memory());
  const auto by = [&](size_t axis, Expr index) {
    if (!indices.push(index.expand(shape_).n).ok()) indices.clear();
    coordinates[axis] = -static_cast<Word>(indices.size());
  };
  Dims named(x->ndim, 0);
  for (size_t k = 0; k < axes_.size(); ++k) {
    const Axis& axis = axes_[k];
    if (axis.source < 0) continue;
    const size_t at = static_cast<size_t>(axis.source);
    for (size_t i = 0; i < axis.covers; ++i) named[at + i] = 1;
    if (axis.tensor != nullptr) {
      const Expr positions{&g, spread(g, axis.tensor)};
      if (axis.covers == 1) by(at, positions);
      if (axis.covers > 1) {
        take_apart(positions, x->shape().subspan(at, axis.covers),
                   [&](size_t i, Expr coordinate) { by(at + i, coordinate); });
      }
      continue;
    }
    const Word result_axis = axis_in_result(k);
    if (axis.size == x->dim(at) && step_[at] == 1) {
      coordinates[at] = result_axis;
      continue;
    }
    const Expr steps = iota(g, DType::kInt64, shape_, static_cast<size_t>(result_axis));
    by(at, steps * steps.like(static_cast<double>(step_[at])) +
               steps.like(static_cast<double>(span(at).start)));
  }
  for (size_t at = 0; at < x->ndim; ++at) {  // integers
    if (named[at] == 0) by(at, Expr{&g, g.constant_int(DType::kInt64, start_[at], shape_)});
  }
  return g.scatter(Op::kSink, x, value, {indices.data(), indices.size()}, coordinates);
}

// ---- Along one axis ----

Status check_along(const char* what, size_t* at, Node x, int64_t axis, Node index) {
  ASTER_TRY(resolve_axis(at, axis, x->ndim));
  if (!dtype::is_int(index->dtype)) {
    return ASTER_FAIL(kDTYPE, "%s of %s by %s: indices are integers", what, brief(x).text,
                      brief(index).text);
  }
  bool fits = index->ndim == x->ndim;
  for (size_t i = 0; fits && i < x->ndim; ++i) fits = i == *at || index->dim(i) <= x->dim(i);
  if (!fits) {
    return ASTER_FAIL(kSHAPE, "%s of %s on axis %zu by %s", what, brief(x).text, *at,
                      brief(index).text);
  }
  return kOk;
}

Dims along(size_t ndim, size_t axis) {
  Dims coordinates;
  for (size_t i = 0; i < ndim; ++i) coordinates.push(i == axis ? -1 : static_cast<Word>(i));
  return coordinates;
}

Node gather(Graph& g, Node x, int64_t axis, Node index) {
  size_t at = 0;
  if (x == nullptr || index == nullptr) return nullptr;
  index = strong(g, index);
  if (index == nullptr || !check_along("gather", &at, x, axis, index).ok()) return nullptr;
  return keeping_weak(g, x, [&](Node y) {
    return g.gather(y, std::array{index}, along(y->ndim, at), index->shape());
  });
}

Node argsort(Graph& g, Node x, int64_t axis, bool descending) {
  Node values = nullptr, indices = nullptr;
  return sort(&values, &indices, g, x, axis, descending, -1).ok() ? indices : nullptr;
}

Status sort(Node* values, Node* indices, Graph& g, Node x, int64_t axis, bool descending,
            int64_t count) {
  size_t at = 0;
  if (x == nullptr) return last_failure();
  if (x->ndim == 0 && (axis == 0 || axis == -1)) {  // one element, in order
    *values = x;
    *indices = g.constant_int(DType::kInt32, 0);
    return *indices != nullptr ? kOk : last_failure();
  }
  ASTER_TRY(resolve_axis(&at, axis, x->ndim));
  if (count < 0) count = x->dim(at);
  if (count > x->dim(at)) {
    return ASTER_FAIL(kRANGE, "the first %lld of axis %zu of %s", wide(count), at, brief(x).text);
  }
  const Node y = strong(g, x);
  if (y == nullptr) return last_failure();
  *indices = g.argsort(y, static_cast<int64_t>(at), descending, count);
  if (*indices == nullptr) return last_failure();
  *values =
      g.cast(g.gather(y, std::array{*indices}, along(y->ndim, at), (*indices)->shape()), x->dtype);
  return *values != nullptr ? kOk : last_failure();
}

}  // namespace aster::tensor
