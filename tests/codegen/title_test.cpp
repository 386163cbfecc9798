#include "codegen/title.h"

#include "kernel_support.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kF32 = DType::kFloat32;

std::string title(Suite& s, const std::vector<Node>& stores) {
  char out[kTitleBytes];
  EXPECT_TRUE(
      write_title(out, s.graph.sink({stores.data(), stores.size()}), s.graph.memory()).ok());
  return out;
}

TEST(Title, CopiesFillsAndElementwise) {
  Suite s;
  Node i = s.range(0, 64), j = s.range(1, 512), at = s.at({{i, 512}, {j, 1}});
  Node x = s.load(s.param(1, kF32, 64 * 512), at), out = s.param(0, kF32, 64 * 512);
  EXPECT_EQ(title(s, {s.store(out, at, x, {i, j})}), "copy_64x512");
  EXPECT_EQ(title(s, {s.store(out, at, s.c(kF32, 2), {i, j})}), "fill_64x512");
  EXPECT_EQ(title(s, {s.store(out, at, s.op(Op::kExp, x), {i, j})}), "exp_64x512");
  Node relu = s.op(Op::kMax, s.op(Op::kAdd, x, x), s.c(kF32, 0));
  EXPECT_EQ(title(s, {s.store(out, at, relu, {i, j})}), "add_relu_64x512");
  Node chosen = s.op(Op::kWhere, s.op(Op::kCmpLt, s.c(kF32, 0), x), x, s.c(kF32, 0));
  EXPECT_EQ(title(s, {s.store(out, at, chosen, {i, j})}), "relu_64x512");
}

TEST(Title, ReductionsAndProducts) {
  Suite s;
  Node i = s.range(0, 64), j = s.range(1, 32), k = s.range(2, 784);
  Node out = s.param(0, kF32, 64 * 32), at = s.at({{i, 32}, {j, 1}});
  Node a = s.load(s.param(1, kF32, 64 * 784), s.at({{i, 784}, {k, 1}}));
  Node b = s.load(s.param(2, kF32, 784 * 32), s.at({{k, 32}, {j, 1}}));
  Node product = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  EXPECT_EQ(title(s, {s.store(out, at, s.op(Op::kMax, product, s.c(kF32, 0)), {i, j})}),
            "matmul_relu_64x32_r784");
  EXPECT_EQ(title(s, {s.store(out, i, s.fold(Op::kAdd, s.op(Op::kMul, a, a), {k}), {i})}),
            "dot_64_r784");
  EXPECT_EQ(title(s, {s.store(out, i, s.fold(Op::kMax, a, {k}), {i})}), "max_64_r784");
  EXPECT_EQ(title(s, {s.store(out, s.graph.index(0), s.fold(Op::kAdd, a, {i, k}), {})}),
            "sum_1_r64x784");
}

TEST(Title, LongOnesKeepWhatIsDearAndStayShort) {
  Suite s;
  std::vector<Node> ranges;
  Node at = s.graph.index(0);
  for (int id = 0; id < 12; ++id) {
    ranges.push_back(s.range(id, 11));
    at = uop::sym::add(s.graph, uop::sym::mul(s.graph, at, s.graph.index(11)), ranges.back());
  }
  Node x = s.load(s.param(1, kF32, int64_t{1} << 42), at);
  for (Op op : {Op::kNeg, Op::kAbs, Op::kTrunc, Op::kFloor, Op::kCeil, Op::kRound, Op::kExp,
                Op::kLog, Op::kSin, Op::kSqrt})
    x = s.op(op, x);
  Node store = s.store(s.param(0, kF32, int64_t{1} << 42), at, x, ranges);
  const std::string text = title(s, {store});
  EXPECT_NE(text.find("exp_log_sin_sqrt"), std::string::npos) << text;
  EXPECT_NE(text.find("n3138428376721"), std::string::npos) << text;
  EXPECT_LT(text.size(), kTitleBytes - 1);
}

}  // namespace
}  // namespace aster::codegen::tests
