// Graphs and loops of a size at which anything quadratic, recursive or kept would show.
#include <chrono>

#include "aster.h"

namespace programs {
namespace {

constexpr int32_t kFloat = ASTER_ML_DTYPE_FLOAT32;

size_t bytes_now(const aster_ml_context& context) {
  size_t now = 0;
  EXPECT_OK(aster_ml_context_count_bytes(&now, nullptr, &context));
  return now;
}

// x + 1 + 1 ... through handles that are freed as soon as the next one is there.
aster_ml_lazy chain(const aster_ml_lazy& x, const aster_ml_lazy& one, int length) {
  aster_ml_lazy at{}, next{};
  EXPECT_OK(aster_ml_lazy_copy(&at, &x));
  for (int i = 0; i < length; ++i) {
    // Operations that no rule joins with the one before.
    if (aster_ml_lazy_mul(&next, &at, i % 2 == 0 ? &x : &one) != 0) {
      ADD_FAILURE() << last_error();
      break;
    }
    EXPECT_OK(aster_ml_lazy_free(&at));
    at = next;
  }
  return at;
}

TEST(Depth, HundredOperationsAreOneKernel) {
  Session s;
  T x = data(s, {64}), y = x;
  for (int i = 0; i < 50; ++i) y = exp(y * x) - x;
  realize({&y});
  EXPECT_EQ(s.counters().last_kernels, 1u) << s.schedule();
}

// Time grows with the length, not with its square: ten times the chain is allowed thirty times.
void deep_chain(const char* compiler) {
  using Clock = std::chrono::steady_clock;
  aster_ml_context context{};
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.threads = 1;
  options.compiler = compiler;
  OK(aster_ml_context_init(&context, &options));
  const float values[] = {1, 1, 1, 1};
  const int64_t shape[] = {4};
  aster_ml_lazy x{}, one{};
  OK(aster_ml_lazy_from(&x, &context, values, kFloat, 1, shape));
  OK(aster_ml_lazy_from(&one, &context, values, kFloat, 1, shape));
  double seconds[2] = {};
  const int lengths[] = {10000, 100000};
  for (int k = 0; k < 2; ++k) {
    const auto start = Clock::now();
    aster_ml_lazy y = chain(x, one, lengths[k]);
    float out[4] = {};
    OK(aster_ml_lazy_copy_out(out, sizeof(out), &y));
    EXPECT_EQ(out[3], 1);
    OK(aster_ml_lazy_free(&y));
    seconds[k] = std::chrono::duration<double>(Clock::now() - start).count();
  }
  aster_ml_engine_counters counters{};
  counters.struct_size = sizeof(counters);
  OK(aster_ml_engine_count(&counters, &context));
  testing::Test::RecordProperty("milliseconds", static_cast<int>(seconds[1] * 1000));
  testing::Test::RecordProperty("kernels", static_cast<int>(counters.last_kernels));
  EXPECT_LT(seconds[1], 30 * seconds[0] + 1);
  if (compiler == nullptr) {
    EXPECT_EQ(counters.interpreted, 0u);
    EXPECT_GT(counters.last_kernels, 100u) << "kernels of this size are split";
  }
  OK(aster_ml_lazy_free(&x));
  OK(aster_ml_lazy_free(&one));
  OK(aster_ml_context_free(&context));
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
  explicit Trainer(Session& s) : s_(s), first_(data(s, {8, 6}, 3)), second_(data(s, {6, 4}, 4)) {}
  void step(aster_ml_lazy* x, const aster_ml_lazy* y, aster_ml_lazy* loss) {
    aster_ml_scope scope{};
    OK(aster_ml_scope_begin(&scope, &s_.context));
    aster_ml_lazy product{}, hidden{}, logits{}, rate{}, grads[2] = {};
    OK(aster_ml_lazy_matmul(&product, x, &first_.h));
    OK(aster_ml_lazy_relu(&hidden, &product));
    OK(aster_ml_lazy_matmul(&logits, &hidden, &second_.h));
    OK(aster_ml_lazy_cross_entropy(loss, &logits, y, nullptr));
    OK(aster_ml_lazy_keep(loss));
    const aster_ml_lazy* targets[] = {&first_.h, &second_.h};
    OK(aster_ml_gradient(grads, loss, targets, 2, nullptr));
    OK(aster_ml_lazy_number(&rate, &s_.context, 0.01));
    aster_ml_lazy* weights[] = {&first_.h, &second_.h};
    for (int i = 0; i < 2; ++i) {
      aster_ml_lazy by{}, next{};
      OK(aster_ml_lazy_mul(&by, &grads[i], &rate));
      OK(aster_ml_lazy_sub(&next, weights[i], &by));
      OK(aster_ml_lazy_assign(weights[i], &next));
    }
    aster_ml_lazy* all[] = {loss, &first_.h, &second_.h};
    OK(aster_ml_lazy_realize(all, 3));
    OK(aster_ml_scope_end(&scope));
  }

 private:
  Session& s_;
  T first_, second_;
};

TEST(Flat, UncapturedSteps) {
  Session s;
  Trainer trainer(s);
  const Shape in = {5, 8}, count = {5};
  const std::vector<int32_t> labels = {0, 1, 2, 3, 0};
  size_t settled = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::vector<float> values = noise(40, static_cast<uint32_t>(i));
    aster_ml_lazy x{}, y{}, loss{};
    OK(aster_ml_lazy_from(&x, &s.context, values.data(), kFloat, 2, in.data()));
    OK(aster_ml_lazy_from(&y, &s.context, labels.data(), ASTER_ML_DTYPE_INT32, 1, count.data()));
    trainer.step(&x, &y, &loss);
    for (aster_ml_lazy* handle : {&x, &y, &loss}) OK(aster_ml_lazy_free(handle));
    if (i == 100) settled = bytes_now(s.context);
    if (i > 100 && bytes_now(s.context) > settled) {
      FAIL() << "step " << i << ": " << bytes_now(s.context) << " bytes, " << settled
             << " at step 100";
    }
  }
  const aster_ml_engine_counters counters = s.counters();
  EXPECT_EQ(counters.schedule_misses, 1u);
  EXPECT_EQ(counters.schedule_hits, 4999u);
}

TEST(Flat, CapturedSteps) {
  Session s;
  Trainer trainer(s);
  T x = data(s, {5, 8}), y = from(s, std::vector<int32_t>{0, 1, 2, 3, 0}, {5});
  aster_ml_lazy* inputs[] = {&x.h, &y.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 2));
  aster_ml_lazy loss{};
  trainer.step(&x.h, &y.h, &loss);
  aster_ml_lazy* outputs[] = {&loss};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, &s.context, outputs, 1));
  const size_t in[] = {5, 8}, count[] = {5};
  const std::vector<float> values = noise(40, 9);
  const std::vector<int32_t> labels = {3, 2, 1, 0, 3};
  aster_ml_tensor given[2] = {};
  OK(aster_ml_tensor_from_data(&given[0], &s.context, values.data(), kFloat, 2, in));
  OK(aster_ml_tensor_from_data(&given[1], &s.context, labels.data(), ASTER_ML_DTYPE_INT32, 1,
                               count));
  size_t settled = 0;
  float first = 0, last = 0;
  for (int i = 0; i < 20000; ++i) {
    aster_ml_tensor out{};
    OK(aster_ml_program_run(&program, nullptr, given, 2, &out, 1));
    last = *static_cast<const float*>(out.storage.data);
    if (i == 0) first = last;
    OK(aster_ml_tensor_free(&out));
    if (i == 100) settled = bytes_now(s.context);
    if (i > 100 && bytes_now(s.context) > settled)
      FAIL() << "step " << i << " holds more than step 100";
  }
  EXPECT_LT(last, first / 4) << "nothing was learnt";
  EXPECT_EQ(s.counters().schedule_misses, 1u);
  for (aster_ml_tensor& tensor : given) OK(aster_ml_tensor_free(&tensor));
  OK(aster_ml_lazy_free(&loss));
  OK(aster_ml_program_free(&program));
}

}  // namespace
}  // namespace programs
