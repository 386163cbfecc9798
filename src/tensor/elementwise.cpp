// Promotion and elementwise operations.
#include <limits>
#include <numbers>
#include <string_view>

#include "aster_ml/flt.h"
#include "dtype/sticky.h"
#include "tensor/functions_math.h"
#include "tensor/movement.h"
#include "tensor/ops.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::alu;
using uop::brief;
using uop::Dims;
using uop::is_const;
using uop::Op;

// ---- What the expressions of elementwise.def use ----

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLn2 = std::numbers::ln2;
constexpr double kOneOverLn2 = 1 / std::numbers::ln2;
constexpr double kHalfPi = std::numbers::pi / 2;
constexpr double kLog10Of2 = std::numbers::ln2 / std::numbers::ln10;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kSqrtHalf = std::numbers::sqrt2 / 2;

bool is_bool(Expr x) { return x.dtype() == DType::kBool; }
bool is_float(Expr x) { return dtype::is_float(x.dtype()); }
bool is_sticky(Expr x) { return dtype::is_sticky(x.dtype()); }
bool is_wide(Expr x) { return dtype::is_wide(x.dtype()); }
// Where x is ERR.
Expr is_error(Expr x) {
  const Word error = dtype::sticky_error(x.dtype());
  return x == Expr{x.g, x.g->constant_word(x.dtype(), error, x.shape())};
}
Expr nowhere(Expr x) { return {x.g, x.g->constant_int(DType::kBool, 0, x.shape())}; }
Expr at_least_float32(Expr x) {
  return is_wide(x) ? x : x.cast(dtype::least_upper(x.dtype(), DType::kFloat32));
}
// What chooses by comparing gives max and min of sticky operands instead, which hand ERR on.
Expr sign(Expr x) {
  if (is_sticky(x)) return min(max(x, -1.0), 1.0);
  if (dtype::is_unsigned(x.dtype())) return where(x != 0.0, x.like(1), 0.0);
  return where(x != 0.0, where(x < 0.0, x.like(-1), 1.0), 0.0);
}
Expr sigmoid(Expr x) { return {x.g, uop::build_sigmoid(*x.g, x.n, false)}; }
Expr strict_sigmoid(Expr x) { return {x.g, uop::build_sigmoid(*x.g, x.n, true)}; }
// Abramowitz and Stegun 7.1.26.
Expr strict_erf(Expr x) {
  const Expr t = 1.0 / (1.0 + 0.3275911 * (x * sign(x)));
  Expr p = t.like(1.061405429);
  for (const double c : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) p = p * t + c;
  return sign(x) * (1.0 - t * p * alu(Op::kExp2, -(x * x) * kOneOverLn2));
}
Expr relu(Expr x) { return is_sticky(x) ? max(x, 0.0) : where(x > 0.0, x, 0.0); }
// Clamped; no gradient at low, as of relu. NaN stays.
Expr between(Expr x, double low, double high) {
  if (is_sticky(x)) return min(max(x, low), high);
  return where(x > high, high, where(x <= low, low, x));
}
Expr copysign(Expr a, Expr b) {
  if (dtype::is_unsigned(a.dtype()) || is_bool(a)) return a;
  const Expr size = abs(a), below = b < 0.0;
  if (is_sticky(a)) return where(is_error(b), b, where(below, -size, size));
  return where(is_float(a) ? below | (recip(b) < 0.0) : below, -size, size);
}
Expr strict_exp(Expr x) {
  return alu(Op::kExp2, at_least_float32(x) * kOneOverLn2).cast(x.dtype());
}
Expr strict_min(Expr a, Expr b) { return where(b < a, b, a); }
Expr strict_logaddexp(Expr a, Expr b) {
  const Expr most = where(a < b, b, a);
  return log2(strict_exp(a - most) + strict_exp(b - most)) * kLn2 + most;
}
// Abramowitz and Stegun 4.4.46.
Expr strict_asin(Expr x) {
  const Expr a = x * sign(x);
  Expr p = x.like(-0.0012624911);
  for (const double c : {0.0066700901, -0.0170881256, 0.0308918810, -0.0501743046, 0.0889789874,
                         -0.2145988016, 1.5707963050}) {
    p = p * a + c;
  }
  return sign(x) * (kHalfPi - sqrt(1.0 - a) * p);
}

// Of a constant exponent, by products: where one does not fit, none behind it does.
Expr sticky_power(Expr a, Expr b) {
  constexpr int64_t kMost = 64;
  const int64_t exponent = is_const(b.n) ? uop::const_int(b.n) : -1;
  if (exponent < 1 || exponent > kMost) {
    (void)ASTER_FAIL(kDTYPE, "pow of %s: the exponent needs to be a constant of 1 to %lld",
                     brief(a.n).text, static_cast<long long>(kMost));
    return {a.g, nullptr};
  }
  Expr y = a;
  for (int64_t i = 1; i < exponent; ++i) y = y * a;
  return y;
}

// a^b; small constant exponents are products, integers are computed in float64.
Expr power(Expr a, Expr b) {
  const bool constant = is_const(b.n);
  if (is_sticky(a)) return sticky_power(a, b);
  if (!is_float(a)) {
    if (constant && !is_bool(b) && !dtype::is_unsigned(b.dtype()) && uop::const_int(b.n) < 0) {
      (void)ASTER_FAIL(kDTYPE, "pow of %s and a negative integer: the base needs to be float",
                       brief(a.n).text);
      return {a.g, nullptr};
    }
    return pow(a.cast(DType::kFloat64), b.cast(DType::kFloat64)).cast(a.dtype());
  }
  if (constant && uop::is_const_value(b.n, 1)) return a;
  if (constant && uop::is_const_value(b.n, 2)) return a * a;
  if (constant && uop::is_const_value(b.n, 3) && !is_wide(a)) return a * a * a;
  if (constant && uop::is_const_value(b.n, -1)) return recip(a);
  return pow(a, b);
}

// 2^(b log2 |a|) with the signs and corners that tinygrad mends; its gradient is that of the power.
Expr strict_power(Expr a, Expr b) {
  if (!is_float(a) || is_const(b.n) || is_const(a.n)) return power(a, b);
  const DType seen = a.dtype();
  const bool steps = seen == DType::kFloat16;
  const Expr x = steps ? a : at_least_float32(a), y = steps ? b : at_least_float32(b);
  const Expr size = alu(Op::kExp2, log2(where(x < 0.0, -x, x)) * y);
  const Expr whole = y.cast(DType::kInt32);
  const Expr odd = where(y < 0.0, -y, y).cast(DType::kInt32);
  const Expr is_odd = alu(Op::kCMod, odd, odd.like(2)) != 0.0;
  const Expr of_fraction = where(x != -kInfinity, std::numeric_limits<double>::quiet_NaN(), size);
  const Expr below = where(y != whole.cast(y.dtype()), of_fraction, where(is_odd, -size, size));
  const Expr value = where(y == 0.0, 1.0, where(x < 0.0, below, size)).cast(seen).detach();
  const Expr exact = power(a, b);
  return where(abs(exact) < kInfinity, value + (exact - exact.detach()), value);
}

#define UNARY(name, domain, expression) \
  Expr compute_##name(Expr x) { return expression; }
#define BINARY(name, domain, expression) \
  Expr compute_##name(Expr a, Expr b) { return expression; }
#define STRICT_UNARY(name, domain, expression) \
  Expr strict_compute_##name(Expr x) { return expression; }
#define STRICT_BINARY(name, domain, expression) \
  Expr strict_compute_##name(Expr a, Expr b) { return expression; }
#define CURVE(name, domain, p, q, expression)                     \
  Expr compute_##name(Expr x, const double* numbers) {            \
    [[maybe_unused]] const double p = numbers[0], q = numbers[1]; \
    return expression;                                            \
  }
#define STRICT_CURVE(name, domain, p, q, expression)              \
  Expr strict_compute_##name(Expr x, const double* numbers) {     \
    [[maybe_unused]] const double p = numbers[0], q = numbers[1]; \
    return expression;                                            \
  }
#include "tensor/elementwise.def"

Node nil(Status) { return nullptr; }

// The dtype that an operand of this domain is computed in, before weak ones become strong.
DType domain_dtype(const Graph& g, Domain domain, DType d) {
  switch (domain) {
    case Domain::kFloat:
    case Domain::kWide:
    case Domain::kWideSteps:
      return dtype::least_upper_float(d, g.defaults);
    case Domain::kReal:
    case Domain::kSteps:
      if (dtype::is_sticky(d)) return DType::kNone;
      return dtype::is_float(d) ? d : DType::kWeakFloat;
    case Domain::kDivide:
      if (dtype::is_sticky(d)) return DType::kNone;
      return dtype::is_float(d) ? d : g.defaults.real;
    case Domain::kNumber:
      return d == DType::kBool ? g.defaults.real : d;
    case Domain::kLogical:
      return DType::kBool;
    case Domain::kCount:
      return d == DType::kBool ? DType::kWeakInt : d;
    default:
      return d;
  }
}

// The dtype that the steps of a composition are computed in.
DType step_dtype(Domain domain, DType d) {
  if (!dtype::is_narrow_float(d)) return d;
  const bool steps = domain == Domain::kSteps || domain == Domain::kWideSteps;
  const bool wide = domain == Domain::kReal || domain == Domain::kWide || steps;
  return wide && !(steps && d == DType::kFloat16) ? DType::kFloat32 : d;
}

bool allowed(Domain domain, DType d) {
  if (domain == Domain::kWord) return d == DType::kUInt64;
  if (domain == Domain::kBits) return !dtype::is_float(d) && !dtype::is_sticky(d);
  if (domain == Domain::kShift) return dtype::is_int(d);
  return true;
}

bool is_weak_const(Node x) { return is_const(x) && dtype::is_weak(x->dtype); }

// The plan of an elementwise operation: pure validation, no nodes.
struct Plan {
  DType result;   // as promotion says; weak where all operands are
  DType compute;  // what operands are cast to
  Dims shape;
};

Status plan_dtypes(Plan* plan, const Graph& g, const char* name, Domain domain, Nodes operands) {
  DType d = operands[0]->dtype;
  bool all_constant = true;
  for (Node x : operands) {
    d = dtype::least_upper(d, x->dtype);
    all_constant &= is_const(x);
  }
  plan->result = d == DType::kNone ? d : domain_dtype(g, domain, d);
  if (!allowed(domain, d) || plan->result == DType::kNone) {
    return ASTER_FAIL(kDTYPE, "%s of %s and %s", name, brief(operands[0]).text,
                      brief(operands.back()).text);
  }
  plan->compute = all_constant ? plan->result : g.strong(plan->result);
  plan->compute = step_dtype(domain, plan->compute);
  return kOk;
}

Status plan_shape(Plan* plan, Nodes operands) {
  const auto take = [&](Words shape) {  // a whole Dims is 2 KiB to copy
    plan->shape.count = 0;
    for (Word dim : shape) plan->shape.push(dim);
  };
  take(operands[0]->shape());
  for (Node x : operands.subspan(1)) {
    Dims both;
    if (!broadcast_shape(&both, plan->shape, x->shape())) {
      return ASTER_FAIL(kSHAPE, "%s and %s do not broadcast", brief(operands[0]).text,
                        brief(x).text);
    }
    take(both);
  }
  return kOk;
}

// A comparison with an integer constant that the other operand's dtype cannot hold is made in
// int64, or tbb64.
DType compare_dtype(DType compute, Node a, Node b) {
  const bool sticky = dtype::is_sticky(compute);
  const bool whole = dtype::is_int(compute) || sticky;
  if (!whole || dtype::bits(compute) == 0 || dtype::bits(compute) == 64) return compute;
  for (Node x : {a, b}) {
    if (!is_weak_const(x)) continue;
    const int64_t value = uop::const_int(x);
    if (value < dtype::min_int(compute) ||
        (value > 0 && static_cast<uint64_t>(value) > dtype::max_int(compute))) {
      return sticky ? DType::kTbb64 : DType::kInt64;
    }
  }
  return compute;
}

Expr operand(Graph& g, Node x, DType compute) { return {&g, cast(g, x, compute)}; }

// The result in the dtype that the user sees.
Node finish(const Plan& plan, Expr y) {
  if (y.n == nullptr || y.dtype() != plan.compute || plan.result == plan.compute) return y.n;
  return y.g->cast(y.n, plan.result);
}

}  // namespace

namespace ops {
#define UNARY(name, domain, expression) \
  const UnaryOp name = {#name, Domain::domain, compute_##name};
#define BINARY(name, domain, expression) \
  const BinaryOp name = {#name, Domain::domain, compute_##name};
#define CURVE(name, domain, p, q, expression) \
  const CurveOp name = {#name, Domain::domain, compute_##name};
#include "tensor/elementwise.def"
}  // namespace ops

UnaryOp variant(const UnaryOp& op, bool strict) {
  if (!strict) return op;
#define STRICT_UNARY(row, domain, expression) \
  if (&op == &ops::row) return {op.name, Domain::domain, strict_compute_##row};
#include "tensor/elementwise.def"
  return op;
}

BinaryOp variant(const BinaryOp& op, bool strict) {
  if (!strict) return op;
#define STRICT_BINARY(row, domain, expression) \
  if (&op == &ops::row) return {op.name, Domain::domain, strict_compute_##row};
#include "tensor/elementwise.def"
  return op;
}

CurveOp variant(const CurveOp& op, bool strict) {
  if (!strict) return op;
#define STRICT_CURVE(row, domain, p, q, expression) \
  if (&op == &ops::row) return {op.name, Domain::domain, strict_compute_##row};
#include "tensor/elementwise.def"
  return op;
}

Node cast(Graph& g, Node x, DType dtype) {
  if (x == nullptr || x->dtype == dtype) return x;
  if (is_const(x)) return g.cast(x, dtype);
  return g.cast(g.cast(strong(g, x), g.strong(dtype)), dtype);
}

Node bitcast(Graph& g, Node x, DType dtype) {
  if (x == nullptr) return nullptr;
  if (dtype::is_weak(x->dtype) || dtype::is_weak(dtype)) {
    return nil(ASTER_FAIL(kDTYPE, "bitcast of %s to %s: weak dtypes have no bits", brief(x).text,
                          dtype::name(dtype)));
  }
  if (x->dtype != dtype && (dtype::is_wide(x->dtype) || dtype::is_wide(dtype)))
    return nil(ASTER_FAIL(kUNSUPPORTED, "bitcast of %s to %s", brief(x).text, dtype::name(dtype)));
  return dtype::size(x->dtype) == dtype::size(dtype) ? g.bitcast(x, dtype)
                                                     : bitcast_resized(g, x, dtype);
}

template <typename F>
static Node of_one(Graph& g, Node x, const char* name, Domain domain, F compute) {
  if (x == nullptr) return nullptr;
  Plan plan;
  if (!plan_dtypes(&plan, g, name, domain, Nodes(&x, 1)).ok()) return nullptr;
  const Expr e = operand(g, x, plan.compute);
  return e.n == nullptr ? nullptr : finish(plan, compute(e));
}

// Functions that are compositions elsewhere, and of wide floats one that is correctly rounded.
struct WideFunction {
  std::string_view name;
  int32_t code;
};
static constexpr WideFunction kWideFunctions[] = {
#define WIDE(name, NAME) {#name, ASTER_ML_FLT_##NAME},
#include "tensor/elementwise.def"
};

Node unary(Graph& g, Node x, const UnaryOp& op) {
  return of_one(g, x, op.name, op.domain, [&](Expr e) {
    if (!is_wide(e)) return op.compute(e);
    for (const WideFunction& row : kWideFunctions) {
      if (row.name == op.name) return uop::wide_function(row.code, e);
    }
    return op.compute(e);
  });
}

Node curve(Graph& g, Node x, const CurveOp& op, const double* p) {
  return of_one(g, x, op.name, op.domain, [&](Expr e) { return op.compute(e, p); });
}

Node binary(Graph& g, Node a, Node b, const BinaryOp& op) {
  if (a == nullptr || b == nullptr) return nullptr;
  const Node operands[] = {a, b};
  Plan plan;
  if (!plan_dtypes(&plan, g, op.name, op.domain, operands).ok() ||
      !plan_shape(&plan, operands).ok())
    return nullptr;
  if (op.domain == Domain::kCompare) plan.compute = compare_dtype(plan.compute, a, b);
  const Expr x = operand(g, a, plan.compute), y = operand(g, b, plan.compute);
  const Expr wide_x = x.expand(plan.shape), wide_y = y.expand(plan.shape);
  if (wide_x.n == nullptr || wide_y.n == nullptr) return nullptr;
  return finish(plan, op.compute(wide_x, wide_y));
}

Node where(Graph& g, Node condition, Node a, Node b) {
  if (condition == nullptr || a == nullptr || b == nullptr) return nullptr;
  if (condition->dtype != DType::kBool) {
    return nil(
        ASTER_FAIL(kDTYPE, "where on %s: the condition needs to be bool", brief(condition).text));
  }
  const Node operands[] = {a, b}, shapes[] = {condition, a, b};
  Plan plan;
  if (!plan_dtypes(&plan, g, "where", Domain::kKeep, operands).ok() ||
      !plan_shape(&plan, shapes).ok())
    return nullptr;
  if (!is_const(condition)) plan.compute = g.strong(plan.result);
  const Expr c{&g, condition};
  return finish(plan, where(c, operand(g, a, plan.compute), operand(g, b, plan.compute)));
}

Node fma(Graph& g, Node a, Node b, Node c) {
  if (a == nullptr || b == nullptr || c == nullptr) return nullptr;
  const Node operands[] = {a, b, c};
  Plan plan;
  if (!plan_dtypes(&plan, g, "fma", Domain::kKeep, operands).ok() ||
      !plan_shape(&plan, operands).ok())
    return nullptr;
  const Expr x = operand(g, a, plan.compute), y = operand(g, b, plan.compute),
             z = operand(g, c, plan.compute);
  const bool logical = plan.compute == DType::kBool;
  return finish(plan, logical ? (x & y) | z : alu(Op::kMulAcc, x, y, z));
}

Node clamp(Graph& g, Node x, Node low, Node high, bool has_low, bool has_high) {
  if (x != nullptr && dtype::is_sticky(x->dtype)) {
    if (has_low) x = binary(g, x, low, ops::maximum);
    return has_high ? binary(g, x, high, ops::minimum) : x;
  }
  if (has_low) x = where(g, binary(g, x, low, ops::lt), low, x);
  if (has_high) x = where(g, binary(g, x, high, ops::gt), high, x);
  return x;
}

}  // namespace aster::tensor
