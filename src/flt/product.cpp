#include "flt/product.h"

#include <algorithm>
#include <atomic>

#include "flt/accumulator.h"
#include "flt/arithmetic.h"
#include "flt/residues.h"
#include "flt/strassen.h"
#include "flt/sum.h"
#include "flt/tile.h"

namespace aster::flt {
namespace {

constexpr size_t kRowsAtOnce = 64;      // of a: a task
constexpr size_t kRowsTogether = 32;    // of those: while a prime's residues of b are near
constexpr size_t kColumnsAtOnce = 256;  // of b: all tasks share their residues
constexpr size_t kPrimesAtOnce = 8;     // a tile's rows
// Below that many products the tables cost more than they save (bench_flt).
constexpr double kLeastWork = 12 * 12 * 12;

// Memory of a task, given back at its end.
template <typename T>
class Held {
 public:
  Held(Memory& memory, size_t count) : memory_(memory), count_(count) {
    data_ = static_cast<T*>(memory.allocate(count * sizeof(T), 64));
  }
  ~Held() { memory_.release(data_, count_ * sizeof(T), 64); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  T* get() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }

 private:
  Memory& memory_;
  size_t count_;
  T* data_;
};

// A row of a, or a column of b, as integers times one power of two.
struct Line {
  int64_t exponent = 0;  // of their lowest bit
  int64_t spread = 0;    // how far the highest lies above the lowest
  bool special = false;  // an element is no number
};

template <int N>
Line line_of(const Elements& elements, size_t count) {
  Terms terms;
  for (size_t i = 0; i < count; ++i) {
    Limbs<N> w;
    load<N>(w, elements.at(static_cast<int64_t>(i)));
    const int64_t biased = biased_exponent<N>(w[N - 1]);
    if (biased == Format<N>::kSpecial) {
      terms.nan = true;
      continue;
    }
    const Scaled<N> x = scaled<N>(w);
    if (!is_zero<N>(x.m)) terms.finite(x.exponent, Format<N>::kPrecision);
  }
  if (!terms.any()) return {0, 0, terms.nan};
  return {terms.least, terms.greatest - terms.least - Format<N>::kPrecision, terms.nan};
}

constexpr size_t kMostLimbs = Residues::kMostDigits / 4;

// The element as digits of 16 bits with signs, in pairs, one below the other; 0 of what is no
// number.
template <int N>
void write_digits(int32_t* to, const char* at, const Line& line, size_t digits) {
  Limbs<N> w;
  load<N>(w, at);
  const Scaled<N> x = scaled<N>(w);
  Limb m[kMostLimbs + 1];
  const size_t limbs = digits / 4;
  const bool none = biased_exponent<N>(w[N - 1]) == Format<N>::kSpecial || is_zero<N>(x.m);
  if (!none) {
    const auto shift = static_cast<size_t>(x.exponent - line.exponent);
    const int rest = static_cast<int>(shift % 64);
    std::fill(m, m + shift / 64, 0);
    for (size_t i = shift / 64, k = 0; i < limbs; ++i, ++k) {
      const Limb high = k < N ? x.m[k] : 0, low = k > 0 && k <= N ? x.m[k - 1] : 0;
      m[i] = high << rest | (low >> 1) >> (63 - rest);
    }
  } else {
    std::fill(m, m + limbs, 0);
  }
  // Two's complement, then digits that carry where they exceed their half.
  constexpr Limb kHalves = 0x8000800080008000;
  const Limb flip = x.negative && !none ? ~Limb{0} : 0;
  unsigned char negate = flip != 0 ? 1 : 0, carry = 0;
  for (size_t i = 0; i < limbs; ++i) {
    Limb limb;
    negate = add_limb(negate, m[i] ^ flip, 0, &limb);
    carry = add_limb(carry, limb, kHalves, &limb);
    limb ^= kHalves;
    to[2 * i * kTileLanes] = static_cast<int32_t>(static_cast<uint32_t>(limb));
    to[(2 * i + 1) * kTileLanes] = static_cast<int32_t>(static_cast<uint32_t>(limb >> 32));
  }
}

int32_t pair_of(int32_t low, int32_t high) {
  return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xffff) | static_cast<uint32_t>(high)
                                                                          << 16);
}

// Of parts that other threads may have done: there is one thing that they fail for.
Status ended(int32_t failed) {
  return failed == 0 ? kOk : ASTER_FAIL(kMEMORY, "could not allocate a part of a product");
}

// A product under way.
template <int N>
class Product {
 public:
  Product(const Caller& caller, const Matrix& out, const Matrix& a, const Matrix& b, Rounding mode,
          Residues* kept)
      : caller_(caller),
        out_(out),
        a_(a),
        b_(b),
        mode_(mode),
        rows_(caller.memory()),
        columns_(caller.memory()),
        own_residues_(caller.memory()),
        residues_(kept == nullptr ? own_residues_ : *kept),
        code_(tile_for(caller.vector_bytes())) {}

  // How becomes what was done.
  Status run(Algorithm* how);

 private:
  static constexpr size_t kSize = N * sizeof(Limb);
  size_t inner() const { return a_.columns; }
  size_t pairs() const { return (inner() + 1) / 2; }  // along k

  Status look();
  bool fits(int64_t* bits);
  Status element(size_t i, size_t j);
  bool is_negative_zero(size_t i, size_t j) const;
  Status each_alone();
  void residues_of(int32_t* sums, const int32_t* digits, const int32_t* weights, size_t group,
                   size_t digit_count) const;
  void read_rows(int16_t* to, size_t first, size_t count) const;
  void read_columns(int32_t* to, int32_t* digits, size_t first) const;
  Status columns(size_t first, size_t count);
  Status task(const int32_t* b, size_t first_row, size_t first_column, size_t column_count);
  Status halves();
  void read_halves(int16_t* x, int16_t* y, size_t inner_size, size_t column_size, int16_t* rows,
                   int32_t* lines) const;
  void tile(int32_t* pairs_out, const int16_t* a, const int32_t* b, size_t l) const;
  void find_quotients(int32_t* row) const;
  void finish(const int32_t* pairs_in, int32_t* digits, size_t i, size_t j, size_t count,
              std::atomic<int32_t>* failed);
  bool finish(const Limb* parts, size_t i, size_t j, size_t count, size_t from,
              std::atomic<int32_t>* failed);
  // What was found of an element by its residues.
  enum class Found { kNone, kUnsure, kZero, kNumber };
  static constexpr size_t kLeftOutBits = 20;  // that digits left out do not exceed
  Found round(Limb* out, const Limb* parts, size_t count, bool some_left_out,
              int64_t exponent) const;

  const Caller& caller_;
  const Matrix out_, a_, b_;
  Rounding mode_;
  Vec<Line> rows_, columns_;
  size_t a_digits_ = 0, b_digits_ = 0;
  Residues own_residues_;
  Residues& residues_;
  TileCode code_;
  int levels_ = 0;  // of halves
};

template <int N>
Status Product<N>::look() {
  ASTER_TRY(rows_.resize(a_.rows));
  ASTER_TRY(columns_.resize(b_.columns));
  const int64_t ns = static_cast<int64_t>(inner()) * 4 + 1;
  in_parts(caller_, a_.rows, ns, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) rows_[i] = line_of<N>(a_.row_of(i, kSize), inner());
  });
  in_parts(caller_, b_.columns, ns, [&](size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) columns_[j] = line_of<N>(b_.column_of(j, kSize), inner());
  });
  return kOk;
}

// Whether the integers are short enough, and how many bits their sums of products take.
template <int N>
bool Product<N>::fits(int64_t* bits) {
  int64_t a = 0, b = 0;
  for (const Line& line : rows_) a = std::max(a, line.spread);
  for (const Line& line : columns_) b = std::max(b, line.spread);
  a += Format<N>::kPrecision;
  b += Format<N>::kPrecision;
  // A sign, and a carry of the highest digit.
  a_digits_ = (static_cast<size_t>(a) + 2 + 63) / 64 * 4;
  b_digits_ = (static_cast<size_t>(b) + 2 + 63) / 64 * 4;
  // Signs, and room for the float that finds the quotient.
  *bits = a + b + static_cast<int64_t>(std::bit_width(inner())) + 3;
  return a_digits_ <= Residues::kMostDigits && b_digits_ <= Residues::kMostDigits &&
         *bits <= static_cast<int64_t>(Residues::kMostPrimes - 5) * 12;
}

template <int N>
Status Product<N>::element(size_t i, size_t j) {
  Limbs<N> w;
  const Caller alone(nullptr, caller_.memory());
  const Elements column = b_.column_of(j, kSize);
  ASTER_TRY(exact_sum<N>(w, alone, a_.row_of(i, kSize), &column, inner(), mode_));
  store<N>(const_cast<char*>(out_.at(i, j)), w);
  return kOk;
}

// Whether a sum of 0 has the sign of terms that are all -0.
template <int N>
bool Product<N>::is_negative_zero(size_t i, size_t j) const {
  for (size_t k = 0; k < inner(); ++k) {
    Limbs<N> x, y;
    load<N>(x, a_.at(i, k));
    load<N>(y, b_.at(k, j));
    const bool negative = ((x[N - 1] ^ y[N - 1]) & Format<N>::kSign) != 0;
    x[N - 1] &= ~Format<N>::kSign;
    y[N - 1] &= ~Format<N>::kSign;
    if (!negative || (!is_zero<N>(x) && !is_zero<N>(y))) return false;
  }
  return true;
}

template <int N>
Status Product<N>::each_alone() {
  std::atomic<int32_t> failed{0};
  const int64_t ns = static_cast<int64_t>(inner()) * 60 + 50;
  in_parts(caller_, a_.rows * b_.columns, ns, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; ++at) {
      const Status status = element(at / b_.columns, at % b_.columns);
      if (!status.ok()) failed = status.code;
    }
  });
  return ended(failed);
}

// Residues by eight primes of 32 elements that lie as digits.
template <int N>
void Product<N>::residues_of(int32_t* sums, const int32_t* digits, const int32_t* weights,
                             size_t group, size_t digit_count) const {
  int32_t primes[kPrimesAtOnce];
  float inverses[kPrimesAtOnce];
  for (size_t r = 0; r < kPrimesAtOnce; ++r) {
    primes[r] = residues_.prime(group * kPrimesAtOnce + r);
    inverses[r] = residues_.inverse(group * kPrimesAtOnce + r);
  }
  const size_t step = digit_count / 2;
  const int32_t* const first = weights + group * kPrimesAtOnce * step;
  std::fill(sums, sums + kPrimesAtOnce * kTileLanes, 0);
  const size_t at_once = residues_.at_once();
  for (size_t k = 0; k < step; k += at_once) {
    code_.tile(sums, first + k, step, digits + k * kTileLanes, std::min(at_once, step - k));
    code_.reduce(sums, primes, inverses);
  }
}

// Residues of rows: [prime][row][2 * pairs()], 32 at once.
template <int N>
void Product<N>::read_rows(int16_t* to, size_t first, size_t count) const {
  static_assert(kRowsAtOnce % (kTileLanes / 2) == 0);  // no more than a prime's
  alignas(64) int32_t digits[Residues::kMostDigits / 2 * kTileLanes];
  alignas(64) int32_t sums[kTileRows * kTileLanes];
  const size_t width = 2 * pairs(), tiled = (count + kTileRows - 1) / kTileRows * kTileRows;
  size_t r = 0, k = 0;
  for (size_t at = 0; at < tiled * width; at += kTileLanes) {
    if (inner() != width || at + kTileLanes > count * width)
      std::fill(digits, digits + a_digits_ / 2 * kTileLanes, 0);
    for (size_t lane = 0; lane < kTileLanes; ++r, k = 0) {
      const size_t end = std::min(lane + width - k, kTileLanes);
      const size_t past = r < count ? std::min(lane + inner() - k, end) : lane;
      for (; lane < past; ++lane, ++k)
        write_digits<N>(digits + lane, a_.at(first + r, k), rows_[first + r], a_digits_);
      k += end - lane;
      lane = end;
      if (k < width) break;
    }
    for (size_t group = 0; group < residues_.groups(); ++group) {
      residues_of(sums, digits, residues_.a_weights(), group, a_digits_);
      for (size_t l = 0; l < kPrimesAtOnce; ++l) {
        int16_t* const line = to + (group * kPrimesAtOnce + l) * kRowsAtOnce * width + at;
        for (size_t lane = 0; lane < kTileLanes; ++lane)
          line[lane] = static_cast<int16_t>(sums[l * kTileLanes + lane]);
      }
    }
  }
}

// Residues of 32 columns: [prime][pairs()][32], pairs along k.
template <int N>
void Product<N>::read_columns(int32_t* to, int32_t* digits, size_t first) const {
  alignas(64) int32_t sums[2][kTileRows * kTileLanes];
  const size_t size = b_digits_ / 2 * kTileLanes;
  const size_t count = std::min(kTileLanes, b_.columns - first);
  for (size_t pair = 0; pair < pairs(); ++pair) {
    for (size_t half = 0; half < 2; ++half) {
      const size_t k = 2 * pair + half;
      int32_t* const of_k = digits + half * size;
      std::fill(of_k, of_k + size, 0);
      for (size_t lane = 0; k < inner() && lane < count; ++lane) {
        write_digits<N>(of_k + lane, b_.at(k, first + lane), columns_[first + lane], b_digits_);
      }
    }
    for (size_t group = 0; group < residues_.groups(); ++group) {
      residues_of(sums[0], digits, residues_.b_weights(), group, b_digits_);
      residues_of(sums[1], digits + size, residues_.b_weights(), group, b_digits_);
      for (size_t l = 0; l < kPrimesAtOnce; ++l) {
        int32_t* const line = to + ((group * kPrimesAtOnce + l) * pairs() + pair) * kTileLanes;
        for (size_t lane = 0; lane < kTileLanes; ++lane) {
          const size_t at = l * kTileLanes + lane;
          line[lane] = pair_of(sums[0][at], sums[1][at]);
        }
      }
    }
  }
}

// Residues of 8 by 32 elements of the product by the prime l, into pairs: [row][pair][32].
template <int N>
void Product<N>::tile(int32_t* pairs_out, const int16_t* a, const int32_t* b, size_t l) const {
  alignas(64) int32_t sums[kTileRows * kTileLanes] = {};
  int32_t primes[kTileRows];
  float inverses[kTileRows];
  std::fill(primes, primes + kTileRows, residues_.prime(l));
  std::fill(inverses, inverses + kTileRows, residues_.inverse(l));
  const auto* const rows = reinterpret_cast<const int32_t*>(a + l * kRowsAtOnce * 2 * pairs());
  const int32_t* const lines = b + l * pairs() * kTileLanes;
  for (size_t k = 0; k < pairs(); k += Residues::kPairsAtOnce) {
    code_.tile(sums, rows + k, pairs(), lines + k * kTileLanes,
               std::min(Residues::kPairsAtOnce, pairs() - k));
    code_.reduce(sums, primes, inverses);
  }
  for (size_t r = 0; r < kTileRows; ++r) {
    int32_t* const to = pairs_out + (r * residues_.pairs() + l / 2) * kTileLanes;
    for (size_t lane = 0; lane < kTileLanes; ++lane) {
      const int32_t sum = sums[r * kTileLanes + lane];
      to[lane] = l % 2 == 0 ? sum & 0xffff : pair_of(to[lane], sum);
    }
  }
}

// The number of one lane of what is settled, 52 bits each. Where digits below were left out, they
// add less than 2^19 to what is there, or take it: kUnsure if that decides.
template <int N>
typename Product<N>::Found Product<N>::round(Limb* out, const Limb* parts, size_t count,
                                             bool some_left_out, int64_t exponent) const {
  constexpr size_t kLimbs = Residues::kMostPrimes * 13 / 64 + 4;
  constexpr size_t kBits = 4 * kDigitBits;
  Limb m[kLimbs];
  size_t top = 0;
  Limb bits = 0;
  size_t filled = 0;
  for (size_t g = 0; g < count; ++g) {
    const Limb part = parts[g * kTileLanes];
    bits |= part << filled;
    filled += kBits;
    if (filled < 64) continue;
    filled -= 64;
    m[top++] = bits;
    bits = part >> (kBits - filled);
  }
  // The highest bit is the sign.
  const bool negative = parts[(count - 1) * kTileLanes] >> (kBits - 1) != 0;
  if (negative) bits |= ~Limb{0} << filled;
  m[top++] = bits;
  unsigned char carry = negative ? 1 : 0;
  for (size_t i = 0; negative && i < top; ++i) carry = add_limb(carry, ~m[i], 0, &m[i]);
  while (top > 0 && m[top - 1] == 0) --top;
  if (top == 0) return some_left_out ? Found::kUnsure : Found::kZero;
  const int zeros = std::countl_zero(m[top - 1]);
  const auto limb = [&](size_t i) { return i < top ? m[top - 1 - i] : 0; };
  Limbs<N> high;
  for (size_t i = 0; i < N; ++i) {
    high[N - 1 - i] = limb(i) << zeros | (limb(i + 1) >> 1) >> (63 - zeros);
  }
  bool more = limb(N) << zeros != 0;
  for (size_t i = N + 1; i < top; ++i) more |= m[top - 1 - i] != 0;
  exponent += static_cast<int64_t>(64 * top) - 1 - zeros;
  if (some_left_out) {
    // Neither 0 nor all ones, the bits below half a unit stay so.
    constexpr Limb kBelow = (Limb{1} << (Format<N>::kSpare - 1)) - 1;
    const Limb below = high[0] & kBelow;
    const bool enough = 64 * top >= 64 * N + static_cast<size_t>(zeros) + kLeftOutBits;
    if (!enough || below == 0 || below == kBelow || exponent < Format<N>::kMin)
      return Found::kUnsure;
  }
  round_pack<N>(out, negative, exponent, high, more, mode_);
  return Found::kNumber;
}

// How often the product of the primes is in the sum, behind a row's residues.
template <int N>
void Product<N>::find_quotients(int32_t* row) const {
  constexpr int kBits = Residues::kQuotientBits;
  alignas(64) int32_t sums[kTileLanes];
  code_.row(sums, residues_.quotients(), row, residues_.count() / 2);
  int32_t* const to = row + residues_.count() / 2 * kTileLanes;
  for (size_t lane = 0; lane < kTileLanes; ++lane)
    to[lane] = ((sums[lane] + (1 << (kBits - 1))) >> kBits) & 0xffff;
}

// Row i of a tile, from column j on: residues become digits, these numbers. The lower digits seldom
// matter: they are found where they do.
template <int N>
void Product<N>::finish(const int32_t* pairs_in, int32_t* digits, size_t i, size_t j, size_t count,
                        std::atomic<int32_t>* failed) {
  // What is rounded, and what sums are shorter than they might be.
  constexpr size_t kFew = ((64 * N + kLeftOutBits + 64) / kDigitBits + 8) / 8 * 8;
  alignas(64) Limb parts[(Residues::kMostRows / 4) * kTileLanes];
  const size_t rows = residues_.rows();
  size_t to = rows, from = rows - std::min(rows, kFew);
  while (true) {
    std::fill(digits + from * kTileLanes, digits + to * kTileLanes, 0);
    for (size_t d = from; d < to; d += kTileRows) {
      code_.tile(digits + d * kTileLanes, residues_.digits() + d * residues_.pairs(),
                 residues_.pairs(), pairs_in, residues_.pairs());
    }
    code_.settle(parts, digits + from * kTileLanes, rows - from);
    if (finish(parts, i, j, count, from, failed)) return;
    to = std::exchange(from, 0);
  }
}

// False if digits below the first ones decide.
template <int N>
bool Product<N>::finish(const Limb* parts, size_t i, size_t j, size_t count, size_t from,
                        std::atomic<int32_t>* failed) {
  const size_t part_count = (residues_.rows() - from) / 4;
  for (size_t lane = 0; lane < count; ++lane) {
    Limbs<N> w;
    Found found = Found::kNone;
    if (!rows_[i].special && !columns_[j + lane].special) {
      const int64_t exponent =
          rows_[i].exponent + columns_[j + lane].exponent + static_cast<int64_t>(from) * kDigitBits;
      found = round(w, parts + 16 * (lane % 2) + lane / 2, part_count, from != 0, exponent);
    }
    if (found == Found::kUnsure) return false;
    if (found == Found::kZero && mode_ != Rounding::kDown) {
      pack_zero<N>(w, is_negative_zero(i, j + lane));
      found = Found::kNumber;
    }
    if (found == Found::kNumber) {
      store<N>(const_cast<char*>(out_.at(i, j + lane)), w);
      continue;
    }
    const Status status = element(i, j + lane);
    if (!status.ok()) *failed = status.code;
  }
  return true;
}

// kRowsAtOnce rows by the columns whose residues b are.
template <int N>
Status Product<N>::task(const int32_t* b, size_t first_row, size_t first_column,
                        size_t column_count) {
  Memory& memory = caller_.memory();
  const size_t primes = residues_.groups() * kPrimesAtOnce;
  const Held<int16_t> a(memory, primes * kRowsAtOnce * 2 * pairs());
  const Held<int32_t> tiles(memory, kRowsTogether * residues_.pairs() * kTileLanes);
  const Held<int32_t> digits(memory, residues_.rows() * kTileLanes);
  if (a.get() == nullptr) return out_of_memory(a.bytes());
  if (tiles.get() == nullptr) return out_of_memory(tiles.bytes());
  if (digits.get() == nullptr) return out_of_memory(digits.bytes());
  const size_t row_count = std::min(kRowsAtOnce, a_.rows - first_row);
  read_rows(a.get(), first_row, row_count);
  std::atomic<int32_t> failed{0};
  for (size_t j = 0; j < column_count; j += kTileLanes) {
    const int32_t* const lines = b + j / kTileLanes * primes * pairs() * kTileLanes;
    for (size_t i = 0; i < row_count; i += kRowsTogether) {
      const size_t height = std::min(kRowsTogether, row_count - i);
      const size_t row_size = residues_.pairs() * kTileLanes;
      for (size_t l = 0; l < residues_.count(); ++l) {
        for (size_t r = 0; r < height; r += kTileRows)
          tile(tiles.get() + r * row_size, a.get() + (i + r) * 2 * pairs(), lines, l);
      }
      for (size_t r = 0; r < height; ++r) {
        int32_t* const row = tiles.get() + r * row_size;
        find_quotients(row);
        finish(row, digits.get(), first_row + i + r, first_column + j,
               std::min(kTileLanes, column_count - j), &failed);
      }
    }
  }
  return ended(failed);
}

template <int N>
Status Product<N>::columns(size_t first, size_t count) {
  Memory& memory = caller_.memory();
  const size_t panels = (count + kTileLanes - 1) / kTileLanes;
  const size_t panel = residues_.groups() * kPrimesAtOnce * pairs() * kTileLanes;
  const Held<int32_t> b(memory, panels * panel);
  if (b.get() == nullptr) return out_of_memory(b.bytes());
  constexpr int64_t kLong = 1'000'000;
  in_parts(caller_, panels, kLong, [&](size_t begin, size_t end) {
    alignas(64) int32_t digits[Residues::kMostDigits * kTileLanes];
    for (size_t p = begin; p < end; ++p) {
      read_columns(b.get() + p * panel, digits, first + p * kTileLanes);
    }
  });
  std::atomic<int32_t> failed{0};
  in_parts(caller_, (a_.rows + kRowsAtOnce - 1) / kRowsAtOnce, kLong,
           [&](size_t begin, size_t end) {
             for (size_t t = begin; t < end; ++t) {
               const Status status = task(b.get(), t * kRowsAtOnce, first, count);
               if (!status.ok()) failed = status.code;
             }
           });
  return ended(failed);
}

// Residues of both operands, prime by prime: row-major matrices with zeros around.
template <int N>
void Product<N>::read_halves(int16_t* x, int16_t* y, size_t inner_size, size_t column_size,
                             int16_t* rows, int32_t* lines) const {
  alignas(64) int32_t digits[Residues::kMostDigits * kTileLanes];
  const size_t count = residues_.count(), row_size = strassen_size(a_.rows, levels_);
  std::fill(x, x + count * row_size * inner_size, int16_t{0});
  std::fill(y, y + count * inner_size * column_size, int16_t{0});
  for (size_t first = 0; first < a_.rows; first += kRowsAtOnce) {
    const size_t height = std::min(kRowsAtOnce, a_.rows - first);
    read_rows(rows, first, height);
    for (size_t l = 0; l < count; ++l) {
      for (size_t r = 0; r < height; ++r)
        std::copy_n(rows + (l * kRowsAtOnce + r) * 2 * pairs(), inner(),
                    x + (l * row_size + first + r) * inner_size);
    }
  }
  for (size_t first = 0; first < b_.columns; first += kTileLanes) {
    read_columns(lines, digits, first);
    const size_t width = std::min(kTileLanes, b_.columns - first);
    for (size_t l = 0; l < count; ++l) {
      for (size_t k = 0; k < inner(); ++k) {
        const int32_t* const from = lines + (l * pairs() + k / 2) * kTileLanes;
        for (size_t lane = 0; lane < width; ++lane)
          y[(l * inner_size + k) * column_size + first + lane] =
              static_cast<int16_t>(from[lane] >> (k % 2 * 16));
      }
    }
  }
}

// The product of each prime's residues by halves (strassen.h).
template <int N>
Status Product<N>::halves() {
  Memory& memory = caller_.memory();
  const size_t count = residues_.count(), primes = residues_.groups() * kPrimesAtOnce;
  const size_t m = strassen_size(a_.rows, levels_), k = strassen_size(inner(), levels_),
               n = strassen_size(b_.columns, levels_);
  const Held<int16_t> x(memory, count * m * k), y(memory, count * k * n), z(memory, count * m * n),
      rows(memory, primes * kRowsAtOnce * 2 * pairs());
  const Held<int32_t> lines(memory, primes * pairs() * kTileLanes),
      row(memory, residues_.pairs() * kTileLanes), digits(memory, residues_.rows() * kTileLanes),
      whole(memory, m * k + k * n + m * n + strassen_room(m, k, n, levels_));
  for (const void* part :
       {static_cast<const void*>(x.get()), static_cast<const void*>(y.get()),
        static_cast<const void*>(z.get()), static_cast<const void*>(rows.get()),
        static_cast<const void*>(lines.get()), static_cast<const void*>(row.get()),
        static_cast<const void*>(digits.get()), static_cast<const void*>(whole.get())}) {
    if (part == nullptr) return ended(1);
  }
  read_halves(x.get(), y.get(), k, n, rows.get(), lines.get());
  int32_t *const a = whole.get(), *const b = a + m * k, *const c = b + k * n;
  for (size_t l = 0; l < count; ++l) {
    std::copy_n(x.get() + l * m * k, m * k, a);
    std::copy_n(y.get() + l * k * n, k * n, b);
    strassen(c, a, b, m, k, n, levels_, residues_.prime(l), c + m * n);
    for (size_t i = 0; i < m * n; ++i) z.get()[l * m * n + i] = static_cast<int16_t>(c[i]);
  }
  std::atomic<int32_t> failed{0};
  for (size_t i = 0; i < a_.rows; ++i) {
    for (size_t j = 0; j < b_.columns; j += kTileLanes) {
      const size_t width = std::min(kTileLanes, b_.columns - j);
      std::fill(row.get(), row.get() + residues_.pairs() * kTileLanes, 0);
      for (size_t l = 0; l < count; l += 2) {
        const int16_t* const low = z.get() + (l * m + i) * n + j;
        for (size_t lane = 0; lane < width; ++lane)
          row.get()[l / 2 * kTileLanes + lane] = pair_of(low[lane], low[m * n + lane]);
      }
      find_quotients(row.get());
      finish(row.get(), digits.get(), i, j, width, &failed);
    }
  }
  return ended(failed);
}

template <int N>
Status Product<N>::run(Algorithm* how) {
  int64_t bits = 0;
  const double work = static_cast<double>(a_.rows * b_.columns) * static_cast<double>(inner());
  const Algorithm asked = std::exchange(*how, Algorithm::kNaive);
  if (asked == Algorithm::kNaive || (asked == Algorithm::kAuto && work < kLeastWork))
    return each_alone();
  ASTER_TRY(look());
  if (!fits(&bits)) return each_alone();
  *how = Algorithm::kResidues;
  if (!residues_.serves(a_digits_, b_digits_, bits)) {
    constexpr int64_t kRoom = 32;  // that the next call may take
    if (&residues_ != &own_residues_) bits += kRoom;
    ASTER_TRY(residues_.init(a_digits_, b_digits_, bits));
  }
  if (asked == Algorithm::kStrassen) {
    levels_ = strassen_levels(a_.rows, inner(), b_.columns);
    if (levels_ > 0) {
      *how = Algorithm::kStrassen;
      return halves();
    }
  }
  for (size_t j = 0; j < b_.columns; j += kColumnsAtOnce) {
    ASTER_TRY(columns(j, std::min(kColumnsAtOnce, b_.columns - j)));
  }
  return kOk;
}

}  // namespace

namespace {

Matrix turned(const Matrix& m) { return {m.data, m.column, m.row, m.columns, m.rows}; }

// Elements of a result that are computed with, those that fill tiles counted.
size_t tiled(size_t rows, size_t columns) {
  return (rows + kTileRows - 1) / kTileRows * kTileRows *
         ((columns + kTileLanes - 1) / kTileLanes) * kTileLanes;
}

}  // namespace

// A result of few columns is computed as its transpose.
template <int N>
Status product_of(const Caller& caller, const Matrix& out, const Matrix& a, const Matrix& b,
                  Rounding mode, Residues* kept, Algorithm* algorithm) {
  Algorithm any = Algorithm::kAuto;
  Algorithm* const how = algorithm == nullptr ? &any : algorithm;
  if (tiled(b.columns, a.rows) < tiled(a.rows, b.columns))
    return Product<N>(caller, turned(out), turned(b), turned(a), mode, kept).run(how);
  return Product<N>(caller, out, a, b, mode, kept).run(how);
}

template Status product_of<4>(const Caller&, const Matrix&, const Matrix&, const Matrix&, Rounding,
                              Residues*, Algorithm*);
template Status product_of<8>(const Caller&, const Matrix&, const Matrix&, const Matrix&, Rounding,
                              Residues*, Algorithm*);

}  // namespace aster::flt
