// Cumulative functions along one axis.
#include "tensor/functions.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::Op;

// An axis of x; any of a 0-d x, which has one element in each.
Status scanned_axis(size_t* out, Node x, int64_t axis) {
  *out = 0;
  if (x->ndim == 0 && (axis == 0 || axis == -1)) return kOk;
  return resolve_axis(out, axis, x->ndim);
}

Expr scan(Op op, Expr x, size_t axis) {
  if (x.n == nullptr || x.ndim() == 0) return x;
  return {x.g, x.g->scan(op, x.n, static_cast<int64_t>(axis))};
}

Node cumsum(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (!scanned_axis(&at, x, axis).ok()) return nullptr;
  const Expr e{&g, strong(g, x)};
  const Expr y = scan(Op::kAdd, e.cast(dtype::sum_acc(e.dtype())), at);
  return dtype::is_narrow_float(e.dtype()) ? y.cast(e.dtype()).n : y.n;
}

Node cumprod(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (!scanned_axis(&at, x, axis).ok()) return nullptr;
  const Expr e{&g, strong(g, x)};
  const Op op = e.dtype() == DType::kBool ? Op::kAnd : Op::kMul;
  return scan(op, widened(e), at).cast(e.dtype()).n;
}

struct Records {
  Node values, indices;
};
// The running extremum, and the last place where it changed.
Records records(Graph& g, Node x, int64_t axis, Op arithmetic, Op logical, bool strict) {
  size_t at;
  if (!scanned_axis(&at, x, axis).ok()) return {};
  const Expr given{&g, strong(g, x)}, e = strict ? without_nan(given, arithmetic) : given;
  if (e.n == nullptr) return {};
  const Op op = e.dtype() == DType::kBool ? logical : arithmetic;
  return {scan(op, e, at).n, e.ndim() == 0
                                 ? g.constant_int(DType::kInt32, 0)
                                 : g.scan_place(op, e.detach().n, static_cast<int64_t>(at))};
}

int32_t build_records(aster_ml_lazy* out_values, aster_ml_lazy* out_indices, Input x, int64_t axis,
                      Op arithmetic, Op logical) {
  Pair pair(out_values, out_indices, {x});
  ASTER_TRY(pair.status());
  ASTER_TRY(sized::elementwise(pair.build(), {x}));
  const Records made = records(pair.graph(), node(x), axis, arithmetic, logical, pair.strict());
  return pair.finish(made.values, made.indices);
}

Node logcumsumexp(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (!scanned_axis(&at, x, axis).ok()) return nullptr;
  const Expr e = as_wide(g, x);
  if (e.n == nullptr || e.ndim() == 0) return narrowed(e, x);
  return narrowed({&g, g.log_scan(e.n, static_cast<int64_t>(at))}, x);
}

using AlongAxis = Node (*)(Graph& g, Node x, int64_t axis);
int32_t build_along(aster_ml_lazy* out, Input x, int64_t axis, AlongAxis f) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));  // what comes first does not depend on the size
  return build.finish(f(build.graph(), node(x), axis));
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::uop::Op;

int32_t aster_ml_lazy_cumsum(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_along(out, x, axis, cumsum);
}

int32_t aster_ml_lazy_cumprod(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_along(out, x, axis, cumprod);
}

int32_t aster_ml_lazy_cummax(aster_ml_lazy* out_values, aster_ml_lazy* out_indices,
                             const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_records(out_values, out_indices, x, axis, Op::kMax, Op::kOr);
}

int32_t aster_ml_lazy_cummin(aster_ml_lazy* out_values, aster_ml_lazy* out_indices,
                             const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_records(out_values, out_indices, x, axis, Op::kMin, Op::kAnd);
}

int32_t aster_ml_lazy_logcumsumexp(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_along(out, x, axis, logcumsumexp);
}
