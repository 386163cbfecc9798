// Decompositions of wide floats against plain loops of MPFR in one run: elimination with partial
// pivoting, and singular values by one-sided Jacobi rotations, of which a sweep is measured: a
// random matrix of 256 takes 13 of them.
#include <benchmark/benchmark.h>
#include <mpfr.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "runtime/cpu/linalg.h"

namespace {

namespace linalg = aster::runtime::cpu::linalg;
using aster::dtype::DType;
using linalg::What;

struct Format {
  DType dtype;
  size_t words;
  mpfr_prec_t precision;
  int bits;
  uint64_t bias;
};
constexpr Format kFormats[] = {{DType::kFlt256, 4, 237, 44, 262143},
                               {DType::kFlt512, 8, 489, 40, 4194303}};

// Numbers of about 1 to 16 of both signs, full significands.
std::vector<uint64_t> numbers(const Format& f, size_t count) {
  std::mt19937_64 random(count);
  std::vector<uint64_t> out(count * f.words);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = random();
    if (i % f.words != f.words - 1) continue;
    const uint64_t sign = out[i] & uint64_t{1} << 63;
    out[i] = sign | (out[i] & ((uint64_t{1} << f.bits) - 1)) | (f.bias + random() % 4) << f.bits;
  }
  return out;
}

void ours(benchmark::State& state, What what) {
  const Format& f = kFormats[state.range(0)];
  const int64_t n = state.range(1);
  linalg::Problem p{};
  p.what = what;
  p.dtype = f.dtype;
  p.m = p.n = n;
  p.columns = what == What::kSolve ? n : 0;
  p.library = true;
  std::vector<uint64_t> a = numbers(f, static_cast<size_t>(n * n));
  if (what == What::kCholesky || what == What::kEigh) {
    // Much more on the diagonal than beside it.
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      uint64_t& top = a[(i * static_cast<size_t>(n) + i) * f.words + f.words - 1];
      top = (f.bias + 14) << f.bits;
    }
  }
  const linalg::Results sizes = linalg::results_of(p);
  std::vector<std::vector<uint64_t>> memory(sizes.count);
  void* results[linalg::kMostResults] = {};
  for (size_t i = 0; i < sizes.count; ++i) {
    memory[i].resize(static_cast<size_t>(sizes.of[i].count()) * f.words);
    results[i] = memory[i].data();
  }
  const auto bytes = static_cast<size_t>(linalg::scratch_bytes(p)) + 64;
  void* const scratch = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  const void* const operands[] = {a.data(), a.data()};
  for (auto _ : state) {
    if (linalg::compute(p, operands, results, scratch).text != nullptr)
      state.SkipWithError("no result");
  }
  std::free(scratch);
}

class MpfrMatrix {
 public:
  MpfrMatrix(const Format& f, size_t n) : n_(n), limbs_(numbers(f, n * n)), numbers_(n * n) {
    for (size_t i = 0; i < n * n; ++i) {
      uint64_t* const m = &limbs_[i * f.words];
      uint64_t& top = m[f.words - 1];
      const auto exponent = static_cast<mpfr_exp_t>(top >> f.bits & ((1u << (63 - f.bits)) - 1)) -
                            static_cast<mpfr_exp_t>(f.bias) + 1;
      const int kind = (top >> 63) != 0 ? -MPFR_REGULAR_KIND : MPFR_REGULAR_KIND;
      top |= uint64_t{1} << 63;
      m[0] &= ~uint64_t{0} << (64 * f.words - static_cast<size_t>(f.precision));
      mpfr_custom_init_set(&numbers_[i], kind, exponent, f.precision, m);
    }
  }
  mpfr_ptr operator()(size_t i, size_t j) { return &numbers_[i * n_ + j]; }

 private:
  size_t n_;
  std::vector<uint64_t> limbs_;
  std::vector<__mpfr_struct> numbers_;
};

void lu_mpfr(benchmark::State& state) {
  const Format& f = kFormats[state.range(0)];
  const auto n = static_cast<size_t>(state.range(1));
  mpfr_t t;
  mpfr_init2(t, f.precision);
  for (auto _ : state) {
    state.PauseTiming();
    MpfrMatrix a(f, n);
    state.ResumeTiming();
    for (size_t k = 0; k < n; ++k) {
      size_t best = k;
      for (size_t i = k + 1; i < n; ++i) best = mpfr_cmpabs(a(best, k), a(i, k)) < 0 ? i : best;
      for (size_t j = 0; j < n && best != k; ++j) mpfr_swap(a(k, j), a(best, j));
      for (size_t i = k + 1; i < n; ++i) {
        mpfr_div(a(i, k), a(i, k), a(k, k), MPFR_RNDN);
        for (size_t j = k + 1; j < n; ++j) {
          mpfr_mul(t, a(i, k), a(k, j), MPFR_RNDN);
          mpfr_sub(a(i, j), a(i, j), t, MPFR_RNDN);
        }
      }
    }
    benchmark::DoNotOptimize(a(0, 0));
  }
  mpfr_clear(t);
}

// One sweep over the pairs of rows of a, and of v.
void sweep_mpfr(benchmark::State& state) {
  const Format& f = kFormats[state.range(0)];
  const auto n = static_cast<size_t>(state.range(1));
  mpfr_t alpha, beta, gamma, t, c, s, x, y;
  mpfr_inits2(f.precision, alpha, beta, gamma, t, c, s, x, y, nullptr);
  const auto dot = [&](mpfr_ptr out, MpfrMatrix& a, size_t p, size_t q) {
    mpfr_set_zero(out, 1);
    for (size_t i = 0; i < n; ++i) mpfr_fma(out, a(p, i), a(q, i), out, MPFR_RNDN);
  };
  const auto rotate = [&](MpfrMatrix& a, size_t p, size_t q) {
    for (size_t i = 0; i < n; ++i) {
      mpfr_fmms(x, c, a(p, i), s, a(q, i), MPFR_RNDN);
      mpfr_fmma(y, s, a(p, i), c, a(q, i), MPFR_RNDN);
      mpfr_set(a(p, i), x, MPFR_RNDN);
      mpfr_set(a(q, i), y, MPFR_RNDN);
    }
  };
  MpfrMatrix a(f, n), v(f, n);
  for (auto _ : state) {
    for (size_t p = 0; p + 1 < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        dot(alpha, a, p, p);
        dot(beta, a, q, q);
        dot(gamma, a, p, q);
        mpfr_sub(t, beta, alpha, MPFR_RNDN);
        mpfr_div(t, t, gamma, MPFR_RNDN);
        mpfr_div_2ui(t, t, 1, MPFR_RNDN);
        mpfr_sqr(x, t, MPFR_RNDN);
        mpfr_add_ui(x, x, 1, MPFR_RNDN);
        mpfr_sqrt(x, x, MPFR_RNDN);
        mpfr_abs(y, t, MPFR_RNDN);
        mpfr_add(x, x, y, MPFR_RNDN);
        mpfr_ui_div(x, 1, x, MPFR_RNDN);
        mpfr_copysign(t, x, t, MPFR_RNDN);
        mpfr_sqr(x, t, MPFR_RNDN);
        mpfr_add_ui(x, x, 1, MPFR_RNDN);
        mpfr_rec_sqrt(c, x, MPFR_RNDN);
        mpfr_mul(s, c, t, MPFR_RNDN);
        rotate(a, p, q);
        rotate(v, p, q);
      }
    }
  }
  mpfr_clears(alpha, beta, gamma, t, c, s, x, y, nullptr);
}

#define OURS(name, what)                                           \
  void name##_ours(benchmark::State& state) { ours(state, what); } \
  BENCHMARK(name##_ours)->ArgsProduct({{0, 1}, {64, 256}})->Unit(benchmark::kMillisecond)
OURS(lu, What::kLuFactor);
BENCHMARK(lu_mpfr)->ArgsProduct({{0, 1}, {64, 256}})->Unit(benchmark::kMillisecond);
OURS(svd, What::kSvd);
BENCHMARK(sweep_mpfr)
    ->ArgsProduct({{0, 1}, {64, 256}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
OURS(cholesky, What::kCholesky);
OURS(qr, What::kQr);
OURS(solve, What::kSolve);
OURS(inverse, What::kInverse);
OURS(eigh, What::kEigh);
OURS(expm, What::kExpm);

}  // namespace

BENCHMARK_MAIN();
