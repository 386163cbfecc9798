// Device codes inside the library, and the registry of backends.
#pragma once

#include <cstdint>

#include "aster_ml/device.h"
#include "base/status.h"

namespace aster::device {

constexpr int32_t kCpu = ASTER_ML_DEVICE_CPU;
constexpr int32_t kReference = ASTER_ML_DEVICE_REFERENCE;
constexpr int32_t kDisk = ASTER_ML_DEVICE_DISK;
constexpr int32_t kNull = ASTER_ML_DEVICE_NULL;
constexpr int32_t kIndices = 65536;

constexpr int32_t type(int32_t device) { return device / kIndices; }
constexpr int32_t index(int32_t device) { return device % kIndices; }
constexpr bool same_type(int32_t a, int32_t b) { return type(a) == type(b); }

// A device's name, as text that stays where it is.
struct Name {
  char text[48];
};
Name name(int32_t device);  // "?" for a code that is no device

// 0 becomes CPU:0. Errors: ARGUMENT (no such device).
Status canonical(int32_t* out, int32_t device);

// Whether the host may address memory of this device.
bool backend_is_host(int32_t device);
inline bool is_host(int32_t device) {
  return device == 0 || same_type(device, kCpu) || backend_is_host(device);
}

// The backend that serves a device; null for CPU, REFERENCE and DISK, which are memory of the host.
// Errors: ARGUMENT (no such device, index beyond its count), UNSUPPORTED (no backend).
Status backend(const aster_ml_backend** out, int32_t device);

// The table of OpenCL's devices, found at the first call; null where there is none, and the error
// says why. Of runtime/opencl; programs made without that have none.
[[gnu::weak]] const aster_ml_backend* find_opencl();

// Whether memory can be allocated on it. Errors: as backend; UNSUPPORTED for DISK.
Status allocatable(int32_t device);

}  // namespace aster::device
