// Sums of coefficient * term, and the order of their terms.
#include <algorithm>
#include <numeric>

#include "uop/ops.h"
#include "uop/symbolic.h"

namespace aster::uop::sym {
namespace {

// Comparing two large expressions that differ late is cut off here; ids decide then.
constexpr int kCompareBudget = 256;
constexpr int kCompareDepth = 24;
constexpr int kDependBudget = 4096;

template <typename T>
int three_way(T a, T b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Sets *cut instead of deciding when the budget runs out.
int compare_within(Node a, Node b, int depth, int* budget, bool* cut) {
  if (a == b) return 0;
  if (--*budget < 0 || depth == 0) return *cut = true, 0;
  if (int c = three_way(a->op, b->op)) return c;
  if (int c = three_way(a->dtype, b->dtype)) return c;
  if (int c = three_way(a->narg, b->narg)) return c;
  for (size_t i = 0; i < a->narg; ++i) {
    if (int c = three_way(a->arg(i), b->arg(i))) return c;
  }
  if (int c = three_way(a->nsrc, b->nsrc)) return c;
  for (size_t i = 0; i < a->nsrc && !*cut; ++i) {
    if (int c = compare_within(a->src(i), b->src(i), depth - 1, budget, cut)) return c;
  }
  return 0;
}

bool is_index_const(Node node) { return is_const(node) && node->dtype == DType::kWeakInt; }

// An interval lo..lo stands for the constant.
bool fixed(Node node) { return node->vmin == node->vmax; }

}  // namespace

int compare(Node a, Node b) {
  int budget = kCompareBudget;
  bool cut = false;
  const int c = compare_within(a, b, kCompareDepth, &budget, &cut);
  return c != 0 ? c : three_way(a->id, b->id);
}

Linear& Linear::operator=(const Linear& other) {
  constant = other.constant;
  size_ = other.size_;
  std::copy_n(other.terms_, size_, terms_);
  return *this;
}

bool Linear::add_term(Node term, int64_t coefficient) {
  if (coefficient == 0) return true;
  size_t at = size_;
  while (at > 0) {
    const int c = compare(terms_[at - 1].node, term);
    if (c == 0) {
      Term& found = terms_[at - 1];
      found.coefficient = ops::add(found.coefficient, coefficient);
      if (found.coefficient == 0) remove(at - 1);
      return true;
    }
    if (c < 0) break;
    --at;
  }
  if (size_ == kMax) return false;
  std::copy_backward(terms_ + at, terms_ + size_, terms_ + size_ + 1);
  terms_[at] = Term{term, coefficient};
  ++size_;
  return true;
}

bool Linear::append(const Term& term) {
  if (size_ == kMax) return false;
  terms_[size_++] = term;
  return true;
}

void Linear::remove(size_t i) {
  std::copy(terms_ + i + 1, terms_ + size_, terms_ + i);
  --size_;
}

bool Linear::add(Node x, int64_t coefficient) {
  // Sums are walked left to right with the right operands waiting.
  Term waiting[kMax];
  size_t count = 0;
  waiting[count++] = Term{x, coefficient};
  const Linear before = *this;
  while (count != 0) {
    const auto [node, k] = waiting[--count];
    const bool whole = node->dtype == DType::kWeakInt;
    if (whole && fixed(node)) {
      constant = ops::add(constant, ops::mul(k, node->vmin));
      continue;
    }
    const bool minus = node->op == Op::kSub;
    if (whole && (node->op == Op::kAdd || minus)) {
      if (count + 2 > kMax) return *this = before, false;
      waiting[count++] = Term{node->src(1), minus ? ops::neg(k) : k};
      waiting[count++] = Term{node->src(0), k};
    } else if (whole && node->op == Op::kNeg) {
      waiting[count++] = Term{node->src(0), ops::neg(k)};
    } else if (whole && node->op == Op::kMul && is_index_const(node->src(1))) {
      waiting[count++] = Term{node->src(0), ops::mul(k, node->src(1)->arg(0))};
    } else if (whole && node->op == Op::kMul && is_index_const(node->src(0))) {
      waiting[count++] = Term{node->src(1), ops::mul(k, node->src(0)->arg(0))};
    } else if (!add_term(node, k)) {
      return *this = before, false;
    }
  }
  return true;
}

bool Linear::add(const Linear& x, int64_t coefficient) {
  const Linear before = *this;
  for (const Term& term : x.terms()) {
    if (!add_term(term.node, ops::mul(coefficient, term.coefficient))) return *this = before, false;
  }
  constant = ops::add(constant, ops::mul(coefficient, x.constant));
  return true;
}

Interval Linear::bounds() const {
  Interval all{constant, constant};
  for (const Term& term : terms()) {
    const Interval values{term.node->vmin, term.node->vmax};
    if (!known(values)) return kUnknown;
    all = sum(all, scaled(values, term.coefficient));
    if (!known(all)) return kUnknown;
  }
  return all;
}

Node Linear::build(Graph& g) const {
  Node out = nullptr;
  for (const Term& term : terms()) {
    Node x = term.node;
    if (term.coefficient != 1) {
      x = g.make(Op::kMul, DType::kWeakInt, std::array{x, g.index(term.coefficient)});
    }
    out = out == nullptr ? x : g.make(Op::kAdd, DType::kWeakInt, std::array{out, x});
    if (out == nullptr) return nullptr;
  }
  if (out == nullptr) return g.index(constant);
  if (constant == 0) return out;
  return g.make(Op::kAdd, DType::kWeakInt, std::array{out, g.index(constant)});
}

Linear linear_of(Node node) {
  Linear out;
  if (!out.add(node, 1)) (void)out.add_term(node, 1);
  return out;
}

bool divides(int64_t divisor, Node node) {
  const Linear x = linear_of(node);
  if (x.constant % divisor != 0) return false;
  return std::all_of(x.terms().begin(), x.terms().end(),
                     [&](const Term& term) { return term.coefficient % divisor == 0; });
}

bool depends_on(Node node, Node range) {
  Node waiting[128], seen[64];
  size_t count = 0, seen_count = 0;
  int budget = kDependBudget;
  waiting[count++] = node;
  while (count != 0) {
    Node x = waiting[--count];
    if (x == range || --budget < 0) return true;
    if (x->nsrc == 0 || std::find(seen, seen + seen_count, x) != seen + seen_count) continue;
    if (seen_count < std::size(seen)) seen[seen_count++] = x;
    if (count + x->nsrc > std::size(waiting)) return true;
    for (Node source : x->src()) waiting[count++] = source;
  }
  return false;
}

Node split_stride(Graph& g, Node node, Node range, int64_t* stride, bool* found) {
  Linear rest = linear_of(node);
  *stride = 0;
  *found = true;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i].node == range) {
      *stride = rest[i].coefficient;
      rest.remove(i--);
    } else if (depends_on(rest[i].node, range)) {
      *found = false;
      return nullptr;
    }
  }
  return rest.build(g);
}

}  // namespace aster::uop::sym
