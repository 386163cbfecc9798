// Realised constants are tensors like others: each has storage of its own.
#include "aster.h"

namespace programs {
namespace {

TEST(Constants, EqualOnesAreApart) {
  Session s;
  Tensor a = Tensor::zeros(3), b = Tensor::zeros(3);
  OK(realize(a, b));
  OK((a += 1).realize());
  EXPECT_EQ(read(a), (Floats{1, 1, 1}));
  EXPECT_EQ(read(b), (Floats{0, 0, 0}));
}

// The 0 of relu is the node of zeros(3): writes to one must not reach the other.
TEST(Constants, StayConstantInOtherExpressions) {
  Session s;
  Tensor x({-1.f, 2.f, -3.f}), y = x.relu(), a = Tensor::zeros(3);
  OK(a.realize());
  OK((a += 1).realize());
  EXPECT_EQ(read(y), (Floats{0, 2, 0}));
}

TEST(Constants, OfEveryDtype) {
  Session s;
  for (int32_t dtype = ASTER_ML_DTYPE_BOOL; dtype <= ASTER_ML_DTYPE_FLOAT64; ++dtype) {
    Tensor x = Tensor::ones({2, 1}, aster_ml::Dtype{dtype});
    OK(x.realize());
    EXPECT_EQ(read(x), (Floats{1, 1})) << aster_ml_dtype_name(dtype);
  }
  Tensor weak(2.5);
  OK(weak.realize());
  EXPECT_EQ(weak.item(), 2.5);
  EXPECT_EQ(weak.dtype(), aster_ml::dtypes::float32);
}

// What is weak is stored as another dtype, and may read what is computed beside it.
TEST(Constants, WeakInputsReadOtherInputs) {
  Session s;
  Tensor bytes = Tensor({1.f, 2.f, 3.f}).cast(aster_ml::dtypes::uint8);
  Tensor weak = bytes.hardsigmoid();
  const aster_ml::Program program({bytes, weak}, [=] { return bytes + weak; });
  OK(program.ok());
  EXPECT_EQ(read(bytes), (Floats{1, 2, 3}));
  EXPECT_EQ(weak.dtype(), aster_ml::dtypes::float32);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(read(weak)[i], static_cast<float>(i + 1) / 6 + 0.5f, 1e-6f);
}

}  // namespace
}  // namespace programs
