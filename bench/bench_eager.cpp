// Eager calls on few elements, row-major and strided: what one costs beside its work, from C.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "aster_ml/eager.h"
#include "aster_ml/tensor.h"

namespace {

void check(int32_t status) {
  if (status == ASTER_ML_OK) return;
  aster_ml_error error;
  aster_ml_error_last(&error);
  std::fprintf(stderr, "%s: %s\n", error.function, error.message);
  std::exit(1);
}

// 48 floats: row-major, turned, every other one, from the last on, one row for all.
enum { kPlain, kTurned, kSteps, kBack, kRepeated };

void Neg(benchmark::State& state) {
  const ptrdiff_t strides[][2] = {{8, 1}, {1, 6}, {16, 2}, {-8, -1}, {0, 1}};
  const size_t all = 96, shape[] = {6, 8};
  const size_t offset = state.range(0) == kBack ? 47 * sizeof(float) : 0;
  aster_ml_context context;
  aster_ml_tensor memory, x;
  check(aster_ml_context_init(&context, nullptr));
  check(aster_ml_tensor_init(&memory, &context, ASTER_ML_DTYPE_FLOAT32, 0, 1, &all));
  check(aster_ml_tensor_from_buffer(&x, &context, &memory.storage, offset, 2, shape,
                                    strides[state.range(0)]));
  for (auto _ : state) {
    aster_ml_tensor y;
    check(aster_ml_tensor_neg(&y, &context, &x));
    check(aster_ml_tensor_free(&y));
  }
  check(aster_ml_tensor_free(&x));
  check(aster_ml_tensor_free(&memory));
  check(aster_ml_context_free(&context));
}

// Two operands of 48 floats; what a launch of the same kernel in a program costs stands beside it
// in bench_replay.
void Add(benchmark::State& state) {
  const size_t shape[] = {6, 8};
  aster_ml_context context;
  aster_ml_tensor a, b;
  check(aster_ml_context_init(&context, nullptr));
  check(aster_ml_tensor_init(&a, &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape));
  check(aster_ml_tensor_init(&b, &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape));
  for (auto _ : state) {
    aster_ml_tensor y;
    check(aster_ml_tensor_add(&y, &context, &a, &b));
    check(aster_ml_tensor_free(&y));
  }
  check(aster_ml_tensor_free(&a));
  check(aster_ml_tensor_free(&b));
  check(aster_ml_context_free(&context));
}

int32_t realize(aster_ml_lazy& x) {
  aster_ml_lazy* const all[] = {&x};
  return aster_ml_lazy_realize(all, 1);
}

// The same of lazy tensors, realised at once.
void RealizedAdd(benchmark::State& state) {
  const float numbers[48] = {};
  const int64_t shape[] = {6, 8};
  aster_ml_context context;
  aster_ml_lazy a, b, y;
  check(aster_ml_context_init(&context, nullptr));
  check(aster_ml_lazy_from(&a, &context, numbers, ASTER_ML_DTYPE_FLOAT32, 2, shape));
  check(aster_ml_lazy_from(&b, &context, numbers, ASTER_ML_DTYPE_FLOAT32, 2, shape));
  check(realize(a));
  check(realize(b));
  for (auto _ : state) {
    check(aster_ml_lazy_add(&y, &a, &b));
    check(realize(y));
    check(aster_ml_lazy_free(&y));
  }
  check(aster_ml_lazy_free(&a));
  check(aster_ml_lazy_free(&b));
  check(aster_ml_context_free(&context));
}

// What a result is without its kernel: its memory and its descriptor.
void Made(benchmark::State& state) {
  const size_t shape[] = {6, 8};
  aster_ml_context context;
  check(aster_ml_context_init(&context, nullptr));
  for (auto _ : state) {
    aster_ml_tensor y;
    check(aster_ml_tensor_init(&y, &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape));
    check(aster_ml_tensor_free(&y));
  }
  check(aster_ml_context_free(&context));
}

BENCHMARK(Add);
BENCHMARK(RealizedAdd);
BENCHMARK(Made);
BENCHMARK(Neg)->Arg(kPlain)->Arg(kTurned)->Arg(kSteps)->Arg(kBack)->Arg(kRepeated);

}  // namespace

BENCHMARK_MAIN();
