// What a captured schedule costs beside its arithmetic, and a whole captured training step.
#include <benchmark/benchmark.h>

#include "models.h"

namespace {

using namespace bench;

// A chain of kernels on 8 floats, each realised alone so that nothing fuses.
void TinyKernels(benchmark::State& state) {
  Session s;
  T x = data(s, {8}, 1), y = data(s, {8}, 2, 0.01f);
  Step step(s, {x}, [&](auto& in) {
    T z = in[0];
    for (int64_t i = 0; i < state.range(0); ++i) {
      z = z + y;
      realize({&z});
    }
    return std::vector{z};
  });
  for (auto _ : state) step.run();
  const double kernels = static_cast<double>(step.kernels());
  state.counters["kernels"] = kernels;
  state.counters["s/kernel"] = benchmark::Counter(
      kernels, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// The same arithmetic called by pointers.
void TinyKernelsByHand(benchmark::State& state) {
  const std::vector<float> y = noise(8, 2, 0.01f);
  std::vector<float> memory(static_cast<size_t>(state.range(0) + 1) * 8, 1);
  void (*volatile add)(float*, const float*, const float*) = [](float* out, const float* a,
                                                                const float* b) {
    for (int i = 0; i < 8; ++i) out[i] = a[i] + b[i];
  };
  for (auto _ : state) {
    float* at = memory.data();
    for (int64_t i = 0; i < state.range(0); ++i, at += 8) add(at + 8, at, y.data());
    benchmark::ClobberMemory();
  }
}

void DigitsStep(benchmark::State& state) {
  Session s;
  Digits net(s);
  T images = data(s, {128, 64}, 1), targets = labels(s, 128, 10);
  Step step(s, {images, targets}, [&](auto& in) { return std::vector{net.run(in[0], in[1])}; });
  for (auto _ : state) step.run();
  state.counters["kernels"] = static_cast<double>(step.kernels());
}

void PerceptronCall(benchmark::State& state) {
  Session s;
  Perceptron net(s);
  Step step(s, {data(s, {state.range(0), 784}, 1)},
            [&](auto& in) { return std::vector{net(in[0])}; });
  for (auto _ : state) step.run();
  state.counters["kernels"] = static_cast<double>(step.kernels());
}

#define REPLAY(name) BENCHMARK(name)->Unit(benchmark::kMicrosecond)->MinTime(0.05)
REPLAY(TinyKernels)->Arg(1)->Arg(50)->Arg(400);
REPLAY(TinyKernelsByHand)->Arg(50);
REPLAY(DigitsStep);
REPLAY(PerceptronCall)->Arg(1)->Arg(128);

}  // namespace

BENCHMARK_MAIN();
