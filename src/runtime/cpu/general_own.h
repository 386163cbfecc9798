// Eigenvalues of general matrices where no LAPACK is at hand: Hessenberg form, Francis's double
// steps to Schur's form, vectors by substitution. Conventions are those of factor_own.h.
#pragma once

#include "runtime/cpu/spectrum_own.h"

namespace aster::runtime::cpu::own {

// Q^T a Q = h, zero below its first subdiagonal; h takes the place of a, q is given as 1 or null.
// v: n elements.
template <typename T>
void hessenberg(int64_t n, T* a, T* q, T* v) {
  for (int64_t k = 0; k + 2 < n; ++k) {
    const int64_t rest = n - k - 1;
    T* const at = a + k + 1 + k * n;
    const T tau = reflector(rest - 1, at, at + 1);
    std::copy(at, at + rest, v);
    std::fill(at + 1, at + rest, T(0));
    if (tau == T(0)) continue;
    v[0] = T(1);
    reflect(rest, v + 1, tau, at + n, n, rest);
    const auto from_right = [&](T* x) {  // columns k + 1, ... of x
      for (int64_t i = 0; i < n; ++i) {
        T sum = T(0);
        for (int64_t j = 0; j < rest; ++j) sum += x[i + (k + 1 + j) * n] * v[j];
        for (int64_t j = 0; j < rest; ++j) x[i + (k + 1 + j) * n] -= tau * sum * v[j];
      }
    };
    from_right(a);
    if (q != nullptr) from_right(q);
  }
}

// A reflection of two or three rows and the same columns of h, and of the columns of z.
template <typename T>
struct SmallReflection {
  int64_t size;
  T v[3], tau;

  SmallReflection(int64_t count, T* x) : size(count), v{T(1), T(0), T(0)} {
    tau = reflector(count - 1, x, x + 1);
    std::copy(x + 1, x + count, v + 1);
  }
  void rows(T* h, int64_t n, int64_t row, int64_t from) const {
    for (int64_t j = from; j < n; ++j) {
      T sum = T(0);
      for (int64_t i = 0; i < size; ++i) sum += v[i] * h[row + i + j * n];
      for (int64_t i = 0; i < size; ++i) h[row + i + j * n] -= tau * sum * v[i];
    }
  }
  void columns(T* h, int64_t n, int64_t column, int64_t to) const {
    for (int64_t i = 0; i < to; ++i) {
      T sum = T(0);
      for (int64_t j = 0; j < size; ++j) sum += h[i + (column + j) * n] * v[j];
      for (int64_t j = 0; j < size; ++j) h[i + (column + j) * n] -= tau * sum * v[j];
    }
  }
};

// One double step on rows first to last of h; every tenth has a shift of its own.
template <typename T>
void francis_step(int64_t n, T* h, T* z, int64_t first, int64_t last, int turn) {
  const auto at = [&](int64_t i, int64_t j) -> T& { return h[i + j * n]; };
  T sum = at(last - 1, last - 1) + at(last, last);
  T product = at(last - 1, last - 1) * at(last, last) - at(last - 1, last) * at(last, last - 1);
  if (turn % 10 == 9) {
    const T far = magnitude(at(last, last - 1)) + magnitude(at(last - 1, last - 2));
    sum = T(3) / T(2) * far;
    product = far * far;
  }
  const T h00 = at(first, first), h10 = at(first + 1, first);
  T x[] = {h00 * h00 + at(first, first + 1) * h10 - sum * h00 + product,
           h10 * (h00 + at(first + 1, first + 1) - sum), h10 * at(first + 2, first + 1)};
  for (int64_t k = first; k < last; ++k) {
    const int64_t size = std::min<int64_t>(3, last - k + 1);
    if (k > first) {
      for (int64_t i = 0; i < size; ++i) x[i] = at(k + i, k - 1);
    }
    const SmallReflection<T> turned(size, x);
    turned.rows(h, n, k, k > first ? k - 1 : first);
    turned.columns(h, n, k, std::min(last, k + 3) + 1);
    if (z != nullptr) turned.columns(z, n, k, n);
    if (k > first) {
      for (int64_t i = 1; i < size; ++i) at(k + i, k - 1) = T(0);
    }
  }
}

// The block of two rows from i on: triangular if its eigenvalues are real. Returns whether.
template <typename T>
bool split_block(int64_t n, T* h, T* z, int64_t i) {
  using std::sqrt;
  T *const p = h + i + i * n, *const q = p + n;  // p[0] q[0]; p[1] q[1]
  const T half = (p[0] - q[1]) / T(2), inside = half * half + q[0] * p[1];
  if (inside < T(0)) return false;
  // An eigenvector (x, y) of the value that lies further from the second diagonal element.
  const T x = half + with_sign(sqrt(inside), half), y = p[1];
  const T both[] = {x, y};
  const T r = norm2(both, 2);
  if (r == T(0)) return true;
  const T c = x / r, s = y / r;
  for (int64_t j = i; j < n; ++j) {
    const T a = h[i + j * n], b = h[i + 1 + j * n];
    h[i + j * n] = c * a + s * b;
    h[i + 1 + j * n] = c * b - s * a;
  }
  rotate(h + i * n, h + (i + 1) * n, i + 2, c, s);
  if (z != nullptr) rotate(z + i * n, z + (i + 1) * n, n, c, s);
  p[1] = T(0);
  return true;
}

// Schur's form of h, with blocks of two rows for complex pairs; z is multiplied from the right.
// Returns how many eigenvalues did not converge.
template <typename T>
int schur(int64_t n, T* h, T* z) {
  const auto at = [&](int64_t i, int64_t j) -> T& { return h[i + j * n]; };
  const T whole = largest(h, n * n);
  int turn = 0;
  for (int64_t last = n - 1; last > 0;) {
    int64_t first = last;
    for (; first > 0; --first) {
      const T near = std::max(magnitude(at(first, first)) + magnitude(at(first - 1, first - 1)),
                              std::numeric_limits<T>::epsilon() * whole);
      if (magnitude(at(first, first - 1)) > std::numeric_limits<T>::epsilon() * near) continue;
      at(first, first - 1) = T(0);
      break;
    }
    if (last - first < 2) {
      if (last - first == 1) (void)split_block(n, h, z, first);
      last = first - 1;
      turn = 0;
      continue;
    }
    if (turn >= kMostSweeps) return static_cast<int>(last) + 1;
    francis_step(n, h, z, first, last, turn++);
  }
  return 0;
}

template <typename T>
struct Complex {
  T re, im;
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend Complex operator*(T a, Complex b) { return {a * b.re, a * b.im}; }
  friend Complex operator/(Complex a, Complex b) {  // Smith's way
    if (magnitude(b.re) >= magnitude(b.im)) {
      const T r = b.im / b.re, d = b.re + b.im * r;
      return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
    }
    const T r = b.re / b.im, d = b.im + b.re * r;
    return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
  }
  T size() const {
    const T both[] = {re, im};
    return norm2(both, 2);
  }
};

// x, of rows 0 to last, with (t - value) x = 0; what is above `above` follows from the rest.
template <typename T>
void substitute(int64_t n, const T* t, Complex<T> value, int64_t above, int64_t last, T least,
                Complex<T>* x) {
  const auto at = [&](int64_t i, int64_t j) { return t[i + j * n]; };
  const auto rest = [&](int64_t i, int64_t from) {
    Complex<T> sum{T(0), T(0)};
    for (int64_t j = from; j <= last; ++j) sum = sum - at(i, j) * x[j];
    return sum;
  };
  const auto safe = [&](Complex<T> d) { return d.size() < least ? Complex<T>{least, T(0)} : d; };
  for (int64_t i = above - 1; i >= 0; --i) {
    const Complex<T> lower = Complex<T>{at(i, i), T(0)} - value, r = rest(i, i + 1);
    if (i == 0 || at(i, i - 1) == T(0)) {
      x[i] = r / safe(lower);
    } else {
      const Complex<T> upper = Complex<T>{at(i - 1, i - 1), T(0)} - value, q = rest(i - 1, i + 1);
      const Complex<T> b{at(i - 1, i), T(0)}, c{at(i, i - 1), T(0)};
      // Elimination with the larger one of the first column on top.
      const bool stays = upper.size() >= c.size();
      const Complex<T> top = stays ? upper : c, beside = stays ? b : lower,
                       factor = (stays ? c : upper) / safe(top), rest_top = stays ? q : r,
                       rest_low = stays ? r : q;
      x[i] = (rest_low - factor * rest_top) / safe((stays ? lower : b) - factor * beside);
      x[i - 1] = (rest_top - beside * x[i]) / safe(top);
      --i;
    }
    T most = T(0);
    for (int64_t j = i; j <= last; ++j) most = std::max(most, x[j].size());
    if (most < T(1) / least) continue;
    for (int64_t j = i; j <= last; ++j) x[j] = (T(1) / most) * x[j];
  }
}

// Of length 1, the largest element real, as LAPACK has them; im is null where all are real.
template <typename T>
void normalise(int64_t n, T* re, T* im) {
  T length[] = {norm2(re, n), im == nullptr ? T(0) : norm2(im, n)};
  const T norm = norm2(length, 2);
  if (norm == T(0)) return;
  for (int64_t i = 0; i < n; ++i) {
    re[i] /= norm;
    if (im != nullptr) im[i] /= norm;
  }
  if (im == nullptr) return;
  int64_t best = 0;
  Complex<T> turn{T(0), T(0)};
  for (int64_t i = 0; i < n; ++i) {
    const Complex<T> x{re[i], im[i]};
    if (i == 0 || x.size() > turn.size()) turn = x, best = i;
  }
  turn = (T(1) / turn.size()) * Complex<T>{turn.re, -turn.im};
  for (int64_t i = 0; i < n; ++i) {
    const Complex<T> x = Complex<T>{re[i], im[i]} * turn;
    re[i] = x.re;
    im[i] = x.im;
  }
  im[best] = T(0);
}

// Vectors of a matrix whose Schur form is t, with vectors z: columns of v, of a complex pair their
// real and their imaginary parts. x: n of them.
template <typename T>
void vectors(int64_t n, const T* t, const T* z, T* v, Complex<T>* x) {
  using std::sqrt;
  const T least = std::max(std::numeric_limits<T>::epsilon() * largest(t, n * n),
                           sqrt(std::numeric_limits<T>::min()));
  const auto at = [&](int64_t i, int64_t j) { return t[i + j * n]; };
  for (int64_t k = 0; k < n; ++k) {
    const bool pair = k + 1 < n && at(k + 1, k) != T(0);
    const int64_t last = pair ? k + 1 : k;
    Complex<T> value{at(k, k), T(0)};
    x[k] = {T(1), T(0)};
    if (pair) {
      const T half = (at(k, k) - at(k + 1, k + 1)) / T(2);
      value = {at(k + 1, k + 1) + half, sqrt(-(half * half + at(k, k + 1) * at(k + 1, k)))};
      x[k] = {at(k, k + 1), T(0)};
      x[k + 1] = value - Complex<T>{at(k, k), T(0)};
    }
    substitute(n, t, value, k, last, least, x);
    T *const re = v + k * n, *const im = pair ? re + n : nullptr;
    std::fill(re, re + n, T(0));
    if (pair) std::fill(im, im + n, T(0));
    for (int64_t j = 0; j <= last; ++j) {
      axpy(x[j].re, z + j * n, re, n);
      if (pair) axpy(x[j].im, z + j * n, im, n);
    }
    normalise(n, re, im);
    if (pair) ++k;
  }
}

// Eigenvalues of a, which is spoilt: those of a pair one behind the other, the one of positive
// imaginary part first; vectors, where v is not null, as `vectors` says. Returns how many did not
// converge. work: n n + 3 n elements.
template <typename T>
int eig(int64_t n, T* a, T* re, T* im, T* v, T* work) {
  using std::sqrt;
  T* const z = v == nullptr ? nullptr : work;
  T* const rest = work + n * n;
  const T scale = largest(a, n * n);
  for (int64_t i = 0; i < n * n && scale > T(0); ++i) a[i] /= scale;
  if (z != nullptr) identity(z, n);
  hessenberg(n, a, z, rest);
  const int failed = schur(n, a, z);
  if (failed != 0) return failed;
  for (int64_t k = 0; k < n; ++k) {
    re[k] = a[k + k * n];
    im[k] = T(0);
    if (k + 1 == n || a[k + 1 + k * n] == T(0)) continue;
    const T half = (re[k] - a[(k + 1) * (n + 1)]) / T(2);
    re[k] = re[k + 1] = a[(k + 1) * (n + 1)] + half;
    im[k] = sqrt(-(half * half + a[k + 1 + k * n] * a[k + (k + 1) * n]));
    im[k + 1] = -im[k];
    ++k;
  }
  for (int64_t k = 0; k < n; ++k) {
    re[k] *= scale;
    im[k] *= scale;
  }
  if (v != nullptr) vectors(n, a, z, v, reinterpret_cast<Complex<T>*>(rest));
  return 0;
}

}  // namespace aster::runtime::cpu::own
