// Scan, ScanPlace and LogScan against loops over doubles and words.
#include "native_support.h"

namespace aster::runtime::cpu::native {
namespace {

using namespace runtime::testing;  // NOLINT: elements and places

struct ScanCase {
  Shape shape;
  size_t axis;
  int64_t size() const { return shape[axis]; }
  int64_t inner() const {
    return product(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()));
  }
};
const ScanCase kScanCases[] = {{{37}, 0},      {{5, 9}, 1},      {{5, 9}, 0},
                               {{2, 7, 3}, 1}, {{3, 2, 700}, 1}, {{20, 2, 300}, 0},
                               {{40, 450}, 1}, {{6, 9000}, 1},   {{11, 2}, 1}};

// Scans of every case, dtype and direction, against body(i, position, position before), in the
// order in which a scan meets the elements i of an axis.
template <typename Body>
void for_each_met(const ScanCase& c, bool reverse, Body body) {
  const int64_t inner = c.inner(), size = c.size();
  for (int64_t r = 0; r < product(c.shape) / size; ++r) {
    const int64_t first = r / inner * size * inner + r % inner;
    int64_t before = -1;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t at = first + (reverse ? size - 1 - i : i) * inner;
      body(i, at, before);
      before = at;
    }
  }
}

void check_scan(Graph& graph, Op op, DType d, const ScanCase& c, bool reverse, Random& random) {
  SCOPED_TRACE(std::string(uop::info(op).name) + " " + dtype::name(d) + " " +
               uop::brief_shape(c.shape).text + (reverse ? " from the end" : ""));
  const Node node =
      graph.scan(op, graph.param(0, d, c.shape), static_cast<int64_t>(c.axis), reverse);
  ASSERT_NE(node, nullptr);
  Bytes x = values(d, node->count(), random, draw(random, 0, 1) != 0);
  Bytes expected(x.size()), result(x.size());
  const DType sums = dtype::is_narrow_float(d) ? DType::kFloat32 : d;
  Value v;
  for_each_met(c, reverse, [&](int64_t i, int64_t at, int64_t) {
    v = i == 0 ? load(d, x, at) : combine(op, d, v, load(d, x, at));
    if (dtype::is_float(d)) v.real = dtype::truncate_float(sums, v.real);
    store(d, expected, at, v);
  });
  expect_same(node, interpret(graph, node, {x.data()}), expected);
  run(node, {x.data(), result.data()}, random);
  expect_same(node, result, expected);
  run(node, {x.data(), x.data()}, random);  // in place
  EXPECT_EQ(x, result);
}

// The positions of changes of the scan's values, which are exact.
void check_scan_place(Graph& graph, Op op, DType d, const ScanCase& c, Random& random) {
  SCOPED_TRACE(std::string("place of ") + uop::info(op).name + " " + dtype::name(d) + " " +
               uop::brief_shape(c.shape).text);
  const Node node = graph.scan_place(op, graph.param(0, d, c.shape), static_cast<int64_t>(c.axis));
  ASSERT_NE(node, nullptr);
  Bytes x = values(d, node->count(), random, draw(random, 0, 1) != 0);
  Bytes expected(static_cast<size_t>(node->count()) * 4), result(expected.size());
  Value v, place;
  for_each_met(c, false, [&](int64_t i, int64_t at, int64_t) {
    const Value before = v;
    v = i == 0 ? load(d, x, at) : combine(op, d, v, load(d, x, at));
    const bool same = (std::isnan(v.real) && std::isnan(before.real)) ||
                      (v.real == before.real && v.word == before.word);
    if (i == 0 || !same) place.word = i;
    store(DType::kInt32, expected, at, place);
  });
  expect_same(node, interpret(graph, node, {x.data()}), expected);
  run(node, {x.data(), result.data()}, random);
  expect_same(node, result, expected);
}

TEST(NativeScan, EveryOperationAndDType) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(4);
  int64_t turn = 0;
  static_assert(std::size(kScanCases) % 2 != 0);  // every case has its turn
  for (const DType d : kAll) {
    for (const Op op : kReductions) {
      if (!reduces(op, d)) continue;
      for (const ScanCase& c : kScanCases) {
        if (turn++ % kSlower != 0) continue;
        for (const bool reverse : {false, true}) check_scan(graph, op, d, c, reverse, random);
        if ((uop::info(op).traits & uop::IDEM) != 0) check_scan_place(graph, op, d, c, random);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Against the sum over all that was met, in long double.
TEST(NativeScan, Logarithms) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(14);
  for (const DType d : kAll) {
    if (!dtype::is_float(d)) continue;
    const double unit = dtype::size(d) == 8 ? 0x1p-52 : dtype::size(d) == 4 ? 0x1p-23 : 0;
    for (const ScanCase& c : kScanCases) {
      const bool reverse = draw(random, 0, 1) != 0;
      const Node node =
          graph.log_scan(graph.param(0, d, c.shape), static_cast<int64_t>(c.axis), reverse);
      ASSERT_NE(node, nullptr) << last_error();
      Bytes x = values(d, node->count(), random, draw(random, 0, 1) != 0), result(x.size());
      const Bytes interpreted = interpret(graph, node, {x.data()});
      run(node, {x.data(), result.data()}, random);
      long double most = 0, sum = 0;
      for_each_met(c, reverse, [&](int64_t i, int64_t at, int64_t) {
        const long double v = load(d, x, at).real;
        const long double greatest = i == 0                              ? v
                                     : std::isnan(v) || std::isnan(most) ? NAN
                                                                         : std::max(most, v);
        const bool infinite = std::isinf(greatest);
        sum = (i == 0 || infinite ? 0 : sum * std::exp(most - greatest)) +
              (infinite ? 1 : std::exp(v - greatest));
        most = greatest;
        const double y = static_cast<double>(most + std::log(sum));
        for (const Bytes* got : {&interpreted, static_cast<const Bytes*>(&result)}) {
          const double value = load(d, *got, at).real;
          if (std::isnan(y) || std::isinf(y)) {
            const double known = dtype::truncate_float(d, y);
            EXPECT_TRUE(value == known || (std::isnan(value) && std::isnan(known))) << at;
          } else if (unit != 0) {
            EXPECT_NEAR(value, y, 4 * unit * std::max(1.0, std::fabs(y))) << at;
          } else {  // float32 may decide the rounding otherwise
            const double slack = 1e-5 * std::fabs(y);
            EXPECT_LE(dtype::truncate_float(d, y - slack), value) << y << " at " << at;
            EXPECT_GE(dtype::truncate_float(d, y + slack), value) << y << " at " << at;
          }
        }
      });
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << dtype::name(d) << " " << uop::brief_shape(c.shape).text;
        return;
      }
    }
  }
}

// A million equal terms: float32 sums alone would be off by 1e-3 and more.
TEST(NativeScan, LogarithmsOfLongSums) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(15);
  const int64_t n = 1 << 20;
  std::vector<float> x(static_cast<size_t>(n), 0.1f), y(x.size());
  const Node node = graph.log_scan(graph.param(0, DType::kFloat32, Shape{n}), 0);
  run(node, {x.data(), y.data()}, random);
  for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{1000}, n - 1}) {
    EXPECT_NEAR(y[static_cast<size_t>(i)], 0.1 + std::log(static_cast<double>(i + 1)), 4e-6) << i;
  }
}

TEST(NativeScan, Refusals) {
  Heap heap(nullptr);
  Graph graph(heap);
  const Node x = graph.param(0, DType::kFloat32, Shape{3, 4});
  const Node n = graph.param(1, DType::kInt32, Shape{3, 4});
  EXPECT_EQ(graph.scan(Op::kSub, x, 0), nullptr);
  EXPECT_EQ(graph.scan(Op::kAnd, x, 0), nullptr);
  EXPECT_EQ(graph.scan(Op::kAdd, x, 2), nullptr);
  EXPECT_EQ(graph.scan(Op::kAdd, x, -1, true), nullptr);
  EXPECT_EQ(graph.scan_place(Op::kAdd, x, 0), nullptr);
  EXPECT_EQ(graph.scan_place(Op::kOr, x, 0), nullptr);
  EXPECT_EQ(graph.scan_place(Op::kMax, x, 2), nullptr);
  const Node huge = graph.param(2, DType::kBool, Shape{int64_t{1} << 31});
  EXPECT_EQ(graph.scan_place(Op::kOr, huge, 0), nullptr);
  EXPECT_EQ(graph.log_scan(n, 0), nullptr);
  EXPECT_EQ(graph.log_scan(x, 2), nullptr);
  EXPECT_EQ(graph.scan(Op::kAdd, nullptr, 0), nullptr);
  EXPECT_EQ(graph.scan_place(Op::kMax, nullptr, 0), nullptr);
  EXPECT_EQ(graph.log_scan(nullptr, 0), nullptr);
}

}  // namespace
}  // namespace aster::runtime::cpu::native
