// Kernel programs written by hand against those that are planned for the same graphs, as C: one
// thread, the widest vectors of this CPU, by each compiler. ASTER_BENCH_SHOW=1 prints both texts.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../tests/codegen/program_texts.h"
#include "codegen/codegen.h"
#include "codegen/render_c.h"
#include "kernels.h"
#include "uop/symbolic.h"

namespace {

using namespace aster;
using bench::target;
using dtype::DType;
using uop::Node;
using uop::Op;

constexpr DType kF32 = DType::kFloat32;

Node at(uop::Graph& g, std::vector<std::pair<Node, int64_t>> terms) {
  Node out = g.index(0);
  for (auto [node, k] : terms) out = uop::sym::add(g, out, uop::sym::mul(g, node, k));
  return out;
}
Node load(uop::Graph& g, int slot, int64_t count, Node index) {
  return g.make(Op::kLoad, kF32,
                std::array{g.param(slot, kF32, std::array<int64_t, 1>{count}), index});
}
Node fold(uop::Graph& g, Node value, std::vector<Node> ranges) {
  ranges.insert(ranges.begin(), value);
  return g.make(Op::kFold, kF32, {ranges.data(), ranges.size()},
                std::array{static_cast<uop::Word>(Op::kAdd)});
}
Node store(uop::Graph& g, int slot, int64_t count, Node index, Node value,
           std::vector<Node> ranges) {
  ranges.insert(ranges.begin(), {g.param(slot, kF32, std::array<int64_t, 1>{count}), index, value});
  return g.sink(std::array{g.make(Op::kStore, DType::kNone, {ranges.data(), ranges.size()})});
}

Node row_sum(uop::Graph& g) {
  Node i = g.range(0, 64), k = g.range(1, 512);
  Node x = load(g, 0, 32768, at(g, {{i, 512}, {k, 1}}));
  Node y = g.alu(Op::kAdd, g.alu(Op::kMul, x, load(g, 1, 512, k)), load(g, 2, 512, k));
  return store(g, 3, 64, i, fold(g, y, {k}), {i});
}
// Weights packed as the program has them, or as a tensor of filters.
template <bool kPacked>
Node conv3x3(uop::Graph& g) {
  Node o = g.range(0, 2), l = g.range(1, 32), y = g.range(2, 56), x = g.range(3, 56);
  Node c = g.range(4, 64), ky = g.range(5, 3), kx = g.range(6, 3);
  Node pixel = load(g, 0, 215296, at(g, {{y, 58}, {x, 1}, {c, 3364}, {ky, 58}, {kx, 1}}));
  Node weight = load(g, 1, 36864,
                     kPacked ? at(g, {{o, 18432}, {c, 288}, {ky, 96}, {kx, 32}, {l, 1}})
                             : at(g, {{o, 18432}, {l, 576}, {c, 9}, {ky, 3}, {kx, 1}}));
  Node sum = fold(g, g.alu(Op::kMul, pixel, weight), {c, ky, kx});
  Node biased = g.alu(Op::kAdd, sum, load(g, 2, 64, at(g, {{o, 32}, {l, 1}})));
  return store(g, 3, 200704, at(g, {{o, 100352}, {l, 3136}, {y, 56}, {x, 1}}),
               g.alu(Op::kMax, biased, g.constant(kF32, 0)), {o, l, y, x});
}

std::vector<std::vector<float>>& memory() {
  static std::vector<std::vector<float>> params;
  if (params.empty()) {
    for (size_t count : {215296u, 36864u, 512u, 200704u}) {
      params.emplace_back(count);
      for (size_t i = 0; i < count; ++i) {
        params.back()[i] = static_cast<float>((i * 2654435761u >> 7) % 1000) / 500 - 1;
      }
    }
  }
  return params;
}
std::vector<void*> pointers() {
  std::vector<void*> out;
  for (std::vector<float>& p : memory()) out.push_back(p.data());
  return out;
}

void run_graph(benchmark::State& state, Node (*build)(uop::Graph&), const std::string& compiler,
               double flops) {
  uop::Graph graph(process_heap(), false);
  codegen::Rendered rendered(process_heap());
  Text unit(process_heap());
  const codegen::program::RenderedC* one = &rendered.code;
  if (!codegen::render(rendered, graph, build(graph), target()).ok() ||
      !codegen::program::write_unit(unit, {&one, 1}, target()).ok()) {
    return state.SkipWithError("does not render");
  }
  const bench::Function function = bench::find(
      bench::compile(std::string(unit.view()), compiler, target().vector_bytes), rendered.name);
  if (function == nullptr) return state.SkipWithError("does not compile");
  const std::vector<void*> params = pointers();
  for (auto _ : state) {
    function(params.data(), nullptr, nullptr, 0, rendered.tasks);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void run_program(benchmark::State& state, const char* text, const char* name, int64_t tasks,
                 const std::string& compiler, double flops) {
  namespace kp = codegen::program;
  kp::Module module(process_heap());
  kp::RenderedC rendered(process_heap());
  if (!kp::read(&module, text).ok() || !kp::verify(module).ok() ||
      !kp::render_c(rendered, module, target()).ok()) {
    return state.SkipWithError("does not render");
  }
  Text unit(process_heap());
  const kp::RenderedC* one = &rendered;
  if (!kp::write_unit(unit, {&one, 1}, target()).ok()) return state.SkipWithError("no unit");
  const bench::Function function =
      bench::find(bench::compile(std::string(unit.view()), compiler, target().vector_bytes), name);
  if (function == nullptr) return state.SkipWithError("does not compile");
  const std::vector<void*> params = pointers();
  for (auto _ : state) {
    function(params.data(), nullptr, nullptr, 0, tasks);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

// From text to C: reading, verifying, rendering.
void run_text(benchmark::State& state, const char* text) {
  namespace kp = codegen::program;
  for (auto _ : state) {
    kp::Module module(process_heap());
    kp::RenderedC rendered(process_heap());
    if (!kp::read(&module, text).ok() || !kp::verify(module).ok() ||
        !kp::render_c(rendered, module, target()).ok()) {
      return state.SkipWithError("does not render");
    }
    benchmark::DoNotOptimize(rendered.text.view().data());
  }
}

}  // namespace

int main(int argc, char** argv) {
  namespace texts = codegen::program::tests;
  constexpr double kRow = 3.0 * 64 * 512, kConv = 2.0 * 64 * 64 * 9 * 56 * 56;
  for (const std::string compiler : {"clang", "gcc"}) {
    const auto name = [&](const char* what) { return what + ("/" + compiler); };
    benchmark::RegisterBenchmark(name("row_sum/program").c_str(), run_program, texts::kRowSum,
                                 "row_sum", 16, compiler, kRow);
    benchmark::RegisterBenchmark(name("row_sum/planned").c_str(), run_graph, row_sum, compiler,
                                 kRow);
    benchmark::RegisterBenchmark(name("conv3x3/program").c_str(), run_program, texts::kConv3x3,
                                 "conv3x3", 2, compiler, kConv);
    benchmark::RegisterBenchmark(name("conv3x3/planned_packed").c_str(), run_graph, conv3x3<true>,
                                 compiler, kConv);
    benchmark::RegisterBenchmark(name("conv3x3/planned_plain").c_str(), run_graph, conv3x3<false>,
                                 compiler, kConv);
  }
  benchmark::RegisterBenchmark("row_sum/text", run_text, texts::kRowSum);
  benchmark::RegisterBenchmark("conv3x3/text", run_text, texts::kConv3x3);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
