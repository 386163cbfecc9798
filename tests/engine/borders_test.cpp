// What is copied with zeros around it is stored there at once, what is stored anyway is stored
// once, and kernels run in an order that needs little memory.
#include <set>

#include "engine/world.h"

namespace aster::engine::testing {
namespace {

// Elements of the memory that the last schedule has between its kernels.
std::multiset<int64_t> temporaries(World& w) {
  std::multiset<int64_t> out;
  for (const Slot& slot : w.engine().last->slots) {
    if (slot.kind == SlotKind::kTemporary && slot.first != UINT32_MAX) out.insert(slot.count);
  }
  return out;
}

// x, or that with zeros around its last two axes, in memory.
Node bordered(World& w, Node x, const Shape& before, const Shape& after) {
  Shape first(x->ndim, 0), last(x->ndim, 0);
  for (size_t i = 0; i < 2; ++i) {
    first[x->ndim - 2u + i] = before[i];
    last[x->ndim - 2u + i] = after[i];
  }
  const Shape none(x->ndim, 0);
  return w.g().contiguous(w.g().pad(x, words(first), words(last), words(none), 0));
}

// Something that reads all of x, each element beside another one.
Node twisted(World& w, Node x) {
  Shape axes(x->ndim, 0);
  axes[x->ndim - 1u] = axes[x->ndim - 2u] = 1;
  return w.g().alu(Op::kAdd, x, w.g().flip(x, words(axes)));
}

void expect_same(World& w, const std::vector<Node>& nodes) {
  std::vector<Lazy*> cells;
  std::vector<std::vector<float>> want;
  for (Node node : nodes) w.hold(node);
  for (Node node : nodes) want.push_back(w.interpreted(node));
  for (Node node : nodes) cells.push_back(w.cell(node));
  w.realize(cells);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<float> got = w.read(cells[i]);
    ASSERT_EQ(got.size(), want[i].size());
    for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], want[i][j], 1e-4) << i << " " << j;
  }
}

TEST(Borders, AreStoredAroundWhatIsComputed) {
  World w;
  const Node x = w.g().alu(Op::kNeg, w.random({2, 3, 40, 24}));
  const Node around = bordered(w, x, {1, 2}, {3, 0});
  expect_same(w, {twisted(w, around), w.g().alu(Op::kAdd, x, w.num(1, x))});
  EXPECT_EQ(temporaries(w), std::multiset<int64_t>{2 * 3 * 44 * 26});
}

// Shapes, borders and readers drawn anew, fixed by the number of the run.
TEST(Borders, OfManyShapes) {
  std::mt19937 bits(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(bits);
  };
  for (uint32_t run = 0; run < 40; ++run) {
    World w;
    Shape shape = {draw(1, 3), draw(1, 6), draw(1, 60), draw(7, 60)};
    if (draw(0, 2) == 0) shape.erase(shape.begin());
    const Node leaf = w.random(shape, run);
    Node x = w.g().alu(Op::kMul, leaf, leaf);
    if (draw(0, 1) == 0) {  // of a reduction, behind axes of one element
      Shape longer = shape;
      longer.push_back(3);
      x = w.g().reshape(w.sum(w.random(longer, run), {static_cast<Word>(shape.size())}),
                        words(shape));
    }
    const Node around = bordered(w, x, {draw(0, 3), draw(0, 3)}, {draw(0, 3), draw(0, 3)});
    std::vector<Node> roots = {twisted(w, around)};
    if (draw(0, 1) == 0) roots.push_back(twisted(w, x));
    if (draw(0, 2) == 0) roots.push_back(twisted(w, bordered(w, x, {1, 1}, {1, 1})));
    if (draw(0, 3) == 0) roots.push_back(x);
    if (draw(0, 3) == 0) roots.push_back(around);
    if (draw(0, 3) == 0) roots.push_back(twisted(w, bordered(w, around, {1, 0}, {0, 2})));
    expect_same(w, roots);
    if (::testing::Test::HasFatalFailure()) FAIL() << "run " << run;
  }
}

// Threads see the zeros of a run before, and not what another schedule left in the memory.
TEST(Borders, AreWrittenInEveryRun) {
  World w;
  for (uint32_t run = 0; run < 3; ++run) {
    const Node noise = w.g().alu(Op::kExp, w.random({2, 3, 44, 27}, run + 10));
    expect_same(w, {twisted(w, w.g().contiguous(noise))});
    const Node x = w.g().alu(Op::kExp, w.random({2, 3, 40, 24}, run));
    expect_same(w, {twisted(w, bordered(w, x, {2, 2}, {2, 1}))});
  }
}

TEST(Borders, NotWhereLibraryCallsReadRows) {
  World w;
  const Node x = w.g().alu(Op::kNeg, w.random({1, 64, 80}));
  const Node sorted = w.g().sort(x, 2, false);
  expect_same(w, {twisted(w, bordered(w, x, {1, 1}, {1, 1})), sorted});
  EXPECT_EQ(temporaries(w).count(64 * 80), 1u);
}

// Two writes of one value, which reads both targets elsewhere: a kernel without results is among
// those that fusion has made.
TEST(Borders, BesideWritesThatShareAValue) {
  World w;
  Lazy* const a = w.cell(w.random({64, 96}, 1));
  Lazy* const b = w.cell(w.random({64, 96}, 2));
  const Node value = w.hold(w.g().alu(Op::kAdd, twisted(w, a->node), twisted(w, b->node)));
  const std::vector<float> want = w.interpreted(value);
  const Node x = w.g().alu(Op::kNeg, w.random({2, 3, 40, 24}));
  const Node around = w.hold(twisted(w, bordered(w, x, {1, 1}, {1, 1})));
  const std::vector<float> image = w.interpreted(around);
  Lazy* const third = w.cell(around);
  ASSERT_EQ(assign(w.engine(), *a, value).code, 0);
  ASSERT_EQ(assign(w.engine(), *b, value).code, 0);
  w.realize({a, b, third});
  for (Lazy* cell : {a, b}) {
    const std::vector<float> got = w.read(cell);
    for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], want[j], 1e-4) << j;
  }
  const std::vector<float> got = w.read(third);
  for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], image[j], 1e-4) << j;
}

// What several read, and one asks for in memory.
TEST(Borders, WhatIsStoredAnywayIsStoredOnce) {
  World w;
  Node x = w.random({64, 96});
  for (int i = 0; i < 8; ++i) x = w.g().alu(Op::kExp, w.g().alu(Op::kNeg, x));
  expect_same(
      w, {twisted(w, w.g().contiguous(x)), w.g().alu(Op::kAdd, x, w.num(1, x)), w.sum(x, {0})});
  EXPECT_EQ(temporaries(w), std::multiset<int64_t>{64 * 96});
}

// A call stores its result itself.
TEST(Borders, WhatCallsComputeIsStoredByThem) {
  World w;
  const Node x = w.g().sort(w.random({80, 90}), 1, false);
  expect_same(
      w, {twisted(w, w.g().contiguous(x)), w.g().alu(Op::kAdd, x, w.num(1, x)), w.sum(x, {0})});
}

// A chain of products, its gradients to weights, first to last, and what they are summed up to.
struct Chain {
  static constexpr Word kRows = 192, kLayers = 10;
  static constexpr int64_t kBytes = kRows * kRows * 4;
  explicit Chain(World& w) {
    std::vector<Node> inputs;
    Node x = w.random({kRows, kRows});
    for (uint32_t i = 0; i < kLayers; ++i) {
      weights.push_back(w.cell(w.random({kRows, kRows}, i + 2)));
      inputs.push_back(x);
      x = w.g().alu(Op::kSin, w.product(x, weights.back()->node));
    }
    const auto turned = [&](Node a) { return w.g().permute(a, std::array<Word, 2>{1, 0}); };
    Node slope = w.g().alu(Op::kMul, x, x);
    for (size_t i = kLayers; i-- > 0;) {
      gradients.insert(gradients.begin(), w.product(turned(inputs[i]), slope));
      if (i > 0)
        slope = w.g().alu(Op::kMul, w.product(slope, turned(weights[i]->node)),
                          w.g().alu(Op::kSub, w.num(1, inputs[i]), inputs[i]));
    }
  }
  std::vector<Lazy*> weights;
  std::vector<Node> gradients;
};

// A gradient to weights is taken when what it reads is there, and that is given up.
TEST(Sequence, GradientsToWeightsAreTakenWhenTheyCanBe) {
  World w;
  std::vector<Lazy*> cells;
  for (Node gradient : Chain(w).gradients) cells.push_back(w.cell(w.sum(gradient, {0, 1})));
  w.realize(cells);
  EXPECT_LE(w.engine().last->scratch_offset, (Chain::kLayers + 4) * Chain::kBytes);
}

// What writes in place is not among them, as long as nothing else has: a call that is stopped has
// changed nothing.
TEST(Sequence, NothingIsWrittenInPlaceSooner) {
  World w;
  const Chain chain(w);
  std::vector<Lazy*> cells;
  for (size_t i = 0; i < chain.weights.size(); ++i) {
    const Node weight = chain.weights[i]->node;
    const Node less = w.g().alu(Op::kSub, weight, chain.gradients[i]);
    ASSERT_EQ(assign(w.engine(), *chain.weights[i], less).code, 0);
    cells.push_back(chain.weights[i]);
  }
  w.realize(cells);
  bool written = false;
  for (const Launch& launch : w.engine().last->launches) {
    EXPECT_TRUE(launch.writes || !written);
    written |= launch.writes;
  }
  EXPECT_TRUE(written);
}

}  // namespace
}  // namespace aster::engine::testing
