// Gradients on handles.
#include "aster_ml/gradient.h"

#include "gradient/gradient.h"
#include "tensor/api.h"

namespace aster::tensor {
namespace {

// The node that gradients of a handle are taken of: float and not weak.
Status differentiable(Node x) {
  if (dtype::is_float(x->dtype) && !dtype::is_weak(x->dtype)) return kOk;
  return ASTER_FAIL(kDTYPE, "gradient of or by %s: a float dtype is needed", uop::brief(x).text);
}

}  // namespace
}  // namespace aster::tensor

using aster::gradient::Unreached;
using namespace aster::tensor;  // NOLINT: this file ends with the public function
using aster::kOk;

int32_t aster_ml_gradient(aster_ml_lazy* out, const aster_ml_lazy* loss,
                          const aster_ml_lazy* const* targets, size_t count,
                          const aster_ml_gradient_options* options) {
  ASTER_API();
  if (count == 0) return kOk;
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for %zu tensors", count);
  aster_ml_gradient_options o;
  ASTER_TRY(options_argument(&o, options));
  const auto is_out = [&](Input x) { return x >= out && x < out + count; };
  bool aliased = is_out(loss) || is_out(o.seed);
  for (size_t i = 0; targets != nullptr && i < count; ++i) aliased |= is_out(targets[i]);
  if (aliased) return ASTER_FAIL(kARGUMENT, "out holds the handle of an input");
  for (size_t i = 0; i < count; ++i) out[i].impl = nullptr;
  if (targets == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for %zu targets", count);
  aster_ml_lazy unused{};
  Build build(&unused, {loss}, {o.seed});
  ASTER_TRY(build.status());
  ASTER_TRY(differentiable(node(loss)));
  aster::Vec<Node> nodes(build.context().heap()), gradients(build.context().heap());
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(check_handle(targets[i]));
    if (cell(targets[i])->context != cell(loss)->context) {
      return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one operation");
    }
    ASTER_TRY(differentiable(node(targets[i])));
    ASTER_TRY(nodes.push(node(targets[i])));
  }
  if (o.seed == nullptr && node(loss)->ndim != 0) {
    return ASTER_FAIL(kSHAPE, "gradient of %s without a seed: a 0-d loss is needed",
                      aster::uop::brief(node(loss)).text);
  }
  Graph& g = build.graph();
  const Node seed = o.seed == nullptr ? nullptr : cast(g, node(o.seed), node(loss)->dtype);
  if (o.seed != nullptr && seed == nullptr) return aster::last_failure();
  ASTER_TRY(gradients.resize(count, nullptr));
  const Unreached unreached = o.require_path != 0         ? Unreached::kError
                              : o.empty_without_path != 0 ? Unreached::kNull
                                                          : Unreached::kZeros;
  ASTER_TRY(aster::gradient::gradient(g, node(loss), seed, {nodes.data(), count},
                                      {gradients.data(), count}, unreached));
  aster::Vec<Node> found(build.context().heap());
  for (Node gradient : gradients) {
    if (gradient != nullptr) ASTER_TRY(found.push(gradient));
  }
  ASTER_TRY(make_handles(out, build, {found.data(), found.size()}));
  for (size_t i = count, from = found.size(); i-- > 0;) {  // each to its place, from the back
    if (gradients[i] == nullptr || --from == i) continue;
    out[i] = out[from];
    out[from].impl = nullptr;
  }
  return kOk;
}
