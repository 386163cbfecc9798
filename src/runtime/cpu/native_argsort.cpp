// Argsort: elements become unsigned keys that order as they do; (key, position) pairs in one word
// are sorted by radix, least significant digit first, which is stable. Where only a few of the
// first are asked for, a buffer of candidates is kept instead.
#include <algorithm>
#include <limits>

#include "runtime/cpu/native_types.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr int64_t kSmall = 64;     // sorted by comparisons
constexpr int64_t kMedium = 4096;  // sorted by narrow digits
constexpr int64_t kTaskElements = 1 << 13;
// Of the selection of a few: the least room for candidates, how many may be asked for, and keys
// looked at together.
constexpr int64_t kRoom = 2048;
constexpr int64_t kMostSelected = 4096;
constexpr int64_t kKeys = 128;

struct Head {
  int64_t dtype, descending;
  int64_t outer, size, inner, count;
  int64_t room;      // candidates of a partial selection, 0: everything is sorted
  int64_t per_task;  // rows
};

// ---- Keys ----

// NaN is largest, -0 equals 0.
inline uint32_t float_key(uint32_t bits, uint32_t infinity, uint32_t sign) {
  const uint32_t magnitude = bits & (sign - 1);
  if (magnitude > infinity) return sign | (sign - 1);
  return (bits & sign) != 0 ? sign - magnitude : sign | magnitude;
}

template <DType d>
struct Key {
  using Stored = typename Element<d>::Stored;
  using Bits = std::conditional_t<sizeof(Stored) == 8, uint64_t, uint32_t>;
  static Bits of(Stored x) {
    if constexpr (dtype::is_fp8(d)) {
      const float value = static_cast<float>(dtype::decode(d, x));
      return float_key(std::bit_cast<uint32_t>(value), 0x7f800000, 0x80000000);
    } else if constexpr (d == DType::kFloat16) {
      return float_key(x, 0x7c00, 0x8000);
    } else if constexpr (d == DType::kBFloat16) {
      return float_key(x, 0x7f80, 0x8000);
    } else if constexpr (d == DType::kFloat32) {
      return float_key(std::bit_cast<uint32_t>(x), 0x7f800000, 0x80000000);
    } else if constexpr (dtype::is_float(d)) {
      constexpr uint64_t kSign = uint64_t{1} << 63;
      const uint64_t bits = std::bit_cast<uint64_t>(x), magnitude = bits & (kSign - 1);
      if (magnitude > uint64_t{0x7ff} << 52) return ~uint64_t{0};
      return (bits & kSign) != 0 ? kSign - magnitude : kSign | magnitude;
    } else if constexpr (d == DType::kBool) {
      return x != 0;
    } else if constexpr (std::is_signed_v<Stored>) {
      using Unsigned = std::make_unsigned_t<Stored>;
      constexpr Unsigned kFlip = static_cast<Unsigned>(std::numeric_limits<Stored>::min());
      return static_cast<Unsigned>(static_cast<Unsigned>(x) ^ kFlip);
    } else {
      return x;
    }
  }
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

// ---- Pairs ----

// Digits of the upper half of a pair: few and wide for long rows, narrow where the bins would cost
// more than the pairs.
template <int kBits>
struct Histograms {
  static constexpr size_t kDigits = (32 + kBits - 1) / kBits;
  static constexpr size_t kBins = size_t{1} << kBits;
  static size_t digit(uint64_t pair, size_t d) { return (pair >> (32 + d * kBits)) & (kBins - 1); }

  uint32_t bins[kDigits][kBins];
  Histograms() { std::memset(bins, 0, sizeof(bins)); }
  void count(uint64_t pair) {
    for (size_t d = 0; d < kDigits; ++d) ++bins[d][digit(pair, d)];
  }
  // From counts to the places where each bin begins. False: all n are in one bin.
  bool begin(size_t d, uint64_t first, int64_t n) {
    uint32_t* const bin = bins[d];
    if (bin[digit(first, d)] == static_cast<uint32_t>(n)) return false;
    uint32_t sum = 0;
    for (size_t i = 0; i < kBins; ++i) sum += std::exchange(bin[i], sum);
    return true;
  }
  // Sorts n pairs, all counted, by their upper halves; equal ones keep their order. other: room
  // for n. Returns where they are then.
  uint64_t* sort(uint64_t* pairs, uint64_t* other, int64_t n) {
    for (size_t d = 0; d < kDigits; ++d) {
      if (!begin(d, pairs[0], n)) continue;
      uint32_t* const at = bins[d];
      for (int64_t i = 0; i < n; ++i) other[at[digit(pairs[i], d)]++] = pairs[i];
      std::swap(pairs, other);
    }
    return pairs;
  }
};
using WideDigits = Histograms<11>;
using NarrowDigits = Histograms<8>;

template <typename Digits, typename Make>
uint64_t* make_and_sort(uint64_t* pairs, uint64_t* other, int64_t n, Make make) {
  Digits counts;
  uint64_t before = 0;
  bool in_order = true;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t pair = make(i);
    pairs[i] = pair;
    counts.count(pair);
    in_order &= before <= pair;
    before = pair;
  }
  return in_order ? pairs : counts.sort(pairs, other, n);
}

// Sorts the n pairs make(i) of ascending positions by their keys, in order where equal.
template <typename Make>
uint64_t* sort_pairs(uint64_t* pairs, uint64_t* other, int64_t n, Make make) {
  if (n > kMedium) return make_and_sort<WideDigits>(pairs, other, n, make);
  if (n > kSmall) return make_and_sort<NarrowDigits>(pairs, other, n, make);
  for (int64_t i = 0; i < n; ++i) pairs[i] = make(i);
  std::sort(pairs, pairs + n);  // no two pairs are equal
  return pairs;
}

// ---- Whole rows ----

template <typename K>
const uint64_t* sort_row32(const Row<K>& row, int64_t n, uint64_t* pairs) {
  return sort_pairs(pairs, pairs + n, n, [&](int64_t i) { return pair_of(row.key(i), i); });
}

// The 32 bits from the topmost one that differs between keys are sorted first; runs that agree in
// them are sorted by the bits below.
template <typename K>
const uint64_t* sort_row64(const Row<K>& row, int64_t n, int64_t count, uint64_t* pairs) {
  const auto low = [](uint64_t key) { return static_cast<uint32_t>(key); };
  uint64_t differences = 0;
  const uint64_t first = row.key(0);
  for (int64_t i = 1; i < n; ++i) differences |= row.key(i) ^ first;
  const int shift = std::max(static_cast<int>(std::bit_width(differences)) - 32, 0);
  uint64_t* const sorted = sort_pairs(
      pairs, pairs + n, n, [&](int64_t i) { return pair_of(low(row.key(i) >> shift), i); });
  uint64_t* const free = sorted == pairs ? pairs + n : pairs;
  for (int64_t i = 0, end; shift != 0 && i < count; i = end) {
    for (end = i + 1; end < n && sorted[end] >> 32 == sorted[i] >> 32;) ++end;
    if (end - i == 1) continue;
    const auto make = [&, i](int64_t k) {
      const uint32_t at = low(sorted[i + k]);
      return pair_of(low(row.key(at)), at);
    };
    const uint64_t* const done = sort_pairs(sorted + i, free + i, end - i, make);
    if (done != sorted + i) std::copy_n(done, end - i, sorted + i);
  }
  return sorted;
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
inline int64_t at_of(uint64_t pair) { return static_cast<uint32_t>(pair); }
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
    for (int64_t i = 0; i < n; ++i) {
      if (keys[i] < bound) held[size++] = candidate(keys[i], first + i);
    }
  }
  drop();
  std::sort(held, held + size);
  for (int64_t i = 0; i < size; ++i) out.set(i, at_of(held[i]));
}

template <typename K>
void sort_row(const Row<K>& row, const Head& head, const Out& out, void* scratch) {
  if (head.room != 0) return select_row(row, head, out, scratch);
  uint64_t* const pairs = static_cast<uint64_t*>(scratch);
  const uint64_t* sorted;
  if constexpr (sizeof(typename K::Bits) == 8) {
    sorted = sort_row64(row, head.size, head.count, pairs);
  } else {
    sorted = sort_row32(row, head.size, pairs);
  }
  for (int64_t i = 0; i < head.count; ++i) out.set(i, at_of(sorted[i]));
}

}  // namespace

Status prepare_argsort(Plan* out, Node node) {
  const Node x = node->src(0);
  const size_t axis = static_cast<size_t>(node->arg(0));
  const Rows rows = rows_of(x->shape(), axis);
  Head head = {};
  head.dtype = static_cast<int64_t>(x->dtype);
  head.descending = node->arg(1);
  head.outer = rows.outer;
  head.size = rows.size;
  head.inner = rows.inner;
  head.count = node->dim(axis);
  const int64_t room = std::max(kRoom, 4 * head.count);
  head.room = head.count <= kMostSelected && rows.size >= 2 * room ? room : 0;
  head.per_task = std::clamp<int64_t>(kTaskElements / rows.size, 1, rows.outer * rows.inner);
  out->tasks = (rows.outer * rows.inner + head.per_task - 1) / head.per_task;
  out->nanoseconds = static_cast<double>(x->count()) * (head.room != 0 ? 1 : 12);
  out->scratch_bytes = head.room != 0 ? room * static_cast<int64_t>(sizeof(WidePair))
                                      : 2 * rows.size * static_cast<int64_t>(sizeof(uint64_t));
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
