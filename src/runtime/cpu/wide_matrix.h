// Matrices of wide floats where they lie, and their products, which are exact until they are
// rounded once (flt/product.h).
#pragma once

#include <algorithm>

#include "flt/product.h"
#include "flt/value.h"

namespace aster::runtime::cpu::linalg {

using flt::Value;

// Steps in elements.
template <int N>
struct View {
  Value<N>* data;
  int64_t rows, columns, row, column;

  // Row-major, without gaps.
  static View of(Value<N>* data, int64_t rows, int64_t columns) {
    return {data, rows, columns, columns, 1};
  }
  Value<N>& operator()(int64_t i, int64_t j) const { return data[i * row + j * column]; }
  View part(int64_t i, int64_t j, int64_t height, int64_t width) const {
    return {data + i * row + j * column, height, width, row, column};
  }
  View turned() const { return {data, columns, rows, column, row}; }
  // This many rows, or columns, from one on.
  View band(int64_t i, int64_t height) const { return part(i, 0, height, columns); }
  View strip(int64_t j, int64_t width) const { return part(0, j, rows, width); }

  void fill(const Value<N>& x) const {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) (*this)(i, j) = x;
    }
  }
  void fill_unit() const {
    fill(Value<N>(0));
    for (int64_t i = 0; i < std::min(rows, columns); ++i) (*this)(i, i) = Value<N>(1);
  }
  void copy(const View& from) const {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) (*this)(i, j) = from(i, j);
    }
  }
  void swap_rows(int64_t i, int64_t k) const {
    if (i == k) return;
    for (int64_t j = 0; j < columns; ++j) std::swap((*this)(i, j), (*this)(k, j));
  }
  // Above, or below, the diagonal.
  void clear_triangle(bool upper) const {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t from = upper ? i + 1 : 0, to = upper ? columns : std::min(i, columns);
      for (int64_t j = from; j < to; ++j) (*this)(i, j) = Value<N>(0);
    }
  }
  int64_t greatest_exponent() const {
    int64_t most = INT32_MIN;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) most = std::max(most, (*this)(i, j).exponent());
    }
    return most;
  }
};

// out(i, j) - sum_k a(i, k) b(k, j) over count terms.
template <int N>
Value<N> less_dot(const Value<N>& c, const View<N>& a, int64_t i, const View<N>& b, int64_t j,
                  int64_t count) {
  return less_products(c, a.data + i * a.row, a.column, b.data + j * b.column, b.row, count);
}
// out -= a b, element by element.
template <int N>
void subtract_each(const View<N>& out, const View<N>& a, const View<N>& b) {
  for (int64_t i = 0; i < out.rows; ++i) {
    for (int64_t j = 0; j < out.columns; ++j)
      out(i, j) = less_dot(out(i, j), a, i, b, j, a.columns);
  }
}

// Products, with memory for one of the largest.
template <int N>
class Products {
 public:
  explicit Products(Value<N>* room)
      : caller_(nullptr, process_heap()), kept_(process_heap()), room_(room) {}

  // out = a b; out overlaps neither.
  void set(const View<N>& out, const View<N>& a, const View<N>& b) {
    const auto matrix = [](const View<N>& v) {
      constexpr auto kSize = static_cast<int64_t>(sizeof(Value<N>));
      return flt::Matrix{reinterpret_cast<const char*>(v.data), v.row * kSize, v.column * kSize,
                         static_cast<size_t>(v.rows), static_cast<size_t>(v.columns)};
    };
    if (out.rows == 0 || out.columns == 0) return;
    if (a.columns == 0) return out.fill(Value<N>(0));
    const Status status = flt::product_of<N>(caller_, matrix(out), matrix(a), matrix(b),
                                             flt::current_rounding(), &kept_);
    failed_ |= !status.ok();
  }
  // out -= a b; out overlaps neither.
  void subtract(const View<N>& out, const View<N>& a, const View<N>& b) {
    // Where that is faster than an exact sum (bench_flt).
    constexpr int64_t kLeastWork = 16 * 16 * 16;
    if (out.rows * out.columns * a.columns < kLeastWork) return subtract_each(out, a, b);
    const View<N> made = View<N>::of(room_, out.rows, out.columns);
    set(made, a, b);
    for (int64_t i = 0; i < out.rows; ++i) {
      for (int64_t j = 0; j < out.columns; ++j) out(i, j) -= made(i, j);
    }
  }
  // out = a b where out may be one of them.
  void replace(const View<N>& out, const View<N>& a, const View<N>& b) {
    const View<N> made = View<N>::of(room_, out.rows, out.columns);
    set(made, a, b);
    out.copy(made);
  }
  // Memory ran out: what was computed is nothing.
  bool failed() const { return failed_; }

 private:
  flt::Caller caller_;
  flt::Residues kept_;
  Value<N>* room_;
  bool failed_ = false;
};

}  // namespace aster::runtime::cpu::linalg
