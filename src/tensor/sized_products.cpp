// Rules (sized.h) of products.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensor/indexing.h"
#include "tensor/linalg.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor::sized {

using uop::Dims;

namespace {

constexpr Word kThin = 4;  // products with a thinner side are sums of rows

// Two operands of a product: at least two axes each.
struct Product {
  Sizes sizes[2];
  Node wholes[2];
  Node rows() const { return sizes[0][sizes[0].size() - 2]; }
  Node columns() const { return sizes[1][sizes[1].size() - 1]; }
  Node inner() const { return sizes[0][sizes[0].size() - 1]; }
  // Whether it is generated, so that it can end where the sizes do.
  bool thin() const {
    const DType d = wholes[0]->dtype;
    const bool same = d == wholes[1]->dtype && (d == DType::kFloat32 || d == DType::kFloat64);
    return same && std::ranges::any_of(std::array{rows(), columns()}, [](Node side) {
             return !is_bound(side) && uop::const_int(side) < kThin;
           });
  }
};

// Products of rows and columns within the sizes, added up; their sizes.
Status sum_products(Node* out, Sizes* sizes, Build& build, const Product& p, const Sizes& batch) {
  Graph& g = build.graph();
  const Node a = p.wholes[0], b = p.wholes[1];
  const Word least = std::min(a->dim(a->ndim - 1u), b->dim(b->ndim - 2u));
  const Node rows = tensor::unsqueeze(g, cut(g, a, a->ndim - 1u, least), -2);
  const Node columns = tensor::unsqueeze(g, turned(g, cut(g, b, b->ndim - 2u, least)), -3);
  Node terms = binary(g, rows, columns, ops::mul);
  if (terms == nullptr) return last_failure();
  *sizes = batch;
  sizes->push(p.rows());
  sizes->push(p.columns());
  sizes->push(p.inner());
  ASTER_TRY(masked(&terms, build, terms, *sizes, all_axes(sizes->size()), Fill::kZero));
  const std::array<int64_t, 1> last{-1};
  --sizes->count;
  *out = tensor::sum(g, terms, {1, last.data()}, false);
  return *out == nullptr ? last_failure() : kOk;
}

// Matrices beyond the sizes become 1, which every decomposition takes: what is computed of them
// fails where no matrix that is meant does.
Status one_beyond(Node* out, Build& build, Node whole, const Sizes& sizes) {
  Graph& g = build.graph();
  const Dims shape(whole->shape());
  Dims axes = all_axes(shape.size());
  axes.count -= 2;
  Expr in;
  ASTER_TRY(inside(&in, build.engine(), shape, sizes, axes));
  *out = whole;
  if (in.n == nullptr) return kOk;
  const Expr x{&g, strong(g, whole)};
  if (x.n == nullptr) return last_failure();
  const auto side = [&](size_t back) {
    return places(g, shape[shape.size() - back], shape.size(), shape.size() - back);
  };
  *out = where(in, x, (side(2) == side(1)).cast(x.dtype())).n;
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace

Status matrices(Build& build, Input a, Input b) {
  if (!build.sized()) return kOk;
  Sizes sizes[2], batch;
  Node wholes[2] = {whole(a), b != nullptr ? whole(b) : nullptr};
  size_t count = 0;
  for (Input x : {a, b}) {
    if (x == nullptr) continue;
    Sizes& each = sizes[count++];
    ASTER_TRY(sizes_of(&each, build, x));
    const size_t last = std::min<size_t>(each.size(), 2);
    for (size_t back = 1; back <= last; ++back) {
      if (is_bound(each[each.size() - back])) return kOk;
    }
  }
  if (sizes[0].size() < 2) return kOk;
  if (count == 2 && sizes[1].size() < 2) --count;  // one vector, for all matrices
  if (!align(&batch, wholes, build.graph(), {sizes, count}, 2)) return kOk;
  ASTER_TRY(one_beyond(&wholes[0], build, wholes[0], sizes[0]));
  build.show(a, wholes[0]);
  if (b != nullptr) build.show(b, wholes[1]);
  build.take_rule(batch);
  return kOk;
}

Done matmul(Build& build, Input a, Input b) {
  if (!build.sized()) return {};
  Graph& g = build.graph();
  Product p;
  ASTER_TRY(sizes_of(&p.sizes[0], build, a));
  ASTER_TRY(sizes_of(&p.sizes[1], build, b));
  p.wholes[0] = whole(a);
  p.wholes[1] = whole(b);
  const bool vector = p.sizes[0].size() == 1, other = p.sizes[1].size() == 1;
  if (p.sizes[0].size() == 0 || p.sizes[1].size() == 0) return {};
  if (vector) {
    p.sizes[0].insert(0, g.index(1));
    p.wholes[0] = tensor::unsqueeze(g, p.wholes[0], 0);
  }
  if (other) {
    p.sizes[1].insert(1, g.index(1));
    p.wholes[1] = tensor::unsqueeze(g, p.wholes[1], 1);
  }
  if (p.wholes[0] == nullptr || p.wholes[1] == nullptr) return last_failure();
  const Node inner = p.inner();
  if (inner != p.sizes[1][p.sizes[1].size() - 2]) return {};
  Sizes batch;
  if (!align(&batch, p.wholes, g, p.sizes, 2)) return {};
  if (p.thin() && !vector && !other) {
    Node y = nullptr;
    Sizes sizes;
    ASTER_TRY(sum_products(&y, &sizes, build, p, batch));
    return build.finish(y, sizes);
  }
  if (is_bound(inner)) {
    const size_t last = p.wholes[0]->ndim - 1u, row = p.wholes[1]->ndim - 2u;
    const Word least = std::min(p.wholes[0]->dim(last), p.wholes[1]->dim(row));
    for (size_t k = 0; k < 2; ++k) {
      const size_t axis = k == 0 ? last : row;
      p.wholes[k] = cut(g, p.wholes[k], axis, least);
      if (p.wholes[k] == nullptr) return last_failure();
      const std::array<Word, 1> along{static_cast<Word>(axis)};
      ASTER_TRY(masked(&p.wholes[k], build, p.wholes[k], p.sizes[k], along, Fill::kZero));
    }
  }
  Node y = tensor::matmul(g, p.wholes[0], p.wholes[1]);
  if (!vector) batch.push(p.rows());
  if (!other) batch.push(p.columns());
  if (vector && y != nullptr) y = tensor::select(g, y, -2, 0);
  if (other && y != nullptr) y = tensor::select(g, y, -1, 0);
  return build.finish(y, batch);
}

namespace {

Node last(const Sizes& sizes, size_t back) { return sizes[sizes.size() - back]; }

// The mask of the caller cut to the keys in memory; false where its sizes do not go with them.
bool fit_mask(Node* mask, Graph& g, const Sizes& sizes, Node queries, Node keys, Word rows,
              Word least) {
  if (sizes.size() < 2) return false;
  for (size_t i = 0; i + 2 < sizes.size(); ++i) {
    if (is_bound(sizes[i])) return false;
  }
  const auto fit = [&](size_t back, Node wanted, Word size) {
    const Node have = last(sizes, back);
    if (!is_bound(have) && uop::const_int(have) == 1) return true;
    if (have != wanted) return false;
    *mask = cut(g, *mask, (*mask)->ndim - back, size);
    return *mask != nullptr;
  };
  return fit(1, keys, least) && fit(2, queries, rows);
}

// Attention to as many keys as a variable says, of few queries or to few values: all parts end
// where the keys do. Nothing where it is another.
Done few_keys(Build& build, std::span<const Sizes> sizes, std::span<const Node> wholes) {
  Graph& g = build.graph();
  Product p;
  p.sizes[0] = sizes[0];
  p.sizes[1] = sizes[2];
  p.wholes[0] = wholes[0];
  p.wholes[1] = wholes[2];
  if (!p.thin() || wholes[1]->dtype != wholes[0]->dtype) return {};
  p.sizes[1] = sizes[1];
  std::swap(p.sizes[1][sizes[1].size() - 1], p.sizes[1][sizes[1].size() - 2]);
  p.wholes[1] = turned(g, wholes[1]);
  Sizes batch, of;
  if (p.wholes[1] == nullptr) return last_failure();
  if (p.inner() != p.sizes[1][p.sizes[1].size() - 2] || !align(&batch, p.wholes, g, p.sizes, 2))
    return {};
  Node scores = nullptr;
  ASTER_TRY(sum_products(&scores, &of, build, p, batch));
  const double width = static_cast<double>(uop::const_int(last(sizes[0], 1)));
  scores = binary(g, scores, g.constant(DType::kWeakFloat, std::sqrt(width)), ops::div);
  if (scores == nullptr) return last_failure();
  const Dims keys(1, static_cast<Word>(of.size() - 1));
  ASTER_TRY(masked(&scores, build, scores, of, keys, Fill::kLowest));
  scores = tensor::softmax(g, scores, -1);
  if (scores == nullptr) return last_failure();
  ASTER_TRY(masked(&p.wholes[0], build, scores, of, all_axes(of.size()), Fill::kZero));
  p.sizes[0] = of;
  p.sizes[1] = sizes[2];
  p.wholes[1] = wholes[2];
  if (!align(&batch, p.wholes, g, p.sizes, 2)) return {};
  Node y = nullptr;
  ASTER_TRY(sum_products(&y, &of, build, p, batch));
  return build.finish(y, of);
}

}  // namespace

// Keys beyond their number are hidden by a mask, and values there are 0.
Done attention(Build& build, const Attention& a, Attend attend, void* self) {
  Graph& g = build.graph();
  std::array<Sizes, 3> sizes;
  std::array<Node, 3> wholes{};
  const Input inputs[] = {a.query, a.key, a.value};
  for (size_t i = 0; i < 3; ++i) {
    ASTER_TRY(sizes_of(&sizes[i], build, inputs[i]));
    wholes[i] = whole(inputs[i]);
    if (is_bound(last(sizes[i], 1))) return {};
    for (size_t k = 0; a.grouped && k + 2 < sizes[i].size(); ++k) {
      if (is_bound(sizes[i][k])) return {};
    }
  }
  const Node keys = last(sizes[1], 2), queries = last(sizes[0], 2);
  if (keys != last(sizes[2], 2)) return {};
  if (is_bound(keys) && !a.grouped && a.mask == nullptr && !a.causal) {
    if (const Done done = few_keys(build, sizes, wholes)) return done;
  }
  Sizes out;
  if (a.grouped) {
    for (size_t k = 0; k + 2 < sizes[0].size(); ++k) out.push(sizes[0][k]);
  } else if (!align(&out, wholes.data(), g, sizes, 2)) {
    return {};
  }
  out.push(queries);
  out.push(last(sizes[2], 1));
  Node mask = a.mask == nullptr ? nullptr : whole(a.mask);
  bool causal = a.causal;
  const Word rows = wholes[0]->dim(wholes[0]->ndim - 2u);
  const Word least =
      std::min(wholes[1]->dim(wholes[1]->ndim - 2u), wholes[2]->dim(wholes[2]->ndim - 2u));
  if (mask != nullptr) {
    Sizes of;
    ASTER_TRY(sizes_of(&of, build, a.mask));
    if (!fit_mask(&mask, g, of, queries, keys, rows, least)) return {};
  }
  if (is_bound(keys)) {
    Expr size;
    ASTER_TRY(value_of(&size, build.engine(), keys));
    Expr shown = places(g, least, 2, 1).cast(size.dtype()) < size;
    for (size_t i = 1; i < 3; ++i) {
      const size_t axis = wholes[i]->ndim - 2u;
      wholes[i] = cut(g, wholes[i], axis, least);
      if (wholes[i] == nullptr) return last_failure();
      const std::array<Word, 1> along{static_cast<Word>(axis)};
      ASTER_TRY(masked(&wholes[i], build, wholes[i], sizes[i], along, Fill::kZero));
    }
    if (causal) shown = shown & (places(g, least, 2, 1) <= places(g, rows, 2, 0));
    causal = false;
    if (mask == nullptr) {
      mask = shown.n;
    } else if (mask->dtype == DType::kBool) {
      mask = (shown & Expr{&g, mask}).n;
    } else {
      const Expr given{&g, mask};
      mask = where(shown, given, given.like(-std::numeric_limits<double>::infinity())).n;
    }
    if (mask == nullptr) return last_failure();
  }
  return build.finish(attend(self, wholes[0], wholes[1], wholes[2], mask, causal), out);
}

Done gather(Build& build, Input x, int64_t axis, Input index) {
  if (!build.sized() || node(x)->ndim != node(index)->ndim) return {};
  Graph& g = build.graph();
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes, wanted;
  ASTER_TRY(sizes_of(&sizes, build, x));
  ASTER_TRY(sizes_of(&wanted, build, index));
  Node source = nullptr, positions = whole(index);
  const std::array<Word, 1> one{static_cast<Word>(at)};
  ASTER_TRY(masked(&source, build, whole(x), sizes, one, Fill::kZero));
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k == at || (!is_bound(sizes[k]) && !is_bound(wanted[k]))) continue;
    if (sizes[k] != wanted[k]) return {};
    const Word least = std::min(source->dim(k), positions->dim(k));
    source = cut(g, source, k, least);
    positions = cut(g, positions, k, least);
    if (source == nullptr || positions == nullptr) return last_failure();
  }
  return build.finish(tensor::gather(g, source, axis, positions), wanted);
}

// What lies beyond the sizes of the index is written beyond the axis, which is nowhere.
Done scatter(Build& build, Input x, int64_t axis, Input index, Input src, int32_t mode,
             bool include_self) {
  const size_t ndim = node(x)->ndim;
  if (!build.sized() || node(index)->ndim != ndim || node(src)->ndim != ndim || ndim == 0)
    return {};
  Graph& g = build.graph();
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, ndim));
  Sizes sizes, wanted, given;
  ASTER_TRY(sizes_of(&sizes, build, x));
  ASTER_TRY(sizes_of(&wanted, build, index));
  ASTER_TRY(sizes_of(&given, build, src));
  const Node all = whole(x), from = whole(src);
  Node positions = strong(g, whole(index));
  if (positions == nullptr) return last_failure();
  Expr in;
  ASTER_TRY(inside(&in, build.engine(), positions->shape(), wanted, all_axes(ndim)));
  if (in.n != nullptr) {
    const Expr places{&g, positions};
    positions = where(in, places, places.like(static_cast<double>(all->dim(at)))).n;
  }
  for (size_t k = 0; k < ndim; ++k) {
    if (!holds_le(build, wanted[k], given[k])) return {};
    if (k != at && !holds_le(build, wanted[k], sizes[k])) return {};
    if (positions == nullptr) return last_failure();
    Word least = std::min(positions->dim(k), from->dim(k));
    if (k != at) least = std::min(least, all->dim(k));
    positions = cut(g, positions, k, least);
  }
  return build.finish(tensor::scatter(g, all, axis, positions, from, mode, include_self), sizes);
}

}  // namespace aster::tensor::sized
