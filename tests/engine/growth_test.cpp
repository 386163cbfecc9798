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

}  // namespace
}  // namespace aster::engine::testing
