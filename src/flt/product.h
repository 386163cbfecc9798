// Matrix products, every element exact until it is rounded once.
#pragma once

#include "flt/elements.h"
#include "flt/residues.h"

namespace aster::flt {

// A matrix in memory; steps in bytes.
struct Matrix {
  const char* data;
  int64_t row, column;
  size_t rows, columns;
  const char* at(size_t i, size_t j) const {
    return data + static_cast<int64_t>(i) * row + static_cast<int64_t>(j) * column;
  }
  Elements row_of(size_t i, size_t size) const { return {at(i, 0), column, size}; }
  Elements column_of(size_t j, size_t size) const { return {at(0, j), row, size}; }
};

enum class Algorithm : int32_t {
  kAuto = ASTER_ML_FLT_AUTO,
  kResidues = ASTER_ML_FLT_RESIDUES,
  kNaive = ASTER_ML_FLT_NAIVE,
  kStrassen = ASTER_ML_FLT_STRASSEN
};

// out = a b. By residues where that is faster and the exponents of a row and of a column lie within
// what residues hold, else each element as a dot product. kept: the tables of the call before,
// which often serve again, or null. algorithm: what is to be done, and becomes what was done; null:
// kAuto. Errors: MEMORY.
template <int N>
Status product_of(const Caller& caller, const Matrix& out, const Matrix& a, const Matrix& b,
                  Rounding mode, Residues* kept = nullptr, Algorithm* algorithm = nullptr);

}  // namespace aster::flt
