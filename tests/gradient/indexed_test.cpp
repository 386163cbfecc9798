// Gather, Scatter and Scan against central differences; ties, duplicates and zeros, where no
// difference says what is meant, against torch's answers.
#include <algorithm>
#include <array>

#include "numeric.h"

namespace aster::gradient::test {
namespace {

struct Indexed : ::testing::Test {
  Expr scatter(Op op, Expr target, Expr value, std::vector<Expr> indices,
               const Shape& coordinates) {
    std::vector<Node> nodes;
    for (const Expr& index : indices) nodes.push_back(index.n);
    return {&n.graph(), n.graph().scatter(op, target.n, value.n, nodes, coordinates)};
  }
  Expr gather(Expr x, std::vector<Expr> indices, const Shape& coordinates, const Shape& shape) {
    std::vector<Node> nodes;
    for (const Expr& index : indices) nodes.push_back(index.n);
    return {&n.graph(), n.graph().gather(x.n, nodes, coordinates, shape)};
  }
  Expr scan(Op op, Expr x, Word axis, bool reverse = false) {
    return {&n.graph(), n.graph().scan(op, x.n, axis, reverse)};
  }
  Expr log_scan(Expr x, Word axis, bool reverse) {
    return {&n.graph(), n.graph().log_scan(x.n, axis, reverse)};
  }

  // d sum(y * weights) / d x.
  Values gradient_of(Expr y, Expr x, const Values& weights) {
    const Expr w = n.leaf(Shape(y.shape().begin(), y.shape().end()), weights);
    Node out = nullptr;
    const Node target = x.n;
    EXPECT_TRUE(gradient(n.graph(), y.n, w.n, {&target, 1}, {&out, 1}).ok()) << Numeric::message();
    return n.value(out);
  }

  static void expect_near(const Values& got, const Values& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  }

  Numeric n;
  std::mt19937 random{3};
};

TEST_F(Indexed, GatherAgainstDifferences) {
  const Expr x = n.random_leaf({3, 4}, random);
  const Expr rows = n.labels({5}, {2, 0, 2, -1, 7});
  const Expr columns = n.labels({5}, {1, 3, 1, 0, 0});
  n.check("points", gather(x, {rows, columns}, {-1, -2}, {5}), {x});
  const Expr at =
      n.labels({6, 4}, {0, 1, 2, 0, 0, 1, 2, 0, 1, 1, 1, 1, 2, 5, -1, 2, 0, 0, 0, 0, 2, 2, 1, 0});
  n.check("rows", gather(x, {at}, {-1, 1}, {6, 4}), {x});
  const Expr square = n.random_leaf({4, 4}, random);
  n.check("diagonal", gather(square, {}, {0, 0}, {4}), {square});
  n.check("read twice",
          gather(x, {rows, columns}, {-1, -2}, {5}) * gather(x, {columns, rows}, {-2, -1}, {5}),
          {x});
}

TEST_F(Indexed, ScatterAgainstDifferences) {
  for (const Op op : {Op::kSink, Op::kAdd, Op::kMul, Op::kMax, Op::kMin}) {
    const std::string name = op == Op::kSink ? "write" : uop::info(op).name;
    const Expr target = n.random_leaf({3, 4}, random), value = n.random_leaf({5}, random);
    const Expr rows = n.labels({5}, {2, 0, 2, -1, 7});
    const Expr columns = n.labels({5}, {1, 3, 1, 0, 0});
    n.check(name + " to points", scatter(op, target, value, {rows, columns}, {-1, -2}),
            {target, value});
    const Expr block = n.random_leaf({3, 6}, random);
    const Expr at = n.labels({3, 6}, {0, 1, 2, 3, 0, 1, 3, 3, 3, 3, 3, 3, 4, 2, -1, 2, 0, 1});
    n.check(name + " along an axis", scatter(op, target, block, {at}, {0, -1}), {target, block});
    const Expr all = n.random_leaf({4}, random), one = n.random_leaf({}, random);
    n.check(name + " everything to one", scatter(op, one, all, {}, {}), {one, all});
  }
}

TEST_F(Indexed, ScanAgainstDifferences) {
  for (const Op op : {Op::kAdd, Op::kMul, Op::kMax, Op::kMin}) {
    const Expr x = n.random_leaf({2, 5, 3}, random);
    for (const Word axis : {0, 1, 2}) {
      for (const bool reverse : {false, true}) {
        n.check(uop::info(op).name, scan(op, x, axis, reverse), {x});
      }
    }
  }
  for (const Values& values : {Values{0.5, 0, 2, 3}, Values{0, 2, 0, 1}, Values{3, 2, 0.5, 0},
                               Values{0, 0, 0, 0}, Values{2, 0, 0.5, 0}}) {
    const Expr x = n.leaf({4}, values);
    n.check("product with zeros", scan(Op::kMul, x, 0), {x});
    n.check("product with zeros from the end", scan(Op::kMul, x, 0, true), {x});
  }
}

TEST_F(Indexed, LogScanAgainstDifferences) {
  const Expr x = n.random_leaf({2, 5, 3}, random, -3, 3), far = n.leaf({3}, {-400, 0, 400});
  for (const bool reverse : {false, true}) {
    for (const Word axis : {0, 1, 2}) n.check("LogScan", log_scan(x, axis, reverse), {x});
    n.check("LogScan beyond exp", log_scan(far, 0, reverse), {far});
  }
}

// torch 2.15: logcumsumexp of [-inf, 0, ln 3], of weights that are positive, zero and negative.
TEST_F(Indexed, LogScanOfInfinitiesAndSigns) {
  const Expr x = n.leaf({3}, {-INFINITY, 0, std::log(3)});
  expect_near(gradient_of(log_scan(x, 0, false), x, {5, 0, 8}), {0, 2, 6});
  expect_near(gradient_of(log_scan(x, 0, false), x, {0, 3, -8}), {0, 1, -6});
  const Values weights = {1, NAN, 1};
  const Values got = gradient_of(log_scan(x, 0, false), x, weights);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_NEAR(got[2], 0.75, 1e-12);
}

TEST_F(Indexed, SortAgainstDifferences) {
  const Expr x = n.random_leaf({2, 5, 3}, random);
  for (const Word axis : {0, 1, 2}) {
    n.check("sort", {&n.graph(), n.graph().sort(x.n, axis, axis == 1)}, {x});
  }
}

TEST_F(Indexed, ProductsWithZerosAgainstDifferences) {
  const Expr target = n.leaf({4}, {0, 2, 0, 3});
  const Expr value = n.leaf({8}, {0.5, 0, 2, 0, 0, 1.5, 0.7, 2});
  const Expr at = n.labels({8}, {0, 1, 1, 2, 3, 3, 3, 1});
  n.check("scatter", scatter(Op::kMul, target, value, {at}, {-1}), {target, value});
  const Expr two = n.leaf({4}, {0.5, 0, 0, 2});
  n.check("two zeros", scatter(Op::kMul, target, two, {n.labels({4}, {1, 1, 1, 0})}, {-1}),
          {target, two});
}

TEST_F(Indexed, TiesAsTorchSharesThem) {
  // torch.scatter_reduce and torch.cummax / cummin, torch 2.15.
  const Expr target = n.leaf({4}, {2, 5, 1, 0});
  const Expr value = n.leaf({7}, {5, 5, 2, 1, 1, 7, -3});
  const Expr at = n.labels({7}, {1, 1, 0, 2, 2, 3, 3});
  const Values weights = {1, 10, 100, 1000};
  const double third = 10. / 3, most = 100. / 3;
  const Expr largest = scatter(Op::kMax, target, value, {at}, {-1});
  expect_near(gradient_of(largest, target, weights), {0.5, third, most, 0});
  expect_near(gradient_of(largest, value, weights), {third, third, 0.5, most, most, 1000, 0});
  const Expr least = scatter(Op::kMin, target, value, {at}, {-1});
  expect_near(gradient_of(least, target, weights), {0.5, third, most, 0});
  expect_near(gradient_of(least, value, weights), {third, third, 0.5, most, most, 0, 1000});
  const Expr x = n.leaf({7}, {3, 3, 1, 3, 4, 4, 2});
  const Values powers = {1, 10, 100, 1000, 1e4, 1e5, 1e6},
               latest = {1, 110, 0, 1000, 1e4, 1.1e6, 0};
  EXPECT_EQ(gradient_of(scan(Op::kMax, x, 0), x, powers), latest);
  EXPECT_EQ(gradient_of(scan(Op::kMin, -x, 0), x, powers),
            (Values{-1, -110, 0, -1000, -1e4, -1.1e6, 0}));
  // The same from the end: of the mirrored row.
  const Expr mirrored = n.leaf({7}, {2, 4, 4, 3, 1, 3, 3});
  EXPECT_EQ(
      gradient_of(scan(Op::kMax, mirrored, 0, true), mirrored, {1e6, 1e5, 1e4, 1000, 100, 10, 1}),
      (Values{0, 1.1e6, 1e4, 1000, 0, 110, 1}));
}

TEST_F(Indexed, TheLastWriterGetsTheGradient) {
  const Expr target = n.leaf({4}, {1, 2, 3, 4}), value = n.leaf({5}, {5, 6, 7, 8, 9});
  const Expr y = scatter(Op::kSink, target, value, {n.labels({5}, {1, 3, 1, 9, 3})}, {-1});
  EXPECT_EQ(n.value(y.n), (Values{1, 7, 3, 9}));
  EXPECT_EQ(gradient_of(y, target, {10, 20, 30, 40}), (Values{10, 0, 30, 0}));
  EXPECT_EQ(gradient_of(y, value, {10, 20, 30, 40}), (Values{0, 0, 20, 0, 40}));
}

// 2048 + 1 is no float16: what is added up in float32 is.
TEST_F(Indexed, NarrowFloatsAddUpInFloat32) {
  Graph& g = n.graph();
  const Node x = g.param(900, DType::kFloat16, Shape{1});
  const Node at = g.constant_int(DType::kInt32, 0, Shape{4096});
  const Node y = g.gather(x, std::array{at}, Shape{-1}, Shape{4096});
  Node dx = nullptr;
  ASSERT_TRUE(gradient(g, y, nullptr, {&x, 1}, {&dx, 1}).ok());
  EXPECT_EQ(dx->dtype, DType::kFloat16);
  EXPECT_EQ(n.value(g.cast(dx, DType::kFloat64)), Values{4096});
}

TEST_F(Indexed, NothingFlowsThroughArgsort) {
  const Expr x = n.leaf({3}, {3, 1, 2});
  const Expr order{&n.graph(), n.graph().argsort(x.n, 0, false, 3)};
  const Expr sorted = gather(x, {order}, {-1}, {3});
  EXPECT_EQ(gradient_of(sorted, x, {10, 20, 30}), (Values{30, 10, 20}));
  EXPECT_EQ(gradient_of(order.cast(DType::kFloat64) * x, x, {1, 10, 100}), (Values{1, 20, 0}));
}

}  // namespace
}  // namespace aster::gradient::test
