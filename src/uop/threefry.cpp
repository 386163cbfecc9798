// threefry2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers, SC'11).
#include "uop/threefry.h"

#include <utility>

namespace aster::uop {
namespace {

constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
constexpr Word kParity = 0x1BD11BDA;

Node constant(Graph& g, Node like, Word value) {
  return like == nullptr ? nullptr : g.constant_int(DType::kUInt32, value, like->shape());
}

// The low 32 bits of a uint64, computed in uint32 where that gives the same.
Node low_word(Graph& g, Node x) {
  if (x == nullptr) return nullptr;
  if (x->op == Op::kIota) return g.iota(DType::kUInt32, x->dim(0));
  if (x->op == Op::kAdd) return g.alu(Op::kAdd, low_word(g, x->src(0)), low_word(g, x->src(1)));
  return g.cast(x, DType::kUInt32);
}

// The words of a uint64: of low | high << 32 without shifting.
std::pair<Node, Node> words(Graph& g, Node x) {
  if (x == nullptr) return {nullptr, nullptr};
  for (size_t i = 0; x->op == Op::kOr && i < 2; ++i) {
    const Node low = x->src(i), high = x->src(1 - i);
    const bool fits = low->op == Op::kIota && low->dim(0) <= int64_t{1} << 32;
    if (fits && high->op == Op::kShl && is_const_value(high->src(1), 32)) {
      return {low_word(g, low), low_word(g, high->src(0))};
    }
  }
  const Node shift = g.constant_int(DType::kUInt64, 32, x->shape());
  return {low_word(g, x), g.cast(g.alu(Op::kShr, x, shift), DType::kUInt32)};
}

Node rotated(Graph& g, Node x, int by) {
  return g.alu(Op::kOr, g.alu(Op::kShl, x, constant(g, x, by)),
               g.alu(Op::kShr, x, constant(g, x, 32 - by)));
}

}  // namespace

Node threefry_word(Graph& g, Node call, bool high) {
  if (call == nullptr) return nullptr;
  auto [x, y] = words(g, call->src(0));
  const auto [k0, k1] = words(g, call->src(1));
  const Node k2 = g.alu(Op::kXor, g.alu(Op::kXor, k0, k1), constant(g, k0, kParity));
  const Node keys[3] = {k0, k1, k2};
  x = g.alu(Op::kAdd, x, k0);
  y = g.alu(Op::kAdd, y, k1);
  for (int group = 0; group < 5; ++group) {
    for (const int by : kRotations[group % 2]) {
      x = g.alu(Op::kAdd, x, y);
      y = g.alu(Op::kXor, rotated(g, y, by), x);
    }
    x = g.alu(Op::kAdd, x, keys[(group + 1) % 3]);
    const Node key = keys[(group + 2) % 3];
    y = g.alu(Op::kAdd, y, g.alu(Op::kAdd, key, constant(g, key, group + 1)));
  }
  return high ? y : x;
}

}  // namespace aster::uop
