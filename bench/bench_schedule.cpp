// Building, rewriting and scheduling graphs, the schedule cache off; compiling and running left
// out of the time. What tinygrad takes for the same graphs: bench/schedule_tinygrad.py.
#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>

#include "models.h"

namespace {

using namespace bench;
using Clock = std::chrono::steady_clock;

aster_ml_context_options uncached() {
  aster_ml_context_options options{};
  options.no_schedule_cache = 1;
  return options;
}
double seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Times body, which builds and realises, without the share that the engine's counters say went into
// compiling and running: CPU time, as other programs would count in the wall's. The first call,
// which compiles, is not counted.
template <typename Body>
void measure(benchmark::State& state, Session& s, Body body) {
  double schedule = 0, text = 0;
  body();
  const aster_ml_engine_counters first = s.counters();
  for (auto _ : state) {
    const aster_ml_engine_counters old = s.counters();
    const Clock::time_point begin = Clock::now();
    const double cpu = cpu_seconds();
    body();
    const double used = cpu_seconds() - cpu, all = seconds(begin);
    const aster_ml_engine_counters now = s.counters();
    const double other = now.compile_ms - old.compile_ms + now.run_ms - old.run_ms;
    state.SetIterationTime(used * (1 - other / 1000 / all));
    schedule += (now.schedule_ms - old.schedule_ms) / 1000 / all * used;
    text += (now.compile_ms - old.compile_ms) / 1000 / all * used;
  }
  const aster_ml_engine_counters now = s.counters();
  const double rounds = static_cast<double>(state.iterations());
  state.counters["schedule_ms"] = schedule / rounds * 1000;
  state.counters["schedules"] =
      static_cast<double>(now.schedule_misses - first.schedule_misses) / rounds;
  state.counters["kernels"] = static_cast<double>(now.last_kernels);
  // Every round writes the kernels anew, equal ones once, and finds them compiled.
  const auto launches = static_cast<double>(now.kernels_scheduled - first.kernels_scheduled);
  state.counters["text_us"] = text * 1e6 / launches;
}

void DigitsStep(benchmark::State& state) {
  Session s(uncached());
  const Digits net;
  const Tensor images = data({128, 64}, 1), targets = labels(128, 10);
  measure(state, s, [&] { net.run(images, targets); });
}

void TransformerStack(benchmark::State& state) {
  Session s(uncached());
  const Transformer net(state.range(0), 64, 4);
  const Tensor x = data({1, 16, 64}, 9);
  measure(state, s, [&] { check(net(x).realize()); });
}

// A graph of about n nodes: sums of scaled rows, with a reduction every 50 additions.
void Growth(benchmark::State& state) {
  Session s(uncached());
  const Tensor x = data({16, 16}, 1);
  measure(state, s, [&] {
    Tensor y = x;
    for (int64_t i = 0; i < state.range(0) / 2; ++i) y = i % 25 == 24 ? y.softmax() : y * x + x;
    check(y.realize());
  });
  state.SetComplexityN(state.range(0));
}

// The same without the engine: handles and nodes only.
void Build(benchmark::State& state) {
  Session s;
  const Tensor x = data({16, 16}, 1);
  for (auto _ : state) {
    Tensor y = x;
    for (int64_t i = 0; i < state.range(0) / 2; ++i) y = y * x + x;
    benchmark::DoNotOptimize(y);
  }
  state.SetComplexityN(state.range(0));
}

#define SCHEDULE(name) BENCHMARK(name)->Unit(benchmark::kMillisecond)->MinTime(0.05)
SCHEDULE(DigitsStep)->UseManualTime();
SCHEDULE(TransformerStack)->UseManualTime()->Arg(1)->Arg(2)->Arg(4)->Arg(12);
SCHEDULE(Growth)->UseManualTime()->RangeMultiplier(10)->Range(100, 100000)->Complexity();
SCHEDULE(Build)->RangeMultiplier(10)->Range(100, 100000)->Complexity();

}  // namespace

BENCHMARK_MAIN();
