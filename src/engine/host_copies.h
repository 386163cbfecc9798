// Graphs on other devices, computed by the host.
#pragma once

#include <cstdio>

#include "device/device.h"
#include "engine/engine.h"

namespace aster::engine {

// Memory of a device that the host does not address, copied to the host for a computation there and
// back.
class HostCopies {
 public:
  explicit HostCopies(Engine& engine) : e_(engine), copies_(engine.context.heap()) {}
  ~HostCopies() {
    for (const auto& copy : copies_) buffer::storage_release(copy.value);
  }
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  Status of(void** data, buffer::Storage* storage, int64_t offset) {
    buffer::Storage* copy = copies_.get(storage, nullptr);
    if (copy == nullptr) {
      if (storage->bytes != 0) {
        char why[80];
        std::snprintf(why, sizeof(why), "the host computes on memory of %s",
                      device::name(storage->device).text);
        ASTER_TRY(e_.context.may_copy(storage->bytes, why));
      }
      ASTER_TRY(buffer::storage_create(&copy, e_.context, storage->bytes, device::kCpu));
      Status status = copies_.set(storage, copy);
      if (!status.ok()) buffer::storage_release(copy);
      ASTER_TRY(status);
      ASTER_TRY(buffer::copy({copy->data, 0, buffer::kHost}, {storage->data, 0, storage->device},
                             storage->bytes));
    }
    *data = copy->data == nullptr ? nullptr : static_cast<char*>(copy->data) + offset;
    return kOk;
  }
  Status write_back() {
    for (const auto& copy : copies_) {
      if (copy.key->read_only) continue;
      ASTER_TRY(buffer::copy({copy.key->data, 0, copy.key->device},
                             {copy.value->data, 0, buffer::kHost}, copy.key->bytes));
    }
    return kOk;
  }

 private:
  Engine& e_;
  Map<buffer::Storage*, buffer::Storage*> copies_;
};

}  // namespace aster::engine
