// Scatters of few values: one kernel with all that stands around, whatever the indices are.
#include "engine/world.h"
#include "uop/composite.h"

namespace aster::engine::testing {
namespace {

constexpr Op kOps[] = {Op::kAdd, Op::kMul, Op::kMax, Op::kMin};
constexpr DType kIndex = DType::kInt32;

// Whole numbers, over and over, stored.
Node stored(World& w, DType dtype, int64_t bound, const Shape& shape) {
  uop::Graph& g = w.g();
  int64_t count = 1;
  for (Word dim : shape) count *= dim;
  Node numbers = g.alu(Op::kAdd, g.iota(DType::kInt32, count),
                       g.alu(Op::kMul, g.iota(DType::kInt32, count), g.iota(DType::kInt32, count)));
  numbers = g.alu(Op::kFloorMod, numbers,
                  g.constant_int(DType::kInt32, bound, words({static_cast<Word>(count)})));
  Lazy* cell = w.cell(g.contiguous(g.cast(g.reshape(numbers, words(shape)), dtype)));
  w.realize({cell});
  return cell->node;
}

TEST(ExpandScatters, FuseWithWhatStandsAround) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({16, 8}), value = w.random({32, 8}, 2), at = stored(w, kIndex, 18, {32, 8});
  Node doubled = g.alu(Op::kAdd, x, x), turned = g.alu(Op::kNeg, value);
  for (Op op : kOps) {
    Node y = g.scatter(op, doubled, turned, std::array{at}, words({-1, 1}));
    w.check(w.hold(g.alu(Op::kExp, g.alu(Op::kMin, y, w.num(2, y)))), 1);
  }
}

// Sums over their counts, and extrema of what is met alone.
TEST(ExpandScatters, MeanAndEmptiedTargetAreOneKernel) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({16, 8}), value = w.random({32, 8}, 2), at = stored(w, kIndex, 13, {32, 8});
  const auto scatter = [&](Op op, Node target, Node from) {
    return g.scatter(op, target, from, std::array{at}, words({-1, 1}));
  };
  Node sums = scatter(Op::kAdd, w.num(0, x), value);
  Node counts = scatter(Op::kAdd, w.num(1, x), w.num(1, value));
  w.check(w.hold(g.alu(Op::kDiv, sums, counts)), 1);
  for (Op op : kOps) {
    Node empty =
        g.constant_word(DType::kFloat32, uop::neutral_word(op, DType::kFloat32), value->shape());
    w.check(w.hold(scatter(op, scatter(Op::kSink, x, empty), value)), 1);
  }
}

// Positions beyond what an index holds do not come round again.
TEST(ExpandScatters, IndicesOfEveryDType) {
  for (DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16, DType::kInt32,
                      DType::kUInt32, DType::kInt64, DType::kUInt64}) {
    SCOPED_TRACE(dtype::info(dtype).name);
    World w;
    uop::Graph& g = w.g();
    Node x = w.random({300}), value = w.random({10}, 2), at = stored(w, dtype, 9, {10});
    w.check(w.hold(g.scatter(Op::kAdd, x, value, std::array{at}, words({-1}))), 1);
    // From the end of the dtype: outside, or far inside.
    at = g.alu(Op::kSub, at, g.constant_int(dtype, 5, words({10})));
    w.check(w.hold(g.scatter(Op::kAdd, x, value, std::array{at}, words({-1}))), 1);
    if (dtype::size(dtype) < 8) continue;
    at = g.alu(Op::kAdd, at, g.constant_int(dtype, int64_t{1} << 32, words({10})));
    w.check(w.hold(g.scatter(Op::kAdd, x, value, std::array{at}, words({-1}))), 1);
  }
}

// Values shorter than the target where they run along it, several indices, axes that none names.
TEST(ExpandScatters, EveryArrangement) {
  World w;
  uop::Graph& g = w.g();
  for (Op op : kOps) {
    SCOPED_TRACE(uop::info(op).name);
    Node x = w.random({6, 5, 4}), value = w.random({7, 3, 2}, 2);
    Node first = stored(w, kIndex, 8, {7, 3, 2}), second = stored(w, kIndex, 5, {7, 3, 2});
    const auto check = [&](std::initializer_list<Node> indices, const Shape& coordinates) {
      const std::vector<Node> list(indices);
      w.check(w.hold(g.scatter(op, x, value, {list.data(), list.size()}, words(coordinates))), 1);
    };
    check({first}, {-1, 1, 2});
    check({first}, {1, -1, 2});
    check({first}, {2, 1, -1});
    check({first, second}, {-1, -2, 2});
    check({first, second}, {-2, 1, -1});
    check({first}, {2, -1, 2});  // a diagonal is left to the call
  }
}

TEST(ExpandScatters, NotANumberAndInfinityStayWhereTheyLand) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({1, 2, 3, 4}, {4}), at = stored(w, kIndex, 3, {4});  // 0, 2, 0, 0
  Node value = w.leaf({5, NAN, INFINITY, 6}, {4});
  for (Op op : kOps) {
    Node y = w.hold(g.scatter(op, x, value, std::array{at}, words({-1})));
    const std::vector<float> got = w.compute(y), expected = w.interpreted(y);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) << i;
    }
    EXPECT_EQ(got[1], 2);
    EXPECT_EQ(got[3], 4);
  }
}

}  // namespace
}  // namespace aster::engine::testing
