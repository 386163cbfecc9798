// Sparse matrices of the C++ wrapper.
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Array;
using aster_ml::Sparse;
using aster_ml::SparseFormat;

class SparseTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(SparseTest, OfArraysAndBack) {
  const Array row(std::vector<int32_t>{1, 0, 1}, {3}), column(std::vector<int32_t>{2, 0, 2}, {3});
  const Array values(std::vector<float>{1, 2, 3}, {3});
  const Sparse coo(SparseFormat::coo, 2, 3, row, column, values);
  ASSERT_TRUE(coo.ok()) << aster_ml::error().message;
  EXPECT_EQ(coo.count(), 3);
  EXPECT_FALSE(coo.is_canonical());
  const Sparse csr = coo.compress();
  EXPECT_EQ(csr.count(), 2);
  EXPECT_EQ(csr.format(), SparseFormat::csr);
  EXPECT_EQ(csr.dense().to_vector<float>(), (std::vector<float>{2, 0, 0, 0, 0, 4}));
  EXPECT_EQ(std::get<0>(csr.arrays()).to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(std::get<2>(coo.arrays()).data<float>(), values.data<float>());
  EXPECT_EQ(csr.transpose().dense().to_vector<float>(), (std::vector<float>{2, 0, 0, 0, 0, 4}));
  EXPECT_EQ(csr.transpose().rows(), 3);
  EXPECT_EQ(csr.slice(1, 2).dense().to_vector<float>(), (std::vector<float>{0, 0, 4}));
  EXPECT_EQ(csr.cast(aster_ml::dtypes::int8).dtype(), aster_ml::dtypes::int8);
}

TEST_F(SparseTest, Arithmetic) {
  const Array dense(std::vector<float>{1, 0, 2, 0, 3, 0}, {2, 3});
  const Sparse a = Sparse::from_dense(dense);
  const Array ones(std::vector<float>{1, 1, 1, 1, 1, 1}, {3, 2});
  EXPECT_EQ(a.matmul(ones).to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(a.matmul(a.transpose()).dense().to_vector<float>(), (std::vector<float>{5, 0, 0, 9}));
  EXPECT_EQ((a + a - a).dense().to_vector<float>(), dense.to_vector<float>());
  EXPECT_EQ((a * a).sum().to_vector<float>(), (std::vector<float>{14}));
  EXPECT_EQ(a.sum(0).to_vector<float>(), (std::vector<float>{1, 3, 2}));
  EXPECT_EQ(a.max(1).to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(a.min().to_vector<float>(), (std::vector<float>{0}));
  EXPECT_EQ(a.max().to_vector<float>(), (std::vector<float>{3}));
  EXPECT_EQ(a.min(1).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(a.sum(1).to_vector<float>(), (std::vector<float>{3, 3}));
  const Array tens(std::vector<float>{10, 20, 30}, {3});
  EXPECT_EQ(a.with_values(tens).sum().to_vector<float>(), (std::vector<float>{60}));
}

TEST_F(SparseTest, FailuresAreEmpty) {
  const Array row(std::vector<int32_t>{5}, {1}), values(std::vector<float>{1}, {1});
  const Sparse outside(SparseFormat::coo, 2, 3, row, row, values);
  EXPECT_FALSE(outside.ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_FORMAT);
  EXPECT_FALSE((outside + outside).ok());
  EXPECT_FALSE(outside.dense().ok());
  EXPECT_EQ(outside.rows(), 0);
}

}  // namespace
}  // namespace cpp_test
