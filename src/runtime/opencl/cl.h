// OpenCL's interface as far as it is used, written down from its specification (version 1.2), so
// that nothing of it is needed to build. The loader of drivers is opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aster::runtime::opencl {

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bitfield = uint64_t;
using cl_properties = intptr_t;
using cl_platform_id = struct ClPlatform*;
using cl_device_id = struct ClDevice*;
using cl_context = struct ClContext*;
using cl_queue = struct ClQueue*;
using cl_mem = struct ClMem*;
using cl_program = struct ClProgram*;
using cl_kernel = struct ClKernel*;
using cl_event = struct ClEvent*;
using ClContextNotify = void (*)(const char*, const void*, size_t, void*);
using ClProgramNotify = void (*)(cl_program, void*);
using ClEventNotify = void (*)(cl_event, cl_int, void*);

enum : cl_int {
  CL_SUCCESS = 0,
  CL_COMPLETE = 0,
  CL_DEVICE_NOT_FOUND = -1,
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_COMPILER_NOT_AVAILABLE = -3,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14,
  CL_INVALID_MEM_OBJECT = -38,
  CL_INVALID_BINARY = -42,
  CL_INVALID_BUFFER_SIZE = -61,
  CL_PLATFORM_NOT_FOUND_KHR = -1001,
};
enum : cl_uint {
  CL_PLATFORM_VERSION = 0x0901,
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR = 0x1006,
  CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 0x100A,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x1067,  // from OpenCL 3.0 on
  CL_DEVICE_WARP_SIZE_NV = 0x4003,                        // cl_nv_device_attribute_query
  CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043,                 // cl_amd_device_attribute_query
  CL_DEVICE_ENDIAN_LITTLE = 0x1026,
  CL_DEVICE_AVAILABLE = 0x1027,
  CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
  CL_DEVICE_QUEUE_PROPERTIES = 0x102A,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
  CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR = 0x1036,
  CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A,
  CL_MEM_OBJECT_BUFFER = 0x10F0,
  CL_MEM_TYPE = 0x1100,
  CL_MEM_SIZE = 0x1102,
  CL_MEM_CONTEXT = 0x1106,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_NUM_ARGS = 0x1191,
  CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
  CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
};
enum : cl_bitfield {
  CL_DEVICE_TYPE_CPU = 2,
  CL_DEVICE_TYPE_GPU = 4,
  CL_DEVICE_TYPE_ALL = 0xFFFFFFFF,
  CL_FP_DENORM = 1,
  CL_FP_FMA = 32,
  CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 128,
  CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE = 1,
  CL_QUEUE_PROFILING_ENABLE = 2,
  CL_MEM_READ_WRITE = 1,
  CL_MAP_READ_WRITE = 3,
  CL_MEM_USE_HOST_PTR = 8,
  CL_MEM_ALLOC_HOST_PTR = 16,
};

// The functions of a loader.
struct Api {
#define CL(name, result, parameters) result(*name) parameters = nullptr;
#include "runtime/opencl/cl_api.def"
};

// Opens a loader: $ASTER_ML_OPENCL_LIBRARY, else libOpenCL.so.1. It stays open. False where there
// is none, or one without these functions: `missing` names what was not found.
bool open_loader(Api* out, const char** missing);

const char* error_name(cl_int code);

}  // namespace aster::runtime::opencl
