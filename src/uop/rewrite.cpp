#include "uop/rewrite.h"

#include <algorithm>
#include <bit>

namespace aster::uop::rule {
namespace {

// Rules may fire so often for every node visited before they count as endless.
constexpr size_t kFiringsPerNode = 32;
constexpr size_t kFiringsAtLeast = 256;

bool equals_number(Node node, double number) {
  if (!is_const(node)) return false;
  const Word word = node->arg(0);
  if (dtype::is_float(node->dtype)) return word == std::bit_cast<Word>(number);
  if (node->dtype == DType::kUInt64) return number >= 0 && word == static_cast<Word>(number);
  return static_cast<double>(word) == number;
}

// One way to match: bit i of swaps turns round the i-th commutative operation on the path.
class Matcher {
 public:
  Matcher(const Pattern& pattern, Match& match, uint32_t swaps)
      : pattern_(pattern), match_(match), swaps_(swaps) {}

  bool run(Node node) { return match_part(static_cast<uint8_t>(pattern_.size - 1), node); }
  uint32_t commutative() const { return commutative_; }

 private:
  bool match_part(uint8_t at, Node node) {
    const Part& part = pattern_.part[at];
    if (part.kind == Part::kNumber) return equals_number(node, part.number);
    if (part.kind != Part::kOperation) {
      if (part.kind == Part::kConstant && !is_const(node)) return false;
      Node& bound = match_.variable[part.variable];
      if (bound != nullptr) return bound == node;
      bound = node;
      return true;
    }
    if (node->op != part.op) return false;
    if (part.arity == kAnySources) return true;
    if (node->nsrc != part.arity) return false;
    bool swap = false;
    if (part.arity == 2 && (info(part.op).traits & COMM) != 0) {
      swap = (swaps_ >> commutative_++ & 1) != 0;
    }
    for (uint8_t i = 0; i < part.arity; ++i) {
      if (!match_part(part.source[i], node->src(swap ? 1u - i : i))) return false;
    }
    return true;
  }
  const Pattern& pattern_;
  Match& match_;
  uint32_t swaps_;
  uint32_t commutative_ = 0;
};

// Whether rule matches in some order of commutative operands.
bool matches(const Rule& rule, Match& match) {
  for (uint32_t swaps = 0, ways = 1; swaps < ways; ++swaps) {
    for (Node& v : match.variable) v = nullptr;
    Matcher matcher(rule.from, match, swaps);
    bool ok = matcher.run(match.root);
    for (uint8_t i = 0; ok && i < rule.guard.size; ++i) {
      ok = rule.guard.test[i](match.variable[rule.guard.variable[i]]);
    }
    if (ok) return true;
    // Only as many orders as operations met; a later one may be met in a later order.
    const uint32_t met = 1u << matcher.commutative();
    if (met > ways) ways = met;
  }
  return false;
}

Node build(const Rule& rule, const Match& match) {
  Node built[kMaxParts] = {};
  const Pattern& to = rule.to;
  for (uint8_t i = 0; i < to.size; ++i) {
    const Part& part = to.part[i];
    if (part.kind == Part::kNumber) continue;  // by its neighbour
    if (part.kind != Part::kOperation) {
      built[i] = match.variable[part.variable];
      continue;
    }
    Node src[3] = {};
    Node neighbour = match.root;
    for (uint8_t s = 0; s < part.arity; ++s) {
      if (Node node = built[part.source[s]]) neighbour = node;
    }
    for (uint8_t s = 0; s < part.arity; ++s) {
      const Part& source = to.part[part.source[s]];
      src[s] = source.kind == Part::kNumber
                   ? match.g.constant(neighbour->dtype, source.number, neighbour->shape())
                   : built[part.source[s]];
      if (src[s] == nullptr) return nullptr;
    }
    built[i] = match.g.alu(part.op, Nodes(src, part.arity));
    if (built[i] == nullptr) return nullptr;
  }
  if (to.root().kind == Part::kNumber) {
    return match.g.constant(match.root->dtype, to.root().number, match.root->shape());
  }
  return built[to.size - 1];
}

// Rules are laws of numbers, which ERR does not follow: x * 0 may be ERR, a sum may fit and a part
// of it not.
bool computes_sticky(Node node) {
  if (is_movement(node->op)) return false;
  if (dtype::is_sticky(node->dtype)) return true;
  return std::ranges::any_of(node->src(), [](Node x) { return dtype::is_sticky(x->dtype); });
}

}  // namespace

Outcome apply_rules(Graph& g, const RuleSet& rules, Node node, uint32_t* fired) {
  if (computes_sticky(node)) return Outcome::keep();
  const size_t op = static_cast<size_t>(node->op);
  uint64_t sources = 0;
  for (Node source : node->src()) sources |= op_bit(source->op);
  for (size_t i = rules.first[op]; i < rules.first[op + 1]; ++i) {
    const Rule& rule = rules.rules[rules.order[i]];
    if ((rule.needs & ~sources) != 0) continue;
    Match match{g, node, {}};
    if (!matches(rule, match)) continue;
    const Outcome out = rule.helper != nullptr ? rule.helper(match) : Outcome(build(rule, match));
    if (!out.applies || out.node == node) continue;
    if (fired != nullptr) ++fired[rules.order[i]];
    return out;
  }
  return Outcome::keep();
}

Status rewrite(Node* out, Graph& g, Node root, const Rewriter& rewriter) {
  if (root == nullptr) return last_failure();
  struct Frame {
    Node original, current;
    uint32_t next;
  };
  Map<Node, Node> done(g.memory());
  Vec<Frame> stack(g.memory());
  Vec<Node> sources(g.memory());
  size_t firings = 0, visits = 0;
  ASTER_TRY(stack.push(Frame{root, root, 0}));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const Node node = frame.current;
    const uint32_t body = node->op == Op::kCall ? 1 : 0;  // source 0 of a call is not ours
    if (frame.next < body) frame.next = body;
    if (frame.next < node->nsrc) {
      const Node source = node->src(frame.next++);
      if (!done.contains(source)) ASTER_TRY(stack.push(Frame{source, source, 0}));
      continue;
    }
    sources.clear();
    bool changed = false;
    for (uint32_t i = 0; i < node->nsrc; ++i) {
      const Node source = node->src(i);
      const Node replacement = i < body ? source : done.get(source, source);
      changed |= replacement != source;
      ASTER_TRY(sources.push(replacement));
    }
    Node built = changed ? g.with_sources(node, {sources.data(), sources.size()}) : node;
    if (built == nullptr) return last_failure();
    Node result = done.get(built, nullptr);
    if (result == nullptr) {
      const Outcome step = rewriter.apply(rewriter.self, built);
      if (step.applies) {
        if (step.node == nullptr) return last_failure();
        if (++firings > kFiringsAtLeast + kFiringsPerNode * visits) {
          return rewriter.endless(rewriter.self, built);
        }
        result = done.get(step.node, nullptr);
        if (result == nullptr) {  // goes on with what came out
          frame.current = step.node;
          frame.next = 0;
          continue;
        }
      } else {
        result = built;
      }
    }
    ++visits;
    ASTER_TRY(done.set(frame.original, result));
    ASTER_TRY(done.set(result, result));
    stack.pop();
  }
  *out = done.get(root, root);
  return kOk;
}

Status rewrite(Node* out, Graph& g, Node root, const RuleSet& rules, uint32_t* fired) {
  struct ByRules {
    Graph& g;
    const RuleSet& rules;
    uint32_t* fired;
  } by{g, rules, fired};
  const auto apply = [](void* self, Node node) {
    const auto& all = *static_cast<ByRules*>(self);
    return apply_rules(all.g, all.rules, node, all.fired);
  };
  const auto endless = [](void*, Node node) -> Status {
    return ASTER_FAIL(kINTERNAL, "rewriting does not end, last at %s", info(node->op).name);
  };
  return rewrite(out, g, root, Rewriter{&by, apply, endless});
}

}  // namespace aster::uop::rule
