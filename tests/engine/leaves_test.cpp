// Pieces of Buffers as leaves: schedules that do not depend on where in its Buffer a piece lies.
#include "world.h"

namespace aster::engine::testing {
namespace {

// Elements [first, first + count) of axis 0.
Node rows(World& w, Node x, Word first, Word count) {
  Shape start(x->ndim, 0), step(x->ndim, 1), size(x->shape().begin(), x->shape().end());
  start[0] = first;
  size[0] = count;
  return w.g().slice(x, words(start), words(step), words(size));
}

void expect_schedules(World& w, uint64_t made, uint64_t found) {
  EXPECT_EQ(w.engine().counters.schedule_misses, made);
  EXPECT_EQ(w.engine().counters.schedule_hits, found);
}

TEST(Leaves, ASliceAtAnotherOffsetFindsTheSchedule) {
  World w;
  Node x = w.random({64, 6}), weights = w.random({6, 4}, 2);
  for (Word i = 0; i < 8; ++i) w.check(w.product(rows(w, x, 7 * i, 7), weights), 1);
  expect_schedules(w, 1, 7);
  // What is a Buffer of its own is the same.
  w.check(w.product(w.random({7, 6}, 3), weights), 1);
  expect_schedules(w, 1, 8);
}

TEST(Leaves, SlicesOfReshapedSlicesAreSlices) {
  World w;
  Node x = w.random({4, 6, 5});
  const auto part = [&](Word i, Word j) {
    return rows(w, w.reshape(rows(w, x, i, 1), {3, 10}), j, 2);
  };
  for (Word i = 0; i < 4; ++i) w.check(w.row_softmax(part(i, i % 2)), 1);
  expect_schedules(w, 1, 3);
}

TEST(Leaves, ApartWhereTheyLieMakesNoDifference) {
  World w;
  Node x = w.random({100});
  const auto sum = [&](std::vector<Word> firsts) {
    Node all = rows(w, x, firsts[0], 8);
    for (size_t i = 1; i < firsts.size(); ++i)
      all = w.g().alu(Op::kSub, all, rows(w, x, firsts[i], 8));
    return all;
  };
  w.check(sum({0, 20, 40}), 1);
  w.check(sum({3, 90, 12}), 1);
  w.check(sum({92, 1, 50}), 1);
  expect_schedules(w, 1, 2);
  // Next to each other is apart.
  w.check(sum({16, 8, 0}), 1);
  expect_schedules(w, 1, 3);
}

TEST(Leaves, HowTheyOverlapMakesADifference) {
  World w;
  Node x = w.random({100});
  const auto difference = [&](Word first, Word by) {
    return w.g().alu(Op::kSub, rows(w, x, first, 8), rows(w, x, first + by, 8));
  };
  for (Word i = 0; i < 5; ++i) w.check(difference(11 * i, 1), 1);
  expect_schedules(w, 1, 4);
  w.check(difference(30, 2), 1);
  expect_schedules(w, 2, 4);
  w.check(difference(5, 2), 1);
  expect_schedules(w, 2, 5);
}

TEST(Leaves, ABufferThatIsReadWholeIsOneLeaf) {
  World w;
  Node x = w.random({10, 4});
  const auto against = [&](Word i) {
    return w.g().alu(Op::kMul, x, w.expand(rows(w, x, i, 1), {10, 4}));
  };
  for (Word i = 0; i < 3; ++i) w.check(against(i), 1);
}

TEST(Leaves, EmptyAndStridedSlicesAreComputed) {
  World w;
  Node x = w.random({10, 4});
  EXPECT_TRUE(w.compute(w.g().alu(Op::kNeg, rows(w, x, 3, 0))).empty());
  const auto columns = [&](Word i) {
    return w.g().slice(x, words({1, i}), words({2, 2}), words({4, 2}));
  };
  w.check(w.g().alu(Op::kNeg, columns(0)), 1);
  w.check(w.g().alu(Op::kNeg, columns(1)), 1);
}

TEST(Leaves, SlicesAreWrittenWhereTheyLie) {
  World w;
  Node x = w.random({40});
  Lazy* whole = w.cell(x);
  std::vector<float> expected = w.read(whole);
  const auto write = [&](Word first) {
    Lazy* target = w.cell(rows(w, whole->node, first, 8));
    Node value = w.g().alu(Op::kAdd, target->node, rows(w, whole->node, first + 1, 8));
    ASSERT_EQ(assign(w.engine(), *target, value).code, 0);
    w.realize({target});
    const std::vector<float> before = expected;
    for (size_t i = static_cast<size_t>(first), end = i + 8; i < end; ++i)
      expected[i] = before[i] + before[i + 1];
    EXPECT_EQ(w.read(target),
              std::vector<float>(expected.begin() + first, expected.begin() + first + 8));
    EXPECT_EQ(w.read(whole), expected);
  };
  for (Word first : {0, 8, 3, 31}) write(first);
  expect_schedules(w, 1, 3);
}

}  // namespace
}  // namespace aster::engine::testing
