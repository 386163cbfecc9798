// The one loop that takes the time of products: sums of products of pairs of int16, or of bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flt/formats.h"

namespace aster::flt {

constexpr size_t kTileRows = 8, kTileLanes = 32;

// Two int16 beside each other.
inline int32_t pair_of(int32_t low, int32_t high) {
  return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xffff) | static_cast<uint32_t>(high)
                                                                          << 16);
}

// sums[r][j] += x.low * y.low + x.high * y.high over pairs, where x is a[r * step + k] and y is
// b[k][j], both two int16 each, low half first. Sums stay in int32.
using Tile = void (*)(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs);

// The sums of as many pairs as there are, reduced after every at_once of them to residues by
// primes[r] of row r, in size at most 0.555 of it. inverses: 1 / primes. next: memory of which 64
// bytes for every two pairs may be fetched into a cache.
using ResidueTile = void (*)(int32_t* sums, const int32_t* a, size_t step, const int32_t* b,
                             size_t pairs, size_t at_once, const int32_t* primes,
                             const float* inverses, const void* next);

// Rows of a tile as int16, step of them apart.
using Narrow = void (*)(int16_t* to, size_t step, const int32_t* sums);
// Rows of two tiles as pairs, step of them apart; those of low, which may be to, low_step.
using Join = void (*)(int32_t* to, size_t step, const int32_t* low, size_t low_step,
                      const int32_t* high);

// Numbers limbs[count][32], lowest limb first, times 2^shift below 2^64 each, negative where flips
// are ~0 and not where they are 0, as digits of 16 bits with signs, in pairs: to[2 * count][32].
using Digits = void (*)(int32_t* to, const uint64_t* limbs, size_t count, const uint64_t* shifts,
                        const uint64_t* flips);

// One row of a tile: sums[j] = a sum as a tile's.
using Row = void (*)(int32_t* sums, const int32_t* a, const int32_t* b, size_t pairs);

// Digits [rows][32] of any sign and size below 2^31 less a carry become such of kTileBits bits in
// two's complement, four by four: bits 52 g and up of lane j are out[g][16 * (j % 2) + j / 2].
constexpr int kTileBits = 13;
using Settle = void (*)(uint64_t* out, const int32_t* digits, size_t rows);

// Numbers of a tile's row, of what settle wrote for at most kMostParts groups, times two to the
// exponents: rounded once and packed, limb i of out[i][32], in settle's order of lanes. Those that
// are not 0, subnormal or too large, and whose bits say how they are rounded: where digits below
// were left out, they add less than 2^(kLeftOutBits - 1) to what is there, or take it. Their lanes.
constexpr size_t kMostParts = 64, kLeftOutBits = 20;
using Pack = uint32_t (*)(uint64_t* out, const uint64_t* parts, size_t count, bool some_left_out,
                          const int64_t* exponents, Rounding mode);

// Where residues of rows by 32 columns go: into the lower or the higher halves of pairs, or as
// int16 without gaps, whose order result_sums knows.
enum class Place : int8_t { kLow, kHigh, kShort };
constexpr size_t kShortRow = kTileLanes / 2;  // of these, in int32

// Residues by one prime of rows by 32 columns: rows of to are to_step apart. Half of the
// multiplications are additions, which takes an even number of pairs and what belongs to rows and
// columns: a_parts, b_parts.
constexpr size_t kMostPanelRows = 64;
constexpr int32_t kMostPrimeByHalves = 7800;
struct PanelProduct {
  const int32_t* a;  // [row][step], as b of residues in size at most 0.503 of the prime
  size_t step;
  const int32_t* a_parts;
  size_t row_count;  // a multiple of kTileRows
  const int32_t* b;
  const int32_t* b_parts;
  size_t pairs;
  int32_t prime;
  float inverse;
  int32_t* to;
  size_t to_step;
  Place place;
  const void* next;       // the b that comes after,
  const int32_t* next_a;  // and the rows
  size_t next_step;
};
struct PanelCode {
  void (*multiply)(const PanelProduct& product);
  // Parts of the rows of a, and of the columns of b.
  void (*row_parts)(int32_t* parts, const int32_t* a, size_t step, size_t row_count, size_t pairs,
                    int32_t prime);
  void (*column_parts)(int32_t* parts, const int32_t* b, size_t pairs, int32_t prime,
                       float inverse);
  // Of quarters a b c d: c + d, c + d - a, a - c and b - c - d + a of rows, step apart, of so many
  // pairs; sums without gaps.
  void (*row_sums)(int32_t* const* sums, const int32_t* const* quarters, size_t step, size_t rows,
                   size_t pairs, int32_t prime);
  // b - a, d - b + a, d - b and d - b + a - c.
  void (*column_sums)(int32_t* const* sums, const int32_t* const* quarters, size_t pairs,
                      int32_t prime);
  // Quarters of a result of seven products of rows by 32, these as int16.
  void (*result_sums)(int32_t* const* quarters, size_t step, Place place,
                      const int32_t* const* products, size_t rows, int32_t prime);
};

struct TileCode {
  Tile tile, fresh;  // fresh: sums are 0 before
  ResidueTile residues;
  Narrow narrow;
  Join join;
  Digits digits;
  Row row;
  Settle settle;
  EachFormat<Pack> packs;  // null: nothing is packed
  PanelCode panels;        // null: of tiles
};
// The widest that the CPU has and vector_bytes (16, 32, 64; 0: any) allows. All are exact.
TileCode tile_for(int32_t vector_bytes);
// The same of four bytes in the place of each pair, those of a with a sign, those of b without;
// null where the CPU has no such instruction.
Tile byte_tile_for(int32_t vector_bytes);

}  // namespace aster::flt
