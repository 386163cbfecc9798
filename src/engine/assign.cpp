// Writes to storage: an Assign in every cell that sees it, until they are realised.
#include "engine/engine.h"
#include "engine/indexing.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Graph;
using uop::Node;
using uop::Op;

// A view sees what is written to its storage.
bool is_view(Op op) {
  return op == Op::kReshape || op == Op::kPermute || op == Op::kFlip || op == Op::kSlice ||
         op == Op::kExpand || op == Op::kDetach;
}

// Writes to one storage that wait for each other; more are slow to order.
constexpr int kMostPending = 32;
int pending_writes(Node state) {
  int writes = 0;
  for (; state->op == Op::kAssign || state->op == Op::kAfter; state = state->src(0)) ++writes;
  return writes;
}
// A view, of another state of its storage.
Status with_state(Node* out, Graph& g, Node view, Node state) {
  Vec<Node> chain(g.memory());
  for (; is_view(view->op); view = view->src(0)) ASTER_TRY(chain.push(view));
  *out = state;
  for (size_t i = chain.size(); i-- > 0;) {
    *out = g.with_sources(chain[i], std::array{*out});
    ASTER_TRY(need(*out));
  }
  return kOk;
}

}  // namespace

Node below_views(Node node) {
  while (is_view(node->op)) node = node->src(0);
  return node;
}

const Storage* storage_below(Node node) {
  while (is_view(node->op) || node->op == Op::kAssign || node->op == Op::kAfter) {
    node = node->src(0);
  }
  return node->op == Op::kBuffer ? storage_of(node) : nullptr;
}

Status assign(Engine& engine, Lazy& target, Node value) {
  Graph& g = engine.graph;
  const Storage* const storage = storage_below(target.node);
  if (storage == nullptr) {
    return ASTER_FAIL(kARGUMENT, "assign to %s, which is no storage",
                      uop::info(target.node->op).name);
  }
  if (storage->read_only) return ASTER_FAIL(kARGUMENT, "assign to read-only memory");
  const Node written = target.node, write = g.assign(written, value);
  ASTER_TRY(need(write));
  // All are made before any is changed.
  Vec<Lazy*> cells(engine.context.heap());
  Vec<Node> nodes(engine.context.heap());
  for (Lazy* cell = engine.live.next; cell != &engine.live; cell = cell->next) {
    if (storage_below(cell->node) != storage) continue;
    const Node state = below_views(cell->node);
    const Node changed = state == written ? write : g.after(state, std::array{write});
    ASTER_TRY(need(changed));
    Node seen = nullptr;
    ASTER_TRY(with_state(&seen, g, cell->node, changed));
    ASTER_TRY(cells.push(cell));
    ASTER_TRY(nodes.push(seen));
  }
  for (size_t i = 0; i < cells.size(); ++i) set_node(*cells[i], nodes[i]);
  const Node whole = below_views(target.node);
  if (pending_writes(whole) < kMostPending) return kOk;
  Lazy* done = nullptr;
  ASTER_TRY(lazy_create(&done, engine, whole));
  const Status status = realize(engine, std::array{done});
  free_handle(done);
  return status;
}

void take_back(Engine& engine, Node written, Node before) {
  Graph& g = engine.graph;
  g.retain(written);
  for (Lazy* cell = engine.live.next; cell != &engine.live; cell = cell->next) {
    Node seen = nullptr;
    if (below_views(cell->node) != written) continue;
    if (with_state(&seen, g, cell->node, before).ok()) set_node(*cell, seen);
  }
  g.release(written);
}

Status realize_readers(Engine& engine, const Lazy& target, Node except) {
  const Storage* const storage = storage_below(target.node);
  Heap& heap = engine.context.heap();
  Vec<Lazy*> cells(heap), readers(heap);
  Vec<Node> roots(heap), nodes(heap);
  for (Lazy* cell = engine.live.next; cell != &engine.live; cell = cell->next) {
    const Node node = cell->node;
    if (node->nsrc == 0 || node == except || storage_below(node) == storage) continue;
    ASTER_TRY(cells.push(cell));
    ASTER_TRY(roots.push(node));
  }
  if (storage == nullptr || cells.empty()) return kOk;
  ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
  Map<Node, uint8_t> reads(heap);
  for (Node node : nodes) {
    bool any = node->op == Op::kBuffer && storage_of(node) == storage;
    for (Node source : node->src()) any = any || reads.contains(source);
    if (any) ASTER_TRY(reads.set(node, 1));
  }
  for (Lazy* cell : cells) {
    if (reads.contains(cell->node)) ASTER_TRY(readers.push(cell));
  }
  return readers.empty() ? kOk : realize(engine, {readers.data(), readers.size()});
}

}  // namespace aster::engine
