// OpenCL's table on a loader that was told what to lack and what to fail: $OPENCL_STUB says which
// (tests.cmake); without it nothing is tested here.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "aster_ml/buffer.h"
#include "base/context.h"
#include "device/device.h"
#include "device/native.h"
#include "runtime/opencl/backend.h"
#include "runtime/opencl/native.h"

namespace aster::runtime::opencl {
namespace {

std::string mode() {
  const char* const out = std::getenv("OPENCL_STUB");
  return out != nullptr ? out : "";
}
std::string message() {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  return error.message;
}

class OpenclStub : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mode().empty()) GTEST_SKIP() << "no stub is named";
  }
  static void fail(const char* what, int32_t error) {
    function<void (*)(const char*, int32_t)>("stub_fail")(what, error);
  }
  // A failure of a driver's function is the status expected, and names the function.
  template <typename Act>
  static void once(const char* what, int32_t error, int32_t expected, Act act) {
    fail(what, error);
    EXPECT_EQ(act(), expected) << what;
    const bool named = message().find(what) != std::string::npos;
    EXPECT_TRUE(named || expected == ASTER_ML_COMPILE) << message();
    fail(what, 0);
  }
  // A text of its own for each process.
  static int32_t build(void** module, void** function, char* log = nullptr, size_t room = 0,
                       uint32_t group = 0) {
    static const std::string text =
        "__kernel void k(__global uchar *p0, ulong o0) {} // " + std::to_string(getpid());
    aster_ml_code code{};
    code.struct_size = sizeof(code);
    code.form = ASTER_ML_CODE_OPENCL_C;
    code.name = "k";
    code.text = text.c_str();
    code.length = text.size();
    code.params = 1;
    code.group_size = group;
    return find_backend()->build(nullptr, module, function, 0, &code, 1, log, room);
  }
  static int32_t count(const char* what) {
    return function<int32_t (*)(const char*)>("stub_count")(what);
  }

  template <typename T>
  static T function(const char* name) {
    void* const library = dlopen(std::getenv("ASTER_ML_OPENCL_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<T>(dlsym(library, name));
  }
};

TEST_F(OpenclStub, WhatIsMissingIsNamed) {
  const std::pair<const char*, const char*> reasons[] = {
      {"no_platform", "OPENCL: no OpenCL driver is installed"},
      {"no_device", "OPENCL: the OpenCL drivers have no device"},
      {"no_library", "OPENCL: no OpenCL library: the library"},
      {"not_a_library", "OPENCL: no OpenCL library: cl"}};
  for (const auto& [one, reason] : reasons) {
    if (mode() != one) continue;
    for (int again = 0; again < 2; ++again) {
      const aster_ml_backend* found = nullptr;
      EXPECT_EQ(device::backend(&found, ASTER_ML_DEVICE_OPENCL).code, ASTER_ML_UNSUPPORTED);
      EXPECT_NE(message().find(reason), std::string::npos) << message();
      EXPECT_EQ(found, nullptr);
      EXPECT_EQ(aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL), 0);
    }
    return;
  }
  EXPECT_EQ(aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL), 1);
  EXPECT_EQ(aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL + 1), 0);
  const aster_ml_backend* found = nullptr;
  EXPECT_EQ(device::backend(&found, ASTER_ML_DEVICE_OPENCL + 1).code, ASTER_ML_ARGUMENT);
}

TEST_F(OpenclStub, DevicesAreDescribed) {
  const aster_ml_backend* const table = find_backend();
  if (table == nullptr) GTEST_SKIP();
  aster_ml_device_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(table->describe(table->self, 0, &info), ASTER_ML_OK);
  EXPECT_STREQ(info.name, "Stub");
  EXPECT_STREQ(info.driver, "7.5, OpenCL 1.2 stub");
  EXPECT_EQ(info.kind, ASTER_ML_DEVICE_KIND_GPU);
  EXPECT_EQ(info.forms, uint32_t{ASTER_ML_CODE_OPENCL_C});
  EXPECT_EQ(info.vector_bytes, 16);
  EXPECT_EQ(info.flags & ASTER_ML_DEVICE_FP64, mode() == "no_fp64" ? 0u : 1u);
  EXPECT_EQ(info.flags & ASTER_ML_DEVICE_FMA, 0u);
  EXPECT_EQ(info.group_limit, 256u);
  EXPECT_EQ(info.group_multiple, 32u);
  EXPECT_EQ(info.local_bytes, 32768u);
  info.struct_size = 8;
  info.forms = 99;
  ASSERT_EQ(table->describe(table->self, 0, &info), ASTER_ML_OK);
  EXPECT_EQ(info.forms, 99u) << "more was written than was asked for";
}

TEST_F(OpenclStub, FailuresOfMemoryAreStatuses) {
  if (mode() != "faults") GTEST_SKIP();
  const aster_ml_backend& t = *find_backend();
  void* data = nullptr;
  // The context is made at the first use; that may fail, and be tried again.
  const auto allocate = [&] { return t.allocate(t.self, &data, 0, 64); };
  once("clCreateContext", -6, ASTER_ML_MEMORY, allocate);
  EXPECT_NE(message().find("CL_OUT_OF_HOST_MEMORY (-6)"), std::string::npos) << message();
  once("clCreateCommandQueue", -35, ASTER_ML_DEVICE, allocate);
  once("clCreateBuffer", -4, ASTER_ML_MEMORY, allocate);
  EXPECT_EQ(data, nullptr);
  ASSERT_EQ(allocate(), ASTER_ML_OK);
  char host[64] = {};
  once("clEnqueueWriteBuffer", -5, ASTER_ML_DEVICE,
       [&] { return t.copy_in(t.self, 0, data, 0, host, 64); });
  once("clEnqueueReadBuffer", -5, ASTER_ML_DEVICE,
       [&] { return t.copy_out(t.self, 0, host, data, 0, 64); });
  once("clEnqueueCopyBuffer", -5, ASTER_ML_DEVICE,
       [&] { return t.copy(t.self, 0, data, 0, data, 32, 32); });
  void* pinned = nullptr;
  EXPECT_EQ(t.allocate_kind(t.self, &pinned, 0, 64, 99), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(t.allocate_kind(t.self, &pinned, 0, 64, ASTER_ML_MEMORY_UNIFIED), ASTER_ML_UNSUPPORTED);
  const auto pin = [&] { return t.allocate_kind(t.self, &pinned, 0, 64, ASTER_ML_MEMORY_PINNED); };
  once("clEnqueueMapBuffer", -12, ASTER_ML_DEVICE, pin);
  ASSERT_EQ(pin(), ASTER_ML_OK);
  std::memset(pinned, 7, 64);
  const int unmapped = count("clEnqueueUnmapMemObject");
  t.release(t.self, 0, pinned, 64);
  EXPECT_EQ(count("clEnqueueUnmapMemObject"), unmapped + 1);

  t.release(t.self, 0, data, 64);
}

// Memory of others: what a driver says of it is a status; of equal handles there is one buffer.
TEST_F(OpenclStub, MemoryOfOthers) {
  if (mode() != "faults") GTEST_SKIP();
  const aster_ml_backend& t = *find_backend();
  const device::NativeMemory& native = *device::native_memory(&t);
  void *data = nullptr, *again = nullptr, *theirs = nullptr, *handle = nullptr;
  ASSERT_EQ(t.allocate(t.self, &data, 0, 64), ASTER_ML_OK);
  ASSERT_TRUE(native.share(&handle, 0, data).ok());
  const int retained = count("clRetainMemObject"), released = count("clReleaseMemObject");
  ASSERT_TRUE(native.adopt(&again, 0, handle, 64).ok()) << message();
  EXPECT_EQ(again, data);
  t.release(t.self, 0, data, 64);
  EXPECT_EQ(count("clReleaseMemObject"), released) << "the second holder has it";
  t.release(t.self, 0, again, 64);
  EXPECT_EQ(count("clReleaseMemObject"), released + 1);
  const auto adopt = [&] { return native.adopt(&theirs, 0, handle, 64).code; };
  once("clGetMemObjectInfo", -5, ASTER_ML_DEVICE, adopt);
  fail("clGetMemObjectInfo", -38);
  EXPECT_EQ(adopt(), ASTER_ML_ARGUMENT);
  fail("clGetMemObjectInfo", 0);
  EXPECT_EQ(native.adopt(&theirs, 0, handle, 65).code, ASTER_ML_RANGE);
  EXPECT_EQ(theirs, nullptr);
  ASSERT_EQ(adopt(), ASTER_ML_OK);
  EXPECT_EQ(count("clRetainMemObject"), retained + 1);
  t.release(t.self, 0, theirs, 64);
  EXPECT_EQ(count("clReleaseMemObject"), released + 2);
  EXPECT_EQ(device::native_memory(nullptr), nullptr);
}

// Events of drivers: what fails is told, and ends on the other side.
TEST_F(OpenclStub, EventsOfDrivers) {
  if (find_backend() == nullptr) {
    aster_ml_opencl handles{};
    EXPECT_EQ(native_device(&handles, ASTER_ML_DEVICE_OPENCL).code, ASTER_ML_UNSUPPORTED);
    return;
  }
  int object = 0;
  void* made = nullptr;
  static int32_t told;
  told = -1;
  const auto tell = [](void*, int32_t status) { told = status; };
  once("clCreateUserEvent", -6, ASTER_ML_MEMORY,
       [&] { return begin_event(&made, ASTER_ML_DEVICE_OPENCL).code; });
  EXPECT_EQ(made, nullptr);
  once("clSetEventCallback", -58, ASTER_ML_DEVICE,
       [&] { return when_over(&object, tell, nullptr).code; });
  EXPECT_EQ(told, -1);
  ASSERT_TRUE(when_over(&object, tell, nullptr).ok());
  EXPECT_EQ(told, ASTER_ML_OK);
  fail("event", -5);
  ASSERT_TRUE(when_over(&object, tell, nullptr).ok());
  EXPECT_EQ(told, ASTER_ML_DEVICE);
  fail("event", 0);
  const int32_t released = count("clReleaseEvent");
  for (const int32_t status : {ASTER_ML_OK, ASTER_ML_CANCELLED}) {
    ASSERT_TRUE(begin_event(&made, ASTER_ML_DEVICE_OPENCL).ok()) << message();
    end_event(made, status);
    EXPECT_EQ(function<int32_t (*)()>("stub_ended")(), status == ASTER_ML_OK ? 0 : -14);
  }
  EXPECT_EQ(count("clReleaseEvent"), released + 2);
}

TEST_F(OpenclStub, FailedBuildsLeaveNothing) {
  if (mode() != "faults") GTEST_SKIP();
  const aster_ml_backend& t = *find_backend();
  void *module = nullptr, *function = nullptr;
  char log[100] = {};
  const auto build = [&] { return OpenclStub::build(&module, &function, log, sizeof(log)); };
  once("clBuildProgram", -11, ASTER_ML_COMPILE, build);
  EXPECT_EQ(std::string(log), std::string(99, 'e')) << "a log of a megabyte is cut";
  once("clBuildProgram", -6, ASTER_ML_MEMORY, build);
  once("clCreateProgramWithSource", -6, ASTER_ML_MEMORY, build);
  once("clCreateKernel", -46, ASTER_ML_DEVICE, build);
  once("clGetKernelInfo", -6, ASTER_ML_MEMORY, build);
  const int made = count("clCreateProgramWithSource");
  ASSERT_EQ(build(), ASTER_ML_OK);
  t.unbuild(t.self, 0, module);
  EXPECT_EQ(count("clCreateProgramWithSource"), made + 1);
  ASSERT_EQ(build(), ASTER_ML_OK);
  EXPECT_EQ(count("clCreateProgramWithSource"), made + 1) << "it was not kept";
  t.unbuild(t.self, 0, module);
  fail("clCreateProgramWithBinary", -42);  // what was kept is of no use any more
  ASSERT_EQ(build(), ASTER_ML_OK);
  EXPECT_EQ(count("clCreateProgramWithSource"), made + 2);
  t.unbuild(t.self, 0, module);
  aster_ml_code code{};
  code.form = ASTER_ML_CODE_C;
  EXPECT_EQ(t.build(t.self, &module, &function, 0, &code, 1, nullptr, 0), ASTER_ML_UNSUPPORTED);
}

// Groups and local memory that a built kernel needs and the device has not.
TEST_F(OpenclStub, KernelsBeyondTheDevice) {
  if (mode() != "faults") GTEST_SKIP();
  void *module = nullptr, *function = nullptr;
  char log[100] = {};
  EXPECT_EQ(build(&module, &function, log, sizeof(log), 64), ASTER_ML_OK);
  find_backend()->unbuild(nullptr, 0, module);
  EXPECT_EQ(build(&module, &function, log, sizeof(log), 65), ASTER_ML_UNSUPPORTED);
  EXPECT_STREQ(log, "groups of 65 work-items, it has 64 at most");
  fail("local_bytes", 1 << 20);
  EXPECT_EQ(build(&module, &function, log, sizeof(log)), ASTER_ML_UNSUPPORTED);
  EXPECT_NE(std::string(log).find("1048576 bytes of local memory, it has 32768"),
            std::string::npos);
  fail("local_bytes", 0);
}

TEST_F(OpenclStub, QueuesFailAndDevicesAreLost) {
  if (mode() != "faults") GTEST_SKIP();
  const aster_ml_backend& t = *find_backend();
  void *data = nullptr, *other = nullptr, *queue = nullptr, *module = nullptr, *function = nullptr;
  char host[64] = {};
  ASSERT_EQ(t.allocate(t.self, &data, 0, 64), ASTER_ML_OK);
  ASSERT_EQ(build(&module, &function), ASTER_ML_OK);
  once("clCreateCommandQueue", -5, ASTER_ML_DEVICE, [&] { return t.open(t.self, &queue, 0, 0); });
  ASSERT_EQ(t.open(t.self, &queue, 0, 0), ASTER_ML_OK);
  const size_t offset = 0;
  aster_ml_command command{};
  command.struct_size = sizeof(command);
  command.kind = ASTER_ML_COMMAND_LAUNCH;
  command.function = function;
  command.operands = &data;
  command.offsets = &offset;
  command.operand_count = 1;
  command.tasks = 8;
  uint64_t ticket = 0;
  const auto submit = [&] { return t.submit(t.self, &ticket, 0, queue, &command, 1); };
  once("clSetKernelArg", -51, ASTER_ML_DEVICE, submit);
  once("clEnqueueNDRangeKernel", -54, ASTER_ML_DEVICE, submit);
  once("clFlush", -36, ASTER_ML_DEVICE, submit);
  ASSERT_EQ(submit(), ASTER_ML_OK);
  const int arguments = count("clSetKernelArg");
  ASSERT_EQ(submit(), ASTER_ML_OK);
  EXPECT_EQ(count("clSetKernelArg"), arguments) << "the same arguments are set once";
  ASSERT_EQ(t.allocate(t.self, &other, 0, 64), ASTER_ML_OK);
  command.operands = &other;
  ASSERT_EQ(submit(), ASTER_ML_OK);
  EXPECT_EQ(count("clSetKernelArg"), arguments + 1) << "another buffer, if under the same handle";
  t.release(t.self, 0, other, 64);
  command.operands = &data;
  once("clFinish", -5, ASTER_ML_DEVICE, [&] { return t.wait(t.self, 0, queue, ticket); });
  ASSERT_EQ(t.wait(t.self, 0, queue, ticket), ASTER_ML_OK);
  const int finishes = count("clFinish");
  ASSERT_EQ(t.wait(t.self, 0, queue, ticket), ASTER_ML_OK);
  EXPECT_EQ(count("clFinish"), finishes) << "nothing is waited for twice";
  command.kind = 99;
  EXPECT_EQ(submit(), ASTER_ML_ARGUMENT);

  // The child of a fork is told, and frees nothing.
  const int released = count("clReleaseMemObject");
  const pid_t child = fork();
  if (child == 0) {
    void* more = nullptr;
    const bool told = t.allocate(t.self, &more, 0, 8) == ASTER_ML_DEVICE;
    t.release(t.self, 0, data, 64);
    t.unbuild(t.self, 0, module);
    t.close(t.self, 0, queue);
    _exit(told && count("clReleaseMemObject") == released ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);

  // A lost device stays lost; what it held is let go.
  once("clCreateBuffer", -2, ASTER_ML_DEVICE, [&] { return t.allocate(t.self, &other, 0, 64); });
  EXPECT_EQ(t.allocate(t.self, &other, 0, 64), ASTER_ML_DEVICE);
  EXPECT_NE(message().find("OPENCL:0 was lost"), std::string::npos) << message();
  EXPECT_EQ(build(&other, &other), ASTER_ML_DEVICE);
  EXPECT_EQ(t.wait(t.self, 0, queue, ticket + 1), ASTER_ML_DEVICE);
  EXPECT_EQ(t.copy_in(t.self, 0, data, 0, host, 64), ASTER_ML_DEVICE);
  t.close(t.self, 0, queue);
  t.unbuild(t.self, 0, module);
  t.release(t.self, 0, data, 64);
  EXPECT_EQ(count("clReleaseMemObject"), released + 1);
}

}  // namespace
}  // namespace aster::runtime::opencl
