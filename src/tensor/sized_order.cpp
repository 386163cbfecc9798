// Rules (sized.h) of elements that come again, in windows or in another order.
#include <algorithm>
#include <array>

#include "tensor/functions.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor::sized {

using uop::Dims;
using uop::Op;

namespace {

// Positions as int64, so that sums with a size of any dtype hold.
Expr line(Graph& g, Word count) { return places(g, count, 1, 0).cast(DType::kInt64); }

}  // namespace

// Element i is that of i - shift, counted around the size.
Done roll(Build& build, Input x, Words shifts, Words axes) {
  if (!build.sized()) return {};
  Graph& g = build.graph();
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Node part = whole(x);
  for (size_t k = 0; k < axes.size(); ++k) {
    size_t at = 0;
    ASTER_TRY(resolve_axis(&at, axes[k], sizes.size()));
    const auto axis = static_cast<Word>(at);
    if (!is_bound(sizes[at])) {
      part = tensor::roll(g, part, {&shifts[k], 1}, &axis);
    } else if (part != nullptr) {
      Expr size;
      ASTER_TRY(value_of(&size, build.engine(), sizes[at]));
      size = uop::max(size.cast(DType::kInt64), 1.0);
      const Expr from{&g, g.constant_int(DType::kInt64, shifts[k])};
      part = take(g, part, at, alu(Op::kFloorMod, line(g, part->dim(at)) - from, size).n);
    }
    if (part == nullptr) return last_failure();
  }
  return build.finish(part, sizes);
}

namespace {

// An axis of n elements with others of its own before and behind it; negative amounts cut.
struct Border {
  Build& build;
  Graph& g;
  Node n;
  Word before, after;

  Node plus(Node size, Word by) const { return sym::add(g, size, by); }
  Word most() const { return std::max(before, after); }

  // Element i of the result is that of x at a place; nil where the axis is too short.
  Expr reflected(Expr i, Expr last) const {
    if (most() > 0 && !holds_le(build, g.index(most()), plus(n, -1))) return {};
    const Expr place = i - static_cast<double>(before);
    return last - abs(last - abs(place));
  }
  Expr replicated(Expr i, Expr last) const {
    if (most() > 0 && !holds_le(build, g.index(1), n)) return {};
    return min(max(i - static_cast<double>(before), 0.0), last);
  }
  // What is cut is gone before it comes round.
  Expr circular(Expr i, Expr last) const {
    const Word cut = std::min<Word>(before, 0) + std::min<Word>(after, 0);
    if (!holds_le(build, g.index(std::max<Word>(most(), 0)), plus(n, cut))) return {};
    const Expr left = max(last + static_cast<double>(1 + cut), 1.0);
    const Expr turned =
        alu(Op::kFloorMod, i - static_cast<double>(std::max<Word>(before, 0)), left);
    return turned - static_cast<double>(std::min<Word>(before, 0));
  }
};

}  // namespace

Done pad_mode(Build& build, Input x, Words before, Words after, Padding mode) {
  if (!build.sized() || before.size() != node(x)->ndim || after.size() != before.size()) return {};
  Graph& g = build.graph();
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Dims lead(before), trail(after);
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (is_bound(sizes[k])) lead[k] = trail[k] = 0;
  }
  Node part = tensor::pad_mode(g, whole(x), lead, trail, mode);
  for (size_t k = 0; k < sizes.size() && part != nullptr; ++k) {
    if (!is_bound(sizes[k]) || (before[k] == 0 && after[k] == 0)) {
      sizes[k] = sym::add(g, sizes[k], lead[k] + trail[k]);
      continue;
    }
    const Node total = sym::add(g, sym::add(g, sizes[k], before[k]), after[k]);
    if (!holds_le(build, g.index(0), total)) return {};
    Expr size;
    ASTER_TRY(value_of(&size, build.engine(), sizes[k]));
    const Border border{build, g, sizes[k], before[k], after[k]};
    const Expr i = line(g, total->vmax), last = size.cast(DType::kInt64) - 1.0;
    const Expr place = mode == Padding::kReflect     ? border.reflected(i, last)
                       : mode == Padding::kReplicate ? border.replicated(i, last)
                                                     : border.circular(i, last);
    if (place.g == nullptr) return {};
    part = take(g, part, k, place.n);
    sizes[k] = total;
  }
  return build.finish(part, sizes);
}

Done repeat(Build& build, Input x, Words times) {
  if (!build.sized() || times.size() < node(x)->ndim) return {};
  if (std::ranges::any_of(times, [](Word n) { return n < 0; })) return {};
  Graph& g = build.graph();
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  Node part = whole(x);
  Dims shape(part->shape()), plain(times);
  const size_t lead = times.size() - sizes.size();
  for (size_t i = 0; i < lead; ++i) sizes.insert(0, g.index(1));
  Dims all(lead, 1);
  for (Word size : Words(shape)) all.push(size);
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (is_bound(sizes[k])) plain[k] = 1;
  }
  part = tensor::repeat(g, tensor::reshape(g, part, all), plain);
  for (size_t k = 0; k < sizes.size() && part != nullptr; ++k) {
    if (!is_bound(sizes[k]) || times[k] == 1) {
      sizes[k] = sym::mul(g, sizes[k], times[k]);
      continue;
    }
    Expr size;
    ASTER_TRY(value_of(&size, build.engine(), sizes[k]));
    size = uop::max(size.cast(DType::kInt64), 1.0);
    Word most = 0;
    if (!checked_mul(part->dim(k), times[k], &most)) return {};
    part = take(g, part, k, alu(Op::kFloorMod, line(g, most), size).n);
    sizes[k] = sym::mul(g, sizes[k], times[k]);
  }
  return build.finish(part, sizes);
}

Done repeat_interleave(Build& build, Input x, int64_t repeats, int64_t axis) {
  if (!build.sized() || repeats < 0) return {};
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  sizes[at] = sym::mul(build.graph(), sizes[at], repeats);
  return build.finish(tensor::repeat_interleave(build.graph(), whole(x), repeats, axis), sizes);
}

Done unfold(Build& build, Input x, int64_t axis, int64_t size, int64_t step) {
  if (!build.sized() || size < 0 || step < 1) return {};
  Graph& g = build.graph();
  size_t at = 0;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  Sizes sizes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  const Node room = sym::sub(g, sizes[at], g.index(size));
  if (room == nullptr) return last_failure();
  if (!holds_le(build, g.index(0), room)) return {};
  sizes[at] = sym::add(g, sym::floordiv(g, room, step), 1);
  sizes.push(g.index(size));
  return build.finish(tensor::unfold(g, whole(x), axis, size, step), sizes);
}

}  // namespace aster::tensor::sized
