// Tensors of the C++ wrapper: creation, operators, methods, indexing, gradients, arrays.
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::all;
using aster_ml::Array;
using aster_ml::ellipsis;
using aster_ml::none;
using aster_ml::Slice;
using aster_ml::Tensor;
namespace dtypes = aster_ml::dtypes;

class TensorTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(TensorTest, ReadsLikeTheFormula) {
  const Tensor x({1., 2., 3.}), w({4., 5., 6.});
  const Tensor loss = (x * w + 1).sum();
  const Tensor gradient = loss.gradient(w);
  const std::vector<Tensor> both = loss.gradient({x, w}, 2.0);
  OK(loss.realize());
  EXPECT_EQ(loss.item(), 35);
  EXPECT_EQ(loss.dtype(), dtypes::float32);
  EXPECT_EQ(floats(gradient), (Floats{1, 2, 3}));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(floats(both[0]), (Floats{8, 10, 12}));
}

TEST_F(TensorTest, ListsHaveTheDtypesOfPython) {
  EXPECT_EQ(Tensor({1, 2}).dtype(), dtypes::int32);
  EXPECT_EQ(Tensor({1.5, 2.0}).dtype(), dtypes::float32);
  EXPECT_EQ(Tensor({true, false}).dtype(), dtypes::bool_);
  EXPECT_EQ(Tensor(std::vector<double>{1, 2}).dtype(), dtypes::float64);
  EXPECT_EQ(Tensor(std::vector<uint8_t>{1, 2, 3, 4}, {2, 2}).shape(), (Shape{2, 2}));
  const Tensor rows({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(ints(rows), (Ints{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor({7}).shape(), (Shape{1}));
  EXPECT_EQ(Tensor(7).ndim(), 0u);
}

TEST_F(TensorTest, OperatorsTakeNumbersOnEitherSide) {
  const Tensor x({1., 2., 4.});
  EXPECT_EQ(floats(2 * x - 1.0), (Floats{1, 3, 7}));
  EXPECT_EQ(floats(8 / x), (Floats{8, 4, 2}));
  EXPECT_EQ(floats(-x), (Floats{-1, -2, -4}));
  EXPECT_EQ(ints(x > 1.5), (Ints{0, 1, 1}));
  EXPECT_EQ(ints(2 == x), (Ints{0, 1, 0}));
  EXPECT_EQ((x + 2.5).dtype(), dtypes::float32);
  const Tensor i({5, 6, 7});
  EXPECT_EQ(ints(i % 4), (Ints{1, 2, 3}));
  EXPECT_EQ(ints((i & 3) | (i << 4)), (Ints{81, 98, 115}));
  EXPECT_EQ(ints((i ^ 1) >> 1), (Ints{2, 3, 3}));
  EXPECT_EQ((i + 1).dtype(), dtypes::int32);
  EXPECT_EQ(ints(~i), (Ints{-6, -7, -8}));
  EXPECT_EQ(floats((x > 1.5).where(x, 0.0)), (Floats{0, 2, 4}));
}

TEST_F(TensorTest, MethodsHaveTheDefaultsOfTinygrad) {
  const Tensor x({{1., 5., 2.}, {4., 0., 3.}});
  EXPECT_EQ(x.sum().item(), 15);
  EXPECT_EQ(floats(x.sum(0)), (Floats{5, 5, 5}));
  EXPECT_EQ(x.sum({0, 1}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(x.sum(1, false, dtypes::float64).dtype(), dtypes::float64);
  EXPECT_EQ(floats(x.max(-1)), (Floats{5, 4}));
  EXPECT_NEAR(x.var().item(), 3.5, 1e-6);  // of n - 1
  EXPECT_EQ(floats(x.T().flatten()), (Floats{1, 4, 5, 0, 2, 3}));
  EXPECT_EQ(x.reshape({-1, 2}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.squeeze().shape(), (Shape{2, 3}));
  EXPECT_EQ(floats(x.clamp(1, 4).flatten()), (Floats{1, 4, 2, 4, 1, 3}));
  EXPECT_NEAR(x.softmax().sum().item(), 2, 1e-6);
  auto [values, indices] = x.sort();
  EXPECT_EQ(floats(values.flatten()), (Floats{1, 2, 5, 0, 3, 4}));
  EXPECT_EQ(ints(indices.flatten()), (Ints{0, 2, 1, 1, 2, 0}));
  auto [q, r] = x.qr();
  const Floats again = floats(q.matmul(r).flatten());
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(again[i], floats(x.flatten())[i], 1e-5);
  auto [u, s, vt] = x.svd();
  EXPECT_EQ(u.shape(), (Shape{2, 2}));
  EXPECT_EQ(s.shape(), (Shape{2}));
  EXPECT_EQ(vt.shape(), (Shape{3, 3}));
  EXPECT_EQ(floats(x.pad({0, 1}, {0, 0}, 9)[{0, 0}]), (Floats{9}));
  EXPECT_EQ(floats(Tensor::cat({x, x + 1}, 1)[0]), (Floats{1, 5, 2, 2, 6, 3}));
  EXPECT_EQ(Tensor::stack({x, x}).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(Tensor::einsum("ij,kj->ik", {x, x}).shape(), (Shape{2, 2}));
  EXPECT_EQ(x.rearrange("a (b c) -> (a b) c", {{"b", 3}}).shape(), (Shape{6, 1}));
}

TEST_F(TensorTest, Creation) {
  EXPECT_EQ(ints(Tensor::arange(4)), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(ints(Tensor::arange(4, 0, -2)), (Ints{4, 2}));
  EXPECT_EQ(floats(Tensor::full({2}, 1.5)), (Floats{1.5, 1.5}));
  EXPECT_EQ(Tensor::full({2}, 7).dtype(), dtypes::int32);
  EXPECT_EQ(floats(Tensor::eye(2).flatten()), (Floats{1, 0, 0, 1}));
  EXPECT_EQ(Tensor::zeros({2, 3}, dtypes::int8).dtype(), dtypes::int8);
  EXPECT_EQ(Tensor::ones(3).shape(), (Shape{3}));
  Tensor::manual_seed(3);
  const Floats first = floats(Tensor::randn({8}));
  Tensor::manual_seed(3);
  EXPECT_EQ(floats(Tensor::randn({8})), first);
  for (const float v : floats(Tensor::uniform({64}, -2, -1))) EXPECT_TRUE(v >= -2 && v < -1);
  for (const int v : ints(Tensor::randint({64}))) EXPECT_TRUE(v >= 0 && v < 10);
}

TEST_F(TensorTest, Devices) {
  const aster_ml::Context context;
  EXPECT_EQ(context.device(), ASTER_ML_DEVICE_CPU);
  const Tensor x = Tensor::arange(4) + 1;
  const Tensor there = x.to(ASTER_ML_DEVICE_REFERENCE);
  EXPECT_EQ(there.device(), ASTER_ML_DEVICE_REFERENCE);
  EXPECT_EQ(ints(there), (Ints{1, 2, 3, 4}));
  EXPECT_TRUE(context.set_device(ASTER_ML_DEVICE_REFERENCE));
  EXPECT_EQ(Tensor::ones(3).realized().device(), ASTER_ML_DEVICE_REFERENCE);
  EXPECT_FALSE(context.set_device(-1));
}

TEST_F(TensorTest, DefaultDTypes) {
  const aster_ml::Context context;
  EXPECT_TRUE(context.set_default_dtype(ASTER_ML_DTYPE_FLOAT64));
  EXPECT_EQ(context.default_dtype(ASTER_ML_DTYPE_WEAKFLOAT), ASTER_ML_DTYPE_FLOAT64);
  EXPECT_EQ(context.default_dtype(ASTER_ML_DTYPE_WEAKINT), ASTER_ML_DTYPE_INT32);
  EXPECT_EQ(Tensor::arange(3).exp().dtype(), dtypes::float64);
  EXPECT_FALSE(context.set_default_dtype(ASTER_ML_DTYPE_BOOL));
}

TEST_F(TensorTest, IndexesAsPythonDoes) {
  const Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  EXPECT_EQ((x[{1, 2, 3}].item<int>()), 23);
  EXPECT_EQ(ints(x[-1][0]), (Ints{12, 13, 14, 15}));
  EXPECT_EQ(ints(x[{0, Slice(1, none), Slice(none, none, -2)}].flatten()), (Ints{7, 5, 11, 9}));
  EXPECT_EQ((x[{ellipsis, 0}].shape()), (Shape{2, 3}));
  EXPECT_EQ((x[{none, 0, all(), none}].shape()), (Shape{1, 3, 1, 4}));
  EXPECT_EQ(ints(x[{0, Tensor({2, 0}), 1}]), (Ints{9, 1}));
  EXPECT_EQ(ints(x[x % 5 == 0]), (Ints{0, 5, 10, 15, 20}));
  EXPECT_EQ(ints(x[0][0] + x[{1, 0}]), (Ints{12, 14, 16, 18}));
}

TEST_F(TensorTest, AssignsToParts) {
  Tensor x = Tensor::zeros({2, 3}).contiguous().realized();
  const Tensor other = x;  // the same tensor
  x[{0, all()}] = Tensor({1., 2., 3.});
  x[{1, Slice(1, none)}] = 7;
  x[{all(), 0}] += 10;
  EXPECT_EQ(floats(x.flatten()), (Floats{11, 2, 3, 10, 7, 7}));
  EXPECT_EQ(floats(other.flatten()), floats(x.flatten()));
  x[x > 9.0] = 0;
  x[1] = x[0];
  EXPECT_EQ(floats(x.flatten()), (Floats{0, 2, 3, 0, 2, 3}));
  x += 1;
  x *= x;
  EXPECT_EQ(floats(other.flatten()), (Floats{1, 9, 16, 1, 9, 16}));
  OK(x.assign(Tensor::ones({2, 3})));
  EXPECT_EQ(other.sum().item(), 6);
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_OK) << aster_ml::error().message;
}

TEST_F(TensorTest, Parts) {
  const Tensor x = Tensor::arange(7);
  const std::vector<Tensor> parts = x.split(3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(ints(parts[2]), (Ints{6}));
  EXPECT_EQ(x.split({5, 2}).size(), 2u);
  EXPECT_EQ(ints(x.chunk(2)[1]), (Ints{4, 5, 6}));
  const std::vector<Tensor> grid = Tensor::meshgrid({x, Tensor({1, 2})});
  ASSERT_EQ(grid.size(), 2u);
  EXPECT_EQ(grid[1].shape(), (Shape{7, 2}));
}

TEST_F(TensorTest, ConvolutionsAndPools) {
  const Tensor x = Tensor::arange(16).cast(dtypes::float32).reshape({1, 1, 4, 4});
  EXPECT_EQ(floats(x.max_pool2d().flatten()), (Floats{5, 7, 13, 15}));
  EXPECT_EQ(floats(x.avg_pool2d().flatten()), (Floats{2.5, 4.5, 10.5, 12.5}));
  auto [values, indices] = x.max_pool2d_with_indices(2);
  EXPECT_EQ(ints(indices.flatten()), (Ints{5, 7, 13, 15}));
  EXPECT_EQ(values.max_unpool2d(indices).sum().item(), 40);
  const Tensor ones = Tensor::ones({1, 1, 3, 3});
  EXPECT_EQ(floats(x.conv2d(ones).flatten()), (Floats{45, 54, 81, 90}));
  aster_ml::Windows padded;
  padded.padding = {1};
  EXPECT_EQ(x.conv2d(ones, {}, padded).shape(), (Shape{1, 1, 4, 4}));
  padded.padding = {2, 0, 0, 1};  // left, right, top, bottom
  EXPECT_EQ(x.conv2d(ones, {}, padded).shape(), (Shape{1, 1, 3, 4}));
  EXPECT_EQ(x.conv_transpose2d(ones).shape(), (Shape{1, 1, 6, 6}));
  EXPECT_EQ(x.reshape({1, 4, 4}).max_pool2d({2}).shape(), (Shape{1, 4, 2}));  // one axis
}

TEST_F(TensorTest, ReadsAndLendsStorage) {
  const Tensor x({{1.5, 2.5}});
  EXPECT_EQ(x.to_vector<int>(), (Ints{1, 2}));
  EXPECT_EQ(x.data<int32_t>(), nullptr);
  float* const data = x.data<float>();
  ASSERT_NE(data, nullptr);
  data[0] = 8;
  EXPECT_EQ(floats(x), (Floats{8, 2.5}));
  EXPECT_TRUE(x.is_realized());
  EXPECT_TRUE(x.is_stored());
  EXPECT_FALSE((x + 1).is_stored());
  EXPECT_TRUE(x.shares_storage(x));
  EXPECT_FALSE(x.shares_storage(Tensor({1.f}).realized()));
  const Tensor large(std::vector<int64_t>{(int64_t{1} << 60) + 1});
  EXPECT_EQ(large.item<int64_t>(), (int64_t{1} << 60) + 1);
  EXPECT_TRUE((large == large).item<bool>());
  const Tensor square({{1., 2.}, {3., 4.}}), turned = square.transpose(0, 1);
  const aster_ml_tensor lent = turned.view_strided();
  EXPECT_EQ(lent.storage.data, square.view().storage.data);
  EXPECT_EQ(lent.strides[0], 1);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&lent), 0);
}

TEST_F(TensorTest, ShowsItsGraph) {
  const Tensor x = Tensor({1., 2.}).exp();
  EXPECT_EQ(x.graph().rfind("digraph", 0), 0u);
  EXPECT_EQ(x.graph(ASTER_ML_GRAPH_SOURCE, ASTER_ML_GRAPH_JSON)[0], '{');
  EXPECT_TRUE(x.graph(99).empty());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
}

TEST_F(TensorTest, ArraysGoOutAndComeInByDlpack) {
  Array a(Floats{1, 2, 3, 4}, {2, 2});
  aster_ml_dlpack_managed* managed = a.to_dlpack();
  ASSERT_NE(managed, nullptr);
  const Array b = Array::from_dlpack(managed);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b.data<float>(), a.data<float>());
  a = {};
  EXPECT_EQ(b.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(Array().to_dlpack(), nullptr);
  EXPECT_FALSE(Array::from_dlpack(nullptr).ok());
}

TEST_F(TensorTest, ArraysComputeAtOnce) {
  const Array a(Floats{1, 2, 3, 4}, {2, 2}), b(Floats{1, 0, 0, 1}, {2, 2});
  EXPECT_EQ(a.matmul(b).add(b).to_vector<float>(), (Floats{2, 2, 3, 5}));
  EXPECT_EQ(a.sum(1).to_vector<float>(), (Floats{3, 7}));
  EXPECT_EQ(a.cast(dtypes::int32).to_vector<int32_t>(), (Ints{1, 2, 3, 4}));
  EXPECT_EQ(a.lazy().sum().item(), 10);
  EXPECT_FALSE(a.add(Array(Floats{1, 2, 3}, {3})).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_FALSE(Array().exp().ok());
  EXPECT_EQ(a.data<float>()[3], 4);
  EXPECT_EQ(a.data<int32_t>(), nullptr);
  EXPECT_EQ(Array().data<float>(), nullptr);
  const Array other(dtypes::float32, {2}, ASTER_ML_DEVICE_CPU + 1);
  EXPECT_EQ(other.lazy().device(), ASTER_ML_DEVICE_CPU + 1);
}

}  // namespace
}  // namespace cpp_test
