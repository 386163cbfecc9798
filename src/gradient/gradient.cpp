#include "gradient/gradient.h"

#include <algorithm>

#include "gradient/rules.h"
#include "uop/composite.h"
#include "uop/expr.h"

namespace aster::gradient {
namespace {

using dtype::DType;
using uop::brief;
using uop::Op;
using uop::Word;

// One backward pass from a root to targets. A pass through a composite's body stops at the
// arguments; the pass of a whole graph goes on through targets, which may depend on each other.
class Pass {
 public:
  Pass(Graph& graph, bool stop_at_targets)
      : graph_(graph),
        stop_(stop_at_targets),
        memory_(graph.memory()),
        order_(memory_),
        path_(memory_),
        target_(memory_),
        gradients_(memory_),
        needed_(memory_),
        flows_(memory_) {}

  Status run(Node root, Node seed, Nodes targets);
  Node gradient_of(Node target) const { return gradients_.get(target, nullptr); }

 private:
  Status mark(Node root);
  Status flow(Node y, Node dy);
  Status flow_through_body(Node call, Node dy);
  Status add(Node x, Node dx);
  bool wants(Node x) const {
    return dtype::is_float(x->dtype) && (target_.contains(x) || path_.get(x, 0) != 0);
  }

  Graph& graph_;
  const bool stop_;
  Memory& memory_;
  Vec<Node> order_;          // sources before users
  Map<Node, uint8_t> path_;  // 1: depends on a target, as floats
  Map<Node, uint8_t> target_;
  Map<Node, Node> gradients_;
  Vec<bool> needed_;
  Vec<Node> flows_;
};

// Walks everything below root once, bodies of calls apart, and notes what depends on a target.
Status Pass::mark(Node root) {
  struct Frame {
    Node node;
    uint32_t next;
  };
  Vec<Frame> stack(memory_);
  ASTER_TRY(stack.push(Frame{root, root->op == Op::kCall}));
  ASTER_TRY(path_.set(root, 0));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const Node node = frame.node;
    const bool leaf = (stop_ && target_.contains(node)) || node->op == Op::kDetach;
    if (!leaf && frame.next < node->nsrc) {
      const Node source = node->src(frame.next++);
      if (path_.contains(source)) continue;
      ASTER_TRY(path_.set(source, 0));
      ASTER_TRY(stack.push(Frame{source, source->op == Op::kCall}));
      continue;
    }
    stack.pop();
    uint8_t depends = 0;
    for (size_t i = node->op == Op::kCall; !leaf && i < node->nsrc; ++i)
      depends |= wants(node->src(i));
    if (depends == 0) continue;
    ASTER_TRY(path_.set(node, 1));
    ASTER_TRY(order_.push(node));
  }
  return kOk;
}

Status Pass::add(Node x, Node dx) {
  const Node before = gradients_.get(x, nullptr);
  const Node total = before == nullptr ? dx : graph_.alu(Op::kAdd, before, dx);
  return total == nullptr ? last_failure() : gradients_.set(x, total);
}

Status Pass::flow_through_body(Node call, Node dy) {
  Node body, anew = call;
  if (uop::composite_of(call) == uop::Composite::kCheckpoint) {
    Vec<Node> sources(memory_);
    for (size_t i = 0; i < call->nsrc; ++i) {
      const bool input = i != 0 && static_cast<Word>(i) <= call->arg(1);
      ASTER_TRY(sources.push(input ? after(graph_, call->src(i), dy) : call->src(i)));
    }
    anew = graph_.with_sources(call, {sources.data(), sources.size()});
    if (anew == nullptr) return last_failure();
  }
  ASTER_TRY(inline_call(&body, graph_, anew));
  Vec<uint32_t> places(memory_);
  Vec<Node> arguments(memory_);
  for (uint32_t i = 1; i < call->nsrc; ++i) {
    const bool seen = std::ranges::find(arguments, anew->src(i)) != arguments.end();
    if (!needed_[i] || seen) continue;
    ASTER_TRY(places.push(i));
    ASTER_TRY(arguments.push(anew->src(i)));
  }
  Pass inner(graph_, true);
  ASTER_TRY(inner.run(body, dy, {arguments.data(), arguments.size()}));
  for (size_t i = 0; i < places.size(); ++i) {
    if (const Node dx = inner.gradient_of(arguments[i])) ASTER_TRY(add(call->src(places[i]), dx));
  }
  return kOk;
}

Status Pass::flow(Node y, Node dy) {
  needed_.clear();
  flows_.clear();
  for (size_t i = 0; i < y->nsrc; ++i) {
    ASTER_TRY(needed_.push(!(i == 0 && y->op == Op::kCall) && wants(y->src(i))));
    ASTER_TRY(flows_.push(nullptr));
  }
  const Lookup found = rule_of(y);
  if (!found.known) return ASTER_FAIL(kUNSUPPORTED, "no gradient of %s", uop::info(y->op).name);
  if (found.rule == nullptr) return y->op == Op::kCall ? flow_through_body(y, dy) : kOk;
  Flow flow{graph_, y, dy, {needed_.data(), needed_.size()}, {flows_.data(), flows_.size()}};
  found.rule(flow);
  if (flow.failed) return last_failure();
  for (size_t i = 0; i < y->nsrc; ++i) {
    if (needed_[i] && flows_[i] != nullptr) ASTER_TRY(add(y->src(i), flows_[i]));
  }
  return kOk;
}

Status Pass::run(Node root, Node seed, Nodes targets) {
  for (Node target : targets) ASTER_TRY(target_.set(target, 1));
  ASTER_TRY(mark(root));
  ASTER_TRY(gradients_.set(root, seed));
  for (size_t i = order_.size(); i-- > 0;) {
    const Node y = order_[i];
    if (const Node dy = gradient_of(y)) ASTER_TRY(flow(y, dy));
  }
  return kOk;
}

// The bits of a number as an integer; null where there is none of so many.
Node bits_of(Graph& graph, Node x) {
  const DType d = x->dtype;
  if (dtype::is_int(d) && !dtype::is_weak(d)) return x;
  if (!dtype::is_float(d)) return nullptr;
  for (const DType word : {DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
    if (dtype::bits(word) == dtype::bits(d)) return graph.bitcast(x, word);
  }
  return nullptr;
}

}  // namespace

// Where t is 0 or 1, t & (t - 1) is 0; nothing here knows that. A choice, because gradients flow
// through it.
Node after(Graph& graph, Node x, Node late) {
  if (x == nullptr || late == nullptr) return nullptr;
  const Node bits = late->count() == 0 ? nullptr : bits_of(graph, late);
  if (bits == nullptr) return x;
  const uop::Dims begin(late->ndim, 0), one(late->ndim, 1);
  const uop::Expr first{&graph, graph.reshape(graph.slice(bits, begin, one, one), {})};
  const uop::Expr t = first & first.like(1);
  return where((t & (t - t.like(1))) == 0.0, uop::Expr{&graph, x}, 0.0).n;
}

Status gradient(Graph& graph, Node y, Node seed, Nodes targets, std::span<Node> out,
                Unreached unreached) {
  if (y == nullptr) return last_failure();
  if (!dtype::is_float(y->dtype))
    return ASTER_FAIL(kDTYPE, "gradient of %s: not float", brief(y).text);
  for (Node target : targets) {
    if (target == nullptr) return last_failure();
    if (!dtype::is_float(target->dtype)) {
      return ASTER_FAIL(kDTYPE, "gradient with respect to %s: not float", brief(target).text);
    }
  }
  if (seed == nullptr) seed = graph.constant(y->dtype, 1, y->shape());
  if (seed == nullptr) return last_failure();
  if (seed->dtype != y->dtype || !std::ranges::equal(seed->shape(), y->shape())) {
    return ASTER_FAIL(kSHAPE, "gradient of %s from a seed %s", brief(y).text, brief(seed).text);
  }
  Pass pass(graph, false);
  ASTER_TRY(pass.run(y, seed, targets));
  for (size_t i = 0; i < targets.size(); ++i) {
    out[i] = pass.gradient_of(targets[i]);
    if (out[i] != nullptr || unreached == Unreached::kNull) continue;
    if (unreached == Unreached::kError) {
      return ASTER_FAIL(kARGUMENT, "%s does not depend on target %zu, %s", brief(y).text, i,
                        brief(targets[i]).text);
    }
    out[i] = graph.constant(targets[i]->dtype, 0, targets[i]->shape());
    if (out[i] == nullptr) return last_failure();
  }
  return kOk;
}

}  // namespace aster::gradient
