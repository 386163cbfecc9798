// Lanes of AVX-512 vectors that are compared, moved and sorted; of 2, 4 or 8 bytes.
//
// Functions are compiled for AVX-512 one by one: what the linker may share with other files is not.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <limits>

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // in the intrinsics of gcc 12
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

#define WIDE __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,popcnt,bmi2")))
#define WIDE_MEMBER WIDE __attribute__((always_inline)) inline
#define WIDE_INLINE static WIDE_MEMBER

namespace aster::runtime::cpu::native {
namespace {

using Vector = __m512i;
using Lanes = uint32_t;  // a set of lanes

constexpr Lanes first_lanes(int64_t n) { return static_cast<Lanes>((uint64_t{1} << n) - 1); }

// ---- What moves lanes ----

template <int bits>
struct Down {  // the numbers of the lanes, the last first
  static constexpr int kCount = 512 / bits;
  alignas(64) uint8_t bytes[64] = {};
  constexpr Down() {
    for (int i = 0; i < kCount; ++i) bytes[i * (bits / 8)] = static_cast<uint8_t>(kCount - 1 - i);
  }
};
template <int bits>
constexpr Down<bits> kDown;

// load, pack: `other`, or 0, in the remaining lanes; pack: some lanes next to one another.
#define LANES(bits, mask_bits, compress)                                                       \
  struct Lanes##bits {                                                                         \
    static constexpr int kCount = mask_bits;                                                   \
    using Mask = __mmask##mask_bits;                                                           \
    WIDE_INLINE Vector splat(int##bits##_t x) { return _mm512_set1_epi##bits(x); }             \
    WIDE_INLINE Vector choose(Lanes lanes, Vector no, Vector yes) {                            \
      return _mm512_mask_mov_epi##bits(no, static_cast<Mask>(lanes), yes);                     \
    }                                                                                          \
    WIDE_INLINE Vector load(Lanes lanes, Vector other, const void* x) {                        \
      return _mm512_mask_loadu_epi##bits(other, static_cast<Mask>(lanes), x);                  \
    }                                                                                          \
    WIDE_INLINE void store(void* y, Lanes lanes, Vector x) {                                   \
      _mm512_mask_storeu_epi##bits(y, static_cast<Mask>(lanes), x);                            \
    }                                                                                          \
    WIDE_INLINE Lanes same(Vector x, Vector y) { return _mm512_cmpeq_epi##bits##_mask(x, y); } \
    WIDE_INLINE Vector pack(Lanes lanes, Vector x) {                                           \
      return compress(static_cast<Mask>(lanes), x);                                            \
    }                                                                                          \
    WIDE_INLINE Vector reverse(Vector x) {                                                     \
      return _mm512_permutexvar_epi##bits(_mm512_load_si512(&kDown<bits>), x);                 \
    }                                                                                          \
  }

// Of AVX512_VBMI2, for which functions here are not compiled.
WIDE_INLINE Vector compress16(__mmask32 lanes, Vector x) {
  Vector packed;
  __asm__("vpcompressw %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(x), "Yk"(lanes));
  return packed;
}
LANES(16, 32, compress16);
LANES(32, 16, _mm512_maskz_compress_epi32);
LANES(64, 8, _mm512_maskz_compress_epi64);
#undef LANES

// Bytes i get bytes i ^ distance.
template <int distance>
WIDE_INLINE Vector cross(Vector x) {
  if constexpr (distance == 2) return _mm512_ror_epi32(x, 16);
  if constexpr (distance == 4) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0xb1));
  if constexpr (distance == 8) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0x4e));
  if constexpr (distance == 16) return _mm512_shuffle_i64x2(x, x, 0xb1);
  return _mm512_shuffle_i64x2(x, x, 0x4e);
}

// ---- What compares them ----

enum class Kind { kWord, kReal, kHalf };  // integers; floats that are compared; their codes

// min, max: of zeros, both may be y. max_in: the larger in some lanes, `other` elsewhere.
#define ORDER(Name, Base, Type, kind, Register, suffix)                                         \
  struct Name : Base {                                                                          \
    using Key = Type;                                                                           \
    using Element = Type;                                                                       \
    static constexpr Kind kKind = Kind::kind;                                                   \
    WIDE_INLINE Register of(Vector x) { return reinterpret_cast<Register>(x); }                 \
    WIDE_INLINE Vector min(Vector x, Vector y) {                                                \
      return reinterpret_cast<Vector>(_mm512_min_##suffix(of(x), of(y)));                       \
    }                                                                                           \
    WIDE_INLINE Vector max(Vector x, Vector y) {                                                \
      return reinterpret_cast<Vector>(_mm512_max_##suffix(of(x), of(y)));                       \
    }                                                                                           \
    WIDE_INLINE Vector max_in(Lanes lanes, Vector other, Vector x, Vector y) {                  \
      const Mask mask = static_cast<Mask>(lanes);                                               \
      return reinterpret_cast<Vector>(_mm512_mask_max_##suffix(of(other), mask, of(x), of(y))); \
    }                                                                                           \
    WIDE_INLINE Lanes equal(Vector x, Vector y) {                                               \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 0);                                       \
    }                                                                                           \
    WIDE_INLINE Lanes below(Vector x, Vector y) {                                               \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 1);                                       \
    }                                                                                           \
    WIDE_INLINE Lanes at_most(Vector x, Vector y) {                                             \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 2);                                       \
    }                                                                                           \
    WIDE_INLINE Lanes unordered(Vector x, Vector y) {                                           \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 3);                                       \
    }                                                                                           \
  }
ORDER(U16, Lanes16, uint16_t, kWord, __m512i, epu16);
ORDER(U32, Lanes32, uint32_t, kWord, __m512i, epu32);
ORDER(U64, Lanes64, uint64_t, kWord, __m512i, epu64);
ORDER(F32, Lanes32, float, kReal, __m512, ps);
ORDER(F64, Lanes64, double, kReal, __m512d, pd);
#undef ORDER

struct Half : U16 {
  static constexpr Kind kKind = Kind::kHalf;
};
struct U8 : U16 {  // as wider lanes, of rows that fit the registers
  using Element = uint8_t;
  WIDE_INLINE Vector load(Lanes lanes, Vector other, const void* x) {
    const Vector words = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(lanes, x));
    return choose(lanes, other, words);
  }
  WIDE_INLINE void store(void* y, Lanes lanes, Vector x) {
    _mm256_mask_storeu_epi8(y, lanes, _mm512_cvtepi16_epi8(x));
  }
};

// ---- Networks ----

// Steps of a network are done for all vectors before the next: they wait for none of each other.
#define EACH_VECTOR _Pragma("GCC unroll 32") for

// The lanes whose number has a bit.
template <class L>
constexpr Lanes lanes_with(int bit) {
  Lanes lanes = 0;
  for (int i = 0; i < L::kCount; ++i) lanes |= (i & bit) != 0 ? Lanes{1} << i : 0;
  return lanes;
}

// Compares lanes i and i ^ distance of n vectors; `upper` keep the larger.
template <class L, int n, int distance>
WIDE_INLINE void exchange(Vector* v, Lanes upper) {
  EACH_VECTOR(int i = 0; i < n; ++i) {
    const Vector x = v[i], y = cross<distance * 64 / L::kCount>(x);
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

}  // namespace
}  // namespace aster::runtime::cpu::native
