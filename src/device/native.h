// Handles by which other libraries know memory of a device, where these are not what the backend's
// allocate gives.
#pragma once

#include "aster_ml/device.h"
#include "base/status.h"

namespace aster::device {

struct NativeMemory {
  // The handle of what allocate gave. Errors: MEMORY, DEVICE.
  Status (*share)(void** handle, int32_t index, void* data);
  // What allocate would have given for memory with that handle, for release to take back: of a
  // handle that is in use the same one. Errors: ARGUMENT (it is none), RANGE (fewer bytes),
  // UNSUPPORTED (not to be used with the backend's), MEMORY, DEVICE.
  Status (*adopt)(void** data, int32_t index, void* handle, size_t bytes);
};

// Of runtime/opencl, whose data are objects of its own; null for a table that is not its. Programs
// made without that have none.
[[gnu::weak]] const NativeMemory* opencl_memory(const aster_ml_backend& table);

// Null where data is the handle.
inline const NativeMemory* native_memory(const aster_ml_backend* backend) {
  const bool known = backend != nullptr && opencl_memory != nullptr;
  return known ? opencl_memory(*backend) : nullptr;
}

}  // namespace aster::device
