#include "engine/rangeify.h"
#include "engine/world.h"
#include "uop/composite.h"

namespace aster::engine::testing {
namespace {

TEST(Realize, SumOfProduct) {
  World w;
  Node x = w.random({40, 30}), weight = w.random({40, 30}, 2), bias = w.random({1, 30}, 3);
  Node y = w.hold(w.g().alu(Op::kAdd, w.g().alu(Op::kMul, x, weight), w.expand(bias, {40, 30})));
  w.check(w.sum(y, {0, 1}), 1);
  w.check(w.sum(y, {0}), 1);
  w.check(w.sum(y, {1}), 1);
}

TEST(Realize, ElementwiseChainIsOneKernel) {
  World w;
  Node x = w.random({100}), y = x;
  for (int i = 0; i < 100; ++i) y = w.g().alu(Op::kAdd, y, x);
  w.check(y, 1);
}

TEST(Realize, SoftmaxRowsAreOneKernel) {
  World w;
  w.check(w.row_softmax(w.random({64, 33})), 1);
}

// Where the last axis is none of those reduced, strips of it are worked on together.
TEST(Realize, NormalisedMiddleAxesAreOneKernel) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({3, 24, 640});
  const auto over = [&](Node node) { return w.expand(w.sum(node, {1}), {3, 24, 640}); };
  Node centred = g.alu(Op::kSub, x, g.alu(Op::kMul, over(x), w.num(1.0 / 24, x)));
  Node variance = over(g.alu(Op::kMul, centred, centred));
  Node scale = g.alu(Op::kSqrt, g.alu(Op::kAdd, variance, w.num(0.5, x)));
  w.check(g.alu(Op::kDiv, centred, scale), 1);
}

TEST(Realize, SoftmaxOfAProductKeepsTheProduct) {
  World w;
  Node a = w.random({32, 8}), b = w.random({8, 24}, 2);
  w.check(w.row_softmax(w.product(a, b)), 2);
}

TEST(Realize, ProductWithEpilogue) {
  World w;
  Node y = w.product(w.random({12, 8}), w.random({8, 20}, 2));
  y = w.g().alu(Op::kAdd, y, w.expand(w.random({1, 20}, 3), {12, 20}));
  w.check(w.g().alu(Op::kMax, y, w.num(0, y)), 1);
}

TEST(Realize, MovementFusesAway) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({6, 10});
  w.check(g.permute(x, words({1, 0})), 1);
  w.check(g.flip(x, words({1, 1})), 1);
  w.check(g.pad(x, words({1, 2}), words({0, 3}), words({0, 1}), 0), 1);
  w.check(g.pad(g.alu(Op::kExp, x), words({1, 2}), words({0, 3}), words({1, 0}), 0), 1);
  w.check(g.slice(x, words({1, 0}), words({2, 3}), words({3, 4})), 1);
  w.check(g.reshape(g.permute(x, words({1, 0})), words({4, 15})), 1);
  w.check(g.window(x, 1, 3, 2, 2), 1);
  w.check(w.sum(g.unwindow(g.window(x, 1, 3, 2, 1), 1, 10, 2, 1), {2}), 1);
  w.check(g.cat(std::array{x, g.flip(x, words({0, 1})), g.alu(Op::kNeg, x)}, 1), 1);
}

// Products of the steps of a sequence by one matrix are one, in whatever order they are asked for.
TEST(Realize, RowsByOneMatrixAreOneProduct) {
  World w;
  uop::Graph& g = w.g();
  const Node x = w.random({6, 8, 40}), weights = w.random({40, 80}, 2),
             other = w.random({8, 40}, 3);
  Node sum = nullptr;
  for (const Word t : {3, 0, 5, 1, 4, 2}) {
    const Node row = g.slice(x, words({t, 0, 0}), words({1, 1, 1}), words({1, 8, 40}));
    const Node product = uop::build_matmul(g, w.reshape(row, {8, 40}), weights);
    sum = g.alu(Op::kTanh, sum == nullptr ? product : g.alu(Op::kAdd, product, sum));
  }
  sum = g.alu(Op::kAdd, sum, uop::build_matmul(g, other, weights));
  w.check(w.hold(sum), 3);
}

// What is stored of windows along the last axis lies window behind window, element by element.
TEST(Realize, WindowsThatAreStored) {
  for (const Word columns : {37, 60}) {
    World w;
    uop::Graph& g = w.g();
    const Node x = w.random({2, 3, 20, columns});
    const Node windows = g.window(g.window(x, 2, 3, 2, 1), 4, 3, 2, 1);
    const Node value = g.alu(Op::kMul, g.alu(Op::kSin, windows), g.alu(Op::kExp, windows));
    const Node back = g.unwindow(g.unwindow(value, 4, columns, 2, 1), 2, 20, 2, 1);
    const Node sum = w.reshape(w.sum(back, {3, 5}), {2, 3, 20, columns});
    w.check(g.alu(Op::kAdd, x, sum), 2);
  }
}

// Numbers that are a result as well are counted again in what pads them: a load of that result
// would reach outside of it.
TEST(Realize, PaddingAroundCountedNumbersReadsNoMemory) {
  uop::Graph g(process_heap());
  BlockPool blocks(process_heap(), 4096);
  Arena memory(blocks);
  Schedule schedule(process_heap());
  const Node counted = g.iota(DType::kInt32, 9);
  const Node padded = g.pad(counted, words({40}), words({7}), words({0}), 1);
  ASSERT_TRUE(rangeify(&schedule, memory, g, {}, g.sink(std::array{counted, padded}), true).ok());
  ASSERT_EQ(schedule.items.size(), 2u);
  for (const Item& item : schedule.items) EXPECT_EQ(item.operand_count, 1u);  // its result
}

// So are parts with sums of rows inside, but not those that are little more than a product.
TEST(Realize, PartsWithReductionsInside) {
  const auto stores = [](auto part) {  // of the last kernel
    uop::Graph g(process_heap());
    BlockPool blocks(process_heap(), 4096);
    Arena memory(blocks);
    Schedule schedule(process_heap());
    const Node x = g.param(0, DType::kFloat32, words({128, 1024}));
    const Node row = g.cat(std::array{part(g, x, Op::kSin), part(g, x, Op::kNeg)}, 1);
    std::vector<LeafRegion> regions{{0, 0, 128 * 1024 * 4}};
    EXPECT_TRUE(rangeify(&schedule, memory, g, regions, g.sink(std::array{row}), true).ok());
    return schedule.items.back().kernel->nsrc;
  };
  const auto sum = [](uop::Graph& g, Node x) {
    return g.expand(g.reduce(Op::kAdd, x, words({1})), x->shape());
  };
  const auto product = [](uop::Graph& g, Node x) {
    const Node a = g.expand(g.reshape(x, words({128, 1, 1024})), words({128, 128, 1024}));
    const Node b = g.expand(g.reshape(x, words({1, 128, 1024})), words({128, 128, 1024}));
    return g.reshape(g.reduce(Op::kAdd, g.alu(Op::kMul, a, b), words({2})), words({128, 128}));
  };
  EXPECT_EQ(stores([&](uop::Graph& g, Node x, Op op) {
              return g.alu(Op::kMul, g.alu(op, x), sum(g, x));
            }),
            2u);
  EXPECT_EQ(stores([&](uop::Graph& g, Node x, Op op) {
              return g.alu(Op::kNeg, product(g, g.alu(op, x)));
            }),
            1u);
}

// Parts that lie one behind the other are results of one loop: none chooses among them.
// What is read of the concatenation lies in its padding alone.
TEST(Realize, PaddingAroundJoinedParts) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({4, 2}), y = w.random({4, 2}, 2), z = w.random({49}, 3);
  Node joined = g.reshape(g.cat(std::array{x, g.alu(Op::kAdd, y, y)}, 0), words({16}));
  Node padded = g.pad(joined, words({13}), words({20}), words({0}), 0);
  Node sum = g.alu(Op::kMul, g.alu(Op::kAdd, z, padded), z);
  w.check(w.hold(g.slice(sum, words({36}), words({1}), words({6}))), 1);
}

// What is kept in memory for readers that turn out to read none of it is not computed.
TEST(Realize, WhatNothingReadsIsNotComputed) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({16}), z = w.random({49}, 3), a = w.random({64, 64}, 4);
  const auto around = [&](Node node) {  // of which only padding is read
    Node padded = g.pad(node, words({13}), words({20}), words({0}), 0);
    return w.hold(g.slice(g.alu(Op::kAdd, z, padded), words({36}), words({1}), words({6})));
  };
  w.check(around(g.contiguous(g.alu(Op::kSin, x))), 1);
  Node chain = g.contiguous(g.alu(Op::kExp, g.contiguous(g.alu(Op::kSin, x))));
  w.check(around(chain), 1);
  const Node rows = g.contiguous(g.reduce(Op::kAdd, g.alu(Op::kSin, a), words({1})));
  const Node first =
      g.reshape(g.slice(rows, words({0, 0}), words({1, 1}), words({16, 1})), words({16}));
  w.check(around(g.contiguous(g.alu(Op::kMul, first, x))), 1);
}

TEST(Realize, EqualPartsAreComputedSideBySide) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({64, 128}), y = w.random({64, 128}, 2), z = w.random({64, 128}, 3);
  const auto wide = [&](Node node) {  // too much to be computed twice
    for (int i = 0; i < 12; ++i) node = g.alu(Op::kSin, node);
    return node;
  };
  for (int64_t axis : {0, 1}) {
    Node two = w.hold(g.cat(std::array{x, y}, axis));
    Node three = w.hold(g.cat(std::array{x, y, z}, axis));
    w.check(two, 1);
    w.check(three, 1);
    w.check(g.alu(Op::kExp, two), 1);
    w.check(g.reshape(g.alu(Op::kNeg, three), words({96, 256})), 1);
    w.check(g.alu(Op::kNeg, g.contiguous(g.reshape(two, words({4, 32, 128})))), 1);
    w.check(g.alu(Op::kNeg, g.reshape(three, words({128, 192}))), 1);
    w.check(g.alu(Op::kMul, two, g.flip(two, words({1, 0}))), 1);
    Node heavy = g.cat(std::array{wide(x), wide(g.alu(Op::kNeg, y))}, axis);
    w.check(g.alu(Op::kAdd, heavy, w.random(axis == 0 ? Shape{128, 128} : Shape{64, 256}, 4)), 1);
    // The same numbers in both parts, each computed once.
    Node common = wide(x);
    Node apart = g.cat(std::array{common, g.alu(Op::kMul, common, common)}, axis);
    w.check(g.alu(Op::kAdd, apart, w.random(axis == 0 ? Shape{128, 128} : Shape{64, 256}, 5)), 1);
  }
  w.check(g.cat(std::array{x, w.random({32, 128}, 6)}, 0), 1);
}

TEST(Realize, LargeSumsSplitInTwo) {
  World w;
  w.check(w.sum(w.random({512, 256}), {0, 1}), 2, 1e-4);
}

// Rows from memory that are added to one go by some at a time; few, short ones, those of products
// and what lies as columns do not.
TEST(Realize, RowsFromMemoryAreCombinedSomeAtATime) {
  World w;
  uop::Graph& g = w.g();
  const auto check = [&](Node node, uint64_t kernels) { w.check(w.hold(node), kernels, 1e-3); };
  check(w.sum(w.random({1031, 1536}), {0}), 3);  // 128 times 8, and 7
  check(w.sum(w.random({24, 64, 1024}), {0, 1}), 2);
  check(w.sum(g.alu(Op::kExp, w.random({512, 3072})), {0}), 2);
  check(w.sum(w.random({63, 32768}), {0}), 1);
  check(w.sum(w.random({4096, 512}), {0}), 1);
  check(w.sum(g.permute(w.random({2048, 1024}), words({1, 0})), {0}), 1);
}

TEST(Realize, SharedWorkIsComputedOnce) {
  World w;
  uop::Graph& g = w.g();
  Node p = g.alu(Op::kExp, w.product(w.random({16, 16}), w.random({16, 16}, 2)));
  Node y = g.alu(Op::kAdd, w.expand(w.sum(p, {0}), {16, 16}), g.permute(p, words({1, 0})));
  w.check(y, 2);
}

TEST(Realize, EqualGraphsOnOtherBuffersHitTheCache) {
  World w;
  for (uint32_t i = 0; i < 5; ++i) w.compute(w.row_softmax(w.random({8, 8}, i)));
  EXPECT_EQ(w.engine().counters.schedule_misses, 1u);
  EXPECT_EQ(w.engine().counters.schedule_hits, 4u);
}

TEST(Realize, ResultsAreSharedByEveryCell) {
  World w;
  Node x = w.g().alu(Op::kExp, w.random({8}));
  Lazy* a = w.cell(x);
  Lazy* b = w.cell(w.g().alu(Op::kNeg, x));
  w.realize({a});
  EXPECT_EQ(b->node->src(0), a->node);
}

TEST(Assign, WritesInPlace) {
  World w;
  Lazy* a = w.cell(w.leaf({1, 2, 3}, {3}));
  buffer::Storage* storage = storage_of(a->node);
  ASSERT_EQ(assign(w.engine(), *a, w.g().alu(Op::kAdd, a->node, w.num(1, a->node))).code, 0);
  w.realize({a});
  EXPECT_EQ(w.read(a), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(storage_of(a->node), storage);
}

TEST(Assign, UnrealisedReadersSeeTheNewValue) {
  World w;
  Lazy* a = w.cell(w.leaf({1, 2}, {2}));
  Lazy* b = w.cell(w.g().alu(Op::kAdd, a->node, w.num(1, a->node)));
  ASSERT_EQ(assign(w.engine(), *a, w.num(0, a->node)).code, 0);
  w.realize({a});
  w.realize({b});
  EXPECT_EQ(w.read(b), (std::vector<float>{1, 1}));
}

TEST(Assign, ReadersInTheSameRealizeSeeTheOldValue) {
  World w;
  Lazy* a = w.cell(w.leaf({1, 2}, {2}));
  Lazy* b = w.cell(w.g().alu(Op::kAdd, a->node, w.num(1, a->node)));
  ASSERT_EQ(assign(w.engine(), *a, w.num(0, a->node)).code, 0);
  w.realize({a, b});
  EXPECT_EQ(w.read(b), (std::vector<float>{2, 3}));
  EXPECT_EQ(w.read(a), (std::vector<float>{0, 0}));
}

TEST(Assign, ValuesThatReadTheirTargetElsewhereAreComputedFirst) {
  World w;
  Lazy* a = w.cell(w.leaf({1, 2, 3, 4}, {4}));
  ASSERT_EQ(assign(w.engine(), *a, w.g().flip(a->node, words({1}))).code, 0);
  w.realize({a});
  EXPECT_EQ(w.read(a), (std::vector<float>{4, 3, 2, 1}));
}

// What is read before and after a write is copied first; other storage that is written is not.
TEST(Assign, OnlyWhatIsReadInTwoStatesIsCopied) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({1, 2, 3, 4}, {4}), y = w.leaf({5, 6, 7, 8}, {4});
  Node doubled = g.assign(x, g.alu(Op::kMul, x, w.num(2, x)));
  Node written = g.assign(y, w.num(0, y));
  Lazy* both = w.cell(g.alu(Op::kSub, g.flip(x, words({1})), g.after(x, std::array{doubled})));
  Lazy* before = w.cell(g.contiguous(g.flip(y, words({1}))));
  Lazy* after = w.cell(written);
  w.realize({both, before, after});
  EXPECT_EQ(w.read(both), (std::vector<float>{2, -1, -4, -7}));
  EXPECT_EQ(w.read(before), (std::vector<float>{8, 7, 6, 5}));
  EXPECT_EQ(w.read(after), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(w.engine().counters.last_kernels, 4u);  // x is copied, y is not
}

TEST(Assign, WritesThroughViewsReachEveryHandle) {
  World w;
  Node base = w.leaf({1, 2, 3, 4}, {4});
  Lazy* a = w.cell(base);
  Lazy* tail = w.cell(w.g().slice(base, words({1}), words({1}), words({3})));
  Node head = w.g().slice(base, words({0}), words({1}), words({3}));
  ASSERT_EQ(assign(w.engine(), *tail, head).code, 0);  // a[1:] = a[:-1]
  w.realize({a});
  EXPECT_EQ(w.read(a), (std::vector<float>{1, 1, 2, 3}));
  w.realize({tail});
  EXPECT_EQ(w.read(tail), (std::vector<float>{1, 2, 3}));
}

TEST(Plan, TemporariesAliveTogetherDoNotOverlap) {
  std::mt19937 bits(7);
  for (int round = 0; round < 200; ++round) {
    Schedule s(process_heap());
    const auto items = static_cast<uint32_t>(1 + bits() % 12);
    for (uint32_t i = 0; i < items; ++i) {
      const uint32_t first = static_cast<uint32_t>(s.operands.size()),
                     count = static_cast<uint32_t>(1 + bits() % 4);
      for (uint32_t o = 0; o < count; ++o) {
        if (s.slots.size() < 3 || bits() % 2 == 0) {
          ASSERT_EQ(s.slots
                        .push(Slot{SlotKind::kTemporary, DType::kFloat32, 0,
                                   1 + static_cast<int64_t>(bits() % 300), 0, UINT32_MAX, 0})
                        .code,
                    0);
        }
        ASSERT_EQ(s.operands.push(static_cast<uint32_t>(bits() % s.slots.size())).code, 0);
      }
      ASSERT_EQ(s.items.push(Item{ItemKind::kKernel, nullptr, first, count, 0, 0}).code, 0);
    }
    ASSERT_EQ(plan_memory(s).code, 0);
    for (const Slot& a : s.slots) {
      for (const Slot& b : s.slots) {
        if (&a == &b || a.first == UINT32_MAX || b.first == UINT32_MAX) continue;
        if (a.first > b.last || b.first > a.last) continue;
        EXPECT_TRUE(a.offset + a.count * 4 <= b.offset || b.offset + b.count * 4 <= a.offset);
      }
      if (a.first == UINT32_MAX) continue;  // never used: no place
      EXPECT_GE(a.offset, 0);
      EXPECT_LE(a.offset + a.count * 4, s.arena_bytes);
    }
  }
}

}  // namespace
}  // namespace aster::engine::testing
