// Elements that stand in several places: rolling, repeating, padding with a tensor's own elements.
#include <algorithm>
#include <array>

#include "aster_ml/movement.h"
#include "tensor/api.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::brief_shape;
using uop::Dims;

Node nil(Status) { return nullptr; }
long long wide(int64_t value) { return value; }

// The parts that hold anything, joined.
Node join(Graph& g, std::initializer_list<Node> parts, size_t axis) {
  std::array<Node, 3> kept{};
  size_t count = 0;
  Node empty = nullptr;
  for (Node part : parts) {
    if (part == nullptr) return nullptr;
    if (part->dim(axis) > 0) kept[count++] = part;
    empty = part;
  }
  if (count == 0) return empty;
  return cat(g, Nodes(kept.data(), count), static_cast<int64_t>(axis));
}

// What padding puts before (or behind) an axis of n elements.
Node border(Graph& g, Node x, size_t axis, Word amount, bool behind, Padding mode) {
  const Word n = x->dim(axis);
  if (mode == Padding::kCircular) {
    return behind ? cut_axis(g, x, axis, 0, amount) : cut_axis(g, x, axis, n - amount, n);
  }
  if (mode == Padding::kReplicate) {
    Dims shape(x->shape());
    shape[axis] = amount;
    const Word at = behind ? n - 1 : 0;
    return amount == 0 ? cut_axis(g, x, axis, 0, 0)
                       : g.expand(cut_axis(g, x, axis, at, at + 1), shape);
  }
  Dims mask(x->ndim, 0);
  mask[axis] = 1;
  return g.flip(
      behind ? cut_axis(g, x, axis, n - 1 - amount, n - 1) : cut_axis(g, x, axis, 1, 1 + amount),
      mask);
}

}  // namespace

Node roll(Graph& g, Node x, Words shifts, const int64_t* axes) {
  if (x == nullptr) return nullptr;
  if (axes == nullptr) {
    if (shifts.size() != 1) {
      return nil(ASTER_FAIL(kSHAPE, "roll of %s by %zu shifts without axes", brief(x).text,
                            shifts.size()));
    }
    const int64_t first = 0;
    const Dims shape(x->shape());
    const Node flat = reshape(g, x, std::array{x->count()});
    return reshape(g, roll(g, flat, shifts, &first), shape);
  }
  for (size_t i = 0; i < shifts.size() && x != nullptr; ++i) {
    size_t at;
    if (!resolve_axis(&at, axes[i], x->ndim).ok()) return nullptr;
    const Word n = x->dim(at);
    if (x->count() == 0) continue;
    const Word by = (shifts[i] % n + n) % n;
    if (by != 0) x = join(g, {cut_axis(g, x, at, n - by, n), cut_axis(g, x, at, 0, n - by)}, at);
  }
  return x;
}

Node repeat(Graph& g, Node x, Words repeats) {
  if (x == nullptr) return nullptr;
  if (repeats.size() < x->ndim || 2 * repeats.size() > Dims::kMost) {
    return nil(ASTER_FAIL(kSHAPE, "repeat of %s by %zu numbers", brief(x).text, repeats.size()));
  }
  Dims apart, repeated, shape;
  const size_t lead = repeats.size() - x->ndim;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const Word dim = i < lead ? 1 : x->dim(i - lead);
    int64_t total;
    if (repeats[i] < 0 || !checked_mul(dim, repeats[i], &total)) {
      return nil(
          ASTER_FAIL(kRANGE, "repeat of %s by %s", brief(x).text, brief_shape(repeats).text));
    }
    apart.push(1);
    apart.push(dim);
    repeated.push(repeats[i]);
    repeated.push(dim);
    shape.push(total);
  }
  return reshape(g, expand(g, reshape(g, x, apart), repeated), shape);
}

Node repeat_interleave(Graph& g, Node x, int64_t repeats, int64_t axis) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  Dims shape(x->shape()), apart;
  if (repeats < 0 || !checked_mul(shape[at], repeats, &shape[at])) {
    return nil(ASTER_FAIL(kRANGE, "repeat_interleave of %s by %lld", brief(x).text, wide(repeats)));
  }
  const Node column = unsqueeze(g, x, static_cast<int64_t>(at) + 1);
  if (column == nullptr) return nullptr;
  apart = Dims(column->shape());
  apart[at + 1] = repeats;
  return reshape(g, expand(g, column, apart), shape);
}

Node pad_mode(Graph& g, Node x, Words before, Words after, Padding mode) {
  if (x == nullptr) return nullptr;
  const size_t rank = x->ndim;
  if (before.size() != rank || after.size() != rank) {
    return nil(ASTER_FAIL(kSHAPE, "pad of %s by %zu amounts", brief(x).text, before.size()));
  }
  // Negative amounts, as pad takes them: wrapping sees what they leave, the others all there is.
  Dims lead(before), trail(after), cut_lead(rank, 0), cut_trail(rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    cut_lead[i] = std::min<Word>(before[i], 0);
    cut_trail[i] = std::min<Word>(after[i], 0);
    lead[i] = std::max<Word>(before[i], 0);
    trail[i] = std::max<Word>(after[i], 0);
  }
  Dims whole(x->shape());
  int64_t count;
  bool fits = true;
  for (size_t i = 0; i < rank; ++i) {
    fits &= checked_add(whole[i], lead[i], &whole[i]) && checked_add(whole[i], trail[i], &whole[i]);
  }
  if (!fits || !uop::count_elements(whole, &count)) {
    return nil(ASTER_FAIL(kRANGE, "pad of %s by %s before, %s after", brief(x).text,
                          brief_shape(before).text, brief_shape(after).text));
  }
  if (mode == Padding::kCircular) x = pad(g, x, cut_lead, cut_trail, 0, DType::kWeakInt);
  if (x == nullptr) return nullptr;
  for (size_t i = 0; i < rank; ++i) {
    const Word n = x->dim(i), most = std::max(lead[i], trail[i]);
    const Word supply = mode == Padding::kReflect ? n - 1 : mode == Padding::kCircular ? n : most;
    if (most > 0 && (most > supply || n == 0)) {
      return nil(ASTER_FAIL(kRANGE, "pad of axis %zu of %s by %lld before, %lld after", i,
                            brief(x).text, wide(lead[i]), wide(trail[i])));
    }
  }
  const Node padded = keeping_weak(g, x, [&](Node n) {
    for (size_t i = 0; i < rank && n != nullptr; ++i) {
      if (lead[i] == 0 && trail[i] == 0) continue;
      n = join(g, {border(g, n, i, lead[i], false, mode), n, border(g, n, i, trail[i], true, mode)},
               i);
    }
    return n;
  });
  return mode == Padding::kCircular ? padded
                                    : pad(g, padded, cut_lead, cut_trail, 0, DType::kWeakInt);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::Status;

int32_t aster_ml_lazy_roll(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                           const int64_t* shifts, const int64_t* axes) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words by;
  ASTER_TRY(shape_argument(&by, count, shifts));
  if (axes != nullptr) {
    if (const sized::Done done = sized::roll(build, x, by, {axes, count})) return done->code;
  }
  return build.finish(roll(build.graph(), node(x), by, axes));
}

int32_t aster_ml_lazy_repeat(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                             const int64_t* repeats) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words times;
  ASTER_TRY(shape_argument(&times, count, repeats));
  if (const sized::Done done = sized::repeat(build, x, times)) return done->code;
  return build.finish(repeat(build.graph(), node(x), times));
}

int32_t aster_ml_lazy_repeat_interleave(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t repeats,
                                        int64_t axis) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (const sized::Done done = sized::repeat_interleave(build, x, repeats, axis)) return done->code;
  return build.finish(repeat_interleave(build.graph(), node(x), repeats, axis));
}

int32_t aster_ml_lazy_pad_mode(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                               const int64_t* before, const int64_t* after, aster_ml_padding mode,
                               const aster_ml_scalar* fill) {
  ASTER_API();
  if (mode == ASTER_ML_PADDING_CONSTANT)
    return aster_ml_lazy_pad(out, x, count, before, after, fill);
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words lead, trail;
  ASTER_TRY(shape_argument(&lead, count, before));
  ASTER_TRY(shape_argument(&trail, count, after));
  if (mode < ASTER_ML_PADDING_CONSTANT || mode > ASTER_ML_PADDING_CIRCULAR) {
    return ASTER_FAIL(kARGUMENT, "unknown padding %d", mode);
  }
  const auto how = static_cast<Padding>(mode);
  if (const sized::Done done = sized::pad_mode(build, x, lead, trail, how)) return done->code;
  return build.finish(pad_mode(build.graph(), node(x), lead, trail, how));
}
