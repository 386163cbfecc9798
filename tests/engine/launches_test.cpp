// Small launches that do not know of each other run side by side.
#include "engine/world.h"

namespace aster::engine::testing {
namespace {

aster_ml_context_options by_threads(int32_t threads) {
  aster_ml_context_options options{};
  options.threads = threads;
  return options;
}

// How many launches of the last schedule have others beside them.
uint32_t together(World& w) {
  uint32_t out = 0;
  const Executable& exe = *w.engine().last;
  for (size_t i = 0; i < exe.launches.size(); i += exe.launches[i].beside)
    out += exe.launches[i].beside > 1 ? exe.launches[i].beside : 0;
  return out;
}

// Products of several inputs, of sizes that no kernel shares.
std::vector<Node> products(World& w, Word count) {
  std::vector<Node> out;
  for (Word i = 0; i < count; ++i) {
    const auto seed = static_cast<uint32_t>(i);
    const Node a = w.random({24 + i, 40}, 2 * seed + 1), b = w.random({40, 32}, 2 * seed + 2);
    out.push_back(w.hold(w.product(a, b)));
  }
  return out;
}

TEST(Launches, ThatAreIndependentAndSmallAreTogether) {
  World w(by_threads(4));
  const std::vector<Node> made = products(w, 6);
  std::vector<Lazy*> cells;
  for (const Node node : made) cells.push_back(w.cell(node));
  w.realize(cells);
  EXPECT_EQ(w.engine().last->launches.size(), 6u);
  EXPECT_EQ(together(w), 6u);
  for (size_t i = 0; i < made.size(); ++i) {
    const std::vector<float> want = w.interpreted(made[i]), got = w.read(cells[i]);
    for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], want[j], 1e-4) << i << " " << j;
  }
}

TEST(Launches, ThatReadWhatOthersWriteAreNot) {
  World w(by_threads(4));
  Node x = w.random({32, 32}, 1);
  const Node y = w.random({32, 32}, 2);
  for (int i = 0; i < 5; ++i) x = w.product(x, y);
  w.hold(x);
  const std::vector<float> got = w.compute(x);
  EXPECT_EQ(w.engine().last->launches.size(), 5u);
  EXPECT_EQ(together(w), 0u);
  const std::vector<float> want = w.interpreted(x);
  for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], want[j], 1e-2) << j;
}

// What is written in place has its place among what reads it.
TEST(Launches, InPlaceGoAlone) {
  World w(by_threads(4));
  const std::vector<Node> made = products(w, 4);
  Lazy* const target = w.cell(w.random({40, 32}, 9));
  const Node before = w.hold(w.product(w.random({8, 40}, 10), target->node));
  const std::vector<float> want = w.interpreted(before);
  std::vector<Lazy*> cells;
  for (const Node node : made) cells.push_back(w.cell(node));
  cells.push_back(w.cell(before));
  ASSERT_EQ(assign(w.engine(), *target, w.num(0, target->node)).code, 0);
  cells.push_back(target);
  w.realize(cells);
  const std::vector<float> got = w.read(cells[4]);
  for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], want[j], 1e-4) << j;
  for (const float value : w.read(target)) ASSERT_EQ(value, 0);
  for (const Launch& launch : w.engine().last->launches) {
    EXPECT_TRUE(!launch.writes || launch.beside == 1);
  }
}

// Again and again, by more threads than there are cores: the same bits as one after the other.
TEST(Launches, ThreadsChangeNoBits) {
  std::vector<std::vector<float>> want;
  for (const int32_t threads : {1, 2, 7, 16}) {
    World w(by_threads(threads));
    const std::vector<Node> made = products(w, 9);
    for (int round = 0; round < 50; ++round) {
      std::vector<Lazy*> cells;
      for (const Node node : made) cells.push_back(w.cell(w.hold(node)));
      w.realize(cells);
      std::vector<std::vector<float>> got;
      for (Lazy* const cell : cells) got.push_back(w.read(cell));
      if (want.empty()) want = got;
      ASSERT_EQ(got, want) << threads << " threads, round " << round;
    }
  }
}

}  // namespace
}  // namespace aster::engine::testing
