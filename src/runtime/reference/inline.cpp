#include "runtime/reference/inline.h"

#include <algorithm>

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Nodes;
using uop::Op;

class Inliner {
 public:
  Inliner(uop::Graph& graph, Memory& memory)
      : graph_(graph),
        memory_(memory),
        done_(memory),
        bodies_(memory),
        stack_(memory),
        sources_(memory) {}

  Status rewrite(Node* out, Node root) {
    ASTER_TRY(stack_.push(Frame{root, 0}));
    while (!stack_.empty()) ASTER_TRY(visit());
    *out = done_.get(root, root);
    return kOk;
  }

 private:
  struct Frame {
    Node node;
    size_t next;
  };
  Status visit();
  Status body_of(Node call, Node* out);
  Status rebuild(Node node, Node* out);
  Status finish(Node node, Node value) {
    stack_.pop();
    ASTER_TRY(done_.set(node, value));
    return done_.set(value, value);
  }

  uop::Graph& graph_;
  Memory& memory_;
  Map<Node, Node> done_;
  Map<Node, Node> bodies_;  // of calls, arguments in place
  Vec<Frame> stack_;
  Vec<Node> sources_;
};

Status Inliner::visit() {
  Frame& frame = stack_.back();
  const Node node = frame.node;
  if (frame.next == 0) {
    if (done_.contains(node)) {
      stack_.pop();
      return kOk;
    }
    if (node->op == Op::kCall) frame.next = 1;  // the body has Params of its own
  }
  if (frame.next < node->nsrc) {
    const Node source = node->src(frame.next++);
    return done_.contains(source) ? kOk : stack_.push(Frame{source, 0});
  }
  Node value;
  if (node->op == Op::kCall) {
    const Node* body = bodies_.find(node);
    if (body == nullptr) {
      ASTER_TRY(body_of(node, &value));
      ASTER_TRY(bodies_.set(node, value));
      return done_.contains(value) ? kOk : stack_.push(Frame{value, 0});  // it may call in turn
    }
    value = done_.get(*body, *body);
  } else {
    ASTER_TRY(rebuild(node, &value));
  }
  return finish(node, value);
}

// The body of a call whose arguments are done, its Params replaced by them.
Status Inliner::body_of(Node call, Node* out) {
  const size_t arguments = call->nsrc - 1;
  Map<Node, Node> map(memory_);
  Map<Node, uint8_t> seen(memory_);
  Vec<Node> pending(memory_);
  ASTER_TRY(pending.push(call->src(0)));
  while (!pending.empty()) {
    const Node node = pending.back();
    pending.pop();
    if (seen.contains(node)) continue;
    ASTER_TRY(seen.set(node, 1));
    if (node->op == Op::kParam) {
      const uop::Word slot = node->arg(0);
      const bool given = slot >= 0 && static_cast<size_t>(slot) < arguments;
      const Node argument = given ? call->src(1 + static_cast<size_t>(slot)) : nullptr;
      const bool fits = given && argument->dtype == node->dtype &&
                        std::ranges::equal(argument->shape(), node->shape());
      if (!fits) {
        return ASTER_FAIL(kARGUMENT, "body of a call wants %s as argument %lld of %zu, has %s",
                          uop::brief(node).text, static_cast<long long>(slot), arguments,
                          given ? uop::brief(argument).text : "none");
      }
      ASTER_TRY(map.set(node, done_.get(argument, argument)));
    }
    for (size_t i = node->op == Op::kCall ? 1 : 0; i < node->nsrc; ++i) {
      ASTER_TRY(pending.push(node->src(i)));
    }
  }
  return graph_.substitute(out, call->src(0), map);
}

Status Inliner::rebuild(Node node, Node* out) {
  sources_.clear();
  bool changed = false;
  for (Node source : node->src()) {
    const Node value = done_.get(source, source);
    changed |= value != source;
    ASTER_TRY(sources_.push(value));
  }
  *out = node;
  if (node->op == Op::kItem) {
    const Node whole = sources_[0];
    const size_t index = static_cast<size_t>(node->arg(0));
    if (index >= (whole->op == Op::kTuple ? whole->nsrc : 1)) {
      return ASTER_FAIL(kARGUMENT, "a call has no result %lld",
                        static_cast<long long>(node->arg(0)));
    }
    *out = whole->op == Op::kTuple ? whole->src(index) : whole;
  } else if (changed) {
    *out = graph_.with_sources(node, {sources_.data(), sources_.size()});
    if (*out == nullptr) return last_failure();
  }
  return kOk;
}

}  // namespace

Status inline_calls(Vec<Node>* out, uop::Graph& graph, Nodes roots) {
  Memory& memory = out->memory();
  Vec<Node> order(memory);
  ASTER_TRY(uop::toposort(&order, roots));
  const bool calls = std::any_of(order.begin(), order.end(), [](Node node) {
    return node->op == Op::kCall || node->op == Op::kItem;
  });
  if (!calls) return out->append(roots.data(), roots.size());
  Inliner inliner(graph, memory);
  for (Node root : roots) {
    Node value;
    ASTER_TRY(inliner.rewrite(&value, root));
    ASTER_TRY(out->push(value));
  }
  return kOk;
}

}  // namespace aster::runtime::reference
