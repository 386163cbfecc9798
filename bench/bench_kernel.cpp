// Kernels of assignment: a call of one element against a C function through a pointer, the strided
// form against a loop by hand; sums of two arrays by a kernel of the code generator.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "aster_ml/dtype.h"
#include "aster_ml/kernel.h"

namespace {

struct Kernel {
  aster_ml_context context{};
  aster_ml_dynamic_kernel_instance k{};

  Kernel(int32_t form, int32_t to, int32_t from) {
    if (aster_ml_context_init(&context, nullptr) != 0 ||
        aster_ml_kernel_get_assignment(&k, &context, form, to, from) < 0) {
      std::fprintf(stderr, "no kernel\n");
      std::exit(1);
    }
  }
  ~Kernel() {
    k.kernel->destructor(k.kernel);
    k.free_func(k.kernel);
    aster_ml_context_free(&context);
  }
  Kernel(const Kernel&) = delete;
};

void by_hand(char* dst, const char* src, aster_ml_kernel_data_prefix*) {
  *reinterpret_cast<int32_t*>(dst) = static_cast<int32_t>(*reinterpret_cast<const int16_t*>(src));
}

void Call(benchmark::State& state) {
  const Kernel made(ASTER_ML_KERNEL_SINGLE, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_INT16);
  auto* function = state.range(0) == 0
                       ? by_hand
                       : reinterpret_cast<aster_ml_unary_single>(made.k.kernel->function);
  int16_t from = 3;
  int32_t to = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(function);
    function(reinterpret_cast<char*>(&to), reinterpret_cast<const char*>(&from), made.k.kernel);
    benchmark::DoNotOptimize(to);
  }
}

constexpr size_t kCount = size_t{1} << 24;

// Every second float of one array to doubles of another.
void Strided(benchmark::State& state) {
  const Kernel made(ASTER_ML_KERNEL_STRIDED, ASTER_ML_DTYPE_FLOAT64, ASTER_ML_DTYPE_FLOAT32);
  auto* function = reinterpret_cast<aster_ml_unary_strided>(made.k.kernel->function);
  const size_t step = static_cast<size_t>(state.range(1));
  std::vector<float> from(kCount * step, 1.5f);
  std::vector<double> to(kCount);
  for (auto _ : state) {
    if (state.range(0) == 0) {
      for (size_t i = 0; i < kCount; ++i) to[i] = static_cast<double>(from[i * step]);
    } else {
      function(reinterpret_cast<char*>(to.data()), 8, reinterpret_cast<const char*>(from.data()),
               static_cast<ptrdiff_t>(4 * step), kCount, made.k.kernel);
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kCount * (8 + 4 * step)));
}

// a + b of floats, those of a next to each other or every second one.
void Add(benchmark::State& state) {
  aster_ml_context context{};
  aster_ml_dynamic_kernel_instance k{};
  if (aster_ml_context_init(&context, nullptr) != 0 ||
      aster_ml_kernel_get_elementwise(&k, &context, ASTER_ML_KERNEL_STRIDED, "add",
                                      ASTER_ML_DTYPE_FLOAT32) < 0)
    std::exit(1);
  auto* function = reinterpret_cast<aster_ml_binary_strided>(k.kernel->function);
  const size_t step = static_cast<size_t>(state.range(1));
  std::vector<float> a(kCount * step, 1.5f), b(kCount, 2.5f), to(kCount);
  for (auto _ : state) {
    if (state.range(0) == 0) {
      for (size_t i = 0; i < kCount; ++i) to[i] = a[i * step] + b[i];
    } else {
      function(reinterpret_cast<char*>(to.data()), 4, reinterpret_cast<const char*>(a.data()),
               static_cast<ptrdiff_t>(4 * step), reinterpret_cast<const char*>(b.data()), 4, kCount,
               k.kernel);
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kCount * (8 + 4 * step)));
  k.kernel->destructor(k.kernel);
  k.free_func(k.kernel);
  aster_ml_context_free(&context);
}

BENCHMARK(Add)
    ->ArgNames({"kernel", "step"})
    ->Args({0, 1})
    ->Args({1, 1})
    ->Args({0, 2})
    ->Args({1, 2});
BENCHMARK(Call)->ArgName("kernel")->Arg(0)->Arg(1);
BENCHMARK(Strided)
    ->ArgNames({"kernel", "step"})
    ->Args({0, 1})
    ->Args({1, 1})
    ->Args({0, 2})
    ->Args({1, 2});

}  // namespace

BENCHMARK_MAIN();
