// Whole kernels: elementwise, folds, products, gates, in place.
#include "kernel_support.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kF32 = DType::kFloat32;

TEST(Kernel, AddsTwoVectorsOfEverySize) {
  Suite s;
  for (int64_t n = 1; n <= 40; ++n) {
    Node i = s.range(0, n);
    Node sum = s.op(Op::kAdd, s.load(s.param(1, kF32, n), i), s.load(s.param(2, kF32, n), i));
    s.add("add" + std::to_string(n), {s.store(s.param(0, kF32, n), i, sum, {i})});
  }
  s.run();
}

TEST(Kernel, Softmax) {
  Suite s;
  for (int64_t n : {1, 5, 16, 33, 100}) {
    const int64_t rows = 7;
    Node i = s.range(0, rows), k = s.range(1, n), l = s.range(2, n), j = s.range(3, n);
    Node x = s.param(1, kF32, rows * n);
    Node most = s.fold(Op::kMax, s.load(x, s.at({{i, n}, {k, 1}})), {k});
    Node sum = s.fold(Op::kAdd, s.op(Op::kExp, s.op(Op::kSub, s.load(x, s.at({{i, n}, {l, 1}})), most)), {l});
    Node y = s.op(Op::kDiv, s.op(Op::kExp, s.op(Op::kSub, s.load(x, s.at({{i, n}, {j, 1}})), most)), sum);
    s.add("softmax" + std::to_string(n), {s.store(s.param(0, kF32, rows * n), s.at({{i, n}, {j, 1}}), y, {i, j})}, 1e-6);
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
      Node a = s.load(s.param(1, kF32, m * k), ta ? s.at({{l, m}, {i, 1}}) : s.at({{i, k}, {l, 1}}));
      Node b = s.load(s.param(2, kF32, k * n), tb ? s.at({{j, k}, {l, 1}}) : s.at({{l, n}, {j, 1}}));
      Node y = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {l});
      s.add("matmul" + std::to_string(m) + "_" + std::to_string(n) + "_" + std::to_string(k) + "_" + std::to_string(layout),
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
          {s.store(s.param(0, kF32, m), i, s.fold(Op::kAdd, s.load(s.param(1, kF32, m * n), s.at({{i, n}, {k, 1}})), {k}), {i})}, 1e-5);
    Node j = s.range(0, n), l = s.range(1, m);
    s.add("columns" + std::to_string(n),
          {s.store(s.param(0, kF32, n), j, s.fold(Op::kAdd, s.load(s.param(1, kF32, m * n), s.at({{l, n}, {j, 1}})), {l}), {j})}, 1e-5);
  }
  s.run();
}

}  // namespace
}  // namespace aster::codegen::tests
