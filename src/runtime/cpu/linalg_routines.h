// The steps that decompositions are made of, by LAPACK or by our own algorithms: column-major
// matrices without gaps between columns.
#pragma once

#include "base/pool.h"
#include "runtime/cpu/general_own.h"
#include "runtime/cpu/lapack.h"

namespace aster::runtime::cpu::linalg {

// Parts of a call's scratch memory, or, of none, how much they are.
class Scratch {
 public:
  explicit Scratch(void* memory) : memory_(static_cast<char*>(memory)) {}
  bool measuring() const { return memory_ == nullptr; }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* take(int64_t count) {
    char* const part = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(part);
  }

 private:
  char* memory_;
  int64_t bytes_ = 0;
};

// Runs strips of a matrix beside each other where so many operations in all are worth threads.
inline void run_strips(double flops, int64_t strips, void (*run)(void*, int64_t), void* self) {
  constexpr double kFlops = 16, kWorthNs = 50'000;  // a nanosecond; what threads are woken for
  pool::run(flops < kFlops * kWorthNs ? 1 : pool::spare_threads(), strips, run, self);
}

// LAPACK's numbers: an order, a leading dimension (1 at least).
inline int order(int64_t n) { return static_cast<int>(n); }
inline int leading(int64_t n) { return static_cast<int>(n > 0 ? n : 1); }

// How much work a routine asked for; float does not hold every number.
template <typename T>
int64_t room_of(T work) {
  const double exact = static_cast<double>(work);
  return static_cast<int64_t>(exact *
                              (1 + 2 * static_cast<double>(std::numeric_limits<T>::epsilon()))) +
         1;
}

// to, n by m, = the transpose of from, m by n.
template <typename T>
void turn(int64_t m, int64_t n, const T* from, int64_t from_ld, T* to, int64_t to_ld) {
  // A line of a cache: more rows of a matrix whose stride is a power of two would fall on each
  // other.
  constexpr int64_t kTile = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t j = 0; j < n; j += kTile) {
    const int64_t right = std::min(n, j + kTile);
    for (int64_t i = 0; i < m; i += kTile) {
      const int64_t down = std::min(m, i + kTile);
      for (int64_t c = i; c < down; ++c) {
        for (int64_t r = j; r < right; ++r) to[r + c * to_ld] = from[c + r * from_ld];
      }
    }
  }
}

template <typename T>
struct Routines {
  const Lapack<T>* lapack;  // null: our own

  int lu(int64_t m, int64_t n, T* a, int* pivots) const {
    if (lapack == nullptr) return own::lu(m, n, a, m, pivots);
    const int rows = order(m), columns = order(n), ld = leading(m);
    int info = 0;
    const BlasCall call;
    lapack->getrf(&rows, &columns, a, &ld, pivots, &info);
    return info;
  }
  // Of the upper triangle.
  int cholesky(int64_t n, T* a) const {
    if (lapack == nullptr) return own::cholesky(n, a, n);
    const int size = order(n), ld = leading(n);
    int info = 0;
    const BlasCall call;
    lapack->potrf("U", &size, a, &ld, &info, 1);
    return info;
  }
  void solve_right(bool upper, bool turned, bool unit, int64_t k, int64_t n, const T* a,
                   T* b) const {
    if (lapack == nullptr) return own::solve_right(upper, turned, unit, k, n, a, n, b, k);
    const int rows = order(k), size = order(n), lda = leading(n), ldb = leading(k);
    const T one = 1;
    const BlasCall call;
    lapack->trsm("R", upper ? "U" : "L", turned ? "T" : "N", unit ? "U" : "N", &rows, &size, &one,
                 a, &lda, b, &ldb, 1, 1, 1, 1);
  }
  // X A = B by the factors of A: k rows, which take the place of B's.
  void solve_factored(int64_t k, int64_t n, const T* lu, const int* pivots, T* b) const {
    solve_right(true, false, false, k, n, lu, b);
    solve_right(false, false, true, k, n, lu, b);
    for (int64_t j = n; j-- > 0;) {
      if (pivots[j] - 1 != j) std::swap_ranges(b + j * k, b + (j + 1) * k, b + (pivots[j] - 1) * k);
    }
  }
  void product(int64_t n, const T* a, const T* b, T* c) const {
    if (lapack == nullptr) return own::product(n, n, n, T(1), a, n, b, n, T(0), c, n);
    const int size = order(n), ld = leading(n);
    const T one = 1, zero = 0;
    const BlasCall call;
    lapack->gemm("N", "N", &size, &size, &size, &one, a, &ld, b, &ld, &zero, c, &ld, 1, 1);
  }

  int64_t inverse_work(int64_t n) const {
    if (lapack == nullptr) return n;
    const int size = order(n), ld = leading(n), ask = -1;
    int info = 0;
    T work = 0;
    lapack->getri(&size, nullptr, &ld, nullptr, &work, &ask, &info);
    return room_of(work);
  }
  void inverse(int64_t n, T* a, const int* pivots, T* work, int64_t count) const {
    if (lapack == nullptr) return own::inverse(n, a, n, pivots, work);
    const int size = order(n), ld = leading(n), room = order(count);
    int info = 0;
    const BlasCall call;
    lapack->getri(&size, a, &ld, pivots, work, &room, &info);
  }

  int64_t eigh_work(int64_t n, bool vectors, int64_t* integers) const {
    *integers = 1;
    if (lapack == nullptr) return 3 * n;
    const int size = order(n), ld = leading(n), ask = -1;
    int info = 0, whole = 0;
    T work = 0;
    lapack->syevd(vectors ? "V" : "N", "U", &size, nullptr, &ld, nullptr, &work, &ask, &whole, &ask,
                  &info, 1, 1);
    *integers = whole;
    return room_of(work);
  }
  // a: its upper triangle; our own needs both.
  int eigh(int64_t n, T* a, T* w, bool vectors, T* work, int64_t count, int* integers,
           int64_t integer_count) const {
    if (lapack == nullptr) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < j; ++i) a[j + i * n] = a[i + j * n];
      }
      return own::eigh(n, a, w, vectors, work);
    }
    const int size = order(n), ld = leading(n), room = order(count),
              integer_room = order(integer_count);
    int info = 0;
    const BlasCall call;
    lapack->syevd(vectors ? "V" : "N", "U", &size, a, &ld, w, work, &room, integers, &integer_room,
                  &info, 1, 1);
    return info;
  }

  int64_t eig_work(int64_t n, bool vectors) const {
    if (lapack == nullptr) return n * n + 3 * n;
    const int size = order(n), ld = leading(n), ask = -1;
    int info = 0;
    T work = 0;
    lapack->geev("N", vectors ? "V" : "N", &size, nullptr, &ld, nullptr, nullptr, nullptr, &ld,
                 nullptr, &ld, &work, &ask, &info, 1, 1);
    return room_of(work);
  }
  int eig(int64_t n, T* a, T* re, T* im, T* v, T* work, int64_t count) const {
    if (lapack == nullptr) return own::eig(n, a, re, im, v, work);
    const int size = order(n), ld = leading(n), room = order(count);
    int info = 0;
    const BlasCall call;
    lapack->geev("N", v == nullptr ? "N" : "V", &size, a, &ld, re, im, nullptr, &ld, v, &ld, work,
                 &room, &info, 1, 1);
    return info;
  }

  // Of a, m by n; u has as many columns, and vt as many rows, as the job says.
  int64_t svd_work(char job, int64_t m, int64_t n) const {
    const int64_t least = std::min(m, n), most = std::max(m, n);
    if (lapack == nullptr) {
      const int64_t columns = job == 'A' ? most : least;
      return 2 * least + (job == 'N' ? 0 : most * columns + least * least) +
             (m < n ? most * least : 0);
    }
    const int rows = order(m), columns = order(n), ldu = leading(m), ldvt = leading(n), ask = -1;
    int info = 0, integers = 0;
    T work = 0;
    lapack->gesdd(&job, &rows, &columns, nullptr, &ldu, nullptr, nullptr, &ldu, nullptr, &ldvt,
                  &work, &ask, &integers, &info, 1);
    return room_of(work);
  }
  int svd(char job, int64_t m, int64_t n, T* a, T* s, T* u, T* vt, T* work, int64_t count,
          int* integers) const {
    const int64_t k = std::min(m, n);
    if (lapack == nullptr) return own_svd(job, m, n, a, s, u, vt, work);
    const int rows = order(m), columns = order(n), ld = leading(m),
              ldvt = leading(job == 'A' ? n : k), room = order(count);
    int info = 0;
    const BlasCall call;
    lapack->gesdd(&job, &rows, &columns, a, &ld, s, u, &ld, vt, &ldvt, work, &room, integers, &info,
                  1);
    return info;
  }

 private:
  // Of the transpose where that is tall; u, and v turned, then change places.
  static int own_svd(char job, int64_t m, int64_t n, T* a, T* s, T* u, T* vt, T* work) {
    const bool wide = m < n, vectors = job != 'N';
    const int64_t most = std::max(m, n), least = std::min(m, n),
                  columns = job == 'A' ? most : least;
    T* const rest = work + 2 * least;
    T* const left = vectors ? rest : nullptr;
    T* const right = vectors ? rest + most * columns : nullptr;
    if (wide) {
      T* const tall = vectors ? right + least * least : rest;
      turn(m, n, a, m, tall, n);
      a = tall;
    }
    const int failed = own::svd(most, least, a, s, left, columns, right, work);
    if (failed != 0 || !vectors) return failed;
    if (wide) {
      std::copy(right, right + least * least, u);
      turn(most, columns, left, most, vt, columns);
    } else {
      std::copy(left, left + most * columns, u);
      turn(least, least, right, least, vt, least);
    }
    return 0;
  }
};

}  // namespace aster::runtime::cpu::linalg
