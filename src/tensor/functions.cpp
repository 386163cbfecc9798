// Functions with numbers beside tensors, creation after tensors, statistics and normalisation.
#include "aster_ml/functions.h"

#include <array>
#include <cmath>
#include <limits>

#include "tensor/functions.h"
#include "tensor/sized.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

int32_t build_curve(aster_ml_lazy* out, Input x, const CurveOp& op, double p, double q) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  const double numbers[] = {p, q};
  return build.finish(curve(build.graph(), node(x), variant(op, build.strict()), numbers));
}

// f of a graph and the node of x, element by element.
template <typename F>
int32_t build_from(aster_ml_lazy* out, Input x, F f) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(f(build.graph(), node(x)));
}

// f in a dtype, 0 being none; rule: what shows the operand of symbolic sizes.
template <typename F, typename Rule>
int32_t build_in(aster_ml_lazy* out, Input x, int32_t dtype, F f, Rule rule) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kNone));
  ASTER_TRY(rule(build));
  return build.finish(f(build.graph(), node(x), to));
}

// A reduction over axes, in a dtype.
template <typename F>
int32_t build_over(aster_ml_lazy* out, Input x, Axes axes, bool keepdim, int32_t dtype,
                   sized::Fill beyond, F f) {
  const auto rule = [&](Build& build) -> Status {
    if (axes.count > Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", axes.count);
    return sized::reduce(build, x, axes, keepdim, beyond);
  };
  return build_in(
      out, x, dtype, [&](Graph& g, Node n, DType to) { return f(g, n, axes, to); }, rule);
}

// A bound of hardtanh: a whole number leaves integers as they are.
Node bound(Graph& g, double value) {
  const bool whole = value == std::trunc(value) && std::abs(value) < 0x1p62;
  return whole ? g.constant_int(DType::kWeakInt, static_cast<int64_t>(value))
               : g.constant(DType::kWeakFloat, value);
}

Node infinite(Graph& g, Node x, bool positive, bool negative) {
  const Expr e{&g, strong(g, x)};
  if (e.n == nullptr) return nullptr;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Expr nowhere{&g, g.constant_int(DType::kBool, 0, e.shape())};
  if (!dtype::is_float(e.dtype())) return nowhere.n;
  const Expr wide = widened(e);
  return ((positive ? wide == kInf : nowhere) | (negative ? wide == -kInf : nowhere)).n;
}

struct Closeness {
  double rtol, atol;
  bool equal_nan;
};
Node isclose(Graph& g, Node a, Node b, const Closeness& c) {
  const DType both = dtype::least_upper(a->dtype, b->dtype);
  const DType in = dtype::is_wide(both)    ? both
                   : dtype::is_float(both) ? dtype::least_upper(both, DType::kFloat32)
                                           : DType::kFloat64;
  const Expr x{&g, cast(g, a, g.strong(in))}, y{&g, cast(g, b, g.strong(in))};
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Expr finite = (abs(x) < kInf) & (abs(y) < kInf);
  // What the caller says is meant as it is.
  const auto number = [&](double value) {
    return Expr{&g, g.constant(DType::kFloat64, value)}.cast(x.dtype());
  };
  Expr close = finite & (abs(x - y) <= number(c.atol) + number(c.rtol) * abs(y));
  if (c.equal_nan) close = close | ((x != x) & (y != y));
  return binary(g, binary(g, a, b, ops::eq), close.n, ops::logical_or);
}

Node filled(Build& build, Node x, const aster_ml_scalar* value, int32_t dtype, bool weak) {
  DType to;
  Filling filling;
  if (!filling_argument(&filling, build, value).ok()) return nullptr;
  if (!dtype_argument(&to, dtype, x->dtype).ok()) return nullptr;
  if (!weak) to = build.graph().strong(to);
  return filling.in(build.graph(), to, x->shape());
}

int32_t build_like(aster_ml_lazy* out, Input x, const aster_ml_scalar* value, int32_t dtype,
                   bool weak) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(filled(build, node(x), value, dtype, weak));
}

int32_t build_like(aster_ml_lazy* out, Input x, int32_t value, int32_t dtype) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  aster_ml_scalar scalar{};
  ASTER_TRY((Status{aster_ml_scalar_from_int64(&scalar, ASTER_ML_DTYPE_INT32, value)}));
  return build.finish(filled(build, node(x), &scalar, dtype, false));
}

// Tensors combined from the left.
int32_t build_chain(aster_ml_lazy* out, const Input* tensors, size_t count, const BinaryOp& op) {
  Build build(out, tensors, count);
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, std::span<const Input>(tensors, count)));
  Node y = node(tensors[0]);
  for (size_t i = 1; i < count; ++i) y = binary(build.graph(), y, node(tensors[i]), op);
  return build.finish(y);
}

Node deviation(Graph& g, Node x, Axes axes, bool keepdim, int64_t correction) {
  const Node squared = var(g, x, axes, keepdim, correction);
  return unary(g, squared, ops::sqrt);
}

using Spread = Node (*)(Graph& g, Node x, Axes axes, bool keepdim, int64_t correction);
int32_t build_spread_and_mean(aster_ml_lazy* out_spread, aster_ml_lazy* out_mean, Input x,
                              Axes axes, int32_t keepdim, int64_t correction, Spread spread,
                              decltype(aster_ml_lazy_var)* alone) {
  if (aster_ml_lazy_is_symbolic(x) != 0 && out_spread != out_mean && out_spread != nullptr &&
      out_mean != nullptr && out_spread != x && out_mean != x) {
    out_mean->impl = nullptr;
    ASTER_TRY((Status{alone(out_spread, x, axes.count, axes.at, keepdim, correction)}));
    const int32_t status = aster_ml_lazy_mean(out_mean, x, axes.count, axes.at, keepdim);
    if (status != 0) (void)aster_ml_lazy_free(out_spread);
    return status;
  }
  Pair pair(out_spread, out_mean, {x});
  ASTER_TRY(pair.status());
  if (axes.count > Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", axes.count);
  Graph& g = pair.graph();
  return pair.finish(spread(g, node(x), axes, keepdim != 0, correction),
                     mean(g, node(x), axes, keepdim != 0));
}

// The p-norm over axes; where it is 0 no gradient flows.
Expr norm(Expr x, Words axes, double p) {
  if (p == 0) return reduce(Op::kAdd, (x != 0.0).cast(x.dtype()), axes);
  if (std::isinf(p)) return reduce(p > 0 ? Op::kMax : Op::kMin, abs(x), axes);
  if (p == 1) return reduce(Op::kAdd, abs(x), axes);
  const Expr total = reduce(Op::kAdd, p == 2 ? x * x : pow(abs(x), p), axes);
  const Expr zero = total == 0.0, safe = where(zero, 1.0, total);
  return where(zero, 0.0, p == 2 ? sqrt(safe) : pow(safe, 1 / p));
}

Node normalize(Graph& g, Node x, double p, int64_t axis, double eps) {
  Dims at;
  if (!resolve_axes(&at, {1, &axis}, x->ndim).ok()) return nullptr;
  const Expr e = as_wide(g, x);
  return narrowed(e / max(norm(e, at, p), eps), x);
}

// In dtype: of x converted first if dtype holds all of x, else after.
Node softmax_in(Graph& g, Node x, int64_t axis, DType dtype, Node (*f)(Graph&, Node, int64_t)) {
  if (dtype == DType::kNone) return f(g, x, axis);
  const bool holds = dtype::least_upper(x->dtype, dtype) == dtype;
  const Node y = f(g, holds ? cast(g, x, dtype) : x, axis);
  return y == nullptr || !dtype::is_float(dtype) ? y : cast(g, y, g.strong(dtype));
}

Node softmin(Graph& g, Node x, int64_t axis) {
  const DType to = g.real(x->dtype);
  return cast(g, softmax(g, (-as_wide(g, x)).n, axis), to);
}

Node sum_in(Graph& g, Node x, Axes axes, bool keepdim, DType dtype) {
  if (dtype == DType::kNone) return sum(g, x, axes, keepdim);
  return cast(g, sum(g, cast(g, x, dtype), axes, keepdim), dtype);
}

Node prod_in(Graph& g, Node x, Axes axes, bool keepdim, DType dtype) {
  return prod(g, dtype == DType::kNone ? x : cast(g, x, dtype), axes, keepdim);
}

int32_t build_softmax(aster_ml_lazy* out, Input x, int64_t axis, int32_t dtype,
                      Node (*f)(Graph&, Node, int64_t)) {
  const auto beyond = f == softmin ? sized::Fill::kHighest : sized::Fill::kLowest;
  Build build(out, {x});
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kNone));
  ASTER_TRY(sized::along(build, x, axis, beyond));
  Node y = softmax_in(build.graph(), node(x), axis, to, f);
  ASTER_TRY(sized::blank(&y, build, x));
  return build.finish(y);
}

Node layernorm(Graph& g, Node x, Axes axes, double eps) {
  constexpr int64_t kLast = -1;
  Dims at;
  if (!resolve_axes(&at, axes.at == nullptr ? Axes{1, &kLast} : axes, x->ndim).ok()) return nullptr;
  bool trailing = at.size() > 0;
  for (size_t i = 0; i < at.size(); ++i) {
    trailing &= at[i] == static_cast<Word>(x->ndim - at.size() + i);
  }
  if (trailing) {
    const DType in = g.real(x->dtype);
    return build_layer_norm(g, cast(g, x, in), static_cast<Word>(at.size()), eps);
  }
  const Expr e = as_wide(g, x);
  const Expr y = e - uop::mean(e, at);
  return narrowed(y * recip(sqrt(uop::mean(y * y, at) + eps)), x);
}

// The shape that has the axes of x and 1 elsewhere.
Status shape_along(Dims* out, Node x, Axes axes) {
  constexpr int64_t kSecond = 1;
  Dims at;
  ASTER_TRY(resolve_axes(&at, axes.at == nullptr ? Axes{1, &kSecond} : axes, x->ndim));
  *out = Dims(x->ndim, 1);
  for (size_t i = 0; i < at.size(); ++i) {
    (*out)[static_cast<size_t>(at[i])] = x->dim(static_cast<size_t>(at[i]));
  }
  return kOk;
}

struct BatchNorm {
  Node weight, bias, mean, invstd;
};
Node batchnorm(Graph& g, Node x, const BatchNorm& of, Axes axes) {
  Dims shape;
  if (!shape_along(&shape, x, axes).ok()) return nullptr;
  const size_t rank = axes.at == nullptr ? 1 : axes.count;
  Node y = binary(g, x, reshape(g, of.mean, shape), ops::sub);
  if (of.weight != nullptr) y = binary(g, y, reshape(g, of.weight, shape), ops::mul);
  const Node scale = of.invstd->ndim == rank ? reshape(g, of.invstd, shape) : of.invstd;
  y = binary(g, y, scale, ops::mul);
  if (of.bias != nullptr) y = binary(g, y, reshape(g, of.bias, shape), ops::add);
  return y;
}

}  // namespace

Expr widened(Expr x) { return dtype::is_narrow_float(x.dtype()) ? x.cast(DType::kFloat32) : x; }

Expr as_wide(Graph& g, Node x) {
  if (x == nullptr) return {&g, nullptr};
  return widened({&g, cast(g, x, g.real(x->dtype))});
}

Node narrowed(Expr y, Node x) { return y.g == nullptr ? nullptr : y.cast(y.g->real(x->dtype)).n; }

Pair::Pair(aster_ml_lazy* first, aster_ml_lazy* second, std::initializer_list<Input> inputs)
    : out_{first, second} {
  for (aster_ml_lazy* out : out_) {
    bool is_input = out == nullptr;
    for (Input x : inputs) is_input |= x == out;
    if (!is_input) out->impl = nullptr;
  }
  for (Input x : inputs) {
    if (x != nullptr && (x == first || x == second)) {
      status_ = ASTER_FAIL(kARGUMENT, "out is the handle of an input");
      return;
    }
  }
  if (first == nullptr || second == nullptr || first == second) {
    status_ = ASTER_FAIL(kARGUMENT, "two handles are needed for the results");
    return;
  }
  build_.emplace(&unused_, inputs);
  status_ = build_->status();
}

Status Pair::finish(Node first, Node second) {
  if (first == nullptr || second == nullptr) return last_failure();
  aster_ml_lazy made[2];
  const Node nodes[] = {first, second};
  ASTER_TRY(make_handles(made, *build_, nodes));
  for (size_t i = 0; i < 2; ++i) *out_[i] = made[i];
  return kOk;
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::Status;

#define CURVE_OF_ONE(name)                                                             \
  int32_t aster_ml_lazy_##name(aster_ml_lazy* out, const aster_ml_lazy* x, double p) { \
    ASTER_API();                                                                       \
    return build_curve(out, x, ops::name, p, 0);                                       \
  }
CURVE_OF_ONE(elu)
CURVE_OF_ONE(celu)
CURVE_OF_ONE(softplus_beta)
#undef CURVE_OF_ONE

int32_t aster_ml_lazy_hardsigmoid(aster_ml_lazy* out, const aster_ml_lazy* x, double alpha,
                                  double beta) {
  ASTER_API();
  return build_curve(out, x, ops::hardsigmoid, alpha, beta);
}

int32_t aster_ml_lazy_selu(aster_ml_lazy* out, const aster_ml_lazy* x, double alpha, double gamma) {
  ASTER_API();
  return build_curve(out, x, ops::selu, alpha, gamma);
}

int32_t aster_ml_lazy_hardtanh(aster_ml_lazy* out, const aster_ml_lazy* x, double low,
                               double high) {
  ASTER_API();
  return build_from(out, x, [&](Graph& g, Node n) {
    return clamp(g, n, bound(g, low), bound(g, high), true, true);
  });
}

int32_t aster_ml_lazy_isinf_signed(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t positive,
                                   int32_t negative) {
  ASTER_API();
  return build_from(out, x,
                    [&](Graph& g, Node n) { return infinite(g, n, positive != 0, negative != 0); });
}

int32_t aster_ml_lazy_clip(aster_ml_lazy* out, const aster_ml_lazy* x, const aster_ml_lazy* low,
                           const aster_ml_lazy* high) {
  ASTER_API();
  Build build(out, {x}, {low, high});
  ASTER_TRY(build.status());
  if (low == nullptr && high == nullptr) return ASTER_FAIL(kARGUMENT, "clip without a bound");
  ASTER_TRY(sized::elementwise(build, {x, low, high}));
  return build.finish(
      clamp(build.graph(), node(x), node(low), node(high), low != nullptr, high != nullptr));
}

int32_t aster_ml_lazy_masked_fill(aster_ml_lazy* out, const aster_ml_lazy* x,
                                  const aster_ml_lazy* mask, const aster_ml_lazy* value) {
  ASTER_API();
  Build build(out, {x, mask, value});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x, mask, value}));
  return build.finish(where(build.graph(), node(mask), node(value), node(x)));
}

int32_t aster_ml_lazy_isclose(aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b,
                              double rtol, double atol, int32_t equal_nan) {
  ASTER_API();
  Build build(out, {a, b});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {a, b}));
  return build.finish(isclose(build.graph(), node(a), node(b), {rtol, atol, equal_nan != 0}));
}

int32_t aster_ml_lazy_allclose(aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b,
                               double rtol, double atol, int32_t equal_nan) {
  ASTER_API();
  Build build(out, {a, b});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  const Node close = isclose(g, node(a), node(b), {rtol, atol, equal_nan != 0});
  return build.finish(all(g, close, {0, nullptr}, false));
}

int32_t aster_ml_lazy_usum(aster_ml_lazy* out, const aster_ml_lazy* const* tensors, size_t count) {
  ASTER_API();
  return build_chain(out, tensors, count, ops::add);
}

int32_t aster_ml_lazy_uprod(aster_ml_lazy* out, const aster_ml_lazy* const* tensors, size_t count) {
  ASTER_API();
  return build_chain(out, tensors, count, ops::mul);
}

int32_t aster_ml_lazy_contiguous_backward(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return build_from(out, x, [](Graph& g, Node n) {
    return keeping_weak(g, n, [&](Node plain) { return build_contiguous_backward(g, plain); });
  });
}

int32_t aster_ml_lazy_const_like(aster_ml_lazy* out, const aster_ml_lazy* x,
                                 const aster_ml_scalar* value, int32_t dtype) {
  ASTER_API();
  return build_like(out, x, value, dtype, true);
}

int32_t aster_ml_lazy_full_like(aster_ml_lazy* out, const aster_ml_lazy* x,
                                const aster_ml_scalar* value, int32_t dtype) {
  ASTER_API();
  return build_like(out, x, value, dtype, false);
}

int32_t aster_ml_lazy_zeros_like(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  return build_like(out, x, 0, dtype);
}

int32_t aster_ml_lazy_ones_like(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  return build_like(out, x, 1, dtype);
}

int32_t aster_ml_lazy_empty_like(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  aster_ml_context context{};
  aster::uop::Dims shape;
  {
    Build build(out, {x});
    ASTER_TRY(build.status());
    DType to;
    ASTER_TRY(dtype_argument(&to, dtype, node(x)->dtype));
    dtype = static_cast<int32_t>(build.graph().strong(to));
    shape = aster::uop::Dims(node(x)->shape());
    context = build.context().inner_handle();
  }
  return aster_ml_lazy_empty(out, &context, dtype, shape.size(), shape.at);
}

int32_t aster_ml_lazy_sum_dtype(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                                const int64_t* axes, int32_t keepdim, int32_t dtype) {
  ASTER_API();
  const auto f = [&](Graph& g, Node n, Axes at, DType to) {
    return sum_in(g, n, at, keepdim != 0, to);
  };
  return build_over(out, x, {count, axes}, keepdim != 0, dtype, aster::tensor::sized::Fill::kZero,
                    f);
}

int32_t aster_ml_lazy_prod_dtype(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                                 const int64_t* axes, int32_t keepdim, int32_t dtype) {
  ASTER_API();
  const auto f = [&](Graph& g, Node n, Axes at, DType to) {
    return prod_in(g, n, at, keepdim != 0, to);
  };
  return build_over(out, x, {count, axes}, keepdim != 0, dtype, aster::tensor::sized::Fill::kOne,
                    f);
}

int32_t aster_ml_lazy_std(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                          const int64_t* axes, int32_t keepdim, int64_t correction) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  const Axes over{count, axes};
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  if (const sized::Done done = sized::var(build, x, over, keepdim != 0, correction, true))
    return done->code;
  return build.finish(deviation(build.graph(), node(x), over, keepdim != 0, correction));
}

int32_t aster_ml_lazy_var_mean(aster_ml_lazy* out_var, aster_ml_lazy* out_mean,
                               const aster_ml_lazy* x, size_t count, const int64_t* axes,
                               int32_t keepdim, int64_t correction) {
  ASTER_API();
  return build_spread_and_mean(out_var, out_mean, x, {count, axes}, keepdim, correction, var,
                               aster_ml_lazy_var);
}

int32_t aster_ml_lazy_std_mean(aster_ml_lazy* out_std, aster_ml_lazy* out_mean,
                               const aster_ml_lazy* x, size_t count, const int64_t* axes,
                               int32_t keepdim, int64_t correction) {
  ASTER_API();
  return build_spread_and_mean(out_std, out_mean, x, {count, axes}, keepdim, correction, deviation,
                               aster_ml_lazy_std);
}

int32_t aster_ml_lazy_normalize(aster_ml_lazy* out, const aster_ml_lazy* x, double p, int64_t axis,
                                double eps) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (p > 0) ASTER_TRY(sized::along(build, x, axis, sized::Fill::kZero));
  return build.finish(normalize(build.graph(), node(x), p, axis, eps));
}

int32_t aster_ml_lazy_softmax_dtype(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                                    int32_t dtype) {
  ASTER_API();
  return build_softmax(out, x, axis, dtype, softmax);
}

int32_t aster_ml_lazy_log_softmax_dtype(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                                        int32_t dtype) {
  ASTER_API();
  return build_softmax(out, x, axis, dtype, log_softmax);
}

int32_t aster_ml_lazy_softmin(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                              int32_t dtype) {
  ASTER_API();
  return build_softmax(out, x, axis, dtype, softmin);
}

int32_t aster_ml_lazy_layernorm(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                                const int64_t* axes, double eps) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  constexpr int64_t kLast = -1;
  const Axes over = axes == nullptr ? Axes{1, &kLast} : Axes{count, axes};
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  if (const sized::Done done = sized::layer_norm(build, x, over, eps, nullptr, nullptr))
    return done->code;
  ASTER_TRY(sized::beside(build, x, over));
  return build.finish(layernorm(build.graph(), node(x), over, eps));
}

int32_t aster_ml_lazy_batchnorm(aster_ml_lazy* out, const aster_ml_lazy* x,
                                const aster_ml_lazy* weight, const aster_ml_lazy* bias,
                                const aster_ml_lazy* mean, const aster_ml_lazy* invstd,
                                size_t count, const int64_t* axes) {
  ASTER_API();
  Build build(out, {x, mean, invstd}, {weight, bias});
  ASTER_TRY(build.status());
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  ASTER_TRY(sized::beside(build, x, {count, axes}));
  return build.finish_beside(batchnorm(
      build.graph(), node(x), {node(weight), node(bias), node(mean), node(invstd)}, {count, axes}));
}
