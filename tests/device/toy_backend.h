// A device whose memory the host cannot address by accident: every address is one more than the
// real one.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "aster_ml/device.h"

namespace aster_test {

struct ToyDevice {
  std::atomic<int> live{0};
  std::atomic<int> copies{0};
  int fail_with = 0;           // status of the next calls, 0: none
  bool gives_nothing = false;  // allocations succeed without memory

  static char* real(const void* data) { return static_cast<char*>(const_cast<void*>(data)) - 1; }

  aster_ml_backend table(bool with_copy) {
    aster_ml_backend backend{};
    backend.struct_size = sizeof(backend);
    backend.count = 2;
    backend.self = this;
    backend.allocate = [](void* self, void** out, int32_t, size_t bytes) -> int32_t {
      ToyDevice* toy = static_cast<ToyDevice*>(self);
      if (toy->fail_with != 0) return toy->fail_with;
      if (toy->gives_nothing) return ASTER_ML_OK;
      char* memory = static_cast<char*>(std::malloc(bytes + 1));
      if (memory == nullptr) return ASTER_ML_MEMORY;
      *out = memory + 1;
      ++toy->live;
      return ASTER_ML_OK;
    };
    backend.release = [](void* self, int32_t, void* data, size_t) {
      std::free(real(data));
      --static_cast<ToyDevice*>(self)->live;
    };
    backend.copy_in = [](void* self, int32_t, void* data, size_t offset, const void* host,
                         size_t bytes) -> int32_t {
      if (static_cast<ToyDevice*>(self)->fail_with != 0)
        return static_cast<ToyDevice*>(self)->fail_with;
      std::memcpy(real(data) + offset, host, bytes);
      return ASTER_ML_OK;
    };
    backend.copy_out = [](void* self, int32_t, void* host, const void* data, size_t offset,
                          size_t bytes) -> int32_t {
      if (static_cast<ToyDevice*>(self)->fail_with != 0)
        return static_cast<ToyDevice*>(self)->fail_with;
      std::memcpy(host, real(data) + offset, bytes);
      return ASTER_ML_OK;
    };
    if (with_copy) {
      backend.copy = [](void* self, int32_t, void* data, size_t offset, const void* source,
                        size_t source_offset, size_t bytes) -> int32_t {
        ++static_cast<ToyDevice*>(self)->copies;
        std::memmove(real(data) + offset, real(source) + source_offset, bytes);
        return ASTER_ML_OK;
      };
    }
    return backend;
  }
};

}  // namespace aster_test
