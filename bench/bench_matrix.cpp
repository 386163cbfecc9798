// Products of small matrices: one call from C, and the template inlined, beside OpenBLAS.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include "aster_ml/matrix.h"
#include "aster_ml/matrix.hpp"

namespace {

using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float* a, int lda, const float* b, int ldb, float beta, float* c,
                      int ldc);

Gemm openblas() {
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Gemm>(dlsym(library, "cblas_sgemm"));
}

template <typename Matrix>
void fill(Matrix* m) {
  for (size_t i = 0; i < sizeof(m->at) / sizeof(float); ++i) {
    m->at[i] = static_cast<float>(i % 5) - 2;
  }
}

template <typename Matrix, int kSize, auto kCall>
void c_call(benchmark::State& state) {
  Matrix a, b, out;
  fill(&a), fill(&b);
  for (auto _ : state) {
    benchmark::DoNotOptimize(&a);
    kCall(&out, &a, &b);
    benchmark::DoNotOptimize(&out);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * kSize * kSize * kSize,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

template <typename Matrix, int kSize>
void blas(benchmark::State& state) {
  const Gemm gemm = openblas();
  if (gemm == nullptr) return state.SkipWithError("no OpenBLAS");
  Matrix a, b, out;
  fill(&a), fill(&b);
  for (auto _ : state) {
    benchmark::DoNotOptimize(&a);
    gemm(102, 111, 111, kSize, kSize, kSize, 1, a.at, kSize, b.at, kSize, 0, out.at, kSize);
    benchmark::DoNotOptimize(&out);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * kSize * kSize * kSize,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

template <size_t kSize>
void inlined(benchmark::State& state) {
  aster_ml::matrix<float, kSize, kSize> a = a.identity(), b = a + a;
  for (auto _ : state) {
    benchmark::DoNotOptimize(a.data());
    benchmark::DoNotOptimize(b.data());
    benchmark::ClobberMemory();
    auto out = a * b;
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * kSize * kSize * kSize,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(c_call<aster_ml_mat4f, 4, aster_ml_matrix_matmul_4f>)->Name("4x4/call");
BENCHMARK(inlined<4>)->Name("4x4/inlined");
BENCHMARK(blas<aster_ml_mat4f, 4>)->Name("4x4/openblas");
BENCHMARK(c_call<aster_ml_mat8f, 8, aster_ml_matrix_matmul_8f>)->Name("8x8/call");
BENCHMARK(inlined<8>)->Name("8x8/inlined");
BENCHMARK(blas<aster_ml_mat8f, 8>)->Name("8x8/openblas");

}  // namespace

BENCHMARK_MAIN();
