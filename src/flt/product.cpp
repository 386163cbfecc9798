#include "flt/product.h"

#include <algorithm>
#include <atomic>

#include "flt/accumulator.h"
#include "flt/arithmetic.h"
#include "flt/panels.h"
#include "flt/residues.h"
#include "flt/strassen.h"
#include "flt/sum.h"
#include "flt/tile.h"
#include "flt/work.h"

namespace aster::flt {
namespace {

constexpr size_t kMostRows = 64;           // of a: a task
constexpr size_t kColumnsTogether = 64;    // of b: while a prime's residues of a are near
constexpr size_t kColumnsOfPanels = 1024;  // the same by halves, whose sums of rows are made once
constexpr size_t kLeastOfHalf = 24;        // rows that are worth sums of columns
constexpr size_t kHalvesFrom = 768;        // sizes from which halves are faster (bench/wide.py)
constexpr size_t kPrimesAtOnce = 8;        // a tile's rows
// All tasks share the residues of columns of b, of whole panels that take up to so many bytes: more
// columns would be other tasks, which need the residues of a's rows again.
constexpr size_t kColumnBytes = size_t{192} << 20;
// Below that many products the tables cost more than they save (bench_flt).
constexpr double kLeastWork = 12 * 12 * 12;

Matrix turned(const Matrix& m) { return {m.data, m.column, m.row, m.columns, m.rows}; }

// A row of a, or a column of b, as integers times one power of two.
struct Line {
  int64_t exponent = 0;  // of their lowest bit
  int64_t spread = 0;    // how far the highest lies above the lowest
  bool special = false;  // an element is no number
};

// From the elements' highest limbs.
template <int N>
class Extent {
 public:
  void add(const char* at) {
    Limb top;
    std::memcpy(&top, at + (N - 1) * sizeof(Limb), sizeof(Limb));
    const int64_t biased = biased_exponent<N>(top);
    if (biased == 0 || biased == Format<N>::kSpecial) [[unlikely]] {
      special_ |= biased != 0;
      Limbs<N> w;
      load<N>(w, at);
      w[N - 1] &= ~Format<N>::kSign;
      if (biased != 0 || is_zero<N>(w)) return;
    }
    const int64_t exponent = std::max<int64_t>(biased, 1);
    least_ = std::min(least_, exponent);
    greatest_ = std::max(greatest_, exponent);
  }
  Line line() const {
    if (greatest_ == 0) return {0, 0, special_};
    return {least_ - Format<N>::kBias - (Format<N>::kPrecision - 1), greatest_ - least_, special_};
  }

 private:
  int64_t least_ = INT64_MAX, greatest_ = 0;
  bool special_ = false;
};

// Those of rows [begin, end), some at a time where their elements lie beside each other.
template <int N>
void find_lines(Line* lines, const Matrix& m, size_t begin, size_t end) {
  constexpr size_t kAtOnce = 32;
  const size_t at_once = std::abs(m.row) < std::abs(m.column) ? kAtOnce : 1;
  for (; begin < end; begin += at_once) {
    const size_t count = std::min(at_once, end - begin);
    Extent<N> extents[kAtOnce];
    for (size_t k = 0; k < m.columns; ++k) {
      for (size_t i = 0; i < count; ++i) extents[i].add(m.at(begin + i, k));
    }
    for (size_t i = 0; i < count; ++i) lines[begin + i] = extents[i].line();
  }
}

constexpr size_t kMostLimbs = Residues::kMostDigits / 4;

// Numbers on their way to digits, one a lane: 0 of what is no number.
template <int N>
class Lanes {
 public:
  Lanes(const TileCode& code, size_t digits) : code_(code), limbs_(digits / 4) {}

  void put(size_t lane, const char* at, const Line& line) {
    Limbs<N> w;
    load<N>(w, at);
    const Limb top = w[N - 1];
    const int64_t biased = biased_exponent<N>(top);
    w[N - 1] = (top & (Format<N>::kImplicit - 1)) | (biased == 0 ? 0 : Format<N>::kImplicit);
    if (biased == Format<N>::kSpecial || (biased == 0 && is_zero<N>(w))) return clear(lane);
    const int64_t lowest =
        std::max<int64_t>(biased, 1) - Format<N>::kBias - (Format<N>::kPrecision - 1);
    const auto shift = static_cast<size_t>(lowest - line.exponent), whole = shift / 64;
    Limb* to = of_ + lane;
    size_t left = limbs_;
    for (size_t i = 0; i < whole; ++i, --left, to += kTileLanes) *to = 0;
    for (size_t i = 0; i < N && left > 0; ++i, --left, to += kTileLanes) *to = w[i];
    for (; left > 0; --left, to += kTileLanes) *to = 0;
    shifts_[lane] = shift % 64;
    flips_[lane] = (top & Format<N>::kSign) != 0 ? ~Limb{0} : 0;
  }
  void clear(size_t lane) {
    for (size_t i = 0; i < limbs_; ++i) of_[i * kTileLanes + lane] = 0;
    shifts_[lane] = flips_[lane] = 0;
  }
  void write(int32_t* digits) const { code_.digits(digits, of_, limbs_, shifts_, flips_); }

 private:
  const TileCode& code_;
  const size_t limbs_;
  alignas(64) Limb of_[kMostLimbs * kTileLanes];
  alignas(64) uint64_t shifts_[kTileLanes], flips_[kTileLanes];
};

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
  // Along k: an even number, of whole vectors where there are halves.
  size_t pairs() const {
    const size_t unit = halves_ == 0 ? 2 : size_t{8} << halves_;
    return (inner() + 2 * unit - 1) / (2 * unit) * unit;
  }

  Status look();
  bool fits();
  Status element(size_t i, size_t j);
  bool is_negative_zero(size_t i, size_t j) const;
  Status each_alone();
  void residues_of(int32_t* sums, const int32_t* digits, const int32_t* weights, size_t group,
                   size_t digit_count) const;
  // No powers of two, which would be one place of a cache.
  size_t row_prime() const { return rows_at_once_ * 2 * pairs() + kTileLanes; }  // in elements
  // In pairs; the last ones are what belongs to columns (PanelProduct).
  size_t column_prime() const { return (pairs() + 1) * kTileLanes; }
  void read_rows(int16_t* to, size_t first, size_t count) const;
  void read_columns(int32_t* to, int32_t* digits, size_t first) const;
  Status columns(size_t first, size_t count);
  size_t rows_of_task(size_t rows) const;
  void choose_halves(Algorithm asked);
  int halves_of(size_t rows) const;
  size_t tiled(size_t rows) const;
  size_t columns_at_once() const { return halves_ > 0 ? kColumnsOfPanels : kColumnsTogether; }
  // Memory of a thread for its tasks.
  struct Room {
    Room(Memory& memory, const Product& product, size_t columns);
    Status status() const;
    const Held<int16_t> a;
    const Held<int32_t> tiles, digits, panels;
  };
  Status task(const Room& room, const int32_t* b, size_t first_row, size_t row_count,
              size_t first_column, size_t column_count);
  void multiply(const Room& room, const int32_t* b, size_t row_count, size_t panels) const;
  Status halves();
  void read_halves(int16_t* x, int16_t* y, size_t inner_size, size_t column_size, int16_t* rows,
                   int32_t* lines) const;
  void tile(int32_t* pairs_out, size_t row_size, const int16_t* a, const int32_t* b, size_t l,
            const void* next) const;
  void tiles(int32_t* pairs_out, size_t row_size, const int16_t* a, const int32_t* b,
             size_t row_count, size_t panels) const;
  void find_quotients(int32_t* row) const;
  void finish(const int32_t* pairs_in, int32_t* digits, size_t i, size_t j, size_t count,
              std::atomic<int32_t>* failed);
  bool finish(const Limb* parts, size_t part_count, size_t i, size_t j, size_t count, size_t from,
              std::atomic<int32_t>* failed);
  // What was found of an element by its residues.
  enum class Found { kNone, kUnsure, kZero, kNumber };
  Found round(Limb* out, const Limb* parts, size_t count, bool some_left_out,
              int64_t exponent) const;

  const Caller& caller_;
  const Matrix out_, a_, b_;
  Rounding mode_;
  Vec<Line> rows_, columns_;
  size_t a_digits_ = 0, b_digits_ = 0;
  int64_t bits_ = 0;  // sums are less than 2^(bits_ - 3)
  Residues own_residues_;
  Residues& residues_;
  TileCode code_;
  size_t rows_at_once_ = kMostRows;
  int halves_ = 0;  // of panels
  int levels_ = 0;  // of halves
};

// Of the next tasks where so many are left, one of each thread: an equal share, since few rows do
// not pay for the columns that they need from afar.
template <int N>
size_t Product<N>::rows_of_task(size_t rows) const {
  const size_t threads = static_cast<size_t>(std::max(caller_.threads(), 1));
  const size_t unit = kTileRows << halves_, most = kMostRows << halves_;
  return std::clamp(((rows + threads - 1) / threads + unit - 1) / unit * unit, unit, most);
}

// How often rows of a task are halved.
template <int N>
int Product<N>::halves_of(size_t rows) const {
  int levels = halves_;
  while (levels > 0 && rows < kLeastOfHalf << levels) --levels;
  return levels;
}
template <int N>
size_t Product<N>::tiled(size_t rows) const {
  const size_t unit = kTileRows << halves_of(rows);
  return (rows + unit - 1) / unit * unit;
}

template <int N>
void Product<N>::choose_halves(Algorithm asked) {
  const size_t least = std::min({a_.rows, inner(), b_.columns});
  const bool by_halves =
      asked == Algorithm::kStrassen || (asked == Algorithm::kAuto && least >= kHalvesFrom);
  if (code_.panels.multiply != nullptr && by_halves)
    halves_ = std::min(PanelRows::kMostLevels, strassen_levels(a_.rows, inner(), b_.columns));
  rows_at_once_ = rows_of_task(a_.rows);
}

template <int N>
Status Product<N>::look() {
  ASTER_TRY(rows_.resize(a_.rows));
  ASTER_TRY(columns_.resize(b_.columns));
  const int64_t ns = static_cast<int64_t>(inner()) * 2 + 1;
  in_parts(caller_, a_.rows, ns,
           [&](size_t begin, size_t end) { find_lines<N>(rows_.data(), a_, begin, end); });
  in_parts(caller_, b_.columns, ns, [&](size_t begin, size_t end) {
    find_lines<N>(columns_.data(), turned(b_), begin, end);
  });
  return kOk;
}

// Whether the integers, and their sums of products, are short enough.
template <int N>
bool Product<N>::fits() {
  int64_t a = 0, b = 0;
  for (const Line& line : rows_) a = std::max(a, line.spread);
  for (const Line& line : columns_) b = std::max(b, line.spread);
  a += Format<N>::kPrecision;
  b += Format<N>::kPrecision;
  // A sign, and a carry of the highest digit.
  a_digits_ = (static_cast<size_t>(a) + 2 + 63) / 64 * 4;
  b_digits_ = (static_cast<size_t>(b) + 2 + 63) / 64 * 4;
  // Signs, and room for the float that finds the quotient.
  bits_ = a + b + static_cast<int64_t>(std::bit_width(inner())) + 3;
  return a_digits_ <= Residues::kMostDigits && b_digits_ <= Residues::kMostDigits &&
         bits_ <= static_cast<int64_t>(Residues::kMostPrimes - 5) * 12;
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
  code_.residues(sums, weights + group * kPrimesAtOnce * step, step, digits, step,
                 residues_.at_once(), primes, inverses, digits);
}

// Residues of rows: [prime][row][2 * pairs()], 32 at once.
template <int N>
void Product<N>::read_rows(int16_t* to, size_t first, size_t count) const {
  alignas(64) int32_t digits[Residues::kMostDigits / 2 * kTileLanes];
  alignas(64) int32_t sums[kTileRows * kTileLanes];
  Lanes<N> lanes(code_, a_digits_);
  const size_t width = 2 * pairs();
  size_t r = 0, k = 0;
  for (size_t at = 0; at < tiled(count) * width; at += kTileLanes) {
    for (size_t lane = 0; lane < kTileLanes; ++lane) {
      if (r < count && k < inner()) {
        lanes.put(lane, a_.at(first + r, k), rows_[first + r]);
      } else {
        lanes.clear(lane);
      }
      if (++k == width) ++r, k = 0;
    }
    lanes.write(digits);
    for (size_t group = 0; group < residues_.groups(); ++group) {
      residues_of(sums, digits, residues_.a_weights(), group, a_digits_);
      code_.narrow(to + group * kPrimesAtOnce * row_prime() + at, row_prime(), sums);
    }
  }
}

// Residues of 32 columns: [prime][pairs()][32], pairs along k.
template <int N>
void Product<N>::read_columns(int32_t* to, int32_t* digits, size_t first) const {
  alignas(64) int32_t sums[2][kTileRows * kTileLanes];
  Lanes<N> lanes(code_, b_digits_);
  const size_t size = b_digits_ / 2 * kTileLanes;
  const size_t count = std::min(kTileLanes, b_.columns - first);
  for (size_t pair = 0; pair < pairs(); ++pair) {
    for (size_t half = 0; half < 2; ++half) {
      const size_t k = 2 * pair + half;
      for (size_t lane = 0; lane < kTileLanes; ++lane) {
        if (k < inner() && lane < count) {
          lanes.put(lane, b_.at(k, first + lane), columns_[first + lane]);
        } else {
          lanes.clear(lane);
        }
      }
      lanes.write(digits + half * size);
    }
    for (size_t group = 0; group < residues_.groups(); ++group) {
      residues_of(sums[0], digits, residues_.b_weights(), group, b_digits_);
      residues_of(sums[1], digits + size, residues_.b_weights(), group, b_digits_);
      code_.join(to + group * kPrimesAtOnce * column_prime() + pair * kTileLanes, column_prime(),
                 sums[0], kTileLanes, sums[1]);
    }
  }
}

// Residues of 8 by 32 elements of the product by the prime l, into pairs: [pair][32] of each row.
// next: what is multiplied soon.
template <int N>
void Product<N>::tile(int32_t* pairs_out, size_t row_size, const int16_t* a, const int32_t* b,
                      size_t l, const void* next) const {
  alignas(64) int32_t sums[kTileRows * kTileLanes];
  int32_t primes[kTileRows];
  float inverses[kTileRows];
  std::fill(primes, primes + kTileRows, residues_.prime(l));
  std::fill(inverses, inverses + kTileRows, residues_.inverse(l));
  code_.residues(sums, reinterpret_cast<const int32_t*>(a), pairs(), b, pairs(),
                 Residues::kPairsAtOnce, primes, inverses, next);
  int32_t* const to = pairs_out + l / 2 * kTileLanes;
  if (l % 2 == 0) {
    code_.join(to, row_size, sums, kTileLanes, sums);
  } else {
    code_.join(to, row_size, to, row_size, sums);
  }
}

// rows_at_once_ rows by so many panels, one prime after the other.
template <int N>
void Product<N>::tiles(int32_t* pairs_out, size_t row_size, const int16_t* a, const int32_t* b,
                       size_t row_count, size_t panels) const {
  const size_t number = residues_.pairs() * kTileLanes;
  const size_t panel = residues_.groups() * kPrimesAtOnce * column_prime();
  // A tile fetches a part of the next panel, or of the next prime's rows.
  const size_t part = pairs() * 32, parts = (pairs() * kTileLanes * sizeof(int32_t)) / part;
  for (size_t l = 0; l < residues_.count(); ++l) {
    const int16_t* const rows = a + l * row_prime();
    for (size_t c = 0; c < panels; ++c) {
      const int32_t* const lines = b + c * panel + l * column_prime();
      const int32_t* const after = c + 1 < panels ? lines + panel : b + (l + 1) * column_prime();
      for (size_t r = 0; r < row_count; r += kTileRows) {
        const size_t turn = r / kTileRows;
        const char* const next = turn < parts ? reinterpret_cast<const char*>(after) + turn * part
                                              : reinterpret_cast<const char*>(rows + row_prime()) +
                                                    (c * parts + turn - parts) % (2 * parts) * part;
        tile(pairs_out + r * row_size + c * number, row_size, rows + r * 2 * pairs(), lines, l,
             next);
      }
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
  constexpr size_t kBits = size_t{64 * N} + kLeftOutBits + 32, kOfTile = kDigitBits * kTileRows;
  constexpr size_t kFew = (kBits + kOfTile - 1) / kOfTile * kTileRows;
  alignas(64) Limb parts[(Residues::kMostRows / 4) * kTileLanes];
  const size_t rows = residues_.rows(), top = std::min(rows, residues_.rows_of(bits_));
  size_t from = top - std::min(top, kFew), end = from == 0 ? rows : top;
  while (true) {
    for (size_t d = from; d < end; d += kTileRows) {
      code_.fresh(digits + d * kTileLanes, residues_.digits() + d * residues_.pairs(),
                  residues_.pairs(), pairs_in, residues_.pairs());
    }
    code_.settle(parts, digits + from * kTileLanes, end - from);
    if (finish(parts, (end - from) / 4, i, j, count, from, failed)) return;
    from = 0;
    end = rows;
  }
}

// False if digits below the first ones decide.
template <int N>
bool Product<N>::finish(const Limb* parts, size_t part_count, size_t i, size_t j, size_t count,
                        size_t from, std::atomic<int32_t>* failed) {
  const int64_t lowest =
      static_cast<int64_t>(from) * kDigitBits - static_cast<int64_t>(residues_.blank_bits());
  const auto place = [](size_t lane) { return kTileLanes / 2 * (lane % 2) + lane / 2; };
  alignas(64) int64_t exponents[kTileLanes] = {};
  for (size_t lane = 0; lane < count; ++lane)
    exponents[place(lane)] = rows_[i].exponent + columns_[j + lane].exponent + lowest;
  alignas(64) Limb packed[size_t{N} * kTileLanes];
  const Pack pack = code_.packs[row_of(N)];
  const uint32_t done =
      pack == nullptr ? 0 : pack(packed, parts, part_count, from != 0, exponents, mode_);
  for (size_t lane = 0; lane < count; ++lane) {
    Limbs<N> w;
    Found found = Found::kNone;
    const size_t at = place(lane);
    if (!rows_[i].special && !columns_[j + lane].special) {
      if ((done >> at & 1) != 0) {
        for (size_t l = 0; l < N; ++l) w[l] = packed[l * kTileLanes + at];
        found = Found::kNumber;
      } else {
        found = round(w, parts + at, part_count, from != 0, exponents[at]);
      }
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

template <int N>
Product<N>::Room::Room(Memory& memory, const Product& product, size_t columns)
    : a(memory, product.residues_.groups() * kPrimesAtOnce * product.row_prime()),
      tiles(memory, product.rows_at_once_ *
                        ((std::min(product.columns_at_once(), columns) + kTileLanes - 1) /
                             kTileLanes * product.residues_.pairs() * kTileLanes +
                         kTileLanes)),
      digits(memory, product.residues_.rows() * kTileLanes),
      panels(memory,
             std::max(PanelRows::room(product.halves_, product.rows_at_once_, product.pairs()),
                      PanelRows::room(0, kMostPanelRows, product.pairs()))) {}

template <int N>
Status Product<N>::Room::status() const {
  if (a.get() == nullptr) return out_of_memory(a.bytes());
  if (tiles.get() == nullptr) return out_of_memory(tiles.bytes());
  if (digits.get() == nullptr) return out_of_memory(digits.bytes());
  return panels.get() == nullptr ? out_of_memory(panels.bytes()) : kOk;
}

// Rows of room by panels, one prime after the other.
template <int N>
void Product<N>::multiply(const Room& room, const int32_t* b, size_t row_count,
                          size_t panels) const {
  const size_t number = residues_.pairs() * kTileLanes, row_size = panels * number + kTileLanes;
  const size_t panel = residues_.groups() * kPrimesAtOnce * column_prime();
  PanelRows halves(code_.panels, halves_of(row_count), tiled(row_count), pairs());
  const size_t together = halves.panels(), whole = panels / together * together;
  for (size_t l = 0; l < residues_.count(); ++l) {
    const auto* const a = reinterpret_cast<const int32_t*>(room.a.get() + l * row_prime());
    const int32_t* const lines = b + l * column_prime();
    const int32_t prime = residues_.prime(l);
    const float inverse = residues_.inverse(l);
    int32_t* const to = room.tiles.get() + l / 2 * kTileLanes;
    if (whole > 0) halves.begin(a, pairs(), prime, inverse, room.panels.get());
    for (size_t c = 0; c < whole; c += together) {
      halves.multiply(
          lines + c * panel, panel,
          c + together < panels ? lines + (c + together) * panel : lines + column_prime(),
          {to + c * number, number, row_size, l % 2 == 0 ? Place::kLow : Place::kHigh});
    }
    for (size_t r = 0; whole < panels && r < halves.rows(); r += kMostPanelRows) {
      PanelRows rows(code_.panels, 0, std::min(kMostPanelRows, halves.rows() - r), pairs());
      rows.begin(a + r * pairs(), pairs(), prime, inverse, room.panels.get());
      for (size_t c = whole; c < panels; ++c) {
        rows.multiply(lines + c * panel, panel, lines + (c + 1) * panel,
                      {to + r * row_size + c * number, number, row_size,
                       l % 2 == 0 ? Place::kLow : Place::kHigh});
      }
    }
  }
}

// Rows, rows_at_once_ at most, by the columns whose residues b are: prime by prime for so many
// columns, then number by number.
template <int N>
Status Product<N>::task(const Room& room, const int32_t* b, size_t first_row, size_t row_count,
                        size_t first_column, size_t column_count) {
  const size_t panel = residues_.groups() * kPrimesAtOnce * column_prime();
  const size_t number = residues_.pairs() * kTileLanes;  // pairs of 32 numbers
  read_rows(room.a.get(), first_row, row_count);
  std::atomic<int32_t> failed{0};
  for (size_t j = 0; j < column_count; j += columns_at_once()) {
    const size_t width = std::min(columns_at_once(), column_count - j);
    const int32_t* const lines = b + j / kTileLanes * panel;
    const size_t panels = (width + kTileLanes - 1) / kTileLanes,
                 row_size = panels * number + kTileLanes;  // no power of two
    if (code_.panels.multiply != nullptr) {
      multiply(room, lines, row_count, panels);
    } else {
      tiles(room.tiles.get(), row_size, room.a.get(), lines, row_count, panels);
    }
    for (size_t r = 0; r < row_count; ++r) {
      for (size_t c = 0; c < width; c += kTileLanes) {
        int32_t* const row = room.tiles.get() + r * row_size + c / kTileLanes * number;
        find_quotients(row);
        finish(row, room.digits.get(), first_row + r, first_column + j + c,
               std::min(kTileLanes, width - c), &failed);
      }
    }
  }
  return ended(failed);
}

template <int N>
Status Product<N>::columns(size_t first, size_t count) {
  Memory& memory = caller_.work();
  const size_t panels = (count + kTileLanes - 1) / kTileLanes;
  const size_t primes = residues_.groups() * kPrimesAtOnce, panel = primes * column_prime();
  const Held<int32_t> b(memory, panels * panel);
  if (b.get() == nullptr) return out_of_memory(b.bytes());
  Vec<size_t> starts(memory);
  for (size_t row = 0; row < a_.rows;) {
    const size_t each = rows_of_task(a_.rows - row);
    for (int32_t i = 0; i < std::max(caller_.threads(), 1) && row < a_.rows; ++i, row += each)
      ASTER_TRY(starts.push(row));
  }
  const size_t tasks = starts.size();
  ASTER_TRY(starts.push(a_.rows));
  // Nanoseconds of a panel, and of a task, about.
  const auto all = static_cast<int64_t>(primes);
  const int64_t of_panel = static_cast<int64_t>(inner()) * all * 20,
                of_row =
                    static_cast<int64_t>(count) * (static_cast<int64_t>(inner()) * all / 128 + 40);
  constexpr int64_t kWorthThreads = 300'000;  // two runs of them, of which one may be short
  const bool alone =
      of_panel * static_cast<int64_t>(panels) + of_row * static_cast<int64_t>(a_.rows) <
      kWorthThreads;
  const auto parts = [&](size_t of, int64_t ns, const auto& body) {
    alone ? body(size_t{0}, of) : in_parts(caller_, of, ns, body);
  };
  parts(panels, of_panel, [&](size_t begin, size_t end) {
    alignas(64) int32_t digits[Residues::kMostDigits * kTileLanes];
    for (size_t p = begin; p < end; ++p) {
      int32_t* const lines = b.get() + p * panel;
      read_columns(lines, digits, first + p * kTileLanes);
      for (size_t l = 0; code_.panels.multiply != nullptr && l < residues_.count(); ++l) {
        int32_t* const at = lines + l * column_prime();
        code_.panels.column_parts(at + pairs() * kTileLanes, at, pairs(), residues_.prime(l),
                                  residues_.inverse(l));
      }
    }
  });
  // A thread has its memory once, and takes the next task until there is none.
  std::atomic<int32_t> failed{0};
  std::atomic<size_t> next{0};
  const size_t workers = std::min(tasks, static_cast<size_t>(caller_.threads()));
  const int64_t of_worker =
      of_row * static_cast<int64_t>(a_.rows) / static_cast<int64_t>(workers) + 1;
  parts(workers, of_worker, [&](size_t, size_t) {
    size_t t = next++;
    if (t >= tasks) return;
    const Room room(memory, *this, count);
    Status status = room.status();
    for (; status.ok() && t < tasks; t = next++)
      status = task(room, b.get(), starts[t], starts[t + 1] - starts[t], first, count);
    if (!status.ok()) failed = status.code;
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
  for (size_t first = 0; first < a_.rows; first += rows_at_once_) {
    const size_t height = std::min(rows_at_once_, a_.rows - first);
    read_rows(rows, first, height);
    for (size_t l = 0; l < count; ++l) {
      for (size_t r = 0; r < height; ++r)
        std::copy_n(rows + l * row_prime() + r * 2 * pairs(), inner(),
                    x + (l * row_size + first + r) * inner_size);
    }
  }
  for (size_t first = 0; first < b_.columns; first += kTileLanes) {
    read_columns(lines, digits, first);
    const size_t width = std::min(kTileLanes, b_.columns - first);
    for (size_t l = 0; l < count; ++l) {
      for (size_t k = 0; k < inner(); ++k) {
        const int32_t* const from = lines + l * column_prime() + k / 2 * kTileLanes;
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
  Memory& memory = caller_.work();
  const size_t count = residues_.count(), primes = residues_.groups() * kPrimesAtOnce;
  const size_t m = strassen_size(a_.rows, levels_), k = strassen_size(inner(), levels_),
               n = strassen_size(b_.columns, levels_);
  const Held<int16_t> x(memory, count * m * k), y(memory, count * k * n), z(memory, count * m * n),
      rows(memory, primes * row_prime());
  const Held<int32_t> lines(memory, primes * column_prime()),
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
  const double work = static_cast<double>(a_.rows * b_.columns) * static_cast<double>(inner());
  const Algorithm asked = std::exchange(*how, Algorithm::kNaive);
  if (asked == Algorithm::kNaive || (asked == Algorithm::kAuto && work < kLeastWork))
    return each_alone();
  ASTER_TRY(look());
  if (!fits()) return each_alone();
  *how = Algorithm::kResidues;
  const int32_t greatest =
      code_.panels.multiply == nullptr ? Residues::kGreatestPrime : kMostPrimeByHalves;
  if (!residues_.serves(a_digits_, b_digits_, bits_, greatest)) {
    const int64_t room = &residues_ == &own_residues_ ? 0 : 32;  // that the next call may take
    ASTER_TRY(residues_.init(a_digits_, b_digits_, bits_ + room, greatest));
  }
  if (asked == Algorithm::kStrassen && code_.panels.multiply == nullptr) {
    levels_ = strassen_levels(a_.rows, inner(), b_.columns);
    if (levels_ > 0) {
      *how = Algorithm::kStrassen;
      return halves();
    }
  }
  choose_halves(asked);
  if (halves_ > 0) *how = Algorithm::kStrassen;
  const size_t panel = residues_.groups() * kPrimesAtOnce * column_prime() * sizeof(int32_t);
  const size_t together = size_t{1} << halves_,
               at_once =
                   std::max(kColumnBytes / panel / together, size_t{1}) * together * kTileLanes;
  for (size_t j = 0; j < b_.columns; j += at_once)
    ASTER_TRY(columns(j, std::min(at_once, b_.columns - j)));
  return kOk;
}

}  // namespace

namespace {

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

#define INSTANTIATE(N, Name)                                                                \
  template Status product_of<N>(const Caller&, const Matrix&, const Matrix&, const Matrix&, \
                                Rounding, Residues*, Algorithm*);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::flt
