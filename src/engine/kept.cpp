// Outputs realised one by one: what a realised expression shares with pending ones, where computing
// it again is dear, stays in memory for them. The expressions stay as they are; realize reads the
// value in the place of one that has it.
#include "engine/kept.h"

#include <algorithm>

#include "engine/engine.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;

// Operations of one node from which on a value is worth being kept: in all, and for each element.
constexpr double kFewestOperations = 65536, kFewestEach = 32;
// Bytes that are kept at most, all together.
constexpr int64_t kMostBytes = int64_t{1} << 30;

int64_t bytes_of(Node node) {
  return node->count() * static_cast<int64_t>(dtype::size(node->dtype));
}

// Moves elements of one node and computes nothing.
bool moves(Node node) {
  return node->nsrc == 1 && (uop::is_movement(node->op) || node->op == Op::kDetach);
}

// Operations of a node alone.
double own_work(Node node) {
  if (node->nsrc == 0 || node->op == Op::kCall || moves(node)) return 0;
  const Node counted = node->op == Op::kReduce ? node->src(0) : node;
  return static_cast<double>(counted->count()) * std::max(1.0, uop::cost(node));
}

// Memory that nobody writes behind the engine's back.
bool is_own(Node buffer) {
  const Storage& storage = *storage_at(buffer);
  return !storage.internal && !buffer::storage_is_lent(storage);
}

class Choice {
 public:
  Choice(Engine& engine, Nodes nodes, Nodes roots)
      : e_(engine), nodes_(nodes), roots_(roots), state_(engine.context.heap()) {}

  Status run(Vec<Node>* out) {
    bool any = false;
    for (Node node : nodes_) {
      if (node->op == Op::kAssign || node->op == Op::kAfter) return kOk;
      any |= own_work(node) >= kFewestOperations;
    }
    if (!any) return kOk;
    for (Node node : nodes_) ASTER_TRY(state_.set(node, State{}));
    int64_t bytes = e_.kept_bytes;
    bool trusted = false;
    for (Node node : nodes_) {
      State now;
      now.work = own_work(node);
      now.body = node->op == Op::kParam;
      for (size_t i = 0; i < node->nsrc; ++i) {
        const State source = state_.get(node->src(i), State{});
        now.work = std::max(now.work, source.work);
        now.body |= source.body && (node->op != Op::kCall || i > 0);
      }
      if (is_worth(node, now) && bytes + bytes_of(node) <= kMostBytes && is_read_elsewhere(node)) {
        if (!trusted && !trust_memory()) return kOk;
        trusted = true;
        bytes += bytes_of(node);
        now.work = 0;
        ASTER_TRY(out->push(node));
      }
      ASTER_TRY(state_.set(node, now));
    }
    return kOk;
  }

 private:
  struct State {
    double work = 0;    // of the dearest node below, up to what is kept
    bool body = false;  // of a call's body
  };

  bool is_worth(Node node, const State& state) const {
    if (state.body || moves(node) || node->dtype == DType::kNone) return false;
    if (state.work < kFewestOperations) return false;
    if (state.work < kFewestEach * static_cast<double>(node->count())) return false;
    return std::find(roots_.begin(), roots_.end(), node) == roots_.end();
  }

  // Whether what is not computed now reads the node, or a view of it. That a handle names it says
  // little: callers keep those of all that they build.
  bool is_read_elsewhere(Node node) const {
    for (const uop::Use* use : {node->views, node->uses}) {
      for (; use != nullptr; use = use->next) {
        if (!state_.contains(use->user)) return true;
        if (moves(use->user) && is_read_elsewhere(use->user) &&
            std::find(roots_.begin(), roots_.end(), use->user) == roots_.end())
          return true;
      }
    }
    return false;
  }

  bool trust_memory() const {
    for (Node node : nodes_) {
      if (node->op == Op::kBuffer && !is_own(node)) return false;
    }
    return true;
  }

  Engine& e_;
  Nodes nodes_, roots_;
  Map<Node, State> state_;
};

}  // namespace

Status choose_kept(Vec<Node>* out, Engine& engine, Nodes nodes, Nodes roots) {
  return Choice(engine, nodes, roots).run(out);
}

Status is_worth_keeping(bool* out, Heap& heap, Node root) {
  Vec<Node> nodes(heap);
  ASTER_TRY(uop::toposort(&nodes, std::array{root}));
  *out = std::ranges::any_of(nodes, [](Node node) { return own_work(node) >= kFewestOperations; });
  return kOk;
}

Status keep(Engine& engine, Node expression, Node value) {
  ASTER_TRY(engine.kept_values.push(Kept{expression, value}));
  engine.graph.retain(expression);
  engine.graph.retain(value);
  engine.kept_bytes += bytes_of(value);
  engine.kept_since = engine.replayed.stamp();
  return kOk;
}

static void drop(Engine& engine, const Kept& kept) {
  engine.graph.release(kept.expression);
  engine.graph.release(kept.value);
  engine.kept_bytes -= bytes_of(kept.value);
}

void forget_kept(Engine& engine) {
  for (const Kept& kept : engine.kept_values) drop(engine, kept);
  engine.kept_values.clear();
}

void forget_outdated(Engine& engine) {
  if (engine.kept_since != engine.replayed.stamp()) forget_kept(engine);
}

Status forget_written(Engine& engine, Nodes written) {
  if (engine.kept_values.empty()) return kOk;
  Vec<Node> roots(engine.context.heap()), nodes(engine.context.heap());
  for (const Kept& kept : engine.kept_values) {
    // A root that comes to the same as what is kept lies in its storage.
    ASTER_TRY(roots.push(kept.value));
    ASTER_TRY(roots.push(kept.expression));
  }
  ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
  for (Node node : nodes) {
    if (node->op != Op::kBuffer) continue;
    for (Node target : written) {
      if (region_of(buffer_below(target)).overlaps(region_of(node)))
        return forget_kept(engine), kOk;
    }
  }
  return kOk;
}

void forget_unread(Engine& engine) {
  size_t left = engine.kept_values.size();
  // From users to sources: what one reads may be read by it alone.
  for (size_t i = left; i-- > 0;) {
    Kept& kept = engine.kept_values[i];
    if (kept.expression->references > 1) continue;
    drop(engine, kept);
    kept.expression = nullptr;
    engine.graph.collect();
  }
  left = 0;
  for (const Kept& kept : engine.kept_values) {
    if (kept.expression != nullptr) engine.kept_values[left++] = kept;
  }
  engine.kept_values.truncate(left);
}

}  // namespace aster::engine
