// Integers as residues by small primes, and back: what makes an exact product of long numbers many
// exact ones of int16.
#pragma once

#include "base/memory.h"
#include "flt/limbs.h"
#include "flt/tile.h"

namespace aster::flt {

constexpr int kDigitBits = kTileBits;  // of what residues become again

// Primes whose product exceeds 2^bits, and the tables that go with them: residues of digits of 16
// bits with signs, and digits of the numbers that the Chinese remainder theorem adds up.
class Residues {
 public:
  // Digits of 16 bits of an operand and bits at most: the sums of products of so many primes and
  // digits stay in int32.
  static constexpr size_t kMostDigits = 96, kMostPrimes = 176;
  // Residues lie within this part of their prime, and so much at most where sums of products are
  // reduced after kPairsAtOnce.
  static constexpr int kGreatestPrime = 5200;
  // Of greater primes there may be fewer: what becomes digits again stays in int32.
  static constexpr size_t kMostGreatPrimes = 128;
  static constexpr size_t kMostRows = kMostPrimes + 8;  // of digits
  static constexpr size_t kPairsAtOnce = 128;           // between reductions of sums of products

  explicit Residues(Memory& memory) : weights_(memory), digits_(memory) {}
  // For operands of a_digits and b_digits digits whose sums of products have less than 2^bits, and
  // primes of at most greatest. RANGE: they are too long. MEMORY.
  Status init(size_t a_digits, size_t b_digits, int64_t bits, int32_t greatest);
  // Whether those at hand are for that too, without many primes more than it takes.
  bool serves(size_t a_digits, size_t b_digits, int64_t bits, int32_t greatest) const {
    constexpr int64_t kMore = 64;
    return count_ > 0 && greatest == greatest_ && a_digits == a_digits_ && b_digits == b_digits_ &&
           bits <= bits_ && bits_ <= bits + kMore;
  }

  size_t count() const { return count_; }             // primes; even
  size_t groups() const { return (count_ + 7) / 8; }  // of eight primes
  size_t pairs() const { return count_ / 2 + 1; }     // of residues, with the quotient's
  // Digits of the sum, a multiple of 8, of which the lowest may be 0: bits of these.
  size_t rows() const { return rows_; }
  size_t rows_of(int64_t bits) const {  // digits that a number of so many bits takes
    return blank_ + (static_cast<size_t>(bits) + kDigitBits - 1) / kDigitBits;
  }
  size_t blank_bits() const { return blank_ * kDigitBits; }
  // How many pairs of digits of either operand may be weighed before their sums are reduced.
  size_t at_once() const { return at_once_; }
  int32_t prime(size_t l) const { return primes_[l]; }
  float inverse(size_t l) const { return inverses_[l]; }
  // Weights of digit pairs: [groups * 8][digits / 2].
  const int32_t* a_weights() const { return weights_.data(); }
  const int32_t* b_weights() const { return weights_.data() + groups() * 8 * (a_digits_ / 2); }
  // 2^kQuotientBits / p in pairs: sums of residues by these say how often M is in them, within
  // 0.02.
  static constexpr int kQuotientBits = 24;
  const int32_t* quotients() const { return digits_.data() + rows_ * pairs(); }
  // Digits of M / p and of -M: [rows][pairs].
  const int32_t* digits() const { return digits_.data(); }

 private:
  Status choose(int64_t bits, int32_t candidate);
  Status write_weights(size_t b_digits);
  Status write_digits();

  Vec<int32_t> weights_, digits_;
  int32_t primes_[kMostPrimes + 8] = {};
  float inverses_[kMostPrimes + 8] = {};
  int32_t folds_[kMostPrimes + 8] = {};  // (M / p)^-1 mod p
  Limb product_[kMostPrimes * 13 / 64 + 2] = {};
  size_t count_ = 0, rows_ = 0, blank_ = 0, a_digits_ = 0, b_digits_ = 0, at_once_ = 0;
  int64_t bits_ = 0;
  int32_t greatest_ = 0;
};

}  // namespace aster::flt
