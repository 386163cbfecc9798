// What grows with a graph, and what does not: launches, kernels, schedules.
#include "engine/world.h"

namespace aster::engine::testing {
namespace {

uint64_t distinct(World& w) {
  return w.engine().counters.kernels_compiled + w.engine().counters.kernels_cached;
}

TEST(Growth, ManyPartsAreFewKernels) {
  World w;
  std::vector<Node> parts;
  std::vector<float> expected;
  for (uint32_t i = 0; i < 300; ++i) {
    parts.push_back(w.random({2, 3}, i + 1));
    const std::vector<float> values = w.interpreted(parts.back());
    expected.insert(expected.end(), values.begin(), values.end());
  }
  const uint64_t before = distinct(w);
  EXPECT_EQ(w.compute(w.g().cat({parts.data(), parts.size()}, 0)), expected);
  EXPECT_EQ(w.engine().counters.last_kernels, 19u + 2u + 1u);
  EXPECT_LE(distinct(w) - before, 5u);
}

// Minibatches, say: parts of one tensor, realised as they are made.
TEST(Growth, ViewsAtOtherOffsetsFindTheirSchedule) {
  World w;
  uop::Graph& g = w.g();
  Node whole = w.random({8, 16});
  const std::vector<float> values = w.interpreted(whole);
  const uint64_t before = w.engine().counters.schedule_misses;
  for (int64_t i = 0; i < 8; ++i) {
    Node part =
        buffer_node(w.engine(), storage_of(whole), i * 16 * 4, DType::kFloat32, words({16}));
    const std::vector<float> got = w.compute(g.alu(Op::kAdd, part, part));
    for (size_t j = 0; j < 16; ++j) {
      EXPECT_EQ(got[j], 2 * values[static_cast<size_t>(i) * 16 + j]) << i << " " << j;
    }
  }
  EXPECT_EQ(w.engine().counters.schedule_misses - before, 1u);
}

// The gradients and updates of many layers, alike but for what they read; the rate is all they
// share.
TEST(Growth, UpdatesOfManyLayersAreFewKernels) {
  World w;
  uop::Graph& g = w.g();
  Node rate = w.leaf({0.5f}, {1});
  std::vector<Node> values;
  std::vector<std::vector<float>> expected;
  for (uint32_t i = 0; i < 48; ++i) {
    const bool second =
        (i * 2654435761u >> 20) % 2 == 0;  // of two kinds, which do not come in turn
    Node parameter = w.random({32}, 2 * i + 1), x = w.random({16, 32}, 2 * i + 2);
    Node term = second ? g.alu(Op::kMul, x, w.random({16, 32}, 100 + i)) : x;
    Node sum = w.reshape(w.sum(term, {0}), {32});
    values.push_back(g.alu(Op::kSub, parameter, g.alu(Op::kMul, sum, w.expand(rate, {32}))));
    expected.push_back(w.interpreted(values.back()));
  }
  std::vector<Lazy*> cells;
  for (Node value : values) cells.push_back(w.cell(value));
  const uint64_t before = distinct(w);
  w.realize(cells);
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::vector<float> got = w.read(cells[i]);
    for (size_t j = 0; j < got.size(); ++j) EXPECT_NEAR(got[j], expected[i][j], 1e-5) << i;
  }
  // Full ones of either kind, what is left of either, nothing that shows the rate 32 times.
  EXPECT_LE(distinct(w) - before, 5u);
  EXPECT_LE(w.engine().counters.last_kernels, 14u);
}

}  // namespace
}  // namespace aster::engine::testing
