// The public functions of indexing.h.
#include <algorithm>

#include "aster_ml/symbolic.h"
#include "engine/engine.h"
#include "tensor/indexing.h"
#include "tensor/sized.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Op;

Node nil(Status) { return nullptr; }

Status check_item(size_t i, int32_t kind, Input tensor) {
  if (kind < ASTER_ML_INDEX_INTEGER || kind > ASTER_ML_INDEX_TENSOR)
    return ASTER_FAIL(kARGUMENT, "item %zu of an index is of kind %d", i, kind);
  return kind == ASTER_ML_INDEX_TENSOR ? check_handle(tensor) : kOk;
}

// Items of x[...] whose masks have been counted: the public form turned into nodes.
class Items {
 public:
  explicit Items(Memory& memory) : items_(memory), counts_(memory) {}

  // Counts the masks, before anything is built.
  Status count_masks(size_t count, const aster_ml_index* items) {
    if (count != 0 && items == nullptr) return ASTER_FAIL(kARGUMENT, "items is a null pointer");
    if (count > uop::Dims::kMost) return ASTER_FAIL(kRANGE, "an index of %zu items", count);
    for (size_t i = 0; i < count; ++i) {
      const aster_ml_index& item = items[i];
      int64_t elements = -1;
      ASTER_TRY(check_item(i, item.kind, item.tensor));
      if (item.kind == ASTER_ML_INDEX_TENSOR) {
        ASTER_TRY(engine::look_at_sizes(*cell(item.tensor)));
        if (node(item.tensor)->dtype == DType::kBool) {
          ASTER_TRY(count_true(&elements, item.tensor));
        }
      }
      ASTER_TRY(counts_.push(elements));
    }
    return kOk;
  }

  Status build(Build& build, Node x, size_t count, const aster_ml_index* items) {
    size_t axis = 0;
    for (size_t i = 0; i < count; ++i) {
      const aster_ml_index& from = items[i];
      IndexItem item{from.kind, from.start, from.stop, from.step, nullptr, 1};
      if (from.kind == ASTER_ML_INDEX_NEW_AXIS || from.kind == ASTER_ML_INDEX_ELLIPSIS) {
        item.covers = 0;
      }
      if (from.kind == ASTER_ML_INDEX_TENSOR) {
        ASTER_TRY(take_tensor(&item, build, x, axis, node(from.tensor), counts_[i]));
        if (cell(from.tensor)->context != &build.context()) {
          return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one operation");
        }
      }
      axis += item.covers;
      if (from.kind == ASTER_ML_INDEX_ELLIPSIS) axis = axis_after_ellipsis(x, count, items, i);
      ASTER_TRY(items_.push(item));
    }
    return kOk;
  }
  std::span<const IndexItem> all() const { return {items_.data(), items_.size()}; }

 private:
  static size_t axes_of(const aster_ml_index& item) {
    if (item.kind == ASTER_ML_INDEX_NEW_AXIS || item.kind == ASTER_ML_INDEX_ELLIPSIS) return 0;
    if (item.kind != ASTER_ML_INDEX_TENSOR) return 1;
    return node(item.tensor)->dtype == DType::kBool ? node(item.tensor)->ndim : 1;
  }
  static size_t axis_after_ellipsis(Node x, size_t count, const aster_ml_index* items, size_t at) {
    size_t rest = 0;
    for (size_t i = at + 1; i < count; ++i) rest += axes_of(items[i]);
    return rest > x->ndim ? x->ndim : x->ndim - rest;
  }

  static Status take_tensor(IndexItem* item, Build& build, Node x, size_t axis, Node tensor,
                            int64_t elements) {
    Graph& g = build.graph();
    if (elements < 0) {
      if (!dtype::is_int(tensor->dtype)) {
        return ASTER_FAIL(kDTYPE, "index of %s by %s: indices are integers or bool", brief(x).text,
                          brief(tensor).text);
      }
      item->tensor = strong(g, tensor);
      return item->tensor != nullptr ? kOk : last_failure();
    }
    item->covers = tensor->ndim;
    bool fits = tensor->ndim > 0 && axis + tensor->ndim <= x->ndim;
    for (size_t i = 0; fits && i < tensor->ndim; ++i) fits = tensor->dim(i) == x->dim(axis + i);
    if (!fits) {
      return ASTER_FAIL(kSHAPE, "index of %s by the mask %s at axis %zu", brief(x).text,
                        brief(tensor).text, axis);
    }
    item->tensor = true_positions(g, tensor, elements);
    return item->tensor != nullptr ? kOk : last_failure();
  }

  Vec<IndexItem> items_;
  Vec<int64_t> counts_;  // true elements of masks, -1 for the rest
};

// x[mask] = one value: chosen element by element, without looking at the mask.
bool is_one_value_by_mask(size_t count, const aster_ml_index* items, Node x, Node value) {
  if (count != 1 || items->kind != ASTER_ML_INDEX_TENSOR || items->tensor == nullptr) return false;
  if (cell(items->tensor) == nullptr || value->count() != 1) return false;
  const Node mask = node(items->tensor);
  if (mask->dtype != DType::kBool || mask->ndim == 0 || mask->ndim > x->ndim) return false;
  const size_t places = size_t{1} + x->ndim - mask->ndim;  // axes of x[mask]
  return value->ndim <= places && std::ranges::equal(mask->shape(), x->shape().first(mask->ndim));
}
Status write_by_mask(Node* out, Build& build, const aster_ml_index& item, Node x, Node value) {
  Graph& g = build.graph();
  if (cell(item.tensor)->context != &build.context()) {
    return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one operation");
  }
  Node from = nullptr;
  ASTER_TRY(engine::look_at_sizes(*cell(item.tensor)));
  ASTER_TRY(assign_value(&from, g, "index_assign", x, reshape(g, value, Words{}), x->shape()));
  uop::Dims shape(x->ndim, 1);
  const Node mask = node(item.tensor);
  for (size_t i = 0; i < mask->ndim; ++i) shape[i] = mask->dim(i);
  *out = where(g, expand(g, reshape(g, mask, shape), x->shape()), from, x);
  return *out != nullptr ? kOk : last_failure();
}

struct ScatterMode {
  Op op;
  int32_t mode;
};
constexpr ScatterMode kModes[] = {
    {Op::kSink, ASTER_ML_SCATTER_WRITE},   {Op::kAdd, ASTER_ML_SCATTER_ADD},
    {Op::kMul, ASTER_ML_SCATTER_MULTIPLY}, {Op::kAdd, ASTER_ML_SCATTER_MEAN},
    {Op::kMax, ASTER_ML_SCATTER_MAX},      {Op::kMin, ASTER_ML_SCATTER_MIN}};

}  // namespace

Node scatter(Graph& g, Node x, int64_t axis, Node index, Node src, int32_t mode,
             bool include_self) {
  size_t at = 0;
  if (x == nullptr || index == nullptr || src == nullptr) return nullptr;
  const size_t row = static_cast<size_t>(mode);
  if (mode < 0 || row >= std::size(kModes)) return nil(ASTER_FAIL(kARGUMENT, "mode %d", mode));
  index = strong(g, index);
  x = strong(g, x);
  if (index == nullptr || x == nullptr || !check_along("scatter", &at, x, axis, index).ok()) {
    return nullptr;
  }
  bool fits = src->ndim == index->ndim;
  for (size_t i = 0; fits && i < src->ndim; ++i) fits = index->dim(i) <= src->dim(i);
  if (!fits) {
    return nil(ASTER_FAIL(kSHAPE, "scatter of %s to %s by %s", brief(src).text, brief(x).text,
                          brief(index).text));
  }
  Node value = nullptr;
  if (!assign_value(&value, g, "scatter", x, src, src->shape()).ok()) return nullptr;
  value = shrink(g, value, uop::Dims(src->ndim, 0), index->shape());
  const uop::Dims coordinates = along(x->ndim, at);
  const Op op = kModes[row].op;
  const auto into = [&](Op how, Node target, Node what) {
    return g.scatter(how, target, what, std::array{index}, coordinates);
  };
  if (op == Op::kSink) return into(op, x, value);
  // Narrow floats add up in float32.
  const DType wide = op == Op::kAdd ? dtype::sum_acc(x->dtype) : x->dtype;
  const DType work = dtype::is_float(x->dtype) ? wide : x->dtype;
  const Expr base{&g, g.cast(x, work)}, from{&g, g.cast(value, work)};
  const Words at_once = index->shape();
  if (mode != ASTER_ML_SCATTER_MEAN) {
    const Node empty = g.constant_word(work, uop::neutral_word(op, work), at_once);
    const Node start = include_self ? base.n : into(Op::kSink, base.n, empty);
    return g.cast(into(op, start, from.n), x->dtype);
  }
  const auto everywhere = [&](DType dtype, int64_t number) {
    return g.constant_int(dtype, number, x->shape());
  };
  const Node ones = g.constant_int(DType::kInt32, 1, at_once);
  const Expr count{&g, into(Op::kAdd, everywhere(DType::kInt32, include_self ? 1 : 0), ones)};
  const Node sums = into(Op::kAdd, include_self ? base.n : everywhere(work, 0), from.n);
  Expr mean{&g, binary(g, sums, uop::max(count, 1.0).n, ops::div)};
  if (!include_self) mean = where(count == 0.0, base.cast(mean.dtype()), mean);
  return cast(g, mean.n, dtype::is_float(x->dtype) ? x->dtype : g.defaults.real);
}

// What a cell that is no storage names from now on.
static void replace(engine::Lazy& lazy, Node changed) {
  engine::drop_sizes(lazy);
  engine::set_node(lazy, changed);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::last_failure;
using aster::Status;
using aster::uop::Op;

namespace {

using sized::Place;

// Items of x[...] whose positions may be expressions, and those as numbers of the present values.
class Places {
 public:
  explicit Places(aster::Memory& memory) : places_(memory), plain_(memory) {}

  Status read(Build& build, size_t count, const aster_ml_dim_index* items) {
    ASTER_TRY(check(count, items));
    for (size_t i = 0; i < count; ++i) {
      const aster_ml_dim_index& from = items[i];
      aster_ml_index plain{from.kind, 0, 0, from.step, from.tensor};
      Node start = nullptr, stop = nullptr;
      if (from.kind <= ASTER_ML_INDEX_SLICE)
        ASTER_TRY(sized::position_argument(&start, &plain.start, build.engine(), from.start));
      if (from.kind == ASTER_ML_INDEX_SLICE)
        ASTER_TRY(sized::position_argument(&stop, &plain.stop, build.engine(), from.stop));
      ASTER_TRY(add(build, plain, start, stop));
    }
    return kOk;
  }
  Status read(Build& build, size_t count, const aster_ml_index* items) {
    ASTER_TRY(check(count, items));
    for (size_t i = 0; i < count; ++i) {
      const bool place = items[i].kind <= ASTER_ML_INDEX_SLICE;
      ASTER_TRY(add(build, items[i], place ? build.graph().index(items[i].start) : nullptr,
                    place ? build.graph().index(items[i].stop) : nullptr));
    }
    return kOk;
  }
  std::span<const Place> all() const { return {places_.data(), places_.size()}; }
  // Numbers, for what has no rule: values of variables are used.
  Status look(const aster_ml_index** out, Build& build) const {
    for (const Place& place : all()) {
      for (Node at : {place.start, place.stop}) {
        if (is_bound(at)) ASTER_TRY(aster::engine::look_at(build.engine(), at));
      }
    }
    *out = plain_.data();
    return kOk;
  }

 private:
  template <typename Item>
  static Status check(size_t count, const Item* items) {
    if (count != 0 && items == nullptr) return ASTER_FAIL(kARGUMENT, "items is a null pointer");
    if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "an index of %zu items", count);
    for (size_t i = 0; i < count; ++i) ASTER_TRY(check_item(i, items[i].kind, items[i].tensor));
    return kOk;
  }
  Status add(Build& build, aster_ml_index plain, Node start, Node stop) {
    if (plain.kind == ASTER_ML_INDEX_TENSOR && cell(plain.tensor)->context != &build.context())
      return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one operation");
    Place place{plain.kind, start, stop, plain.step == 0 ? 1 : plain.step, plain.tensor};
    if (plain.kind <= ASTER_ML_INDEX_SLICE && (start == nullptr || stop == nullptr) &&
        (start == nullptr || plain.kind == ASTER_ML_INDEX_SLICE))
      return last_failure();
    if (plain.kind == ASTER_ML_INDEX_SLICE) {
      const int64_t first = place.step < 0 ? INT64_MAX : INT64_MIN;
      const int64_t last = place.step < 0 ? INT64_MIN : INT64_MAX;
      if (!is_bound(start) && plain.start == first) place.start = nullptr;
      if (!is_bound(stop) && plain.stop == last) place.stop = nullptr;
    }
    ASTER_TRY(places_.push(place));
    return plain_.push(plain);
  }

  aster::Vec<Place> places_;
  aster::Vec<aster_ml_index> plain_;
};

// Whether variables may be among the sizes of x or of tensors that index it.
bool may_be_sized(const Build& build, size_t count, const aster_ml_index* items) {
  bool sized = build.sized();
  for (size_t i = 0; items != nullptr && i < count; ++i) {
    const aster_ml_lazy* const t = items[i].tensor;
    sized |= items[i].kind == ASTER_ML_INDEX_TENSOR && t != nullptr && t->impl != nullptr &&
             cell(t) != nullptr && cell(t)->sized != nullptr;
  }
  return sized;
}

template <typename Item>
Status check_out(const aster_ml_lazy* out, size_t count, const Item* items) {
  for (size_t i = 0; items != nullptr && i < count; ++i) {
    if (items[i].tensor == out) return ASTER_FAIL(kARGUMENT, "out holds the handle of an input");
  }
  return kOk;
}

Status index(Build& build, Input x, size_t count, const aster_ml_index* items) {
  Items list(build.context().heap());
  ASTER_TRY(list.count_masks(count, items));
  ASTER_TRY(list.build(build, node(x), count, items));
  Indexing indexing(build.context().heap());
  ASTER_TRY(Indexing::plan(&indexing, build.graph(), node(x), list.all()));
  return build.finish(indexing.read(build.graph(), node(x)));
}

// The assignment of values of present sizes. Where a view of the target is to be assigned to, it is
// what build gives.
Status index_assign(Build& build, aster::engine::Lazy& lazy, size_t count,
                    const aster_ml_index* items, Input value) {
  Graph& g = build.graph();
  const bool stored = writes_through(lazy.node);
  if (items != nullptr && is_one_value_by_mask(count, items, lazy.node, node(value))) {
    Node changed = nullptr;
    ASTER_TRY(write_by_mask(&changed, build, *items, lazy.node, node(value)));
    if (stored) return aster::engine::assign(*lazy.engine, lazy, changed);
    return replace(lazy, changed), kOk;
  }
  Items list(build.context().heap());
  ASTER_TRY(list.count_masks(count, items));
  ASTER_TRY(list.build(build, lazy.node, count, items));
  Indexing indexing(build.context().heap());
  ASTER_TRY(Indexing::plan(&indexing, g, lazy.node, list.all()));
  Node from = nullptr;
  ASTER_TRY(assign_value(&from, g, "index_assign", lazy.node, node(value), indexing.shape()));
  if (from->count() == 0) return kOk;
  const bool views = stored && !indexing.has_tensors();
  const Node changed = views ? indexing.view(g, lazy.node) : indexing.write(g, lazy.node, from);
  if (changed == nullptr) return last_failure();
  if (views && changed == lazy.node) return aster::engine::assign(*lazy.engine, lazy, from);
  if (!views && stored) return aster::engine::assign(*lazy.engine, lazy, changed);
  if (!views) return replace(lazy, changed), kOk;
  return build.finish(changed);
}

// f(build) on what may end with a part of the target, which value is assigned to then.
template <typename F>
int32_t assign_part(aster_ml_lazy* target, const aster_ml_lazy* value, F f) {
  ASTER_TRY(check_handle(target));
  ASTER_TRY(check_handle(value));
  const aster::ContextLock lock(cell(target)->context);
  ASTER_TRY(lock.status());
  aster::engine::Lazy& lazy = *cell(target);
  // What was computed from the target keeps its values.
  if (writes_through(lazy.node))
    ASTER_TRY(aster::engine::realize_readers(*lazy.engine, lazy, node(value)));
  aster_ml_lazy part{};  // of the target's storage
  {
    Build build(&part, {target, value});
    ASTER_TRY(build.status());
    ASTER_TRY(f(build, lazy));
  }
  if (part.impl == nullptr) return kOk.code;
  const int32_t status = aster_ml_lazy_assign(&part, value);
  (void)aster_ml_lazy_free(&part);
  return status;
}

}  // namespace

int32_t aster_ml_lazy_index(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                            const aster_ml_index* items) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(check_out(out, count, items));
  if (may_be_sized(build, count, items)) {
    Places places(build.context().heap());
    ASTER_TRY(places.read(build, count, items));
    if (const auto done = sized::index(build, x, places.all())) return done->code;
  }
  return index(build, x, count, items);
}

int32_t aster_ml_lazy_index_dims(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                                 const aster_ml_dim_index* items) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(check_out(out, count, items));
  Places places(build.context().heap());
  ASTER_TRY(places.read(build, count, items));
  if (const auto done = sized::index(build, x, places.all())) return done->code;
  const aster_ml_index* plain = nullptr;
  ASTER_TRY(places.look(&plain, build));
  return index(build, x, count, plain);
}

int32_t aster_ml_lazy_index_assign(aster_ml_lazy* target, size_t count, const aster_ml_index* items,
                                   const aster_ml_lazy* value) {
  ASTER_API();
  return assign_part(target, value, [&](Build& build, aster::engine::Lazy& lazy) -> Status {
    if (may_be_sized(build, count, items)) {
      Places places(build.context().heap());
      ASTER_TRY(places.read(build, count, items));
      if (const auto done = sized::index_assign(build, lazy, places.all(), value)) return *done;
    }
    return index_assign(build, lazy, count, items, value);
  });
}

int32_t aster_ml_lazy_index_assign_dims(aster_ml_lazy* target, size_t count,
                                        const aster_ml_dim_index* items,
                                        const aster_ml_lazy* value) {
  ASTER_API();
  return assign_part(target, value, [&](Build& build, aster::engine::Lazy& lazy) -> Status {
    Places places(build.context().heap());
    ASTER_TRY(places.read(build, count, items));
    if (const auto done = sized::index_assign(build, lazy, places.all(), value)) return *done;
    const aster_ml_index* plain = nullptr;
    ASTER_TRY(places.look(&plain, build));
    return index_assign(build, lazy, count, plain, value);
  });
}

int32_t aster_ml_lazy_gather(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                             const aster_ml_lazy* index) {
  ASTER_API();
  Build build(out, {x, index});
  ASTER_TRY(build.status());
  if (const auto done = sized::gather(build, x, axis, index)) return done->code;
  return build.finish(gather(build.graph(), node(x), axis, node(index)));
}

int32_t aster_ml_lazy_scatter(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                              const aster_ml_lazy* index, const aster_ml_lazy* src, int32_t mode,
                              int32_t include_self) {
  ASTER_API();
  Build build(out, {x, index, src});
  ASTER_TRY(build.status());
  const sized::Done done = sized::scatter(build, x, axis, index, src, mode, include_self != 0);
  if (done) return done->code;
  return build.finish(
      scatter(build.graph(), node(x), axis, node(index), node(src), mode, include_self != 0));
}
