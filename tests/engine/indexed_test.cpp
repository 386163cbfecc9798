// Gather, Scatter and Argsort in schedules: what they fuse with, where they read and write.
#include "engine/world.h"

namespace aster::engine::testing {
namespace {

constexpr DType kIndex = DType::kInt32;

// Indices as an integer tensor made from floats that lie in memory.
Node indices(World& w, const std::vector<float>& values, const Shape& shape) {
  return w.hold(w.g().cast(w.leaf(values, shape), kIndex));
}

TEST(Gather, RowsOfATableAreOneKernel) {
  World w;
  const std::vector<float> rows = {3, 0, 7, -1, 3, 8};  // two of them outside
  Node table = w.random({8, 20});
  Node index = indices(w, rows, {6, 1});
  Node wide = w.g().expand(index, words({6, 20}));
  Node y = w.hold(w.g().gather(table, std::array{wide}, words({-1, 1}), words({6, 20})));
  const std::vector<float> values = w.read(w.cell(table));
  std::vector<float> expected;
  for (float row : rows) {
    for (size_t i = 0; i < 20; ++i)
      expected.push_back(row < 0 || row > 7 ? 0 : values[static_cast<size_t>(row) * 20 + i]);
  }
  expect_values(w, y, expected, 1);
}

TEST(Gather, ComputedSourceAndIndexFuse) {
  World w;
  uop::Graph& g = w.g();
  const Shape shape = {5, 16};
  std::vector<float> at(80);
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<float>((i * 7) % 15);
  Node x = w.random(shape), index = indices(w, at, shape);
  Node next = g.alu(Op::kAdd, index, g.constant_int(kIndex, 1, words(shape)));
  Node source = g.alu(Op::kMul, x, x);
  Node y = w.hold(g.gather(source, std::array{next}, words({0, -1}), words(shape)));
  const std::vector<float> values = w.read(w.cell(x));
  std::vector<float> expected(80);
  for (size_t i = 0; i < 80; ++i) {
    const float v = values[i / 16 * 16 + (i * 7) % 15 + 1];
    expected[i] = v * v;
  }
  expect_values(w, y, expected, 1);
  // Through movement on both sides, and summed.
  Node turned =
      g.gather(g.permute(source, words({1, 0})), std::array{next}, words({-1, 0}), words(shape));
  Node total = w.hold(w.sum(g.flip(turned, words({0, 1})), {1}));
  std::vector<float> sums(5, 0);
  for (size_t i = 0; i < 80; ++i) sums[i / 16] += expected[i];
  expect_values(w, total, sums, 1);
}

TEST(Gather, ByGatheredIndices) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({10});
  Node first = indices(w, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {10});
  Node second = indices(w, {1, 3, 5}, {3});
  Node through = g.gather(first, std::array{second}, words({-1}), words({3}));
  Node y = w.hold(g.gather(x, std::array{through}, words({-1}), words({3})));
  const std::vector<float> v = w.read(w.cell(x));
  expect_values(w, y, {v[8], v[6], v[4]}, 1);
}

TEST(Gather, OfAReductionComputesItOnce) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({64, 512}), index = indices(w, {5, 63, 0, 5}, {4});
  Node sums = g.reshape(w.sum(x, {1}), words({64}));
  Node y = w.hold(g.gather(sums, std::array{index}, words({-1}), words({4})));
  const std::vector<float> v = w.read(w.cell(x));
  std::vector<float> expected;
  for (size_t row : {5u, 63u, 0u, 5u}) {
    double sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<double>(v[row * 512 + i]);
    expected.push_back(static_cast<float>(sum));
  }
  const std::vector<float> got = w.compute(y);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], expected[i], 1e-4);
}

TEST(Gather, ReadsStorageBeforeItIsAssigned) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({1, 2, 3, 4}, {4});
  Node back = indices(w, {3, 2, 1, 0}, {4});
  Node turned = g.gather(x, std::array{back}, words({-1}), words({4}));
  Lazy* target = w.cell(g.assign(x, turned));
  w.realize({target});
  EXPECT_EQ(w.read(target), (std::vector<float>{4, 3, 2, 1}));
}

TEST(Scatter, WritesAndAdds) {
  World w;
  uop::Graph& g = w.g();
  Node target = w.leaf({10, 20, 30, 40, 50}, {5}), value = w.leaf({1, 2, 3, 4}, {4});
  Node at = indices(w, {1, 3, 1, 9}, {4});
  Node written = w.hold(g.scatter(Op::kSink, target, value, std::array{at}, words({-1})));
  EXPECT_EQ(w.compute(written), (std::vector<float>{10, 3, 30, 2, 50}));
  Node added = w.hold(g.scatter(Op::kAdd, target, value, std::array{at}, words({-1})));
  EXPECT_EQ(w.compute(added), (std::vector<float>{10, 24, 30, 42, 50}));
  Node zeros = g.constant(DType::kFloat32, 0, words({5}));
  Node fresh = w.hold(g.scatter(Op::kAdd, zeros, value, std::array{at}, words({-1})));
  EXPECT_EQ(w.compute(fresh), (std::vector<float>{0, 4, 0, 2, 0}));
  // Into what is computed, and used by what is computed.
  Node doubled = g.alu(Op::kAdd, target, target);
  Node after = g.alu(Op::kNeg, g.scatter(Op::kMax, doubled, value, std::array{at}, words({-1})));
  EXPECT_EQ(w.compute(after), (std::vector<float>{-20, -40, -60, -80, -100}));
}

TEST(Scatter, IntoItsOwnStorage) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({1, 2, 3, 4}, {4}), value = w.leaf({7, 8}, {2});
  Node at = indices(w, {2, 0}, {2});
  Lazy* target = w.cell(g.assign(x, g.scatter(Op::kSink, x, value, std::array{at}, words({-1}))));
  w.realize({target});
  EXPECT_EQ(w.read(target), (std::vector<float>{8, 2, 7, 4}));
  EXPECT_EQ(w.engine().counters.last_kernels, 2u);  // the indices, then one write in place
}

// x[...] = v: what an index or a value repeats is not spelt out, what is known is not stored, and
// negative indices are counted from the end by the call itself.
TEST(Scatter, ReadsViews) {
  World w;
  uop::Graph& g = w.g();
  const std::vector<float> rows = {3, -1, -5, 0, -6, 5};  // the last two are outside
  Node x = w.random({5, 8}), at = indices(w, rows, {6, 1});
  w.compute(g.cast(at, DType::kFloat32));
  const auto from_end = [&](Node index, int64_t size) {
    const auto like = [&](int64_t c) { return g.constant_int(kIndex, c, index->shape()); };
    return g.alu(Op::kWhere, g.alu(Op::kCmpLt, index, like(0)), g.alu(Op::kAdd, index, like(size)),
                 index);
  };
  const auto spread = [&](Node index) { return w.expand(index, {6, 8}); };
  const auto check = [&](Node value, Node index, const char* what) {
    SCOPED_TRACE(what);
    Node y = w.hold(g.scatter(Op::kSink, x, value, std::array{index}, words({-1, 1})));
    w.check(y, 1);
  };
  const Lazy* const stored = w.cell(at);
  w.realize({w.cell(at)});
  at = stored->node;
  Node value = w.random({6, 8}, 2), row = w.random({1, 8}, 3);
  check(value, spread(from_end(at, 5)), "rows");
  check(w.expand(row, {6, 8}), spread(from_end(at, 5)), "one row");
  check(w.num(2.5, value), spread(from_end(at, 5)), "one number");
  check(value, from_end(spread(at), 5), "counted when spread");
  // Not from the end of this axis: what is computed is stored first.
  Node y =
      w.hold(g.scatter(Op::kSink, x, value, std::array{spread(from_end(at, 4))}, words({-1, 1})));
  w.check(y, 2);
  // A slice beside an index: columns 1, 4 and 7.
  Node steps = g.alu(Op::kMul, g.iota(kIndex, 3), g.constant_int(kIndex, 3, words({3})));
  Node columns = g.alu(Op::kAdd, steps, g.constant_int(kIndex, 1, words({3})));
  Node both[] = {w.expand(from_end(at, 5), {6, 3}), w.expand(w.reshape(columns, {1, 3}), {6, 3})};
  y = w.hold(g.scatter(Op::kSink, x, w.random({6, 3}, 4), both, words({-1, -2})));
  w.check(y, 1);
  // Beyond the axis: stored, and left out where it is outside.
  Node far = g.alu(Op::kAdd, steps, g.constant_int(kIndex, 3, words({3})));
  both[1] = w.expand(w.reshape(far, {1, 3}), {6, 3});
  y = w.hold(g.scatter(Op::kSink, x, w.random({6, 3}, 4), both, words({-1, -2})));
  w.check(y, 2);
  both[1] = g.constant_int(kIndex, 8, words({6, 3}));
  y = w.hold(g.scatter(Op::kSink, x, w.random({6, 3}, 4), both, words({-1, -2})));
  w.check(y, 1);
}

// A value that lies turned in memory is laid out first.
TEST(Scatter, OfATurnedValue) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({5, 6}), value = g.permute(w.random({6, 4}, 2), words({1, 0}));
  Node at = w.expand(indices(w, {4, 0, 2, 4}, {4, 1}), {4, 6});
  w.check(w.hold(g.scatter(Op::kSink, x, value, std::array{at}, words({-1, 1}))), 3);
}

TEST(Argsort, SortsByGathering) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({3, 1, 2, 1, 9, -1}, {2, 3});
  Node order = g.argsort(x, 1, false, 3);
  Node y = w.hold(g.gather(x, std::array{order}, words({0, -1}), words({2, 3})));
  EXPECT_EQ(w.compute(y), (std::vector<float>{1, 2, 3, -1, 1, 9}));
  Node top = g.argsort(x, 1, true, 1);
  Node best = w.hold(g.gather(x, std::array{top}, words({0, -1}), words({2, 1})));
  EXPECT_EQ(w.compute(best), (std::vector<float>{3, 9}));
}

// Values alone are sorted without their positions; with them, they are gathered.
TEST(Sort, OfValuesAlone) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({3, -1, 2, NAN, 0, -0.0f, 9, 2}, {2, 4});
  for (const bool descending : {false, true}) {
    Node order = g.argsort(x, 1, descending, 4);
    Node y = w.hold(g.gather(x, std::array{order}, words({0, -1}), words({2, 4})));
    Lazy* const values = w.cell(y);
    const std::vector<float> expected = w.interpreted(y);
    w.realize({values});
    EXPECT_EQ(w.engine().counters.last_kernels, 1u);
    Lazy* const again = w.cell(g.gather(x, std::array{order}, words({0, -1}), words({2, 4})));
    Lazy* const positions = w.cell(order);
    w.realize({again, positions});
    EXPECT_EQ(w.engine().counters.last_kernels, 2u);
    for (Lazy* cell : {values, again}) {
      const std::vector<float> got = w.read(cell);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), 32), 0);
    }
  }
  // Not the order of what is gathered, nor along its axis.
  Node order = g.argsort(x, 1, false, 4), other = w.random({2, 4});
  w.check(w.hold(g.gather(other, std::array{order}, words({0, -1}), words({2, 4}))), 2);
  Node square = w.random({4, 4}), down = g.argsort(square, 0, false, 4);
  w.check(w.hold(g.gather(square, std::array{down}, words({0, -1}), words({4, 4}))), 2);
}

}  // namespace
}  // namespace aster::engine::testing
