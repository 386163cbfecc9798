// Quicksort of unsigned keys in vectors: a partition compresses what is below the pivot to one side
// and the rest to the other, networks sort what fits the registers.
//
// Functions are compiled for AVX-512 one by one: what the linker may share with other files is not.
#include "runtime/cpu/native_sort.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <type_traits>

#include "runtime/cpu/features.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // in the intrinsics of gcc 12
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

#define WIDE __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,popcnt")))
#define WIDE_MEMBER WIDE __attribute__((always_inline)) inline
#define WIDE_INLINE static WIDE_MEMBER

namespace aster::runtime::cpu::native {
namespace {

using Vector = __m512i;
using Lanes = uint32_t;  // a set of lanes

constexpr Lanes first_lanes(int64_t n) { return (Lanes{1} << n) - 1; }

// What moves lanes of 4 bytes.
struct Lanes32 {
  static constexpr int kCount = 16;
  using Mask = __mmask16;
  WIDE_INLINE Vector choose(Lanes lanes, Vector no, Vector yes) {
    return _mm512_mask_mov_epi32(no, static_cast<Mask>(lanes), yes);
  }
  // Some lanes next to one another, from the first on.
  WIDE_INLINE Vector pack(Lanes lanes, Vector x) {
    return _mm512_maskz_compress_epi32(static_cast<Mask>(lanes), x);
  }
  WIDE_INLINE Vector load(Lanes lanes, Vector other, const void* x) {
    return _mm512_mask_loadu_epi32(other, static_cast<Mask>(lanes), x);
  }
  WIDE_INLINE void store(void* y, Lanes lanes, Vector x) {
    _mm512_mask_storeu_epi32(y, static_cast<Mask>(lanes), x);
  }
  // Elements that lie `step` apart.
  WIDE_INLINE Vector pick(const void* x, int64_t step) {
    const Vector lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const Vector at = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int32_t>(step)));
    return _mm512_i32gather_epi32(at, x, 4);
  }
  WIDE_INLINE Vector reverse(Vector x) {
    const Vector at = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_epi32(at, x);
  }
  // Lane i gets lane i ^ distance.
  template <int distance>
  WIDE_INLINE Vector cross(Vector x) {
    if constexpr (distance == 1) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0xb1));
    if constexpr (distance == 2) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0x4e));
    if constexpr (distance == 4) return _mm512_shuffle_i64x2(x, x, 0xb1);
    return _mm512_shuffle_i64x2(x, x, 0x4e);
  }
};
// And of 8.
struct Lanes64 {
  static constexpr int kCount = 8;
  using Mask = __mmask8;
  WIDE_INLINE Vector choose(Lanes lanes, Vector no, Vector yes) {
    return _mm512_mask_mov_epi64(no, static_cast<Mask>(lanes), yes);
  }
  WIDE_INLINE Vector pack(Lanes lanes, Vector x) {
    return _mm512_maskz_compress_epi64(static_cast<Mask>(lanes), x);
  }
  WIDE_INLINE Vector load(Lanes lanes, Vector other, const void* x) {
    return _mm512_mask_loadu_epi64(other, static_cast<Mask>(lanes), x);
  }
  WIDE_INLINE void store(void* y, Lanes lanes, Vector x) {
    _mm512_mask_storeu_epi64(y, static_cast<Mask>(lanes), x);
  }
  WIDE_INLINE Vector pick(const void* x, int64_t step) {
    const Vector lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_i64gather_epi64(_mm512_mullo_epi64(lane, _mm512_set1_epi64(step)), x, 8);
  }
  WIDE_INLINE Vector reverse(Vector x) {
    return _mm512_permutexvar_epi64(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), x);
  }
  template <int distance>
  WIDE_INLINE Vector cross(Vector x) {
    if constexpr (distance == 1) return _mm512_permutex_epi64(x, 0xb1);
    if constexpr (distance == 2) return _mm512_shuffle_i64x2(x, x, 0xb1);
    return _mm512_shuffle_i64x2(x, x, 0x4e);
  }
};

// What compares them. Of zeros, min(x, y) and max(x, y) may both be y.
struct U32 : Lanes32 {
  using Key = uint32_t;
  static constexpr Key kMost = ~Key{0};
  WIDE_INLINE Vector all(Key x) { return _mm512_set1_epi32(static_cast<int32_t>(x)); }
  WIDE_INLINE Vector min(Vector x, Vector y) { return _mm512_min_epu32(x, y); }
  WIDE_INLINE Vector max(Vector x, Vector y) { return _mm512_max_epu32(x, y); }
  // The larger in some lanes, `other` elsewhere.
  WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector x, Vector y) {
    return _mm512_mask_max_epu32(other, static_cast<Mask>(lanes), x, y);
  }
  WIDE_INLINE Lanes below(Vector x, Vector y) { return _mm512_cmplt_epu32_mask(x, y); }
  WIDE_INLINE Lanes at_most(Vector x, Vector y) { return _mm512_cmple_epu32_mask(x, y); }
};
struct U64 : Lanes64 {
  using Key = uint64_t;
  static constexpr Key kMost = ~Key{0};
  WIDE_INLINE Vector all(Key x) { return _mm512_set1_epi64(static_cast<int64_t>(x)); }
  WIDE_INLINE Vector min(Vector x, Vector y) { return _mm512_min_epu64(x, y); }
  WIDE_INLINE Vector max(Vector x, Vector y) { return _mm512_max_epu64(x, y); }
  WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector x, Vector y) {
    return _mm512_mask_max_epu64(other, static_cast<Mask>(lanes), x, y);
  }
  WIDE_INLINE Lanes below(Vector x, Vector y) { return _mm512_cmplt_epu64_mask(x, y); }
  WIDE_INLINE Lanes at_most(Vector x, Vector y) { return _mm512_cmple_epu64_mask(x, y); }
};
struct F32 : Lanes32 {
  using Key = float;
  static constexpr Key kMost = std::numeric_limits<Key>::infinity();
  WIDE_INLINE __m512 real(Vector x) { return _mm512_castsi512_ps(x); }
  WIDE_INLINE Vector all(Key x) { return _mm512_castps_si512(_mm512_set1_ps(x)); }
  WIDE_INLINE Vector min(Vector x, Vector y) {
    return _mm512_castps_si512(_mm512_min_ps(real(x), real(y)));
  }
  WIDE_INLINE Vector max(Vector x, Vector y) {
    return _mm512_castps_si512(_mm512_max_ps(real(x), real(y)));
  }
  WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector x, Vector y) {
    return _mm512_castps_si512(
        _mm512_mask_max_ps(real(other), static_cast<Mask>(lanes), real(x), real(y)));
  }
  WIDE_INLINE Lanes below(Vector x, Vector y) {
    return _mm512_cmp_ps_mask(real(x), real(y), _CMP_LT_OQ);
  }
  WIDE_INLINE Lanes at_most(Vector x, Vector y) {
    return _mm512_cmp_ps_mask(real(x), real(y), _CMP_LE_OQ);
  }
  WIDE_INLINE Lanes nan(Vector x) { return _mm512_cmp_ps_mask(real(x), real(x), _CMP_UNORD_Q); }
  WIDE_INLINE Lanes minus_zero(Vector x) { return _mm512_fpclass_ps_mask(real(x), 0x04); }
};
struct F64 : Lanes64 {
  using Key = double;
  static constexpr Key kMost = std::numeric_limits<Key>::infinity();
  WIDE_INLINE __m512d real(Vector x) { return _mm512_castsi512_pd(x); }
  WIDE_INLINE Vector all(Key x) { return _mm512_castpd_si512(_mm512_set1_pd(x)); }
  WIDE_INLINE Vector min(Vector x, Vector y) {
    return _mm512_castpd_si512(_mm512_min_pd(real(x), real(y)));
  }
  WIDE_INLINE Vector max(Vector x, Vector y) {
    return _mm512_castpd_si512(_mm512_max_pd(real(x), real(y)));
  }
  WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector x, Vector y) {
    return _mm512_castpd_si512(
        _mm512_mask_max_pd(real(other), static_cast<Mask>(lanes), real(x), real(y)));
  }
  WIDE_INLINE Lanes below(Vector x, Vector y) {
    return _mm512_cmp_pd_mask(real(x), real(y), _CMP_LT_OQ);
  }
  WIDE_INLINE Lanes at_most(Vector x, Vector y) {
    return _mm512_cmp_pd_mask(real(x), real(y), _CMP_LE_OQ);
  }
  WIDE_INLINE Lanes nan(Vector x) { return _mm512_cmp_pd_mask(real(x), real(x), _CMP_UNORD_Q); }
  WIDE_INLINE Lanes minus_zero(Vector x) { return _mm512_fpclass_pd_mask(real(x), 0x04); }
};

// ---- Networks ----

// The lanes whose number has a bit.
template <class L>
constexpr Lanes lanes_with(int bit) {
  Lanes lanes = 0;
  for (int i = 0; i < L::kCount; ++i) lanes |= (i & bit) != 0 ? Lanes{1} << i : 0;
  return lanes;
}

// Steps of a network are done for all vectors before the next: they wait for none of each other.
#define EACH_VECTOR _Pragma("GCC unroll 32") for

// Compares lanes i and i ^ distance of n vectors; `upper` keep the larger.
template <class L, int n, int distance>
WIDE_INLINE void exchange(Vector* v, Lanes upper) {
  EACH_VECTOR(int i = 0; i < n; ++i) {
    const Vector x = v[i], y = L::template cross<distance>(x);
    v[i] = L::max_in(upper, L::min(x, y), x, y);
  }
}

// n bitonic vectors, each in order.
template <class L, int n, int distance = L::kCount / 2>
WIDE_INLINE void merge_lanes(Vector* v) {
  exchange<L, n, distance>(v, lanes_with<L>(distance));
  if constexpr (distance > 1) merge_lanes<L, n, distance / 2>(v);
}

// Runs of `run` lanes, in turn ascending and descending, become runs of twice as many.
template <class L, int n, int run, int distance>
WIDE_INLINE void merge_runs(Vector* v) {
  exchange<L, n, distance>(v, lanes_with<L>(distance) ^ lanes_with<L>(2 * run));
  if constexpr (distance > 1) merge_runs<L, n, run, distance / 2>(v);
}
template <class L, int n, int run = 1>
WIDE_INLINE void sort_lanes(Vector* v) {
  merge_runs<L, n, run, run>(v);
  if constexpr (2 * run < L::kCount) sort_lanes<L, n, 2 * run>(v);
}

// Compares vectors i and i + distance.
template <class L, int n, int distance>
WIDE_INLINE void merge_vectors(Vector* v) {
  EACH_VECTOR(int i = 0; i < n - distance; ++i) {
    if ((i & distance) != 0) continue;
    const Vector x = v[i], y = v[i + distance];
    v[i] = L::min(x, y);
    v[i + distance] = L::max(x, y);
  }
  if constexpr (distance > 1) merge_vectors<L, n, distance / 2>(v);
}

// Pairs of runs of `run` vectors, the last of which may be shorter or lack its second run: as if
// the largest key were behind it. A run without a second stays in order.
template <class L, int n, int run = 1>
WIDE_INLINE void merge_pairs(Vector* v) {
  EACH_VECTOR(int i = 0; i < n; ++i) {
    const int other = (i & ~(2 * run - 1)) + (2 * run - 1 - (i & (2 * run - 1)));
    if ((i & run) != 0 || other >= n) continue;
    const Vector x = v[i], y = L::reverse(v[other]);
    v[i] = L::min(x, y);
    v[other] = L::reverse(L::max(x, y));
  }
  if constexpr (run > 1) merge_vectors<L, n, run / 2>(v);
  merge_lanes<L, n>(v);
  if constexpr (2 * run < n) merge_pairs<L, n, 2 * run>(v);
}

// The keys of n vectors.
template <class L, int n>
WIDE_INLINE void sort_vectors(Vector* v) {
  sort_lanes<L, n>(v);
  if constexpr (n > 1) merge_pairs<L, n>(v);
}

// ---- Keys ----

// Elements as keys that order as they do: descending ones turned around, of integers the sign too.
// NaN come as infinity, the largest.
template <class L>
struct Codec {
  using Key = typename L::Key;
  static constexpr bool kFloat = std::is_floating_point_v<Key>;
  Vector flip, last, nan;
  Lanes special;  // those where a NaN or -0 was

  WIDE void init(const SortForm& form) {
    using Bits = std::conditional_t<sizeof(Key) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(Key) - 1);
    Bits bits = kFloat ? 0 : form.is_signed ? kSign : 0;
    if (form.descending) bits ^= kFloat ? kSign : ~Bits{0};
    flip = L::all(std::bit_cast<Key>(bits));
    last = L::all(L::kMost);
    if constexpr (kFloat) nan = L::all(form.descending ? -L::kMost : L::kMost);
    special = 0;
  }
  WIDE_MEMBER Vector encode(Vector x) {
    const Vector key = decode(x);
    if constexpr (kFloat) {
      const Lanes lost = L::nan(x);
      special |= lost | L::minus_zero(x);
      return L::choose(lost, key, nan);
    }
    return key;
  }
  WIDE_MEMBER Vector decode(Vector key) const { return _mm512_xor_si512(key, flip); }
};

// Numbers of vectors that are sorted in registers; those up to the one before are all full.
constexpr int kSizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
constexpr int kMostVectors = 24;
constexpr int full_of(int vectors) {
  int full = 0;
  for (const int size : kSizes) full = size < vectors ? size : full;
  return full;
}

template <class L, int vectors>
WIDE __attribute__((noinline)) void sort_vectors_of(const Codec<L>& codec,
                                                    const typename L::Key* from,
                                                    typename L::Key* to, int64_t n) {
  constexpr int kFull = full_of(vectors);
  Vector v[static_cast<size_t>(vectors)];
  EACH_VECTOR(int i = 0; i < vectors; ++i) {
    const int64_t left = std::clamp<int64_t>(n - i * L::kCount, 0, L::kCount);
    v[i] = i < kFull ? _mm512_loadu_si512(from + i * L::kCount)
                     : L::load(first_lanes(left), codec.last, from + i * L::kCount);
  }
  sort_vectors<L, vectors>(v);
  EACH_VECTOR(int i = 0; i < vectors; ++i) {
    const int64_t left = std::clamp<int64_t>(n - i * L::kCount, 0, L::kCount);
    const Vector x = codec.decode(v[i]);
    if (i < kFull) {
      _mm512_storeu_si512(to + i * L::kCount, x);
    } else {
      L::store(to + i * L::kCount, first_lanes(left), x);
    }
  }
}

// n keys that fit, as elements.
template <class L, size_t size = 0>
WIDE void sort_few(const Codec<L>& codec, const typename L::Key* from, typename L::Key* to,
                   int64_t n) {
  if constexpr (size + 1 < std::size(kSizes)) {
    if (n > kSizes[size] * L::kCount) return sort_few<L, size + 1>(codec, from, to, n);
  }
  sort_vectors_of<L, kSizes[size]>(codec, from, to, n);
}

// ---- Partitions ----

constexpr int64_t kWideSample = 4096;  // keys from which the pivot is one of four vectors' keys

// raw: what is read is elements yet.
template <class L, bool raw>
WIDE_INLINE Vector key_of(Codec<L>& codec, Vector x) {
  if constexpr (raw) return codec.encode(x);
  return x;
}

template <class L, bool raw>
WIDE typename L::Key pivot_of(Codec<L>& codec, const typename L::Key* x, int64_t n) {
  alignas(64) typename L::Key keys[L::kCount];
  Vector v[4];
  if (n < kWideSample) {
    v[0] = key_of<L, raw>(codec, L::pick(x, n / L::kCount));
    sort_lanes<L, 1>(v);
    _mm512_store_si512(keys, v[0]);
    return keys[L::kCount / 2];
  }
  EACH_VECTOR(int i = 0; i < 4; ++i) {
    v[i] = key_of<L, raw>(codec, L::pick(x + i * (n / 4), n / (4 * L::kCount)));
  }
  sort_vectors<L, 4>(v);
  _mm512_store_si512(keys, v[2]);
  return keys[0];
}

// How keys are told apart by a partition.
enum class Split { kRaw, kBelow, kAtMost };  // elements, and keys, below the pivot; no more than it

// Keys on their way to both sides: those of the split upwards from low, the rest downwards from
// high. low may be where the keys are read: it never gets ahead.
template <class L, Split split>
struct Sides {
  Vector pivot;
  typename L::Key *low, *high;

  WIDE_MEMBER Lanes lower(Vector x) const {
    return split == Split::kAtMost ? L::at_most(x, pivot) : L::below(x, pivot);
  }
  WIDE_MEMBER void take(Vector x) {
    const Lanes lanes = lower(x);
    const int count = std::popcount(lanes);
    _mm512_storeu_si512(low, L::pack(lanes, x));
    low += count;
    high -= L::kCount - count;
    L::store(high, first_lanes(L::kCount - count), L::pack(~lanes, x));
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

// Returns how many of the n keys at from are of the split; these are at low then, the others at the
// end of high's n.
template <class L, Split split>
WIDE int64_t partition(Codec<L>& codec, const typename L::Key* from, typename L::Key* low,
                       typename L::Key* high, int64_t n, typename L::Key pivot) {
  constexpr int kLanes = L::kCount;
  constexpr bool kRaw = split == Split::kRaw;
  Sides<L, split> sides{L::all(pivot), low, high + n};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Vector a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + kLanes),
                 c = _mm512_loadu_si512(from + i + 2 * kLanes),
                 d = _mm512_loadu_si512(from + i + 3 * kLanes);
    sides.take(key_of<L, kRaw>(codec, a));
    sides.take(key_of<L, kRaw>(codec, b));
    sides.take(key_of<L, kRaw>(codec, c));
    sides.take(key_of<L, kRaw>(codec, d));
  }
  for (; i < n; i += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, n - i);
    const Vector x = L::load(first_lanes(count), _mm512_setzero_si512(), from + i);
    sides.take_first(key_of<L, kRaw>(codec, x), count);
  }
  return sides.low - low;
}

template <class L>
WIDE void decode_all(const Codec<L>& codec, const typename L::Key* from, typename L::Key* to,
                     int64_t n) {
  for (int64_t i = 0; i < n; i += L::kCount) {
    const Lanes lanes = first_lanes(std::min<int64_t>(L::kCount, n - i));
    L::store(to + i, lanes, codec.decode(L::load(lanes, _mm512_setzero_si512(), from + i)));
  }
}

// The n keys at from, as elements to `to`; other: room. `to` is one of the two, or apart.
template <class L>
WIDE void sort_range(Codec<L>& codec, typename L::Key* from, typename L::Key* other,
                     typename L::Key* to, int64_t n, int depth) {
  using Key = typename L::Key;
  while (n > kMostVectors * L::kCount) {
    if (depth-- == 0) {  // pivots at the ends, over and over
      std::sort(from, from + n);
      return decode_all(codec, from, to, n);
    }
    const Key pivot = pivot_of<L, false>(codec, from, n);
    int64_t below = partition<L, Split::kBelow>(codec, from, from, other, n, pivot);
    if (below == 0) {  // it is the least: those equal to it are in order
      std::swap(from, other);
      below = partition<L, Split::kAtMost>(codec, from, from, other, n, pivot);
      for (int64_t i = 0; i < below; i += L::kCount) {
        const Lanes lanes = first_lanes(std::min<int64_t>(L::kCount, below - i));
        L::store(to + i, lanes, codec.decode(L::all(pivot)));
      }
    } else {
      sort_range(codec, from, other, to, below, depth);
    }
    std::swap(from, other);
    from += below;
    other += below;
    to += below;
    n -= below;
  }
  if (n > 0) sort_few(codec, from, to, n);
}

template <class L>
WIDE bool sort(const void* from, void* to, void* room, int64_t n, const SortForm& form) {
  using Key = typename L::Key;
  const Key* const x = static_cast<const Key*>(from);
  Key *const y = static_cast<Key*>(to), *const other = static_cast<Key*>(room);
  Codec<L> codec;
  codec.init(form);
  if (n <= kMostVectors * L::kCount) {
    for (int64_t i = 0; i < n; i += L::kCount) {
      const Lanes lanes = first_lanes(std::min<int64_t>(L::kCount, n - i));
      L::store(y + i, lanes, codec.encode(L::load(lanes, _mm512_setzero_si512(), x + i)));
    }
    sort_few(codec, y, y, n);
    return codec.special != 0;
  }
  const int depth = 2 * static_cast<int>(std::bit_width(static_cast<uint64_t>(n)));
  const int64_t below =
      partition<L, Split::kRaw>(codec, x, y, other, n, pivot_of<L, true>(codec, x, n));
  if (below > 0) sort_range(codec, y, other, y, below, depth);
  sort_range(codec, other + below, y + below, y + below, n - below, depth);
  return codec.special != 0;
}

}  // namespace

bool sorts_wide() { return detect_features().vector_bytes == 64; }

bool sort_wide(const void* x, void* y, void* room, int64_t n, const SortForm& form) {
  const auto sort_as = form.bytes == 4 ? form.is_float ? sort<F32> : sort<U32>
                       : form.is_float ? sort<F64>
                                       : sort<U64>;
  return sort_as(x, y, room, n, form);
}

}  // namespace aster::runtime::cpu::native

#else

namespace aster::runtime::cpu::native {
bool sorts_wide() { return false; }
bool sort_wide(const void*, void*, void*, int64_t, const SortForm&) { return false; }
}  // namespace aster::runtime::cpu::native

#endif
