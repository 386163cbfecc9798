// Normalisations and dropout.
#include <cmath>

#include "nn/onnx/builders.h"
#include "tensor/random.h"

namespace aster::nn::onnx {
namespace {

DType wide_of(Node x) { return dtype::is_narrow_float(x->dtype) ? DType::kFloat32 : x->dtype; }

Dims axes_from(size_t first, size_t ndim) {
  Dims out;
  for (size_t i = first; i < ndim; ++i) out.push(static_cast<Word>(i));
  return out;
}

// (x - mean) / sqrt(variance + epsilon) over axes; mean and 1 / sqrt(...) are told.
Expr normalised(Expr x, const Dims& axes, double epsilon, Expr* mean, Expr* inverse) {
  *mean = mean_over(x, axes);
  const Expr apart = x - *mean;
  *inverse = uop::recip(uop::sqrt(mean_over(apart * apart, axes) + epsilon));
  return apart * *inverse;
}

// Statistics of each element of a row, not of each channel: until opset 9.
bool is_by_element(Op& op) { return op.version < 9 && op.integer("spatial", 1) == 0; }

Expr by_channel(Op& op, size_t i, size_t ndim, DType dtype) {
  return Expr{&op.g, along_axis(op, op.in(i), 1, ndim)}.cast(dtype);
}

}  // namespace

namespace build {

void batch_normalization(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const DType wide = wide_of(x);
  const bool training =
      op.integer("training_mode", 0) != 0 || (op.version < 7 && op.integer("is_test", 0) == 0);
  const double epsilon = op.number("epsilon", 1e-5), momentum = op.number("momentum", 0.9);
  const Expr v = Expr{&op.g, x}.cast(wide);
  const Expr scale = by_channel(op, 1, x->ndim, wide), bias = by_channel(op, 2, x->ndim, wide);
  Expr mean = by_channel(op, 3, x->ndim, wide), variance = by_channel(op, 4, x->ndim, wide);
  if (!op.ok()) return;
  if (training) {
    Dims axes(1, 0);
    for (size_t i = 2; i < x->ndim && !is_by_element(op); ++i) axes.push(static_cast<Word>(i));
    const Expr now = mean_over(v, axes);
    const Expr apart = v - now;
    const Expr spread = mean_over(apart * apart, axes);
    const Dims channels(op.in(3)->shape());
    op.set(1, (mean * momentum + now * (1 - momentum)).reshape(channels).cast(op.in(3)->dtype).n);
    op.set(
        2,
        (variance * momentum + spread * (1 - momentum)).reshape(channels).cast(op.in(4)->dtype).n);
    mean = now;
    variance = spread;
  }
  op.set(0,
         ((v - mean) * uop::recip(uop::sqrt(variance + epsilon)) * scale + bias).cast(x->dtype).n);
}

void instance_normalization(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const DType wide = wide_of(x);
  Expr mean, inverse;
  const Expr y = normalised(Expr{&op.g, x}.cast(wide), axes_from(2, x->ndim),
                            op.number("epsilon", 1e-5), &mean, &inverse);
  op.set((y * by_channel(op, 1, x->ndim, wide) + by_channel(op, 2, x->ndim, wide)).cast(x->dtype));
}

void group_normalization(Op& op) {
  const Node x = op.in(0);
  const Word groups = op.integer("num_groups", 0);
  if (!op.ok()) return;
  if (x->ndim < 2 || groups < 1 || x->dim(1) % groups != 0)
    return op.fail(ASTER_FAIL(kSHAPE, "%s in %lld groups", uop::brief(x).text,
                              static_cast<long long>(groups)));
  const DType wide = wide_of(x);
  Dims apart;
  apart.push(x->dim(0));
  apart.push(groups);
  apart.push(x->dim(1) / groups);
  for (size_t i = 2; i < x->ndim; ++i) apart.push(x->dim(i));
  Expr mean, inverse;
  Expr y = normalised(Expr{&op.g, x}.cast(wide).reshape(apart), axes_from(2, apart.size()),
                      op.number("epsilon", 1e-5), &mean, &inverse);
  if (op.version < 21) {  // a scale and a bias a group
    const auto by_group = [&](size_t i) {
      return Expr{&op.g, along_axis(op, op.in(i), 1, apart.size())}.cast(wide);
    };
    y = (y * by_group(1) + by_group(2)).reshape(x->shape());
  } else {
    y = y.reshape(x->shape()) * by_channel(op, 1, x->ndim, wide) + by_channel(op, 2, x->ndim, wide);
  }
  op.set(y.cast(x->dtype));
}

void layer_normalization(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", -1), x->ndim);
  const auto stash = static_cast<int32_t>(op.integer("stash_type", 1));
  const DType wide = x->dtype == DType::kFloat64 ? DType::kFloat64 : dtype_of(op, stash);
  if (!op.ok()) return;
  const DType computed = dtype::is_narrow_float(wide) ? DType::kFloat32 : wide;
  Expr mean, inverse;
  Expr y = normalised(Expr{&op.g, x}.cast(computed), axes_from(axis, x->ndim),
                      op.number("epsilon", 1e-5), &mean, &inverse);
  y = y.cast(x->dtype);
  y = y * op.x(1);
  if (op.has(2)) y = y + op.x(2);
  op.set(0, y.n);
  op.set(1, mean.cast(wide).n);
  op.set(2, inverse.cast(wide).n);
}

void rms_normalization(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", -1), x->ndim);
  const auto stash = static_cast<int32_t>(op.integer("stash_type", 1));
  const DType wide = x->dtype == DType::kFloat64 ? DType::kFloat64 : dtype_of(op, stash);
  if (!op.ok()) return;
  const Expr v = Expr{&op.g, x}.cast(dtype::is_narrow_float(wide) ? DType::kFloat32 : wide);
  const Expr y = v * uop::recip(uop::sqrt(mean_over(v * v, axes_from(axis, x->ndim)) +
                                          op.number("epsilon", 1e-5)));
  const Expr scale = op.x(1);
  op.set(y.cast(scale.dtype()) * scale);
}

void lp_normalization(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", -1), x->ndim);
  const int64_t p = op.integer("p", 2);
  if (p != 1 && p != 2) op.fail(ASTER_FAIL(kUNSUPPORTED, "p %lld", static_cast<long long>(p)));
  if (!op.ok()) return;
  const Dims axes(1, static_cast<Word>(axis));
  const Expr v = Expr{&op.g, x}.cast(wide_of(x));
  const Expr norm = p == 1 ? uop::reduce(uop::Op::kAdd, uop::abs(v), axes)
                           : uop::sqrt(uop::reduce(uop::Op::kAdd, v * v, axes));
  op.set(uop::where(norm == 0.0, v.like(0), v / norm).cast(x->dtype));
}

void lrn(Op& op) {
  const Node x = op.in(0);
  const int64_t size = op.integer("size", 1);
  if (!op.ok()) return;
  if (x->ndim < 2 || size < 1 || size > 1 << 20)
    return op.fail(ASTER_FAIL(kSHAPE, "%s over %lld channels", uop::brief(x).text,
                              static_cast<long long>(size)));
  const DType wide = wide_of(x);
  const Expr v = Expr{&op.g, x}.cast(wide);
  Dims before(x->ndim, 0), after(x->ndim, 0);
  before[1] = (size - 1) / 2;
  after[1] = size - 1 - before[1];
  const Node padded = tensor::pad(op.g, (v * v).n, before, after, 0, DType::kInt64);
  const Node windows = padded == nullptr ? nullptr : op.g.window(padded, 1, size, 1, 1);
  if (windows == nullptr) return op.fail(last_failure());
  const Dims axes(1, 2);
  const Expr all{&op.g, uop::drop_axes(op.g, op.g.reduce(uop::Op::kAdd, windows, axes), axes)};
  const double alpha = op.number("alpha", 1e-4), beta = op.number("beta", 0.75),
               bias = op.number("bias", 1);
  op.set((v / uop::pow(all * (alpha / static_cast<double>(size)) + bias, beta)).cast(x->dtype));
}

void mean_variance_normalization(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const Dims axes = op.has("axes") ? op.resolved(op.integers("axes"), x->ndim)
                                   : Dims(Words(std::array<Word, 3>{0, 2, 3}));
  if (!op.ok()) return;
  if (!op.has("axes") && x->ndim != 4)
    return op.fail(ASTER_FAIL(kSHAPE, "%s without axes", uop::brief(x).text));
  const Expr v = Expr{&op.g, x}.cast(wide_of(x));
  const Expr apart = v - mean_over(v, axes);
  op.set((apart / (uop::sqrt(mean_over(apart * apart, axes)) + 1e-9)).cast(x->dtype));
}

void dropout(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  double ratio = op.number("ratio", 0.5);
  bool training = op.version < 7 && op.integer("is_test", 0) == 0;
  if (op.version >= 12) {
    ratio = op.real(1, 0.5);
    training = op.scalar(2, 0) != 0;
  }
  if (!op.ok()) return;
  Expr kept{&op.g, op.g.constant_int(DType::kBool, 1, x->shape())};
  Expr y{&op.g, x};
  if (training && ratio > 0) {
    op.set_random();
    Node drawn;
    op.fail(tensor::uniform(&drawn, op.engine(), DType::kFloat32, x->shape()));
    if (!op.ok()) return;
    drawn = op.g.contiguous(drawn);  // one draw for values and mask
    kept = Expr{&op.g, drawn} >= ratio;
    y = ratio >= 1 ? y.like(0) : uop::where(kept, y * (1 / (1 - ratio)), y.like(0));
  }
  op.set(0, y.n);
  op.set(1, op.version < 10 ? kept.cast(x->dtype).n : kept.n);
}

}  // namespace build
}  // namespace aster::nn::onnx
