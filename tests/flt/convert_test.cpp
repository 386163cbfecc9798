// Conversions: floats against MPFR's and each other, integers against aster_ml_dtype_copy.
#include "flt/convert.h"

#include <cmath>
#include <limits>

#include "dtype/convert.h"

#ifdef ASTER_TEST_MPFR
#include "oracle.h"

namespace {

using namespace flt_test;
using aster::dtype::DType;

int32_t copy(void* dst, int32_t dst_dtype, const void* src, int32_t src_dtype, int mode) {
  return aster_ml_flt_copy(dst, nullptr, dst_dtype, src, src_dtype, mode, nullptr, 1);
}

// Precision and exponents, MPFR's, of what MPFR knows not by itself.
struct Narrow {
  int32_t dtype;
  int precision;
  mpfr_exp_t emin, emax;
};
constexpr Narrow kNarrow[] = {
    {ASTER_ML_DTYPE_FLOAT64, 53, -1073, 1024}, {ASTER_ML_DTYPE_FLOAT32, 24, -148, 128},
    {ASTER_ML_DTYPE_BFLOAT16, 8, -132, 128},   {ASTER_ML_DTYPE_FLOAT16, 11, -23, 16},
    {ASTER_ML_DTYPE_FP8E4M3, 4, -8, 9},        {ASTER_ML_DTYPE_FP8E4M3FNUZ, 4, -9, 8},
    {ASTER_ML_DTYPE_FP8E5M2, 3, -15, 16},      {ASTER_ML_DTYPE_FP8E5M2FNUZ, 3, -16, 16}};

// Numbers about the ends of a narrow format and its ties.
Packed about(Operands& operands, const Format& f, const Narrow& n) {
  Packed p = operands.below(3) == 0 ? operands.any(f) : operands.near(f);
  const int bits = 63 - f.exponent_bits;
  uint64_t& top = p.w[f.words - 1];
  if (operands.below(2) == 0) {
    const long at = operands.below(2) == 0 ? n.emax : n.emin;
    const long exponent = f.bias() + at - 4 + static_cast<long>(operands.below(12));
    top = (top & ((uint64_t{1} << bits) - 1)) | static_cast<uint64_t>(exponent) << bits |
          (top >> 63 << 63);
  }
  if (operands.below(2) == 0) {  // few bits after the highest
    for (int i = 0; i < f.words - 1; ++i) p.w[i] = 0;
    if (n.precision + 2 < bits)
      top &= ~uint64_t{0} << (bits - n.precision - static_cast<int>(operands.below(3)));
    if (operands.below(2) == 0) p.w[0] ^= operands.below(2);
  }
  return p;
}

double to_narrow(const Format& f, const Narrow& n, int mode, const Packed& p) {
  Real x(f, p), y(n.precision);
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(n.emin);
  mpfr_set_emax(n.emax);
  int inexact = mpfr_set(y, x, kModes[mode]);
  inexact = mpfr_check_range(y, inexact, kModes[mode]);  // x may lie outside
  mpfr_subnormalize(y, inexact, kModes[mode]);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return mpfr_get_d(y, MPFR_RNDN);
}

TEST(FltConvert, ToFloatsInEveryMode) {
  for (const Format& f : kFormats) {
    for (const Narrow& n : kNarrow) {
      Operands operands(11);
      const auto d = static_cast<DType>(n.dtype);
      for (int i = 0; i < cases(); ++i) {
        const Packed p = about(operands, f, n);
        const int mode = i % 4;
        const double number = to_narrow(f, n, mode, p);
        uint64_t got = 0, want = 0;
        // The narrow floats' own overflow, as they encode it from doubles, which hold them all.
        const bool fp8 = aster::dtype::is_fp8(d);
        const bool finite =
            fp8 && std::isinf(number) && mpfr_number_p(static_cast<mpfr_ptr>(Real(f, p)));
        aster::dtype::store_double(d, &want, finite ? std::copysign(1e300, number) : number);
        ASSERT_EQ(copy(&got, n.dtype, p.w, f.dtype, mode), 0);
        if (std::isnan(number)) {
          EXPECT_TRUE(std::isnan(aster::dtype::load_double(d, &got)));
        } else {
          ASSERT_EQ(got, want) << aster::dtype::name(d) << " mode " << mode << " " << p;
        }
      }
    }
  }
}

TEST(FltConvert, FromFloatsExactly) {
  std::mt19937_64 random(12);
  for (const Format& f : kFormats) {
    for (const Narrow& n : kNarrow) {
      const auto d = static_cast<DType>(n.dtype);
      for (int i = 0; i < cases(); ++i) {
        const uint64_t code = random();
        const double number = aster::dtype::load_double(d, &code);
        Real x(64);
        mpfr_set_d(x, number, MPFR_RNDN);
        Packed got;
        ASSERT_EQ(copy(got.w, f.dtype, &code, n.dtype, i % 4), 0);
        ASSERT_EQ(got, x.pack(f)) << number;
      }
    }
  }
}

TEST(FltConvert, BetweenTheTwo) {
  Operands operands(13);
  for (int i = 0; i < 4 * cases(); ++i) {
    for (const Format& from : kFormats) {
      for (const Format& to : kFormats) {
        Packed p = operands.any(from);
        if (from.words > to.words && operands.below(2) == 0) {
          // In range, and often a tie.
          p = operands.near(from, to.bias() + 300);
          if (operands.below(2) == 0) {
            for (int k = 0; k < 3; ++k) p.w[k] = 0;
            p.w[3] &= ~uint64_t{0} << (58 + operands.below(6));
          }
        }
        Real x(from, p);
        Packed got;
        ASSERT_EQ(copy(got.w, to.dtype, p.w, from.dtype, i % 4), 0);
        ASSERT_EQ(got, expected(to, i % 4,
                                [&](mpfr_ptr y, mpfr_rnd_t rnd) {
                                  return mpfr_check_range(y, mpfr_set(y, x, rnd), rnd);
                                }))
            << p;
      }
    }
  }
}

constexpr int32_t kIntegers[] = {
    ASTER_ML_DTYPE_BOOL,   ASTER_ML_DTYPE_INT8,   ASTER_ML_DTYPE_UINT8,
    ASTER_ML_DTYPE_INT16,  ASTER_ML_DTYPE_UINT16, ASTER_ML_DTYPE_INT32,
    ASTER_ML_DTYPE_UINT32, ASTER_ML_DTYPE_INT64,  ASTER_ML_DTYPE_UINT64};

// From any integer and back, and of any double what a double itself gives.
TEST(FltConvert, Integers) {
  std::mt19937_64 random(14);
  for (const Format& f : kFormats) {
    for (const int32_t dtype : kIntegers) {
      for (int i = 0; i < cases(); ++i) {
        uint64_t value = i < 4 ? std::vector<uint64_t>{0, ~uint64_t{0}, uint64_t{1} << 63,
                                                       1}[static_cast<size_t>(i)]
                               : random() >> (random() % 64);
        if (dtype == ASTER_ML_DTYPE_BOOL) value &= 1;
        Packed wide;
        ASSERT_EQ(copy(wide.w, f.dtype, &value, dtype, i % 4), 0);
        Real x(64);
        const auto d = static_cast<DType>(dtype);
        const int64_t number = aster::dtype::load_int(d, &value);
        if (dtype == ASTER_ML_DTYPE_UINT64) {
          mpfr_set_ui(x, static_cast<unsigned long>(number), MPFR_RNDN);
        } else {
          mpfr_set_si(x, number, MPFR_RNDN);
        }
        ASSERT_EQ(wide, x.pack(f)) << dtype << " " << number;
        // Back, with more bits than a double has; what is behind the point is cut off.
        uint64_t got = 0, want = 0;
        if (dtype != ASTER_ML_DTYPE_UINT64 || number >= 0) {
          // -2^63 counts as what no integer holds, of every float.
          aster::dtype::store_int(d, &want, number == INT64_MIN ? 0 : number);
          ASSERT_EQ(copy(&got, dtype, wide.w, f.dtype, i % 4), 0);
          ASSERT_EQ(got, want) << dtype << " " << number;
          if (number != 0 && dtype != ASTER_ML_DTYPE_BOOL) {
            Real more(f.precision());
            mpfr_set_si(more, number, MPFR_RNDN);
            (number < 0 ? mpfr_nextbelow : mpfr_nextabove)(more);
            const Packed beyond = more.pack(f);
            ASSERT_EQ(copy(&got, dtype, beyond.w, f.dtype, i % 4), 0);
            ASSERT_EQ(got, want) << dtype << " beyond " << number;
          }
        }
        const double about[] = {static_cast<double>(number),
                                static_cast<double>(number) / 3,
                                0x1p63,
                                -0x1p63,
                                0x1p62,
                                -0.75,
                                NAN,
                                INFINITY,
                                1e300};
        const double real = about[random() % std::size(about)];
        got = want = 0;
        ASSERT_EQ(copy(wide.w, f.dtype, &real, ASTER_ML_DTYPE_FLOAT64, 0), 0);
        ASSERT_EQ(copy(&got, dtype, wide.w, f.dtype, i % 4), 0);
        ASSERT_EQ(aster_ml_dtype_copy(&want, dtype, &real, ASTER_ML_DTYPE_FLOAT64, 1), 0);
        ASSERT_EQ(got, want) << aster::dtype::name(d) << " of " << real;
      }
    }
  }
}

// Every pattern of tbb8 and tbb16 there and back, and any number cut to them: no mode matters.
TEST(FltConvert, StickyIntegers) {
  constexpr int32_t kSticky[] = {ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_TBB16, ASTER_ML_DTYPE_TBB32,
                                 ASTER_ML_DTYPE_TBB64};
  for (const Format& f : kFormats) {
    Operands operands(15);
    for (const int32_t dtype : kSticky) {
      const auto d = static_cast<DType>(dtype);
      const int64_t error =
          std::numeric_limits<int64_t>::min() >> (64 - 8 * aster_ml_dtype_size(dtype));
      Real bound(f.precision());
      mpfr_set_si(bound, -(error + 1), MPFR_RNDN);
      for (int i = 0; i < 65536; ++i) {
        const int64_t pattern = dtype == ASTER_ML_DTYPE_TBB8 ? i % 256 - 128 : i - 32768;
        const int64_t value = i == 0 ? error : pattern;
        int64_t stored = value, back = 0;
        Packed got;
        ASSERT_EQ(copy(got.w, f.dtype, &stored, dtype, i % 4), 0);
        Real x(f.precision());
        mpfr_set_si(x, value, MPFR_RNDN);
        if (value == error) {
          mpfr_set_nan(x);
          ASSERT_EQ(got.w[0], 0x5442425F455252u);
          got.w[0] = 0;
        }
        ASSERT_EQ(got, x.pack(f)) << value;
        ASSERT_EQ(copy(&back, dtype, got.w, f.dtype, i % 4), 0);
        ASSERT_EQ(aster::dtype::load_int(d, &back), value);
      }
      for (int i = 0; i < cases(); ++i) {
        Packed p = operands.any(f);
        if (i % 2 == 0) {  // a few units beside the bound
          Real beside(f, bound.pack(f));
          for (uint64_t k = operands.below(3); k > 0; --k) mpfr_nextabove(beside);
          for (uint64_t k = operands.below(3); k > 0; --k) mpfr_nextbelow(beside);
          p = beside.pack(f);
          if (operands.below(2) == 0) p.w[f.words - 1] ^= uint64_t{1} << 63;
        }
        Real x(f, p), cut(f.precision());
        mpfr_trunc(cut, x);
        const bool fits = mpfr_nan_p(static_cast<mpfr_ptr>(x)) == 0 && mpfr_cmpabs(x, bound) <= 0;
        int64_t got = 0;
        ASSERT_EQ(copy(&got, dtype, p.w, f.dtype, i % 4), 0);
        ASSERT_EQ(aster::dtype::load_int(d, &got), fits ? mpfr_get_si(cut, MPFR_RNDZ) : error) << p;
      }
    }
  }
}

}  // namespace
#endif
