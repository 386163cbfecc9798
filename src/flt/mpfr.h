// MPFR, opened at run time, for what is not on the hot path: functions and decimal text. Numbers
// are handed to it on limbs of ours; its scratch is GMP's, which ends the process where memory
// runs out (docs/DEPENDENCIES.md).
#pragma once

#include "base/status.h"
#include "flt/format.h"

namespace aster::flt {

struct Mpfr {
  // MPFR's number; laid out as libmpfr.so.6 has it, used by its custom interface alone.
  struct Value {
    long precision;
    int sign;
    long exponent;
    Limb* limbs;
  };
  using Unary = int (*)(Value*, const Value*, int rounding);
  using Binary = int (*)(Value*, const Value*, const Value*, int rounding);
  // Kinds of its custom interface; negative ones are those of negative numbers.
  enum : int { kNanKind = 0, kInfiniteKind = 1, kZeroKind = 2, kRegularKind = 3 };

  bool available = false;
  void (*init_set)(Value*, int kind, long exponent, long precision, void* limbs) = nullptr;
  int (*get_kind)(const Value*) = nullptr;
  long (*get_exp)(const Value*) = nullptr;
  long (*get_emin)() = nullptr;
  long (*get_emax)() = nullptr;
  int (*set_emin)(long) = nullptr;
  int (*set_emax)(long) = nullptr;
  int (*subnormalize)(Value*, int inexact, int rounding) = nullptr;
  unsigned (*flags_save)() = nullptr;
  void (*flags_restore)(unsigned flags, unsigned mask) = nullptr;
  void (*free_cache)(int way) = nullptr;
  int (*strtofr)(Value*, const char* text, char** end, int base, int rounding) = nullptr;
  char* (*get_str)(char* digits, long* exponent, int base, size_t count, const Value*,
                   int rounding) = nullptr;
#define FUNCTION(code, Name, NAME, arity, cost, symbol, meaning) void (*Name)() = nullptr;
#include "flt/ops.def"
};

// Loaded at its first use: libmpfr.so.6, or $ASTER_ML_MPFR.
const Mpfr& mpfr();
// UNSUPPORTED, with what to do about it, where there is none.
Status mpfr_ready();

// The range of a format, while it lives, on this thread; what it found is there again afterwards.
class MpfrRange {
 public:
  template <int N>
  static MpfrRange of() {
    using F = Format<N>;
    return MpfrRange(F::kMin - F::kPrecision + 2, F::kMax + 1);
  }
  MpfrRange(const MpfrRange&) = delete;
  MpfrRange& operator=(const MpfrRange&) = delete;
  ~MpfrRange();

 private:
  MpfrRange(int64_t emin, int64_t emax);
  long emin_, emax_;
  unsigned flags_;
};

// A number of ours as MPFR's, on its own limbs.
template <int N>
struct MpfrNumber {
  Mpfr::Value value;
  Limbs<N> m;
  explicit MpfrNumber(const Number<N>& x) {
    for (int i = 0; i < N; ++i) m[i] = x.m[i];
    constexpr int kKinds[] = {Mpfr::kZeroKind, Mpfr::kRegularKind, Mpfr::kInfiniteKind,
                              Mpfr::kNanKind};
    const int kind = kKinds[static_cast<int>(x.kind)];
    mpfr().init_set(&value, x.negative ? -kind : kind, x.exponent + 1, Format<N>::kPrecision, m);
  }
  MpfrNumber() { mpfr().init_set(&value, Mpfr::kZeroKind, 0, Format<N>::kPrecision, m); }
  MpfrNumber(const MpfrNumber&) = delete;
  MpfrNumber& operator=(const MpfrNumber&) = delete;

  // Of a result that MPFR rounded in a MpfrRange.
  void pack(Limb* out, int inexact, Rounding mode) {
    const Mpfr& library = mpfr();
    library.subnormalize(&value, inexact, static_cast<int>(mode));
    const int kind = library.get_kind(&value);
    switch (kind < 0 ? -kind : kind) {
      case Mpfr::kNanKind:
        return pack_nan<N>(out);
      case Mpfr::kInfiniteKind:
        return pack_infinity<N>(out, kind < 0);
      case Mpfr::kZeroKind:
        return pack_zero<N>(out, kind < 0);
      default:
        return round_pack<N>(out, kind < 0, library.get_exp(&value) - 1, m, false, mode);
    }
  }
};

}  // namespace aster::flt
