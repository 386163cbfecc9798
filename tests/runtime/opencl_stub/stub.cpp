// A loader of OpenCL drivers with one device that computes nothing and fails when it is told to.
// $OPENCL_STUB: no_platform, no_device, no_fp64. stub_fail(what, error): calls of the function
// `what` return the error from now on. stub_count(what): how often it was called.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "runtime/opencl/cl.h"

namespace aster::runtime::opencl {
namespace {

std::mutex g_mutex;
std::map<std::string, cl_int> g_failures;
std::map<std::string, int> g_counts;

bool asked(const char* what) {
  const char* const mode = std::getenv("OPENCL_STUB");
  return mode != nullptr && std::strcmp(mode, what) == 0;
}
cl_int result(const char* what) {
  const std::lock_guard lock(g_mutex);
  ++g_counts[what];
  const auto at = g_failures.find(what);
  return at == g_failures.end() ? cl_int{CL_SUCCESS} : at->second;
}
int g_object;
int32_t g_ended = 1;
template <typename T>
T object(const char* what, cl_int* error) {
  *error = result(what);
  return *error == CL_SUCCESS ? reinterpret_cast<T>(&g_object) : nullptr;
}
cl_int give(const void* data, size_t size, size_t room, void* out, size_t* length) {
  if (length != nullptr) *length = size;
  if (out == nullptr) return CL_SUCCESS;
  if (room < size) return -30;
  std::memcpy(out, data, size);
  return CL_SUCCESS;
}

}  // namespace

extern "C" {

void stub_fail(const char* what, int32_t error) {
  const std::lock_guard lock(g_mutex);
  g_failures[what] = error;
}
int32_t stub_count(const char* what) {
  const std::lock_guard lock(g_mutex);
  return g_counts[what];
}

cl_int clGetPlatformIDs(cl_uint, cl_platform_id* out, cl_uint* count) {
  if (asked("no_platform")) return CL_PLATFORM_NOT_FOUND_KHR;
  *out = reinterpret_cast<cl_platform_id>(&g_object);
  *count = 1;
  return CL_SUCCESS;
}
cl_int clGetPlatformInfo(cl_platform_id, cl_uint, size_t, void*, size_t*) { return CL_SUCCESS; }
cl_int clGetDeviceIDs(cl_platform_id, cl_bitfield, cl_uint, cl_device_id* out, cl_uint* count) {
  if (asked("no_device")) return CL_DEVICE_NOT_FOUND;
  *out = reinterpret_cast<cl_device_id>(&g_object);
  *count = 1;
  return CL_SUCCESS;
}
cl_int clGetDeviceInfo(cl_device_id, cl_uint what, size_t room, void* out, size_t* length) {
  const auto number = [&](uint64_t value, size_t size) {
    return give(&value, size, room, out, length);
  };
  switch (what) {
    case CL_DEVICE_TYPE:
      return number(CL_DEVICE_TYPE_GPU, 8);
    case CL_DEVICE_COMPILER_AVAILABLE:
      return number(1, 4);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
      return number(4, 4);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
      return number(asked("no_fp64") ? 0 : 63, 8);
    case CL_DEVICE_SINGLE_FP_CONFIG:
      return number(6, 8);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      return number(256, 8);
    case CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
      return number(32, 8);
    case CL_DEVICE_LOCAL_MEM_SIZE:
      return number(32768, 8);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
      return number(uint64_t{1} << 30, 8);
    case CL_DEVICE_NAME:
      return give("Stub", 5, room, out, length);
    case CL_DEVICE_VERSION:
      return give("OpenCL 1.2 stub", 16, room, out, length);
    case CL_DRIVER_VERSION:
      return give("7.5", 4, room, out, length);
    default:
      return number(0, room < 8 ? room : 8);
  }
}
cl_context clCreateContext(const cl_properties*, cl_uint, const cl_device_id*, ClContextNotify,
                           void*, cl_int* error) {
  return object<cl_context>("clCreateContext", error);
}
cl_int clReleaseContext(cl_context) { return CL_SUCCESS; }
cl_queue clCreateCommandQueue(cl_context, cl_device_id, cl_bitfield, cl_int* error) {
  return object<cl_queue>("clCreateCommandQueue", error);
}
cl_int clReleaseCommandQueue(cl_queue) { return result("clReleaseCommandQueue"); }
cl_mem clCreateBuffer(cl_context, cl_bitfield, size_t, void*, cl_int* error) {
  return object<cl_mem>("clCreateBuffer", error);
}
cl_int clReleaseMemObject(cl_mem) { return result("clReleaseMemObject"); }
cl_int clRetainMemObject(cl_mem) { return result("clRetainMemObject"); }
// A buffer of 64 bytes.
cl_int clGetMemObjectInfo(cl_mem, cl_uint what, size_t room, void* out, size_t* length) {
  const cl_int error = result("clGetMemObjectInfo");
  if (error != CL_SUCCESS) return error;
  const uint64_t value = what == CL_MEM_CONTEXT ? reinterpret_cast<uintptr_t>(&g_object)
                         : what == CL_MEM_SIZE  ? 64
                                                : CL_MEM_OBJECT_BUFFER;
  return give(&value, room, room, out, length);
}
cl_int clEnqueueReadBuffer(cl_queue, cl_mem, cl_uint, size_t, size_t, void*, cl_uint,
                           const cl_event*, cl_event*) {
  return result("clEnqueueReadBuffer");
}
cl_int clEnqueueWriteBuffer(cl_queue, cl_mem, cl_uint, size_t, size_t, const void*, cl_uint,
                            const cl_event*, cl_event*) {
  return result("clEnqueueWriteBuffer");
}
cl_int clEnqueueCopyBuffer(cl_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint,
                           const cl_event*, cl_event*) {
  return result("clEnqueueCopyBuffer");
}
alignas(64) char g_memory[4096];
void* clEnqueueMapBuffer(cl_queue, cl_mem, cl_uint, cl_bitfield, size_t, size_t, cl_uint,
                         const cl_event*, cl_event*, cl_int* error) {
  *error = result("clEnqueueMapBuffer");
  return *error == CL_SUCCESS ? g_memory : nullptr;
}
cl_int clEnqueueUnmapMemObject(cl_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event*) {
  return result("clEnqueueUnmapMemObject");
}
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char**, const size_t*,
                                     cl_int* error) {
  return object<cl_program>("clCreateProgramWithSource", error);
}
cl_program clCreateProgramWithBinary(cl_context, cl_uint, const cl_device_id*, const size_t*,
                                     const unsigned char**, cl_int* status, cl_int* error) {
  *status = CL_SUCCESS;
  return object<cl_program>("clCreateProgramWithBinary", error);
}
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id*, const char*, ClProgramNotify,
                      void*) {
  return result("clBuildProgram");
}
cl_int clGetProgramInfo(cl_program, cl_uint what, size_t room, void* out, size_t* length) {
  const uint64_t size = 6;
  if (what == CL_PROGRAM_BINARY_SIZES) return give(&size, sizeof(size), room, out, length);
  std::memcpy(*static_cast<unsigned char**>(out), "binary", 6);
  return CL_SUCCESS;
}
// A megabyte of text.
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_uint, size_t room, void* out,
                             size_t* length) {
  const std::string log(size_t{1} << 20, 'e');
  return give(log.c_str(), log.size() + 1, room, out, length);
}
cl_int clReleaseProgram(cl_program) { return result("clReleaseProgram"); }
cl_kernel clCreateKernel(cl_program, const char*, cl_int* error) {
  return object<cl_kernel>("clCreateKernel", error);
}
cl_int clReleaseKernel(cl_kernel) { return result("clReleaseKernel"); }
// One operand with its offset.
cl_int clGetKernelInfo(cl_kernel, cl_uint, size_t room, void* out, size_t* length) {
  const cl_uint arguments = 2;
  const cl_int error = result("clGetKernelInfo");
  return error != CL_SUCCESS ? error : give(&arguments, sizeof(arguments), room, out, length);
}
// Groups of 64 work-items; local memory: what stub_fail("local_bytes", ..) tells.
cl_int clGetKernelWorkGroupInfo(cl_kernel, cl_device_id, cl_uint what, size_t room, void* out,
                                size_t* length) {
  const cl_int error = result("clGetKernelWorkGroupInfo");
  if (error != CL_SUCCESS) return error;
  const uint64_t value =
      what == CL_KERNEL_WORK_GROUP_SIZE ? 64 : static_cast<uint64_t>(result("local_bytes"));
  return give(&value, sizeof(value), room, out, length);
}
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void*) { return result("clSetKernelArg"); }
cl_int clEnqueueNDRangeKernel(cl_queue, cl_kernel, cl_uint, const size_t*, const size_t*,
                              const size_t*, cl_uint, const cl_event*, cl_event*) {
  return result("clEnqueueNDRangeKernel");
}
cl_int clEnqueueMarkerWithWaitList(cl_queue, cl_uint, const cl_event*, cl_event* out) {
  *out = reinterpret_cast<cl_event>(&g_object);
  return result("clEnqueueMarkerWithWaitList");
}
cl_int clEnqueueBarrierWithWaitList(cl_queue, cl_uint, const cl_event*, cl_event*) {
  return result("clEnqueueBarrierWithWaitList");
}
cl_int clFlush(cl_queue) { return result("clFlush"); }
cl_int clFinish(cl_queue) { return result("clFinish"); }
cl_int clWaitForEvents(cl_uint, const cl_event*) { return CL_SUCCESS; }
cl_int clReleaseEvent(cl_event) { return result("clReleaseEvent"); }
cl_event clCreateUserEvent(cl_context, cl_int* error) {
  return object<cl_event>("clCreateUserEvent", error);
}
cl_int clRetainEvent(cl_event) { return result("clRetainEvent"); }
cl_int clSetUserEventStatus(cl_event, cl_int status) {
  (void)result("clSetUserEventStatus");
  g_ended = status;
  return CL_SUCCESS;
}
// Over at once, with what stub_fail("event", ..) tells.
cl_int clSetEventCallback(cl_event event, cl_int, ClEventNotify notify, void* self) {
  const cl_int error = result("clSetEventCallback");
  if (error == CL_SUCCESS) notify(event, result("event"), self);
  return error;
}
int32_t stub_ended() { return g_ended; }

}  // extern "C"
}  // namespace aster::runtime::opencl
