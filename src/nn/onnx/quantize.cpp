// Quantisation, and products of quantised matrices.
#include <algorithm>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// A scale or zero point beside x: one for all, one a place of an axis, or one a block along it.
Node beside(Op& op, Node scale, Node x, int64_t axis, int64_t block) {
  if (scale == nullptr || x == nullptr) return nullptr;
  if (scale->count() == 1 && scale->ndim <= 1) return op.g.reshape(scale, Words());
  if (x->ndim == 0) return scale;
  const size_t at = op.axis(axis, x->ndim);
  if (!op.ok()) return nullptr;
  if (scale->ndim == 1 && block == 0) return along_axis(op, scale, at, x->ndim);
  if (block <= 0 || scale->ndim != x->ndim) {
    op.fail(ASTER_FAIL(kSHAPE, "a scale %s of %s", uop::brief(scale).text, uop::brief(x).text));
    return nullptr;
  }
  const Node wide = tensor::repeat_interleave(op.g, scale, block, static_cast<int64_t>(at));
  return wide == nullptr ? nullptr
                         : tensor::cut_axis(op.g, wide, at, 0, std::min(x->dim(at), wide->dim(at)));
}

struct Bounds {
  double low, high;
};
Bounds bounds_of(int32_t element, DType dtype) {
  switch (element) {
    case kInt4:
      return {-8, 7};
    case kUInt4:
      return {0, 15};
    case kInt2:
      return {-2, 1};
    case kUInt2:
      return {0, 3};
    default:
      return {static_cast<double>(dtype::min_int(dtype)),
              static_cast<double>(dtype::max_int(dtype))};
  }
}

Expr bounded(Expr x, const Bounds& b) { return uop::min(uop::max(x, b.low), b.high); }

DType wide_of(DType dtype) { return dtype::is_narrow_float(dtype) ? DType::kFloat32 : dtype; }

}  // namespace

Node zero_point(Op& op, size_t i) {
  const Node zero = op.in_or_null(i);
  if (zero == nullptr || dtype::is_float(zero->dtype)) return zero;
  const Ref value = op.value(i);
  if (!value->constant || !is_stored(*value)) return zero;
  const Words all = op.ints(i);
  if (!op.ok() || all.empty()) return zero;
  if (std::ranges::any_of(all, [&](Word one) { return one != all[0]; })) return zero;
  return op.g.constant(zero->dtype, static_cast<double>(all[0]), zero->shape());
}

namespace {

Node less_zero(Op& op, Node x, size_t zero, bool columns) {
  if (x == nullptr) return nullptr;
  Expr y = Expr{&op.g, x}.cast(DType::kInt32);
  if (!op.has(zero)) return y.n;
  Node z = zero_point(op, zero);
  if (z == nullptr) return nullptr;
  if (z->count() == 1) {
    z = op.g.reshape(z, Words());
  } else if (z->ndim == 1 && !columns) {
    z = op.g.reshape(z, std::array{z->dim(0), Word{1}});
  }
  return (y - Expr{&op.g, z}.cast(DType::kInt32)).n;
}

}  // namespace

namespace build {

void quantize_linear(Op& op) {
  const Node x = op.in(0), scale = op.in(1), zero = op.in_or_null(2);
  if (!op.ok()) return;
  const int64_t axis = op.integer("axis", 1), block = op.integer("block_size", 0);
  int32_t element = zero != nullptr ? op.element(2) : kUInt8;
  if (op.integer("output_dtype", 0) != 0)
    element = static_cast<int32_t>(op.integer("output_dtype", 0));
  const DType dtype = dtype_of(op, element);
  const auto precision = static_cast<int32_t>(op.integer("precision", 0));
  DType wide = precision != 0 ? wide_of(dtype_of(op, precision)) : DType::kFloat32;
  if (x->dtype == DType::kFloat64) wide = DType::kFloat64;
  if (!op.ok()) return;
  const Expr by = Expr{&op.g, beside(op, scale, x, axis, block)}.cast(wide);
  const Expr y = Expr{&op.g, x}.cast(wide) / by;
  const bool floats = dtype::is_float(dtype);
  if (!op.ok()) return;
  if (floats)
    return op.set(cast_element(op, y.n, kFloat, element, op.integer("saturate", 1) != 0), element);
  Expr whole = alu(uop::Op::kRound, y);
  if (zero != nullptr) whole = whole + Expr{&op.g, beside(op, zero, x, axis, block)}.cast(wide);
  op.set(bounded(whole, bounds_of(element, dtype)).cast(dtype), element);
}

void dequantize_linear(Op& op) {
  const Node x = op.in(0), scale = op.in(1), zero = zero_point(op, 2);
  if (!op.ok()) return;
  const int64_t axis = op.integer("axis", 1), block = op.integer("block_size", 0);
  int32_t element = op.element(1);
  if (op.integer("output_dtype", 0) != 0)
    element = static_cast<int32_t>(op.integer("output_dtype", 0));
  const DType dtype = dtype_of(op, element);
  if (!op.ok()) return;
  const DType wide = wide_of(dtype);
  const bool floats = dtype::is_float(x->dtype);
  Expr y{&op.g, x};
  if (zero != nullptr && !floats)
    y = y.cast(DType::kInt32) - Expr{&op.g, beside(op, zero, x, axis, block)}.cast(DType::kInt32);
  op.set((y.cast(wide) * Expr{&op.g, beside(op, scale, x, axis, block)}.cast(wide)).cast(dtype),
         element);
}

void dynamic_quantize_linear(Op& op) {
  const Expr x = op.x(0);
  if (!op.ok()) return;
  Dims all;
  for (size_t i = 0; i < x.ndim(); ++i) all.push(static_cast<Word>(i));
  const Expr low{&op.g,
                 uop::drop_axes(op.g, uop::min(uop::reduce(uop::Op::kMin, x, all), 0.0).n, all)};
  const Expr high{&op.g,
                  uop::drop_axes(op.g, uop::max(uop::reduce(uop::Op::kMax, x, all), 0.0).n, all)};
  const Expr scale = (high - low) / 255.0;
  const Bounds byte{0, 255};
  const Expr zero = bounded(alu(uop::Op::kRound, -low / scale), byte);
  op.set(0, bounded(alu(uop::Op::kRound, x / scale) + zero, byte).cast(DType::kUInt8).n);
  op.set(1, scale.n);
  op.set(2, zero.cast(DType::kUInt8).n);
}

void matmul_integer(Op& op) {
  const Node a = less_zero(op, op.in(0), 2, false), b = less_zero(op, op.in(1), 3, true);
  if (op.ok()) op.set(tensor::matmul(op.g, a, b));
}

void qlinear_matmul(Op& op) {
  const Node a = less_zero(op, op.in(0), 2, false), b = less_zero(op, op.in(3), 5, true),
             zero = op.in(7);
  if (!op.ok()) return;
  const auto scale = [&](size_t i, bool rows) {
    Node s = op.in(i);
    if (s == nullptr) return Expr{&op.g, nullptr};
    s = s->count() == 1        ? op.g.reshape(s, Words())
        : rows && s->ndim == 1 ? op.g.reshape(s, std::array{s->dim(0), Word{1}})
                               : s;
    return Expr{&op.g, s}.cast(DType::kFloat32);
  };
  const Expr sums = Expr{&op.g, tensor::matmul(op.g, a, b)}.cast(DType::kFloat32);
  const Expr real = sums * (scale(1, true) * scale(4, false) / scale(6, true));
  const Expr z{&op.g, zero->count() == 1 ? op.g.reshape(zero, Words()) : zero};
  const Expr y = alu(uop::Op::kRound, real) + z.cast(DType::kFloat32);
  op.set(bounded(y, bounds_of(op.element(7), zero->dtype)).cast(zero->dtype));
}

}  // namespace build
}  // namespace aster::nn::onnx
