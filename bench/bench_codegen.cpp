// Emitted kernels against loops written by hand with the same streams: one thread, the widest
// vectors of this CPU, by each compiler. Arguments as Google Benchmark's; ASTER_BENCH_SHOW=1 prints
// the emitted text.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "../tests/codegen/known_kernels.h"
#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "kernels.h"

namespace {

using namespace aster;
using namespace codegen::tests::known;
using bench::target;

using Vec16 = float __attribute__((vector_size(64)));
using Vec16u = float __attribute__((vector_size(64), aligned(4)));
using Mask16 = int __attribute__((vector_size(64)));

// Work of one kernel: elements of its params, kernel, floating-point operations, bytes that have to
// move.
struct Work {
  std::vector<int64_t> counts;
  Node (*build)(Builder&);
  double flops, bytes;
  void (*hand)(float* const* params);
};

struct Compiled {
  bench::Function function = nullptr;
  long long tasks = 0;
};

Compiled compile(const Work& work, const std::string& compiler) {
  Builder b;
  codegen::Rendered rendered(process_heap());
  if (!codegen::render(rendered, b.graph, work.build(b), target()).ok()) return {};
  Text unit(process_heap());
  const codegen::program::RenderedC* one = &rendered.code;
  if (!codegen::program::write_unit(unit, {&one, 1}, target()).ok()) return {};
  void* handle = bench::compile(std::string(unit.view()), compiler, target().vector_bytes);
  return {bench::find(handle, rendered.name), rendered.tasks};
}

// Memory on 2 MB pages where the system gives them, filled with small numbers; one set for all
// runs.
std::vector<float*> memory(const std::vector<int64_t>& counts) {
  static std::map<size_t, std::pair<char*, size_t>> slots;
  std::vector<float*> out;
  for (size_t i = 0; i < counts.size(); ++i) {
    auto& [at, bytes] = slots[i];
    const size_t need =
        (static_cast<size_t>(counts[i]) * sizeof(float) + (4u << 20)) & ~((2u << 20) - 1u);
    if (bytes < need) {
      if (at != nullptr) munmap(at, bytes);
      at = static_cast<char*>(
          mmap(nullptr, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      madvise(at, need, MADV_HUGEPAGE);
      bytes = need;
      float* f = reinterpret_cast<float*>(at);
      for (size_t k = 0; k < need / sizeof(float); ++k)
        f[k] = static_cast<float>((k * 2654435761u >> 7) % 1000) / 500 - 1;
    }
    out.push_back(reinterpret_cast<float*>(at + i * 1024));
  }
  return out;
}

void report(benchmark::State& state, const Work& work) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GFLOP/s"] = benchmark::Counter(work.flops / 1e9, rate);
  state.counters["GB/s"] = benchmark::Counter(work.bytes / 1e9, rate);
}

// ---- By hand ----

Vec16 spread(float x) { return x - Vec16{}; }
Vec16 at(const float* p) { return *reinterpret_cast<const Vec16u*>(p); }
void put(float* p, Vec16 v) { *reinterpret_cast<Vec16u*>(p) = v; }
Vec16 pick(Mask16 m, Vec16 a, Vec16 b) {
  return reinterpret_cast<Vec16>((m & reinterpret_cast<Mask16>(a)) |
                                 (~m & reinterpret_cast<Mask16>(b)));
}
float sum_lanes(Vec16 v) {
  float s = 0;
  for (int i = 0; i < 16; ++i) s += v[i];
  return s;
}
Vec16 hand_exp(Vec16 x) {
  Vec16 z = pick(x < -87.33654f, spread(-87.33654f), x);
  z = pick(z > 88.72283f, spread(88.72283f), z);
  const Vec16 t = z * 1.44269504f + 12582912.0f;
  const Mask16 n = reinterpret_cast<Mask16>(t) - 0x4B400000;
  const Vec16 k = t - 12582912.0f;
  Vec16 r = z - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  Vec16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * reinterpret_cast<Vec16>((n + 127) << 23);
}

void hand_add(float* const* p) {
  for (int64_t i = 0; i < kMany; i += 16) {
    const Vec16 v = at(p[1] + i) + at(p[2] + i);
    __builtin_ia32_movntps512(p[0] + i, v);
  }
}
void hand_row_sums(float* const* p) {
  for (int64_t r = 0; r < kRows; ++r) {
    const float* x = p[1] + r * kRows;
    Vec16 a = {}, b = {}, c = {}, d = {};
    for (int64_t i = 0; i < kRows; i += 64)
      a += at(x + i), b += at(x + i + 16), c += at(x + i + 32), d += at(x + i + 48);
    p[0][r] = sum_lanes(a + b + c + d);
  }
}
void hand_gelu(float* const* p) {
  for (int64_t i = 0; i < kMany; i += 16) {
    const Vec16 x = at(p[1] + i) * 1.5f + 0.25f;
    const Vec16 u = 0.7978845608f * (x + 0.044715f * x * x * x);
    const Vec16 e = hand_exp(u + u);
    __builtin_ia32_movntps512(p[0] + i, 0.5f * x * (2.0f - 2.0f / (e + 1.0f)) * 0.75f);
  }
}
void hand_softmax(float* const* p) {
  for (int64_t r = 0; r < kRows; ++r) {
    const float* x = p[1] + r * kRows;
    float* o = p[0] + r * kRows;
    Vec16 m = at(x);
    for (int64_t i = 16; i < kRows; i += 16) m = pick(at(x + i) > m, at(x + i), m);
    float most = m[0];
    for (int i = 1; i < 16; ++i) most = m[i] > most ? m[i] : most;
    Vec16 s = {};
    for (int64_t i = 0; i < kRows; i += 16) {
      const Vec16 e = hand_exp(at(x + i) - most);
      put(o + i, e);
      s += e;
    }
    const float inverse = 1 / sum_lanes(s);
    for (int64_t i = 0; i < kRows; i += 16) put(o + i, at(o + i) * inverse);
  }
}
void hand_layernorm(float* const* p) {
  constexpr int64_t n = 1024;
  for (int64_t r = 0; r < kRows; ++r) {
    const float* x = p[1] + r * n;
    Vec16 s = {}, s2 = {}, q = {}, q2 = {};
    for (int64_t i = 0; i < n; i += 32) s += at(x + i), s2 += at(x + i + 16);
    const float mean = sum_lanes(s + s2) / n;
    for (int64_t i = 0; i < n; i += 32) {
      const Vec16 d = at(x + i) - mean, e = at(x + i + 16) - mean;
      q += d * d, q2 += e * e;
    }
    const float inverse = 1 / __builtin_sqrtf(sum_lanes(q + q2) / n + 1e-5f);
    for (int64_t i = 0; i < n; i += 16)
      put(p[0] + r * n + i, (at(x + i) - mean) * inverse * at(p[2] + i) + at(p[3] + i));
  }
}
template <int64_t N>
void hand_matmul(float* const* p) {
  for (int64_t j = 0; j < N; j += 32) {
    for (int64_t i = 0; i < N; i += 8) {
      Vec16 c[8][2] = {};
      for (int64_t k = 0; k < N; ++k) {
        const Vec16 b0 = at(p[2] + k * N + j), b1 = at(p[2] + k * N + j + 16);
#pragma GCC unroll 8
        for (int r = 0; r < 8; ++r) {
          const Vec16 x = spread(p[1][(i + r) * N + k]);
          c[r][0] += x * b0;
          c[r][1] += x * b1;
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r)
        put(p[0] + (i + r) * N + j, c[r][0]), put(p[0] + (i + r) * N + j + 16, c[r][1]);
    }
  }
}

const std::pair<const char*, Work> kWorks[] = {
    {"add_16M", {{kMany, kMany, kMany}, add, kMany, 12.0 * kMany, hand_add}},
    {"row_sums_4096", {{kRows, kMany}, row_sums, kMany, 4.0 * kMany, hand_row_sums}},
    {"column_sums_4096", {{kRows, kMany}, column_sums, kMany, 4.0 * kMany, nullptr}},
    {"argmax_4096", {{kRows, kMany}, argmax, kMany, 4.0 * kMany, nullptr}},
    {"gelu_16M", {{kMany, kMany}, gelu, 20.0 * kMany, 8.0 * kMany, hand_gelu}},
    {"softmax_4096", {{kMany, kMany}, softmax, 20.0 * kMany, 8.0 * kMany, hand_softmax}},
    {"layernorm_4096x1024",
     {{kMany / 4, kMany / 4, 1024, 1024}, layernorm, 2.0 * kMany, 2.0 * kMany, hand_layernorm}},
    {"matmul_256",
     {{65536, 65536, 65536},
      matmul<256, false, false>,
      2.0 * 256 * 256 * 256,
      0,
      hand_matmul<256>}},
    {"matmul_512",
     {{262144, 262144, 262144},
      matmul<512, false, false>,
      2.0 * 512 * 512 * 512,
      0,
      hand_matmul<512>}},
    {"matmul_512_at",
     {{262144, 262144, 262144}, matmul<512, true, false>, 2.0 * 512 * 512 * 512, 0, nullptr}},
    {"matmul_512_bt",
     {{262144, 262144, 262144}, matmul<512, false, true>, 2.0 * 512 * 512 * 512, 0, nullptr}},
    {"matmul_512_abt",
     {{262144, 262144, 262144}, matmul<512, true, true>, 2.0 * 512 * 512 * 512, 0, nullptr}},
    {"matvec_4096", {{kRows, kMany, kRows}, matvec, 2.0 * kMany, 4.0 * kMany, nullptr}},
    {"conv_64_64",
     {{262144, 278784, 36864}, conv<64, 64, false>, 2.0 * 64 * 64 * 9 * 4096, 0, nullptr}},
    {"conv_64_64_pad",
     {{262144, 262144, 36864}, conv<64, 64, true>, 2.0 * 64 * 64 * 9 * 4096, 0, nullptr}},
    {"conv_32_8_pad", {{2048, 2048, 9216}, conv<32, 8, true>, 2.0 * 32 * 32 * 9 * 64, 0, nullptr}},
    {"conv_weight_32_8",
     {{9216, 131072, 131072}, conv_weight, 2.0 * 32 * 32 * 9 * 64 * 64, 0, nullptr}},
    {"max_pool_3_2",
     {{512 * 56 * 56, 512 * 113 * 113},
      max_pool,
      512.0 * 56 * 56 * 9,
      512.0 * 4 * (56 * 56 + 113 * 113),
      nullptr}},
    {"transpose_4096", {{kMany, kMany}, transpose, 0, 8.0 * kMany, nullptr}},
};

void run_emitted(benchmark::State& state, const Work& work, const std::string& compiler) {
  const Compiled code = compile(work, compiler);
  if (code.function == nullptr) return state.SkipWithError("does not compile");
  const std::vector<float*> params = memory(work.counts);
  std::vector<void*> pointers(params.begin(), params.end());
  code.function(pointers.data(), nullptr, nullptr, 0, code.tasks);
  for (auto _ : state) {
    code.function(pointers.data(), nullptr, nullptr, 0, code.tasks);
    benchmark::ClobberMemory();
  }
  report(state, work);
}

// From the kernel's graph to its text, in microseconds: analysing, planning and lowering;
// verifying, which only programs from outside need; rendering.
void run_render(benchmark::State& state, const Work& work) {
  namespace kp = codegen::program;
  const auto now = [] {  // of this thread's CPU
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
  };
  std::array<double, 3> spent{};
  double lines = 0;
  for (auto _ : state) {
    state.PauseTiming();
    Builder b;
    Node kernel = work.build(b);
    state.ResumeTiming();
    kp::Module module(process_heap());
    kp::RenderedC out(process_heap());
    std::array<double, 4> at{now()};
    bool ok = codegen::lower_kernel(&module, "kernel", kernel, target(), b.graph.memory()).ok();
    at[1] = now();
    ok = ok && kp::verify(module, {.vouched = true}).ok();
    at[2] = now();
    ok = ok && kp::render_c(out, module, target()).ok();
    at[3] = now();
    if (!ok) return state.SkipWithError("does not render");
    for (size_t i = 0; i < 3; ++i) spent[i] += at[i + 1] - at[i];
    lines = static_cast<double>(std::ranges::count(out.text.view(), '\n'));
  }
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["lower_us"] = spent[0] / rounds;
  state.counters["verify_us"] = spent[1] / rounds;
  state.counters["render_us"] = spent[2] / rounds;
  state.counters["lines"] = lines;
}

void run_hand(benchmark::State& state, const Work& work) {
  const std::vector<float*> params = memory(work.counts);
  work.hand(params.data());
  for (auto _ : state) {
    work.hand(params.data());
    benchmark::ClobberMemory();
  }
  report(state, work);
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& [name, work] : kWorks) {
    const Work& w = work;
    const std::string n = name;
    if (w.hand != nullptr && target().avx512) {
      benchmark::RegisterBenchmark((n + "/hand").c_str(),
                                   [&w](benchmark::State& state) { run_hand(state, w); });
    }
    benchmark::RegisterBenchmark((n + "/render").c_str(),
                                 [&w](benchmark::State& state) { run_render(state, w); });
    for (const std::string compiler : {"gcc", "clang"}) {
      benchmark::RegisterBenchmark(
          (n + "/" + compiler).c_str(),
          [&w, compiler](benchmark::State& state) { run_emitted(state, w, compiler); });
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
