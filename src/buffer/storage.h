// Memory behind buffers, tensors and realised graphs: counted, and found by its address.
#pragma once

#include <atomic>

#include "aster_ml/buffer.h"
#include "base/context.h"

namespace aster::buffer {

class BlockCache;

// One allocation or one piece of wrapped memory. Holds a reference on its context.
struct Storage {
  void* data;  // null when bytes is 0
  size_t bytes;
  int32_t device;  // canonical: never 0
  bool read_only;
  bool wrapped;   // foreign memory
  bool internal;  // of the context's own state: holds no reference on it
  bool within;    // its record is in that of what it holds, which has the reference on the context
  bool mapped;    // bytes of a file that is only read, or that are to come of one (late)
  uint8_t kind;   // ASTER_ML_MEMORY_*
  int32_t home;   // the device whose backend gave it and takes it back; 0: none
  // Whether its memory is, or was, also that of another storage: wrapped twice, or within another.
  std::atomic<bool> shared;
  std::atomic<bool> lent;  // its address was given out
  // Where its bytes are to be had while they are not here, in what is held: engine::storage_of()
  // brings them. Null: they are here.
  std::atomic<const uint8_t*> late;
  Context* context;

  // How it ends.
  aster_ml_release_function release;
  void* release_self;
  size_t capacity;   // bytes allocated
  size_t alignment;  // of the allocation; 0 where data is not an allocation of the context's own
  size_t record;     // bytes of this record, with small data behind it
  Storage* held;     // released with this one: the memory of the tensor whose axes these are
  BlockCache* cache;

  std::atomic<uint32_t> references;
  uint32_t owners;  // descriptors that will free it; under the table's lock, as is was_owned
  bool was_owned;
  // The table's tree.
  Storage *left, *right;
  uintptr_t last;     // where the memory of the subtree ends
  uint64_t sequence;  // the order they were made in
};

// Memory on a device (0: CPU), one reference. Not initialised; 64-byte aligned, from 2 MiB on to 2
// MiB with huge pages asked for. Large blocks come from the context's cache of freed ones. Errors:
// MEMORY, UNSUPPORTED, ARGUMENT, DEVICE.
Status storage_create(Storage** out, Context& context, size_t bytes, int32_t device);
// Bytes to ask for where all of them are written and kept for long: whole huge pages from half a
// MiB on, of which one is there sooner than a hundred small ones.
size_t whole_pages(size_t bytes);
// storage_create with the axes of the descriptor that will free it, which hold it, in one
// allocation: the caller has axes, of the CPU, and through them the memory. Not initialised.
Status storage_create_with_axes(Storage** out, Storage** axes, Context& context, size_t bytes,
                                int32_t device, size_t axes_bytes);
// Memory of a kind: PINNED and UNIFIED are the host's, made by a device's backend. Errors: as
// create, ARGUMENT (no kind of the device), UNSUPPORTED (none of this kind there).
Status storage_create_kind(Storage** out, Context& context, size_t bytes, int32_t device,
                           int32_t kind);
// Foreign memory, one reference. release (may be null) runs with the last one; not on failure.
Status storage_wrap(Storage** out, Context& context, void* data, size_t bytes, int32_t device,
                    bool read_only, aster_ml_release_function release, void* self);

// For memory that the context itself keeps as long as it lives: gives the storage's reference on
// the context up, which would keep it alive for ever.
void storage_make_internal(Storage* storage);

// Any thread. The last release frees the memory; null does nothing.
void storage_retain(Storage* storage);
void storage_release(Storage* storage);

// The storage that begins at an address, with a reference for the caller; null if there is none.
// The one made last, if memory was wrapped twice.
Storage* storage_find(const void* data);
// The one made last that holds all of a range of host memory, with a reference; null if there is
// none.
Storage* storage_around(const void* data, size_t bytes);

// The memory that a descriptor with these axes keeps alive, with a reference; null for axes of a
// caller's own.
Storage* storage_behind(const void* axes);
// Whether a storage that begins at data will call release with self.
bool storage_waits(const void* data, aster_ml_release_function release, const void* self);

// Descriptors that own: own turns the caller's reference into a descriptor's. disown gives up that
// of the storage at an address; unknown memory, and memory that no descriptor ever owned, is left
// alone. With known, data is axes, which are ours or a caller's: *known says which, and what was
// wrapped at their address does not count, whose owner may have axes there. by_hand: the descriptor
// was made by its owner, who may have other data where some was that was wrapped. Errors: ARGUMENT
// (freed already).
void own(Storage* storage);
Status disown(const void* data, bool* known = nullptr, bool by_hand = false);

// Copies bytes between any two places; ranges are the caller's to check, and may overlap. Errors:
// DEVICE, ARGUMENT, UNSUPPORTED.
constexpr int32_t kHost = -1;  // as a device: plain host memory
struct Place {
  void* data;
  size_t offset;
  int32_t device;
};
Status copy(const Place& to, const Place& from, size_t bytes);

// Whether somebody else may write its memory at any time: who wrapped it, was lent it or has a
// descriptor of it.
bool storage_is_lent(const Storage& storage);

// Gives the context's freed blocks back to its allocator.
void trim(Context& context);

}  // namespace aster::buffer
