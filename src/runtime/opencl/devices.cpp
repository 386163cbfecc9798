#include "runtime/opencl/devices.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/flags.h"

namespace aster::runtime::opencl {
namespace {

constexpr cl_uint kPlatformsMost = 32;

template <typename T>
T property(const Api& cl, cl_device_id id, cl_uint what) {
  T out{};
  cl.clGetDeviceInfo(id, what, sizeof(out), &out, nullptr);
  return out;
}

// Cut to what there is room for.
template <size_t N>
void text(const Api& cl, cl_device_id id, cl_uint what, char (&out)[N]) {
  char whole[1024] = {};
  if (cl.clGetDeviceInfo(id, what, sizeof(whole) - 1, whole, nullptr) != CL_SUCCESS) whole[0] = 0;
  snprintf(out, N, "%.*s", static_cast<int>(N) - 1, whole);
}

// Of the widest vectors that a driver calls native, or else likes: 16 to 64.
int32_t vector_bytes(const Api& cl, cl_device_id id) {
  const cl_uint native = property<cl_uint>(cl, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
  const cl_uint liked = property<cl_uint>(cl, id, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT);
  return static_cast<int32_t>(std::clamp(std::bit_floor(std::max(native, liked)), 4u, 16u)) * 4;
}

// How many work-items run as one; 0 where the driver does not say.
uint32_t group_multiple(const Api& cl, cl_device_id id, const char* extensions) {
  struct Row {
    const char* extension;  // that has it
    cl_uint what;
  };
  static constexpr Row kRows[] = {{"cl_nv_device_attribute_query", CL_DEVICE_WARP_SIZE_NV},
                                  {"cl_amd_device_attribute_query", CL_DEVICE_WAVEFRONT_WIDTH_AMD}};
  for (const Row& row : kRows) {
    if (strstr(extensions, row.extension) != nullptr) return property<cl_uint>(cl, id, row.what);
  }
  return static_cast<uint32_t>(
      property<size_t>(cl, id, CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE));
}

// What the environment tells to take a device for, in tests.
void disguise(aster_ml_device_info* info) {
  const char* const as = flag_text(Flag::kOpenclAs);
  if (as == nullptr) return;
  if (strstr(as, "cpu") != nullptr) info->kind = ASTER_ML_DEVICE_KIND_CPU;
  if (strstr(as, "gpu") != nullptr) {
    info->kind = ASTER_ML_DEVICE_KIND_GPU;
    info->vector_bytes = 16;
  }
  if (strstr(as, "no_fp64") != nullptr) info->flags &= ~uint32_t{ASTER_ML_DEVICE_FP64};
}

void read_device(const Api& cl, Device* out) {
  const cl_device_id id = out->id;
  aster_ml_device_info& info = out->info;
  info.struct_size = sizeof(info);
  const auto type = property<cl_bitfield>(cl, id, CL_DEVICE_TYPE);
  info.kind = (type & CL_DEVICE_TYPE_CPU) != 0   ? ASTER_ML_DEVICE_KIND_CPU
              : (type & CL_DEVICE_TYPE_GPU) != 0 ? ASTER_ML_DEVICE_KIND_GPU
                                                 : ASTER_ML_DEVICE_KIND_OTHER;
  if (property<cl_uint>(cl, id, CL_DEVICE_COMPILER_AVAILABLE) != 0)
    info.forms = ASTER_ML_CODE_OPENCL_C;
  const auto single = property<cl_bitfield>(cl, id, CL_DEVICE_SINGLE_FP_CONFIG);
  const auto queues = property<cl_bitfield>(cl, id, CL_DEVICE_QUEUE_PROPERTIES);
  const auto flag = [&](bool holds, uint32_t bit) { info.flags |= holds ? bit : 0u; };
  flag(property<cl_bitfield>(cl, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0, ASTER_ML_DEVICE_FP64);
  flag(property<cl_uint>(cl, id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0, ASTER_ML_DEVICE_UNIFIED);
  flag((single & CL_FP_FMA) != 0, ASTER_ML_DEVICE_FMA);
  flag((queues & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0, ASTER_ML_DEVICE_OUT_OF_ORDER);
  char extensions[4096] = {};
  cl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof(extensions) - 1, extensions, nullptr);
  flag(strstr(extensions, "cl_khr_fp16") != nullptr, ASTER_ML_DEVICE_FP16);
  out->correctly_rounded = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  info.vector_bytes = vector_bytes(cl, id);
  info.compute_units = static_cast<int32_t>(property<cl_uint>(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS));
  info.local_bytes = property<cl_ulong>(cl, id, CL_DEVICE_LOCAL_MEM_SIZE);
  info.memory_bytes = property<cl_ulong>(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  info.allocation_bytes = property<cl_ulong>(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  info.group_limit = static_cast<uint32_t>(property<size_t>(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  info.group_multiple = group_multiple(cl, id, extensions);
  text(cl, id, CL_DEVICE_NAME, info.name);
  char version[64], driver[64];
  text(cl, id, CL_DEVICE_VERSION, version);
  text(cl, id, CL_DRIVER_VERSION, driver);
  snprintf(info.driver, sizeof(info.driver), "%.40s, %.48s", driver, version);
  disguise(&info);
}

Status make_context(Device& device) {
  const Api& cl = platforms().cl;
  cl_int error = CL_SUCCESS;
  device.context = cl.clCreateContext(nullptr, 1, &device.id, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return failed(device, "clCreateContext", error);
  device.copies = cl.clCreateCommandQueue(device.context, device.id, 0, &error);
  if (error != CL_SUCCESS) {
    cl.clReleaseContext(device.context);
    return failed(device, "clCreateCommandQueue", error);
  }
  device.ready.store(true, std::memory_order_release);
  return kOk;
}

constinit Mutex g_contexts;

}  // namespace

void find_devices(Platforms* out) {
  out->process = getpid();
  if (!open_loader(&out->cl, &out->missing)) {
    out->problem = "no OpenCL library: ";
    return;
  }
  cl_platform_id found[kPlatformsMost];
  cl_uint platforms = 0;
  if (out->cl.clGetPlatformIDs(kPlatformsMost, found, &platforms) != CL_SUCCESS) platforms = 0;
  for (cl_uint p = 0; p < std::min(platforms, kPlatformsMost); ++p) {
    cl_device_id ids[kDevicesMost];
    cl_uint count = 0;
    const cl_int error =
        out->cl.clGetDeviceIDs(found[p], CL_DEVICE_TYPE_ALL, kDevicesMost, ids, &count);
    if (error != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < std::min<cl_uint>(count, kDevicesMost); ++d) {
      if (out->count == kDevicesMost) return;
      Device& device = out->devices[out->count++];
      device.platform = found[p];
      device.id = ids[d];
      read_device(out->cl, &device);
    }
  }
  if (platforms == 0) {
    out->problem = "no OpenCL driver is installed";
  } else if (out->count == 0) {
    out->problem = "the OpenCL drivers have no device";
  }
}

Status use(Device** out, int32_t index) {
  Platforms& all = platforms();
  if (all.process != getpid()) {
    return ASTER_FAIL(kDEVICE, "OPENCL: the child of a fork cannot use its parent's devices");
  }
  Device& device = all.devices[index];
  *out = &device;
  if (device.lost.load(std::memory_order_relaxed)) {
    return ASTER_FAIL(kDEVICE, "OPENCL:%d was lost", index);
  }
  if (device.ready.load(std::memory_order_acquire)) return kOk;
  const MutexLock lock(g_contexts);
  return device.ready.load() ? Status(kOk) : make_context(device);
}

Status failed(Device& device, const char* what, cl_int error) {
  const int32_t index = static_cast<int32_t>(&device - platforms().devices);
  if (error == CL_DEVICE_NOT_AVAILABLE) device.lost.store(true, std::memory_order_relaxed);
  const bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY ||
                      error == CL_INVALID_BUFFER_SIZE;
  if (memory) {
    return ASTER_FAIL(kMEMORY, "OPENCL:%d: %s: %s (%d)", index, what, error_name(error), error);
  }
  return ASTER_FAIL(kDEVICE, "OPENCL:%d: %s: %s (%d)", index, what, error_name(error), error);
}

}  // namespace aster::runtime::opencl
