#include "runtime/cpu/wide_spectrum.h"

#include <bit>
#include <cmath>

namespace aster::runtime::cpu::linalg {
namespace {

// Each step doubles the digits that are right; what float64 does not tell apart takes a step for
// every 50 bits.
constexpr int kMostSteps = 80;

int64_t log2_of(int64_t n) { return 64 - std::countl_zero(static_cast<uint64_t>(n)); }

// What is left of 0 where n numbers were rounded.
template <int N>
int64_t noise(int64_t n) {
  return 3 - flt::Format<N>::kPrecision + log2_of(n) / 2;
}

}  // namespace

template <int N>
Spectrum<N>::Spectrum(Scratch& scratch, int64_t m, int64_t n, bool symmetric, bool library)
    : m_(m), n_(n), symmetric_(symmetric), routines_{library ? lapack<double>() : nullptr} {
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return View<N>::of(scratch.template take<Value<N>>(rows * columns), rows, columns);
  };
  v_ = matrix(n, n);
  b_ = matrix(m, n);
  product_ = matrix(n, n);
  overlap_ = matrix(n, n);
  step_ = matrix(n, n);
  block_ = matrix(m, n);
  values_ = scratch.template take<Value<N>>(n);
  room_ = routines_.eigh_work(n, true, &integer_room_);
  svd_room_ = symmetric ? 0 : routines_.svd_work('S', m, n);
  doubles_ = scratch.template take<double>(m * n);
  of_doubles_ = scratch.template take<double>(symmetric ? n : n + m * n + n * n);
  work_ = scratch.template take<double>(std::max(room_, svd_room_));
  integers_ = scratch.template take<int>(std::max(integer_room_, 8 * n));
  cluster_ = scratch.template take<int64_t>(n);
  members_ = scratch.template take<int64_t>(n);
  exponents_ = scratch.template take<int64_t>(n);
}

// Vectors of a in float64; those of the unit matrix where it finds none.
template <int N>
void Spectrum<N>::begin(const View<N>& a) {
  v_.fill_unit();
  for (int64_t j = 0; j < n_; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) doubles_[i + j * a.rows] = static_cast<double>(a(i, j));
  }
  double *const s = of_doubles_, *const u = s + n_, *const vt = u + m_ * n_;
  const int failed =
      symmetric_ ? routines_.eigh(n_, doubles_, s, true, work_, room_, integers_, integer_room_)
                 : routines_.svd('S', m_, n_, doubles_, s, u, vt, work_, svd_room_, integers_);
  if (failed != 0) return;
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < n_; ++j)
      v_(i, j) = Value<N>(symmetric_ ? doubles_[i + j * n_] : vt[j + i * n_]);
  }
}

// images, products of them, what v lacks to be orthogonal, and values.
template <int N>
void Spectrum<N>::measure(Products<N>& products, const View<N>& a) {
  products.set(b_, a, v_);
  products.set(product_, symmetric_ ? v_.turned() : b_.turned(), b_);
  products.set(overlap_, v_.turned(), v_);
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < n_; ++j) overlap_(i, j) = -overlap_(i, j);
    overlap_(i, i) += Value<N>(1);
  }
  top_ = INT32_MIN;
  for (int64_t i = 0; i < n_; ++i) {
    values_[i] = product_(i, i) / (Value<N>(1) - overlap_(i, i));
    exponents_[i] = values_[i].exponent();
    top_ = std::max(top_, exponents_[i]);
  }
}

// What is left beside the diagonal counts as so much of the largest value, or, of a^T a, of the
// largest one and that of a longer column: a v = q r then has a diagonal r.
template <int N>
bool Spectrum<N>::counts(const Value<N>& x, int64_t i, int64_t j) const {
  if (x.is_zero()) return false;
  const int64_t whole = symmetric_ ? top_ : (top_ + std::max(exponents_[i], exponents_[j])) / 2;
  return x.exponent() > whole + noise<N>(n_);
}

// What couples two vectors once they are orthogonal.
template <int N>
Value<N> Spectrum<N>::coupling(int64_t i, int64_t j) const {
  return scaled(product_(i, j) + product_(j, i) + (values_[i] + values_[j]) * overlap_(i, j), -1);
}

template <int N>
bool Spectrum<N>::is_done() const {
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      if (overlap_(i, j).exponent() > noise<N>(n_)) return false;
      if (i != j && counts(product_(i, j), i, j)) return false;
    }
  }
  return true;
}

template <int N>
int64_t Spectrum<N>::leader(int64_t i) const {
  while (cluster_[i] != i) i = cluster_[i];
  return i;
}
template <int N>
void Spectrum<N>::join(int64_t i, int64_t j) {
  const int64_t a = leader(i), b = leader(j);
  cluster_[std::max(a, b)] = std::min(a, b);
}

// Steps of pairs whose values lie so far apart that they are small; the others are joined to
// clusters, in which the step makes v orthogonal alone. What a step turns by is the same for both
// vectors to the last bit: where values lie close, their rounding would else be large.
template <int N>
void Spectrum<N>::correct() {
  for (int64_t i = 0; i < n_; ++i) cluster_[i] = i;
  for (int64_t i = 0; i < n_; ++i) {
    step_(i, i) = scaled(overlap_(i, i), -1);
    for (int64_t j = 0; j < i; ++j) {
      const Value<N> half = scaled(overlap_(i, j), -1), x = coupling(i, j);
      step_(i, j) = step_(j, i) = half;
      if (!counts(x, i, j)) continue;
      const Value<N> gap = values_[j] - values_[i];
      if (gap.is_zero() || x.exponent() - gap.exponent() > -2 - log2_of(n_)) {
        join(i, j);
        continue;
      }
      const Value<N> turn = x / gap;
      step_(i, j) = half + turn;
      step_(j, i) = half - turn;
    }
  }
  // A cluster is turned as a whole.
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (leader(i) == leader(j)) step_(i, j) = step_(j, i) = scaled(overlap_(i, j), -1);
    }
  }
}

// Eigenvectors of the block of a cluster, in float64, are what its vectors turn by.
template <int N>
void Spectrum<N>::turn_cluster(Products<N>& products, int64_t count) {
  const View<N> block = View<N>::of(block_.data, count, count);
  Value<N> mean(0);
  for (int64_t i = 0; i < count; ++i) mean += values_[members_[i]];
  mean /= Value<N>(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = members_[i];
    for (int64_t j = 0; j < i; ++j) {
      const int64_t l = members_[j];
      block(i, j) = block(j, i) = coupling(k, l);
    }
    block(i, i) = values_[k] - mean;
  }
  const int64_t scale = block.greatest_exponent();
  if (scale == INT32_MIN) return;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j)
      doubles_[j + i * count] = static_cast<double>(scaled(block(i, j), -scale));
  }
  int64_t integers = 0;
  const int64_t room = routines_.eigh_work(count, true, &integers);
  if (routines_.eigh(count, doubles_, of_doubles_, true, work_, room, integers_, integers) != 0)
    return;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      const double x = doubles_[i + j * count];
      // What lies below float64's precision only makes products long.
      block(i, j) = Value<N>(std::abs(x) < 0x1p-60 ? 0.0 : x);
    }
  }
  const View<N> gathered = View<N>::of(step_.data, n_, count);
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < count; ++j) gathered(i, j) = v_(i, members_[j]);
  }
  products.replace(gathered, gathered, block);
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < count; ++j) v_(i, members_[j]) = gathered(i, j);
  }
}

template <int N>
void Spectrum<N>::turn_clusters(Products<N>& products) {
  for (int64_t first = 0; first < n_; ++first) {
    if (leader(first) != first) continue;
    int64_t count = 0;
    for (int64_t i = first; i < n_; ++i) {
      if (leader(i) == first) members_[count++] = i;
    }
    if (count > 1) turn_cluster(products, count);
  }
}

template <int N>
bool Spectrum<N>::find(Products<N>& products, const View<N>& a) {
  begin(a);
  for (int step = 0; step < kMostSteps && !products.failed(); ++step) {
    measure(products, a);
    if (is_done()) return true;
    correct();
    const View<N> change = View<N>::of(b_.data, n_, n_);  // images are made anew
    products.set(change, v_, step_);
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < n_; ++j) v_(i, j) += change(i, j);
    }
    turn_clusters(products);
  }
  return false;
}

template <int N>
void Spectrum<N>::sort(bool falling) {
  for (int64_t i = 0; i + 1 < n_; ++i) {
    int64_t best = i;
    for (int64_t j = i + 1; j < n_; ++j) {
      if (falling ? values_[j] > values_[best] : values_[j] < values_[best]) best = j;
    }
    if (best == i) continue;
    std::swap(values_[i], values_[best]);
    v_.turned().swap_rows(i, best);
    b_.turned().swap_rows(i, best);
  }
}

#define INSTANTIATE(N, Name) template class Spectrum<N>;
FLT_FORMATS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace aster::runtime::cpu::linalg
