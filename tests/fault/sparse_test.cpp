// Every allocation of programs of sparse matrices fails once.
#include "fault.h"

namespace fault {
namespace {

// Sparse matrices of a pass, freed with it.
struct Matrices {
  ~Matrices() {
    for (aster_ml_sparse& x : list) EXPECT_EQ(aster_ml_sparse_free(&x), 0);
  }
  aster_ml_sparse* make() { return &list.emplace_back(); }
  std::deque<aster_ml_sparse> list;
};

void read(Pass& run, const aster_ml_tensor* x) {
  std::vector<float> values(aster_ml_tensor_count(x));
  CALL(aster_ml_tensor_copy_out, values.data(), x, values.size());
  run.values.insert(run.values.end(), values.begin(), values.end());
}
#define SPARSE(name, function, ...)              \
  aster_ml_sparse* const name = matrices.make(); \
  CALL(function, name, __VA_ARGS__)
#define DENSE(name, function, ...)            \
  aster_ml_tensor* const name = run.tensor(); \
  CALL(function, name, __VA_ARGS__)

TEST(FaultSparse, FormatsAndProducts) {
  sweep([](Pass& run) {
    Matrices matrices;
    const int32_t rows[] = {2, 0, 1, 2, 0}, columns[] = {1, 2, 0, 1, 0};
    const float values[] = {1, 2, 3, 4, 5}, more[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const size_t count = 5, square[] = {3, 3};
    DENSE(first, aster_ml_tensor_from_data, &run.context, rows, ASTER_ML_DTYPE_INT32, 1, &count);
    DENSE(second, aster_ml_tensor_from_data, &run.context, columns, ASTER_ML_DTYPE_INT32, 1,
          &count);
    DENSE(stored, aster_ml_tensor_from_data, &run.context, values, ASTER_ML_DTYPE_FLOAT32, 1,
          &count);
    DENSE(dense, aster_ml_tensor_from_data, &run.context, more, ASTER_ML_DTYPE_FLOAT32, 2, square);
    SPARSE(coo, aster_ml_sparse_init, &run.context, ASTER_ML_SPARSE_COO, 3, 3, first, second,
           stored);
    SPARSE(csr, aster_ml_sparse_compress, coo, ASTER_ML_SPARSE_CSR);
    SPARSE(csc, aster_ml_sparse_compress, csr, ASTER_ML_SPARSE_CSC);
    SPARSE(sorted, aster_ml_sparse_compress, csc, ASTER_ML_SPARSE_COO);
    SPARSE(turned, aster_ml_sparse_transpose, sorted);
    SPARSE(sum, aster_ml_sparse_add, coo, turned);
    SPARSE(difference, aster_ml_sparse_sub, sum, csc);
    SPARSE(product, aster_ml_sparse_mul, difference, csr);
    SPARSE(whole, aster_ml_sparse_cast, product, ASTER_ML_DTYPE_INT64);
    SPARSE(matmul, aster_ml_sparse_matmul, whole, csc);
    SPARSE(part, aster_ml_sparse_slice, matmul, 0, 2);
    SPARSE(other, aster_ml_sparse_from_dense, &run.context, dense, ASTER_ML_SPARSE_CSC);
    SPARSE(both, aster_ml_sparse_matmul, part, other);
    DENSE(out, aster_ml_sparse_matmul_dense, both, dense);
    DENSE(back, aster_ml_sparse_to_dense, matmul);
    read(run, out);
    if (run.stopped()) return;
    read(run, back);
    if (run.stopped()) return;
    for (const int64_t axis : {0, 1}) {
      DENSE(totals, aster_ml_sparse_sum, both, 1, &axis);
      DENSE(most, aster_ml_sparse_max, coo, 1, &axis);
      DENSE(least, aster_ml_sparse_min, csc, 1, &axis);
      for (const aster_ml_tensor* one : {totals, most, least}) {
        read(run, one);
        if (run.stopped()) return;
      }
    }
    aster_ml_tensor* const places[] = {run.tensor(), run.tensor(), run.tensor()};
    CALL(aster_ml_sparse_view, places[0], places[1], places[2], both);
    SPARSE(again, aster_ml_sparse_with_values, both, places[2]);
    DENSE(total, aster_ml_sparse_sum, again, 0, nullptr);
    read(run, total);
  });
}

// Of wide floats, whose sums gather their terms.
TEST(FaultSparse, WideFloats) {
  sweep([](Pass& run) {
    Matrices matrices;
    const int32_t rows[] = {2, 0, 1, 2, 0}, columns[] = {1, 2, 0, 1, 0};
    uint64_t values[20] = {}, more[24] = {};
    for (size_t i = 0; i < 5; ++i) values[4 * i + 3] = (uint64_t{262143} + i) << 44;
    for (size_t i = 0; i < 6; ++i) more[4 * i + 3] = (uint64_t{262143} - 3 * i) << 44;
    more[23] = uint64_t{1} << 44;  // so far from the others that the sum is on no stack
    const size_t count = 5, shape[] = {3, 2};
    DENSE(first, aster_ml_tensor_from_data, &run.context, rows, ASTER_ML_DTYPE_INT32, 1, &count);
    DENSE(second, aster_ml_tensor_from_data, &run.context, columns, ASTER_ML_DTYPE_INT32, 1,
          &count);
    DENSE(stored, aster_ml_tensor_from_data, &run.context, values, ASTER_ML_DTYPE_FLT256, 1,
          &count);
    DENSE(dense, aster_ml_tensor_from_data, &run.context, more, ASTER_ML_DTYPE_FLT256, 2, shape);
    SPARSE(coo, aster_ml_sparse_init, &run.context, ASTER_ML_SPARSE_COO, 3, 3, first, second,
           stored);
    SPARSE(csr, aster_ml_sparse_compress, coo, ASTER_ML_SPARSE_CSR);
    SPARSE(turned, aster_ml_sparse_transpose, csr);
    SPARSE(sum, aster_ml_sparse_add, coo, turned);
    SPARSE(product, aster_ml_sparse_matmul, sum, csr);
    SPARSE(wider, aster_ml_sparse_cast, product, ASTER_ML_DTYPE_FLT512);
    SPARSE(narrow, aster_ml_sparse_cast, wider, ASTER_ML_DTYPE_FLOAT32);
    DENSE(out, aster_ml_sparse_matmul_dense, csr, dense);
    uint64_t words[24] = {};
    CALL(aster_ml_tensor_copy_out, words, out, 6);
    for (const uint64_t word : words) run.values.push_back(static_cast<float>(word));
    DENSE(back, aster_ml_sparse_to_dense, narrow);
    read(run, back);
    if (run.stopped()) return;
    for (const int64_t axis : {0, 1}) {
      DENSE(totals, aster_ml_sparse_sum, product, 1, &axis);
      DENSE(most, aster_ml_sparse_max, coo, 1, &axis);
      CALL(aster_ml_tensor_copy_out, words, totals, 3);
      for (const uint64_t word : words) run.values.push_back(static_cast<float>(word));
      CALL(aster_ml_tensor_copy_out, words, most, 3);
      for (const uint64_t word : words) run.values.push_back(static_cast<float>(word));
    }
  });
}

}  // namespace
}  // namespace fault
