// Queues and events of the C++ wrapper.
#include <dlfcn.h>

#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Event;
using aster_ml::Program;
using aster_ml::Queue;
using aster_ml::Tensor;

class QueueTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

int32_t half(void* self) {
  float* const x = static_cast<float*>(self);
  x[0] /= 2;
  return ASTER_ML_OK;
}
int32_t refuse(void*) { return ASTER_ML_IO; }

TEST_F(QueueTest, ProgramsAndFunctionsInOrder) {
  const Tensor x = Tensor({1.f, 2.f}).realized(), y = Tensor({0.f, 0.f}).realized();
  const Program twice({x}, [&] { return x * 2; });
  const Queue queue;
  OK(queue.ok());
  const Event begin = Event::open();
  EXPECT_TRUE(queue.barrier({begin}).ok());
  const Event ran = queue.run(twice, {x.view()}, {y.view()});
  const Event halved = queue.call(half, y.data<float>());
  EXPECT_FALSE(halved.is_done());
  EXPECT_OK(begin.signal());
  EXPECT_OK(halved.wait());
  EXPECT_TRUE(ran.is_done());
  EXPECT_EQ(floats(y), (Floats{1, 4}));
  EXPECT_OK(queue.wait());
}

TEST_F(QueueTest, EventsOfOpencl) {
  EXPECT_EQ(Event::from_opencl(nullptr).ok(), false);
  const Event open = Event::open();
  EXPECT_EQ(open.to_opencl(ASTER_ML_DEVICE_CPU), nullptr);
  size_t offset = 0;
  EXPECT_EQ(aster_ml::opencl_memory(Tensor({1.f}).realized().view(), &offset), nullptr);
  EXPECT_EQ(aster_ml::opencl_handles(ASTER_ML_DEVICE_CPU).context, nullptr);
  if (aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL) == 0) return;
  EXPECT_NE(aster_ml::opencl_handles().context, nullptr);
  void* const theirs = open.to_opencl();
  ASSERT_NE(theirs, nullptr);
  const Event again = Event::from_opencl(theirs);
  EXPECT_FALSE(again.is_done());
  EXPECT_OK(open.signal());
  EXPECT_OK(again.wait());
  void* const driver = dlopen("libOpenCL.so.1", RTLD_NOW);
  ASSERT_NE(driver, nullptr);
  using Release = int32_t (*)(void*);
  const auto release = reinterpret_cast<Release>(dlsym(driver, "clReleaseEvent"));
  EXPECT_EQ(release(theirs), 0);
  EXPECT_EQ(dlclose(driver), 0);
}

TEST_F(QueueTest, Mistakes) {
  const Queue queue;
  EXPECT_FALSE(queue.call(refuse, nullptr).wait());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_IO);
  EXPECT_FALSE(queue.wait());
  aster_ml::clear_error();
  EXPECT_OK(queue.wait());
  EXPECT_FALSE(queue.call(nullptr, nullptr).ok());
  EXPECT_FALSE(Event().wait());
  EXPECT_FALSE(Event().is_done());
  EXPECT_FALSE(queue.barrier({Event()}).ok());
}

}  // namespace
}  // namespace cpp_test
