// Rules (sized.h) of x[...] and of what is written there.
#include <algorithm>
#include <array>

#include "engine/engine.h"
#include "tensor/indexing.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor::sized {

using uop::Dims;

namespace {

// Items an axis: what an ellipsis stands for and what is missing are whole slices. False where
// there are too many, or masks.
bool spell_out(Vec<Place>* out, std::span<const Place> items, size_t ndim) {
  size_t covered = 0, ellipsis = items.size();
  for (size_t i = 0; i < items.size(); ++i) {
    const Place& item = items[i];
    const bool axis = item.kind != ASTER_ML_INDEX_NEW_AXIS && item.kind != ASTER_ML_INDEX_ELLIPSIS;
    covered += axis ? 1 : 0;
    if (item.kind == ASTER_ML_INDEX_ELLIPSIS) {
      if (ellipsis != items.size()) return false;
      ellipsis = i;
    }
    if (item.kind == ASTER_ML_INDEX_TENSOR && !dtype::is_int(node(item.tensor)->dtype))
      return false;
  }
  if (covered > ndim) return false;
  const Place all{ASTER_ML_INDEX_SLICE, nullptr, nullptr, 1, nullptr};
  for (size_t i = 0; i <= items.size(); ++i) {
    for (size_t k = covered; i == ellipsis && k < ndim; ++k) {
      if (!out->push(all).ok()) return false;
    }
    if (i < items.size() && i != ellipsis && !out->push(items[i]).ok()) return false;
  }
  return true;
}

bool is_whole(const Place& item) {
  return item.kind == ASTER_ML_INDEX_SLICE && item.start == nullptr && item.stop == nullptr &&
         item.step == 1;
}

// Whether a variable has to do with an item of an axis.
bool concerns(const Place& item, Node size) {
  return is_bound(item.start) || is_bound(item.stop) || (is_bound(size) && !is_whole(item));
}

// An integer counted from the front; nil where it may lie outside.
Node position(Build& build, Node index, Node size) {
  Graph& g = build.graph();
  if (!is_bound(index) && uop::const_int(index) < 0) index = sym::add(g, index, size);
  const Node next = index == nullptr ? nullptr : sym::add(g, index, 1);
  if (!holds_le(build, g.index(0), index) || !holds_le(build, next, size)) return nullptr;
  return index;
}

// A slice of an axis: its first place and how many there are. False for what would be clamped.
struct Run {
  Node begin = nullptr, count = nullptr;
  int64_t step = 1;
  Word most = 0;  // places, no more than are in memory
};
bool run_of(Run* out, Build& build, const Place& item, Node size, Word memory) {
  Graph& g = build.graph();
  const int64_t step = item.step;
  const auto from_front = [&](Node place) {
    const bool back = place != nullptr && !is_bound(place) && uop::const_int(place) < 0;
    return back ? sym::add(g, place, size) : place;
  };
  const Node last = sym::add(g, size, -1), before = g.index(-1), zero = g.index(0);
  const Node begin = item.start != nullptr ? from_front(item.start) : step < 0 ? last : zero;
  const Node end = item.stop != nullptr ? from_front(item.stop) : step < 0 ? before : size;
  const bool fits = step < 0 ? holds_le(build, begin, last) && holds_le(build, end, begin) &&
                                   holds_le(build, before, end)
                             : holds_le(build, zero, begin) && holds_le(build, begin, end) &&
                                   holds_le(build, end, size);
  if (!fits) return false;
  const Node room = step < 0 ? sym::sub(g, begin, end) : sym::sub(g, end, begin);
  const int64_t pace = step < 0 ? -step : step;
  if (pace < 0) return false;
  out->count = sym::floordiv(g, sym::add(g, room, pace - 1), pace);
  if (out->count == nullptr) return build.keep(last_failure()), false;
  if (out->count->vmax == INT64_MAX || out->count->vmax < 0) return false;
  out->begin = begin;
  out->step = step;
  out->most = std::min(out->count->vmax, memory);
  return true;
}

// The places of a run, of any dtype of integers.
Status places_of(Expr* out, Build& build, const Run& run) {
  Expr first;
  ASTER_TRY(value_of(&first, build.engine(), run.begin));
  const Expr steps = places(build.graph(), run.most, 1, 0).cast(first.dtype());
  *out = steps * steps.like(static_cast<double>(run.step)) + first;
  return out->n == nullptr ? last_failure() : kOk;
}

// A slice of numbers of one axis.
Node plain_slice(Graph& g, Node x, size_t at, int64_t start, int64_t stop, int64_t step) {
  if (x == nullptr) return nullptr;
  Dims from(at, INT64_MIN), to(at, INT64_MAX), by(at, 1);
  from.push(start);
  to.push(stop);
  by.push(step);
  return tensor::slice(g, x, at + 1, from.at, to.at, by.at);
}

int64_t number(Node place, int64_t end) { return place == nullptr ? end : uop::const_int(place); }

// A slice of numbers of an axis of a number of elements, as Python's.
struct Numbers {
  int64_t start, stop, step;
  explicit Numbers(const Place& item)
      : start(number(item.start, item.step < 0 ? INT64_MAX : INT64_MIN)),
        stop(number(item.stop, item.step < 0 ? INT64_MIN : INT64_MAX)),
        step(item.step) {}
};

// What x[...] has become so far.
struct Reading {
  Node part;
  Sizes sizes;
  size_t axis = 0;
};

Done read_slice(Reading& r, Build& build, const Place& item) {
  Graph& g = build.graph();
  const size_t at = r.axis++;
  const Node size = r.sizes[at];
  if (is_whole(item)) return kOk;
  if (!concerns(item, size)) {
    const Numbers n(item);
    r.part = plain_slice(g, cut(g, r.part, at, uop::const_int(size)), at, n.start, n.stop, n.step);
    if (r.part == nullptr) return last_failure();
    r.sizes[at] = g.index(r.part->dim(at));
    return kOk;
  }
  Run run;
  if (!run_of(&run, build, item, size, r.part->dim(at))) return {};
  if (is_bound(run.begin) || run.step < 0) {
    Expr at_places;
    ASTER_TRY(places_of(&at_places, build, run));
    r.part = take(g, r.part, at, at_places.n);
  } else {
    const Word begin = uop::const_int(run.begin), memory = r.part->dim(at);
    const Word end = run.most > (memory - begin) / run.step ? memory : begin + run.most * run.step;
    r.part = plain_slice(g, r.part, at, begin, std::max(end, begin), run.step);
  }
  r.sizes[at] = run.count;
  return r.part == nullptr ? last_failure() : kOk;
}

Done read_integer(Reading& r, Build& build, const Place& item) {
  const Node index = position(build, item.start, r.sizes[r.axis]);
  if (index == nullptr) return {};
  ASTER_TRY(take_place(&r.part, build, r.axis, index));
  r.sizes.remove(r.axis);
  return kOk;
}

// Tensors beside whole slices: their wholes, which know the sizes of the axes that they index.
class Tensors {
 public:
  explicit Tensors(Memory& memory) : sizes_(memory), nodes_(memory) {}

  Status add(Build& build, size_t axis, Input tensor) {
    Sizes each;
    ASTER_TRY(sizes_of(&each, build, tensor));
    ASTER_TRY(sizes_.push(each));
    ASTER_TRY(nodes_.push(strong(build.graph(), whole(tensor))));
    axes_.push(static_cast<Word>(axis));
    return nodes_[nodes_.size() - 1] == nullptr ? last_failure() : kOk;
  }
  bool empty() const { return axes_.size() == 0; }

  Done read(Build& build, const Reading& r) {
    Graph& g = build.graph();
    Sizes together;
    if (!align(&together, nodes_.data(), g, {sizes_.data(), sizes_.size()}, 0)) return {};
    Node part = nullptr;
    ASTER_TRY(masked(&part, build, r.part, r.sizes, axes_, Fill::kZero));
    Vec<IndexItem> items(g.memory());
    for (size_t axis = 0, k = 0; axis < r.sizes.size(); ++axis) {
      const bool tensor = k < axes_.size() && axes_[k] == static_cast<Word>(axis);
      IndexItem item{ASTER_ML_INDEX_SLICE, INT64_MIN, INT64_MAX, 1, nullptr, 1};
      if (tensor) {
        item.kind = ASTER_ML_INDEX_TENSOR;
        ASTER_TRY(from_front(&item.tensor, build, nodes_[k++], r.sizes[axis], part->dim(axis)));
      }
      ASTER_TRY(items.push(item));
    }
    Indexing indexing(g.memory());
    ASTER_TRY(Indexing::plan(&indexing, g, part, {items.data(), items.size()}));
    return build.finish(indexing.read(g, part), result(r.sizes, together));
  }

 private:
  // Negative ones of an axis that is a variable's counted from its end; those before it outside.
  static Status from_front(Node* out, Build& build, Node index, Node size, Word memory) {
    *out = index;
    if (!is_bound(size) || dtype::is_unsigned(index->dtype)) return kOk;
    Expr count;
    ASTER_TRY(value_of(&count, build.engine(), size));
    const Expr i = Expr{&build.graph(), index}.cast(DType::kInt64);
    const Expr wrapped = where(i < 0.0, i + count.cast(DType::kInt64), i);
    *out = where(wrapped < 0.0, wrapped.like(static_cast<double>(memory)), wrapped).n;
    return *out == nullptr ? last_failure() : kOk;
  }
  Sizes result(const Sizes& sizes, const Sizes& together) const {
    const size_t first = static_cast<size_t>(axes_[0]), count = axes_.size();
    const bool neighbours = static_cast<size_t>(axes_[count - 1]) - first == count - 1;
    Sizes out;
    for (size_t axis = 0, k = 0; axis < sizes.size(); ++axis) {
      if (k < count && axes_[k] == static_cast<Word>(axis)) {
        ++k;
      } else {
        out.push(sizes[axis]);
      }
    }
    const size_t at = neighbours ? first : 0;
    for (size_t i = 0; i < together.size(); ++i) out.insert(at + i, together[i]);
    return out;
  }

  Vec<Sizes> sizes_;
  Vec<Node> nodes_;
  Dims axes_;
};

}  // namespace

Done index(Build& build, Input x, std::span<const Place> given) {
  Graph& g = build.graph();
  Vec<Place> items(build.context().heap());
  Reading r{whole(x), {}};
  Tensors tensors(build.context().heap());
  ASTER_TRY(sizes_of(&r.sizes, build, x));
  if (!spell_out(&items, given, r.sizes.size())) return {};
  for (size_t i = 0; i < items.size(); ++i) {
    const Place& item = items[i];
    Done done = kOk;
    if (item.kind == ASTER_ML_INDEX_NEW_AXIS) {
      if (r.sizes.size() + 1 >= Sizes::kMost) return {};
      r.part = tensor::unsqueeze(g, r.part, static_cast<int64_t>(r.axis));
      r.sizes.insert(r.axis++, g.index(1));
    } else if (item.kind == ASTER_ML_INDEX_TENSOR) {
      ASTER_TRY(tensors.add(build, r.axis++, item.tensor));
    } else {
      done = item.kind == ASTER_ML_INDEX_INTEGER ? read_integer(r, build, item)
                                                 : read_slice(r, build, item);
    }
    if (!done || !done->ok()) return done;
    if (r.part == nullptr) return last_failure();
  }
  if (!tensors.empty()) return tensors.read(build, r);
  return build.finish(r.part, r.sizes);
}

Done slice(Build& build, Input x, size_t count, const int64_t* start, const int64_t* stop,
           const int64_t* step) {
  if (!build.sized() || count > node(x)->ndim) return {};
  Graph& g = build.graph();
  Vec<Place> items(build.context().heap());
  for (size_t i = 0; i < count; ++i) {
    Place item{ASTER_ML_INDEX_SLICE, nullptr, nullptr, step == nullptr ? 1 : step[i], nullptr};
    if (item.step == 0) return {};
    const bool back = item.step < 0;
    if (start != nullptr && start[i] != (back ? INT64_MAX : INT64_MIN))
      item.start = g.index(start[i]);
    if (stop != nullptr && stop[i] != (back ? INT64_MIN : INT64_MAX)) item.stop = g.index(stop[i]);
    ASTER_TRY(items.push(item));
  }
  return index(build, x, {items.data(), items.size()});
}

// ---- Writing ----

namespace {

// target[items] = value, as an index of numbers and tensors of places into the whole target.
struct Writing {
  Build& build;
  Graph& g;
  Node all;
  Vec<IndexItem> items;
  Vec<Run> runs;  // an item of items each
  Sizes sizes;    // of the part
  Dims owners;    // items that they are of

  Writing(Build& b, Node target)
      : build(b), g(b.graph()), all(target), items(b.context().heap()), runs(b.context().heap()) {}

  bool is_tensor(size_t k) const { return items[k].kind == ASTER_ML_INDEX_TENSOR; }

  Done add(const Place& place, Node size, size_t axis) {
    IndexItem item{place.kind, 0, 0, place.step, nullptr, 1};
    Run run;
    if (place.kind == ASTER_ML_INDEX_INTEGER) {
      const Node at = position(build, place.start, size);
      if (at == nullptr) return {};
      if (is_bound(at)) {
        Expr value;
        ASTER_TRY(value_of(&value, build.engine(), at));
        item.kind = ASTER_ML_INDEX_TENSOR;
        item.tensor = value.n;
      } else {
        item.start = uop::const_int(at);
      }
    } else {
      const Word memory = all->dim(axis);
      owners.push(static_cast<Word>(axis));
      if (is_bound(size) || concerns(place, size)) {
        if (!run_of(&run, build, place, size, memory)) return {};
        ASTER_TRY(as_tensor(&item, run, memory));
        sizes.push(run.count);
      } else {
        const Numbers n(place);
        const Span span = span_of(memory, n.start, n.stop, n.step);
        item.start = n.start;
        item.stop = n.stop;
        run = {g.index(span.start), g.index(span.count), n.step, span.count};
        sizes.push(run.count);
      }
    }
    ASTER_TRY(runs.push(run));
    ASTER_TRY(items.push(item));
    return kOk;
  }

  // Places beyond a size are outside and write nothing.
  Status as_tensor(IndexItem* item, const Run& run, Word memory) {
    Expr at;
    ASTER_TRY(places_of(&at, build, run));
    if (is_bound(run.count)) {
      Expr count;
      ASTER_TRY(value_of(&count, build.engine(), run.count));
      const Expr inside = places(g, run.most, 1, 0).cast(count.dtype()) < count;
      at = where(inside, at, at.like(static_cast<double>(memory)));
    }
    item->kind = ASTER_ML_INDEX_TENSOR;
    item->tensor = at.n;
    return at.n == nullptr ? last_failure() : kOk;
  }

  // Tensors stand beside each other: slices between them become tensors as well.
  Status join_tensors() {
    size_t first = items.size(), last = 0;
    for (size_t k = 0; k < items.size(); ++k) {
      if (!is_tensor(k)) continue;
      first = std::min(first, k);
      last = k;
    }
    for (size_t k = first; k < last; ++k) {
      if (items[k].kind == ASTER_ML_INDEX_SLICE)
        ASTER_TRY(as_tensor(&items[k], runs[k], all->dim(k)));
    }
    return kOk;
  }

  // The whole value, it and the places as long as each other. False where the sizes differ.
  bool fit(Node* held, const Sizes& of) {
    for (size_t back = 1; back <= of.size(); ++back) {
      const Node have = of[of.size() - back];
      const Node want = back <= sizes.size() ? sizes[sizes.size() - back] : g.index(1);
      if (have == want) continue;
      if (is_bound(have) || (is_bound(want) && uop::const_int(have) != 1)) return false;
    }
    for (size_t back = 1; back <= std::min(of.size(), sizes.size()); ++back) {
      if (!is_bound(of[of.size() - back])) continue;
      const size_t axis = (*held)->ndim - back;
      Node& places = items[static_cast<size_t>(owners[owners.size() - back])].tensor;
      const Word least = std::min((*held)->dim(axis), places->dim(0));
      *held = cut(g, *held, axis, least);
      places = cut(g, places, 0, least);
      if (*held == nullptr || places == nullptr) return false;
    }
    return true;
  }

  // Every place of one axis with every place of the others.
  Status spread() {
    size_t after = 0;
    for (size_t i = owners.size(); i-- > 0;) {
      Node& places = items[static_cast<size_t>(owners[i])].tensor;
      if (!is_tensor(static_cast<size_t>(owners[i]))) continue;
      Dims shape(1 + after++, 1);
      shape[0] = places->count();
      places = g.reshape(places, shape);
      if (places == nullptr) return last_failure();
    }
    return kOk;
  }
};

// The whole of target with something new in it.
Status change(engine::Lazy& target, Node changed) {
  engine::Lazy* const all = engine::whole_of(&target);
  if (writes_through(all->node)) return engine::assign(*target.engine, *all, changed);
  if (target.sized != nullptr) {
    Graph& g = target.engine->graph;
    const Dims begin(changed->ndim, 0), step(changed->ndim, 1), size(target.node->shape());
    const Node present = g.slice(changed, begin, step, size);
    if (present == nullptr) return last_failure();
    engine::set_node(*all, changed);
    changed = present;
  }
  engine::set_node(target, changed);
  return kOk;
}

// target[mask] = one value: chosen element by element.
Done assign_by_mask(Build& build, engine::Lazy& target, Input by, Input value) {
  Graph& g = build.graph();
  const Node all = engine::whole_of(&target)->node;
  Node mask = whole(by);
  Sizes sizes, of;
  ASTER_TRY(sizes_of(&sizes, g, target));
  ASTER_TRY(sizes_of(&of, build, by));
  if (of.size() == 0 || of.size() > sizes.size()) return {};
  if (node(value)->ndim > 1 + sizes.size() - of.size()) return {};
  Dims shape(all->ndim, 1);
  for (size_t k = 0; k < of.size(); ++k) {
    if (of[k] != sizes[k] || mask->dim(k) < all->dim(k)) return {};
    mask = cut(g, mask, k, shape[k] = all->dim(k));
    if (mask == nullptr) return last_failure();
  }
  ASTER_TRY(masked(&mask, build, mask, of, all_axes(of.size()), Fill::kZero));
  Node from = nullptr;
  const Node one = tensor::reshape(g, node(value), Words{});
  ASTER_TRY(assign_value(&from, g, "index_assign", all, one, all->shape()));
  build.take_rule(constants(g, all->shape()));
  const Expr changed = where(Expr{&g, g.reshape(mask, shape)}, Expr{&g, from}, Expr{&g, all});
  return changed.n == nullptr ? last_failure() : change(target, changed.n);
}

}  // namespace

Done index_assign(Build& build, engine::Lazy& target, std::span<const Place> given, Input value) {
  Graph& g = build.graph();
  const bool by_mask = given.size() == 1 && given[0].kind == ASTER_ML_INDEX_TENSOR &&
                       node(given[0].tensor)->dtype == DType::kBool;
  if (by_mask && node(value)->count() == 1 && cell(value)->sized == nullptr)
    return assign_by_mask(build, target, given[0].tensor, value);
  Vec<Place> places(build.context().heap());
  Sizes sizes, of;
  ASTER_TRY(sizes_of(&sizes, g, target));
  ASTER_TRY(sizes_of(&of, build, value));
  const auto unlike = [](const Place& p) {
    return p.kind == ASTER_ML_INDEX_TENSOR || p.kind == ASTER_ML_INDEX_NEW_AXIS;
  };
  if (std::ranges::any_of(given, unlike) || !spell_out(&places, given, sizes.size())) return {};
  Writing w(build, engine::whole_of(&target)->node);
  for (size_t k = 0; k < sizes.size(); ++k) {
    const Done done = w.add(places[k], sizes[k], k);
    if (!done || !done->ok()) return done;
  }
  ASTER_TRY(w.join_tensors());
  Node held = whole(value);
  if (!w.fit(&held, of)) return {};
  ASTER_TRY(w.spread());
  Indexing indexing(g.memory());
  ASTER_TRY(Indexing::plan(&indexing, g, w.all, {w.items.data(), w.items.size()}));
  build.take_rule(constants(g, w.all->shape()));
  if (!indexing.has_tensors() && writes_through(w.all))
    return build.finish(indexing.view(g, w.all));
  Node from = nullptr;
  ASTER_TRY(assign_value(&from, g, "index_assign", w.all, held, indexing.shape()));
  if (from->count() == 0) return kOk;
  const Node changed = indexing.write(g, w.all, from);
  return changed == nullptr ? last_failure() : change(target, changed);
}

}  // namespace aster::tensor::sized
