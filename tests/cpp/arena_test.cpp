// Arenas of the C++ wrapper.
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Arena;
using aster_ml::Tensor;

class ArenaTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(ArenaTest, WorkIsSharedOrNot) {
  const Tensor x(Floats{1, 2, 3});
  const Arena arena(ASTER_ML_ARENA_TOGETHER);
  OK(arena.ok());
  const Tensor y = arena.with([&] { return x * 2.f + 1.f; });
  const Tensor z = arena.with([&] { return y * y; });
  const Tensor other = x + 1.f;
  EXPECT_EQ(arena.counters().pending, 2u);
  EXPECT_EQ(arena.uop().op(), "Sink");
  OK(z.realize());
  EXPECT_TRUE(y.is_realized());
  EXPECT_FALSE(other.is_realized());
  EXPECT_EQ(arena.counters().plans, 1u);
  EXPECT_EQ(floats(z), (Floats{9, 25, 49}));
  OK(arena.add(other));
  OK(arena.realize());
  EXPECT_TRUE(other.is_realized());
  OK(arena.reset());
  EXPECT_EQ(arena.counters().plans, 0u);
  const uint64_t version = arena.counters().version;
  {
    const Arena::Open open(arena);
    OK(open.ok());
    const Tensor third = x - 1.f;
    EXPECT_GT(arena.counters().version, version);
  }
}

TEST_F(ArenaTest, Mistakes) {
  const Arena none(64);
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  const Arena::Open open(none);
  EXPECT_FALSE(open.ok());
  EXPECT_FALSE(none.realize());
}

}  // namespace
}  // namespace cpp_test
