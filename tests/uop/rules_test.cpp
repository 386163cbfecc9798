#include <gtest/gtest.h>

#include <set>

#include "uop/helpers.h"
#include "uop/print.h"
#include "uop/rules_tensor.h"
#include "uop/tensor_eval.h"
#include "uop/verify.h"

namespace aster::uop {
namespace {

using test::Values;
using test::values_of;
using test::Words64;
using Random = std::mt19937_64;
using Shape = std::vector<Word>;

constexpr DType kDTypes[] = {DType::kBool,    DType::kInt8,    DType::kUInt8,
                             DType::kInt32,   DType::kUInt64,  DType::kInt64,
                             DType::kFloat16, DType::kFloat32, DType::kFloat64};

// Ordinary values and those on which careless identities break.
Word random_word(DType d, Random& random) {
  if (dtype::is_float(d)) {
    const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.5, 2, 1e-8, 6e4, -3.25};
    const double x = random() % 2 == 0 ? special[random() % std::size(special)]
                                       : static_cast<double>(random() % 2000) / 64 - 15;
    return convert_word(std::bit_cast<Word>(x), DType::kFloat64, d);
  }
  const int64_t special[] = {0, 1, -1, 2, INT64_MIN, INT64_MAX, 127, -128, 64};
  const int64_t x = random() % 3 == 0 ? special[random() % std::size(special)]
                                      : static_cast<int64_t>(random() % 200) - 100;
  return convert_word(x, DType::kInt64, d);
}

bool equal_words(DType d, Word a, Word b, double tolerance) {
  if (a == b) return true;
  if (!dtype::is_float(d)) return false;
  const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
  if (std::isnan(x) && std::isnan(y)) return true;
  return tolerance > 0 && (x == y || std::fabs(x - y) <= tolerance * (1 + std::fabs(x)));
}

std::string text_of(Graph& g, Node n) {
  Text text(g.memory());
  EXPECT_TRUE(print(text, std::array{n}).ok());
  return std::string(text.view());
}

class Rules : public testing::Test {
 protected:
  Rules() : heap(nullptr), g(heap) {}

  // Gives every leaf values, and holds b against a.
  void compare(Node a, Node b, Random& random, double tolerance, const std::string& what) {
    ASSERT_EQ(a->dtype, b->dtype) << what;
    ASSERT_EQ(Shape(a->shape().begin(), a->shape().end()),
              Shape(b->shape().begin(), b->shape().end()))
        << what;
    Vec<Node> order(heap);
    ASSERT_TRUE(toposort(&order, std::array{a, b}).ok());
    Values values;
    for (Node n : order) {
      if (n->op != Op::kParam) continue;
      for (int64_t i = 0; i < n->count(); ++i) values[n].push_back(random_word(n->dtype, random));
      if (n->count() == 0) values[n] = {};
    }
    const Words64 x = values_of(a, values), y = values_of(b, values);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(equal_words(a->dtype, x[i], y[i], tolerance))
          << what << "\nelement " << i << ": " << x[i] << " " << y[i] << "\n"
          << text_of(g, a) << "\n"
          << text_of(g, b);
    }
  }

  // A node that the pattern matches, from random leaves; nil if the dtypes drawn do not fit.
  Node instance(const rule::Pattern& p, Random& random) {
    const Shape shape{5};
    const DType common = kDTypes[random() % std::size(kDTypes)];
    std::map<int, Node> variables;
    std::vector<Node> built(p.size);
    for (uint8_t i = 0; i < p.size; ++i) {
      const rule::Part& part = p.part[i];
      const DType d = random() % 4 == 0 ? kDTypes[random() % std::size(kDTypes)] : common;
      if (part.kind == rule::Part::kVariable || part.kind == rule::Part::kConstant) {
        Node& v = variables[part.variable];
        if (v == nullptr) {
          v = part.kind == rule::Part::kConstant ? g.constant_word(d, random_word(d, random), shape)
                                                 : g.param(part.variable, d, shape);
        }
        built[i] = v;
      } else if (part.kind == rule::Part::kOperation) {
        std::vector<Node> src;
        Node neighbour = nullptr;
        for (uint8_t s = 0; s < part.arity; ++s) {
          if (Node n = built[part.source[s]]) neighbour = n;
        }
        for (uint8_t s = 0; s < part.arity; ++s) {
          const rule::Part& source = p.part[part.source[s]];
          src.push_back(source.kind == rule::Part::kNumber
                            ? g.constant(neighbour->dtype, source.number, neighbour->shape())
                            : built[part.source[s]]);
        }
        if (src.size() == 2 && random() % 2 == 0 && (info(part.op).traits & COMM) != 0)
          std::swap(src[0], src[1]);
        if (part.op == Op::kCast) {
          built[i] = g.cast(src[0], d);
        } else if (part.op == Op::kBitcast) {
          built[i] = dtype::bits(d) == dtype::bits(src[0]->dtype) ? g.bitcast(src[0], d) : nullptr;
        } else if (is_alu(part.op)) {
          built[i] = g.alu(part.op, {src.data(), src.size()});
        }
        if (built[i] == nullptr || built[i]->op != part.op) return nullptr;
      }
    }
    return built.back();
  }

  Heap heap;
  Graph g;
};

// Each rule on elementwise nodes by itself, on random constants and leaves.
TEST_F(Rules, EachElementwiseRuleKeepsItsValues) {
  Random random(11);
  const rule::RuleSet& rules = tensor_rules();
  for (size_t i = 0; i < rules.size; ++i) {
    const rule::Rule& rule = rules.rules[i];
    const Op op = rule.from.root().op;
    bool movement = rule.from.root().kind == rule::Part::kVariable || op == Op::kReduce;
    for (uint8_t p = 0; p < rule.from.size; ++p) movement |= is_movement(rule.from.part[p].op);
    if (movement || op == Op::kBitcast) continue;
    uint16_t first[static_cast<size_t>(Op::kCount) + 1] = {};
    for (size_t o = static_cast<size_t>(op) + 1; o <= static_cast<size_t>(Op::kCount); ++o)
      first[o] = 1;
    const uint8_t order[1] = {0};
    const rule::RuleSet alone{&rule, 1, first, order};
    int applied = 0;
    for (int attempt = 0; attempt < 4000 && applied < 40; ++attempt) {
      const Node before = instance(rule.from, random);
      if (before == nullptr) continue;
      const rule::Outcome out = rule::apply_rules(g, alone, before);
      if (!out.applies) continue;
      ASSERT_NE(out.node, nullptr);
      ++applied;
      compare(before, out.node, random, 0, "rule of line " + std::to_string(rule.line));
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(applied, 0) << "never applied: rule of line " << rule.line;
    g.collect();
  }
}

// Random graphs of movement, reductions and a little arithmetic.
class RandomGraph {
 public:
  RandomGraph(Graph& g, Random& random, DType d) : g_(g), random_(random), d_(d) {}

  Node build(int steps) {
    std::vector<Node> pool{leaf(), leaf()};
    for (int i = 0; i < steps; ++i) {
      const Node x = pool[pool.size() - 1 - random_() % std::min<size_t>(pool.size(), 2)];
      Node y = step(x);
      if (y != nullptr && y->count() <= 600 && y->ndim <= 5) pool.push_back(y);
    }
    return pool.back();
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  Word dim() { return std::array<Word, 8>{1, 2, 3, 4, 1, 2, 5, 3}[below(8)]; }
  Node leaf() {
    Shape shape(1 + below(3));
    for (Word& s : shape) s = dim();
    if (below(25) == 0) shape[0] = 0;
    if (below(8) == 0) return g_.constant_word(d_, random_word(d_, random_), shape);
    return g_.param(static_cast<Word>(below(4)), d_, shape);
  }
  Shape shape_of(Node x) { return Shape(x->shape().begin(), x->shape().end()); }

  Node step(Node x) {
    const size_t n = x->ndim;
    Shape a(n), b(n), c(n);
    switch (below(16)) {
      case 0:
      case 1: {  // reshape: axes of size 1 come and go, or two axes merge
        Shape to = shape_of(x);
        if (below(3) == 0 && n >= 2) {
          to[0] *= to[1];
          to.erase(to.begin() + 1);
        } else if (below(2) == 0) {
          to.insert(to.begin() + static_cast<ptrdiff_t>(below(n + 1)), 1);
        } else {
          std::erase(to, 1);
        }
        return g_.reshape(x, to);
      }
      case 2:
      case 3: {
        Shape to = shape_of(x);
        for (Word& s : to) s = s == 1 ? dim() : s;
        return g_.expand(x, to);
      }
      case 4:
      case 5:
        for (size_t i = 0; i < n; ++i) a[i] = static_cast<Word>(i);
        std::shuffle(a.begin(), a.end(), random_);
        return g_.permute(x, a);
      case 6:
        for (Word& m : a) m = static_cast<Word>(below(2));
        return g_.flip(x, a);
      case 7:
      case 8:
      case 9:
        for (size_t i = 0; i < n; ++i) {
          const Word d = x->dim(i);
          if (below(40) == 0) continue;  // none of it, step must be 1 at least
          b[i] = 1 + static_cast<Word>(below(4) == 0);
          a[i] = d > 0 ? static_cast<Word>(below(static_cast<uint64_t>(d))) : 0;
          c[i] =
              d > 0 ? 1 + static_cast<Word>(below(static_cast<uint64_t>((d - 1 - a[i]) / b[i] + 1)))
                    : 0;
          if (below(3) == 0) a[i] = 0, b[i] = 1, c[i] = d;
        }
        for (Word& s : b) s = std::max<Word>(s, 1);
        return g_.slice(x, a, b, c);
      case 10:
      case 11: {
        for (size_t i = 0; i < n; ++i) {
          a[i] = static_cast<Word>(below(3));
          b[i] = static_cast<Word>(below(3));
          c[i] = below(4) == 0 ? 1 : 0;
        }
        return g_.pad(x, a, b, c, random_word(d_, random_));
      }
      case 12: {
        if (n == 0) return x;
        const int64_t axis = static_cast<int64_t>(below(n));
        const std::vector<Node> parts{x, below(2) == 0 ? x : g_.alu(Op::kNeg, x), x};
        return g_.cat({parts.data(), 1 + below(3)}, axis);
      }
      case 13:
      case 14: {
        const Op ops[] = {Op::kAdd, Op::kMax, Op::kMin, Op::kMul, Op::kAnd, Op::kOr};
        const Op op = ops[below(dtype::is_float(d_) ? 4 : 6)];
        Shape axes;
        for (size_t i = 0; i < n; ++i) {
          if (below(2) == 0) axes.push_back(static_cast<Word>(i));
        }
        return g_.reduce(op, x, axes);
      }
      default:
        return g_.alu(below(2) == 0 ? Op::kAdd : Op::kMax, x, x);
    }
  }

  Graph& g_;
  Random& random_;
  DType d_;
};

TEST_F(Rules, RandomGraphsKeepTheirValuesAndComeToAnEnd) {
  const uint64_t seed = 4242;
  Random random(seed);
  std::vector<uint32_t> fired(tensor_rules().size);
  for (int round = 0; round < 6000; ++round) {
    const DType d = std::array{DType::kInt32, DType::kUInt8, DType::kInt64, DType::kBool,
                               DType::kFloat64}[random() % 5];
    const Node before = RandomGraph(g, random, d).build(2 + round % 9);
    g.retain(before);
    Node after = nullptr;
    SimplifyOptions options;
    options.fired = fired.data();
    ASSERT_TRUE(simplify_tensor(&after, g, before, options).ok());
    ASSERT_TRUE(verify(g, after, Level::kTensor).ok()) << text_of(g, after);
    compare(before, after, random, d == DType::kFloat64 ? 1e-9 : 0,
            "seed " + std::to_string(seed) + " round " + std::to_string(round));
    if (HasFatalFailure()) return;
    g.release(before);
    if (round % 100 == 0) g.collect();
  }
  for (size_t i = 0; i < fired.size(); ++i) {
    const rule::Pattern& from = tensor_rules().rules[i].from;
    if (from.root().kind == rule::Part::kVariable || is_movement(from.root().op) ||
        from.root().op == Op::kReduce) {
      EXPECT_GT(fired[i], 0u) << "never fired: rule of line " << tensor_rules().rules[i].line;
    }
  }
}

TEST_F(Rules, ExpectedResults) {
  const auto p = [&](Word slot, const Shape& shape) {
    return g.param(slot, DType::kFloat32, shape);
  };
  const auto simple = [&](Node n) {
    Node out = nullptr;
    EXPECT_TRUE(simplify_tensor(&out, g, n).ok());
    return out;
  };
  const auto c = [&](double v, const Shape& shape) {
    return g.constant(DType::kFloat32, v, shape);
  };
  const Node a = p(0, {2, 3, 4});
  const Shape s{2, 3, 4};
  // Floats keep what may matter.
  for (Node kept : {g.alu(Op::kMul, a, c(0, s)), g.alu(Op::kSub, a, a), g.alu(Op::kAdd, a, c(0, s)),
                    g.alu(Op::kCmpNe, a, a), g.alu(Op::kDiv, a, c(3, s)),
                    g.alu(Op::kAdd, g.alu(Op::kAdd, a, c(1, s)), c(2, s))}) {
    EXPECT_EQ(simple(kept), kept);
  }
  EXPECT_EQ(simple(g.alu(Op::kDiv, a, c(4, s))), g.alu(Op::kMul, a, c(0.25, s)));
  // Sums of sums stay: fusion knows who else uses the inner one.
  const Node sum_of_sum = g.reduce(Op::kAdd, g.reduce(Op::kAdd, a, Shape{2}), Shape{0});
  EXPECT_EQ(simple(sum_of_sum), sum_of_sum);
  // Nothing summed, multiplied, compared.
  const Node none = p(1, {0, 3});
  EXPECT_EQ(simple(g.reduce(Op::kAdd, none, Shape{0})), c(0, {1, 3}));
  EXPECT_EQ(simple(g.reduce(Op::kMul, none, Shape{0})), c(1, {1, 3}));
  EXPECT_EQ(simple(g.reduce(Op::kMax, none, Shape{0})), c(-INFINITY, {1, 3}));
  EXPECT_EQ(simple(g.reduce(Op::kMin, none, Shape{0})), c(INFINITY, {1, 3}));
  const Node no_ints = g.param(2, DType::kInt8, Shape{0, 3});
  EXPECT_EQ(simple(g.reduce(Op::kMin, no_ints, Shape{0})),
            g.constant_int(DType::kInt8, 127, Shape{1, 3}));
  EXPECT_EQ(simple(g.reduce(Op::kAnd, no_ints, Shape{0})),
            g.constant_int(DType::kInt8, -1, Shape{1, 3}));
  EXPECT_EQ(simple(g.alu(Op::kExp, none)), c(0, {0, 3}));
  EXPECT_EQ(simple(g.reduce(Op::kAdd, c(0.5, s), Shape{0, 1, 2})), c(12, {1, 1, 1}));
  EXPECT_EQ(simple(g.reduce(Op::kAdd, p(3, {1, 5}), Shape{0})), p(3, {1, 5}));
  // A slice of a padded tensor that misses the padding.
  const Node padded = g.pad(a, Shape{1, 0, 2}, Shape{1, 0, 2}, Shape{0, 0, 0}, 0);
  EXPECT_EQ(simple(g.slice(padded, Shape{1, 0, 2}, Shape{1, 1, 1}, s)), a);
  EXPECT_EQ(simple(g.slice(padded, Shape{0, 0, 0}, Shape{1, 1, 1}, Shape{1, 3, 8})),
            c(0, {1, 3, 8}));
  EXPECT_EQ(simple(g.slice(g.cat(std::array{a, p(4, s)}, 1), Shape{0, 3, 0}, Shape{1, 1, 1}, s)),
            p(4, s));
  EXPECT_EQ(simple(g.flip(g.flip(a, Shape{1, 0, 1}), Shape{1, 0, 1})), a);
  // What stands beside each other, zeros around: a row of tensors, zeros of a negative sign gone.
  const auto beside = [&](Node part, Word before, Word after) {
    return g.pad(part, Shape{0, before, 0}, Shape{0, after, 0}, Shape{0, 0, 0}, 0);
  };
  const auto plus_zero = [&](Node part) { return g.alu(Op::kAdd, part, c(0, s)); };
  const Node first = p(7, s), second = p(8, s), third = p(9, s);
  const Node ends = g.alu(Op::kAdd, beside(first, 0, 6), beside(third, 6, 0));
  EXPECT_EQ(simple(ends)->op, Op::kCat);
  EXPECT_EQ(simple(g.alu(Op::kAdd, ends, beside(second, 3, 3))),
            g.cat(std::array{plus_zero(first), plus_zero(second), plus_zero(third)}, 1));
  const Node inside = g.alu(Op::kAdd, beside(second, 5, 2), beside(first, 2, 5));
  EXPECT_EQ(simple(inside),
            beside(g.cat(std::array{plus_zero(first), plus_zero(second)}, 1), 2, 2));
  const Node overlapping = g.alu(Op::kAdd, beside(first, 0, 2), beside(second, 2, 0));
  EXPECT_EQ(simple(overlapping), overlapping);
  // Casts by way of a wider dtype, not of a narrower one.
  const Node i16 = g.param(6, DType::kInt16, s);
  EXPECT_EQ(simple(g.cast(g.cast(i16, DType::kInt64), DType::kInt8)), g.cast(i16, DType::kInt8));
  EXPECT_EQ(simple(g.cast(g.cast(i16, DType::kFloat32), DType::kInt16)), i16);
  const Node narrowed = g.cast(g.cast(i16, DType::kInt8), DType::kInt32);
  EXPECT_EQ(simple(narrowed), narrowed);
}

TEST_F(Rules, DetachGoesOnlyWhenAsked) {
  const Node a = g.param(0, DType::kFloat32, Shape{3});
  const Node detached = g.alu(Op::kExp, g.detach(a));
  Node out = nullptr;
  ASSERT_TRUE(simplify_tensor(&out, g, detached).ok());
  EXPECT_EQ(out, detached);
  SimplifyOptions options;
  options.drop_detach = true;
  ASSERT_TRUE(simplify_tensor(&out, g, detached, options).ok());
  EXPECT_EQ(out, g.alu(Op::kExp, a));
}

}  // namespace
}  // namespace aster::uop
