#include "engine/engine.h"

#include <algorithm>

#include "base/pool.h"
#include "device/device.h"
#include "dtype/convert.h"
#include "engine/host_copies.h"
#include "engine/indexing.h"
#include "engine/rangeify.h"
#include "uop/context_graph.h"
#include "uop/symbolic.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;
using uop::Word;

void destroy_lazy(HandleObject* object) {
  Lazy* lazy = static_cast<Lazy*>(object);
  Engine& engine = *lazy->engine;
  lazy->previous->next = lazy->next;
  lazy->next->previous = lazy->previous;
  engine.graph.release(lazy->node);
  engine.context.heap().release(lazy->lent, lazy->lent_count * sizeof(ptrdiff_t),
                                alignof(ptrdiff_t));
  // With the last handle nothing is left to collect for later: memory goes back at once.
  if (engine.live.next == &engine.live) engine.graph.collect();
  engine.context.heap().destroy(lazy);
}

void release_buffer(void*, Node node) { buffer::storage_release(storage_of(node)); }

void* memory_of(Node node) {
  Storage* storage = storage_of(node);
  return storage->data == nullptr ? nullptr : static_cast<char*>(storage->data) + node->arg(2);
}

// Storage behind a target of an Assign: the target without the writes on its way.
Status strip_effects(Node* out, Graph& g, Node node) {
  Vec<Node> chain(g.memory());
  while (node->op != Op::kBuffer) {
    if (node->op != Op::kAssign && node->op != Op::kAfter) ASTER_TRY(chain.push(node));
    if (node->nsrc == 0)
      return ASTER_FAIL(kARGUMENT, "assign to %s, which is no storage", uop::info(node->op).name);
    node = node->src(0);
  }
  for (size_t i = chain.size(); i-- > 0;) {
    node = g.with_sources(chain[i], std::array{node});
    ASTER_TRY(need(node));
  }
  *out = node;
  return kOk;
}

// A Contiguous that moves to another device.
bool is_transfer(Node node) { return node->op == Op::kContiguous && !node->arg().empty(); }

// The Buffer that a chain of views comes down to and where its first element is; null if the view
// is not row-major there.
Status as_storage(Node* buffer, int64_t* offset, Graph& g, Node view) {
  namespace sym = uop::sym;
  *buffer = view->op == Op::kBuffer ? view : nullptr;
  *offset = 0;
  if (*buffer != nullptr) return kOk;
  Vec<Node> ranges(g.memory()), index(g.memory());
  for (size_t axis = 0; axis < view->ndim; ++axis) {
    Node range =
        view->dim(axis) == 1 ? g.index(0) : g.range(static_cast<Word>(axis), view->dim(axis));
    ASTER_TRY(need(range));
    ASTER_TRY(ranges.push(range));
    ASTER_TRY(index.push(range));
  }
  Place place(g.memory());
  Node node = view;
  for (; node->op != Op::kBuffer; node = node->src(0)) {
    const bool strides =
        node->op == Op::kReshape || node->op == Op::kSlice || node->op == Op::kPermute;
    Node own = nullptr;
    if (!strides || node->count() == 0) return kOk;
    ASTER_TRY(source_place(&place, &own, g, node, 0, {index.data(), index.size()}, nullptr));
    index.clear();
    ASTER_TRY(index.append(place.index.data(), place.index.size()));
  }
  Node position = linear_index(g, node->shape(), {index.data(), index.size()});
  Node plain = linear_index(g, view->shape(), {ranges.data(), ranges.size()});
  sym::Linear difference;
  ASTER_TRY(need(position));
  ASTER_TRY(need(plain));
  if (!difference.add(position, 1) || !difference.add(plain, -1) || difference.size() != 0)
    return kOk;
  *buffer = node;
  *offset = difference.constant * static_cast<int64_t>(dtype::size(view->dtype));
  return kOk;
}

// One thing to compute, and what stands for it afterwards.
struct Want {
  Node root;    // computed by the schedule
  Node result;  // the storage that an Assign writes; null: a new Buffer
};

class Realize {
 public:
  explicit Realize(Engine& engine)
      : e_(engine),
        g_(engine.graph),
        wants_(engine.context.heap()),
        leaves_(engine.context.heap()),
        outputs_(engine.context.heap()),
        map_(engine.context.heap()) {}
  ~Realize() {
    for (Storage* storage : outputs_) buffer::storage_release(storage);
  }

  Status run(std::span<Lazy* const> cells) {
    for (Lazy* cell : cells) ASTER_TRY(fill_constant(*cell));
    for (Lazy* cell : cells) ASTER_TRY(want(cell->node));
    if (!wants_.empty()) {
      Node moved = nullptr;
      bool apart = false;
      ASTER_TRY(survey(&moved, &apart));
      if (moved != nullptr || apart) return again(cells, moved);
      ASTER_TRY(execute());
      ASTER_TRY(replace());
    }
    for (Lazy* cell : cells) ASTER_TRY(settle(*cell));
    return kOk;
  }

 private:
  Node strong(Node node) {
    return dtype::is_weak(node->dtype) ? g_.cast(node, dtype::strong(node->dtype)) : node;
  }
  // Below reshapes: what is computed and may be looked at in any shape.
  Node base(Node node) {
    node = strong(node);
    while (node != nullptr && (node->op == Op::kReshape || node->op == Op::kDetach))
      node = node->src(0);
    return node;
  }
  Status add(Node root, Node result) {
    for (const Want& other : wants_) {
      if (other.root == root) return kOk;
    }
    return wants_.push(Want{root, result});
  }
  Status want(Node node) {
    node = base(node);
    ASTER_TRY(need(node));
    Node buffer = nullptr;
    int64_t offset = 0;
    ASTER_TRY(as_storage(&buffer, &offset, g_, node));
    if (buffer != nullptr) return kOk;
    if (node->op == Op::kAfter) {
      for (Node effect : node->src().subspan(1)) ASTER_TRY(want(effect));
      Node below = nullptr;
      ASTER_TRY(strip_effects(&below, g_, node));
      ASTER_TRY(map_.set(node, below));
      return want(node->src(0));
    }
    Node result = nullptr;
    if (node->op == Op::kAssign) {
      ASTER_TRY(strip_effects(&result, g_, node->src(0)));
      return add(node, result);
    }
    // A part of storage is where it is once the writes that it waits for are done.
    const Node state = below_views(node);
    if (storage_below(state) != nullptr) {
      ASTER_TRY(strip_effects(&result, g_, node));
      ASTER_TRY(as_storage(&buffer, &offset, g_, result));
      if (buffer != nullptr) return want(state);
    }
    return add(node, nullptr);
  }

  // What waits below the roots, and the device that computes them. moved: what has to come from
  // another device first. apart: the roots are of several devices, or cannot be computed.
  Status survey(Node* moved, bool* apart) {
    Heap& heap = e_.context.heap();
    Vec<Node> roots(heap), nodes(heap);
    for (const Want& w : wants_) ASTER_TRY(roots.push(w.root));
    ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
    const Node only = wants_.size() == 1 ? wants_[0].root : nullptr;
    int32_t all = 0, empty = 0;  // what has no elements goes with any device
    for (Node node : nodes) {
      // A write below happens with what reads it: every other cell that names it must see that it
      // is done.
      if (node->op == Op::kAssign) ASTER_TRY(want(node));
      int32_t device = node->op == Op::kBuffer ? static_cast<int32_t>(node->arg(1)) : 0;
      if (is_transfer(node)) {
        device = static_cast<int32_t>(node->arg(0));
        if (node == only && node->src(0)->op == Op::kBuffer) {
          device_ = device;
          return kOk;
        }
        if (node->arg(1) != 0) return *moved = node, kOk;
      }
      int32_t& known = node->count() == 0 ? empty : all;
      if (device == 0) continue;
      if (&known == &all && known != 0 && device != known) {
        mixed_ = known;
        *apart = true;
      }
      known = device;
    }
    device_ = all != 0 ? all : empty != 0 ? empty : e_.device;
    return kOk;
  }

  // Computes what moved comes from where it is, and copies it over; or, where nothing moves, the
  // cells one by one. Then the rest.
  Status again(std::span<Lazy* const> cells, Node moved) {
    if (moved == nullptr) {
      if (cells.size() == 1) {
        return ASTER_FAIL(kDEVICE, "operands on %s and %s", device::name(mixed_).text,
                          device::name(device_).text);
      }
      for (Lazy* cell : cells) ASTER_TRY(Realize(e_).run(std::array{cell}));
      return kOk;
    }
    Node from = moved->src(0), buffer = nullptr;
    int64_t offset = 0;
    ASTER_TRY(as_storage(&buffer, &offset, g_, from));
    // What is computed, and its copy, are nodes of their own: the expression stays for gradients.
    if (buffer == nullptr) from = g_.transfer(from, moved->arg(1), 0);
    Lazy *source = nullptr, *result = nullptr;
    Status status = lazy_create(&source, e_, from);
    if (status.ok()) status = lazy_create(&result, e_, moved);
    if (status.ok()) status = Realize(e_).run(std::array{source});
    if (status.ok()) {
      const Node there = result->node;  // as the cells have it now
      const Node copied = g_.transfer(source->node, there->arg(0), 0);
      status = need(copied);
      if (status.ok()) set_node(*source, copied);
      if (status.ok()) status = Realize(e_).run(std::array{source});
      if (status.ok()) status = map_.set(there, source->node);
      bool all = false;
      if (status.ok()) status = seen_by_others(&all, cells, there);
      if (status.ok() && all) status = replace_in_cells(e_, map_);
      for (size_t i = 0; status.ok() && !all && i < cells.size(); ++i) {
        Node after = nullptr;
        status = g_.substitute(&after, cells[i]->node, map_);
        if (status.ok()) set_node(*cells[i], after);
      }
    }
    if (source != nullptr) free_handle(source);
    if (result != nullptr) free_handle(result);
    return status.ok() ? Realize(e_).run(cells) : status;
  }

  // Whether every cell has to see that node is computed: one of cells is it, or a write reads it.
  Status seen_by_others(bool* out, std::span<Lazy* const> cells, Node node) {
    Heap& heap = e_.context.heap();
    Vec<Node> roots(heap), nodes(heap);
    Map<Node, uint8_t> reads(heap);
    for (Lazy* cell : cells) {
      *out |= base(cell->node) == node;
      ASTER_TRY(roots.push(cell->node));
    }
    ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
    ASTER_TRY(reads.set(node, 1));
    for (Node user : nodes) {
      bool any = false;
      for (Node source : user->src()) any |= reads.contains(source);
      if (any) ASTER_TRY(reads.set(user, 1));
      *out |= any && user->op == Op::kAssign;
    }
    return kOk;
  }

  Status execute() {
    if (!device::is_host(device_) && e_.recording != nullptr) {
      return ASTER_FAIL(kUNSUPPORTED, "capture of work on %s", device::name(device_).text);
    }
    Vec<Node> roots(e_.context.heap());
    for (const Want& w : wants_) ASTER_TRY(roots.push(w.root));
    Executable* exe = nullptr;
    ASTER_TRY(e_.executable(&exe, {roots.data(), roots.size()}, &leaves_,
                            device::same_type(device_, device::kReference)));
    Status status = execute(*exe);
    if (e_.last != nullptr) e_.last->release();
    e_.last = exe;  // for print_schedule
    return status;
  }

  Status execute(Executable& exe) {
    Heap& heap = e_.context.heap();
    const double start = milliseconds();
    Vec<void*> params(heap), results(heap), pointers(heap);
    HostCopies copies(e_);
    for (Node leaf : leaves_) {
      void* data = memory_of(leaf);
      if (!device::is_host(storage_of(leaf)->device))
        ASTER_TRY(copies.of(&data, storage_of(leaf), leaf->arg(2)));
      ASTER_TRY(params.push(data));
    }
    for (const Want& w : wants_) {
      if (w.result != nullptr) {
        Node buffer = w.result;
        while (buffer->op != Op::kBuffer) buffer = buffer->src(0);
        if (storage_of(buffer)->read_only)
          return ASTER_FAIL(kARGUMENT, "assign to read-only memory");
      }
      Storage* storage = nullptr;
      const size_t number = outputs_.size();
      if (exe.graph == nullptr && w.result == nullptr &&
          exe.slots[exe.roots[number]].index != number) {
        // Simplified to the same as an earlier root.
        storage = outputs_[exe.slots[exe.roots[number]].index];
        buffer::storage_retain(storage);
        Status shared = outputs_.push(storage);
        if (!shared.ok()) buffer::storage_release(storage);
        ASTER_TRY(shared);
        ASTER_TRY(results.push(storage->data));
        continue;
      }
      const size_t bytes = static_cast<size_t>(w.root->count()) * dtype::size(w.root->dtype);
      // The interpreter hands out the value of an Assign too; compiled code only writes its target.
      if (w.result == nullptr || exe.graph != nullptr) {
        ASTER_TRY(buffer::storage_create(&storage, e_.context, bytes, device_));
      }
      Status pushed = outputs_.push(storage);
      if (!pushed.ok()) buffer::storage_release(storage);
      ASTER_TRY(pushed);
      void* data = storage != nullptr ? storage->data : nullptr;
      if (storage != nullptr && !device::is_host(device_)) ASTER_TRY(copies.of(&data, storage, 0));
      ASTER_TRY(results.push(data));
    }
    ++e_.counters.realizes;
    if (exe.graph != nullptr) {
      ++e_.counters.interpreted;
      ASTER_TRY(interpret(exe, params.data(), results.data()));
    } else {
      char* arena = nullptr;
      ASTER_TRY(e_.arena_for(&arena, exe.arena_bytes));
      ASTER_TRY(pointers.resize(exe.operands.size(), nullptr));
      bind(pointers.data(), exe, params.data(), results.data(), arena);
      const bool many = e_.threads > 1 && exe.launches.size() > 1;
      if (many) pool::session_begin(e_.threads, e_.context.options().pin_threads != 0);
      launch(exe, pointers.data(), arena, e_.threads);
      if (many) pool::session_end();
    }
    ASTER_TRY(copies.write_back());
    e_.counters.kernels_launched += exe.work.kernels;
    e_.counters.operations += exe.work.operations;
    e_.counters.moved_bytes += exe.work.bytes;
    e_.counters.last_kernels = exe.launches.size();
    e_.counters.run_ms += milliseconds() - start;
    if (e_.recording != nullptr) {
      ASTER_TRY(record(*e_.recording, exe, {leaves_.data(), leaves_.size()},
                       {outputs_.data(), outputs_.size()}));
    }
    return kOk;
  }

  // Puts the results in place of what was computed, in every cell that names it anywhere.
  // A constant gets storage of its own: the same node stands in other expressions, which writes to
  // this cell must not reach. Not inside a capture, whose replays compute it anew.
  Status fill_constant(Lazy& cell) {
    const Node node = base(cell.node);
    ASTER_TRY(need(node));
    if (!uop::is_const(node) || e_.recording != nullptr) return kOk;
    Node filled;
    const Node constant = g_.constant_word(node->dtype, node->arg(0), cell.node->shape());
    ASTER_TRY(fill_buffer(&filled, e_, e_.device, constant));
    set_node(cell, filled);
    return kOk;
  }

  Status replace() {
    for (size_t i = 0; i < wants_.size(); ++i) {
      const Want& w = wants_[i];
      Node result = w.result;
      if (result == nullptr) {
        result = buffer_node(e_, outputs_[i], 0, w.root->dtype, w.root->shape());
        ASTER_TRY(need(result));
      }
      ASTER_TRY(map_.set(w.root, result));
    }
    return replace_in_cells(e_, map_);
  }

  Status settle(Lazy& cell) {
    Node node = cell.node;
    if (node->op == Op::kBuffer) return kOk;
    Node buffer = nullptr, view = base(node);
    ASTER_TRY(need(view));
    if (view->op == Op::kAssign || view->op == Op::kAfter)
      ASTER_TRY(strip_effects(&view, g_, view));
    if (const Node* done = map_.find(view)) view = *done;
    int64_t offset = 0;
    ASTER_TRY(as_storage(&buffer, &offset, g_, view));
    if (buffer == nullptr) {
      // A view of assigned storage that is not row-major: read it out.
      if (view->op != Op::kBuffer) return copy_view(cell, view);
      return ASTER_FAIL(kINTERNAL, "%s was not realised", uop::info(view->op).name);
    }
    Node made =
        buffer_node(e_, storage_of(buffer), buffer->arg(2) + offset, view->dtype, node->shape());
    ASTER_TRY(need(made));
    set_node(cell, made);
    return kOk;
  }
  Status copy_view(Lazy& cell, Node view) {
    Node copied = g_.contiguous(view);
    ASTER_TRY(need(copied));
    set_node(cell, copied);
    Realize again(e_);
    return again.run(std::array{&cell});
  }

 public:
  static Status replace_in_cells(Engine& e, const Map<Node, Node>& map) {
    Heap& heap = e.context.heap();
    Vec<Lazy*> cells(heap);
    Vec<Node> nodes(heap);
    for (Lazy* cell = e.live.next; cell != &e.live; cell = cell->next) {
      if (cell->node->op == Op::kBuffer && !map.contains(cell->node)) continue;
      ASTER_TRY(cells.push(cell));
      ASTER_TRY(nodes.push(cell->node));
    }
    if (cells.empty()) return kOk;
    Node before = e.graph.sink({nodes.data(), nodes.size()}), after = nullptr;
    ASTER_TRY(need(before));
    ASTER_TRY(e.graph.substitute(&after, before, map));
    if (after == before) return kOk;
    for (size_t i = 0; i < cells.size(); ++i) set_node(*cells[i], after->src(i));
    return kOk;
  }

 private:
  Engine& e_;
  Graph& g_;
  Vec<Want> wants_;
  Vec<Node> leaves_;
  Vec<Storage*> outputs_;
  Map<Node, Node> map_;
  int32_t device_ = 0, mixed_ = 0;
};

}  // namespace

Engine::Engine(Context& owner, Graph& nodes)
    : context(owner),
      graph(nodes),
      live{},
      cache(owner.heap()),
      threads(pool::hardware_threads()),
      device(device::kCpu) {
  live.previous = live.next = &live;
  if (owner.options().threads > 0) threads = owner.options().threads;
  graph.set_buffer_hook(release_buffer, nullptr);
}

Engine::~Engine() {
  drop_recording(*this);
  for (auto& entry : cache) {
    for (Executable* exe = entry.value; exe != nullptr;) {
      Executable* next = exe->next;
      exe->release();
      exe = next;
    }
  }
  if (last != nullptr) last->release();
  buffer::storage_release(arena);
}

Status Engine::create(Engine** out, Context& context) {
  Graph* graph = nullptr;
  ASTER_TRY(uop::graph_of_context(&graph, context));
  *out = context.heap().create<Engine>(context, *graph);
  return *out != nullptr ? kOk : out_of_memory(sizeof(Engine));
}

Status Engine::arena_for(char** out, int64_t bytes) {
  if (arena == nullptr || arena->bytes < static_cast<size_t>(bytes)) {
    buffer::storage_release(arena);
    arena = nullptr;
    ASTER_TRY(buffer::storage_create(&arena, context, static_cast<size_t>(bytes), device::kCpu));
    buffer::storage_make_internal(arena);
  }
  *out = static_cast<char*>(arena->data);
  return kOk;
}

Status engine_of(Engine** out, Context& context) {
  if (void* state = context.state(Module::kEngine)) {
    *out = static_cast<Engine*>(state);
    return kOk;
  }
  ASTER_TRY(Engine::create(out, context));
  context.set_state(Module::kEngine, *out, [](Context& owner, void* state) {
    owner.heap().destroy(static_cast<Engine*>(state));
  });
  return kOk;
}

Graph& graph_of(Engine& engine) { return engine.graph; }

Status lazy_create(Lazy** out, Engine& engine, Node node) {
  ASTER_TRY(need(node));
  Lazy* lazy = engine.context.heap().create<Lazy>();
  if (lazy == nullptr) return out_of_memory(sizeof(Lazy));
  handle_init(lazy, engine.context, destroy_lazy);
  lazy->engine = &engine;
  lazy->node = node;
  engine.graph.retain(node);
  lazy->previous = engine.live.previous;
  lazy->next = &engine.live;
  lazy->previous->next = lazy;
  lazy->next->previous = lazy;
  *out = lazy;
  return kOk;
}

void set_node(Lazy& lazy, Node node) {
  lazy.engine->graph.retain(node);
  lazy.engine->graph.release(lazy.node);
  lazy.node = node;
}

Node buffer_node_on(Engine& engine, Storage* storage, int32_t device, int64_t byte_offset,
                    DType dtype, uop::Words shape) {
  const uint64_t before = engine.graph.nodes_made();
  Node node =
      engine.graph.make(Op::kBuffer, dtype, {},
                        std::array<Word, 3>{static_cast<Word>(reinterpret_cast<intptr_t>(storage)),
                                            device, byte_offset},
                        shape);
  if (node != nullptr && engine.graph.nodes_made() != before) buffer::storage_retain(storage);
  return node;
}

Node buffer_node(Engine& engine, Storage* storage, int64_t byte_offset, DType dtype,
                 uop::Words shape) {
  return buffer_node_on(engine, storage, storage->device, byte_offset, dtype, shape);
}

Status reinterpret(Node* out, Engine& engine, Node x, DType dtype, uop::Words shape) {
  Node buffer = nullptr;
  int64_t offset = 0;
  *out = nullptr;
  if (dtype == DType::kBool) return kOk;
  ASTER_TRY(as_storage(&buffer, &offset, engine.graph, x));
  if (buffer == nullptr) return kOk;
  Storage* storage = storage_of(buffer);
  offset += buffer->arg(2);
  const auto first = static_cast<uintptr_t>(offset) + reinterpret_cast<uintptr_t>(storage->data);
  if (first % dtype::size(dtype) != 0) return kOk;
  *out =
      buffer_node_on(engine, storage, static_cast<int32_t>(buffer->arg(1)), offset, dtype, shape);
  return need(*out);
}

Storage* storage_of(Node node) {
  return reinterpret_cast<Storage*>(static_cast<intptr_t>(node->arg(0)));
}

int32_t default_device(const Engine& engine) { return engine.device; }

Status known_device(int32_t* out, Engine& engine, Node node) {
  Heap& heap = engine.context.heap();
  Vec<Node> open(heap);
  Map<Node, uint8_t> seen(heap);
  *out = 0;
  ASTER_TRY(open.push(node));
  while (!open.empty()) {
    const Node at = open.back();
    open.pop();
    const bool moved = is_transfer(at);
    const bool memory = at->op == Op::kBuffer;
    if (moved || (memory && at->arg(1) != 0)) {
      *out = static_cast<int32_t>(at->arg(moved ? 0 : 1));
      if (at->count() != 0) return kOk;
    }
    if (moved) continue;
    for (Node source : at->src()) {
      if (seen.contains(source)) continue;
      ASTER_TRY(seen.set(source, 1));
      ASTER_TRY(open.push(source));
    }
  }
  return kOk;
}

Status fill_buffer(Node* out, Engine& engine, int32_t device, Node constant) {
  ASTER_TRY(need(constant));
  const DType dtype = constant->dtype;
  const size_t size = dtype::size(dtype), bytes = static_cast<size_t>(constant->count()) * size;
  Storage *storage = nullptr, *host = nullptr;
  ASTER_TRY(buffer::storage_create(&storage, engine.context, bytes, device));
  const bool away = !device::is_host(device);
  Status status =
      away ? buffer::storage_create(&host, engine.context, bytes, device::kCpu) : Status();
  if (status.ok()) {
    uint64_t element = 0;
    if (dtype::is_float(dtype)) {
      dtype::store_double(dtype, &element, uop::const_double(constant));
    } else {
      dtype::store_int(dtype, &element, uop::const_int(constant));
    }
    char* data = static_cast<char*>(away ? host->data : storage->data);
    for (size_t i = 0; i < bytes; i += size) std::memcpy(data + i, &element, size);
    if (away) status = buffer::copy({storage->data, 0, device}, {data, 0, buffer::kHost}, bytes);
  }
  *out = status.ok() ? buffer_node(engine, storage, 0, dtype, constant->shape()) : nullptr;
  buffer::storage_release(host);
  buffer::storage_release(storage);
  return status.ok() ? need(*out) : status;
}

Status realize(Engine& engine, std::span<Lazy* const> cells) {
  Status status;
  {
    Realize work(engine);
    status = work.run(cells);
  }
  engine.graph.collect();
  return status;
}

}  // namespace aster::engine
