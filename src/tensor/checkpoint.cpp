// Expressions that gradients compute anew.
#include <algorithm>

#include "aster_ml/gradient.h"
#include "tensor/api.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::Op;

// Storage, a state of it, or what a gradient is asked for.
bool is_argument(Node n) {
  if (n->op == Op::kBuffer || n->op == Op::kAssign || n->op == Op::kAfter) return true;
  for (const engine::Lazy* cell = engine::cells_of(n); cell != nullptr; cell = cell->beside) {
    if (cell->wanting_link != nullptr) return true;
  }
  return false;
}

// Adds what y is computed from besides the inputs, which come first: those of them that it reads.
Status find_arguments(Vec<Node>* arguments, size_t* inputs, Node y, const Vec<Node>& given) {
  Memory& memory = arguments->memory();
  Vec<Node> open(memory), others(memory);
  Map<Node, uint8_t> seen(memory);
  ASTER_TRY(open.push(y));
  while (!open.empty()) {
    const Node node = open.back();
    open.pop();
    if (seen.contains(node)) continue;
    ASTER_TRY(seen.set(node, 1));
    if (std::ranges::find(given, node) != given.end()) {
      ASTER_TRY(arguments->push(node));
    } else if (node != y && is_argument(node)) {
      ASTER_TRY(others.push(node));
    } else {
      // A body refers to its own Params.
      for (size_t i = node->op == Op::kCall; i < node->nsrc; ++i)
        ASTER_TRY(open.push(node->src(i)));
    }
  }
  *inputs = arguments->size();
  return arguments->append(others.data(), others.size());
}

Node checkpoint(Graph& g, Node y, const aster_ml_lazy* const* inputs, size_t count) {
  Vec<Node> given(g.memory()), arguments(g.memory());
  size_t read = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!given.push(node(inputs[i])).ok()) return nullptr;
  }
  if (!find_arguments(&arguments, &read, y, given).ok()) return nullptr;
  const bool nothing = std::ranges::find(arguments, y) != arguments.end();
  if (arguments.empty() || nothing || dtype::is_weak(y->dtype)) return y;
  return uop::build_checkpoint(g, y, {arguments.data(), arguments.size()}, read);
}

}  // namespace
}  // namespace aster::tensor

int32_t aster_ml_gradient_checkpoint(aster_ml_lazy* out, const aster_ml_lazy* y,
                                     const aster_ml_lazy* const* inputs, size_t count) {
  using namespace aster::tensor;
  ASTER_API();
  aster::Vec<const aster_ml_lazy*> all(aster::process_heap());
  ASTER_TRY(all.push(y));
  const bool missing = inputs == nullptr && count != 0;
  if (missing && out != nullptr) *out = {};
  if (missing) return ASTER_FAIL(kARGUMENT, "a null pointer for %zu inputs", count);
  ASTER_TRY(all.append(inputs, count));
  Build build(out, all.data(), all.size());
  ASTER_TRY(build.status());
  return build.finish(checkpoint(build.graph(), node(y), inputs, count));
}
