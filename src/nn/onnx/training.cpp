// ai.onnx.preview.training: a step of an optimiser on any number of tensors.
#include <cmath>

#include "gradient/gradient.h"
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

// The nodes that y comes of are built once more on placeholders for the tensors of xs, which are
// where gradients end; then these become the values that are given.
void gradient(Op& op) {
  const auto xs = op.texts("xs"), zs = op.texts("zs");
  const std::string_view y = op.text("y", "");
  if (!op.ok()) return;
  if (xs.empty() || xs.size() + zs.size() != op.count())
    return op.fail(
        ASTER_FAIL(kARGUMENT, "%zu operands for %zu names", op.count(), xs.size() + zs.size()));
  Graph::Hold hold(op.g);
  Vec<Run::Given> given(op.heap());
  Vec<Node> places(op.heap()), slopes(op.heap());
  Map<Node, Node> values(op.heap());
  for (size_t i = 0; i < op.count() && op.ok(); ++i) {
    Ref value = op.value(i);
    if (i < xs.size()) {
      const Node x = op.in(i);
      if (x == nullptr) return;
      // Bodies of calls have Params of their own, with numbers from 0 on.
      const Word number = (Word{1} << 40) + op.run.placeholders++;
      const Node place = op.g.param(number, x->dtype, x->shape());
      op.fail(make_tensor(&value, op.engine(), place, op.element(i), false));
      op.fail(places.push(place));
      op.fail(values.set(place, x));
    }
    if (op.ok()) op.fail(given.push({i < xs.size() ? xs[i] : zs[i - xs.size()], value}));
  }
  if (!op.ok()) return;
  Scope inner(op.heap(), &op.scope);
  Frame deeper = op.frame;
  deeper.depth += 1;
  Ref result;
  op.fail(op.run.again(&result, y, {given.data(), given.size()}, inner, op.proto, deeper));
  if (!op.ok()) return;
  const Node end = result ? result->node() : nullptr;
  if (end == nullptr) return op.fail(ASTER_FAIL(kDTYPE, "y is no tensor of numbers"));
  op.fail(slopes.resize(xs.size(), nullptr));
  if (!op.ok()) return;
  op.fail(aster::gradient::gradient(op.g, end, nullptr, {places.data(), places.size()},
                                    {slopes.data(), slopes.size()}));
  for (size_t i = 0; i < xs.size() && op.ok(); ++i) {
    Node slope = nullptr;
    Ref made;
    op.fail(op.g.substitute(&slope, slopes[i], values));
    if (op.ok()) op.fail(make_tensor(&made, op.engine(), slope, op.element(i), false));
    if (op.ok()) op.set(i, made);
  }
}

}  // namespace build
}  // namespace aster::nn::onnx
