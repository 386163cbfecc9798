// Rules (sized.h) of movement: shapes, axes, parts, elements in another order.
#include <algorithm>
#include <array>

#include "engine/engine.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor::sized {

using uop::Dims;

Done permute(Build& build, Input x, Words axes) {
  if (!build.sized() || axes.size() != node(x)->ndim) return {};
  Sizes sizes, out;
  ASTER_TRY(sizes_of(&sizes, build, x));
  for (Word axis : axes) {
    size_t at = 0;
    ASTER_TRY(resolve_axis(&at, axis, sizes.size()));
    out.push(sizes[at]);
  }
  return build.finish(tensor::permute(build.graph(), whole(x), axes), out);
}

Done transpose(Build& build, Input x, int64_t axis0, int64_t axis1) {
  if (!build.sized()) return {};
  size_t a = 0, b = 0;
  ASTER_TRY(resolve_axis(&a, axis0, node(x)->ndim));
  ASTER_TRY(resolve_axis(&b, axis1, node(x)->ndim));
  Dims axes = all_axes(node(x)->ndim);
  std::swap(axes[a], axes[b]);
  return permute(build, x, axes);
}

Done unsqueeze(Build& build, Input x, int64_t axis) {
  if (!build.sized()) return {};
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim + 1u));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  sizes.insert(at, build.graph().index(1));
  return build.finish(tensor::unsqueeze(build.graph(), whole(x), axis), sizes);
}

Done squeeze(Build& build, Input x, int64_t axis) {
  if (!build.sized()) return {};
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Graph& g = build.graph();
  if (holds_le(build, g.index(2), sizes[at]) || holds_le(build, sizes[at], g.index(0)))
    return build.finish(whole(x), sizes);
  if (!holds_le(build, g.index(1), sizes[at]) || !holds_le(build, sizes[at], g.index(1))) return {};
  sizes.remove(at);
  return build.finish(tensor::select(g, whole(x), axis, 0), sizes);
}

Done flatten(Build& build, Input x, int64_t first, int64_t last) {
  if (!build.sized()) return {};
  size_t from = 0, to = 0;
  ASTER_TRY(resolve_axis(&from, first, node(x)->ndim));
  ASTER_TRY(resolve_axis(&to, last, node(x)->ndim));
  Graph& g = build.graph();
  Sizes sizes, out;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Node joined = g.index(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i < from || i > to) {
      out.push(sizes[i]);
      continue;
    }
    joined = sym::mul(g, joined, sizes[i]);
    if (joined == nullptr) return last_failure();
    if (i == to) out.push(joined);
  }
  return reshape(build, x, out);
}

// ---- Shapes ----

namespace {

Node product(Graph& g, Nodes sizes) {
  Node out = g.index(1);
  for (Node size : sizes) out = sym::mul(g, out, size);
  return out;
}

bool is_unknown(Node size) { return uop::is_const(size) && uop::const_int(size) == -1; }

}  // namespace

bool infer(Sizes* wanted, Graph& g, const Sizes& sizes) {
  size_t unknown = wanted->size(), count = 0;
  for (size_t i = 0; i < wanted->size(); ++i) {
    if (!is_unknown((*wanted)[i])) continue;
    unknown = i;
    ++count;
  }
  if (count == 0) return true;
  if (count > 1) return false;
  // Equal sizes on both sides are struck out; what is left has to be divided by numbers alone.
  Sizes left = sizes;
  Node divisor = g.index(1);
  for (size_t i = 0; i < wanted->size(); ++i) {
    const Node size = (*wanted)[i];
    if (i == unknown) continue;
    size_t at = 0;
    while (at < left.size() && left[at] != size) ++at;
    if (at < left.size()) {
      left.remove(at);
    } else {
      divisor = sym::mul(g, divisor, size);
    }
  }
  const Node all = product(g, left);
  if (all == nullptr || divisor == nullptr || is_bound(divisor)) return false;
  const int64_t by = uop::const_int(divisor);
  if (by <= 0 || !sym::divides(by, all)) return false;
  (*wanted)[unknown] = sym::floordiv(g, all, by);
  return (*wanted)[unknown] != nullptr;
}

namespace {

// The sizes in memory of one group of axes: variables stay where they are the first of their group.
bool padded_group(Dims* out, Nodes sizes, Words memory, Nodes wanted) {
  const auto leads = [](Nodes part) {
    size_t bound = 0;
    bool first = true, leading = false;
    for (Node size : part) {
      if (!is_bound(size) && uop::const_int(size) == 1) continue;
      if (is_bound(size)) {
        ++bound;
        leading = first;
      }
      first = false;
    }
    return bound == 1 && leading;
  };
  if (!std::ranges::any_of(wanted, is_bound)) {
    if (std::ranges::any_of(sizes, is_bound)) return false;
    for (Node size : wanted) out->push(uop::const_int(size));
    return true;
  }
  if (!leads(sizes) || !leads(wanted)) return false;
  Word total = 1, rest = 1;
  for (Word size : memory) total *= size;
  for (Node size : wanted) rest *= is_bound(size) ? 1 : uop::const_int(size);
  if (rest == 0 || total % rest != 0) return false;
  for (Node size : wanted) out->push(is_bound(size) ? total / rest : uop::const_int(size));
  return true;
}

// Groups of axes that are split or merged, each with at most one variable, on its first axis.
bool reshaped_memory(Dims* out, Graph& g, const Sizes& sizes, Words memory, const Sizes& wanted) {
  size_t i = 0, j = 0;
  const Nodes from(sizes), to(wanted);
  while (i < sizes.size() || j < wanted.size()) {
    const size_t i0 = i, j0 = j;
    i = std::min(i + 1, sizes.size());
    j = std::min(j + 1, wanted.size());
    while (true) {
      const Node a = product(g, from.subspan(i0, i - i0)), b = product(g, to.subspan(j0, j - j0));
      if (a == nullptr || b == nullptr) return false;
      if (a == b) break;
      const bool grow_out = a->vmax > b->vmax;
      if (grow_out && j < wanted.size()) {
        ++j;
      } else if (i < sizes.size()) {
        ++i;
      } else if (j < wanted.size()) {
        ++j;
      } else {
        return false;
      }
    }
    if (!padded_group(out, from.subspan(i0, i - i0), memory.subspan(i0, i - i0),
                      to.subspan(j0, j - j0)))
      return false;
  }
  return true;
}

// Place by place: the number of an element among those meant, and where that is in memory.
Done reshape_places(Build& build, Node* part, const Sizes& sizes, const Sizes& wanted) {
  Graph& g = build.graph();
  const Node all = *part;
  const Dims most = most_of(wanted);
  int64_t elements = 1;
  for (Word size : Words(most)) {
    if (!checked_mul(elements, size, &elements)) return {};
  }
  if (elements >= INT32_MAX || all->count() >= INT32_MAX) return {};
  Expr element{&g, g.constant_int(DType::kInt64, 0)};
  for (size_t k = 0; k < wanted.size(); ++k) {
    Expr size;
    ASTER_TRY(value_of(&size, build.engine(), wanted[k]));
    element =
        element * size.cast(DType::kInt64) + places(g, most[k], most.size(), k).cast(DType::kInt64);
  }
  Expr place = element.like(0);
  double step = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    Expr size;
    ASTER_TRY(value_of(&size, build.engine(), sizes[k]));
    size = uop::max(size.cast(DType::kInt64), 1.0);
    place = place + alu(uop::Op::kFloorMod, element, size) * step;
    element = alu(uop::Op::kFloorDiv, element, size);
    step *= static_cast<double>(all->dim(k));
  }
  if (place.n == nullptr) return last_failure();
  const Node index = place.expand(most).cast(DType::kInt32).n;
  if (index == nullptr) return last_failure();
  *part = keeping_weak(g, all, [&](Node y) {
    const Node flat = g.reshape(y, std::array<Word, 1>{y->count()});
    return flat == nullptr
               ? nullptr
               : g.gather(flat, std::array{index}, std::array<Word, 1>{-1}, index->shape());
  });
  return *part == nullptr ? last_failure() : kOk;
}

}  // namespace

Done reshape(Build& build, Input x, const Sizes& wanted) {
  if (!build.sized() && !any_bound(wanted)) return {};
  Sizes sizes;
  Node all = whole(x);
  ASTER_TRY(sizes_of(&sizes, build, x));
  const Done done = reshape(build, &all, &sizes, wanted);
  return done && done->ok() ? build.finish(all, sizes) : done;
}

Done reshape(Build& build, Node* all, Sizes* sizes, const Sizes& given) {
  Graph& g = build.graph();
  const Sizes before = *sizes;
  Sizes wanted = given;
  if (!infer(&wanted, g, before)) return {};
  const Node from = product(g, before), to = product(g, wanted);
  if (from == nullptr || to == nullptr) return last_failure();
  if (from != to) return {};
  *sizes = wanted;
  Dims memory;
  if (!reshaped_memory(&memory, g, before, (*all)->shape(), wanted))
    return reshape_places(build, all, before, wanted);
  *all = tensor::reshape(g, *all, memory);
  return *all == nullptr ? last_failure() : kOk;
}

Done expand(Build& build, Input x, const Sizes& wanted) {
  if (!build.sized() && !any_bound(wanted)) return {};
  Sizes sizes, out;
  ASTER_TRY(sizes_of(&sizes, build, x));
  if (wanted.size() < sizes.size()) return {};
  const size_t lead = wanted.size() - sizes.size();
  const Node all = whole(x);
  Dims memory;
  for (size_t k = 0; k < wanted.size(); ++k) {
    const Node now = k < lead ? nullptr : sizes[k - lead], want = wanted[k];
    const bool keeps = now != nullptr && (is_unknown(want) || want == now);
    if (keeps) {
      out.push(now);
      memory.push(all->dim(k - lead));
      continue;
    }
    if (now != nullptr && (is_bound(now) || uop::const_int(now) != 1)) return {};
    if (is_unknown(want)) return {};
    out.push(want);
    memory.push(want->vmax);
  }
  return build.finish(tensor::expand(build.graph(), all, memory), out);
}

// ---- Parts ----

Done shrink(Build& build, Input x, const Sizes& begin, const Sizes& end) {
  if (!build.sized() && !any_bound(begin) && !any_bound(end)) return {};
  Graph& g = build.graph();
  Sizes sizes, out;
  ASTER_TRY(sizes_of(&sizes, build, x));
  if (begin.size() != sizes.size() || end.size() != sizes.size()) return {};
  Node part = whole(x);
  for (size_t k = 0; k < sizes.size(); ++k) {
    const bool fits = holds_le(build, g.index(0), begin[k]) && holds_le(build, begin[k], end[k]) &&
                      holds_le(build, end[k], sizes[k]);
    const Node size = sym::sub(g, end[k], begin[k]);
    if (size == nullptr) return last_failure();
    if (!fits) return {};
    out.push(size);
    const Word most = size->vmax;
    if (is_bound(begin[k])) {
      Expr first;
      ASTER_TRY(value_of(&first, build.engine(), begin[k]));
      part = take(g, part, k, (places(g, most, 1, 0).cast(first.dtype()) + first).n);
    } else if (part != nullptr) {
      Dims from(part->ndim, 0), to(part->shape());
      from[k] = uop::const_int(begin[k]);
      to[k] = std::min(from[k] + most, to[k]);
      part = tensor::shrink(g, part, from, to);
    }
    if (part == nullptr) return last_failure();
  }
  return build.finish(part, out);
}

Done select(Build& build, Input x, int64_t axis, Node index) {
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Graph& g = build.graph();
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  const Node size = sizes[at];
  if (!build.sized() && !is_bound(index)) return {};
  if (!is_bound(index) && uop::const_int(index) < 0) index = sym::add(g, index, size);
  const Node next = sym::add(g, index, 1);
  if (next == nullptr) return last_failure();
  if (!holds_le(build, g.index(0), index) || !holds_le(build, next, size)) return {};
  sizes.remove(at);
  Node part = whole(x);
  ASTER_TRY(take_place(&part, build, at, index));
  return build.finish(part, sizes);
}

Status take_place(Node* part, Build& build, size_t axis, Node position) {
  Graph& g = build.graph();
  int64_t at = 0;
  if (is_bound(position)) {
    Expr place;
    ASTER_TRY(value_of(&place, build.engine(), position));
    *part = take(g, *part, axis, g.reshape(place.n, std::array<Word, 1>{1}));
  } else {
    at = uop::const_int(position);
  }
  if (*part != nullptr) *part = tensor::select(g, *part, static_cast<int64_t>(axis), at);
  return *part == nullptr ? last_failure() : kOk;
}

// Elements before and after; those after a variable size are written there by a mask.
Done pad(Build& build, Input x, const Sizes& before, const Sizes& after, const Filling& fill) {
  if (!build.sized() && !any_bound(before) && !any_bound(after)) return {};
  Graph& g = build.graph();
  Sizes sizes, out;
  ASTER_TRY(sizes_of(&sizes, build, x));
  if (before.size() != sizes.size() || after.size() != sizes.size()) return {};
  Node part = whole(x);
  Expr in{&g, nullptr};
  for (size_t k = 0; k < sizes.size(); ++k) {
    const Node total = sym::add(g, sym::add(g, before[k], sizes[k]), after[k]);
    if (total == nullptr) return last_failure();
    if (!holds_le(build, g.index(0), before[k]) || !holds_le(build, g.index(0), after[k]))
      return {};
    out.push(total);
    if (total == sizes[k]) continue;
    Expr first, size;
    ASTER_TRY(value_of(&first, build.engine(), before[k]));
    ASTER_TRY(value_of(&size, build.engine(), sizes[k]));
    const DType wide = dtype::least_upper(first.dtype(), size.dtype());
    const Expr place = places(g, total->vmax, sizes.size(), k).cast(wide) - first.cast(wide);
    const Expr here = (place >= 0.0) & (place < size.cast(wide));
    in = in.n == nullptr ? here : in & here;
    part = take(g, part, k, place.n);
    if (part == nullptr || in.n == nullptr) return last_failure();
  }
  if (in.n != nullptr) {
    part = keeping_weak(g, part, [&](Node y) {
      return where(in, Expr{&g, y}, Expr{&g, fill.in(g, y->dtype, y->shape())}).n;
    });
  }
  return build.finish(part, out);
}

Done flip(Build& build, Input x, Words axes) {
  if (!build.sized()) return {};
  Graph& g = build.graph();
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Dims seen(sizes.size(), 0);
  Node part = whole(x);
  for (Word axis : axes) {
    size_t at = 0;
    ASTER_TRY(resolve_axis(&at, axis, sizes.size()));
    if (seen[at]++ != 0) return {};
    if (!is_bound(sizes[at])) {
      part = tensor::flip(g, part, std::array<Word, 1>{static_cast<Word>(at)});
    } else if (part != nullptr) {
      Expr size;
      ASTER_TRY(value_of(&size, build.engine(), sizes[at]));
      part = take(g, part, at, (size - 1.0 - places(g, part->dim(at), 1, 0).cast(size.dtype())).n);
    }
    if (part == nullptr) return last_failure();
  }
  return build.finish(part, sizes);
}

// ---- Parts joined ----

namespace {

// Element j is that of the first, or of the second at j - size of the first.
Node join(Build& build, Node early, Node late, Node first, Node total, size_t axis) {
  Graph& g = build.graph();
  Expr start;
  if (!value_of(&start, build.engine(), first).ok()) return nullptr;
  const Expr line = places(g, total->vmax, 1, 0).cast(start.dtype());
  const Expr place = line - start;
  early = take(g, early, axis, line.n);
  late = take(g, late, axis, place.n);
  if (early == nullptr || late == nullptr) return nullptr;
  Dims shape(early->ndim, 1);
  shape[axis] = total->vmax;
  return where((place < 0.0).reshape(shape), Expr{&g, early}, Expr{&g, late}).n;
}

Done cat_sized(Build& build, std::span<const Sizes> sizes, std::span<Node> wholes, size_t axis) {
  Graph& g = build.graph();
  bool along = false;
  DType dtype = wholes[0]->dtype;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k].size() != sizes[0].size()) return {};
    for (size_t i = 0; i < sizes[k].size(); ++i) {
      if (i != axis && sizes[k][i] != sizes[0][i]) return {};
    }
    along |= is_bound(sizes[k][axis]);
    dtype = dtype::least_upper(dtype, wholes[k]->dtype);
  }
  for (size_t i = 0; i < sizes[0].size(); ++i) {
    if (i == axis) continue;
    Word least = INT64_MAX;
    for (Node part : wholes) least = std::min(least, part->dim(i));
    for (Node& part : wholes) part = cut(g, part, i, least);
    if (std::ranges::any_of(wholes, [](Node part) { return part == nullptr; }))
      return last_failure();
  }
  Sizes out = sizes[0];
  Node joined = tensor::cast(g, wholes[0], g.strong(dtype));
  for (size_t k = 1; k < sizes.size(); ++k) {
    const Node first = out[axis];
    out[axis] = sym::add(g, first, sizes[k][axis]);
    if (out[axis] == nullptr) return last_failure();
    if (!along) continue;
    joined =
        join(build, joined, tensor::cast(g, wholes[k], g.strong(dtype)), first, out[axis], axis);
    if (joined == nullptr) return last_failure();
  }
  if (!along) joined = tensor::cat(g, wholes, static_cast<int64_t>(axis));
  return build.finish(tensor::cast(g, joined, dtype), out);
}

Done join_all(Build& build, std::span<const Input> tensors, int64_t axis, bool fresh) {
  if (!build.sized()) return {};
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(tensors[0])->ndim + (fresh ? 1u : 0u)));
  Vec<Sizes> sizes(build.context().heap());
  Vec<Node> wholes(build.context().heap());
  for (Input x : tensors) {
    Sizes each;
    ASTER_TRY(sizes_of(&each, build, x));
    Node all = whole(x);
    if (fresh) {
      if (at > each.size()) return {};
      each.insert(at, build.graph().index(1));
      all = tensor::unsqueeze(build.graph(), all, static_cast<int64_t>(at));
    }
    if (all == nullptr) return last_failure();
    ASTER_TRY(sizes.push(each));
    ASTER_TRY(wholes.push(all));
  }
  return cat_sized(build, {sizes.data(), sizes.size()}, {wholes.data(), wholes.size()}, at);
}

}  // namespace

Done cat(Build& build, std::span<const Input> tensors, int64_t axis) {
  return join_all(build, tensors, axis, false);
}

Done stack(Build& build, std::span<const Input> tensors, int64_t axis) {
  return join_all(build, tensors, axis, true);
}

}  // namespace aster::tensor::sized
