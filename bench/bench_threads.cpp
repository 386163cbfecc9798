// What a second thread gives where a library computes: captured steps by one thread and by
// ASTER_THREADS (2), in turn; times are the best of each, which other work on the machine disturbs
// least, and speedup is their ratio.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "models.h"
#include "runtime/cpu/blas.h"

namespace {

using namespace bench;

// A step, and the tensors that its inputs are views of.
struct Job {
  template <typename Body>
  Job(const std::vector<Tensor>& tensors, Body body) : inputs(tensors), step(inputs, body) {}
  std::vector<Tensor> inputs;
  Step step;
};
using Make = std::function<std::unique_ptr<Job>()>;

struct Timed {
  Timed(int32_t threads, const Make& make) : session(options(threads)), job(make()) {}
  static aster_ml_context_options options(int32_t threads) {
    aster_ml_context_options out{};
    out.threads = threads;
    return out;
  }
  double run() {
    const auto start = std::chrono::steady_clock::now();
    job->step.run();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    seconds.push_back(spent.count());
    return spent.count();
  }
  double best_ms() const { return *std::min_element(seconds.begin(), seconds.end()) * 1e3; }
  Session session;
  std::unique_ptr<Job> job;
  std::vector<double> seconds;
};

template <typename Body>
std::unique_ptr<Job> job(const std::vector<Tensor>& inputs, Body body) {
  return std::make_unique<Job>(inputs, body);
}

void compare(benchmark::State& state, const Make& make) {
  const char* text = std::getenv("ASTER_THREADS");
  Timed one(1, make), several(text == nullptr ? 2 : std::atoi(text), make);
  for (auto _ : state) state.SetIterationTime(one.run() + several.run());
  state.counters["one_ms"] = one.best_ms();
  state.counters["several_ms"] = several.best_ms();
  state.counters["speedup"] = one.best_ms() / several.best_ms();
}

void Product(benchmark::State& state) {
  const int64_t n = state.range(0);
  compare(state, [n] {
    const Tensor a = data({n, n}, 1), b = data({n, n}, 2);
    return job({a, b}, [&] { return a.matmul(b); });
  });
}

void TurnedProduct(benchmark::State& state) {
  const int64_t n = state.range(0);
  compare(state, [n] {
    const Tensor a = data({n, n}, 1), b = data({n, n}, 2);
    return job({a, b}, [&] { return a.matmul(b.T()); });
  });
}

void Convolutions(benchmark::State& state) {
  compare(state, [] {
    const Tensor x = data({8, 64, 56, 56}, 1), w = data({64, 64, 3, 3}, 2, 0.05f);
    return job({x}, [&] { return x.conv2d(w, {}, {.padding = {1}}); });
  });
}

void PerceptronForward(benchmark::State& state) {
  compare(state, [] {
    const Perceptron net;
    const Tensor x = data({128, 784}, 1);
    return job({x}, [&] { return net(x); });
  });
}

// Forward, backward and update of a small convolutional net.
void ConvNetStep(benchmark::State& state) {
  compare(state, [] {
    aster_ml::Windows same;
    same.padding = {1};
    const nn::Conv2d first(3, 32, 3, same), second(32, 64, 3, same), third(64, 64, 3, same);
    const nn::Linear last(64 * 16, 10);
    const nn::Adam adam({{"1.", first}, {"2.", second}, {"3.", third}, {"4.", last}}, 0.001);
    const Tensor x = data({32, 3, 32, 32}, 1), targets = labels(32, 10);
    return job({x, targets}, [&] {
      Tensor y = first(x).relu().max_pool2d();
      y = second(y).relu().max_pool2d();
      y = third(y).relu().max_pool2d();
      return train(adam, last(y.reshape({-1, 64 * 16})), targets);
    });
  });
}

#define TIMED(name) BENCHMARK(name)->UseManualTime()->Unit(benchmark::kMillisecond)
TIMED(Product)->Arg(512)->Arg(1024)->Arg(2048);
TIMED(TurnedProduct)->Arg(512)->Arg(1024);
TIMED(Convolutions);
TIMED(PerceptronForward);
TIMED(ConvNetStep);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto& blas = aster::runtime::cpu::blas();
  benchmark::AddCustomContext("blas", blas.available ? blas.path : "none");
  benchmark::AddCustomContext("blas_config", blas.config);
  benchmark::AddCustomContext("blas_core", blas.core);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
