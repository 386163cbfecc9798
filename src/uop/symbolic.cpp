// Builders of canonical index arithmetic.
#include "uop/symbolic.h"

#include <algorithm>
#include <numeric>

#include "uop/ops.h"

namespace aster::uop::sym {
namespace {

Interval bounds(Node node) { return {node->vmin, node->vmax}; }
bool index_const(Node node) { return is_const(node) && node->dtype == DType::kWeakInt; }

// Coefficients as absolute values; INT64_MIN has none and gives 1, which splits nothing.
int64_t gcd(int64_t a, int64_t b) { return a == INT64_MIN || b == INT64_MIN ? 1 : std::gcd(a, b); }

}  // namespace

Node plain(Graph& g, Op op, Nodes src) {
  Node out = g.alu(op, src);
  if (out == nullptr || is_const(out) || dtype::is_float(out->dtype)) return out;
  const bool scalar = out->dtype == DType::kWeakInt || out->dtype == DType::kBool;
  return scalar && out->vmin == out->vmax ? g.constant_word(out->dtype, out->vmin, out->shape())
                                          : out;
}

namespace {

bool is_index(Node a, Node b) {
  return a->dtype == DType::kWeakInt && b->dtype == DType::kWeakInt && a->ndim == 0 && b->ndim == 0;
}

Node boolean(Graph& g, bool value) { return g.constant_word(DType::kBool, value ? 1 : 0); }

// The part of x whose coefficients g divides, divided by it, and the rest with the constant's
// remainder.
void split(const Linear& x, int64_t g, Linear* multiple, Linear* rest) {
  multiple->constant = floor_div(x.constant, g);
  rest->constant = floor_mod(x.constant, g);
  for (const Term& term : x.terms()) {
    if (term.coefficient % g == 0) {
      (void)multiple->append({term.node, term.coefficient / g});
    } else {
      (void)rest->append(term);
    }
  }
}

// A g > 1 with x = g * multiple + rest, rest in [0, g): taken from a coefficient, dividing `within`
// if that is not 0.
bool find_split(const Linear& x, int64_t within, Linear* multiple, Linear* rest, int64_t* divisor) {
  for (const Term& term : x.terms()) {
    const int64_t g = gcd(term.coefficient, within);
    if (g <= 1) continue;
    *multiple = Linear();
    *rest = Linear();
    split(x, g, multiple, rest);
    const Interval range = rest->bounds();
    if (!known(range) || floor_div(range.lo, g) != floor_div(range.hi, g)) continue;
    const int64_t whole = floor_div(range.lo, g);
    int64_t moved = 0;
    if (!checked_add(multiple->constant, whole, &multiple->constant) ||
        !checked_mul(whole, g, &moved) || !checked_sub(rest->constant, moved, &rest->constant) ||
        !known(multiple->bounds()) || !known(rest->bounds())) {
      continue;
    }
    *divisor = g;
    return true;
  }
  return false;
}

bool recombine(Graph& g, Linear& x, bool* failed);

// Adds k * x in integers, not modulo 2^64; false, and into is unusable, if that is not certain.
bool add_exactly(Linear* into, Node x, int64_t k) {
  if (!known(bounds(x)) || !known(sum(into->bounds(), scaled(bounds(x), k)))) return false;
  return into->add(x, k) && known(into->bounds());
}

// Division by a constant c > 1 of a sum that does not wrap: what is left to divide, and what is
// known already. Throughout, x / c = out + rest / divisor and x mod c = out + scale * (rest mod
// divisor).
struct Division {
  Graph& g;
  bool modulo;
  Linear rest;
  int64_t divisor;
  Linear out{};
  int64_t scale = 1;
  bool fits = true;  // into the capacity of Linear

  Node run();  // nil: a failure, or fits is false

 private:
  void take_multiples();
  bool settle();
  bool narrow();
  bool unnest();
  bool join(bool* failed);
  Node remaining();
};

// Multiples of the divisor in coefficients and the constant.
void Division::take_multiples() {
  Linear left;
  for (const auto& [node, k] : rest.terms()) {
    if (k % divisor != 0) (void)left.append({node, k % divisor});
    if (!modulo) fits &= out.add(node, k / divisor);
  }
  if (!modulo) out.constant = ops::add(out.constant, floor_div(rest.constant, divisor));
  left.constant = floor_mod(rest.constant, divisor);
  rest = left;
}

// Whether bounds leave one quotient only: then nothing remains.
bool Division::settle() {
  const Interval values = rest.bounds();
  if (!known(values)) return false;
  const int64_t quotient = floor_div(values.lo, divisor);
  if (quotient != floor_div(values.hi, divisor)) return false;
  if (modulo) {
    fits &= out.add(rest, scale);
    out.constant = ops::sub(out.constant, ops::mul(scale, ops::mul(quotient, divisor)));
  } else {
    out.constant = ops::add(out.constant, quotient);
  }
  return true;
}

// (g * x + s) / (g * c) = x / c and (g * x + s) mod (g * c) = g * (x mod c) + s, for s in [0, g).
bool Division::narrow() {
  Linear multiple, low;
  int64_t by = 0;
  if (!find_split(rest, divisor, &multiple, &low, &by)) return false;
  if (modulo) {
    fits &= out.add(low, scale);
    scale = ops::mul(scale, by);
  }
  rest = multiple;
  divisor /= by;
  return true;
}

// ((x / d) + k) / c = (x + k * d) / (c * d), and k * (x mod m) mod c = k * x mod c where c divides
// k * m.
bool Division::unnest() {
  for (size_t i = 0; i < rest.size(); ++i) {
    const auto [node, k] = rest[i];
    if (node->nsrc != 2 || !index_const(node->src(1)) || !known(bounds(node->src(0)))) continue;
    const int64_t d = node->src(1)->arg(0);
    int64_t product = 0;
    if (d <= 0) continue;
    Linear next = rest;
    next.remove(i);
    if (modulo && node->op == Op::kFloorMod) {
      if (!checked_mul(k, d, &product) || product % divisor != 0) continue;
      if (!add_exactly(&next, node->src(0), k)) continue;
    } else if (!modulo && node->op == Op::kFloorDiv && rest.size() == 1 && k == 1) {
      if (!checked_mul(d, divisor, &product)) continue;
      if (!checked_mul(next.constant, d, &next.constant)) continue;
      if (!add_exactly(&next, node->src(0), 1)) continue;
      divisor = product;
    } else {
      continue;
    }
    rest = next;
    return true;
  }
  return false;
}

// What taking multiples or dividing has brought together.
bool Division::join(bool* failed) {
  Linear joined = rest;
  if (!recombine(g, joined, failed) || !known(joined.bounds())) return false;
  rest = joined;
  return true;
}

Node Division::remaining() {
  if (!modulo && rest.size() == 1 && rest.constant == 0 && rest[0].coefficient == 1) {
    // (x mod m) / c = (x / c) mod (m / c) where c divides m
    const Node node = rest[0].node;
    if (node->op == Op::kFloorMod && index_const(node->src(1)) && known(bounds(node->src(0)))) {
      const int64_t m = node->src(1)->arg(0);
      if (m > 0 && m % divisor == 0) {
        return floormod(g, floordiv(g, node->src(0), divisor), m / divisor);
      }
    }
  }
  const Op op = modulo ? Op::kFloorMod : Op::kFloorDiv;
  return g.make(op, DType::kWeakInt, std::array{rest.build(g), g.index(divisor)});
}

Node Division::run() {
  bool failed = false;
  do {
    take_multiples();
    if (settle()) return fits ? out.build(g) : nullptr;
  } while (join(&failed) || narrow() || unnest());
  if (!fits || failed) return nullptr;
  Node node = remaining();
  if (node == nullptr) return nullptr;
  return add(g, out.build(g), mul(g, node, scale));
}

Node divide(Graph& g, Node a, Node b, bool modulo) {
  if (a == nullptr || b == nullptr) return nullptr;
  const Op op = modulo ? Op::kFloorMod : Op::kFloorDiv;
  if (!is_index(a, b) || !index_const(b) || is_const(a)) return plain(g, op, std::array{a, b});
  const int64_t c = b->arg(0);
  if (c == 0) return modulo ? a : g.index(0);
  if (c == 1) return modulo ? g.index(0) : a;
  if (!known(bounds(a)) || c == INT64_MIN) return plain(g, op, std::array{a, b});
  // a / -c = -a / c and a mod -c = -(-a mod c)
  if (c < 0) {
    Node positive = divide(g, neg(g, a), g.index(-c), modulo);
    return modulo ? neg(g, positive) : positive;
  }
  Division division{g, modulo, linear_of(a), c};
  if (!known(division.rest.bounds())) return plain(g, op, std::array{a, b});
  Node out = division.run();
  return division.fits ? out : plain(g, op, std::array{a, b});
}

// x mod c where a sum holds k * (x mod c) + (k * c) * (x / c), which is k * x; likewise one level
// down, where k * (x mod c) + (k * c) * ((x / c) mod d) is k * (x mod (c * d)).
bool recombine(Graph& g, Linear& x, bool* failed) {
  for (size_t i = 0; i < x.size(); ++i) {
    const auto [node, k] = x[i];
    if (node->op != Op::kFloorMod || !index_const(node->src(1))) continue;
    const int64_t c = node->src(1)->arg(0);
    int64_t step = 0;
    if (c <= 0 || !checked_mul(k, c, &step)) continue;
    for (size_t j = 0; j < x.size(); ++j) {
      if (x[j].coefficient != step) continue;
      const Node other = x[j].node;
      const bool nested = other->op == Op::kFloorMod && index_const(other->src(1));
      const Node high = nested ? other->src(0) : other;
      const Node whole = node->src(0);
      // The quotient of whole by c in whatever form division gives it.
      if (j == i || (high->op != Op::kFloorDiv && !nested)) continue;
      Node quotient = floordiv(g, whole, c);
      if (quotient == nullptr) return *failed = true, false;
      if (quotient != high) continue;
      Linear next = x;
      next.remove(std::max(i, j));
      next.remove(std::min(i, j));
      Node joined = whole;
      if (nested) {
        int64_t m = 0;
        if (!checked_mul(c, other->src(1)->arg(0), &m) || m <= 0) continue;
        joined = floormod(g, whole, m);
        if (joined == nullptr) return *failed = true, false;
      }
      if (!next.add(joined, k)) continue;
      x = next;
      return true;
    }
  }
  return false;
}

Node combine(Graph& g, Node a, Node b, int64_t b_coefficient) {
  if (a == nullptr || b == nullptr) return nullptr;
  Linear x = linear_of(a);
  if (!x.add(b, b_coefficient)) {
    return g.alu(Op::kAdd, a, b_coefficient == 1 ? b : g.alu(Op::kMul, b, g.index(b_coefficient)));
  }
  bool failed = false;
  while (recombine(g, x, &failed)) {
  }
  return failed ? nullptr : x.build(g);
}

// a - b as a sum, if it cannot wrap.
bool difference(Graph& g, Node a, Node b, Linear* out, bool* failed) {
  if (!is_index(a, b) || !known(bounds(a)) || !known(bounds(b))) return false;
  if (!known(sum(bounds(a), scaled(bounds(b), -1)))) return false;
  *out = linear_of(a);
  if (!out->add(b, -1)) return false;
  while (recombine(g, *out, failed)) {
  }
  return !*failed && known(out->bounds());
}

// terms < limit, the constant of terms being 0.
struct Comparison {
  Linear terms;
  int64_t limit = 0;
  bool flipped = false;

  bool take_constant();
  bool simplify_once();
};

bool Comparison::take_constant() {
  if (!checked_sub(limit, terms.constant, &limit)) return false;
  terms.constant = 0;
  return known(terms.bounds());
}

// One step towards smaller numbers; false when there is none.
bool Comparison::simplify_once() {
  if (terms.size() == 0) return false;
  if (terms[0].coefficient < 0) {  // -x < c is not x < 1 - c
    Linear negative;
    int64_t opposite = 0;
    if (!negative.add(terms, -1) || !known(negative.bounds())) return false;
    if (!checked_sub(int64_t{1}, limit, &opposite)) return false;
    terms = negative;
    limit = opposite;
    flipped = !flipped;
    return true;
  }
  // g * x + s < c, s in [0, g): x < ceil(c / g) if s does not reach into the last step, x < floor(c
  // / g) + 1 ..
  Linear multiple, low;
  int64_t by = 0;
  for (const Term& term : terms.terms()) {
    Linear one;
    (void)one.append(term);
    int64_t candidate = gcd(term.coefficient, 0);
    for (const Term& other : terms.terms()) {
      const int64_t smaller = gcd(candidate, other.coefficient);
      if (smaller > 1) candidate = smaller;
    }
    if (candidate <= 1 || !find_split(terms, candidate, &multiple, &low, &by)) continue;
    const Interval range = low.bounds();
    int64_t steps = floor_div(limit, by);
    const int64_t left = floor_mod(limit, by);
    if (left != 0 && range.lo < left) {
      if (range.hi >= left) continue;
      ++steps;
    }
    terms = multiple;
    limit = steps;
    return take_constant();
  }
  const Node only = terms[0].node;
  if (terms.size() == 1 && terms[0].coefficient == 1 && only->op == Op::kFloorDiv &&
      index_const(only->src(1)) && known(bounds(only->src(0)))) {  // x / d < c is x < c * d
    const int64_t d = only->src(1)->arg(0);
    int64_t product = 0;
    Comparison next{linear_of(only->src(0)), 0, flipped};
    if (d > 0 && checked_mul(limit, d, &product) && known(next.terms.bounds())) {
      next.limit = product;
      if (next.take_constant()) return *this = next, true;
    }
  }
  return false;
}

}  // namespace

Node add(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  return is_index(a, b) ? combine(g, a, b, 1) : plain(g, Op::kAdd, std::array{a, b});
}

Node sub(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  return is_index(a, b) ? combine(g, a, b, -1) : plain(g, Op::kSub, std::array{a, b});
}

Node neg(Graph& g, Node a) {
  if (a == nullptr) return nullptr;
  return is_index(a, a) ? combine(g, g.index(0), a, -1) : plain(g, Op::kNeg, std::array{a});
}

Node mul(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  if (!is_index(a, b)) return plain(g, Op::kMul, std::array{a, b});
  if (index_const(a)) std::swap(a, b);
  if (index_const(b)) return combine(g, g.index(0), a, b->arg(0));
  // Coefficients of single terms move out: 2x * 3y = 6 (x * y).
  const Linear x = linear_of(a), y = linear_of(b);
  int64_t k = 1;
  if (x.size() == 1 && x.constant == 0) a = x[0].node, k = x[0].coefficient;
  if (y.size() == 1 && y.constant == 0) b = y[0].node, k = ops::mul(k, y[0].coefficient);
  if (compare(b, a) < 0) std::swap(a, b);
  Node product = plain(g, Op::kMul, std::array{a, b});
  return k == 1 ? product : mul(g, product, g.index(k));
}

Node floordiv(Graph& g, Node a, Node b) { return divide(g, a, b, false); }
Node floormod(Graph& g, Node a, Node b) { return divide(g, a, b, true); }

namespace {

Node extreme(Graph& g, Op op, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  if (a == b) return a;
  if (is_index(a, b)) {
    const bool larger = op == Op::kMax;
    if (known(bounds(a)) && known(bounds(b))) {
      if (a->vmin >= b->vmax) return larger ? a : b;
      if (b->vmin >= a->vmax) return larger ? b : a;
    }
    if (index_const(a) || (!index_const(b) && compare(b, a) < 0)) std::swap(a, b);
  }
  return plain(g, op, std::array{a, b});
}

}  // namespace

Node min(Graph& g, Node a, Node b) { return extreme(g, Op::kMin, a, b); }
Node max(Graph& g, Node a, Node b) { return extreme(g, Op::kMax, a, b); }

Node lt(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  Comparison x;
  bool failed = false;
  if (!difference(g, a, b, &x.terms, &failed)) {
    return failed ? nullptr : plain(g, Op::kCmpLt, std::array{a, b});
  }
  const Interval values = x.terms.bounds();
  if (values.hi < 0) return boolean(g, true);
  if (values.lo >= 0) return boolean(g, false);
  if (!x.take_constant()) return plain(g, Op::kCmpLt, std::array{a, b});
  while (x.simplify_once()) {
  }
  const Interval left = x.terms.bounds();
  if (left.hi < x.limit) return boolean(g, !x.flipped);
  if (left.lo >= x.limit) return boolean(g, x.flipped);
  Node out = g.make(Op::kCmpLt, DType::kBool, std::array{x.terms.build(g), g.index(x.limit)});
  return x.flipped ? not_(g, out) : out;
}

Node le(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  return is_index(a, b) ? not_(g, lt(g, b, a)) : plain(g, Op::kCmpLe, std::array{a, b});
}

Node eq(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  Linear x;
  bool failed = false;
  if (!difference(g, a, b, &x, &failed)) {
    if (failed) return nullptr;
    if (a == b && !dtype::is_float(a->dtype)) {
      return g.constant_word(DType::kBool, 1, a->shape());
    }
    return plain(g, Op::kCmpEq, std::array{a, b});
  }
  const Interval values = x.bounds();
  if (values.lo > 0 || values.hi < 0) return boolean(g, false);
  int64_t by = 0;
  for (const Term& term : x.terms())
    by = by == 0 ? gcd(term.coefficient, 0) : gcd(term.coefficient, by);
  if (by == 0) return boolean(g, x.constant == 0);
  if (x.constant % by != 0) return boolean(g, false);
  Linear left;
  (void)left.add(x, 1);
  left.constant = 0;
  int64_t right = 0;
  if (!checked_sub(int64_t{0}, x.constant, &right) || !known(left.bounds())) {
    return plain(g, Op::kCmpEq, std::array{a, b});
  }
  Linear terms;
  for (const Term& term : left.terms()) {
    const int64_t k = term.coefficient / by;
    (void)terms.append({term.node, x[0].coefficient < 0 ? -k : k});
  }
  right = x[0].coefficient < 0 ? -(right / by) : right / by;
  return g.make(Op::kCmpEq, DType::kBool, std::array{terms.build(g), g.index(right)});
}

Node ne(Graph& g, Node a, Node b) {
  if (a == nullptr || b == nullptr) return nullptr;
  return is_index(a, b) ? not_(g, eq(g, a, b)) : plain(g, Op::kCmpNe, std::array{a, b});
}

}  // namespace aster::uop::sym
