// Resampling, one axis after the other. Positions are integer arithmetic, so that whole factors
// read exactly the elements that they should.
#include <array>
#include <limits>

#include "aster_ml/spatial.h"
#include "tensor/api.h"
#include "tensor/sized.h"
#include "tensor/spatial.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

Node nil(Status) { return nullptr; }

struct Resample {
  aster_ml_interpolation mode;
  bool align_corners, strict;
};

// 0, 1, 2, ... along an axis of `size`, of a dtype that holds products up to `most`.
Expr counter(Graph& g, Word size, double most) {
  const DType dtype = most < std::numeric_limits<int32_t>::max() ? DType::kInt32 : DType::kInt64;
  return {&g, g.iota(dtype, size)};
}

// x at the positions of `index`, [size], along an axis.
Node take(Graph& g, Node x, size_t axis, Expr index) {
  if (x == nullptr || index.n == nullptr) return nullptr;
  Dims shape(x->shape()), column(x->ndim, 1), coordinates;
  shape[axis] = column[axis] = index.shape()[0];
  for (size_t i = 0; i < x->ndim; ++i) coordinates.push(i == axis ? -1 : static_cast<Word>(i));
  return g.gather(x, std::array{index.reshape(column).expand(shape).n}, coordinates, shape);
}

// Which element nearest takes; strict: through float32, as tinygrad.
Expr nearest_index(Graph& g, Word n, Word size, const Resample& r) {
  const bool exact = r.mode == ASTER_ML_INTERPOLATION_NEAREST_EXACT;
  if (r.strict) {
    const Expr i = Expr{&g, g.iota(DType::kFloat32, size)};
    const double scale = static_cast<double>(n) / static_cast<double>(size);
    return ((exact ? i + 0.5 : i) * scale).cast(DType::kInt32);
  }
  const Expr i = counter(g, size, 2.0 * static_cast<double>(n) * static_cast<double>(size));
  const double from = static_cast<double>(n), to = static_cast<double>(size);
  if (exact) return alu(Op::kFloorDiv, (i * 2.0 + 1.0) * from, 2 * to);
  return alu(Op::kFloorDiv, i * from, to);
}

Node nearest(Graph& g, Node x, size_t axis, Word size, const Resample& r) {
  const Word n = x->dim(axis);
  if (size % n == 0 && !r.strict) {
    return repeat_interleave(g, x, size / n, static_cast<int64_t>(axis));
  }
  if (n % size == 0 && !r.strict) {  // every (n / size)-th element
    const Word step = n / size;
    Dims start(x->ndim, 0), steps(x->ndim, 1), shape(x->shape());
    if (r.mode == ASTER_ML_INTERPOLATION_NEAREST_EXACT) start[axis] = step / 2;
    steps[axis] = step;
    shape[axis] = size;
    return g.slice(x, start, steps, shape);
  }
  return take(g, x, axis, nearest_index(g, n, size, r));
}

// x [float], between the neighbours of num / den.
Node linear(Graph& g, Node x, size_t axis, Word size, const Resample& r) {
  const Word n = x->dim(axis);
  const double from = static_cast<double>(n), to = static_cast<double>(size);
  const Expr i = counter(g, size, 2 * from * (to + 1) + 2 * to);
  const double den = r.align_corners ? std::max<double>(to - 1, 1) : 2 * to;
  Expr num = r.align_corners ? i * (from - 1) : i * (2 * from) + (from - to);
  if (!r.align_corners && to > from) num = min(max(num, 0.0), (from - 1) * den);  // beyond an edge
  const Expr low = alu(Op::kFloorDiv, num, den), high = alu(Op::kFloorDiv, num + (den - 1), den);
  Dims column(x->ndim, 1);
  column[axis] = size;
  const Expr rest = alu(Op::kFloorMod, num, den).cast(x->dtype) / den;
  const Expr a{&g, take(g, x, axis, low)}, b{&g, take(g, x, axis, high)};
  return (a + (b - a) * rest.reshape(column)).n;
}

Node interpolate(Graph& g, Node x, Words sizes, const Resample& r) {
  if (x == nullptr) return nullptr;
  const DType given = x->dtype;
  const bool is_linear = r.mode == ASTER_ML_INTERPOLATION_LINEAR;
  if (is_linear && dtype::is_wide(given))
    return nil(ASTER_FAIL(kUNSUPPORTED, "linear interpolate of %s", brief(x).text));
  if (is_linear && given != DType::kFloat64) x = g.cast(x, DType::kFloat32);
  bool resampled = false;
  for (size_t k = sizes.size(); k-- > 0 && x != nullptr;) {
    const size_t axis = x->ndim - sizes.size() + k;
    const Word n = x->dim(axis), size = sizes[k];
    if (n == size) continue;
    if (n == 0) {
      return nil(ASTER_FAIL(kSHAPE, "interpolate of %s: axis %zu is empty", brief(x).text, axis));
    }
    // A pass an axis, reading rows of what the earlier ones computed; one where it reads no row
    // twice.
    if (resampled && size > n / 2) x = g.contiguous(x);
    resampled = is_linear;
    if (size == 0) {
      x = cut_axis(g, x, axis, 0, 0);
    } else {
      x = is_linear ? linear(g, x, axis, size, r) : nearest(g, x, axis, size, r);
    }
  }
  if (is_linear && given == DType::kUInt8) x = Expr(alu(Op::kRound, Expr{&g, x})).n;
  return g.cast(x, given);
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public function
using aster::Status;
using aster::uop::brief;

int32_t aster_ml_lazy_interpolate(aster_ml_lazy* out, const aster_ml_lazy* x, size_t rank,
                                  const int64_t* size, aster_ml_interpolation mode,
                                  int32_t align_corners) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words sizes;
  ASTER_TRY(shape_argument(&sizes, rank, size));
  if (mode < ASTER_ML_INTERPOLATION_LINEAR || mode > ASTER_ML_INTERPOLATION_NEAREST_EXACT) {
    return ASTER_FAIL(kARGUMENT, "unknown interpolation %d", mode);
  }
  if (align_corners != 0 && mode != ASTER_ML_INTERPOLATION_LINEAR) {
    return ASTER_FAIL(kARGUMENT, "align_corners belongs to linear interpolation");
  }
  if (rank == 0 || rank > node(x)->ndim) {
    return ASTER_FAIL(kSHAPE, "interpolate of %s on %zu axes", brief(node(x)).text, rank);
  }
  for (const int64_t to : sizes) {
    if (to < 0 || to > (int64_t{1} << 40)) {
      return ASTER_FAIL(kRANGE, "interpolate of %s to %s", brief(node(x)).text,
                        aster::uop::brief_shape(sizes).text);
    }
  }
  const Resample r{mode, align_corners != 0, build.strict()};
  ASTER_TRY(sized::beside_last(build, x, rank));
  return build.finish_beside(interpolate(build.graph(), strong(build.graph(), node(x)), sizes, r));
}
