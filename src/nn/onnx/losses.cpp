// Losses of class labels.
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// -log_p [N, C, ...] at the labels [N, ...], weighted, reduced.
void negative_log(Op& op, Expr log_p, size_t labels_at, size_t weight_at) {
  const Node labels = op.in(labels_at);
  if (!op.ok() || log_p.n == nullptr) return op.fail(last_failure());
  if (log_p.ndim() < 2 || labels->ndim + 1u != log_p.ndim())
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s at labels %s", uop::brief(log_p.n).text, uop::brief(labels).text));
  const Expr at{&op.g, tensor::unsqueeze(op.g, labels, 1)};
  const Expr wide = at.cast(DType::kInt64);
  const Expr classes = uop::iota(op.g, DType::kInt64, log_p.shape(), 1);
  const Expr hit = classes == wide;
  const Dims axis(1, 1);
  const auto chosen = [&](Expr x) {
    return Expr{&op.g,
                uop::drop_axes(
                    op.g, uop::reduce(uop::Op::kAdd, uop::where(hit, x, x.like(0)), axis).n, axis)};
  };
  Expr loss = -chosen(log_p);
  const bool weighted = op.has(weight_at), ignores = op.has("ignore_index");
  Expr weight = loss.like(1);
  if (weighted) {
    const Expr w =
        Expr{&op.g, along_axis(op, op.in(weight_at), 1, log_p.ndim())}.cast(log_p.dtype());
    weight = chosen(w.expand(log_p.shape()));
  }
  if (ignores) {
    const Expr kept = Expr{&op.g, labels}.cast(DType::kInt64) !=
                      static_cast<double>(op.integer("ignore_index", -1));
    weight = uop::where(kept, weight, weight.like(0));
    loss = uop::where(kept, loss, loss.like(0));
  }
  if (weighted) loss = loss * weight;
  const std::string_view reduction = op.text("reduction", "mean");
  if (reduction == "none") return op.set(loss);
  Dims all;
  for (size_t i = 0; i < loss.ndim(); ++i) all.push(static_cast<Word>(i));
  const Expr total = uop::sum(loss, all);
  const Expr y = reduction == "sum" ? total : total / uop::sum(weight, all);
  op.set(0, uop::drop_axes(op.g, y.n, all));
}

}  // namespace

namespace build {

void negative_log_likelihood_loss(Op& op) { negative_log(op, op.x(0), 1, 2); }

void softmax_cross_entropy_loss(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const DType wide = dtype::is_narrow_float(x->dtype) ? DType::kFloat32 : x->dtype;
  const Expr log_p{&op.g, tensor::log_softmax(op.g, op.g.cast(x, wide), 1)};
  op.set(1, log_p.cast(x->dtype).n);
  negative_log(op, log_p.cast(x->dtype), 1, 2);
}

}  // namespace build
}  // namespace aster::nn::onnx
