// Operators that reduce axes, or go along one.
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

Expr sum_over(Expr x, const Dims& axes) { return uop::sum(x, axes); }
Expr mean_over(Expr x, const Dims& axes) { return uop::mean(x, axes); }

namespace {

// What a reduction is over; axes from an attribute, or from opset `since` on from operand 1.
struct Over {
  Node x;
  Dims axes;
  bool keep, nothing;
};

Over over(Op& op, int64_t since) {
  Over o{op.in(0), {}, op.integer("keepdims", 1) != 0, false};
  const Words given = op.axes(1, since);
  if (!op.ok()) return o;
  if (given.empty() && op.integer("noop_with_empty_axes", 0) != 0) {
    o.nothing = true;
  } else if (given.empty()) {
    for (size_t i = 0; i < o.x->ndim; ++i) o.axes.push(static_cast<Word>(i));
  } else {
    o.axes = op.resolved(given, o.x->ndim);
  }
  return o;
}

Node dropped(Op& op, const Over& o, Expr y) {
  return o.keep || o.nothing ? y.n : uop::drop_axes(op.g, y.n, o.axes);
}

// before(x), summed in the dtype that sums of x have, then after(sum), back in the dtype of x.
template <typename Before, typename After>
void summed(Op& op, int64_t since, Before before, After after) {
  const Over o = over(op, since);
  if (!op.ok()) return;
  const Expr wide =
      Expr{&op.g, o.x}.cast(dtype::is_float(o.x->dtype) ? dtype::sum_acc(o.x->dtype) : o.x->dtype);
  const Expr term = before(wide);
  const Expr all = o.nothing ? term : uop::reduce(uop::Op::kAdd, term, o.axes);
  op.set(dropped(op, o, after(all, o).cast(o.x->dtype)));
}

Expr as_real(Expr x) { return dtype::is_float(x.dtype()) ? x : x.cast(DType::kFloat64); }

void extremum(Op& op, uop::Op which) {
  const Over o = over(op, 18);
  if (!op.ok()) return;
  const bool flag = o.x->dtype == DType::kBool;
  const Expr x = flag ? Expr{&op.g, o.x}.cast(DType::kUInt8) : Expr{&op.g, o.x};
  const Expr y = o.nothing ? x : uop::reduce(which, x, o.axes);
  op.set(dropped(op, o, flag ? y != 0.0 : y));
}

void arg_extremum(Op& op, bool greatest) {
  Node x = op.in(0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", 0), x->ndim);
  if (!op.ok()) return;
  const bool last = op.integer("select_last_index", 0) != 0, keep = op.integer("keepdims", 1) != 0;
  const auto at = static_cast<int64_t>(axis);
  if (last) {
    Dims mask(x->ndim, 0);
    mask[axis] = 1;
    x = op.g.flip(x, mask);
  }
  Expr y{&op.g, greatest ? tensor::argmax(op.g, x, at, keep) : tensor::argmin(op.g, x, at, keep)};
  y = y.cast(DType::kInt64);
  if (last && x != nullptr) y = static_cast<double>(x->dim(axis) - 1) - y;
  op.set(y);
}

// Before opset 13 all axes from `axis` on are one.
void along(Op& op, Node (*f)(Graph& g, Node x, int64_t axis)) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const bool old = op.version < 13;
  int64_t axis = op.integer("axis", old ? 1 : -1);
  if (!old) return op.set(f(op.g, x, axis));
  if (axis < 0) axis += x->ndim;
  if (axis < 0 || axis > x->ndim)
    return op.fail(
        ASTER_FAIL(kRANGE, "axis %lld of %s", static_cast<long long>(axis), uop::brief(x).text));
  const Node y = f(op.g, flat_from(op, x, static_cast<size_t>(axis)), 1);
  op.set(y == nullptr ? y : op.g.reshape(y, x->shape()));
}

Node hardmax_of(Graph& g, Node x, int64_t axis) {
  if (x == nullptr) return nullptr;
  size_t at;
  if (!tensor::resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  const Expr best{&g, tensor::argmax(g, x, axis, true)};
  return (uop::iota(g, DType::kInt32, x->shape(), at) == best).cast(x->dtype).n;
}

void running(Op& op, uop::Op which, double first) {
  const Node x = op.in(0);
  const int64_t given = op.scalar(1, 0);
  if (!op.ok()) return;
  const size_t axis = op.axis(given, x->ndim);
  if (!op.ok()) return;
  const bool reverse = op.integer("reverse", 0) != 0;
  Node y = op.g.scan(which, x, static_cast<int64_t>(axis), reverse);
  if (op.integer("exclusive", 0) != 0 && y != nullptr && x->dim(axis) > 0) {
    const Word n = x->dim(axis);
    Dims before(x->ndim, 0), after(x->ndim, 0);
    (reverse ? after : before)[axis] = 1;
    const Node cut = tensor::cut_axis(op.g, y, axis, reverse ? 1 : 0, reverse ? n : n - 1);
    y = tensor::pad(op.g, cut, before, after, static_cast<Word>(first), DType::kInt64);
  }
  op.set(y);
}

}  // namespace

namespace build {

void reduce_sum(Op& op) {
  summed(
      op, 13, [](Expr x) { return x; }, [](Expr y, const Over&) { return y; });
}
void reduce_mean(Op& op) {
  const Over o = over(op, 18);
  if (!op.ok()) return;
  double count = 1;
  for (const Word axis : words_of(o.axes))
    count *= static_cast<double>(o.x->dim(static_cast<size_t>(axis)));
  const bool floats = dtype::is_float(o.x->dtype);
  const Expr wide = Expr{&op.g, o.x}.cast(floats ? dtype::sum_acc(o.x->dtype) : DType::kFloat64);
  const Expr y = o.nothing ? wide : uop::reduce(uop::Op::kAdd, wide, o.axes) / count;
  op.set(dropped(op, o, y.cast(o.x->dtype)));
}
void reduce_max(Op& op) { extremum(op, uop::Op::kMax); }
void reduce_min(Op& op) { extremum(op, uop::Op::kMin); }
void reduce_prod(Op& op) {
  const Over o = over(op, 18);
  if (op.ok())
    op.set(dropped(
        op, o, o.nothing ? Expr{&op.g, o.x} : uop::reduce(uop::Op::kMul, {&op.g, o.x}, o.axes)));
}
void reduce_l1(Op& op) {
  summed(
      op, 18, [](Expr x) { return uop::abs(x); }, [](Expr y, const Over&) { return y; });
}
void reduce_l2(Op& op) {
  summed(
      op, 18, [](Expr x) { return x * x; },
      [](Expr y, const Over&) { return uop::sqrt(as_real(y)); });
}
void reduce_sum_square(Op& op) {
  summed(
      op, 18, [](Expr x) { return x * x; }, [](Expr y, const Over&) { return y; });
}
void reduce_log_sum(Op& op) {
  summed(
      op, 18, [](Expr x) { return x; }, [](Expr y, const Over&) { return uop::log(as_real(y)); });
}
void reduce_log_sum_exp(Op& op) {
  const Over o = over(op, 18);
  if (!op.ok()) return;
  if (o.nothing) return op.set(o.x);
  const Expr x = as_real({&op.g, o.x});
  const Node y = tensor::logsumexp(op.g, x.n, axes_of(o.axes), o.keep);
  op.set(y == nullptr ? y : op.g.cast(y, o.x->dtype));
}

void arg_max(Op& op) { arg_extremum(op, true); }
void arg_min(Op& op) { arg_extremum(op, false); }
void softmax(Op& op) { along(op, tensor::softmax); }
void log_softmax(Op& op) { along(op, tensor::log_softmax); }
void hardmax(Op& op) { along(op, hardmax_of); }
void cum_sum(Op& op) { running(op, uop::Op::kAdd, 0); }
void cum_prod(Op& op) { running(op, uop::Op::kMul, 1); }

}  // namespace build
}  // namespace aster::nn::onnx
