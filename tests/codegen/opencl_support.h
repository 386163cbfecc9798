// OpenCL C built and run on this machine's first device, for the tests of what writes it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/sanitize.h"
#include "codegen/target.h"
#include "runtime/opencl/cl.h"

namespace aster::codegen::tests {

namespace cl = runtime::opencl;

class OpenclDevice {
 public:
  // Null where the machine has no device, and under sanitizers, which tell of the driver's own.
  static OpenclDevice* get() {
#ifdef ASTER_SANITIZED
    return nullptr;
#endif
    static OpenclDevice one;
    return one.queue_ != nullptr ? &one : nullptr;
  }
  Target target() const {
    Target out;
    out.language = Language::kOpencl;
    out.vector_bytes = 64;
    out.max_lanes = 16;
    out.fma = true;
    out.f16c = out.avx512 = out.streaming = false;
    return out;
  }

  // Kernels that run on copies of memory.
  class Program {
   public:
    Program(OpenclDevice& device, const std::string& text) : device_(device), api_(device.api_) {
      const char* const source = text.c_str();
      cl::cl_int error = 0;
      program_ = api_.clCreateProgramWithSource(device.context_, 1,
                                                const_cast<const char**>(&source), nullptr, &error);
      error =
          api_.clBuildProgram(program_, 1, &device.device_, "-cl-std=CL1.2 -w", nullptr, nullptr);
      if (error == 0) return;
      std::string log(1 << 16, '\0');
      api_.clGetProgramBuildInfo(program_, device.device_, cl::CL_PROGRAM_BUILD_LOG, log.size(),
                                 log.data(), nullptr);
      ADD_FAILURE() << "error " << error << "\n" << log.c_str() << text;
    }
    ~Program() { api_.clReleaseProgram(program_); }
    // memory: by slot, each `before` bytes behind the beginning of its own.
    void run(const std::string& name, std::vector<std::vector<uint8_t>>& memory, size_t before,
             const std::vector<int64_t>& sizes, size_t global, size_t local) {
      cl::cl_int error = 0;
      cl::cl_kernel kernel = api_.clCreateKernel(program_, name.c_str(), &error);
      ASSERT_EQ(error, 0) << name;
      std::vector<cl::cl_mem> buffers;
      cl::cl_uint at = 0;
      for (std::vector<uint8_t>& bytes : memory) {
        buffers.push_back(api_.clCreateBuffer(device_.context_, cl::CL_MEM_READ_WRITE,
                                              std::max<size_t>(bytes.size(), 1), nullptr, &error));
        ASSERT_EQ(error, 0);
        const uint64_t offset = before;
        if (!bytes.empty()) write(buffers.back(), bytes);
        EXPECT_EQ(api_.clSetKernelArg(kernel, at++, sizeof(cl::cl_mem), &buffers.back()), 0);
        EXPECT_EQ(api_.clSetKernelArg(kernel, at++, sizeof(offset), &offset), 0);
      }
      for (const int64_t& size : sizes) {
        EXPECT_EQ(api_.clSetKernelArg(kernel, at++, sizeof(size), &size), 0);
      }
      error = api_.clEnqueueNDRangeKernel(device_.queue_, kernel, 1, nullptr, &global,
                                          local == 0 ? nullptr : &local, 0, nullptr, nullptr);
      EXPECT_EQ(error, 0) << name;
      for (size_t i = 0; i < memory.size(); ++i) {
        if (!memory[i].empty()) {
          EXPECT_EQ(api_.clEnqueueReadBuffer(device_.queue_, buffers[i], 1, 0, memory[i].size(),
                                             memory[i].data(), 0, nullptr, nullptr),
                    0);
        }
        api_.clReleaseMemObject(buffers[i]);
      }
      api_.clReleaseKernel(kernel);
    }

   private:
    void write(cl::cl_mem to, const std::vector<uint8_t>& bytes) {
      EXPECT_EQ(api_.clEnqueueWriteBuffer(device_.queue_, to, 1, 0, bytes.size(), bytes.data(), 0,
                                          nullptr, nullptr),
                0);
    }
    OpenclDevice& device_;
    cl::Api& api_;
    cl::cl_program program_ = nullptr;
  };

 private:
  OpenclDevice() {
    void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
#define CL(name, result, parameters)                                        \
  api_.name = reinterpret_cast<decltype(api_.name)>(dlsym(library, #name)); \
  if (api_.name == nullptr) return;
#include "runtime/opencl/cl_api.def"
    cl::cl_platform_id platform = nullptr;
    cl::cl_uint count = 0;
    cl::cl_int error = 0;
    if (api_.clGetPlatformIDs(1, &platform, &count) != 0 || count == 0) return;
    if (api_.clGetDeviceIDs(platform, cl::CL_DEVICE_TYPE_ALL, 1, &device_, &count) != 0) return;
    context_ = api_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &error);
    if (error == 0) queue_ = api_.clCreateCommandQueue(context_, device_, 0, &error);
  }
  cl::Api api_;
  cl::cl_device_id device_ = nullptr;
  cl::cl_context context_ = nullptr;
  cl::cl_queue queue_ = nullptr;
};

}  // namespace aster::codegen::tests
