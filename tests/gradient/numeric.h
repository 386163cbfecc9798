// Gradients against central differences, both through the interpreter, in float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/memory.h"
#include "gradient/gradient.h"
#include "runtime/reference/interpret.h"
#include "uop/expr.h"

namespace aster::gradient::test {

using uop::DType;
using uop::Expr;
using uop::Op;
using uop::Word;
using Shape = std::vector<int64_t>;
using Values = std::vector<double>;

class Numeric {
 public:
  Numeric() : heap_(nullptr), g_(heap_) {}
  Graph& graph() { return g_; }

  // A float64 leaf; slots are beyond those of any body.
  Expr leaf(const Shape& shape, Values values) {
    const Node n = g_.param(100 + static_cast<Word>(leaves_.size()), DType::kFloat64, shape);
    EXPECT_EQ(static_cast<size_t>(n->count()), values.size());
    leaves_.push_back({n, std::move(values)});
    return {&g_, n};
  }
  Expr random_leaf(const Shape& shape, std::mt19937& random, double low = 0.3, double high = 0.9) {
    std::uniform_real_distribution<double> uniform(low, high);
    size_t count = 1;
    for (int64_t d : shape) count *= static_cast<size_t>(d);
    Values values(count);
    for (double& v : values) v = uniform(random);
    return leaf(shape, values);
  }
  Expr labels(const Shape& shape, std::vector<int32_t> values) {
    const Node n = g_.param(100 + static_cast<Word>(leaves_.size() + ints_.size()) + 1000,
                            DType::kInt32, shape);
    ints_.push_back({n, std::move(values)});
    return {&g_, n};
  }

  Values value(Node n) {
    std::vector<runtime::reference::Binding> bindings;
    for (auto& leaf : leaves_) bindings.push_back({leaf.node, leaf.values.data()});
    for (auto& leaf : ints_) bindings.push_back({leaf.node, leaf.values.data()});
    Values out(static_cast<size_t>(n->count()));
    EXPECT_EQ(n->dtype, DType::kFloat64);
    const runtime::reference::Output output{n, out.data()};
    const Status status = runtime::reference::interpret(g_, heap_, bindings, {&output, 1});
    EXPECT_TRUE(status.ok()) << message();
    return out;
  }
  Values& values_of(Expr leaf) {
    for (auto& l : leaves_) {
      if (l.node == leaf.n) return l.values;
    }
    ADD_FAILURE() << "no leaf";
    return leaves_[0].values;
  }

  // d sum(y * w) / d x for every leaf x against differences; w random.
  void check(const std::string& name, Expr y, const std::vector<Expr>& xs,
             double tolerance = 2e-6) {
    ASSERT_NE(y.n, nullptr) << name << ": " << message();
    std::mt19937 random(7);
    const Expr w = random_leaf(Shape(y.shape().begin(), y.shape().end()), random, -1, 1);
    std::vector<Node> targets, grads(xs.size());
    for (const Expr& x : xs) targets.push_back(x.n);
    const Status status = gradient(g_, y.n, w.n, targets, grads);
    ASSERT_TRUE(status.ok()) << name << ": " << message();
    const Values weights = values_of(w);
    const auto loss = [&] {
      const Values v = value(y.n);
      double total = 0;
      for (size_t i = 0; i < v.size(); ++i) total += v[i] * weights[i];
      return total;
    };
    for (size_t i = 0; i < xs.size(); ++i) {
      ASSERT_EQ(grads[i]->dtype, xs[i].dtype()) << name;
      ASSERT_TRUE(std::ranges::equal(grads[i]->shape(), xs[i].shape())) << name;
      const Values got = value(grads[i]);
      for (size_t k = 0; k < got.size(); ++k) {
        constexpr double kStep = 1e-5;
        double& at = values_of(xs[i])[k];
        const double kept = at;
        at = kept + kStep;
        const double above = loss();
        at = kept - kStep;
        const double below = loss();
        at = kept;
        const double expected = (above - below) / (2 * kStep);
        ASSERT_NEAR(got[k], expected, tolerance * std::max(1.0, std::abs(expected)))
            << name << ", operand " << i << ", element " << k;
      }
    }
  }

  static std::string message() {
    aster_ml_error error;
    aster_ml_error_last(&error);
    return error.message;
  }

 private:
  struct Leaf {
    Node node;
    Values values;
  };
  struct IntLeaf {
    Node node;
    std::vector<int32_t> values;
  };
  Heap heap_;
  Graph g_;
  std::vector<Leaf> leaves_;
  std::vector<IntLeaf> ints_;
};

}  // namespace aster::gradient::test
