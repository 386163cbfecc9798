// Kernels that differ in sizes alone: what they compute, and how many are compiled.
#include <functional>

#include "engine/world.h"

namespace aster::engine::testing {
namespace {

using Build = std::function<Node(World&, Word)>;

aster_ml_context_options no_disk(bool no_sizes = false) {
  aster_ml_context_options options{};
  options.no_disk_cache = 1;
  options.no_sizes = no_sizes ? 1 : 0;
  return options;
}

// What a graph of each size gives in one context has the bits that kernels of its own give. How
// many kernels the context compiles for all of them.
uint64_t compiled_for(const Build& build, const std::vector<Word>& sizes) {
  World shared(no_disk()), own(no_disk(true));
  for (const Word n : sizes) {
    const std::vector<float> got = shared.compute(build(shared, n));
    const std::vector<float> expected = own.compute(build(own, n));
    EXPECT_EQ(got.size(), expected.size());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << n;
  }
  EXPECT_EQ(own.engine().counters.kernels_sized, 0);
  return shared.engine().counters.kernels_compiled;
}

TEST(Sizes, OneKernelServesManyLengths) {
  const Build build = [](World& w, Word n) {
    return w.g().alu(Op::kAdd, w.random({n}), w.num(1, w.random({n}, 2)));
  };
  EXPECT_EQ(compiled_for(build, {96, 128, 160, 960}), 2);
}

std::vector<Word> between(Word first, Word last) {
  std::vector<Word> out;
  for (Word n = first; n <= last; ++n) out.push_back(n);
  return out;
}

// Classes of kernels are few, and each is compiled twice at most: for its first size, and for all.
TEST(Sizes, ManyLengthsNeedFewKernels) {
  const auto add = [](World& w, Word n) {
    return w.g().alu(Op::kAdd, w.random({n}), w.num(1, w.random({n}, 2)));
  };
  EXPECT_LE(compiled_for(add, between(16, 40)), 4);
  const auto sum = [](World& w, Word n) { return w.sum(w.random({3, n}), {1}); };
  EXPECT_LE(compiled_for(sum, between(64, 80)), 4);
}

// Offsets, strides, divisors, gates and constants that follow from sizes.
TEST(Sizes, IndicesFollowSizes) {
  const std::vector<Word> sizes{33, 34, 47, 50, 33, 97, 130};
  compiled_for([](World& w, Word n) { return w.row_softmax(w.random({5, n})); }, sizes);
  compiled_for(
      [](World& w, Word n) {
        return w.g().permute(w.random({n, 40}), words({1, 0}));
      },
      sizes);
  compiled_for([](World& w, Word n) { return w.g().flip(w.random({n, 6}), words({1, 1})); }, sizes);
  compiled_for(
      [](World& w, Word n) {
        return w.g().pad(w.random({n, 9}), words({1, 2}), words({0, 3}), words({0, 1}), 0);
      },
      sizes);
  compiled_for(
      [](World& w, Word n) {
        Node x = w.random({n, 12});
        Node sum = w.sum(x, {0});
        Node mean = w.g().alu(Op::kMul, sum, w.num(1.0 / static_cast<double>(n), sum));
        return w.g().alu(Op::kSub, x, w.expand(mean, {n, 12}));
      },
      sizes);
}

// Kernels for all sizes serve until a schedule is captured or has taken long.
TEST(Sizes, WhatComesBackOftenGetsItsOwnKernels) {
  World w(no_disk());
  Node few = w.hold(w.random({1 << 20})), many = w.hold(w.random({3 << 19}));
  const auto run = [&](Node x) {
    Node y = x;
    for (int i = 0; i < 100; ++i) y = w.g().alu(Op::kAdd, w.g().alu(Op::kMul, y, x), x);
    return w.compute(y);
  };
  run(few);
  const std::vector<float> first = run(many);
  const uint64_t compiled = w.engine().counters.kernels_compiled;
  for (int i = 0; i < 4000 && w.engine().counters.kernels_compiled == compiled; ++i) run(many);
  EXPECT_EQ(w.engine().counters.kernels_compiled, compiled + 1);
  EXPECT_EQ(run(many), first);
  EXPECT_EQ(w.engine().counters.kernels_compiled, compiled + 1);
}

TEST(Sizes, KernelsOfOneStepStayAsTheyAre) {
  World w(no_disk());
  Node a = w.random({96}), b = w.random({128});
  w.realize({w.cell(w.g().alu(Op::kAdd, a, a)), w.cell(w.g().alu(Op::kAdd, b, b))});
  EXPECT_EQ(w.engine().counters.kernels_sized, 0);
  EXPECT_EQ(w.engine().counters.kernels_compiled, 2);
}

}  // namespace
}  // namespace aster::engine::testing
