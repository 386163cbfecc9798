// Portable programs: what loading one of about 1,000 nodes takes, of which all kernels are at hand,
// and with constants that are mapped.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "aster.h"

namespace {

using namespace bench;
using aster_ml::Program;

// A network of blocks of ten operations each: a product with weights, a norm, an activation.
Tensor block(const Tensor& x, int64_t width, uint32_t seed) {
  const Tensor w = data({width, width}, seed, 0.1f), b = data({1, width}, seed + 1);
  const Tensor y = x.matmul(w) + b;
  const Tensor centred = y - y.mean({-1}, true);
  return x + centred * (centred.square().mean({-1}, true) + 1e-5f).rsqrt() * 0.5f;
}

class File {
 public:
  // one_call: one schedule of all; else a realize call a block.
  File(int64_t blocks, int64_t width, bool one_call)
      : path_((std::filesystem::temp_directory_path() /
               ("aster_bench_" + std::to_string(getpid()) + ".aster"))
                  .string()) {
    Session s;
    const Tensor x = data({8, width}, 1);
    const Program program({x}, [&] {
      Tensor y = x;
      for (int64_t i = 0; i < blocks; ++i) {
        y = block(y, width, static_cast<uint32_t>(2 * i + 2));
        if (!one_call) y = y.realized();
      }
      return y;
    });
    check(program.ok() && program.save(path_));
    const std::string text = program.to_bytes(aster_ml::ProgramForm::text);
    for (size_t at = text.find(" = "); at != std::string::npos; at = text.find(" = ", at + 1))
      ++nodes_;
    bytes_ = std::filesystem::file_size(path_);
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  void count(benchmark::State& state, const Program& program) const {
    state.counters["nodes"] = static_cast<double>(nodes_);
    state.counters["bytes"] = static_cast<double>(bytes_);
    state.counters["kernels"] = static_cast<double>(program.kernels());
  }

 private:
  std::string path_;
  size_t nodes_ = 0, bytes_ = 0;
};

// In a context that loaded it before: what a server does that takes models in turn.
void LoadAgain(benchmark::State& state) {
  const File file(state.range(0), state.range(1), state.range(2) != 0);
  Session s;
  const Program first = Program::load(file.path());
  check(first.ok());
  for (auto _ : state) {
    const Program program = Program::load(file.path());
    check(program.ok());
  }
  file.count(state, first);
}

// In a context of its own, kernels and schedules from the disk cache.
void LoadFirst(benchmark::State& state) {
  const File file(state.range(0), state.range(1), state.range(2) != 0);
  Program last;
  for (auto _ : state) {
    state.PauseTiming();
    last = {};
    {
      Session s;
      state.ResumeTiming();
      last = Program::load(file.path());
      check(last.ok());
      state.PauseTiming();
    }
    state.ResumeTiming();
  }
  file.count(state, last);
}

BENCHMARK(LoadAgain)
    ->ArgNames({"blocks", "width", "one_call"})
    ->Args({60, 32, 1})
    ->Args({60, 32, 0})
    ->Args({60, 256, 0})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(LoadFirst)
    ->ArgNames({"blocks", "width", "one_call"})
    ->Args({53, 32, 1})
    ->Args({60, 32, 1})
    ->Args({60, 32, 0})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
