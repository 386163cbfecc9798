// Scans in schedules: their values for every dtype, and what they fuse with.
#include <limits>

#include "engine/world.h"
#include "runtime/elements.h"

namespace aster::engine::testing {
namespace {

using runtime::testing::Bytes;
using runtime::testing::Random;
using runtime::testing::Value;
namespace elements = runtime::testing;

TEST(Scan, PrefixSums) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  Node y = g.scan(Op::kAdd, g.alu(Op::kAdd, x, x), 1);
  EXPECT_EQ(w.compute(g.alu(Op::kNeg, y)), (std::vector<float>{-2, -6, -12, -8, -18, -30}));
  Node down = g.scan(Op::kMul, x, 0);
  EXPECT_EQ(w.compute(down), (std::vector<float>{1, 2, 3, 4, 10, 18}));
  Node up = g.scan(Op::kAdd, x, 1, true);
  EXPECT_EQ(w.compute(up), (std::vector<float>{6, 5, 3, 15, 11, 6}));
}

// With what is computed before and behind them.
TEST(Scan, FuseWithArithmetic) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({3, -1, 4, 4, 2, 9}, {2, 3});
  Node twice = g.alu(Op::kAdd, x, x);
  expect_values(w, w.hold(g.alu(Op::kNeg, g.scan(Op::kAdd, twice, 1))), {-6, -4, -12, -8, -12, -30},
                1);
  expect_values(w, w.hold(g.alu(Op::kNeg, g.scan(Op::kAdd, twice, 1, true))),
                {-12, -6, -8, -30, -22, -18}, 1);
  expect_values(w, w.hold(g.scan(Op::kMin, twice, 1)), {6, -2, -2, 8, 4, 4}, 1);
  expect_values(w, w.hold(g.scan(Op::kMul, twice, 0, true)), {48, -8, 144, 8, 4, 18}, 1);
  expect_values(w, w.hold(g.scan(Op::kAdd, x, 1)), {3, 2, 6, 4, 6, 15}, 1);
  // A sum of sums back: what the first gives is read by the second.
  Node there =
      g.alu(Op::kMul, g.scan(Op::kAdd, x, 1), g.constant(DType::kFloat32, 2, words({2, 3})));
  expect_values(w, w.hold(g.scan(Op::kAdd, there, 1, true)), {22, 16, 12, 50, 42, 30}, 2);
}

TEST(Scan, LongOnesFuse) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf(std::vector<float>(1000, 1), {1000});
  const std::vector<float> y =
      w.compute(g.alu(Op::kNeg, g.scan(Op::kAdd, g.alu(Op::kAdd, x, x), 0)));
  EXPECT_EQ(w.engine().counters.last_kernels, 1u);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], -2 * static_cast<float>(i + 1));
}

// NaN is one value.
TEST(Scan, Places) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.leaf({3, 3, 5, 1, 5, 7, NAN, NAN, 9, 2, 1, 1}, {2, 6});
  const std::vector<float> largest = {0, 0, 2, 2, 2, 5, 0, 0, 0, 0, 0, 0};
  const std::vector<float> least = {0, 0, 0, 3, 3, 3, 0, 0, 0, 0, 0, 0};
  for (Node source : {x, w.hold(g.alu(Op::kMul, x, w.num(3, x)))}) {
    for (const Op op : {Op::kMax, Op::kMin}) {
      Node place = g.cast(g.scan_place(op, source, 1), DType::kFloat32);
      EXPECT_EQ(w.compute(w.hold(place)), op == Op::kMax ? largest : least);
    }
  }
  std::vector<float> steps(1000), expected(1000);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i] = static_cast<float>(i / 3);
    expected[i] = static_cast<float>(i - i % 3);
  }
  Node y = g.scan_place(Op::kMax, w.leaf(steps, {1000}), 0);
  expect_values(w, w.hold(g.cast(y, DType::kFloat32)), expected, 1);
}

TEST(Scan, Logarithms) {
  World w;
  uop::Graph& g = w.g();
  const float inf = INFINITY, two = std::log(2.0f), three = std::log(3.0f);
  Node x = w.leaf({-inf, 0, 0, -inf, 88, inf, 1, 0, 0, 0, -inf, NAN}, {3, 4});
  const std::vector<float> expected = {-inf, 0, two, two, 88, inf, inf, inf, 0, two, two, NAN};
  Node half = w.leaf({-inf, 0, 0, -inf, 44, inf, 0.5f, 0, 0, 0, -inf, NAN}, {3, 4});
  for (Node source : {x, w.hold(g.alu(Op::kAdd, half, half))}) {
    const std::vector<float> got = w.compute(w.hold(g.log_scan(source, 1)));
    EXPECT_EQ(w.engine().counters.last_kernels, 1u);
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
      } else {
        EXPECT_FLOAT_EQ(got[i], expected[i]) << i;
      }
    }
  }
  Node back = w.leaf({0, 0, 0, two}, {4});
  const std::vector<float> got = w.compute(w.hold(g.log_scan(back, 0, true)));
  const std::vector<float> sums = {std::log(5.0f), std::log(4.0f), three, two};
  for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(got[i], sums[i]);
}

// ---- Every dtype, operation and direction, along every axis ----

struct ScanCase {
  Shape shape;
  size_t axis;
  int64_t size() const { return shape[axis]; }
  int64_t inner() const {
    int64_t out = 1;
    for (size_t i = axis + 1; i < shape.size(); ++i) out *= shape[i];
    return out;
  }
};
const ScanCase kScanCases[] = {{{37}, 0},      {{5, 9}, 1},      {{5, 9}, 0},
                               {{2, 7, 3}, 1}, {{3, 2, 300}, 1}, {{20, 2, 30}, 0},
                               {{40, 45}, 1},  {{3, 900}, 1},    {{11, 2}, 1}};

// body(i, position, position before), in the order in which a scan meets the elements i of an axis.
template <typename Body>
void for_each_met(const ScanCase& c, bool reverse, Body body) {
  const int64_t inner = c.inner(), size = c.size();
  for (int64_t r = 0; r < elements::product(c.shape) / size; ++r) {
    const int64_t first = r / inner * size * inner + r % inner;
    int64_t before = -1;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t at = first + (reverse ? size - 1 - i : i) * inner;
      body(i, at, before);
      before = at;
    }
  }
}

struct Asked {
  Node node;
  Op op;
  ScanCase on;
  bool reverse;
  Lazy* cell;
};

// One after another, sums in float32 at least.
void expect_scanned(const Asked& asked, DType d, const Bytes& x, const Bytes& got) {
  SCOPED_TRACE(std::string(uop::info(asked.op).name) + " " + dtype::name(d) + " " +
               uop::brief_shape(asked.on.shape).text + (asked.reverse ? " from the end" : ""));
  const bool places = asked.node->op == Op::kScanPlace;
  const DType sums = dtype::is_narrow_float(d) ? DType::kFloat32 : d;
  Bytes expected(got.size());
  Value v, place;
  for_each_met(asked.on, asked.reverse, [&](int64_t i, int64_t at, int64_t) {
    const Value was = v, now = elements::load(d, x, at);
    v = i == 0 ? now : elements::combine(asked.op, d, v, now);
    if (dtype::is_float(d)) v.real = dtype::truncate_float(sums, v.real);
    const bool same =
        (std::isnan(v.real) && std::isnan(was.real)) || (v.real == was.real && v.word == was.word);
    if (i == 0 || !same) place.word = i;
    elements::store(asked.node->dtype, expected, at, places ? place : v);
  });
  elements::expect_same(asked.node, got, expected);
}

// Values whose sums and products are exact, so that the order in which they are combined does not
// show; NaN and infinities among them.
TEST(Scan, EveryOperationAndDType) {
  Random random(4);
  size_t turn = 0;
  for (const DType d : elements::kAll) {
    if (dtype::is_weak(d)) continue;
    World w;
    std::vector<Asked> all;
    std::vector<Bytes> data;
    for (const Op op : elements::kReductions) {
      if (!elements::reduces(op, d)) continue;
      for (int direction = 0; direction < 2; ++direction) {
        const ScanCase& c = kScanCases[turn++ % std::size(kScanCases)];
        data.push_back(elements::values(d, elements::product(c.shape), random, true));
        if (op == Op::kMul && dtype::is_float(d)) {  // ones and signs
          for (int64_t i = 0; i < elements::product(c.shape); ++i) {
            Value v = elements::load(d, data.back(), i);
            if (std::isfinite(v.real) && v.real != 0) v.real = std::copysign(1, v.real);
            elements::store(d, data.back(), i, v);
          }
        }
        Node leaf = w.leaf_of(d, data.back().data(), c.shape);
        const auto axis = static_cast<Word>(c.axis);
        const bool reverse = direction == 1;
        Node y = w.g().scan(op, leaf, axis, reverse);
        all.push_back({y, op, c, reverse, w.cell(y)});
        if ((uop::info(op).traits & uop::IDEM) == 0 || reverse) continue;
        data.push_back(data.back());
        y = w.g().scan_place(op, leaf, axis);
        all.push_back({y, op, c, false, w.cell(y)});
      }
    }
    std::vector<Lazy*> cells;
    for (const Asked& asked : all) w.hold(asked.node), cells.push_back(asked.cell);
    ASSERT_NO_FATAL_FAILURE(w.realize(cells));
    for (size_t i = 0; i < all.size() && !::testing::Test::HasFailure(); ++i)
      expect_scanned(all[i], d, data[i], w.bytes(all[i].cell));
    if (::testing::Test::HasFailure()) return;
  }
}

// Sums of any numbers, within what the order of additions may change.
TEST(Scan, SumsOfFloats) {
  Random random(5);
  for (const DType d : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    World w;
    for (const ScanCase& c : kScanCases) {
      const Bytes x = elements::values(d, elements::product(c.shape), random, false);
      Lazy* cell =
          w.cell(w.g().scan(Op::kAdd, w.leaf_of(d, x.data(), c.shape), static_cast<Word>(c.axis)));
      ASSERT_NO_FATAL_FAILURE(w.realize({cell}));
      const Bytes got = w.bytes(cell);
      long double sum = 0, size = 0;
      for_each_met(c, false, [&](int64_t i, int64_t at, int64_t) {
        const long double v = elements::load(d, x, at).real;
        sum = (i == 0 ? 0 : sum) + v;
        size = (i == 0 ? 0 : size) + std::fabs(v);
        const double unit = d == DType::kFloat64   ? 0x1p-50
                            : d == DType::kFloat32 ? 0x1p-22
                            : d == DType::kFloat16 ? 0x1p-10
                                                   : 0x1p-7;
        EXPECT_NEAR(elements::load(d, got, at).real, static_cast<double>(sum),
                    unit * static_cast<double>(size))
            << at;
      });
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Against the sum over all that was met, in long double.
TEST(Scan, LogarithmsOfEveryDType) {
  Random random(14);
  for (const DType d : elements::kAll) {
    if (!dtype::is_float(d) || dtype::is_weak(d)) continue;
    const double unit = dtype::size(d) == 8 ? 0x1p-52 : dtype::size(d) == 4 ? 0x1p-23 : 0;
    World w;
    for (size_t turn = 0; turn < std::size(kScanCases); turn += unit == 0 ? 4 : 1) {
      const ScanCase& c = kScanCases[turn];
      const bool reverse = elements::draw(random, 0, 1) != 0;
      const Bytes x = elements::values(d, elements::product(c.shape), random, turn % 2 != 0);
      Lazy* cell = w.cell(
          w.g().log_scan(w.leaf_of(d, x.data(), c.shape), static_cast<Word>(c.axis), reverse));
      ASSERT_NO_FATAL_FAILURE(w.realize({cell}));
      const Bytes got = w.bytes(cell);
      long double most = 0, sum = 0;
      for_each_met(c, reverse, [&](int64_t i, int64_t at, int64_t) {
        const long double v = elements::load(d, x, at).real;
        const long double greatest = i == 0                              ? v
                                     : std::isnan(v) || std::isnan(most) ? NAN
                                                                         : std::max(most, v);
        const bool infinite = std::isinf(greatest);
        sum = (i == 0 || infinite ? 0 : sum * std::exp(most - greatest)) +
              (infinite ? 1 : std::exp(v - greatest));
        most = greatest;
        const double y = static_cast<double>(most + std::log(sum));
        const double value = elements::load(d, got, at).real;
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
      });
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << dtype::name(d) << " " << uop::brief_shape(c.shape).text;
        return;
      }
    }
  }
}

// A million equal terms: float32 sums alone would be off by 1e-3 and more.
TEST(Scan, LogarithmsOfLongSums) {
  World w;
  const int64_t n = 1 << 20;
  const std::vector<float> y = w.compute(
      w.hold(w.g().log_scan(w.leaf(std::vector<float>(static_cast<size_t>(n), 0.1f), {n}), 0)));
  for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{1000}, n - 1}) {
    EXPECT_NEAR(y[static_cast<size_t>(i)], 0.1 + std::log(static_cast<double>(i + 1)), 4e-6) << i;
  }
}

// ---- What they fuse with ----

// Along one loop in one direction any number is one kernel; else each waits for the one below.
TEST(Scan, AlongOneLoopAreOneKernel) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({6, 50}), y = w.random({6, 50}, 2);
  const auto sums = [&](Node of, Word axis, bool reverse = false) {
    return g.scan(Op::kAdd, of, axis, reverse);
  };
  w.check(w.hold(g.alu(Op::kMul, sums(x, 1), g.scan(Op::kMax, y, 1))), 1);
  w.check(w.hold(sums(sums(x, 1), 1)), 1);
  w.check(w.hold(sums(g.alu(Op::kExp, sums(x, 0)), 0)), 1);
  w.check(w.hold(g.alu(Op::kSub, sums(x, 1, true), sums(y, 1, true))), 1);
  w.check(w.hold(sums(sums(x, 0), 1)), 2);
  w.check(w.hold(sums(sums(x, 1), 1, true)), 2);
  w.check(w.hold(g.alu(Op::kAdd, sums(x, 1), sums(y, 1, true))), 2);
  // From the end is from the beginning of what is flipped.
  w.check(w.hold(g.flip(sums(g.flip(x, words({0, 1})), 1), words({0, 1}))), 1);
}

// What reads elements elsewhere, or not all along the loop, reads them from memory.
TEST(Scan, ReadThroughMovement) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({12, 30});
  Node y = w.hold(g.scan(Op::kAdd, x, 1));
  w.check(w.hold(g.permute(y, words({1, 0}))), 2);
  w.check(w.hold(g.alu(Op::kNeg, g.permute(g.scan(Op::kMul, x, 0), words({1, 0})))), 2);
  w.check(w.hold(g.scan(Op::kAdd, g.permute(w.random({30, 40}), words({1, 0})), 1)), 2);
  w.check(w.hold(g.scan(Op::kAdd, g.permute(w.random({30, 4}), words({1, 0})), 1)), 1);
  w.check(w.hold(g.slice(y, words({2, 0}), words({1, 1}), words({5, 17}))), 1);
  w.check(w.hold(g.slice(y, words({0, 3}), words({1, 1}), words({12, 20}))), 2);
  w.check(w.hold(g.slice(y, words({0, 0}), words({1, 2}), words({12, 15}))), 2);
  w.check(w.hold(g.pad(y, words({1, 0}), words({2, 0}), words({0, 0}), 0)), 1);
  w.check(w.hold(g.pad(y, words({0, 1}), words({0, 0}), words({0, 0}), 0)), 2);
  w.check(w.hold(g.alu(Op::kExp, w.reshape(y, {4, 90}))), 2);
  w.check(w.hold(g.cat(std::array{y, x}, 0)), 1);
  w.check(w.hold(g.alu(Op::kMul, w.expand(w.reshape(y, {12, 30, 1}), {12, 30, 4}),
                       w.random({12, 30, 4}))),
          2);
}

// Reductions of rows before a scan are part of its kernel, those of what it gives are behind it.
TEST(Scan, BesideReductions) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({40, 70});
  Node rows = w.hold(w.sum(x, {1}));
  Node parts = g.alu(Op::kDiv, g.scan(Op::kAdd, g.alu(Op::kExp, x), 1), w.expand(rows, {40, 70}));
  w.check(w.hold(parts), 1, 1e-4);
  w.check(w.hold(w.sum(g.scan(Op::kAdd, x, 1), {1})), 2, 1e-4);
  w.check(w.hold(g.scan(Op::kAdd, w.sum(x, {1}), 0)), 2, 1e-4);
  w.check(w.hold(w.row_softmax(g.scan(Op::kMax, x, 1))), 2, 1e-4);
}

// Rows at places that are counted, as selections are.
TEST(Scan, AsAnIndex) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({30}), flags = w.leaf(std::vector<float>(30, 1), {30});
  Node at = g.cast(g.scan(Op::kAdd, flags, 0), DType::kInt32);
  Node y = w.hold(g.gather(x, std::array{at}, words({-1}), words({30})));
  std::vector<float> expected = w.read(w.cell(x));
  expected.erase(expected.begin());
  expected.push_back(0);
  expect_values(w, y, expected, 1);
}

TEST(Scan, Refusals) {
  World w;
  uop::Graph& g = w.g();
  Node x = w.random({3, 4}), n = g.cast(x, DType::kInt32);
  EXPECT_EQ(g.scan(Op::kSub, x, 0), nullptr);
  EXPECT_EQ(g.scan(Op::kAnd, x, 0), nullptr);
  EXPECT_EQ(g.scan(Op::kAdd, x, 2), nullptr);
  EXPECT_EQ(g.scan(Op::kAdd, x, -1, true), nullptr);
  EXPECT_EQ(g.scan_place(Op::kAdd, x, 0), nullptr);
  EXPECT_EQ(g.scan_place(Op::kOr, x, 0), nullptr);
  EXPECT_EQ(g.scan_place(Op::kMax, x, 2), nullptr);
  Node huge = g.param(2, DType::kBool, words({Word{1} << 31}));
  EXPECT_EQ(g.scan_place(Op::kOr, huge, 0), nullptr);
  EXPECT_EQ(g.log_scan(n, 0), nullptr);
  EXPECT_EQ(g.log_scan(x, 2), nullptr);
  EXPECT_EQ(g.scan(Op::kAdd, nullptr, 0), nullptr);
  EXPECT_EQ(g.scan_place(Op::kMax, nullptr, 0), nullptr);
  EXPECT_EQ(g.log_scan(nullptr, 0), nullptr);
}

TEST(Scan, InPlace) {
  World w;
  uop::Graph& g = w.g();
  for (const bool reverse : {false, true}) {
    std::vector<float> values(90);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
    Node x = w.leaf(values, {90});
    std::vector<float> expected = values;
    if (reverse) {
      for (size_t i = values.size() - 1; i-- > 0;) expected[i] += expected[i + 1];
    } else {
      for (size_t i = 1; i < values.size(); ++i) expected[i] += expected[i - 1];
    }
    expect_values(w, w.hold(g.assign(x, g.scan(Op::kAdd, x, 0, reverse))), expected, 1);
  }
}

TEST(Scan, ThreadsChangeNoBits) {
  std::vector<float> first[2];
  for (const int threads : {1, 4}) {
    aster_ml_context_options options{};
    options.threads = threads;
    World w(options);
    uop::Graph& g = w.g();
    Node x = w.random({300, 500}), line = w.random({150000}, 3);
    int i = 0;
    Node rows = w.hold(g.scan(Op::kAdd, x, 1)), row = w.hold(g.scan(Op::kAdd, line, 0));
    for (Node y : {rows, row}) {
      const std::vector<float> got = w.compute(y);
      if (threads == 1) {
        first[i++] = got;
      } else {
        EXPECT_EQ(got, first[i++]);
      }
    }
  }
}

}  // namespace
}  // namespace aster::engine::testing
