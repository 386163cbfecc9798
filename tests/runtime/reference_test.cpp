// The interpreter: calls, assignments, memory, depth, failures. Values of every operation are in
// reference_oracle_test.cpp.
#include "runtime/reference/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "uop/uop.h"

namespace aster::runtime::reference {
namespace {

using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
using Shape = std::vector<int64_t>;

// Counts what is held and fails the request it is told to.
class FailingMemory : public Memory {
 public:
  FailingMemory() : Memory(this, get, put) {}
  int64_t fail_at = -1;  // number of requests until one fails; -1: never
  int64_t requests = 0;
  size_t held = 0, most = 0;

 private:
  static void* get(void* self, size_t bytes, size_t alignment) {
    auto* memory = static_cast<FailingMemory*>(self);
    if (memory->requests++ == memory->fail_at) return nullptr;
    const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    memory->held += bytes;
    memory->most = std::max(memory->most, memory->held);
    return std::aligned_alloc(alignment, rounded);
  }
  static void put(void* self, void* pointer, size_t bytes, size_t) {
    static_cast<FailingMemory*>(self)->held -= bytes;
    std::free(pointer);
  }
};

class Interpret : public ::testing::Test {
 protected:
  FailingMemory graph_memory;
  Graph graph{graph_memory};
  FailingMemory memory;
  std::vector<Binding> bindings;
  int64_t buffers = 0;

  Node buffer(DType dtype, const Shape& shape, void* data) {
    Node node = graph.make(Op::kBuffer, dtype, {}, Shape{buffers++}, shape);
    bindings.push_back({node, data});
    return node;
  }
  template <typename T>
  Node from(std::vector<T>& values, DType dtype, const Shape& shape) {
    return buffer(dtype, shape, values.data());
  }
  Node floats(std::vector<float>& values, Shape shape = {}) {
    if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
    return from(values, DType::kFloat32, shape);
  }
  Status run(Node node, void* data) {
    return interpret(graph, memory, bindings, std::array{Output{node, data}});
  }
  template <typename T = float>
  std::vector<T> value(Node node) {
    std::vector<T> out(static_cast<size_t>(node->count()));
    EXPECT_TRUE(run(node, out.data()).ok());
    EXPECT_EQ(memory.held, 0u);
    return out;
  }
};

std::vector<float> counting(size_t n, float first = 0) {
  std::vector<float> out(n);
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST_F(Interpret, ReadsThroughMovement) {
  std::vector<float> x = counting(6);
  Node y = graph.permute(floats(x, {2, 3}), Shape{1, 0});
  EXPECT_EQ(value(y), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  y = graph.reshape(y, Shape{2, 3});
  y = graph.flip(y, Shape{0, 1});
  EXPECT_EQ(value(y), (std::vector<float>{1, 3, 0, 5, 2, 4}));
  EXPECT_EQ(value(graph.reduce(Op::kAdd, y, Shape{1})), (std::vector<float>{4, 11}));
}

TEST_F(Interpret, ScalarsAndNothing) {
  std::vector<float> x = {3};
  Node a = buffer(DType::kFloat32, {}, x.data());
  EXPECT_EQ(value(graph.alu(Op::kMul, a, a)), std::vector<float>{9});
  EXPECT_EQ(value(graph.constant(DType::kFloat32, 2.5)), std::vector<float>{2.5f});
  Node none = buffer(DType::kFloat32, {2, 0}, nullptr);
  EXPECT_EQ(value(graph.alu(Op::kAdd, none, none)), std::vector<float>{});
  const std::array<int64_t, 1> last = {1};
  EXPECT_EQ(value(graph.reduce(Op::kAdd, none, last)), (std::vector<float>{0, 0}));
  EXPECT_EQ(value(graph.reduce(Op::kMul, none, last)), (std::vector<float>{1, 1}));
  EXPECT_EQ(value(graph.reduce(Op::kMax, none, last)), (std::vector<float>{-INFINITY, -INFINITY}));
  Node bytes = buffer(DType::kInt8, {2, 0}, nullptr);
  EXPECT_EQ(value<int8_t>(graph.reduce(Op::kMin, bytes, last)), (std::vector<int8_t>{127, 127}));
  std::vector<float> some = {1, 2};
  EXPECT_EQ(value(graph.cat(std::array{none, graph.reshape(floats(some), Shape{2, 1}), none}, 1)),
            some);
}

TEST_F(Interpret, WeakDtypes) {
  Node count = graph.iota(DType::kWeakInt, 3);
  Node big =
      graph.alu(Op::kMul, count, graph.constant_int(DType::kWeakInt, int64_t{1} << 40, Shape{3}));
  EXPECT_EQ(value<int64_t>(big), (std::vector<int64_t>{0, int64_t{1} << 40, int64_t{2} << 40}));
  Node third = graph.alu(Op::kDiv, graph.cast(count, DType::kWeakFloat),
                         graph.constant(DType::kWeakFloat, 3, Shape{3}));
  EXPECT_EQ(value<double>(third), (std::vector<double>{0, 1.0 / 3, 2.0 / 3}));
  EXPECT_EQ(value<float>(graph.cast(third, DType::kFloat32)),
            (std::vector<float>{0, 1.0f / 3, 2.0f / 3}));
}

TEST_F(Interpret, SharedValuesAtDifferentPlaces) {
  // Doubles the number of places at every level: has to keep what is shared.
  std::vector<float> x = counting(8);
  Node y = floats(x);
  std::vector<float> want = x;
  for (int level = 0; level < 60; ++level) {
    y = graph.alu(Op::kAdd, y, graph.flip(y, Shape{1}));
    y = graph.alu(Op::kMul, y, graph.constant(DType::kFloat32, 0.5, y->shape()));
    for (size_t i = 0; i < 4; ++i) want[i] = want[7 - i] = (want[i] + want[7 - i]) * 0.5f;
  }
  EXPECT_EQ(value(y), want);
}

TEST_F(Interpret, LongChains) {
  std::vector<float> x = {0, 1};
  const Node one = graph.constant(DType::kFloat32, 1, Shape{2});
  Node left = floats(x), right = left, moved = left, sums = left;
  for (int i = 0; i < 100000; ++i) {
    left = graph.alu(Op::kAdd, left, one);
    right = graph.alu(Op::kSub, one, right);
  }
  for (int i = 0; i < 50000; ++i) {
    moved = graph.pad(graph.flip(moved, Shape{1}), Shape{0}, Shape{1}, Shape{0}, 0);
    moved = graph.slice(moved, Shape{0}, Shape{1}, Shape{2});
    sums = graph.expand(graph.reduce(Op::kMax, sums, Shape{0}), Shape{2});
  }
  EXPECT_EQ(value(left), (std::vector<float>{100000, 100001}));
  EXPECT_EQ(value(right), x);
  EXPECT_EQ(value(moved), x);
  EXPECT_EQ(value(sums), (std::vector<float>{1, 1}));
}

TEST_F(Interpret, ManyOperandsAtOnce) {
  // A balanced tree over leaves that are all read elsewhere.
  std::vector<float> x = counting(3000);
  Node all = floats(x);
  std::vector<Node> level;
  for (int64_t i = 0; i < 3000; ++i)
    level.push_back(graph.slice(all, Shape{i}, Shape{1}, Shape{1}));
  while (level.size() > 1) {
    std::vector<Node> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(graph.alu(Op::kAdd, level[i], level[i + 1]));
    }
    if (level.size() % 2 != 0) next.push_back(level.back());
    level = next;
  }
  EXPECT_EQ(value(level[0]), std::vector<float>{3000.0f * 2999 / 2});
  EXPECT_EQ(value(graph.cat(std::vector<Node>{level[0], level[0], all}, 0))[4], 2.0f);
}

TEST_F(Interpret, MatrixProductInLittleMemory) {
  const int64_t n = 320;
  const size_t count = static_cast<size_t>(n * n);
  std::vector<float> a(count), b(count);
  for (size_t i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i * 37 % 101) - 50;
    b[i] = static_cast<float>(i * 53 % 89) - 44;
  }
  const Shape cube = {n, n, n};
  Node left = graph.expand(graph.reshape(floats(a, {n, n}), Shape{n, 1, n}), cube);
  Node turned = graph.permute(floats(b, {n, n}), Shape{1, 0});
  Node right = graph.expand(graph.reshape(turned, Shape{1, n, n}), cube);
  Node product = graph.reduce(Op::kAdd, graph.alu(Op::kMul, left, right), Shape{2});
  memory.most = 0;
  const std::vector<float> got = value(product);
  EXPECT_LT(memory.most, size_t{1} << 20);
  for (size_t i = 0; i < count; i += 977) {
    const size_t row = i / static_cast<size_t>(n), column = i % static_cast<size_t>(n);
    double want = 0;
    for (size_t k = 0; k < static_cast<size_t>(n); ++k) {
      want += double(a[row * static_cast<size_t>(n) + k]) *
              double(b[k * static_cast<size_t>(n) + column]);
    }
    EXPECT_EQ(double(got[i]), want);
  }
}

TEST_F(Interpret, LongReductionsAndOddStrips) {
  // Lengths around the strip and the short axis, reduced over every set of axes.
  for (const Shape& shape : {Shape{3, 515, 2}, Shape{1025}, Shape{2, 17, 1, 16}, Shape{700, 3}}) {
    size_t count = 1;
    for (int64_t dim : shape) count *= static_cast<size_t>(dim);
    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>((i * 7919) % 1001) - 500;
    bindings.clear();
    Node node = floats(x, shape);
    for (unsigned set = 1; set < 1u << shape.size(); ++set) {
      Shape axes;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if ((set >> axis & 1) != 0) axes.push_back(static_cast<int64_t>(axis));
      }
      Node y = graph.reduce(Op::kAdd, node, axes);
      std::vector<double> want(static_cast<size_t>(y->count()));
      for (size_t i = 0; i < count; ++i) {
        size_t rest = i, place = 0, stride = 1;
        for (size_t axis = shape.size(); axis-- > 0;) {
          const size_t dim = static_cast<size_t>(shape[axis]);
          if ((set >> axis & 1) == 0) place += rest % dim * stride, stride *= dim;
          rest /= dim;
        }
        want[place] += double(x[i]);
      }
      const std::vector<float> got = value(y);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(double(got[i]), want[i]);
    }
  }
}

TEST_F(Interpret, CallsAreInlined) {
  const Shape shape = {2};
  Node p0 = graph.param(0, DType::kFloat32, shape), p1 = graph.param(1, DType::kFloat32, shape);
  Node difference = graph.alu(Op::kSub, p0, p1);
  std::vector<float> x = {5, 7}, y = {1, 2};
  Node a = floats(x), b = floats(y);
  // The outer body calls the inner one with its own Params swapped.
  Node inner = graph.call(0, {}, difference, std::array{p1, p0});
  Node outer_body = graph.alu(Op::kMul, inner, p0);
  Node outer = graph.call(1, {}, outer_body, std::array{a, b});
  EXPECT_EQ(value(outer), (std::vector<float>{(1 - 5) * 5, (2 - 7) * 7}));
  Node nested = graph.call(0, {}, difference, std::array{outer, graph.alu(Op::kNeg, outer)});
  EXPECT_EQ(value(nested), (std::vector<float>{-40, -70}));
  // A Param that is bound outside keeps its meaning there.
  bindings.push_back({p0, y.data()});
  EXPECT_EQ(value(graph.call(0, {}, difference, std::array{a, p0})), (std::vector<float>{4, 5}));
  EXPECT_EQ(run(graph.call(0, {}, difference, std::array{a}), x.data()).code,
            static_cast<int32_t>(Code::kARGUMENT));

  Node both = graph.make(Op::kTuple, DType::kNone, std::array{difference, p0});
  Node call = graph.make(Op::kCall, DType::kNone, std::array{both, a, b}, Shape{0});
  const auto item = [&](int64_t i) {
    return graph.make(Op::kItem, DType::kFloat32, std::array{call}, std::array{i}, shape);
  };
  EXPECT_EQ(value(graph.alu(Op::kAdd, item(0), item(1))), (std::vector<float>{9, 12}));
  EXPECT_EQ(run(item(2), x.data()).code, static_cast<int32_t>(Code::kARGUMENT));
}

TEST_F(Interpret, AssignsHappenAtTheEnd) {
  std::vector<float> x = counting(6), y(6), z(6);
  Node a = floats(x);
  Node back = graph.flip(a, Shape{1});
  Node assign = graph.assign(back, graph.alu(Op::kAdd, a, a));  // reads what it overwrites
  Node other = graph.alu(Op::kAdd, a, graph.constant(DType::kFloat32, 100, a->shape()));
  ASSERT_TRUE(interpret(graph, memory, bindings,
                        std::array{Output{assign, y.data()}, Output{other, z.data()}})
                  .ok());
  EXPECT_EQ(y, (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(z, counting(6, 100));
  EXPECT_EQ(x, (std::vector<float>{10, 8, 6, 4, 2, 0}));
}

TEST_F(Interpret, AssignsThroughViews) {
  std::vector<float> x = counting(12), ones(2, 1), out(2);
  Node view = graph.permute(floats(x, {3, 4}), Shape{1, 0});
  view = graph.slice(view, Shape{1, 0}, Shape{2, 2}, Shape{2, 1});
  Node assign = graph.assign(graph.reshape(view, Shape{2}), floats(ones));
  ASSERT_TRUE(run(assign, out.data()).ok());
  std::vector<float> want = counting(12);
  want[1] = want[3] = 1;
  EXPECT_EQ(x, want);
  // Bits through a view of another dtype.
  Node bits = graph.bitcast(bindings[0].leaf, DType::kInt32);
  std::vector<int32_t> words(12);
  ASSERT_TRUE(run(graph.assign(bits, graph.constant_int(DType::kInt32, 0x40490fdb, bits->shape())),
                  words.data())
                  .ok());
  EXPECT_EQ(x[7], 3.14159274f);
}

TEST_F(Interpret, AfterSeesTheWrites) {
  std::vector<float> x = counting(4), out(4);
  Node a = floats(x);
  const auto half = [&](Node of, int64_t start) {
    return graph.slice(of, Shape{start}, Shape{1}, Shape{2});
  };
  const auto twos = graph.constant(DType::kFloat32, 2, Shape{2});
  Node first = graph.after(a, std::array{graph.assign(half(a, 0), twos)});
  // The second assignment reads the buffer after the first, and writes over part of it.
  Node shifted = graph.alu(Op::kMul, half(first, 1), twos);
  Node second = graph.after(first, std::array{graph.assign(half(first, 1), shifted)});
  EXPECT_EQ(value(graph.alu(Op::kSub, second, a)), (std::vector<float>{2, 3, 2, 0}));
  EXPECT_EQ(x, (std::vector<float>{2, 4, 4, 3}));
  // What views no storage has its value.
  std::iota(x.begin(), x.end(), 0.0f);
  Node sum = graph.alu(Op::kAdd, a, a);
  EXPECT_EQ(value(graph.after(sum, std::array{graph.assign(half(a, 0), twos)})),
            (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(x, (std::vector<float>{2, 2, 2, 3}));
}

TEST_F(Interpret, OutputsOverBindings) {
  std::vector<float> x = counting(4);
  Node a = floats(x);
  Node y = graph.flip(a, Shape{1});
  ASSERT_TRUE(run(y, x.data()).ok());
  EXPECT_EQ(x, (std::vector<float>{3, 2, 1, 0}));
  std::vector<float> one(4), two(4);
  ASSERT_TRUE(
      interpret(graph, memory, bindings,
                std::array{Output{a, one.data()}, Output{a, two.data()}, Output{y, x.data()}})
          .ok());
  EXPECT_EQ(one, (std::vector<float>{3, 2, 1, 0}));
  EXPECT_EQ(two, one);
  EXPECT_EQ(x, counting(4));
}

TEST_F(Interpret, BadInput) {
  const auto code = [](Status status) { return static_cast<Code>(status.code); };
  std::vector<float> x = counting(4), out(4);
  Node bound = floats(x);
  Node unbound = graph.make(Op::kBuffer, DType::kFloat32, {}, Shape{77}, Shape{4});
  EXPECT_EQ(code(run(graph.alu(Op::kAdd, bound, unbound), out.data())), Code::kARGUMENT);
  EXPECT_EQ(code(run(graph.assign(unbound, bound), out.data())), Code::kARGUMENT);
  Node doubled = graph.alu(Op::kAdd, bound, bound);
  EXPECT_EQ(code(run(graph.assign(doubled, bound), out.data())), Code::kARGUMENT);
  EXPECT_EQ(code(run(doubled, nullptr)), Code::kARGUMENT);
  EXPECT_EQ(code(run(graph.range(0, 4), out.data())), Code::kUNSUPPORTED);
  EXPECT_EQ(code(run(graph.sink(std::array{bound}), out.data())), Code::kUNSUPPORTED);
  bindings[0].data = nullptr;
  EXPECT_EQ(code(run(doubled, out.data())), Code::kARGUMENT);
  EXPECT_NE(run(nullptr, out.data()).code, 0);
  EXPECT_EQ(memory.held, 0u);
}

TEST_F(Interpret, EveryAllocationMayFail) {
  std::vector<float> x = counting(12), kept = x, out(12), sum(1);
  Node a = floats(x, {3, 4});
  Node p = graph.param(0, DType::kFloat32, a->shape());
  Node call = graph.call(0, {}, graph.alu(Op::kExp, p), std::array{a});
  Node total = graph.reduce(Op::kAdd, call, Shape{0, 1});
  Node y = graph.alu(Op::kDiv, call, graph.expand(total, a->shape()));
  y = graph.flip(y, Shape{1, 0});
  Node after = graph.after(a, std::array{graph.assign(graph.flip(a, Shape{0, 1}), y)});
  const std::array outputs = {Output{graph.alu(Op::kAdd, after, y), out.data()},
                              Output{total, sum.data()}};
  for (const Output& output : outputs) graph.retain(output.node);
  for (FailingMemory* failing : {&memory, &graph_memory}) {
    int64_t failures = 0;
    for (;; ++failures) {
      graph.collect();
      failing->requests = 0;
      failing->fail_at = failures;
      const Status status = interpret(graph, memory, bindings, outputs);
      failing->fail_at = -1;
      EXPECT_EQ(memory.held, 0u);
      if (status.ok()) break;
      ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY));
      ASSERT_EQ(x, kept);  // nothing assigned
    }
    EXPECT_GT(failures, failing == &memory ? 20 : 0);
    EXPECT_NE(x, kept);
    x = kept;
  }
}

}  // namespace
}  // namespace aster::runtime::reference
