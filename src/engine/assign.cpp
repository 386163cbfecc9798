// Writes to storage: an Assign in every cell that sees it, until they are realised.
#include <algorithm>

#include "engine/engine.h"
#include "engine/indexing.h"
#include "engine/recording.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Graph;
using uop::is_view;
using uop::Node;
using uop::Op;

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

Node buffer_below(Node node) {
  while (is_view(node->op) || node->op == Op::kAssign || node->op == Op::kAfter) {
    node = node->src(0);
  }
  return node->op == Op::kBuffer ? node : nullptr;
}

Node memory_below(Node node) {
  while (is_view(node->op) || node->op == Op::kWindow) node = node->src(0);
  return node->op == Op::kBuffer ? node : nullptr;
}

namespace {

// The cells that view some nodes, through views and writes to them.
Status list_viewers(Vec<Lazy*>* out, Engine& engine, uop::Nodes from) {
  Vec<Node> nodes(engine.context.heap());
  ASTER_TRY(engine.graph.climb(&nodes, from, true));
  for (Node node : nodes) {
    for (Lazy* cell = cells_of(node); cell != nullptr; cell = cell->beside)
      ASTER_TRY(out->push(cell));
  }
  return kOk;
}

// The Buffers on some of the memory that one is on. around: and all others in its storage.
Status list_buffers(Vec<Node>* out, Engine& engine, Node buffer, bool around) {
  Status status;
  const buffer::Region region = region_of(buffer);
  const auto note = [&](Node other) {
    if (!status.ok()) return;
    if ((around && storage_at(other) == storage_at(buffer)) || region_of(other).overlaps(region))
      status = out->push(other);
  };
  if (storage_at(buffer)->shared.load(std::memory_order_relaxed)) {
    engine.graph.each_buffer(note);
  } else {
    engine.graph.each_buffer(buffer->arg(0), note);
  }
  return status;
}

// The cells in the storage of a Buffer, and others on some of the memory that it is on.
Status list_around(Vec<Lazy*>* out, Engine& engine, Node buffer) {
  Vec<Node> buffers(engine.context.heap());
  ASTER_TRY(list_buffers(&buffers, engine, buffer, true));
  return list_viewers(out, engine, {buffers.data(), buffers.size()});
}

bool same_storage(const Lazy& a, const Lazy& b) {
  return storage_at(buffer_below(a.node)) == storage_at(buffer_below(b.node));
}

// Whether another family computed the same, and so lies in the same storage. cells: all that do.
bool lies_with_others(std::span<Lazy* const> cells, const Lazy& target) {
  if (target.family == 0 || target.engine->context.options().strict_parity != 0) return false;
  return std::ranges::any_of(cells, [&](const Lazy* cell) {
    return cell->family != 0 && cell->family != target.family && same_storage(*cell, target);
  });
}

// A Buffer on other storage than it is on.
Node on_storage(Engine& engine, Storage* storage, Node buffer) {
  return buffer_node_on(engine, storage, static_cast<int32_t>(buffer->arg(1)), buffer->arg(2),
                        buffer->dtype, buffer->shape());
}

// Whether every replay of the open capture finds something else in a storage.
bool made_by_step(const Engine& engine, const Storage* storage) {
  if (engine.recording == nullptr) return false;
  const Recording& r = *engine.recording;
  const auto same = [&](const auto& other) { return other.storage == storage; };
  return std::ranges::count(r.outputs, storage) != 0 || std::ranges::any_of(r.inputs, same) ||
         std::ranges::any_of(r.made, same) ||
         std::ranges::any_of(r.drawn, [&](const Drawn& d) { return d.keys == storage; });
}

// Gives the family of target, no write to which is pending, storage of its own. whole: all of it is
// about to be overwritten, so that there is nothing to copy. Else it is copied at once, before the
// others are written; by every replay, where the step has made it.
Status separate(Engine& engine, const Lazy& target, bool whole) {
  Graph& g = engine.graph;
  const Node buffer = buffer_below(target.node);
  Storage *from = storage_of(buffer), *storage = nullptr;
  ASTER_TRY(buffer::storage_create(&storage, engine.context, from->bytes, from->device));
  const auto move = [&]() -> Status {
    Node copy = nullptr;
    if (!whole && !made_by_step(engine, from)) {
      ASTER_TRY(buffer::copy({storage->data, 0, storage->device}, {from->data, 0, from->device},
                             from->bytes));
    } else if (!whole) {
      const auto bytes = static_cast<int64_t>(from->bytes);
      const Node all = buffer_node_on(engine, from, static_cast<int32_t>(buffer->arg(1)), 0,
                                      DType::kUInt8, std::array{bytes});
      ASTER_TRY(need(all));
      const Node there = on_storage(engine, storage, all);
      ASTER_TRY(need(there));
      copy = g.assign(there, all);
      ASTER_TRY(need(copy));
    }
    // All are made before any is changed.
    Vec<Lazy*> all(engine.context.heap()), cells(engine.context.heap());
    Vec<Node> nodes(engine.context.heap());
    ASTER_TRY(list_around(&all, engine, buffer));
    for (Lazy* cell : all) {
      if (cell->family != target.family || !same_storage(*cell, target)) continue;
      const Node seen = buffer_below(cell->node);
      Node state = on_storage(engine, storage, seen);
      if (copy != nullptr && state != nullptr) state = g.after(state, std::array{copy});
      ASTER_TRY(need(state));
      Node moved = nullptr;
      ASTER_TRY(with_state(&moved, g, cell->node, state));
      ASTER_TRY(cells.push(cell));
      ASTER_TRY(nodes.push(moved));
    }
    for (size_t i = 0; i < cells.size(); ++i) set_node(*cells[i], nodes[i]);
    return kOk;
  };
  const Status status = move();
  buffer::storage_release(storage);
  return status;
}

bool is_whole_storage(Node node) {
  return node->op == Op::kBuffer &&
         static_cast<size_t>(node->count()) * dtype::size(node->dtype) == storage_at(node)->bytes;
}

// Copies what others lie with. As have_own_storage.
Status leave_others(Engine& engine, Lazy& target, bool whole) {
  if (below_views(target.node)->op != Op::kBuffer) {
    Lazy* cells[] = {&target};
    ASTER_TRY(realize(engine, cells));
  }
  ASTER_TRY(separate(engine, target, whole));
  if (below_views(target.node)->op == Op::kBuffer) return kOk;
  Lazy* cells[] = {&target};
  return realize(engine, cells);
}

// The Buffers on a storage that a value reads.
Status list_read(Vec<Node>* out, Node value, const Storage* storage) {
  Vec<Node> nodes(out->memory());
  ASTER_TRY(uop::toposort(&nodes, std::array{value}));
  for (Node node : nodes) {
    if (node->op == Op::kBuffer && storage_at(node) == storage) ASTER_TRY(out->push(node));
  }
  return kOk;
}

// Gives target storage of its own before it is assigned a value. What that reads of the storage
// that is left it reads of the new one: others may write the old one before it is computed.
Status leave_for(Engine& engine, Lazy& target, Node* value) {
  Graph& g = engine.graph;
  Vec<Node> read(engine.context.heap());
  Map<Node, Node> moved(engine.context.heap());
  ASTER_TRY(list_read(&read, *value, storage_of(buffer_below(target.node))));
  ASTER_TRY(leave_others(engine, target, read.empty() && is_whole_storage(target.node)));
  for (Node buffer : read) {
    const Node own = on_storage(engine, storage_of(buffer_below(target.node)), buffer);
    ASTER_TRY(need(own));
    ASTER_TRY(moved.set(buffer, own));
  }
  return read.empty() ? kOk : g.substitute(value, *value, moved);
}

}  // namespace

Status have_own_storage(Engine& engine, Lazy& target, bool whole) {
  Vec<Lazy*> cells(engine.context.heap());
  ASTER_TRY(list_around(&cells, engine, buffer_below(target.node)));
  if (!lies_with_others({cells.data(), cells.size()}, target)) return kOk;
  return leave_others(engine, target, whole);
}

Status assign(Engine& engine, Lazy& target, Node value) {
  Graph& g = engine.graph;
  const Node buffer = buffer_below(target.node);
  if (buffer == nullptr) {
    return ASTER_FAIL(kARGUMENT, "assign to %s, which is no storage",
                      uop::info(target.node->op).name);
  }
  if (storage_of(buffer)->read_only) return ASTER_FAIL(kARGUMENT, "assign to read-only memory");
  Vec<Lazy*> around(engine.context.heap()), cells(engine.context.heap());
  ASTER_TRY(list_around(&around, engine, buffer));
  if (lies_with_others({around.data(), around.size()}, target)) {
    const Node given = value;
    g.retain(given);  // realising collects
    const Status apart = leave_for(engine, target, &value);
    g.release(given);
    ASTER_TRY(apart);
    around.clear();
    ASTER_TRY(list_around(&around, engine, buffer_below(target.node)));
  }
  const Node written = target.node, write = g.assign(written, value);
  ASTER_TRY(need(write));
  // All are made before any is changed.
  const buffer::Region region = region_of(buffer_below(written));
  Vec<Node> nodes(engine.context.heap());
  for (Lazy* cell : around) {
    if (!region_of(buffer_below(cell->node)).overlaps(region)) continue;
    ASTER_TRY(cells.push(cell));
    const Node state = below_views(cell->node);
    const Node changed = state == written ? write : g.after(state, std::array{write});
    ASTER_TRY(need(changed));
    Node seen = nullptr;
    ASTER_TRY(with_state(&seen, g, cell->node, changed));
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
  Vec<Lazy*> cells(engine.context.heap());
  g.retain(written);
  if (!list_viewers(&cells, engine, std::array{written}).ok()) cells.clear();
  for (Lazy* cell : cells) {
    Node seen = nullptr;
    if (below_views(cell->node) != written) continue;
    if (with_state(&seen, g, cell->node, before).ok()) set_node(*cell, seen);
  }
  g.release(written);
}

Status realize_readers(Engine& engine, const Lazy& target, Node except) {
  const Node buffer = buffer_below(target.node);
  if (buffer == nullptr) return kOk;
  const buffer::Region region = region_of(buffer);
  Heap& heap = engine.context.heap();
  Vec<Lazy*> readers(heap);
  Vec<Node> nodes(heap), buffers(heap);
  ASTER_TRY(list_buffers(&buffers, engine, buffer, false));
  ASTER_TRY(engine.graph.climb(&nodes, {buffers.data(), buffers.size()}, false));
  for (Node node : nodes) {
    if (node->handles == nullptr || node->nsrc == 0 || node == except) continue;
    const Node below = buffer_below(node);
    if (below != nullptr && region_of(below).overlaps(region)) continue;
    for (Lazy* cell = cells_of(node); cell != nullptr; cell = cell->beside)
      ASTER_TRY(readers.push(cell));
  }
  return readers.empty() ? kOk : realize(engine, {readers.data(), readers.size()});
}

}  // namespace aster::engine
