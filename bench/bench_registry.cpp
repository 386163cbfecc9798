// What the registry costs where all its policies are "default": building and realising a step of
// operations that it knows, in a context that nobody has set anything in, and beside it, turn by
// turn, in one that has policies of other operations, so that each operation looks for its own.
// Ratios near 1 say that neither can be seen.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "aster.h"
#include "engine/engine.h"
#include "uop/composite.h"

namespace {

using namespace bench;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Eight operations of the registry's, small, so that what is measured is building and scheduling.
double step(const Tensor& x, const Tensor& w) {
  const double start = seconds();
  Tensor y = x;
  for (int i = 0; i < 4; ++i) y = y.matmul(w).softmax(-1);
  check(y.realize());
  return seconds() - start;
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// The set's time over the plain one's; "again": the plain one's over itself, what noise is.
void Default(benchmark::State& state) {
  Session plain;
  const Tensor x = data({8, 16}, 1), w = data({16, 16}, 2);
  Session set;
  check(aster_ml::registry::set_policies(
      R"({"conv2d": "force=generated", "max_pool2d": "force=generated"})"));
  const Tensor x_set = data({8, 16}, 1), w_set = data({16, 16}, 2);
  std::vector<double> first, second, third;
  for (auto _ : state) {
    first.push_back(step(x, w));
    second.push_back(step(x_set, w_set));
    third.push_back(step(x, w));
  }
  const double usual = median(first);
  state.counters["us"] = usual * 1e6;
  state.counters["set"] = median(second) / usual;
  state.counters["again"] = median(third) / usual;
}

// All that the registry adds to an operation that is built where policies are "default": beside it
// stands what building and realising one takes, above.
void Choose(benchmark::State& state) {
  Session s;
  const Tensor y = data({8, 16}, 1).matmul(data({16, 16}, 2));
  const aster_ml_uop* named = nullptr;
  check(aster_ml_lazy_to_uop(&named, y.get()) == ASTER_ML_OK);
  auto* node = reinterpret_cast<aster::uop::Node>(named);
  while (node->op != aster::uop::Op::kCall) node = node->src(0);
  aster::engine::Engine* engine = nullptr;
  check(aster::engine::engine_of(&engine, *aster::context_of(s.get())).ok());
  const auto composite = static_cast<aster::uop::Composite>(node->arg(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(aster::uop::choose(engine->graph, composite, node->arg().subspan(1),
                                                node->src().subspan(1), node));
  }
  check(aster_ml_uop_release(s.get(), named) == ASTER_ML_OK);
}

BENCHMARK(Default)->Unit(benchmark::kMicrosecond);
BENCHMARK(Choose);

}  // namespace

BENCHMARK_MAIN();
