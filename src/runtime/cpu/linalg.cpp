#include "runtime/cpu/linalg.h"

#include "base/checked.h"
#include "runtime/cpu/linalg_routines.h"
#include "runtime/cpu/linalg_wide.h"
#include "runtime/cpu/lu_exact.h"
#include "runtime/cpu/lu_rows.h"
#include "runtime/cpu/qr_columns.h"

namespace aster::runtime::cpu::linalg {
namespace {

// Flops a nanosecond of what is mostly products, and of what goes through memory again and again.
constexpr double kFastFlops = 16, kSlowFlops = 4;

struct Row {
  const char* name;
  double flops;  // of n n n
  bool fast;
  int64_t own;  // rows and columns up to which our own algorithms are faster (bench/linalg.py)
};
constexpr Row kRows[] = {
    {"lu", 0.7, true, 16},     {"lu_factor", 0.7, true, 16}, {"cholesky", 0.4, true, 2},
    {"qr", 3, true, 24},       {"svd", 22, true, 8},         {"svdvals", 4, false, 4},
    {"eigh", 9, true, 32},     {"eigvalsh", 1.4, false, 3},  {"eig", 26, false, 16},
    {"eigvals", 10, false, 8}, {"solve", 0.7, true, 12},     {"solve_triangular", 0, true, 8},
    {"inv", 2, true, 24},      {"det", 0.7, true, 16},       {"expm", 30, true, 8},
};
const Row& row_of(const Problem& p) { return kRows[static_cast<size_t>(p.what)]; }

// What a call has: its problem, results and operands as they are, and memory of its own.
template <typename T>
struct Call {
  const Problem& p;
  const void* const* operands;
  void* const* results;
  Scratch scratch;
  Routines<T> routines;

  int64_t k() const { return std::min(p.m, p.n); }
  const T* operand(size_t i) const { return static_cast<const T*>(operands[i]); }
  T* result(size_t i) const { return static_cast<T*>(results[i]); }
};

template <typename T>
Trouble finite(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return {kNotFinite, i};
  }
  return {};
}

// The operand as a column-major matrix.
template <typename T>
void take(const Call<T>& c, bool turned, T* to) {
  const T* const a = c.operand(0);
  if (turned) {
    std::copy(a, a + c.p.m * c.p.n, to);
  } else {
    turn(c.p.n, c.p.m, a, c.p.n, to, c.p.m);
  }
}

// Keeps a triangle of row-major a, and what is on the diagonal unless it becomes 1.
template <typename T>
void keep_upper(int64_t rows, int64_t n, T* a) {
  for (int64_t i = 1; i < rows; ++i) std::fill(a + i * n, a + i * n + std::min(i, n), T(0));
}
template <typename T>
void keep_unit_lower(int64_t rows, int64_t n, T* a) {
  for (int64_t i = 0; i < std::min(rows, n); ++i) {
    a[i * n + i] = T(1);
    std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
  }
}

// The lower, or the upper, triangle of row-major a as the upper one of column-major w, 0 below.
template <typename T>
void take_triangle(int64_t n, const T* a, bool upper, T* w) {
  if (upper) {
    turn(n, n, a, n, w, n);
  } else {
    std::copy(a, a + n * n, w);
  }
  for (int64_t j = 0; j < n; ++j) std::fill(w + j * n + j + 1, w + (j + 1) * n, T(0));
}

// Which row each row of the factors came from.
template <typename T>
void permutation(int64_t m, int64_t k, const int* pivots, T* rows) {
  for (int64_t i = 0; i < m; ++i) rows[i] = static_cast<T>(i);
  for (int64_t i = 0; i < k; ++i) std::swap(rows[i], rows[pivots[i] - 1]);
}

// Row-major factors of a, at `to`.
template <typename T>
void factor_rows(const Call<T>& c, T* to, int* pivots, T* room) {
  const T* const a = c.operand(0);
  const int64_t m = c.p.m, n = c.p.n;
  if (c.p.turned) {
    turn(m, n, a, m, to, n);
  } else {
    std::copy(a, a + m * n, to);
  }
  (void)RowLu<T>(*c.routines.lapack, n, room).factor(m, n, to, pivots);  // of a singular one too
}

template <typename T>
Trouble lu(Call<T>& c) {
  const int64_t m = c.p.m, n = c.p.n, k = c.k();
  const bool library = c.routines.lapack != nullptr, factors = c.p.what == What::kLuFactor;
  T* const w = c.scratch.template take<T>(library && factors ? 0 : m * n);
  T* const other = c.scratch.template take<T>(library ? RowLu<T>::room(m) : factors ? 0 : m * n);
  T* const rows = c.scratch.template take<T>(m);
  int* const pivots = c.scratch.template take<int>(k);
  if (c.scratch.measuring()) return {};
  T* const made = factors ? c.result(0) : library ? w : other;
  if (library) {
    factor_rows(c, made, pivots, other);
  } else {
    take(c, c.p.turned, w);
    (void)c.routines.lu(m, n, w, pivots);
    turn(m, n, w, m, made, n);
  }
  permutation(m, k, pivots, factors ? c.result(1) : rows);
  if (factors) return {};
  std::fill(c.result(0), c.result(0) + m * m, T(0));
  for (int64_t i = 0; i < m; ++i) c.result(0)[static_cast<int64_t>(rows[i]) * m + i] = T(1);
  for (int64_t i = 0; i < m; ++i) std::copy_n(made + i * n, k, c.result(1) + i * k);
  keep_unit_lower(m, k, c.result(1));
  std::copy_n(made, k * n, c.result(2));
  keep_upper(k, n, c.result(2));
  return {};
}

template <typename T>
Trouble cholesky(Call<T>& c) {
  const int64_t n = c.p.n;
  T* const other = c.p.upper ? c.scratch.template take<T>(n * n) : nullptr;
  if (c.scratch.measuring()) return {};
  T* const w = c.p.upper ? other : c.result(0);
  take_triangle(n, c.operand(0), c.p.upper, w);
  const int minor = c.routines.cholesky(n, w);
  if (minor != 0) return {kNotPositive, minor};
  if (c.p.upper) turn(n, n, w, n, c.result(0), n);
  return {};
}

// Every step reflects, that of a column which is a multiple of the axis already as well: LAPACK
// leaves such a one alone.
template <typename T>
Trouble qr(Call<T>& c) {
  const int64_t m = c.p.m, n = c.p.n, k = c.k(), columns = c.p.reduced ? k : m;
  const bool library = c.routines.lapack != nullptr;
  T* const w = c.scratch.template take<T>(m * (library ? n : std::max(n, columns)));
  T* const other = c.scratch.template take<T>(library ? m * columns : 0);
  T* const tau = c.scratch.template take<T>(k);
  T* const work =
      c.scratch.template take<T>(library ? ColumnQr<T>::room(k, std::max(n, columns)) : 0);
  if (c.scratch.measuring()) return {};
  take(c, c.p.turned, w);
  T *const q = c.result(0), *const r = c.result(1), *const made = library ? other : w;
  if (library) {
    const ColumnQr<T> qr(*c.routines.lapack, m, k, w, tau, work);
    qr.factor(n);
    qr.orthogonal(columns, made);
  } else {
    own::qr(m, n, w, m, tau);
  }
  turn(columns, n, w, m, r, n);
  keep_upper(columns, n, r);
  if (!library) own::orthogonal(m, columns, k, w, m, tau);
  for (int64_t i = 0; i < k; ++i) {
    if (tau[i] != T(0) || r[i * n + i] == T(0)) continue;
    for (int64_t j = i; j < n; ++j) r[i * n + j] = -r[i * n + j];
    for (int64_t j = 0; j < m; ++j) made[i * m + j] = -made[i * m + j];
  }
  turn(m, columns, made, m, q, columns);
  return {};
}

// Of the transpose, which lies in the memory: its u is our vt, its vt our u.
template <typename T>
Trouble svd(Call<T>& c) {
  const int64_t m = c.p.m, n = c.p.n, k = c.k();
  const bool values = c.p.what == What::kSvdValues;
  const char job = values ? 'N' : c.p.reduced ? 'S' : 'A';
  const int64_t room = c.routines.svd_work(job, n, m);
  T* const w = c.scratch.template take<T>(m * n);
  T* const work = c.scratch.template take<T>(room);
  int* const integers = c.scratch.template take<int>(8 * k);
  if (c.scratch.measuring()) return {};
  const Trouble trouble = finite(c.operand(0), m * n);
  if (trouble.text != nullptr) return trouble;
  std::copy(c.operand(0), c.operand(0) + m * n, w);
  T* const s = c.result(values ? 0 : 1);
  const int failed = c.routines.svd(job, n, m, w, s, values ? nullptr : c.result(2),
                                    values ? nullptr : c.result(0), work, room, integers);
  return failed == 0 ? Trouble{} : Trouble{kNotConverged, failed};
}

template <typename T>
Trouble eigh(Call<T>& c) {
  const int64_t n = c.p.n;
  const bool vectors = c.p.what == What::kEigh;
  int64_t integer_room = 0;
  const int64_t room = c.routines.eigh_work(n, vectors, &integer_room);
  T* const w = c.scratch.template take<T>(n * n);
  T* const work = c.scratch.template take<T>(room);
  int* const integers = c.scratch.template take<int>(integer_room);
  if (c.scratch.measuring()) return {};
  take_triangle(n, c.operand(0), c.p.upper, w);
  const Trouble trouble = finite(w, n * n);
  if (trouble.text != nullptr) return trouble;
  const int failed =
      c.routines.eigh(n, w, c.result(0), vectors, work, room, integers, integer_room);
  if (failed != 0) return {kNotConverged, failed};
  if (vectors) turn(n, n, w, n, c.result(1), n);
  return {};
}

template <typename T>
Trouble eig(Call<T>& c) {
  const int64_t n = c.p.n;
  const bool vectors = c.p.what == What::kEig;
  const int64_t room = c.routines.eig_work(n, vectors);
  T* const w = c.scratch.template take<T>(n * n);
  T* const v = c.scratch.template take<T>(vectors ? n * n : 0);
  T* const work = c.scratch.template take<T>(room);
  if (c.scratch.measuring()) return {};
  const Trouble trouble = finite(c.operand(0), n * n);
  if (trouble.text != nullptr) return trouble;
  take(c, c.p.turned, w);
  const int failed =
      c.routines.eig(n, w, c.result(0), c.result(1), vectors ? v : nullptr, work, room);
  if (failed != 0) return {kNotConverged, failed};
  if (vectors) turn(n, n, v, n, c.result(2), n);
  return {};
}

// a x = b is x^T a^T = b^T: row-major a, b and x are those transposes.
template <typename T>
Trouble solve(Call<T>& c) {
  const int64_t n = c.p.n, k = c.p.columns;
  T* const w = c.scratch.template take<T>(n * n);
  int* const pivots = c.scratch.template take<int>(n);
  if (c.scratch.measuring()) return {};
  take(c, !c.p.turned, w);
  const int failed = c.routines.lu(n, n, w, pivots);
  if (failed != 0) return {kSingular, failed - 1};
  std::copy(c.operand(1), c.operand(1) + n * k, c.result(0));
  c.routines.solve_factored(k, n, w, pivots, c.result(0));
  return {};
}

template <typename T>
Trouble triangular(Call<T>& c) {
  const int64_t n = c.p.n, k = c.p.columns;
  if (c.scratch.measuring()) return {};
  const T* const a = c.operand(0);
  for (int64_t i = 0; i < n && !c.p.unit; ++i) {
    if (a[i * (n + 1)] == T(0)) return {kSingular, i};
  }
  std::copy(c.operand(1), c.operand(1) + n * k, c.result(0));
  c.routines.solve_right(!c.p.upper, c.p.turned, c.p.unit, k, n, a, c.result(0));
  return {};
}

template <typename T>
Trouble inverse(Call<T>& c) {
  const int64_t n = c.p.n, room = c.routines.inverse_work(n);
  int* const pivots = c.scratch.template take<int>(n);
  T* const work = c.scratch.template take<T>(room);
  if (c.scratch.measuring()) return {};
  std::copy(c.operand(0), c.operand(0) + n * n, c.result(0));
  const int failed = c.routines.lu(n, n, c.result(0), pivots);
  if (failed != 0) return {kSingular, failed - 1};
  c.routines.inverse(n, c.result(0), pivots, work, room);
  return {};
}

// The product of the pivots with its exponent apart, so that nothing overflows on the way.
template <typename T>
Trouble determinant(Call<T>& c) {
  const int64_t n = c.p.n;
  T* const w = c.scratch.template take<T>(n * n);
  int* const pivots = c.scratch.template take<int>(n);
  if (c.scratch.measuring()) return {};
  std::copy(c.operand(0), c.operand(0) + n * n, w);
  (void)c.routines.lu(n, n, w, pivots);
  T mantissa = 1, logarithm = 0;
  int64_t exponent = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T pivot = w[i * (n + 1)];
    int e = 0;
    mantissa = std::frexp(mantissa * (pivots[i] - 1 == i ? pivot : -pivot), &e);
    exponent += e;
    logarithm += std::log(std::abs(pivot));
  }
  const auto clamped = static_cast<int>(std::clamp<int64_t>(exponent, -9999, 9999));
  *c.result(0) = std::ldexp(mantissa, clamped);
  *c.result(1) = std::isnan(mantissa) ? mantissa : static_cast<T>((mantissa > 0) - (mantissa < 0));
  *c.result(2) = logarithm;
  return {};
}

// exp of the transpose by scaling, Pade's approximant of order 13, and squaring (Higham 2005): the
// factors commute, so what is solved for stands on the left.
template <typename T>
Trouble expm(Call<T>& c) {
  constexpr double kPade[] = {64764752532480000.,
                              32382376266240000.,
                              7771770303897600.,
                              1187353796428800.,
                              129060195264000.,
                              10559470521600.,
                              670442572800.,
                              33522128640.,
                              1323241920.,
                              40840800.,
                              960960.,
                              16380.,
                              182.,
                              1.};
  constexpr double kLargest = 5.371920351148152;
  const int64_t n = c.p.n, all = n * n;
  T *parts[7], *const out = c.results == nullptr ? nullptr : c.result(0);
  for (T*& part : parts) part = c.scratch.template take<T>(all);
  int* const pivots = c.scratch.template take<int>(n);
  if (c.scratch.measuring()) return {};
  const Trouble trouble = finite(c.operand(0), all);
  if (trouble.text != nullptr) return trouble;
  T *const a = parts[0], *const a2 = parts[1], *const a4 = parts[2], *const a6 = parts[3],
           *const u = parts[4], *const v = parts[5], *const w = parts[6];
  double norm = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::abs(c.operand(0)[i + j * n]));
    norm = std::max(norm, sum);
  }
  int squarings = 0;
  if (norm > kLargest) squarings = std::max(0, std::ilogb(norm / kLargest) + 1);
  for (int64_t i = 0; i < all; ++i) a[i] = std::ldexp(c.operand(0)[i], -squarings);
  const auto term = [&](size_t i) { return static_cast<T>(kPade[i] / kPade[0]); };
  const auto sum = [&](T* to, size_t at, bool add) {  // of even powers, coefficients at and below
    for (int64_t i = 0; i < all; ++i)
      to[i] = (add ? to[i] : T(0)) + term(at) * a6[i] + term(at - 2) * a4[i] + term(at - 4) * a2[i];
    for (int64_t i = 0; i < n && add; ++i) to[i * (n + 1)] += term(at - 6);
  };
  c.routines.product(n, a, a, a2);
  c.routines.product(n, a2, a2, a4);
  c.routines.product(n, a2, a4, a6);
  sum(w, 13, false);
  c.routines.product(n, a6, w, v);
  sum(v, 7, true);
  c.routines.product(n, a, v, u);
  sum(w, 12, false);
  c.routines.product(n, a6, w, v);
  sum(v, 6, true);
  for (int64_t i = 0; i < all; ++i) {
    out[i] = v[i] + u[i];
    v[i] -= u[i];
  }
  const int failed = c.routines.lu(n, n, v, pivots);
  if (failed != 0) return {kSingular, failed - 1};
  c.routines.solve_factored(n, n, v, pivots, out);
  for (int i = 0; i < squarings; ++i) {
    c.routines.product(n, out, out, w);
    std::copy(w, w + all, out);
  }
  return {};
}

template <typename T>
Trouble run(const Problem& p, const void* const* operands, void* const* results, Scratch& scratch) {
  if (!dtype::is_float(p.dtype)) return exact_lu(p, operands, results, scratch);
  const bool library = p.library && std::max(p.m, p.n) > row_of(p).own;
  Call<T> call{p, operands, results, scratch, {library ? lapack<T>() : nullptr}};
  Trouble trouble;
  switch (p.what) {
    case What::kLu:
    case What::kLuFactor:
      trouble = lu(call);
      break;
    case What::kCholesky:
      trouble = cholesky(call);
      break;
    case What::kQr:
      trouble = qr(call);
      break;
    case What::kSvd:
    case What::kSvdValues:
      trouble = svd(call);
      break;
    case What::kEigh:
    case What::kEighValues:
      trouble = eigh(call);
      break;
    case What::kEig:
    case What::kEigValues:
      trouble = eig(call);
      break;
    case What::kSolve:
      trouble = solve(call);
      break;
    case What::kTriangular:
      trouble = triangular(call);
      break;
    case What::kInverse:
      trouble = inverse(call);
      break;
    case What::kDeterminant:
      trouble = determinant(call);
      break;
    case What::kExpm:
      trouble = expm(call);
      break;
  }
  scratch = call.scratch;
  return trouble;
}

Trouble run(const Problem& p, const void* const* operands, void* const* results, Scratch& scratch) {
  if (dtype::is_wide(p.dtype)) return wide(p, operands, results, scratch);
  return p.dtype == dtype::DType::kFloat32 ? run<float>(p, operands, results, scratch)
                                           : run<double>(p, operands, results, scratch);
}

}  // namespace

const char* name_of(What what) { return kRows[static_cast<size_t>(what)].name; }

Results results_of(const Problem& p) {
  const int64_t m = p.m, n = p.n, k = std::min(m, n);
  const auto matrix = [](int64_t rows, int64_t columns) { return Result{2, {rows, columns}}; };
  const auto vector = [](int64_t size) { return Result{1, {size, 1}}; };
  switch (p.what) {
    case What::kLu:
      return {{matrix(m, m), matrix(m, k), matrix(k, n)}, 3};
    case What::kLuFactor:
      return {{matrix(m, n), vector(m)}, 2};
    case What::kQr:
      return {{matrix(m, p.reduced ? k : m), matrix(p.reduced ? k : m, n)}, 2};
    case What::kSvd:
      return {{matrix(m, p.reduced ? k : m), vector(k), matrix(p.reduced ? k : n, n)}, 3};
    case What::kSvdValues:
      return {{vector(k)}, 1};
    case What::kEigh:
      return {{vector(n), matrix(n, n)}, 2};
    case What::kEighValues:
      return {{vector(n)}, 1};
    case What::kEig:
      return {{vector(n), vector(n), matrix(n, n)}, 3};
    case What::kEigValues:
      return {{vector(n), vector(n)}, 2};
    case What::kSolve:
    case What::kTriangular:
      return {{matrix(n, p.columns)}, 1};
    case What::kDeterminant:
      return {{Result{}, Result{}, Result{}}, 3};
    case What::kCholesky:
    case What::kInverse:
    case What::kExpm:
      break;
  }
  return {{matrix(n, n)}, 1};
}

double cost_of(const Problem& p) {
  const Row& row = row_of(p);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), least = std::min(m, n),
               columns = static_cast<double>(p.columns);
  constexpr double kExactNs = 8;  // a step of elimination
  if (!dtype::is_float(p.dtype)) return 200 + kExactNs * m * n * least / 3;
  constexpr double kWideNs = 2;  // of two flops of exact products
  if (dtype::is_wide(p.dtype))
    return 1000 + kWideNs * (row.flops * m * n * least + n * n * columns);
  const double flops = row.flops * m * n * least + 2 * n * n * columns;
  return 200 + 4 * m * n + flops / (row.fast && p.library ? kFastFlops : kSlowFlops);
}

Status check(const Problem& p) {
  const int64_t most = std::max({p.m, p.n, p.columns}), least = std::min(p.m, p.n);
  // What the divided values work on is counted by 32 bits.
  int64_t words = 0, room = 0;
  const bool fits = checked_mul(least, least, &words) && checked_mul(words, int64_t{5}, &words) &&
                    checked_mul(most, int64_t{16}, &room) && checked_add(words, room, &words) &&
                    words <= INT32_MAX;
  if (fits) return kOk;
  return ASTER_FAIL(kRANGE, "%s of a matrix of %lld rows and %lld columns", name_of(p.what),
                    static_cast<long long>(p.m), static_cast<long long>(p.n));
}

int64_t scratch_bytes(const Problem& p) {
  Scratch scratch(nullptr);
  (void)run(p, nullptr, nullptr, scratch);
  return scratch.bytes();
}

Trouble compute(const Problem& p, const void* const* operands, void* const* results, void* memory) {
  alignas(64) char none[64];
  Scratch scratch(memory != nullptr ? memory : none);
  return run(p, operands, results, scratch);
}

}  // namespace aster::runtime::cpu::linalg
