/* aster_ml::Sparse: sparse matrices; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_SPARSE_HPP
#define ASTER_ML_CPP_SPARSE_HPP

#include "aster_ml/cpp/array.hpp"
#include "aster_ml/sparse.h"

namespace aster_ml {

/* How the elements of a sparse matrix are listed. */
enum class SparseFormat : int32_t {
  coo = ASTER_ML_SPARSE_COO,
  csr = ASTER_ML_SPARSE_CSR,
  csc = ASTER_ML_SPARSE_CSC
};

/* A reference to a sparse matrix, which never changes. Contracts stand above the functions of
 * aster_ml/sparse.h; what gives a matrix gives an empty one on failure. */
class Sparse {
 public:
  Sparse() = default;
  Sparse(aster_ml_sparse&& taken, const detail::Root& root) : matrix_(std::move(taken), root) {}
  /* A matrix in the memory of three arrays, in place. */
  Sparse(SparseFormat format, int64_t rows, int64_t columns, const Array& first,
         const Array& second, const Array& values) {
    aster_ml_sparse made{};
    if (detail::there(values, "Sparse") &&
        detail::good(aster_ml_sparse_init(&made, values.root().get(), detail::code(format), rows,
                                          columns, first.get(), second.get(), values.get()))) {
      matrix_ = {std::move(made), values.root()};
    }
  }
  /* The elements of a dense matrix that are not 0. */
  static Sparse from_dense(const Array& dense, SparseFormat format = SparseFormat::csr) {
    aster_ml_sparse out{};
    if (!detail::there(dense, "Sparse::from_dense") ||
        !detail::good(aster_ml_sparse_from_dense(&out, dense.root().get(), dense.get(),
                                                 detail::code(format))))
      return {};
    return Sparse(std::move(out), dense.root());
  }

  bool ok() const { return !matrix_.empty(); }
  const aster_ml_sparse* get() const { return matrix_.get(); }
  /* What it is; all 0 of an empty one. */
  aster_ml_sparse_info info() const {
    aster_ml_sparse_info out{};
    out.struct_size = sizeof(out);
    return ok() && detail::good(aster_ml_sparse_get(&out, get())) ? out : aster_ml_sparse_info{};
  }
  SparseFormat format() const { return SparseFormat{info().format}; }
  Dtype dtype() const { return Dtype{info().dtype}; }
  int64_t rows() const { return info().rows; }
  int64_t columns() const { return info().columns; }
  int64_t count() const { return info().count; }
  bool is_canonical() const { return info().is_canonical != 0; }
  /* Its arrays, in place: first, second and values. */
  std::tuple<Array, Array, Array> arrays() const {
    aster_ml_tensor first{}, second{}, values{};
    if (!ok() || !detail::good(aster_ml_sparse_view(&first, &second, &values, get()))) return {};
    return {Array(std::move(first), root()), Array(std::move(second), root()),
            Array(std::move(values), root())};
  }
  Array dense() const { return array(aster_ml_sparse_to_dense); }

  Sparse compress(SparseFormat format = SparseFormat::csr) const {
    return made(aster_ml_sparse_compress, detail::code(format));
  }
  Sparse transpose() const { return made(aster_ml_sparse_transpose); }
  Sparse with_values(const Array& values) const {
    return made(aster_ml_sparse_with_values, values.get());
  }
  Sparse cast(Dtype dtype) const { return made(aster_ml_sparse_cast, detail::code(dtype)); }
  Sparse slice(int64_t begin, int64_t end) const { return made(aster_ml_sparse_slice, begin, end); }
  Sparse matmul(const Sparse& other) const { return made(aster_ml_sparse_matmul, other.get()); }
  Array matmul(const Array& dense) const {
    return array(aster_ml_sparse_matmul_dense, dense.get());
  }
  Sparse operator+(const Sparse& other) const { return made(aster_ml_sparse_add, other.get()); }
  Sparse operator-(const Sparse& other) const { return made(aster_ml_sparse_sub, other.get()); }
  Sparse operator*(const Sparse& other) const { return made(aster_ml_sparse_mul, other.get()); }

  /* Of all elements, or over an axis. */
  Array sum() const { return over(aster_ml_sparse_sum, nullptr); }
  Array sum(int64_t axis) const { return over(aster_ml_sparse_sum, &axis); }
  Array max() const { return over(aster_ml_sparse_max, nullptr); }
  Array max(int64_t axis) const { return over(aster_ml_sparse_max, &axis); }
  Array min() const { return over(aster_ml_sparse_min, nullptr); }
  Array min(int64_t axis) const { return over(aster_ml_sparse_min, &axis); }

 private:
  detail::Root root() const { return matrix_.needed(); }
  template <class Function, class... Arguments>
  Sparse made(Function function, Arguments... arguments) const {
    aster_ml_sparse out{};
    if (!ok() || !detail::good(function(&out, get(), arguments...))) return {};
    return Sparse(std::move(out), root());
  }
  template <class Function, class... Arguments>
  Array array(Function function, Arguments... arguments) const {
    aster_ml_tensor out{};
    if (!ok() || !detail::good(function(&out, get(), arguments...))) return {};
    return Array(std::move(out), root());
  }
  template <class Function>
  Array over(Function function, const int64_t* axis) const {
    return array(function, size_t{axis != nullptr}, axis);
  }
  detail::Shared<aster_ml_sparse, detail::Root> matrix_;
};

}  // namespace aster_ml

#endif
