// LU of row-major matrices by LAPACK's and BLAS's routines, by halves of the columns (S. Toledo,
// 1997): rows are swapped where they lie beside each other, only panels of few columns are turned,
// and what is right of a half is done in strips that threads share. Strips are the same however
// many threads there are, and so are the bits.
#pragma once

#include "runtime/cpu/linalg_routines.h"

namespace aster::runtime::cpu::linalg {

template <typename T>
class RowLu {
 public:
  // Columns of a panel, and of a strip (bench/linalg.py).
  static constexpr int64_t kPanel = 32, kStrip = 128;
  // Elements of memory that it takes for matrices of m rows.
  static constexpr int64_t room(int64_t m) { return m * kPanel; }

  // step: elements from one row to the next.
  RowLu(const Lapack<T>& lapack, int64_t step, T* room)
      : lapack_(lapack), step_(step), room_(room) {}

  // In place, as getrf leaves it: pivots[i], from 1, is the row that row i was swapped with.
  // Returns the first pivot, from 1, that is 0, or 0.
  int factor(int64_t m, int64_t n, T* a, int* pivots) const {
    const int64_t least = std::min(m, n);
    if (least == 0) return 0;
    if (n <= kPanel) return factor_panel(m, n, a, pivots);
    const int64_t half = (least / 2 + kPanel - 1) / kPanel * kPanel;
    const int64_t left = least <= kPanel ? least : half, right = n - left;
    const int failed = factor(m, left, a, pivots);
    Strips strips{*this, m, left, right, a, pivots};
    const double flops =
        2 * static_cast<double>(m) * static_cast<double>(left) * static_cast<double>(right);
    run_strips(flops, (right + kStrip - 1) / kStrip, Strips::run, &strips);
    if (m == left) return failed;
    const int below = factor(m - left, right, a + left * (step_ + 1), pivots + left);
    for (int64_t i = left; i < least; ++i) {
      pivots[i] += static_cast<int>(left);
      swap_rows(a, i, pivots[i] - 1, left);
    }
    return failed != 0 || below == 0 ? failed : below + static_cast<int>(left);
  }

 private:
  struct Strips {
    const RowLu& lu;
    int64_t m, left, right;
    T* a;
    const int* pivots;
    static void run(void* self, int64_t strip) {
      const Strips& s = *static_cast<const Strips*>(self);
      const int64_t first = strip * kStrip;
      s.lu.update(s.m, s.left, s.left + first, std::min(kStrip, s.right - first), s.a, s.pivots);
    }
  };

  int factor_panel(int64_t m, int64_t n, T* a, int* pivots) const {
    turn(n, m, a, step_, room_, m);
    const int rows = order(m), columns = order(n), ld = leading(m);
    int info = 0;
    {
      const BlasCall call;
      lapack_.getrf(&rows, &columns, room_, &ld, pivots, &info);
    }
    turn(m, n, room_, m, a, step_);
    return info;
  }

  void swap_rows(T* a, int64_t i, int64_t k, int64_t count) const {
    if (i != k) std::swap_ranges(a + i * step_, a + i * step_ + count, a + k * step_);
  }

  // Of `count` columns from `first` on: the rows of u, and what is below less its products. In the
  // eyes of BLAS all of it is turned.
  void update(int64_t m, int64_t left, int64_t first, int64_t count, T* a,
              const int* pivots) const {
    T* const top = a + first;
    for (int64_t i = 0; i < left; ++i) swap_rows(top, i, pivots[i] - 1, count);
    const int columns = order(count), inner = order(left), rows = order(m - left),
              ld = order(step_);
    const T one = 1, less = -1;
    const BlasCall call;
    lapack_.trsm("R", "U", "N", "U", &columns, &inner, &one, a, &ld, top, &ld, 1, 1, 1, 1);
    if (rows == 0) return;
    lapack_.gemm("N", "N", &columns, &rows, &inner, &less, top, &ld, a + left * step_, &ld, &one,
                 top + left * step_, &ld, 1, 1);
  }

  const Lapack<T>& lapack_;
  const int64_t step_;
  T* const room_;
};

}  // namespace aster::runtime::cpu::linalg
