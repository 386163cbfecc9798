// Matrix products with a dtype, linear layers, the Newton-Schulz iteration.
#include "tensor/linalg.h"

#include "aster_ml/linalg.h"
#include "tensor/api.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;

// One step: sum_i params[i] (x x^T)^i x, by Horner's rule on what stands left of x.
Node newton_schulz_step(Graph& g, Node x, std::span<const double> params) {
  const Node square = matmul(g, x, turned(g, x));
  Node power = x, total = nullptr;
  for (size_t i = 0; i < params.size(); ++i) {
    if (i > 0) power = matmul(g, square, power);
    const Node term = binary(g, power, g.constant(DType::kWeakFloat, params[i]), ops::mul);
    total = i == 0 ? term : binary(g, total, term, ops::add);
  }
  return total;
}

Node newton_schulz(Graph& g, Node x, int64_t steps, std::span<const double> params, double eps) {
  const size_t n = x->ndim;
  const bool tall = x->dim(n - 2) > x->dim(n - 1);
  if (tall) x = turned(g, x);
  const int64_t axes[] = {-2, -1};
  const Node norm = unary(g, sum(g, unary(g, x, ops::square), {2, axes}, true), ops::sqrt);
  const Node shifted = binary(g, norm, g.constant(DType::kWeakFloat, eps), ops::add);
  Node y = binary(g, x, shifted, ops::div);
  for (int64_t i = 0; i < steps && y != nullptr; ++i) y = newton_schulz_step(g, y, params);
  return tall ? turned(g, y) : y;
}

}  // namespace

Node turned(Graph& g, Node x) {
  if (x == nullptr) return nullptr;
  Dims axes;
  for (size_t i = 0; i < x->ndim; ++i) axes.push(static_cast<Word>(i));
  std::swap(axes[x->ndim - 1u], axes[x->ndim - 2u]);
  return g.permute(x, axes);
}

Node dot(Graph& g, Node a, Node b, DType dtype) {
  if (a == nullptr || b == nullptr || dtype == DType::kNone) return matmul(g, a, b);
  const DType common = g.strong(dtype::least_upper(a->dtype, b->dtype));
  // Where dtype loses nothing the operands are brought to it: sums are as wide as it.
  const bool wider = dtype::is_sticky(common) && dtype::is_sticky(dtype) &&
                     dtype::bits(dtype) > dtype::bits(common);
  const DType within = wider || dtype::least_upper(common, dtype) == dtype ? dtype : common;
  return cast(g, matmul(g, cast(g, a, within), cast(g, b, within)), dtype);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;
using aster::uop::brief;

int32_t aster_ml_lazy_dot(aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b,
                          int32_t dtype) {
  ASTER_API();
  Build build(out, {a, b});
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kNone));
  if (to == DType::kNone) {
    if (const sized::Done done = sized::matmul(build, a, b)) return done->code;
  }
  return build.finish(dot(build.graph(), node(a), node(b), to));
}

int32_t aster_ml_lazy_linear(aster_ml_lazy* out, const aster_ml_lazy* x,
                             const aster_ml_lazy* weight, const aster_ml_lazy* bias,
                             int32_t dtype) {
  ASTER_API();
  Build build(out, {x, weight}, {bias});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kNone));
  const auto as = [&](Node n) { return to == DType::kNone ? n : cast(g, n, to); };
  if (node(weight)->ndim == 2) ASTER_TRY(sized::beside_last(build, x, 1));
  const Node a = as(node(x)), w = as(node(weight));
  Node y = node(weight)->ndim == 1 ? binary(g, a, w, ops::mul) : matmul(g, a, w);
  if (bias != nullptr) y = binary(g, y, as(node(bias)), ops::add);
  return build.finish_beside(y);
}

int32_t aster_ml_lazy_newton_schulz(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t steps,
                                    size_t count, const double* params, double eps) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (params == nullptr || count == 0)
    return ASTER_FAIL(kARGUMENT, "newton_schulz without coefficients");
  if (steps < 0 || steps > kMostSteps || count > static_cast<size_t>(kMostSteps)) {
    return ASTER_FAIL(kRANGE, "newton_schulz in %lld steps of %zu coefficients: at most %d of each",
                      static_cast<long long>(steps), count, static_cast<int>(kMostSteps));
  }
  if (node(x)->ndim < 2)
    return ASTER_FAIL(kSHAPE, "newton_schulz of %s: two axes are needed", brief(node(x)).text);
  ASTER_TRY(sized::beside_last(build, x, 2));
  return build.finish_beside(newton_schulz(build.graph(), node(x), steps, {params, count}, eps));
}
