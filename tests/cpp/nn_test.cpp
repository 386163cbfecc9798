// Training through the C++ wrapper: layers, optimisers, states, captured steps.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Program;
using aster_ml::Tensor;
namespace nn = aster_ml::nn;

class NnTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(NnTest, LinearRegressionFindsTheLine) {
  const Tensor x(noise(256, 1), {128, 2});
  const Tensor y = x.matmul(Tensor({3., -2.}).reshape({2, 1})) + 0.5;
  const nn::Linear model(2, 1);
  const nn::SGD optimizer({{"", model}}, 0.3);
  for (int i = 0; i < 100; ++i) OK(optimizer.step((model(x) - y).square().mean()));
  const Floats weight = floats(model.weight());
  EXPECT_NEAR(weight[0], 3, 1e-3);
  EXPECT_NEAR(weight[1], -2, 1e-3);
  EXPECT_NEAR(model.bias().item(), 0.5, 1e-3);
}

struct Net {
  nn::Linear l1{2, 16}, l2{16, 2};
  Tensor operator()(const Tensor& x) const { return l2(l1(x).tanh()); }
  nn::State state() const { return {{"l1.", l1}, {"l2.", l2}}; }
};

// Which of two classes: whether the signs of two numbers differ.
Tensor labels_of(const Tensor& x) {
  return (x.select(1, 0) * x.select(1, 1) < 0).cast(aster_ml::dtypes::int32);
}

TEST_F(NnTest, CapturedStepsTrainAsUncapturedOnes) {
  std::vector<Tensor> batches;
  for (uint32_t i = 0; i < 8; ++i) batches.push_back(Tensor(noise(64, i), {32, 2}).realized());
  double last[2] = {};
  for (const bool captured : {false, true}) {
    Tensor::manual_seed(4);
    const Net net;
    const nn::Adam optimizer(net.state(), 0.02);
    const auto step = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = net(x).cross_entropy(y);
      EXPECT_OK(optimizer.step(loss));
      return loss;
    };
    Tensor loss;
    Program program;
    for (size_t i = 0; i < 200; ++i) {
      const Tensor x = batches[i % 8], y = labels_of(x).realized();
      if (!captured) {
        loss = step(x, y);
      } else if (!program.ok()) {
        program = Program({x, y}, [&] { return step(x, y); });
        OK(program.ok());
        loss = program.outputs()[0];
      } else {
        loss = program({x, y});
      }
      OK(loss.ok());
    }
    last[captured ? 1 : 0] = loss.item();
    const Tensor x(noise(200, 99), {100, 2});
    const Tensor right = (net(x).argmax(-1, false) == labels_of(x)).cast(aster_ml::dtypes::int32);
    EXPECT_GT(right.sum().item(), 85);
  }
  EXPECT_EQ(last[0], last[1]);
}

TEST_F(NnTest, ProgramsGiveTheirResults) {
  const Tensor a = Tensor({1., 2.}).realized(), b = Tensor({3., 4.}).realized();
  const uint64_t misses = context_.counters().schedule_misses;
  const Program two({a, b}, [&] { return std::vector<Tensor>{a + b, (a * b).sum()}; });
  OK(two.ok());
  EXPECT_GT(two.kernels(), 0u);
  EXPECT_EQ(context_.counters().schedule_misses, misses + 1) << "only the body computes";
  EXPECT_NE(context_.schedule(), "");
  EXPECT_EQ(floats(two.outputs()[0]), (Floats{4, 6}));
  OK(two.run({b, b}));
  EXPECT_EQ(floats(two.outputs()[0]), (Floats{6, 8}));
  EXPECT_EQ(two.outputs()[1].item(), 25);

  // A second owner of a workspace's memory would be a second run in it.
  static_assert(!std::is_copy_constructible<aster_ml::Workspace>::value, "");
  static_assert(!std::is_copy_assignable<aster_ml::Workspace>::value, "");
  aster_ml::Workspace made(two);
  const aster_ml::Workspace workspace(std::move(made));
  OK(workspace.ok());
  EXPECT_FALSE(made.ok());  // NOLINT: what a move leaves is said
  const aster_ml_tensor in[2] = {a.view(), a.view()};
  aster_ml_tensor out[2] = {two.outputs()[0].view(), two.outputs()[1].view()};
  OK(two.run(in, 2, out, 2, workspace.get()));
  EXPECT_EQ(floats(two.outputs()[0]), (Floats{2, 4}));

  EXPECT_FALSE(two.run({a}));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_FALSE(two({Tensor({1., 2., 3.}), a}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);

  const Program nothing({a}, [] { Program::cancel(); });
  EXPECT_FALSE(nothing.ok());
  EXPECT_FALSE(Program().run({a}));
}

TEST_F(NnTest, EveryLayerRuns) {
  const Tensor image(noise(2 * 4 * 6 * 6, 2), {2, 4, 6, 6});
  EXPECT_EQ(nn::Conv2d(4, 8, 3)(image).shape(), (Shape{2, 8, 4, 4}));
  EXPECT_EQ(nn::ConvTranspose2d(4, 8, 3)(image).shape(), (Shape{2, 8, 8, 8}));
  const Tensor sound = image.reshape({2, 4, 36});
  EXPECT_EQ(nn::Conv1d(4, 8, 3)(sound).shape(), (Shape{2, 8, 34}));
  EXPECT_EQ(nn::ConvTranspose1d(4, 8, 3)(sound).shape(), (Shape{2, 8, 38}));
  const std::vector<nn::Layer> norms = {nn::BatchNorm(4),    nn::GroupNorm(2, 4),
                                        nn::InstanceNorm(4), nn::LayerNorm({6, 6}),
                                        nn::LayerNorm2d(4),  nn::RMSNorm(6)};
  Tensor::training() = true;
  for (const nn::Layer& norm : norms) {
    const Tensor y = norm(image);
    OK(y.realize());
    EXPECT_EQ(y.shape(), image.shape());
    EXPECT_NEAR(y.square().mean().item(), 1, 0.05);
  }
  EXPECT_NE(norms[0].parameter("running_mean").abs().sum().item(), 0);
  EXPECT_NEAR(Tensor::ones({1000}).dropout(0.25).mean().item(), 1, 0.1);
  Tensor::training() = false;
  EXPECT_EQ(Tensor::ones({100}).dropout().sum().item(), 100);
  EXPECT_EQ(nn::Embedding(10, 3)(Tensor({1, 2})).shape(), (Shape{2, 3}));
  const nn::LSTMCell cell(3, 5);
  auto [h, c] = cell(Tensor::ones({2, 3}));
  auto [h2, c2] = cell(Tensor::ones({2, 3}), h, c);
  OK(aster_ml::realize(h2, c2));
  EXPECT_EQ(h2.shape(), (Shape{2, 5}));
  EXPECT_FALSE(nn::Linear(2, 3).parameter("nothing").ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
}

TEST_F(NnTest, EveryOptimizerLowersTheLoss) {
  const Tensor x(noise(64, 5), {32, 2});
  const Tensor y = labels_of(x).realized();
  const auto train = [&](auto make) {
    const Net net;
    const auto optimizer = make(net.state());
    OK(optimizer.ok());
    const double before = net(x).cross_entropy(y).item();
    for (int i = 0; i < 20; ++i) OK(optimizer.step(net(x).cross_entropy(y)));
    EXPECT_LT(net(x).cross_entropy(y).item(), before);
  };
  train([](const nn::State& s) { return nn::SGD(s, 0.1, 0.9, 0, true); });
  train([](const nn::State& s) { return nn::Adam(s, 0.01); });
  train([](const nn::State& s) { return nn::AdamW(s, 0.01); });
  train([](const nn::State& s) { return nn::LAMB(s, 0.01); });
  train([](const nn::State& s) { return nn::LARS(s, 1.0); });

  const Net net;
  const nn::SGD one({{"l1.", net.l1}}, 0.1), other({{"l2.", net.l2}}, 0.2);
  OK(nn::Optimizer::step({one, other}, net(x).cross_entropy(y)));
  OK(one.step(net(x).cross_entropy(y).gradient(one.parameters())));
  OK(one.schedule(net(x).cross_entropy(y).gradient(one.parameters())) && one.realize());
  OK(one.set_rate(0.5));
  EXPECT_EQ(one.rate().item(), 0.5);
  EXPECT_FALSE(nn::SGD(nn::State()).ok());
}

TEST_F(NnTest, StatesGoThroughFiles) {
  const Net net, other;
  const nn::State state = net.state();
  EXPECT_EQ(state.size(), 4u);
  EXPECT_STREQ(state.name(0), "l1.weight");
  OK(state.set_metadata("kind", "net"));
  // The same tests run at once, as C++17 and as C++20.
  const std::string path =
      testing::TempDir() + "cpp_state_" + std::to_string(getpid()) + ".safetensors";
  OK(state.write(path.c_str()));
  const nn::State read = nn::State::read(path.c_str());
  OK(read.ok());
  EXPECT_STREQ(read.metadata("kind"), "net");
  EXPECT_NE(floats(net.l1.weight()), floats(other.l1.weight()));
  OK(other.state().load(read));
  EXPECT_EQ(floats(net.l1.weight()), floats(other.l1.weight()));
  const nn::State again = nn::State::from_safetensors(Tensor::from_file(path.c_str()));
  EXPECT_EQ(floats(again["l2.bias"]), floats(net.l2.bias()));
  EXPECT_FALSE(again["nothing"].ok());
  std::remove(path.c_str());
  EXPECT_FALSE(nn::State::read(path.c_str()).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
}

}  // namespace
}  // namespace cpp_test
