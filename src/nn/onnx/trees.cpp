// ai.onnx.ml: ensembles of decision trees, gone through on the host row by row.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "dtype/convert.h"
#include "nn/onnx/builders.h"
#include "nn/onnx/classes.h"

namespace aster::nn::onnx {
namespace {

enum class Test : uint8_t { kLeq, kLess, kGeq, kGreater, kEqual, kOther, kMember, kLeaf };
constexpr const char* kTestNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                      "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

struct TreeNode {
  Test test = Test::kLeaf;
  bool missing = false;  // NaN goes where the test is true
  size_t feature = 0, yes = 0, no = 0;
  double value = 0;
  size_t first = 0, last = 0;  // of a leaf's votes, or of a node's members
};
struct Vote {
  size_t target;
  double weight;
};

struct Forest {
  explicit Forest(Memory& memory) : nodes(memory), roots(memory), votes(memory), members(memory) {}
  Vec<TreeNode> nodes;
  Vec<size_t> roots;
  Vec<Vote> votes;
  Vec<double> members;
  size_t targets = 1;

  bool goes_yes(const TreeNode& n, double x) const {
    if (std::isnan(x) && n.missing) return true;
    switch (n.test) {
      case Test::kLeq:
        return x <= n.value;
      case Test::kLess:
        return x < n.value;
      case Test::kGeq:
        return x >= n.value;
      case Test::kGreater:
        return x > n.value;
      case Test::kEqual:
        return x == n.value;
      case Test::kOther:
        return x != n.value;
      default:
        return std::any_of(members.begin() + n.first, members.begin() + n.last,
                           [&](double m) { return m == x; });
    }
  }
  // The leaf that a row comes to; null where the nodes go in a circle.
  const TreeNode* leaf(size_t at, const double* row) const {
    for (size_t steps = 0; steps <= nodes.size(); ++steps) {
      const TreeNode& n = nodes[at];
      if (n.test == Test::kLeaf) return &n;
      at = goes_yes(n, row[n.feature]) ? n.yes : n.no;
    }
    return nullptr;
  }
};

enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

// scores [rows, targets] of x [rows, features].
void evaluate(Op& op, Vec<double>* scores, const Forest& forest, Aggregate how,
              std::span<const double> base) {
  const std::span<const double> x = op.reals(0);
  if (!op.ok()) return;
  const Node node = op.in(0);
  const Word features = node->ndim == 0 ? 1 : node->dim(node->ndim - 1u);
  const size_t rows = features == 0 ? 0 : x.size() / static_cast<size_t>(features),
               targets = forest.targets;
  for (const TreeNode& n : forest.nodes) {
    if (n.test != Test::kLeaf && (n.feature >= static_cast<size_t>(features) ||
                                  n.yes >= forest.nodes.size() || n.no >= forest.nodes.size()))
      return op.fail(ASTER_FAIL(kFORMAT, "a tree's node names what is not there"));
  }
  for (const Vote& vote : forest.votes) {
    if (vote.target >= targets)
      return op.fail(
          ASTER_FAIL(kFORMAT, "a leaf votes for target %zu of %zu", vote.target, targets));
  }
  op.fail(scores->resize(rows * targets, 0.0));
  for (size_t row = 0; row < rows && op.ok(); ++row) {
    double* out = scores->data() + row * targets;
    const bool least = how == Aggregate::kMin, most = how == Aggregate::kMax;
    const double none = least  ? std::numeric_limits<double>::infinity()
                        : most ? -std::numeric_limits<double>::infinity()
                               : 0;
    std::fill_n(out, targets, none);
    for (const size_t root : forest.roots) {
      const TreeNode* leaf = forest.leaf(root, x.data() + row * static_cast<size_t>(features));
      if (leaf == nullptr)
        return op.fail(ASTER_FAIL(kFORMAT, "the nodes of a tree go in a circle"));
      for (size_t i = leaf->first; i < leaf->last; ++i) {
        double& score = out[forest.votes[i].target];
        const double w = forest.votes[i].weight;
        score = least ? std::min(score, w) : most ? std::max(score, w) : score + w;
      }
    }
    for (size_t t = 0; t < targets; ++t) {
      if (std::isinf(out[t])) out[t] = 0;
      if (how == Aggregate::kAverage && !forest.roots.empty())
        out[t] /= static_cast<double>(forest.roots.size());
      if (t < base.size()) out[t] += base[t];
    }
  }
}

// Before opset 5: nodes by the numbers of trees and nodes.
bool read_numbered(Op& op, Forest* forest, const char* votes) {
  const Words trees = op.integers("nodes_treeids"), ids = op.integers("nodes_nodeids"),
              features = op.integers("nodes_featureids");
  const Words yes = op.integers("nodes_truenodeids"), no = op.integers("nodes_falsenodeids"),
              missing = op.integers("nodes_missing_value_tracks_true");
  const auto modes = op.texts("nodes_modes");
  const Ref wide = op.tensor("nodes_values_as_tensor");
  const auto values = op.numbers("nodes_values");
  const size_t n = trees.size();
  if (wide) {
    op.fail(ASTER_FAIL(kUNSUPPORTED, "values of nodes as a tensor"));
    return false;
  }
  if (ids.size() != n || features.size() != n || yes.size() != n || no.size() != n ||
      modes.size() != n || values.size() != n || n > 1 << 26) {
    op.fail(ASTER_FAIL(kFORMAT, "lists of nodes of different lengths"));
    return false;
  }
  Map<uint64_t, uint32_t> places(op.heap());
  const auto key = [](Word tree, Word id) {
    return static_cast<uint64_t>(tree) << 32 ^ static_cast<uint64_t>(id);
  };
  for (size_t i = 0; i < n && op.ok(); ++i)
    op.fail(places.set(key(trees[i], ids[i]), static_cast<uint32_t>(i)));
  for (size_t i = 0; i < n && op.ok(); ++i) {
    TreeNode node;
    size_t test = 0;
    while (test < std::size(kTestNames) && modes[i] != kTestNames[test]) ++test;
    // Sets of members came with opset 5.
    if (test == std::size(kTestNames) || static_cast<Test>(test) == Test::kMember)
      op.fail(ASTER_FAIL(kUNSUPPORTED, "a node of mode '%.*s'",
                         static_cast<int>(std::min<size_t>(modes[i].size(), 50)), modes[i].data()));
    node.test = static_cast<Test>(test);
    node.missing = i < missing.size() && missing[i] != 0;
    node.feature = static_cast<size_t>(features[i]);
    node.value = values[i];
    if (node.test != Test::kLeaf) {
      node.yes = places.get(key(trees[i], yes[i]), UINT32_MAX);
      node.no = places.get(key(trees[i], no[i]), UINT32_MAX);
    }
    op.fail(forest->nodes.push(node));
    if (i == 0 || trees[i] != trees[i - 1]) op.fail(forest->roots.push(i));
  }
  char name[64];
  const auto list = [&](const char* what) {
    std::snprintf(name, sizeof(name), "%s_%s", votes, what);
    return op.integers(name);
  };
  const Words vote_trees = list("treeids"), vote_nodes = list("nodeids"), vote_ids = list("ids");
  std::snprintf(name, sizeof(name), "%s_weights", votes);
  const auto weights = op.numbers(name);
  if (op.ok() && (vote_nodes.size() != vote_trees.size() || vote_ids.size() != vote_trees.size() ||
                  weights.size() != vote_trees.size()))
    op.fail(ASTER_FAIL(kFORMAT, "lists of votes of different lengths"));
  Vec<size_t> order(op.heap());
  for (size_t i = 0; i < vote_trees.size() && op.ok(); ++i) op.fail(order.push(i));
  if (!op.ok()) return false;
  const auto place = [&](size_t i) {
    return places.get(key(vote_trees[i], vote_nodes[i]), UINT32_MAX);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return place(a) != place(b) ? place(a) < place(b) : a < b; });
  for (const size_t i : order) {
    const size_t at = place(i);
    if (at >= n) {
      op.fail(ASTER_FAIL(kFORMAT, "a vote of a node that is not there"));
      return false;
    }
    TreeNode& node = forest->nodes[at];
    if (node.first == node.last) node.first = forest->votes.size();
    op.fail(forest->votes.push(Vote{static_cast<size_t>(vote_ids[i]), weights[i]}));
    node.last = forest->votes.size();
  }
  return op.ok();
}

std::span<const double> doubles(Op& op, std::string_view key) {
  const Ref value = op.tensor(key);
  if (!op.ok() || !value) return {};
  const void* data = nullptr;
  op.fail(fetch(&data, op.engine(), *value));
  if (!op.ok()) return {};
  const auto count = static_cast<size_t>(value->node()->count());
  double* out = op.arena().array<double>(count);
  if (out == nullptr) {
    op.fail(out_of_memory(count * sizeof(double)));
    return {};
  }
  dtype::convert(out, DType::kFloat64, data, value->node()->dtype, count);
  return {out, count};
}

bool read_forest(Op& op, Forest* forest) {
  const auto splits = doubles(op, "nodes_splits"), modes = doubles(op, "nodes_modes"),
             weights = doubles(op, "leaf_weights"), members = doubles(op, "membership_values");
  const Words features = op.integers("nodes_featureids"), yes = op.integers("nodes_truenodeids"),
              no = op.integers("nodes_falsenodeids"), yes_leaf = op.integers("nodes_trueleafs"),
              no_leaf = op.integers("nodes_falseleafs"), roots = op.integers("tree_roots"),
              targets = op.integers("leaf_targetids"),
              missing = op.integers("nodes_missing_value_tracks_true");
  const size_t n = features.size();
  if (op.ok() && (splits.size() != n || modes.size() != n || yes.size() != n || no.size() != n ||
                  yes_leaf.size() != n || no_leaf.size() != n || weights.size() != targets.size()))
    op.fail(ASTER_FAIL(kFORMAT, "lists of nodes of different lengths"));
  size_t member = 0;
  for (size_t i = 0; i < n && op.ok(); ++i) {
    TreeNode node;
    if (!(modes[i] >= 0 && modes[i] <= 6))
      op.fail(ASTER_FAIL(kFORMAT, "a node of mode %g", modes[i]));
    node.test = op.ok() ? static_cast<Test>(modes[i]) : Test::kLeaf;
    node.missing = i < missing.size() && missing[i] != 0;
    node.feature = static_cast<size_t>(features[i]);
    node.value = splits[i];
    node.yes = static_cast<size_t>(yes[i]) + (yes_leaf[i] != 0 ? n : 0);
    node.no = static_cast<size_t>(no[i]) + (no_leaf[i] != 0 ? n : 0);
    if (node.test == Test::kMember) {  // sets one after another, NaN behind each
      node.first = forest->members.size();
      for (; member < members.size() && !std::isnan(members[member]); ++member)
        op.fail(forest->members.push(members[member]));
      node.last = forest->members.size();
      ++member;
    }
    op.fail(forest->nodes.push(node));
  }
  for (size_t i = 0; i < targets.size() && op.ok(); ++i) {
    TreeNode leaf;
    leaf.first = i;
    leaf.last = i + 1;
    op.fail(forest->nodes.push(leaf));
    op.fail(forest->votes.push(Vote{static_cast<size_t>(targets[i]), weights[i]}));
  }
  for (const Word root : roots) {
    // A tree of one leaf has a node whose two ways lead to it.
    if (root < 0 || static_cast<size_t>(root) >= n)
      op.fail(ASTER_FAIL(kFORMAT, "a tree that begins at node %lld", static_cast<long long>(root)));
    if (op.ok()) op.fail(forest->roots.push(static_cast<size_t>(root)));
  }
  return op.ok();
}

constexpr std::string_view kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                            "PROBIT"};

}  // namespace

namespace build {

void tree_ensemble(Op& op) {
  Forest forest(op.heap());
  if (!read_forest(op, &forest)) return;
  const int64_t targets = op.integer("n_targets", 1), how = op.integer("aggregate_function", 1),
                after = op.integer("post_transform", 0);
  if (targets < 1 || targets > 1 << 24 || how < 0 || how > 3 || after < 0 || after > 4)
    return op.fail(
        ASTER_FAIL(kFORMAT, "an ensemble of %lld targets", static_cast<long long>(targets)));
  forest.targets = static_cast<size_t>(targets);
  Vec<double> scores(op.heap());
  evaluate(op, &scores, forest, static_cast<Aggregate>(how), {});
  if (op.ok()) give_scores(op, 0, scores, forest.targets, kTransforms[after], op.in(0)->dtype);
}

void tree_ensemble_regressor(Op& op) {
  Forest forest(op.heap());
  if (!read_numbered(op, &forest, "target")) return;
  const int64_t targets = op.integer("n_targets", 1);
  if (targets < 1 || targets > 1 << 24)
    return op.fail(
        ASTER_FAIL(kFORMAT, "an ensemble of %lld targets", static_cast<long long>(targets)));
  forest.targets = static_cast<size_t>(targets);
  const std::string_view how = op.text("aggregate_function", "SUM");
  Vec<double> scores(op.heap());
  evaluate(op, &scores, forest,
           how == "AVERAGE" ? Aggregate::kAverage
           : how == "MIN"   ? Aggregate::kMin
           : how == "MAX"   ? Aggregate::kMax
                            : Aggregate::kSum,
           op.numbers("base_values"));
  if (op.ok())
    give_scores(op, 0, scores, forest.targets, op.text("post_transform", "NONE"), DType::kFloat32);
}

void tree_ensemble_classifier(Op& op) {
  Forest forest(op.heap());
  if (!read_numbered(op, &forest, "class")) return;
  const auto names = op.texts("classlabels_strings");
  const Words numbers = op.integers("classlabels_int64s");
  const size_t classes = names.empty() ? numbers.size() : names.size();
  if (classes == 0) return op.fail(ASTER_FAIL(kFORMAT, "a classifier without classes"));
  // Of two classes one may have all votes; the other has the rest then.
  const bool single = classes == 2 && !forest.votes.empty() &&
                      std::all_of(forest.votes.begin(), forest.votes.end(), [&](const Vote& v) {
                        return v.target == forest.votes[0].target;
                      });
  const bool positive = std::all_of(forest.votes.begin(), forest.votes.end(),
                                    [](const Vote& v) { return v.weight >= 0; });
  if (single) {
    for (Vote& vote : forest.votes) vote.target = 0;
  }
  forest.targets = single ? 1 : classes;
  Vec<double> scores(op.heap()), both(op.heap());
  evaluate(op, &scores, forest, Aggregate::kSum, op.numbers("base_values"));
  const std::string_view after = op.text("post_transform", "NONE");
  Vec<Word> best(op.heap());
  for (size_t i = 0; op.ok() && i < scores.size() / forest.targets; ++i) {
    const double* row = scores.data() + i * forest.targets;
    if (single) {
      const double s = row[0];
      op.fail(best.push(Word{s > (positive ? 0.5 : 0) ? 1 : 0}));
      op.fail(both.push(after == "NONE" && positive ? 1 - s : -s));
      op.fail(both.push(s));
    } else {
      op.fail(best.push(static_cast<Word>(std::max_element(row, row + classes) - row)));
    }
  }
  if (!op.ok()) return;
  give_labels(op, best, names, numbers);
  give_scores(op, 1, single ? both : scores, classes, after, DType::kFloat32);
}

}  // namespace build
}  // namespace aster::nn::onnx
