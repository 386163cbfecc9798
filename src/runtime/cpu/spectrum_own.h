// Singular values, and eigenvalues of symmetric matrices, where no LAPACK is at hand: one-sided
// Jacobi rotations; Householder's tridiagonal form and implicit QR steps. Conventions are those of
// factor_own.h.
#pragma once

#include "runtime/cpu/factor_own.h"

namespace aster::runtime::cpu::own {

constexpr int kMostSweeps = 60;

// x, y = c x + s y, c y - s x
template <typename T>
void rotate(T* x, T* y, int64_t n, T c, T s) {
  for (int64_t i = 0; i < n; ++i) {
    const T a = x[i], b = y[i];
    x[i] = c * a + s * b;
    y[i] = c * b - s * a;
  }
}

template <typename T>
void identity(T* a, int64_t n) {
  std::fill(a, a + n * n, T(0));
  for (int64_t i = 0; i < n; ++i) a[i + i * n] = T(1);
}

// Columns of values and of up to two matrices swapped so that values fall, or rise.
template <typename T>
void sort_columns(T* values, int64_t n, bool falling, T* a, int64_t m, T* b, int64_t k) {
  for (int64_t i = 0; i + 1 < n; ++i) {
    int64_t best = i;
    for (int64_t j = i + 1; j < n; ++j) {
      if (falling ? values[j] > values[best] : values[j] < values[best]) best = j;
    }
    if (best == i) continue;
    std::swap(values[i], values[best]);
    if (a != nullptr) std::swap_ranges(a + i * m, a + (i + 1) * m, a + best * m);
    if (b != nullptr) std::swap_ranges(b + i * k, b + (i + 1) * k, b + best * k);
  }
}

// Squares of lengths below it have lost digits: such columns, next to others of length 1, are as
// good as 0.
template <typename T>
T least_square() {
  return std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
}

// One sweep over the pairs of n columns of m elements, and of v where it is not null. Returns
// whether it turned any.
template <typename T>
bool sweep(int64_t m, int64_t n, T* a, T* v) {
  using std::sqrt;
  const T tolerance = std::numeric_limits<T>::epsilon() * sqrt(static_cast<T>(m));
  bool turned = false;
  for (int64_t p = 0; p + 1 < n; ++p) {
    for (int64_t q = p + 1; q < n; ++q) {
      T *const x = a + p * m, *const y = a + q * m;
      const T alpha = dot(x, x, m), beta = dot(y, y, m), gamma = dot(x, y, m);
      if (std::min(alpha, beta) < least_square<T>()) continue;
      if (magnitude(gamma) <= tolerance * sqrt(alpha) * sqrt(beta)) continue;
      const T tau = (beta - alpha) / (T(2) * gamma);
      const T t = with_sign(T(1), tau) / (magnitude(tau) + sqrt(T(1) + tau * tau));
      const T c = T(1) / sqrt(T(1) + t * t), s = -c * t;
      if (s == T(0)) continue;
      turned = true;
      rotate(x, y, m, c, s);
      if (v != nullptr) rotate(v + p * n, v + q * n, n, c, s);
    }
  }
  return turned;
}

// Singular values s and, where u is not null, vectors of a, m by n with m >= n, which is spoilt:
// u, m by `columns` (n or m), and v, n by n, columns of both. Returns 0, or 1 where the rotations
// did not come to an end. work: 2 n elements.
template <typename T>
int svd(int64_t m, int64_t n, T* a, T* s, T* u, int64_t columns, T* v, T* work) {
  const T scale = largest(a, m * n);
  if (v != nullptr) identity(v, n);
  if (scale > T(0)) {
    for (int64_t i = 0; i < m * n; ++i) a[i] /= scale;
  }
  bool turned = true;
  for (int i = 0; i < kMostSweeps && turned; ++i) turned = sweep(m, n, a, v);
  if (turned) return 1;
  for (int64_t j = 0; j < n; ++j) s[j] = norm2(a + j * m, m);
  sort_columns(s, n, true, a, m, v, n);
  int64_t rank = 0;
  while (rank < n && s[rank] * s[rank] >= least_square<T>()) ++rank;
  if (u != nullptr) {
    for (int64_t j = 0; j < rank; ++j) {
      for (int64_t i = 0; i < m; ++i) u[i + j * m] = a[i + j * m] / s[j];
    }
    if (rank < columns) {
      // Reflections that clear the columns at hand leave the rest of a basis in their places.
      T *const tau = work, *const signs = work + n;
      qr(m, rank, u, m, tau);
      for (int64_t j = 0; j < rank; ++j) signs[j] = u[j + j * m];
      orthogonal(m, columns, rank, u, m, tau);
      for (int64_t j = 0; j < rank; ++j) {
        for (int64_t i = 0; i < m && signs[j] < T(0); ++i) u[i + j * m] = -u[i + j * m];
      }
    }
  }
  for (int64_t j = 0; j < n; ++j) s[j] *= scale;
  return 0;
}

// Q^T a Q = the tridiagonal matrix of d and e, a being symmetric, all of it there; Q takes its
// place. work: 2 n elements.
template <typename T>
void tridiagonal(int64_t n, T* a, T* d, T* e, T* work) {
  T *const tau = work, *const p = work + n;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t rest = n - k - 1;
    T* const v = a + k + 1 + k * n;
    d[k] = a[k + k * n];
    tau[k] = reflector(rest - 1, v, v + 1);
    e[k] = v[0];
    if (tau[k] == T(0)) continue;
    v[0] = T(1);
    T* const block = a + (k + 1) * (n + 1);
    std::fill(p, p + rest, T(0));
    for (int64_t j = 0; j < rest; ++j) axpy(tau[k] * v[j], block + j * n, p, rest);
    axpy(-tau[k] / T(2) * dot(p, v, rest), v, p, rest);
    for (int64_t j = 0; j < rest; ++j) {
      T* const column = block + j * n;
      for (int64_t i = 0; i < rest; ++i) column[i] -= v[i] * p[j] + p[i] * v[j];
    }
  }
  if (n == 0) return;
  d[n - 1] = a[n * n - 1];
  // Q is 1 and what the reflections of one element less make: they move by a column.
  for (int64_t k = n - 1; k-- > 0;)
    std::copy(a + k * n + k + 1, a + k * n + n, a + (k + 1) * n + k + 1);
  std::fill(a, a + n, T(0));
  a[0] = T(1);
  for (int64_t j = 1; j < n; ++j) a[j * n] = T(0);
  if (n > 1) orthogonal(n - 1, n - 1, n - 1, a + n + 1, n, tau);
}

// One implicit QR step with Wilkinson's shift on rows first to last.
template <typename T>
void symmetric_step(int64_t first, int64_t last, T* d, T* e, T* q, int64_t n) {
  const T half = (d[last - 1] - d[last]) / T(2), off = e[last - 1];
  const T pair[] = {half, off};
  const T shift = d[last] - off * (off / (half + with_sign(norm2(pair, 2), half)));
  T x = d[first] - shift, z = e[first];
  for (int64_t k = first; k < last; ++k) {
    const T both[] = {x, z};
    const T r = norm2(both, 2);
    if (r == T(0)) return;
    const T c = x / r, s = z / r;
    if (k > first) e[k - 1] = r;
    const T dp = d[k], dq = d[k + 1], ep = e[k];
    d[k] = c * c * dp + T(2) * c * s * ep + s * s * dq;
    d[k + 1] = s * s * dp - T(2) * c * s * ep + c * c * dq;
    e[k] = c * s * (dq - dp) + (c * c - s * s) * ep;
    x = e[k];
    if (k + 1 < last) {
      z = s * e[k + 1];
      e[k + 1] *= c;
    }
    if (q != nullptr) rotate(q + k * n, q + (k + 1) * n, n, c, s);
  }
}

// Eigenvalues w, rising, of a symmetric matrix, all of it there; vectors take its place, column by
// column, where asked for. Returns how many did not converge. work: 3 n elements.
template <typename T>
int eigh(int64_t n, T* a, T* w, bool vectors, T* work) {
  if (n == 0) return 0;
  const T scale = largest(a, n * n);
  for (int64_t i = 0; i < n * n && scale > T(0); ++i) a[i] /= scale;
  T* const e = work;
  tridiagonal(n, a, w, e, work + n);
  const auto small = [&](int64_t k) {
    const T near = magnitude(w[k]) + magnitude(w[k + 1]);
    return magnitude(e[k]) <= std::numeric_limits<T>::epsilon() * near ||
           magnitude(e[k]) < std::numeric_limits<T>::min();
  };
  int64_t left = int64_t{kMostSweeps} * n;
  for (int64_t last = n - 1; last > 0;) {
    if (small(last - 1)) {
      e[--last] = T(0);
      continue;
    }
    if (left-- == 0) return static_cast<int>(last);
    int64_t first = last - 1;
    while (first > 0 && !small(first - 1)) --first;
    symmetric_step(first, last, w, e, vectors ? a : nullptr, n);
  }
  for (int64_t i = 0; i < n; ++i) w[i] *= scale;
  sort_columns(w, n, false, vectors ? a : nullptr, n, static_cast<T*>(nullptr), 0);
  return 0;
}

}  // namespace aster::runtime::cpu::own
