// Rules (sized.h) of windows along the last axes: convolutions and pools.
#include <algorithm>
#include <array>

#include "tensor/sized.h"
#include "tensor/spatial.h"

namespace aster::tensor::sized {

using uop::Dims;

namespace {

// Shows x with a fill beyond its last axes that are variables'; count gives what becomes of the
// size of one of them, nil where that is not to be said.
template <typename Count>
Status along_last(Build& build, Input x, size_t rank, Fill fill, Node* within, Count count) {
  if (!build.sized_alone(x) || node(x)->ndim < rank) return kOk;
  const size_t lead = node(x)->ndim - rank;
  Sizes sizes, out;
  Dims axes;
  ASTER_TRY(sizes_of(&sizes, build, x));
  out = sizes;
  for (size_t i = 0; i < rank; ++i) {
    if (!is_bound(sizes[lead + i])) continue;
    axes.push(static_cast<Word>(lead + i));
    ASTER_TRY(count(&out[lead + i], sizes[lead + i], i));
    if (out[lead + i] == nullptr) return kOk;
  }
  Node seen = nullptr;
  ASTER_TRY(masked(&seen, build, whole(x), sizes, axes, fill));
  if (within != nullptr) {
    Expr in;
    ASTER_TRY(inside(&in, build.engine(), seen->shape(), sizes, axes));
    *within = in.n;
  }
  build.show(x, seen);
  build.take_rule(out);
  return kOk;
}

}  // namespace

bool bound_among(Build& build, Input x, size_t first, size_t last) {
  Sizes sizes;
  if (!build.sized() || !sizes_of(&sizes, build, x).ok()) return false;
  for (size_t i = first; i <= last && i < sizes.size(); ++i) {
    if (is_bound(sizes[i])) return true;
  }
  return false;
}

// As many windows as fit, whatever the values are; rounded up their number is seen.
Status windows(Build& build, Input x, const Windows& w, Fill fill, bool up, Node* within) {
  Graph& g = build.graph();
  return along_last(build, x, w.rank, fill, within, [&](Node* out, Node size, size_t i) {
    const Node room = sym::add(g, size, w.before[i] + w.after[i] - w.span(i));
    *out = room == nullptr ? nullptr : sym::add(g, sym::floordiv(g, room, w.stride[i]), 1);
    if (*out == nullptr) return last_failure();
    if (up || w.after[i] < 0 || !holds_le(build, g.index(0), room)) *out = nullptr;
    return kOk;
  });
}

Status windows_back(Build& build, Input x, const Windows& w, const Dims& more) {
  Graph& g = build.graph();
  return along_last(build, x, w.rank, Fill::kZero, nullptr, [&](Node* out, Node size, size_t i) {
    const Word ends = w.span(i) - w.before[i] - w.after[i] + more[i] - w.stride[i];
    *out = sym::add(g, sym::mul(g, size, w.stride[i]), ends);
    if (*out == nullptr) return last_failure();
    if (!holds_le(build, g.index(1), *out)) *out = nullptr;
    return kOk;
  });
}

Status paired(Build& build, Input a, Input b, size_t rank) {
  if (!build.sized()) return kOk;
  Sizes sizes, others;
  ASTER_TRY(sizes_of(&sizes, build, a));
  ASTER_TRY(sizes_of(&others, build, b));
  const bool equal = std::ranges::equal(Nodes(sizes), Nodes(others));
  if (!equal || bound_among(build, a, sizes.size() - rank, sizes.size())) return kOk;
  return elementwise(build, {a, b});
}

}  // namespace aster::tensor::sized
