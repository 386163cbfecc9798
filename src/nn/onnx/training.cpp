// ai.onnx.preview.training: a step of an optimiser on any number of tensors.
#include <cmath>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// Operands are a rate, a count of updates, then `lists` lists of as many tensors.
bool check_lists(Op& op, size_t lists, size_t* count) {
  const size_t rest = op.count() < 2 ? 1 : op.count() - 2;
  *count = rest / lists;
  if (op.ok() && rest % lists != 0) op.fail(ASTER_FAIL(kARGUMENT, "%zu operands", op.count()));
  return op.ok();
}

Expr scalar(Op& op, size_t i, DType dtype) {
  const Node x = op.in(i);
  return Expr{&op.g, x == nullptr ? nullptr : op.g.reshape(x, Words())}.cast(dtype);
}

}  // namespace

namespace build {

void momentum(Op& op) {
  size_t n;
  if (!check_lists(op, 3, &n)) return;
  const double alpha = op.number("alpha", 0), beta = op.number("beta", 0),
               decay = op.number("norm_coefficient", 0);
  const bool nesterov = op.text("mode", "standard") == "nesterov";
  const int64_t t = op.scalar(1, 0);
  for (size_t i = 0; i < n && op.ok(); ++i) {
    const Expr x = op.x(2 + i), g = op.x(2 + n + i), v = op.x(2 + 2 * n + i);
    if (!op.ok()) return;
    const Expr r = scalar(op, 0, x.dtype());
    const Expr slope = g + x * decay;
    const Expr next = v * alpha + slope * (t > 0 ? beta : 1);
    op.set(i, (nesterov ? x - r * (slope + next * alpha) : x - r * next).n);
    op.set(n + i, next.n);
  }
}

void adagrad(Op& op) {
  size_t n;
  if (!check_lists(op, 3, &n)) return;
  const double decay = op.number("norm_coefficient", 0), epsilon = op.number("epsilon", 0),
               fade = op.number("decay_factor", 0);
  const int64_t t = op.scalar(1, 0);
  for (size_t i = 0; i < n && op.ok(); ++i) {
    const Expr x = op.x(2 + i), g = op.x(2 + n + i), h = op.x(2 + 2 * n + i);
    if (!op.ok()) return;
    const Expr r = scalar(op, 0, x.dtype()) / (1 + static_cast<double>(t) * fade);
    const Expr slope = g + x * decay;
    const Expr next = h + slope * slope;
    op.set(i, (x - r * slope / (uop::sqrt(next) + epsilon)).n);
    op.set(n + i, next.n);
  }
}

void adam(Op& op) {
  size_t n;
  if (!check_lists(op, 4, &n)) return;
  const double alpha = op.number("alpha", 0.9), beta = op.number("beta", 0.999),
               epsilon = op.number("epsilon", 0);
  const double decay = op.number("norm_coefficient", 0),
               after = op.number("norm_coefficient_post", 0);
  const auto t = static_cast<double>(op.scalar(1, 0));
  for (size_t i = 0; i < n && op.ok(); ++i) {
    const Expr x = op.x(2 + i), g = op.x(2 + n + i), v = op.x(2 + 2 * n + i),
               h = op.x(2 + 3 * n + i);
    if (!op.ok()) return;
    const double bias = t > 0 ? std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : 1;
    const Expr r = scalar(op, 0, x.dtype()) * bias;
    const Expr slope = g + x * decay;
    const Expr mean = v * alpha + slope * (1 - alpha),
               square = h * beta + slope * slope * (1 - beta);
    op.set(i, ((x - r * mean / (uop::sqrt(square) + epsilon)) * (1 - after)).n);
    op.set(n + i, mean.n);
    op.set(2 * n + i, square.n);
  }
}

}  // namespace build
}  // namespace aster::nn::onnx
