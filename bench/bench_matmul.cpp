// Captured matrix products against calling OpenBLAS directly on the same arrays. The context says
// which library and which of its kernels answered: Debian's takes new CPUs for old ones if it is
// left to itself.
#include <benchmark/benchmark.h>

#include "hand.h"
#include "models.h"
#include "runtime/cpu/lapack.h"

namespace {

using namespace bench;

struct Product {
  explicit Product(int64_t size)
      : a(data({size, size}, 1)),
        b(data({size, size}, 2)),
        step({a, b}, [&] { return a.matmul(b); }) {}
  Session s;
  Tensor a, b;
  Step step;
};
// One a size, kept: all benchmarks of a size work on the same arrays.
Product& product(int64_t size) {
  static auto* made = new std::vector<std::pair<int64_t, Product*>>;
  for (auto [n, p] : *made) {
    if (n == size) return *p;
  }
  made->emplace_back(size, new Product(size));
  return *made->back().second;
}

void finish(benchmark::State& state) {
  const double n = static_cast<double>(state.range(0));
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * n * n * n, benchmark::Counter::kIsIterationInvariantRate);
}

void Replayed(benchmark::State& state) {
  Step& step = product(state.range(0)).step;
  for (auto _ : state) step.run();
  finish(state);
}

void OpenBlas(benchmark::State& state) {
  const auto& blas = aster::runtime::cpu::blas();
  if (!blas.available) return state.SkipWithError("no OpenBLAS");
  Step& step = product(state.range(0)).step;
  const int n = static_cast<int>(state.range(0));
  const float one = 1, zero = 0;
  for (auto _ : state) {
    // Columns of Fortran are rows here: the operands change places.
    aster::runtime::cpu::lapack<float>()->gemm("N", "N", &n, &n, &n, &one, step.input(1), &n,
                                               step.input(0), &n, &zero, step.output(), &n, 1, 1);
  }
  state.SetLabel(std::string(blas.core));
  finish(state);
}

#define PRODUCT(name) \
  BENCHMARK(name)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond)->MinTime(0.05)
PRODUCT(Replayed);
PRODUCT(OpenBlas);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto& blas = aster::runtime::cpu::blas();
  benchmark::AddCustomContext("blas", blas.available ? blas.path : "none");
  benchmark::AddCustomContext("blas_config", blas.config);
  benchmark::AddCustomContext("blas_core", blas.core);
  benchmark::AddCustomContext("peak_gflops", std::to_string(hand_peak()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
