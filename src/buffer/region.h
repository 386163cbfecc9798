// The one notion of where memory is that everything about aliasing asks: a range of bytes.
#pragma once

#include <cstdint>

#include "buffer/storage.h"
#include "device/device.h"

namespace aster::buffer {

// Addresses of the host, or places in what a backend allocated. Empty ones overlap nothing.
struct Region {
  const void* space;  // the backend's allocation; null for what the host addresses
  uintptr_t begin, end;

  bool overlaps(const Region& other) const {
    return space == other.space && begin < other.end && other.begin < end && begin < end &&
           other.begin < other.end;
  }
  bool contains(const Region& other) const {
    return space == other.space && begin <= other.begin && other.end <= end;
  }
  bool operator==(const Region&) const = default;
};

inline Region host_region(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {nullptr, begin, begin + bytes};
}
inline Region region_of(const Storage& storage, size_t offset, size_t bytes) {
  if (!device::is_host(storage.device)) return {storage.data, offset, offset + bytes};
  const auto begin = reinterpret_cast<uintptr_t>(storage.data) + offset;
  return {nullptr, begin, begin + bytes};
}
inline Region region_of(const Storage& storage) { return region_of(storage, 0, storage.bytes); }

// Whether two storages have memory in common.
inline bool share_memory(const Storage& a, const Storage& b) {
  return &a == &b ||
         (a.shared.load(std::memory_order_relaxed) && b.shared.load(std::memory_order_relaxed) &&
          region_of(a).overlaps(region_of(b)));
}

}  // namespace aster::buffer
