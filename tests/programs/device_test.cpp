// Graphs on devices: two CPUs apart, and a caller's own backend registered through the public
// header.
#include "../device/toy_backend.h"
#include "aster.h"

namespace programs {
namespace {

aster_test::ToyDevice g_toy;

int32_t toy() {
  static const int32_t code = [] {
    const aster_ml_backend table = g_toy.table(false);
    int32_t out = 0;
    EXPECT_OK(aster_ml_device_register(&out, "PROGTOY", &table));
    return out;
  }();
  return code;
}

// A tensor with these elements on a device.
Tensor on(int32_t device, const Floats& values) {
  const aster_ml::Array out(aster_ml::dtypes::float32, {values.size()}, device);
  EXPECT_OK(aster_ml_tensor_copy_in(out.get(), values.data(), values.size()));
  return out.lazy();
}

TEST(Device, OwnBackendComputesThroughTheHost) {
  {
    Session s;
    Tensor x = on(toy(), {1, 2, 3}), y = x * x + 1;
    EXPECT_EQ(read(y), (Floats{2, 5, 10}));
    EXPECT_EQ(y.device(), toy());
    EXPECT_OK(x += 1);
    EXPECT_EQ(read(x), (Floats{2, 3, 4}));
  }
  EXPECT_EQ(g_toy.live, 0);
}

TEST(Device, NullSchedulesAndComputesNothing) {
  Session s;
  Tensor x = on(ASTER_ML_DEVICE_NULL, {1, 2, 3}), y = x * x + 1;
  EXPECT_OK(y.realize());
  EXPECT_EQ(y.device(), ASTER_ML_DEVICE_NULL);
  float values[3];
  EXPECT_EQ(aster_ml_lazy_copy_out(values, sizeof(values), y.get()), ASTER_ML_DEVICE);
  EXPECT_OK(x += 1);
  EXPECT_OK(x.realize());
}

TEST(Device, FailuresOfABackendAreDeviceErrors) {
  Session s;
  Tensor x = on(toy(), {1, 2}), y = -x;
  g_toy.fail_with = ASTER_ML_DEVICE;
  EXPECT_FALSE(y.realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DEVICE);
  g_toy.fail_with = 0;
  EXPECT_EQ(read(y), (Floats{-1, -2}));
}

TEST(Device, OperandsOfTwoDevicesMeetOnTheFirst) {
  Session s;
  Tensor a = on(ASTER_ML_DEVICE_CPU, {1, 2}), b = on(ASTER_ML_DEVICE_CPU + 1, {3, 5});
  EXPECT_EQ(read(a + b), (Floats{4, 7}));
  EXPECT_EQ(s.counters().copies, 1u);
  EXPECT_EQ(s.counters().copied_bytes, 8u);
  EXPECT_EQ(read(b * b), (Floats{9, 25}));
}

TEST(Device, ReferenceComputesWithoutCompiling) {
  Session s;
  Tensor x = on(ASTER_ML_DEVICE_REFERENCE, {1, 2});
  EXPECT_EQ(read(x + x), (Floats{2, 4}));
  EXPECT_EQ(s.counters().interpreted, 1u);
}

}  // namespace
}  // namespace programs
