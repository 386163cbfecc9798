// Loops that end at a value that is read.
#include "codegen/ends.h"

#include "kernel_support.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kI32 = DType::kInt32;
constexpr int64_t kNumbers[] = {-3, 0, 1, 17, 36, 40};

class EndsSuite : public Suite {
 public:
  // Devices run the random kernels, which have such ends as well.
  EndsSuite() { with_devices = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr; }
  // Whether a counter is below the element of a Param.
  Node below(Node counter, int slot = 1, DType dtype = kI32) {
    Node at = graph.cast(counter, dtype);
    return op(Op::kCmpLt, at, load(param(slot, dtype, 1), graph.index(0)));
  }
  Node masked(Node condition, Node value, double other = 0) {
    return op(Op::kWhere, condition, value, c(value->dtype, other));
  }
  // The same kernel for several values of the Param.
  void add_all(const std::string& name, std::vector<Node> stores, double tolerance = 0,
               std::vector<int64_t> numbers = {std::begin(kNumbers), std::end(kNumbers)}) {
    constexpr size_t slot = 1;
    for (const int64_t number : numbers) {
      Case& one = add(name + std::to_string(number), stores, tolerance);
      one.params[slot].set(0, number);
    }
  }
  // Loops of the last case's program that end at a value.
  size_t ends(int width = 32) {
    program::Module module(process_heap());
    EXPECT_TRUE(lower_kernel(&module, "ends", last().kernel, target_of(width), process_heap()).ok())
        << last_message();
    const auto code = module.programs.back().code();
    return static_cast<size_t>(std::ranges::count_if(code, [](const program::Instruction& in) {
      return in.op == Op::kLoop && !in.is(program::Flag::kImmediateHigh);
    }));
  }
};

TEST(Ends, SumsOfVectorsRowsAndColumns) {
  EndsSuite s;
  for (const int64_t n : {1, 16, 37}) {
    const int64_t m = 11;
    Node i = s.range(0, m), j = s.range(1, n), at = s.at({{i, n}, {j, 1}});
    Node x = s.load(s.param(2, kF32, m * n), at);
    Node one = s.load(s.param(2, kF32, n), j);
    const std::string name = std::to_string(n) + "_";
    s.add_all("one" + name,
              {s.store(s.param(0, kF32, 1), s.graph.index(0),
                       s.fold(Op::kAdd, s.masked(s.below(j), one), {j}), {})},
              1e-5);
    if (n > 16) {
      EXPECT_GE(s.ends(), 1u);
    }
    s.add_all(
        "rows" + name,
        {s.store(s.param(0, kF32, m), i, s.fold(Op::kAdd, s.masked(s.below(j), x), {j}), {i})},
        1e-5);
    if (n > 16) {
      EXPECT_GE(s.ends(), 1u);
    }
    s.add_all(
        "columns" + name,
        {s.store(s.param(0, kF32, n), j, s.fold(Op::kAdd, s.masked(s.below(i), x), {i}), {j})},
        1e-5);
    s.add_all("both" + name,
              {s.store(s.param(0, kF32, 1), s.graph.index(0),
                       s.fold(Op::kAdd, s.masked(s.both(s.below(i), s.below(j)), x), {i, j}), {})},
              1e-5);
    // Sums that are not asked for.
    s.add_all(
        "no_rows" + name,
        {s.store(s.param(0, kF32, m), i, s.masked(s.below(i), s.fold(Op::kAdd, x, {j}), -1), {i})},
        1e-5);
    if (n > 16) {
      EXPECT_GE(s.ends(), 1u);
    }
  }
  s.run();
}

TEST(Ends, EveryOperationAndDType) {
  EndsSuite s;
  const int64_t m = 3, n = 37;
  Node i = s.range(0, m), j = s.range(1, n), at = s.at({{i, n}, {j, 1}});
  for (const DType d : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt8,
                        DType::kUInt16, DType::kInt32, DType::kInt64, DType::kBool}) {
    for (const Op op : {Op::kAdd, Op::kMul, Op::kMax, Op::kMin, Op::kAnd, Op::kOr}) {
      if (dtype::is_float(d) && (op == Op::kAnd || op == Op::kOr)) continue;
      Node x = s.load(s.param(2, d, m * n), at);
      Node neutral = s.graph.constant_word(d, uop::neutral_word(op, d));
      Node value = s.op(Op::kWhere, s.below(j), x, neutral);
      s.add_all(std::string(uop::info(op).name) + "_" + dtype::name(d),
                {s.store(s.param(0, d, m), i, s.fold(op, value, {j}), {i})},
                d == DType::kFloat16 ? 0.05 : 1e-4, {17});
      EXPECT_GE(s.ends(), 1u) << s.last().name;
    }
  }
  s.run();
}

// The value in other dtypes and at their ends, the comparison said in other ways.
TEST(Ends, Comparisons) {
  EndsSuite s;
  const int64_t n = 37;
  Node j = s.range(0, n), x = s.load(s.param(2, kF32, n), j);
  const auto add = [&](const std::string& name, Node condition, DType dtype, bool otherwise,
                       size_t ends) {
    Node zero = s.c(kF32, 0);
    Node value = s.op(Op::kWhere, condition, otherwise ? zero : x, otherwise ? x : zero);
    const auto most = static_cast<int64_t>(dtype::max_int(dtype));
    for (const int64_t number : {dtype::min_int(dtype), int64_t{20}, most}) {
      Case& one = s.add(
          name + dtype::name(dtype) + std::to_string(number),
          {s.store(s.param(0, kF32, 1), s.graph.index(0), s.fold(Op::kAdd, value, {j}), {})}, 1e-5);
      one.params[1].set(0, number);
    }
    EXPECT_EQ(s.ends() >= 1, ends >= 1) << name << dtype::name(dtype);
  };
  for (const DType d :
       {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kInt32, DType::kUInt32, DType::kInt64}) {
    Node v = s.load(s.param(1, d, 1), s.graph.index(0)), at = s.graph.cast(j, d);
    add("lt", s.op(Op::kCmpLt, at, v), d, false, 1);
    add("le", s.op(Op::kCmpLe, at, v), d, false, 1);
    add("gt", s.op(Op::kCmpLt, v, at), d, true, 1);
    add("ge", s.op(Op::kCmpLe, v, at), d, true, 1);
    add("not", s.op(Op::kNot, s.op(Op::kCmpLt, v, at)), d, false, 1);
    add("from", s.op(Op::kCmpLt, v, at), d, false, 0);
    Node wide = s.graph.cast(v, DType::kInt64);
    Node twice = s.graph.cast(s.at({{j, 2}}, -3), DType::kInt64);
    add("twice", s.op(Op::kCmpLt, twice, wide), d, false, 1);
    Node least = s.op(Op::kMin, s.op(Op::kSub, v, s.op(Op::kMin, v, s.graph.constant_int(d, 1))),
                      s.graph.constant_int(d, 30));
    add("least", s.op(Op::kCmpLt, at, least), d, false, 1);
  }
  s.run();
}

TEST(Ends, SoftmaxOfRows) {
  EndsSuite s;
  for (const int64_t n : {5, 37}) {
    const int64_t m = 7;
    Node i = s.range(0, m), j = s.range(1, n), k = s.range(2, n), l = s.range(3, n);
    const auto x = [&](Node at) {
      return s.masked(s.below(at), s.load(s.param(2, kF32, m * n), s.at({{i, n}, {at, 1}})),
                      -HUGE_VAL);
    };
    Node most = s.fold(Op::kMax, x(j), {j});
    const auto term = [&](Node at) { return s.op(Op::kExp, s.op(Op::kSub, x(at), most)); };
    EXPECT_TRUE(is_below_its_greatest(term(k)->src(0)));
    EXPECT_FALSE(is_below_its_greatest(s.op(Op::kSub, s.op(Op::kMul, x(k), x(k)), most)));
    EXPECT_FALSE(is_below_its_greatest(s.op(Op::kSub, most, x(k))));
    EXPECT_FALSE(is_below_its_greatest(s.op(Op::kSub, x(k), s.fold(Op::kMin, x(j), {j}))));
    Node total = s.fold(Op::kAdd, term(k), {k});
    Node share = s.masked(s.below(l), s.op(Op::kDiv, term(l), total));
    s.add_all("softmax" + std::to_string(n),
              {s.store(s.param(0, kF32, m * n), s.at({{i, n}, {l, 1}}), share, {i, l})}, 1e-5);
    if (n > 16) {
      EXPECT_GE(s.ends(), 4u);
    }
    Node log = s.op(Op::kAdd, s.op(Op::kLog, total), most);
    s.add_all("logarithm" + std::to_string(n), {s.store(s.param(0, kF32, m), i, log, {i})}, 1e-5);
    if (n > 16) {
      EXPECT_GE(s.ends(), 5u);
    }
    // Another's greatest may be -inf where not all are.
    Node other = s.fold(Op::kMax, s.masked(s.below(j), s.op(Op::kMul, x(j), x(j)), -HUGE_VAL), {j});
    Node apart = s.fold(Op::kAdd, s.op(Op::kExp, s.op(Op::kSub, x(k), other)), {k});
    s.add("apart" + std::to_string(n), {s.store(s.param(0, kF32, m), i, apart, {i})}, 1e-5);
    if (n > 16) {
      EXPECT_LE(s.ends(), 3u);
    }
  }
  s.run();
}

TEST(Ends, Products) {
  EndsSuite s;
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes& sizes : {Sizes{1, 37, 16}, Sizes{9, 37, 37}, Sizes{37, 64, 40}}) {
    const int64_t m = sizes.m, n = sizes.n, k = sizes.k;
    Node i = s.range(0, m), j = s.range(1, n), t = s.range(2, k);
    Node a = s.load(s.param(2, kF32, m * k), s.at({{i, k}, {t, 1}}));
    Node b = s.load(s.param(3, kF32, k * n), s.at({{t, n}, {j, 1}}));
    Node turned = s.load(s.param(3, kF32, k * n), s.at({{j, k}, {t, 1}}));
    const auto product = [&](Node x, Node y) {
      return s.fold(Op::kAdd, s.op(Op::kMul, x, y), {t});
    };
    const auto add = [&](const char* name, Node value) {
      s.add_all(name + std::to_string(m) + "_" + std::to_string(n),
                {s.store(s.param(0, kF32, m * n), s.at({{i, n}, {j, 1}}), value, {i, j})}, 1e-4);
      EXPECT_GE(s.ends(), 1u) << s.last().name;
    };
    add("terms", product(s.masked(s.below(t), a), s.masked(s.below(t), b)));
    add("products", s.fold(Op::kAdd, s.masked(s.below(t), s.op(Op::kMul, a, b)), {t}));
    add("chosen", s.fold(Op::kAdd, s.masked(s.below(j), s.op(Op::kMul, a, b)), {t}));
    add("columns", s.masked(s.below(j), product(a, b)));
    add("turned", s.masked(s.below(j), product(a, turned)));
    if (m > 1) add("rows", s.masked(s.below(i), product(a, b)));
    if (m > 1) {
      add("all", s.masked(s.both(s.below(i), s.below(j)),
                          product(s.masked(s.below(t), a), s.masked(s.below(t), b))));
      Node bias = s.load(s.param(4, kF32, n), j);
      add("bias", s.op(Op::kAdd, s.masked(s.below(i), product(a, b)), bias));
      add("relu",
          s.op(Op::kMax, s.masked(s.below(i), s.op(Op::kAdd, product(a, b), bias)), s.c(kF32, 0)));
    }
    s.run();
  }
}

// What is stored beyond is a constant.
TEST(Ends, Stores) {
  EndsSuite s;
  for (const int64_t n : {1, 5, 37}) {
    const int64_t m = 11;
    Node i = s.range(0, m), j = s.range(1, n), at = s.at({{i, n}, {j, 1}});
    Node x = s.load(s.param(2, kF32, m * n), at), y = s.param(0, kF32, m * n);
    Node e = s.op(Op::kExp, x);
    const std::string name = std::to_string(n) + "_";
    s.add_all("columns" + name, {s.store(y, at, s.masked(s.below(j), e), {i, j})}, 1e-6);
    if (n > 16) {
      EXPECT_GE(s.ends(), 1u);
    }
    s.add_all("rows" + name, {s.store(y, at, s.masked(s.below(i), e, 2), {i, j})}, 1e-6);
    if (n > 16) {
      EXPECT_GE(s.ends(), 1u);
    }
    s.add_all("turned" + name,
              {s.store(y, s.at({{j, m}, {i, 1}}), s.masked(s.below(j), x), {i, j})});
    Node plus = s.op(Op::kAdd, s.op(Op::kMul, s.masked(s.below(j), e), s.c(kF32, 3)), s.c(kF32, 1));
    s.add_all("plus" + name, {s.store(y, at, plus, {i, j})}, 1e-5);
    // Two results, one of which does not end; in place.
    s.add_all("two" + name,
              {s.store(y, at, s.masked(s.below(j), e), {i, j}),
               s.store(s.param(3, kF32, m * n), at, x, {i, j})},
              1e-6);
    Node own = s.load(y, at);
    s.add_all("own" + name, {s.store(y, at, s.masked(s.below(j), own), {i, j})});
    for (const DType d : {DType::kFloat16, DType::kInt8, DType::kBool, DType::kFloat64}) {
      Node z = s.load(s.param(2, d, m * n), at);
      s.add_all(dtype::name(d) + name,
                {s.store(s.param(0, d, m * n), at, s.masked(s.below(j), z, 1), {i, j})});
    }
    s.run();
  }
}

// A size for every row, parts of a long range, and a triangle.
TEST(Ends, DependOnOtherLoops) {
  EndsSuite s;
  for (const int64_t n : {16, 37}) {
    const int64_t m = 9;
    Node i = s.range(0, m), j = s.range(1, n), at = s.at({{i, n}, {j, 1}});
    Node x = s.load(s.param(2, kF32, m * n), at);
    Node own = s.op(Op::kCmpLt, s.graph.cast(j, kI32), s.load(s.param(1, kI32, m), i));
    const auto lengths = [&](Case& one) {
      for (int64_t row = 0; row < m; ++row) one.params[1].set(row, row * 5 - 2);
    };
    lengths(s.add("ragged" + std::to_string(n),
                  {s.store(s.param(0, kF32, m), i, s.fold(Op::kAdd, s.masked(own, x), {j}), {i})},
                  1e-5));
    lengths(s.add("fill" + std::to_string(n),
                  {s.store(s.param(0, kF32, m * n), at, s.masked(own, x), {i, j})}));
    Node whole = s.graph.cast(s.at({{i, n}, {j, 1}}), kI32);
    Node v = s.load(s.param(1, kI32, 1), s.graph.index(0));
    for (const int64_t number : {int64_t{-1}, int64_t{0}, n - 1, n, 3 * n + 5, m * n - 1, m * n}) {
      Case& parts =
          s.add("parts" + std::to_string(n) + "_" + std::to_string(number),
                {s.store(s.param(0, kF32, m), i,
                         s.fold(Op::kAdd, s.masked(s.op(Op::kCmpLt, whole, v), x), {j}), {i})},
                1e-5);
      parts.params[1].set(0, number);
      Node row = s.graph.cast(i, kI32), column = s.graph.cast(j, kI32);
      Node triangle = s.op(Op::kCmpLe, column, s.op(Op::kAdd, row, v));
      Case& lower = s.add(
          "lower" + std::to_string(n) + "_" + std::to_string(number),
          {s.store(s.param(0, kF32, m), i, s.fold(Op::kAdd, s.masked(triangle, x), {j}), {i})},
          1e-5);
      lower.params[1].set(0, number);
    }
  }
  s.run();
}

// Where the mask may not be left out: infinite factors, other values, folds of which one has none.
TEST(Ends, StayWhereTermsCount) {
  EndsSuite s;
  const int64_t n = 37;
  Node j = s.range(0, n), x = s.load(s.param(2, kF32, n), j), y = s.load(s.param(3, kF32, n), j);
  const auto add = [&](const char* name, Op op, Node value) {
    Case& one = s.add(
        name, {s.store(s.param(0, kF32, 1), s.graph.index(0), s.fold(op, value, {j}), {})}, 1e-5);
    one.params[1].set(0, 9);
    EXPECT_EQ(s.ends(), 0u) << name;
  };
  add("factor", Op::kAdd, s.op(Op::kMul, s.masked(s.below(j), x), y));
  add("one", Op::kAdd, s.masked(s.below(j), x, 1));
  add("zero", Op::kMax, s.masked(s.below(j), x, 0));
  add("other", Op::kAdd, s.op(Op::kWhere, s.below(j), x, y));
  Node sum = s.fold(Op::kAdd, s.masked(s.below(j), x), {j}), all = s.fold(Op::kAdd, x, {j});
  s.add("beside",
        {s.store(s.param(0, kF32, 1), s.graph.index(0), sum, {}),
         s.store(s.param(4, kF32, 1), s.graph.index(0), all, {})},
        1e-5);
  EXPECT_EQ(s.ends(), 0u);
  s.run();
}

}  // namespace
}  // namespace aster::codegen::tests
