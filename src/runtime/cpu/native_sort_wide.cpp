// Quicksort of unsigned keys in vectors: a partition compresses what is below the pivot to one side
// and the rest to the other, networks sort what fits the registers.
//
// Functions are compiled for AVX-512 one by one: what the linker may share with other files is not.
#include "runtime/cpu/native_sort.h"

#include <algorithm>
#include <bit>
#include <iterator>

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

struct Lanes32 {
  using Key = uint32_t;
  static constexpr int kCount = 16;
  using Mask = __mmask16;
  static Mask mask(Lanes lanes) { return static_cast<Mask>(lanes); }
  WIDE_INLINE Vector all(uint64_t x) { return _mm512_set1_epi32(static_cast<int32_t>(x)); }
  WIDE_INLINE Vector min(Vector a, Vector b) { return _mm512_min_epu32(a, b); }
  WIDE_INLINE Vector max(Vector a, Vector b) { return _mm512_max_epu32(a, b); }
  // The larger in some lanes, `other` elsewhere.
  WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector a, Vector b) {
    return _mm512_mask_max_epu32(other, mask(lanes), a, b);
  }
  WIDE_INLINE Lanes below(Vector a, Vector b) { return _mm512_cmplt_epu32_mask(a, b); }
  WIDE_INLINE Lanes equal(Vector a, Vector b) { return _mm512_cmpeq_epu32_mask(a, b); }
  WIDE_INLINE Vector choose(Lanes lanes, Vector no, Vector yes) {
    return _mm512_mask_mov_epi32(no, mask(lanes), yes);
  }
  // Some lanes next to one another, from the first on.
  WIDE_INLINE Vector pack(Lanes lanes, Vector x) {
    return _mm512_maskz_compress_epi32(mask(lanes), x);
  }
  WIDE_INLINE Vector load(Lanes lanes, Vector other, const Key* x) {
    return _mm512_mask_loadu_epi32(other, mask(lanes), x);
  }
  WIDE_INLINE void store(Key* y, Lanes lanes, Vector x) {
    _mm512_mask_storeu_epi32(y, mask(lanes), x);
  }
  WIDE_INLINE Vector pick(const Key* x, int64_t step) {
    const Vector lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(lane, all(static_cast<uint64_t>(step))), x, 4);
  }
  WIDE_INLINE Vector sign_of(Vector x) { return _mm512_srai_epi32(x, 31); }
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

struct Lanes64 {
  using Key = uint64_t;
  static constexpr int kCount = 8;
  using Mask = __mmask8;
  static Mask mask(Lanes lanes) { return static_cast<Mask>(lanes); }
  WIDE_INLINE Vector all(uint64_t x) { return _mm512_set1_epi64(static_cast<int64_t>(x)); }
  WIDE_INLINE Vector min(Vector a, Vector b) { return _mm512_min_epu64(a, b); }
  WIDE_INLINE Vector max(Vector a, Vector b) { return _mm512_max_epu64(a, b); }
  WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector a, Vector b) {
    return _mm512_mask_max_epu64(other, mask(lanes), a, b);
  }
  WIDE_INLINE Lanes below(Vector a, Vector b) { return _mm512_cmplt_epu64_mask(a, b); }
  WIDE_INLINE Lanes equal(Vector a, Vector b) { return _mm512_cmpeq_epu64_mask(a, b); }
  WIDE_INLINE Vector choose(Lanes lanes, Vector no, Vector yes) {
    return _mm512_mask_mov_epi64(no, mask(lanes), yes);
  }
  WIDE_INLINE Vector pack(Lanes lanes, Vector x) {
    return _mm512_maskz_compress_epi64(mask(lanes), x);
  }
  WIDE_INLINE Vector load(Lanes lanes, Vector other, const Key* x) {
    return _mm512_mask_loadu_epi64(other, mask(lanes), x);
  }
  WIDE_INLINE void store(Key* y, Lanes lanes, Vector x) {
    _mm512_mask_storeu_epi64(y, mask(lanes), x);
  }
  WIDE_INLINE Vector pick(const Key* x, int64_t step) {
    const Vector lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_i64gather_epi64(_mm512_mullo_epi64(lane, all(static_cast<uint64_t>(step))), x, 8);
  }
  WIDE_INLINE Vector sign_of(Vector x) { return _mm512_srai_epi64(x, 63); }
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

// ---- Networks ----

// The lanes whose number has a bit.
template <class L>
constexpr Lanes lanes_with(int bit) {
  Lanes lanes = 0;
  for (int i = 0; i < L::kCount; ++i) lanes |= (i & bit) != 0 ? Lanes{1} << i : 0;
  return lanes;
}

// Compares lanes i and i ^ distance; `upper` keep the larger.
template <class L, int distance>
WIDE_INLINE Vector exchange(Vector x, Lanes upper) {
  const Vector y = L::template cross<distance>(x);
  return L::max_in(upper, L::min(x, y), x, y);
}

// A bitonic vector in order.
template <class L, int distance = L::kCount / 2>
WIDE_INLINE Vector merge_lanes(Vector x) {
  x = exchange<L, distance>(x, lanes_with<L>(distance));
  if constexpr (distance > 1) x = merge_lanes<L, distance / 2>(x);
  return x;
}

// Runs of `run` lanes, in turn ascending and descending, become runs of twice as many.
template <class L, int run, int distance>
WIDE_INLINE Vector merge_runs(Vector x) {
  x = exchange<L, distance>(x, lanes_with<L>(distance) ^ lanes_with<L>(2 * run));
  if constexpr (distance > 1) x = merge_runs<L, run, distance / 2>(x);
  return x;
}
template <class L, int run = 1>
WIDE_INLINE Vector sort_lanes(Vector x) {
  x = merge_runs<L, run, run>(x);
  if constexpr (2 * run < L::kCount) x = sort_lanes<L, 2 * run>(x);
  return x;
}

// Of n vectors, a power of two, the first `live` are looked at; the others hold the largest key in
// every lane, and stay. Bitonic ones in order.
template <class L, int n, int live>
WIDE_INLINE void merge(Vector* v) {
  if constexpr (live > 0 && n == 1) {
    v[0] = merge_lanes<L>(v[0]);
  } else if constexpr (live > 0) {
#pragma GCC unroll 32
    for (int i = 0; i < n / 2 && i + n / 2 < live; ++i) {
      const Vector a = v[i], b = v[i + n / 2];
      v[i] = L::min(a, b);
      v[i + n / 2] = L::max(a, b);
    }
    merge<L, n / 2, std::min(live, n / 2)>(v);
    merge<L, n / 2, std::max(live - n / 2, 0)>(v + n / 2);
  }
}
// Any, likewise.
template <class L, int n, int live>
WIDE_INLINE void sort_vectors(Vector* v) {
  if constexpr (n == 1) {
    v[0] = sort_lanes<L>(v[0]);
  } else if constexpr (live <= n / 2) {
    sort_vectors<L, n / 2, live>(v);
  } else {
    sort_vectors<L, n / 2, n / 2>(v);
    sort_vectors<L, n / 2, live - n / 2>(v + n / 2);
#pragma GCC unroll 32
    for (int i = n - live; i < n / 2; ++i) {
      const Vector a = v[i], b = L::reverse(v[n - 1 - i]);
      v[n - 1 - i] = L::reverse(L::max(a, b));
      v[i] = L::min(a, b);
    }
    merge<L, n / 2, n / 2>(v);
    merge<L, n / 2, live - n / 2>(v + n / 2);
  }
}

// ---- Keys ----

// Elements as keys: negative floats have all bits turned, others the sign; NaN are the largest key.
// Descending ones have all bits turned in the end.
template <class L>
struct Codec {
  Vector sign, rest;  // what is always turned, and what where negative
  Vector largest, infinity, flip;
  Lanes floats;   // all lanes or none
  Lanes special;  // those where a NaN or -0 was

  WIDE void init(const SortForm& form) {
    constexpr int kBits = 8 * sizeof(typename L::Key);
    constexpr uint64_t kSign = uint64_t{1} << (kBits - 1);
    sign = L::all(form.is_signed ? kSign : 0);
    rest = L::all(form.is_float ? kSign - 1 : 0);
    largest = L::all(~uint64_t{0});
    infinity = L::all(kBits == 32 ? 0x7f800000 : uint64_t{0x7ff} << 52);
    flip = L::all(form.descending ? ~uint64_t{0} : 0);
    floats = form.is_float ? first_lanes(L::kCount) : 0;
    special = 0;
  }
  WIDE_MEMBER Vector turned(Vector x, Vector negative) const {
    return _mm512_xor_si512(_mm512_xor_si512(x, sign), _mm512_and_si512(negative, rest));
  }
  WIDE_MEMBER Vector encode(Vector x) {
    const Lanes nan = L::below(infinity, _mm512_and_si512(x, rest));
    special |= nan | (L::equal(x, sign) & floats);
    const Vector key = L::choose(nan, turned(x, L::sign_of(x)), largest);
    return _mm512_xor_si512(key, flip);
  }
  WIDE_MEMBER Vector decode(Vector key) const {
    key = _mm512_xor_si512(key, flip);
    return turned(key, _mm512_xor_si512(L::sign_of(key), largest));
  }
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
  constexpr int kAll = static_cast<int>(std::bit_ceil(static_cast<unsigned>(vectors)));
  constexpr int kFull = full_of(vectors);
  Vector v[static_cast<size_t>(vectors)];
#pragma GCC unroll 32
  for (int i = 0; i < vectors; ++i) {
    const int64_t left = std::clamp<int64_t>(n - i * L::kCount, 0, L::kCount);
    v[i] = i < kFull ? _mm512_loadu_si512(from + i * L::kCount)
                     : L::load(first_lanes(left), codec.largest, from + i * L::kCount);
  }
  sort_vectors<L, kAll, vectors>(v);
#pragma GCC unroll 32
  for (int i = 0; i < vectors; ++i) {
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
  alignas(64) typename L::Key keys[4 * L::kCount];
  Vector v[4];
  if (n < kWideSample) {
    v[0] = sort_lanes<L>(key_of<L, raw>(codec, L::pick(x, n / L::kCount)));
    _mm512_store_si512(keys, v[0]);
    return keys[L::kCount / 2];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = key_of<L, raw>(codec, L::pick(x + i * (n / 4), n / (4 * L::kCount)));
  }
  sort_vectors<L, 4, 4>(v);
  _mm512_store_si512(keys, v[2]);
  return keys[0];
}

// Keys on their way to both sides: those below the pivot upwards from low, the rest downwards from
// high. low may be where the keys are read: it never gets ahead.
template <class L>
struct Sides {
  Vector pivot;
  typename L::Key *low, *high;

  WIDE_MEMBER void take(Vector x) {
    const Lanes below = L::below(x, pivot);
    const int count = std::popcount(below);
    _mm512_storeu_si512(low, L::pack(below, x));
    low += count;
    high -= L::kCount - count;
    L::store(high, first_lanes(L::kCount - count), L::pack(~below, x));
  }
  WIDE_MEMBER void take_first(Vector x, int64_t n) {
    const Lanes below = L::below(x, pivot) & first_lanes(n);
    const int count = std::popcount(below);
    L::store(low, first_lanes(count), L::pack(below, x));
    low += count;
    high -= n - count;
    L::store(high, first_lanes(n - count), L::pack(first_lanes(n) & ~below, x));
  }
};

// Returns how many of the n keys at from are below the pivot; these are at low then, the others at
// the end of high's n.
template <class L, bool raw>
WIDE int64_t partition(Codec<L>& codec, const typename L::Key* from, typename L::Key* low,
                       typename L::Key* high, int64_t n, typename L::Key pivot) {
  constexpr int kLanes = L::kCount;
  Sides<L> sides{L::all(pivot), low, high + n};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Vector a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + kLanes),
                 c = _mm512_loadu_si512(from + i + 2 * kLanes),
                 d = _mm512_loadu_si512(from + i + 3 * kLanes);
    sides.take(key_of<L, raw>(codec, a));
    sides.take(key_of<L, raw>(codec, b));
    sides.take(key_of<L, raw>(codec, c));
    sides.take(key_of<L, raw>(codec, d));
  }
  for (; i < n; i += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, n - i);
    const Vector x = L::load(first_lanes(count), _mm512_setzero_si512(), from + i);
    sides.take_first(key_of<L, raw>(codec, x), count);
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
    int64_t below = partition<L, false>(codec, from, from, other, n, pivot);
    if (below == 0) {  // it is the least: those equal to it are in order
      std::swap(from, other);
      below = pivot == ~Key{0} ? n : partition<L, false>(codec, from, from, other, n, pivot + 1);
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
  const int64_t below = partition<L, true>(codec, x, y, other, n, pivot_of<L, true>(codec, x, n));
  if (below > 0) sort_range(codec, y, other, y, below, depth);
  sort_range(codec, other + below, y + below, y + below, n - below, depth);
  return codec.special != 0;
}

}  // namespace

bool sorts_wide() { return detect_features().vector_bytes == 64; }

bool sort_wide(const void* x, void* y, void* room, int64_t n, const SortForm& form) {
  return form.bytes == 4 ? sort<Lanes32>(x, y, room, n, form) : sort<Lanes64>(x, y, room, n, form);
}

}  // namespace aster::runtime::cpu::native

#else

namespace aster::runtime::cpu::native {
bool sorts_wide() { return false; }
bool sort_wide(const void*, void*, void*, int64_t, const SortForm&) { return false; }
}  // namespace aster::runtime::cpu::native

#endif
