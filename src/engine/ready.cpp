#include "engine/ready.h"

#include <algorithm>

#include "base/faults.h"
#include "device/device.h"

namespace aster::engine {
namespace {

using uop::Node;
using uop::Nodes;
using uop::Op;

// What takes longer does not mind the way that everything goes.
constexpr double kSmallNs = 1e5;
constexpr size_t kMostLaunches = 8;

// An expression of Buffers in the order of a walk, sources before users.
class Outline {
 public:
  // False: too large, or not computed of what lies in the host's memory alone.
  bool read(Key* key, Node root) {
    struct Frame {
      Node node;
      size_t next;
    };
    Frame stack[kMost];
    size_t depth = 0;
    stack[depth++] = {root, 0};
    while (depth != 0) {
      Frame& frame = stack[depth - 1];
      if (frame.next == frame.node->nsrc) {
        if (!add(key, frame.node)) return false;
        --depth;
        continue;
      }
      const Node source = frame.node->src(frame.next++);
      if (place(source) != count_) continue;
      if (depth == kMost) return false;
      stack[depth++] = {source, 0};
    }
    return true;
  }
  Nodes buffers() const { return {buffers_, buffer_count_}; }

 private:
  static constexpr size_t kMost = 20;

  size_t place(Node node) const {
    size_t at = 0;
    while (at < count_ && nodes_[at] != node) ++at;
    return at;
  }

  bool add(Key* key, Node node) {
    if (count_ == kMost) return false;
    int64_t extra = node->nsrc;
    if (node->op == Op::kBuffer) {
      if (node->arg(1) != device::kCpu || buffer_count_ == Ready::kMostLeaves) return false;
      extra = static_cast<int64_t>(buffer_count_);
      buffers_[buffer_count_++] = node;
    } else if (node->op == Op::kAssign || node->op == Op::kAfter || node->op == Op::kForeign ||
               is_transfer(node)) {
      return false;
    }
    bool fits = key->push(static_cast<int64_t>(node->op) | static_cast<int64_t>(node->dtype) << 8 |
                          static_cast<int64_t>(node->ndim) << 16 | extra << 32);
    if (node->op != Op::kBuffer) {
      fits = fits && key->push(node->narg) && key->append(node->arg());
      for (Node source : node->src()) fits = fits && key->push(static_cast<int64_t>(place(source)));
    }
    nodes_[count_++] = node;
    return fits && key->append(node->shape());
  }

  size_t count_ = 0, buffer_count_ = 0;
  Node nodes_[kMost];
  Node buffers_[Ready::kMostLeaves];
};

// What is computed, and nothing else than computed.
bool is_computed(Node node) {
  return !dtype::is_weak(node->dtype) && node->op != Op::kDetach && node->nsrc != 0 &&
         node->dtype != dtype::DType::kNone && !uop::is_movement(node->op) &&
         !uop::is_view(node->op) && node->count() != 0;
}

// What is computed for a node that may give it another shape.
Node below_reshapes(Node node) {
  while (node->op == Op::kReshape) node = node->src(0);
  return node;
}

// Whether nobody but the cell sees what is computed for its node.
bool is_alone(const Lazy& cell) {
  if (cells_of(cell.node) != &cell || cell.beside != nullptr) return false;
  Node node = cell.node;
  for (; node->op == Op::kReshape && node->references == 1; node = node->src(0)) {
    if (node->src(0)->handles != nullptr) return false;
  }
  return node->references == 1;
}

bool fits(const Executable& exe, const Leaves& leaves) {
  if (exe.away || exe.device != nullptr || exe.graph != nullptr || exe.for_now) return false;
  if (exe.launches.empty() || exe.launches.size() > kMostLaunches || leaves.foreign) return false;
  if (exe.roots.size() != 1 || exe.operands.size() > Ready::kMostOperands) return false;
  const Slot& result = exe.slots[exe.roots[0]];
  if (result.kind != SlotKind::kOutput || result.index != 0) return false;
  for (const Launch& item : exe.launches) {
    if (item.writes || item.kind != LaunchKind::kHost) return false;
  }
  return exe.launches[0].remaining <= kSmallNs;
}

// Where the memory of each leaf is in that of the operands.
bool find_leaves_in(Ready* out, const Leaves& leaves, Nodes operands) {
  if (leaves.buffers.size() > Ready::kMostLeaves) return false;
  out->leaves = leaves.buffers.size();
  for (size_t i = 0; i < out->leaves; ++i) {
    uint32_t at = 0;
    while (at < operands.size() && operands[at] != leaves.wholes[i]) ++at;
    if (at == operands.size()) return false;
    out->leaf[i] = {at, leaves.buffers[i]->arg(2) - leaves.wholes[i]->arg(2)};
  }
  return true;
}

}  // namespace

ReadyTable::~ReadyTable() {
  for (size_t i = 0; places_ != nullptr && i < kPlaces; ++i) drop(places_[i]);
  heap_.release(places_, kPlaces * sizeof(Ready*), alignof(Ready*));
}

void ReadyTable::forget(const Ready& ready) {
  drop(std::exchange(places_[ready.hash % kPlaces], nullptr));
}

void ReadyTable::drop(Ready* ready) {
  if (ready == nullptr) return;
  if (ready->exe != nullptr) ready->exe->release();
  heap_.release(ready, sizeof(Ready) + ready->words * sizeof(int64_t), alignof(Ready));
}

Ready* ReadyTable::find(const Key& key) const {
  if (places_ == nullptr) return nullptr;
  const uint64_t hash = key.hash();
  Ready* const at = places_[hash % kPlaces];
  const uop::Words words = key.words();
  if (at == nullptr || at->hash != hash || at->words != words.size()) return nullptr;
  const bool same = std::memcmp(at->key().data(), words.data(), words.size_bytes()) == 0;
  return same ? at : nullptr;
}

Status ReadyTable::make(Ready** out, Engine& engine, const Key& key, Node root, Nodes operands) {
  if (places_ == nullptr) {
    places_ = heap_.array<Ready*>(kPlaces);
    if (places_ == nullptr) return out_of_memory(kPlaces * sizeof(Ready*));
    std::fill_n(places_, kPlaces, nullptr);
  }
  const size_t bytes = sizeof(Ready) + key.words().size_bytes();
  void* const memory = heap_.allocate(bytes, alignof(Ready));
  if (memory == nullptr) return out_of_memory(bytes);
  auto* const made = ::new (memory) Ready{};
  made->hash = key.hash();
  made->words = key.words().size();
  std::memcpy(made + 1, key.words().data(), key.words().size_bytes());
  bool dear = false;
  Leaves leaves(heap_);
  Executable* exe = nullptr;
  Status status;
  const Node computed = below_reshapes(root);
  if (is_computed(computed) && root->ndim <= Ready::kMostAxes) {
    status = is_worth_keeping(&dear, heap_, computed);
    if (status.ok() && !dear)
      status = engine.executable(&exe, std::array{computed}, &leaves, device::kCpu);
  }
  if (!status.ok()) {
    drop(made);
    return status;
  }
  if (exe != nullptr && fits(*exe, leaves) && find_leaves_in(made, leaves, operands)) {
    made->exe = exe;
    made->dtype = root->dtype;
    made->ndim = root->ndim;
    made->bytes = static_cast<size_t>(root->count()) * dtype::size(root->dtype);
    std::ranges::copy(root->shape(), made->dims);
  } else if (exe != nullptr) {
    exe->release();
    // What computes it after all finds the schedule, and counts that.
    --engine.counters.schedule_hits;
  }
  Ready*& place = places_[key.hash() % kPlaces];
  drop(std::exchange(place, made));
  *out = made;
  return kOk;
}

bool takes_ready(const Engine& e) {
  return e.recording == nullptr && e.trace.function == nullptr && e.kept_values.empty() &&
         e.context.options().no_schedule_cache == 0 && e.device == device::kCpu;
}

bool begin_key(Key* key, const Engine& engine, const void* function) {
  const dtype::Defaults& defaults = engine.graph.defaults;
  return key->push(reinterpret_cast<intptr_t>(function)) &&
         key->push(static_cast<int64_t>(defaults.real) | static_cast<int64_t>(defaults.whole) << 8);
}

bool may_run(Engine& engine, const Ready& ready) {
  if (ready.exe == nullptr) return false;
  if (!is_worth_own_sizes(*ready.exe)) return true;
  // The next schedule of it has kernels of its own, and is looked up anew.
  engine.ready.forget(ready);
  return false;
}

Status run_ready(Engine& e, const Ready& ready, char* const* operands, void* result) {
  Executable& exe = *ready.exe;
  if (e.context.interrupt().requested())
    return Interrupt::stopped("kernels ran; storages are as before");
  Given params[Ready::kMostLeaves], output = {result, 0};
  for (size_t i = 0; i < ready.leaves; ++i) {
    const Ready::Leaf& leaf = ready.leaf[i];
    params[i] = {operands[leaf.operand] + leaf.offset, 0};
  }
  char* arena = nullptr;
  if (exe.arena_bytes != 0) ASTER_TRY(e.arena_for(&arena, exe.arena_bytes));
  void* pointers[Ready::kMostOperands];
  bind(pointers, exe, params, &output, arena);
  Faults faults;
  launch_all(exe, pointers, arena, e.threads);
  ASTER_TRY(faults.outcome(kOk));
  ++e.counters.realizes;
  e.counters.kernels_launched += exe.work.kernels;
  e.counters.operations += exe.work.operations;
  e.counters.moved_bytes += exe.work.bytes;
  e.counters.last_kernels = exe.work.kernels;
  if (e.last != &exe) {
    if (e.last != nullptr) e.last->release();
    e.last = &exe;
    exe.retain();
  }
  return kOk;
}

Status realize_ready(bool* done, Engine& e, Lazy& cell, bool make) {
  const Node root = cell.node;
  *done = false;
  if (!takes_ready(e) || cell.arena != nullptr) return kOk;
  e.graph.collect();
  *done = root->op == Op::kBuffer;
  if (*done || !is_computed(below_reshapes(root)) || !is_alone(cell)) return kOk;
  Key key;
  Outline outline;
  if (!begin_key(&key, e, nullptr) || !outline.read(&key, root)) return kOk;
  Ready* ready = e.ready.find(key);
  if (ready == nullptr) {
    if (!make) return kOk;
    ASTER_TRY(e.ready.make(&ready, e, key, root, outline.buffers()));
  } else {
    ++e.counters.schedule_hits;
  }
  if (!may_run(e, *ready)) return kOk;
  char* operands[Ready::kMostLeaves];
  for (size_t i = 0; i < outline.buffers().size(); ++i) {
    const Node buffer = outline.buffers()[i];
    operands[i] = static_cast<char*>(storage_of(buffer)->data) + buffer->arg(2);
  }
  buffer::Storage* storage = nullptr;
  ASTER_TRY(buffer::storage_create(&storage, e.context, ready->bytes, device::kCpu));
  Status status = run_ready(e, *ready, operands, storage->data);
  if (status.ok()) {
    const Node made = buffer_node(e, storage, 0, ready->dtype, ready->shape());
    if (made == nullptr) status = last_failure();
    if (status.ok()) set_node(cell, made);
  }
  buffer::storage_release(storage);
  *done = status.ok();
  e.graph.collect();
  return status;
}

}  // namespace aster::engine
