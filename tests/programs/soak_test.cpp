// Many training steps, captured and built anew, in constant memory. bench/bench_steps.cpp runs far
// more of them.
#include <unistd.h>

#include <fstream>

#include "aster.h"
#include "aster_ml/nn.h"

namespace programs {
namespace {

constexpr int kWarm = 100;

// 16-32-10 with Adam, and one step of it on a batch of 32.
class Net {
 public:
  explicit Net(Session& s) {
    EXPECT_OK(aster_ml_state_init(&state_, &s.context));
    EXPECT_OK(aster_ml_linear_init(&layers_[0], &s.context, 16, 32, 1));
    EXPECT_OK(aster_ml_linear_init(&layers_[1], &s.context, 32, 10, 1));
    EXPECT_OK(aster_ml_state_set_layer(&state_, "1.", &layers_[0]));
    EXPECT_OK(aster_ml_state_set_layer(&state_, "2.", &layers_[1]));
    EXPECT_OK(aster_ml_adam_init(&adam_, &state_, nullptr));
  }
  ~Net() {
    EXPECT_OK(aster_ml_optimizer_free(&adam_));
    EXPECT_OK(aster_ml_state_free(&state_));
    for (aster_ml_layer& layer : layers_) EXPECT_OK(aster_ml_layer_free(&layer));
  }
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  T step(T x, T labels) {
    T hidden = relu(make(aster_ml_layer_run, &layers_[0], &x.h, 1));
    T logits = make(aster_ml_layer_run, &layers_[1], &hidden.h, 1);
    T loss = make(aster_ml_lazy_cross_entropy, &logits.h, &labels.h,
                  static_cast<const aster_ml_cross_entropy_options*>(nullptr));
    EXPECT_OK(aster_ml_optimizer_step(&adam_, &loss.h));
    return loss;
  }

 private:
  aster_ml_state state_{};
  aster_ml_layer layers_[2] = {};
  aster_ml_optimizer adam_{};
};

T labels(Session& s) {
  std::vector<int32_t> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i % 10);
  return from(s, values, {32});
}

double resident_kib() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident * (sysconf(_SC_PAGESIZE) / 1024));
}

// Runs a step count times after some to warm up: what the context holds, and the process where
// nothing else keeps freed memory back, has not grown.
template <typename Body>
void soak(Session& s, int count, Body body) {
  for (int i = 0; i < kWarm; ++i) body();
  size_t before = 0, after = 0;
  OK(aster_ml_context_count_bytes(&before, nullptr, &s.context));
  const double resident = resident_kib();
  for (int i = 0; i < count; ++i) body();
  OK(aster_ml_context_count_bytes(&after, nullptr, &s.context));
  EXPECT_EQ(after, before);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_kib() - resident, 512);
#else
  static_cast<void>(resident);
#endif
}

TEST(Soak, CapturedStepsHoldNoMore) {
  Session s;
  Net net(s);
  T x = data(s, {32, 16}), targets = labels(s);
  aster_ml_lazy* inputs[] = {&x.h, &targets.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 2));
  T loss = net.step(x, targets);
  aster_ml_lazy* outputs[] = {&loss.h};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, &s.context, outputs, 1));
  aster_ml_tensor given[2], result{};
  OK(aster_ml_lazy_view(&given[0], &x.h));
  OK(aster_ml_lazy_view(&given[1], &targets.h));
  OK(aster_ml_program_run(&program, nullptr, given, 2, &result, 1));
  const float first = *static_cast<const float*>(result.storage.data);
  soak(s, 3000, [&] {
    EXPECT_OK(aster_ml_tensor_free(&result));
    EXPECT_OK(aster_ml_program_run(&program, nullptr, given, 2, &result, 1));
  });
  EXPECT_LT(*static_cast<const float*>(result.storage.data), first);  // it trained meanwhile
  OK(aster_ml_tensor_free(&result));
  OK(aster_ml_program_free(&program));
}

TEST(Soak, StepsBuiltAnewHoldNoMoreAndHitTheScheduleCache) {
  Session s;
  Net net(s);
  T targets = labels(s);
  uint32_t seed = 0;
  const auto step = [&] {
    aster_ml_scope scope{};
    EXPECT_OK(aster_ml_scope_begin(&scope, &s.context));
    net.step(data(s, {32, 16}, ++seed), targets);
    EXPECT_OK(aster_ml_scope_end(&scope));
  };
  step();
  const aster_ml_engine_counters before = s.counters();
  soak(s, 1000, step);
  const aster_ml_engine_counters after = s.counters();
  EXPECT_EQ(after.schedule_misses, before.schedule_misses);
  EXPECT_EQ(after.schedule_hits - before.schedule_hits, 1000u + kWarm);
  EXPECT_EQ(after.kernels_compiled, before.kernels_compiled);
}

}  // namespace
}  // namespace programs
