#include "runtime/opencl/native.h"

#include <unistd.h>

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

}  // namespace

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
  *memory = memory_of(buffer.data);
  *offset = 0;
  return kOk;
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
