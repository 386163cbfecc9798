// Memory handed to other libraries and taken from them: what one exchange costs, from C.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "aster_ml/dlpack.h"

namespace {

void check(int32_t status) {
  if (status == ASTER_ML_OK) return;
  aster_ml_error error;
  aster_ml_error_last(&error);
  std::fprintf(stderr, "%s: %s\n", error.function, error.message);
  std::exit(1);
}

// A context that knows `known` other pieces of memory.
struct Fixture {
  aster_ml_context context{};
  aster_ml_tensor tensor{};
  aster_ml_buffer* others;
  int64_t known;

  explicit Fixture(int64_t count)
      : others(new aster_ml_buffer[count > 0 ? count : 1]), known(count) {
    const size_t shape[] = {8, 16, 32};
    check(aster_ml_context_init(&context, nullptr));
    check(aster_ml_tensor_init(&tensor, &context, ASTER_ML_DTYPE_FLOAT32, 0, 3, shape));
    for (int64_t i = 0; i < known; ++i) {
      check(aster_ml_buffer_init(&others[i], &context, 64, ASTER_ML_DTYPE_UINT8, 0));
    }
  }
  ~Fixture() {
    for (int64_t i = 0; i < known; ++i) check(aster_ml_buffer_free(&others[i]));
    delete[] others;
    check(aster_ml_tensor_free(&tensor));
    check(aster_ml_context_free(&context));
  }
  Fixture(const Fixture&) = delete;
};

void DlpackExport(benchmark::State& state) {
  Fixture f(state.range(0));
  for (auto _ : state) {
    aster_ml_dlpack_managed* managed;
    check(aster_ml_dlpack_export(&managed, &f.context, &f.tensor, 0));
    managed->deleter(managed);
  }
}

void DlpackImport(benchmark::State& state) {
  Fixture f(state.range(0));
  alignas(64) static float memory[8 * 16 * 32];
  int64_t shape[] = {8, 16, 32};
  aster_ml_dlpack_managed managed{};
  managed.version_major = 1;
  managed.deleter = [](aster_ml_dlpack_managed*) {};
  managed.tensor = {memory, {ASTER_ML_DLPACK_CPU, 0}, 3, {2, 32, 1}, shape, nullptr, 0};
  for (auto _ : state) {
    aster_ml_tensor tensor;
    check(aster_ml_dlpack_import(&tensor, &f.context, &managed));
    check(aster_ml_tensor_free(&tensor));
  }
}

BENCHMARK(DlpackExport)->Arg(0)->Arg(10000);
BENCHMARK(DlpackImport)->Arg(0)->Arg(10000);

}  // namespace

BENCHMARK_MAIN();
