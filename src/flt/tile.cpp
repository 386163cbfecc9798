#include "flt/tile.h"

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

namespace wide {
#define TILE_BYTES 64
#define TILE_ROWS 8
#define TILE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]
#define TILE_ADD __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(y))
#define TILE_KEEP(x) __asm__("" : "+v"(x))
#define TILE_REDUCES
#include "flt/tile_loop.inc"
}  // namespace wide

namespace bytes {
#define TILE_BYTES 64
#define TILE_ROWS 8
#define TILE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]
#define TILE_ADD __asm__("vpdpbusd %1, %2, %0" : "+v"(*sum) : "v"(x), "v"(y))
#define TILE_KEEP(x) __asm__("" : "+v"(x))
#include "flt/tile_loop.inc"
}  // namespace bytes

#else

void reduce_plain(int32_t* sums, const int32_t* primes, const float*) {
  for (size_t i = 0; i < kTileRows * kTileLanes; ++i) sums[i] %= primes[i / kTileLanes];
  for (size_t i = 0; i < kTileRows * kTileLanes; ++i) {
    const int32_t p = primes[i / kTileLanes];
    if (sums[i] > p / 2) sums[i] -= p;
    if (sums[i] < -(p / 2)) sums[i] += p;
  }
}

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
  if (adds_products(vector_bytes)) return {wide::tile, wide::reduce, wide::row, wide::settle};
  if (most >= 32 && __builtin_cpu_supports("avx2"))
    return {middle::tile, middle::reduce, middle::row, middle::settle};
  return {narrow::tile, narrow::reduce, narrow::row, narrow::settle};
#else
  return {tile_plain, reduce_plain, row_plain, settle_plain};
#endif
}

Tile byte_tile_for([[maybe_unused]] int32_t vector_bytes) {
#if defined(__x86_64__)
  if (adds_products(vector_bytes)) return bytes::tile;
#endif
  return nullptr;
}

}  // namespace aster::flt
