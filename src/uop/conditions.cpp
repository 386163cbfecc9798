// Builders of canonical conditions, and the walk that brings whole expressions into canonical form.
#include <algorithm>

#include "uop/symbolic.h"

namespace aster::uop::sym {
namespace {

bool is_bool(Node node) { return node->dtype == DType::kBool && node->ndim == 0; }
bool is_true(Node node) { return is_const(node) && node->arg(0) != 0; }
bool is_false(Node node) { return is_const(node) && node->arg(0) == 0; }
bool negates(Node a, Node b) { return a->op == Op::kNot && a->src(0) == b; }

// What a conjunct says about an index: below limit, at least limit, equal to it; or anything else.
enum class Says : uint8_t { kBelow, kAtLeast, kEqual, kOther };
struct Conjunct {
  Node node;
  Node key;
  int64_t limit;
  Says says;
};

Conjunct read(Node node) {
  const bool flipped = node->op == Op::kNot;
  const Node compare = flipped ? node->src(0) : node;
  const bool index =
      compare->nsrc == 2 && compare->src(0)->dtype == DType::kWeakInt && is_const(compare->src(1));
  if (index && compare->op == Op::kCmpLt) {
    return {node, compare->src(0), compare->src(1)->arg(0),
            flipped ? Says::kAtLeast : Says::kBelow};
  }
  if (index && compare->op == Op::kCmpEq && !flipped) {
    return {node, compare->src(0), compare->src(1)->arg(0), Says::kEqual};
  }
  return {node, node, 0, Says::kOther};
}

enum class Merge : uint8_t { kApart, kFirst, kSecond, kNever };

// Two conjuncts: which of them implies the other, or that they exclude one another.
Merge merge(const Conjunct& a, const Conjunct& b) {
  if (a.node == b.node) return Merge::kFirst;
  if (negates(a.node, b.node) || negates(b.node, a.node)) return Merge::kNever;
  if (a.key != b.key || a.says == Says::kOther || b.says == Says::kOther) return Merge::kApart;
  if (b.says == Says::kEqual && a.says != Says::kEqual) {
    const Merge turned = merge(b, a);
    return turned == Merge::kFirst ? Merge::kSecond : turned;
  }
  if (a.says == Says::kEqual) {
    const bool holds = b.says == Says::kBelow     ? a.limit < b.limit
                       : b.says == Says::kAtLeast ? a.limit >= b.limit
                                                  : a.limit == b.limit;
    return holds ? Merge::kFirst : Merge::kNever;
  }
  if (a.says == b.says) {
    return (a.says == Says::kBelow) == (a.limit <= b.limit) ? Merge::kFirst : Merge::kSecond;
  }
  const int64_t low = a.says == Says::kAtLeast ? a.limit : b.limit;
  const int64_t high = a.says == Says::kBelow ? a.limit : b.limit;
  return low >= high ? Merge::kNever : Merge::kApart;
}

class Conjunction {
 public:
  static constexpr size_t kMax = 32;
  // False if there is no room.
  bool add(Node node) {
    while (node->op == Op::kAnd) {  // chains lean to the left
      if (!add_one(node->src(1))) return false;
      node = node->src(0);
    }
    return add_one(node);
  }
  Node build(Graph& g) const {
    if (never_) return g.constant_word(DType::kBool, 0);
    Node out = nullptr;
    for (size_t i = 0; i < size_; ++i) {
      out = out == nullptr ? parts_[i].node
                           : g.make(Op::kAnd, DType::kBool, std::array{out, parts_[i].node});
      if (out == nullptr) return nullptr;
    }
    return out != nullptr ? out : g.constant_word(DType::kBool, 1);
  }

 private:
  bool add_one(Node node) {
    if (is_true(node)) return true;
    never_ |= is_false(node);
    const Conjunct added = read(node);
    for (size_t i = 0; i < size_;) {
      const Merge result = merge(parts_[i], added);
      never_ |= result == Merge::kNever;
      if (result == Merge::kFirst) return true;
      if (result == Merge::kSecond) {
        std::copy(parts_ + i + 1, parts_ + size_, parts_ + i);
        --size_;
      } else {
        ++i;
      }
    }
    if (size_ == kMax) return false;
    size_t at = size_++;
    for (; at > 0 && compare(node, parts_[at - 1].node) < 0; --at) parts_[at] = parts_[at - 1];
    parts_[at] = added;
    return true;
  }
  size_t size_ = 0;
  bool never_ = false;
  Conjunct parts_[kMax];
};

using Binary = Node (*)(Graph&, Node, Node);
struct Builder {
  Op op;
  Binary build;
};
constexpr Builder kBinary[] = {
    {Op::kAdd, add},
    {Op::kSub, sub},
    {Op::kMul, mul},
    {Op::kFloorDiv, floordiv},
    {Op::kFloorMod, floormod},
    {Op::kMin, min},
    {Op::kMax, max},
    {Op::kCmpLt, lt},
    {Op::kCmpLe, le},
    {Op::kCmpEq, eq},
    {Op::kCmpNe, ne},
    {Op::kAnd, and_},
    {Op::kOr, or_},
};
struct BinaryTable {
  Binary of[static_cast<size_t>(Op::kCount)] = {};
};
constexpr BinaryTable kBinaryOf = [] {
  BinaryTable table;
  for (const Builder& row : kBinary) table.of[static_cast<size_t>(row.op)] = row.build;
  return table;
}();

}  // namespace

Node and_(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  if (!is_bool(a) || !is_bool(b)) return plain(g, Op::kAnd, std::array{a, b});
  if (a == b || is_false(a) || is_true(b)) return a;
  if (is_false(b) || is_true(a)) return b;
  Conjunction all;
  if (!all.add(a) || !all.add(b)) return plain(g, Op::kAnd, std::array{a, b});
  return all.build(g);
}

Node or_(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  if (!is_bool(a) || !is_bool(b)) return plain(g, Op::kOr, std::array{a, b});
  if (a == b || is_true(a) || is_false(b)) return a;
  if (is_true(b) || is_false(a)) return b;
  if (negates(a, b) || negates(b, a)) return g.constant_word(DType::kBool, 1);
  if (compare(b, a) < 0) std::swap(a, b);
  return plain(g, Op::kOr, std::array{a, b});
}

Node not_(Graph& g, Node a) {
  if (a == nullptr || !is_bool(a))
    return a == nullptr ? nullptr : plain(g, Op::kNot, std::array{a});
  if (a->op == Op::kNot) return a->src(0);
  if (a->op == Op::kCmpEq) return g.make(Op::kCmpNe, DType::kBool, a->src());
  if (a->op == Op::kCmpNe) return g.make(Op::kCmpEq, DType::kBool, a->src());
  return plain(g, Op::kNot, std::array{a});
}

Node where(Graph& g, Node condition, Node a, Node b) {
  if (condition == nullptr || a == nullptr || b == nullptr) return nullptr;
  if (is_const(condition)) return is_true(condition) ? a : b;
  if (a == b) return a;
  if (condition->op == Op::kNot) return where(g, condition->src(0), b, a);
  if (a->op == Op::kWhere && a->src(0) == condition) return where(g, condition, a->src(1), b);
  if (b->op == Op::kWhere && b->src(0) == condition) return where(g, condition, a, b->src(2));
  if (is_bool(a) && is_true(a) && is_false(b)) return condition;
  if (is_bool(a) && is_false(a) && is_true(b)) return not_(g, condition);
  return plain(g, Op::kWhere, std::array{condition, a, b});
}

Node apply(Graph& g, Op op, Nodes src) {
  if (Binary build = kBinaryOf.of[static_cast<size_t>(op)]) return build(g, src[0], src[1]);
  if (op == Op::kNeg) return neg(g, src[0]);
  if (op == Op::kNot) return not_(g, src[0]);
  if (op == Op::kWhere) return where(g, src[0], src[1], src[2]);
  return plain(g, op, src);
}

Status Rebuilder::run(Node root, bool every) {
  stack_.clear();
  ASTER_TRY(stack_.push(Frame{root, 0}));
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    const Node node = frame.node;
    if (frame.next == 0 && done_.contains(node)) {
      stack_.pop();
      continue;
    }
    if (frame.next < node->nsrc) {
      const Node source = node->src(frame.next++);
      if (!done_.contains(source)) ASTER_TRY(stack_.push(Frame{source, 0}));
      continue;
    }
    sources_.clear();
    bool changed = false;
    for (Node source : node->src()) {
      const Node replacement = done_.get(source, source);
      changed |= replacement != source;
      ASTER_TRY(sources_.push(replacement));
    }
    const Nodes src{sources_.data(), sources_.size()};
    const bool symbolic =
        is_alu(node->op) && (node->dtype == DType::kWeakInt || node->dtype == DType::kBool);
    Node built = node;
    if (symbolic && (changed || every)) {
      built = apply(g_, node->op, src);
    } else if (changed) {
      built = g_.with_sources(node, src);
    }
    if (built == nullptr) return last_failure();
    ASTER_TRY(done_.set(node, built));
    stack_.pop();
  }
  return kOk;
}

Node Rebuilder::operator()(Node node, bool every) {
  if (node == nullptr) return nullptr;
  if (const Node* done = done_.find(node)) return *done;
  if (!run(node, every).ok()) return nullptr;
  return done_.get(node, nullptr);
}

Node rebuild(Graph& g, Node node, const Map<Node, Node>& map) {
  Rebuilder rebuilder(g);
  for (const auto& [from, to] : map) {
    if (!rebuilder.replace(from, to).ok()) return nullptr;
  }
  return rebuilder(node);
}

Node simplify(Graph& g, Node node) {
  Rebuilder rebuilder(g);
  return rebuilder(node, true);
}

}  // namespace aster::uop::sym
