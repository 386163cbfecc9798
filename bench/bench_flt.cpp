// flt256 and flt512 against plain loops of MPFR over numbers in flat memory: both in one run, each
// pair of rows one after the other.
#include <benchmark/benchmark.h>
#include <mpfr.h>

#include <random>
#include <vector>

#include "aster_ml/flt.h"

namespace {

constexpr size_t kCount = 1024;

struct Format {
  int32_t dtype;
  size_t words;
  mpfr_prec_t precision;
};
constexpr Format kFormats[] = {{ASTER_ML_DTYPE_FLT256, 4, 237}, {ASTER_ML_DTYPE_FLT512, 8, 489}};

// Numbers of about 1 to 16, full significands; of both signs or positive.
std::vector<uint64_t> numbers(const Format& f, uint64_t seed, bool signs = false) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> out(kCount * f.words);
  const int bits = f.words == 4 ? 44 : 40;
  const uint64_t bias = f.words == 4 ? 262143 : 4194303;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = random();
    if (i % f.words != f.words - 1) continue;
    const uint64_t sign = signs ? out[i] & uint64_t{1} << 63 : 0;
    out[i] = sign | (out[i] & ((uint64_t{1} << bits) - 1)) | (bias + random() % 4) << bits;
  }
  return out;
}

void ours(benchmark::State& state, int32_t operation) {
  const Format& f = kFormats[state.range(0)];
  const std::vector<uint64_t> a = numbers(f, 1), b = numbers(f, 2), c = numbers(f, 3);
  std::vector<uint64_t> out(kCount * f.words);
  const void* const at[] = {a.data(), b.data(), c.data()};
  for (auto _ : state) {
    aster_ml_flt_apply(out.data(), nullptr, operation, f.dtype, 0, at, nullptr, kCount);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kCount));
}

class MpfrNumbers {
 public:
  MpfrNumbers(const Format& f, uint64_t seed) : limbs_(numbers(f, seed)), numbers_(kCount) {
    for (size_t i = 0; i < kCount; ++i) {
      uint64_t* const m = &limbs_[i * f.words];
      const int bits = f.words == 4 ? 44 : 40;
      const auto exponent =
          static_cast<mpfr_exp_t>(m[f.words - 1] >> bits & (f.words == 4 ? 0x7ffff : 0x7fffff)) -
          (f.words == 4 ? 262142 : 4194302);
      m[f.words - 1] |= uint64_t{1} << 63;
      m[0] &= ~uint64_t{0} << (64 * f.words - static_cast<size_t>(f.precision));
      mpfr_custom_init_set(&numbers_[i], MPFR_REGULAR_KIND, exponent, f.precision, m);
    }
  }
  mpfr_ptr operator[](size_t i) { return &numbers_[i]; }

 private:
  std::vector<uint64_t> limbs_;
  std::vector<__mpfr_struct> numbers_;
};

template <typename Call>
void mpfrs(benchmark::State& state, const Call& call) {
  const Format& f = kFormats[state.range(0)];
  MpfrNumbers a(f, 1), b(f, 2), c(f, 3), out(f, 4);
  for (auto _ : state) {
    for (size_t i = 0; i < kCount; ++i) call(out[i], a[i], b[i], c[i]);
    benchmark::DoNotOptimize(out[0]);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kCount));
}

#define PAIR(name, operation, call)                                                       \
  void name##_ours(benchmark::State& state) { ours(state, operation); }                   \
  void name##_mpfr(benchmark::State& state) {                                             \
    mpfrs(state, [](mpfr_ptr y, [[maybe_unused]] mpfr_ptr a, [[maybe_unused]] mpfr_ptr b, \
                    [[maybe_unused]] mpfr_ptr c) { call; });                              \
  }                                                                                       \
  BENCHMARK(name##_ours)->Arg(0)->Arg(1);                                                 \
  BENCHMARK(name##_mpfr)->Arg(0)->Arg(1)

PAIR(add, ASTER_ML_FLT_ADD, mpfr_add(y, a, b, MPFR_RNDN));
PAIR(mul, ASTER_ML_FLT_MUL, mpfr_mul(y, a, b, MPFR_RNDN));
PAIR(fma, ASTER_ML_FLT_FMA, mpfr_fma(y, a, b, c, MPFR_RNDN));
PAIR(div, ASTER_ML_FLT_DIV, mpfr_div(y, a, b, MPFR_RNDN));
PAIR(sqrt, ASTER_ML_FLT_SQRT, mpfr_sqrt(y, a, MPFR_RNDN));
PAIR(exp, ASTER_ML_FLT_EXP, mpfr_exp(y, a, MPFR_RNDN));

// Dot products of 1,024 terms: rounded once, against a rounding a term.
void dot_ours(benchmark::State& state) {
  const Format& f = kFormats[state.range(0)];
  const std::vector<uint64_t> a = numbers(f, 1), b = numbers(f, 2);
  uint64_t out[8];
  for (auto _ : state) {
    aster_ml_flt_dot(out, nullptr, f.dtype, 0, a.data(), b.data(), nullptr, kCount);
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kCount));
}
void dot_mpfr(benchmark::State& state) {
  mpfrs(state,
        [](mpfr_ptr, mpfr_ptr a, mpfr_ptr b, mpfr_ptr c) { mpfr_fma(c, a, b, c, MPFR_RNDN); });
}
BENCHMARK(dot_ours)->Arg(0)->Arg(1);
BENCHMARK(dot_mpfr)->Arg(0)->Arg(1);

// Products of n by n matrices, MFLOP/s (2 n^3): by residues, on one thread and on two, against
// MPFR's loop with a rounding a term, of which a part of the rows is enough.
void matmul(benchmark::State& state, const aster_ml_context* context) {
  const Format& f = kFormats[state.range(0)];
  const auto n = static_cast<size_t>(state.range(1));
  std::vector<uint64_t> a, b, out(n * n * f.words);
  while (a.size() < out.size()) {
    const std::vector<uint64_t> more = numbers(f, a.size(), true),
                                other = numbers(f, a.size() + 1, true);
    a.insert(a.end(), more.begin(), more.end());
    b.insert(b.end(), other.begin(), other.end());
  }
  for (auto _ : state) {
    aster_ml_flt_matmul(out.data(), context, f.dtype, 0, a.data(), b.data(), n, n, n, nullptr);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["MFLOP/s"] = benchmark::Counter(2e-6 * static_cast<double>(n * n * n),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
void matmul_ours(benchmark::State& state) { matmul(state, nullptr); }
void matmul_threads(benchmark::State& state) {
  aster_ml_context_options options = {};
  options.struct_size = sizeof(options);
  options.threads = static_cast<int32_t>(state.range(2));
  aster_ml_context context;
  if (aster_ml_context_init(&context, &options) != 0) return state.SkipWithError("no context");
  matmul(state, &context);
  aster_ml_context_free(&context);
}
void matmul_mpfr(benchmark::State& state) {
  const Format& f = kFormats[state.range(0)];
  constexpr size_t kPart = 32;  // 32 by 32 of inner 32
  MpfrNumbers a(f, 1), b(f, 2), c(f, 3);
  for (auto _ : state) {
    for (size_t i = 0; i < kPart; ++i) {
      for (size_t j = 0; j < kPart; ++j) {
        for (size_t k = 0; k < kPart; ++k) {
          mpfr_fma(c[i * kPart + j], a[i * kPart + k], b[k * kPart + j], c[i * kPart + j],
                   MPFR_RNDN);
        }
      }
    }
    benchmark::DoNotOptimize(c[0]);
  }
  state.counters["MFLOP/s"] = benchmark::Counter(2e-6 * kPart * kPart * kPart,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(matmul_ours)
    ->ArgsProduct({{0, 1}, {16, 32, 64, 128, 256, 512, 1024}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(matmul_threads)
    ->ArgsProduct({{0, 1}, {256, 1024}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(matmul_mpfr)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
