#include "uop/symbolic.h"

#include <gtest/gtest.h>

#include "uop/helpers.h"

namespace aster::uop {
namespace {

using test::Env;
using test::for_each_point;
using test::value_of;

// Infix operators that build raw nodes and simplify them as a whole, or canonical ones at once.
struct Expr {
  static inline Graph* graph = nullptr;
  Node node;
  Expr(Node n) : node(n) {}                           // NOLINT
  Expr(int64_t value) : node(graph->index(value)) {}  // NOLINT
  Expr(int value) : Expr(int64_t{value}) {}           // NOLINT
};
Expr operator+(Expr a, Expr b) { return sym::add(*Expr::graph, a.node, b.node); }
Expr operator-(Expr a, Expr b) { return sym::sub(*Expr::graph, a.node, b.node); }
Expr operator-(Expr a) { return sym::neg(*Expr::graph, a.node); }
Expr operator*(Expr a, Expr b) { return sym::mul(*Expr::graph, a.node, b.node); }
Expr operator/(Expr a, Expr b) { return sym::floordiv(*Expr::graph, a.node, b.node); }
Expr operator%(Expr a, Expr b) { return sym::floormod(*Expr::graph, a.node, b.node); }
Expr operator<(Expr a, Expr b) { return sym::lt(*Expr::graph, a.node, b.node); }
Expr operator<=(Expr a, Expr b) { return sym::le(*Expr::graph, a.node, b.node); }
Expr operator>=(Expr a, Expr b) { return sym::le(*Expr::graph, b.node, a.node); }
Expr operator>(Expr a, Expr b) { return sym::lt(*Expr::graph, b.node, a.node); }
Expr operator==(Expr a, Expr b) { return sym::eq(*Expr::graph, a.node, b.node); }
Expr operator!=(Expr a, Expr b) { return sym::ne(*Expr::graph, a.node, b.node); }
Expr operator&(Expr a, Expr b) { return sym::and_(*Expr::graph, a.node, b.node); }
Expr operator|(Expr a, Expr b) { return sym::or_(*Expr::graph, a.node, b.node); }
Expr operator!(Expr a) { return sym::not_(*Expr::graph, a.node); }

std::string text(Node x) {
  const std::string name = info(x->op).name;
  if (name == "Const") return std::to_string(x->arg(0));
  if (name == "Range") return "r" + std::to_string(x->arg(0));
  std::string out = name + "(";
  for (Node s : x->src()) out += text(s) + ",";
  out.back() = ')';
  return out;
}

class Symbolic : public testing::Test {
 protected:
  Symbolic() : heap(nullptr), g(heap) { Expr::graph = &g; }
  Expr r(int64_t id, int64_t size) { return g.range(id, size); }
  Expr boolean(bool value) { return g.constant_word(DType::kBool, value); }
  Heap heap;
  Graph g;
};

#define SAME(left, right) \
  EXPECT_EQ((left).node, Expr(right).node) << text((left).node) << " / " << text(Expr(right).node)

TEST_F(Symbolic, SumsAreCanonical) {
  const Expr x = r(0, 10), y = r(1, 20), z = r(2, 5);
  SAME(x + y, y + x);
  SAME((x + y) + z, z + (y + x));
  SAME(x + x, x * 2);
  SAME(x - x, 0);
  SAME((x + 3) + (y - 3), x + y);
  SAME(2 * (x + y) - x, x + 2 * y);
  SAME(-(x - y), y - x);
  SAME(x * 0, 0);
  SAME(3 * x * (2 * y), 6 * (y * x));
  SAME((x * 4 + y) * 3, 12 * x + 3 * y);
  SAME(1 + x + 1, x + 2);
  SAME(r(3, 1) + x, x);  // a loop of one step
  // The written order: ranges by their id, the constant last.
  EXPECT_EQ(text((7 + y * 3 + x).node), "Add(Add(r0,Mul(r1,3)),7)");
}

TEST_F(Symbolic, TermsAreOrderedTheSameInEveryGraph) {
  Graph other(heap);
  Expr::graph = &other;
  const Expr y1 = other.range(1, 20), x1 = other.range(0, 10);
  const std::string second = text((y1 * 3 + (x1 % 4) + x1 / 4 + 7).node);
  Expr::graph = &g;
  const Expr x = r(0, 10), y = r(1, 20);
  EXPECT_EQ(text((x / 4 + 7 + x % 4 + y * 3).node), second);
}

TEST_F(Symbolic, DivisionSplits) {
  const Expr x = r(0, 16), y = r(1, 8), z = r(2, 4), w = r(3, 100);
  SAME((x * 8 + y) / 8, x);
  SAME((x * 8 + y) % 8, y);
  SAME((x * 8 + y) / 4, x * 2 + y / 4);
  SAME((x * 8 + y) % 4, y % 4);
  SAME((x * 32 + y * 4 + z) / 32, x);
  SAME((x * 32 + y * 4 + z) % 32, y * 4 + z);
  SAME((x * 32 + y * 4 + z) / 4 % 8, y);
  SAME((x * 8 + y) / 16, x / 2);
  SAME((x * 8 + y) % 16, (x % 2) * 8 + y);
  SAME((x * 8 + y + 8) / 8, x + 1);
  SAME((x * 8 + y - 8) / 8, x - 1);
  SAME(x / 16, 0);
  SAME(x % 16, x);
  SAME((x + 16) % 16, x);
  SAME((x - 16) % 16, x);
  SAME((x + 16) / 16, 1);
  SAME(x / 1, x);
  SAME(x % 1, 0);
  SAME(x / 0, 0);
  SAME(x % 0, x);
  SAME(w / 3 / 4, w / 12);
  SAME((w / 3 + 2) / 4, (w + 6) / 12);
  SAME(w % 12 % 4, w % 4);
  SAME(w % 12 / 4, w / 4 % 3);
  SAME((w % 12 + 12 * x) % 4, w % 4);
  SAME((w % 8 + y) % 4, (w + y) % 4);
  SAME((6 * w + 4) / 8, (3 * w + 2) / 4);
  SAME((6 * w + 5) / 8, (3 * w + 2) / 4);
  SAME((6 * w + 5) % 8, (3 * w + 2) % 4 * 2 + 1);
  SAME((w * 9) % 8, w % 8);
  SAME((x * 4) / 4, x);
  SAME((x * -4) / 4, -x);
  SAME(x / -16, (-x) / 16);
  SAME((w * 4 + 400) / 400, (w + 100) / 100);
}

TEST_F(Symbolic, QuotientAndRemainderJoin) {
  const Expr x = r(0, 100), y = r(1, 7), z = r(2, 50);
  SAME(x / 4 * 4 + x % 4, x);
  SAME(x % 4 + y + 4 * (x / 4), x + y);
  SAME((x / 4 * 4 + x % 4) * 3, 3 * x);
  SAME(x / 4 % 5 * 4 + x % 4, x % 20);
  SAME((x / 20) * 20 + (x / 4 % 5) * 4 + x % 4, x);
  SAME((3 * x + z) / 2 * 2 + (3 * x + z) % 2, 3 * x + z);
  SAME((x * 50 + z) / 7 * 7 + (x * 50 + z) % 7, x * 50 + z);
}

TEST_F(Symbolic, Comparisons) {
  const Expr x = r(0, 16), y = r(1, 8), w = r(2, 100);
  SAME(x < 16, boolean(true));
  SAME(x < 0, boolean(false));
  SAME(x >= 0, boolean(true));
  SAME(x + 3 < 5, x < 2);
  SAME(5 < x + 3, !(x < 3));
  SAME(x < y, 0 < y - x);
  SAME(x + w < y + w, x < y);
  SAME(4 * x < 9, x < 3);
  SAME(4 * x < 8, x < 2);
  SAME(x * 8 + y < 64, x < 8);
  SAME(x * 8 + y < 63, x * 8 + y < 63);
  SAME(x * 8 + y >= 64, !(x < 8));
  SAME(x / 4 < 2, x < 8);
  SAME(-x < -3, !(x < 4));
  SAME(!(!(x < 4)), x < 4);
  SAME(x == x, boolean(true));
  SAME(x == 16, boolean(false));
  SAME(2 * x == 5, boolean(false));
  SAME(2 * x == 6, x == 3);
  SAME(x + 2 == 5, 3 == x);
  SAME(y - x == 2, x - y == -2);
  SAME(x != 3, !(x == 3));
  SAME(x <= 3, x < 4);
  SAME(x > 3, !(x < 4));
}

TEST_F(Symbolic, Conditions) {
  const Expr x = r(0, 16), y = r(1, 8);
  const Expr a = x < 4, b = y < 4;
  SAME(a & b, b & a);
  SAME(a & a, a);
  SAME(a & boolean(true), a);
  SAME(a & boolean(false), boolean(false));
  SAME(a | boolean(true), boolean(true));
  SAME(a | boolean(false), a);
  SAME(a & (x < 7), a);
  SAME((x >= 3) & (x >= 7), x >= 7);
  SAME((x < 3) & (x >= 7), boolean(false));
  SAME((x < 3) & (x == 2), x == 2);
  SAME((x < 3) & (x == 3), boolean(false));
  SAME((x == 3) & (x == 4), boolean(false));
  SAME(a & !a, boolean(false));
  SAME(a | !a, boolean(true));
  SAME((a & b) & (x >= 2), (x >= 2) & (b & a));
  SAME(Expr(sym::where(g, a.node, x.node, x.node)), x);
  SAME(Expr(sym::where(g, (!a).node, x.node, y.node)), Expr(sym::where(g, a.node, y.node, x.node)));
  SAME(Expr(sym::where(g, a.node, boolean(true).node, boolean(false).node)), a);
  SAME(Expr(sym::where(g, a.node, boolean(false).node, boolean(true).node)), !a);
  SAME(Expr(sym::min(g, x.node, Expr(20).node)), x);
  SAME(Expr(sym::max(g, x.node, Expr(15).node)), 15);
}

TEST_F(Symbolic, NothingIsAssumedWhereArithmeticMayWrap) {
  // An unknown index: only what holds modulo 2^64 may be used.
  const Expr u = g.cast(g.param(0, DType::kInt64, {}), DType::kWeakInt);
  EXPECT_EQ(info((u + 1 < u).node->op).name, std::string("CmpLt"));
  EXPECT_EQ(info((u * 8 / 8).node->op).name, std::string("FloorDiv"));
  EXPECT_EQ(info(((u * 8) % 8).node->op).name, std::string("FloorMod"));
  SAME(u + 1 - u, 1);
  // Coefficients whose difference leaves int64.
  const Expr b = r(0, 2);
  const Expr high = b * (INT64_MAX - 1), low = b * -3;
  for (int64_t v : {0, 1}) {
    const Env env{{b.node, v}};
    EXPECT_EQ(value_of((high < low).node, env), 0);
    EXPECT_EQ(value_of((low < high).node, env), v);
    EXPECT_EQ(value_of((high == low).node, env), v == 0);
  }
}

TEST_F(Symbolic, LinearParts) {
  const Expr x = r(0, 16), y = r(1, 8);
  const sym::Linear parts = sym::linear_of((x * 6 + y / 2 * 4 + 10).node);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts.constant, 10);
  EXPECT_EQ(parts[0].node, x.node);
  EXPECT_EQ(parts[0].coefficient, 6);
  EXPECT_EQ(parts[1].coefficient, 4);
  EXPECT_TRUE(sym::divides(2, (x * 6 + y * 4 + 10).node));
  EXPECT_FALSE(sym::divides(4, (x * 6 + y * 4 + 10).node));
  EXPECT_TRUE(sym::depends_on((x + y / 2).node, y.node));
  EXPECT_FALSE(sym::depends_on((x + 3).node, y.node));
  int64_t stride = 0;
  bool found = false;
  Node rest = sym::split_stride(g, (x * 6 + y / 2 + 1).node, x.node, &stride, &found);
  EXPECT_TRUE(found);
  EXPECT_EQ(stride, 6);
  SAME(Expr(rest), y / 2 + 1);
  rest = sym::split_stride(g, (x * 6 + y / 2 + 1).node, y.node, &stride, &found);
  EXPECT_FALSE(found);
  EXPECT_EQ(rest, nullptr);
}

TEST_F(Symbolic, RebuildReplacesRanges) {
  const Expr x = r(0, 64), outer = r(1, 8), inner = r(2, 8);
  Map<Node, Node> map(heap);
  ASSERT_TRUE(map.set(x.node, (outer * 8 + inner).node).ok());
  SAME(Expr(sym::rebuild(g, (x / 8 * 100 + x % 8).node, map)), outer * 100 + inner);
  const Node param = g.param(0, DType::kFloat32, std::array<Word, 1>{64});
  const Node load = g.make(Op::kLoad, DType::kFloat32, std::array{param, (x / 8).node});
  const Node rebuilt = sym::rebuild(g, g.alu(Op::kAdd, load, load), map);
  ASSERT_NE(rebuilt, nullptr);
  EXPECT_EQ(rebuilt->src(0)->src(1), outer.node);
}

TEST_F(Symbolic, LongSumsStayRight) {
  std::mt19937_64 random(5);
  std::vector<Node> ranges;
  Node total = g.index(0);
  for (int64_t i = 0; i < 70; ++i) {  // more than a Linear holds
    ranges.push_back(g.range(i, 3));
    total = sym::add(g, total, sym::mul(g, ranges.back(), g.index(i + 1)));
    ASSERT_NE(total, nullptr);
  }
  const Node quotient = sym::floordiv(g, total, 7), rest = sym::floormod(g, total, 7);
  for_each_point(ranges, random, 50, [&](const Env& env) {
    int64_t sum = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      sum += env.at(ranges[i]) * static_cast<int64_t>(i + 1);
    }
    EXPECT_EQ(value_of(total, env), sum);
    EXPECT_EQ(value_of(quotient, env), sum / 7);
    EXPECT_EQ(value_of(rest, env), sum % 7);
  });
}

// Random expressions: simplified ones have the same values at every point, and bounds hold.
Node random_expression(Graph& g, std::mt19937_64& random, const std::vector<Node>& ranges,
                       int depth, bool boolean) {
  const auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  const auto index = [&] { return random_expression(g, random, ranges, depth - 1, false); };
  const auto condition = [&] { return random_expression(g, random, ranges, depth - 1, true); };
  if (boolean) {
    if (depth <= 1)
      return g.make(Op::kCmpLt, DType::kBool, std::array{index(), g.index(pick(-5, 40))});
    switch (pick(0, 7)) {
      case 0:
        return g.make(Op::kAnd, DType::kBool, std::array{condition(), condition()});
      case 1:
        return g.make(Op::kOr, DType::kBool, std::array{condition(), condition()});
      case 2:
        return g.make(Op::kNot, DType::kBool, std::array{condition()});
      case 3:
        return g.make(Op::kCmpEq, DType::kBool, std::array{index(), g.index(pick(-3, 20))});
      case 4:
        return g.make(Op::kCmpNe, DType::kBool, std::array{index(), index()});
      case 5:
        return g.make(Op::kCmpLe, DType::kBool, std::array{index(), index()});
      case 6:
        return g.make(Op::kCmpLt, DType::kBool, std::array{index(), index()});
      default:
        return g.make(Op::kCmpLt, DType::kBool, std::array{index(), g.index(pick(-20, 60))});
    }
  }
  if (depth <= 0) return pick(0, 4) == 0 ? g.index(pick(-9, 17)) : ranges[random() % ranges.size()];
  static const int64_t kDivisors[] = {1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 24, 32, 0, -1, -4, -3};
  const Node divisor = g.index(kDivisors[random() % std::size(kDivisors)]);
  const auto two = [&](Op op, Node a, Node b) {
    return g.make(op, DType::kWeakInt, std::array{a, b});
  };
  switch (pick(0, 10)) {
    case 0:
    case 1:
    case 2:
      return two(Op::kAdd, index(), index());
    case 3:
      return two(Op::kMul, index(), g.index(pick(-3, 12)));
    case 4:
      return two(Op::kSub, index(), index());
    case 5:
    case 6:
      return two(Op::kFloorDiv, index(), divisor);
    case 7:
    case 8:
      return two(Op::kFloorMod, index(), divisor);
    case 9:
      return two(pick(0, 1) == 0 ? Op::kMin : Op::kMax, index(), index());
    default:
      return g.make(Op::kWhere, DType::kWeakInt, std::array{condition(), index(), index()});
  }
}

TEST_F(Symbolic, RandomExpressionsKeepTheirValues) {
  const uint64_t seed = 20240611;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 6000; ++round) {
    std::vector<Node> ranges;
    static const int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 8, 12};
    for (int64_t i = 0; i < 3; ++i) ranges.push_back(g.range(i, kSizes[random() % 8]));
    const bool boolean = round % 3 == 0;
    const Node raw = random_expression(g, random, ranges, 1 + round % 5, boolean);
    const Node simple = sym::simplify(g, raw);
    ASSERT_NE(simple, nullptr);
    ASSERT_EQ(sym::simplify(g, simple), simple) << "not canonical: " << text(raw) << "\n"
                                                << text(simple) << "\n"
                                                << text(sym::simplify(g, simple));
    bool ok = true;
    for_each_point(ranges, random, 200, [&](const Env& env) {
      const int64_t expected = value_of(raw, env), got = value_of(simple, env);
      ok &= expected == got && raw->vmin <= expected && expected <= raw->vmax &&
            simple->vmin <= got && got <= simple->vmax;
    });
    ASSERT_TRUE(ok) << "seed " << seed << " round " << round << ": " << text(raw) << "\n"
                    << text(simple);
    if (round % 500 == 499) g.collect();
  }
}

TEST_F(Symbolic, SumsWrittenDifferentlyAreOneNode) {
  std::mt19937_64 random(77);
  for (int round = 0; round < 300; ++round) {
    std::vector<Node> terms;
    for (int64_t i = 0; i < 6; ++i) {
      const Node range = g.range(static_cast<int64_t>(random() % 4), 8);
      terms.push_back(sym::mul(g, sym::floordiv(g, range, static_cast<int64_t>(1 + random() % 3)),
                               g.index(static_cast<int64_t>(random() % 9) - 4)));
    }
    const auto total = [&] {
      std::shuffle(terms.begin(), terms.end(), random);
      Node left = g.index(3), right = g.index(-1);
      for (size_t i = 0; i < terms.size(); ++i) {
        Node& side = random() % 2 == 0 ? left : right;
        side = sym::add(g, side, terms[i]);
      }
      return sym::add(g, left, right);
    };
    const Node first = total();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(total(), first);
  }
}

}  // namespace
}  // namespace aster::uop
