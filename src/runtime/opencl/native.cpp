#include "runtime/opencl/native.h"

#include <unistd.h>

#include <atomic>

#include "base/context.h"
#include "device/device.h"
#include "runtime/opencl/devices.h"

namespace aster::runtime::opencl {
namespace {

Status find(Device** out, int32_t code) {
  const aster_ml_backend* table = nullptr;
  ASTER_TRY(device::canonical(&code, code));
  if (!device::same_type(code, ASTER_ML_DEVICE_OPENCL)) {
    return ASTER_FAIL(kUNSUPPORTED, "%s has no handles of OpenCL", device::name(code).text);
  }
  ASTER_TRY(device::backend(&table, code));
  return use(out, device::index(code));
}

// A function of ours and what it is called with, as a driver keeps it.
struct Waiting {
  void (*done)(void* self, int32_t status);
  void* self;
};
void over(cl_event, cl_int status, void* waiting) {
  auto* const one = static_cast<Waiting*>(waiting);
  one->done(one->self, status < 0 ? ASTER_ML_DEVICE : ASTER_ML_OK);
  process_heap().destroy(one);
}

// Buffers that others know by their handles. A handle that comes back is the buffer that it went
// out of, so that what lies in it is seen to be the same memory.
constinit Mutex g_shared_mutex;
constinit Vec<Buffer*>* g_shared = nullptr;

Status remember(Buffer* buffer) {
  if (buffer->shared) return kOk;
  if (g_shared == nullptr) g_shared = process_heap().create<Vec<Buffer*>>(process_heap());
  if (g_shared == nullptr) return out_of_memory(sizeof(*g_shared));
  ASTER_TRY(g_shared->push(buffer));
  buffer->shared = true;
  return kOk;
}

// Whether a device can use a handle for so many bytes.
Status check(Device& device, cl_mem memory, size_t bytes) {
  cl_uint type = 0;
  size_t size = 0;
  cl_context context = nullptr;
  const Api& cl = platforms().cl;
  cl_int error = cl.clGetMemObjectInfo(memory, CL_MEM_TYPE, sizeof(type), &type, nullptr);
  if (error == CL_INVALID_MEM_OBJECT || (error == CL_SUCCESS && type != CL_MEM_OBJECT_BUFFER))
    return ASTER_FAIL(kARGUMENT, "OPENCL: the memory is no cl_mem of a buffer");
  if (error == CL_SUCCESS)
    error = cl.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(size), &size, nullptr);
  if (error == CL_SUCCESS)
    error = cl.clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof(context), &context, nullptr);
  if (error != CL_SUCCESS) return failed(device, "clGetMemObjectInfo", error);
  if (context != device.context) {
    return ASTER_FAIL(kUNSUPPORTED,
                      "OPENCL: memory of another cl_context than aster_ml_queue_opencl gives");
  }
  if (size < bytes)
    return ASTER_FAIL(kRANGE, "OPENCL: %zu bytes in a cl_mem of %zu bytes", bytes, size);
  return kOk;
}

}  // namespace

Buffer* make_buffer(size_t bytes) {
  static constinit std::atomic<uint64_t> made{0};
  Buffer* const out = process_heap().create<Buffer>();
  if (out == nullptr) return nullptr;
  out->number = made.fetch_add(1, std::memory_order_relaxed);
  out->bytes = bytes;
  return out;
}

Status share(void** handle, int32_t, void* data) {
  const MutexLock lock(g_shared_mutex);
  ASTER_TRY(remember(static_cast<Buffer*>(data)));
  *handle = memory_of(data);
  return kOk;
}

Status adopt(void** data, int32_t index, void* handle, size_t bytes) {
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  const auto memory = static_cast<cl_mem>(handle);
  ASTER_TRY(check(*device, memory, bytes));
  const MutexLock lock(g_shared_mutex);
  for (size_t i = 0; g_shared != nullptr && i < g_shared->size(); ++i) {
    Buffer* const one = (*g_shared)[i];
    if (one->memory != memory) continue;
    ++one->holders;
    *data = one;
    return kOk;
  }
  Buffer* const buffer = make_buffer(bytes);
  if (buffer == nullptr) return out_of_memory(sizeof(Buffer));
  buffer->memory = memory;
  const Status status = remember(buffer);
  if (!status.ok()) {
    process_heap().destroy(buffer);
    return status;
  }
  platforms().cl.clRetainMemObject(memory);
  *data = buffer;
  return kOk;
}

bool let_go(Buffer* buffer) {
  if (!buffer->shared) return true;
  const MutexLock lock(g_shared_mutex);
  if (buffer->holders != 0) return --buffer->holders, false;
  for (Buffer*& one : *g_shared) {
    if (one != buffer) continue;
    one = g_shared->back();
    g_shared->pop();
    break;
  }
  return true;
}

Status native_device(aster_ml_opencl* out, int32_t code) {
  Device* device = nullptr;
  ASTER_TRY(find(&device, code));
  out->platform = device->platform;
  out->device = device->id;
  out->context = device->context;
  out->queue = device->copies;
  return kOk;
}

Status native_memory(void** memory, size_t* offset, const aster_ml_buffer& buffer) {
  Device* device = nullptr;
  ASTER_TRY(find(&device, buffer.device));
  if (buffer.data == nullptr) return ASTER_FAIL(kARGUMENT, "a buffer without memory");
  *offset = 0;
  return share(memory, device::index(buffer.device), buffer.data);
}

Status when_over(void* event, void (*done)(void* self, int32_t status), void* self) {
  Device* device = nullptr;
  ASTER_TRY(find(&device, ASTER_ML_DEVICE_OPENCL));
  if (event == nullptr) return ASTER_FAIL(kARGUMENT, "the cl_event is null");
  auto* const waiting = process_heap().create<Waiting>(Waiting{done, self});
  if (waiting == nullptr) return out_of_memory(sizeof(Waiting));
  const cl_int error =
      platforms().cl.clSetEventCallback(static_cast<cl_event>(event), CL_COMPLETE, over, waiting);
  if (error == CL_SUCCESS) return kOk;
  process_heap().destroy(waiting);
  return failed(*device, "clSetEventCallback", error);
}

Status begin_event(void** out, int32_t code) {
  Device* device = nullptr;
  ASTER_TRY(find(&device, code));
  const Api& cl = platforms().cl;
  cl_int error = CL_SUCCESS;
  const cl_event event = cl.clCreateUserEvent(device->context, &error);
  if (error != CL_SUCCESS) return failed(*device, "clCreateUserEvent", error);
  cl.clRetainEvent(event);
  *out = event;
  return kOk;
}

void end_event(void* event, int32_t status) {
  if (platforms().process != getpid()) return;
  const Api& cl = platforms().cl;
  const auto ours = static_cast<cl_event>(event);
  cl.clSetUserEventStatus(
      ours, status == ASTER_ML_OK ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  cl.clReleaseEvent(ours);
}

}  // namespace aster::runtime::opencl
