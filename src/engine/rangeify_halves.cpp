// Loops that are read in halves: images that are repeated, pools and strided windows divide an
// index by two. As a loop over pairs and one over the two of a pair their accesses are linear.
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

// Shorter ones leave vectors of pairs empty.
constexpr int64_t kShortest = 8;

bool has_odd(Node sum, Node* range) {
  const sym::Linear linear = sym::linear_of(sum);
  for (const sym::Term& term : linear.terms()) {
    if (term.node->op == Op::kRange && term.coefficient % 2 != 0) return *range = term.node, true;
  }
  return false;
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

// The loop to be split, null for none; *next: the number of a new one.
Status find_halved(Node* out, int64_t* next, Graph& g, Node sink) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(uop::toposort(&nodes, std::array{sink}));
  *out = nullptr;
  *next = 0;
  for (Node node : nodes) {
    if (node->op == Op::kCarry) return *out = nullptr, kOk;
    if (node->op == Op::kRange) *next = std::max(*next, node->arg(0) + 1);
    if ((node->op != Op::kFloorDiv && node->op != Op::kFloorMod) ||
        !uop::is_const_value(node->src(1), 2))
      continue;
    Node range = nullptr;
    if (*out != nullptr || !has_odd(node->src(0), &range)) continue;
    if (range->arg(1) % 2 == 0 && range->arg(1) >= kShortest && stores_along(sink, range))
      *out = range;
  }
  return kOk;
}

Status split_kernel(Node* sink, Graph& g) {
  Node halved = nullptr;
  int64_t next = 0;
  ASTER_TRY(find_halved(&halved, &next, g, *sink));
  if (halved == nullptr) return kOk;
  const Node pairs = g.range(halved->arg(0), halved->arg(1) / 2), two = g.range(next, 2);
  const Node whole = pairs == nullptr ? nullptr : sym::add(g, sym::mul(g, pairs, 2), two);
  ASTER_TRY(need(whole));
  sym::Rebuilder rebuilt(g);
  ASTER_TRY(rebuilt.replace(halved, whole));
  Vec<Node> stores(g.memory()), src(g.memory());
  for (Node store : (*sink)->src()) {
    src.clear();
    for (Node source : store->src().first(3)) {
      ASTER_TRY(src.push(rebuilt(source)));
      ASTER_TRY(need(src.back()));
    }
    for (Node loop : store->src().subspan(3)) {
      ASTER_TRY(src.push(loop == halved ? pairs : loop));
      if (loop == halved) ASTER_TRY(src.push(two));
    }
    ASTER_TRY(stores.push(g.make(Op::kStore, DType::kNone, {src.data(), src.size()})));
    ASTER_TRY(need(stores.back()));
  }
  *sink = g.sink({stores.data(), stores.size()});
  return need(*sink);
}

}  // namespace

Status split_halved(Schedule* schedule, Graph& graph) {
  for (Item& item : schedule->items) {
    if (item.kind == ItemKind::kKernel) ASTER_TRY(split_kernel(&item.kernel, graph));
  }
  return kOk;
}

}  // namespace aster::engine
