// Products by their axes, broadcasting by axes, and the norm by mean squares.
#include <algorithm>

#include "aster_ml/functions.h"
#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "tensor/api.h"
#include "tensor/linalg.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;

// Axes counted from the front, in their own order, none twice nor in those before. RANGE.
Status distinct_axes(Dims* out, const char* what, Node x, size_t count, const int64_t* axes,
                     const Dims& before) {
  if (count != 0 && axes == nullptr)
    return ASTER_FAIL(kARGUMENT, "%s: a null pointer for %zu axes", what, count);
  if (count > x->ndim) return ASTER_FAIL(kRANGE, "%s: %zu axes of %s", what, count, brief(x).text);
  for (size_t i = 0; i < count; ++i) {
    size_t axis = 0;
    ASTER_TRY(resolve_axis(&axis, axes[i], x->ndim));
    const auto word = static_cast<Word>(axis);
    if (std::ranges::count(Words(*out), word) != 0 || std::ranges::count(Words(before), word) != 0)
      return ASTER_FAIL(kRANGE, "%s: axis %zu of %s twice", what, axis, brief(x).text);
    out->push(word);
  }
  return kOk;
}

// One factor: which of its axes are of the batch, contracted and free.
struct Factor {
  Node x;
  Dims batch, contracted, free;

  Status take(size_t contract_count, const int64_t* contract, size_t batch_count,
              const int64_t* of_batch) {
    ASTER_TRY(distinct_axes(&batch, "dot_general", x, batch_count, of_batch, {}));
    ASTER_TRY(distinct_axes(&contracted, "dot_general", x, contract_count, contract, batch));
    for (size_t i = 0; i < x->ndim; ++i) {
      const auto axis = static_cast<Word>(i);
      if (std::ranges::count(Words(batch), axis) == 0 &&
          std::ranges::count(Words(contracted), axis) == 0)
        free.push(axis);
    }
    return kOk;
  }
  Word size_of(const Dims& axes) const {
    Word out = 1;
    for (Word axis : Words(axes)) out *= x->dim(static_cast<size_t>(axis));
    return out;
  }
  // [batch, free, contracted], or [batch, contracted, free], without a batch axis where there is
  // none.
  Node matrix(Graph& g, bool contracted_first) const {
    Dims axes, shape;
    const Dims& second = contracted_first ? contracted : free;
    const Dims& third = contracted_first ? free : contracted;
    for (const Dims* part : {&batch, &second, &third}) {
      for (Word axis : Words(*part)) axes.push(axis);
    }
    if (batch.size() != 0) shape.push(size_of(batch));
    shape.push(size_of(second));
    shape.push(size_of(third));
    return reshape(g, permute(g, x, axes), shape);
  }
};

Status check_pairs(const Factor& a, const Factor& b, const Dims& of_a, const Dims& of_b) {
  for (size_t i = 0; i < of_a.size(); ++i) {
    const auto p = static_cast<size_t>(of_a[i]), q = static_cast<size_t>(of_b[i]);
    if (a.x->dim(p) != b.x->dim(q)) {
      return ASTER_FAIL(kSHAPE, "dot_general of %s and %s: axes %zu and %zu differ",
                        brief(a.x).text, brief(b.x).text, p, q);
    }
  }
  return kOk;
}

Node broadcast(Graph& g, Node x, Words shape, const Dims& axes) {
  // The axes of x in the order of those of the result that they are.
  Dims order, spread(shape.size(), 1);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] != static_cast<Word>(axis)) continue;
      order.push(static_cast<Word>(i));
      spread[axis] = x->dim(i);
    }
  }
  return expand(g, reshape(g, permute(g, x, order), spread), shape);
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::dtype::least_upper;
using aster::uop::brief;

int32_t aster_ml_lazy_dot_general(aster_ml_lazy* out, const aster_ml_lazy* a,
                                  const aster_ml_lazy* b, size_t contract_count,
                                  const int64_t* a_contract, const int64_t* b_contract,
                                  size_t batch_count, const int64_t* a_batch,
                                  const int64_t* b_batch, int32_t accumulate, int32_t dtype) {
  ASTER_API();
  Build build(out, {a, b});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  if ((contract_count != 0 && (a_contract == nullptr || b_contract == nullptr)) ||
      (batch_count != 0 && (a_batch == nullptr || b_batch == nullptr)))
    return ASTER_FAIL(kARGUMENT, "dot_general: a null pointer for its axes");
  DType sums, to;
  ASTER_TRY(dtype_argument(&sums, accumulate, DType::kNone));
  ASTER_TRY(dtype_argument(&to, dtype, DType::kNone));
  Factor left{strong(g, node(a)), {}, {}, {}}, right{strong(g, node(b)), {}, {}, {}};
  if (left.x == nullptr || right.x == nullptr) return aster::last_failure();
  ASTER_TRY(left.take(contract_count, a_contract, batch_count, a_batch));
  ASTER_TRY(right.take(contract_count, b_contract, batch_count, b_batch));
  ASTER_TRY(check_pairs(left, right, left.batch, right.batch));
  ASTER_TRY(check_pairs(left, right, left.contracted, right.contracted));
  const size_t rank = left.batch.size() + left.free.size() + right.free.size();
  if (rank > Dims::kMost) return ASTER_FAIL(kUNSUPPORTED, "dot_general: %zu axes", rank);
  Dims shape;
  for (Word axis : Words(left.batch)) shape.push(left.x->dim(static_cast<size_t>(axis)));
  for (Word axis : Words(left.free)) shape.push(left.x->dim(static_cast<size_t>(axis)));
  for (Word axis : Words(right.free)) shape.push(right.x->dim(static_cast<size_t>(axis)));
  const Node product = dot(g, left.matrix(g, false), right.matrix(g, true), sums);
  Node y = reshape(g, product, shape);
  if (y != nullptr && to == DType::kNone && sums != DType::kNone)
    to = g.strong(least_upper(left.x->dtype, right.x->dtype));
  if (to != DType::kNone) y = cast(g, y, to);
  return build.finish(y);
}

int32_t aster_ml_lazy_broadcast(aster_ml_lazy* out, const aster_ml_lazy* x, size_t ndim,
                                const int64_t* shape, size_t count, const int64_t* axes) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words dims;
  ASTER_TRY(shape_argument(&dims, ndim, shape));
  const Node a = node(x);
  if (count != a->ndim)
    return ASTER_FAIL(kSHAPE, "broadcast of %s by %zu axes", brief(a).text, count);
  if (count != 0 && axes == nullptr)
    return ASTER_FAIL(kARGUMENT, "broadcast: a null pointer for %zu axes", count);
  Dims places;
  for (Word dim : dims) {
    if (dim < 0) return ASTER_FAIL(kRANGE, "broadcast to %s", aster::uop::brief_shape(dims).text);
  }
  for (size_t i = 0; i < count; ++i) {
    size_t axis = 0;
    ASTER_TRY(resolve_axis(&axis, axes[i], ndim));
    if (std::ranges::count(Words(places), static_cast<Word>(axis)) != 0)
      return ASTER_FAIL(kRANGE, "broadcast of %s: axis %zu twice", brief(a).text, axis);
    if (a->dim(i) != 1 && a->dim(i) != dims[axis]) {
      return ASTER_FAIL(kSHAPE, "broadcast of %s to %s: axis %zu has %lld elements, not %lld",
                        brief(a).text, aster::uop::brief_shape(dims).text, axis,
                        static_cast<long long>(dims[axis]), static_cast<long long>(a->dim(i)));
    }
    places.push(static_cast<Word>(axis));
  }
  return build.finish(broadcast(build.graph(), a, dims, places));
}

int32_t aster_ml_lazy_rms_norm(aster_ml_lazy* out, const aster_ml_lazy* x, size_t axes,
                               const aster_ml_lazy* weight, double eps) {
  ASTER_API();
  Build build(out, {x}, {weight});
  ASTER_TRY(build.status());
  if (axes == 0 || axes > node(x)->ndim)
    return ASTER_FAIL(kRANGE, "rms_norm of %s over %zu axes", brief(node(x)).text, axes);
  if (!(eps >= 0)) return ASTER_FAIL(kRANGE, "rms_norm: eps is %g", eps);
  const Node w = node(weight);
  if (w != nullptr && !std::ranges::equal(w->shape(), node(x)->shape().last(axes))) {
    return ASTER_FAIL(kSHAPE, "rms_norm of %s over %zu axes with %s", brief(node(x)).text, axes,
                      brief(w).text);
  }
  if (weight == nullptr || cell(weight)->sized == nullptr)
    ASTER_TRY(sized::beside_last(build, x, axes));
  Graph& g = build.graph();
  const Node a = strong(g, node(x));
  if (a == nullptr) return aster::last_failure();
  const DType own = aster::dtype::is_float(a->dtype) ? a->dtype : g.real(a->dtype);
  const Expr in{&g, cast(g, a, least_upper(own, DType::kFloat32))};
  Dims last;
  for (size_t i = a->ndim - axes; i < a->ndim; ++i) last.push(static_cast<Word>(i));
  const Expr y = in * recip(sqrt(mean(in * in, last) + eps));
  Node normal = cast(g, y.n, own);
  if (w != nullptr) normal = binary(g, normal, w, ops::mul);
  return build.finish_beside(normal);
}
