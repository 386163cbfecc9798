// Kernels of OpenCL's devices: built from text, or from what an earlier build left on disk.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/context.h"
#include "runtime/cpu/cache.h"
#include "runtime/opencl/devices.h"

namespace aster::runtime::opencl {
namespace {

constexpr const char* kFolder = "opencl";

struct Module {
  explicit Module(Memory& memory) : programs(memory), functions(memory) {}
  Vec<cl_program> programs;
  Vec<Function*> functions;
};

// Kept files, shared by all devices; opened at the first build.
constinit Mutex g_cache_mutex;
constinit cpu::Cache* g_cache = nullptr;

cpu::Cache* cache() {
  if (g_cache == nullptr) {
    g_cache = process_heap().create<cpu::Cache>(process_heap());
    if (g_cache != nullptr && !g_cache->open(nullptr).ok()) {
      process_heap().destroy(g_cache);
      g_cache = nullptr;
    }
  }
  return g_cache;
}

bool kept(const cpu::Digest& key, Vec<uint8_t>* out) {
  const MutexLock lock(g_cache_mutex);
  return cache() != nullptr && g_cache->get(kFolder, key, out);
}

void keep(const cpu::Digest& key, const Vec<uint8_t>& bytes) {
  const MutexLock lock(g_cache_mutex);
  if (cache() != nullptr) g_cache->put(kFolder, key, {bytes.data(), bytes.size()});
}

// Warnings of generated text are nobody's business.
const char* options_of(const Device& device) {
  return device.correctly_rounded ? "-cl-std=CL1.2 -w -cl-fp32-correctly-rounded-divide-sqrt"
                                  : "-cl-std=CL1.2 -w";
}

cpu::Digest key_of(const Device& device, const aster_ml_code& code) {
  cpu::Sha256 hash;
  hash.add_text({code.text, code.length}).add_text(options_of(device));
  return hash.add_text(device.info.name).add_text(device.info.driver).finish();
}

cl_program from_binary(Device& device, const Vec<uint8_t>& bytes) {
  const Api& cl = platforms().cl;
  const unsigned char* data = bytes.data();
  const size_t size = bytes.size();
  cl_int status = CL_SUCCESS, error = CL_SUCCESS;
  const cl_program program =
      cl.clCreateProgramWithBinary(device.context, 1, &device.id, &size, &data, &status, &error);
  if (error == CL_SUCCESS && status == CL_SUCCESS &&
      cl.clBuildProgram(program, 1, &device.id, options_of(device), nullptr, nullptr) ==
          CL_SUCCESS) {
    return program;
  }
  if (error == CL_SUCCESS) cl.clReleaseProgram(program);
  return nullptr;
}

Status binary_of(cl_program program, Vec<uint8_t>* out) {
  const Api& cl = platforms().cl;
  size_t size = 0;
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr) !=
          CL_SUCCESS ||
      size == 0) {
    return kOk;
  }
  ASTER_TRY(out->resize(size));
  unsigned char* data = out->data();
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, nullptr) !=
      CL_SUCCESS) {
    out->clear();
  }
  return kOk;
}

// What the compiler said, cut to the room that there is.
void read_log(const Device& device, cl_program program, char* log, size_t room) {
  if (log == nullptr || room == 0) return;
  log[0] = '\0';
  const Api& cl = platforms().cl;
  size_t size = 0;
  Vec<char> whole(process_heap());
  const auto info = [&](size_t bytes, void* to, size_t* length) {
    return cl.clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, bytes, to, length) ==
           CL_SUCCESS;
  };
  if (!info(0, nullptr, &size) || size == 0 || !whole.resize(size + 1).ok()) return;
  if (!info(size, whole.data(), nullptr)) return;
  whole[size] = '\0';
  snprintf(log, room, "%s", whole.data());
}

Status from_text(cl_program* out, Device& device, const aster_ml_code& code, char* log,
                 size_t room) {
  const Api& cl = platforms().cl;
  const char* text = code.text;
  const size_t length = code.length;
  cl_int error = CL_SUCCESS;
  const cl_program program =
      cl.clCreateProgramWithSource(device.context, 1, &text, &length, &error);
  if (error != CL_SUCCESS) return failed(device, "clCreateProgramWithSource", error);
  error = cl.clBuildProgram(program, 1, &device.id, options_of(device), nullptr, nullptr);
  if (error == CL_SUCCESS) {
    *out = program;
    return kOk;
  }
  read_log(device, program, log, room);
  cl.clReleaseProgram(program);
  if (error == CL_BUILD_PROGRAM_FAILURE) {
    return ASTER_FAIL(kCOMPILE, "%s: the driver's compiler refuses it", code.name);
  }
  return failed(device, "clBuildProgram", error);
}

// What its groups would need and the device has not.
Status check_groups(const Device& device, cl_kernel kernel, const aster_ml_code& code, char* log,
                    size_t room) {
  const Api& cl = platforms().cl;
  size_t most = 0;
  cl_ulong local = 0;
  cl.clGetKernelWorkGroupInfo(kernel, device.id, CL_KERNEL_WORK_GROUP_SIZE, sizeof(most), &most,
                              nullptr);
  cl.clGetKernelWorkGroupInfo(kernel, device.id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(local), &local,
                              nullptr);
  most = std::min<size_t>(most == 0 ? SIZE_MAX : most, device.info.group_limit);
  if (code.group_size > most) {
    snprintf(log, room, "groups of %u work-items, it has %zu at most", code.group_size, most);
  } else if (device.info.local_bytes != 0 && local > device.info.local_bytes) {
    snprintf(log, room, "%llu bytes of local memory, it has %llu",
             static_cast<unsigned long long>(local),
             static_cast<unsigned long long>(device.info.local_bytes));
  } else {
    return kOk;
  }
  return ASTER_FAIL(kUNSUPPORTED, "%s: %s", code.name, log);
}

Status build_one(Module& module, Device& device, const aster_ml_code& code, char* log,
                 size_t room) {
  const Api& cl = platforms().cl;
  const cpu::Digest key = key_of(device, code);
  Vec<uint8_t> bytes(process_heap());
  cl_program program = nullptr;
  cl_kernel kernel = nullptr;
  cl_int error = CL_SUCCESS;
  if (kept(key, &bytes)) program = from_binary(device, bytes);
  if (program != nullptr) {
    kernel = cl.clCreateKernel(program, code.name, &error);
    if (error != CL_SUCCESS) cl.clReleaseProgram(program), program = nullptr;
  }
  const bool fresh = program == nullptr;
  if (fresh) ASTER_TRY(from_text(&program, device, code, log, room));
  Status status = module.programs.push(program);
  if (!status.ok()) {
    cl.clReleaseProgram(program);
    return status;
  }
  if (fresh) kernel = cl.clCreateKernel(program, code.name, &error);
  if (error != CL_SUCCESS) return failed(device, "clCreateKernel", error);
  Function* const function = process_heap().create<Function>(process_heap());
  if (function == nullptr || !module.functions.push(function).ok()) {
    cl.clReleaseKernel(kernel);
    process_heap().destroy(function);
    return out_of_memory(sizeof(Function));
  }
  function->kernel = kernel;
  cl_uint arguments = 0;
  error = cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(arguments), &arguments, nullptr);
  if (error != CL_SUCCESS) return failed(device, "clGetKernelInfo", error);
  ASTER_TRY(check_groups(device, kernel, code, log, room));
  function->params = (arguments - std::min(arguments, code.sizes)) / 2;
  bytes.clear();
  if (fresh) ASTER_TRY(binary_of(program, &bytes));
  if (!bytes.empty()) keep(key, bytes);
  return kOk;
}

void destroy(Module* module) {
  const Api& cl = platforms().cl;
  for (Function* function : module->functions) {
    cl.clReleaseKernel(function->kernel);
    process_heap().destroy(function);
  }
  for (cl_program program : module->programs) cl.clReleaseProgram(program);
  process_heap().destroy(module);
}

}  // namespace

int32_t build(void*, void** out, void** functions, int32_t index, const aster_ml_code* codes,
              size_t count, char* log, size_t room) {
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  Module* const module = process_heap().create<Module>(process_heap());
  if (module == nullptr) return out_of_memory(sizeof(Module));
  for (size_t i = 0; i < count; ++i) {
    Status status = kOk;
    if (codes[i].form != ASTER_ML_CODE_OPENCL_C) {
      status = ASTER_FAIL(kUNSUPPORTED, "OPENCL:%d takes OpenCL C", index);
    } else {
      status = build_one(*module, *device, codes[i], log, room);
    }
    if (!status.ok()) {
      destroy(module);
      return status;
    }
    functions[i] = module->functions.back();
  }
  *out = module;
  return ASTER_ML_OK;
}

void unbuild(void*, int32_t, void* module) {
  if (module == nullptr || platforms().process != getpid()) return;
  destroy(static_cast<Module*>(module));
}

}  // namespace aster::runtime::opencl
