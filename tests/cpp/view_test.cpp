// Views of the C++ wrapper.
#include "aster_ml/matrix.hpp"
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Array;
using aster_ml::View;
namespace dtypes = aster_ml::dtypes;

class ViewTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  Floats memory_ = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  aster_ml::Context context_{one_thread()};
};

TEST_F(ViewTest, SaysWhatTheMemoryIs) {
  const View v = View::of(memory_.data(), {3, 4});
  ASSERT_TRUE(v.ok());
  EXPECT_EQ(v.shape(), (std::vector<size_t>{3, 4}));
  EXPECT_EQ(v.strides(), (std::vector<ptrdiff_t>{16, 4}));
  EXPECT_EQ(v.count(), 12u);
  EXPECT_EQ(v.dtype(), dtypes::float32);
  EXPECT_EQ(v.device(), ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(v.kind(), ASTER_ML_MEMORY_NORMAL);
  EXPECT_EQ(v.layout(), ASTER_ML_LAYOUT_STRIDED);
  EXPECT_TRUE(v.is_contiguous() && v.is_writable() && v.is_host() && v.is_shared());
  EXPECT_FALSE(v.is_device() || v.is_pinned());
  EXPECT_TRUE(v.is_layout(ASTER_ML_LAYOUT_ROW_MAJOR));
  const Floats& constant = memory_;
  EXPECT_FALSE(View::of(constant.data(), {12}).is_writable());
  EXPECT_EQ(v.flags() & ASTER_ML_VIEW_READ_ONLY, 0u);
}

TEST_F(ViewTest, SlicesHalvesAndLayouts) {
  const View v = View::of(memory_.data(), {3, 4});
  const View turned = v.flip(0).slice(1, 3, -1, -2);
  EXPECT_EQ(turned.owner(), v.owner());
  EXPECT_EQ(turned.array().to_vector<float>(), (Floats{11, 9, 7, 5, 3, 1}));
  EXPECT_EQ(v.ensure_contiguous().owner(), v.owner());
  EXPECT_EQ(v.copy().owner(), v.owner());
  EXPECT_NE(v.copy().get()->shape, v.get()->shape);
  const View straight = turned.ensure_contiguous();
  EXPECT_NE(straight.owner(), v.owner());
  EXPECT_TRUE(straight.is_contiguous());
  const View columns = v.to_layout(ASTER_ML_LAYOUT_COLUMN_MAJOR);
  EXPECT_EQ(columns.strides(), (std::vector<ptrdiff_t>{4, 12}));
  EXPECT_EQ(columns.array().to_vector<float>(), memory_);
  EXPECT_EQ(v.to_device(ASTER_ML_DEVICE_REFERENCE).device(), ASTER_ML_DEVICE_REFERENCE);
  const auto [low, high] = v.split_at(1, 1);
  ASSERT_TRUE(low.ok() && high.ok());
  const Floats ones(3, 1.0f);
  aster_ml_tensor_copy_in(low.array().get(), ones.data(), 3);
  EXPECT_EQ(memory_, (Floats{1, 1, 2, 3, 1, 5, 6, 7, 1, 9, 10, 11}));
}

// Matrices of fixed size over the memory of tensors, which they read and write in place.
TEST_F(ViewTest, FixedMatricesOverTensors) {
  using aster_ml::matrix;
  const Array x(Floats{2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 4}, {4, 4});
  const auto view = aster_ml::view_of<float, 2, 4, 4>(*x.get());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view.data(), x.data<float>());
  // Rows of the tensor are columns of a matrix.
  matrix<float, 4, 4>* const turned = aster_ml::matrix_in<4, 4>(view.transposed());
  ASSERT_NE(turned, nullptr);
  EXPECT_EQ(static_cast<const void*>(turned), x.data<float>());
  EXPECT_EQ(aster_ml::determinant(*turned), 32);
  matrix<float, 4, 4> kept = *turned;
  ASSERT_TRUE(aster_ml::inverse(*turned, kept));
  EXPECT_EQ(kept * *turned, (matrix<float, 4, 4>::identity()));
  EXPECT_EQ(x.to_vector<float>()[0], 0.5f);
  EXPECT_EQ(x.to_vector<float>()[4], -0.25f);
  // Of a tensor that is computed.
  aster_ml::Tensor y(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  y = y * 2.0f;
  ASSERT_TRUE(y.realize());
  const aster_ml_tensor concrete = y.view();
  const auto some = aster_ml::view_of<const float, 2>(concrete);
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some(3, 1), 16);
  matrix<float, 2, 4> product;
  EXPECT_TRUE(aster_ml::matmul(aster_ml::view_of(product), some.transposed(), view));
  EXPECT_EQ(product(1, 3), 16 * 0.25f);
  EXPECT_FALSE((aster_ml::view_of<aster_ml::tbb32, 2>(concrete).ok()));
}

TEST_F(ViewTest, ArraysAndPartsOfBuffers) {
  View v, part;
  {
    const Array x(Floats{1, 2, 3, 4, 5, 6}, {2, 3});
    v = View(x);
    part = View(x.get()->storage, 4, 16, {2}, {8});
  }
  EXPECT_EQ(v.array().to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));  // it keeps the memory
  EXPECT_EQ(part.array().to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(part.owner(), v.owner());
}

TEST_F(ViewTest, FailuresGiveEmptyViews) {
  const View v = View::of(memory_.data(), {3, 4});
  EXPECT_FALSE(v.slice(0, 2, 5).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  EXPECT_FALSE(View::of(memory_.data(), {2, 2}, {4, 4}).split_at(0, 1).first.ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_FALSE(View::of(memory_.data(), {3, 4}, {16}).ok());
  EXPECT_STREQ(aster_ml::error().message, "not as many strides as axes");
  aster_ml::clear_error();
  const View none;
  EXPECT_FALSE(none.flip(0).ok() || none.array().ok() || none.is_host());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_EQ(none.count(), 0u);
}

}  // namespace
}  // namespace cpp_test
