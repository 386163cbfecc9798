// Every rule against central differences; conventions at ties and zeros against tinygrad's
// documented values; errors.
#include "gradient/gradient.h"

#include <algorithm>
#include <array>

#include "gradient/rules.h"
#include "numeric.h"
#include "uop/composite.h"

namespace aster::gradient::test {
namespace {

using uop::Dims;

// ---- Elementwise: every row of ops.def that has a gradient ----

TEST(Gradient, EveryElementwiseRow) {
  int checked = 0;
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    const Op op = static_cast<Op>(i);
    const uop::OpInfo& row = uop::info(op);
    if (!uop::is_alu(op) || row.rule == uop::DTypeRule::kIntegral ||
        row.rule == uop::DTypeRule::kCompare || row.rule == uop::DTypeRule::kBits64 ||
        row.rule == uop::DTypeRule::kInt32) {
      continue;
    }
    Numeric n;
    std::mt19937 random(static_cast<uint32_t>(i));
    std::vector<Expr> xs;
    std::vector<Node> sources;
    for (int k = 0; k < row.sources; ++k) {
      xs.push_back(n.random_leaf({5}, random));
      sources.push_back(xs.back().n);
    }
    if (row.rule == uop::DTypeRule::kWhere) {
      sources[0] = (xs[0] < xs[1]).n;
      xs.erase(xs.begin());
    }
    n.check(row.name, {&n.graph(), n.graph().alu(op, sources)}, xs);
    ++checked;
  }
  EXPECT_GE(checked, 25);
}

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  std::function<Expr(Graph&, const std::vector<Expr>&)> f;
};

void run(const std::vector<Case>& cases, double low = -1, double high = 1) {
  for (const Case& c : cases) {
    Numeric n;
    std::mt19937 random(11);
    std::vector<Expr> xs;
    for (const Shape& shape : c.shapes) xs.push_back(n.random_leaf(shape, random, low, high));
    n.check(c.name, c.f(n.graph(), xs), xs);
  }
}

Expr at(Graph& g, Node n) { return {&g, n}; }
using Xs = const std::vector<Expr>&;

TEST(Gradient, Movement) {
  run({
      {"reshape",
       {{2, 6}},
       [](Graph&, Xs x) {
         return x[0].reshape(Shape{3, 4});
       }},
      {"expand",
       {{2, 1, 3}},
       [](Graph&, Xs x) {
         return x[0].expand(Shape{4, 2, 5, 3});
       }},
      {"permute",
       {{2, 3, 4}},
       [](Graph&, Xs x) {
         return x[0].permute(Shape{2, 0, 1});
       }},
      {"flip",
       {{2, 3}},
       [](Graph& g, Xs x) {
         return at(g, g.flip(x[0].n, Shape{1, 0}));
       }},
      {"slice",
       {{7, 5}},
       [](Graph& g, Xs x) {
         return at(g, g.slice(x[0].n, Shape{1, 0}, Shape{2, 3}, Shape{3, 2}));
       }},
      {"empty slice",
       {{3}},
       [](Graph& g, Xs x) { return at(g, g.slice(x[0].n, Shape{2}, Shape{1}, Shape{0})); }},
      {"pad",
       {{3, 2}},
       [](Graph& g, Xs x) {
         return at(g, g.pad(x[0].n, Shape{1, 0}, Shape{2, 1}, Shape{2, 1}, 0));
       }},
      {"window", {{2, 9}}, [](Graph& g, Xs x) { return at(g, g.window(x[0].n, 1, 3, 2, 2)); }},
      {"window that leaves a rest",
       {{8}},
       [](Graph& g, Xs x) { return at(g, g.window(x[0].n, 0, 2, 3, 1)); }},
      {"unwindow",
       {{2, 3, 2}},
       [](Graph& g, Xs x) { return at(g, g.unwindow(x[0].n, 1, 9, 2, 3)); }},
      {"cat",
       {{2, 3}, {2, 1}},
       [](Graph& g, Xs x) {
         return at(g, g.cat(std::array{x[0].n, x[1].n, x[0].n}, 1));
       }},
      {"contiguous", {{3}}, [](Graph& g, Xs x) { return at(g, g.contiguous(x[0].n)); }},
      // What was there before an assignment does not matter to what is there after it.
      {"assigned value",
       {{3}, {3}, {3}},
       [](Graph& g, Xs x) {
         const Node written = g.assign(x[2].n, (x[0] * x[1] + x[0]).n);
         return at(g, written) * x[0];
       }},
      {"read after a write",
       {{3}, {3}, {3}},
       [](Graph& g, Xs x) {
         const Node write = g.assign(x[2].n, (x[1] * x[1]).n);
         return at(g, g.after((x[0] * x[0]).n, std::array{write})) * x[1];
       }},
  });
}

TEST(Gradient, Reductions) {
  const auto reduced = [](Op op) {
    return [op](Graph&, Xs x) { return reduce(op, x[0] * x[0] + x[0], Shape{0, 2}); };
  };
  run({{"sum", {{2, 3, 2}}, reduced(Op::kAdd)},
       {"prod", {{2, 3, 2}}, reduced(Op::kMul)},
       {"max", {{2, 3, 2}}, reduced(Op::kMax)},
       {"min", {{2, 3, 2}}, reduced(Op::kMin)}},
      0.2, 1.5);
}

TEST(Gradient, SharedNodesAndChains) {
  run({{"shared",
        {{4}},
        [](Graph&, Xs x) {
          const Expr y = tanh(x[0]);
          return y * y + y * x[0] - x[0] / (y + 2.0);
        }},
       {"broadcast both ways", {{3, 1}, {4}}, [](Graph&, Xs x) { return x[0] * x[1] + x[1]; }}});
}

// ---- Composites ----

TEST(Gradient, Matmul) {
  const auto f = [](Graph& g, Xs x) { return at(g, build_matmul(g, x[0].n, x[1].n)); };
  run({{"2-d", {{3, 4}, {4, 2}}, f},
       {"batch", {{2, 2, 3}, {2, 3, 4}}, f},
       {"no inner", {{2, 0}, {0, 3}}, f}});
}

uop::Conv2d conv(Word groups, Word sy, Word sx, std::array<Word, 4> pad, Word dy, Word dx) {
  uop::Conv2d o;
  o.groups = groups;
  o.stride[0] = sy;
  o.stride[1] = sx;
  std::copy(pad.begin(), pad.end(), o.pad);
  o.dilation[0] = dy;
  o.dilation[1] = dx;
  return o;
}

TEST(Gradient, Conv2d) {
  const auto f = [](uop::Conv2d o) {
    return [o](Graph& g, Xs x) { return at(g, build_conv2d(g, x[0].n, x[1].n, o)); };
  };
  run({
      {"plain", {{2, 2, 4, 5}, {3, 2, 2, 3}}, f(conv(1, 1, 1, {0, 0, 0, 0}, 1, 1))},
      {"stride with a rest", {{1, 2, 6, 5}, {2, 2, 3, 2}}, f(conv(1, 2, 2, {0, 0, 0, 0}, 1, 1))},
      {"padding", {{1, 1, 3, 4}, {2, 1, 3, 3}}, f(conv(1, 1, 2, {1, 2, 0, 1}, 1, 1))},
      {"padding beyond the kernel",
       {{1, 1, 3, 2}, {1, 1, 2, 1}},
       f(conv(1, 2, 1, {3, 2, 1, 2}, 1, 1))},
      {"dilation", {{1, 1, 6, 5}, {1, 1, 2, 2}}, f(conv(1, 1, 1, {1, 0, 0, 1}, 3, 2))},
      {"groups", {{1, 4, 3, 3}, {6, 2, 2, 2}}, f(conv(2, 1, 1, {0, 1, 1, 0}, 1, 1))},
      {"depthwise", {{2, 3, 4, 4}, {3, 1, 2, 2}}, f(conv(3, 2, 1, {0, 0, 0, 0}, 1, 1))},
      {"weight gradient",
       {{2, 2, 4, 4}, {2, 3, 3, 3}},
       [](Graph& g, Xs x) {
         return at(g, build_conv2d_weight_grad(g, x[0].n, x[1].n, conv(1, 1, 1, {0, 0, 0, 0}, 1, 1),
                                               2, 2));
       }},
  });
}

TEST(Gradient, Pools) {
  uop::Pool2d plain, wide;
  wide.kernel[0] = 3;
  wide.pad[0] = wide.pad[3] = 1;
  wide.stride[0] = 1;
  wide.dilation[1] = 2;
  for (const uop::Pool2d& o : {plain, wide}) {
    run({{"max",
          {{2, 4, 6}},
          [o](Graph& g, Xs x) { return at(g, build_max_pool2d(g, x[0].n, o)); }},
         {"avg",
          {{2, 4, 6}},
          [o](Graph& g, Xs x) { return at(g, build_avg_pool2d(g, x[0].n, o, true)); }},
         {"avg of what is there", {{2, 4, 6}}, [o](Graph& g, Xs x) {
            return at(g, build_avg_pool2d(g, x[0].n, o, false));
          }}});
  }
}

TEST(Gradient, SoftmaxFamilyAndNorms) {
  run({
      {"softmax", {{2, 4, 3}}, [](Graph& g, Xs x) { return at(g, build_softmax(g, x[0].n, 1)); }},
      {"log_softmax",
       {{3, 4}},
       [](Graph& g, Xs x) { return at(g, build_log_softmax(g, x[0].n, 1)); }},
      {"logsumexp",
       {{2, 3, 4}},
       [](Graph& g, Xs x) {
         return at(g, build_logsumexp(g, x[0].n, Shape{0, 2}));
       }},
      {"layer_norm",
       {{3, 2, 4}},
       [](Graph& g, Xs x) { return at(g, build_layer_norm(g, x[0].n, 2, 1e-3)); }},
      {"batch_norm",
       {{2, 3, 2}, {3}, {3}, {3}, {3}},
       [](Graph& g, Xs x) {
         return at(g, build_batch_norm(g, x[0].n, x[1].n, x[2].n, x[3].n, x[4].n));
       }},
  });
}

TEST(Gradient, CrossEntropy) {
  for (const bool mean : {true, false}) {
    Numeric n;
    std::mt19937 random(3);
    const Expr x = n.random_leaf({4, 3}, random, -2, 2);
    const Expr labels = n.labels({4}, {2, 0, 7, 1});  // 7 is no class: it counts nothing
    n.check("cross_entropy", {&n.graph(), build_cross_entropy(n.graph(), x.n, labels.n, mean)},
            {x});
  }
}

// The rules that shorten a composite agree with going through its body.
TEST(Gradient, SecondOrder) {
  Numeric n;
  std::mt19937 random(5);
  Graph& g = n.graph();
  const Expr x = n.random_leaf({1, 1, 4, 4}, random), w = n.random_leaf({2, 1, 2, 2}, random);
  const Expr y = at(g, build_conv2d(g, x.n, w.n, conv(1, 2, 1, {1, 0, 0, 0}, 1, 1)));
  const Expr cube = y * y * y;
  Node first[2];
  ASSERT_TRUE(
      gradient(g, reduce(Op::kAdd, cube, Shape{0, 1, 2, 3}).n, nullptr, std::array{x.n, w.n}, first)
          .ok());
  n.check("second order by the input", at(g, first[0]), {x, w}, 1e-5);
  n.check("second order by the weight", at(g, first[1]), {x, w}, 1e-5);
  Node s[1];
  const Expr soft = at(g, build_softmax(g, x.n, 3));
  ASSERT_TRUE(gradient(g, (soft * soft).n, nullptr, std::array{x.n}, s).ok());
  n.check("second order softmax", at(g, s[0]), {x}, 1e-5);
}

// ---- Conventions ----

Values gradient_at(Values values, const std::function<Expr(Expr)>& f) {
  Numeric n;
  const Shape shape{static_cast<int64_t>(values.size())};
  const Expr x = n.leaf(shape, std::move(values));
  Node dx[1];
  EXPECT_TRUE(gradient(n.graph(), f(x).n, nullptr, std::array{x.n}, dx).ok()) << Numeric::message();
  return n.value(dx[0]);
}

TEST(Gradient, TiesAreSharedAndKinksAreZero) {
  EXPECT_EQ(gradient_at({1, 3, 3, 2}, [](Expr x) { return reduce(Op::kMax, x, Shape{0}); }),
            (Values{0, .5, .5, 0}));
  EXPECT_EQ(gradient_at({1, 1, 1, 2}, [](Expr x) { return reduce(Op::kMin, x, Shape{0}); }),
            (Values{1.0 / 3, 1.0 / 3, 1.0 / 3, 0}));
  EXPECT_EQ(gradient_at({1, 2, 3}, [](Expr x) { return max(x, 2.0); }), (Values{0, .5, 1}));
  EXPECT_EQ(gradient_at({1, 2, 3}, [](Expr x) { return min(x, 2.0); }), (Values{1, .5, 0}));
  EXPECT_EQ(gradient_at({-2, 0, 3}, [](Expr x) { return abs(x); }), (Values{-1, 0, 1}));
  EXPECT_EQ(gradient_at({-1.5, 2.5}, [](Expr x) { return x * trunc(x); }), (Values{-1, 2}));
}

TEST(Gradient, ProductWithZeros) {
  const auto prod = [](Expr x) { return reduce(Op::kMul, x, Shape{0}); };
  EXPECT_EQ(gradient_at({2, 3, 4}, prod), (Values{12, 8, 6}));
  EXPECT_EQ(gradient_at({2, 0, 4}, prod), (Values{0, 8, 0}));
  EXPECT_EQ(gradient_at({0, 0, 4}, prod), (Values{0, 0, 0}));
}

TEST(Gradient, PowAtZero) {
  const auto power = [](double e) { return [e](Expr x) { return pow(x, e); }; };
  EXPECT_EQ(gradient_at({0}, power(0)), (Values{0}));
  EXPECT_EQ(gradient_at({0}, power(1)), (Values{1}));
  EXPECT_EQ(gradient_at({0}, power(2)), (Values{0}));
  const auto exponent = [](double b) { return [b](Expr x) { return pow(b, x); }; };
  EXPECT_EQ(gradient_at({2}, exponent(0)), (Values{0}));
  EXPECT_EQ(gradient_at({-1}, exponent(0)), (Values{-INFINITY}));
}

TEST(Gradient, DetachStopsAndTargetsMayDependOnEachOther) {
  Numeric n;
  Graph& g = n.graph();
  const Expr x = n.leaf({2}, {2, 3});
  const Expr y = x * x;
  const Expr z = y * 3.0 + (y * x).detach();
  Node d[3];
  ASSERT_TRUE(gradient(g, z.n, nullptr, std::array{x.n, y.n, z.n}, d).ok());
  EXPECT_EQ(n.value(d[0]), (Values{12, 18}));
  EXPECT_EQ(n.value(d[1]), (Values{3, 3}));
  EXPECT_EQ(n.value(d[2]), (Values{1, 1}));
}

TEST(Gradient, TargetsThatLaterMovementUndoes) {
  Numeric n;
  Graph& g = n.graph();
  const Expr a = n.leaf({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto ones = [&](Node view, Node back) {
    ASSERT_NE(view, a.n);
    Node dx = nullptr;
    const Node loss = g.reshape(uop::sum(Expr{&g, back}, std::array<Word, 2>{0, 1}).n, {});
    ASSERT_TRUE(gradient(g, loss, nullptr, std::array{view}, {&dx, 1}, Unreached::kError).ok());
    for (double v : n.value(dx)) EXPECT_EQ(v, 1);
  };
  const Node turned = g.permute(a.n, std::array<Word, 2>{1, 0});
  ones(turned, g.permute(turned, std::array<Word, 2>{1, 0}));
  const Node flat = g.reshape(a.n, std::array<Word, 1>{6});
  ones(flat, g.reshape(flat, std::array<Word, 2>{2, 3}));
}

TEST(Gradient, NothingFlowsThroughIntegers) {
  Numeric n;
  Graph& g = n.graph();
  const Expr x = n.leaf({2}, {2.5, 3.5});
  const Expr y = x.cast(DType::kInt32).cast(DType::kFloat64) * x;
  Node d[1];
  ASSERT_TRUE(gradient(g, y.n, nullptr, std::array{x.n}, d).ok());
  EXPECT_EQ(n.value(d[0]), (Values{2, 3}));
}

TEST(Gradient, UnreachedTargets) {
  Numeric n;
  Graph& g = n.graph();
  const Expr x = n.leaf({2}, {1, 2}), other = n.leaf({3}, {1, 2, 3});
  Node d[1];
  ASSERT_TRUE(gradient(g, (x * 2.0).n, nullptr, std::array{other.n}, d).ok());
  EXPECT_EQ(n.value(d[0]), (Values{0, 0, 0}));
  EXPECT_EQ(gradient(g, (x * 2.0).n, nullptr, std::array{other.n}, d, Unreached::kError).code,
            ASTER_ML_ARGUMENT);
  ASSERT_TRUE(gradient(g, (x * 2.0).n, nullptr, std::array{other.n}, d, Unreached::kNull).ok());
  EXPECT_EQ(d[0], nullptr);
}

TEST(Gradient, Errors) {
  Numeric n;
  Graph& g = n.graph();
  const Expr x = n.leaf({2}, {1, 2});
  const Node whole = x.cast(DType::kInt32).n;
  Node d[1];
  EXPECT_EQ(gradient(g, whole, nullptr, std::array{x.n}, d).code, ASTER_ML_DTYPE);
  EXPECT_EQ(gradient(g, x.n, nullptr, std::array{whole}, d).code, ASTER_ML_DTYPE);
  EXPECT_EQ(gradient(g, x.n, x.reshape(Shape{2, 1}).n, std::array{x.n}, d).code, ASTER_ML_SHAPE);
  EXPECT_NE(Numeric::message().find("float64[2, 1]"), std::string::npos) << Numeric::message();
  const Node tuple = g.make(Op::kItem, DType::kFloat64, std::array{x.n}, Shape{0}, Shape{2});
  EXPECT_EQ(gradient(g, tuple, nullptr, std::array{x.n}, d).code, ASTER_ML_UNSUPPORTED);
}

// Halves are summed in float32: 4096 ones over a broadcast axis are 4096, not 2048.
TEST(Gradient, BroadcastSumsInTheAccumulator) {
  Heap heap(nullptr);
  Graph g(heap);
  const Node x = g.param(0, DType::kFloat16, Shape{1});
  const Node y = g.expand(x, Shape{4096});
  Node d[1];
  ASSERT_TRUE(gradient(g, y, nullptr, std::array{x}, d).ok());
  uint16_t in = 0x3C00, out = 0;
  const runtime::reference::Binding binding{x, &in};
  const runtime::reference::Output output{d[0], &out};
  ASSERT_TRUE(runtime::reference::interpret(g, heap, {&binding, 1}, {&output, 1}).ok());
  EXPECT_EQ(out, 0x6C00);  // 4096
}

TEST(Gradient, DeepChainsDoNotRecurse) {
  Heap heap(nullptr);
  Graph g(heap);
  const Node x = g.param(0, DType::kFloat32, Shape{2});
  Expr y{&g, x};
  for (int i = 0; i < 100000; ++i) y = y + (i % 2 == 0 ? 1.0 : -1.0);
  Node d[1];
  ASSERT_TRUE(gradient(g, sin(y).n, nullptr, std::array{x}, d).ok());
  EXPECT_NE(d[0], nullptr);
}

}  // namespace
}  // namespace aster::gradient::test
