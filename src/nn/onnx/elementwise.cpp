// Operators of one element, or of elements that broadcast.
#include <limits>

#include "aster_ml/functions.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

namespace ops = tensor::ops;
using tensor::as_wide;
using tensor::narrowed;

Node unary_element(Op& op, Node x, const tensor::UnaryOp& f) {
  return x == nullptr ? nullptr : tensor::unary(op.g, x, f);
}

namespace {

// Before opset 7 the second operand broadcasts only where it says so, along the axis that it says.
Node second(Op& op, Node a, Node b) {
  if (a == nullptr || b == nullptr || op.version >= 7 || op.integer("broadcast", 0) == 0) return b;
  if (b->ndim > a->ndim) {
    op.fail(ASTER_FAIL(kSHAPE, "%s along axes of %s", uop::brief(b).text, uop::brief(a).text));
    return nullptr;
  }
  const size_t axis = op.has("axis") ? op.axis(op.integer("axis", 0), a->ndim)
                                     : static_cast<size_t>(a->ndim - b->ndim);
  return along_axis(op, b, axis, a->ndim);
}

// Operands of one dtype, told where they are not: nothing is promoted.
bool same_dtype(Op& op, Node a, Node b) {
  if (a == nullptr || b == nullptr) return false;
  if (a->dtype == b->dtype) return true;
  op.fail(ASTER_FAIL(kDTYPE, "operands %s and %s", uop::brief(a).text, uop::brief(b).text));
  return false;
}

void binary(Op& op, const tensor::BinaryOp& f) {
  const Node a = op.in(0), b = second(op, a, op.in(1));
  if (!op.ok() || !same_dtype(op, a, b)) return;
  op.set(tensor::binary(op.g, a, b, f));
}

void unary(Op& op, const tensor::UnaryOp& f) { op.set(unary_element(op, op.in(0), f)); }

void curve(Op& op, const tensor::CurveOp& f, double p, double q = 0) {
  const double numbers[] = {p, q};
  const Node x = op.in(0);
  if (x != nullptr) op.set(tensor::curve(op.g, x, f, numbers));
}

// All operands folded into one.
template <typename F>
Node folded(Op& op, F f) {
  Node all = op.in(0);
  for (size_t i = 1; i < op.count() && op.ok(); ++i) {
    const Node next = op.in(i);
    if (!same_dtype(op, all, next)) return nullptr;
    all = f(all, next);
  }
  return all;
}

// Texts compare equal by their bytes.
void equal_texts(Op& op, const Value& a, const Value& b) {
  Dims shape;
  const Words left(a.shape.data(), a.shape.size()), right(b.shape.data(), b.shape.size());
  if (!uop::broadcast_shape(&shape, left, right)) {
    op.fail(ASTER_FAIL(kSHAPE, "texts of shape %s and %s", uop::brief_shape(left).text,
                       uop::brief_shape(right).text));
    return;
  }
  Ref made;
  void* data;
  op.fail(make_stored(&made, &data, op.engine(), DType::kBool, shape));
  if (!op.ok()) return;
  const int64_t count = made->node()->count();
  const auto place = [&](Words of, int64_t i) {
    size_t at = 0, stride = 1;
    for (size_t k = of.size(); k-- > 0;) {
      const size_t axis = shape.size() - of.size() + k;
      Word rest = i;
      for (size_t later = shape.size(); later-- > axis + 1;) rest /= shape[later];
      if (of[k] != 1) at += static_cast<size_t>(rest % shape[axis]) * stride;
      stride *= static_cast<size_t>(of[k]);
    }
    return at;
  };
  for (int64_t i = 0; i < count; ++i) {
    static_cast<uint8_t*>(data)[i] =
        a.texts[place(left, i)].view() == b.texts[place(right, i)].view() ? 1 : 0;
  }
  made->known = op.all_known();
  op.set(made);
}

// What is computed in float32 where x is narrower.
template <typename F>
void widened(Op& op, F f) {
  const Node x = op.in(0);
  if (x == nullptr) return;
  const Expr wide = as_wide(op.g, x);
  op.set(narrowed(f(wide), x));
}

}  // namespace

namespace build {

#define UNARY_BUILDER(name, f) \
  void name(Op& op) { unary(op, ops::f); }
#define BINARY_BUILDER(name, f) \
  void name(Op& op) { binary(op, ops::f); }

UNARY_BUILDER(abs, abs)
UNARY_BUILDER(acos, acos)
UNARY_BUILDER(acosh, acosh)
UNARY_BUILDER(asin, asin)
UNARY_BUILDER(asinh, asinh)
UNARY_BUILDER(atan, atan)
UNARY_BUILDER(atanh, atanh)
UNARY_BUILDER(ceil, ceil)
UNARY_BUILDER(cos, cos)
UNARY_BUILDER(cosh, cosh)
UNARY_BUILDER(erf, erf)
UNARY_BUILDER(exp, exp)
UNARY_BUILDER(floor, floor)
UNARY_BUILDER(log, log)
UNARY_BUILDER(neg, neg)
UNARY_BUILDER(reciprocal, reciprocal)
UNARY_BUILDER(relu, relu)
UNARY_BUILDER(round, round)
UNARY_BUILDER(sigmoid, sigmoid)
UNARY_BUILDER(sign, sign)
UNARY_BUILDER(sin, sin)
UNARY_BUILDER(sinh, sinh)
UNARY_BUILDER(softplus, softplus)
UNARY_BUILDER(softsign, softsign)
UNARY_BUILDER(sqrt, sqrt)
UNARY_BUILDER(tan, tan)
UNARY_BUILDER(tanh, tanh)
UNARY_BUILDER(logical_not, logical_not)
UNARY_BUILDER(bitwise_not, bitwise_not)
UNARY_BUILDER(isnan, isnan)
UNARY_BUILDER(hardswish, hardswish)
UNARY_BUILDER(mish, mish)
BINARY_BUILDER(add, add)
BINARY_BUILDER(sub, sub)
BINARY_BUILDER(mul, mul)
BINARY_BUILDER(logical_and, logical_and)
BINARY_BUILDER(logical_or, logical_or)
BINARY_BUILDER(logical_xor, logical_xor)
BINARY_BUILDER(bitwise_and, bitwise_and)
BINARY_BUILDER(bitwise_or, bitwise_or)
BINARY_BUILDER(bitwise_xor, bitwise_xor)
BINARY_BUILDER(less, lt)
BINARY_BUILDER(less_equal, le)
BINARY_BUILDER(greater, gt)
BINARY_BUILDER(greater_equal, ge)

void equal(Op& op) {
  if (op.element(0) == kText && op.element(1) == kText) {
    equal_texts(op, *op.value(0), *op.value(1));
  } else {
    binary(op, ops::eq);
  }
}

void div(Op& op) {
  const Node a = op.in(0);
  if (a != nullptr) binary(op, dtype::is_float(a->dtype) ? ops::div : ops::truncdiv);
}

void mod(Op& op) {
  const Expr a = op.x(0), b = op.x(1);
  if (!op.ok()) return;
  const bool c = op.integer("fmod", 0) != 0;
  if (!dtype::is_float(a.dtype())) return binary(op, c ? ops::fmod : ops::mod);
  // Of a finite number by an infinite one it is that number, moved by the divisor where signs
  // differ.
  const DType wide = dtype::is_narrow_float(a.dtype()) ? DType::kFloat32 : a.dtype();
  const Expr x = a.cast(wide), y = b.cast(wide);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Expr turns = x / y;
  const Expr plain = x - (c ? uop::trunc(turns) : uop::floor(turns)) * y;
  const Expr apart = ((x < 0.0) ^ (y < 0.0)) & (x != 0.0);
  const Expr far = c ? x : uop::where(apart, y, x);
  const Expr infinite = (uop::abs(y) == kInfinity) & (uop::abs(x) < kInfinity);
  op.set(uop::where(infinite, far.expand(plain.shape()), plain).cast(a.dtype()));
}

void pow(Op& op) {
  const Node a = op.in(0), b = second(op, a, op.in(1));
  if (!op.ok()) return;
  const bool floats = dtype::is_float(a->dtype), both = floats && !dtype::is_float(b->dtype);
  if (floats || !dtype::is_float(b->dtype)) {
    const DType wide = floats && dtype::is_narrow_float(a->dtype) ? DType::kFloat32
                       : floats                                   ? a->dtype
                                                                  : DType::kFloat64;
    (void)both;
    const Node y =
        tensor::binary(op.g, tensor::cast(op.g, a, wide), tensor::cast(op.g, b, wide), ops::pow);
    op.set(tensor::cast(op.g, y, a->dtype));
    return;
  }
  const Node y = tensor::binary(op.g, tensor::cast(op.g, a, DType::kFloat64),
                                tensor::cast(op.g, b, DType::kFloat64), ops::pow);
  op.set(tensor::cast(op.g, y, a->dtype));
}

void bit_shift(Op& op) { binary(op, op.text("direction", "") == "LEFT" ? ops::shl : ops::shr); }

void max(Op& op) {
  op.set(folded(op, [&](Node a, Node b) { return tensor::binary(op.g, a, b, ops::maximum); }));
}
void min(Op& op) {
  op.set(folded(op, [&](Node a, Node b) { return tensor::binary(op.g, a, b, ops::minimum); }));
}
void sum(Op& op) {
  op.set(folded(op, [&](Node a, Node b) { return tensor::binary(op.g, a, b, ops::add); }));
}
void mean(Op& op) {
  const Node all = folded(op, [&](Node a, Node b) { return tensor::binary(op.g, a, b, ops::add); });
  op.set(Expr{&op.g, all} / static_cast<double>(op.count()));
}

void where(Op& op) {
  const Node c = op.in(0), a = op.in(1), b = op.in(2);
  if (op.ok()) op.set(tensor::where(op.g, c, a, b), op.element(1));
}

void clip(Op& op) {
  Expr x = op.x(0);
  if (!op.ok()) return;
  if (op.version < 11) {
    if (op.has("min")) x = uop::max(x, op.number("min", 0));
    if (op.has("max")) x = uop::min(x, op.number("max", 0));
  } else {
    if (op.has(1)) x = uop::max(x, op.x(1));
    if (op.has(2)) x = uop::min(x, op.x(2));
  }
  op.set(x);
}

void isinf(Op& op) {
  const bool positive = op.integer("detect_positive", 1) != 0;
  const bool negative = op.integer("detect_negative", 1) != 0;
  op.set(op.through(
      [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
        return aster_ml_lazy_isinf_signed(out, in[0], positive, negative);
      },
      {op.in(0)}));
}

void elu(Op& op) { curve(op, ops::elu, op.number("alpha", 1)); }
void selu(Op& op) {
  const bool first = op.version < 6;
  curve(op, ops::selu, op.number("alpha", first ? 1.6732 : 1.67326319217681884765625),
        op.number("gamma", first ? 1.0507 : 1.05070102214813232421875));
}
void celu(Op& op) { curve(op, ops::celu, op.number("alpha", 1)); }
void hard_sigmoid(Op& op) {
  curve(op, ops::hardsigmoid, op.number("alpha", 0.2), op.number("beta", 0.5));
}
void leaky_relu(Op& op) {
  const double alpha = op.number("alpha", 0.01);
  widened(op, [&](Expr x) { return uop::where(x < 0.0, alpha * x, x); });
}
void prelu(Op& op) {
  const Node x = op.in(0);
  Node slope = op.in(1);
  if (!op.ok()) return;
  if (op.version < 7 && slope->ndim == 1 && x->ndim > 1) slope = along_axis(op, slope, 1, x->ndim);
  const Expr a{&op.g, x}, s{&op.g, slope};
  op.set(uop::where(a < 0.0, s * a, a));
}
void thresholded_relu(Op& op) {
  const double alpha = op.number("alpha", 1);
  const Expr x = op.x(0);
  op.set(uop::where(x > alpha, x, 0.0));
}
void shrink(Op& op) {
  const double bias = op.number("bias", 0), lambda = op.number("lambd", 0.5);
  const Expr x = op.x(0);
  if (!op.ok()) return;
  if (!dtype::is_float(x.dtype())) {
    const Expr wide = x.cast(DType::kFloat64);
    const Expr y = uop::where(wide < -lambda, wide + bias,
                              uop::where(wide > lambda, wide - bias, wide.like(0)));
    op.set(y.cast(x.dtype()));
    return;
  }
  op.set(uop::where(x < -lambda, x + bias, uop::where(x > lambda, x - bias, x.like(0))));
}
void gelu(Op& op) {
  unary(op, op.text("approximate", "none") == "tanh" ? ops::gelu : ops::gelu_erf);
}
void swish(Op& op) {
  const double alpha = op.number("alpha", 1);
  widened(op, [&](Expr x) {
    const Expr scaled = alpha * x;
    return x * Expr{&op.g, unary_element(op, scaled.n, ops::sigmoid)};
  });
}

}  // namespace build
}  // namespace aster::nn::onnx
