#include "runtime/cpu/wide_factor.h"

namespace aster::runtime::cpu::linalg {
namespace {

// Columns, and orders of triangles, up to which single operations are faster than products
// (bench_flt).
constexpr int64_t kLeaf = 8;

// The left part of so many columns: half of them, in whole leaves.
int64_t half_of(int64_t columns) {
  const int64_t half = columns / 2;
  return half <= kLeaf ? half : half / kLeaf * kLeaf;
}

template <int N>
int64_t lu_of_leaf(const View<N>& a, int64_t* pivots) {
  int64_t failed = 0;
  for (int64_t j = 0; j < a.columns; ++j) {
    for (int64_t i = 1; i < a.rows; ++i) a(i, j) = less_dot(a(i, j), a, i, a, j, std::min(i, j));
    if (j >= a.rows) continue;
    int64_t best = j;
    for (int64_t i = j + 1; i < a.rows; ++i) {
      if (is_smaller(a(best, j), a(i, j))) best = i;
    }
    pivots[j] = best;
    if (a(best, j).is_zero()) {
      if (failed == 0) failed = j + 1;
      continue;
    }
    a.swap_rows(j, best);
    const Value<N> pivot = a(j, j), inverse = Value<N>(1) / pivot;
    // That of a subnormal number is infinite.
    const bool divides = !inverse.is_finite() || inverse.exponent() <= flt::Format<N>::kMin;
    for (int64_t i = j + 1; i < a.rows; ++i) {
      a(i, j) = divides ? a(i, j) / pivot : a(i, j) * inverse;
    }
  }
  return failed;
}

template <int N>
int64_t cholesky_of_leaf(const View<N>& a) {
  for (int64_t j = 0; j < a.rows; ++j) {
    const Value<N> rest = less_dot(a(j, j), a, j, a.turned(), j, j);
    if (!(rest > Value<N>(0))) return j + 1;
    a(j, j) = sqrt(rest);
    for (int64_t i = j + 1; i < a.rows; ++i)
      a(i, j) = less_dot(a(i, j), a, i, a.turned(), j, j) / a(j, j);
  }
  return 0;
}

template <int N>
void triangle_of_leaf(const View<N>& t, bool upper, bool unit, const View<N>& b) {
  for (int64_t step = 0; step < t.rows; ++step) {
    const int64_t i = upper ? t.rows - 1 - step : step;
    const int64_t from = upper ? i + 1 : 0, count = upper ? t.rows - i - 1 : i;
    const View<N> row = t.part(i, from, 1, count), known = b.band(from, count);
    for (int64_t j = 0; j < b.columns; ++j) {
      b(i, j) = less_dot(b(i, j), row, 0, known, j, count);
      if (!unit) b(i, j) /= t(i, i);
    }
  }
}

// The reflection of column j below row j - 1: y takes its vector, t its factor; a(j, j) becomes
// what is left. Squares are of numbers near 1, so that none overflows.
template <int N>
void reflector(const View<N>& a, const View<N>& y, const View<N>& t, int64_t j) {
  const int64_t scale = a.part(j, j, a.rows - j, 1).greatest_exponent();
  y(j, j) = Value<N>(1);
  for (int64_t i = 0; i < j; ++i) y(i, j) = Value<N>(0);
  if (scale == INT32_MIN) {
    for (int64_t i = j + 1; i < a.rows; ++i) y(i, j) = Value<N>(0);
    t(j, j) = Value<N>(0);
    return;
  }
  Value<N> squares(0);
  for (int64_t i = j; i < a.rows; ++i) {
    const Value<N> x = scaled(a(i, j), -scale);
    squares += x * x;
  }
  const Value<N> size = scaled(sqrt(squares), scale), alpha = a(j, j);
  const Value<N> beta = alpha.is_negative() ? size : -size, divisor = alpha - beta;
  for (int64_t i = j + 1; i < a.rows; ++i) {
    y(i, j) = a(i, j) / divisor;
    a(i, j) = Value<N>(0);
  }
  t(j, j) = (beta - alpha) / beta;
  a(j, j) = beta;
}

template <int N>
void qr_of_leaf(const View<N>& a, const View<N>& y, const View<N>& t) {
  for (int64_t j = 0; j < a.columns; ++j) {
    reflector(a, y, t, j);
    const int64_t rest = a.rows - j;
    for (int64_t c = j + 1; c < a.columns; ++c) {
      const Value<N> sum =
          -less_dot(Value<N>(0), y.turned().part(j, j, 1, rest), 0, a.band(j, rest), c, rest) *
          t(j, j);
      for (int64_t i = j; i < a.rows; ++i) a(i, c) -= sum * y(i, j);
    }
    // t(0.., j) = -t y^T y(.., j) t(j, j)
    for (int64_t i = 0; i < j; ++i) {
      t(i, j) = less_dot(Value<N>(0), y.turned().part(i, j, 1, rest), 0, y.band(j, rest), j, rest) *
                t(j, j);
      t(j, i) = Value<N>(0);
    }
    for (int64_t i = 0; i < j; ++i) {
      Value<N> sum(0);
      for (int64_t k = i; k < j; ++k) sum += t(i, k) * t(k, j);
      t(i, j) = sum;
    }
  }
}

}  // namespace

template <int N>
int64_t factor_lu(Products<N>& products, const View<N>& a, int64_t* pivots) {
  const int64_t least = std::min(a.rows, a.columns);
  if (least == 0) return 0;
  if (least <= kLeaf && a.columns <= 2 * kLeaf) return lu_of_leaf(a, pivots);
  const int64_t left = std::max<int64_t>(1, half_of(least)), right = a.columns - left;
  const int64_t failed = factor_lu(products, a.strip(0, left), pivots);
  const View<N> beside = a.strip(left, right);
  for (int64_t i = 0; i < left; ++i) beside.swap_rows(i, pivots[i]);
  const View<N> top = beside.band(0, left), rest = beside.band(left, a.rows - left);
  solve_triangle(products, a.part(0, 0, left, left), false, true, top);
  products.subtract(rest, a.part(left, 0, a.rows - left, left), top);
  const int64_t below = factor_lu(products, rest, pivots + left);
  for (int64_t i = left; i < least; ++i) {
    pivots[i] += left;
    a.strip(0, left).swap_rows(i, pivots[i]);
  }
  return failed != 0 || below == 0 ? failed : below + left;
}

template <int N>
int64_t factor_cholesky(Products<N>& products, const View<N>& a) {
  const int64_t n = a.rows;
  if (n <= kLeaf) return cholesky_of_leaf(a);
  const int64_t first = half_of(n), rest = n - first;
  const int64_t failed = factor_cholesky(products, a.part(0, 0, first, first));
  if (failed != 0) return failed;
  const View<N> left = a.part(first, 0, rest, first), block = a.part(first, first, rest, rest);
  solve_triangle(products, a.part(0, 0, first, first), false, false, left.turned());
  products.subtract(block, left, left.turned());
  const int64_t below = factor_cholesky(products, block);
  return below == 0 ? 0 : below + first;
}

template <int N>
void solve_triangle(Products<N>& products, const View<N>& t, bool upper, bool unit,
                    const View<N>& b) {
  const int64_t n = t.rows;
  if (n <= kLeaf) return triangle_of_leaf(t, upper, unit, b);
  const int64_t first = half_of(n), rest = n - first;
  const View<N> above = b.band(0, first), below = b.band(first, rest);
  const View<N> low = t.part(first, first, rest, rest), high = t.part(0, 0, first, first);
  if (upper) {
    solve_triangle(products, low, upper, unit, below);
    products.subtract(above, t.part(0, first, first, rest), below);
    solve_triangle(products, high, upper, unit, above);
  } else {
    solve_triangle(products, high, upper, unit, above);
    products.subtract(below, t.part(first, 0, rest, first), above);
    solve_triangle(products, low, upper, unit, below);
  }
}

template <int N>
void factor_qr(Products<N>& products, const View<N>& a, const View<N>& y, const View<N>& t) {
  const int64_t m = a.rows, n = a.columns;
  if (n <= kLeaf) return qr_of_leaf(a, y, t);
  const int64_t left = half_of(n), right = n - left;
  const View<N> y1 = y.strip(0, left), y2 = y.strip(left, right), t1 = t.part(0, 0, left, left),
                t2 = t.part(left, left, right, right), beside = a.strip(left, right);
  factor_qr(products, a.strip(0, left), y1, t1);
  // The reflections so far of what is beside, t12 being memory until it has its own content.
  const View<N> t12 = t.part(0, left, left, right);
  products.set(t12, y1.turned(), beside);
  products.replace(t12, t1.turned(), t12);
  products.subtract(beside, y1, t12);
  y2.band(0, left).fill(Value<N>(0));
  factor_qr(products, beside.band(left, m - left), y2.band(left, m - left), t2);
  products.set(t12, y1.band(left, m - left).turned(), y2.band(left, m - left));
  products.replace(t12, t1, t12);
  products.replace(t12, t12, t2);
  for (int64_t i = 0; i < left; ++i) {
    for (int64_t j = 0; j < right; ++j) t12(i, j) = -t12(i, j);
  }
  t.part(left, 0, right, left).fill(Value<N>(0));
}

#define INSTANTIATE(N, Name)                                                              \
  template int64_t factor_lu(Products<N>&, const View<N>&, int64_t*);                     \
  template int64_t factor_cholesky(Products<N>&, const View<N>&);                         \
  template void solve_triangle(Products<N>&, const View<N>&, bool, bool, const View<N>&); \
  template void factor_qr(Products<N>&, const View<N>&, const View<N>&, const View<N>&);
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::runtime::cpu::linalg
