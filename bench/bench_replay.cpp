// What a captured schedule costs beside its arithmetic, and a whole captured training step.
#include <benchmark/benchmark.h>

#include "models.h"

namespace {

using namespace bench;

// A chain of kernels on 8 floats, each realised alone so that nothing fuses.
void TinyKernels(benchmark::State& state) {
  Session s;
  const Tensor x = data({8}, 1), y = data({8}, 2, 0.01f);
  Step step({x}, [&] {
    Tensor z = x;
    for (int64_t i = 0; i < state.range(0); ++i) z = (z + y).realized();
    return z;
  });
  for (auto _ : state) step.run();
  state.counters["kernels"] = step.kernels();
  state.counters["s/kernel"] = benchmark::Counter(
      step.kernels(), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
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

// A hundred operations on 8 floats: one kernel, and what calling it takes.
void ChainCall(benchmark::State& state) {
  Session s;
  const Tensor x = data({8}, 1), y = data({8}, 2, 0.01f);
  Step step({x}, [&] {
    Tensor z = x;
    for (int i = 0; i < 50; ++i) z = z * y + x;
    return z;
  });
  for (auto _ : state) step.run();
  state.counters["kernels"] = step.kernels();
}

void DigitsStep(benchmark::State& state) {
  Session s;
  const Digits net;
  const Tensor images = data({128, 64}, 1), targets = labels(128, 10);
  Step step({images, targets}, [&] { return net.run(images, targets); });
  for (auto _ : state) step.run();
  state.counters["kernels"] = step.kernels();
}

void PerceptronCall(benchmark::State& state) {
  Session s;
  const Perceptron net;
  const Tensor x = data({state.range(0), 784}, 1);
  Step step({x}, [&] { return net(x); });
  for (auto _ : state) step.run();
  state.counters["kernels"] = step.kernels();
}

#define REPLAY(name) BENCHMARK(name)->Unit(benchmark::kMicrosecond)->MinTime(0.05)
REPLAY(TinyKernels)->Arg(1)->Arg(50)->Arg(400);
REPLAY(TinyKernelsByHand)->Arg(50);
REPLAY(ChainCall);
REPLAY(DigitsStep);
REPLAY(PerceptronCall)->Arg(1)->Arg(128);

}  // namespace

BENCHMARK_MAIN();
