// Whether there is a device of OpenCL to run cases on. Drivers are not run under sanitizers, which
// tell of the driver's own.
#pragma once

#include "aster_ml/device.h"
#include "base/sanitize.h"

namespace aster::fuzz {

inline bool has_opencl() {
#ifdef ASTER_SANITIZED
  return false;
#endif
  return aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL) == 1;
}

}  // namespace aster::fuzz
