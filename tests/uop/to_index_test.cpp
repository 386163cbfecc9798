// Arithmetic of values as arithmetic of indices: the same numbers, whatever wraps on the way.
#include <gtest/gtest.h>

#include "uop/helpers.h"
#include "uop/symbolic.h"

namespace aster::uop {
namespace {

using test::Env;
using test::for_each_point;
using test::Wide;
__extension__ using Unsigned = unsigned __int128;

constexpr DType kDTypes[] = {DType::kInt8,   DType::kUInt8, DType::kInt16, DType::kInt32,
                             DType::kUInt32, DType::kInt64, DType::kUInt64};

Wide wrap(Wide x, DType dtype) {
  if (dtype == DType::kBool) return x != 0 ? 1 : 0;
  const int bits = dtype == DType::kWeakInt ? 64 : static_cast<int>(dtype::bits(dtype));
  const Wide span = Wide{1} << bits;
  x = ((x % span) + span) % span;
  const bool is_signed = dtype == DType::kWeakInt || !dtype::is_unsigned(dtype);
  return is_signed && x >= span / 2 ? x - span : x;
}

// From the meanings in ops.def, every step in its dtype.
Wide value(Node x, const Env& env) {
  if (const auto found = env.find(x); found != env.end()) return found->second;
  const std::string name = info(x->op).name;
  if (name == "Const") return wrap(x->arg(0), x->dtype);
  if (name == "Where") return value(x->src(value(x->src(0), env) != 0 ? 1 : 2), env);
  const Wide a = value(x->src(0), env), b = x->nsrc > 1 ? value(x->src(1), env) : 0;
  const Wide cut = b == 0 ? 0 : a / b;
  const Wide floor = b != 0 && cut * b != a && (a < 0) != (b < 0) ? cut - 1 : cut;
  Wide out = 0;
  if (name == "Cast") out = a;
  if (name == "Neg") out = -a;
  if (name == "Abs") out = a < 0 ? -a : a;
  if (name == "Not") out = x->dtype == DType::kBool ? (a == 0 ? 1 : 0) : -a - 1;
  if (name == "Add") out = a + b;
  if (name == "Sub") out = a - b;
  if (name == "Mul") out = static_cast<Wide>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  if (name == "Max") out = std::max(a, b);
  if (name == "Min") out = std::min(a, b);
  if (name == "And") out = a & b;
  if (name == "Or") out = a | b;
  if (name == "FloorDiv") out = floor;
  if (name == "FloorMod") out = b == 0 ? a : a - floor * b;
  if (name == "CDiv") out = cut;
  if (name == "CMod") out = b == 0 ? a : a - cut * b;
  if (name == "CmpLt") out = a < b ? 1 : 0;
  if (name == "CmpLe") out = a <= b ? 1 : 0;
  if (name == "CmpEq") out = a == b ? 1 : 0;
  if (name == "CmpNe") out = a != b ? 1 : 0;
  return wrap(out, x->dtype);
}

class ToIndex : public testing::Test {
 protected:
  ToIndex() : heap(nullptr), g(heap) {}

  Node truth(int depth) {
    const DType dtype = kDTypes[random() % std::size(kDTypes)];
    const Op compare[] = {Op::kCmpLt, Op::kCmpLe, Op::kCmpEq, Op::kCmpNe};
    const Node out =
        g.alu(compare[random() % 4], number(dtype, depth - 1), number(dtype, depth - 1));
    if (random() % 4 != 0 || depth <= 1) return out;
    if (random() % 3 == 0) return g.alu(Op::kNot, out);
    return g.alu(random() % 2 ? Op::kAnd : Op::kOr, out, truth(depth - 1));
  }
  Node number(DType dtype, int depth) {
    const uint64_t kind = random() % 16;
    if (depth <= 0 || kind < 2) {
      if (kind % 2 == 0) return g.cast(ranges[random() % ranges.size()], dtype);
      const int64_t some[] = {0, 1, 2, 3, 5, 7, 64, 100, -1, -3, 127, 255, INT32_MAX, INT64_MIN};
      return g.constant_int(dtype, some[random() % std::size(some)]);
    }
    if (kind == 2) return g.cast(number(kDTypes[random() % std::size(kDTypes)], depth - 1), dtype);
    if (kind == 3)
      return g.alu(Op::kWhere, truth(depth - 1), number(dtype, depth - 1),
                   number(dtype, depth - 1));
    if (kind == 4) return g.alu(Op::kNeg, number(dtype, depth - 1));
    if (kind == 5) return g.alu(Op::kAbs, number(dtype, depth - 1));
    const Op some[] = {Op::kAdd, Op::kSub,      Op::kMul,      Op::kMax,  Op::kMin, Op::kAnd,
                       Op::kOr,  Op::kFloorDiv, Op::kFloorMod, Op::kCDiv, Op::kCMod};
    return g.alu(some[random() % std::size(some)], number(dtype, depth - 1),
                 number(dtype, depth - 1));
  }

  Heap heap;
  Graph g;
  std::mt19937_64 random{20261121};
  std::vector<Node> ranges;
};

TEST_F(ToIndex, GivesTheSameNumbers) {
  for (int64_t size : {1, 5, 9})
    ranges.push_back(g.range(static_cast<int64_t>(ranges.size()), size));
  int exact = 0;
  for (int i = 0; i < 4000; ++i) {
    const Node x = random() % 5 == 0 ? truth(4) : number(kDTypes[random() % std::size(kDTypes)], 4);
    const Node index = sym::to_index(g, x);
    ASSERT_NE(index, nullptr);
    ASSERT_EQ(index->dtype, x->dtype == DType::kBool ? DType::kBool : DType::kWeakInt);
    exact += index->op != Op::kCast;
    for_each_point(ranges, random, 45, [&](const Env& env) {
      // What does not fit an index, large uint64, is only required to wrap.
      const Wide expected = wrap(value(x, env), index->dtype);
      ASSERT_EQ(static_cast<int64_t>(value(index, env)), static_cast<int64_t>(expected)) << i;
      ASSERT_LE(index->vmin, static_cast<int64_t>(expected));
      ASSERT_GE(index->vmax, static_cast<int64_t>(expected));
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(exact, 1000);
}

// A reflected position, as padding computes it: inside the axis by its bounds alone.
TEST_F(ToIndex, KeepsBounds) {
  const Node i = g.cast(g.range(0, 66), DType::kInt32);
  const auto c = [&](int64_t v) { return g.constant_int(DType::kInt32, v); };
  const Node near = g.alu(Op::kAbs, g.alu(Op::kSub, i, c(1)));
  const Node far = g.alu(Op::kSub, c(63), g.alu(Op::kAbs, g.alu(Op::kSub, c(63), near)));
  const Node index = sym::to_index(g, far);
  EXPECT_EQ(index->vmin, 0);
  EXPECT_EQ(index->vmax, 63);
  EXPECT_EQ(sym::to_index(g, g.alu(Op::kFloorMod, i, c(66))), g.range(0, 66));
  EXPECT_EQ(sym::to_index(g, i), g.range(0, 66));
}

// Bytes that may wrap say nothing about the sum of their numbers.
TEST_F(ToIndex, WhatMayWrapIsCast) {
  const Node i = g.cast(g.range(0, 200), DType::kUInt8);
  const Node twice = g.alu(Op::kAdd, i, i);
  EXPECT_EQ(sym::to_index(g, twice), g.cast(twice, DType::kWeakInt));
  EXPECT_EQ(sym::to_index(g, nullptr), nullptr);
}

}  // namespace
}  // namespace aster::uop
