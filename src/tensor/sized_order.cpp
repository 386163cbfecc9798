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
  if (room->vmin < 0) return {};
  sizes[at] = sym::add(g, sym::floordiv(g, room, step), 1);
  sizes.push(g.index(size));
  return build.finish(tensor::unfold(g, whole(x), axis, size, step), sizes);
}

}  // namespace aster::tensor::sized
