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
T on(Session& s, const std::vector<float>& values, int32_t device) {
  aster_ml_tensor t{};
  const size_t shape[] = {values.size()};
  EXPECT_OK(aster_ml_tensor_init(&t, &s.context, ASTER_ML_DTYPE_FLOAT32, device, 1, shape));
  EXPECT_OK(aster_ml_tensor_copy_in(&t, values.data(), values.size()));
  T out = make(aster_ml_lazy_from_tensor, &s.context, &t);
  EXPECT_OK(aster_ml_tensor_free(&t));
  return out;
}

TEST(Device, OwnBackendComputesThroughTheHost) {
  {
    Session s;
    T x = on(s, {1, 2, 3}, toy()), y = x * x + number(s, 1);
    EXPECT_EQ(read(y), (std::vector<float>{2, 5, 10}));
    int32_t device = 0;
    EXPECT_OK(aster_ml_lazy_device(&device, &y.h));
    EXPECT_EQ(device, toy());
    T next = x + number(s, 1);
    EXPECT_OK(aster_ml_lazy_assign(&x.h, &next.h));
    EXPECT_EQ(read(x), (std::vector<float>{2, 3, 4}));
  }
  EXPECT_EQ(g_toy.live, 0);
}

TEST(Device, FailuresOfABackendAreDeviceErrors) {
  Session s;
  T x = on(s, {1, 2}, toy()), y = neg(x);
  g_toy.fail_with = ASTER_ML_DEVICE;
  aster_ml_lazy* handles[] = {&y.h};
  EXPECT_EQ(aster_ml_lazy_realize(handles, 1), ASTER_ML_DEVICE);
  g_toy.fail_with = 0;
  EXPECT_EQ(read(y), (std::vector<float>{-1, -2}));
}

TEST(Device, OperandsOfTwoDevicesDoNotMix) {
  Session s;
  T a = on(s, {1, 2}, ASTER_ML_DEVICE_CPU), b = on(s, {1, 2}, ASTER_ML_DEVICE_CPU + 1), sum = a + b;
  aster_ml_lazy* handles[] = {&sum.h};
  EXPECT_EQ(aster_ml_lazy_realize(handles, 1), ASTER_ML_DEVICE);
  EXPECT_EQ(read(b * b), (std::vector<float>{1, 4}));
}

TEST(Device, ReferenceComputesWithoutCompiling) {
  Session s;
  T x = on(s, {1, 2}, ASTER_ML_DEVICE_REFERENCE);
  EXPECT_EQ(read(x + x), (std::vector<float>{2, 4}));
  EXPECT_EQ(s.counters().interpreted, 1u);
}

}  // namespace
}  // namespace programs
