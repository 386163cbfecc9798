// QR of column-major matrices by LAPACK's panels of reflections: what is right of a panel, and the
// columns of q, are done in strips that threads share. Strips are the same however many threads
// there are, and so are the bits.
#pragma once

#include "runtime/cpu/linalg_routines.h"

namespace aster::runtime::cpu::linalg {

template <typename T>
class ColumnQr {
 public:
  // Columns of a panel, and of a strip (bench/linalg.py).
  static constexpr int64_t kPanel = 32, kStrip = 128;
  // Elements of memory that it takes for matrices of k reflections and so many columns.
  static constexpr int64_t room(int64_t k, int64_t columns) {
    return (k + kStrip) * kPanel + (columns + kStrip) * kPanel;
  }

  // Of k reflections of m rows; a and q lie without gaps between columns.
  ColumnQr(const Lapack<T>& lapack, int64_t m, int64_t k, T* a, T* tau, T* room)
      : lapack_(lapack),
        m_(m),
        k_(k),
        a_(a),
        tau_(tau),
        blocks_(room),
        work_(room + (k + kStrip) * kPanel) {}

  // In place, as geqrf leaves it.
  void factor(int64_t n) const {
    for (int64_t j = 0; j < k_; j += kPanel) {
      factor_panel(j);
      const int64_t right = j + width(j);
      if (right < n) apply(j, true, a_ + j + right * m_, n - right);
    }
  }
  // The first `columns` columns of q.
  void orthogonal(int64_t columns, T* q) const {
    std::fill(q, q + m_ * columns, T(0));
    for (int64_t i = 0; i < columns; ++i) q[i * (m_ + 1)] = T(1);
    for (int64_t j = (k_ - 1) / kPanel * kPanel; k_ > 0 && j >= 0; j -= kPanel)
      apply(j, false, q + j * (m_ + 1), columns - j);
  }

 private:
  int64_t width(int64_t j) const { return std::min(kPanel, k_ - j); }
  T* block(int64_t j) const { return blocks_ + j * kPanel; }

  void factor_panel(int64_t j) const {
    const int rows = order(m_ - j), columns = order(width(j)), ld = leading(m_),
              ldt = leading(kPanel), room = order(kPanel * kPanel);
    T* const panel = a_ + j * (m_ + 1);
    int info = 0;
    const BlasCall call;
    lapack_.geqrf(&rows, &columns, panel, &ld, tau_ + j, work_, &room, &info);
    lapack_.larft("F", "C", &rows, &columns, panel, &ld, tau_ + j, block(j), &ldt, 1, 1);
  }

  struct Strips {
    const ColumnQr& qr;
    int64_t j, columns;
    bool turned;
    T* to;
    static void run(void* self, int64_t strip) {
      const Strips& s = *static_cast<const Strips*>(self);
      const ColumnQr& qr = s.qr;
      const int64_t first = strip * kStrip, count = std::min(kStrip, s.columns - first);
      const int rows = order(qr.m_ - s.j), columns = order(count), inner = order(qr.width(s.j)),
                ld = leading(qr.m_), ldt = leading(kPanel), ldwork = leading(count);
      const BlasCall call;
      qr.lapack_.larfb("L", s.turned ? "T" : "N", "F", "C", &rows, &columns, &inner,
                       qr.a_ + s.j * (qr.m_ + 1), &ld, qr.block(s.j), &ldt, s.to + first * qr.m_,
                       &ld, qr.work_ + first * kPanel, &ldwork, 1, 1, 1, 1);
    }
  };
  // The reflections of a panel, or their transpose, of so many columns below row j.
  void apply(int64_t j, bool turned, T* to, int64_t columns) const {
    Strips strips{*this, j, columns, turned, to};
    const double flops = 4 * static_cast<double>(m_ - j) * static_cast<double>(width(j)) *
                         static_cast<double>(columns);
    run_strips(flops, (columns + kStrip - 1) / kStrip, Strips::run, &strips);
  }

  const Lapack<T>& lapack_;
  const int64_t m_, k_;
  T *const a_, *const tau_, *const blocks_, *const work_;
};

}  // namespace aster::runtime::cpu::linalg
