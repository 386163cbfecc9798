// Symbolic integers: index arithmetic (kWeakInt) and conditions (bool) kept in a canonical form
// while they are built.
//
// A sum is constant + coefficient * term + .., terms in a fixed order that does not depend on the
// graph, the constant last; comparisons have their constant on the right. Given operands in this
// form the builders return it, so equal index expressions become the same node and nothing has to
// be rewritten afterwards. Integers are taken modulo 2^64; what holds only without wrapping is
// applied only where bounds prove it. Operands of another dtype are passed through as they are. Nil
// operands give nil; the only other failure is MEMORY.
#pragma once

#include <span>

#include "uop/interval.h"
#include "uop/uop.h"

namespace aster::uop::sym {

Node add(Graph& g, Node a, Node b);
Node sub(Graph& g, Node a, Node b);
Node mul(Graph& g, Node a, Node b);
Node neg(Graph& g, Node a);
Node floordiv(Graph& g, Node a, Node b);
Node floormod(Graph& g, Node a, Node b);
Node min(Graph& g, Node a, Node b);
Node max(Graph& g, Node a, Node b);
inline Node add(Graph& g, Node a, int64_t b) { return add(g, a, g.index(b)); }
inline Node mul(Graph& g, Node a, int64_t b) { return mul(g, a, g.index(b)); }
inline Node floordiv(Graph& g, Node a, int64_t b) { return floordiv(g, a, g.index(b)); }
inline Node floormod(Graph& g, Node a, int64_t b) { return floormod(g, a, g.index(b)); }

// a >= b is Not(a < b); conjunctions are chains of And with bounds on the same sum merged.
Node lt(Graph& g, Node a, Node b);
Node le(Graph& g, Node a, Node b);
Node eq(Graph& g, Node a, Node b);
Node ne(Graph& g, Node a, Node b);
Node and_(Graph& g, Node a, Node b);
Node or_(Graph& g, Node a, Node b);
Node not_(Graph& g, Node a);
Node where(Graph& g, Node condition, Node a, Node b);
inline Node lt(Graph& g, Node a, int64_t b) { return lt(g, a, g.index(b)); }
inline Node eq(Graph& g, Node a, int64_t b) { return eq(g, a, g.index(b)); }

// op without a rule of its own: folded by constants, then by bounds.
Node plain(Graph& g, Op op, Nodes src);

// op on operands in canonical form, through the builder above if there is one.
Node apply(Graph& g, Op op, Nodes src);

// An integer or truth of any dtype as an index or condition: arithmetic that provably stays inside
// its dtype becomes index arithmetic, what does not is cast.
Node to_index(Graph& g, Node value);

// Brings a whole expression into canonical form.
Node simplify(Graph& g, Node node);

// Replaces nodes (ranges, say) by others in expressions and brings what changes into canonical form
// again. Anything that is not index arithmetic (loads, float operations) is carried through.
// Remembers results between calls.
class Rebuilder {
 public:
  explicit Rebuilder(Graph& g)
      : g_(g), done_(g.memory()), stack_(g.memory()), sources_(g.memory()) {}
  Status replace(Node from, Node to) { return done_.set(from, to); }  // before the first call
  // every: also nodes whose sources stay the same are built again.
  Node operator()(Node node, bool every = false);

 private:
  struct Frame {
    Node node;
    uint32_t next;
  };
  Status run(Node root, bool every);
  Graph& g_;
  Map<Node, Node> done_;
  Vec<Frame> stack_;
  Vec<Node> sources_;
};
Node rebuild(Graph& g, Node node, const Map<Node, Node>& map);

struct Term {
  Node node;
  int64_t coefficient;
};

// constant + sum of coefficient * node. Lives on the stack; what would need more terms stays one
// opaque term.
class Linear {
 public:
  static constexpr size_t kMax = 48;
  Linear() = default;
  Linear(const Linear& other) { *this = other; }
  Linear& operator=(const Linear& other);

  int64_t constant = 0;
  std::span<const Term> terms() const { return {terms_, size_}; }
  size_t size() const { return size_; }
  const Term& operator[](size_t i) const { return terms_[i]; }
  // Adds coefficient * x, x any node; wraps. False, and unchanged, if there is no room.
  bool add(Node x, int64_t coefficient);
  bool add(const Linear& x, int64_t coefficient);
  // Adds a term that comes after all others. False if there is no room.
  bool append(const Term& term);
  void remove(size_t i);
  // The values it takes; kUnknown if that may wrap.
  Interval bounds() const;
  Node build(Graph& g) const;

 private:
  friend Linear linear_of(Node node);
  bool add_term(Node term, int64_t coefficient);
  size_t size_ = 0;
  Term terms_[kMax];
};
Linear linear_of(Node node);

// A total order of nodes by structure (ranges by id, constants by value, ..): the same in every
// graph.
int compare(Node a, Node b);

// Whether node is a multiple of divisor for every value of its terms (divisor > 0).
bool divides(int64_t divisor, Node node);
// Whether range occurs in node; true if that is too much work to say.
bool depends_on(Node node, Node range);
// node = stride * range + rest, rest free of range. Nil rest: a failure, or no such form (*found
// false).
Node split_stride(Graph& g, Node node, Node range, int64_t* stride, bool* found);

}  // namespace aster::uop::sym
