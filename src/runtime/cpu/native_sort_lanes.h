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

// The numbers of lanes, which a permutation reads.
template <int bits>
struct Numbers {
  static constexpr int kCount = 512 / bits;
  alignas(64) uint8_t bytes[64] = {};
  template <typename F>
  explicit constexpr Numbers(F f) {
    for (int i = 0; i < kCount; ++i) bytes[i * (bits / 8)] = static_cast<uint8_t>(f(i));
  }
};
template <int bits, int mask>
constexpr Numbers<bits> kCrossed([](int i) { return i ^ mask; });
// Of two vectors in turn, the lower or upper half of each.
template <int bits, bool upper>
constexpr Numbers<bits> kInTurn([](int i) {
  constexpr int kCount = 512 / bits;
  return i / 2 + (upper ? kCount / 2 : 0) + i % 2 * kCount;
});

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
    template <int mask>                                                                        \
    WIDE_INLINE Vector permute(Vector x) {                                                     \
      return _mm512_permutexvar_epi##bits(_mm512_load_si512(&kCrossed<bits, mask>), x);        \
    }                                                                                          \
    template <bool upper>                                                                      \
    WIDE_INLINE Vector in_turn(Vector x, Vector y) {                                           \
      return _mm512_permutex2var_epi##bits(x, _mm512_load_si512(&kInTurn<bits, upper>), y);    \
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

// Lane i gets lane i ^ mask.
template <class L, int mask>
WIDE_INLINE Vector cross(Vector x) {
  constexpr int kBytes = mask * 64 / L::kCount;
  if constexpr (kBytes == 2) return _mm512_ror_epi32(x, 16);
  if constexpr (kBytes == 4) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0xb1));
  if constexpr (kBytes == 8) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0x4e));
  if constexpr (kBytes == 16) return _mm512_shuffle_i64x2(x, x, 0xb1);
  if constexpr (kBytes == 32) return _mm512_shuffle_i64x2(x, x, 0x4e);
  return L::template permute<mask>(x);
}

// The numbers of 8 lanes: first those of a set, then the rest.
struct Parted {
  uint8_t at[256][8] = {};
  constexpr Parted() {
    for (size_t lanes = 0; lanes < 256; ++lanes) {
      size_t count = 0;
      for (const size_t in : {1u, 0u}) {
        for (uint8_t i = 0; i < 8; ++i) {
          if ((lanes >> i & 1) == in) at[lanes][count++] = i;
        }
      }
    }
  }
};
constexpr Parted kParted;
// The lanes of a set, then the rest.
WIDE_INLINE Vector part(Lanes lanes, Vector x) {
  const __m128i at = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kParted.at[lanes]));
  return _mm512_permutexvar_epi64(_mm512_cvtepu8_epi64(at), x);
}

// ---- What compares them ----

enum class Kind { kWord, kReal, kHalf };  // integers; floats that are compared; their codes

// Of zeros, both may be y. order: the smaller to x, the larger to y. either: the larger in some
// lanes, the smaller elsewhere.
#define ORDER(Name, Base, Type, kind, Register, suffix)                                 \
  struct Name : Base {                                                                  \
    using Key = Type;                                                                   \
    using Element = Type;                                                               \
    static constexpr Kind kKind = Kind::kind;                                           \
    WIDE_INLINE Register of(Vector x) { return reinterpret_cast<Register>(x); }         \
    WIDE_INLINE void order(Vector& x, Vector& y) {                                      \
      const Vector least = reinterpret_cast<Vector>(_mm512_min_##suffix(of(x), of(y))); \
      y = reinterpret_cast<Vector>(_mm512_max_##suffix(of(x), of(y)));                  \
      x = least;                                                                        \
    }                                                                                   \
    WIDE_INLINE Vector either(Lanes upper, Vector x, Vector y) {                        \
      return reinterpret_cast<Vector>(_mm512_mask_max_##suffix(                         \
          _mm512_min_##suffix(of(x), of(y)), static_cast<Mask>(upper), of(x), of(y)));  \
    }                                                                                   \
    WIDE_INLINE Lanes equal(Vector x, Vector y) {                                       \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 0);                               \
    }                                                                                   \
    WIDE_INLINE Lanes below(Vector x, Vector y) {                                       \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 1);                               \
    }                                                                                   \
    WIDE_INLINE Lanes at_most(Vector x, Vector y) {                                     \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 2);                               \
    }                                                                                   \
    WIDE_INLINE Lanes unordered(Vector x, Vector y) {                                   \
      return _mm512_cmp_##suffix##_mask(of(x), of(y), 3);                               \
    }                                                                                   \
  }
ORDER(Word16, Lanes16, uint16_t, kWord, __m512i, epu16);
ORDER(Word32, Lanes32, uint32_t, kWord, __m512i, epu32);
ORDER(Word64, Lanes64, uint64_t, kWord, __m512i, epu64);
ORDER(F32, Lanes32, float, kReal, __m512, ps);
ORDER(F64, Lanes64, double, kReal, __m512d, pd);
#undef ORDER

template <class Word>
struct Compared : Word {  // minima and maxima of words wait for one port
  WIDE_INLINE void order(Vector& x, Vector& y) {
    const Lanes less = Word::below(x, y);
    const Vector least = Word::choose(less, y, x);
    y = Word::choose(less, x, y);
    x = least;
  }
};
struct U16 : Compared<Word16> {};
struct U32 : Compared<Word32> {};
struct U64 : Compared<Word64> {};
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

// Vectors are the rows of a matrix, whose columns are sorted first, each in itself, and then merged
// two by two: most steps compare whole rows. Steps are done for all rows before the next: they wait
// for none of each other.
#define EACH_VECTOR _Pragma("GCC unroll 32") for

// Batcher's odd-even merge sort of n rows, a power of two: the step that compares rows `distance`
// apart in runs of 2 * run.
template <class L, int n, int run = 1, int distance = run>
WIDE_INLINE void sort_columns(Vector* v) {
  if constexpr (run < n) {
    EACH_VECTOR(int i = distance % run; i < n - distance; ++i) {
      if ((i - distance % run) % (2 * distance) >= distance) continue;
      if (i / (2 * run) == (i + distance) / (2 * run)) L::order(v[i], v[i + distance]);
    }
    if constexpr (distance > 1) {
      sort_columns<L, n, run, distance / 2>(v);
    } else {
      sort_columns<L, n, 2 * run>(v);
    }
  }
}

// The lanes whose number has a bit.
template <class L>
constexpr Lanes lanes_with(int bit) {
  Lanes lanes = 0;
  for (int i = 0; i < L::kCount; ++i) lanes |= (i & bit) != 0 ? Lanes{1} << i : 0;
  return lanes;
}

// Columns that are bitonic together, `distance` and less apart.
template <class L, int n, int distance>
WIDE_INLINE void merge_lanes(Vector* v) {
  if constexpr (distance > 0) {
    EACH_VECTOR(int i = 0; i < n; ++i) {
      v[i] = L::either(lanes_with<L>(distance), v[i], cross<L, distance>(v[i]));
    }
    merge_lanes<L, n, distance / 2>(v);
  }
}
template <class L, int n, int distance>
WIDE_INLINE void merge_rows(Vector* v) {
  if constexpr (distance > 0) {
    EACH_VECTOR(int i = 0; i < n - distance; ++i) {
      if ((i & distance) == 0) L::order(v[i], v[i + distance]);
    }
    merge_rows<L, n, distance / 2>(v);
  }
}

// Runs of `run` columns, the second of two turned around.
template <class L, int n, int run = 1>
WIDE_INLINE void merge_columns(Vector* v) {
  if constexpr (run < L::kCount) {
    constexpr Lanes kUpper = lanes_with<L>(run);
    EACH_VECTOR(int i = 0; i < (n + 1) / 2; ++i) {
      const Vector x = v[i], y = v[n - 1 - i];
      v[i] = L::either(kUpper, x, cross<L, 2 * run - 1>(y));
      if (n > 1) v[n - 1 - i] = L::either(kUpper, y, cross<L, 2 * run - 1>(x));
    }
    merge_lanes<L, n, run / 2>(v);
    merge_rows<L, n, n / 2>(v);
    merge_columns<L, n, 2 * run>(v);
  }
}

// Columns become rows: every step moves the topmost bit of a place to its end.
template <class L, int n, int done = 1>
WIDE_INLINE void lay_out(Vector* v) {
  if constexpr (done < n) {
    Vector to[static_cast<size_t>(n)];
    EACH_VECTOR(int i = 0; i < n / 2; ++i) {
      to[2 * i] = L::template in_turn<false>(v[i], v[i + n / 2]);
      to[2 * i + 1] = L::template in_turn<true>(v[i], v[i + n / 2]);
    }
    EACH_VECTOR(int i = 0; i < n; ++i) v[i] = to[i];
    lay_out<L, n, 2 * done>(v);
  }
}

// The keys of n vectors, a power of two.
template <class L, int n>
WIDE_INLINE void sort_vectors(Vector* v) {
  sort_columns<L, n>(v);
  merge_columns<L, n>(v);
  lay_out<L, n>(v);
}

}  // namespace
}  // namespace aster::runtime::cpu::native
