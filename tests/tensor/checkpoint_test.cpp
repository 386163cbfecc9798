// Gradients that compute anew what lies below them: the bits of those that do not, in less memory.
#include "aster_ml/engine.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

Floats noise(size_t count, uint32_t state) {
  Floats v(count);
  for (float& f : v) {
    state = state * 1664525 + 1013904223;
    f = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return v;
}

// Blocks of two layers each; with checkpoints each block is one.
constexpr int kBlocks = 6;
constexpr int64_t kWidth = 64, kRows = 256;

struct Net {
  explicit Net(const World& world) : x(from(world, noise(kRows * kWidth, 1), {kRows, kWidth})) {
    for (uint32_t i = 0; i < 2 * kBlocks; ++i)
      weights.push_back(from(world, noise(kWidth * kWidth, 2 + i), {kWidth, kWidth}));
  }
  // The loss, and its gradients to x and the weights.
  void build(const World& world, bool checkpoints, T* loss, std::vector<T>* gradients) {
    std::vector<T> made(1);
    ASSERT_EQ(aster_ml_lazy_copy(made[0], x), 0);
    for (size_t block = 0; block < kBlocks; ++block) {
      const size_t input = made.size() - 1;
      for (size_t layer = 0; layer < 2; ++layer) {
        T product, next;
        OK(aster_ml_lazy_matmul(product, made.back(), weights[2 * block + layer]));
        OK(aster_ml_lazy_sin(next, product));
        made.push_back(std::move(next));
      }
      if (!checkpoints) continue;
      T marked;
      const aster_ml_lazy* const inputs[] = {&made[input].x};
      OK(aster_ml_gradient_checkpoint(marked, made.back(), inputs, 1));
      made.push_back(std::move(marked));
    }
    OK(aster_ml_lazy_sum(*loss, made.back(), 0, nullptr, 0));
    std::vector<const aster_ml_lazy*> targets{&x.x};
    for (const T& weight : weights) targets.push_back(&weight.x);
    std::vector<aster_ml_lazy> out(targets.size());
    OK(aster_ml_gradient(out.data(), *loss, targets.data(), targets.size(), nullptr));
    gradients->resize(out.size());
    for (size_t i = 0; i < out.size(); ++i) (*gradients)[i].x = out[i];
    (void)world;
  }
  T x;
  std::vector<T> weights;
};

class Checkpoint : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Runtimes, Checkpoint, ::testing::Values(true, false),
                         [](const auto& r) { return r.param ? "interpreted" : "compiled"; });

TEST_P(Checkpoint, GivesTheSameBits) {
  const World world(GetParam());
  Net net(world);
  T loss, again;
  std::vector<T> plain, checked;
  net.build(world, false, &loss, &plain);
  net.build(world, true, &again, &checked);
  EXPECT_EQ(loss.floats(), again.floats());
  ASSERT_EQ(plain.size(), checked.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(plain[i].floats(), checked[i].floats()) << i;
}

// The gradient of the sum of squares of a gradient.
TEST_P(Checkpoint, GradientsHaveGradients) {
  const World world(GetParam());
  std::vector<float> found[2];
  for (const bool checkpoints : {false, true}) {
    Net net(world);
    T loss, squares, total, slope;
    std::vector<T> first;
    net.build(world, checkpoints, &loss, &first);
    OK(aster_ml_lazy_mul(squares, first[0], first[0]));
    OK(aster_ml_lazy_sum(total, squares, 0, nullptr, 0));
    const aster_ml_lazy* const targets[] = {&net.x.x};
    OK(aster_ml_gradient(slope, total, targets, 1, nullptr));
    found[checkpoints] = slope.floats();
  }
  ASSERT_EQ(found[0].size(), found[1].size());
  float most = 0;
  for (float value : found[0]) most = std::max(most, std::fabs(value));
  for (size_t i = 0; i < found[0].size(); ++i)
    ASSERT_NEAR(found[0][i], found[1][i], 1e-3f * most) << i;
}

// What a program of the step holds beside what it is given.
size_t workspace(bool checkpoints) {
  const World world(false);
  Net net(world);
  aster_ml_program program{};
  aster_ml_lazy* const inputs[] = {&net.x.x};
  EXPECT_EQ(aster_ml_lazy_realize(inputs, 1), 0) << message();
  EXPECT_EQ(aster_ml_engine_capture_begin(world, inputs, 1), 0) << message();
  T loss;
  std::vector<T> gradients;
  net.build(world, checkpoints, &loss, &gradients);
  std::vector<aster_ml_lazy*> outputs{&loss.x};
  // As the backward pass finds them: results are computed in this order.
  for (size_t i = gradients.size(); i-- > 0;) outputs.push_back(&gradients[i].x);
  EXPECT_EQ(aster_ml_engine_capture_end(&program, world, outputs.data(), outputs.size()), 0)
      << message();
  const size_t bytes = aster_ml_program_count_bytes(&program);
  EXPECT_EQ(aster_ml_program_free(&program), 0);
  return bytes;
}

TEST(Checkpoints, StepsHoldLess) {
  const size_t activation = kRows * kWidth * sizeof(float);
  const size_t all = workspace(false), some = workspace(true);
  // Of the inner layer of each block but the one that is computed anew nothing is held.
  EXPECT_LE(some + (kBlocks - 3) * activation, all) << some << " and " << all;
}

TEST(Checkpoints, ReachesWhatAsksForAGradient) {
  const World world;
  T x = from(world, Floats{1, 2}, {2}), two = number(world, 2), scale, y, marked, loss;
  OK(aster_ml_lazy_mul(scale, x, two));  // pending, and a parameter
  OK(aster_ml_lazy_set_requires_grad(scale, 1));
  OK(aster_ml_lazy_mul(y, scale, scale));
  OK(aster_ml_gradient_checkpoint(marked, y, nullptr, 0));
  OK(aster_ml_lazy_sum(loss, marked, 0, nullptr, 0));
  OK(aster_ml_lazy_backward(loss, nullptr));
  T found;
  OK(aster_ml_lazy_grad(found, scale));
  EXPECT_EQ(found.floats(), (Floats{4, 8}));
}

TEST(Checkpoints, OfNothingIsTheTensorItself) {
  const World world;
  T x = from(world, Floats{1, 2}, {2}), same, other;
  const aster_ml_lazy* const inputs[] = {&x.x};
  OK(aster_ml_gradient_checkpoint(same, x, inputs, 1));
  EXPECT_EQ(aster_ml_lazy_is_same(same, x), 1);
  EXPECT_EQ(same.floats(), (Floats{1, 2}));
  EXPECT_EQ(aster_ml_gradient_checkpoint(other, x, nullptr, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_gradient_checkpoint(other, nullptr, inputs, 1), ASTER_ML_ARGUMENT);
  const aster_ml_lazy* const none[] = {nullptr};
  EXPECT_EQ(aster_ml_gradient_checkpoint(other, x, none, 1), ASTER_ML_ARGUMENT);
}

}  // namespace
}  // namespace aster::tensor::test
