#include "flt/residues.h"

#include <algorithm>
#include <cstdlib>

namespace aster::flt {
namespace {

constexpr size_t kLimbs = Residues::kMostPrimes * 13 / 64 + 2;

bool is_prime(int32_t x) {
  for (int32_t i = 2; i * i <= x; ++i) {
    if (x % i == 0) return false;
  }
  return true;
}

int64_t power(int64_t base, int64_t exponent, int64_t p) {
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result = result * base % p;
    base = base * base % p;
  }
  return result;
}

// In (-p / 2, p / 2).
int32_t balanced(int64_t x, int32_t p) { return static_cast<int32_t>(x > p / 2 ? x - p : x); }

void multiply_small(Limb* m, Limb by) {
  Limb carry = 0;
  for (size_t i = 0; i < kLimbs; ++i) {
    const Wide t = Wide{m[i]} * by + carry;
    m[i] = static_cast<Limb>(t);
    carry = static_cast<Limb>(t >> 64);
  }
}

void divide_small(Limb* q, const Limb* m, Limb by) {
  Limb rest = 0;
  for (size_t i = kLimbs; i-- > 0;) {
    const Wide t = Wide{rest} << 64 | m[i];
    q[i] = static_cast<Limb>(t / by);
    rest = static_cast<Limb>(t % by);
  }
}

// Whether sums of digits of 2^15 by weights stay in int32, at_once pairs of them on top of what is
// left of those before, 2^15 left at most. sizes: of the weights of a pair.
bool fits(const int64_t* sizes, size_t count, size_t at_once, int64_t left) {
  constexpr int64_t kMost = 65530;
  for (size_t first = 0; first < count; first += at_once) {
    int64_t sum = first == 0 ? 0 : left;
    for (size_t i = first; i < std::min(count, first + at_once); ++i) sum += sizes[i];
    if (sum > kMost) return false;
  }
  return true;
}

}  // namespace

Status Residues::init(size_t a_digits, size_t b_digits, int64_t bits, int32_t greatest) {
  if (a_digits > kMostDigits || b_digits > kMostDigits) {
    return ASTER_FAIL(kRANGE, "operands of %zu and %zu digits", a_digits, b_digits);
  }
  a_digits_ = a_digits;
  b_digits_ = b_digits;
  greatest_ = greatest;
  ASTER_TRY(choose(bits, greatest));
  if (count_ > kMostGreatPrimes) ASTER_TRY(choose(bits, std::min(greatest, kGreatestPrime)));
  bits_ = bits;
  ASTER_TRY(write_weights(b_digits));
  return write_digits();
}

Status Residues::choose(int64_t bits, int32_t candidate) {
  count_ = 0;
  std::fill(product_, product_ + kLimbs, Limb{0});
  product_[0] = 1;
  int64_t reached = 0;
  while (reached <= bits || count_ % 2 != 0) {
    if (count_ == kMostPrimes) {
      return ASTER_FAIL(kRANGE, "sums of %lld bits", static_cast<long long>(bits));
    }
    while (!is_prime(candidate)) --candidate;
    multiply_small(product_, static_cast<Limb>(candidate));
    primes_[count_] = candidate;
    inverses_[count_++] = 1.0f / static_cast<float>(candidate--);
    reached = static_cast<int64_t>(64 * kLimbs) - 1 - leading_zeros<kLimbs>(product_);
  }
  for (size_t l = 0; l < count_; ++l) {
    const int64_t p = primes_[l];
    int64_t others = 1;
    for (size_t k = 0; k < count_; ++k) others = k == l ? others : others * primes_[k] % p;
    folds_[l] = static_cast<int32_t>(power(others, p - 2, p));
  }
  for (size_t l = count_; l < groups() * 8; ++l) {  // what fills the last group counts nothing
    primes_[l] = 1;
    inverses_[l] = 0;
  }
  return kOk;
}

Status Residues::write_weights(size_t b_digits) {
  const int64_t left = greatest_ / 2 + 1;
  at_once_ = kMostDigits / 2;
  ASTER_TRY(weights_.resize(groups() * 8 * (a_digits_ + b_digits) / 2));
  int32_t* to = weights_.data();
  for (const size_t digits : {a_digits_, b_digits}) {
    for (size_t l = 0; l < groups() * 8; ++l) {
      const int32_t p = primes_[l];
      int64_t weight = l < count_ ? (to < b_weights() ? folds_[l] : 1) : 0;
      int64_t sizes[kMostDigits / 2];
      for (size_t d = 0; d < digits; d += 2) {
        const int64_t next = weight * 65536 % p;
        const int32_t low = balanced(weight, p), high = balanced(next, p);
        *to++ = pair_of(low, high);
        sizes[d / 2] = std::abs(low) + std::abs(high);
        weight = next * 65536 % p;
      }
      while (!fits(sizes, digits / 2, at_once_, left)) --at_once_;
    }
  }
  return kOk;
}

Status Residues::write_digits() {
  const int64_t bits = static_cast<int64_t>(64 * kLimbs) - leading_zeros<kLimbs>(product_);
  const size_t needed = (static_cast<size_t>(bits) + kDigitBits - 1) / kDigitBits;
  rows_ = (needed + 7) / 8 * 8;
  blank_ = rows_ - needed;
  ASTER_TRY(digits_.resize((rows_ + 1) * pairs()));
  int32_t* const quotients = digits_.data() + rows_ * pairs();
  quotients[pairs() - 1] = 0;
  for (size_t l = 0; l < count_; l += 2) {
    const auto weight = [&](size_t k) {
      return ((1 << kQuotientBits) + primes_[k] / 2) / primes_[k];
    };
    quotients[l / 2] = pair_of(weight(l), weight(l + 1));
  }
  for (size_t l = 0; l <= count_; ++l) {
    Limbs<kLimbs + 1> number = {};
    divide_small(number, product_, l < count_ ? static_cast<Limb>(primes_[l]) : 1);
    int32_t carry = 0;  // that of the highest digit is a multiple of what sums are taken modulo
    for (size_t d = 0; d < rows_; ++d) {
      const size_t at = (d - blank_) * kDigitBits;
      Limb digit = 0;
      if (d >= blank_ && at / 64 < kLimbs) {
        digit = number[at / 64] >> (at % 64) | (number[at / 64 + 1] << 1) << (63 - at % 64);
      }
      int32_t value = static_cast<int32_t>(digit & ((1 << kDigitBits) - 1)) + carry;
      carry = value >= 1 << (kDigitBits - 1) ? 1 : 0;
      value -= carry << kDigitBits;
      if (l == count_) value = -value;
      int32_t& pair = digits_[d * pairs() + l / 2];
      pair = l % 2 == 0 ? pair_of(value, 0) : pair_of(pair, value);
    }
  }
  return kOk;
}

}  // namespace aster::flt
