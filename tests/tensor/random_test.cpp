// Random state across captures and seeds; initialisers and sampling against tinygrad's answers
// (oracle/make_random.py); dropout and permutations by their laws.
#include <algorithm>
#include <numeric>
#include <set>

#include "aster_ml/engine.h"
#include "aster_ml/random.h"
#include "world.h"

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

}  // namespace
}  // namespace aster::tensor::test
