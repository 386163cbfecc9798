// MPFR's numbers beside packed flt256 and flt512, converted by way of GMP's integers, and operands
// that are hard to round.
#pragma once

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../sanitizers.h"
#include "aster_ml/flt.h"

namespace flt_test {

// Cases of every random test, of functions a twelfth; $ASTER_ML_FLT_CASES for more of them:
// 12000000 are 10^6 of every function.
#ifdef ASTER_TEST_TSAN
constexpr int kCases = 200;  // threads are what it looks at
#else
constexpr int kCases = 3000;
#endif
inline int cases() {
  const char* const told = std::getenv("ASTER_ML_FLT_CASES");
  return told != nullptr ? std::atoi(told) : kCases;
}

constexpr mpfr_rnd_t kModes[] = {MPFR_RNDN, MPFR_RNDZ, MPFR_RNDU, MPFR_RNDD};  // by our codes

struct Format {
  int32_t dtype;
  int words, exponent_bits;
  int precision() const { return 64 * words - exponent_bits; }
  long bias() const { return (1L << (exponent_bits - 1)) - 1; }
  mpfr_exp_t emax() const { return bias() + 1; }
  mpfr_exp_t emin() const { return 3 - bias() - precision(); }
};
constexpr Format kFormats[] = {{ASTER_ML_DTYPE_FLT256, 4, 19}, {ASTER_ML_DTYPE_FLT512, 8, 23}};

struct Packed {
  uint64_t w[8] = {};
  bool operator==(const Packed&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Packed& p) {
  for (int i = 7; i >= 0; --i) {
    char text[20];
    std::snprintf(text, sizeof(text), "%016lx ", p.w[i]);
    out << text;
  }
  return out;
}

class Real {
 public:
  explicit Real(mpfr_prec_t precision) { mpfr_init2(x_, precision); }
  Real(const Format& f, const Packed& p) : Real(f.precision()) { unpack(f, p); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real() { mpfr_clear(x_); }
  operator mpfr_ptr() { return x_; }

  // The value of p, exactly.
  void unpack(const Format& f, const Packed& p) {
    mpz_t z;
    mpz_init(z);
    mpz_import(z, static_cast<size_t>(f.words), -1, 8, 0, 0, p.w);
    const bool negative = mpz_tstbit(z, static_cast<mp_bitcnt_t>(64 * f.words - 1)) != 0;
    mpz_t fraction, biased;
    mpz_init(fraction);
    mpz_init(biased);
    const auto bits = static_cast<mp_bitcnt_t>(f.precision() - 1);
    mpz_fdiv_r_2exp(fraction, z, bits);
    mpz_fdiv_q_2exp(biased, z, bits);
    mpz_fdiv_r_2exp(biased, biased, static_cast<mp_bitcnt_t>(f.exponent_bits));
    const long e = mpz_get_si(biased);
    if (e == (1L << f.exponent_bits) - 1) {
      if (mpz_sgn(fraction) != 0) {
        mpfr_set_nan(x_);
      } else {
        mpfr_set_inf(x_, 1);
      }
    } else {
      if (e != 0) mpz_setbit(fraction, bits);
      const int inexact = mpfr_set_z_2exp(
          x_, fraction, (e == 0 ? 1 : e) - f.bias() - static_cast<long>(bits), MPFR_RNDN);
      EXPECT_EQ(inexact, 0);
    }
    mpfr_setsign(x_, x_, negative, MPFR_RNDN);
    mpz_clears(z, fraction, biased, nullptr);
  }

  // A value of the format, which it has to be.
  Packed pack(const Format& f) {
    Packed p;
    mpz_t z;
    mpz_init(z);
    const auto bits = static_cast<mp_bitcnt_t>(f.precision() - 1);
    long e = 0;
    if (mpfr_nan_p(x_)) {
      mpz_setbit(z, bits - 1);
      e = (1L << f.exponent_bits) - 1;
    } else if (mpfr_inf_p(x_)) {
      e = (1L << f.exponent_bits) - 1;
    } else if (!mpfr_zero_p(x_)) {
      long scale = mpfr_get_z_2exp(z, x_);
      mpz_abs(z, z);
      const long leading = mpfr_get_exp(x_) - 1;
      e = leading + f.bias();
      if (e < 1) e = 0;
      const long unit = (e == 0 ? 1 : e) - f.bias() - static_cast<long>(bits);
      if (scale >= unit) {
        mpz_mul_2exp(z, z, static_cast<mp_bitcnt_t>(scale - unit));
      } else {
        EXPECT_TRUE(mpz_divisible_2exp_p(z, static_cast<mp_bitcnt_t>(unit - scale)));
        mpz_fdiv_q_2exp(z, z, static_cast<mp_bitcnt_t>(unit - scale));
      }
      if (e != 0) mpz_clrbit(z, bits);
    }
    mpz_t high;
    mpz_init_set_si(high, e);
    mpz_mul_2exp(high, high, bits);
    mpz_add(z, z, high);
    if (!mpfr_nan_p(x_) && mpfr_signbit(x_)) {
      mpz_setbit(z, static_cast<mp_bitcnt_t>(64 * f.words - 1));
    }
    mpz_export(p.w, nullptr, -1, 8, 0, 0, z);
    mpz_clears(z, high, nullptr);
    return p;
  }

 private:
  mpfr_t x_;
};

// The exponents of a format while it lives.
class Range {
 public:
  explicit Range(const Format& f) : emin_(mpfr_get_emin()), emax_(mpfr_get_emax()) {
    mpfr_set_emin(f.emin());
    mpfr_set_emax(f.emax());
  }
  ~Range() {
    mpfr_set_emin(emin_);
    mpfr_set_emax(emax_);
  }

 private:
  mpfr_exp_t emin_, emax_;
};

// What call(result, rounding mode), as MPFR's functions are, gives in a format.
template <typename Call>
Packed expected(const Format& f, int mode, const Call& call) {
  Real y(f.precision());
  const Range range(f);
  const int inexact = call(static_cast<mpfr_ptr>(y), kModes[mode]);
  mpfr_subnormalize(y, inexact, kModes[mode]);
  return y.pack(f);
}

class Operands {
 public:
  explicit Operands(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }

  // Of any kind.
  Packed any(const Format& f) {
    const long top = f.bias() * 2;
    switch (below(16)) {
      case 0:
        return special(f);
      case 1:  // subnormal or the least of normal ones
        return made(f, static_cast<long>(below(3)));
      case 2:
        return made(f, 1 + static_cast<long>(below(static_cast<uint64_t>(f.precision()))));
      case 3:
        return made(f, top - static_cast<long>(below(3)));
      case 4:  // any exponent
        return made(f, static_cast<long>(below(static_cast<uint64_t>(top + 1))));
      case 5:  // halves of the range: products at its ends
        return made(f, f.bias() / 2 + static_cast<long>(below(600)) - 300);
      case 6:
        return made(f, f.bias() + f.bias() / 2 + static_cast<long>(below(6)) - 3);
      default:
        return near(f);
    }
  }
  // About 1.
  Packed near(const Format& f, long spread = 0) {
    if (spread == 0) spread = below(3) == 0 ? 3L * f.precision() : 4;
    return made(
        f, f.bias() + static_cast<long>(below(static_cast<uint64_t>(2 * spread + 1))) - spread);
  }
  // One close to p: so many units away, or the like of it with another exponent or sign.
  Packed close(const Format& f, Packed p) {
    const int top = f.words - 1;
    switch (below(5)) {
      case 0:
        p.w[0] ^= below(8);
        break;
      case 1:
        p.w[below(static_cast<uint64_t>(top))] ^= uint64_t{1} << below(64);
        break;
      case 2:
        p.w[top] += below(3) << (63 - f.exponent_bits);
        break;
      case 3:
        p.w[top] -= below(3) << (63 - f.exponent_bits);
        break;
      default:
        break;
    }
    if (below(2) == 0) p.w[top] ^= uint64_t{1} << 63;
    return p;
  }

  // What is not a number between others: kSpecials of them.
  static constexpr uint64_t kSpecials = 20;
  Packed special(const Format& f) { return special(f, below(kSpecials)); }
  static Packed special(const Format& f, uint64_t which) {
    const uint64_t unit = uint64_t{1} << (63 - f.exponent_bits);
    const uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) * unit;
    Packed p;
    uint64_t& top = p.w[f.words - 1];
    switch (which / 2) {
      case 0:
        break;
      case 1:
        top = infinity;
        break;
      case 2:
        top = infinity + unit / 2;  // the NaN of operations
        break;
      case 3:
        top = infinity + unit / 2;
        p.w[0] = 0x5442425F455252;  // one with a payload
        break;
      case 4:
        top = infinity;
        p.w[1] = 1;  // signalling
        break;
      case 5:
        p.w[0] = 1;  // the least number
        break;
      case 6:
        for (int i = 0; i < f.words; ++i) p.w[i] = ~uint64_t{0};
        top = infinity - 1;  // the greatest
        break;
      case 7:
        top = unit;  // the least normal number
        break;
      case 8:
        for (int i = 0; i < f.words; ++i) p.w[i] = ~uint64_t{0};
        top = unit - 1;  // the greatest subnormal one
        break;
      default:
        top = static_cast<uint64_t>(f.bias()) * unit;  // 1
        break;
    }
    if (which % 2 == 0) top |= uint64_t{1} << 63;
    return p;
  }

 private:
  // A fraction that is random, of few bits, or of long runs of equal ones.
  Packed made(const Format& f, long biased) {
    Packed p;
    const uint64_t shape = below(6);
    for (int i = 0; i < f.words; ++i) {
      p.w[i] = shape == 0 ? 0 : shape == 1 ? ~uint64_t{0} : random_();
    }
    if (shape < 3) {
      for (uint64_t flips = below(4); flips > 0; --flips) {
        p.w[below(static_cast<uint64_t>(f.words))] ^= uint64_t{1} << below(64);
      }
    }
    if (shape == 3) {
      for (uint64_t i = below(static_cast<uint64_t>(f.words)); i > 0; --i) p.w[i - 1] = 0;
    }
    if (shape == 4) {
      for (uint64_t i = below(static_cast<uint64_t>(f.words)); i > 0; --i) {
        p.w[i - 1] = ~uint64_t{0};
      }
    }
    uint64_t& top = p.w[f.words - 1];
    const int bits = 63 - f.exponent_bits;
    top = (top & ((uint64_t{1} << bits) - 1)) | static_cast<uint64_t>(biased) << bits;
    if (below(2) == 0) top |= uint64_t{1} << 63;
    return p;
  }

  std::mt19937_64 random_;
};

inline bool is_nan(const Format& f, const Packed& p) {
  Real x(f, p);
  return mpfr_nan_p(static_cast<mpfr_ptr>(x)) != 0;
}
// The first operand that is NaN, made quiet; null if none is.
inline const Packed* first_nan(const Format& f, std::vector<Packed>& operands) {
  for (Packed& p : operands) {
    if (!is_nan(f, p)) continue;
    p.w[f.words - 1] |= uint64_t{1} << (62 - f.exponent_bits);
    return &p;
  }
  return nullptr;
}

}  // namespace flt_test
