// Movement against tinygrad's answers (oracle/movement.py), gradients against differences, and what
// is refused.
#include "aster_ml/movement.h"

#include <array>
#include <functional>
#include <numeric>

#include "world.h"

namespace aster::tensor::test {
namespace {

Shape ints(const std::string& text) {
  Shape out;
  std::stringstream in(text);
  for (std::string item; std::getline(in, item, ',');) out.push_back(std::stoll(item));
  return out;
}

// A row of oracle/movement.tsv.
struct Row {
  std::string op, dtype;
  Shape shape;
  std::map<std::string, std::string> arguments;
  std::vector<std::pair<Shape, std::string>> results;

  bool has(const std::string& key) const { return arguments.contains(key); }
  std::string text(const std::string& key) const { return arguments.at(key); }
  Shape list(const std::string& key) const { return ints(arguments.at(key)); }
  int64_t word(const std::string& key) const { return list(key).at(0); }
};

std::vector<Row> rows() {
  std::vector<Row> out;
  for (const auto& fields : oracle("movement.tsv")) {
    Row row{fields[0], fields[1], ints(fields[2]), {}, {}};
    size_t i = 3;
    for (; fields[i] != "->"; ++i) {
      const size_t at = fields[i].find('=');
      row.arguments[fields[i].substr(0, at)] = fields[i].substr(at + 1);
    }
    for (++i; i < fields.size(); i += 2) {
      row.results.emplace_back(ints(fields[i]), i + 1 < fields.size() ? fields[i + 1] : "");
    }
    out.push_back(row);
  }
  return out;
}

using Results = std::vector<T>;
Results one(T t) {
  Results out;
  out.push_back(std::move(t));
  return out;
}
Results several(std::vector<aster_ml_lazy> handles) {
  Results out;
  for (aster_ml_lazy& handle : handles) {
    T t;
    t.x = handle;
    out.push_back(std::move(t));
  }
  return out;
}

#define SAY(call) EXPECT_EQ(call, 0) << row.op << ": " << message()

Results rearranged(const Row& row, const T& x) {
  std::vector<std::string> names;
  std::stringstream in(row.text("names"));
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  std::vector<const char*> pointers;
  for (const std::string& name : names) pointers.push_back(name.c_str());
  const Shape sizes = row.list("sizes");
  T t;
  SAY(aster_ml_lazy_rearrange(t, x, row.text("formula").c_str(), names.size(), pointers.data(),
                              sizes.data()));
  return one(std::move(t));
}

Results parts(const Row& row, const T& x) {
  const bool chunks = row.op == "chunk";
  const size_t room = chunks ? static_cast<size_t>(row.word("chunks")) : 9;
  std::vector<aster_ml_lazy> out(room);
  size_t made = 0;
  if (chunks) {
    SAY(aster_ml_lazy_chunk(out.data(), &made, room, x, row.word("axis")));
  } else {
    SAY(aster_ml_lazy_split_every(out.data(), &made, room, x, row.word("size"), row.word("axis")));
  }
  for (size_t i = made; i < room; ++i) EXPECT_EQ(out[i].impl, nullptr);
  out.resize(made);
  return several(out);
}

Results grid(const World& world, const Row& row, const T& x) {
  std::vector<T> others;
  std::vector<const aster_ml_lazy*> tensors{x};
  for (int64_t size : row.list("others")) {
    std::vector<int32_t> values(static_cast<size_t>(size));
    std::iota(values.begin(), values.end(), 0);
    others.push_back(from(world, values, {size}));
  }
  for (const T& other : others) tensors.push_back(other);
  std::vector<aster_ml_lazy> out(tensors.size());
  SAY(aster_ml_lazy_meshgrid(
      out.data(), tensors.data(), tensors.size(),
      row.text("indexing") == "xy" ? ASTER_ML_INDEXING_XY : ASTER_ML_INDEXING_IJ));
  return several(out);
}

Results padded(const Row& row, const T& x) {
  const std::vector<std::string> modes{"constant", "reflect", "replicate", "circular"};
  const auto mode = std::find(modes.begin(), modes.end(), row.text("mode")) - modes.begin();
  const Shape before = row.list("before"), after = row.list("after");
  T t;
  SAY(aster_ml_lazy_pad_mode(t, x, before.size(), before.data(), after.data(),
                             static_cast<int32_t>(mode), nullptr));
  return one(std::move(t));
}

Results apply(const World& world, const Row& row, const T& x) {
  using F = std::function<int32_t(aster_ml_lazy*)>;
  if (row.op == "rearrange") return rearranged(row, x);
  if (row.op == "chunk" || row.op == "split_every") return parts(row, x);
  if (row.op == "meshgrid") return grid(world, row, x);
  if (row.op == "pad_mode") return padded(row, x);
  if (row.op == "split") {
    const Shape sizes = row.list("sizes");
    std::vector<aster_ml_lazy> out(sizes.size());
    SAY(aster_ml_lazy_split(out.data(), out.size(), x, sizes.data(), row.word("axis")));
    return several(out);
  }
  const auto list = [&](const char* key) { return row.has(key) ? row.list(key) : Shape(); };
  const Shape shifts = list("shifts"), axes = list("axes"), sizes = list("sizes"),
              repeats = list("repeats");
  const auto word = [&](const char* key) { return row.has(key) ? row.word(key) : 0; };
  const std::map<std::string, F> table = {
      {"roll",
       [&](auto* o) {
         return aster_ml_lazy_roll(o, x, shifts.size(), shifts.data(),
                                   row.has("axes") ? axes.data() : nullptr);
       }},
      {"repeat",
       [&](auto* o) { return aster_ml_lazy_repeat(o, x, repeats.size(), repeats.data()); }},
      {"repeat_interleave",
       [&](auto* o) {
         return aster_ml_lazy_repeat_interleave(o, x, word("repeats"), word("axis"));
       }},
      {"unfold",
       [&](auto* o) {
         return aster_ml_lazy_unfold(o, x, word("axis"), word("size"), word("step"));
       }},
      {"diagonal",
       [&](auto* o) {
         return aster_ml_lazy_diagonal(o, x, word("offset"), word("axis0"), word("axis1"));
       }},
      {"diag", [&](auto* o) { return aster_ml_lazy_diag(o, x); }},
      {"tril", [&](auto* o) { return aster_ml_lazy_tril(o, x, word("diagonal")); }},
      {"triu", [&](auto* o) { return aster_ml_lazy_triu(o, x, word("diagonal")); }},
      {"pad_to",
       [&](auto* o) { return aster_ml_lazy_pad_to(o, x, sizes.size(), sizes.data(), nullptr); }},
      {"shrink_to",
       [&](auto* o) { return aster_ml_lazy_shrink_to(o, x, sizes.size(), sizes.data()); }},
      {"unflatten",
       [&](auto* o) {
         return aster_ml_lazy_unflatten(o, x, word("axis"), sizes.size(), sizes.data());
       }},
      {"squeeze_all", [&](auto* o) { return aster_ml_lazy_squeeze_all(o, x); }},
      {"bitcast",
       [&](auto* o) { return aster_ml_lazy_bitcast(o, x, dtype_code(row.text("dtype"))); }},
  };
  T t;
  SAY(table.at(row.op)(t));
  return one(std::move(t));
}

T operand(const World& world, const Row& row) {
  T t;
  if (row.has("x")) {
    const std::vector<uint8_t> bytes = unhex(row.text("x"));
    EXPECT_EQ(aster_ml_lazy_from(t, world, bytes.data(), dtype_code(row.dtype), row.shape.size(),
                                 row.shape.data()),
              0);
    return t;
  }
  int64_t count = 1;
  for (int64_t dim : row.shape) count *= dim;
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), row.has("plus") ? 1 : 0);
  return from(world, values, row.shape);
}

class Movement : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Runtimes, Movement, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

TEST_P(Movement, AsTinygrad) {
  const World world(GetParam());
  std::vector<Results> made;
  std::vector<aster_ml_lazy*> all;
  const std::vector<Row> table = rows();
  for (const Row& row : table) {
    made.push_back(apply(world, row, operand(world, row)));
    ASSERT_EQ(made.back().size(), row.results.size()) << row.op;
    for (T& t : made.back()) all.push_back(t);
  }
  OK(aster_ml_lazy_realize(all.data(), all.size()));
  for (size_t i = 0; i < table.size(); ++i) {
    const Row& row = table[i];
    std::string said = row.op;
    for (const auto& [key, value] : row.arguments) said += " " + key + "=" + value;
    for (size_t k = 0; k < row.results.size(); ++k) {
      T& got = made[i][k];
      ASSERT_EQ(got.shape(), row.results[k].first) << said;
      if (row.op == "bitcast") {
        EXPECT_STREQ(aster_ml_dtype_name(got.dtype()), row.text("dtype").c_str());
        std::vector<uint8_t> bytes(unhex(row.results[k].second).size());
        OK(aster_ml_lazy_copy_out(bytes.data(), bytes.size(), got));
        EXPECT_EQ(bytes, unhex(row.results[k].second)) << row.dtype << " " << said;
        continue;
      }
      const std::vector<int32_t> values = got.read<int32_t>();
      EXPECT_EQ(Shape(values.begin(), values.end()), ints(row.results[k].second)) << said;
    }
  }
}

// The same of what is no storage, whose bits are computed.
TEST_P(Movement, BitcastOfComputedValues) {
  const World world(GetParam());
  size_t compared = 0;
  for (const Row& row : rows()) {
    if (row.op != "bitcast" || row.shape.empty()) continue;
    const T x = operand(world, row);
    const int64_t axis = -1;
    T there, back, bits;
    OK(aster_ml_lazy_flip(there, x, 1, &axis));
    OK(aster_ml_lazy_flip(back, there, 1, &axis));
    OK(aster_ml_lazy_bitcast(bits, back, dtype_code(row.text("dtype"))));
    std::vector<uint8_t> bytes(unhex(row.results[0].second).size());
    OK(aster_ml_lazy_copy_out(bytes.data(), bytes.size(), bits));
    EXPECT_EQ(bytes, unhex(row.results[0].second)) << row.dtype << " " << row.text("dtype");
    ++compared;
  }
  EXPECT_GT(compared, 5u);
}

// Storage read as another dtype stays that storage: what is written to one is seen by the other.
TEST_P(Movement, BitcastOfStorageIsAView) {
  const World world(GetParam());
  T x = from<int32_t>(world, {1, 2, 3, 4}, {2, 2});
  T bytes, odd, rest;
  OK(aster_ml_lazy_bitcast(bytes, x, ASTER_ML_DTYPE_UINT8));
  EXPECT_EQ(bytes.shape(), (Shape{2, 8}));
  OK(aster_ml_lazy_assign(x, from<int32_t>(world, {5, 6, 7, 0x01020304}, {2, 2})));
  EXPECT_EQ(bytes.read<uint8_t>(),
            (std::vector<uint8_t>{5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 4, 3, 2, 1}));
  OK(aster_ml_lazy_assign(bytes, from(world, std::vector<uint8_t>(16, 255), {2, 8})));
  EXPECT_EQ(x.read<int32_t>(), (std::vector<int32_t>{-1, -1, -1, -1}));
  // Bytes that are not where a wider element may be are copied.
  const T line = from<uint8_t>(world, {9, 1, 0, 2, 0}, {5});
  const int64_t one = 1, five = 5;
  OK(aster_ml_lazy_shrink(odd, line, 1, &one, &five));
  OK(aster_ml_lazy_bitcast(rest, odd, ASTER_ML_DTYPE_UINT16));
  EXPECT_EQ(rest.read<uint16_t>(), (std::vector<uint16_t>{1, 2}));
}

// What an operation moves, its gradient moves back: of sum(y * w) the gradient at element e is the
// sum of w over the places where y holds e, which the operation on 0, 1, 2, ... tells.
TEST_P(Movement, Gradients) {
  const World world(GetParam());
  std::vector<T> gradients;
  std::vector<std::vector<double>> expected;
  std::vector<std::string> names;
  for (const Row& row : rows()) {
    if (row.results.size() != 1 || row.op == "bitcast" || row.has("plus")) continue;
    if (row.op == "meshgrid") continue;
    int64_t count = 1;
    for (int64_t dim : row.shape) count *= dim;
    const bool filled = row.op == "pad_to" || (row.has("mode") && row.text("mode") == "constant");
    if (filled || count == 0) continue;
    std::vector<double> values(static_cast<size_t>(count), 0.5);
    const T x = from(world, values, row.shape);
    const Results y = apply(world, row, x);
    const Shape places = ints(row.results[0].second);
    if (places.empty()) continue;
    std::vector<double> weights(places.size()), want(values.size(), 0);
    for (size_t i = 0; i < places.size(); ++i) {
      weights[i] = static_cast<double>(i % 7) - 2.5;
      want[static_cast<size_t>(places[i])] += weights[i];
    }
    const T w = from(world, weights, row.results[0].first);
    T product, loss, g;
    OK(aster_ml_lazy_mul(product, y[0], w));
    OK(aster_ml_lazy_sum(loss, product, 0, nullptr, 0));
    const aster_ml_lazy* const targets[] = {x};
    OK(aster_ml_gradient(g, loss, targets, 1, nullptr));
    gradients.push_back(std::move(g));
    expected.push_back(want);
    names.push_back(row.op);
  }
  std::vector<aster_ml_lazy*> all;
  for (T& g : gradients) all.push_back(g);
  OK(aster_ml_lazy_realize(all.data(), all.size()));
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i].read<double>(), expected[i]) << names[i];
  }
  EXPECT_GT(gradients.size(), 50u);
}

TEST_P(Movement, DTypesAndConstants) {
  const World world(GetParam());
  const T bits = from<uint8_t>(world, {1, 0, 1, 1}, {2, 2}, ASTER_ML_DTYPE_BOOL);
  T lower, rolled, weak, half, joined, truth, same;
  OK(aster_ml_lazy_tril(lower, bits, 0));
  EXPECT_EQ(lower.dtype(), ASTER_ML_DTYPE_BOOL);
  EXPECT_EQ(lower.read<uint8_t>(), (std::vector<uint8_t>{1, 0, 1, 1}));
  const int64_t shift = 1;
  OK(aster_ml_lazy_roll(rolled, bits, 1, &shift, &shift));
  EXPECT_EQ(rolled.read<uint8_t>(), (std::vector<uint8_t>{0, 1, 1, 1}));
  const Shape times{2, 2};
  const T two = number(world, 2);
  OK(aster_ml_lazy_repeat(weak, two, 2, times.data()));
  EXPECT_EQ(weak.dtype(), two.dtype());  // still a number that yields
  const T narrow = tensor_of(world, {1, NAN, -3, 4}, ASTER_ML_DTYPE_FLOAT16, {2, 2});
  OK(aster_ml_lazy_triu(half, narrow, 0));
  EXPECT_EQ(half.read<uint16_t>(), (std::vector<uint16_t>{0x3C00, 0x7E00, 0, 0x4400}));
  // A NaN is left out where the triangle leaves it out.
  OK(aster_ml_lazy_tril(same, narrow, 0));
  EXPECT_EQ(same.read<uint16_t>(), (std::vector<uint16_t>{0x3C00, 0, 0xC200, 0x4400}));
  OK(aster_ml_lazy_bitcast(joined, bits, ASTER_ML_DTYPE_UINT16));
  EXPECT_EQ(joined.read<uint16_t>(), (std::vector<uint16_t>{1, 0x0101}));
  OK(aster_ml_lazy_bitcast(truth, joined, ASTER_ML_DTYPE_BOOL));
  EXPECT_EQ(truth.read<uint8_t>(), (std::vector<uint8_t>{1, 0, 1, 1}));
}

TEST_P(Movement, EmptyTensors) {
  const World world(GetParam());
  const T none = from<float>(world, {}, {0, 3});
  const Shape zero{0, 0}, three{3, 3};
  T lower, diagonal, empty, repeated, thin, diag, windows, bits, wide, gone;
  OK(aster_ml_lazy_tril(lower, none, 0));
  EXPECT_EQ(lower.shape(), (Shape{0, 3}));
  OK(aster_ml_lazy_diagonal(diagonal, none, 1, 0, 1));
  EXPECT_EQ(diagonal.shape(), (Shape{0}));
  OK(aster_ml_lazy_repeat(repeated, none, 2, three.data()));
  EXPECT_EQ(repeated.shape(), (Shape{0, 9}));
  const T line = from<float>(world, {1, 2, 3}, {3});
  OK(aster_ml_lazy_repeat_interleave(thin, line, 0, 0));
  EXPECT_EQ(thin.shape(), (Shape{0}));
  EXPECT_TRUE(thin.floats().empty());
  OK(aster_ml_lazy_diag(diag, thin));
  EXPECT_EQ(diag.shape(), zero);
  OK(aster_ml_lazy_unfold(windows, line, 0, 0, 2));
  EXPECT_EQ(windows.shape(), (Shape{2, 0}));
  OK(aster_ml_lazy_bitcast(bits, none, ASTER_ML_DTYPE_UINT8));
  EXPECT_EQ(bits.shape(), (Shape{0, 12}));
  OK(aster_ml_lazy_bitcast(wide, thin, ASTER_ML_DTYPE_FLOAT64));
  EXPECT_EQ(wide.shape(), (Shape{0}));
  OK(aster_ml_lazy_diagonal(gone, from<float>(world, {1, 2}, {1, 2}), INT64_MIN, 0, 1));
  EXPECT_EQ(gone.shape(), (Shape{0}));
  OK(aster_ml_lazy_rearrange(empty, none, "a b -> (a b)", 0, nullptr, nullptr));
  EXPECT_EQ(empty.shape(), (Shape{0}));
}

}  // namespace
}  // namespace aster::tensor::test
