// What is made of a model's weights, on disk beside the compiled kernels: copies in the order in
// which kernels read them (constants.h), and the bytes of weights that do not lie aligned in their
// file. An entry is named by how it is made and by the bytes it is made of, so it is right whatever
// became of the file; a process that finds it maps it, which takes no memory of its own. Only what
// lies in files that are mapped is kept, and is large; with no_disk_cache, or without kept
// schedules, nothing is.
#pragma once

#include "buffer/storage.h"
#include "codegen/program.h"
#include "runtime/cpu/cache.h"

namespace aster::engine {

// One that is looked for.
struct KeptOnDisk {
  runtime::cpu::Cache* cache = nullptr;  // null: it is not kept
  codegen::program::Digest way;          // it is made in
  std::span<const uint8_t> of;
  size_t bytes = 0;
  runtime::cpu::Digest key = {};
  runtime::cpu::Cache::Mapped found;
};

// The cache where what is made of a part of storage is kept; null: nowhere.
Status cache_of_copies(runtime::cpu::Cache** out, const buffer::Storage& storage, size_t bytes);
// Maps it, if it is there and whole: in memory of its own, or at a place. Any thread.
void find_on_disk(KeptOnDisk* one, void* place = nullptr);

// Brings the bytes of a storage that are late.
void bring_now(buffer::Storage& storage);
inline void bring_late(buffer::Storage& storage) {
  if (storage.late.load(std::memory_order_acquire) != nullptr) [[unlikely]]
    bring_now(storage);
}

// Where the bytes of a part of storage are to be had.
inline const uint8_t* bytes_at(const buffer::Storage& storage, const void* address) {
  const auto* const at = static_cast<const uint8_t*>(address);
  const uint8_t* const late = storage.late.load(std::memory_order_acquire);
  return late == nullptr ? at : late + (at - static_cast<const uint8_t*>(storage.data));
}

}  // namespace aster::engine
