// Many training steps, captured and built anew, in constant memory. bench/bench_steps.cpp runs far
// more of them.
#include <unistd.h>

#include <fstream>

#include "../sanitizers.h"
#include "aster.h"

namespace programs {
namespace {

constexpr int kWarm = 100;

// 16-32-10 with Adam, and one step of it on a batch of 32.
struct Net {
  Tensor step(const Tensor& x, const Tensor& labels) const {
    const Tensor loss = last(first(x).relu()).cross_entropy(labels);
    EXPECT_OK(adam.step(loss));
    return loss;
  }
  aster_ml::nn::Linear first{16, 32}, last{32, 10};
  aster_ml::nn::Adam adam{{{"1.", first}, {"2.", last}}};
};

Tensor labels() {
  Ints values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i % 10);
  return Tensor(values);
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
  const size_t before = s.bytes().first;
  const double resident = resident_kib();
  for (int i = 0; i < count; ++i) body();
  EXPECT_EQ(s.bytes().first, before);
#if !defined(ASTER_TEST_ASAN) && !defined(ASTER_TEST_TSAN)
  EXPECT_LT(resident_kib() - resident, 512);
#else
  static_cast<void>(resident);
#endif
}

TEST(Soak, CapturedStepsHoldNoMore) {
  Session s;
  Net net;
  Tensor x = data({32, 16}), targets = labels();
  aster_ml::Program program({x, targets}, [&] { return net.step(x, targets); });
  OK(program);
  const double first = program({x, targets}).item();
  soak(s, 3000, [&] { EXPECT_OK(program.run({x, targets})); });
  EXPECT_LT(program.outputs()[0].item(), first);  // it trained meanwhile
}

TEST(Soak, StepsBuiltAnewHoldNoMoreAndHitTheScheduleCache) {
  Session s;
  Net net;
  Tensor targets = labels();
  uint32_t seed = 0;
  const auto step = [&] { net.step(data({32, 16}, ++seed), targets); };
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
