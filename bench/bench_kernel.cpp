// Kernels for other libraries against code by hand that is compiled with the same flags: a call of
// one element against a C function through a pointer; assignments, operations and reductions on
// arrays that lie next to each other, two apart, backwards, or are transposed, in the cache (16,384
// elements) and in memory (16,777,216).
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "aster_ml/dtype.h"
#include "aster_ml/kernel.h"

namespace {

void check(int status) {
  if (status >= 0) return;
  std::fprintf(stderr, "no kernel\n");
  std::exit(1);
}

struct Kernel {
  aster_ml_context context{};
  aster_ml_dynamic_kernel_instance k{};

  Kernel() { check(-aster_ml_context_init(&context, nullptr)); }
  ~Kernel() {
    k.kernel->destructor(k.kernel);
    k.free_func(k.kernel);
    aster_ml_context_free(&context);
  }
  Kernel(const Kernel&) = delete;
  template <typename Function>
  Function function() const {
    return reinterpret_cast<Function>(k.kernel->function);
  }
};

template <typename T>
constexpr int32_t kCode = 0;
template <>
constexpr int32_t kCode<int16_t> = ASTER_ML_DTYPE_INT16;
template <>
constexpr int32_t kCode<int32_t> = ASTER_ML_DTYPE_INT32;
template <>
constexpr int32_t kCode<float> = ASTER_ML_DTYPE_FLOAT32;
template <>
constexpr int32_t kCode<double> = ASTER_ML_DTYPE_FLOAT64;

void by_hand(char* dst, const char* src, aster_ml_kernel_data_prefix*) {
  *reinterpret_cast<int32_t*>(dst) = static_cast<int32_t>(*reinterpret_cast<const int16_t*>(src));
}

void Call(benchmark::State& state) {
  Kernel made;
  check(aster_ml_kernel_get_assignment(&made.k, &made.context, ASTER_ML_KERNEL_SINGLE,
                                       ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_INT16));
  auto* function = state.range(0) == 0 ? by_hand : made.function<aster_ml_unary_single>();
  int16_t from = 3;
  int32_t to = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(function);
    function(reinterpret_cast<char*>(&to), reinterpret_cast<const char*>(&from), made.k.kernel);
    benchmark::DoNotOptimize(to);
  }
}

// How operands lie, in elements: rows of `length`, each apart from the last one.
struct Layout {
  ptrdiff_t step, apart;
  ptrdiff_t first;
  size_t rows, length, room;
};
enum { kContiguous, kSecond, kBackwards, kTransposed };
Layout layout_of(int64_t kind, size_t count) {
  const size_t side = count == 16384 ? 128 : 4096;
  const auto last = static_cast<ptrdiff_t>(count) - 1;
  switch (kind) {
    case kSecond:
      return {2, 0, 0, 1, count, 2 * count};
    case kBackwards:
      return {-1, 0, last, 1, count, count};
    case kTransposed:
      return {static_cast<ptrdiff_t>(side), 1, 0, side, side, count};
    default:
      return {1, 0, 0, 1, count, count};
  }
}

// dst = src of another dtype.
template <typename To, typename From>
void Assign(benchmark::State& state) {
  Kernel made;
  check(aster_ml_kernel_get_assignment(&made.k, &made.context, ASTER_ML_KERNEL_STRIDED, kCode<To>,
                                       kCode<From>));
  auto* function = made.function<aster_ml_unary_strided>();
  const Layout at = layout_of(state.range(1), static_cast<size_t>(state.range(2)));
  std::vector<From> from(at.room, From(1));
  std::vector<To> to(at.rows * at.length);
  for (auto _ : state) {
    for (size_t row = 0; row < at.rows; ++row) {
      const From* src = from.data() + at.first + static_cast<ptrdiff_t>(row) * at.apart;
      To* dst = to.data() + row * at.length;
      if (state.range(0) == 0) {
        for (size_t i = 0; i < at.length; ++i)
          dst[i] = static_cast<To>(src[static_cast<ptrdiff_t>(i) * at.step]);
      } else {
        function(reinterpret_cast<char*>(dst), sizeof(To), reinterpret_cast<const char*>(src),
                 at.step * static_cast<ptrdiff_t>(sizeof(From)), at.length, made.k.kernel);
      }
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}

// dst = src + other.
template <typename T>
void Add(benchmark::State& state) {
  Kernel made;
  check(aster_ml_kernel_get_elementwise(&made.k, &made.context, ASTER_ML_KERNEL_STRIDED, "add",
                                        kCode<T>));
  auto* function = made.function<aster_ml_binary_strided>();
  const Layout at = layout_of(state.range(1), static_cast<size_t>(state.range(2)));
  const std::vector<T> from(at.room, T(1)), other(at.rows * at.length, T(2));
  std::vector<T> to(at.rows * at.length);
  constexpr ptrdiff_t kSize = sizeof(T);
  for (auto _ : state) {
    for (size_t row = 0; row < at.rows; ++row) {
      const T* src = from.data() + at.first + static_cast<ptrdiff_t>(row) * at.apart;
      const T* beside = other.data() + row * at.length;
      T* dst = to.data() + row * at.length;
      if (state.range(0) == 0) {
        for (size_t i = 0; i < at.length; ++i)
          dst[i] = src[static_cast<ptrdiff_t>(i) * at.step] + beside[i];
      } else {
        function(reinterpret_cast<char*>(dst), kSize, reinterpret_cast<const char*>(src),
                 at.step * kSize, reinterpret_cast<const char*>(beside), kSize, at.length,
                 made.k.kernel);
      }
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}

// The sum of each row; of one array in four parts by hand, as an addition waits for the last one.
template <typename T>
void Sum(benchmark::State& state) {
  Kernel made;
  check(aster_ml_kernel_get_reduction(&made.k, &made.context, ASTER_ML_KERNEL_STRIDED, "sum",
                                      kCode<T>));
  auto* function = made.function<aster_ml_reduce_strided>();
  const Layout at = layout_of(state.range(1), static_cast<size_t>(state.range(2)));
  const std::vector<T> from(at.room, T(1));
  std::vector<T> to(at.rows);
  constexpr ptrdiff_t kSize = sizeof(T);
  const T* first = from.data() + at.first;
  for (auto _ : state) {
    if (state.range(0) == 1) {
      function(reinterpret_cast<char*>(to.data()), kSize, reinterpret_cast<const char*>(first),
               at.apart * kSize, at.rows, at.step * kSize, at.length, made.k.kernel);
    } else if (at.rows > 1) {  // columns: row by row of the matrix
      for (T& sum : to) sum = 0;
      for (size_t i = 0; i < at.length; ++i) {
        for (size_t row = 0; row < at.rows; ++row)
          to[row] +=
              first[static_cast<ptrdiff_t>(i) * at.step + static_cast<ptrdiff_t>(row) * at.apart];
      }
    } else {
      T parts[4] = {};
      for (size_t i = 0; i < at.length; i += 4) {
        for (size_t k = 0; k < 4; ++k) parts[k] += first[static_cast<ptrdiff_t>(i + k) * at.step];
      }
      to[0] = parts[0] + parts[1] + parts[2] + parts[3];
    }
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}

void all(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"kernel", "layout", "count"});
  for (const int64_t count : {16384, 16777216}) {
    for (const int64_t layout : {kContiguous, kSecond, kBackwards, kTransposed}) {
      bench->Args({0, layout, count})->Args({1, layout, count});
    }
  }
}

BENCHMARK(Call)->ArgName("kernel")->Arg(0)->Arg(1);
BENCHMARK(Assign<double, float>)->Apply(all);
BENCHMARK(Assign<float, float>)->Apply(all);
BENCHMARK(Assign<int32_t, int16_t>)->Apply(all);
BENCHMARK(Assign<float, double>)->Apply(all);
BENCHMARK(Add<float>)->Apply(all);
BENCHMARK(Add<double>)->Apply(all);
BENCHMARK(Sum<float>)->Apply(all);
BENCHMARK(Sum<double>)->Apply(all);

}  // namespace

BENCHMARK_MAIN();
