// Scatter, Argsort and Sort against loops written down once more over doubles and words,
// whatever the tasks' order and grouping.
#include "runtime/cpu/native.h"

#include "runtime/cpu/native_sort.h"
#include "runtime/cpu/native_types.h"

#include "native_support.h"

namespace aster::runtime::cpu::native {
namespace {

using namespace runtime::testing;  // NOLINT: elements and places

// ---- Scatter ----

struct Case {
  Graph* graph;
  Op op;  // kSink writes
  DType dtype;
  Places places;
  std::vector<DType> index_types;
};

void check_scatter(const Case& c, Random& random, int mode) {
  Graph& g = *c.graph;
  const int64_t count = product(c.places.at), target_count = product(c.places.target);
  Bytes target = values(c.dtype, target_count, random, draw(random, 0, 1) != 0);
  Bytes value = values(c.dtype, count, random, draw(random, 0, 1) != 0);
  std::vector<Bytes> indices;
  std::vector<Node> nodes;
  for (size_t k = 0; k < c.index_types.size(); ++k) {
    int64_t bound = 0;
    for (size_t i = 0; i < c.places.target.size(); ++i) {
      if (c.places.coordinates[i] == -static_cast<int64_t>(k) - 1) bound = c.places.target[i];
    }
    indices.push_back(make_indices(c.index_types[k], count, bound, random));
    nodes.push_back(g.param(static_cast<int64_t>(10 + k), c.index_types[k], c.places.at));
  }
  Node target_node = g.param(0, c.dtype, c.places.target);
  Node value_node = g.param(1, c.dtype, c.places.at);
  std::vector<void*> operands = {target.data(), value.data()};
  for (Bytes& index : indices) operands.push_back(index.data());
  const auto constant = [&](Bytes& data, const Shape& shape, size_t operand) {
    const Value v = load(c.dtype, data, 0);
    for (int64_t i = 0; i < product(shape); ++i) store(c.dtype, data, i, v);
    operands[operand] = nullptr;
    return dtype::is_float(c.dtype) ? g.constant(c.dtype, v.real, shape)
                                    : g.constant_int(c.dtype, v.word, shape);
  };
  if (mode == 1) target_node = constant(target, c.places.target, 0);
  if (mode == 2) value_node = constant(value, c.places.at, 1);
  if (mode == 3 && !indices.empty()) {
    const Value v = load(c.index_types[0], indices[0], 0);
    for (int64_t i = 0; i < count; ++i) store(c.index_types[0], indices[0], i, v);
    nodes[0] = g.constant_int(c.index_types[0], v.word, c.places.at);
    operands[2] = nullptr;
  }
  const Node node = g.scatter(c.op, target_node, value_node, nodes, c.places.coordinates);
  ASSERT_NE(node, nullptr) << last_error();
  ASSERT_EQ(node->op, Op::kScatter);
  Bytes expected = target;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = position(c.places, c.index_types, indices, i);
    if (at < 0) continue;
    const Value v = load(c.dtype, value, i);
    const bool write = c.op == Op::kSink;
    store(c.dtype, expected, at,
          write ? v : combine(c.op, c.dtype, load(c.dtype, expected, at), v));
  }
  if (count < 10000) expect_same(node, interpret(g, node, operands), expected);
  Bytes result(target.size());
  if (mode == 4) {  // in place
    result = target;
    operands[0] = result.data();
  }
  operands.push_back(result.data());
  int64_t tasks = 0;
  run(node, operands, random, &tasks);
  expect_same(node, result, expected);
  EXPECT_GE(tasks, count > 10000 ? 2 : 1);
}

TEST(NativeScatter, EveryOperationAndDType) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(1);
  int mode = 0;
  for (const DType d : kAll) {
    std::vector<Op> ops = {Op::kSink};
    for (Op op : kReductions) {
      if (reduces(op, d)) ops.push_back(op);
    }
    for (const Op op : ops) {
      for (const Places& places : kPlaces) {
        std::vector<DType> types;
        for (int64_t c : places.coordinates) {
          if (c < 0) types.push_back(kIndexTypes[draw(random, 0, 7)]);
        }
        SCOPED_TRACE(std::string(uop::info(op).name) + " " + dtype::name(d) + " to " +
                     uop::brief_shape(places.target).text + " mode " + std::to_string(mode % 5));
        check_scatter({&graph, op, d, places, types}, random, mode++ % 5);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(NativeScatter, EveryIndexDType) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(2);
  for (const DType type : kIndexTypes) {
    SCOPED_TRACE(dtype::name(type));
    for (const Op op : {Op::kSink, Op::kAdd}) {
      check_scatter({&graph, op, DType::kFloat32, {{50, 3}, {400}, {-1, -2}}, {type, type}}, random,
                    0);
      check_scatter({&graph, op, DType::kFloat32, {{50}, {400}, {-1}}, {type}}, random, 0);
    }
  }
}

TEST(NativeScatter, ManyTasks) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(3);
  const Places large[] = {
      {{100, 64}, {600, 64}, {-1, 1}},           // split along the last axis
      {{30, 20, 50}, {20, 30, 50}, {0, -1, 2}},  // along the first, which the value does not fill
      {{4, 100, 30}, {10, 100, 30}, {-1, 1, 2}},
      {{3, 20000}, {3, 15000}, {0, -1}},
  };
  for (const Places& places : large) {
    for (const int mode : {0, 4}) {
      for (const Op op : {Op::kSink, Op::kAdd}) {
        check_scatter({&graph, op, DType::kFloat64, places, {DType::kInt32}}, random, mode);
      }
    }
  }
  const Places ranges = {{1 << 22}, {1 << 22}, {-1}};
  check_scatter({&graph, Op::kAdd, DType::kUInt8, ranges, {DType::kInt32}}, random, 0);
}

// Elements of a shape that are read from memory through a random view: its words, and what is seen.
struct Viewed {
  Bytes stored;
  std::vector<Value> seen;
};
template <typename Make>
Viewed view(std::vector<int64_t>* words, DType d, const Shape& shape, Read how, Random& random,
            Make make) {
  std::vector<int64_t> strides(shape.size());
  const int64_t first = draw(random, 0, 5);
  int64_t span = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = draw(random, 0, 2) == 0 ? 0 : span * draw(random, 1, 2);
    span = std::max(span, strides[i] * shape[i]);
  }
  words->push_back(first);
  words->insert(words->end(), strides.begin(), strides.end());
  words->push_back(how);
  Viewed out{make(first + span), {}};
  for (int64_t i = 0; i < product(shape); ++i) {
    int64_t rest = i, at = first;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      at += rest % shape[axis] * strides[axis];
    }
    out.seen.push_back(load(d, out.stored, at));
  }
  return out;
}

void check_views(Graph& g, Op op, const Places& places, Random& random) {
  constexpr DType kType = DType::kInt32;
  const int64_t count = product(places.at);
  Bytes target = values(kType, product(places.target), random, false), expected = target;
  std::vector<int64_t> words(places.target.size() + 2);  // of the target: not looked at
  Viewed value = view(&words, kType, places.at, kPlain, random,
                      [&](int64_t n) { return values(kType, n, random, false); });
  std::vector<void*> operands = {target.data(), value.stored.data()};
  std::vector<Viewed> indices(places.target.size());
  std::vector<Bytes> seen;
  std::vector<Node> nodes;
  for (size_t axis = 0; axis < places.target.size(); ++axis) {
    // Index k is of the axis that has -k - 1.
    const auto at = std::ranges::find(places.coordinates, -static_cast<int64_t>(nodes.size()) - 1);
    if (at == places.coordinates.end()) break;
    const int64_t bound = places.target[static_cast<size_t>(at - places.coordinates.begin())];
    const DType d = kIndexTypes[draw(random, 0, 7)];
    const Read how = dtype::is_unsigned(d) ? kPlain : kFromEnd;
    indices[axis] = view(&words, d, places.at, how, random, [&](int64_t n) {
      Bytes made = make_indices(d, n, bound, random);
      for (int64_t i = 0; how == kFromEnd && i < n; i += draw(random, 1, 2)) {
        Value v;
        v.word = draw(random, -bound - 1, -1);
        store(d, made, i, v);
      }
      return made;
    });
    seen.emplace_back(static_cast<size_t>(count) * 8);
    for (int64_t i = 0; i < count; ++i) {
      Value v = indices[axis].seen[static_cast<size_t>(i)];
      if (how == kFromEnd && v.word < 0) v.word += bound;
      store(DType::kInt64, seen.back(), i, v);
    }
    operands.push_back(indices[axis].stored.data());
    nodes.push_back(g.param(static_cast<int64_t>(10 + axis), d, places.at));
  }
  const Node node = g.scatter(op, g.param(0, kType, places.target), g.param(1, kType, places.at),
                              nodes, places.coordinates);
  ASSERT_NE(node, nullptr) << last_error();
  const std::vector<DType> types(seen.size(), DType::kInt64);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = position(places, types, seen, i);
    if (at < 0) continue;
    const Value v = value.seen[static_cast<size_t>(i)];
    store(kType, expected, at,
          op == Op::kSink ? v : combine(op, kType, load(kType, expected, at), v));
  }
  Bytes result(target.size());
  operands.push_back(result.data());
  run(node, operands, random, nullptr, words);
  expect_same(node, result, expected);
}

TEST(NativeScatter, Views) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(8);
  const Places large[] = {
      {{100, 64}, {600, 64}, {-1, 1}},
      {{90, 700}, {300, 700}, {-1, 1}},  // split along the rows' axis
      {{30, 20, 50}, {20, 30, 50}, {0, -1, 2}},
      {{50, 30}, {20, 30, 5}, {-1, -2}},
      {{3, 40000}, {3, 30000}, {0, -1}},
  };
  for (int round = 0; round < 20 / kSlower; ++round) {
    for (const Op op : {Op::kSink, Op::kAdd, Op::kMax}) {
      for (const Places& places : kPlaces) {
        SCOPED_TRACE(uop::brief_shape(places.target).text);
        check_views(graph, op, places, random);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  for (const Places& places : large) {
    for (const Op op : {Op::kSink, Op::kAdd, Op::kMul}) {
      for (int round = 0; round < (kSlower == 1 ? 4 : 1); ++round)
        check_views(graph, op, places, random);
    }
  }
}

// Indices that are known add to the distances: rows 2 to 5 of a matrix, every other column.
TEST(NativeScatter, LinearIndices) {
  Heap heap(nullptr);
  Graph g(heap);
  Random random(9);
  const Shape at{3, 4};
  const Node target = g.constant_int(DType::kInt16, 7, Shape{6, 9});
  const Node index = g.param(2, DType::kInt32, at);
  const Node node = g.scatter(Op::kSink, target, g.param(1, DType::kInt16, at),
                              std::array{index, g.param(3, DType::kInt64, at)}, Shape{-1, -2});
  std::vector<int16_t> value(12), got(54), expected(54, 7);
  std::iota(value.begin(), value.end(), int16_t{100});
  for (size_t i = 0; i < 12; ++i) expected[(2 + i / 4) * 9 + 1 + 2 * (i % 4)] = value[i];
  run(node, {nullptr, value.data(), nullptr, nullptr, got.data()}, random, nullptr,
      {0, 0, 0, kLinear, 0, 4, 1, kPlain, 2, 1, 0, kLinear, 1, 0, 2, kLinear});
  EXPECT_EQ(got, expected);
}

// ---- Argsort ----

bool before(DType d, bool descending, Value a, Value b) {
  if (descending) std::swap(a, b);
  if (dtype::is_float(d)) return !std::isnan(a.real) && (std::isnan(b.real) || a.real < b.real);
  if (d == DType::kUInt64) return static_cast<uint64_t>(a.word) < static_cast<uint64_t>(b.word);
  return a.word < b.word;
}

void check_argsort(Graph& graph, DType d, const Shape& shape, int64_t axis, int64_t count,
                   bool descending, Bytes x, Random& random) {
  const Node node = graph.argsort(graph.param(0, d, shape), axis, descending, count);
  ASSERT_NE(node, nullptr) << last_error();
  SCOPED_TRACE(std::string(dtype::name(d)) + " " + uop::brief_shape(shape).text + " the first " +
               std::to_string(count) + (descending ? " descending" : ""));
  const size_t at = static_cast<size_t>(axis);
  const int64_t size = shape[at];
  const int64_t inner = product(Shape(shape.begin() + axis + 1, shape.end()));
  const int64_t outer = product(Shape(shape.begin(), shape.begin() + axis));
  Bytes expected(static_cast<size_t>(node->count()) * 4), result(expected.size());
  for (int64_t r = 0; r < outer * inner; ++r) {
    const int64_t first = r / inner * size * inner + r % inner;
    std::vector<Value> row;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < size; ++i) {
      row.push_back(load(d, x, first + i * inner));
      order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return before(d, descending, row[static_cast<size_t>(a)], row[static_cast<size_t>(b)]);
    });
    for (int64_t i = 0; i < count; ++i) {
      Value v;
      v.word = order[static_cast<size_t>(i)];
      store(DType::kInt32, expected, (r / inner * count + i) * inner + r % inner, v);
    }
  }
  expect_same(node, interpret(graph, node, {x.data()}), expected);
  for (const CpuFeatures& features : {detect_features(), narrowed(detect_features(), 16)}) {
    Heap heap(nullptr);
    Plan plan(heap);
    ASSERT_TRUE(prepare_argsort(&plan, node, features).ok());
    run(plan, node, {x.data(), result.data()}, random);
    expect_same(node, result, expected);
  }
}

TEST(NativeArgsort, EveryDType) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(5);
  const struct {
    Shape shape;
    int64_t axis, count;
  } cases[] = {{{9}, 0, 9},       {{3, 64}, 1, 64},  {{65, 3}, 0, 20},   {{2, 500, 3}, 1, 500},
               {{3000}, 0, 3000}, {{2, 5000}, 1, 7}, {{5000, 2}, 0, 33}, {{6000}, 0, 1}};
  for (const DType d : kAll) {
    for (const auto& c : cases) {
      for (const bool few : {false, true}) {
        Bytes x = values(d, product(c.shape), random, few);
        check_argsort(graph, d, c.shape, c.axis, c.count, draw(random, 0, 1) != 0, x, random);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Rows in order, in reverse, all equal, and long words that differ in few bits.
TEST(NativeArgsort, Patterns) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(6);
  using Pattern = std::function<int64_t(int64_t)>;
  const Pattern patterns[] = {
      [](int64_t i) { return i; },
      [](int64_t i) { return -i; },
      [](int64_t) { return int64_t{7}; },
      [&](int64_t) { return draw(random, 0, 3) << 40; },
      [&](int64_t i) { return (draw(random, 0, 2) << 50) + i % 97; },
      [&](int64_t) { return (draw(random, 0, 2) << 33) - draw(random, 0, 1 << 20); },
      [&](int64_t) { return draw(random, INT64_MIN, INT64_MAX); },
      [](int64_t i) { return i % 2 == 0 ? INT64_MIN : INT64_MAX; },
  };
  for (const Pattern& pattern : patterns) {
    for (const DType d : {DType::kInt64, DType::kUInt64, DType::kFloat64, DType::kInt32}) {
      for (const int64_t count : {10000, 2000, 12, 1}) {
        Bytes x(size_t{10000} * bytes_of(d));
        for (int64_t i = 0; i < 10000; ++i) {
          Value v;
          v.word = pattern(i);
          v.real = static_cast<double>(v.word);
          store(d, x, i, v);
        }
        check_argsort(graph, d, {10000}, 0, count, count % 3 == 0, x, random);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Rows long enough to be dealt out: bins of all sizes, and keys that differ below and above.
TEST(NativeArgsort, LongRows) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(7);
  constexpr int64_t kSize = (1 << 17) + 99;
  const auto check = [&](DType d, int64_t count, bool descending, auto pattern) {
    Bytes x(static_cast<size_t>(kSize) * bytes_of(d));
    for (int64_t i = 0; i < kSize; ++i) {
      Value v;
      v.word = pattern(i);
      v.real = static_cast<double>(v.word) / 1024;
      store(d, x, i, v);
    }
    check_argsort(graph, d, {kSize}, 0, count, descending, x, random);
  };
  const auto any = [&](int64_t) { return draw(random, INT64_MIN, INT64_MAX); };
  const auto near = [&](int64_t) {  // most in few bins, some far away
    return draw(random, 0, 1 << 9) * draw(random, 0, 1 << 9) +
           (draw(random, 0, 99) == 0) * 1000000000;
  };
  const auto runs = [&](int64_t i) { return (draw(random, 0, 9) << 50) + i % 1000; };
  check(DType::kInt32, kSize, false, any);
  check(DType::kFloat32, kSize, true, near);
  check(DType::kInt64, 50000, false, runs);
  check(DType::kFloat64, kSize, true, any);
  check(DType::kUInt8, kSize, false, any);
  check(DType::kInt32, kSize, false, [](int64_t i) { return i; });
}

// ---- Sort ----

// Bit for bit what a stable order gives, zeros and NaN included; by vectors and by radix.
void check_sort(Graph& graph, DType d, const Shape& shape, int64_t axis, bool descending, Bytes x,
                Random& random) {
  const Node node = graph.sort(graph.param(0, d, shape), axis, descending);
  ASSERT_NE(node, nullptr) << last_error();
  SCOPED_TRACE(std::string(dtype::name(d)) + " " + uop::brief_shape(shape).text +
               (descending ? " descending" : ""));
  const size_t at = static_cast<size_t>(axis), bytes = bytes_of(d);
  const int64_t size = shape[at];
  const int64_t inner = product(Shape(shape.begin() + axis + 1, shape.end()));
  const int64_t rows = product(shape) / size;
  Bytes expected(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = r / inner * size * inner + r % inner;
    std::vector<std::pair<Value, int64_t>> row;
    for (int64_t i = 0; i < size; ++i) {
      row.push_back({load(d, x, first + i * inner), first + i * inner});
    }
    std::stable_sort(row.begin(), row.end(), [&](const auto& a, const auto& b) {
      return before(d, descending, a.first, b.first);
    });
    for (int64_t i = 0; i < size; ++i) {
      std::memcpy(expected.data() + static_cast<size_t>(first + i * inner) * bytes,
                  x.data() + static_cast<size_t>(row[static_cast<size_t>(i)].second) * bytes,
                  bytes);
    }
  }
  EXPECT_EQ(interpret(graph, node, {x.data()}), expected);
  CpuFeatures older = detect_features();
  older.avx512_vbmi2 = false;
  for (const CpuFeatures& features : {detect_features(), older, narrowed(older, 16)}) {
    Heap heap(nullptr);
    Plan plan(heap);
    ASSERT_TRUE(prepare_sort(&plan, node, features).ok());
    Bytes result(x.size());
    run(plan, node, {x.data(), result.data()}, random);
    EXPECT_EQ(result, expected) << features.vector_bytes << features.avx512_vbmi2;
  }
}

TEST(NativeSort, EveryDType) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(10);
  const struct {
    Shape shape;
    int64_t axis;
  } cases[] = {{{9}, 0},          {{3, 64}, 1},  {{65, 3}, 0},  {{2, 500, 3}, 1},
               {{40, 2, 20}, 0},  {{3000}, 0},   {{70000}, 0},  {{30, 385}, 1},
               {{300, 5, 33}, 0}, {{5, 257}, 1}, {{4, 1025}, 1}};
  int64_t turn = 0;
  for (const DType d : kAll) {
    if (dtype::is_fp8(d)) {
      EXPECT_EQ(graph.sort(graph.param(0, d, Shape{4}), 0, false), nullptr);
      continue;
    }
    for (const auto& c : cases) {
      if (turn++ % kSlower != 0) continue;
      for (const bool few : {false, true}) {
        Bytes x = values(d, product(c.shape), random, few);
        check_sort(graph, d, c.shape, c.axis, draw(random, 0, 1) != 0, x, random);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Every length that the networks take, and patterns that quicksorts are slow or wrong on.
TEST(NativeSort, Patterns) {
  Heap heap(nullptr);
  Graph graph(heap);
  Random random(11);
  using Pattern = std::function<int64_t(int64_t)>;
  const Pattern patterns[] = {
      [&](int64_t) { return draw(random, INT64_MIN, INT64_MAX); },
      [](int64_t i) { return i; },
      [](int64_t i) { return -i; },
      [](int64_t) { return int64_t{7}; },
      [&](int64_t) { return draw(random, 0, 2); },
      [&](int64_t) { return -draw(random, 0, 1); },  // the largest key, many times
      [](int64_t i) { return i % 2 == 0 ? INT64_MIN : INT64_MAX; },
      [](int64_t i) { return i % 16 == 8 ? i : 1000000 + i; },  // bad samples
      [](int64_t i) { return std::min(i, 5000 - i); },
  };
  const auto check = [&](const Pattern& pattern, DType d, int64_t size) {
    Bytes x(static_cast<size_t>(size) * bytes_of(d));
    for (int64_t i = 0; i < size; ++i) {
      Value v;
      v.word = pattern(i);
      v.real = static_cast<double>(v.word);
      store(d, x, i, v);
    }
    check_sort(graph, d, {size}, 0, size % 2 == 0, x, random);
  };
  const DType types[] = {DType::kInt8,    DType::kBool,     DType::kInt16,   DType::kUInt16,
                         DType::kFloat16, DType::kBFloat16, DType::kInt32,   DType::kUInt32,
                         DType::kInt64,   DType::kUInt64,   DType::kFloat32, DType::kFloat64};
  for (const DType d : types) {
    for (int64_t size = 2; size < 1100; size += draw(random, 1, 9 * kSlower)) {
      check(patterns[0], d, size);
    }
    for (const Pattern& pattern : patterns) {
      for (const int64_t size : {int64_t{40}, int64_t{1000}, int64_t{10001}, 140000 / kSlower})
        check(pattern, d, size);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// ---- Narrow floats ----

// Every code, and the numbers around every midpoint of two codes.
template <DType d>
void check_codes() {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const uint16_t stored = static_cast<uint16_t>(code);
    const float value = Element<d>::load(stored);
    const double expected = dtype::decode(d, code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << code;
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    for (const uint32_t step : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
      const float near = std::bit_cast<float>(bits + step);
      ASSERT_EQ(Element<d>::store(near), dtype::encode(d, static_cast<double>(near))) << near;
    }
  }
}
TEST(NativeTypes, EncodeAsTheLibraryDoes) {
  check_codes<DType::kFloat16>();
  check_codes<DType::kBFloat16>();
}

// ---- Failures ----

// Rows of one operation: those that accept a node, by their cost; else the first.
TEST(Native, TheCheapestRowThatAcceptsIsTaken) {
  Heap heap(nullptr);
  Graph graph(heap);
  const auto costs = [](double (*cost)(Node), bool (*accepts)(Node), Op op = Op::kSort) {
    return Implementation{op, "row", accepts, cost, nullptr, nullptr, nullptr};
  };
  const auto few = [](Node node) { return node->count() < 100; };
  const auto never = [](Node) { return false; };
  const auto each = [](Node node) { return static_cast<double>(node->count()); };
  const auto fixed = [](Node) { return 50.0; };
  const auto dear = [](Node) { return 500.0; };
  const Implementation rows[] = {costs(dear, nullptr),
                                 costs(each, few),
                                 costs(fixed, nullptr),
                                 costs(nullptr, never),
                                 costs(nullptr, nullptr, Op::kScan),
                                 costs(fixed, nullptr)};
  const auto taken = [&](int64_t n) {
    return cheapest(rows, graph.sort(graph.param(0, DType::kFloat32, Shape{n}), 0, false)) - rows;
  };
  EXPECT_EQ(taken(10), 1);
  EXPECT_EQ(taken(70), 2) << "of equal ones the first";
  EXPECT_EQ(taken(1000), 2);
  const Implementation refusing[] = {costs(dear, never), costs(each, never)};
  const Node node = graph.sort(graph.param(0, DType::kFloat32, Shape{5}), 0, false);
  EXPECT_EQ(cheapest(refusing, node), &refusing[0]);
  EXPECT_EQ(cheapest({rows + 4, 1}, node), nullptr);
  // Of the library's, by what the CPU has.
  const Node longer = graph.sort(graph.param(0, DType::kFloat32, Shape{4000}), 0, false);
  EXPECT_EQ(find(longer)->prepare == prepare_wide_sort, sorts_wide(detect_features(), 4, 4000));
}

TEST(Native, EveryFailedAllocationIsAStatus) {
  Heap heap(nullptr);
  Graph g(heap);
  const Node x = g.param(0, DType::kFloat32, Shape{100, 30});
  const Node index = g.param(1, DType::kInt32, Shape{100, 30});
  const Node nodes[] = {g.scatter(Op::kAdd, x, x, std::array{index}, Shape{-1, 1}),
                        g.argsort(x, 1, false, 30), g.sort(x, 0, true)};
  for (const Node node : nodes) {
    int64_t allowed = 0;
    for (;; ++allowed) {
      FailingHeap failing(allowed);
      Plan plan(failing);
      const Status status = prepare(&plan, node, {});
      if (status.ok()) break;
      EXPECT_EQ(status, code(Code::kMEMORY));
      ASSERT_LT(allowed, 100);
    }
    EXPECT_GE(allowed, 1);
  }
  EXPECT_EQ(find(x), nullptr);
}

}  // namespace
}  // namespace aster::runtime::cpu::native
