// Outputs realised one by one: what is kept of one for the others, and when it is not.
#include "engine/kept.h"

#include "engine/world.h"

namespace aster::engine::testing {
namespace {

constexpr Word kSize = 64;

// Two sums over one product.
struct Two {
  explicit Two(World& world) : w(world) {
    x = w.random({kSize, kSize}, 1), y = w.random({kSize, kSize}, 2);
    trunk = w.product(x, y);
    first = w.sum(w.g().alu(Op::kMax, trunk, w.num(0, trunk)), {0, 1});
    second = w.sum(w.g().alu(Op::kMul, trunk, trunk), {0, 1});
    a = w.cell(first), b = w.cell(second);
    expected_a = w.interpreted(first), expected_b = w.interpreted(second);
  }
  // Operations that a realize takes.
  uint64_t work(Lazy* cell) {
    const uint64_t before = w.engine().counters.operations;
    w.realize({cell});
    return w.engine().counters.operations - before;
  }
  void check() {
    EXPECT_NEAR(w.read(a)[0], expected_a[0], 1e-4 * std::fabs(expected_a[0]));
    EXPECT_NEAR(w.read(b)[0], expected_b[0], 1e-4 * std::fabs(expected_b[0]));
  }
  World& w;
  Node x, y, trunk, first, second;
  Lazy *a, *b;
  std::vector<float> expected_a, expected_b;
};

constexpr uint64_t kProduct = 2 * kSize * kSize * kSize;

TEST(Kept, ATrunkIsComputedOnce) {
  World w;
  Two two(w);
  EXPECT_GE(two.work(two.a), kProduct / 2);
  EXPECT_EQ(w.engine().kept_values.size(), 1u);
  EXPECT_LT(two.work(two.b), kProduct / 4);
  EXPECT_EQ(w.engine().kept_values.size(), 0u);  // nothing reads it any more
  EXPECT_EQ(w.engine().kept_bytes, 0);
  two.check();
}

// What is kept and then asked for is there; who asked may write it.
TEST(Kept, TheTrunkItself) {
  World w;
  Two two(w);
  Lazy* trunk = w.cell(two.trunk);
  const std::vector<float> expected = w.interpreted(two.trunk);
  w.realize({two.a});
  EXPECT_EQ(two.work(trunk), 0u);
  const std::vector<float> got = w.read(trunk);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4);
  w.realize({two.b});
  two.check();
}

TEST(Kept, NotForWhatNobodyReads) {
  World w;
  Two two(w);
  Lazy* gone = w.cell(w.g().alu(Op::kAdd, two.trunk, two.trunk));
  set_node(*gone, two.x);
  set_node(*two.b, two.x);
  w.realize({two.a});
  EXPECT_EQ(w.engine().kept_values.size(), 0u);
}

// An expression that is computed after a write reads what was written, all of it.
TEST(Kept, AWriteToWhatItIsComputedFrom) {
  for (const bool assigned_before : {false, true}) {
    World w;
    Two two(w);
    Lazy* x = w.cell(two.x);
    Node other = w.random({kSize, kSize}, 3);
    if (!assigned_before) w.realize({two.a});
    ASSERT_EQ(assign(w.engine(), *x, other).code, 0);
    if (assigned_before) w.realize({two.a});
    w.realize({x});
    EXPECT_EQ(w.engine().kept_values.size(), 0u);
    const std::vector<float> now = w.interpreted(two.second);  // reads the same memory
    w.realize({two.b});
    EXPECT_NEAR(w.read(two.b)[0], now[0], 1e-4 * std::fabs(now[0]));
    EXPECT_GT(std::fabs(now[0] - two.expected_b[0]), 1e-3);
  }
}

// t[i] = v computes what reads t before: of what was kept, too.
TEST(Kept, ReadersBeforeAWrite) {
  World w;
  Two two(w);
  Lazy* x = w.cell(two.x);
  w.realize({two.a});
  ASSERT_EQ(realize_readers(w.engine(), *x, nullptr).code, 0);
  ASSERT_EQ(assign(w.engine(), *x, w.random({kSize, kSize}, 3)).code, 0);
  w.realize({x});
  two.check();
}

TEST(Kept, NotFromMemoryThatOthersWrite) {
  World w;
  Two two(w);
  storage_of(two.y)->lent.store(true);
  w.realize({two.a});
  EXPECT_EQ(w.engine().kept_values.size(), 0u);
  w.realize({two.b});
  two.check();
}

// Elementwise work is done again: its value is as large as what it is made of.
TEST(Kept, NotWhatIsCheap) {
  World w;
  Node x = w.random({512, 512}, 1);
  Node cheap = w.g().alu(Op::kExp, x);
  Lazy* a = w.cell(w.sum(cheap, {0, 1}));
  Lazy* b = w.cell(w.sum(w.g().alu(Op::kMul, cheap, x), {0, 1}));
  w.realize({a});
  EXPECT_EQ(w.engine().kept_values.size(), 0u);
  w.realize({b});
}

}  // namespace
}  // namespace aster::engine::testing
