#include <algorithm>
#include <cstdio>

#include "base/set.h"
#include "uop/foreign.h"
#include "uop/uop.h"

namespace aster::uop {
namespace {

constexpr size_t kMaxRank = 255;
constexpr int64_t kMaxElementBytes = 64;

constexpr OpInfo kInfo[] = {
#define LEVEL_T true, false, false
#define LEVEL_K false, true, false
#define LEVEL_TK true, true, false
#define LEVEL_TP true, false, true
#define LEVEL_KP false, true, true
#define LEVEL_TKP true, true, true
#define OP(name, sources, level, meaning) \
  {#name, meaning, sources, LEVEL_##level, DTypeRule::kNone, 0, 0},
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) \
  {#name, meaning, arity, true, true, true, DTypeRule::rule, traits, cost},
#define STEP(name, operands, meaning) \
  {#name, meaning, operands, false, false, true, DTypeRule::kNone, 0, 0},
#define PART(name, arity, rule, value, meaning) \
  {#name, meaning, arity, false, false, true, DTypeRule::rule, 0, 0},
#include "uop/ops.def"
};

bool equal(Words a, Words b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

const OpInfo& info(Op op) { return kInfo[static_cast<size_t>(op)]; }

uint8_t traits(Op op, DType dtype) {
  const uint8_t all = info(op).traits;
  if (!dtype::is_sticky(dtype)) return all;
  if ((all & STICKY) == 0) return 0;
  const bool checks = op == Op::kAdd || op == Op::kMul;
  return static_cast<uint8_t>(checks ? all & ~ASSOC : all);
}

double cost(Node node) {
  const bool divides = node->op == Op::kFloorDiv || node->op == Op::kFloorMod ||
                       node->op == Op::kCDiv || node->op == Op::kCMod;
  if (!divides || !is_const(node->src(1))) return info(node->op).cost;
  const Word by = node->src(1)->arg(0);
  return by > 0 && (by & (by - 1)) == 0 ? 1 : 4;  // a shift, or a multiplication
}

bool count_elements(Words shape, int64_t* out) {
  if (shape.size() > kMaxRank) return false;
  // Strides of a shape with a 0 count its other dimensions, so those are checked too.
  bool zero = false;
  int64_t n = 1;
  for (Word dim : shape) {
    if (dim < 0 || !checked_mul(n, std::max<Word>(dim, 1), &n)) return false;
    zero |= dim == 0;
  }
  *out = zero ? 0 : n;
  return n <= INT64_MAX / kMaxElementBytes;
}

bool is_view(Op op) {
  return op == Op::kReshape || op == Op::kPermute || op == Op::kFlip || op == Op::kSlice ||
         op == Op::kExpand || op == Op::kDetach;
}

bool is_movement(Op op) { return op >= Op::kReshape && op <= Op::kCat; }

Graph::Graph(Memory& memory, bool collects)
    : memory_(&memory), collects_(collects), unreferenced_(memory), buffers_(memory) {}

Graph::~Graph() {
  for (size_t i = 0; i < table_size_; ++i) {
    for (UOp* node = table_[i]; node != nullptr;) {
      UOp* next = node->bucket_next;
      if (buffer_hook_ != nullptr && node->op == Op::kBuffer) buffer_hook_(buffer_hook_self_, node);
      destroy(node);
      node = next;
    }
  }
  if (table_ != nullptr) memory_->release(table_, table_size_ * sizeof(UOp*), alignof(UOp*));
}

// How many uses stand behind a node: one a source, or a Buffer's place among those of its storage.
static size_t use_count(Op op, size_t nsrc, bool collects) {
  return collects ? nsrc + (op == Op::kBuffer ? 1 : 0) : 0;
}
static size_t node_bytes(size_t nsrc, size_t narg, size_t ndim, size_t uses) {
  return sizeof(UOp) + nsrc * sizeof(Node) + (narg + ndim) * sizeof(Word) + uses * sizeof(Use);
}
static Use* uses_behind(UOp* node) {
  return reinterpret_cast<Use*>(const_cast<Word*>(node->shape().data() + node->ndim));
}

static void put_use(Use* use, Use** list) {
  use->next = *list;
  use->link = list;
  if (use->next != nullptr) use->next->link = &use->next;
  *list = use;
}

void Graph::list_uses(UOp* node) {
  Use* use = uses_behind(node);
  const bool sees = is_view(node->op) || node->op == Op::kAssign || node->op == Op::kAfter;
  for (size_t i = 0; i < node->nsrc; ++i) {
    use->user = node;
    put_use(use++, sees && i == 0 ? &node->src(i)->views : &node->src(i)->uses);
  }
  if (node->op != Op::kBuffer) return;
  use->user = node;
  put_use(use, buffer_list(node->arg(0)));
  ++buffer_count_;
}

// Room for one Buffer more; a longer table where it is easily had.
Status Graph::grow_buffers() {
  if (buffer_count_ < buffers_.size()) return kOk;
  Vec<Use*> old(*memory_);
  const size_t size = buffers_.empty() ? 64 : buffers_.size() * 2;
  std::swap(old, buffers_);
  const Status grown = buffers_.resize(size, nullptr);
  if (!grown.ok()) return std::swap(old, buffers_), grown;
  for (Use* use : old) {
    while (use != nullptr) {
      Use* next = use->next;
      put_use(use, buffer_list(use->user->arg(0)));
      use = next;
    }
  }
  return kOk;
}

void Graph::destroy(UOp* node) {
  if (collects_ && node->op == Op::kForeign) foreign_of(node).release();
  --node_count_;
  const size_t uses = use_count(node->op, node->nsrc, collects_);
  memory_->release(node, node_bytes(node->nsrc, node->narg, node->ndim, uses), alignof(UOp));
}

Status Graph::grow_table() {
  const size_t size = table_size_ == 0 ? 256 : table_size_ * 2;
  UOp** table = memory_->array<UOp*>(size);
  if (table == nullptr) return out_of_memory(size * sizeof(UOp*));
  for (size_t i = 0; i < size; ++i) table[i] = nullptr;
  for (size_t i = 0; i < table_size_; ++i) {
    for (UOp* node = table_[i]; node != nullptr;) {
      UOp* next = node->bucket_next;
      UOp*& head = table[node->hash & (size - 1)];
      node->bucket_next = head;
      head = node;
      node = next;
    }
  }
  if (table_ != nullptr) memory_->release(table_, table_size_ * sizeof(UOp*), alignof(UOp*));
  table_ = table;
  table_size_ = size;
  return kOk;
}

UOp* Graph::find(uint64_t hash, Op op, DType dtype, Nodes src, Words arg, Words shape) const {
  if (table_size_ == 0) return nullptr;
  for (UOp* node = table_[hash & (table_size_ - 1)]; node != nullptr; node = node->bucket_next) {
    if (node->hash == hash && node->op == op && node->dtype == dtype && node->nsrc == src.size() &&
        equal(node->arg(), arg) && equal(node->shape(), shape) &&
        std::equal(src.begin(), src.end(), node->src().begin())) {
      return node;
    }
  }
  return nullptr;
}

bool Graph::owns(Node node) const {
  if (node == nullptr || table_size_ == 0) return false;
  for (Node n = table_[node->hash & (table_size_ - 1)]; n != nullptr; n = n->bucket_next) {
    if (n == node) return true;
  }
  return false;
}

Node Graph::make(Op op, DType dtype, Nodes src, Words arg, Words shape) {
  if (shape.size() > kMaxRank) {
    return (void)ASTER_FAIL(kRANGE, "%s of %zu axes", info(op).name, shape.size()), nullptr;
  }
  uint64_t hash = hash_mix(static_cast<uint64_t>(op) << 8, static_cast<uint64_t>(dtype));
  for (Node s : src) {
    if (s == nullptr) return nullptr;
    hash = hash_mix(hash, s->id);
  }
  for (Word word : arg) hash = hash_mix(hash, static_cast<uint64_t>(word));
  hash = hash_mix(hash, shape.size());
  for (Word word : shape) hash = hash_mix(hash, static_cast<uint64_t>(word));
  if (UOp* found = find(hash, op, dtype, src, arg, shape)) return found;
  int64_t elements;
  if (!count_elements(shape, &elements)) {
    return (void)ASTER_FAIL(kRANGE, "%s of shape %s: too many elements", info(op).name,
                            brief_shape(shape).text),
           nullptr;
  }

  // Half full at most: the nodes of a chain lie apart, and each that is met costs a miss.
  if (2 * node_count_ >= table_size_ && !grow_table().ok()) return nullptr;
  // So that release, which cannot fail, always finds room in the list.
  if (collects_ && unreferenced_.reserve(table_size_ / 2 + 1).code != 0) return nullptr;
  if (collects_ && op == Op::kBuffer) {
    if (arg.empty()) return (void)ASTER_FAIL(kARGUMENT, "a Buffer without arguments"), nullptr;
    if (!grow_buffers().ok()) return nullptr;
  }
  const size_t uses = use_count(op, src.size(), collects_);
  const size_t bytes = node_bytes(src.size(), arg.size(), shape.size(), uses);
  void* memory = memory_->allocate(bytes, alignof(UOp));
  if (memory == nullptr) return (void)out_of_memory(bytes), nullptr;
  UOp* node = ::new (memory) UOp{op,
                                 dtype,
                                 static_cast<uint8_t>(shape.size()),
                                 0,
                                 static_cast<uint32_t>(src.size()),
                                 static_cast<uint32_t>(arg.size()),
                                 0,
                                 next_id_++,
                                 hash,
                                 INT64_MIN,
                                 INT64_MAX,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr};
  char* trailing = reinterpret_cast<char*>(node + 1);
  if (!src.empty()) std::memcpy(trailing, src.data(), src.size_bytes());
  trailing += src.size_bytes();
  if (!arg.empty()) std::memcpy(trailing, arg.data(), arg.size_bytes());
  trailing += arg.size_bytes();
  if (!shape.empty()) std::memcpy(trailing, shape.data(), shape.size_bytes());
  for (Node s : src) ++s->references;
  derive_bounds(*node);

  UOp*& head = table_[hash & (table_size_ - 1)];
  node->bucket_next = head;
  head = node;
  ++node_count_;
  if (collects_) {
    if (op == Op::kForeign) foreign_of(node).retain();
    list_uses(node);
    node->flags |= kListed;
    (void)unreferenced_.push(node);
  }
  return node;
}

void Graph::retain(Node node) {
  if (node != nullptr) ++node->references;
}

void Graph::release(Node node) {
  if (node == nullptr) return;
  if (--node->references == 0 && collects_ && (node->flags & kListed) == 0) {
    node->flags |= kListed;
    (void)unreferenced_.push(const_cast<UOp*>(node));  // room was reserved when the node was made
  }
}

Status Graph::climb(Vec<Node>* out, Nodes from, bool views) {
  Status status;
  const auto enter = [&](Node node) {
    if (!status.ok() || (node->flags & kEntered) != 0) return;
    status = out->push(node);
    if (status.ok()) node->flags |= kEntered;
  };
  for (Node node : from) enter(node);
  for (size_t i = 0; i < out->size(); ++i) {
    const Node node = (*out)[i];
    for (const Use* use = node->views; use != nullptr; use = use->next) enter(use->user);
    for (const Use* use = views ? nullptr : node->uses; use != nullptr; use = use->next) {
      // A body refers to its own Params.
      if (use->user->op != Op::kCall || use->user->src(0) != node) enter(use->user);
    }
  }
  for (Node node : *out) node->flags = static_cast<uint8_t>(node->flags & ~kEntered);
  std::ranges::sort(*out, {}, [](Node node) { return node->id; });
  return status;
}

void Graph::collect() {
  if (holds_ != 0) return;
  while (!unreferenced_.empty()) {
    UOp* node = unreferenced_.back();
    unreferenced_.pop();
    node->flags = static_cast<uint8_t>(node->flags & ~kListed);
    if (node->references != 0) continue;
    UOp** link = &table_[node->hash & (table_size_ - 1)];
    while (*link != node) link = &(*link)->bucket_next;
    *link = node->bucket_next;
    Use* use = uses_behind(node);
    for (size_t i = use_count(node->op, node->nsrc, true); i-- > 0; ++use) {
      *use->link = use->next;
      if (use->next != nullptr) use->next->link = use->link;
    }
    if (node->op == Op::kBuffer) --buffer_count_;
    for (Node s : node->src()) release(s);
    if (buffer_hook_ != nullptr && node->op == Op::kBuffer) buffer_hook_(buffer_hook_self_, node);
    destroy(node);
  }
}

void Graph::set_buffer_hook(void (*hook)(void* self, Node buffer), void* self) {
  buffer_hook_ = hook;
  buffer_hook_self_ = self;
}

Status toposort(Vec<Node>* out, Nodes roots) {
  struct Frame {
    Node node;
    uint32_t next;
  };
  Memory& memory = out->memory();
  Set<Node> seen(memory);
  Vec<Frame> stack(memory);
  const auto enter = [&](Node node) -> Status {
    bool fresh = false;
    ASTER_TRY(seen.add(&fresh, node));
    return fresh ? stack.push(Frame{node, 0}) : kOk;
  };
  for (Node root : roots) {
    if (root == nullptr) return last_failure();
    ASTER_TRY(enter(root));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.node->nsrc) {
        ASTER_TRY(out->push(frame.node));
        stack.pop();
        continue;
      }
      ASTER_TRY(enter(frame.node->src(frame.next++)));
    }
  }
  return kOk;
}

Status Graph::substitute(Node* out, Node root, const Map<Node, Node>& map) {
  // Bodies of calls refer to their own Params, so they are no part of what is walked.
  struct Frame {
    Node node;
    uint32_t next;
  };
  if (root == nullptr) return last_failure();
  Map<Node, Node> done(*memory_);
  Vec<Frame> stack(*memory_);
  Vec<Node> sources(*memory_);
  ASTER_TRY(stack.push(Frame{root, 0}));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    Node node = frame.node;
    if (frame.next == 0) {
      if (done.contains(node)) {
        stack.pop();
        continue;
      }
      if (const Node* replacement = map.find(node)) {
        ASTER_TRY(done.set(node, *replacement));
        stack.pop();
        continue;
      }
      if (node->op == Op::kCall) frame.next = 1;
    }
    if (frame.next < node->nsrc) {
      Node source = node->src(frame.next++);
      if (!done.contains(source)) ASTER_TRY(stack.push(Frame{source, 0}));
      continue;
    }
    sources.clear();
    bool changed = false;
    for (size_t i = 0; i < node->nsrc; ++i) {
      Node source = node->src(i);
      Node replacement = i == 0 && node->op == Op::kCall ? source : done.get(source, source);
      changed |= replacement != source;
      ASTER_TRY(sources.push(replacement));
    }
    Node rebuilt = changed ? with_sources(node, {sources.data(), sources.size()}) : node;
    if (rebuilt == nullptr) return last_failure();
    ASTER_TRY(done.set(node, rebuilt));
    stack.pop();
  }
  *out = done.get(root, root);
  return kOk;
}

// From position used of out's text on; what does not fit becomes an ellipsis.
static void append_shape(Brief& out, size_t used, Words shape) {
  out.text[used++] = '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    char dim[24];
    const int size = std::snprintf(dim, sizeof(dim), i == 0 ? "%lld" : ", %lld",
                                   static_cast<long long>(shape[i]));
    if (used + static_cast<size_t>(size) + sizeof("...]") > sizeof(out.text)) {
      std::memcpy(out.text + used, "...", 3);
      used += 3;
      break;
    }
    std::memcpy(out.text + used, dim, static_cast<size_t>(size));
    used += static_cast<size_t>(size);
  }
  out.text[used] = ']';
}

Brief brief_shape(Words shape) {
  Brief out{};
  append_shape(out, 0, shape);
  return out;
}

Brief brief(Node node) {
  Brief out{};
  const int used = std::snprintf(out.text, sizeof(out.text), "%s", dtype::name(node->dtype));
  append_shape(out, static_cast<size_t>(used), node->shape());
  return out;
}

}  // namespace aster::uop
