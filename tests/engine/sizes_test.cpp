// Kernels that differ in sizes alone: what they compute, and how many are compiled.
#include <functional>
#include <thread>

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

// A graph of a few random operations over sizes that follow from n; which ones n has no part in.
Node random_graph(World& w, uint64_t seed, Word n) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t most) { return random() % most; };
  Shape shape{n + static_cast<Word>(below(3)), 2 + static_cast<Word>(below(20))};
  if (below(2) == 0) std::swap(shape[0], shape[1]);
  Node x = w.random(shape, static_cast<uint32_t>(seed));
  for (uint64_t left = 2 + below(4); left-- > 0;) {
    const Shape dims(x->shape().begin(), x->shape().end());
    const Shape nothing(dims.size(), 0);
    const auto axis = static_cast<Word>(below(dims.size()));
    switch (below(9)) {
      case 0:
        x = w.g().alu(Op::kAdd, x, w.num(0.5, x));
        break;
      case 1:
        x = w.g().alu(Op::kMul, x, w.random(dims, static_cast<uint32_t>(seed + left)));
        break;
      case 2:
        x = w.g().permute(x, words({1, 0}));
        break;
      case 3:
        x = w.g().flip(x, words({axis == 0 ? Word{1} : 0, axis == 1 ? Word{1} : 0}));
        break;
      case 4:
        x = w.g().pad(x, words({1, 0}), words({0, 2}), words({0, 0}), 0);
        break;
      case 5: {
        Node sum = w.sum(x, {axis});
        const auto count = static_cast<double>(dims[static_cast<size_t>(axis)]);
        Node mean = w.g().alu(Op::kMul, sum, w.num(1 / count, sum));
        x = w.g().alu(Op::kSub, x, w.expand(mean, dims));
        break;
      }
      case 6:
        x = w.row_softmax(x);
        break;
      case 7:  // as rows of another length
        x = w.g().permute(w.g().reshape(x, words({dims[1], dims[0]})), words({1, 0}));
        break;
      default:
        x = w.g().alu(
            Op::kMul, x,
            w.g().alu(Op::kExp2, w.g().alu(Op::kSub, w.num(0, x), w.g().alu(Op::kMul, x, x))));
    }
  }
  return below(3) == 0 ? w.sum(x, {static_cast<Word>(below(2))}) : x;
}

TEST(Sizes, RandomGraphsOfRandomSizes) {
  World w(no_disk());
  const char* chosen = std::getenv("ASTER_TEST_SEED");
  const uint64_t first = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(first));
  for (uint64_t seed = first * 100; seed < first * 100 + 8; ++seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 6; ++i) {
      const auto n = static_cast<Word>(random() % (i % 2 == 0 ? 40 : 200)) + 3;
      Node node = random_graph(w, seed, n);
      const std::vector<float> expected = w.interpreted(node), got = w.compute(node);
      ASSERT_EQ(expected.size(), got.size());
      for (size_t at = 0; at < got.size(); ++at) {
        ASSERT_NEAR(got[at], expected[at], 1e-4 * (1 + std::fabs(expected[at])))
            << "seed " << seed << ", n " << n << " at " << at;
      }
    }
  }
  EXPECT_GT(w.engine().counters.kernels_sized, 0);
}

// Each context has classes of its own; both run at once, on threads of their own.
TEST(Sizes, TwoContextsAtOnce) {
  std::vector<std::vector<float>> results[2];
  const auto run = [&](size_t at) {
    World w(no_disk());
    for (Word n = 20; n < 40; ++n)
      results[at].push_back(w.compute(w.row_softmax(w.random({3, n}))));
    EXPECT_GT(w.engine().counters.kernels_sized, 0);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  EXPECT_EQ(results[0], results[1]);
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
