// Loops whose index is divided: heads that lie beside each other in rows, images that are repeated,
// pools and strided windows. As a loop over quotients and one over remainders their accesses are
// linear.
#include <algorithm>

#include "engine/indexing.h"
#include "engine/rangeify.h"
#include "uop/symbolic.h"

namespace aster::engine {
namespace {

using uop::Graph;
using uop::Node;
using uop::Op;
namespace sym = uop::sym;

// Shorter loops leave vectors empty.
constexpr int64_t kShortest = 8;
// Loops of a kernel that are split, as many as a row of tensors side by side has axes.
constexpr int kMostSplits = 3;

// The one loop in a sum whose number is not a multiple of the divisor; null: none, or several.
Node divided_loop(Node sum, int64_t divisor) {
  const sym::Linear linear = sym::linear_of(sum);
  Node out = nullptr;
  for (const sym::Term& term : linear.terms()) {
    if (term.coefficient % divisor == 0) continue;
    if (out != nullptr || term.node->op != Op::kRange || term.coefficient != 1) return nullptr;
    out = term.node;
  }
  return linear.constant % divisor == 0 ? out : nullptr;
}

// The first loop with an odd number in a sum: halves of it begin in the middle of a pair as well.
Node halved_loop(Node sum) {
  const sym::Linear linear = sym::linear_of(sum);
  for (const sym::Term& term : linear.terms()) {
    if (term.node->op == Op::kRange && term.coefficient % 2 != 0) return term.node;
  }
  return nullptr;
}

// Whether every store of a kernel has a range among its loops, and one lies along it.
bool stores_along(Node sink, Node range) {
  bool along = false;
  for (Node store : sink->src()) {
    if (std::ranges::find(store->src().subspan(3), range) == store->src().end()) return false;
    const sym::Linear place = sym::linear_of(store->src(1));
    for (const sym::Term& term : place.terms())
      along |= term.node == range && term.coefficient == 1;
  }
  return along;
}

struct Split {
  Node loop = nullptr;  // null: none
  int64_t by = 0;
  int64_t next = 0;  // the number of a new loop
};

Status find_split(Split* out, Graph& g, Node sink) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(uop::toposort(&nodes, std::array{sink}));
  *out = Split();
  for (Node node : nodes) {
    if (node->op == Op::kCarry) return out->loop = nullptr, kOk;
    if (node->op == Op::kRange) out->next = std::max(out->next, node->arg(0) + 1);
    const bool divides = node->op == Op::kFloorDiv || node->op == Op::kFloorMod;
    if (!divides || out->loop != nullptr || node->src(1)->op != Op::kConst) continue;
    const int64_t by = node->src(1)->arg(0);
    if (by != 2 && by < kShortest) continue;
    const Node loop = by == 2 ? halved_loop(node->src(0)) : divided_loop(node->src(0), by);
    const bool fits = loop != nullptr && loop->arg(1) % by == 0 && loop->arg(1) > by &&
                      loop->arg(1) >= kShortest && stores_along(sink, loop);
    if (fits) out->loop = loop, out->by = by;
  }
  return kOk;
}

Status split_loop(Node* sink, Graph& g, const Split& split) {
  const Node quotients = g.range(split.loop->arg(0), split.loop->arg(1) / split.by);
  const Node remainders = g.range(split.next, split.by);
  ASTER_TRY(need(quotients));
  const Node whole = sym::add(g, sym::mul(g, quotients, split.by), remainders);
  ASTER_TRY(need(whole));
  sym::Rebuilder rebuilt(g);
  ASTER_TRY(rebuilt.replace(split.loop, whole));
  Vec<Node> stores(g.memory()), src(g.memory());
  for (Node store : (*sink)->src()) {
    src.clear();
    for (Node source : store->src().first(3)) {
      ASTER_TRY(src.push(rebuilt(source)));
      ASTER_TRY(need(src.back()));
    }
    for (Node loop : store->src().subspan(3)) {
      ASTER_TRY(src.push(loop == split.loop ? quotients : loop));
      if (loop == split.loop) ASTER_TRY(src.push(remainders));
    }
    ASTER_TRY(stores.push(g.make(Op::kStore, DType::kNone, {src.data(), src.size()})));
    ASTER_TRY(need(stores.back()));
  }
  *sink = g.sink({stores.data(), stores.size()});
  return need(*sink);
}

Status split_kernel(Node* sink, Graph& g) {
  Split split;
  for (int count = 0; count < kMostSplits; ++count) {
    ASTER_TRY(find_split(&split, g, *sink));
    if (split.loop == nullptr) return kOk;
    ASTER_TRY(split_loop(sink, g, split));
  }
  return kOk;
}

}  // namespace

Status split_divided(Schedule* schedule, Graph& graph) {
  for (Item& item : schedule->items) {
    if (item.kind == ItemKind::kKernel) ASTER_TRY(split_kernel(&item.kernel, graph));
  }
  return kOk;
}

}  // namespace aster::engine
