// What traces, profiles and the registry cost where nobody asks for them: steps of tiny kernels, so
// that launching is what is measured, in a context that never had a trace and, turn by turn, in one
// that had one and ended it. Ratios near 1 say that nothing is left of it; "again" is another
// context that never had one, what noise and places in memory are; "on" is while launches are told.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "aster.h"

namespace {

using namespace bench;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void count(void* self, const aster_ml_launch*) { ++*static_cast<int64_t*>(self); }

// Sixteen kernels that nothing fuses, for each is asked for in memory.
Tensor chain(const Tensor& x, const Tensor& w) {
  Tensor y = x;
  for (int i = 0; i < 16; ++i) y = y.matmul(w).contiguous();
  return y;
}

// A context with its step, captured, and lazy beside it.
struct Side {
  Side() : x(data({4, 8}, 1)), w(data({8, 8}, 2)), step({x, w}, [this] { return chain(x, w); }) {}
  double replayed() {
    const double start = seconds();
    for (int i = 0; i < 20; ++i) step.run();
    return seconds() - start;
  }
  double realized() {
    const double start = seconds();
    Tensor y = chain(x, w);
    check(y.realize());
    return seconds() - start;
  }
  // A profile and what looks at values, begun, used and ended.
  void trace_and_end() {
    aster_ml_trace_config config{};
    config.struct_size = sizeof(config);
    config.debug = ASTER_ML_DEBUG_NAN;
    check(aster_ml_trace_configure(session.get(), &config) == ASTER_ML_OK);
    replayed();
    realized();
    check(aster_ml_trace_configure(session.get(), nullptr) == ASTER_ML_OK);
    tell(true);
    replayed();
    tell(false);
  }
  void tell(bool whether) {
    check(aster_ml_engine_trace(session.get(), whether ? count : nullptr,
                                whether ? &launches : nullptr) == ASTER_ML_OK);
  }

  Session session;
  int64_t launches = 0;
  Tensor x, w;
  Step step;
};

template <double (Side::*Work)()>
void Off(benchmark::State& state) {
  auto plain = std::make_unique<Side>();
  auto other = std::make_unique<Side>();
  auto ended = std::make_unique<Side>();
  ended->trace_and_end();
  check(ended->launches != 0);
  std::vector<double> first, second, third, told;
  int64_t turn = 0;
  for (auto _ : state) {
    for (int i = 0; i < 3; ++i) {  // each comes behind each of the others equally often
      switch ((turn * (turn % 2 == 0 ? 1 : 2) + i * (turn % 2 == 0 ? 1 : 2)) % 3) {
        case 0:
          first.push_back((*plain.*Work)());
          break;
        case 1:
          second.push_back((*ended.*Work)());
          break;
        default:
          third.push_back((*other.*Work)());
      }
    }
    ++turn;
    ended->tell(true);
    told.push_back((*ended.*Work)());
    ended->tell(false);
  }
  const double usual = median(first);
  state.counters["us"] = usual * 1e6;
  state.counters["ended"] = median(second) / usual;
  state.counters["again"] = median(third) / usual;
  state.counters["on"] = median(told) / usual;
}

BENCHMARK(Off<&Side::replayed>)->Name("Replayed")->Iterations(3000);
BENCHMARK(Off<&Side::realized>)->Name("Realized")->Iterations(3000);

}  // namespace

BENCHMARK_MAIN();
