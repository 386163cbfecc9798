// Whole kernels: elementwise, folds, products, gates, in place.
#include "kernel_support.h"
#include "program_support.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kF32 = DType::kFloat32;

// All kernels and programs of these tests run there too. ASTER_TEST_NO_SKIPS: where the tests'
// packages were installed.
TEST(Kernel, AnotherCpuIsAtHand) {
  if (Aarch64::here()) return;
  if (std::getenv("ASTER_TEST_NO_SKIPS") != nullptr) FAIL() << kNoAarch64;
  GTEST_SKIP() << kNoAarch64;
}

TEST(Kernel, AddsTwoVectorsOfEverySize) {
  Suite s;
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 39, 40, 70}) {
    Node i = s.range(0, n);
    Node sum = s.op(Op::kAdd, s.load(s.param(1, kF32, n), i), s.load(s.param(2, kF32, n), i));
    s.add("add" + std::to_string(n), {s.store(s.param(0, kF32, n), i, sum, {i})});
  }
  s.run();
}

TEST(Kernel, Softmax) {
  Suite s;
  for (int64_t n : {1, 5, 16, 33, 55}) {
    const int64_t rows = 7;
    Node i = s.range(0, rows), k = s.range(1, n), l = s.range(2, n), j = s.range(3, n);
    Node x = s.param(1, kF32, rows * n);
    Node most = s.fold(Op::kMax, s.load(x, s.at({{i, n}, {k, 1}})), {k});
    Node sum = s.fold(Op::kAdd,
                      s.op(Op::kExp, s.op(Op::kSub, s.load(x, s.at({{i, n}, {l, 1}})), most)), {l});
    Node y = s.op(Op::kDiv, s.op(Op::kExp, s.op(Op::kSub, s.load(x, s.at({{i, n}, {j, 1}})), most)),
                  sum);
    s.add("softmax" + std::to_string(n),
          {s.store(s.param(0, kF32, rows * n), s.at({{i, n}, {j, 1}}), y, {i, j})}, 1e-6);
  }
  s.run();
}

TEST(Kernel, ProductsOfMatricesInEveryLayout) {
  Suite s;
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {8, 32, 16}, {17, 33, 20}, {40, 9, 64}};
  for (const auto& [m, n, k] : sizes) {
    for (int layout = 0; layout < 4; ++layout) {
      const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
      Node i = s.range(0, m), j = s.range(1, n), l = s.range(2, k);
      Node a =
          s.load(s.param(1, kF32, m * k), ta ? s.at({{l, m}, {i, 1}}) : s.at({{i, k}, {l, 1}}));
      Node b =
          s.load(s.param(2, kF32, k * n), tb ? s.at({{j, k}, {l, 1}}) : s.at({{l, n}, {j, 1}}));
      Node y = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {l});
      s.add("matmul" + std::to_string(m) + "_" + std::to_string(n) + "_" + std::to_string(k) + "_" +
                std::to_string(layout),
            {s.store(s.param(0, kF32, m * n), s.at({{i, n}, {j, 1}}), y, {i, j})}, 1e-5);
    }
  }
  s.run();
}

TEST(Kernel, RowAndColumnSums) {
  Suite s;
  for (int64_t n : {1, 3, 16, 31, 130}) {
    const int64_t m = 9;
    Node i = s.range(0, m), k = s.range(1, n);
    s.add("rows" + std::to_string(n),
          {s.store(s.param(0, kF32, m), i,
                   s.fold(Op::kAdd, s.load(s.param(1, kF32, m * n), s.at({{i, n}, {k, 1}})), {k}),
                   {i})},
          1e-5);
    Node j = s.range(0, n), l = s.range(1, m);
    s.add("columns" + std::to_string(n),
          {s.store(s.param(0, kF32, n), j,
                   s.fold(Op::kAdd, s.load(s.param(1, kF32, m * n), s.at({{l, n}, {j, 1}})), {l}),
                   {j})},
          1e-5);
  }
  s.run();
}

TEST(Kernel, FoldsInPlaceAndSeveralStores) {
  Suite s;
  for (int64_t n : {1, 7, 16, 40, 100}) {
    Node i = s.range(0, n);
    Node m = s.param(0, kF32, n), v = s.param(1, kF32, n), p = s.param(2, kF32, n),
         g = s.param(3, kF32, n);
    Node rate = s.load(s.param(4, kF32, 1), s.at({}));
    Node grad = s.load(g, i);
    Node m1 = s.op(Op::kAdd, s.op(Op::kMul, s.load(m, i), s.c(kF32, 0.5)),
                   s.op(Op::kMul, grad, s.c(kF32, 0.5)));
    Node v1 =
        s.op(Op::kAdd, s.op(Op::kMul, s.load(v, i), s.c(kF32, 0.25)), s.op(Op::kMul, grad, grad));
    Node step =
        s.op(Op::kDiv, s.op(Op::kMul, rate, m1), s.op(Op::kAdd, s.op(Op::kSqrt, v1), s.c(kF32, 1)));
    Node p1 = s.op(Op::kSub, s.load(p, i), step);
    s.add("adam" + std::to_string(n),
          {s.store(m, i, m1, {i}), s.store(v, i, v1, {i}), s.store(p, i, p1, {i})}, 1e-6, 0, 2);
  }
  // C += A @ B, tiled in both directions with rests.
  const int64_t m = 19, n = 37, k = 6;
  Node i = s.range(0, m), j = s.range(1, n), l = s.range(2, k);
  Node c = s.param(0, kF32, m * n), at = s.at({{i, n}, {j, 1}});
  Node sum = s.fold(Op::kAdd,
                    s.op(Op::kMul, s.load(s.param(1, kF32, m * k), s.at({{i, k}, {l, 1}})),
                         s.load(s.param(2, kF32, k * n), s.at({{l, n}, {j, 1}}))),
                    {l});
  s.add("accumulate", {s.store(c, at, s.op(Op::kAdd, s.load(c, at), sum), {i, j})}, 1e-5);
  s.run();
}

// Mean and variance of rows, stored beside the normalised rows.
TEST(Kernel, LayerNorm) {
  Suite s;
  for (int64_t n : {4, 20, 70}) {
    const int64_t rows = 6;
    Node i = s.range(0, rows), k = s.range(1, n), l = s.range(2, n), j = s.range(3, n);
    Node x = s.param(3, kF32, rows * n);
    const auto row = [&](Node r) { return s.load(x, s.at({{i, n}, {r, 1}})); };
    Node mean =
        s.op(Op::kMul, s.fold(Op::kAdd, row(k), {k}), s.c(kF32, 1.0 / static_cast<double>(n)));
    Node d = s.op(Op::kSub, row(l), mean);
    Node var = s.op(Op::kMul, s.fold(Op::kAdd, s.op(Op::kMul, d, d), {l}),
                    s.c(kF32, 1.0 / static_cast<double>(n)));
    Node inv = s.op(Op::kRecip, s.op(Op::kSqrt, s.op(Op::kAdd, var, s.c(kF32, 1e-5))));
    Node y = s.op(Op::kAdd,
                  s.op(Op::kMul, s.op(Op::kMul, s.op(Op::kSub, row(j), mean), inv),
                       s.load(s.param(4, kF32, n), j)),
                  s.load(s.param(5, kF32, n), j));
    s.add("layernorm" + std::to_string(n),
          {s.store(s.param(0, kF32, rows * n), s.at({{i, n}, {j, 1}}), y, {i, j}),
           s.store(s.param(1, kF32, rows), i, mean, {i}),
           s.store(s.param(2, kF32, rows), i, inv, {i})},
          2e-5);
  }
  // Over the first axis: the columns are the lanes.
  const int64_t n = 21, rows = 5;
  Node j = s.range(0, n), k = s.range(1, rows), i = s.range(2, rows);
  Node x = s.param(1, kF32, rows * n);
  Node most = s.fold(Op::kMax, s.load(x, s.at({{k, n}, {j, 1}})), {k});
  s.add("columns_minus_max",
        {s.store(s.param(0, kF32, rows * n), s.at({{i, n}, {j, 1}}),
                 s.op(Op::kSub, s.load(x, s.at({{i, n}, {j, 1}})), most), {j, i})});
  s.run();
}

// Convolutions with padding as gates, bias and relu; strides and dilation; several images.
TEST(Kernel, Convolutions) {
  struct Shape {
    int64_t images, in, out, size, kernel, stride, pad, dilation;
  };
  Suite s;
  for (const Shape& c : {Shape{2, 3, 5, 8, 3, 1, 1, 1}, Shape{1, 4, 8, 20, 3, 1, 1, 1},
                         Shape{1, 2, 3, 9, 3, 2, 1, 1}, Shape{1, 2, 2, 12, 3, 1, 2, 2},
                         Shape{2, 1, 4, 18, 5, 1, 0, 1}, Shape{1, 3, 4, 7, 1, 1, 0, 1}}) {
    const int64_t o = (c.size + 2 * c.pad - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
    Node b = s.range(0, c.images), f = s.range(1, c.out), y = s.range(2, o), x = s.range(3, o);
    Node d = s.range(4, c.in), ky = s.range(5, c.kernel), kx = s.range(6, c.kernel);
    Node iy = s.at({{y, c.stride}, {ky, c.dilation}}, -c.pad),
         ix = s.at({{x, c.stride}, {kx, c.dilation}}, -c.pad);
    Node gate =
        s.both(s.both(s.ge(iy, 0), s.lt(iy, c.size)), s.both(s.ge(ix, 0), s.lt(ix, c.size)));
    Node in = s.param(1, kF32, c.images * c.in * c.size * c.size),
         w = s.param(2, kF32, c.out * c.in * c.kernel * c.kernel);
    Node value =
        s.load(in, s.at({{b, c.in * c.size * c.size}, {d, c.size * c.size}, {iy, c.size}, {ix, 1}}),
               c.pad > 0 ? gate : nullptr);
    Node weight = s.load(
        w,
        s.at({{f, c.in * c.kernel * c.kernel}, {d, c.kernel * c.kernel}, {ky, c.kernel}, {kx, 1}}));
    Node sum = s.fold(Op::kAdd, s.op(Op::kMul, value, weight), {d, ky, kx});
    Node out =
        s.op(Op::kMax, s.op(Op::kAdd, sum, s.load(s.param(3, kF32, c.out), f)), s.c(kF32, 0));
    s.add("conv" + std::to_string(c.size) + "_" + std::to_string(c.stride) + "_" +
              std::to_string(c.pad),
          {s.store(s.param(0, kF32, c.images * c.out * o * o),
                   s.at({{b, c.out * o * o}, {f, o * o}, {y, o}, {x, 1}}), out, {b, f, y, x})},
          1e-5);
    // The gradient of the weights: pixels are folded.
    Node g = s.load(s.param(2, kF32, c.images * c.out * o * o),
                    s.at({{b, c.out * o * o}, {f, o * o}, {y, o}, {x, 1}}));
    Node gw = s.fold(Op::kAdd, s.op(Op::kMul, g, value), {b, y, x});
    s.add("conv_weight" + std::to_string(c.size) + "_" + std::to_string(c.stride) + "_" +
              std::to_string(c.pad),
          {s.store(s.param(0, kF32, c.out * c.in * c.kernel * c.kernel),
                   s.at({{f, c.in * c.kernel * c.kernel},
                         {d, c.kernel * c.kernel},
                         {ky, c.kernel},
                         {kx, 1}}),
                   gw, {f, d, ky, kx})},
          1e-4);
  }
  s.run();
}

TEST(Kernel, Gates) {
  Suite s;
  for (DType d : {DType::kFloat32, DType::kInt8, DType::kFloat16, DType::kFloat64, DType::kBool}) {
    for (int64_t n : {5, 16, 35}) {
      // Three zeros in front, four behind; both ends of the param are ends of the memory.
      Node i = s.range(0, 3), j = s.range(1, n + 7);
      Node x = s.load(s.param(1, d, 3 * n), s.at({{i, n}, {j, 1}}, -3),
                      s.both(s.ge(j, 3), s.lt(j, n + 3)));
      s.add("pad" + std::to_string(n) + dtype::name(d),
            {s.store(s.param(0, d, 3 * (n + 7)), s.at({{i, n + 7}, {j, 1}}), x, {i, j})});
      // The same at every second element.
      Node k = s.range(0, n / 2 + 5);
      Node w =
          s.load(s.param(1, d, n), s.at({{k, 2}}, -3), s.both(s.ge(k, 2), s.lt(k, (n + 4) / 2)));
      s.add("pad_halves" + std::to_string(n) + dtype::name(d),
            {s.store(s.param(0, d, n / 2 + 5), k, w, {k})});
      // A gate on the outer loop alone, and one on the parity of the index.
      Node y = s.load(s.param(1, d, n), s.at({{j, 1}, {i, 0}}),
                      s.both(s.lt(s.at({{i, 1}}), 1), s.lt(j, n)));
      s.add("rows" + std::to_string(n) + dtype::name(d),
            {s.store(s.param(0, d, 3 * (n + 7)), s.at({{i, n + 7}, {j, 1}}), y, {i, j})});
      Node half = uop::sym::floordiv(s.graph, j, 2);
      Node odd = uop::sym::eq(s.graph, uop::sym::floormod(s.graph, j, 2), 1);
      Node z = s.load(s.param(1, d, n + 7), half, odd);
      s.add("spread" + std::to_string(n) + dtype::name(d),
            {s.store(s.param(0, d, n + 7), j, z, {j})});
    }
  }
  s.run();
}

TEST(Kernel, StridesTransposesFlipsAndGathers) {
  Suite s;
  for (DType d : {DType::kFloat32, DType::kUInt8, DType::kFloat64, DType::kBFloat16}) {
    const std::string name = dtype::name(d);
    for (int64_t n : {3, 16, 37}) {
      Node i = s.range(0, n);
      for (int64_t k : {2, 3, 5}) {
        s.add("stride" + std::to_string(k) + std::to_string(n) + name,
              {s.store(s.param(0, d, n), i, s.load(s.param(1, d, (n - 1) * k + 1), s.at({{i, k}})),
                       {i})});
      }
      s.add("flip" + std::to_string(n) + name,
            {s.store(s.param(0, d, n), i, s.load(s.param(1, d, n), s.at({{i, -1}}, n - 1)), {i})});
      s.add("scatter" + std::to_string(n) + name,
            {s.store(s.param(0, d, 3 * n), s.at({{i, 3}}), s.load(s.param(1, d, n), i), {i})});
    }
    for (auto [m, n] : {std::pair<int64_t, int64_t>{5, 7}, {70, 40}, {33, 130}}) {
      Node i = s.range(0, m), j = s.range(1, n);
      s.add("transpose" + std::to_string(m) + name,
            {s.store(s.param(0, d, m * n), s.at({{i, n}, {j, 1}}),
                     s.load(s.param(1, d, m * n), s.at({{j, m}, {i, 1}})), {i, j})});
    }
    // Rows of a table chosen by another param; elements chosen one by one.
    const int64_t rows = 9, width = 20, count = 18;
    for (DType t : {DType::kInt32, DType::kInt64}) {
      Node i = s.range(0, count), j = s.range(1, width);
      Node row = s.graph.cast(s.load(s.param(2, t, count), i), DType::kWeakInt);
      Node gate = s.both(s.ge(row, 0), s.lt(row, rows));
      s.add("rows_of_table" + name + dtype::name(t),
            {s.store(s.param(0, d, count * width), s.at({{i, width}, {j, 1}}),
                     s.load(s.param(1, d, rows * width), s.at({{row, width}, {j, 1}}), gate),
                     {i, j})},
            0, -3, 12);
      s.add("take" + name + dtype::name(t),
            {s.store(s.param(0, d, count), i, s.load(s.param(1, d, rows), row, gate), {i})}, 0, -3,
            12);
    }
  }
  s.run();
}

// Greatest element and the first index that has it, as two folds.
TEST(Kernel, FoldsOfEveryKind) {
  Suite s;
  for (int64_t n : {9, 50}) {
    const int64_t rows = 4;
    Node i = s.range(0, rows), k = s.range(1, n), l = s.range(2, n);
    Node x = s.param(1, kF32, rows * n);
    Node most = s.fold(Op::kMax, s.load(x, s.at({{i, n}, {k, 1}})), {k});
    Node here = s.op(Op::kCmpEq, s.load(x, s.at({{i, n}, {l, 1}})), most);
    Node back = s.graph.cast(s.at({{l, -1}}, n), DType::kInt32);
    Node best = s.fold(Op::kMax, s.op(Op::kWhere, here, back, s.c(DType::kInt32, 0)), {l});
    s.add("argmax" + std::to_string(n),
          {s.store(s.param(0, DType::kInt32, rows), i,
                   s.op(Op::kSub, s.c(DType::kInt32, static_cast<double>(n)), best), {i})});
    const std::pair<Op, double> kinds[] = {
        {Op::kAdd, 1e-5}, {Op::kMul, 1e-4}, {Op::kMax, 0}, {Op::kMin, 0}};
    for (DType d : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt8, DType::kUInt32,
                    DType::kInt64, DType::kBool}) {
      Node y = s.param(1, d, rows * n);
      std::vector<Node> stores;
      double tolerance = 0;
      const auto along = [&](Op o, bool columns) {
        Node r = s.range(columns ? 2 : 1, columns ? rows : n),
             c = s.range(columns ? 3 : 0, columns ? n : rows);
        Node value = s.load(y, columns ? s.at({{r, n}, {c, 1}}) : s.at({{c, n}, {r, 1}}));
        stores.push_back(
            s.store(s.param(static_cast<int>(stores.size()) + 2, d, columns ? n : rows), c,
                    s.fold(o, value, {r}), {c}));
      };
      for (auto [o, t] : kinds) {
        along(o, false), along(o, true);
        if (dtype::is_float(d)) tolerance = std::max(tolerance, d == DType::kFloat16 ? 2e-2 : t);
      }
      if (!dtype::is_float(d)) {
        for (Op o : {Op::kAnd, Op::kOr}) along(o, false), along(o, true);
      }
      // The param slots start at 1: slot 0 is not used.
      s.add("folds" + std::to_string(n) + dtype::name(d), stores, tolerance,
            d == DType::kBool ? 0 : -1.4, d == DType::kBool ? 2 : 1.4);
    }
  }
  // All of it, and several ranges at once.
  for (int64_t n : {5, 64, 1000}) {
    Node a = s.range(0, 3), b = s.range(1, n);
    Node x = s.load(s.param(1, kF32, 3 * n), s.at({{a, n}, {b, 1}}));
    s.add("sum_all" + std::to_string(n),
          {s.store(s.param(0, kF32, 1), s.at({}), s.fold(Op::kAdd, x, {a, b}), {})}, 1e-4);
    Node y = s.load(s.param(1, kF32, 3 * n * 4), s.at({{a, 4 * n}, {b, 1}, {s.range(2, 2), n}}));
    s.add(
        "sum_some" + std::to_string(n),
        {s.store(s.param(0, kF32, 2), s.range(2, 2), s.fold(Op::kAdd, y, {a, b}), {s.range(2, 2)})},
        1e-4);
  }
  s.run();
}

TEST(Kernel, NaNWinsAndZeroSigns) {
  Suite s;
  Node i = s.range(0, 3), k = s.range(1, 40);
  Node x = s.load(s.param(1, kF32, 120), s.at({{i, 40}, {k, 1}}));
  // A row with a NaN, one of infinities.
  Node y = s.op(Op::kLog, s.op(Op::kAdd, x, s.graph.cast(s.at({{i, 3}}, -1), kF32)));
  for (Op o : {Op::kMax, Op::kMin}) {
    s.add(uop::info(o).name, {s.store(s.param(0, kF32, 3), i, s.fold(o, y, {k}), {i})}, 1e-6, 0, 1);
  }
  Node negative = s.op(Op::kMul, s.load(s.param(1, kF32, 40), k), s.c(kF32, -0.0));
  s.add("zeros",
        {s.store(s.param(0, DType::kInt32, 40), k, s.graph.bitcast(negative, DType::kInt32), {k})},
        0, 0, 1);
  s.run();
}

// Loop variables and sizes past 32 bits in index arithmetic that a gate keeps inside the param.
TEST(Kernel, BigIndices) {
  Suite s;
  const int64_t far = int64_t{3} << 33;
  Node i = s.range(0, 37);
  Node wide = s.at({{i, far}}, -far * 5);
  Node inside = s.both(s.ge(wide, 0), s.lt(wide, 20));
  s.add("far", {s.store(s.param(0, kF32, 37), i, s.load(s.param(1, kF32, 20), wide, inside), {i})});
  s.run();
}

// Results that are taken to be larger than the cache.
TEST(Kernel, StreamsLargeResults) {
  Suite s;
  for (DType d : {DType::kFloat32, DType::kUInt8, DType::kFloat64}) {
    for (int64_t n : {64, 100, 333}) {
      Node i = s.range(0, 3), j = s.range(1, n);
      Node at = s.at({{i, n}, {j, 1}});
      Node x = s.op(Op::kAdd, s.load(s.param(1, d, 3 * n), at), s.load(s.param(2, d, n), j));
      s.add("stream" + std::to_string(n) + dtype::name(d),
            {s.store(s.param(0, d, 3 * n), at, x, {i, j})});
    }
  }
  s.run(1);
}

// Every allocation of a rendering fails in turn: a status, and the graph may be used again.
TEST(Kernel, SurvivesFailedAllocations) {
  Suite s;
  Node i = s.range(0, 20), k = s.range(1, 30), j = s.range(2, 30);
  Node x = s.param(1, kF32, 600);
  Node gate = s.both(s.ge(s.at({{k, 1}}, -3), 0), s.lt(s.at({{k, 1}}, -3), 20));
  Node most = s.fold(Op::kMax, s.load(x, s.at({{i, 30}, {k, 1}}, -3), gate), {k});
  Node row = s.graph.cast(s.load(s.param(2, DType::kInt32, 30), j), DType::kWeakInt);
  Node y = s.op(Op::kExp, s.op(Op::kSub, s.load(x, s.at({{i, 30}, {row, 1}})), most));
  Node kernel =
      s.graph.sink(std::array{s.store(s.param(0, kF32, 600), s.at({{i, 30}, {j, 1}}), y, {i, j})});

  bool done = false;
  for (int64_t n = 0; !done; ++n) {
    program::tests::FailingMemory source(n);
    Rendered out(source);
    Text declarations(source);
    Graph scratch(source, false);
    Status status = render(out, scratch, kernel, target_of(16));
    const program::RenderedC* one = &out.code;
    if (status.ok()) status = program::write_declarations(declarations, {&one, 1}, target_of(16));
    done = status.ok();
    ASSERT_EQ(status.code, done ? 0 : 6) << "allocation " << n;
    ASSERT_LT(n, 100000);
  }
}

TEST(Kernel, SeparateLoopsOfOneKernel) {
  Suite s;
  Node i = s.range(0, 21), j = s.range(1, 50);
  Node x = s.load(s.param(2, kF32, 21), i), y = s.load(s.param(3, kF32, 50), j);
  s.add("two", {s.store(s.param(0, kF32, 21), i, s.op(Op::kNeg, x), {i}),
                s.store(s.param(1, kF32, 50), j, s.op(Op::kAdd, y, y), {j})});
  s.run();
}

// A function of few lanes calls itself at more, whichever of them a kernel wants first.
// More ranges that are written out than programs have axes: of one length each, and of as many.
TEST(Kernel, ManyShortFolds) {
  Suite s;
  for (const bool alike : {true, false}) {
    Node i = s.range(0, 5), sum = nullptr;
    for (int at = 0; at < 30; ++at) {
      const int64_t length = alike ? 3 : 2 + at % 7 + at / 7;
      Node k = s.range(at + 1, length);
      Node x = s.load(s.param(at + 1, kF32, 5 * length), s.at({{i, length}, {k, 1}}));
      x = s.fold(Op::kAdd, x, {k});
      sum = sum == nullptr ? x : s.op(Op::kAdd, sum, x);
    }
    s.add(alike ? "alike" : "apart", {s.store(s.param(0, kF32, 5), i, sum, {i})}, 1e-4);
  }
  s.run();
}

TEST(Kernel, FunctionsAtSeveralNumbersOfLanes) {
  Suite s;
  std::vector<Node> stores;
  int slot = 0;
  for (int64_t size : {64, 4, 2, 3, 1}) {
    Node i = s.range(slot, size);
    Node x = s.op(Op::kExp, s.load(s.param(2 * slot + 1, kF32, size), i));
    stores.push_back(s.store(s.param(2 * slot, kF32, size), i, x, {i}));
    ++slot;
  }
  s.add("exps", stores, 1e-6);
  s.run();
}

// What reads lane by lane is written out less often than what reads vectors: compilers take seconds
// for a body of thousands of loads.
TEST(Kernel, TextOfLoadsLaneByLaneIsBounded) {
  Suite s;
  const int64_t rows = 192, outer = 8, inner = 4;
  const std::vector<std::pair<std::string, int64_t>> kinds{{"next", inner}, {"strided", 2 * inner}};
  for (const auto& [name, stride] : kinds) {
    Node i = s.range(0, rows), k = s.range(1, outer), l = s.range(2, inner);
    Node x = s.load(s.param(1, kF32, rows * stride * outer),
                    s.at({{i, stride}, {k, rows * stride}, {l, 1}}));
    const Case& made =
        s.add("sums_" + name,
              {s.store(s.param(0, kF32, rows), i, s.fold(Op::kAdd, x, {k, l}), {i})}, 1e-5);
    for (int width : widths()) {
      Rendered out(process_heap());
      ASSERT_TRUE(render(out, s.graph, made.kernel, target_of(width)).ok());
      EXPECT_LT(out.code.text.view().size(), 16384u) << name << " " << width;
    }
  }
  s.run();
}

// What follows the folds of a tile is written once where it is long, for whole tiles and others,
// and reads what it is about to write.
TEST(Kernel, TextBehindTheFoldsOfATileIsBounded) {
  Suite s;
  const int64_t inner = 80;
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 128}, {37, 50}}) {
    Node i = s.range(0, rows), j = s.range(1, columns), k = s.range(2, inner);
    Node a = s.load(s.param(1, kF32, rows * inner), s.at({{i, inner}, {k, 1}}));
    Node b = s.load(s.param(2, kF32, inner * columns), s.at({{k, columns}, {j, 1}}));
    Node product = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
    Node here = s.at({{i, columns}, {j, 1}});
    Node state = s.param(0, kF32, rows * columns), bias = s.param(3, kF32, columns);
    Node x = s.op(Op::kAdd, s.op(Op::kAdd, product, s.load(bias, j)), s.load(state, here));
    Node cube = s.op(Op::kMul, x, s.op(Op::kMul, x, x));
    Node wave = s.op(Op::kTanh, s.op(Op::kAdd, x, s.op(Op::kMul, cube, s.c(kF32, 0.044715))));
    const Case& made =
        s.add("products_" + std::to_string(rows),
              {s.store(state, here, s.op(Op::kMul, wave, s.op(Op::kExp, wave)), {i, j}),
               s.store(s.param(4, kF32, rows * columns), here, s.op(Op::kSub, x, wave), {i, j})},
              1e-4);
    for (int width : widths()) {
      Rendered out(process_heap());
      ASSERT_TRUE(render(out, s.graph, made.kernel, target_of(width)).ok());
      const std::string text(out.code.text.view());
      size_t calls = 0;
      for (size_t at = 0; (at = text.find("am_tanh", at)) != std::string::npos; ++at) ++calls;
      EXPECT_LE(calls, 5u) << rows << " " << width;  // of what stands side by side
    }
  }
  s.run();
}

TEST(Kernel, RejectsWhatIsNoKernel) {
  Suite s;
  Rendered out(process_heap());
  EXPECT_EQ(render(out, s.graph, nullptr, target_of(16)).code, 16);
  Node i = s.range(0, 4), j = s.range(1, 4);
  Node x = s.load(s.param(1, kF32, 4), j);
  EXPECT_FALSE(render(out, s.graph, s.graph.sink(std::array{x}), target_of(16)).ok());
  // One number for two ranges.
  Node twice = s.store(s.param(0, kF32, 4), i, s.load(s.param(1, kF32, 4), s.range(0, 3)),
                       {i, s.range(0, 3)});
  EXPECT_FALSE(render(out, s.graph, s.graph.sink(std::array{twice}), target_of(16)).ok());
  // A store that reads a range of no loop, a range number beyond what fits.
  Node open = s.store(s.param(0, kF32, 4), i, x, {i});
  EXPECT_FALSE(render(out, s.graph, s.graph.sink(std::array{open}), target_of(16)).ok());
  Node high = s.range(64, 4);
  Node many = s.store(s.param(0, kF32, 4), high, s.load(s.param(1, kF32, 4), high), {high});
  EXPECT_FALSE(render(out, s.graph, s.graph.sink(std::array{many}), target_of(16)).ok());
}

}  // namespace
}  // namespace aster::codegen::tests
