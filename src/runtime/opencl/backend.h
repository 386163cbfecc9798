// The table of OpenCL's devices (device.h of the public headers).
#pragma once

#include "aster_ml/device.h"

namespace aster::runtime::opencl {

// Found at the first call, which opens the loader of drivers. Null where there is no device: the
// error says why.
const aster_ml_backend* find_backend();

}  // namespace aster::runtime::opencl
