// Argsort: elements become unsigned keys that order as they do; (key, position) pairs in one word
// are sorted: by AVX-512 where there is, else by radix, least significant digit first, which is
// stable. Where only a few of the first are asked for, a buffer of candidates is kept instead.
#include <algorithm>

#include "runtime/cpu/machine.h"
#include "runtime/cpu/native_keys.h"
#include "runtime/cpu/native_sort.h"

namespace aster::runtime::cpu::native {
namespace {

// By counting smaller ones: rows of words of 4 bytes, which vectors compare, and of 8.
constexpr int64_t kRanked = 64;
constexpr int64_t kRankedLong = 32;
constexpr int64_t kRankedWide = 8;  // where vectors sort
constexpr int64_t kSmall = 48;      // sorted by comparisons
constexpr int64_t kWide = 4096;     // by wide digits where it is near; by few rather than vectors
constexpr int64_t kLong = 1 << 17;  // dealt out first
constexpr int kDealtBits = 11;
constexpr int64_t kApart = 72;  // words between buffers, which a page's length would make collide
// Of the selection of a few: the least room for candidates, how many may be asked for, and keys
// looked at together.
constexpr int64_t kRoom = 128;
constexpr int64_t kMostSelected = 4096;
constexpr int64_t kKeys = 64;

struct Head {
  int64_t dtype, descending, wide;
  int64_t outer, size, inner, count;
  int64_t room;      // candidates of a partial selection, 0: everything is sorted
  int64_t per_task;  // rows
};

// One row of the source and of the result.
template <typename K>
struct Row {
  const typename K::Stored* x;
  int64_t stride;
  typename K::Bits flip;  // ones where descending
  typename K::Bits key(int64_t i) const { return K::of(x[i * stride]) ^ flip; }
};
struct Out {
  int32_t* y;
  int64_t stride;
  void set(int64_t i, int64_t at) const { y[i * stride] = static_cast<int32_t>(at); }
};

constexpr uint64_t pair_of(uint32_t key, int64_t i) {
  return uint64_t{key} << 32 | static_cast<uint32_t>(i);
}
constexpr int64_t at_of(uint64_t pair) { return static_cast<uint32_t>(pair); }

// ---- Pairs ----

// Counts of the lowest digits of keys, all in one pass, and the sort by them. Positions of bits are
// known when compiled, which makes digits cheap.
template <int kBits, size_t kDigits>
struct Digits {
  static constexpr size_t kBins = size_t{1} << kBits;
  static size_t digit(uint64_t pair, size_t d) { return (pair >> (32 + d * kBits)) & (kBins - 1); }

  uint32_t bins[kDigits][kBins];
  Digits() { std::memset(bins, 0, sizeof(bins)); }
  void count(uint64_t pair) {
    for (size_t d = 0; d < kDigits; ++d) ++bins[d][digit(pair, d)];
  }
  // Sorts n pairs, all counted; equal ones keep their order. other: room for n. Returns where they
  // are then: in pairs, or in other.
  uint64_t* sort(uint64_t* pairs, uint64_t* other, int64_t n) {
    for (size_t d = 0; d < kDigits; ++d) {
      uint32_t* const at = bins[d];
      if (at[digit(pairs[0], d)] == static_cast<uint32_t>(n)) continue;  // all are equal in it
      uint32_t sum = 0;
      for (size_t i = 0; i < kBins; ++i) sum += std::exchange(at[i], sum);
      for (int64_t i = 0; i < n; ++i) other[at[digit(pairs[i], d)]++] = pairs[i];
      std::swap(pairs, other);
    }
    return pairs;
  }
};

// Sorts the n pairs make(i) of ascending positions by their keys, in order where equal. Returns
// where they are then, likewise.
template <typename Make>
uint64_t* sort_pairs(uint64_t* pairs, uint64_t* other, int64_t n, bool wide, Make make) {
  if (wide) {
    for (int64_t i = 0; i < n; ++i) pairs[i] = make(i);
    if (std::is_sorted(pairs, pairs + n)) return pairs;
    sort_wide(pairs, other, 1, n, {.bytes = sizeof(uint64_t)});
    return other;
  }
  if (n <= kSmall) {
    for (int64_t i = 0; i < n; ++i) pairs[i] = make(i);
    std::sort(pairs, pairs + n);  // no two pairs are equal
    return pairs;
  }
  Digits<8, 4> digits;
  uint64_t before = 0;
  bool in_order = true;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t pair = make(i);
    pairs[i] = pair;
    digits.count(pair);
    in_order &= before <= pair;
    before = pair;
  }
  return in_order ? pairs : digits.sort(pairs, other, n);
}

// Those of one bin after dealing: the topmost digit is the same in all.
uint64_t* sort_dealt(uint64_t* pairs, uint64_t* other, int64_t n) {
  if (std::is_sorted(pairs, pairs + n)) return pairs;
  if (n <= kSmall) {
    std::sort(pairs, pairs + n);
    return pairs;
  }
  const auto sort = [&](auto digits) {
    for (int64_t i = 0; i < n; ++i) digits.count(pairs[i]);
    return digits.sort(pairs, other, n);
  };
  static_assert(kDealtBits + 3 * 7 == 32 && kDealtBits + 2 * 11 >= 32);
  return n > kWide ? sort(Digits<11, 2>()) : sort(Digits<7, 3>());
}

// As sort_pairs, for rows that leave the caches: dealt out by the topmost digit, which the rest of
// the sort then finds near. emit(pairs, room, first, count): these are first, first + 1, ...
template <typename Make, typename Emit>
void deal_and_sort(uint64_t* pairs, uint64_t* other, int64_t n, Make make, Emit emit) {
  constexpr size_t kBins = size_t{1} << kDealtBits;
  const auto bin_of = [](uint64_t pair) { return static_cast<size_t>(pair >> (64 - kDealtBits)); };
  uint32_t ends[kBins] = {};
  uint64_t before = 0;
  bool in_order = true;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t pair = make(i);
    pairs[i] = pair;
    ++ends[bin_of(pair)];
    in_order &= before <= pair;
    before = pair;
  }
  if (in_order) return emit(pairs, other, 0, n);
  uint32_t sum = 0;
  for (uint32_t& end : ends) sum += std::exchange(end, sum);
  for (int64_t i = 0; i < n; ++i) other[ends[bin_of(pairs[i])]++] = pairs[i];
  int64_t first = 0;
  for (const int64_t end : ends) {
    uint64_t* const dealt = other + first;
    uint64_t* const room = pairs + first;
    const int64_t count = end - first;
    if (count == 0) continue;
    uint64_t* const sorted = sort_dealt(dealt, room, count);
    emit(sorted, sorted == dealt ? room : dealt, first, count);
    first = end;
  }
}

// ---- Whole rows ----

// An element's place is the number of those before it: no branches, and vectors of comparisons.
template <typename K>
void rank_row(const Row<K>& row, int64_t n, int64_t count, const Out& out) {
  using Bits = typename K::Bits;
  using Signed = std::make_signed_t<Bits>;  // comparisons of these are what vectors have
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Signed keys[kRanked];
  int32_t order[kRanked];
  for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Signed>(row.key(i) ^ kSign);
  for (int64_t i = 0; i < n; ++i) {
    const Signed key = keys[i];
    int32_t place = 0;
    for (int64_t k = 0; k < i; ++k) place += keys[k] <= key;
    for (int64_t k = i + 1; k < n; ++k) place += keys[k] < key;
    order[place] = static_cast<int32_t>(i);
  }
  for (int64_t i = 0; i < count; ++i) out.set(i, order[i]);
}

inline uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }

// The 32 bits from the topmost one that differs between keys are sorted first; runs that agree in
// them are sorted by the bits below.
template <typename K>
void sort_whole_row(const Row<K>& row, const Head& head, const Out& out, uint64_t* pairs) {
  const int64_t n = head.size;
  typename K::Bits differences = 0;
  const auto first_key = row.key(0);
  for (int64_t i = 1; i < n; ++i) differences |= row.key(i) ^ first_key;
  const int width = static_cast<int>(std::bit_width(differences));
  const bool wide = head.wide != 0 && (width > 8 || n <= kWide);
  const int right = std::max(width - 32, 0), left = std::max(32 - width, 0) & 31;
  const auto make = [&](int64_t i) { return pair_of(low(row.key(i) >> right) << left, i); };
  const auto emit = [&](uint64_t* sorted, uint64_t* room, int64_t first, int64_t count) {
    const int64_t asked = std::min(count, head.count - first);
    for (int64_t i = 0, end; right != 0 && i < asked; i = end) {
      for (end = i + 1; end < count && sorted[end] >> 32 == sorted[i] >> 32;) ++end;
      if (end - i == 1) continue;
      const auto make_low = [&, i](int64_t k) {
        const uint32_t at = low(sorted[i + k]);
        return pair_of(low(row.key(at)), at);
      };
      const uint64_t* const done = sort_pairs(sorted + i, room + i, end - i, wide, make_low);
      if (done != sorted + i) std::copy_n(done, end - i, sorted + i);
    }
    for (int64_t i = 0; i < asked; ++i) out.set(first + i, at_of(sorted[i]));
  };
  uint64_t* const other = pairs + n + kApart;
  if (n > kLong && !wide) return deal_and_sort(pairs, other, n, make, emit);
  uint64_t* const sorted = sort_pairs(pairs, other, n, wide, make);
  emit(sorted, sorted == pairs ? other : pairs, 0, n);
}

// ---- The first few ----

struct WidePair {
  uint64_t key;
  int64_t at;
  friend bool operator<(const WidePair& a, const WidePair& b) {
    return a.key != b.key ? a.key < b.key : a.at < b.at;
  }
};
template <typename Bits>
using Candidate = std::conditional_t<sizeof(Bits) == 8, WidePair, uint64_t>;
inline uint64_t candidate(uint32_t key, int64_t at) { return pair_of(key, at); }
inline WidePair candidate(uint64_t key, int64_t at) { return {key, at}; }
inline uint32_t key_of(uint64_t pair) { return static_cast<uint32_t>(pair >> 32); }
inline uint64_t key_of(const WidePair& pair) { return pair.key; }
inline int64_t at_of(const WidePair& pair) { return pair.at; }

// Candidates are collected until there is no room, then all but the first `count` are dropped; what
// is not before the last of those need not be collected from then on.
template <typename K>
void select_row(const Row<K>& row, const Head& head, const Out& out, void* scratch) {
  using Bits = typename K::Bits;
  auto* const held = static_cast<Candidate<Bits>*>(scratch);
  int64_t size = 0;
  for (; size < head.room; ++size) held[size] = candidate(row.key(size), size);
  Bits keys[kKeys];
  Bits bound;
  const auto drop = [&] {
    std::nth_element(held, held + head.count - 1, held + size);
    size = head.count;
    bound = key_of(held[size - 1]);
  };
  drop();
  for (int64_t first = head.room; first < head.size; first += kKeys) {
    const int64_t n = std::min(kKeys, head.size - first);
    Bits any = 0;
    for (int64_t i = 0; i < n; ++i) {
      keys[i] = row.key(first + i);
      any |= keys[i] < bound;
    }
    if (any == 0) continue;
    if (size + n > head.room) drop();
    for (int64_t i = 0; i < n; ++i) {  // one more than fits may be written, not kept
      held[size] = candidate(keys[i], first + i);
      size += keys[i] < bound;
    }
  }
  drop();
  std::sort(held, held + size);
  for (int64_t i = 0; i < size; ++i) out.set(i, at_of(held[i]));
}

template <typename K>
void sort_row(const Row<K>& row, const Head& head, const Out& out, void* scratch) {
  if (head.room != 0) return select_row(row, head, out, scratch);
  constexpr int64_t kNarrow = sizeof(typename K::Bits) == 4 ? kRanked : kRankedLong;
  if (head.size <= (head.wide != 0 ? kRankedWide : kNarrow))
    return rank_row(row, head.size, head.count, out);
  sort_whole_row(row, head, out, static_cast<uint64_t*>(scratch));
}

}  // namespace

Status prepare_argsort(Plan* out, Node node, std::span<const int64_t>) {
  return prepare_argsort(out, node, detect_features());
}

Status prepare_argsort(Plan* out, Node node, const CpuFeatures& features) {
  const Node x = node->src(0);
  const size_t axis = static_cast<size_t>(node->arg(0));
  const Rows rows = rows_of(x->shape(), axis);
  Head head = {};
  head.dtype = static_cast<int64_t>(x->dtype);
  head.descending = node->arg(1);
  head.wide = sorts_wide(features, sizeof(uint64_t), rows.size);
  head.outer = rows.outer;
  head.size = rows.size;
  head.inner = rows.inner;
  head.count = node->dim(axis);
  const int64_t room = std::max(kRoom, 4 * head.count);
  head.room = head.count <= kMostSelected && rows.size >= 2 * room ? room : 0;
  head.per_task =
      std::clamp<int64_t>(machine::kSortedTaskElements / rows.size, 1, rows.outer * rows.inner);
  out->tasks = (rows.outer * rows.inner + head.per_task - 1) / head.per_task;
  out->nanoseconds = static_cast<double>(x->count()) * (head.room != 0 ? 1 : 12);
  out->scratch_bytes = head.room != 0
                           ? (room + 1) * static_cast<int64_t>(sizeof(WidePair))
                           : (2 * rows.size + kApart) * static_cast<int64_t>(sizeof(uint64_t));
  return put_head(out, head);
}

void run_argsort(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end) {
  const Head head = get_head<Head>(plan);
  const int64_t last = std::min(end * head.per_task, head.outer * head.inner);
  with_element(static_cast<DType>(head.dtype), [&](auto element) {
    using K = Key<decltype(element)::kDType>;
    using Bits = typename K::Bits;
    const auto* const x = static_cast<const typename K::Stored*>(operands[0]);
    int32_t* const y = static_cast<int32_t*>(operands[1]);
    for (int64_t r = begin * head.per_task; r < last; ++r) {
      const int64_t o = r / head.inner, i = r % head.inner;
      const Row<K> row{x + o * head.size * head.inner + i, head.inner,
                       head.descending != 0 ? static_cast<Bits>(~Bits{0}) : Bits{0}};
      sort_row(row, head, Out{y + o * head.count * head.inner + i, head.inner}, scratch);
    }
  });
}

}  // namespace aster::runtime::cpu::native
