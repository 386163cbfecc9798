// The interpreter against the naive evaluation, on random graphs. ASTER_ML_FUZZ_SEED and
// ASTER_ML_FUZZ_CASES choose which and how many.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fuzz/naive.h"
#include "fuzz/number.h"

namespace aster::fuzz {
namespace {

TEST(Fuzz, InterpreterAgreesWithNaive) {
  const uint64_t first = number("ASTER_ML_FUZZ_SEED", 1),
                 cases = number("ASTER_ML_FUZZ_CASES", 400);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    Options options;
    options.operations = static_cast<int>(4 + seed % 29);
    if (seed % 8 == 0) options.elements = 4000;  // longer than the interpreter's strips
    const std::string difference = check(seed, options, run_naive, run_reference);
    ASSERT_TRUE(difference.empty()) << difference;
  }
}

TEST(Fuzz, InterpreterAgreesWithNaiveOnOverlappingLeaves) {
  const uint64_t first = number("ASTER_ML_FUZZ_SEED", 1),
                 cases = number("ASTER_ML_FUZZ_CASES", 400);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    const std::string difference = check(seed, overlapping(seed), run_naive, run_reference);
    ASSERT_TRUE(difference.empty()) << difference;
  }
}

// The tolerances have room for what a runtime may do.
TEST(Fuzz, BoundsHoldForALooserRuntime) {
  const uint64_t first = number("ASTER_ML_FUZZ_SEED", 1),
                 cases = number("ASTER_ML_FUZZ_CASES", 400);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    const std::string difference = check(seed, Options{}, run_reference, run_loose);
    ASSERT_TRUE(difference.empty()) << difference;
  }
}

TEST(Fuzz, CasesCoverTheOperations) {
  std::set<Op> met;
  for (uint64_t seed = 1; seed < 400; ++seed) {
    const Case c = make_case(seed, Options{});
    Vec<Node> order(process_heap());
    ASSERT_TRUE(uop::toposort(&order, c.roots).ok());
    for (Node node : order) met.insert(node->op);
  }
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    const Op op = static_cast<Op>(i);
    // Dot comes of products of sticky integers and wide floats alone, Wide of these: they have
    // tests of their own.
    const bool left_out =
        op == Op::kTuple || op == Op::kItem || op == Op::kSink || op == Op::kDot || op == Op::kWide;
    EXPECT_TRUE(!uop::info(op).tensor || left_out || met.contains(op)) << uop::info(op).name;
  }
}

// Most cases write to one leaf what another one shows.
TEST(Fuzz, OverlappingLeavesAreWritten) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Case c = make_case(seed, overlapping(seed));
    Vec<Node> order(process_heap());
    ASSERT_TRUE(uop::toposort(&order, c.roots).ok());
    const auto shows_what_is_written = [&](const Leaf& leaf) {
      return std::ranges::any_of(order, [&](Node node) {
        if (node->op != Op::kAssign) return false;
        const Node target = viewed(node->src(0));
        return target != leaf.node &&
               overlap(*std::ranges::find(c.leaves, target, &Leaf::node), leaf);
      });
    };
    found += std::ranges::any_of(c.leaves, shows_what_is_written);
  }
  EXPECT_GT(found, 50);
}

TEST(Fuzz, SameSeedSameCase) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    EXPECT_EQ(print(make_case(seed, Options{})), print(make_case(seed, Options{})));
  }
}

// A runner that is wrong wherever a value is flipped is caught, and shown in a few lines.
TEST(Fuzz, DifferencesAreFoundAndShrunk) {
  const Runner wrong = [](Case& c, Answer* answer) {
    Case other;
    other.graph = std::make_unique<Graph>(process_heap());
    std::map<Node, Node> map;
    Vec<Node> order(process_heap());
    if (!uop::toposort(&order, c.roots).ok()) return false;
    for (Node node : order) {  // flips left out
      std::vector<Node> sources;
      for (Node source : node->src()) sources.push_back(map[source]);
      map[node] = node->op == Op::kFlip ? sources[0]
                                        : other.graph->make(node->op, node->dtype, sources,
                                                            node->arg(), node->shape());
    }
    other.memory = c.memory;
    for (const Leaf& leaf : c.leaves) {
      if (map.contains(leaf.node)) {
        other.leaves.push_back({map[leaf.node], leaf.memory, leaf.offset});
      }
    }
    for (Node root : c.roots) other.roots.push_back(map[root]);
    return run_reference(other, answer);
  };
  int found = 0;
  for (uint64_t seed = 1; seed < 200; ++seed) {
    const std::string difference = check(seed, Options{}, run_reference, wrong);
    if (difference.empty()) continue;
    ++found;
    EXPECT_NE(difference.find("Flip"), std::string::npos) << difference;
    EXPECT_LT(std::count(difference.begin(), difference.end(), '\n'), 12) << difference;
  }
  EXPECT_GT(found, 5);
}

}  // namespace
}  // namespace aster::fuzz
