// Random state across captures and seeds; initialisers and sampling against tinygrad's answers
// (oracle/make_linalg.py); dropout and permutations by their laws.
#include <algorithm>
#include <numeric>
#include <set>

#include "aster_ml/engine.h"
#include "aster_ml/random.h"
#include "linalg_world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

class Random : public ::testing::TestWithParam<bool> {
 protected:
  World world{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Random, ::testing::Values(true, false), [](const auto& runtime) {
  return runtime.param ? "interpreted" : "compiled";
});

constexpr int64_t kCount = 3;

T draw(const World& world) {
  T t;
  EXPECT_EQ(aster_ml_lazy_rand(t, world, 0, 1, &kCount), 0) << message();
  return t;
}
void realize(T& t) {
  aster_ml_lazy* const handles[] = {t};
  EXPECT_EQ(aster_ml_lazy_realize(handles, 1), 0) << message();
}
// The first draws after a seed, one after another.
std::vector<Floats> expected(const World& world, size_t count, uint64_t seed = 7) {
  EXPECT_EQ(aster_ml_lazy_manual_seed(world, seed), 0);
  std::vector<Floats> all;
  for (size_t i = 0; i < count; ++i) all.push_back(draw(world).floats());
  EXPECT_EQ(aster_ml_lazy_manual_seed(world, seed), 0);
  return all;
}
std::vector<Floats> run(const aster_ml_program& program, size_t outputs) {
  std::vector<aster_ml_tensor> out(outputs);
  EXPECT_EQ(aster_ml_program_run(&program, nullptr, nullptr, 0, out.data(), outputs), 0)
      << message();
  std::vector<Floats> values;
  for (aster_ml_tensor& t : out) {
    const float* data = static_cast<const float*>(t.storage.data);
    values.emplace_back(data + t.byte_offset / 4, data + t.byte_offset / 4 + kCount);
    aster_ml_tensor_free(&t);
  }
  return values;
}

// Each draw has the numbers of its turn, however late it is realised, in every replay too.
TEST_P(Random, DrawsInACaptureAreFixedAtTheDraw) {
  const auto want = expected(world, 9);
  aster_ml_program program{};
  {
    OK(aster_ml_engine_capture_begin(world, nullptr, 0));
    T first = draw(world), second = draw(world);
    realize(second);
    T third = draw(world);
    realize(third);
    aster_ml_lazy* const outputs[] = {first, second, third};
    OK(aster_ml_engine_capture_end(&program, world, outputs, 3));
    EXPECT_EQ(first.floats(), want[0]);
    EXPECT_EQ(second.floats(), want[1]);
    EXPECT_EQ(third.floats(), want[2]);
  }
  for (size_t replay = 1; replay < 3; ++replay) {
    const auto got = run(program, 3);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i], want[3 * replay + i]) << replay << " " << i;
  }
  OK(aster_ml_program_free(&program));
}

TEST_P(Random, DrawsLeftOverByACaptureKeepTheirNumbers) {
  const auto want = expected(world, 6);
  aster_ml_program program{};
  T left, late;
  {
    OK(aster_ml_engine_capture_begin(world, nullptr, 0));
    T first = draw(world);
    left = draw(world);
    aster_ml_lazy* const outputs[] = {first};
    OK(aster_ml_engine_capture_end(&program, world, outputs, 1));
    EXPECT_EQ(first.floats(), want[0]);
  }
  late = draw(world);
  EXPECT_EQ(run(program, 1)[0], want[3]);
  EXPECT_EQ(left.floats(), want[1]);
  EXPECT_EQ(late.floats(), want[2]);
  EXPECT_EQ(draw(world).floats(), want[5]);
  OK(aster_ml_program_free(&program));
}

TEST_P(Random, DrawsOfACancelledCaptureHappened) {
  const auto want = expected(world, 3);
  OK(aster_ml_engine_capture_begin(world, nullptr, 0));
  T first = draw(world), second = draw(world);
  realize(second);
  OK(aster_ml_engine_capture_cancel(world));
  EXPECT_EQ(draw(world).floats(), want[2]);
  EXPECT_EQ(first.floats(), want[0]);
  EXPECT_EQ(second.floats(), want[1]);
}

TEST_P(Random, ReplaysFollowANewSeed) {
  const auto want = expected(world, 2, 99), before = expected(world, 2, 7);
  aster_ml_program program{};
  {
    OK(aster_ml_engine_capture_begin(world, nullptr, 0));
    T t = draw(world);
    aster_ml_lazy* const outputs[] = {t};
    OK(aster_ml_engine_capture_end(&program, world, outputs, 1));
  }
  EXPECT_EQ(run(program, 1)[0], before[1]);
  OK(aster_ml_lazy_manual_seed(world, 99));
  EXPECT_EQ(run(program, 1)[0], want[0]);
  EXPECT_EQ(draw(world).floats(), want[1]);
  OK(aster_ml_program_free(&program));
}

// ---- Against tinygrad ----

T multinomial(const World& world, bool two, const char* dtype, const std::string& arguments) {
  std::vector<double> weights = {1, 2, 3, 4, 0, 5};
  if (two) weights.insert(weights.end(), {5, 0, 4, 3, 2, 1});
  const T x = tensor_of(world, weights, dtype_code(dtype), two ? Shape{2, 6} : Shape{6});
  const auto a = split(arguments, ',');
  T t;
  EXPECT_EQ(aster_ml_lazy_multinomial(t, x, std::stoll(a[0]), a[1] == "1"), 0) << message();
  return t;
}

T sample(const World& world, const std::string& name, const std::string& arguments,
         const std::string& dtype) {
  T t;
  if (name == "multinomial") return multinomial(world, false, "float32", arguments);
  if (name == "multinomial2") return multinomial(world, true, "float32", arguments);
  if (name == "multinomial_int") return multinomial(world, false, "int32", arguments);
  if (name == "dropout") {
    const T x = matrix(world, {3, 11}, 2);
    EXPECT_EQ(aster_ml_lazy_dropout(t, x, std::stod(arguments), 1), 0) << message();
    return t;
  }
  const int32_t code = dtype_code(dtype);
  const Shape shape = shape_of(arguments);
  const size_t n = shape.size();
  int32_t status = -1;
  if (name == "randperm") {
    status = aster_ml_lazy_randperm(t, world, shape[0], code);
  } else if (name == "scaled_uniform") {
    status = aster_ml_lazy_scaled_uniform(t, world, code, n, shape.data());
  } else if (name == "glorot_uniform") {
    status = aster_ml_lazy_glorot_uniform(t, world, code, n, shape.data());
  } else if (name == "kaiming_uniform") {
    status = aster_ml_lazy_kaiming_uniform(t, world, std::sqrt(5.0), code, n, shape.data());
  } else if (name == "kaiming_normal") {
    status = aster_ml_lazy_kaiming_normal(t, world, 0.01, code, n, shape.data());
  } else {
    T like;
    EXPECT_EQ(aster_ml_lazy_zeros(like, world, 0, n, shape.data()), 0);
    status = name == "rand_like" ? aster_ml_lazy_rand_like(t, like, code)
                                 : aster_ml_lazy_randn_like(t, like, code);
  }
  EXPECT_EQ(status, 0) << name << ": " << message();
  return t;
}

// One sequence of calls: each leaves the state as tinygrad's does.
TEST_P(Random, SamplesAreTinygrads) {
  OK(aster_ml_lazy_manual_seed(world, 1234));
  std::vector<T> drawn;
  std::vector<aster_ml_lazy*> all;
  const auto rows = oracle("sampling.tsv");
  for (const auto& row : rows) drawn.push_back(sample(world, row[0], row[1], row[2]));
  for (T& t : drawn) all.push_back(t);
  OK(aster_ml_lazy_realize(all.data(), all.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string what =
        std::to_string(i) + ": " + rows[i][0] + " " + rows[i][1] + " " + rows[i][2];
    if (rows[i][0].starts_with("randn") || rows[i][0] == "kaiming_normal") {
      expect_near(drawn[i], rows[i][3], 1e-6, what);  // tinygrad's sine and logarithm are looser
      continue;
    }
    if (rows[i][0] == "dropout") {
      expect_near(drawn[i], rows[i][3], 2e-7, what);  // it multiplies by 1 / (1 - p)
      continue;
    }
    if (rows[i][0] == "kaiming_uniform" && rows[i][2] == "bfloat16") {
      expect_near(drawn[i], rows[i][3], 8e-3, what);  // it rounds once less
      continue;
    }
    const std::vector<uint8_t> expected = unhex(rows[i][3]);
    std::vector<uint8_t> got(expected.size());
    ASSERT_EQ(aster_ml_lazy_copy_out(got.data(), got.size(), drawn[i]), 0) << what << message();
    EXPECT_EQ(got, expected) << what;
  }
}

// ---- Laws ----

TEST_P(Random, PermutationsHoldEveryNumberOnce) {
  for (int64_t n : {0, 1, 2, 1000}) {
    T t;
    OK(aster_ml_lazy_randperm(t, world, n, 0));
    EXPECT_EQ(t.dtype(), ASTER_ML_DTYPE_INT32);
    std::vector<int32_t> got = t.read<int32_t>(), sorted = got;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], static_cast<int32_t>(i));
    if (n == 1000) {
      EXPECT_NE(got, sorted);
    }
  }
}

TEST_P(Random, DropoutKeepsTheMeanAndOneMask) {
  const size_t n = 20000;
  const T x = from(world, std::vector<float>(n, 1), {static_cast<int64_t>(n)});
  T y, total, g, same;
  OK(aster_ml_lazy_dropout(y, x, 0.25, 1));
  OK(aster_ml_lazy_sum(total, y, 0, nullptr, 0));
  const aster_ml_lazy* targets[] = {x};
  OK(aster_ml_gradient(g, total, targets, 1, nullptr));
  const Floats kept = y.floats();
  double sum = 0;
  size_t dropped = 0;
  for (float v : kept) sum += static_cast<double>(v), dropped += v == 0;
  EXPECT_NEAR(sum / static_cast<double>(n), 1, 0.02);
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(n), 0.25, 0.02);
  EXPECT_EQ(g.floats(), kept);
  OK(aster_ml_lazy_dropout(same, x, 0.25, 0));
  EXPECT_EQ(same.floats(), Floats(n, 1));
}

TEST(RandomNumbers, DropoutIsOneKernel) {
  const World world(false);
  const T x = from(world, std::vector<float>(512, 2), {512});
  T y;
  OK(aster_ml_lazy_dropout(y, x, 0.5, 1));
  (void)y.floats();
  aster_ml_engine_counters counters{};
  counters.struct_size = sizeof(counters);
  OK(aster_ml_engine_count(&counters, world));
  char schedule[4096];
  (void)aster_ml_engine_print_schedule(schedule, sizeof(schedule), world);
  EXPECT_EQ(counters.last_kernels, 1u) << schedule;
}

// Each class as often as its weight says, none twice without replacement, those of weight 0 never.
TEST_P(Random, SamplesFollowTheirWeights) {
  const T x = from(world, Floats{1, 0, 3, 4}, {4});
  T with;
  OK(aster_ml_lazy_multinomial(with, x, 8000, 1));
  EXPECT_EQ(with.dtype(), ASTER_ML_DTYPE_INT32);
  size_t counts[4] = {};
  for (int32_t i : with.read<int32_t>()) {
    ASSERT_TRUE(i >= 0 && i < 4);
    ++counts[i];
  }
  EXPECT_EQ(counts[1], 0u);
  EXPECT_NEAR(static_cast<double>(counts[0]), 1000, 150);
  EXPECT_NEAR(static_cast<double>(counts[2]), 3000, 200);
  for (int i = 0; i < 20; ++i) {
    T without;
    OK(aster_ml_lazy_multinomial(without, x, 3, 0));
    const std::vector<int32_t> got = without.read<int32_t>();
    EXPECT_EQ(std::set<int32_t>(got.begin(), got.end()), (std::set<int32_t>{0, 2, 3}));
  }
}

TEST_P(Random, InitialisersOfNothing) {
  const int64_t empty[] = {2, 0};
  T a, b, c, d;
  OK(aster_ml_lazy_scaled_uniform(a, world, 0, 2, empty));
  OK(aster_ml_lazy_glorot_uniform(b, world, 0, 2, empty));
  OK(aster_ml_lazy_kaiming_uniform(c, world, 0.01, 0, 2, empty));
  OK(aster_ml_lazy_kaiming_normal(d, world, 0.01, 0, 2, empty));
  for (T* t : {&a, &b, &c, &d}) EXPECT_EQ(t->floats(), Floats());
}

TEST(RandomNumbers, Refuse) {
  const World world;
  const T x = from(world, Floats{1, 2}, {2}), whole = from(world, std::vector<int32_t>{1, 2}, {2}),
          deep = from(world, Floats(8, 1), {2, 2, 2}), none = from(world, Floats(), {0});
  const int64_t two = 2, negative = -1;
  T t;
  EXPECT_EQ(aster_ml_lazy_rand_like(t, whole, 0), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_randn_like(t, whole, 0), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_scaled_uniform(t, world, ASTER_ML_DTYPE_INT32, 1, &two), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_scaled_uniform(t, world, 0, 1, &negative), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_glorot_uniform(t, world, 0, 0, nullptr), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_kaiming_uniform(t, world, 0, 0, 0, nullptr), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_kaiming_normal(t, world, 0, 0, 0, nullptr), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_kaiming_normal(t, world, 0, 0, 1, &negative), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_randperm(t, world, -1, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_multinomial(t, deep, 1, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_multinomial(t, x, 0, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_multinomial(t, x, 3, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_multinomial(t, none, 1, 1), ASTER_ML_RANGE);
  for (double p : {-0.1, 1.1, std::nan("")})
    EXPECT_EQ(aster_ml_lazy_dropout(t, x, p, 0), ASTER_ML_RANGE);
  EXPECT_EQ(t.x.impl, nullptr);
}

}  // namespace
}  // namespace aster::tensor::test
