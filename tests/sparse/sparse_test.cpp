// Sparse matrices against dense ones that are computed here, element by element.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "aster_ml/sparse.h"
#include "dtype/convert.h"
#include "dtype/dtype.h"

namespace aster::sparse {
namespace {

using dtype::DType;

class World {
 public:
  explicit World(int32_t threads = 1, int32_t vector_bytes = 0) {
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.threads = threads;
    options.vector_bytes = vector_bytes;
    EXPECT_EQ(aster_ml_context_init(&context, &options), 0);
  }
  ~World() { EXPECT_EQ(aster_ml_context_free(&context), 0); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  aster_ml_context context{};
};

struct Tensor {
  Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { EXPECT_EQ(aster_ml_tensor_free(&t), 0); }
  template <typename T>
  std::vector<T> read() const {
    std::vector<T> out(aster_ml_tensor_count(&t));
    EXPECT_EQ(aster_ml_tensor_copy_out(out.data(), &t, out.size()), 0);
    return out;
  }
  aster_ml_tensor t{};
};

template <typename T>
constexpr int32_t code_of() {
  if (std::is_same_v<T, double>) return ASTER_ML_DTYPE_FLOAT64;
  if (std::is_same_v<T, float>) return ASTER_ML_DTYPE_FLOAT32;
  if (sizeof(T) == 8) return ASTER_ML_DTYPE_INT64;
  return sizeof(T) == 4 ? ASTER_ML_DTYPE_INT32 : ASTER_ML_DTYPE_INT8;
}

// A descriptor of a vector's elements, in place.
template <typename T>
struct Lent {
  explicit Lent(std::vector<T>& elements, int32_t dtype = code_of<T>()) : shape(elements.size()) {
    t.storage = {elements.data(), elements.size() * sizeof(T), dtype, ASTER_ML_DEVICE_CPU};
    t.ndim = 1;
    t.shape = &shape;
    t.strides = &stride;
    t.dtype = dtype;
    t.device = ASTER_ML_DEVICE_CPU;
  }
  size_t shape;
  ptrdiff_t stride = 1;
  aster_ml_tensor t{};
};

struct Sparse {
  Sparse() = default;
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  ~Sparse() { EXPECT_EQ(aster_ml_sparse_free(&x), 0); }
  aster_ml_sparse_info info() const {
    aster_ml_sparse_info out{};
    out.struct_size = sizeof(out);
    EXPECT_EQ(aster_ml_sparse_get(&out, &x), 0);
    return out;
  }
  aster_ml_sparse x{};
};

std::string last() {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  return error.message;
}
#define OK(call) ASSERT_EQ(call, 0) << last()

// A matrix of numbers, with stored elements in no order and some places twice.
template <typename I>
struct Coordinates {
  int64_t rows, columns;
  std::vector<I> row, column;
  std::vector<double> value;
  std::vector<double> dense() const {
    std::vector<double> out(static_cast<size_t>(rows * columns));
    for (size_t p = 0; p < row.size(); ++p) {
      out[static_cast<size_t>(row[p] * columns + column[p])] += value[p];
    }
    return out;
  }
};

template <typename I>
Coordinates<I> random_matrix(std::mt19937& random, int64_t rows, int64_t columns, size_t count) {
  Coordinates<I> m{rows, columns, {}, {}, {}};
  std::uniform_int_distribution<int> number(-3, 3);
  for (size_t p = 0; p < count && rows * columns > 0; ++p) {
    m.row.push_back(static_cast<I>(random() % static_cast<uint64_t>(rows)));
    m.column.push_back(static_cast<I>(random() % static_cast<uint64_t>(columns)));
    m.value.push_back(number(random));
  }
  return m;
}

// Elements of a dtype, of small whole numbers: every sum of them is exact.
std::vector<char> elements_of(DType d, const std::vector<double>& numbers) {
  std::vector<char> out(numbers.size() * dtype::size(d) + 8);
  for (size_t i = 0; i < numbers.size(); ++i) {
    dtype::store_double(d, out.data() + i * dtype::size(d), numbers[i]);
  }
  return out;
}
std::vector<double> numbers_of(const aster_ml_tensor& t) {
  const auto d = static_cast<DType>(t.dtype);
  std::vector<char> bytes(aster_ml_tensor_count(&t) * dtype::size(d) + 8);
  EXPECT_EQ(aster_ml_tensor_copy_out(bytes.data(), &t, aster_ml_tensor_count(&t)), 0) << last();
  std::vector<double> out;
  for (size_t i = 0; i < aster_ml_tensor_count(&t); ++i) {
    out.push_back(dtype::load_double(d, bytes.data() + i * dtype::size(d)));
  }
  return out;
}

// A number as a dtype has it: wrapped, rounded, true or false.
double as(DType d, double number) {
  if (d == DType::kBool) return number != 0;
  if (dtype::is_int(d)) {
    const int64_t wrapped = dtype::truncate_int(d, static_cast<int64_t>(number));
    return d == DType::kUInt64 ? static_cast<double>(static_cast<uint64_t>(wrapped))
                               : static_cast<double>(wrapped);
  }
  return dtype::truncate_float(d, number);
}

template <typename I>
void make(Sparse* out, World& world, Coordinates<I>& m, DType d) {
  const std::vector<char> bytes = elements_of(d, m.value);
  const size_t count = m.value.size();
  Tensor values;
  OK(aster_ml_tensor_from_data(&values.t, &world.context, bytes.data(), static_cast<int32_t>(d), 1,
                               &count));
  // Of the library's memory, which the matrix keeps alive when these descriptors are gone.
  Tensor row, column;
  const int32_t index = code_of<I>();
  OK(aster_ml_tensor_from_data(&row.t, &world.context, m.row.data(), index, 1, &count));
  OK(aster_ml_tensor_from_data(&column.t, &world.context, m.column.data(), index, 1, &count));
  OK(aster_ml_sparse_init(&out->x, &world.context, ASTER_ML_SPARSE_COO, m.rows, m.columns, &row.t,
                          &column.t, &values.t));
}

void expect_dense(const Sparse& x, const std::vector<double>& wanted, const std::string& what) {
  Tensor dense;
  OK(aster_ml_sparse_to_dense(&dense.t, &x.x));
  EXPECT_EQ(numbers_of(dense.t), wanted) << what;
}

constexpr DType kDTypes[] = {
    DType::kBool,        DType::kInt8,       DType::kUInt8,    DType::kInt16,   DType::kUInt16,
    DType::kInt32,       DType::kUInt32,     DType::kInt64,    DType::kUInt64,  DType::kFp8E4M3,
    DType::kFp8E5M2,     DType::kFloat16,    DType::kBFloat16, DType::kFloat32, DType::kFloat64,
    DType::kFp8E4M3Fnuz, DType::kFp8E5M2Fnuz};

// Elements of the dense form: sums of duplicates as bool and unsigned dtypes have them.
std::vector<double> dense_as(DType d, const Coordinates<int32_t>& m) {
  Coordinates<int32_t> own = m;
  for (double& value : own.value) value = as(d, value);
  std::vector<double> out = own.dense();
  for (double& value : out) value = as(d, value);
  return out;
}

TEST(Sparse, FormatsOfEveryDtype) {
  std::mt19937 random(1);
  for (const DType d : kDTypes) {
    World world;
    Coordinates<int32_t> m = random_matrix<int32_t>(random, 17, 23, 90);
    for (double& value : m.value) value = std::fabs(value);
    const std::vector<double> wanted = dense_as(d, m);
    Sparse coo;
    make(&coo, world, m, d);
    EXPECT_EQ(coo.info().is_canonical, 0);
    for (const int32_t one : {1, 2, 3}) {
      Sparse a;
      OK(aster_ml_sparse_compress(&a.x, &coo.x, one));
      EXPECT_EQ(a.info().format, one);
      EXPECT_EQ(a.info().is_canonical, 1);
      expect_dense(a, wanted, dtype::name(d));
      for (const int32_t two : {1, 2, 3}) {
        Sparse b;
        OK(aster_ml_sparse_compress(&b.x, &a.x, two));
        EXPECT_EQ(b.info().format, two);
        EXPECT_EQ(b.info().count, a.info().count);
        expect_dense(b, wanted, dtype::name(d));
      }
      Sparse turned;
      OK(aster_ml_sparse_transpose(&turned.x, &a.x));
      std::vector<double> other(wanted.size());
      for (size_t i = 0; i < 17; ++i) {
        for (size_t j = 0; j < 23; ++j) other[j * 17 + i] = wanted[i * 23 + j];
      }
      expect_dense(turned, other, dtype::name(d));
      Tensor dense;
      OK(aster_ml_sparse_to_dense(&dense.t, &a.x));
      Sparse again;
      OK(aster_ml_sparse_from_dense(&again.x, &world.context, &dense.t, one));
      EXPECT_EQ(again.info().is_canonical, 1);
      int64_t stored = 0;
      for (const double value : wanted) stored += value != 0;
      EXPECT_EQ(again.info().count, stored);
      expect_dense(again, wanted, dtype::name(d));
    }
  }
}

TEST(Sparse, ProductsWithDenseOfEveryDtypeWidthAndVector) {
  std::mt19937 random(2);
  for (const DType d : kDTypes) {
    Coordinates<int32_t> m = random_matrix<int32_t>(random, 9, 13, 40);
    for (double& value : m.value) value = std::fabs(value);
    for (const int32_t bytes : {16, 32, 64}) {
      World world(1, bytes);
      Sparse coo;
      make(&coo, world, m, d);
      const std::vector<double> a = dense_as(d, m);
      for (const size_t columns :
           {0u, 1u, 2u, 3u, 4u, 7u, 8u, 15u, 16u, 17u, 31u, 63u, 64u, 70u, 300u}) {
        std::vector<double> b(13 * columns);
        for (double& value : b) value = as(d, static_cast<double>(random() % 3));
        std::vector<double> wanted(9 * columns);
        for (size_t i = 0; i < 9; ++i) {
          for (size_t k = 0; k < 13; ++k) {
            for (size_t j = 0; j < columns; ++j) {
              wanted[i * columns + j] += a[i * 13 + k] * b[k * columns + j];
            }
          }
        }
        for (double& value : wanted) value = as(d, value);
        const size_t shape[] = {13, columns};
        Tensor dense, out;
        OK(aster_ml_tensor_from_data(&dense.t, &world.context, elements_of(d, b).data(),
                                     static_cast<int32_t>(d), 2, shape));
        OK(aster_ml_sparse_matmul_dense(&out.t, &coo.x, &dense.t));
        EXPECT_EQ(numbers_of(out.t), wanted) << dtype::name(d) << " " << columns << " " << bytes;
        EXPECT_EQ(out.t.shape[1], columns);
      }
    }
  }
}

template <typename I>
void combine(DType d, uint32_t seed) {
  std::mt19937 random(seed);
  World world;
  Coordinates<I> m = random_matrix<I>(random, 11, 14, 50), n = random_matrix<I>(random, 11, 14, 30),
                 o = random_matrix<I>(random, 14, 6, 40);
  Sparse a, b, c;
  make(&a, world, m, d);
  make(&b, world, n, d);
  make(&c, world, o, d);
  const std::vector<double> x = m.dense(), y = n.dense(), z = o.dense();
  std::vector<double> sum(x.size()), difference(x.size()), product(x.size()), matmul(11 * 6);
  for (size_t i = 0; i < x.size(); ++i) {
    sum[i] = as(d, x[i] + y[i]);
    difference[i] = as(d, x[i] - y[i]);
    product[i] = as(d, x[i] * y[i]);
  }
  for (size_t i = 0; i < 11; ++i) {
    for (size_t k = 0; k < 14; ++k) {
      for (size_t j = 0; j < 6; ++j) matmul[i * 6 + j] += x[i * 14 + k] * z[k * 6 + j];
    }
  }
  for (double& value : matmul) value = as(d, value);
  Sparse r[4];
  OK(aster_ml_sparse_add(&r[0].x, &a.x, &b.x));
  OK(aster_ml_sparse_sub(&r[1].x, &a.x, &b.x));
  OK(aster_ml_sparse_mul(&r[2].x, &a.x, &b.x));
  OK(aster_ml_sparse_matmul(&r[3].x, &a.x, &c.x));
  expect_dense(r[0], sum, dtype::name(d));
  expect_dense(r[1], difference, dtype::name(d));
  expect_dense(r[2], product, dtype::name(d));
  expect_dense(r[3], matmul, dtype::name(d));
  for (const Sparse& one : r) EXPECT_EQ(one.info().index_dtype, code_of<I>());
  // By columns the same.
  Sparse p, q, s;
  OK(aster_ml_sparse_compress(&p.x, &a.x, ASTER_ML_SPARSE_CSC));
  OK(aster_ml_sparse_compress(&q.x, &b.x, ASTER_ML_SPARSE_CSC));
  OK(aster_ml_sparse_add(&s.x, &p.x, &q.x));
  EXPECT_EQ(s.info().format, ASTER_ML_SPARSE_CSC);
  expect_dense(s, sum, dtype::name(d));
}

TEST(Sparse, SumsAndProductsOfTwo) {
  for (const DType d : {DType::kInt8, DType::kUInt16, DType::kInt32, DType::kInt64, DType::kFloat16,
                        DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    combine<int32_t>(d, 3);
    combine<int64_t>(d, 4);
  }
}

TEST(Sparse, OperandsOfTwoDtypes) {
  std::mt19937 random(5);
  World world;
  Coordinates<int32_t> m = random_matrix<int32_t>(random, 5, 6, 12);
  Coordinates<int64_t> n = random_matrix<int64_t>(random, 5, 6, 12);
  Sparse a, b, c;
  make(&a, world, m, DType::kInt8);
  make(&b, world, n, DType::kFloat64);
  OK(aster_ml_sparse_add(&c.x, &a.x, &b.x));
  EXPECT_EQ(c.info().dtype, ASTER_ML_DTYPE_FLOAT64);
  EXPECT_EQ(c.info().index_dtype, ASTER_ML_DTYPE_INT64);
  std::vector<double> wanted = m.dense();
  const std::vector<double> other = n.dense();
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += other[i];
  expect_dense(c, wanted, "int8 and float64");
  Sparse narrow;
  OK(aster_ml_sparse_cast(&narrow.x, &c.x, ASTER_ML_DTYPE_INT16));
  EXPECT_EQ(narrow.info().dtype, ASTER_ML_DTYPE_INT16);
  expect_dense(narrow, wanted, "int16");
}

TEST(Sparse, SlicesShareColumnsAndValues) {
  std::mt19937 random(6);
  World world;
  Coordinates<int32_t> m = random_matrix<int32_t>(random, 12, 7, 30);
  Sparse coo, rows, part, same, none;
  make(&coo, world, m, DType::kFloat32);
  OK(aster_ml_sparse_compress(&rows.x, &coo.x, ASTER_ML_SPARSE_CSR));
  OK(aster_ml_sparse_slice(&part.x, &rows.x, 3, -2));
  const std::vector<double> all = m.dense();
  expect_dense(part, {all.begin() + 21, all.begin() + 70}, "rows 3 to 10");
  OK(aster_ml_sparse_slice(&same.x, &coo.x, 3, 10));
  expect_dense(same, {all.begin() + 21, all.begin() + 70}, "of COO");
  OK(aster_ml_sparse_slice(&none.x, &rows.x, 12, 12));
  EXPECT_EQ(none.info().rows, 0);
  Tensor t[6];
  OK(aster_ml_sparse_view(&t[0].t, &t[1].t, &t[2].t, &rows.x));
  OK(aster_ml_sparse_view(&t[3].t, &t[4].t, &t[5].t, &part.x));
  const auto first = t[0].read<int32_t>();
  EXPECT_EQ(static_cast<char*>(t[4].t.storage.data) + t[4].t.byte_offset,
            static_cast<char*>(t[1].t.storage.data) + 4 * first[3]);
  Sparse bad;
  EXPECT_EQ(aster_ml_sparse_slice(&bad.x, &rows.x, 5, 4), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_sparse_slice(&bad.x, &rows.x, 0, 13), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_sparse_slice(&bad.x, &rows.x, -13, 1), ASTER_ML_RANGE);
  EXPECT_EQ(bad.x.impl, nullptr);
}

TEST(Sparse, ReductionsOfEveryDtypeAndFormat) {
  std::mt19937 random(7);
  for (const DType d : kDTypes) {
    World world;
    Coordinates<int32_t> m = random_matrix<int32_t>(random, 8, 9, 20);
    // A row and a column that are full, of numbers of one sign.
    for (int32_t k = 0; k < 9; ++k) {
      m.row.push_back(2), m.column.push_back(k), m.value.push_back(9);
      if (k < 8) m.row.push_back(k), m.column.push_back(4), m.value.push_back(9);
    }
    if (!dtype::is_signed(d) && !dtype::is_float(d)) {
      for (double& value : m.value) value = std::fabs(value);
    }
    const std::vector<double> dense = dense_as(d, m);
    Sparse coo;
    make(&coo, world, m, d);
    for (const int32_t format : {1, 2, 3}) {
      Sparse x;
      OK(aster_ml_sparse_compress(&x.x, &coo.x, format));
      for (const int64_t axis : {0, 1, 2}) {
        const size_t results = axis == 0 ? 9 : axis == 1 ? 8 : 1;
        std::vector<double> sum(results), most(results, -1e9), least(results, 1e9);
        for (size_t i = 0; i < 8; ++i) {
          for (size_t j = 0; j < 9; ++j) {
            const size_t at = axis == 0 ? j : axis == 1 ? i : 0;
            const double value = dense[i * 9 + j];
            sum[at] += value;
            most[at] = std::max(most[at], value);
            least[at] = std::min(least[at], value);
          }
        }
        for (double& value : sum) value = dtype::truncate_float(d, value);
        const int64_t* const axes = axis == 2 ? nullptr : &axis;
        Tensor s, u, l;
        OK(aster_ml_sparse_sum(&s.t, &x.x, axis == 2 ? 0 : 1, axes));
        OK(aster_ml_sparse_max(&u.t, &x.x, axis == 2 ? 0 : 1, axes));
        OK(aster_ml_sparse_min(&l.t, &x.x, axis == 2 ? 0 : 1, axes));
        EXPECT_EQ(numbers_of(s.t), sum) << dtype::name(d) << axis;
        EXPECT_EQ(numbers_of(u.t), most) << dtype::name(d) << axis;
        EXPECT_EQ(numbers_of(l.t), least) << dtype::name(d) << axis;
        EXPECT_EQ(s.t.dtype, dtype::is_float(d) ? static_cast<int32_t>(d)
                                                : static_cast<int32_t>(dtype::sum_acc(d)));
        EXPECT_EQ(s.t.ndim, axis == 2 ? 0u : 1u);
      }
    }
  }
}

TEST(Sparse, NaNWinsAndIsStored) {
  World world;
  const double nan = std::nan("");
  std::vector<double> values = {0.0, -0.0, nan, 3, -1, 2};
  const size_t shape[] = {2, 3};
  Tensor dense, most, least;
  OK(aster_ml_tensor_from_data(&dense.t, &world.context, values.data(), ASTER_ML_DTYPE_FLOAT64, 2,
                               shape));
  Sparse x;
  OK(aster_ml_sparse_from_dense(&x.x, &world.context, &dense.t, ASTER_ML_SPARSE_CSR));
  EXPECT_EQ(x.info().count, 4);
  const int64_t axis = 1;
  OK(aster_ml_sparse_max(&most.t, &x.x, 1, &axis));
  OK(aster_ml_sparse_min(&least.t, &x.x, 1, &axis));
  EXPECT_TRUE(std::isnan(most.read<double>()[0]));
  EXPECT_TRUE(std::isnan(least.read<double>()[0]));
  EXPECT_EQ(most.read<double>()[1], 3);
  EXPECT_EQ(least.read<double>()[1], -1);
}

TEST(Sparse, ArraysStayWhereTheyAre) {
  World world;
  std::vector<int32_t> first = {0, 2, 3}, second = {0, 2, 1};
  std::vector<float> values = {1, 2, 3};
  Lent<int32_t> a(first), b(second);
  Lent<float> c(values);
  Sparse x, turned, other;
  OK(aster_ml_sparse_init(&x.x, &world.context, ASTER_ML_SPARSE_CSR, 2, 3, &a.t, &b.t, &c.t));
  OK(aster_ml_sparse_transpose(&turned.x, &x.x));
  EXPECT_EQ(turned.info().format, ASTER_ML_SPARSE_CSC);
  Tensor t[3];
  OK(aster_ml_sparse_view(&t[0].t, &t[1].t, &t[2].t, &turned.x));
  EXPECT_EQ(t[0].t.storage.data, first.data());
  EXPECT_EQ(t[1].t.storage.data, second.data());
  EXPECT_EQ(t[2].t.storage.data, values.data());
  values[1] = 5;  // values may be written
  expect_dense(x, {1, 0, 5, 0, 3, 0}, "written");
  std::vector<double> real = {4, 5, 6};
  Lent<double> d(real);
  OK(aster_ml_sparse_with_values(&other.x, &x.x, &d.t));
  EXPECT_EQ(other.info().dtype, ASTER_ML_DTYPE_FLOAT64);
  expect_dense(other, {4, 0, 5, 0, 6, 0}, "other values");
  std::vector<double> more = {4, 5};
  Lent<double> e(more);
  Sparse bad;
  EXPECT_EQ(aster_ml_sparse_with_values(&bad.x, &x.x, &e.t), ASTER_ML_FORMAT);
}

TEST(Sparse, DuplicatesOfCsrAreSummedInTheirOrder) {
  World world;
  std::vector<int64_t> first = {0, 4, 4, 5}, second = {1, 0, 1, 1, 0};
  std::vector<float> values = {1e8f, 7, 1, -1e8f, 2};  // (1e8 + 1) - 1e8 is 0
  Lent<int64_t> a(first), b(second);
  Lent<float> c(values);
  Sparse x, sorted;
  OK(aster_ml_sparse_init(&x.x, &world.context, ASTER_ML_SPARSE_CSR, 3, 2, &a.t, &b.t, &c.t));
  EXPECT_EQ(x.info().is_canonical, 0);
  OK(aster_ml_sparse_compress(&sorted.x, &x.x, ASTER_ML_SPARSE_CSR));
  EXPECT_EQ(sorted.info().count, 3);
  expect_dense(sorted, {7, 0, 0, 0, 2, 0}, "sorted");
  expect_dense(x, {7, 0, 0, 0, 2, 0}, "as it is");
}

TEST(Sparse, ResultsDoNotDependOnThreadsOrVectors) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  Coordinates<int32_t> m = random_matrix<int32_t>(random, 2000, 1500, 60000);
  std::vector<float> b(1500 * 37);
  for (float& value : b) value = normal(random);
  for (double& value : m.value) value = static_cast<double>(normal(random));
  std::vector<float> product, vector, squares, sums, products;
  for (const int32_t threads : {1, 3}) {
    for (const int32_t bytes : {16, 32, 64}) {
      World world(threads, bytes);
      Sparse x, turned, square;
      make(&x, world, m, DType::kFloat32);
      const size_t shape[] = {1500, 37};
      Tensor dense, column, out, one;
      OK(aster_ml_tensor_from_data(&dense.t, &world.context, b.data(), ASTER_ML_DTYPE_FLOAT32, 2,
                                   shape));
      OK(aster_ml_tensor_from_data(&column.t, &world.context, b.data(), ASTER_ML_DTYPE_FLOAT32, 1,
                                   shape));
      OK(aster_ml_sparse_matmul_dense(&out.t, &x.x, &dense.t));
      OK(aster_ml_sparse_matmul_dense(&one.t, &x.x, &column.t));
      OK(aster_ml_sparse_transpose(&turned.x, &x.x));
      OK(aster_ml_sparse_matmul(&square.x, &x.x, &turned.x));
      // Of enough elements that threads share them.
      Sparse shifted, both, common;
      Coordinates<int32_t> n = m;
      for (size_t p = 0; p < n.column.size(); p += 2) n.column[p] = (n.column[p] + 7) % 1500;
      make(&shifted, world, n, DType::kFloat32);
      OK(aster_ml_sparse_add(&both.x, &x.x, &shifted.x));
      OK(aster_ml_sparse_mul(&common.x, &x.x, &shifted.x));
      Tensor all, some;
      OK(aster_ml_sparse_to_dense(&all.t, &both.x));
      OK(aster_ml_sparse_to_dense(&some.t, &common.x));
      Tensor t[3];
      OK(aster_ml_sparse_view(&t[0].t, &t[1].t, &t[2].t, &square.x));
      if (product.empty()) {
        product = out.read<float>();
        vector = one.read<float>();
        squares = t[2].read<float>();
        sums = all.read<float>();
        products = some.read<float>();
      }
      EXPECT_EQ(all.read<float>(), sums) << threads;
      EXPECT_EQ(some.read<float>(), products) << threads;
      EXPECT_EQ(out.read<float>(), product) << threads << " " << bytes;
      EXPECT_EQ(one.read<float>(), vector) << threads << " " << bytes;
      EXPECT_EQ(t[2].read<float>(), squares) << threads << " " << bytes;
    }
  }
}

TEST(Sparse, DenseOfAnyStrides) {
  std::mt19937 random(9);
  World world;
  Coordinates<int32_t> m = random_matrix<int32_t>(random, 4, 5, 9);
  Sparse x;
  make(&x, world, m, DType::kFloat32);
  std::vector<float> b(5 * 24);
  for (float& value : b) value = static_cast<float>(random() % 7);
  const std::vector<double> a = m.dense();
  struct Case {
    ptrdiff_t down, across;
    size_t begin;
  };
  for (const Case c : {Case{24, 1, 0}, Case{1, 5, 0}, Case{-24, 1, 96}, Case{24, 2, 1},
                       Case{0, 1, 3}, Case{24, 0, 0}}) {
    size_t shape[] = {5, 12};
    ptrdiff_t strides[] = {c.down, c.across};
    aster_ml_tensor t{};
    t.storage = {b.data(), b.size() * 4, ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
    t.byte_offset = c.begin * 4;
    t.ndim = 2;
    t.shape = shape;
    t.strides = strides;
    t.dtype = ASTER_ML_DTYPE_FLOAT32;
    t.device = ASTER_ML_DEVICE_CPU;
    std::vector<double> wanted(4 * 12);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t k = 0; k < 5; ++k) {
        for (size_t j = 0; j < 12; ++j) {
          const auto at = static_cast<ptrdiff_t>(c.begin) + c.down * static_cast<ptrdiff_t>(k) +
                          c.across * static_cast<ptrdiff_t>(j);
          wanted[i * 12 + j] += a[i * 5 + k] * static_cast<double>(b[static_cast<size_t>(at)]);
        }
      }
    }
    Tensor out;
    OK(aster_ml_sparse_matmul_dense(&out.t, &x.x, &t));
    EXPECT_EQ(numbers_of(out.t), wanted) << c.down << " " << c.across;
  }
}

// ---- Bad input ----

struct Arrays {
  int32_t format;
  std::vector<int32_t> first, second;
  size_t values;
};

TEST(Sparse, MalformedArraysAreFormatErrors) {
  World world;
  const Arrays cases[] = {
      {ASTER_ML_SPARSE_CSR, {0, 1, 3}, {0, 1}, 2},          // beyond the arrays
      {ASTER_ML_SPARSE_CSR, {0, 2, 1}, {0, 1}, 2},          // falls
      {ASTER_ML_SPARSE_CSR, {0, 3, 2}, {0, 1}, 2},          // beyond, then back
      {ASTER_ML_SPARSE_CSR, {1, 1, 2}, {0, 1}, 2},          // does not begin with 0
      {ASTER_ML_SPARSE_CSR, {0, -1, 2}, {0, 1}, 2},         // negative
      {ASTER_ML_SPARSE_CSR, {0, 1, INT32_MAX}, {0, 1}, 2},  // far beyond
      {ASTER_ML_SPARSE_CSR, {0, 1}, {0, 1}, 2},             // too few rows
      {ASTER_ML_SPARSE_CSR, {0, 1, 2, 2}, {0, 1}, 2},       // too many
      {ASTER_ML_SPARSE_CSR, {}, {}, 0},                     // none
      {ASTER_ML_SPARSE_CSR, {0, 1, 2}, {0, 3}, 2},          // a column outside
      {ASTER_ML_SPARSE_CSR, {0, 1, 2}, {0, -1}, 2},         // a negative one
      {ASTER_ML_SPARSE_CSR, {0, 1, 2}, {0, 1}, 3},          // more values than columns
      {ASTER_ML_SPARSE_CSC, {0, 1, 2}, {0, 1}, 2},          // offsets of rows
      {ASTER_ML_SPARSE_CSC, {0, 1, 1, 2}, {0, 2}, 2},       // a row outside
      {ASTER_ML_SPARSE_COO, {0, 2}, {0, 1}, 2},             // a row outside
      {ASTER_ML_SPARSE_COO, {0, -5}, {0, 1}, 2},            // a negative row
      {ASTER_ML_SPARSE_COO, {0, 1}, {0, 3}, 2},             // a column outside
      {ASTER_ML_SPARSE_COO, {0}, {0, 1}, 2},                // fewer rows than columns
      {ASTER_ML_SPARSE_COO, {0, 1}, {0, 1}, 1},             // fewer values
  };
  for (Arrays one : cases) {
    std::vector<float> values(one.values);
    Lent<int32_t> a(one.first), b(one.second);
    Lent<float> c(values);
    Sparse x;
    x.x.impl = &world;
    EXPECT_EQ(aster_ml_sparse_init(&x.x, &world.context, one.format, 2, 3, &a.t, &b.t, &c.t),
              ASTER_ML_FORMAT)
        << one.format << " " << last();
    EXPECT_EQ(x.x.impl, nullptr);
    EXPECT_FALSE(last().empty());
  }
  // Elements behind the last are let be.
  std::vector<int32_t> first = {0, 1, 2}, second = {0, 1, 77};
  std::vector<float> values(3);
  Lent<int32_t> a(first), b(second);
  Lent<float> c(values);
  Sparse x;
  OK(aster_ml_sparse_init(&x.x, &world.context, ASTER_ML_SPARSE_CSR, 2, 3, &a.t, &b.t, &c.t));
  EXPECT_EQ(x.info().count, 2);
}

TEST(Sparse, OtherBadInput) {
  World world, other;
  std::vector<int32_t> first = {0, 1, 2}, second = {0, 1};
  std::vector<int64_t> wide = {0, 1};
  std::vector<float> values = {1, 2};
  Lent<int32_t> a(first), b(second);
  Lent<int64_t> w(wide);
  Lent<float> c(values);
  const auto init = [&](aster_ml_sparse* out, int32_t format, int64_t rows, int64_t columns,
                        const aster_ml_tensor* p, const aster_ml_tensor* q) {
    return aster_ml_sparse_init(out, &world.context, format, rows, columns, p, q, &c.t);
  };
  Sparse x, y, bad;
  EXPECT_EQ(init(&bad.x, 4, 2, 3, &a.t, &b.t), ASTER_ML_ARGUMENT);
  EXPECT_EQ(init(&bad.x, 2, -1, 3, &a.t, &b.t), ASTER_ML_RANGE);
  EXPECT_EQ(init(&bad.x, 2, INT64_MAX, 3, &a.t, &b.t), ASTER_ML_RANGE);
  EXPECT_EQ(init(&bad.x, 2, 2, 3, &a.t, &w.t), ASTER_ML_DTYPE);
  EXPECT_EQ(init(&bad.x, 1, 2, 3, &c.t, &c.t), ASTER_ML_DTYPE);
  EXPECT_EQ(init(&bad.x, 2, 2, 3, nullptr, &b.t), ASTER_ML_ARGUMENT);
  Lent<int32_t> gaps(first);
  gaps.shape = 2;
  gaps.stride = 2;
  EXPECT_EQ(init(&bad.x, 1, 2, 3, &gaps.t, &b.t), ASTER_ML_SHAPE);
  gaps.shape = 3000;
  gaps.stride = 1;
  EXPECT_EQ(init(&bad.x, 2, 2999, 3, &gaps.t, &b.t), ASTER_ML_RANGE);  // outside its memory
  OK(init(&x.x, 2, 2, 3, &a.t, &b.t));
  OK(aster_ml_sparse_init(&y.x, &other.context, 2, 2, 3, &a.t, &b.t, &c.t));
  EXPECT_EQ(aster_ml_sparse_add(&bad.x, &x.x, &y.x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sparse_matmul(&bad.x, &x.x, &x.x), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_sparse_compress(&bad.x, &x.x, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sparse_compress(&x.x, &x.x, 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(x.info().count, 2);
  aster_ml_tensor places[3] = {};
  for (const auto& [i, j, k] : {std::array{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {2, 2, 2}}) {
    EXPECT_EQ(aster_ml_sparse_view(&places[i], &places[j], &places[k], &x.x), ASTER_ML_ARGUMENT);
    EXPECT_EQ(places[i].shape, nullptr);
  }
  // Arrays that are not aligned; a dense operand may lie anywhere, and is none that is written.
  alignas(8) char odd[64] = {};
  const auto lent_at = [&](const auto& like) {
    aster_ml_tensor t = like.t;
    t.storage.data = odd + 1;
    return t;
  };
  const aster_ml_tensor odd_first = lent_at(a), odd_second = lent_at(b), odd_values = lent_at(c);
  EXPECT_EQ(init(&bad.x, 2, 2, 3, &odd_first, &b.t), ASTER_ML_ARGUMENT);
  EXPECT_NE(last().find("first is not aligned"), std::string::npos) << last();
  EXPECT_EQ(init(&bad.x, 2, 2, 3, &a.t, &odd_second), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sparse_init(&bad.x, &world.context, 2, 2, 3, &a.t, &b.t, &odd_values),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sparse_with_values(&bad.x, &x.x, &odd_values), ASTER_ML_ARGUMENT);
  EXPECT_EQ(bad.x.impl, nullptr);
  const float three[] = {1, 2, 3};
  std::memcpy(odd + 1, three, sizeof(three));
  size_t column = 3;
  aster_ml_tensor anywhere = odd_values, product{};
  anywhere.storage.bytes = sizeof(three);
  anywhere.shape = &column;
  OK(aster_ml_sparse_matmul_dense(&product, &x.x, &anywhere));
  EXPECT_EQ(numbers_of(product), (std::vector<double>{1, 4}));
  EXPECT_EQ(aster_ml_tensor_free(&product), 0);
  EXPECT_EQ(aster_ml_sparse_matmul_dense(&anywhere, &x.x, &anywhere), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sparse_add(&x.x, &x.x, &x.x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(x.info().count, 2);
  Sparse turned, sticky;
  OK(aster_ml_sparse_transpose(&turned.x, &x.x));
  EXPECT_EQ(aster_ml_sparse_mul(&bad.x, &x.x, &turned.x), ASTER_ML_SHAPE);
  aster_ml_tensor out{};
  EXPECT_EQ(aster_ml_sparse_matmul_dense(&out, &x.x, &c.t), ASTER_ML_SHAPE);
  const int64_t axes[] = {0, -2, 2};
  EXPECT_EQ(aster_ml_sparse_sum(&out, &x.x, 2, axes), ASTER_ML_RANGE);  // one axis twice
  EXPECT_EQ(aster_ml_sparse_sum(&out, &x.x, 1, axes + 2), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_sparse_sum(&out, &x.x, 0, axes), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_sparse_cast(&bad.x, &x.x, ASTER_ML_DTYPE_WEAKINT), ASTER_ML_DTYPE);
  Lent<int32_t> tbb(second, ASTER_ML_DTYPE_TBB32);
  OK(aster_ml_sparse_init(&sticky.x, &world.context, 2, 2, 3, &a.t, &b.t, &tbb.t));
  EXPECT_EQ(aster_ml_sparse_add(&bad.x, &x.x, &sticky.x), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_sparse_mul(&bad.x, &sticky.x, &x.x), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_sparse_matmul_dense(&out, &turned.x, &tbb.t), ASTER_ML_DTYPE);
  aster_ml_sparse stale = y.x;
  EXPECT_EQ(aster_ml_sparse_free(&y.x), 0);
  EXPECT_EQ(aster_ml_sparse_transpose(&bad.x, &stale), ASTER_ML_ARGUMENT);
  // Nothing: no rows, no columns.
  std::vector<int32_t> zero = {0}, none;
  std::vector<float> nothing;
  Lent<int32_t> z(zero), n(none);
  Lent<float> v(nothing);
  Sparse empty;
  OK(aster_ml_sparse_init(&empty.x, &world.context, 2, 0, 3, &z.t, &n.t, &v.t));
  EXPECT_EQ(aster_ml_sparse_max(&out, &empty.x, 0, nullptr), ASTER_ML_SHAPE);
  const int64_t columns = 1;
  OK(aster_ml_sparse_max(&out, &empty.x, 1, &columns));
  EXPECT_EQ(out.shape[0], 0u);
  EXPECT_EQ(aster_ml_tensor_free(&out), 0);
}

}  // namespace
}  // namespace aster::sparse
