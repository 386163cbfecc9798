// Resampling, one axis after the other. Positions are integer arithmetic, so that whole factors
// read exactly the elements that they should.
#include <array>
#include <limits>

#include "aster_ml/spatial.h"
#include "aster_ml/symbolic.h"
#include "tensor/api.h"
#include "tensor/sized.h"
#include "tensor/spatial.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

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

// Sizes are numbers, or 0-d tensors (Expr) of a counter's dtype: at least 1.
Expr at_least(double least, Expr x) { return uop::max(x, least); }
double at_least(double least, double x) { return std::max(x, least); }
Expr real(Expr x, DType dtype) { return x.cast(dtype); }
double real(double x, DType) { return x; }

template <typename Size>
Expr nearest_index(Expr i, Size from, Size to, bool exact) {
  if (exact) return alu(Op::kFloorDiv, (i * 2.0 + 1.0) * from, to * 2.0);
  return alu(Op::kFloorDiv, i * from, to);
}

// x [float], between the neighbours of num / den. grows: there may be places beyond an edge.
template <typename Size>
Expr linear(Graph& g, Node x, size_t axis, Expr i, Size from, Size to, bool align, bool grows) {
  const Size den = align ? at_least(1, to - 1.0) : to * 2.0;
  Expr num = align ? i * (from - 1.0) : i * (from * 2.0) + (from - to);
  if (!align && grows) num = uop::min(uop::max(num, 0.0), (from - 1.0) * den);
  const Expr low = alu(Op::kFloorDiv, num, den), high = alu(Op::kFloorDiv, num + (den - 1.0), den);
  const Expr rest = alu(Op::kFloorMod, num, den).cast(x->dtype) / real(den, x->dtype);
  Dims column(x->ndim, 1);
  column[axis] = i.n == nullptr ? 0 : i.shape()[0];
  const Expr a{&g, take(g, x, axis, low)}, b{&g, take(g, x, axis, high)};
  return a + (b - a) * rest.reshape(column);
}

// Which element nearest takes; strict: through float32, as tinygrad.
Expr nearest_index(Graph& g, Word n, Word size, const Resample& r) {
  const bool exact = r.mode == ASTER_ML_INTERPOLATION_NEAREST_EXACT;
  if (r.strict) {
    const Expr i = Expr{&g, g.iota(DType::kFloat32, size)};
    const double scale = static_cast<double>(n) / static_cast<double>(size);
    return ((exact ? i + 0.5 : i) * scale).cast(DType::kInt32);
  }
  const double from = static_cast<double>(n), to = static_cast<double>(size);
  return nearest_index(counter(g, size, 2 * from * to), from, to, exact);
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

double most_counted(double from, double to) { return 2 * from * (to + 1) + 2 * to; }

Node linear(Graph& g, Node x, size_t axis, Word size, const Resample& r) {
  const double from = static_cast<double>(x->dim(axis)), to = static_cast<double>(size);
  const Expr i = counter(g, size, most_counted(from, to));
  return linear(g, x, axis, i, from, to, r.align_corners, to > from).n;
}

// An axis of n elements, or one that gets so many: variables'. Equal sizes leave what is there.
Status resample_sized(Node* x, Build& build, size_t axis, Node n, Node size, const Resample& r) {
  Graph& g = build.graph();
  if (!sized::holds_le(build, g.index(1), n)) return kOk;
  Expr from, to;
  ASTER_TRY(sized::value_of(&from, build.engine(), n));
  ASTER_TRY(sized::value_of(&to, build.engine(), size));
  const double most = most_counted(static_cast<double>(n->vmax), static_cast<double>(size->vmax));
  const Expr i = counter(g, size->vmax, most);
  from = from.cast(i.dtype());
  to = at_least(1, to.cast(i.dtype()));
  if (r.mode != ASTER_ML_INTERPOLATION_LINEAR) {
    const bool exact = r.mode == ASTER_ML_INTERPOLATION_NEAREST_EXACT;
    *x = take(g, *x, axis, nearest_index(i, from, to, exact));
  } else {
    const Expr same{&g, take(g, *x, axis, i)};
    *x = where(from == to, same, linear(g, *x, axis, i, from, to, r.align_corners, true)).n;
  }
  return *x == nullptr ? last_failure() : kOk;
}

// The last axes of x, the whole of a tensor of these sizes, become as wanted; they are out's then.
Status interpolate(Node* out, Build& build, Node x, Sizes* sizes, const Sizes& wanted,
                   const Resample& r) {
  Graph& g = build.graph();
  if (x == nullptr) return last_failure();
  const DType given = x->dtype;
  const bool is_linear = r.mode == ASTER_ML_INTERPOLATION_LINEAR;
  if (is_linear && dtype::is_wide(given))
    return ASTER_FAIL(kUNSUPPORTED, "linear interpolate of %s", brief(x).text);
  if (is_linear && given != DType::kFloat64) x = g.cast(x, DType::kFloat32);
  bool resampled = false;
  for (size_t k = wanted.size(); k-- > 0 && x != nullptr;) {
    const size_t axis = x->ndim - wanted.size() + k;
    const Node n = (*sizes)[axis], size = wanted[k];
    if (n == size) continue;
    (*sizes)[axis] = size;
    // A pass an axis, reading rows of what the earlier ones computed; one where it reads no row
    // twice.
    const bool variable = is_bound(n) || is_bound(size);
    if (resampled && (variable || size->vmax > n->vmax / 2)) x = g.contiguous(x);
    if (x == nullptr) return last_failure();
    resampled = is_linear;
    if (sized::holds_le(build, n, g.index(0)))
      return ASTER_FAIL(kSHAPE, "interpolate of %s: axis %zu is empty", brief(x).text, axis);
    if (variable) {
      ASTER_TRY(resample_sized(&x, build, axis, n, size, r));
    } else if (uop::const_int(size) == 0) {
      x = cut_axis(g, x, axis, 0, 0);
    } else {
      const Word to = uop::const_int(size);
      x = is_linear ? linear(g, x, axis, to, r) : nearest(g, x, axis, to, r);
    }
  }
  if (is_linear && given == DType::kUInt8) x = Expr(alu(Op::kRound, Expr{&g, x})).n;
  *out = g.cast(x, given);
  return *out == nullptr ? last_failure() : kOk;
}

// As variables where there are any, and by numbers in tinygrad's steps.
Status interpolate(Build& build, Input x, const Sizes& wanted, const Resample& r) {
  Sizes sizes, to = wanted;
  ASTER_TRY(sized::sizes_of(&sizes, build, x));
  Node all = sized::whole(x);
  const bool variables = sized::any_bound(sizes) || sized::any_bound(wanted);
  if (variables && r.strict) {
    Dims now;
    ASTER_TRY(sized::present(&now, build, wanted));
    to = sized::constants(build.graph(), now);
    all = node(x);
    sizes = sized::constants(build.graph(), all->shape());
  }
  Node made = nullptr;
  ASTER_TRY(interpolate(&made, build, strong(build.graph(), all), &sizes, to, r));
  return variables && !r.strict ? build.finish(made, sizes) : build.finish(made);
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public function
using aster::kOk;
using aster::Status;
using aster::uop::brief;

namespace {

// read(sizes, build) gives those that are wanted.
template <typename Read>
int32_t build_interpolate(aster_ml_lazy* out, Input x, Read read, aster_ml_interpolation mode,
                          int32_t align_corners) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  Sizes wanted;
  ASTER_TRY(read(&wanted, build));
  const size_t rank = wanted.size();
  if (mode < ASTER_ML_INTERPOLATION_LINEAR || mode > ASTER_ML_INTERPOLATION_NEAREST_EXACT) {
    return ASTER_FAIL(kARGUMENT, "unknown interpolation %d", mode);
  }
  if (align_corners != 0 && mode != ASTER_ML_INTERPOLATION_LINEAR) {
    return ASTER_FAIL(kARGUMENT, "align_corners belongs to linear interpolation");
  }
  if (rank == 0 || rank > node(x)->ndim) {
    return ASTER_FAIL(kSHAPE, "interpolate of %s on %zu axes", brief(node(x)).text, rank);
  }
  const aster::uop::Dims most = sized::most_of(wanted);
  for (const int64_t to : aster::uop::Words(most)) {
    if (to < 0 || to > (int64_t{1} << 40)) {
      return ASTER_FAIL(kRANGE, "interpolate of %s to %s", brief(node(x)).text,
                        aster::uop::brief_shape(most).text);
    }
  }
  return interpolate(build, x, wanted, {mode, align_corners != 0, build.strict()});
}

}  // namespace

int32_t aster_ml_lazy_interpolate(aster_ml_lazy* out, const aster_ml_lazy* x, size_t rank,
                                  const int64_t* size, aster_ml_interpolation mode,
                                  int32_t align_corners) {
  ASTER_API();
  const auto read = [&](Sizes* wanted, Build& build) -> Status {
    Words words;
    ASTER_TRY(shape_argument(&words, rank, size));
    *wanted = sized::constants(build.graph(), words);
    return kOk;
  };
  return build_interpolate(out, x, read, mode, align_corners);
}

int32_t aster_ml_lazy_interpolate_dims(aster_ml_lazy* out, const aster_ml_lazy* x, size_t rank,
                                       const aster_ml_dim* size, aster_ml_interpolation mode,
                                       int32_t align_corners) {
  ASTER_API();
  const auto read = [&](Sizes* wanted, Build& build) {
    return sized::dims_argument(wanted, build.engine(), rank, size);
  };
  return build_interpolate(out, x, read, mode, align_corners);
}
