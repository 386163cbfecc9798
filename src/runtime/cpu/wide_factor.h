// Factors of matrices of wide floats by halves of their columns, so that most of the work is exact
// products: S. Toledo (1997), for reflections E. Elmroth and F. Gustavson (2000).
#pragma once

#include "runtime/cpu/wide_matrix.h"

namespace aster::runtime::cpu::linalg {

// LU with partial pivoting in place: l below the diagonal, u on and above it. pivots[i]: the row,
// from 0, that row i was swapped with. Returns the first pivot, from 1, that is 0, or 0.
template <int N>
int64_t factor_lu(Products<N>& products, const View<N>& a, int64_t* pivots);

// a = l l^T of the lower triangle, in place; what is above is spoilt. Returns the order of the
// first leading minor that is not positive, or 0.
template <int N>
int64_t factor_cholesky(Products<N>& products, const View<N>& a);

// The solution of t x = b, which takes the place of b, by a triangle of t alone.
template <int N>
void solve_triangle(Products<N>& products, const View<N>& t, bool upper, bool unit,
                    const View<N>& b);

// Householder's QR of m rows and n <= m columns: a becomes r with zeros below it, and the
// reflections' product is 1 - y t y^T, y being m by n and unit lower, t n by n and upper
// triangular. Every column reflects.
template <int N>
void factor_qr(Products<N>& products, const View<N>& a, const View<N>& y, const View<N>& t);

}  // namespace aster::runtime::cpu::linalg
