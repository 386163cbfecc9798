// Products of matrices.
#include "aster_ml/linalg.h"
#include "nn/onnx/builders.h"
#include "tensor/linalg.h"

namespace aster::nn::onnx {

Node matmul_as(Op& op, Node a, Node b, DType dtype) {
  if (a == nullptr || b == nullptr) return nullptr;
  return tensor::dot(op.g, a, b, dtype);
}

namespace build {

void matmul(Op& op) {
  const Node a = op.in(0), b = op.in(1);
  if (op.ok()) op.set(tensor::matmul(op.g, a, b));
}

void gemm(Op& op) {
  Node a = op.in(0), b = op.in(1);
  if (!op.ok()) return;
  if (op.integer("transA", 0) != 0) a = permute_last(op, a);
  if (op.integer("transB", 0) != 0) b = permute_last(op, b);
  Expr y{&op.g, tensor::matmul(op.g, a, b)};
  const double alpha = op.number("alpha", 1), beta = op.number("beta", 1);
  if (alpha != 1) y = y * alpha;
  if (op.has(2) && y.n != nullptr) {
    const Expr c = op.x(2);
    y = y + (beta == 1 ? c : c * beta);
  }
  op.set(y);
}

void einsum(Op& op) {
  Text formula(op.heap());
  formula << op.text("equation", "");
  const char* text = formula.c_str();
  Node in[8] = {};
  if (op.count() > std::size(in))
    op.fail(ASTER_FAIL(kUNSUPPORTED, "einsum of %zu operands", op.count()));
  for (size_t i = 0; op.ok() && i < op.count(); ++i) in[i] = op.in(i);
  if (text == nullptr) op.fail(formula.status());
  if (!op.ok()) return;
  Node y = nullptr;
  op.fail(op.through({&y, 1},
                     [&](aster_ml_lazy* out, const aster_ml_lazy* const* given) {
                       return aster_ml_lazy_einsum(out, text, given, op.count(), 0);
                     },
                     {in, op.count()}));
  op.set(y);
}

void det(Op& op) {
  op.set(op.through([](aster_ml_lazy* out,
                       const aster_ml_lazy* const* in) { return aster_ml_lazy_det(out, in[0]); },
                    {op.in(0)}));
}

}  // namespace build
}  // namespace aster::nn::onnx
