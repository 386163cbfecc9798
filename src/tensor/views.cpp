// Views: parts, diagonals, triangles, windows and bits of a tensor; repetitions are
// repetition.cpp's.
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
using uop::Op;

Node nil(Status) { return nullptr; }
long long wide(int64_t value) { return value; }

// A list of one word an axis.
bool fits(Node x, Words list, const char* what) {
  if (list.size() == x->ndim) return true;
  (void)ASTER_FAIL(kSHAPE, "%s of %s by %zu sizes", what, brief(x).text, list.size());
  return false;
}

// x where keep(row index + offset, column index) holds, else 0.
template <typename F>
Node triangle(Graph& g, Node x, int64_t offset, const char* what, F keep) {
  if (x == nullptr) return nullptr;
  if (x->ndim < 2) {
    return nil(ASTER_FAIL(kSHAPE, "%s of %s: two axes are needed", what, brief(x).text));
  }
  // Beyond the matrix every offset is the same one.
  const Word rows = x->dim(x->ndim - 2u), columns = x->dim(x->ndim - 1u);
  const Word bounded = std::clamp<Word>(offset, -rows - 1, columns + 1);
  return keeping_weak(g, x, [&](Node n) {
    const Expr value{&g, n};
    const std::array shape{rows, columns};
    const Expr row = iota(g, DType::kInt64, shape, 0), column = iota(g, DType::kInt64, shape, 1);
    return where(keep(row + static_cast<double>(bounded), column), value, value.like(0)).n;
  });
}

// The unsigned integers of a size in bytes.
DType bits_of(size_t size) {
  constexpr DType kBits[] = {DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};
  return size == 1 ? kBits[0] : size == 2 ? kBits[1] : size == 4 ? kBits[2] : kBits[3];
}

// Every element apart into `ratio` narrower ones, lowest bits first.
Node split_bits(Graph& g, Node x, DType narrow, Word ratio) {
  Dims column(x->shape()), axes(x->shape()), joined(x->shape());
  column.push(1);
  axes.push(ratio);
  joined[x->ndim - 1u] *= ratio;
  const Expr shift = iota(g, x->dtype, axes, x->ndim) *
                     Expr{&g, g.constant_int(x->dtype, static_cast<int64_t>(dtype::bits(narrow)))};
  const Expr apart = alu(Op::kShr, Expr{&g, g.reshape(x, column)}, shift);
  return g.reshape(g.cast(apart.n, narrow), joined);
}

// `ratio` neighbours along the last axis become one wider element.
Node join_bits(Graph& g, Node x, DType wider, Word ratio) {
  const size_t last = x->ndim - 1u;
  Dims start(x->ndim, 0), step(x->ndim, 1), size(x->shape());
  size[last] /= ratio;
  step[last] = ratio;
  Expr whole{};
  for (Word k = 0; k < ratio; ++k) {
    start[last] = size[last] == 0 ? 0 : k;
    Expr part = Expr{&g, g.slice(x, start, step, size)}.cast(wider);
    if (k > 0)
      part = alu(Op::kShl, part, static_cast<double>(k * static_cast<Word>(dtype::bits(x->dtype))));
    whole = k == 0 ? part : whole | part;
  }
  return whole.n;
}

}  // namespace

Node shrink_to(Graph& g, Node x, Words shape) {
  if (x == nullptr || !fits(x, shape, "shrink_to")) return nullptr;
  Dims begin(x->ndim, 0), end(x->shape());
  for (size_t i = 0; i < x->ndim; ++i) {
    if (shape[i] != -1) end[i] = shape[i];
  }
  return shrink(g, x, begin, end);
}

Node pad_to(Graph& g, Node x, Words shape, const Filling& fill) {
  if (x == nullptr || !fits(x, shape, "pad_to")) return nullptr;
  Dims before(x->ndim, 0), after(x->ndim, 0);
  for (size_t i = 0; i < x->ndim; ++i) {
    if (shape[i] == -1) continue;
    if (shape[i] < x->dim(i)) {
      return nil(ASTER_FAIL(kRANGE, "pad_to of %s to %s", brief(x).text, brief_shape(shape).text));
    }
    after[i] = shape[i] - x->dim(i);
  }
  return pad(g, x, before, after, fill);
}

Node unflatten(Graph& g, Node x, int64_t axis, Words sizes) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  const auto refuse = [&](bool fits_shape) {
    return fits_shape ? nil(ASTER_FAIL(kRANGE, "unflatten of axis %zu of %s to %s", at,
                                       brief(x).text, brief_shape(sizes).text))
                      : nil(ASTER_FAIL(kSHAPE, "unflatten of axis %zu of %s to %s", at,
                                       brief(x).text, brief_shape(sizes).text));
  };
  Dims parts(sizes);
  int64_t known = 1;
  size_t inferred = sizes.size();
  if (sizes.size() + x->ndim > Dims::kMost) return refuse(true);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && inferred == sizes.size()) {
      inferred = i;
    } else if (sizes[i] < 0 || !checked_mul(known, sizes[i], &known)) {
      return refuse(true);
    }
  }
  if (inferred < sizes.size()) {
    if (known == 0 || x->dim(at) % known != 0) return refuse(false);
    parts[inferred] = x->dim(at) / known;
  } else if (known != x->dim(at)) {
    return refuse(false);
  }
  Dims shape;
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i != at) {
      shape.push(x->dim(i));
    } else {
      for (size_t k = 0; k < parts.size(); ++k) shape.push(parts[k]);
    }
  }
  return reshape(g, x, shape);
}

Node squeeze_all(Graph& g, Node x) {
  if (x == nullptr) return nullptr;
  Dims shape;
  for (Word dim : x->shape()) {
    if (dim != 1) shape.push(dim);
  }
  return reshape(g, x, shape);
}

Node unsqueeze(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim + 1u).ok()) return nullptr;
  Dims shape;
  for (size_t i = 0; i <= x->ndim; ++i) shape.push(i == at ? 1 : x->dim(i < at ? i : i - 1));
  return reshape(g, x, shape);
}

Node cut_axis(Graph& g, Node x, size_t axis, Word begin, Word end) {
  if (x == nullptr) return nullptr;
  Dims from(x->ndim, 0), to(x->shape());
  from[axis] = begin;
  to[axis] = end;
  return shrink(g, x, from, to);
}

Node diag(Graph& g, Node x) {
  if (x == nullptr) return nullptr;
  if (x->ndim != 1) return nil(ASTER_FAIL(kSHAPE, "diag of %s: one axis is needed", brief(x).text));
  // Rows one longer than the matrix's put their first elements on its diagonal.
  const Word n = x->dim(0);
  const std::array<Word, 2> none{0, 0}, right{0, n};
  const Node apart = pad(g, unsqueeze(g, x, 1), none, right, 0, DType::kWeakInt);
  const Node flat = reshape(g, apart, std::array<Word, 1>{-1});
  int64_t count;
  if (flat == nullptr) return nullptr;
  if (!checked_mul(n, n, &count)) return nil(ASTER_FAIL(kRANGE, "diag of %s", brief(x).text));
  return reshape(g, cut_axis(g, flat, 0, 0, count), std::array{n, n});
}

Node diagonal(Graph& g, Node x, int64_t offset, int64_t axis0, int64_t axis1) {
  size_t a, b;
  if (x == nullptr || !resolve_axis(&a, axis0, x->ndim).ok() ||
      !resolve_axis(&b, axis1, x->ndim).ok()) {
    return nullptr;
  }
  if (a == b)
    return nil(ASTER_FAIL(kRANGE, "diagonal of %s along axis %zu twice", brief(x).text, a));
  Dims order, flat;
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i == a || i == b) continue;
    order.push(static_cast<Word>(i));
    flat.push(x->dim(i));
  }
  order.push(static_cast<Word>(a));
  order.push(static_cast<Word>(b));
  const Word rows = x->dim(a), columns = x->dim(b);
  const Word row = offset >= 0 ? 0 : offset < -rows ? rows : -offset;
  const Word column = std::clamp<Word>(offset, 0, columns);
  const size_t last = flat.size();
  flat.push(rows * columns);
  Dims start(last + 1, 0), step(last + 1, 1), size(flat);
  size[last] = std::min(rows - row, columns - column);
  if (size[last] > 0) start[last] = row * columns + column;
  step[last] = columns + 1;
  return keeping_weak(g, x, [&](Node n) {
    return g.slice(g.reshape(g.permute(n, order), flat), start, step, size);
  });
}

Node tril(Graph& g, Node x, int64_t diagonal) {
  return triangle(g, x, diagonal, "tril", [](Expr i, Expr j) { return j <= i; });
}

Node triu(Graph& g, Node x, int64_t diagonal) {
  return triangle(g, x, diagonal, "triu", [](Expr i, Expr j) { return j >= i; });
}

Node unfold(Graph& g, Node x, int64_t axis, int64_t size, int64_t step) {
  size_t at;
  if (x == nullptr || !resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  if (size < 0 || step < 1 || size > x->dim(at)) {
    return nil(ASTER_FAIL(kRANGE, "unfold of axis %zu of %s by windows of %lld every %lld", at,
                          brief(x).text, wide(size), wide(step)));
  }
  return keeping_weak(g, x, [&](Node n) {
    if (size == 0) {  // windows of nothing
      Dims shape(n->shape());
      shape[at] = n->dim(at) / step + 1;
      shape.push(0);
      return g.constant_int(n->dtype, 0, shape);
    }
    Dims order;
    for (size_t i = 0; i <= n->ndim; ++i) {
      if (i != at + 1) order.push(static_cast<Word>(i));
    }
    order.push(static_cast<Word>(at + 1));
    return g.permute(g.window(n, static_cast<int64_t>(at), size, step, 1), order);
  });
}

Node bitcast_resized(Graph& g, Node x, DType dtype) {
  if (x == nullptr) return nullptr;
  const size_t from = dtype::size(x->dtype), to = dtype::size(dtype);
  const Word ratio = static_cast<Word>(std::max(from, to) / std::min(from, to));
  int64_t grown;
  if (x->ndim == 0 || (to > from && x->dim(x->ndim - 1u) % ratio != 0) ||
      !checked_mul(x->dim(x->ndim - 1u), ratio, &grown)) {
    return nil(ASTER_FAIL(kSHAPE, "bitcast of %s to %s: the last axis does not divide",
                          brief(x).text, dtype::name(dtype)));
  }
  const Node bits = g.bitcast(x, bits_of(from));
  if (bits == nullptr) return nullptr;
  const Node resized =
      to < from ? split_bits(g, bits, bits_of(to), ratio) : join_bits(g, bits, bits_of(to), ratio);
  return g.bitcast(resized, dtype);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;
using aster::uop::brief;

namespace {

// The parts of x between ascending bounds of an axis, count of them.
template <typename Bound>
Status finish_parts(aster_ml_lazy* out, Build& build, Node x, size_t axis, size_t count,
                    Bound bound) {
  aster::Vec<Node> parts(build.context().heap());
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(parts.push(cut_axis(build.graph(), x, axis, bound(i), bound(i + 1))));
  }
  return make_handles(out, build, {parts.data(), parts.size()});
}

}  // namespace

int32_t aster_ml_lazy_shrink_to(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                                const int64_t* shape) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words to;
  ASTER_TRY(shape_argument(&to, count, shape));
  return build.finish(shrink_to(build.graph(), node(x), to));
}

int32_t aster_ml_lazy_pad_to(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                             const int64_t* shape, const aster_ml_scalar* fill) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words to;
  ASTER_TRY(shape_argument(&to, count, shape));
  Filling filling;
  if (fill != nullptr) ASTER_TRY(filling_argument(&filling, build, fill));
  return build.finish(pad_to(build.graph(), node(x), to, filling));
}

int32_t aster_ml_lazy_unflatten(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                                size_t count, const int64_t* sizes) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words to;
  ASTER_TRY(shape_argument(&to, count, sizes));
  return build.finish(unflatten(build.graph(), node(x), axis, to));
}

int32_t aster_ml_lazy_squeeze_all(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  return build.finish(squeeze_all(build.graph(), node(x)));
}

int32_t aster_ml_lazy_split(aster_ml_lazy* out, size_t count, const aster_ml_lazy* x,
                            const int64_t* sizes, int64_t axis) {
  ASTER_API();
  ASTER_TRY(clear_handles(out, count, std::array{x}));
  aster_ml_lazy unused{};
  Build build(&unused, {x});
  ASTER_TRY(build.status());
  size_t at;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  if (sizes == nullptr && count != 0)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu sizes", count);
  Word total = 0;
  aster::Vec<Word> bounds(build.context().heap());
  ASTER_TRY(bounds.push(0));
  for (size_t i = 0; i < count; ++i) {
    if (sizes[i] < 0 || !aster::checked_add(total, sizes[i], &total)) {
      return ASTER_FAIL(kRANGE, "split of axis %zu of %s: a part of %lld elements", at,
                        brief(node(x)).text, wide(sizes[i]));
    }
    ASTER_TRY(bounds.push(total));
  }
  if (total != node(x)->dim(at)) {
    return ASTER_FAIL(kSHAPE, "split of axis %zu of %s: parts of %lld elements in all", at,
                      brief(node(x)).text, wide(total));
  }
  return finish_parts(out, build, node(x), at, count, [&](size_t i) { return bounds[i]; });
}

namespace {

// Parts of one size along an axis, the last of what is left: measure(&size, dim) says the size.
// Of an empty axis `of_empty` parts.
template <typename Measure>
Status split_evenly(aster_ml_lazy* out, size_t* out_count, size_t capacity, size_t of_empty,
                    Input x, int64_t axis, Measure measure) {
  if (out_count != nullptr) *out_count = 0;
  ASTER_TRY(clear_handles(out, capacity, std::array{x}));
  if (out_count == nullptr) return ASTER_FAIL(kARGUMENT, "out_count is a null pointer");
  aster_ml_lazy unused{};
  Build build(&unused, {x});
  ASTER_TRY(build.status());
  size_t at;
  ASTER_TRY(resolve_axis(&at, axis, node(x)->ndim));
  const Word dim = node(x)->dim(at);
  Word size = 0;
  ASTER_TRY(measure(&size, at, dim));
  const size_t parts = dim == 0 ? of_empty : static_cast<size_t>((dim - 1) / size + 1);
  if (parts > capacity) {
    return ASTER_FAIL(kRANGE, "split of axis %zu of %s: %zu parts, room for %zu", at,
                      brief(node(x)).text, parts, capacity);
  }
  ASTER_TRY(finish_parts(out, build, node(x), at, parts,
                         [&](size_t i) { return i >= parts ? dim : static_cast<Word>(i) * size; }));
  *out_count = parts;
  return kOk;
}

}  // namespace

int32_t aster_ml_lazy_split_every(aster_ml_lazy* out, size_t* out_count, size_t capacity,
                                  const aster_ml_lazy* x, int64_t size, int64_t axis) {
  ASTER_API();
  return split_evenly(out, out_count, capacity, 1, x, axis,
                      [&](Word* each, size_t at, Word dim) -> Status {
                        *each = size;
                        if (size >= (dim == 0 ? 0 : 1)) return kOk;
                        return ASTER_FAIL(kRANGE, "split of axis %zu of %s: parts of %lld elements",
                                          at, brief(node(x)).text, wide(size));
                      });
}

int32_t aster_ml_lazy_chunk(aster_ml_lazy* out, size_t* out_count, size_t chunks,
                            const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return split_evenly(
      out, out_count, chunks, chunks, x, axis, [&](Word* each, size_t, Word dim) -> Status {
        if (chunks == 0)
          return ASTER_FAIL(kRANGE, "chunk of %s into no parts", brief(node(x)).text);
        const Word most =
            chunks > static_cast<size_t>(dim) ? std::max<Word>(dim, 1) : static_cast<Word>(chunks);
        *each = (dim + most - 1) / most;
        return kOk;
      });
}

int32_t aster_ml_lazy_meshgrid(aster_ml_lazy* out, const aster_ml_lazy* const* tensors,
                               size_t count, aster_ml_indexing indexing) {
  ASTER_API();
  ASTER_TRY(clear_handles(out, count, {tensors, tensors == nullptr ? 0 : count}));
  aster_ml_lazy unused{};
  Build build(&unused, tensors, count);
  ASTER_TRY(build.status());
  if (indexing != ASTER_ML_INDEXING_IJ && indexing != ASTER_ML_INDEXING_XY) {
    return ASTER_FAIL(kARGUMENT, "unknown indexing %d", indexing);
  }
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kUNSUPPORTED, "a grid of %zu axes", count);
  const auto axis_of = [&](size_t i) {
    return indexing == ASTER_ML_INDEXING_XY && count > 1 && i < 2 ? 1 - i : i;
  };
  aster::uop::Dims shape(count, 1);
  for (size_t i = 0; i < count; ++i) {
    if (node(tensors[i])->ndim > 1) {
      return ASTER_FAIL(kSHAPE, "meshgrid of %s: at most one axis is expected",
                        brief(node(tensors[i])).text);
    }
    shape[axis_of(i)] = node(tensors[i])->count();
  }
  aster::Vec<Node> grids(build.context().heap());
  for (size_t i = 0; i < count; ++i) {
    aster::uop::Dims alone(count, 1);
    alone[axis_of(i)] = shape[axis_of(i)];
    const Node x = node(tensors[i]);
    Graph& g = build.graph();
    ASTER_TRY(grids.push(count == 1 ? x : expand(g, reshape(g, x, alone), shape)));
  }
  return make_handles(out, build, {grids.data(), count});
}

int32_t aster_ml_lazy_diag(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (build.sized() && node(x)->ndim == 1) {
    Sizes sizes;
    ASTER_TRY(sized::sizes_of(&sizes, build, x));
    sizes.push(sizes[0]);
    return build.finish(diag(build.graph(), sized::whole(x)), sizes);
  }
  return build.finish(diag(build.graph(), node(x)));
}

int32_t aster_ml_lazy_diagonal(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t offset,
                               int64_t axis0, int64_t axis1) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  return build.finish(diagonal(build.graph(), node(x), offset, axis0, axis1));
}

int32_t aster_ml_lazy_tril(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t diagonal) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(tril(build.graph(), node(x), diagonal));
}

int32_t aster_ml_lazy_triu(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t diagonal) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(triu(build.graph(), node(x), diagonal));
}

int32_t aster_ml_lazy_unfold(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis, int64_t size,
                             int64_t step) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (const sized::Done done = sized::unfold(build, x, axis, size, step)) return done->code;
  return build.finish(unfold(build.graph(), node(x), axis, size, step));
}
