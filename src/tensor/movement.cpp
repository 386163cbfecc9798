// Movement operations: what the user says, turned into the graph's checked builders.
#include <algorithm>
#include <array>

#include "tensor/ops.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::brief_shape;
using uop::Dims;

Node nil(Status) { return nullptr; }

long long wide(int64_t value) { return value; }

}  // namespace

Span span_of(int64_t size, int64_t start, int64_t stop, int64_t step) {
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto clamp = [&](int64_t i) {
    if (i < 0) i = i < -size ? lowest : i + size;
    return std::clamp(i, lowest, highest);
  };
  start = clamp(start);
  stop = clamp(stop);
  if (step > 0) return {start, stop > start ? (stop - start - 1) / step + 1 : 0};
  // step may be the lowest integer, whose negation overflows; any step beyond the size takes one
  // element.
  const int64_t back = step < -size ? size + 1 : -step;
  return {start, start > stop ? (start - stop - 1) / back + 1 : 0};
}

Status resolve_axis(size_t* out, int64_t axis, size_t ndim) {
  const int64_t n = static_cast<int64_t>(ndim);
  if (axis < -n || axis >= n) return ASTER_FAIL(kRANGE, "axis %lld of %zu axes", wide(axis), ndim);
  *out = static_cast<size_t>(axis < 0 ? axis + n : axis);
  return kOk;
}

Node reshape(Graph& g, Node x, Words shape) {
  if (x == nullptr) return nullptr;
  Dims dims(shape);
  int64_t known = 1;
  size_t inferred = shape.size();
  bool overflow = shape.size() > Dims::kMost;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1 && inferred == shape.size()) {
      inferred = i;
    } else if (dims[i] < 0) {
      return nil(ASTER_FAIL(kRANGE, "reshape of %s to %s", brief(x).text, brief_shape(shape).text));
    } else {
      overflow |= !checked_mul(known, dims[i], &known);
    }
  }
  if (overflow)
    return nil(ASTER_FAIL(kRANGE, "reshape of %s to %s", brief(x).text, brief_shape(shape).text));
  if (inferred < dims.size()) {
    if (known == 0 || x->count() % known != 0) {
      return nil(ASTER_FAIL(kSHAPE, "reshape of %s to %s", brief(x).text, brief_shape(shape).text));
    }
    dims[inferred] = x->count() / known;
  }
  return keeping_weak(g, x, [&](Node n) { return g.reshape(n, dims); });
}

Node expand(Graph& g, Node x, Words shape) {
  if (x == nullptr) return nullptr;
  if (shape.size() < x->ndim || shape.size() > Dims::kMost) {
    return nil(ASTER_FAIL(kSHAPE, "expand of %s to %s", brief(x).text, brief_shape(shape).text));
  }
  Dims dims(shape);
  const size_t lead = shape.size() - x->ndim;
  for (size_t i = lead; i < dims.size(); ++i) {
    if (dims[i] == -1) dims[i] = x->dim(i - lead);
  }
  return keeping_weak(g, x, [&](Node n) { return broadcast_to(g, n, dims); });
}

Node permute(Graph& g, Node x, Words axes) {
  if (x == nullptr) return nullptr;
  if (axes.size() != x->ndim) {
    return nil(ASTER_FAIL(kSHAPE, "permute of %s by %s", brief(x).text, brief_shape(axes).text));
  }
  Dims order, seen(x->ndim, 0);
  for (Word axis : axes) {
    size_t at;
    if (!resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
    if (seen[at]++ != 0)
      return nil(ASTER_FAIL(kRANGE, "permute of %s: axis %lld twice", brief(x).text, wide(axis)));
    order.push(static_cast<Word>(at));
  }
  return keeping_weak(g, x, [&](Node n) { return g.permute(n, order); });
}

Node flip(Graph& g, Node x, Words axes) {
  if (x == nullptr) return nullptr;
  Dims mask(x->ndim, 0);
  for (Word axis : axes) {
    size_t at;
    if (!resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
    if (mask[at] != 0)
      return nil(ASTER_FAIL(kRANGE, "flip of %s: axis %lld twice", brief(x).text, wide(axis)));
    mask[at] = 1;
  }
  return keeping_weak(g, x, [&](Node n) { return g.flip(n, mask); });
}

Node shrink(Graph& g, Node x, Words begin, Words end) {
  if (x == nullptr) return nullptr;
  const size_t n = x->ndim;
  if (begin.size() != n || end.size() != n) {
    return nil(ASTER_FAIL(kSHAPE, "shrink of %s by %zu bounds", brief(x).text, begin.size()));
  }
  Dims step(n, 1), size;
  for (size_t i = 0; i < n; ++i) {
    if (begin[i] < 0 || end[i] < begin[i] || end[i] > x->dim(i)) {
      return nil(ASTER_FAIL(kRANGE, "shrink of %s from %s to %s", brief(x).text,
                            brief_shape(begin).text, brief_shape(end).text));
    }
    size.push(end[i] - begin[i]);
  }
  return keeping_weak(g, x, [&](Node y) { return g.slice(y, begin, step, size); });
}

Node pad(Graph& g, Node x, Words before, Words after, Word fill, DType fill_dtype) {
  if (x == nullptr) return nullptr;
  const size_t n = x->ndim;
  if (before.size() != n || after.size() != n) {
    return nil(ASTER_FAIL(kSHAPE, "pad of %s by %zu amounts", brief(x).text, before.size()));
  }
  // Negative amounts cut off first; what is left is padded.
  Dims begin, end, lead, trail, interior(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const Word dim = x->dim(i);
    begin.push(before[i] < 0 ? -std::max<Word>(before[i], -dim - 1) : 0);
    end.push(after[i] < 0 ? dim + std::max<Word>(after[i], -dim - 1) : dim);
    lead.push(std::max<Word>(before[i], 0));
    trail.push(std::max<Word>(after[i], 0));
    if (begin[i] > end[i]) {
      return nil(ASTER_FAIL(kRANGE, "pad of %s by %s before, %s after", brief(x).text,
                            brief_shape(before).text, brief_shape(after).text));
    }
  }
  const Word word = uop::convert_word(fill, fill_dtype, x->dtype);
  const Node kept = shrink(g, x, begin, end);
  return keeping_weak(g, kept, [&](Node y) { return g.pad(y, lead, trail, interior, word); });
}

Node Filling::in(Graph& g, DType to, Words shape) const {
  if (number == nullptr) return g.constant_word(to, uop::convert_word(word, dtype, to), shape);
  const Dims ones(shape.size(), 1);
  return g.expand(g.reshape(g.cast(number, to), ones), shape);
}

Node pad(Graph& g, Node x, Words before, Words after, const Filling& fill) {
  if (fill.number == nullptr) return pad(g, x, before, after, fill.word, fill.dtype);
  const Node whole = pad(g, x, before, after, 0, DType::kWeakInt);
  if (whole == nullptr) return nullptr;
  const Node inside =
      pad(g, g.constant_int(DType::kBool, 1, x->shape()), before, after, 0, DType::kWeakInt);
  return keeping_weak(
      g, whole, [&](Node y) { return where(g, inside, y, fill.in(g, y->dtype, y->shape())); });
}

Node slice(Graph& g, Node x, size_t count, const int64_t* start, const int64_t* stop,
           const int64_t* step) {
  if (x == nullptr) return nullptr;
  if (count > x->ndim)
    return nil(ASTER_FAIL(kRANGE, "slice of %s on %zu axes", brief(x).text, count));
  Dims first(x->ndim, 0), steps(x->ndim, 1), size(x->shape()), mask(x->ndim, 0);
  for (size_t i = 0; i < count; ++i) {
    const int64_t by = step == nullptr ? 1 : step[i];
    if (by == 0)
      return nil(ASTER_FAIL(kRANGE, "slice of %s: step 0 on axis %zu", brief(x).text, i));
    const int64_t from = start != nullptr ? start[i] : by > 0 ? 0 : INT64_MAX;
    const int64_t to = stop != nullptr ? stop[i] : by > 0 ? INT64_MAX : INT64_MIN;
    const Span span = span_of(x->dim(i), from, to, by);
    size[i] = span.count;
    if (span.count == 0) continue;
    // A negative step is a positive one from the other end, reversed.
    const int64_t pace = span.count == 1 ? 1 : by > 0 ? by : -by;
    first[i] = by > 0 ? span.start : span.start - (span.count - 1) * pace;
    steps[i] = pace;
    mask[i] = by < 0;
  }
  return keeping_weak(g, x, [&](Node y) { return g.flip(g.slice(y, first, steps, size), mask); });
}

Node select(Graph& g, Node x, int64_t axis, int64_t index) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  const int64_t size = x->dim(at);
  if (index < -size || index >= size) {
    return nil(
        ASTER_FAIL(kRANGE, "element %lld of axis %zu of %s", wide(index), at, brief(x).text));
  }
  Dims start(x->ndim, 0), step(x->ndim, 1), shape(x->shape());
  start[at] = index < 0 ? index + size : index;
  shape[at] = 1;
  return keeping_weak(g, x, [&](Node y) {
    return drop_axes(g, g.slice(y, start, step, shape), std::array{static_cast<Word>(at)});
  });
}

Node cat(Graph& g, Nodes xs, int64_t axis) {
  if (xs.empty()) return nil(ASTER_FAIL(kARGUMENT, "cat of no tensors"));
  size_t at;
  for (Node x : xs) {
    if (x == nullptr) return nullptr;
  }
  if (!resolve_axis(&at, axis, xs[0]->ndim).ok()) return nullptr;
  DType dtype = xs[0]->dtype;
  for (Node x : xs) dtype = dtype::least_upper(dtype, x->dtype);
  Vec<Node> parts(g.memory());
  for (Node x : xs) {
    if (!parts.push(cast(g, x, g.strong(dtype))).ok()) return nullptr;
  }
  return g.cast(g.cat({parts.data(), parts.size()}, static_cast<int64_t>(at)), dtype);
}

Node stack(Graph& g, Nodes xs, int64_t axis) {
  if (xs.empty()) return nil(ASTER_FAIL(kARGUMENT, "stack of no tensors"));
  if (xs[0] == nullptr) return nullptr;
  size_t at;
  if (!resolve_axis(&at, axis, xs[0]->ndim + 1u).ok()) return nullptr;
  Vec<Node> parts(g.memory());
  for (Node x : xs) {
    if (x == nullptr) return nullptr;
    if (!std::ranges::equal(x->shape(), xs[0]->shape())) {
      return nil(ASTER_FAIL(kSHAPE, "stack of %s and %s", brief(xs[0]).text, brief(x).text));
    }
    Dims shape;
    for (size_t i = 0; i <= x->ndim; ++i) shape.push(i == at ? 1 : x->dim(i < at ? i : i - 1));
    if (!parts.push(reshape(g, x, shape)).ok()) return nullptr;
  }
  return cat(g, {parts.data(), parts.size()}, static_cast<int64_t>(at));
}

Node one_hot(Graph& g, Node labels, int64_t classes) {
  if (labels == nullptr) return nullptr;
  if (!dtype::is_int(labels->dtype)) {
    return nil(ASTER_FAIL(kDTYPE, "one_hot of %s: labels need to be integers", brief(labels).text));
  }
  if (classes < 0) return nil(ASTER_FAIL(kRANGE, "one_hot of %lld classes", wide(classes)));
  labels = strong(g, labels);
  Dims column(labels->shape()), wide_shape(labels->shape());
  column.push(1);
  wide_shape.push(classes);
  const Expr y = Expr{&g, labels}.reshape(column);
  return (y == iota(g, labels->dtype, wide_shape, labels->ndim)).cast(DType::kInt32).n;
}

}  // namespace aster::tensor
