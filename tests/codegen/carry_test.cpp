// Kernels with values that are carried along a loop.
#include "kernel_support.h"
#include "program_support.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr int64_t kLengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 64, 70};

// Sums and products of rows, of columns and of one row, of every length.
TEST(Carry, RowsAndColumnsOfEveryLength) {
  Suite s;
  for (const int64_t n : kLengths) {
    const int64_t m = 5;
    Node i = s.range(0, m), j = s.range(1, n);
    Node at = s.at({{i, n}, {j, 1}});
    Node x = s.load(s.param(1, kF32, m * n), at), y = s.param(0, kF32, m * n);
    s.add("rows" + std::to_string(n), {s.store(y, at, s.carry(Op::kAdd, {x}, j), {i, j})}, 1e-5);
    Node k = s.range(0, m), l = s.range(1, n);
    at = s.at({{k, n}, {l, 1}});
    x = s.load(s.param(1, kF32, m * n), at);
    s.add("columns" + std::to_string(n), {s.store(y, at, s.carry(Op::kAdd, {x}, k), {k, l})}, 1e-5);
    Node one = s.range(0, n);
    x = s.load(s.param(1, kF32, n), one);
    s.add("one" + std::to_string(n),
          {s.store(s.param(0, kF32, n), one, s.carry(Op::kMax, {x}, one), {one})});
    Node back = s.at({{one, -1}}, n - 1);
    x = s.load(s.param(1, kF32, n), back);
    s.add("back" + std::to_string(n),
          {s.store(s.param(0, kF32, n), back, s.carry(Op::kMin, {x}, one), {one})});
  }
  s.run();
}

TEST(Carry, EveryOperationAndDType) {
  Suite s;
  const int64_t m = 3, n = 37;
  Node i = s.range(0, m), j = s.range(1, n), at = s.at({{i, n}, {j, 1}});
  for (const DType d : {DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kUInt8,
                        DType::kInt16, DType::kUInt16, DType::kInt32, DType::kUInt32, DType::kInt64,
                        DType::kUInt64, DType::kBool}) {
    for (const Op op : {Op::kAdd, Op::kMul, Op::kMax, Op::kMin, Op::kAnd, Op::kOr, Op::kMulAcc}) {
      if (dtype::is_float(d) && (op == Op::kAnd || op == Op::kOr)) continue;
      if (d == DType::kBool && op == Op::kMulAcc) continue;
      std::vector<Node> values = {s.load(s.param(1, d, m * n), at)};
      if (op == Op::kMulAcc) values.push_back(s.load(s.param(2, d, m * n), at));
      const std::string name = std::string(uop::info(op).name) + "_" + dtype::name(d);
      const double low = dtype::is_unsigned(d) || d == DType::kBool ? 0 : -1.5;
      for (Node range : {i, j}) {
        std::vector<Node> loops = {i, j};
        s.add(name, {s.store(s.param(0, d, m * n), at, s.carry(op, values, range), loops)},
              dtype::is_float(d) ? 1e-4 : 0, low, d == DType::kBool ? 1.9 : 1.5);
      }
    }
  }
  s.run();
}

// What was before, alone and beside what is; one carried value in another.
TEST(Carry, BeforeAndNested) {
  Suite s;
  for (const int64_t n : kLengths) {
    const int64_t m = 19;
    Node i = s.range(0, m), j = s.range(1, n), at = s.at({{i, n}, {j, 1}});
    Node x = s.load(s.param(1, kF32, m * n), at), y = s.param(0, kF32, m * n);
    for (Node range : {i, j}) {
      const std::string name = std::to_string(n) + (range == i ? "c" : "r");
      Node now = s.carry(Op::kMax, {x}, range), was = s.carry(Op::kMax, {x}, range, true);
      Node position = s.graph.cast(range, DType::kInt32);
      Node place = s.op(Op::kWhere, s.op(Op::kCmpNe, now, was), position,
                        s.graph.constant_int(DType::kInt32, 0));
      s.add("place" + name, {s.store(s.param(0, DType::kInt32, m * n), at,
                                     s.carry(Op::kMax, {place}, range), {i, j})});
      s.add("before" + name, {s.store(y, at, s.carry(Op::kAdd, {x}, range, true), {i, j})}, 1e-5);
      s.add("twice" + name,
            {s.store(y, at, s.carry(Op::kAdd, {s.carry(Op::kAdd, {x}, range)}, range), {i, j})},
            1e-4);
      Node half = s.op(Op::kMul, x, s.c(kF32, 0.25));
      s.add("linear" + name, {s.store(y, at, s.carry(Op::kMulAcc, {half, x}, range), {i, j})},
            1e-5);
    }
  }
  s.run();
}

// Behind folds of a row, in front of arithmetic, in place, through gates, several results.
TEST(Carry, AmongOtherOperations) {
  Suite s;
  for (const int64_t n : {1, 5, 16, 40}) {
    const int64_t m = 7;
    Node i = s.range(0, m), k = s.range(1, n), j = s.range(2, n);
    Node at = s.at({{i, n}, {j, 1}}), p = s.param(0, kF32, m * n);
    Node total = s.fold(Op::kAdd, s.load(p, s.at({{i, n}, {k, 1}})), {k});
    Node part = s.carry(Op::kAdd, {s.load(p, at)}, j);
    s.add("share" + std::to_string(n),
          {s.store(s.param(1, kF32, m * n), at, s.op(Op::kDiv, part, total), {i, j}),
           s.store(s.param(2, kF32, m), i, total, {i})},
          1e-5, 1, 2);
    Node gate = s.lt(j, n - 2);
    Node inside = s.op(Op::kExp, s.load(p, at, gate));
    s.add("gated" + std::to_string(n),
          {s.store(s.param(1, kF32, m * n), at, s.carry(Op::kAdd, {inside}, j), {i, j})}, 1e-5);
    s.add("in_place" + std::to_string(n), {s.store(p, at, part, {i, j})}, 1e-5);
    Node sum = s.carry(Op::kAdd, {s.load(p, at)}, i), most = s.carry(Op::kMax, {s.load(p, at)}, i);
    s.add("columns_in_place" + std::to_string(n),
          {s.store(p, at, sum, {i, j}), s.store(s.param(1, kF32, m * n), at, most, {i, j})}, 1e-5);
    // What does not depend on the loop, and what is the same for all rows.
    s.add("counted" + std::to_string(n),
          {s.store(p, at, s.carry(Op::kAdd, {s.c(kF32, 1)}, j), {i, j})});
    Node shared = s.load(s.param(1, kF32, n), j);
    s.add("shared" + std::to_string(n), {s.store(p, at, s.carry(Op::kAdd, {shared}, j), {i, j})},
          1e-5);
  }
  s.run();
}

TEST(Carry, RefusesOtherLoops) {
  Suite s;
  const auto refused = [&](std::vector<Node> stores) {
    Kernel kernel(process_heap());
    return !kernel.analyse(s.graph.sink({stores.data(), stores.size()})).ok();
  };
  const int64_t n = 6;
  Node i = s.range(0, n), j = s.range(1, n), k = s.range(2, n), at = s.at({{i, n}, {j, 1}});
  Node x = s.load(s.param(1, kF32, n * n), at), y = s.param(0, kF32, n * n);
  EXPECT_FALSE(refused({s.store(y, at, s.carry(Op::kAdd, {x}, i), {i, j})}));
  Node rows = s.carry(Op::kAdd, {x}, i), columns = s.carry(Op::kMax, {x}, j);
  EXPECT_TRUE(refused({s.store(y, at, s.op(Op::kAdd, rows, columns), {i, j})}));
  Node of_row = s.fold(Op::kAdd, s.load(s.param(1, kF32, n * n), s.at({{i, n}, {k, 1}})), {k});
  EXPECT_TRUE(refused({s.store(y, at, s.op(Op::kAdd, rows, of_row), {i, j})}));
  EXPECT_TRUE(refused({s.store(s.param(2, kF32, n), i, s.fold(Op::kAdd, columns, {j}), {i})}));
}

// A plan may not split the loop that something is carried along, nor put others into it.
TEST(Carry, PlansKeepItsLoop) {
  Suite s;
  Node i = s.range(0, 16), j = s.range(1, 64), at = s.at({{i, 64}, {j, 1}});
  Node x = s.load(s.param(1, kF32, 1024), at);
  s.add("rows", {s.store(s.param(0, kF32, 1024), at, s.carry(Op::kAdd, {x}, j), {i, j})});
  Kernel kernel(process_heap());
  ASSERT_TRUE(kernel.analyse(s.last().kernel).ok());
  const Target target = target_of(32);
  const auto said = [&](const char* text) {
    Plan plan(process_heap());
    EXPECT_TRUE(read(&plan, text).ok()) << last_message();
    return check(plan, kernel, target).ok() ? std::string() : last_message();
  };
  EXPECT_EQ(said("plan\n0: vector r1 8; order r0 r1; tasks r0/4\n"), "");
  EXPECT_EQ(said("plan\n0: vector r0 8; tile r0 2; order r0 r1\n"), "");
  EXPECT_EQ(said("plan\n0: vector r1 8; order r1 r0\n"), "plan 0: order: r1 is carried along");
  EXPECT_EQ(said("plan\n0: vector r1 8; tile r1 2; order r0 r1\n"),
            "plan 0: tile: r1 is carried along");
  EXPECT_EQ(said("plan\n0: order r0 r1; tasks r0 r1/64\n"), "plan 0: tasks: r1 is carried along");
  EXPECT_EQ(said("plan\n0: vector r1 8 overlap; order r0 r1\n"),
            "plan 0: vector: r1 is carried along");
}

}  // namespace
}  // namespace aster::codegen::tests
