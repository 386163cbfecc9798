// Exact products of matrices of sticky integers by sums of products of bytes, which CPUs have
// instructions for. An element becomes bytes, its digits or its residues by numbers below 2^8: a
// plane each. Sums of products of planes are exact in 32 bits, and give the sum of the elements'.
//
// Planes are what the loops of sticky_loops.inc write and flt/tile.h multiplies: of the left
// operand rows along k, with a sign; of the right one panels of 32 columns, four along k beside
// each other, without. Where no instruction multiplies bytes they lie in int16.
#pragma once

#include "dtype/dtype.h"
#include "flt/tile.h"
#include "runtime/cpu/sticky_amx.h"

namespace aster::runtime::cpu::sticky {

using dtype::DType;

constexpr int64_t kRows = flt::kTileRows, kLanes = flt::kTileLanes;
constexpr int64_t kDeep = 4;               // along k, of a line of the right operand
constexpr int64_t kLine = kDeep * kLanes;  // elements that are cut at once
constexpr int64_t kMostTerms = 1 << 16;    // 2^16 products of bytes stay in int32
constexpr int64_t kMostPlanes = 20, kParts = 4, kLimbs = 3;
constexpr int kLimbBits = 48;

// How elements are cut. Digits of 16 bits have weights by which they become residues.
struct Planes {
  int64_t count;        // of products
  int64_t left, right;  // of operands: products of digits read planes several times
  int32_t moduli[kMostPlanes];
  float inverses[kMostPlanes];
  int32_t left_weights[kMostPlanes][kParts];  // with what the Chinese remainder theorem divides by
  int32_t right_weights[kMostPlanes][kParts];
  int64_t limbs[kMostPlanes][kLimbs];  // of the product of all other moduli
  int64_t all[kLimbs];                 // of all
};
// For sums of so many products of elements of the integers that store a dtype.
Planes planes_for(DType stored, int64_t terms);

// What a column is found to have while it is cut.
struct Column {
  int64_t added;  // to the sum
  int64_t error;  // whether ERR is in it
};
using Row = Column;

struct Code {
  int64_t bytes;  // of an element of a plane
  flt::Tile tile;
  AmxTile amx;  // if not null, in its place
  // Cuts `count` elements of a row, at most kLine; what is behind them is 0. apart: bytes from one
  // plane to the next.
  void (*cut_row)(void* to, int64_t apart, const void* line, int64_t count, const Planes& planes,
                  Row* row);
  // A line: `terms` by `lanes` elements, `down` and `across` elements from each other. least:
  // kLine elements, the least of what was in each place; sums: what the columns add up to.
  void (*cut_line)(void* to, int64_t apart, const void* at, int64_t down, int64_t across,
                   int64_t terms, int64_t lanes, const Planes& planes, void* least, uint32_t* sums);
  // After the last line.
  void (*end_columns)(Column* columns, const void* least, const uint32_t* sums);
  // Elements of a tile of the result: sums[plane][row][lane], of_plane of them in each plane.
  void (*finish)(void* out, int64_t stride, int64_t rows, int64_t lanes, const int32_t* sums,
                 int64_t of_plane, const Planes& planes, const Row* row, const Column* columns);

  int64_t rows_at_once() const { return amx == nullptr ? kRows : kAmxRows; }
};
// Wider than vectors: registers of 16 rows of 64 bytes are allowed too.
constexpr int32_t kTileBytes = 1024;
// The fastest that registers of at most so many bytes allow on this CPU.
Code code_for(DType stored, int32_t vector_bytes);

// int8 is summed in int32, the others in int64.
constexpr DType summed_in(DType stored) {
  return stored == DType::kInt8 ? DType::kInt32 : DType::kInt64;
}

}  // namespace aster::runtime::cpu::sticky
