// Many steps in constant memory: 100,000 captured, 10,000 built anew each time. resident_kib is
// the growth after the first hundred.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <fstream>

#include "models.h"

namespace {

using namespace bench;

constexpr int64_t kWarm = 100;

double resident_kib() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

template <typename Body>
void run(benchmark::State& state, Session& s, Body body) {
  for (int64_t i = 0; i < kWarm; ++i) body();
  const aster_ml_engine_counters old = s.counters();
  const double before = resident_kib();
  const size_t held = s.bytes().first;
  for (auto _ : state) body();
  const size_t later = s.bytes().first;
  const aster_ml_engine_counters now = s.counters();
  state.counters["resident_kib"] = resident_kib() - before;
  state.counters["held_bytes"] = static_cast<double>(later) - static_cast<double>(held);
  state.counters["hits"] = static_cast<double>(now.schedule_hits - old.schedule_hits);
  state.counters["misses"] = static_cast<double>(now.schedule_misses - old.schedule_misses);
}

void Captured(benchmark::State& state) {
  Session s;
  const SmallStep net;
  const Tensor x = data({32, 16}, 1), targets = labels(32, 10);
  Step step({x, targets}, [&] { return net.run(x, targets); });
  run(state, s, [&] { step.run(); });
}

void Uncaptured(benchmark::State& state) {
  Session s;
  const SmallStep net;
  const Tensor targets = labels(32, 10);
  uint32_t seed = 0;
  run(state, s, [&] { net.run(data({32, 16}, ++seed), targets); });
}

BENCHMARK(Captured)->Iterations(100000)->Unit(benchmark::kMicrosecond);
BENCHMARK(Uncaptured)->Iterations(10000)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
