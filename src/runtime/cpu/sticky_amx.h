// Products of bytes by AMX, the tiles of registers of Intel's CPUs from Sapphire Rapids on: an
// instruction adds 16 by 16 sums of 64 products of bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aster::runtime::cpu::sticky {

// Rows that are multiplied at once.
constexpr int64_t kAmxRows = 32;

// As flt::Tile's sums of products of bytes, of `rows` rows, a multiple of 8 and at most kAmxRows.
// a: whole groups of 16 pairs, those behind the last pair being 0.
using AmxTile = void (*)(int32_t* sums, const int32_t* a, size_t step, const int32_t* b,
                         size_t pairs, size_t rows);
// Null where the CPU has no such instructions or the system does not keep their registers: the
// first call asks Linux for that, once a process. Threads: any.
AmxTile amx_tile();

}  // namespace aster::runtime::cpu::sticky
