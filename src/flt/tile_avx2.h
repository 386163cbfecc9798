// Loops of AVX2 in the place of those of tile_loop.inc.
#pragma once

#include "flt/tile.h"

namespace aster::flt::avx2 {

// A ResidueTile, and those of PanelCode.
void residues(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs,
              size_t at_once, const int32_t* primes, const float* inverses, const void* next);
void multiply(const PanelProduct& product);
void row_parts(int32_t* parts, const int32_t* a, size_t step, size_t row_count, size_t pairs,
               int32_t prime);
void column_parts(int32_t* parts, const int32_t* b, size_t pairs, int32_t prime, float inverse);
void row_sums(int32_t* const* sums, const int32_t* const* quarters, size_t step, size_t rows,
              size_t pairs, int32_t prime);
void column_sums(int32_t* const* sums, const int32_t* const* quarters, size_t pairs, int32_t prime);
void result_sums(int32_t* const* quarters, size_t step, Place place, const int32_t* const* products,
                 size_t rows, int32_t prime);

}  // namespace aster::flt::avx2
