#include "flt/tile.h"

#include <bit>

#include "flt/tile_avx2.h"

namespace aster::flt {
namespace {

#if defined(__x86_64__)

namespace narrow {
#define TILE_BYTES 16
#define TILE_ROWS 1
#define TILE_TARGET
#define TILE_ADD                                       \
  Type products = x;                                   \
  __asm__("pmaddwd %1, %0" : "+x"(products) : "x"(y)); \
  *sum += products
#define TILE_KEEP(x) __asm__("" : "+x"(x))
#define TILE_REDUCES
#include "flt/tile_loop.inc"
}  // namespace narrow

namespace middle {
#define TILE_BYTES 32
#define TILE_ROWS 2
#define TILE_TARGET [[gnu::target("avx2")]]
#define TILE_ADD                                                    \
  Type products;                                                    \
  __asm__("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(x), "x"(y)); \
  *sum += products
#define TILE_KEEP(x) __asm__("" : "+x"(x))
#define TILE_REDUCES
#include "flt/tile_loop.inc"
}  // namespace middle

// All of a tile's 16 sums in registers, and in these from one turn to the next, which compilers do
// not see to: sums of row r are 2 r and 2 r + 1. add: of signed zmm18 and zmm16 or zmm17.
#define ADD_ROW(add, x, low, high)                                                \
  "vpbroadcastd " x ", %%zmm18\n\t" add " %%zmm18, %%zmm16, %%zmm" low "\n\t" add \
  " %%zmm18, %%zmm17, %%zmm" high "\n\t"
#define ADD_TERM(add, k)                                                                           \
  "vmovdqu32 128*" k                                                                               \
  "(%[b]), %%zmm16\n\t"                                                                            \
  "vmovdqu32 128*" k "+64(%[b]), %%zmm17\n\t" ADD_ROW(add, "4*" k "(%[a])", "0", "1") ADD_ROW(     \
      add, "4*" k "(%[a],%[step])", "2", "3") ADD_ROW(add, "4*" k "(%[a],%[step],2)", "4", "5")    \
      ADD_ROW(add, "4*" k "(%[a],%[three])", "6", "7") ADD_ROW(add, "4*" k "(%[below])", "8", "9") \
          ADD_ROW(add, "4*" k "(%[below],%[step])", "10", "11")                                    \
              ADD_ROW(add, "4*" k "(%[below],%[step],2)", "12", "13")                              \
                  ADD_ROW(add, "4*" k "(%[below],%[three])", "14", "15")
#define LOOP_OF_64(add)                                           \
  const size_t bytes = step * sizeof(int32_t), three = 3 * bytes; \
  const int32_t* below = a + 4 * step;                            \
  size_t twice = pairs / 2;                                       \
  __asm__ volatile(                                                                             \
      "test %[fresh], %[fresh]\n\t"                                                             \
      "jz 1f\n\t"                                                                               \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"                                        \
      "vpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n\t"                                                 \
      ".endr\n\t"                                                                               \
      "jmp 2f\n"                                                                                \
      "1:\n\t"                                                                                  \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"                                        \
      "vmovdqu32 64*\\r(%[sums]), %%zmm\\r\n\t"                                                 \
      ".endr\n"                                                                                 \
      "2:\n\t"                                                                                  \
      "test %[twice], %[twice]\n\t"                                                             \
      "jz 4f\n\t"                                                                               \
      ".p2align 5\n"                                                                            \
      "3:\n\t"                                                                                  \
      "prefetcht1 (%[next])\n\t" ADD_TERM(add, "0") ADD_TERM(add, "1")                         \
      "add $64, %[next]\n\t"                                                                    \
      "add $8, %[a]\n\t"                                                                        \
      "add $8, %[below]\n\t"                                                                    \
      "add $256, %[b]\n\t"                                                                      \
      "dec %[twice]\n\t"                                                                        \
      "jnz 3b\n"                                                                                \
      "4:\n\t"                                                                                  \
      "test $1, %[pairs]\n\t"                                                                   \
      "jz 5f\n\t" ADD_TERM(add, "0")                                                            \
      "5:\n\t"                                                                                  \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"                                        \
      "vmovdqu32 %%zmm\\r, 64*\\r(%[sums])\n\t"                                                 \
      ".endr"                                                                                   \
      : [a] "+r"(a), [below] "+r"(below), [b] "+r"(b), [twice] "+r"(twice),                     \
        [next] "+r"(next)                                                                       \
      : [sums] "r"(sums), [step] "r"(bytes), [three] "r"(three), [pairs] "r"(pairs),            \
        [fresh] "r"(static_cast<int>(fresh))                                                    \
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",         \
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "cc",  \
        "memory")

namespace wide {
#define TILE_BYTES 64
#define TILE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]
#define TILE_ADD __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(y))
#define TILE_LOOP LOOP_OF_64("vpdpwssd")
#define TILE_REDUCES
#include "flt/tile_loop.inc"
}  // namespace wide

namespace bytes {
#define TILE_BYTES 64
#define TILE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]
#define TILE_LOOP LOOP_OF_64("vpdpbusd")
#include "flt/tile_loop.inc"
}  // namespace bytes
#undef LOOP_OF_64
#undef ADD_TERM
#undef ADD_ROW

#else

void tile_plain(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs) {
  for (size_t r = 0; r < kTileRows; ++r) {
    for (size_t k = 0; k < pairs; ++k) {
      const int32_t x = a[r * step + k];
      for (size_t j = 0; j < kTileLanes; ++j) {
        const int32_t y = b[k * kTileLanes + j];
        sums[r * kTileLanes + j] += static_cast<int16_t>(x) * static_cast<int16_t>(y);
        sums[r * kTileLanes + j] += (x >> 16) * (y >> 16);
      }
    }
  }
}

void fresh_plain(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs) {
  for (size_t i = 0; i < kTileRows * kTileLanes; ++i) sums[i] = 0;
  tile_plain(sums, a, step, b, pairs);
}

void residues_plain(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs,
                    size_t at_once, const int32_t* primes, const float*, const void*) {
  for (size_t i = 0; i < kTileRows * kTileLanes; ++i) sums[i] = 0;
  for (size_t k = 0; k < pairs; k += at_once) {
    tile_plain(sums, a + k, step, b + k * kTileLanes, pairs - k < at_once ? pairs - k : at_once);
    for (size_t i = 0; i < kTileRows * kTileLanes; ++i) {
      const int32_t p = primes[i / kTileLanes];
      sums[i] %= p;
      if (sums[i] > p / 2) sums[i] -= p;
      if (sums[i] < -(p / 2)) sums[i] += p;
    }
  }
}

void narrow_plain(int16_t* to, size_t step, const int32_t* sums) {
  for (size_t i = 0; i < kTileRows * kTileLanes; ++i)
    to[i / kTileLanes * step + i % kTileLanes] = static_cast<int16_t>(sums[i]);
}

void join_plain(int32_t* to, size_t step, const int32_t* low, size_t low_step,
                const int32_t* high) {
  for (size_t i = 0; i < kTileRows * kTileLanes; ++i) {
    const size_t r = i / kTileLanes, lane = i % kTileLanes;
    to[r * step + lane] = pair_of(low[r * low_step + lane], high[i]);
  }
}

void digits_plain(int32_t* to, const uint64_t* limbs, size_t count, const uint64_t* shifts,
                  const uint64_t* flips) {
  constexpr uint64_t kHalves = 0x8000800080008000;
  for (size_t lane = 0; lane < kTileLanes; ++lane) {
    uint64_t below = 0;
    bool negate = flips[lane] != 0, carry = false;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t limb = limbs[i * kTileLanes + lane];
      uint64_t m = limb << shifts[lane] | (below >> 1) >> (63 - shifts[lane]);
      below = limb;
      m = (m ^ flips[lane]) + (negate ? 1 : 0);
      negate = negate && m == 0;
      const uint64_t sum = m + kHalves, whole = sum + (carry ? 1 : 0);
      carry = sum < m || whole < sum;
      const uint64_t pairs = whole ^ kHalves;
      to[2 * i * kTileLanes + lane] = static_cast<int32_t>(static_cast<uint32_t>(pairs));
      to[(2 * i + 1) * kTileLanes + lane] =
          static_cast<int32_t>(static_cast<uint32_t>(pairs >> 32));
    }
  }
}

void row_plain(int32_t* sums, const int32_t* a, const int32_t* b, size_t pairs) {
  for (size_t j = 0; j < kTileLanes; ++j) {
    sums[j] = 0;
    for (size_t k = 0; k < pairs; ++k) {
      const int32_t y = b[k * kTileLanes + j];
      sums[j] += static_cast<int16_t>(a[k]) * static_cast<int16_t>(y) + (a[k] >> 16) * (y >> 16);
    }
  }
}

void settle_plain(uint64_t* out, const int32_t* digits, size_t rows) {
  for (size_t j = 0; j < kTileLanes; ++j) {
    int32_t carry = 0;
    for (size_t d = 0; d < rows; d += 4) {
      uint64_t bits = 0;
      for (size_t i = 0; i < 4; ++i) {
        const int32_t x = digits[(d + i) * kTileLanes + j] + carry;
        bits |= static_cast<uint64_t>(x & ((1 << kTileBits) - 1)) << (i * kTileBits);
        carry = x >> kTileBits;
      }
      out[d / 4 * kTileLanes + 16 * (j % 2) + j / 2] = bits;
    }
  }
}

#endif

#if defined(__x86_64__)
bool adds_products(int32_t vector_bytes) {
  return (vector_bytes == 0 || vector_bytes >= 64) && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

}  // namespace

TileCode tile_for([[maybe_unused]] int32_t vector_bytes) {
#if defined(__x86_64__)
  const int32_t most = vector_bytes == 0 ? 64 : vector_bytes;
  if (adds_products(vector_bytes)) return wide::code;
  if (most >= 32 && __builtin_cpu_supports("avx2")) {
    TileCode code = middle::code;
    code.residues = avx2::residues;
    code.panels = {avx2::multiply, avx2::row_parts,   avx2::column_parts,
                   avx2::row_sums, avx2::column_sums, avx2::result_sums};
    return code;
  }
  return narrow::code;
#else
  return {tile_plain,   fresh_plain, residues_plain, narrow_plain, join_plain,
          digits_plain, row_plain,   settle_plain,   {},           {}};
#endif
}

Tile byte_tile_for([[maybe_unused]] int32_t vector_bytes) {
#if defined(__x86_64__)
  if (adds_products(vector_bytes)) return bytes::tile;
#endif
  return nullptr;
}

}  // namespace aster::flt
