#include "uop/uop.h"

#include <gtest/gtest.h>

#include "base/arena.h"
#include "uop/helpers.h"
#include "uop/print.h"
#include "uop/rules_tensor.h"
#include "uop/symbolic.h"

namespace aster::uop {
namespace {

using Shape = std::vector<Word>;

class GraphTest : public testing::Test {
 protected:
  GraphTest() : heap(nullptr), g(heap) {}
  Node f(Word slot, const Shape& shape) { return g.param(slot, DType::kFloat32, shape); }
  static Shape shape_of(Node n) { return {n->shape().begin(), n->shape().end()}; }
  void expect_failure(Node node, Code code) {
    EXPECT_EQ(node, nullptr);
    EXPECT_EQ(last_failure().code, static_cast<int32_t>(code));
    EXPECT_EQ(aster_ml_error_clear(), 0);
  }
  Heap heap;
  Graph g;
};

TEST_F(GraphTest, EqualNodesAreOne) {
  const Node a = f(0, {2, 3}), b = f(1, {2, 3});
  EXPECT_EQ(a, f(0, {2, 3}));
  EXPECT_NE(a, b);
  EXPECT_NE(a, f(0, {3, 2}));
  EXPECT_NE(a, g.param(0, DType::kInt32, Shape{2, 3}));
  EXPECT_EQ(g.alu(Op::kAdd, a, b), g.alu(Op::kAdd, a, b));
  EXPECT_NE(g.alu(Op::kAdd, a, b), g.alu(Op::kAdd, b, a));
  EXPECT_NE(g.alu(Op::kAdd, a, b), g.alu(Op::kSub, a, b));
  // Constants by their bits.
  EXPECT_NE(g.constant(DType::kFloat32, 0.0), g.constant(DType::kFloat32, -0.0));
  EXPECT_EQ(g.constant(DType::kFloat32, NAN), g.constant(DType::kFloat32, NAN));
  EXPECT_EQ(g.constant(DType::kFloat32, 0.1), g.constant(DType::kFloat32, double{0.1f}));
  EXPECT_EQ(g.constant_int(DType::kInt8, 300), g.constant_int(DType::kInt8, 44));
  EXPECT_LT(a->id, b->id);
}

TEST_F(GraphTest, ArgumentsAndSourcesDoNotRunTogether) {
  const Node a = f(0, {1});
  const Node one = g.make(Op::kTuple, DType::kNone, std::array{a}, Shape{7});
  EXPECT_NE(one, g.make(Op::kTuple, DType::kNone, std::array{a}, {}, Shape{7}));
  EXPECT_NE(one, g.make(Op::kTuple, DType::kNone, std::array{a}, Shape{7, 0}));
  EXPECT_NE(one, g.make(Op::kTuple, DType::kNone, std::array{a, a}, Shape{7}));
}

TEST_F(GraphTest, CollectKeepsWhatIsRetained) {
  const Node a = f(0, {4}), b = f(1, {4});
  const Node sum = g.alu(Op::kAdd, a, b), product = g.alu(Op::kMul, sum, b);
  const Node other = g.alu(Op::kExp, a);
  ASSERT_NE(other, nullptr);
  g.retain(product);
  EXPECT_EQ(g.node_count(), 5u);
  g.collect();
  EXPECT_EQ(g.node_count(), 4u);
  EXPECT_TRUE(g.owns(sum));
  EXPECT_EQ(g.alu(Op::kAdd, a, b), sum);  // the same address still
  g.retain(product);
  g.release(product);
  g.collect();
  EXPECT_EQ(g.node_count(), 4u);
  g.release(product);
  g.collect();
  EXPECT_EQ(g.node_count(), 0u);
  EXPECT_NE(f(0, {4}), nullptr);
}

TEST_F(GraphTest, HookIsToldOfBuffers) {
  std::vector<Word> gone;
  g.set_buffer_hook(
      [](void* self, Node n) { static_cast<std::vector<Word>*>(self)->push_back(n->arg(0)); },
      &gone);
  const auto buffer = [&](Word slot) {
    return g.make(Op::kBuffer, DType::kFloat32, {}, Shape{slot, 0}, Shape{4});
  };
  const Node one = buffer(1), two = buffer(2);
  const Node user = g.alu(Op::kNeg, one);
  g.retain(user);
  g.collect();
  EXPECT_EQ(gone, std::vector<Word>{2});
  g.release(user);
  g.collect();
  EXPECT_EQ(gone, (std::vector<Word>{2, 1}));
  ASSERT_NE(two, nullptr);
}

TEST_F(GraphTest, ElementwiseDTypesAndShapes) {
  const Node a = f(0, {2}), b = f(1, {2}), i = g.param(2, DType::kInt32, Shape{2});
  EXPECT_EQ(g.alu(Op::kCmpLt, a, b)->dtype, DType::kBool);
  EXPECT_EQ(g.alu(Op::kWhere, g.alu(Op::kCmpLt, a, b), i, i)->dtype, DType::kInt32);
  EXPECT_EQ(g.alu(Op::kMulAcc, a, b, a)->dtype, DType::kFloat32);
  expect_failure(g.alu(Op::kAdd, a, i), Code::kDTYPE);
  expect_failure(g.alu(Op::kExp, i), Code::kDTYPE);
  expect_failure(g.alu(Op::kAnd, a, b), Code::kDTYPE);
  expect_failure(g.alu(Op::kWhere, a, a, b), Code::kDTYPE);
  expect_failure(g.alu(Op::kThreefry, i, i), Code::kDTYPE);
  expect_failure(g.alu(Op::kAdd, a, f(1, {3})), Code::kSHAPE);
  expect_failure(g.alu(Op::kAdd, a, f(1, {2, 1})), Code::kSHAPE);
  expect_failure(g.alu(Op::kAdd, a), Code::kINTERNAL);
  expect_failure(g.alu(Op::kReshape, a), Code::kINTERNAL);
  // A nil operand says nothing new.
  EXPECT_EQ(g.alu(Op::kAdd, a, nullptr), nullptr);
  EXPECT_EQ(g.reshape(nullptr, Shape{1}), nullptr);
}

TEST_F(GraphTest, MovementShapes) {
  const Node a = f(0, {2, 3, 4});
  EXPECT_EQ(shape_of(g.reshape(a, Shape{6, 4})), (Shape{6, 4}));
  // Handles may name what lies between: joined only in graphs that are dropped whole.
  EXPECT_NE(g.reshape(g.reshape(a, Shape{24}), Shape{2, 3, 4}), a);
  EXPECT_EQ(shape_of(g.permute(a, Shape{2, 0, 1})), (Shape{4, 2, 3}));
  EXPECT_NE(g.permute(g.permute(a, Shape{2, 0, 1}), Shape{1, 2, 0}), a);
  Graph scratch(heap, false);
  const Node p = scratch.param(0, DType::kFloat32, Shape{2, 3, 4});
  EXPECT_EQ(scratch.reshape(scratch.reshape(p, Shape{24}), Shape{2, 3, 4}), p);
  EXPECT_EQ(scratch.permute(scratch.permute(p, Shape{2, 0, 1}), Shape{1, 2, 0}), p);
  EXPECT_EQ(shape_of(g.slice(a, Shape{0, 1, 0}, Shape{1, 1, 2}, Shape{2, 2, 2})), (Shape{2, 2, 2}));
  EXPECT_EQ(shape_of(g.pad(a, Shape{1, 0, 0}, Shape{0, 2, 0}, Shape{0, 0, 1}, 0)),
            (Shape{3, 5, 7}));
  EXPECT_EQ(shape_of(g.window(a, 2, 2, 1, 1)), (Shape{2, 3, 3, 2}));
  EXPECT_EQ(shape_of(g.unwindow(g.window(a, 2, 2, 2, 1), 2, 4, 2, 1)), (Shape{2, 3, 4, 2}));
  EXPECT_EQ(shape_of(g.cat(std::array{a, a}, 1)), (Shape{2, 6, 4}));
  EXPECT_EQ(shape_of(g.reduce(Op::kAdd, a, Shape{0, 2})), (Shape{1, 3, 1}));
  EXPECT_EQ(g.flip(a, Shape{0, 0, 0}), a);
  const Node unit = f(1, {1, 3});
  EXPECT_EQ(shape_of(g.expand(unit, Shape{5, 3})), (Shape{5, 3}));
  const Node none = f(2, {0, 3});
  EXPECT_EQ(shape_of(g.reshape(none, Shape{3, 0})), (Shape{3, 0}));
  EXPECT_TRUE(is_const(g.pad(none, Shape{1, 0}, Shape{1, 0}, Shape{0, 0}, 5)));
  Shape deep(32, 1);
  deep[7] = 2;
  EXPECT_EQ(shape_of(g.reshape(f(3, {2}), deep)), deep);
}

TEST_F(GraphTest, BadMovementIsRefused) {
  const Node a = f(0, {2, 3}), huge = f(1, {Word{1} << 30, Word{1} << 20});
  aster_ml_error_clear();
  expect_failure(g.reshape(a, Shape{5}), Code::kSHAPE);
  expect_failure(g.reshape(a, Shape{-2, -3}), Code::kRANGE);
  expect_failure(g.reshape(a, Shape{INT64_MAX, INT64_MAX, 6}), Code::kRANGE);
  expect_failure(g.reshape(a, Shape(300, 1)), Code::kRANGE);
  expect_failure(g.expand(a, Shape{4, 3}), Code::kSHAPE);
  expect_failure(g.expand(f(2, {1, 1}), Shape{INT64_MAX, 2}), Code::kRANGE);
  expect_failure(g.permute(a, Shape{0, 0}), Code::kSHAPE);
  expect_failure(g.permute(a, Shape{0, 2}), Code::kSHAPE);
  expect_failure(g.permute(a, Shape{0}), Code::kSHAPE);
  expect_failure(g.flip(a, Shape{1}), Code::kSHAPE);
  expect_failure(g.slice(a, Shape{0, 0}, Shape{1, 1}, Shape{3, 3}), Code::kRANGE);
  expect_failure(g.slice(a, Shape{-1, 0}, Shape{1, 1}, Shape{1, 3}), Code::kRANGE);
  expect_failure(g.slice(a, Shape{0, 0}, Shape{1, 0}, Shape{1, 3}), Code::kRANGE);
  expect_failure(g.slice(a, Shape{0, 0}, Shape{1, INT64_MAX}, Shape{1, 3}), Code::kRANGE);
  expect_failure(g.slice(a, Shape{0}, Shape{1}, Shape{1}), Code::kRANGE);
  expect_failure(g.pad(a, Shape{-1, 0}, Shape{0, 0}, Shape{0, 0}, 0), Code::kRANGE);
  expect_failure(g.pad(a, Shape{INT64_MAX, 0}, Shape{1, 0}, Shape{0, 0}, 0), Code::kRANGE);
  expect_failure(g.pad(a, Shape{0, 0}, Shape{0, 0}, Shape{0, INT64_MAX}, 0), Code::kRANGE);
  expect_failure(g.window(a, 1, 4, 1, 1), Code::kSHAPE);
  expect_failure(g.window(a, 1, 0, 1, 1), Code::kSHAPE);
  expect_failure(g.window(a, 1, 2, 1, INT64_MAX), Code::kSHAPE);
  expect_failure(g.window(a, 2, 1, 1, 1), Code::kRANGE);
  expect_failure(g.window(huge, 0, 1 << 25, 1, 1), Code::kRANGE);
  expect_failure(g.unwindow(g.window(a, 1, 2, 1, 1), 1, 2, 1, 1), Code::kSHAPE);
  expect_failure(g.unwindow(g.window(a, 1, 2, 1, 1), 1, 3, INT64_MAX, INT64_MAX), Code::kSHAPE);
  expect_failure(g.cat({}, 0), Code::kARGUMENT);
  expect_failure(g.cat(std::array{a, f(0, {2, 4})}, 0), Code::kSHAPE);
  expect_failure(g.cat(std::array{a, g.param(0, DType::kInt8, Shape{2, 3})}, 0), Code::kDTYPE);
  expect_failure(g.reduce(Op::kAdd, a, Shape{1, 0}), Code::kRANGE);
  expect_failure(g.reduce(Op::kAdd, a, Shape{2}), Code::kRANGE);
  expect_failure(g.reduce(Op::kSub, a, Shape{0}), Code::kINTERNAL);
  expect_failure(g.reduce(Op::kAnd, a, Shape{0}), Code::kDTYPE);
  expect_failure(g.assign(a, f(0, {3, 2})), Code::kSHAPE);
  expect_failure(g.assign(a, g.param(0, DType::kInt8, Shape{2, 3})), Code::kDTYPE);
  expect_failure(g.bitcast(a, DType::kInt8), Code::kDTYPE);
  expect_failure(g.iota(DType::kInt32, -1), Code::kRANGE);
  expect_failure(g.cast(g.sink({}), DType::kInt32), Code::kDTYPE);
}

TEST_F(GraphTest, ConstantsMoveForFree) {
  const Node c = g.constant(DType::kFloat32, 2, Shape{2, 3});
  const auto is_two = [&](Node n, const Shape& shape) {
    return is_const(n) && const_double(n) == 2 && shape_of(n) == shape;
  };
  EXPECT_TRUE(is_two(g.reshape(c, Shape{6}), {6}));
  EXPECT_TRUE(is_two(g.permute(c, Shape{1, 0}), {3, 2}));
  EXPECT_TRUE(is_two(g.slice(c, Shape{1, 0}, Shape{1, 1}, Shape{1, 3}), {1, 3}));
  EXPECT_TRUE(is_two(g.flip(c, Shape{1, 1}), {2, 3}));
  EXPECT_TRUE(is_two(g.window(c, 1, 2, 1, 1), {2, 2, 2}));
  EXPECT_TRUE(
      is_two(g.cast(g.constant_int(DType::kInt8, 2, Shape{2, 3}), DType::kFloat32), {2, 3}));
  EXPECT_TRUE(is_const(g.alu(Op::kAdd, c, c)));
  EXPECT_EQ(g.pad(c, Shape{1, 0}, Shape{0, 0}, Shape{0, 0}, 0)->op, Op::kPad);
}

TEST_F(GraphTest, ToposortPutsSourcesFirst) {
  const Node a = f(0, {4}), b = g.alu(Op::kExp, a), c = g.alu(Op::kAdd, b, a);
  Vec<Node> order(heap);
  ASSERT_TRUE(toposort(&order, std::array{c, b}).ok());
  EXPECT_EQ((std::vector<Node>(order.begin(), order.end())), (std::vector<Node>{a, b, c}));
}

TEST_F(GraphTest, SubstituteReplacesInsideButNotInBodies) {
  const Node a = f(0, {4}), b = f(1, {4});
  const Node body = g.alu(Op::kExp, f(0, {4}));  // the same node as exp(a)
  const Node call = g.call(3, {}, body, std::array{g.alu(Op::kNeg, a)});
  Map<Node, Node> map(heap);
  ASSERT_TRUE(map.set(a, b).ok());
  Node out = nullptr;
  ASSERT_TRUE(g.substitute(&out, g.alu(Op::kAdd, call, a), map).ok());
  EXPECT_EQ(out->src(1), b);
  EXPECT_EQ(out->src(0)->src(0), body);
  EXPECT_EQ(out->src(0)->src(1), g.alu(Op::kNeg, b));
}

TEST_F(GraphTest, ChainsOfAHundredThousandDoNotRecurse) {
  constexpr int kLength = 100000;
  const Node start = f(0, {8}), c = f(1, {8});
  Node chain = start;
  for (int i = 0; i < kLength; ++i) chain = g.alu(i % 2 == 0 ? Op::kAdd : Op::kMul, chain, c);
  Vec<Node> order(heap);
  ASSERT_TRUE(toposort(&order, std::array{chain}).ok());
  EXPECT_EQ(order.size(), kLength + 2u);
  Text text(heap);
  ASSERT_TRUE(print(text, std::array{chain}).ok());
  EXPECT_EQ(std::count(text.view().begin(), text.view().end(), '\n'), kLength + 2);
  Map<Node, Node> map(heap);
  ASSERT_TRUE(map.set(c, g.constant(DType::kFloat32, 1, Shape{8})).ok());
  Node replaced = nullptr;
  ASSERT_TRUE(g.substitute(&replaced, chain, map).ok());
  Node simple = nullptr;
  ASSERT_TRUE(simplify_tensor(&simple, g, replaced).ok());  // the products by one go
  order.clear();
  ASSERT_TRUE(toposort(&order, std::array{simple}).ok());
  EXPECT_EQ(order.size(), kLength / 2 + 2u);
  Node sum = g.range(0, 8);
  for (int i = 0; i < kLength; ++i) {
    sum = g.make(i % 2 == 0 ? Op::kFloorMod : Op::kAdd, DType::kWeakInt,
                 std::array{sum, g.index(i % 2 == 0 ? 5 : 3)});
  }
  EXPECT_NE(sym::simplify(g, sum), nullptr);
  g.collect();
  EXPECT_EQ(g.node_count(), 0u);
}

TEST_F(GraphTest, ScratchGraphsAreDroppedWhole) {
  BlockPool pool(heap, 1 << 12);
  Arena arena(pool);
  {
    Graph scratch(arena, false);
    Node a = scratch.param(0, DType::kFloat32, Shape{4});
    for (int i = 0; i < 1000; ++i) a = scratch.alu(Op::kNeg, scratch.alu(Op::kAbs, a));
    scratch.retain(a);
    scratch.release(a);
    EXPECT_EQ(scratch.node_count(), 2001u);
  }
  EXPECT_GT(arena.bytes(), 0u);
}

TEST_F(GraphTest, OwnsItsNodesOnly) {
  Graph other(heap);
  const Node mine = f(0, {4}), theirs = other.param(0, DType::kFloat32, Shape{4});
  EXPECT_TRUE(g.owns(mine));
  EXPECT_FALSE(g.owns(theirs));
  EXPECT_FALSE(g.owns(nullptr));
}

TEST_F(GraphTest, BriefSaysDTypeAndShape) {
  EXPECT_STREQ(brief(f(0, {2, 3})).text, "float32[2, 3]");
  Shape deep(255, 1);
  deep[0] = 2;
  const std::string many = brief(g.reshape(f(0, {2}), deep)).text;
  EXPECT_EQ(many.substr(many.size() - 4), "...]");
}

}  // namespace
}  // namespace aster::uop
