// What other code that uses OpenCL shares with this library: handles, memory, events.
#pragma once

#include "aster_ml/queue.h"
#include "base/status.h"

namespace aster::runtime::opencl {

// Errors: ARGUMENT, UNSUPPORTED (no device of OPENCL), DEVICE.
Status native_device(aster_ml_opencl* out, int32_t code);

// The object of a buffer, and where in it the buffer begins. Errors: as native_device.
Status native_memory(void** memory, size_t* offset, const aster_ml_buffer& buffer);

// Calls done(self, status) when an event is over, on a thread of the driver's or this one. Errors:
// as native_device; nothing is called then.
Status when_over(void* event, void (*done)(void* self, int32_t status), void* self);

// An event of a device that end_event ends, once; it is the caller's and end_event's.
Status begin_event(void** out, int32_t code);
void end_event(void* event, int32_t status);

}  // namespace aster::runtime::opencl
