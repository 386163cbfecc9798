// Products of matrices of residues by V. Strassen's seven products of halves (1969).
#pragma once

#include <cstddef>
#include <cstdint>

namespace aster::flt {

// Halves are taken while every size is beyond this.
constexpr size_t kStrassenEnds = 64;

// How often sizes are halved, and what a size becomes so that they can be.
int strassen_levels(size_t rows, size_t inner, size_t columns);
inline size_t strassen_size(size_t size, int levels) {
  const size_t unit = size_t{1} << levels;
  return (size + unit - 1) / unit * unit;
}
// Elements of memory that a product takes besides.
size_t strassen_room(size_t rows, size_t inner, size_t columns, int levels);
// c = a b modulo a prime, row-major without gaps; sizes as strassen_size has them. Elements lie in
// (-p / 2, p / 2), p being below 2^13.
void strassen(int32_t* c, const int32_t* a, const int32_t* b, size_t rows, size_t inner,
              size_t columns, int levels, int32_t prime, int32_t* room);

}  // namespace aster::flt
