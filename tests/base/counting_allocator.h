// An allocator table that counts what is out and can fail the Nth request.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include "aster_ml/base.h"

namespace aster_test {

class CountingAllocator {
 public:
  CountingAllocator() {
    table.struct_size = sizeof(table);
    table.self = this;
    table.allocate = [](void* self, size_t bytes, size_t alignment) {
      return static_cast<CountingAllocator*>(self)->allocate(bytes, alignment);
    };
    table.release = [](void* self, void* pointer, size_t bytes, size_t alignment) {
      static_cast<CountingAllocator*>(self)->release(pointer, bytes, alignment);
    };
  }
  size_t live() const { return live_.size(); }
  int64_t requests() const { return requests_; }
  bool sound() const { return sound_; }                  // every release matched its request
  void fail_at(int64_t request) { fail_at_ = request; }  // counted from the next one, 0

  aster_ml_allocator table{};

 private:
  struct Request {
    size_t bytes, alignment;
  };
  void* allocate(size_t bytes, size_t alignment) {
    const std::lock_guard lock(mutex_);
    ++requests_;
    if (fail_at_ >= 0 && fail_at_-- == 0) return nullptr;
    if (bytes > size_t{1} << 39) return nullptr;  // which a sanitizer's allocator would not survive
    const size_t unit = alignment < 16 ? 16 : alignment;
    void* pointer = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
    if (pointer == nullptr) return nullptr;
    live_[pointer] = {bytes, alignment};
    return pointer;
  }
  void release(void* pointer, size_t bytes, size_t alignment) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(pointer);
    if (found == live_.end() || found->second.bytes != bytes ||
        found->second.alignment != alignment) {
      sound_ = false;
      return;
    }
    live_.erase(found);
    std::free(pointer);
  }
  std::mutex mutex_;
  std::map<void*, Request> live_;
  int64_t requests_ = 0;
  int64_t fail_at_ = -1;
  bool sound_ = true;
};

}  // namespace aster_test
