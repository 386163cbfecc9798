// Queues of OpenCL's devices: launches, copies and waits.
#include <unistd.h>

#include <algorithm>

#include "base/context.h"
#include "runtime/opencl/devices.h"

namespace aster::runtime::opencl {
namespace {

struct Queue {
  cl_queue queue = nullptr;
  uint64_t given = 0, done = 0;  // tickets
  bool out_of_order = false;
};

// Work-items of a group where the caller does not say: groups enough for all units.
size_t group_of(const Device& device, int64_t tasks) {
  if (device.info.kind == ASTER_ML_DEVICE_KIND_CPU) return 1;
  size_t size = std::min<size_t>(device.info.group_limit, 64);
  while (size > 1 && static_cast<size_t>(tasks) % size != 0) size /= 2;
  return size;
}

cl_int set(const Api& cl, Function& function, size_t at, const void* value, uint64_t bits) {
  Function::Argument& argument = function.arguments[at];
  if (argument.known && argument.bits == bits) return CL_SUCCESS;
  const cl_int error = cl.clSetKernelArg(function.kernel, static_cast<cl_uint>(at), 8, value);
  argument = {bits, error == CL_SUCCESS};
  return error;
}

Status launch(Device& device, Queue& queue, const aster_ml_command& command) {
  const Api& cl = platforms().cl;
  Function& function = *static_cast<Function*>(command.function);
  const bool tasks = command.groups[0] == 0;
  if (tasks && command.tasks <= 0) return kOk;
  const MutexLock lock(function.lock);
  const uint32_t operands = std::min(command.operand_count, function.params);
  const size_t count = size_t{2} * operands + command.size_count;
  if (function.arguments.size() != count) {
    ASTER_TRY(function.arguments.resize(count, {}));
  }
  cl_int error = CL_SUCCESS;
  size_t at = 0;
  for (uint32_t i = 0; i < operands && error == CL_SUCCESS; ++i) {
    const cl_mem memory = memory_of(command.operands[i]);
    const uint64_t offset = command.offsets != nullptr ? command.offsets[i] : 0;
    error = set(cl, function, at++, &memory, number_of(command.operands[i]));
    if (error == CL_SUCCESS) error = set(cl, function, at++, &offset, offset);
  }
  for (uint32_t i = 0; i < command.size_count && error == CL_SUCCESS; ++i) {
    error = set(cl, function, at++, &command.sizes[i], static_cast<uint64_t>(command.sizes[i]));
  }
  if (error != CL_SUCCESS) return failed(device, "clSetKernelArg", error);
  size_t global[3] = {}, local[3] = {};
  for (size_t d = 0; d < 3; ++d) {
    local[d] = std::max<uint32_t>(command.locals[d], 1);
    global[d] = std::max<uint32_t>(command.groups[d], 1) * local[d];
  }
  if (tasks) {
    global[0] = static_cast<size_t>(command.tasks);
    local[0] = group_of(device, command.tasks);
  }
  const bool chosen = tasks || command.locals[0] != 0;
  error = cl.clEnqueueNDRangeKernel(queue.queue, function.kernel, tasks ? 1 : 3, nullptr, global,
                                    chosen ? local : nullptr, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? Status(kOk) : failed(device, "clEnqueueNDRangeKernel", error);
}

// After all that stands in another queue of the device by now, or in this one.
Status wait_for(Device& device, Queue& queue, const aster_ml_command& command) {
  const Api& cl = platforms().cl;
  if (command.queue == nullptr) {
    const cl_int error = queue.out_of_order
                             ? cl.clEnqueueBarrierWithWaitList(queue.queue, 0, nullptr, nullptr)
                             : static_cast<cl_int>(CL_SUCCESS);
    return error == CL_SUCCESS ? Status(kOk)
                               : failed(device, "clEnqueueBarrierWithWaitList", error);
  }
  const Queue& other = *static_cast<const Queue*>(command.queue);
  cl_event event = nullptr;
  cl_int error = cl.clEnqueueMarkerWithWaitList(other.queue, 0, nullptr, &event);
  if (error != CL_SUCCESS) return failed(device, "clEnqueueMarkerWithWaitList", error);
  error = cl.clFlush(other.queue);
  if (error == CL_SUCCESS) {
    error = cl.clEnqueueBarrierWithWaitList(queue.queue, 1, &event, nullptr);
  }
  cl.clReleaseEvent(event);
  return error == CL_SUCCESS ? Status(kOk) : failed(device, "clEnqueueBarrierWithWaitList", error);
}

Status begin(Device& device, Queue& queue, const aster_ml_command& c) {
  const Api& cl = platforms().cl;
  const char* what = "clEnqueueCopyBuffer";
  cl_int error = CL_SUCCESS;
  const bool copies = c.kind >= ASTER_ML_COMMAND_COPY_IN && c.kind <= ASTER_ML_COMMAND_COPY;
  if (copies && c.bytes == 0) return kOk;
  switch (c.kind) {
    case ASTER_ML_COMMAND_LAUNCH:
      return launch(device, queue, c);
    case ASTER_ML_COMMAND_WAIT:
      return wait_for(device, queue, c);
    case ASTER_ML_COMMAND_COPY_IN:
      what = "clEnqueueWriteBuffer";
      error = cl.clEnqueueWriteBuffer(queue.queue, memory_of(c.to), 0, c.to_offset, c.bytes, c.from,
                                      0, nullptr, nullptr);
      break;
    case ASTER_ML_COMMAND_COPY_OUT:
      what = "clEnqueueReadBuffer";
      error = cl.clEnqueueReadBuffer(queue.queue, memory_of(c.from), 0, c.from_offset, c.bytes,
                                     c.to, 0, nullptr, nullptr);
      break;
    case ASTER_ML_COMMAND_COPY:
      error = cl.clEnqueueCopyBuffer(queue.queue, memory_of(c.from), memory_of(c.to), c.from_offset,
                                     c.to_offset, c.bytes, 0, nullptr, nullptr);
      break;
    default:
      return ASTER_FAIL(kARGUMENT, "a command of kind %d", c.kind);
  }
  return error == CL_SUCCESS ? Status(kOk) : failed(device, what, error);
}

}  // namespace

int32_t open(void*, void** queue, int32_t index, uint32_t flags) {
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  Queue* const out = process_heap().create<Queue>();
  if (out == nullptr) return out_of_memory(sizeof(Queue));
  const bool can = (device->info.flags & ASTER_ML_DEVICE_OUT_OF_ORDER) != 0;
  out->out_of_order = can && (flags & ASTER_ML_QUEUE_OUT_OF_ORDER) != 0;
  cl_bitfield properties = 0;
  if (out->out_of_order) properties |= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  if ((flags & ASTER_ML_QUEUE_PROFILED) != 0) properties |= CL_QUEUE_PROFILING_ENABLE;
  cl_int error = CL_SUCCESS;
  out->queue = platforms().cl.clCreateCommandQueue(device->context, device->id, properties, &error);
  if (error != CL_SUCCESS) {
    process_heap().destroy(out);
    return failed(*device, "clCreateCommandQueue", error);
  }
  *queue = out;
  return ASTER_ML_OK;
}

void close(void*, int32_t, void* handle) {
  if (handle == nullptr || platforms().process != getpid()) return;
  Queue* const queue = static_cast<Queue*>(handle);
  platforms().cl.clFinish(queue->queue);
  platforms().cl.clReleaseCommandQueue(queue->queue);
  process_heap().destroy(queue);
}

int32_t submit(void*, uint64_t* ticket, int32_t index, void* handle,
               const aster_ml_command* commands, size_t count) {
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  Queue& queue = *static_cast<Queue*>(handle);
  Status status = kOk;
  for (size_t i = 0; i < count && status.ok(); ++i) status = begin(*device, queue, commands[i]);
  if (!status.ok()) {
    platforms().cl.clFinish(queue.queue);
    return status;
  }
  const cl_int error = platforms().cl.clFlush(queue.queue);
  if (error != CL_SUCCESS) return failed(*device, "clFlush", error);
  *ticket = ++queue.given;
  return ASTER_ML_OK;
}

int32_t wait(void*, int32_t index, void* handle, uint64_t ticket) {
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  Queue& queue = *static_cast<Queue*>(handle);
  if (ticket <= queue.done) return ASTER_ML_OK;
  const uint64_t given = queue.given;
  const cl_int error = platforms().cl.clFinish(queue.queue);
  if (error != CL_SUCCESS) return failed(*device, "clFinish", error);
  queue.done = given;
  return ASTER_ML_OK;
}

}  // namespace aster::runtime::opencl
