#include "runtime/cpu/linalg_wide.h"

#include "aster_ml/flt.h"
#include "flt/apply.h"
#include "flt/mpfr.h"
#include "runtime/cpu/wide_factor.h"
#include "runtime/cpu/wide_spectrum.h"

namespace aster::runtime::cpu::linalg {
namespace {

template <int N>
struct Call {
  const Problem& p;
  const void* const* operands;
  void* const* results;
  Scratch& scratch;

  int64_t k() const { return std::min(p.m, p.n); }
  Value<N>* take(int64_t count) { return scratch.template take<Value<N>>(count); }
  View<N> matrix(int64_t rows, int64_t columns) {
    return View<N>::of(take(rows * columns), rows, columns);
  }
  // Only read.
  View<N> operand(size_t i, int64_t rows, int64_t columns) const {
    auto* const data = static_cast<Value<N>*>(const_cast<void*>(operands[i]));
    return View<N>::of(data, rows, columns);
  }
  // The matrix itself, which may lie as its transpose does.
  View<N> given() const { return p.turned ? operand(0, p.n, p.m).turned() : operand(0, p.m, p.n); }
  View<N> result(size_t i, int64_t rows, int64_t columns) const {
    return View<N>::of(static_cast<Value<N>*>(results[i]), rows, columns);
  }
};

template <int N>
Trouble ended(const Products<N>& products, Trouble trouble = {}) {
  if (products.failed()) return {"memory for its products: %lld", 0, Code::kMEMORY};
  return trouble;
}

template <int N>
Trouble finite(const View<N>& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) {
      if (!a(i, j).is_finite()) return {kNotFinite, i * a.columns + j};
    }
  }
  return {};
}

template <int N>
Trouble lu(Call<N>& c) {
  const int64_t m = c.p.m, n = c.p.n, k = c.k();
  const View<N> w = c.matrix(m, n);
  Products<N> products(c.take(m * n));
  auto* const pivots = c.scratch.template take<int64_t>(k);
  auto* const rows = c.scratch.template take<int64_t>(m);
  if (c.scratch.measuring()) return {};
  w.copy(c.given());
  (void)factor_lu(products, w, pivots);  // of a singular matrix too
  for (int64_t i = 0; i < m; ++i) rows[i] = i;
  for (int64_t i = 0; i < k; ++i) std::swap(rows[i], rows[pivots[i]]);
  if (c.p.what == What::kLuFactor) {
    c.result(0, m, n).copy(w);
    for (int64_t i = 0; i < m; ++i) c.result(1, m, 1)(i, 0) = Value<N>(rows[i]);
    return ended(products);
  }
  const View<N> p = c.result(0, m, m), l = c.result(1, m, k), u = c.result(2, k, n);
  p.fill(Value<N>(0));
  for (int64_t i = 0; i < m; ++i) p(rows[i], i) = Value<N>(1);
  l.copy(w.strip(0, k));
  l.clear_triangle(true);
  for (int64_t i = 0; i < k; ++i) l(i, i) = Value<N>(1);
  u.copy(w.band(0, k));
  u.clear_triangle(false);
  return ended(products);
}

template <int N>
Trouble cholesky(Call<N>& c) {
  const int64_t n = c.p.n;
  Products<N> products(c.take(n * n));
  if (c.scratch.measuring()) return {};
  // The upper triangle is the lower one of the transpose.
  const View<N> a = c.operand(0, n, n), out = c.result(0, n, n);
  const View<N> from = c.p.upper ? a.turned() : a, to = c.p.upper ? out.turned() : out;
  to.copy(from);
  to.clear_triangle(true);
  const int64_t minor = factor_cholesky(products, to);
  to.clear_triangle(true);
  return ended(products, minor == 0 ? Trouble{} : Trouble{kNotPositive, minor});
}

// q, m by columns, of a, which becomes r; a is wide or not.
template <int N>
class Reflections {
 public:
  Reflections(Call<N>& c, int64_t m, int64_t n)
      : y_(c.matrix(m, std::min(m, n))), t_(c.matrix(std::min(m, n), std::min(m, n))) {}
  void factor(Products<N>& products, const View<N>& a) {
    const int64_t k = y_.columns, rest = a.columns - k;
    factor_qr(products, a.strip(0, k), y_, t_);
    if (rest == 0) return;
    // As many columns at once as memory of y and t allows.
    for (int64_t j = k; j < a.columns; j += k) {
      const View<N> beside = a.strip(j, std::min(k, a.columns - j));
      apply(products, beside, t_.turned());
    }
  }
  void form(Products<N>& products, const View<N>& q) {
    q.fill_unit();
    for (int64_t j = 0; j < q.columns; j += y_.columns)
      apply(products, q.strip(j, std::min(y_.columns, q.columns - j)), t_);
  }
  View<N> room;  // k by k

 private:
  // x -= y t y^T x
  void apply(Products<N>& products, const View<N>& x, const View<N>& t) {
    const View<N> made = View<N>::of(room.data, y_.columns, x.columns);
    products.set(made, y_.turned(), x);
    products.replace(made, t, made);
    products.subtract(x, y_, made);
  }
  View<N> y_, t_;
};

template <int N>
Trouble qr(Call<N>& c) {
  const int64_t m = c.p.m, n = c.p.n, k = c.k(), columns = c.p.reduced ? k : m;
  const View<N> w = c.matrix(m, n);
  Reflections<N> reflections(c, m, n);
  reflections.room = c.matrix(k, k);
  Products<N> products(c.take(m * std::max(n, columns)));
  if (c.scratch.measuring()) return {};
  w.copy(c.given());
  reflections.factor(products, w);
  reflections.form(products, c.result(0, m, columns));
  const View<N> r = c.result(1, columns, n);
  r.copy(w.band(0, columns));
  return ended(products);
}

// Of the transpose where that is tall; u, and v turned, then change places.
template <int N>
Trouble svd(Call<N>& c) {
  const int64_t m = std::max(c.p.m, c.p.n), n = c.k(), columns = c.p.reduced ? n : m;
  const bool turned = c.p.m < c.p.n, vectors = c.p.what == What::kSvd;
  const View<N> a = c.matrix(m, n), q = c.matrix(m, vectors ? columns : 0);
  Spectrum<N> spectrum(c.scratch, m, n, false, c.p.library);
  Reflections<N> reflections(c, vectors ? m : 0, n);
  reflections.room = c.matrix(n, n);
  Products<N> products(c.take(m * std::max(n, columns)));
  if (c.scratch.measuring()) return {};
  const View<N> given = c.operand(0, c.p.m, c.p.n);
  const Trouble trouble = finite(given);
  if (trouble.text != nullptr) return trouble;
  const int64_t most = given.greatest_exponent(), scale = most == INT32_MIN ? 0 : most;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) a(i, j) = scaled(turned ? given(j, i) : given(i, j), -scale);
  }
  if (!spectrum.find(products, a)) return ended(products, {kNotConverged, n});
  spectrum.sort(true);
  Value<N>* const s = static_cast<Value<N>*>(c.results[vectors ? 1 : 0]);
  if (!vectors) {
    for (int64_t i = 0; i < n; ++i) s[i] = scaled(sqrt(spectrum.value(i)), scale);
    return ended(products);
  }
  // u s = a v: columns of u are orthogonal whatever their length was.
  const View<N>& images = spectrum.images();
  reflections.factor(products, images);
  reflections.form(products, q);
  const View<N> left = turned ? c.result(2, columns, m).turned() : c.result(0, m, columns);
  const View<N> right = turned ? c.result(0, n, n) : c.result(2, n, n).turned();
  left.copy(q);
  right.copy(spectrum.vectors());
  for (int64_t i = 0; i < n; ++i) {
    s[i] = scaled(magnitude(images(i, i)), scale);
    for (int64_t r = 0; r < m && images(i, i).is_negative(); ++r) left(r, i) = -left(r, i);
  }
  for (int64_t i = 1; i < n; ++i) {  // rounding may have changed the order of equal ones
    for (int64_t j = i; j > 0 && s[j] > s[j - 1]; --j) {
      std::swap(s[j], s[j - 1]);
      left.turned().swap_rows(j, j - 1);
      right.turned().swap_rows(j, j - 1);
    }
  }
  return ended(products);
}

template <int N>
Trouble eigh(Call<N>& c) {
  const int64_t n = c.p.n;
  const View<N> a = c.matrix(n, n);
  Spectrum<N> spectrum(c.scratch, n, n, true, c.p.library);
  Products<N> products(c.take(n * n));
  if (c.scratch.measuring()) return {};
  const View<N> given = c.p.upper ? c.operand(0, n, n).turned() : c.operand(0, n, n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      if (!given(i, j).is_finite()) return {kNotFinite, c.p.upper ? j * n + i : i * n + j};
      a(i, j) = a(j, i) = given(i, j);
    }
  }
  const int64_t most = a.greatest_exponent(), scale = most == INT32_MIN ? 0 : most;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) a(i, j) = scaled(a(i, j), -scale);
  }
  if (!spectrum.find(products, a)) return ended(products, {kNotConverged, n});
  spectrum.sort(false);
  for (int64_t i = 0; i < n; ++i) c.result(0, n, 1)(i, 0) = scaled(spectrum.value(i), scale);
  if (c.p.what == What::kEigh) c.result(1, n, n).copy(spectrum.vectors());
  return ended(products);
}

// By our own algorithm for any type, single operations.
template <int N>
Trouble eig(Call<N>& c) {
  const int64_t n = c.p.n;
  const bool vectors = c.p.what == What::kEig;
  Value<N>*const w = c.take(n * n), *const v = c.take(vectors ? n * n : 0),
                 *const work = c.take(n * n + 3 * n);
  if (c.scratch.measuring()) return {};
  const View<N> given = c.given(), columns = View<N>::of(w, n, n).turned();
  const Trouble trouble = finite(given);
  if (trouble.text != nullptr) return trouble;
  columns.copy(given);
  auto *const re = static_cast<Value<N>*>(c.results[0]), *const im =
                                                             static_cast<Value<N>*>(c.results[1]);
  const int failed = own::eig(n, w, re, im, vectors ? v : nullptr, work);
  if (failed != 0) return {kNotConverged, failed};
  if (vectors) c.result(2, n, n).copy(View<N>::of(v, n, n).turned());
  return {};
}

template <int N>
Trouble solve(Call<N>& c) {
  const int64_t n = c.p.n, k = c.p.what == What::kInverse ? n : c.p.columns;
  const View<N> w = c.matrix(n, n);
  Products<N> products(c.take(n * std::max(n, k)));
  auto* const pivots = c.scratch.template take<int64_t>(n);
  if (c.scratch.measuring()) return {};
  w.copy(c.given());
  const int64_t failed = factor_lu(products, w, pivots);
  if (failed != 0) return ended(products, {kSingular, failed - 1});
  const View<N> x = c.result(0, n, k);
  if (c.p.what == What::kInverse) {
    x.fill_unit();
  } else {
    x.copy(c.operand(1, n, k));
  }
  for (int64_t i = 0; i < n; ++i) x.swap_rows(i, pivots[i]);
  solve_triangle(products, w, false, true, x);
  solve_triangle(products, w, true, false, x);
  return ended(products);
}

template <int N>
Trouble triangular(Call<N>& c) {
  const int64_t n = c.p.n, k = c.p.columns;
  Products<N> products(c.take(n * k));
  if (c.scratch.measuring()) return {};
  const View<N> a = c.operand(0, n, n), x = c.result(0, n, k);
  for (int64_t i = 0; i < n && !c.p.unit; ++i) {
    if (a(i, i).is_zero()) return {kSingular, i};
  }
  x.copy(c.operand(1, n, k));
  solve_triangle(products, c.p.turned ? a.turned() : a, c.p.upper != c.p.turned, c.p.unit, x);
  return ended(products);
}

template <int N>
Value<N> logarithm(const Value<N>& x) {
  Value<N> out;
  const flt::Elements in = {reinterpret_cast<const char*>(&x), 0, sizeof(x)},
                      to = {reinterpret_cast<const char*>(&out), 0, sizeof(out)};
  flt::operation_of(ASTER_ML_FLT_LOG)->loop_of(N)(to, &in, 0, 1, flt::current_rounding());
  return out;
}

// The product of the pivots with its exponent apart, so that nothing overflows on the way.
template <int N>
Trouble determinant(Call<N>& c) {
  const int64_t n = c.p.n;
  const View<N> w = c.matrix(n, n);
  Products<N> products(c.take(n * n));
  auto* const pivots = c.scratch.template take<int64_t>(n);
  if (c.scratch.measuring()) return {};
  w.copy(c.operand(0, n, n));
  (void)factor_lu(products, w, pivots);
  Value<N> product(1);
  int64_t exponent = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Value<N> pivot = w(i, i);
    product *= pivots[i] == i ? pivot : -pivot;
    if (product.is_zero() || !product.is_finite()) break;
    const int64_t e = product.exponent();
    product = scaled(product, -e);
    exponent += e;
  }
  const Value<N> value = scaled(product, exponent);
  const bool is_number = compared(product, product) == 0;
  c.result(0, 1, 1)(0, 0) = value;
  c.result(1, 1, 1)(0, 0) = is_number ? Value<N>(product.is_zero()       ? 0
                                                 : product.is_negative() ? -1
                                                                         : 1)
                                      : product;
  // Without MPFR there is none, and nothing reads it.
  Value<N> log(0);
  if (flt::mpfr().available) {
    const bool fits = value.is_finite() && !value.is_zero();
    log = fits || exponent == 0
              ? logarithm(magnitude(value))
              : logarithm(magnitude(product)) + logarithm(Value<N>(2)) * Value<N>(exponent);
  }
  c.result(2, 1, 1)(0, 0) = log;
  return ended(products);
}

// exp by scaling, Taylor's polynomial in the way of M. Paterson and L. Stockmeyer (1973), and
// squaring.
template <int N>
Trouble expm(Call<N>& c) {
  constexpr int64_t kMostNorm = 1024;  // as much as float64 has
  constexpr int64_t kSmall = 8;        // the norm is at most 2^-8
  constexpr int64_t kPowers = N <= 4 ? 5 : 7, kParts = N <= 4 ? 5 : 6;
  const int64_t n = c.p.n;
  View<N> powers[size_t{kPowers + 1}];
  for (int64_t i = 1; i <= kPowers; ++i) powers[i] = c.matrix(n, n);
  Products<N> products(c.take(n * n));
  if (c.scratch.measuring()) return {};
  const View<N> given = c.operand(0, n, n), out = c.result(0, n, n);
  const Trouble trouble = finite(given);
  if (trouble.text != nullptr) return trouble;
  Value<N> norm(0);
  for (int64_t i = 0; i < n; ++i) {
    Value<N> sum(0);
    for (int64_t j = 0; j < n; ++j) sum += magnitude(given(i, j));
    if (sum > norm) norm = sum;
  }
  if (norm.exponent() >= kMostNorm) return {"its norm is not below 2^%lld", kMostNorm};
  const int64_t squarings = std::max<int64_t>(norm.exponent() + 1 + kSmall, 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) powers[1](i, j) = scaled(given(i, j), -squarings);
  }
  for (int64_t i = 2; i <= kPowers; ++i) products.set(powers[i], powers[i - 1], powers[1]);
  Value<N> factors[size_t{kPowers * kParts}];
  factors[0] = Value<N>(1);
  for (int64_t i = 1; i < kPowers * kParts; ++i) factors[i] = factors[i - 1] / Value<N>(i);
  out.fill(Value<N>(0));
  for (int64_t part = kParts; part-- > 0;) {
    if (part + 1 < kParts) products.replace(out, out, powers[kPowers]);
    for (int64_t k = 0; k < kPowers; ++k) {
      const Value<N>& factor = factors[part * kPowers + k];
      for (int64_t i = 0; i < n; ++i) {
        if (k == 0) out(i, i) += factor;
        for (int64_t j = 0; j < n && k > 0; ++j) out(i, j) += factor * powers[k](i, j);
      }
    }
  }
  for (int64_t i = 0; i < squarings && !products.failed(); ++i) products.replace(out, out, out);
  return ended(products);
}

template <int N>
Trouble run(Call<N> c) {
  switch (c.p.what) {
    case What::kLu:
    case What::kLuFactor:
      return lu(c);
    case What::kCholesky:
      return cholesky(c);
    case What::kQr:
      return qr(c);
    case What::kSvd:
    case What::kSvdValues:
      return svd(c);
    case What::kEigh:
    case What::kEighValues:
      return eigh(c);
    case What::kEig:
    case What::kEigValues:
      return eig(c);
    case What::kSolve:
    case What::kInverse:
      return solve(c);
    case What::kTriangular:
      return triangular(c);
    case What::kDeterminant:
      return determinant(c);
    case What::kExpm:
      break;
  }
  return expm(c);
}

}  // namespace

Trouble wide(const Problem& problem, const void* const* operands, void* const* results,
             Scratch& scratch) {
  const flt::RoundingScope scope(static_cast<flt::Rounding>(problem.rounding));
  return flt::with_limbs(problem.dtype, [&](auto n) {
    return run<n>({problem, operands, results, scratch});
  });
}

}  // namespace aster::runtime::cpu::linalg
