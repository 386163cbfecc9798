// Rewriting by tables of rules that read as algebra:
//
//   constexpr Rule kRules[] = {
//       {x * 1.0, x},
//       {(x + c0) + c1, x + (c0 + c1), is_integral(x)},
//       {Reduce(x), reduce_of_constant},
//   };
//   constexpr auto kSet = rule_set(kRules);
//   ASTER_TRY(rewrite(&out, graph, root, kSet));
//
// Variables x y z match any node, c0 c1 constants; one that occurs twice is the same node. A number
// matches a constant of any dtype by its value (for floats by its bits: -0.0 is not 0.0) and
// becomes one of its neighbour's dtype and shape; next to nothing, of the root's. First match wins,
// in table order; operands of commutative operations are tried in both orders. A rule whose right
// side is not bound by its left, or an operation of the wrong arity, does not compile. A right side
// that needs code is a helper; a left side that is one variable is tried on every node. Rules must
// preserve dtype and shape.
#pragma once

#include <array>

#include "uop/uop.h"

namespace aster::uop::rule {

constexpr uint8_t kMaxParts = 8;
constexpr uint8_t kMaxVariables = 8;
constexpr uint8_t kAnySources = 255;

struct Part {
  enum Kind : uint8_t { kVariable, kConstant, kNumber, kOperation };
  Kind kind = kVariable;
  uint8_t variable = 0;
  Op op = Op::kConst;
  uint8_t arity = 0;
  uint8_t source[3] = {};
  double number = 0;
};

// What stands in for an error while a table is compiled: calling it is no constant expression.
inline void does_not_compile() {}

// Parts in post-order, the root last.
struct Pattern {
  uint8_t size = 0;
  Part part[kMaxParts] = {};

  constexpr Pattern() = default;
  constexpr Pattern(double number) : size(1) {  // NOLINT: numbers are patterns
    part[0].kind = Part::kNumber;
    part[0].number = number;
  }
  constexpr const Part& root() const { return part[size - 1]; }
};

constexpr Pattern variable(Part::Kind kind, uint8_t index) {
  Pattern out;
  out.size = 1;
  out.part[0].kind = kind;
  out.part[0].variable = index;
  return out;
}
inline constexpr Pattern x = variable(Part::kVariable, 0), y = variable(Part::kVariable, 1),
                         z = variable(Part::kVariable, 2), c0 = variable(Part::kConstant, 3),
                         c1 = variable(Part::kConstant, 4);

template <typename... P>
constexpr Pattern operation(Op op, uint8_t arity, const P&... operands) {
  Pattern out;
  Part root;
  root.kind = Part::kOperation;
  root.op = op;
  root.arity = arity;
  uint8_t at = 0;
  [[maybe_unused]] const auto append = [&](const Pattern& p) {
    if (out.size + p.size >= kMaxParts) does_not_compile();
    const uint8_t base = out.size;
    for (uint8_t i = 0; i < p.size; ++i) {
      Part moved = p.part[i];
      for (uint8_t& s : moved.source) s = static_cast<uint8_t>(s + base);
      out.part[out.size++] = moved;
    }
    root.source[at++] = static_cast<uint8_t>(out.size - 1);
  };
  (append(operands), ...);
  out.part[out.size++] = root;
  return out;
}

// A maker for every operation: Max(x, y), Where(x, y, z), Reshape(x), Cat().
template <Op kOp, int kSources>
struct Maker {
  template <typename... P>
  constexpr Pattern operator()(const P&... operands) const {
    static_assert(static_cast<int>(sizeof...(P)) == (kSources < 0 ? 0 : kSources),
                  "wrong number of operands");
    return operation(kOp, kSources < 0 ? kAnySources : static_cast<uint8_t>(kSources),
                     Pattern(operands)...);
  }
};
#define OP(name, sources, level, meaning) inline constexpr Maker<Op::k##name, sources> name{};
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) \
  inline constexpr Maker<Op::k##name, arity> name{};
#include "uop/ops.def"

constexpr Pattern operator+(const Pattern& a, const Pattern& b) { return Add(a, b); }
constexpr Pattern operator-(const Pattern& a, const Pattern& b) { return Sub(a, b); }
constexpr Pattern operator*(const Pattern& a, const Pattern& b) { return Mul(a, b); }
constexpr Pattern operator/(const Pattern& a, const Pattern& b) { return Div(a, b); }
constexpr Pattern operator&(const Pattern& a, const Pattern& b) { return And(a, b); }
constexpr Pattern operator|(const Pattern& a, const Pattern& b) { return Or(a, b); }
constexpr Pattern operator^(const Pattern& a, const Pattern& b) { return Xor(a, b); }
constexpr Pattern operator-(const Pattern& a) { return Neg(a); }
constexpr Pattern operator!(const Pattern& a) { return Not(a); }

// A conjunction of tests on variables.
struct Guard {
  using Test = bool (*)(Node);
  uint8_t size = 0;
  uint8_t variable[3] = {};
  Test test[3] = {};
};
constexpr Guard guard(Guard::Test test, const Pattern& p) {
  if (p.size != 1 || p.root().kind == Part::kNumber) does_not_compile();
  Guard out;
  out.size = 1;
  out.variable[0] = p.root().variable;
  out.test[0] = test;
  return out;
}
constexpr Guard operator&&(Guard a, const Guard& b) {
  if (a.size + b.size > 3) does_not_compile();
  for (uint8_t i = 0; i < b.size; ++i) {
    a.variable[a.size] = b.variable[i];
    a.test[a.size++] = b.test[i];
  }
  return a;
}
constexpr Guard is_integral(const Pattern& p) {  // bool among them
  return guard([](Node node) { return !dtype::is_float(node->dtype); }, p);
}
constexpr Guard is_bool(const Pattern& p) {
  return guard([](Node node) { return node->dtype == DType::kBool; }, p);
}

struct Match {
  Graph& g;
  Node root;
  Node variable[kMaxVariables];
  Node operator[](const Pattern& p) const { return variable[p.root().variable]; }
};

// What a helper gives: a node (nil: it failed), or that the rule does not apply after all.
struct Outcome {
  Outcome(Node n) : applies(true), node(n) {}  // NOLINT
  static Outcome keep() {
    Outcome out(nullptr);
    out.applies = false;
    return out;
  }
  bool applies;
  Node node;
};
using Helper = Outcome (*)(const Match& match);

constexpr uint32_t variables(const Pattern& p) {
  uint32_t set = 0;
  for (uint8_t i = 0; i < p.size; ++i) {
    const Part& part = p.part[i];
    if (part.kind == Part::kVariable || part.kind == Part::kConstant) set |= 1u << part.variable;
  }
  return set;
}

// A filter: the operations that sources of a node have, as bits (two operations may share one).
constexpr uint64_t op_bit(Op op) { return uint64_t{1} << (static_cast<unsigned>(op) % 64); }

struct Rule {
  Pattern from;
  Pattern to;  // empty: helper
  Helper helper = nullptr;
  Guard guard;
  uint64_t needs = 0;  // bits of what the sources of a match must have
  int line = 0;

  consteval Rule(const Pattern& pattern, const Pattern& replacement, const Guard& when = {},
                 int at = __builtin_LINE())
      : from(pattern), to(replacement), guard(when), line(at) {
    if ((variables(to) & ~variables(from)) != 0) does_not_compile();
    check();
  }
  consteval Rule(const Pattern& pattern, Helper code, const Guard& when = {},
                 int at = __builtin_LINE())
      : from(pattern), helper(code), guard(when), line(at) {
    check();
  }

 private:
  consteval void check() {
    if (from.root().kind == Part::kNumber) does_not_compile();
    for (uint8_t i = 0; from.root().arity != kAnySources && i < from.root().arity; ++i) {
      const Part& source = from.part[from.root().source[i]];
      if (source.kind == Part::kOperation) needs |= op_bit(source.op);
      if (source.kind == Part::kNumber || source.kind == Part::kConstant)
        needs |= op_bit(Op::kConst);
    }
    for (uint8_t i = 0; i < guard.size; ++i) {
      if ((variables(from) >> guard.variable[i] & 1) == 0) does_not_compile();
    }
  }
};

// A table of rules, indexed by the operation at the root.
struct RuleSet {
  const Rule* rules;
  size_t size;
  const uint16_t* first;  // of every op, into order; one more at the end
  const uint8_t* order;
};
template <size_t N>
struct RuleIndex {
  static constexpr size_t kOps = static_cast<size_t>(Op::kCount);
  static constexpr size_t kMaxEntries = N + 2 * kOps;  // up to two rules may be tried on every node
  uint16_t first[kOps + 1] = {};
  uint8_t order[kMaxEntries] = {};
};
template <size_t N>
consteval RuleIndex<N> rule_index(const Rule (&rules)[N]) {
  static_assert(N < 256);
  RuleIndex<N> out;
  uint16_t at = 0;
  for (size_t op = 0; op < RuleIndex<N>::kOps; ++op) {
    out.first[op] = at;
    for (size_t i = 0; i < N; ++i) {
      const Part& root = rules[i].from.root();
      const bool fits = root.kind == Part::kVariable ||
                        (root.kind == Part::kConstant ? op == 0 : root.op == static_cast<Op>(op));
      if (fits) out.order[at++] = static_cast<uint8_t>(i);
    }
  }
  out.first[RuleIndex<N>::kOps] = at;
  return out;
}
template <size_t N>
constexpr RuleSet rule_set(const Rule (&rules)[N], const RuleIndex<N>& index) {
  return {rules, N, index.first, index.order};
}

// What node becomes by the first rule that matches: applies is false if none does. fired, if given,
// counts per rule.
Outcome apply_rules(Graph& g, const RuleSet& rules, Node node, uint32_t* fired = nullptr);

// What stands for a node, asked for each once; and the error where that does not come to an end,
// last at a node.
struct Rewriter {
  void* self;
  Outcome (*apply)(void* self, Node node);
  Status (*endless)(void* self, Node node);
};
// Rewrites root and what it is made of until nothing applies; bodies of calls are left alone.
// Iterative, each node once.
Status rewrite(Node* out, Graph& g, Node root, const Rewriter& rewriter);

// The same by rules. Errors: INTERNAL if they do not come to an end.
Status rewrite(Node* out, Graph& g, Node root, const RuleSet& rules, uint32_t* fired = nullptr);

}  // namespace aster::uop::rule
