// The interpreter on operations whose places depend on data; scatters, scans and sorts alone are
// held against the oracle in native_test.cpp.
#include "elements.h"

namespace aster::runtime::testing {
namespace {

class Indexed : public ::testing::Test {
 protected:
  template <typename T>
  Node leaf(DType d, const Shape& shape, const std::vector<T>& data) {
    const Node node = graph_.param(static_cast<int64_t>(kept_.size()), d, shape);
    kept_.emplace_back(data.size() * sizeof(T));
    if (!data.empty()) std::memcpy(kept_.back().data(), data.data(), kept_.back().size());
    bindings_.push_back({node, kept_.back().data()});
    EXPECT_EQ(kept_.back().size(), static_cast<size_t>(node->count()) * bytes_of(d));
    return node;
  }
  Node ints(const Shape& shape, const std::vector<int32_t>& data) {
    return leaf(DType::kInt32, shape, data);
  }
  Node floats(const Shape& shape, const std::vector<float>& data) {
    return leaf(DType::kFloat32, shape, data);
  }
  template <typename T>
  std::vector<T> value(Node node) {
    EXPECT_NE(node, nullptr) << last_error();
    std::vector<T> out(static_cast<size_t>(node->count()));
    const reference::Output output{node, out.data()};
    EXPECT_TRUE(reference::interpret(graph_, heap_, bindings_, {&output, 1}).ok()) << last_error();
    return out;
  }
  std::vector<float> real(Node node) { return value<float>(node); }

  Heap heap_{nullptr};
  Graph graph_{heap_};
  std::vector<Bytes> kept_;
  std::vector<reference::Binding> bindings_;
};

TEST_F(Indexed, GatherOfEveryDTypeAndPlace) {
  Random random(8);
  for (const DType d : kAll) {
    for (const Places& p : kPlaces) {
      SCOPED_TRACE(std::string(dtype::name(d)) + " of " + uop::brief_shape(p.target).text);
      Bytes x = values(d, product(p.target), random, true);
      const int64_t count = product(p.at);
      std::vector<DType> types;
      std::vector<Bytes> indices;
      std::vector<Node> nodes;
      std::vector<void*> operands = {x.data()};
      for (size_t i = 0; i < p.target.size(); ++i) {
        if (p.coordinates[i] < 0) types.push_back(kIndexTypes[draw(random, 0, 7)]);
      }
      for (size_t k = 0; k < types.size(); ++k) {
        indices.push_back(make_indices(types[k], count, 5, random));
        nodes.push_back(graph_.param(static_cast<int64_t>(10 + k), types[k], p.at));
      }
      for (Bytes& index : indices) operands.push_back(index.data());
      const Node node = graph_.gather(graph_.param(0, d, p.target), nodes, p.coordinates, p.at);
      ASSERT_NE(node, nullptr) << last_error();
      Bytes expected(static_cast<size_t>(count) * bytes_of(d));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t from = position(p, types, indices, i);
        store(d, expected, i, from < 0 ? Value() : load(d, x, from));
      }
      expect_same(node, interpret(graph_, node, operands), expected);
      if (HasFailure()) return;
    }
  }
}

// Sources and values that other operations make, read at other places, twice and as results.
TEST_F(Indexed, AmongOtherOperations) {
  const Node x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Node twice = graph_.alu(Op::kAdd, x, x);
  const Node turned = graph_.permute(twice, Shape{1, 0});  // [3, 2]
  const Node at = ints({2, 2}, {2, 0, 1, 3});
  const Node shifted = graph_.alu(Op::kSub, at, graph_.constant_int(DType::kInt32, 1, Shape{2, 2}));
  const Node picked = graph_.gather(turned, std::array{shifted}, Shape{-1, 1}, Shape{2, 2});
  // Rows 1, -1 (none); 0, 2 of [[2, 8], [4, 10], [6, 12]].
  EXPECT_EQ(real(picked), (std::vector<float>{4, 0, 2, 12}));
  const Node sums = graph_.scan(Op::kAdd, graph_.flip(picked, Shape{1, 0}), 0);
  EXPECT_EQ(real(sums), (std::vector<float>{2, 12, 6, 12}));
  const Node total = graph_.reduce(Op::kAdd, graph_.alu(Op::kMul, sums, picked), Shape{0, 1});
  EXPECT_EQ(real(total), (std::vector<float>{4 * 2 + 0 + 2 * 6 + 12 * 12}));
  const Node order = graph_.argsort(graph_.reshape(picked, Shape{4}), 0, true, 3);
  EXPECT_EQ(value<int32_t>(order), (std::vector<int32_t>{3, 0, 2}));
  const Node zeros = graph_.constant(DType::kFloat32, 0, Shape{4});
  const Node ones = graph_.constant(DType::kFloat32, 1, Shape{3});
  const Node counts = graph_.scatter(Op::kAdd, zeros, ones, std::array{order}, Shape{-1});
  EXPECT_EQ(real(counts), (std::vector<float>{1, 0, 1, 1}));
}

TEST_F(Indexed, EmptyOperands) {
  const Node none = floats({0, 3}, {});
  const Node at = ints({0}, {});
  const Node some = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(real(graph_.gather(none, std::array{ints({2}, {0, 1}), ints({2}, {0, 0})},
                               Shape{-1, -2}, Shape{2})),
            (std::vector<float>{0, 0}));
  EXPECT_TRUE(real(graph_.gather(some, std::array{at}, Shape{-1, 0}, Shape{0})).empty());
  EXPECT_EQ(graph_.scatter(Op::kAdd, some, none, std::array{ints({0, 3}, {})}, Shape{-1, 1}), some);
  EXPECT_TRUE(real(graph_.scan(Op::kAdd, none, 0)).empty());
  EXPECT_TRUE(value<int32_t>(graph_.argsort(none, 0, false, 0)).empty());
}

TEST_F(Indexed, EveryFailedAllocationIsAStatus) {
  const Node x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Node at = ints({4, 3}, {1, 0, 1, 0, 1, 0, 1, 0, 1, 5, 5, -5});
  const Node picked = graph_.gather(x, std::array{at}, Shape{-1, 1}, Shape{4, 3});
  const Node order = graph_.argsort(graph_.scan(Op::kAdd, picked, 0), 0, false, 4);
  const Node root =
      graph_.scatter(Op::kMax, graph_.contiguous(picked), picked, std::array{order}, Shape{-1, 1});
  const std::vector<float> expected = real(root);
  std::vector<float> out(12);
  const reference::Output output{root, out.data()};
  for (int64_t allowed = 0;; ++allowed) {
    ASSERT_LT(allowed, 10000);
    FailingHeap failing(allowed);
    const Status status = reference::interpret(graph_, failing, bindings_, {&output, 1});
    if (status.ok()) break;
    ASSERT_EQ(status, code(Code::kMEMORY));
  }
  EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace aster::runtime::testing
