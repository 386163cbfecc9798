#include "flt/apply.h"

#include "flt/arithmetic.h"
#include "flt/mpfr.h"

namespace aster::flt {
namespace {

template <int N>
void negated(Limb* out, const Limb* a) {
  for (int i = 0; i < N; ++i) out[i] = a[i];
  out[N - 1] ^= Format<N>::kSign;
}
template <int N>
void absolute(Limb* out, const Limb* a) {
  for (int i = 0; i < N; ++i) out[i] = a[i];
  out[N - 1] &= ~Format<N>::kSign;
}
template <int N>
void reciprocal(Limb* out, const Limb* a, Rounding mode) {
  Limbs<N> one = {};
  one[N - 1] = static_cast<Limb>(Format<N>::kBias) << Format<N>::kTop;
  if (is_nan<N>(a)) return pack_same_nan<N>(out, a);
  quotient<N>(out, one, a, mode);
}

// One element of every row.
#define OWN(code, Name, NAME, arity, cost, value, meaning)                                     \
  struct Name {                                                                                \
    template <int N>                                                                           \
    static void run(Limb* out, [[maybe_unused]] const Limb* a, [[maybe_unused]] const Limb* b, \
                    [[maybe_unused]] const Limb* c, [[maybe_unused]] Rounding mode) {          \
      value;                                                                                   \
    }                                                                                          \
  };
#define TEST(code, Name, NAME, cost, value, meaning)                                    \
  struct Name {                                                                         \
    static bool run([[maybe_unused]] bool unordered, [[maybe_unused]] int difference) { \
      return value;                                                                     \
    }                                                                                   \
  };
#include "flt/ops.def"

template <typename Row, int N, int kArity>
void numbers(const Elements& out, const Elements* in, size_t begin, size_t end, Rounding mode) {
  for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
    Limbs<N> a, b, c, y;
    load<N>(a, in[0].at(i));
    if constexpr (kArity > 1) load<N>(b, in[1].at(i));
    if constexpr (kArity > 2) load<N>(c, in[2].at(i));
    Row::template run<N>(y, a, b, c, mode);
    store<N>(out.at(i), y);
  }
}

template <typename Row, int N>
void tests(const Elements& out, const Elements* in, size_t begin, size_t end, Rounding) {
  for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
    Limbs<N> a, b;
    load<N>(a, in[0].at(i));
    load<N>(b, in[1].at(i));
    *out.at(i) = Row::run(is_nan<N>(a) || is_nan<N>(b), order<N>(a, b)) ? 1 : 0;
  }
}

// A function of MPFR with one or two operands.
template <auto kFunction, int N, int kArity>
void functions(const Elements& out, const Elements* in, size_t begin, size_t end, Rounding mode) {
  const MpfrRange range = MpfrRange::of<N>();
  const int rounding = static_cast<int>(mode);
  const auto function = mpfr().*kFunction;
  for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
    Limbs<N> a, b, y;
    load<N>(a, in[0].at(i));
    const MpfrNumber<N> x(unpack<N>(a));
    MpfrNumber<N> result;
    int inexact;
    if constexpr (kArity == 1) {
      inexact = reinterpret_cast<Mpfr::Unary>(function)(&result.value, &x.value, rounding);
    } else {
      load<N>(b, in[1].at(i));
      const MpfrNumber<N> z(unpack<N>(b));
      inexact =
          reinterpret_cast<Mpfr::Binary>(function)(&result.value, &x.value, &z.value, rounding);
    }
    result.pack(y, inexact, mode);
    if (is_nan<N>(y)) {
      if (is_nan<N>(a)) {
        pack_same_nan<N>(y, a);
      } else if (kArity > 1 && is_nan<N>(b)) {
        pack_same_nan<N>(y, b);
      }
    }
    store<N>(out.at(i), y);
  }
}

// Of n limbs each.
#define LOOPS(loop) each_format<Loop>([](auto n) { return Loop{loop}; }, AllLimbs{})
constexpr Operation kOperations[] = {
#define OWN(code, Name, NAME, arity, cost, value, meaning) \
  {#Name, arity, false, false, cost, LOOPS((numbers<Name, n, arity>))},
#define TEST(code, Name, NAME, cost, value, meaning) \
  {#Name, 2, true, false, cost, LOOPS((tests<Name, n>))},
#define FUNCTION(code, Name, NAME, arity, cost, symbol, meaning) \
  {#Name, arity, false, true, cost, LOOPS((functions<&Mpfr::Name, n, arity>))},
#include "flt/ops.def"
};

constexpr int32_t kCodes[] = {
#define OWN(code, Name, NAME, arity, cost, value, meaning) code,
#define TEST(code, Name, NAME, cost, value, meaning) code,
#define FUNCTION(code, Name, NAME, arity, cost, symbol, meaning) code,
#include "flt/ops.def"
};

#define OWN(code, Name, NAME, arity, cost, value, meaning) \
  static_assert(ASTER_ML_FLT_##NAME == code);
#define TEST(code, Name, NAME, cost, value, meaning) static_assert(ASTER_ML_FLT_##NAME == code);
#define FUNCTION(code, Name, NAME, arity, cost, symbol, meaning) \
  static_assert(ASTER_ML_FLT_##NAME == code);
#include "flt/ops.def"

}  // namespace

const Operation* operation_of(int32_t code) {
  for (size_t i = 0; i < std::size(kCodes); ++i) {
    if (kCodes[i] == code) return &kOperations[i];
  }
  return nullptr;
}

}  // namespace aster::flt
