// Kernels of the C++ wrapper.
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Kernel;
using aster_ml::Tensor;

constexpr const char* kSquare =
    "void square(float *y, const float *x, long long begin, long long end) {\n"
    "  for (long long i = begin; i < end; i++) y[i] = x[i] * x[i];\n"
    "}\n";
constexpr const char* kBack =
    "void back(float *dx, const float *x, const float *y, const float *dy, long long begin,\n"
    "          long long end) {\n"
    "  for (long long i = begin; i < end; i++) dx[i] = 2 * x[i] * dy[i];\n"
    "}\n";

class KernelTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(KernelTest, FromCWithAGradient) {
  Kernel square = Kernel::from_source(kSquare, "square", "float32[...] -> float32[...]");
  OK(square.ok());
  EXPECT_EQ(square.operands(), 1u);
  EXPECT_EQ(square.results(), 1u);
  const Tensor x(Floats{1, -2, 3});
  EXPECT_EQ(floats(square({x}) + 1), (Floats{2, 5, 10}));
  EXPECT_OK(square.set_gradient(Kernel::from_source(
      kBack, "back", "float32[...], float32[...], float32[...] -> float32[...]")));
  EXPECT_EQ(floats(square({x}).sum().gradient(x)), (Floats{2, -4, 6}));
}

TEST_F(KernelTest, Mistakes) {
  EXPECT_FALSE(Kernel::from_source("void f(", "f", "float32[...] -> float32[...]").ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_COMPILE);
  aster_ml::clear_error();
  EXPECT_FALSE(Kernel::from_program("program p\n", "float32 -> float32").ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  aster_ml::clear_error();
  EXPECT_FALSE(Kernel()({Tensor(Floats{1})}).ok());
  const Kernel square = Kernel::from_source(kSquare, "square", "float32[...] -> float32[...]");
  aster_ml::clear_error();
  EXPECT_FALSE(square({Tensor(Ints{1})}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
}

}  // namespace
}  // namespace cpp_test
