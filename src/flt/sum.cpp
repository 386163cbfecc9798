#include "flt/sum.h"

#include "flt/accumulator.h"
#include "flt/arithmetic.h"

namespace aster::flt {
namespace {

constexpr size_t kOnStack = 256;                // limbs of a part
constexpr size_t kParts = 64;                   // of long sums at most: each has an accumulator
constexpr size_t kMostLimbs = size_t{1} << 20;  // of all of them, unless one takes more

template <int N>
void look(Terms* terms, const Limb* w) {
  using F = Format<N>;
  const bool negative = (w[N - 1] & F::kSign) != 0;
  const int64_t biased = biased_exponent<N>(w[N - 1]);
  if (biased == F::kSpecial) {
    is_nan<N>(w) ? void(terms->nan = true) : terms->infinite(negative);
  } else if (biased == 0 && is_zero<N>(scaled<N>(w).m)) {
    terms->zero(negative);
  } else {
    terms->finite((biased == 0 ? 1 : biased) - F::kBias - (F::kPrecision - 1), F::kPrecision);
  }
}

template <int N>
void look(Terms* terms, const Limb* v, const Limb* w) {
  Terms x, y;
  look<N>(&x, v);
  look<N>(&y, w);
  const bool negative = ((v[N - 1] ^ w[N - 1]) & Format<N>::kSign) != 0;
  if (x.any() && y.any()) return terms->finite(x.least + y.least, 2 * Format<N>::kPrecision);
  const auto zero = [](const Terms& t) { return t.positive_zero || t.negative_zero; };
  const auto infinite = [](const Terms& t) { return t.positive_infinity || t.negative_infinity; };
  if (x.nan || y.nan || (zero(x) && infinite(y)) || (infinite(x) && zero(y))) {
    terms->nan = true;
  } else if (infinite(x) || infinite(y)) {
    terms->infinite(negative);
  } else {
    terms->zero(negative);
  }
}

template <int N>
struct Sum {
  const Elements& a;
  const Elements* b;

  void look_at(Terms* terms, size_t begin, size_t end) const {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
      Limbs<N> v, w;
      load<N>(v, a.at(i));
      if (b == nullptr) {
        look<N>(terms, v);
      } else {
        load<N>(w, b->at(i));
        look<N>(terms, v, w);
      }
    }
  }
  void add(Accumulator* to, size_t begin, size_t end) const {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
      Limbs<N> v, w;
      load<N>(v, a.at(i));
      const Scaled<N> x = scaled<N>(v);
      if (b == nullptr) {
        // A zero may lie below every other term.
        if (!is_zero<N>(x.m)) to->add<N>(x.m, x.exponent, x.negative);
        continue;
      }
      load<N>(w, b->at(i));
      const Scaled<N> y = scaled<N>(w);
      Limbs<2 * N> m;
      multiply<N>(m, x.m, y.m);
      if (!is_zero<2 * N>(m)) {
        to->add<2 * N>(m, x.exponent + y.exponent, x.negative != y.negative);
      }
    }
  }
};

// body(part, begin, end) for [0, count) in so many parts of one size, each at once if there are
// threads for it.
template <typename Body>
void each_part(const Caller& caller, size_t count, size_t parts, const Body& body) {
  const size_t size = (count + parts - 1) / parts;
  const auto some = [&](size_t first, size_t last) {
    for (size_t k = first; k < last; ++k) {
      const size_t begin = k * size < count ? k * size : count;
      body(k, begin, count - begin < size ? count : begin + size);
    }
  };
  if (parts == 1) return some(0, 1);
  constexpr int64_t kLong = 1'000'000;
  in_parts(caller, parts, kLong, some);
}

}  // namespace

template <int N>
Status exact_sum(Limb* out, const Caller& caller, const Elements& a, const Elements* b,
                 size_t count, Rounding mode) {
  const Sum<N> sum{a, b};
  const int64_t ns = b != nullptr ? 60 : 20;
  const size_t part = detail::part_of(caller.threads(), count, ns);
  size_t parts = part < count ? (count + part - 1) / part : 1;
  if (parts > kParts) parts = kParts;
  Terms terms[kParts];
  each_part(caller, count, parts,
            [&](size_t k, size_t begin, size_t end) { sum.look_at(&terms[k], begin, end); });
  for (size_t k = 1; k < parts; ++k) terms[0].merge(terms[k]);
  if (special_sum<N>(out, terms[0], mode)) return kOk;

  const size_t limbs = Accumulator::limbs(terms[0], count);
  if (parts > kMostLimbs / limbs) parts = limbs < kMostLimbs ? kMostLimbs / limbs : 1;
  Limb stack[kOnStack];
  Limb* held = stack;
  if (limbs * parts > kOnStack) {
    held = caller.memory().template array<Limb>(limbs * parts);
    if (held == nullptr) return out_of_memory(limbs * parts * sizeof(Limb));
  }
  each_part(caller, count, parts, [&](size_t k, size_t begin, size_t end) {
    Accumulator to(held + k * limbs, limbs, terms[0].least);
    sum.add(&to, begin, end);
  });
  Accumulator total = Accumulator::on(held, limbs, terms[0].least);
  for (size_t k = 1; k < parts; ++k) {
    total.merge(Accumulator::on(held + k * limbs, limbs, terms[0].least));
  }
  if (!total.template round<N>(out, mode)) pack_zero<N>(out, zero_is_negative(mode));
  if (held != stack) caller.memory().release(held, limbs * parts * sizeof(Limb), alignof(Limb));
  return kOk;
}

#define INSTANTIATE(N, Name)                                                                   \
  template Status exact_sum<N>(Limb*, const Caller&, const Elements&, const Elements*, size_t, \
                               Rounding);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::flt
