// Quicksort of unsigned keys or floats in vectors, in place: a partition packs what is below the
// pivot to one side and the rest to the other, networks sort what fits the registers.
#include <algorithm>
#include <bit>
#include <iterator>
#include <type_traits>

#include "runtime/cpu/native_sort.h"

#if defined(__x86_64__)
#include "runtime/cpu/native_sort_lanes.h"

namespace aster::runtime::cpu::native {
namespace {

// ---- Keys ----

template <typename T>
using BitsOf =
    std::conditional_t<sizeof(T) == 1, uint8_t,
                       std::conditional_t<sizeof(T) == 2, uint16_t,
                                          std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
template <typename T>
constexpr BitsOf<T> kSign = static_cast<BitsOf<T>>(BitsOf<T>{1} << (8 * sizeof(T) - 1));
template <typename T>
constexpr BitsOf<T> kOnes = static_cast<BitsOf<T>>(~BitsOf<T>{0});

// Elements as keys that order as they do: descending ones turned around. NaN come as infinity, the
// largest, -0 as 0.
template <class L>
struct Codec {
  using Key = typename L::Key;
  using Element = typename L::Element;
  static constexpr Kind kKind = L::kKind;
  Vector flip, last, nan;
  Vector infinity;  // of kHalf
  bool descending;
  int64_t nans;       // in a row
  Lanes minus_zeros;  // lanes where one was

  WIDE_INLINE Vector all(Key x) {
    using Signed = std::make_signed_t<BitsOf<Key>>;
    return L::splat(__builtin_bit_cast(Signed, x));
  }
  WIDE_INLINE Vector bits(BitsOf<Key> x) { return all(__builtin_bit_cast(Key, x)); }

  WIDE void init(const SortForm& form) {
    const bool down = descending = form.descending;
    start();
    infinity = nan = bits(0);
    last = bits(kOnes<Key>);
    if constexpr (kKind == Kind::kWord) {
      BitsOf<Element> turn = form.is_signed ? kSign<Element> : BitsOf<Element>{0};
      if (down) turn ^= kOnes<Element>;
      flip = bits(turn);
    } else if constexpr (kKind == Kind::kReal) {
      constexpr Key kMost = std::numeric_limits<Key>::infinity();
      flip = bits(down ? kSign<Key> : 0);
      last = all(kMost);
      nan = all(down ? -kMost : kMost);
    } else {
      flip = bits(down ? kOnes<Key> : Key{0});
      nan = bits(down ? Key{0} : kOnes<Key>);
      infinity = bits(form.infinity);
    }
  }
  WIDE_MEMBER void start() {
    nans = 0;
    minus_zeros = 0;
  }
  WIDE_MEMBER Lanes nan_in(Vector x) const {
    if constexpr (kKind == Kind::kReal) return L::unordered(x, x);
    return L::below(infinity, _mm512_andnot_si512(bits(kSign<Key>), x));
  }
  WIDE_MEMBER Vector encode(Vector x) {
    if constexpr (kKind == Kind::kWord) return decode(x);
    const Lanes lost = nan_in(x);
    nans += std::popcount(lost);
    minus_zeros |= L::same(x, bits(kSign<Key>));
    if constexpr (kKind == Kind::kReal) return L::choose(lost, decode(x), nan);
    const Vector sign = bits(kSign<Key>), negative = _mm512_srai_epi16(x, 15);
    const Vector magnitude = _mm512_xor_si512(_mm512_andnot_si512(sign, x), negative);
    const Vector key = _mm512_add_epi16(sign, _mm512_sub_epi16(magnitude, negative));
    return L::choose(lost, _mm512_xor_si512(key, flip), nan);
  }
  WIDE_MEMBER Vector decode(Vector key) const {
    const Vector x = _mm512_xor_si512(key, flip);
    if constexpr (kKind != Kind::kHalf) return x;
    const Vector sign = bits(kSign<Key>), value = _mm512_sub_epi16(x, sign);
    return _mm512_or_si512(_mm512_abs_epi16(value), _mm512_and_si512(value, sign));
  }
};

// raw: what is read is elements yet.
template <class L, bool raw>
WIDE_INLINE Vector key_of(Codec<L>& codec, Vector x) {
  if constexpr (raw) return codec.encode(x);
  return x;
}

template <class L>
constexpr Lanes lanes_at(int64_t i, int64_t n) {
  return first_lanes(std::clamp<int64_t>(n - i, 0, L::kCount));
}

// ---- What fits the registers ----

constexpr int kMostVectors = 32;

// n elements, or keys, as elements.
template <class L, bool raw, int vectors>
WIDE __attribute__((noinline)) void sort_vectors_of(Codec<L>& codec,
                                                    const typename L::Element* from,
                                                    typename L::Element* to, int64_t n) {
  constexpr int kFull = vectors / 2;  // fewer are sorted as fewer
  constexpr bool kSame = sizeof(typename L::Key) == sizeof(typename L::Element);
  Vector v[static_cast<size_t>(vectors)];
  EACH_VECTOR(int i = 0; i < vectors; ++i) {
    const int64_t at = i * L::kCount;
    if (kSame && i < kFull) {
      v[i] = key_of<L, raw>(codec, _mm512_loadu_si512(from + at));
    } else {
      const Lanes lanes = lanes_at<L>(at, n);
      const Vector x = key_of<L, raw>(codec, L::load(lanes, _mm512_setzero_si512(), from + at));
      v[i] = L::choose(lanes, codec.last, x);
    }
  }
  sort_vectors<L, vectors>(v);
  EACH_VECTOR(int i = 0; i < vectors; ++i) {
    const int64_t at = i * L::kCount;
    const Vector x = codec.decode(v[i]);
    if (kSame && i < kFull) {
      _mm512_storeu_si512(to + at, x);
    } else {
      L::store(to + at, lanes_at<L>(at, n), x);
    }
  }
}

template <class L, bool raw, int vectors = 1>
WIDE void sort_few(Codec<L>& codec, const typename L::Element* from, typename L::Element* to,
                   int64_t n) {
  if constexpr (vectors < kMostVectors) {
    if (n > vectors * L::kCount) return sort_few<L, raw, 2 * vectors>(codec, from, to, n);
  }
  sort_vectors_of<L, raw, vectors>(codec, from, to, n);
}

// ---- Partitions ----

constexpr int64_t kWideSample = 4096;  // keys from which the pivot is one of four vectors' keys
constexpr int kAhead = 8;              // vectors that are read before they are written

template <class Key>
struct Pivot {
  Key key;
  bool often, always;  // met in the sample
};
template <class L, bool raw, int vectors>
WIDE Pivot<typename L::Key> middle_of(Codec<L>& codec, const typename L::Key* x, int64_t n) {
  constexpr int64_t kCount = vectors * L::kCount;
  alignas(64) typename L::Key keys[kCount];
  for (int64_t i = 0; i < kCount; ++i) keys[i] = x[i * (n / kCount)];
  Vector v[static_cast<size_t>(vectors)];
  EACH_VECTOR(int i = 0; i < vectors; ++i) {
    v[i] = key_of<L, raw>(codec, _mm512_load_si512(keys + i * L::kCount));
  }
  sort_vectors<L, vectors>(v);
  EACH_VECTOR(int i = 0; i < vectors; ++i) _mm512_store_si512(keys + i * L::kCount, v[i]);
  const auto* const middle = keys + kCount / 2;
  return {*middle, !(*middle < middle[L::kCount / 8]), !(keys[0] < keys[kCount - 1])};
}
template <class L, bool raw>
WIDE Pivot<typename L::Key> pivot_of(Codec<L>& codec, const typename L::Key* x, int64_t n) {
  return n < kWideSample ? middle_of<L, raw, 1>(codec, x, n) : middle_of<L, raw, 4>(codec, x, n);
}

// Which keys go to the lower side: those below the pivot, or those not above it.
enum class Split { kBelow, kAtMost };

// Keys on their way to both sides: the lower upwards from low, the rest downwards from high. What
// lies between is free.
template <class L, Split split>
struct Sides {
  using Key = typename L::Key;
  Vector pivot;
  Key *low, *high;

  WIDE_MEMBER Lanes lower(Vector x) const {
    return split == Split::kAtMost ? L::at_most(x, pivot) : L::below(x, pivot);
  }
  // Of room on either side for a vector, or in all for whole vectors.
  WIDE_MEMBER void take(Vector x) {
    const Lanes lanes = lower(x);
    const int count = std::popcount(lanes), rest = L::kCount - count;
    if constexpr (L::kCount == 8) {
      const Vector parted = part(lanes, x);
      _mm512_storeu_si512(low, parted);
      _mm512_storeu_si512(high - L::kCount, parted);
    } else {
      _mm512_storeu_si512(low, L::pack(lanes, x));
      L::store(high - rest, first_lanes(rest), L::pack(~lanes, x));
    }
    low += count;
    high -= rest;
  }
  WIDE_MEMBER void take_first(Vector x, int64_t n) {
    const Lanes lanes = lower(x) & first_lanes(n);
    const int count = std::popcount(lanes);
    L::store(low, first_lanes(count), L::pack(lanes, x));
    low += count;
    high -= n - count;
    L::store(high, first_lanes(n - count), L::pack(first_lanes(n) & ~lanes, x));
  }
};

template <class L>
constexpr int64_t kLeastKeys = int64_t{2} * kAhead* L::kCount;  // of a partition in place

// n keys in place. Returns how many are of the split.
template <class L, Split split>
WIDE int64_t partition(typename L::Key* x, int64_t n, typename L::Key pivot) {
  using Key = typename L::Key;
  constexpr int64_t kLanes = L::kCount, kKeys = kAhead * kLanes;
  const int64_t rest = n % kLanes;
  Sides<L, split> sides{Codec<L>::all(pivot), x, x + n};
  Key *left = x + kKeys, *right = x + n - rest - kKeys;  // between them: not read yet
  const Vector last = L::load(first_lanes(rest), _mm512_setzero_si512(), x + n - rest);
  Vector held[static_cast<size_t>(kAhead)], now[static_cast<size_t>(kAhead)];
  EACH_VECTOR(int i = 0; i < kAhead; ++i) {
    now[i] = _mm512_loadu_si512(x + i * kLanes);
    held[i] = _mm512_loadu_si512(right + i * kLanes);
  }
  // The next are read from the end where there is less room, before it is known how many of those
  // at hand go where: both ends have room for all of them, since the other has half of it or more.
  while (right - left >= kKeys) {
    const int64_t from_left = -int64_t{left - sides.low <= sides.high - right};  // all ones, or 0
    const Key* const at = left + ((right - kKeys - left) & ~from_left);
    left += kKeys & from_left;
    right -= kKeys & ~from_left;
    Vector next[static_cast<size_t>(kAhead)];
    EACH_VECTOR(int i = 0; i < kAhead; ++i) next[i] = _mm512_loadu_si512(at + i * kLanes);
    EACH_VECTOR(int i = 0; i < kAhead; ++i) sides.take(now[i]);
    EACH_VECTOR(int i = 0; i < kAhead; ++i) now[i] = next[i];
  }
  Vector more[static_cast<size_t>(kAhead)];
  int count = 0;
  for (; left < right; left += kLanes) more[count++] = _mm512_loadu_si512(left);
  sides.take_first(last, rest);
  EACH_VECTOR(int i = 0; i < kAhead; ++i) sides.take(now[i]);
  EACH_VECTOR(int i = 0; i < kAhead; ++i) sides.take(held[i]);
  for (int i = 0; i < count; ++i) sides.take(more[i]);
  return sides.low - x;
}

// The keys of n elements at x to both ends of y. Returns how many are below the pivot.
template <class L>
WIDE int64_t deal(Codec<L>& codec, const typename L::Key* x, typename L::Key* y, int64_t n,
                  typename L::Key pivot) {
  constexpr int64_t kLanes = L::kCount;
  const int64_t rest = n % kLanes, full = n - rest;
  Sides<L, Split::kBelow> sides{Codec<L>::all(pivot), y, y + n};
  const Vector last = L::load(first_lanes(rest), _mm512_setzero_si512(), x + full);
  sides.take_first(codec.encode(last), rest);
  int64_t i = 0;
  for (; i + kAhead * kLanes <= full; i += kAhead * kLanes) {
    Vector v[static_cast<size_t>(kAhead)];
    EACH_VECTOR(int k = 0; k < kAhead; ++k) {
      v[k] = codec.encode(_mm512_loadu_si512(x + i + k * kLanes));
    }
    EACH_VECTOR(int k = 0; k < kAhead; ++k) sides.take(v[k]);
  }
  for (; i < full; i += kLanes) sides.take(codec.encode(_mm512_loadu_si512(x + i)));
  return sides.low - y;
}

// Those of one part alone, and how many: nothing else of y is written.
template <class L, Part part>
WIDE int64_t deal_part(Codec<L>& codec, const typename L::Key* x, typename L::Key* y, int64_t n,
                       typename L::Key pivot) {
  const Vector pivots = Codec<L>::all(pivot);
  int64_t dealt = 0;
  for (int64_t i = 0; i < n; i += L::kCount) {
    const Lanes lanes = lanes_at<L>(i, n);
    const Vector v = codec.encode(L::load(lanes, _mm512_setzero_si512(), x + i));
    const Lanes below = L::below(v, pivots), some = lanes & (part == Part::kLower ? below : ~below);
    const int count = std::popcount(some);
    auto* const to = part == Part::kLower ? y + dealt : y + n - dealt - count;
    L::store(to, first_lanes(count), L::pack(some, v));
    dealt += count;
  }
  return dealt;
}

template <class L>
WIDE void decode_all(const Codec<L>& codec, typename L::Key* x, int64_t n) {
  for (int64_t i = 0; i < n; i += L::kCount) {
    const Lanes lanes = lanes_at<L>(i, n);
    L::store(x + i, lanes, codec.decode(L::load(lanes, _mm512_setzero_si512(), x + i)));
  }
}

template <class L>
WIDE bool all_are(const typename L::Key* x, int64_t n, typename L::Key key) {
  const Vector keys = Codec<L>::all(key);
  for (int64_t i = 0; i < n; i += L::kCount) {
    const Lanes lanes = lanes_at<L>(i, n);
    if (L::equal(L::load(lanes, keys, x + i), keys) != first_lanes(L::kCount)) return false;
  }
  return true;
}

// n keys as elements.
template <class L>
WIDE void sort_range(Codec<L>& codec, typename L::Key* x, int64_t n, int depth) {
  using Key = typename L::Key;
  while (n > kMostVectors * L::kCount) {
    if (depth-- == 0) {  // pivots at the ends, over and over
      std::sort(x, x + n);
      return decode_all(codec, x, n);
    }
    const Pivot<Key> pivot = pivot_of<L, false>(codec, x, n);
    if (pivot.always && all_are<L>(x, n, pivot.key)) return decode_all(codec, x, n);
    const int64_t below = partition<L, Split::kBelow>(x, n, pivot.key);
    int64_t settled = below;  // those equal to the pivot are in order, if one looks for them
    if (below == 0 || (pivot.often && n - below >= kLeastKeys<L>)) {
      settled += partition<L, Split::kAtMost>(x + below, n - below, pivot.key);
      decode_all(codec, x + below, settled - below);
    }
    if (below > 0) sort_range(codec, x, below, depth);
    x += settled;
    n -= settled;
  }
  if (n > 0) sort_few<L, false>(codec, x, x, n);
}

// ---- Rows ----

template <typename Key>
bool is_zero(Key x) {
  return (std::bit_cast<BitsOf<Key>>(x) & ~kSign<Key>) == 0;
}
// Whether a finite element is before 0, any NaN put there with it.
template <typename Key>
bool before_zero(Key x, bool descending) {
  const auto bits = std::bit_cast<BitsOf<Key>>(x);
  return (bits & ~kSign<Key>) != 0 && ((bits & kSign<Key>) != 0) != descending;
}

// Zeros and NaN of the sorted row y as they follow one another in x, where they are in the part
// [first, last).
template <class L>
WIDE void settle(const Codec<L>& codec, const typename L::Key* x, typename L::Key* y, int64_t n,
                 int64_t first, int64_t last) {
  if (L::kKind == Kind::kWord || (codec.nans == 0 && codec.minus_zeros == 0)) return;
  auto* nans = codec.descending ? y : y + n - codec.nans;
  auto* zeros = std::partition_point(
      y + first, y + last, [&](typename L::Key key) { return before_zero(key, codec.descending); });
  const Vector sign = Codec<L>::bits(kSign<typename L::Key>), none = Codec<L>::bits(0);
  const bool has_nans = first <= nans - y && nans - y < last;
  const bool has_zeros = zeros != y + last && is_zero(*zeros);
  for (int64_t i = 0; i < n; i += L::kCount) {
    const Lanes lanes = lanes_at<L>(i, n);
    const Vector v = L::load(lanes, none, x + i);
    const Lanes zero = has_zeros ? L::same(_mm512_andnot_si512(sign, v), none) & lanes : 0;
    const Lanes nan = has_nans ? codec.nan_in(v) : 0;
    if ((zero | nan) == 0) continue;
    L::store(zeros, first_lanes(std::popcount(zero)), L::pack(zero, v));
    L::store(nans, first_lanes(std::popcount(nan)), L::pack(nan, v));
    zeros += std::popcount(zero);
    nans += std::popcount(nan);
  }
}

template <class L>
WIDE void sort_row(Codec<L>& codec, const typename L::Key* x, typename L::Key* y, int64_t n,
                   Part part) {
  const int depth = 2 * static_cast<int>(std::bit_width(static_cast<uint64_t>(n)));
  const auto pivot = pivot_of<L, true>(codec, x, n).key;
  codec.start();
  const int64_t below = part == Part::kWhole ? deal(codec, x, y, n, pivot)
                        : part == Part::kLower
                            ? deal_part<L, Part::kLower>(codec, x, y, n, pivot)
                            : n - deal_part<L, Part::kUpper>(codec, x, y, n, pivot);
  if (part != Part::kUpper) sort_range(codec, y, below, depth);
  if (part != Part::kLower) sort_range(codec, y + below, n - below, depth);
  settle(codec, x, y, n, part == Part::kUpper ? below : 0, part == Part::kLower ? below : n);
}

template <class L>
WIDE void sort_rows(const void* from, void* to, int64_t rows, int64_t n, const SortForm& form,
                    Part part) {
  using Element = typename L::Element;
  const Element* x = static_cast<const Element*>(from);
  Element* y = static_cast<Element*>(to);
  Codec<L> codec;
  codec.init(form);
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    if constexpr (sizeof(Element) == sizeof(typename L::Key)) {
      if (n > kMostVectors * L::kCount) {
        sort_row(codec, x, y, n, part);
        continue;
      }
      codec.start();
      sort_few<L, true>(codec, x, y, n);
      settle(codec, x, y, n, 0, n);
    } else {
      sort_few<L, true>(codec, x, y, n);
    }
  }
}

}  // namespace

bool sorts_wide(const CpuFeatures& features, int64_t bytes, int64_t n) {
  if (features.vector_bytes < 64) return false;
  return bytes >= 4 || n <= kMostVectors * Lanes16::kCount || (bytes == 2 && features.avx512_vbmi2);
}

void sort_wide(const void* x, void* y, int64_t rows, int64_t n, const SortForm& form, Part part) {
  const auto sort_as = form.bytes == 1   ? sort_rows<U8>
                       : form.bytes == 2 ? form.is_float ? sort_rows<Half> : sort_rows<U16>
                       : form.bytes == 4 ? form.is_float ? sort_rows<F32> : sort_rows<U32>
                       : form.is_float ? sort_rows<F64>
                                         : sort_rows<U64>;
  sort_as(x, y, rows, n, form, part);
}

}  // namespace aster::runtime::cpu::native

#else

namespace aster::runtime::cpu::native {
bool sorts_wide(const CpuFeatures&, int64_t, int64_t) { return false; }
void sort_wide(const void*, void*, int64_t, int64_t, const SortForm&, Part) {}
}  // namespace aster::runtime::cpu::native

#endif
