// The eager family against the lazy one and by hand, on strided and foreign memory.
#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

class Eager : public ::testing::TestWithParam<bool> {
 protected:
  const World world{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Eager, ::testing::Values(true, false), [](const auto& runtime) {
  return runtime.param ? "interpreted" : "compiled";
});

struct Owned {
  aster_ml_tensor t{};
  ~Owned() { aster_ml_tensor_free(&t); }
  Floats floats() const {
    Floats v(aster_ml_tensor_count(&t));
    EXPECT_EQ(t.dtype, ASTER_ML_DTYPE_FLOAT32);
    EXPECT_EQ(aster_ml_tensor_copy_out(v.data(), &t, v.size()), 0) << message();
    return v;
  }
};

TEST_P(Eager, ComputesAtOnce) {
  const size_t shape[] = {2, 3}, row[] = {3};
  const Floats data{1, 2, 3, 4, 5, 6}, three{10, 20, 30};
  Owned x, y, sum, root, product, total, chosen, small, whole;
  OK(aster_ml_tensor_from_data(&x.t, world, data.data(), ASTER_ML_DTYPE_FLOAT32, 2, shape));
  OK(aster_ml_tensor_from_data(&y.t, world, three.data(), ASTER_ML_DTYPE_FLOAT32, 1, row));
  OK(aster_ml_tensor_add(&sum.t, world, &x.t, &y.t));
  EXPECT_EQ(sum.floats(), (Floats{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(sum.t.ndim, 2u);
  EXPECT_EQ(sum.t.shape[1], 3u);
  OK(aster_ml_tensor_square(&root.t, world, &x.t));
  EXPECT_EQ(root.floats(), (Floats{1, 4, 9, 16, 25, 36}));
  OK(aster_ml_tensor_matmul(&product.t, world, &x.t, &y.t));
  EXPECT_EQ(product.floats(), (Floats{140, 320}));
  const int64_t axis = 0;
  OK(aster_ml_tensor_sum(&total.t, world, &x.t, 1, &axis, 0));
  EXPECT_EQ(total.floats(), (Floats{5, 7, 9}));
  OK(aster_ml_tensor_lt(&small.t, world, &x.t, &y.t));
  EXPECT_EQ(small.t.dtype, ASTER_ML_DTYPE_BOOL);
  OK(aster_ml_tensor_where(&chosen.t, world, &small.t, &x.t, &y.t));
  EXPECT_EQ(chosen.floats(), data);
  OK(aster_ml_tensor_cast(&whole.t, world, &x.t, ASTER_ML_DTYPE_INT32));
  EXPECT_EQ(whole.t.dtype, ASTER_ML_DTYPE_INT32);
}

TEST_P(Eager, ResultsNeverShareMemoryWithOperands) {
  const size_t shape[] = {2};
  const Floats data{1, 2};
  Owned x, same;
  OK(aster_ml_tensor_from_data(&x.t, world, data.data(), ASTER_ML_DTYPE_FLOAT32, 1, shape));
  OK(aster_ml_tensor_cast(&same.t, world, &x.t, ASTER_ML_DTYPE_FLOAT32));
  static_cast<float*>(x.t.storage.data)[0] = 9;
  EXPECT_EQ(same.floats(), data);
}

TEST_P(Eager, StridedAndForeignMemory) {
  Floats data{1, 2, 3, 4, 5, 6};
  aster_ml_buffer memory;
  OK(aster_ml_buffer_from_memory(&memory, world, data.data(), data.size() * 4,
                                 ASTER_ML_DTYPE_FLOAT32, 0, 1, nullptr, nullptr));
  const size_t shape[] = {3, 2};
  const ptrdiff_t strides[] = {1, 3};
  Owned x, y;
  OK(aster_ml_tensor_from_buffer(&x.t, world, &memory, 0, 2, shape, strides));
  OK(aster_ml_tensor_neg(&y.t, world, &x.t));
  EXPECT_EQ(y.floats(), (Floats{-1, -4, -2, -5, -3, -6}));
  // Memory the library was never told of.
  size_t plain_shape[] = {6};
  ptrdiff_t plain_strides[] = {1};
  const aster_ml_tensor plain{{data.data(), 24, ASTER_ML_DTYPE_FLOAT32, 65536},
                              0,
                              1,
                              plain_shape,
                              plain_strides,
                              ASTER_ML_DTYPE_FLOAT32,
                              65536};
  Owned z;
  OK(aster_ml_tensor_neg(&z.t, world, &plain));
  EXPECT_EQ(z.floats(), (Floats{-1, -2, -3, -4, -5, -6}));
  OK(aster_ml_buffer_free(&memory));
}

TEST_P(Eager, EmptyAndZeroDimensional) {
  const size_t none[] = {0, 3};
  Owned x, y, total, one;
  OK(aster_ml_tensor_from_data(&x.t, world, nullptr, ASTER_ML_DTYPE_FLOAT32, 2, none));
  OK(aster_ml_tensor_exp(&y.t, world, &x.t));
  EXPECT_EQ(aster_ml_tensor_count(&y.t), 0u);
  OK(aster_ml_tensor_sum(&total.t, world, &x.t, 0, nullptr, 0));
  EXPECT_EQ(total.floats(), (Floats{0}));
  EXPECT_EQ(total.t.ndim, 0u);
  OK(aster_ml_tensor_cos(&one.t, world, &total.t));
  EXPECT_EQ(one.floats(), (Floats{1}));
}

TEST(EagerBadInput, IsRefused) {
  const World world;
  const size_t shape[] = {2};
  const Floats data{1, 2};
  Owned x, out;
  OK(aster_ml_tensor_from_data(&x.t, world, data.data(), ASTER_ML_DTYPE_FLOAT32, 1, shape));
  EXPECT_EQ(aster_ml_tensor_exp(&x.t, world, &x.t), ASTER_ML_ARGUMENT);
  EXPECT_EQ(x.floats(), data);
  EXPECT_EQ(aster_ml_tensor_exp(nullptr, world, &x.t), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_exp(&out.t, world, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_exp(&out.t, nullptr, &x.t), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_bitwise_not(&out.t, world, &x.t), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_tensor_cast(&out.t, world, &x.t, ASTER_ML_DTYPE_WEAKINT), ASTER_ML_DTYPE);
  aster_ml_tensor beyond = x.t;
  beyond.byte_offset = 4;
  EXPECT_EQ(aster_ml_tensor_exp(&out.t, world, &beyond), ASTER_ML_RANGE) << message();
  aster_ml_tensor shapeless = x.t;
  shapeless.shape = nullptr;
  EXPECT_EQ(aster_ml_tensor_exp(&out.t, world, &shapeless), ASTER_ML_ARGUMENT);
  aster_ml_tensor odd = x.t;
  odd.dtype = 99;
  EXPECT_EQ(aster_ml_tensor_exp(&out.t, world, &odd), ASTER_ML_ARGUMENT);
  EXPECT_EQ(out.t.storage.data, nullptr);
}

}  // namespace
}  // namespace aster::tensor::test
