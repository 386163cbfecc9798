// Operators that read or write where indices say.
#include <algorithm>
#include <numeric>

#include "dtype/convert.h"
#include "engine/engine.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

Node from_front(Op& op, Node at, Word size) {
  if (at == nullptr) return nullptr;
  const Expr wide = Expr{&op.g, at}.cast(DType::kInt64);
  return uop::where(wide < 0.0, wide + static_cast<double>(size), wide).n;
}

Node take(Op& op, Node x, size_t axis, Node at) {
  if (x == nullptr || at == nullptr) return nullptr;
  at = from_front(op, at, x->dim(axis));
  Dims shape, spread, coordinates;
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i == axis) {
      coordinates.push(-1);
      for (const Word dim : at->shape()) {
        shape.push(dim);
        spread.push(dim);
      }
    } else {
      coordinates.push(static_cast<Word>(shape.size()));
      shape.push(x->dim(i));
      spread.push(1);
    }
  }
  const Node index = op.g.expand(op.g.reshape(at, spread), shape);
  return index == nullptr ? nullptr : op.g.gather(x, {&index, 1}, coordinates, shape);
}

namespace {

// The parts of indices [..., k] along their last axis, each spread over shape beside ndim - its own
// axes.
bool index_parts(Op& op, Vec<Node>* out, Node indices, Words x, size_t first, Words shape) {
  const size_t k = static_cast<size_t>(indices->dim(indices->ndim - 1u));
  Dims spread(indices->shape().first(indices->ndim - 1u));
  while (spread.size() < shape.size()) spread.push(1);
  for (size_t j = 0; j < k; ++j) {
    const Node part = tensor::select(op.g, indices, -1, static_cast<int64_t>(j));
    const Node at = from_front(op, part, x[first + j]);
    const Node wide = at == nullptr ? nullptr : op.g.expand(op.g.reshape(at, spread), shape);
    if (wide == nullptr) {
      op.fail(last_failure());
      return false;
    }
    op.fail(out->push(wide));
  }
  return op.ok();
}

int32_t scatter_mode(Op& op, std::string_view name) {
  if (name == "none") return ASTER_ML_SCATTER_WRITE;
  if (name == "add") return ASTER_ML_SCATTER_ADD;
  if (name == "mul") return ASTER_ML_SCATTER_MULTIPLY;
  if (name == "max") return ASTER_ML_SCATTER_MAX;
  if (name == "min") return ASTER_ML_SCATTER_MIN;
  op.fail(ASTER_FAIL(kUNSUPPORTED, "a scatter by '%.*s'",
                     static_cast<int>(std::min<size_t>(name.size(), 50)), name.data()));
  return 0;
}

uop::Op scatter_op(int32_t mode) {
  switch (mode) {
    case ASTER_ML_SCATTER_ADD:
      return uop::Op::kAdd;
    case ASTER_ML_SCATTER_MULTIPLY:
      return uop::Op::kMul;
    case ASTER_ML_SCATTER_MAX:
      return uop::Op::kMax;
    case ASTER_ML_SCATTER_MIN:
      return uop::Op::kMin;
    default:
      return uop::Op::kSink;
  }
}

}  // namespace

namespace build {

void gather(Op& op) {
  const Node x = op.in(0), at = op.in(1);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", 0), x->ndim);
  if (!op.ok()) return;
  if (dtype::is_float(at->dtype))
    return op.fail(ASTER_FAIL(kDTYPE, "indices %s", uop::brief(at).text));
  if (at->ndim == 0 && op.value(1)->known) {
    const int64_t one = op.scalar(1, 0);
    if (op.ok()) op.set(tensor::select(op.g, x, static_cast<int64_t>(axis), one), op.element(0));
    return;
  }
  op.set(take(op, x, axis, at), op.element(0));
}

void gather_elements(Op& op) {
  const Node x = op.in(0), at = op.in(1);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", 0), x->ndim);
  if (!op.ok()) return;
  const Node index = from_front(op, at, x->dim(axis));
  size_t along = 0;
  op.fail(tensor::check_along("gather", &along, x, static_cast<int64_t>(axis), index));
  if (op.ok()) op.set(tensor::gather(op.g, x, static_cast<int64_t>(axis), index), op.element(0));
}

void gather_nd(Op& op) {
  const Node x = op.in(0), at = op.in(1);
  const int64_t batch = op.integer("batch_dims", 0);
  if (!op.ok()) return;
  const bool fits = at->ndim >= 1 && batch >= 0 && batch < at->ndim && batch <= x->ndim &&
                    at->dim(at->ndim - 1u) >= 0 && at->dim(at->ndim - 1u) + batch <= x->ndim;
  if (!fits)
    return op.fail(ASTER_FAIL(kSHAPE, "%s at %s", uop::brief(x).text, uop::brief(at).text));
  const size_t b = static_cast<size_t>(batch), k = static_cast<size_t>(at->dim(at->ndim - 1u));
  Dims shape(at->shape().first(at->ndim - 1u)), coordinates;
  for (size_t i = 0; i < x->ndim; ++i) {
    coordinates.push(i < b       ? static_cast<Word>(i)
                     : i < b + k ? -static_cast<Word>(i - b) - 1
                                 : static_cast<Word>(shape.size()));
    if (i >= b + k) shape.push(x->dim(i));
  }
  Vec<Node> parts(op.heap());
  if (!index_parts(op, &parts, at, x->shape(), b, shape)) return;
  op.set(op.g.gather(x, {parts.data(), parts.size()}, coordinates, shape), op.element(0));
}

void scatter_elements(Op& op) {
  const Node x = op.in(0), at = op.in(1), src = op.in(2);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", 0), x->ndim);
  const int32_t mode = scatter_mode(op, op.text("reduction", "none"));
  if (!op.ok()) return;
  const Node index = from_front(op, at, x->dim(axis));
  op.set(op.through(
             [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
               return aster_ml_lazy_scatter(out, in[0], static_cast<int64_t>(axis), in[1], in[2],
                                            mode, 1);
             },
             {x, index, src}),
         op.element(0));
}

void scatter_nd(Op& op) {
  const Node x = op.in(0), at = op.in(1), updates = op.in(2);
  const int32_t mode = scatter_mode(op, op.text("reduction", "none"));
  if (!op.ok()) return;
  const bool fits = at->ndim >= 1 && at->dim(at->ndim - 1u) <= x->ndim &&
                    updates->ndim + at->dim(at->ndim - 1u) == at->ndim - 1 + x->ndim;
  if (!fits)
    return op.fail(ASTER_FAIL(kSHAPE, "%s at %s of %s", uop::brief(updates).text,
                              uop::brief(at).text, uop::brief(x).text));
  const size_t k = static_cast<size_t>(at->dim(at->ndim - 1u));
  Dims coordinates;
  for (size_t i = 0; i < x->ndim; ++i) {
    coordinates.push(i < k ? -static_cast<Word>(i) - 1 : static_cast<Word>(at->ndim - 1 + i - k));
  }
  Vec<Node> parts(op.heap());
  if (!index_parts(op, &parts, at, x->shape(), 0, updates->shape())) return;
  op.set(op.g.scatter(scatter_op(mode), x, updates, {parts.data(), parts.size()}, coordinates),
         op.element(0));
}

void one_hot(Op& op) {
  const Node at = op.in(0);
  const double asked = op.real(1, 0);
  const Node values = op.in(2);
  if (!op.ok()) return;
  if (!(asked >= 0 && asked < 1e9) || values->count() != 2)
    return op.fail(ASTER_FAIL(kRANGE, "%g classes", asked));
  const auto depth = static_cast<Word>(asked);
  const size_t axis = op.axis(op.integer("axis", -1), at->ndim + 1u);
  if (!op.ok()) return;
  const Expr label{&op.g,
                   from_front(op, tensor::unsqueeze(op.g, at, static_cast<int64_t>(axis)), depth)};
  Dims shape(at->ndim + 1u, 1);
  shape[axis] = depth;
  const Expr classes = uop::iota(op.g, DType::kInt64, shape, axis);
  const Expr flat{&op.g, op.g.reshape(values, std::array{Word{2}})};
  const Expr off{&op.g, tensor::select(op.g, flat.n, 0, 0)},
      on{&op.g, tensor::select(op.g, flat.n, 0, 1)};
  op.set(uop::where(label == classes, on, off), op.element(2));
}

void top_k(Op& op) {
  const Node x = op.in(0);
  const int64_t k = op.version < 10 ? op.integer("k", 1) : op.scalar(1, 1);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", -1), x->ndim);
  if (!op.ok()) return;
  if (k < 0 || k > x->dim(axis))
    return op.fail(
        ASTER_FAIL(kRANGE, "the first %lld of %s", static_cast<long long>(k), uop::brief(x).text));
  Node values = nullptr, indices = nullptr;
  op.fail(tensor::sort(&values, &indices, op.g, x, static_cast<int64_t>(axis),
                       op.integer("largest", 1) != 0, k));
  if (!op.ok()) return;
  op.set(0, values, op.element(0));
  op.set(1, op.g.cast(indices, DType::kInt64));
}

void non_zero(Op& op) {
  const std::span<const double> all = op.reals(0);
  if (!op.ok()) return;
  const Node x = op.in(0);
  Vec<Word> places(op.heap());
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != 0) op.fail(places.push(static_cast<Word>(i)));
  }
  const size_t n = places.size();
  Vec<Word> out(op.heap());
  op.fail(out.resize(n * x->ndim));
  if (!op.ok()) return;
  for (size_t i = 0; i < n; ++i) {
    Word rest = places[i];
    for (size_t axis = x->ndim; axis-- > 0; rest /= x->dim(axis))
      out[axis * n + i] = rest % x->dim(axis);
  }
  op.set(op.stored({out.data(), out.size()},
                   std::array{static_cast<Word>(x->ndim), static_cast<Word>(n)}, DType::kInt64));
}

void compress(Op& op) {
  Node x = op.in(0);
  const Words mask = op.ints(1);
  if (!op.ok()) return;
  size_t axis = 0;
  if (op.has("axis")) {
    axis = op.axis(op.integer("axis", 0), x->ndim);
  } else {
    x = op.g.reshape(x, std::array{x->count()});
  }
  Vec<Word> places(op.heap());
  for (size_t i = 0; op.ok() && i < mask.size() && static_cast<Word>(i) < x->dim(axis); ++i) {
    if (mask[i] != 0) op.fail(places.push(static_cast<Word>(i)));
  }
  if (!op.ok()) return;
  const Node at = op.stored({places.data(), places.size()},
                            std::array{static_cast<Word>(places.size())}, DType::kInt64);
  op.set(take(op, x, axis, at), op.element(0));
}

void reverse_sequence(Op& op) {
  const Node x = op.in(0), lengths = op.in(1);
  if (!op.ok()) return;
  const size_t batch = op.axis(op.integer("batch_axis", 1), x->ndim),
               time = op.axis(op.integer("time_axis", 0), x->ndim);
  if (!op.ok()) return;
  if (batch == time || lengths->ndim != 1 || lengths->dim(0) != x->dim(batch))
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s with lengths %s", uop::brief(x).text, uop::brief(lengths).text));
  const Expr length = Expr{&op.g, along_axis(op, lengths, batch, x->ndim)}.cast(DType::kInt64);
  const Expr t = uop::iota(op.g, DType::kInt64, x->shape(), time);
  const Node at = uop::where(t < length, length - 1.0 - t, t).expand(x->shape()).n;
  Dims coordinates;
  for (size_t i = 0; i < x->ndim; ++i) coordinates.push(i == time ? -1 : static_cast<Word>(i));
  if (at == nullptr) return op.fail(last_failure());
  op.set(op.g.gather(x, {&at, 1}, coordinates, x->shape()), op.element(0));
}

namespace {

// The slices of x along an axis: how they are in order, and the first of equals.
struct Slices {
  std::span<const double> all;
  size_t before, count, after;

  int compare(size_t a, size_t b) const {
    for (size_t i = 0; i < before; ++i) {
      for (size_t k = 0; k < after; ++k) {
        const double x = all[(i * count + a) * after + k], y = all[(i * count + b) * after + k];
        if (x < y) return -1;
        if (y < x) return 1;
        if ((x != x) != (y != y)) return x != x ? 1 : -1;
      }
    }
    return 0;
  }
};

}  // namespace

void unique(Op& op) {
  const std::span<const double> all = op.reals(0);
  Node x = op.in(0);
  if (!op.ok()) return;
  size_t axis = 0;
  if (op.has("axis")) {
    axis = op.axis(op.integer("axis", 0), x->ndim);
  } else {
    x = op.g.reshape(x, std::array{x->count()});
  }
  if (!op.ok()) return;
  Slices slices{all, 1, static_cast<size_t>(x->dim(axis)), 1};
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i < axis) slices.before *= static_cast<size_t>(x->dim(i));
    if (i > axis) slices.after *= static_cast<size_t>(x->dim(i));
  }
  const size_t n = slices.count;
  Vec<Word> order(op.heap()), first(op.heap()), inverse(op.heap()), counts(op.heap()),
      rank(op.heap());
  op.fail(order.resize(n));
  op.fail(inverse.resize(n));
  if (!op.ok()) return;
  std::iota(order.begin(), order.end(), Word{0});
  std::sort(order.begin(), order.end(), [&](Word a, Word b) {
    const int c = slices.compare(static_cast<size_t>(a), static_cast<size_t>(b));
    return c != 0 ? c < 0 : a < b;
  });
  for (size_t i = 0; i < n && op.ok(); ++i) {
    const bool fresh = i == 0 || slices.compare(static_cast<size_t>(order[i]),
                                                static_cast<size_t>(order[i - 1])) != 0;
    if (fresh) {
      op.fail(first.push(order[i]));
      op.fail(counts.push(Word{0}));
    }
    if (!op.ok()) return;
    counts[counts.size() - 1] += 1;
    inverse[static_cast<size_t>(order[i])] = static_cast<Word>(first.size() - 1);
  }
  const size_t m = first.size();
  if (op.integer("sorted", 1) == 0) {  // in the order in which they come
    op.fail(rank.resize(m));
    Vec<Word> places(op.heap()), numbers(op.heap());
    op.fail(places.resize(m));
    op.fail(numbers.append(counts.data(), m));
    if (!op.ok()) return;
    std::iota(places.begin(), places.end(), Word{0});
    std::sort(places.begin(), places.end(), [&](Word a, Word b) {
      return first[static_cast<size_t>(a)] < first[static_cast<size_t>(b)];
    });
    for (size_t i = 0; i < m; ++i) rank[static_cast<size_t>(places[i])] = static_cast<Word>(i);
    for (size_t i = 0; i < m; ++i) counts[i] = numbers[static_cast<size_t>(places[i])];
    for (Word& one : inverse) one = rank[static_cast<size_t>(one)];
    std::sort(first.begin(), first.end());
  }
  const auto give = [&](const Vec<Word>& list) {
    return op.stored({list.data(), list.size()}, std::array{static_cast<Word>(list.size())},
                     DType::kInt64);
  };
  const Node at = give(first);
  op.set(0, take(op, x, axis, at), op.element(0));
  op.set(1, at);
  op.set(2, give(inverse));
  op.set(3, give(counts));
}

void tensor_scatter(Op& op) {
  const Node cache = op.in(0), update = op.in(1);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", -2), cache->ndim);
  if (!op.ok()) return;
  if (update->ndim != cache->ndim)
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s into %s", uop::brief(update).text, uop::brief(cache).text));
  Expr at = uop::iota(op.g, DType::kInt64, update->shape(), axis);
  if (op.has(2))
    at = at + Expr{&op.g, along_axis(op, op.in(2), 0, cache->ndim)}.cast(DType::kInt64);
  if (op.text("mode", "linear") == "circular")
    at = alu(uop::Op::kFloorMod, at, static_cast<double>(cache->dim(axis)));
  const Node index = at.expand(update->shape()).n;
  Dims coordinates;
  for (size_t i = 0; i < cache->ndim; ++i) coordinates.push(i == axis ? -1 : static_cast<Word>(i));
  if (index == nullptr) return op.fail(last_failure());
  op.set(op.g.scatter(uop::Op::kSink, cache, update, {&index, 1}, coordinates), op.element(0));
}

void array_feature_extractor(Op& op) {
  const Node x = op.in(0), at = op.in(1);
  if (!op.ok() || x->ndim == 0) return;
  const Node flat = op.g.reshape(at, std::array{at->count()});
  Node wide = x->ndim == 1 ? op.g.reshape(x, std::array{Word{1}, x->dim(0)}) : x;
  op.set(take(op, wide, wide->ndim - 1u, flat), op.element(0));
}

}  // namespace build
}  // namespace aster::nn::onnx
