// What AVX2 has in the place of loops of tile_loop.inc. It multiplies no faster than it adds, so
// half of the multiplications become additions (Winograd 1968): with pairs x, x' of a row and y, y'
// of a column beside each other, x y + x' y' = (x + y') (x' + y) - x x' - y y', and what is taken
// away belongs to a row or a column.
#include "flt/tile_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace aster::flt::avx2 {
namespace {

#define TARGET [[gnu::target("avx2")]]

typedef __m256i Vector;
constexpr size_t kLanes = 8, kVectors = kTileLanes / kLanes;
constexpr int32_t kHalf = 1 << 15, kWhole = 1 << 16;
// Pairs whose products fit beside what is shortened: 16 (2 (1.006 p)^2) + 2^14 p + 2^15 < 2^31.
constexpr size_t kBlockOfPairs = 32;
static_assert(kMostPrimeByHalves <= 7800);

TARGET inline Vector load(const int32_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const Vector*>(at));
}
TARGET inline void store(int32_t* at, const Vector& x) {
  _mm256_storeu_si256(reinterpret_cast<Vector*>(at), x);
}

// x as its halves, the lower one less than 0 or not: x less 2^15 is low + 2^16 high, and so is what
// is congruent to it, below 2^14 p + 2^15 in size.
struct Modulus {
  Vector sign, halves, prime;  // sign: of the lower half
  __m256 inverse;
};

TARGET inline Modulus modulus_of(int32_t prime, float inverse) {
  const int32_t high = kWhole - static_cast<int32_t>(kWhole * inverse + 0.5f) * prime;
  return {_mm256_set1_epi32(kHalf), _mm256_set1_epi32(pair_of(1, high)), _mm256_set1_epi32(prime),
          _mm256_set1_ps(inverse)};
}

// Congruent to x less 2^15.
TARGET inline Vector shorten(const Vector& x, const Modulus& m) {
  return _mm256_madd_epi16(_mm256_xor_si256(x, m.sign), m.halves);
}

// The same, in size at most 0.503 p. A quotient has 15 bits.
TARGET inline Vector residue(const Vector& x, const Modulus& m) {
  const Vector y = shorten(x, m);
  const Vector quotient = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(y), m.inverse));
  return _mm256_sub_epi32(y, _mm256_madd_epi16(quotient, m.prime));
}

int32_t balanced(int64_t x, int32_t p) {
  const auto rest = static_cast<int32_t>(x % p);
  return rest - (2 * rest > p ? p : 0) + (2 * rest < -p ? p : 0);
}

// Blocks of so many pairs, after which sums are shortened.
size_t blocks_of(size_t pairs, size_t at_once) { return (pairs + at_once - 1) / at_once; }

// Sums of four rows by 16 lanes in ymm0 to 7. Two pairs of b lie in ymm8 to 11.
#define ADD_ROW(low, high, first, second)                                          \
  "vpbroadcastd " low ", %%ymm12\n\tvpbroadcastd " high                            \
  ", %%ymm13\n\t"                                                                  \
  "vpaddw %%ymm12, %%ymm10, %%ymm14\n\tvpaddw %%ymm13, %%ymm8, %%ymm15\n\t"        \
  "vpaddw %%ymm12, %%ymm11, %%ymm12\n\tvpaddw %%ymm13, %%ymm9, %%ymm13\n\t"        \
  "vpmaddwd %%ymm14, %%ymm15, %%ymm14\n\tvpmaddwd %%ymm12, %%ymm13, %%ymm12\n\t"   \
  "vpaddd %%ymm14, %%ymm" first ", %%ymm" first "\n\tvpaddd %%ymm12, %%ymm" second \
  ", %%ymm" second "\n\t"
#define ADD_PAIRS(k)                                                                \
  "vmovdqu 256*" k "(%[b]), %%ymm8\n\tvmovdqu 256*" k                               \
  "+32(%[b]), %%ymm9\n\t"                                                           \
  "vmovdqu 256*" k "+128(%[b]), %%ymm10\n\tvmovdqu 256*" k                          \
  "+160(%[b]), %%ymm11\n\t" ADD_ROW("8*" k "(%[a])", "8*" k "+4(%[a])", "0", "1")   \
      ADD_ROW("8*" k "(%[a],%[step])", "8*" k "+4(%[a],%[step])", "2", "3")         \
          ADD_ROW("8*" k "(%[a],%[step],2)", "8*" k "+4(%[a],%[step],2)", "4", "5") \
              ADD_ROW("8*" k "(%[a],%[three])", "8*" k "+4(%[a],%[three])", "6", "7")

// sums += products of four rows, step apart, by 16 lanes of b, shortened after every block of twice
// the pairs and once more for what is over.
TARGET inline void add_blocks(int32_t* sums, const int32_t* a, size_t step, const int32_t* b,
                              size_t blocks, size_t twice, const Modulus& m) {
  const size_t bytes = step * sizeof(int32_t), three = 3 * bytes, fours = twice / 2,
               odd = twice % 2;
  size_t left;
  __asm__ volatile(
      ".irp r,0,2,4,6\n\t"
      "vmovdqu 64*\\r(%[sums]), %%ymm\\r\n\t"
      ".endr\n\t"
      ".irp r,1,3,5,7\n\t"
      "vmovdqu 64*\\r-32(%[sums]), %%ymm\\r\n\t"
      ".endr\n\t"
      ".p2align 5\n"
      "1:\n\t"
      "mov %[fours], %[left]\n\t"
      "test %[left], %[left]\n\t"
      "jz 3f\n\t"
      ".p2align 5\n"
      "2:\n\t" ADD_PAIRS("0") ADD_PAIRS("1")
      "add $16, %[a]\n\t"
      "add $512, %[b]\n\t"
      "dec %[left]\n\t"
      "jnz 2b\n"
      "3:\n\t"
      "test %[odd], %[odd]\n\t"
      "jz 4f\n\t" ADD_PAIRS("0")
      "4:\n\t"
      ".irp r,0,1,2,3,4,5,6,7\n\t"
      "vpxor %[sign], %%ymm\\r, %%ymm\\r\n\t"
      "vpmaddwd %[halves], %%ymm\\r, %%ymm\\r\n\t"
      ".endr\n\t"
      "dec %[blocks]\n\t"
      "jnz 1b\n\t"
      ".irp r,0,2,4,6\n\t"
      "vmovdqu %%ymm\\r, 64*\\r(%[sums])\n\t"
      ".endr\n\t"
      ".irp r,1,3,5,7\n\t"
      "vmovdqu %%ymm\\r, 64*\\r-32(%[sums])\n\t"
      ".endr"
      : [a] "+r"(a), [b] "+r"(b), [blocks] "+r"(blocks), [left] "=&r"(left)
      : [sums] "r"(sums), [step] "r"(bytes), [three] "r"(three), [fours] "r"(fours),
        [odd] "r"(odd), [sign] "m"(m.sign), [halves] "m"(m.halves)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
}
#undef ADD_PAIRS
#undef ADD_ROW

// What is near for all rows, of b and of the sums.
constexpr size_t kNear = 4 * kBlockOfPairs, kRows = 4, kHalfLanes = kTileLanes / 2;

// The sum of products of pairs with those beside them, of so many pairs.
TARGET int32_t own_products(const int32_t* a, size_t pairs, int32_t prime) {
  int64_t sum = 0;
  for (size_t k = 0; k < pairs; k += kBlockOfPairs) {
    Vector part = {};
    const size_t count = pairs - k < kBlockOfPairs ? pairs - k : kBlockOfPairs;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const Vector x = load(a + k + i);
      part = _mm256_add_epi32(part, _mm256_madd_epi16(x, _mm256_srli_epi64(x, 32)));
    }
    alignas(32) int32_t lanes[kLanes];
    store(lanes, part);
    for (size_t lane = 0; lane < kLanes; lane += 2) sum += lanes[lane];
    for (; i < count; i += 2) {
      const int32_t x = a[k + i], y = a[k + i + 1];
      sum += static_cast<int16_t>(x) * static_cast<int16_t>(y) + (x >> 16) * (y >> 16);
    }
  }
  return balanced(sum, prime);
}

// rows: what sums of each begin with.
TARGET void begin(int32_t* sums, const int32_t* rows, size_t row_count, const int32_t* columns) {
  for (size_t r = 0; r < row_count; ++r) {
    for (size_t v = 0; v < kTileLanes; v += kLanes)
      store(sums + r * kTileLanes + v,
            _mm256_add_epi32(_mm256_set1_epi32(rows[r]), load(columns + v)));
  }
}

// Half of the rows that come next.
TARGET inline void fetch(const int32_t* a, size_t step, size_t pairs) {
  for (size_t r = 0; r < kRows / 2; ++r) {
    for (size_t k = 0; k < pairs; k += 64 / sizeof(int32_t))
      __builtin_prefetch(a + r * step + k, 0, 3);
  }
}

// 16 residues where they go; as int16 they lie as packs_epi32 has them.
TARGET inline void put(int32_t* to, const Vector& residues, Place place) {
  const Vector zero = _mm256_setzero_si256();
  if (place == Place::kShort) return store(to, residues);
  if (place == Place::kLow) {
    store(to, _mm256_unpacklo_epi16(residues, zero));
    store(to + kLanes, _mm256_unpackhi_epi16(residues, zero));
  } else {
    store(to, _mm256_blend_epi16(load(to), _mm256_unpacklo_epi16(zero, residues), 0xaa));
    store(to + kLanes,
          _mm256_blend_epi16(load(to + kLanes), _mm256_unpackhi_epi16(zero, residues), 0xaa));
  }
}
// How far 16 of them are from the next ones.
constexpr size_t width_of(Place place) { return place == Place::kShort ? kLanes : 2 * kLanes; }

TARGET void end(const PanelProduct& p, const int32_t* sums, const Modulus& m) {
  for (size_t r = 0; r < p.row_count; ++r) {
    int32_t* to = p.to + r * p.to_step;
    for (size_t v = 0; v < kTileLanes; v += 2 * kLanes, to += width_of(p.place)) {
      const int32_t* const from = sums + r * kTileLanes + v;
      put(to, _mm256_packs_epi32(residue(load(from), m), residue(load(from + kLanes), m)), p.place);
    }
  }
}

}  // namespace

TARGET void row_parts(int32_t* parts, const int32_t* a, size_t step, size_t row_count, size_t pairs,
                      int32_t prime) {
  // One more than blocks: the last residues shorten once more.
  const auto taken = static_cast<int64_t>(blocks_of(pairs, kBlockOfPairs) + 1) * kHalf;
  for (size_t r = 0; r < row_count; ++r)
    parts[r] = balanced(taken - own_products(a + r * step, pairs, prime), prime);
}

TARGET void column_parts(int32_t* parts, const int32_t* b, size_t pairs, int32_t prime,
                         float inverse) {
  const Modulus m = modulus_of(prime, inverse);
  const Vector half = _mm256_set1_epi32(kHalf);
  for (size_t v = 0; v < kTileLanes; v += kLanes) {
    Vector sum = {};
    for (size_t k = 0; k < pairs; k += 2) {
      const int32_t* const at = b + k * kTileLanes + v;
      sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(load(at), load(at + kTileLanes)));
      if (k % kBlockOfPairs == 0) sum = _mm256_add_epi32(shorten(sum, m), half);
    }
    store(parts + v, residue(_mm256_add_epi32(sum, half), m));
  }
}

TARGET void multiply(const PanelProduct& p) {
  alignas(64) int32_t sums[kMostPanelRows * kTileLanes];
  const Modulus m = modulus_of(p.prime, p.inverse);
  begin(sums, p.a_parts, p.row_count, p.b_parts);
  const char* next = static_cast<const char*>(p.next);
  for (size_t k = 0; k < p.pairs; k += kNear) {
    const size_t pairs = p.pairs - k < kNear ? p.pairs - k : kNear;
    const size_t whole = pairs / kBlockOfPairs, rest = pairs % kBlockOfPairs;
    // Of what comes next, the next part of b before all.
    const char* const after =
        k + kNear < p.pairs ? reinterpret_cast<const char*>(p.b + (k + kNear) * kTileLanes) : next;
    const size_t turns = 2 * p.row_count / kRows, lines = pairs * 2 / turns;
    for (size_t r = 0; r < p.row_count; r += kRows) {
      const int32_t* const a = p.a + r * p.step + k;
      const int32_t* const below = r + kRows < p.row_count ? a + kRows * p.step
                                   : k + kNear < p.pairs   ? p.a + k + kNear
                                                           : p.next_a;
      const size_t step_below = below == p.next_a ? p.next_step : p.step;
      for (size_t half = 0; half < 2; ++half) {
        const char* const fetched = after + (r / kRows * 2 + half) * lines * 64;
        for (size_t i = 0; i < lines; ++i) __builtin_prefetch(fetched + i * 64, 0, 2);
        fetch(below + half * kRows / 2 * step_below, step_below, pairs);
        int32_t* const to = sums + r * kTileLanes + half * kHalfLanes;
        const int32_t* const b = p.b + k * kTileLanes + half * kHalfLanes;
        if (whole > 0) add_blocks(to, a, p.step, b, whole, kBlockOfPairs / 2, m);
        if (rest > 0) {
          const size_t done = whole * kBlockOfPairs;
          add_blocks(to, a + done, p.step, b + done * kTileLanes, 1, rest / 2, m);
        }
      }
    }
  }
  end(p, sums, m);
}

// Congruent to x of less than 1.5 primes, in size less than half of one.
TARGET inline Vector near(const Vector& x, const Vector& half, const Vector& prime) {
  const Vector beyond = _mm256_cmpgt_epi16(_mm256_abs_epi16(x), half);
  return _mm256_sub_epi16(x, _mm256_sign_epi16(_mm256_and_si256(beyond, prime), x));
}

TARGET void row_sums(int32_t* const* sums, const int32_t* const* quarters, size_t step, size_t rows,
                     size_t pairs, int32_t prime) {
  const Vector p = _mm256_set1_epi16(static_cast<int16_t>(prime)), half = _mm256_srli_epi16(p, 1);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t k = 0; k < pairs; k += kLanes) {
      const size_t from = r * step + k, to = r * pairs + k;
      const Vector a = load(quarters[0] + from), b = load(quarters[1] + from),
                   c = load(quarters[2] + from), d = load(quarters[3] + from);
      const Vector s = near(_mm256_add_epi16(c, d), half, p),
                   t = near(_mm256_sub_epi16(s, a), half, p);
      store(sums[0] + to, s);
      store(sums[1] + to, t);
      store(sums[2] + to, near(_mm256_sub_epi16(a, c), half, p));
      store(sums[3] + to, near(_mm256_sub_epi16(b, t), half, p));
    }
  }
}

TARGET void column_sums(int32_t* const* sums, const int32_t* const* quarters, size_t pairs,
                        int32_t prime) {
  const Vector p = _mm256_set1_epi16(static_cast<int16_t>(prime)), half = _mm256_srli_epi16(p, 1);
  for (size_t k = 0; k < pairs; k += kLanes) {
    const Vector a = load(quarters[0] + k), b = load(quarters[1] + k), c = load(quarters[2] + k),
                 d = load(quarters[3] + k);
    const Vector s = near(_mm256_sub_epi16(b, a), half, p),
                 t = near(_mm256_sub_epi16(d, s), half, p);
    store(sums[0] + k, s);
    store(sums[1] + k, t);
    store(sums[2] + k, near(_mm256_sub_epi16(d, b), half, p));
    store(sums[3] + k, near(_mm256_sub_epi16(t, c), half, p));
  }
}

TARGET void result_sums(int32_t* const* quarters, size_t step, Place place,
                        const int32_t* const* products, size_t rows, int32_t prime) {
  const Vector p = _mm256_set1_epi16(static_cast<int16_t>(prime)), half = _mm256_srli_epi16(p, 1);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t v = 0; v < kShortRow / kLanes; ++v) {
      Vector x[7];
#pragma GCC unroll 7
      for (size_t i = 0; i < 7; ++i) x[i] = load(products[i] + r * kShortRow + v * kLanes);
      const Vector s = _mm256_add_epi16(x[0], x[5]), t = _mm256_add_epi16(s, x[6]);
      const size_t at = r * step + v * width_of(place);
      // Of four of them each, less than 2.5 primes, but the first.
      put(quarters[0] + at, near(_mm256_add_epi16(x[0], x[1]), half, p), place);
      const Vector b = near(_mm256_add_epi16(_mm256_add_epi16(s, x[4]), x[2]), half, p),
                   c = near(_mm256_sub_epi16(t, x[3]), half, p),
                   d = near(_mm256_add_epi16(t, x[4]), half, p);
      put(quarters[1] + at, near(b, half, p), place);
      put(quarters[2] + at, near(c, half, p), place);
      put(quarters[3] + at, near(d, half, p), place);
    }
  }
}

TARGET void residues(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs,
                     size_t at_once, const int32_t* primes, const float* inverses, const void*) {
  const auto times = static_cast<int32_t>(blocks_of(pairs, at_once));
  for (size_t r = 0; r < kTileRows; r += 2) {
    const Modulus m = modulus_of(primes[r], inverses[r]),
                  n = modulus_of(primes[r + 1], inverses[r + 1]);
    // What is taken away by and by.
    Vector x[kVectors], y[kVectors];
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) x[v] = y[v] = _mm256_set1_epi32(times * kHalf);
    for (size_t k = 0, until = at_once; k < pairs; ++k) {
      if (k == until) {
        until += at_once;
#pragma GCC unroll 4
        for (size_t v = 0; v < kVectors; ++v) x[v] = shorten(x[v], m), y[v] = shorten(y[v], n);
      }
      const Vector low = _mm256_set1_epi32(a[r * step + k]),
                   high = _mm256_set1_epi32(a[(r + 1) * step + k]);
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) {
        const Vector digits = load(b + k * kTileLanes + v * kLanes);
        x[v] = _mm256_add_epi32(x[v], _mm256_madd_epi16(digits, low));
        y[v] = _mm256_add_epi32(y[v], _mm256_madd_epi16(digits, high));
      }
    }
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      store(sums + r * kTileLanes + v * kLanes, residue(x[v], m));
      store(sums + (r + 1) * kTileLanes + v * kLanes, residue(y[v], n));
    }
  }
}

#undef TARGET

}  // namespace aster::flt::avx2
#endif
