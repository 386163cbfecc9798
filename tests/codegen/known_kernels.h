// Kernels as the engine makes them of well-known operations, for benches and for what compilers
// make of their text.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "uop/symbolic.h"
#include "uop/uop.h"

namespace aster::codegen::tests::known {

using dtype::DType;
using uop::Node;
using uop::Op;

inline constexpr DType kF32 = DType::kFloat32;
inline constexpr int64_t kMany = int64_t{1} << 24;
inline constexpr int64_t kRows = 4096;

// Nodes of kernels, in short.
struct Builder {
  uop::Graph graph{process_heap(), false};
  Node range(int id, int64_t size) { return graph.range(id, size); }
  Node at(std::vector<std::pair<Node, int64_t>> terms, int64_t constant = 0) {
    Node out = graph.index(constant);
    for (auto [node, k] : terms) out = uop::sym::add(graph, out, uop::sym::mul(graph, node, k));
    return out;
  }
  Node param(int slot, int64_t count) {
    return graph.param(slot, kF32, std::array<int64_t, 1>{count});
  }
  Node load(int slot, int64_t count, Node index, Node gate = nullptr) {
    if (gate == nullptr) return graph.make(Op::kLoad, kF32, std::array{param(slot, count), index});
    return graph.make(Op::kLoad, kF32, std::array{param(slot, count), index, gate});
  }
  Node store(int64_t count, Node index, Node value, std::vector<Node> ranges) {
    std::vector<Node> src{param(0, count), index, value};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return graph.sink(std::array{graph.make(Op::kStore, DType::kNone, {src.data(), src.size()})});
  }
  Node fold(Op op, Node value, std::vector<Node> ranges) {
    std::vector<Node> src{value};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return graph.make(Op::kFold, value->dtype, {src.data(), src.size()},
                      std::array{static_cast<uop::Word>(op)});
  }
  Node op(Op o, Node a) { return graph.alu(o, a); }
  Node op(Op o, Node a, Node b) { return graph.alu(o, a, b); }
  Node c(double value) { return graph.constant(kF32, value); }
};

// ---- Emitted ----
inline Node add(Builder& b) {
  Node i = b.range(0, kMany);
  return b.store(kMany, i, b.op(Op::kAdd, b.load(1, kMany, i), b.load(2, kMany, i)), {i});
}
inline Node row_sums(Builder& b) {
  Node i = b.range(0, kRows), k = b.range(1, kRows);
  return b.store(kRows, i, b.fold(Op::kAdd, b.load(1, kMany, b.at({{i, kRows}, {k, 1}})), {k}),
                 {i});
}
inline Node column_sums(Builder& b) {
  Node i = b.range(0, kRows), k = b.range(1, kRows);
  return b.store(kRows, i, b.fold(Op::kAdd, b.load(1, kMany, b.at({{k, kRows}, {i, 1}})), {k}),
                 {i});
}
inline Node argmax(Builder& b) {
  Node i = b.range(0, kRows), k = b.range(1, kRows), l = b.range(2, kRows);
  Node most = b.fold(Op::kMax, b.load(1, kMany, b.at({{i, kRows}, {k, 1}})), {k});
  Node here = b.op(Op::kCmpEq, b.load(1, kMany, b.at({{i, kRows}, {l, 1}})), most);
  Node back = b.graph.cast(b.at({{l, -1}}, kRows), DType::kInt32);
  Node best = b.fold(
      Op::kMax, b.graph.alu(Op::kWhere, here, back, b.graph.constant_int(DType::kInt32, 0)), {l});
  return b.store(kRows, i, b.graph.cast(best, kF32), {i});
}
inline Node gelu(Builder& b) {
  Node i = b.range(0, kMany);
  Node x = b.op(Op::kAdd, b.op(Op::kMul, b.load(1, kMany, i), b.c(1.5)), b.c(0.25));
  Node cube = b.op(Op::kMul, b.op(Op::kMul, b.op(Op::kMul, x, b.c(0.044715)), x), x);
  Node t = b.op(Op::kTanh, b.op(Op::kMul, b.op(Op::kAdd, x, cube), b.c(0.7978845608)));
  Node y = b.op(Op::kMul, b.op(Op::kMul, b.op(Op::kMul, x, b.c(0.5)), b.op(Op::kAdd, t, b.c(1))),
                b.c(0.75));
  return b.store(kMany, i, y, {i});
}
inline Node softmax(Builder& b) {
  Node i = b.range(0, kRows), k = b.range(1, kRows), l = b.range(2, kRows), j = b.range(3, kRows);
  const auto x = [&](Node r) { return b.load(1, kMany, b.at({{i, kRows}, {r, 1}})); };
  Node most = b.fold(Op::kMax, x(k), {k});
  Node sum = b.fold(Op::kAdd, b.op(Op::kExp, b.op(Op::kSub, x(l), most)), {l});
  Node y = b.op(Op::kMul, b.op(Op::kExp, b.op(Op::kSub, x(j), most)), b.op(Op::kRecip, sum));
  return b.store(kMany, b.at({{i, kRows}, {j, 1}}), y, {i, j});
}
inline Node layernorm(Builder& b) {
  constexpr int64_t n = 1024;
  Node i = b.range(0, kRows), k = b.range(1, n), l = b.range(2, n), j = b.range(3, n);
  const auto x = [&](Node r) { return b.load(1, kRows * n, b.at({{i, n}, {r, 1}})); };
  Node mean = b.op(Op::kMul, b.fold(Op::kAdd, x(k), {k}), b.c(1.0 / n));
  Node d = b.op(Op::kSub, x(l), mean);
  Node var = b.op(Op::kMul, b.fold(Op::kAdd, b.op(Op::kMul, d, d), {l}), b.c(1.0 / n));
  Node inverse = b.op(Op::kRecip, b.op(Op::kSqrt, b.op(Op::kAdd, var, b.c(1e-5))));
  Node y = b.op(Op::kMul, b.op(Op::kMul, b.op(Op::kSub, x(j), mean), inverse), b.load(2, n, j));
  return b.store(kRows * n, b.at({{i, n}, {j, 1}}), b.op(Op::kAdd, y, b.load(3, n, j)), {i, j});
}
template <int64_t N, bool A, bool B>
Node matmul(Builder& b) {
  Node i = b.range(0, N), j = b.range(1, N), k = b.range(2, N);
  Node x = b.load(1, N * N, A ? b.at({{k, N}, {i, 1}}) : b.at({{i, N}, {k, 1}}));
  Node y = b.load(2, N * N, B ? b.at({{j, N}, {k, 1}}) : b.at({{k, N}, {j, 1}}));
  return b.store(N * N, b.at({{i, N}, {j, 1}}), b.fold(Op::kAdd, b.op(Op::kMul, x, y), {k}),
                 {i, j});
}
inline Node matvec(Builder& b) {
  Node i = b.range(0, kRows), k = b.range(1, kRows);
  Node product = b.op(Op::kMul, b.load(1, kMany, b.at({{i, kRows}, {k, 1}})), b.load(2, kRows, k));
  return b.store(kRows, i, b.fold(Op::kAdd, product, {k}), {i});
}
// kC channels in and out, kS pixels a side, 3x3, padded by gates if asked.
template <int64_t kC, int64_t kS, bool kPad>
Node conv(Builder& b) {
  constexpr int64_t in = kPad ? kS : kS + 2;
  Node f = b.range(0, kC), y = b.range(1, kS), x = b.range(2, kS);
  Node d = b.range(3, kC), ky = b.range(4, 3), kx = b.range(5, 3);
  Node iy = b.at({{y, 1}, {ky, 1}}, kPad ? -1 : 0), ix = b.at({{x, 1}, {kx, 1}}, kPad ? -1 : 0);
  auto& g = b.graph;
  const auto inside = [&](Node i) {
    return uop::sym::and_(g, uop::sym::not_(g, uop::sym::lt(g, i, int64_t{0})),
                          uop::sym::lt(g, i, in));
  };
  Node gate = kPad ? uop::sym::and_(g, inside(iy), inside(ix)) : nullptr;
  Node v = b.load(1, kC * in * in, b.at({{d, in * in}, {iy, in}, {ix, 1}}), gate);
  Node w = b.load(2, kC * kC * 9, b.at({{f, kC * 9}, {d, 9}, {ky, 3}, {kx, 1}}));
  Node sum = b.fold(Op::kAdd, b.op(Op::kMul, v, w), {d, ky, kx});
  return b.store(kC * kS * kS, b.at({{f, kS * kS}, {y, kS}, {x, 1}}), b.op(Op::kMax, sum, b.c(0)),
                 {f, y, x});
}
// The gradient of a padded 3x3 convolution's weights: images and pixels are folded.
inline Node conv_weight(Builder& b) {
  constexpr int64_t images = 64, channels = 32, side = 8;
  Node f = b.range(0, channels), d = b.range(1, channels), ky = b.range(2, 3), kx = b.range(3, 3);
  Node n = b.range(4, images), y = b.range(5, side), x = b.range(6, side);
  Node iy = b.at({{y, 1}, {ky, 1}}, -1), ix = b.at({{x, 1}, {kx, 1}}, -1);
  auto& g = b.graph;
  const auto inside = [&](Node i) {
    return uop::sym::and_(g, uop::sym::not_(g, uop::sym::lt(g, i, int64_t{0})),
                          uop::sym::lt(g, i, side));
  };
  constexpr int64_t plane = side * side, image = channels * plane;
  Node v = b.load(1, images * image, b.at({{n, image}, {d, plane}, {iy, side}, {ix, 1}}),
                  uop::sym::and_(g, inside(iy), inside(ix)));
  Node w = b.load(2, images * image, b.at({{n, image}, {f, plane}, {y, side}, {x, 1}}));
  return b.store(channels * channels * 9, b.at({{f, channels * 9}, {d, 9}, {ky, 3}, {kx, 1}}),
                 b.fold(Op::kAdd, b.op(Op::kMul, v, w), {n, y, x}), {f, d, ky, kx});
}
inline Node max_pool(Builder& b) {
  constexpr int64_t planes = 512, in = 113, out = 56;
  Node c = b.range(0, planes), y = b.range(1, out), x = b.range(2, out), ky = b.range(3, 3),
       kx = b.range(4, 3);
  Node v =
      b.load(1, planes * in * in, b.at({{c, in * in}, {y, 2 * in}, {ky, in}, {x, 2}, {kx, 1}}));
  return b.store(planes * out * out, b.at({{c, out * out}, {y, out}, {x, 1}}),
                 b.fold(Op::kMax, v, {ky, kx}), {c, y, x});
}
inline Node transpose(Builder& b) {
  Node i = b.range(0, kRows), j = b.range(1, kRows);
  return b.store(kMany, b.at({{i, kRows}, {j, 1}}), b.load(1, kMany, b.at({{j, kRows}, {i, 1}})),
                 {i, j});
}

}  // namespace aster::codegen::tests::known
