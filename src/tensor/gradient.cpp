// Gradients on handles.
#include "aster_ml/gradient.h"

#include <algorithm>
#include <array>

#include "gradient/gradient.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

// The node that gradients of a handle are taken of: float and not weak.
Status differentiable(Node x) {
  if (dtype::is_float(x->dtype) && !dtype::is_weak(x->dtype)) return kOk;
  return ASTER_FAIL(kDTYPE, "gradient of or by %s: a float dtype is needed", uop::brief(x).text);
}

// Whether what is reached lies on several devices.
Status mixes_devices(bool* out, Node loss, aster::Memory& memory) {
  aster::Vec<Node> nodes(memory);
  ASTER_TRY(aster::uop::toposort(&nodes, std::array{loss}));
  int32_t first = 0;
  *out = false;
  for (const Node x : nodes) {
    if (x->op != aster::uop::Op::kBuffer) continue;
    const auto device = static_cast<int32_t>(x->arg(1));
    if (first == 0) first = device;
    *out |= device != first;
  }
  return kOk;
}

// A gradient lies where its target does, which is not always where its first operand is.
Status bring_home(Node* gradient, Build& build, Node target) {
  int32_t have = 0, home = 0;
  ASTER_TRY(engine::known_device(&home, build.engine(), target));
  ASTER_TRY(engine::known_device(&have, build.engine(), *gradient));
  if (home == 0 || have == 0 || have == home) return kOk;
  *gradient = build.graph().transfer(*gradient, home, have);
  return *gradient != nullptr ? kOk : last_failure();
}

// What is computed of symbolic sizes is computed of the whole tensors: their gradient by a seed
// that is 0 beyond the sizes.
Status show_whole(Node* loss, Node* seed, Build& build, Input of, Input by) {
  if (!build.sized()) return kOk;
  std::array<Sizes, 2> sizes;
  std::array<Node, 2> wholes{sized::whole(of), sized::whole(by)};
  ASTER_TRY(sized::sizes_of(&sizes[0], build, of));
  ASTER_TRY(sized::sizes_of(&sizes[1], build, by));
  Sizes out;
  if (!std::ranges::equal(Nodes(sizes[0]), Nodes(sizes[1])) ||
      !sized::align(&out, wholes.data(), build.graph(), sizes, 0))
    return kOk;
  ASTER_TRY(
      sized::masked(seed, build, wholes[1], out, sized::all_axes(out.size()), sized::Fill::kZero));
  *loss = wholes[0];
  build.take_rule(out);
  return build.status();
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
    // What is computed of a tensor of symbolic sizes is computed of the whole one.
    ASTER_TRY(differentiable(sized::whole(targets[i])));
    ASTER_TRY(nodes.push(sized::whole(targets[i])));
  }
  if (o.seed == nullptr && node(loss)->ndim != 0) {
    return ASTER_FAIL(kSHAPE, "gradient of %s without a seed: a 0-d loss is needed",
                      aster::uop::brief(node(loss)).text);
  }
  Graph& g = build.graph();
  Node root = node(loss), given = node(o.seed);
  if (given != nullptr) ASTER_TRY(show_whole(&root, &given, build, loss, o.seed));
  const Node seed = o.seed == nullptr ? nullptr : cast(g, given, root->dtype);
  if (o.seed != nullptr && seed == nullptr) return aster::last_failure();
  ASTER_TRY(gradients.resize(count, nullptr));
  const Unreached unreached = o.require_path != 0         ? Unreached::kError
                              : o.empty_without_path != 0 ? Unreached::kNull
                                                          : Unreached::kZeros;
  ASTER_TRY(aster::gradient::gradient(g, root, seed, {nodes.data(), count},
                                      {gradients.data(), count}, unreached));
  bool mixed = false;
  ASTER_TRY(mixes_devices(&mixed, root, build.context().heap()));
  for (size_t i = 0; mixed && i < count; ++i) {
    if (gradients[i] != nullptr) ASTER_TRY(bring_home(&gradients[i], build, nodes[i]));
  }
  aster::Vec<Node> found(build.context().heap());
  aster::Vec<Sizes> sizes(build.context().heap());
  for (size_t i = 0; i < count; ++i) {
    if (gradients[i] == nullptr) continue;
    ASTER_TRY(found.push(gradients[i]));
    Sizes of;
    if (cell(targets[i])->sized != nullptr) ASTER_TRY(sized::sizes_of(&of, build, targets[i]));
    ASTER_TRY(sizes.push(of));
  }
  ASTER_TRY(make_handles(out, build, {found.data(), found.size()}, {sizes.data(), sizes.size()}));
  for (size_t i = count, from = found.size(); i-- > 0;) {  // each to its place, from the back
    if (gradients[i] == nullptr || --from == i) continue;
    out[i] = out[from];
    out[from].impl = nullptr;
  }
  return kOk;
}
