#include "uop/verify.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "aster_ml/flt.h"
#include "uop/helpers.h"
#include "uop/print.h"
#include "uop/raw.h"

namespace aster::uop {
namespace {

using Shape = std::vector<Word>;
constexpr DType kF32 = DType::kFloat32, kI32 = DType::kInt32, kBool = DType::kBool;

class Verify : public testing::Test {
 protected:
  Verify() : heap(nullptr), g(heap) {}
  void expect_fault(Node n, Level level, const std::string& words) {
    ASSERT_NE(n, nullptr);
    const Node root = level == Level::kKernel || n->op == Op::kSink ? n : g.sink(std::array{n});
    EXPECT_EQ(verify(g, root, level).code, static_cast<int32_t>(Code::kINTERNAL)) << words;
    aster_ml_error error;
    aster_ml_error_last(&error);
    EXPECT_NE(std::string(error.message).find(words), std::string::npos)
        << error.message << " / " << words;
  }
  void tensor_fault(Node n, const std::string& words) { expect_fault(n, Level::kTensor, words); }
  void kernel_fault(Node n, const std::string& words) { expect_fault(n, Level::kKernel, words); }
  // A node that no builder would make.
  Node raw(Op op, DType d, std::vector<Node> src, const Shape& arg = {}, const Shape& shape = {}) {
    return g.make(op, d, {src.data(), src.size()}, arg, shape);
  }
  Heap heap;
  Graph g;
};

TEST_F(Verify, TensorGraphs) {
  const Node a = g.param(0, kF32, Shape{2, 3}), i = g.param(1, kI32, Shape{2, 3});
  const Node fine = g.reduce(
      Op::kAdd, g.alu(Op::kExp, g.pad(a, Shape{1, 0}, Shape{0, 2}, Shape{0, 1}, 0)), Shape{1});
  const Node windows = g.unwindow(g.window(a, 1, 2, 1, 1), 1, 3, 1, 1);
  EXPECT_TRUE(
      verify(g, g.sink(std::array{fine, windows, g.cat(std::array{a, a}, 1)}), Level::kTensor)
          .ok());
  tensor_fault(raw(Op::kReshape, kF32, {a}, {}, {5}), "as many elements");
  tensor_fault(raw(Op::kReshape, kI32, {a}, {}, {6}), "its source's dtype");
  tensor_fault(raw(Op::kExpand, kF32, {a}, {}, {4, 3}), "repeated");
  tensor_fault(raw(Op::kPermute, kF32, {a}, {0, 0}, {2, 2}), "each axis");
  tensor_fault(raw(Op::kPermute, kF32, {a}, {1, 0}, {2, 3}), "each axis");
  tensor_fault(raw(Op::kFlip, kF32, {a}, {1}, {2, 3}), "its source's shape");
  tensor_fault(raw(Op::kSlice, kF32, {a}, {1, 1, 0, 1}, {2, 3}), "inside");
  tensor_fault(raw(Op::kSlice, kF32, {a}, {0, 1, 0, 2}, {2, 3}), "inside");
  tensor_fault(raw(Op::kPad, kF32, {a}, {1, 0, 0, 0, 0, 0, 0}, {2, 3}), "the padding");
  tensor_fault(raw(Op::kWindow, kF32, {a}, {1, 1, 1}, {2, 3, 2}), "windows");
  tensor_fault(raw(Op::kUnwindow, kF32, {g.window(a, 1, 2, 1, 1)}, {1, 1, 1}, {2, 2, 2}), "room");
  tensor_fault(raw(Op::kCat, kF32, {a, a}, {0}, {3, 3}), "one after another");
  tensor_fault(raw(Op::kCat, kF32, {a, i}, {0}, {4, 3}), "one after another");
  tensor_fault(raw(Op::kReduce, kF32, {a}, {static_cast<Word>(Op::kAdd), 1}, {2, 3}), "size 1");
  tensor_fault(raw(Op::kReduce, kF32, {a}, {static_cast<Word>(Op::kSub), 1}, {2, 1}), "size 1");
  tensor_fault(raw(Op::kAdd, kF32, {a, i}, {}, {2, 3}), "dtypes");
  tensor_fault(raw(Op::kAdd, kF32, {a, g.reshape(a, Shape{6})}, {}, {2, 3}), "equal shapes");
  tensor_fault(raw(Op::kAdd, kF32, {a}, {}, {2, 3}), "number of sources");
  tensor_fault(raw(Op::kCmpLt, kF32, {a, a}, {}, {2, 3}), "dtypes");
  tensor_fault(raw(Op::kWhere, kF32, {a, a, a}, {}, {2, 3}), "dtypes");
  tensor_fault(raw(Op::kConst, DType::kInt8, {}, {300}), "canonical");
  tensor_fault(raw(Op::kAssign, kF32, {a, i}, {}, {2, 3}), "equal shapes and dtypes");
  tensor_fault(raw(Op::kBitcast, DType::kInt8, {a}, {}, {2, 3}), "source's size");
  // What overflows is not made at all, a 0 in it or not.
  EXPECT_EQ(raw(Op::kParam, kF32, {}, {0}, {INT64_MAX, INT64_MAX}), nullptr);
  EXPECT_EQ(raw(Op::kParam, kF32, {}, {0}, {INT64_MAX, 0, INT64_MAX}), nullptr);
  tensor_fault(g.range(0, 4), "level");
}

TEST_F(Verify, Kernels) {
  const Node in = g.param(0, kF32, Shape{8}), out = g.param(1, kF32, Shape{8});
  const Node r = g.range(0, 8), k = g.range(1, 8);
  const Node load = raw(Op::kLoad, kF32, {in, r}), inner = raw(Op::kLoad, kF32, {in, k});
  const Node fold = raw(Op::kFold, kF32, {inner, k}, {static_cast<Word>(Op::kAdd)});
  const auto store = [&](Node value, std::vector<Node> loops) {
    loops.insert(loops.begin(), {out, r, value});
    return g.sink(std::array{raw(Op::kStore, DType::kNone, loops)});
  };
  const Node fine = store(g.alu(Op::kAdd, load, fold), {r});
  EXPECT_TRUE(verify(g, fine, Level::kKernel).ok());
  kernel_fault(store(load, {}), "loops");
  kernel_fault(store(inner, {r}), "loops");
  kernel_fault(store(load, {out}), "ranges as its loops");
  kernel_fault(store(g.cast(load, kI32), {r}), "its param's dtype");
  kernel_fault(raw(Op::kLoad, kI32, {in, r}), "its param's dtype");
  kernel_fault(raw(Op::kLoad, kF32, {load, r}), "a param");
  kernel_fault(raw(Op::kLoad, kF32, {in, load}), "a param");
  kernel_fault(raw(Op::kLoad, kF32, {in, r, r}), "bool gate");
  kernel_fault(raw(Op::kFold, kF32, {inner, k}, {static_cast<Word>(Op::kExp)}), "reduction");
  kernel_fault(raw(Op::kFold, kF32, {inner}, {static_cast<Word>(Op::kAdd)}), "reduction");
  const auto carry = [&](std::vector<Node> src, Op op, Word before = 0, DType dtype = kF32) {
    return raw(Op::kCarry, dtype, src, {static_cast<Word>(op), before});
  };
  EXPECT_TRUE(verify(g, store(carry({load, r}, Op::kAdd), {r}), Level::kKernel).ok());
  EXPECT_TRUE(verify(g, store(carry({load, load, r}, Op::kMulAcc, 1), {r}), Level::kKernel).ok());
  kernel_fault(store(carry({inner, k}, Op::kAdd), {r}), "loops");
  kernel_fault(carry({load, r}, Op::kSub), "values along a range");
  kernel_fault(carry({load, r}, Op::kAdd, 2), "values along a range");
  kernel_fault(carry({load, r}, Op::kMulAcc), "values along a range");
  kernel_fault(carry({load, load, r}, Op::kAdd), "values along a range");
  kernel_fault(carry({load, load}, Op::kAdd), "values along a range");
  kernel_fault(carry({g.cast(load, DType::kFloat16), r}, Op::kAdd, 0, DType::kFloat16),
               "values along a range");
  kernel_fault(carry({load, r}, Op::kAdd, 0, kI32), "values' dtype");
  kernel_fault(carry({load, g.cast(load, kI32), r}, Op::kMulAcc), "values' dtype");
  kernel_fault(g.reshape(in, Shape{2, 4}), "level");
  kernel_fault(g.alu(Op::kExp, in), "scalar");
}

TEST_F(Verify, NodesOfAnotherGraph) {
  Graph other(heap);
  const Node theirs = other.param(0, kF32, Shape{2});
  tensor_fault(g.alu(Op::kExp, theirs), "graph");
}

TEST_F(Verify, Print) {
  const Node a = g.param(0, kF32, Shape{2, 3}),
             b = raw(Op::kBuffer, kF32, {}, {123456, 65536, 0}, {2, 1});
  const Node sum =
      g.reduce(Op::kAdd, g.alu(Op::kMul, a, g.constant(kF32, -0.5, Shape{2, 3})), Shape{1});
  const Node both = g.alu(Op::kCmpLt, b, sum);
  Text text(heap);
  ASSERT_TRUE(
      print(text, std::array{g.sink(std::array{both, g.constant_int(DType::kUInt64, -1)})}).ok());
  EXPECT_EQ(text.view(),
            "%0 = Buffer float32[2, 1] #0\n"
            "%1 = Param float32[2, 3] (0)\n"
            "%2 = Const float32[2, 3] -0.5\n"
            "%3 = Mul float32[2, 3] %1 %2\n"
            "%4 = Reduce:Add float32[2, 1] %3 (1)\n"
            "%5 = CmpLt bool[2, 1] %0 %4\n"
            "%6 = Const uint64 18446744073709551615\n"
            "%7 = Sink %5 %6\n");
}

// The same graph by another route prints the same.
TEST_F(Verify, PrintIsTheSameInEveryGraph) {
  const auto build = [](Graph& graph, bool reversed) {
    Node a = nullptr, b = nullptr;
    for (int i = 0; i < 2; ++i) {
      Node& made = (i == 0) == reversed ? b : a;
      made = graph.param(&made == &a ? 0 : 1, kF32, Shape{4});
    }
    return graph.alu(Op::kAdd, graph.alu(Op::kExp, a), graph.alu(Op::kMax, b, a));
  };
  Graph other(heap);
  Text first(heap), second(heap);
  ASSERT_TRUE(print(first, std::array{build(g, false)}).ok());
  ASSERT_TRUE(print(second, std::array{build(other, true)}).ok());
  EXPECT_EQ(first.view(), second.view());
}

TEST_F(Verify, NamesAreReadAsTheyArePrinted) {
  FullName name;
  for (const char* good :
       {"Add", "Reduce:Max", "Fold:Add", "Carry:MulAcc", "Const", "Call:Softmax"}) {
    ASSERT_TRUE(parse_full_name(&name, good)) << good;
    Shape arg;
    if (name.has_word) arg.push_back(name.word);
    EXPECT_STREQ(full_name(raw(name.op, kF32, {}, arg)), good);
  }
  for (const char* bad :
       {"", "add", "Reduce", "Fold", "Call", "Reduce:Sub", "Reduce:", "Call:Nothing", "Add "}) {
    EXPECT_FALSE(parse_full_name(&name, bad)) << bad;
  }
}

std::string last_message() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return error.message;
}

// A graph with every operation that a node is built of, in every form of its arguments.
std::vector<Node> every_form(Graph& g) {
  const Node x = g.param(0, kF32, Shape{2, 3, 4}), y = g.param(1, kF32, Shape{2, 3, 4});
  const Node i = g.param(2, kI32, Shape{2, 3, 4}), b = g.alu(Op::kCmpLt, x, y);
  const Node word = g.param(3, DType::kUInt64, Shape{2}), line = g.param(4, kF32, Shape{8});
  const Node r = g.range(0, 8), k = g.range(1, 8), windows = g.window(x, 2, 2, 1, 1);
  const Node load = g.make(Op::kLoad, kF32, std::array{line, r});
  const Node gated = g.make(Op::kLoad, kF32, std::array{line, k, g.alu(Op::kCmpLt, r, k)});
  std::vector<Node> all{
      x,
      r,
      load,
      gated,
      windows,
      g.iota(kI32, 5),
      g.constant(kF32, -0.5, Shape{2}),
      g.constant(kF32, -0.0),
      g.constant(kF32, INFINITY),
      g.constant(kF32, NAN),
      g.constant(DType::kFloat64, 0.1),
      g.constant_int(DType::kUInt64, -1),
      g.constant_int(kBool, 1),
      g.constant(DType::kWeakFloat, 2.5),
      g.index(-7),
      g.reshape(x, Shape{6, 4}),
      g.expand(g.param(5, kF32, Shape{1, 3}), Shape{2, 3}),
      g.permute(x, Shape{2, 0, 1}),
      g.flip(x, Shape{0, 1, 0}),
      g.slice(x, Shape{0, 1, 0}, Shape{1, 1, 2}, Shape{2, 2, 2}),
      g.pad(x, Shape{1, 0, 0}, Shape{0, 2, 0}, Shape{0, 0, 1}, std::bit_cast<Word>(-1.5)),
      g.pad(i, Shape{1, 0, 0}, Shape{0, 0, 0}, Shape{0, 0, 0}, -3),
      g.unwindow(windows, 2, 4, 1, 1),
      g.cat(std::array{x, y}, 1),
      g.cast(x, kI32),
      g.bitcast(x, kI32),
      g.dot(g.param(6, DType::kTbb8, Shape{2, 3}), g.param(7, DType::kTbb8, Shape{2, 3}), Shape{1},
            DType::kTbb32),
      g.contiguous(x),
      g.transfer(x, 3 << 16, 0),
      g.transfer(x, 1 << 16, 3 << 16),
      g.detach(x),
      g.gather(x, std::array{i}, Shape{0, -1, 2}, Shape{2, 3, 4}),
      g.scatter(Op::kSink, x, y, std::array{i}, Shape{0, -1, 2}),
      g.argsort(x, 1, true, 2),
      g.scatter(Op::kAdd, x, y, std::array{i}, Shape{0, -1, 2}),
      g.sort(x, 2, false),
      g.scan(Op::kAdd, x, 1, false),
      g.scan(Op::kMul, x, 0, true),
      g.log_scan(x, 1, true),
      g.scan_place(Op::kMax, x, 1),
      g.assign(x, y),
      g.after(x, std::array{g.assign(x, y)}),
      g.sink(std::array{x, y}),
      g.alu(Op::kThreefry, word, word),
      g.wide_function(ASTER_ML_FLT_TAN, std::array{g.param(9, DType::kFlt256, Shape{2})}),
      g.alu(Op::kWhere, b, x, y)};
  for (const Op op : {Op::kAdd, Op::kMul, Op::kMax, Op::kMin, Op::kAnd, Op::kOr}) {
    const bool bits = op == Op::kAnd || op == Op::kOr;
    all.push_back(g.reduce(op, bits ? i : x, Shape{0, 2}));
    if (!bits) {
      const std::array words{static_cast<Word>(op)};
      all.push_back(g.make(Op::kFold, kF32, std::array{gated, k}, words));
      const std::array before{static_cast<Word>(op), Word{1}};
      all.push_back(g.make(Op::kCarry, kF32, std::array{load, r}, before));
    }
  }
  const std::array linear{static_cast<Word>(Op::kMulAcc), Word{0}};
  all.push_back(g.make(Op::kCarry, kF32, std::array{load, load, r}, linear));
  all.push_back(g.make(Op::kStore, DType::kNone, std::array{line, r, load, r}));
  for (size_t at = 0; at < static_cast<size_t>(Op::kCount); ++at) {
    const Op op = static_cast<Op>(at);
    if (!is_alu(op) || op == Op::kThreefry || op == Op::kWhere) continue;
    const bool integers =
        info(op).rule == DTypeRule::kIntegral || info(op).rule == DTypeRule::kInt32;
    const Node a = integers ? i : x;
    const Node c = integers ? g.flip(i, Shape{1, 0, 0}) : y;
    all.push_back(info(op).sources == 1   ? g.alu(op, a)
                  : info(op).sources == 2 ? g.alu(op, a, c)
                                          : g.alu(op, a, c, a));
  }
  return all;
}

TEST_F(Verify, WideFunctionsAreThoseThatThereAre) {
  const Node x = g.param(0, DType::kFlt512, Shape{2}), y = g.param(1, kF32, Shape{2});
  EXPECT_NE(g.wide_function(ASTER_ML_FLT_HYPOT, std::array{x, x}), nullptr);
  EXPECT_EQ(g.wide_function(ASTER_ML_FLT_HYPOT, std::array{x}), nullptr);
  EXPECT_EQ(g.wide_function(ASTER_ML_FLT_CMPLT, std::array{x, x}), nullptr);
  EXPECT_EQ(g.wide_function(1000, std::array{x}), nullptr);
  EXPECT_EQ(g.wide_function(ASTER_ML_FLT_TAN, std::array{y}), nullptr);
  EXPECT_EQ(g.alu(Op::kNot, x), nullptr);
  EXPECT_EQ(g.constant(DType::kFlt256, 0.1), nullptr);
  EXPECT_NE(g.constant(DType::kFlt256, 0.5), nullptr);
}

// What print says of a node is enough to build it again.
TEST_F(Verify, EveryNodeIsBuiltOfWhatIsPrinted) {
  // Storage, composites, and what others computed.
  std::set<Op> seen{Op::kBuffer, Op::kCall, Op::kTuple, Op::kItem, Op::kForeign};
  for (const Node node : every_form(g)) {
    ASSERT_NE(node, nullptr) << last_message();
    Node again = nullptr;
    const RawNode words{full_name(node), node->dtype, node->src(), plain_arguments(node),
                        node->shape()};
    EXPECT_TRUE(build_raw(&again, g, words).ok()) << brief(node).text << last_message();
    EXPECT_EQ(again, node) << full_name(node) << " " << brief(node).text;
    seen.insert(node->op);
  }
  for (size_t op = 0; op < static_cast<size_t>(Op::kCount); ++op) {
    const OpInfo& row = info(static_cast<Op>(op));
    EXPECT_EQ(seen.count(static_cast<Op>(op)) != 0, row.tensor || row.kernel) << row.name;
  }
}

TEST_F(Verify, DevicesAndSizesThatDoNotFit) {
  const Node x = g.param(0, kF32, Shape{4});
  const auto refuses = [&](std::string_view name, const Shape& arguments, const Shape& shape) {
    Node out = nullptr;
    return !build_raw(&out, g, {name, kF32, std::array{x}, arguments, shape}).ok();
  };
  for (const Shape& devices : {Shape{1}, Shape{0, 0}, Shape{-1, 0}, Shape{1 << 16, -1},
                               Shape{Word{1} << 40, 0}, Shape{1 << 16, 0, 0}}) {
    EXPECT_TRUE(refuses("Contiguous", devices, {4})) << devices.size();
  }
  for (const char* name : {"Window", "Unwindow"}) {
    EXPECT_TRUE(refuses(name, {0, 1, 1}, {})) << name;
    EXPECT_TRUE(refuses(name, {-5, 1, 1}, {4, 4})) << name;
    EXPECT_TRUE(refuses(name, {INT64_MAX, 1, 1}, {4, 4})) << name;
    EXPECT_TRUE(refuses(name, {0, 1}, {4, 4})) << name;
  }
}

}  // namespace
}  // namespace aster::uop
