// The one loop that takes the time of products: sums of products of pairs of int16, or of bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aster::flt {

constexpr size_t kTileRows = 8, kTileLanes = 32;

// sums[r][j] += x.low * y.low + x.high * y.high over pairs, where x is a[r * step + k] and y is
// b[k][j], both two int16 each, low half first. Sums stay in int32.
using Tile = void (*)(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs);

// Row r becomes its residues by primes[r], in size at most 0.555 of it. inverses: 1 / primes.
using Reduce = void (*)(int32_t* sums, const int32_t* primes, const float* inverses);

// One row of a tile: sums[j] = a sum as a tile's.
using Row = void (*)(int32_t* sums, const int32_t* a, const int32_t* b, size_t pairs);

// Digits [rows][32] of any sign and size below 2^31 less a carry become such of kTileBits bits in
// two's complement, four by four: bits 52 g and up of lane j are out[g][16 * (j % 2) + j / 2].
constexpr int kTileBits = 13;
using Settle = void (*)(uint64_t* out, const int32_t* digits, size_t rows);

struct TileCode {
  Tile tile;
  Reduce reduce;
  Row row;
  Settle settle;
};
// The widest that the CPU has and vector_bytes (16, 32, 64; 0: any) allows. All are exact.
TileCode tile_for(int32_t vector_bytes);
// The same of four bytes in the place of each pair, those of a with a sign, those of b without;
// null where the CPU has no such instruction.
Tile byte_tile_for(int32_t vector_bytes);

}  // namespace aster::flt
