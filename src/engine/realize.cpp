// Realize: which expressions are to be computed, where, and what stands for them afterwards.
#include <cstdio>

#include "base/faults.h"
#include "base/pool.h"
#include "device/device.h"
#include "engine/bring.h"
#include "engine/commands.h"
#include "engine/engine.h"
#include "engine/graph_arena.h"
#include "engine/indexing.h"
#include "engine/kept_copies.h"
#include "engine/recording.h"
#include "engine/tracer.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Graph;
using uop::Node;
using uop::Op;

// Everything that cells wait for, whatever has to move between devices for it.
Status realize_all(Engine& engine, std::span<Lazy* const> cells);

Given memory_of(Node node) { return {storage_at(node)->data, static_cast<size_t>(node->arg(2))}; }

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

// One thing to compute, and what stands for it afterwards.
struct Want {
  Node root;          // computed by the schedule
  Node result;        // the storage that an Assign writes; null: a new Buffer
  bool kept = false;  // for pending expressions, which stay as they are
};

class Realize {
 public:
  explicit Realize(Engine& engine)
      : e_(engine),
        g_(engine.graph),
        wants_(engine.context.heap()),
        leaves_(engine.context.heap()),
        outputs_(engine.context.heap()),
        copies_(engine.context.heap()),
        map_(engine.context.heap()),
        known_(engine.context.heap()),
        order_(engine.context.heap()) {}
  ~Realize() {
    for (Storage* storage : outputs_) buffer::storage_release(storage);
  }

  // A step: *again says that only something moved to another device, and the rest is to do.
  Status run(std::span<Lazy* const> cells, bool* again) {
    for (const Kept& kept : e_.kept_values) ASTER_TRY(known_.set(kept.expression, kept.value));
    for (Lazy* cell : cells) ASTER_TRY(fill_constant(*cell));
    for (Lazy* cell : cells) ASTER_TRY(want(cell->node));
    if (!wants_.empty()) {
      Node moved = nullptr;
      bool apart = false;
      ASTER_TRY(survey(&moved, &apart));
      if (moved != nullptr) return *again = true, move(cells, moved);
      if (apart && cells.size() != 1) return one_by_one(cells);
      if (apart) ASTER_TRY(gather(cells, again));
      if (*again) return kOk;
      ASTER_TRY(execute());
      ASTER_TRY(replace());
    } else if (map_.size() != 0) {
      ASTER_TRY(replace_in_cells(e_, map_));
    }
    for (Lazy* cell : cells) ASTER_TRY(settle(*cell));
    return kOk;
  }

 private:
  // Below reshapes: what is computed and may be looked at in any shape.
  Node base(Node node) {
    node = strong(g_, node);
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
    if (memory_below(node) != nullptr) return kOk;
    if (const Node* value = known_.find(node)) return map_.set(node, *value);
    if (node->op == Op::kAfter) {
      for (Node effect : node->src().subspan(1)) ASTER_TRY(want(effect));
      return want(node->src(0));
    }
    Node result = nullptr;
    if (node->op == Op::kAssign) {
      ASTER_TRY(strip_effects(&result, g_, node->src(0)));
      return add(node, result);
    }
    // A view of storage is where it is once the writes that it waits for are done.
    const Node state = below_views(node);
    return buffer_below(state) != nullptr ? want(state) : add(node, nullptr);
  }

  // What waits below the roots, and the device that computes them. moved: what has to come from
  // another device first. apart: what is read, or written, lies on several devices.
  Status survey(Node* moved, bool* apart) {
    Heap& heap = e_.context.heap();
    Vec<Node> roots(heap);
    Vec<Node>& nodes = order_;
    for (const Want& w : wants_) ASTER_TRY(roots.push(w.root));
    ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
    ordered_ = wants_.size();
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
      *apart |= &known == &all && known != 0 && device != known;
      known = device;
    }
    device_ = all != 0 ? all : empty != 0 ? empty : e_.device;
    return *apart ? kOk : want_kept(nodes, {roots.data(), roots.size()});
  }

  // What pending expressions will read. Not where storage is written: what is computed after that
  // reads what is there then.
  Status want_kept(const Vec<Node>& nodes, uop::Nodes roots) {
    if (e_.recording != nullptr) return kOk;
    if (!device::same_type(device_, device::kCpu)) {
      const runtime::Device* other = nullptr;
      ASTER_TRY(runtime::device_of(&other, e_.context, device_));
      if (other == nullptr || !other->computes()) return kOk;
    }
    for (const Want& w : wants_) {
      if (w.result != nullptr) return kOk;
    }
    Vec<Node> chosen(e_.context.heap());
    ASTER_TRY(choose_kept(&chosen, e_, {nodes.data(), nodes.size()}, roots));
    for (Node node : chosen) {
      if (!known_.contains(node)) ASTER_TRY(wants_.push(Want{node, nullptr, true}));
    }
    return kOk;
  }

  // Several cells and several devices.
  Status one_by_one(std::span<Lazy* const> cells) {
    for (Lazy* cell : cells) ASTER_TRY(realize_all(e_, std::array{cell}));
    return kOk;
  }

  // One cell that reads or writes storage of several devices: its first operand's device computes
  // it, on copies of what lies elsewhere. *again: only a write on another device was done.
  Status gather(std::span<Lazy* const> cells, bool* again) {
    ASTER_TRY(known_device(&device_, e_, cells[0]->node));
    Vec<Node> roots(e_.context.heap());
    for (const Want& w : wants_) {
      int32_t device;
      ASTER_TRY(known_device(&device, e_, w.root));
      if (device != device_ && w.result != nullptr) {
        Lazy* write;
        ASTER_TRY(lazy_create(&write, e_, w.root));
        const Status status = realize_all(e_, std::array{write});
        free_handle(write);
        return *again = true, status;
      }
      ASTER_TRY(roots.push(w.root));
    }
    return bring(&known_, e_, {roots.data(), roots.size()}, device_);
  }

  // Computes what moved comes from where it is, and copies it over.
  Status move(std::span<Lazy* const> cells, Node moved) {
    Node from = moved->src(0), buffer = nullptr;
    int64_t offset = 0;
    ASTER_TRY(as_storage(&buffer, &offset, g_, from));
    // What is computed, and its copy, are nodes of their own: the expression stays for gradients.
    if (buffer == nullptr) from = g_.transfer(from, moved->arg(1), 0);
    Lazy *source = nullptr, *result = nullptr;
    Status status = lazy_create(&source, e_, from);
    if (status.ok()) status = lazy_create(&result, e_, moved);
    if (status.ok()) status = realize_all(e_, std::array{source});
    if (status.ok()) {
      const Node there = result->node;  // as the cells have it now
      const Node copied = g_.transfer(source->node, there->arg(0), 0);
      status = need(copied);
      if (status.ok()) set_node(*source, copied);
      if (status.ok()) status = realize_all(e_, std::array{source});
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
    return status;
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
    if (device::same_type(device_, device::kNull) && e_.recording != nullptr) {
      return ASTER_FAIL(kUNSUPPORTED, "capture of work on %s", device::name(device_).text);
    }
    Vec<Node> roots(e_.context.heap());
    for (const Want& w : wants_) {
      Node root = w.root;
      if (known_.size() != 0) ASTER_TRY(g_.substitute(&root, root, known_));
      ASTER_TRY(need(root));
      ASTER_TRY(roots.push(root));
    }
    Executable* exe = nullptr;
    const uint64_t made = e_.counters.schedule_misses;
    const bool ordered = known_.size() == 0 && ordered_ == wants_.size();
    ASTER_TRY(e_.executable(&exe, {roots.data(), roots.size()}, &leaves_, device_,
                            ordered ? &order_ : nullptr));
    Status status;
    if (Tracer* tracer = Tracer::of(e_.trace)) {
      status = tracer->scheduled(e_, *exe, {roots.data(), roots.size()},
                                 made != e_.counters.schedule_misses);
    }
    if (status.ok()) status = execute(*exe);
    if (e_.last != nullptr) e_.last->release();
    e_.last = exe;  // for print_schedule
    return status;
  }

  Status execute(Executable& exe) {
    Heap& heap = e_.context.heap();
    const double start = milliseconds();
    Vec<Given> params(heap), results(heap);
    const bool computes = !device::same_type(device_, device::kNull);
    if (computes) ASTER_TRY(may_copy(e_.context, exe));
    for (Node leaf : leaves_.buffers) ASTER_TRY(params.push(memory_of(leaf)));
    for (const Want& w : wants_) {
      if (w.result != nullptr) {
        Node buffer = w.result;
        while (buffer->op != Op::kBuffer) buffer = buffer->src(0);
        if (storage_at(buffer)->read_only)
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
        ASTER_TRY(results.push(Given{storage->data, 0}));
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
      ASTER_TRY(results.push(Given{storage != nullptr ? storage->data : nullptr, 0}));
    }
    Vec<Node> written(heap);
    for (const Want& w : wants_) {
      if (w.result != nullptr) ASTER_TRY(written.push(w.result));
    }
    if (!written.empty()) ASTER_TRY(forget_written(e_, {written.data(), written.size()}));
    ++e_.counters.realizes;
    if (computes)
      ASTER_TRY(make_copies(&copies_, e_, exe, {params.data(), params.size()}, leaves_));
    if (computes && (e_.recording == nullptr || !e_.recording->dry)) {
      for (Node leaf : leaves_.buffers) bring_late(*storage_at(leaf));
      Faults faults;
      ASTER_TRY(faults.outcome(compute(exe, params, results)));
    }
    e_.counters.kernels_launched += exe.work.kernels;
    e_.counters.operations += exe.work.operations;
    e_.counters.moved_bytes += exe.work.bytes;
    e_.counters.last_kernels = exe.work.kernels;
    e_.counters.host_kernels += exe.on_host;
    e_.counters.run_ms += milliseconds() - start;
    if (e_.recording != nullptr) {
      ASTER_TRY(record(*e_.recording, exe, leaves_, {outputs_.data(), outputs_.size()},
                       {copies_.data(), copies_.size()}));
    }
    return kOk;
  }

  Status compute(Executable& exe, const Vec<Given>& params, const Vec<Given>& results) {
    const Run run{e_.trace, e_.context, e_.context.interrupt(), device_, false};
    if (exe.away) return compute_away(exe, params, results, run);
    Vec<void*> pointers(e_.context.heap());
    if (exe.graph != nullptr) {
      ++e_.counters.interpreted;
      for (const Given& given : params) ASTER_TRY(pointers.push(given.address()));
      for (const Given& given : results) ASTER_TRY(pointers.push(given.address()));
      return interpret(exe, pointers.data(), pointers.data() + params.size(), run);
    }
    char* arena = nullptr;
    ASTER_TRY(e_.arena_for(&arena, exe.arena_bytes));
    ASTER_TRY(pointers.resize(exe.operands.size(), nullptr));
    bind(pointers.data(), exe, params.data(), results.data(), arena, copies_.data());
    const bool many = e_.threads > 1 && exe.launches.size() > 1;
    if (many) pool::session_begin(e_.threads, e_.context.options().pin_threads != 0);
    const Ran ran = launch(exe, pointers.data(), arena, e_.threads, run, false);
    if (many) pool::session_end();
    if (ran == Ran::kPart) return Interrupt::stopped("kernels ran; storages are as before");
    return ran == Ran::kWriting ? give_up_writes() : kOk;
  }

  // By commands of a device.
  Status compute_away(Executable& exe, const Vec<Given>& params, const Vec<Given>& results,
                      const Run& run) {
    Heap& heap = e_.context.heap();
    Vec<void*> pointers(heap);
    Vec<size_t> offsets(heap);
    Commands commands(heap);
    void* arena = nullptr;
    char* host = nullptr;
    ASTER_TRY(e_.arena_on(&arena, device_, exe.device_bytes));
    ASTER_TRY(e_.arena_for(&host, exe.arena_bytes));
    ASTER_TRY(pointers.resize(exe.operands.size(), nullptr));
    ASTER_TRY(offsets.resize(exe.operands.size(), 0));
    bind_away(pointers.data(), offsets.data(), exe, {params.data(), params.size()},
              {results.data(), results.size()}, arena, host);
    ASTER_TRY(commands.add(exe, pointers.data(), offsets.data(), host + exe.scratch_offset, false));
    if (exe.graph != nullptr) ++e_.counters.interpreted;
    Ran ran = Ran::kAll;
    bool wrote = false;
    const Status status = commands.run(&ran, &wrote, e_.queues, run, e_.threads);
    if (!status.ok() && wrote) return give_up_writes(status);
    ASTER_TRY(status);
    return ran == Ran::kAll ? kOk : Interrupt::stopped("kernels ran; storages are as before");
  }

  // What is assigned in a run that did not come to its end: it counts as done, so that nothing does
  // it again on what is left, and the status says so.
  Status give_up_writes(Status why = Status{ASTER_ML_CANCELLED}) {
    char names[256] = "";
    size_t length = 0, others = 0;
    for (const Want& w : wants_) {
      if (w.result == nullptr) continue;
      ASTER_TRY(map_.set(w.root, w.result));
      const int more =
          std::snprintf(names + length, sizeof(names) - length, "%s%s%s", length == 0 ? "" : ", ",
                        dtype::name(w.root->dtype), uop::brief_shape(w.root->shape()).text);
      if (static_cast<size_t>(more) < sizeof(names) - length) {
        length += static_cast<size_t>(more);
      } else {
        names[length] = '\0';
        ++others;
      }
    }
    const char* more = others == 0 ? "" : ", and others";
    const SavedError cause;
    ASTER_TRY(replace_in_cells(e_, map_));
    if (why.code != ASTER_ML_CANCELLED) {
      cause.restore();
      return fail_at(static_cast<Code>(why.code), ASTER_MODULE, __FILE__, __LINE__,
                     "%s; what was assigned (%s%s) is no longer valid", SavedError::message(),
                     names, more);
    }
    return ASTER_FAIL(kCANCELLED,
                      "stopped as asked in the middle of assignments: what was assigned (%s%s) is "
                      "no longer valid",
                      names, more);
  }

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

  // Puts the results in place of what was computed, in every cell that names it anywhere.
  Status replace() {
    for (size_t i = 0; i < wants_.size(); ++i) {
      const Want& w = wants_[i];
      Node result = w.result;
      if (result == nullptr) {
        result = buffer_node(e_, outputs_[i], 0, w.root->dtype, w.root->shape());
        ASTER_TRY(need(result));
      }
      if (w.kept) {
        ASTER_TRY(keep(e_, w.root, result));
        continue;
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
    if (buffer_below(view) != nullptr) ASTER_TRY(strip_effects(&view, g_, view));
    if (const Node* done = map_.find(view)) view = *done;
    int64_t offset = 0;
    ASTER_TRY(as_storage(&buffer, &offset, g_, view));
    if (buffer == nullptr && memory_below(view) == nullptr)
      return ASTER_FAIL(kINTERNAL, "%s was not realised", uop::info(view->op).name);
    // What is not row-major stays a view of its memory.
    Node made = buffer == nullptr ? g_.reshape(view, node->shape())
                                  : buffer_node(e_, storage_of(buffer), buffer->arg(2) + offset,
                                                view->dtype, node->shape());
    ASTER_TRY(need(made));
    set_node(cell, made);
    return kOk;
  }

  Engine& e_;
  Graph& g_;
  Vec<Want> wants_;
  Leaves leaves_;
  Vec<Storage*> outputs_;
  Vec<Storage*> copies_;  // of what does not change; the engine holds them
  Map<Node, Node> map_;
  Map<Node, Node> known_;  // what was kept of earlier ones
  Vec<Node> order_;        // of what the first ordered_ wants need
  size_t ordered_ = 0;
  int32_t device_ = 0;
};

Status realize_all(Engine& engine, std::span<Lazy* const> cells) {
  for (bool again = true; again;) {
    again = false;
    ASTER_TRY(Realize(engine).run(cells, &again));
  }
  return kOk;
}

}  // namespace

Status replace_in_cells(Engine& engine, const Map<Node, Node>& map) {
  constexpr uint8_t kReplaced = 1, kSeen = 2;
  Graph& g = engine.graph;
  Heap& heap = engine.context.heap();
  Vec<Node> above(heap), sources(heap), made(heap);
  Vec<Lazy*> cells(heap);
  for (const auto& entry : map) ASTER_TRY(sources.push(entry.key));
  ASTER_TRY(g.climb(&above, {sources.data(), sources.size()}, false));
  // What cells reach of it; the rest has been given up.
  Map<Node, uint8_t> state(heap);
  for (size_t i = above.size(); i-- > 0;) {
    bool seen = above[i]->handles != nullptr;
    for (const uop::Use* use : {above[i]->views, above[i]->uses}) {
      for (; use != nullptr && !seen; use = use->next)
        seen = state.get(use->user, 0) == kSeen && !map.contains(use->user);
    }
    ASTER_TRY(state.set(above[i], seen ? kSeen : kReplaced));
  }
  Map<Node, Node> done(heap);
  for (Node node : above) {
    if (state.get(node, 0) != kSeen) continue;
    Node after = map.get(node, nullptr);
    if (after == nullptr) {
      sources.clear();
      for (size_t i = 0; i < node->nsrc; ++i) {
        const Node source = node->src(i);
        const bool body = i == 0 && node->op == Op::kCall;
        ASTER_TRY(sources.push(body ? source : done.get(source, source)));
      }
      after = g.with_sources(node, {sources.data(), sources.size()});
      ASTER_TRY(need(after));
    }
    ASTER_TRY(done.set(node, after));
    for (Lazy* cell = cells_of(node); cell != nullptr; cell = cell->beside) {
      ASTER_TRY(cells.push(cell));
      ASTER_TRY(made.push(after));
    }
  }
  for (size_t i = 0; i < cells.size(); ++i) set_node(*cells[i], made[i]);
  return kOk;
}

// In a dry capture nothing is computed: what was pending before it would get memory without values.
static Status refuse_pending(const Engine& engine, std::span<Lazy* const> cells) {
  const Recording* r = engine.recording;
  if (r == nullptr || !r->callers) return kOk;
  for (const Lazy* cell : cells) {
    if (cell->family == 0 || cell->family > r->families || memory_below(cell->node) != nullptr)
      continue;
    const Node state = below_views(cell->node);
    if (state->op == Op::kAssign || state->op == Op::kAfter) continue;
    return ASTER_FAIL(kSTATE, "%s from before a dry capture is not realised: realise it first",
                      uop::brief(cell->node).text);
  }
  return kOk;
}

Node strong(Graph& g, Node x) {
  if (x == nullptr || !dtype::is_weak(x->dtype)) return x;
  const dtype::DType to = g.strong(x->dtype);
  const bool wrapped = x->op == Op::kCast && x->src(0)->dtype == to;
  return wrapped ? x->src(0) : g.cast(x, to);
}

// What is computed for a cell is then its own node, which other cells that read it see computed.
static Status make_strong(Engine& engine, std::span<Lazy* const> cells) {
  for (Lazy* cell : cells) {
    const Node plain = strong(engine.graph, cell->node);
    ASTER_TRY(need(plain));
    if (plain != cell->node) set_node(*cell, plain);
  }
  return kOk;
}

Status realize(Engine& engine, std::span<Lazy* const> cells) {
  ASTER_TRY(make_strong(engine, cells));
  return engine.living_arenas == 0 ? realize_here(engine, cells) : realize_by_arenas(engine, cells);
}

Status realize_here(Engine& engine, std::span<Lazy* const> cells) {
  ASTER_TRY(refuse_pending(engine, cells));
  bool done = false;
  if (cells.size() == 1) ASTER_TRY(realize_ready(&done, engine, *cells[0], true));
  if (done) return kOk;
  engine.graph.collect();  // what nothing reaches reads nothing
  forget_outdated(engine);
  for (const Lazy* cell : cells) ASTER_TRY(look_at_earlier(*cell));
  const Status status = realize_all(engine, cells);
  engine.graph.collect();
  forget_unread(engine);
  return status;
}

Status realize_stored(Engine& engine, std::span<Lazy* const> cells) {
  ASTER_TRY(realize(engine, cells));
  bool views = false;
  for (Lazy* cell : cells) {
    if (cell->node->op == Op::kBuffer) continue;
    const Node copied = engine.graph.contiguous(cell->node);
    ASTER_TRY(need(copied));
    set_node(*cell, copied);
    views = true;
  }
  return views ? realize(engine, cells) : kOk;
}

}  // namespace aster::engine
