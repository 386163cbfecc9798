// Launches on OpenCL's first device: of a replayed program, and of a loop of enqueues by hand.
// Chains of kernels on 8 floats; what is measured is a chain with the wait for its end.
#include <benchmark/benchmark.h>

#include "aster.h"
#include "runtime/opencl/cl.h"

namespace {

using namespace bench;
namespace cl = aster::runtime::opencl;

constexpr int kKernels = 50;

void Replay(benchmark::State& state) {
  if (aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL) != 1) {
    state.SkipWithError("no OpenCL device is installed");
    return;
  }
  Session s;
  check(s.set_device(ASTER_ML_DEVICE_OPENCL));
  const Tensor x = data({8}, 1), y = data({8}, 2, 0.01f);
  Step step({x}, [&] {
    Tensor z = x;
    for (int i = 0; i < kKernels; ++i) z = (z + y).realized();
    return z;
  });
  for (auto _ : state) step.run();
  state.counters["kernels"] = step.kernels();
}

const char* const kText = R"(__kernel void add(__global float *out, __global const float *a,
                                               __global const float *b) {
  vstore8(vload8(0, a) + vload8(0, b), 0, out);
})";

// One kernel, whose arguments are set where they change.
void Enqueues(benchmark::State& state) {
  cl::Api api;
  const char* missing = nullptr;
  cl::cl_platform_id platform = nullptr;
  cl::cl_device_id device = nullptr;
  cl::cl_uint count = 0;
  if (!cl::open_loader(&api, &missing) ||
      api.clGetPlatformIDs(1, &platform, &count) != cl::CL_SUCCESS || count == 0 ||
      api.clGetDeviceIDs(platform, cl::CL_DEVICE_TYPE_ALL, 1, &device, &count) != cl::CL_SUCCESS) {
    state.SkipWithError("no OpenCL device is installed");
    return;
  }
  cl::cl_int error = 0;
  const auto good = [&](bool done) {
    if (!done || error != cl::CL_SUCCESS) std::fprintf(stderr, "OpenCL: %d\n", error), std::exit(1);
  };
  const cl::cl_context context = api.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  good(true);
  const cl::cl_queue queue = api.clCreateCommandQueue(context, device, 0, &error);
  good(true);
  const char* text = kText;
  const cl::cl_program program = api.clCreateProgramWithSource(context, 1, &text, nullptr, &error);
  good(api.clBuildProgram(program, 1, &device, "", nullptr, nullptr) == cl::CL_SUCCESS);
  const cl::cl_kernel kernel = api.clCreateKernel(program, "add", &error);
  good(true);
  cl::cl_mem memory[3];
  const std::vector<float> zeros(8);
  for (cl::cl_mem& one : memory) {
    one = api.clCreateBuffer(context, cl::CL_MEM_READ_WRITE, 32, nullptr, &error);
    good(api.clEnqueueWriteBuffer(queue, one, 1, 0, 32, zeros.data(), 0, nullptr, nullptr) == 0);
  }
  good(api.clSetKernelArg(kernel, 2, sizeof(cl::cl_mem), &memory[2]) == cl::CL_SUCCESS);
  const size_t global = 1, local = 1;
  for (auto _ : state) {
    for (int i = 0; i < kKernels; ++i) {
      api.clSetKernelArg(kernel, 0, sizeof(cl::cl_mem), &memory[(i + 1) % 2]);
      api.clSetKernelArg(kernel, 1, sizeof(cl::cl_mem), &memory[i % 2]);
      api.clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr);
    }
    good(api.clFinish(queue) == cl::CL_SUCCESS);
  }
  for (const cl::cl_mem one : memory) api.clReleaseMemObject(one);
  api.clReleaseKernel(kernel);
  api.clReleaseProgram(program);
  api.clReleaseCommandQueue(queue);
  api.clReleaseContext(context);
}

#define LAUNCHES(name) BENCHMARK(name)->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.05)
LAUNCHES(Replay);
LAUNCHES(Enqueues);

}  // namespace

BENCHMARK_MAIN();
