// Random numbers; the engine's, whatever seed a model names.
#include "tensor/random.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

struct Wanted {
  DType dtype;
  Dims shape;
};

bool read_wanted(Op& op, Wanted* out, bool like) {
  op.set_random();
  int32_t element = kFloat;
  if (like) {
    const Node x = op.in(0);
    if (!op.ok()) return false;
    out->shape = Dims(x->shape());
    element = op.element(0);
  } else {
    out->shape = shape_from(op, op.integers("shape"));
  }
  out->dtype = dtype_of(op, static_cast<int32_t>(op.integer("dtype", element)));
  if (op.ok() && !dtype::is_float(out->dtype))
    op.fail(ASTER_FAIL(kDTYPE, "random %s", dtype::name(out->dtype)));
  return op.ok();
}

void uniform(Op& op, bool like) {
  Wanted w;
  if (!read_wanted(op, &w, like)) return;
  Node y;
  op.fail(tensor::uniform_between(&y, op.engine(), op.number("low", 0), op.number("high", 1),
                                  w.dtype, w.shape));
  if (op.ok()) op.set(y);
}

void normal(Op& op, bool like) {
  Wanted w;
  if (!read_wanted(op, &w, like)) return;
  Node y;
  op.fail(tensor::normal_around(&y, op.engine(), op.number("mean", 0), op.number("scale", 1),
                                w.dtype, w.shape));
  if (op.ok()) op.set(y);
}

}  // namespace

namespace build {

void random_uniform(Op& op) { uniform(op, false); }
void random_uniform_like(Op& op) { uniform(op, true); }
void random_normal(Op& op) { normal(op, false); }
void random_normal_like(Op& op) { normal(op, true); }

void bernoulli(Op& op) {
  op.set_random();
  const Node p = op.in(0);
  if (!op.ok()) return;
  const auto element = static_cast<int32_t>(op.integer("dtype", op.element(0)));
  const DType dtype = dtype_of(op, element);
  Node drawn;
  if (op.ok()) op.fail(tensor::uniform(&drawn, op.engine(), DType::kFloat32, p->shape()));
  if (!op.ok()) return;
  const Expr hit = Expr{&op.g, drawn} < Expr{&op.g, p}.cast(DType::kFloat32);
  op.set(hit.cast(dtype), element);
}

void multinomial(Op& op) {
  op.set_random();
  const Node x = op.in(0);
  const int64_t samples = op.integer("sample_size", 1);
  const DType dtype = dtype_of(op, static_cast<int32_t>(op.integer("dtype", kInt32)));
  if (!op.ok()) return;
  if (x->ndim != 2 || samples < 1 || samples > 1 << 20)
    return op.fail(ASTER_FAIL(kSHAPE, "%lld samples of %s", static_cast<long long>(samples),
                              uop::brief(x).text));
  // The greatest of log p + a Gumbel number, for each sample.
  Node drawn;
  const std::array shape{x->dim(0), samples, x->dim(1)};
  op.fail(tensor::uniform(&drawn, op.engine(), DType::kFloat32, shape));
  if (!op.ok()) return;
  const Expr u = uop::max(Expr{&op.g, drawn}, 1e-30);
  const Expr logits = Expr{&op.g, tensor::unsqueeze(op.g, x, 1)}.cast(DType::kFloat32);
  const Expr scores = logits - uop::log(-uop::log(u));
  const Node best = tensor::argmax(op.g, scores.n, 2, false);
  op.set(best == nullptr ? best : op.g.cast(best, dtype));
}

}  // namespace build
}  // namespace aster::nn::onnx
