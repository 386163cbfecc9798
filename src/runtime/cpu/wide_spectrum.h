// Singular values and eigenvalues of matrices of wide floats. float64 gives vectors that are right
// to its precision; products make them right to twice as many digits, again and again (T. Ogita and
// K. Aishima, Iterative refinement for symmetric eigenvalue decomposition, 2018, and the same for
// clustered eigenvalues, 2019). Of singular values it is what one-sided Jacobi rotations do with
// all pairs at once: eigenvectors of a^T a without a^T a.
#pragma once

#include "runtime/cpu/linalg_routines.h"
#include "runtime/cpu/wide_matrix.h"

namespace aster::runtime::cpu::linalg {

template <int N>
class Spectrum {
 public:
  // Of a matrix with n columns and m >= n rows, symmetric or any. room: of the products. Takes what
  // it needs from scratch.
  Spectrum(Scratch& scratch, int64_t m, int64_t n, bool symmetric, bool library);

  // Vectors v [n, n] of a, whose elements are finite and in size below 2. False where they do not
  // converge.
  bool find(Products<N>& products, const View<N>& a);

  const View<N>& vectors() const { return v_; }                  // columns
  const View<N>& images() const { return b_; }                   // a v
  const Value<N>& value(int64_t i) const { return values_[i]; }  // of a, or of a^T a
  // Orders all three by the values.
  void sort(bool falling);

 private:
  void begin(const View<N>& a);
  void solve_in_doubles(int64_t count);
  void measure(Products<N>& products, const View<N>& a);
  bool is_done() const;
  bool counts(const Value<N>& x, int64_t i, int64_t j) const;
  Value<N> coupling(int64_t i, int64_t j) const;
  void correct();
  void join(int64_t i, int64_t j);
  int64_t leader(int64_t i) const;
  void turn_clusters(Products<N>& products);
  void turn_cluster(Products<N>& products, int64_t count);

  const int64_t m_, n_;
  const bool symmetric_;
  Routines<double> routines_;
  View<N> v_, b_, product_, overlap_, step_, block_;
  Value<N>* values_;
  double *doubles_, *of_doubles_, *work_;
  int* integers_;
  int64_t *cluster_, *members_, *exponents_;
  int64_t room_ = 0, integer_room_ = 0, svd_room_ = 0, top_ = 0;
};

}  // namespace aster::runtime::cpu::linalg
