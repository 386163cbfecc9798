#include "runtime/cpu/lu_exact.h"

#include <algorithm>
#include <limits>

#include "dtype/sticky.h"

namespace aster::runtime::cpu::linalg {
namespace {

using dtype::Exact;

template <typename T>
constexpr T kError = std::numeric_limits<T>::min();

// ERR is above all numbers.
template <typename T>
uint64_t magnitude(T x) {
  return x < 0 ? uint64_t{0} - static_cast<uint64_t>(int64_t{x}) : static_cast<uint64_t>(x);
}

// (pivot x - left above) / before, which leaves no rest.
template <typename T>
T eliminated(T pivot, T x, T left, T above, T before) {
  if (x == kError<T> || left == kError<T> || above == kError<T>) return kError<T>;
  const Exact y = (Exact{pivot} * x - Exact{left} * above) / before;
  constexpr Exact kMost = std::numeric_limits<T>::max();
  return y > kMost || y < -kMost ? kError<T> : static_cast<T>(y);
}

// Rows of w, m by n, become those of l and u; rows[i] is the one that row i was.
template <typename T>
Trouble factor(int64_t m, int64_t n, T* w, T* rows) {
  for (int64_t i = 0; i < m; ++i) rows[i] = static_cast<T>(i);
  T before = 1;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (magnitude(w[i * n + k]) > magnitude(w[best * n + k])) best = i;
    }
    if (best != k) {
      std::swap_ranges(w + k * n, w + (k + 1) * n, w + best * n);
      std::swap(rows[k], rows[best]);
    }
    const T* const above = w + k * n;
    const T pivot = above[k];
    if (pivot == 0) return {"it is singular: pivot %lld is 0", k + 1};
    if (pivot == kError<T>) return {"pivot %lld is ERR", k + 1};
    for (int64_t i = k + 1; i < m; ++i) {
      T* const row = w + i * n;
      for (int64_t j = k + 1; j < n; ++j)
        row[j] = eliminated(pivot, row[j], row[k], above[j], before);
    }
    before = pivot;
  }
  return {};
}

template <typename T>
void write_factors(int64_t m, int64_t n, const T* w, const T* rows, T* p, T* l, T* u) {
  const int64_t k = std::min(m, n);
  std::fill(p, p + m * m, T(0));
  for (int64_t i = 0; i < m; ++i) p[static_cast<int64_t>(rows[i]) * m + i] = 1;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < k; ++j) l[i * k + j] = j <= i ? w[i * n + j] : T(0);
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) u[i * n + j] = j >= i ? w[i * n + j] : T(0);
  }
}

template <typename T>
Trouble lu_of(const Problem& p, const void* const* operands, void* const* results,
              Scratch& scratch) {
  const bool packed = p.what == What::kLuFactor;
  T* const own = packed ? nullptr : scratch.take<T>(p.m * p.n);
  T* const own_rows = packed ? nullptr : scratch.take<T>(p.m);
  if (scratch.measuring()) return {};
  T* const w = packed ? static_cast<T*>(results[0]) : own;
  T* const rows = packed ? static_cast<T*>(results[1]) : own_rows;
  const T* const a = static_cast<const T*>(operands[0]);
  if (p.turned) {
    turn(p.n, p.m, a, p.n, w, p.m);
  } else {
    std::copy(a, a + p.m * p.n, w);
  }
  const Trouble trouble = factor(p.m, p.n, w, rows);
  if (trouble.text == nullptr && !packed) {
    write_factors(p.m, p.n, w, rows, static_cast<T*>(results[0]), static_cast<T*>(results[1]),
                  static_cast<T*>(results[2]));
  }
  return trouble;
}

}  // namespace

Trouble exact_lu(const Problem& problem, const void* const* operands, void* const* results,
                 Scratch& scratch) {
  return problem.dtype == dtype::DType::kInt32
             ? lu_of<int32_t>(problem, operands, results, scratch)
             : lu_of<int64_t>(problem, operands, results, scratch);
}

}  // namespace aster::runtime::cpu::linalg
