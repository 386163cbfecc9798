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

TEST(Sizes, KernelsOfOneStepStayAsTheyAre) {
  World w(no_disk());
  Node a = w.random({96}), b = w.random({128});
  w.realize({w.cell(w.g().alu(Op::kAdd, a, a)), w.cell(w.g().alu(Op::kAdd, b, b))});
  EXPECT_EQ(w.engine().counters.kernels_sized, 0);
  EXPECT_EQ(w.engine().counters.kernels_compiled, 2);
}

}  // namespace
}  // namespace aster::engine::testing
