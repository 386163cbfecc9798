// Kernels that stream memory, captured and replayed, against loops by hand over the same arrays.
#include <benchmark/benchmark.h>

#include <memory>

#include "hand.h"
#include "models.h"

namespace {

using namespace bench;

constexpr int64_t kSide = 4096;
constexpr size_t kMany = size_t{1} << 24;

// The arrays and the captured steps, made once: hand and kernel read and write the same memory.
struct Arrays {
  Session s;
  Tensor x = data({kSide, kSide}, 1), y = data({kSide, kSide}, 2), a = data({kSide}, 3),
         b = data({kSide}, 4), c = data({kSide}, 5);
  Step add{{x, y}, [&] { return x + y; }};
  Step sums{{x}, [&] { return x.sum(); }};
  Step gelus{{x, a, b, c}, [&] { return (x * a + b).gelu() * c; }};
  Step softmaxes{{x}, [&] { return x.softmax(); }};
};
Arrays& arrays() {
  static auto* made = new Arrays;
  return *made;
}

void finish(benchmark::State& state, size_t streams, double kernels = 0) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(streams * kMany * sizeof(float)));
  if (kernels != 0) state.counters["kernels"] = kernels;
}

void replay(benchmark::State& state, Step& step, size_t streams) {
  for (auto _ : state) step.run();
  finish(state, streams, step.kernels());
}

void AddReplayed(benchmark::State& state) { replay(state, arrays().add, 3); }
void SumReplayed(benchmark::State& state) { replay(state, arrays().sums, 1); }
void GeluReplayed(benchmark::State& state) { replay(state, arrays().gelus, 2); }
void SoftmaxReplayed(benchmark::State& state) { replay(state, arrays().softmaxes, 2); }

void AddByHand(benchmark::State& state) {
  Step& step = arrays().add;
  for (auto _ : state) hand_add(step.output(), step.input(0), step.input(1), kMany);
  finish(state, 3);
}
void AddByHandStreaming(benchmark::State& state) {
  Step& step = arrays().add;
  for (auto _ : state) hand_add_stream(step.output(), step.input(0), step.input(1), kMany);
  finish(state, 3);
}
void SumByHand(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(hand_sum(arrays().sums.input(0), kMany));
  finish(state, 1);
}
void GeluByHand(benchmark::State& state) {
  Step& step = arrays().gelus;
  for (auto _ : state) {
    hand_gelu(step.output(), step.input(0), step.input(1), step.input(2), step.input(3), kSide,
              kSide);
  }
  finish(state, 2);
}
void SoftmaxByHand(benchmark::State& state) {
  Step& step = arrays().softmaxes;
  for (auto _ : state) hand_softmax(step.output(), step.input(0), kSide, kSide);
  finish(state, 2);
}

#define STREAM(name) BENCHMARK(name)->Unit(benchmark::kMillisecond)->MinTime(0.05)
STREAM(AddReplayed);
STREAM(AddByHand);
STREAM(AddByHandStreaming);
STREAM(SumReplayed);
STREAM(SumByHand);
STREAM(GeluReplayed);
STREAM(GeluByHand);
STREAM(SoftmaxReplayed);
STREAM(SoftmaxByHand);

}  // namespace

BENCHMARK_MAIN();
