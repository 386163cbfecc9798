// Elementwise operations on canonical words against numbers worked out by hand, and bounds against
// every value.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "dtype/sticky.h"
#include "uop/helpers.h"

namespace aster::uop {
namespace {

int64_t ints(Op op, DType d, int64_t a, int64_t b = 0, int64_t c = 0) {
  const Word words[3] = {a, b, c};
  return evaluate(op, d, d, words);
}
double reals(Op op, DType d, double a, double b = 0, double c = 0) {
  const Word words[3] = {std::bit_cast<Word>(a), std::bit_cast<Word>(b), std::bit_cast<Word>(c)};
  return std::bit_cast<double>(evaluate(op, d, d, words));
}
constexpr DType kI8 = DType::kInt8, kU8 = DType::kUInt8, kI32 = DType::kInt32, kI64 = DType::kInt64,
                kU64 = DType::kUInt64, kF32 = DType::kFloat32, kF64 = DType::kFloat64,
                kF16 = DType::kFloat16, kBool = DType::kBool;

TEST(Evaluate, IntegersWrapToTheirWidth) {
  EXPECT_EQ(ints(Op::kAdd, kI8, 127, 1), -128);
  EXPECT_EQ(ints(Op::kAdd, kU8, 255, 1), 0);
  EXPECT_EQ(ints(Op::kMul, kI32, 1 << 20, 1 << 12), 0);
  EXPECT_EQ(ints(Op::kAdd, kI64, INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(ints(Op::kSub, kU64, 0, 1), -1);  // all bits
  EXPECT_EQ(ints(Op::kNeg, kI8, -128), -128);
  EXPECT_EQ(ints(Op::kAbs, kI64, INT64_MIN), INT64_MIN);
  EXPECT_EQ(ints(Op::kNot, kU8, 5), 250);
  EXPECT_EQ(ints(Op::kMulAcc, kI8, 100, 2, 1), -55);
}

// Laws are of an operation and a dtype: those that are said hold of every triple of numbers, and
// what a sticky dtype takes away does not.
TEST(Evaluate, TraitsHoldOfEveryDType) {
  size_t laws = 0;
  for (int code = 1; code < dtype::kDTypeLimit; ++code) {
    const auto d = static_cast<DType>(code);
    if (dtype::info(d).kind == dtype::Kind::kUnknown || dtype::is_weak(d)) continue;
    if (!dtype::is_int(d) && !dtype::is_bool(d) && !dtype::is_sticky(d)) continue;
    std::vector<Word> values = {0, 1};
    if (!dtype::is_bool(d)) {
      const int64_t most =
          dtype::is_sticky(d) ? dtype::sticky_most(d) : static_cast<int64_t>(dtype::max_int(d));
      for (const int64_t x : {int64_t{-1}, int64_t{2}, int64_t{3}, int64_t{-5}, int64_t{100}, most,
                              most - 1, most / 2, -(most / 2), -most, -most - 1})
        values.push_back(dtype::truncate_int(dtype::stored_as(d), x));
    }
    for (size_t i = 0; i < static_cast<size_t>(Op::kCount); ++i) {
      const Op op = static_cast<Op>(i);
      const uint8_t said = traits(op, d);
      const DTypeRule rule = info(op).rule;
      const bool known =
          rule == DTypeRule::kCommon || rule == DTypeRule::kIntegral || rule == DTypeRule::kCompare;
      if (!is_alu(op) || info(op).sources != 2 || !known) continue;
      const bool compares = info(op).rule == DTypeRule::kCompare;
      const auto of = [&](Word a, Word b) {
        const Word words[3] = {a, b, 0};
        return evaluate(op, d, compares ? kBool : d, words);
      };
      bool associates = true;
      for (const Word a : values) {
        for (const Word b : values) {
          if ((said & COMM) != 0) {
            EXPECT_EQ(of(a, b), of(b, a)) << info(op).name << " of " << dtype::name(d);
          }
          for (const Word c : values) associates &= compares || of(of(a, b), c) == of(a, of(b, c));
        }
        if ((said & IDEM) != 0) {
          EXPECT_EQ(of(a, a), a) << info(op).name << " of " << dtype::name(d);
        }
      }
      laws += (said & ASSOC) != 0;
      if ((said & ASSOC) != 0) {
        EXPECT_TRUE(associates) << info(op).name << " of " << dtype::name(d);
      }
      const bool regrouped = dtype::is_sticky(d) && (op == Op::kAdd || op == Op::kMul);
      if (regrouped) {
        EXPECT_FALSE(associates || (said & ASSOC) != 0) << info(op).name;
        EXPECT_EQ(said & (COMM | REDUCE), COMM | REDUCE);
      }
    }
    if (dtype::is_sticky(d)) {
      EXPECT_EQ(traits(Op::kAnd, d), 0) << "no operation on " << dtype::name(d);
    }
  }
  EXPECT_EQ(laws, 9u * 7 + 4 * 2);
}

TEST(Evaluate, DivisionIsDefinedEverywhere) {
  EXPECT_EQ(ints(Op::kCDiv, kI32, 7, 0), 0);
  EXPECT_EQ(ints(Op::kCMod, kI32, 7, 0), 7);
  EXPECT_EQ(ints(Op::kFloorDiv, kI32, 7, 0), 0);
  EXPECT_EQ(ints(Op::kFloorMod, kI32, -7, 0), -7);
  EXPECT_EQ(ints(Op::kCDiv, kI32, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(ints(Op::kCDiv, kI64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(ints(Op::kCMod, kI64, INT64_MIN, -1), 0);
  EXPECT_EQ(ints(Op::kFloorDiv, kI64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(ints(Op::kCDiv, kI32, -7, 2), -3);
  EXPECT_EQ(ints(Op::kCMod, kI32, -7, 2), -1);
  EXPECT_EQ(ints(Op::kFloorDiv, kI32, -7, 2), -4);
  EXPECT_EQ(ints(Op::kFloorMod, kI32, -7, 2), 1);
  EXPECT_EQ(ints(Op::kFloorMod, kI32, 7, -2), -1);
  EXPECT_EQ(ints(Op::kFloorDiv, kU64, -1, 2), INT64_MAX);  // 2^64 - 1
}

TEST(Evaluate, ShiftsPastTheWidth) {
  EXPECT_EQ(ints(Op::kShl, kI32, 1, 31), INT32_MIN);
  EXPECT_EQ(ints(Op::kShl, kI32, 1, 32), 0);
  EXPECT_EQ(ints(Op::kShl, kI32, 1, -1), 0);
  EXPECT_EQ(ints(Op::kShr, kI32, -8, 1), -4);
  EXPECT_EQ(ints(Op::kShr, kI32, -8, 40), -1);
  EXPECT_EQ(ints(Op::kShr, kU8, 255, 8), 0);
  EXPECT_EQ(ints(Op::kShr, kU64, -1, 63), 1);
  EXPECT_EQ(ints(Op::kShl, kU64, 1, 64), 0);
}

TEST(Evaluate, UnsignedComparesAsUnsigned) {
  const Word words[2] = {-1, 1};
  EXPECT_EQ(evaluate(Op::kCmpLt, kU64, kBool, words), 0);
  EXPECT_EQ(evaluate(Op::kCmpLt, kI64, kBool, words), 1);
  EXPECT_EQ(ints(Op::kMax, kU64, -1, 1), -1);
}

TEST(Evaluate, BoolIsLogical) {
  EXPECT_EQ(ints(Op::kAdd, kBool, 1, 1), 1);
  EXPECT_EQ(ints(Op::kMul, kBool, 1, 0), 0);
  EXPECT_EQ(ints(Op::kNot, kBool, 1), 0);
  EXPECT_EQ(ints(Op::kXor, kBool, 1, 1), 0);
}

TEST(Evaluate, FloatsRoundToTheirDType) {
  EXPECT_EQ(reals(Op::kAdd, kF32, 1, 0x1p-24), 1);
  EXPECT_EQ(reals(Op::kAdd, kF64, 1, 0x1p-24), 1 + 0x1p-24);
  EXPECT_EQ(reals(Op::kAdd, kF16, 2048, 1), 2048);
  EXPECT_EQ(reals(Op::kMul, kF16, 256, 256), INFINITY);
  EXPECT_EQ(reals(Op::kDiv, kF32, 1, 3), double{1.0f / 3.0f});
  // Rounded once: the product is 1 + 2^-11 + 2^-24, whose last bit rounding to float first would
  // lose.
  const double a = 1 + 0x1p-12;
  EXPECT_EQ(reals(Op::kMulAcc, kF32, a, a, -1 - 0x1p-11), 0x1p-24);
  EXPECT_TRUE(std::isnan(reals(Op::kMax, kF32, NAN, 1)));
  EXPECT_TRUE(std::isnan(reals(Op::kMin, kF32, 1, NAN)));
  EXPECT_EQ(reals(Op::kRound, kF32, 2.5), 2);
  EXPECT_EQ(reals(Op::kRound, kF32, -3.5), -4);
  EXPECT_TRUE(std::signbit(reals(Op::kNeg, kF32, 0)));
  EXPECT_TRUE(std::signbit(reals(Op::kTrunc, kF32, -0.5)));
}

TEST(Evaluate, ThreefryIsTheReferenceFunction) {
  // Known answers of threefry2x32-20 (the Random123 distribution's kat_vectors): low half first
  // here.
  const auto run = [](uint32_t c0, uint32_t c1, uint32_t k0, uint32_t k1) {
    const auto word = [](uint32_t lo, uint32_t hi) {
      return static_cast<Word>(uint64_t{hi} << 32 | lo);
    };
    return ints(Op::kThreefry, kU64, word(c0, c1), word(k0, k1));
  };
  const auto result = [](uint32_t lo, uint32_t hi) {
    return static_cast<Word>(uint64_t{hi} << 32 | lo);
  };
  EXPECT_EQ(run(0, 0, 0, 0), result(0x6b200159u, 0x99ba4efeu));
  EXPECT_EQ(run(~0u, ~0u, ~0u, ~0u), result(0x1cb996fcu, 0xbb002be7u));
  EXPECT_EQ(run(0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u),
            result(0xc4923a9cu, 0x483df7a0u));
}

TEST(Evaluate, Conversions) {
  const auto from_double = [](double x, DType to) {
    return convert_word(std::bit_cast<Word>(x), kF64, to);
  };
  EXPECT_EQ(from_double(3.9, kI32), 3);
  EXPECT_EQ(from_double(-3.9, kI32), -3);
  EXPECT_EQ(from_double(300, kU8), 44);
  EXPECT_EQ(from_double(NAN, kI32), 0);
  EXPECT_EQ(from_double(1e30, kI64), 0);
  EXPECT_EQ(from_double(0.5, kBool), 1);
  EXPECT_EQ(from_double(NAN, kBool), 1);
  EXPECT_EQ(std::bit_cast<double>(convert_word(16777217, kI32, kF32)), 16777216.0);
  EXPECT_EQ(std::bit_cast<double>(convert_word(-1, kU64, kF64)), 0x1p64);
  EXPECT_EQ(convert_word(-1, kI8, kU8), 255);
  EXPECT_EQ(convert_word(256, kI32, kBool), 1);
  // One rounding from int64 to float32: 2^24 + 1 + a bit that double cannot hold beside it.
  EXPECT_EQ(
      std::bit_cast<double>(convert_word((int64_t{1} << 60) + (int64_t{1} << 36) + 1, kI64, kF32)),
      0x1p60 + 0x1p37);
}

// Bounds of narrow dtypes, by enumeration over all pairs of the operands' values.
TEST(Bounds, HoldForEveryValueOfSmallIntervals) {
  Heap heap(nullptr);
  Graph g(heap);
  std::mt19937_64 random(3);
  const Op kOps[] = {Op::kAdd,   Op::kSub,      Op::kMul,      Op::kMax,  Op::kMin, Op::kCDiv,
                     Op::kCMod,  Op::kFloorDiv, Op::kFloorMod, Op::kAnd,  Op::kOr,  Op::kXor,
                     Op::kCmpLt, Op::kCmpLe,    Op::kCmpEq,    Op::kCmpNe};
  for (int round = 0; round < 4000; ++round) {
    // (range + low), narrowed to a dtype.
    const DType d = std::array{DType::kWeakInt, kI8, kU8, kI64}[random() % 4];
    Node operand[2];
    int64_t low[2], size[2];
    Node range[2];
    for (int i = 0; i < 2; ++i) {
      size[i] = 1 + static_cast<int64_t>(random() % 12);
      low[i] = static_cast<int64_t>(random() % 300) - 150;
      if (random() % 6 == 0) low[i] = static_cast<int64_t>(random() % 20) - 10;
      if (random() % 10 == 0 && d != kI8 && d != kU8)
        low[i] = INT64_MAX - size[i] - static_cast<int64_t>(random() % 5);
      if (random() % 10 == 0 && d != kI8 && d != kU8)
        low[i] = INT64_MIN + static_cast<int64_t>(random() % 5);
      range[i] = g.range(i, size[i]);
      operand[i] =
          g.cast(g.make(Op::kAdd, DType::kWeakInt, std::array{range[i], g.index(low[i])}), d);
    }
    const Op op = kOps[random() % std::size(kOps)];
    const Node node =
        g.make(op, info(op).rule == DTypeRule::kCompare ? kBool : d, Nodes(operand, 2));
    for (int64_t i = 0; i < size[0]; ++i) {
      for (int64_t j = 0; j < size[1]; ++j) {
        Word words[2];
        for (int k = 0; k < 2; ++k) {
          const uint64_t wrapped =
              static_cast<uint64_t>(low[k]) + static_cast<uint64_t>(k == 0 ? i : j);
          words[k] = convert_word(static_cast<Word>(wrapped), kI64, d);
          ASSERT_LE(operand[k]->vmin, words[k]);
          ASSERT_GE(operand[k]->vmax, words[k]);
        }
        const Word value = evaluate(op, d, node->dtype, words);
        ASSERT_LE(node->vmin, value) << info(op).name << " " << words[0] << " " << words[1];
        ASSERT_GE(node->vmax, value) << info(op).name << " " << words[0] << " " << words[1];
      }
    }
    if (round % 500 == 0) g.collect();
  }
}

TEST(Bounds, OfDTypesAndStructure) {
  Heap heap(nullptr);
  Graph g(heap);
  const Node i8 = g.param(0, kI8, {}), u64 = g.param(1, kU64, {});
  const Node loaded =
      g.make(Op::kLoad, kU8, std::array{g.param(0, kU8, std::array<Word, 1>{4}), g.index(1)});
  EXPECT_EQ(loaded->vmin, 0);
  EXPECT_EQ(loaded->vmax, 255);
  EXPECT_EQ(g.cast(loaded, DType::kWeakInt)->vmax, 255);
  EXPECT_EQ(i8->vmin, -128);
  EXPECT_EQ(g.alu(Op::kNeg, i8)->vmin, -128);  // -(-128) wraps
  EXPECT_EQ(u64->vmin, INT64_MIN);             // unknown
  EXPECT_EQ(u64->vmax, INT64_MAX);
  EXPECT_EQ(g.alu(Op::kCmpLt, u64, g.constant_int(kU64, 3))->vmin, 0);
  EXPECT_EQ(g.range(0, 10)->vmax, 9);
  const Node chosen =
      g.alu(Op::kWhere, g.alu(Op::kCmpLt, i8, i8), g.constant_int(kI8, 3), g.constant_int(kI8, 5));
  EXPECT_EQ(chosen->vmin, 3);
  EXPECT_EQ(chosen->vmax, 5);
}

}  // namespace
}  // namespace aster::uop
