// Large copies between pageable memory of the host and a device, by way of pinned memory: while one
// part is on its way, the next one is copied into place.
#pragma once

#include "aster_ml/device.h"
#include "base/heard.h"
#include "buffer/storage.h"

namespace aster::buffer {

constexpr size_t kStagedFrom = size_t{1} << 20;
constexpr size_t kStagedPart = size_t{1} << 20;  // two of them are in flight

// A backend's failure as a status, with what it said of it.
Status backend_failed(const char* what, int32_t device, size_t bytes, int32_t code,
                      const Heard& heard);

// Copies if a device gains by it: it makes pinned memory and has queues, the bytes are many and the
// host's memory is not pinned already. *done says whether it has copied, or begun to and failed.
Status copy_staged(bool* done, const Place& device, void* host, size_t bytes, bool in);

}  // namespace aster::buffer
