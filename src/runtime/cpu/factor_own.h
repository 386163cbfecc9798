// Factorisations and solutions of our own, where no LAPACK is at hand: LU, Cholesky, QR, products
// and triangular systems, on column-major matrices of any type that has arithmetic, sqrt and
// numeric_limits. What they store, and what they return, is LAPACK's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace aster::runtime::cpu::own {

template <typename T>
T magnitude(T x) {
  return x < T(0) ? -x : x;
}
// a with the sign of b; of a zero that of +0.
template <typename T>
T with_sign(T a, T b) {
  return b < T(0) ? -magnitude(a) : magnitude(a);
}

// In several sums, which vectors take.
template <typename T>
T dot(const T* x, const T* y, int64_t n) {
  constexpr int64_t kLanes = 8;
  T sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += x[i + l] * y[i + l];
  }
  T sum = T(0);
  for (; i < n; ++i) sum += x[i] * y[i];
  for (const T& s : sums) sum += s;
  return sum;
}
// y += a x
template <typename T>
void axpy(T a, const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}
template <typename T>
T largest(const T* x, int64_t n) {
  T most = T(0);
  for (int64_t i = 0; i < n; ++i) most = std::max(most, magnitude(x[i]));
  return most;
}
// The Euclidean norm, without overflow or underflow on the way.
template <typename T>
T norm2(const T* x, int64_t n) {
  using std::sqrt;
  const T most = largest(x, n);
  if (!(most > T(0)) || most > std::numeric_limits<T>::max()) return most;
  T sum = T(0);
  for (int64_t i = 0; i < n; ++i) sum += (x[i] / most) * (x[i] / most);
  return most * sqrt(sum);
}

// c = alpha a b + beta c, of m rows, n columns and k inside.
template <typename T>
void product(int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
             int64_t ldb, T beta, T* c, int64_t ldc) {
  for (int64_t j = 0; j < n; ++j) {
    T* const to = c + j * ldc;
    if (beta == T(0)) std::fill(to, to + m, T(0));
    if (beta != T(0) && beta != T(1)) {
      for (int64_t i = 0; i < m; ++i) to[i] *= beta;
    }
    int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
      const T *a0 = a + l * lda, *a1 = a0 + lda, *a2 = a1 + lda, *a3 = a2 + lda;
      const T* const from = b + l + j * ldb;
      const T b0 = alpha * from[0], b1 = alpha * from[1], b2 = alpha * from[2],
              b3 = alpha * from[3];
      for (int64_t i = 0; i < m; ++i)
        to[i] += (a0[i] * b0 + a1[i] * b1) + (a2[i] * b2 + a3[i] * b3);
    }
    for (; l < k; ++l) axpy(alpha * b[l + j * ldb], a + l * lda, to, m);
  }
}

// X op(A) = B for X, which takes the place of B: k rows, n columns. A is triangular, n by n.
template <typename T>
void solve_right(bool upper, bool turned, bool unit, int64_t k, int64_t n, const T* a, int64_t lda,
                 T* b, int64_t ldb) {
  const bool ascending = upper != turned;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t j = ascending ? step : n - 1 - step;
    T* const x = b + j * ldb;
    const int64_t from = ascending ? 0 : j + 1, to = ascending ? j : n;
    for (int64_t l = from; l < to; ++l)
      axpy(-(turned ? a[j + l * lda] : a[l + j * lda]), b + l * ldb, x, k);
    if (unit) continue;
    const T pivot = a[j + j * lda];
    for (int64_t i = 0; i < k; ++i) x[i] /= pivot;
  }
}

template <typename T>
void swap_rows(T* a, int64_t lda, int64_t columns, int64_t i, int64_t j) {
  if (i == j) return;
  for (int64_t c = 0; c < columns; ++c) std::swap(a[i + c * lda], a[j + c * lda]);
}

// LU with partial pivoting by halves of the columns, so that most of it is products. pivots: the
// row, from 1, that each row was swapped with. Returns the first pivot, from 1, that is 0, or 0.
template <typename T>
int lu(int64_t m, int64_t n, T* a, int64_t lda, int* pivots) {
  if (m == 0 || n == 0) return 0;
  if (n == 1) {
    int64_t at = 0;
    for (int64_t i = 1; i < m; ++i) {
      if (magnitude(a[i]) > magnitude(a[at])) at = i;
    }
    pivots[0] = static_cast<int>(at) + 1;
    if (a[at] == T(0)) return 1;
    std::swap(a[0], a[at]);
    for (int64_t i = 1; i < m; ++i) a[i] /= a[0];
    return 0;
  }
  const int64_t left = std::max<int64_t>(1, std::min(m, n) / 2), right = n - left;
  int failed = lu(m, left, a, lda, pivots);
  T* const top = a + left * lda;
  for (int64_t i = 0; i < left; ++i) swap_rows(top, lda, right, i, pivots[i] - 1);
  for (int64_t j = 0; j < right; ++j) {
    T* const x = top + j * lda;
    for (int64_t l = 0; l < left; ++l) axpy(-x[l], a + l * lda + l + 1, x + l + 1, left - l - 1);
  }
  if (m == left) return failed;
  T* const rest = top + left;
  product(m - left, right, left, T(-1), a + left, lda, top, lda, T(1), rest, lda);
  const int below = lu(m - left, right, rest, lda, pivots + left);
  for (int64_t i = left; i < std::min(m, n); ++i) {
    pivots[i] += static_cast<int>(left);
    swap_rows(a, lda, left, i, pivots[i] - 1);
  }
  return failed != 0 || below == 0 ? failed : below + static_cast<int>(left);
}

// a = U^T U of the upper triangle; the lower one is not looked at. Returns the order, from 1, of
// the first leading minor that is not positive, or 0.
template <typename T>
int cholesky(int64_t n, T* a, int64_t lda) {
  using std::sqrt;
  for (int64_t j = 0; j < n; ++j) {
    T* const column = a + j * lda;
    for (int64_t i = 0; i < j; ++i) {
      const T* const before = a + i * lda;
      column[i] = (column[i] - dot(before, column, i)) / before[i];
    }
    const T rest = column[j] - dot(column, column, j);
    if (!(rest > T(0))) return static_cast<int>(j) + 1;
    column[j] = sqrt(rest);
  }
  return 0;
}

// The reflection 1 - tau v v^T, v = (1, x), that takes (alpha, x) to (beta, 0): x, n elements,
// becomes the rest of v, alpha becomes beta. Returns tau.
template <typename T>
T reflector(int64_t n, T* alpha, T* x) {
  using std::sqrt;
  const T rest = norm2(x, n);
  if (rest == T(0)) return T(0);
  const T both[] = {*alpha, rest};
  const T beta = -with_sign(norm2(both, 2), *alpha);
  const T tau = (beta - *alpha) / beta, divisor = *alpha - beta;
  for (int64_t i = 0; i < n; ++i) x[i] /= divisor;
  *alpha = beta;
  return tau;
}

// (1, v) of n elements in all applied to `columns` columns.
template <typename T>
void reflect(int64_t n, const T* v, T tau, T* a, int64_t lda, int64_t columns) {
  if (tau == T(0)) return;
  for (int64_t j = 0; j < columns; ++j) {
    T* const x = a + j * lda;
    const T w = tau * (x[0] + dot(v, x + 1, n - 1));
    x[0] -= w;
    axpy(-w, v, x + 1, n - 1);
  }
}

// Householder's QR: R in the upper triangle, the reflections' vectors below it.
template <typename T>
void qr(int64_t m, int64_t n, T* a, int64_t lda, T* tau) {
  for (int64_t i = 0; i < std::min(m, n); ++i) {
    T* const at = a + i + i * lda;
    tau[i] = reflector(m - i - 1, at, at + 1);
    reflect(m - i, at + 1, tau[i], at + lda, lda, n - i - 1);
  }
}

// The first n columns of the product of k reflections that lie in a, which they take the place of.
template <typename T>
void orthogonal(int64_t m, int64_t n, int64_t k, T* a, int64_t lda, const T* tau) {
  for (int64_t j = k; j < n; ++j) {
    std::fill(a + j * lda, a + j * lda + m, T(0));
    a[j + j * lda] = T(1);
  }
  for (int64_t i = k; i-- > 0;) {
    T* const at = a + i + i * lda;
    reflect(m - i, at + 1, tau[i], at + lda, lda, n - i - 1);
    for (int64_t j = 1; j < m - i; ++j) at[j] *= -tau[i];
    at[0] = T(1) - tau[i];
    std::fill(a + i * lda, at, T(0));
  }
}

// The inverse in place of the factors that lu left. work: n elements.
template <typename T>
void inverse(int64_t n, T* a, int64_t lda, const int* pivots, T* work) {
  for (int64_t j = 0; j < n; ++j) {  // of U, column by column
    T* const x = a + j * lda;
    x[j] = T(1) / x[j];
    for (int64_t i = 0; i < j; ++i) {
      T sum = T(0);
      for (int64_t l = i; l < j; ++l) sum += a[i + l * lda] * x[l];
      work[i] = -sum * x[j];
    }
    std::copy(work, work + j, x);
  }
  for (int64_t j = n - 1; j-- > 0;) {  // X L = U^-1, from the last column
    T* const x = a + j * lda;
    for (int64_t i = j + 1; i < n; ++i) work[i] = std::exchange(x[i], T(0));
    for (int64_t l = j + 1; l < n; ++l) axpy(-work[l], a + l * lda, x, n);
  }
  for (int64_t j = n; j-- > 0;) {
    if (pivots[j] - 1 != j)
      std::swap_ranges(a + j * lda, a + j * lda + n, a + (pivots[j] - 1) * lda);
  }
}

}  // namespace aster::runtime::cpu::own
