// Products of matrices of sticky integers, against what the CPU multiplies and adds in registers:
// bytes by vpdpbusd, measured in the same run. Of tbb16 to tbb64 a product of elements is 4, 10 and
// 18 of bytes. Sums of 16M of tbb8, against a loop by hand that adds bytes without looking at them.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "aster.h"
#include "hand.h"

namespace {

using namespace bench;

struct Width {
  int32_t code, stored;
};
constexpr Width kWidths[] = {{ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_INT8},
                             {ASTER_ML_DTYPE_TBB16, ASTER_ML_DTYPE_INT16},
                             {ASTER_ML_DTYPE_TBB32, ASTER_ML_DTYPE_INT32},
                             {ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_INT64}};

aster_ml_context_options with(int threads, bool library) {
  aster_ml_context_options options = {};
  options.threads = threads;
  options.no_library = library ? 0 : 1;
  return options;
}

Tensor operand(const Width& w, const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> words(static_cast<size_t>(shape[0] * shape[1]));
  for (int64_t& x : words) x = static_cast<int64_t>(random() | 1);  // never ERR
  Tensor out =
      Tensor(words, shape).cast(aster_ml::Dtype{w.stored}).bitcast(aster_ml::Dtype{w.code});
  check(out.realize());
  return out;
}

struct Product {
  Product(const Width& w, int64_t n, int threads, bool library)
      : session(with(threads, library)),
        a(operand(w, {n, n}, 1)),
        b(operand(w, {n, n}, 2)),
        step({a, b}, [&] { return a.matmul(b); }) {}
  Session session;
  Tensor a, b;
  Step step;
};

void finish(benchmark::State& state, double operations) {
  state.counters["GOP/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void products(benchmark::State& state, bool library) {
  const int64_t n = state.range(1);
  Product product(kWidths[state.range(0)], n, static_cast<int>(state.range(2)), library);
  for (auto _ : state) product.step.run();
  finish(state, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n));
}
void Products(benchmark::State& state) { products(state, true); }
void Generated(benchmark::State& state) { products(state, false); }

#if defined(__x86_64__)
// 2^14 turns of 16 independent sums of 64 products.
[[gnu::target("avx512f,avx512vl,avx512bw,avx512vnni")]] void multiply_bytes() {
  int64_t turns = 1 << 14;
  __asm__ volatile(
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
      "vpdpbusd %%zmm31, %%zmm30, %%zmm\\r\n"
      ".endr\n"
      "dec %0\n"
      "jnz 1b\n"
      : "+r"(turns)
      :
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");
}

void Peak(benchmark::State& state) {
  if (!__builtin_cpu_supports("avx512vnni")) return state.SkipWithError("no vpdpbusd");
  const auto others = static_cast<size_t>(state.range(0)) - 1;
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < others; ++i) {
    threads.emplace_back([&] {
      while (!ended) multiply_bytes();
    });
  }
  for (auto _ : state) multiply_bytes();
  ended = true;
  for (std::thread& thread : threads) thread.join();
  finish(state, static_cast<double>(state.range(0)) * 2.0 * (1 << 14) * 16 * 64);
}
BENCHMARK(Peak)->Arg(1);
BENCHMARK(Peak)->Arg(2)->UseRealTime();
#endif

constexpr int64_t kSide = 4096;
struct Sum {
  Session session{with(1, true)};
  Tensor a = operand(kWidths[0], {kSide, kSide}, 1), b = operand(kWidths[0], {kSide, kSide}, 2);
  Step step{{a, b}, [&] { return a + b; }};
};
// Made once: both read and write the same memory.
Sum& sum() {
  static auto* made = new Sum;
  return *made;
}
void rate(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * 3 * kSide * kSide);
}
void Add(benchmark::State& state) {
  Step& step = sum().step;
  for (auto _ : state) step.run();
  rate(state);
}
void AddByHand(benchmark::State& state) {
  Step& step = sum().step;
  for (auto _ : state)
    hand_add_bytes(step.output(), step.input(0), step.input(1), size_t{kSide * kSide});
  rate(state);
}
BENCHMARK(Add)->Unit(benchmark::kMillisecond)->MinTime(0.1);
BENCHMARK(AddByHand)->Unit(benchmark::kMillisecond)->MinTime(0.1);

// Width, size, threads; by one thread the time is that of the CPU.
BENCHMARK(Products)
    ->ArgsProduct({{0, 1, 2, 3}, {16, 32, 64, 256, 1024}, {1}})
    ->Args({0, 2048, 1})
    ->Args({0, 4096, 1})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.1);
BENCHMARK(Products)
    ->ArgsProduct({{0, 1, 2, 3}, {256, 1024}, {2}})
    ->Args({0, 4096, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.1);
BENCHMARK(Generated)
    ->ArgsProduct({{0, 1, 2, 3}, {16, 32, 64, 256}, {1}})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.05);

}  // namespace

BENCHMARK_MAIN();
