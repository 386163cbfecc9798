#include "uop/rewrite.h"

#include <gtest/gtest.h>

#include "uop/helpers.h"

namespace aster::uop {
namespace {

class Rewrite : public testing::Test {
 protected:
  Rewrite() : heap(nullptr), g(heap) {}
  Node p(Word slot, DType d = DType::kInt32) { return g.param(slot, d, std::array<Word, 1>{4}); }
  Node c(double v, DType d = DType::kInt32) { return g.constant(d, v, std::array<Word, 1>{4}); }
  Node run(Node root, const rule::RuleSet& rules, uint32_t* fired = nullptr) {
    Node out = nullptr;
    const Status status = rule::rewrite(&out, g, root, rules, fired);
    EXPECT_TRUE(status.ok());
    return out;
  }
  Heap heap;
  Graph g;
};

namespace tables {
using namespace rule;  // NOLINT
constexpr Rule kFirst[] = {
    {x + 0.0, x},
    {(x + c0) + c1, x + (c0 + c1)},
    {x * (y + z), x* y + x* z},
    {Max(x, x), x},
    {Max(x, 7.0), 7.0, is_integral(x)},
    {Where(x, y, z),
     [](const Match& m) { return m[rule::x] == m.root->src(0) ? Outcome(m[y]) : Outcome::keep(); }},
};
constexpr auto kFirstIndex = rule_index(kFirst);
constexpr RuleSet kFirstSet = rule_set(kFirst, kFirstIndex);

constexpr Rule kOrder[] = {
    {x + 1.0, x * 2.0},
    {x + y, x - y},
};
constexpr auto kOrderIndex = rule_index(kOrder);
constexpr RuleSet kOrderSet = rule_set(kOrder, kOrderIndex);

constexpr Rule kEndless[] = {
    {x + y, x - y},
    {x - y, x + y},
};
constexpr auto kEndlessIndex = rule_index(kEndless);
constexpr RuleSet kEndlessSet = rule_set(kEndless, kEndlessIndex);

constexpr Rule kGrowing[] = {{-x, -(-x)}};
constexpr auto kGrowingIndex = rule_index(kGrowing);
constexpr RuleSet kGrowingSet = rule_set(kGrowing, kGrowingIndex);
}  // namespace tables

TEST_F(Rewrite, MatchesInBothOrders) {
  const Node a = p(0), b = p(1), d = p(2);
  EXPECT_EQ(run(g.alu(Op::kAdd, a, c(0)), tables::kFirstSet), a);
  EXPECT_EQ(run(g.alu(Op::kAdd, c(0), a), tables::kFirstSet), a);
  const Node expected = g.alu(Op::kAdd, a, c(7));
  for (Node inner : {g.alu(Op::kAdd, a, c(3)), g.alu(Op::kAdd, c(3), a)}) {
    EXPECT_EQ(run(g.alu(Op::kAdd, inner, c(4)), tables::kFirstSet), expected);
    EXPECT_EQ(run(g.alu(Op::kAdd, c(4), inner), tables::kFirstSet), expected);
  }
  const Node sum = g.alu(Op::kAdd, b, d);
  const Node spread = g.alu(Op::kAdd, g.alu(Op::kMul, a, b), g.alu(Op::kMul, a, d));
  EXPECT_EQ(run(g.alu(Op::kMul, a, sum), tables::kFirstSet), spread);
  EXPECT_EQ(run(g.alu(Op::kMul, sum, a), tables::kFirstSet), spread);
}

TEST_F(Rewrite, VariablesThatOccurTwiceAreOneNode) {
  EXPECT_EQ(run(g.alu(Op::kMax, p(0), p(0)), tables::kFirstSet), p(0));
  const Node both = g.alu(Op::kMax, p(0), p(1));
  EXPECT_EQ(run(both, tables::kFirstSet), both);
}

TEST_F(Rewrite, GuardsAndNumbers) {
  EXPECT_EQ(run(g.alu(Op::kMax, p(0), c(7)), tables::kFirstSet), c(7));
  const Node f = g.alu(Op::kMax, p(0, DType::kFloat32), c(7, DType::kFloat32));
  EXPECT_EQ(run(f, tables::kFirstSet), f);
  // 0.0 is not -0.0.
  const Node negative = g.alu(Op::kAdd, p(0, DType::kFloat32), c(-0.0, DType::kFloat32));
  EXPECT_EQ(run(negative, tables::kFirstSet), negative);
}

TEST_F(Rewrite, FirstRuleOfTheTableWinsAndIsCounted) {
  uint32_t fired[2] = {};
  EXPECT_EQ(run(g.alu(Op::kAdd, p(0), c(1)), tables::kOrderSet, fired),
            g.alu(Op::kMul, p(0), c(2)));
  EXPECT_EQ(fired[0], 1u);
  EXPECT_EQ(fired[1], 0u);
  EXPECT_EQ(run(g.alu(Op::kAdd, p(0), c(5)), tables::kOrderSet, fired),
            g.alu(Op::kSub, p(0), c(5)));
  EXPECT_EQ(fired[1], 1u);
}

TEST_F(Rewrite, RulesWithoutEndAreAnError) {
  Node out = nullptr;
  EXPECT_EQ(rule::rewrite(&out, g, g.alu(Op::kAdd, p(0), p(1)), tables::kEndlessSet).code,
            static_cast<int32_t>(Code::kINTERNAL));
  EXPECT_EQ(rule::rewrite(&out, g, g.alu(Op::kNeg, p(0)), tables::kGrowingSet).code,
            static_cast<int32_t>(Code::kINTERNAL));
  EXPECT_EQ(out, nullptr);
}

TEST_F(Rewrite, BodiesOfCallsAreLeftAlone) {
  const Node body = g.alu(Op::kAdd, p(0), c(0));
  const Node call = g.call(0, {}, body, std::array{g.alu(Op::kAdd, p(5), c(0))});
  const Node out = run(call, tables::kFirstSet);
  ASSERT_EQ(out->op, Op::kCall);
  EXPECT_EQ(out->src(0), body);
  EXPECT_EQ(out->src(1), p(5));
}

TEST_F(Rewrite, SharedNodesAreRewrittenOnce) {
  // 2^40 paths.
  Node node = g.alu(Op::kAdd, p(0), c(0));
  for (int i = 0; i < 40; ++i) node = g.alu(Op::kAdd, g.alu(Op::kMul, node, node), c(0));
  uint32_t fired[6] = {};
  Node out = run(node, tables::kFirstSet, fired);
  EXPECT_EQ(fired[0], 41u);
  EXPECT_EQ(out->op, Op::kMul);
}

}  // namespace
}  // namespace aster::uop
