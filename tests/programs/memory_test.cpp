// Graphs and loops of a size at which anything quadratic, recursive or kept would show.
#include <chrono>

#include "aster.h"

namespace programs {
namespace {

constexpr int32_t kFloat = ASTER_ML_DTYPE_FLOAT32;

TEST(Depth, HundredOperationsAreOneKernel) {
  Session s;
  Tensor x = data({64}), y = x;
  for (int i = 0; i < 50; ++i) y = (y * x).exp() - x;
  OK(y.realize());
  EXPECT_EQ(s.counters().last_kernels, 1u) << s.schedule();
}

// Time grows with the length, not with its square: ten times the chain is allowed thirty times.
void deep_chain(const char* compiler) {
  using Clock = std::chrono::steady_clock;
  aster_ml_context_options options{};
  options.threads = 1;
  options.compiler = compiler;
  Session s(options);
  const Tensor x = Tensor::ones(4).realized(), one = Tensor::ones(4).realized();
  double seconds[2] = {};
  const int lengths[] = {10000, 100000};
  for (int k = 0; k < 2; ++k) {
    const auto start = Clock::now();
    Tensor y = x;
    // Operations that no rule joins with the one before.
    for (int i = 0; i < lengths[k]; ++i) y = y * (i % 2 == 0 ? x : one);
    EXPECT_EQ(read(y), (Floats{1, 1, 1, 1}));
    y = Tensor();
    seconds[k] = std::chrono::duration<double>(Clock::now() - start).count();
  }
  const aster_ml_engine_counters counters = s.counters();
  testing::Test::RecordProperty("milliseconds", static_cast<int>(seconds[1] * 1000));
  testing::Test::RecordProperty("kernels", static_cast<int>(counters.last_kernels));
  EXPECT_LT(seconds[1], 30 * seconds[0] + 1);
  if (compiler == nullptr) {
    EXPECT_EQ(counters.interpreted, 0u);
    EXPECT_GT(counters.last_kernels, 100u) << "kernels of this size are split";
  }
}

TEST(Depth, AHundredThousandOperationsInterpreted) { deep_chain("none"); }
TEST(Depth, AHundredThousandOperationsCompiled) { deep_chain(nullptr); }

TEST(Lifetimes, ReleaseCallbacksRunOnce) {
  alignas(64) float memory[4] = {1, 2, 3, 4};
  int released = 0;
  aster_ml_context context{};
  OK(aster_ml_context_init(&context, nullptr));
  aster_ml_buffer buffer{};
  OK(aster_ml_buffer_from_memory(
      &buffer, &context, memory, sizeof(memory), kFloat, 0, 0,
      [](void* self, void*, size_t) { ++*static_cast<int*>(self); }, &released));
  aster_ml_tensor tensor{};
  const size_t shape[] = {4};
  OK(aster_ml_tensor_from_buffer(&tensor, &context, &buffer, 0, 1, shape, nullptr));
  aster_ml_lazy x{}, y{};
  OK(aster_ml_lazy_from_tensor(&x, &context, &tensor));
  OK(aster_ml_lazy_neg(&y, &x));
  OK(aster_ml_buffer_free(&buffer));
  OK(aster_ml_tensor_free(&tensor));
  OK(aster_ml_lazy_free(&x));
  EXPECT_EQ(released, 0) << "the graph still reads it";
  float out[4];
  OK(aster_ml_lazy_copy_out(out, sizeof(out), &y));
  EXPECT_EQ(out[2], -3);
  OK(aster_ml_lazy_free(&y));
  OK(aster_ml_context_free(&context));
  EXPECT_EQ(released, 1);
}

// A perceptron's training step on new inputs: built, differentiated, assigned and realised.
class Trainer {
 public:
  Tensor step(const Tensor& x, const Tensor& y) {
    const Tensor loss = x.matmul(first_).relu().matmul(second_).cross_entropy(y);
    const std::vector<Tensor> slopes = loss.gradient({first_, second_});
    EXPECT_OK(first_ -= slopes[0] * 0.01);
    EXPECT_OK(second_ -= slopes[1] * 0.01);
    EXPECT_OK(realize(loss, first_, second_));
    return loss;
  }

 private:
  Tensor first_ = data({8, 6}, 3), second_ = data({6, 4}, 4);
};

TEST(Flat, UncapturedSteps) {
  Session s;
  Trainer trainer;
  size_t settled = 0;
  for (uint32_t i = 0; i < 5000; ++i) {
    OK(trainer.step(data({5, 8}, i), Tensor(Ints{0, 1, 2, 3, 0})));
    if (i == 100) settled = s.bytes().first;
    if (i > 100 && s.bytes().first > settled) {
      FAIL() << "step " << i << ": " << s.bytes().first << " bytes, " << settled << " at step 100";
    }
  }
  const aster_ml_engine_counters counters = s.counters();
  EXPECT_EQ(counters.schedule_misses, 1u);
  EXPECT_EQ(counters.schedule_hits, 4999u);
}

TEST(Flat, CapturedSteps) {
  Session s;
  Trainer trainer;
  Tensor x = data({5, 8}), y(Ints{0, 1, 2, 3, 0});
  aster_ml::Program program({x, y}, [&] { return trainer.step(x, y); });
  OK(program);
  const aster_ml::Array given[] = {{noise(40, 9), {5, 8}}, {Ints{3, 2, 1, 0, 3}, {5}}};
  const aster_ml_tensor in[] = {*given[0].get(), *given[1].get()};
  size_t settled = 0;
  float first = 0, last = 0;
  for (int i = 0; i < 20000; ++i) {
    aster_ml_tensor out{};
    OK(program.run(in, 2, &out, 1));
    last = *static_cast<const float*>(out.storage.data);
    if (i == 0) first = last;
    OK(aster_ml_tensor_free(&out));
    if (i == 100) settled = s.bytes().first;
    if (i > 100 && s.bytes().first > settled) FAIL() << "step " << i << " holds more than step 100";
  }
  EXPECT_LT(last, first / 4) << "nothing was learnt";
  EXPECT_EQ(s.counters().schedule_misses, 1u);
}

}  // namespace
}  // namespace programs
