#include "buffer/storage.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/mutex.h"
#include "buffer/block_cache.h"
#include "buffer/staging.h"
#include "device/device.h"

namespace aster::buffer {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kRecord = align_up(sizeof(Storage), kAlignment);  // in front of small data
constexpr size_t kLeastHuge = size_t{512} << 10;
constexpr size_t kFreedSlots = 4096;

struct Freed {
  const void* data;
  bool wrapped;
};
// Storages by address, and which addresses were freed last. The tree is a treap: by address, of one
// address the last made first; a node's priority is a hash of its place in memory.
struct Table {
  Mutex mutex;
  Storage* root = nullptr;
  uint64_t sequence = 0;
  Freed freed[kFreedSlots] = {};  // by hash; a later address takes an earlier one's place
};
constinit Table g_table;

uint64_t hash(const void* data) { return hash_mix(0, reinterpret_cast<uintptr_t>(data)); }
Freed& freed_slot(const void* data) { return g_table.freed[hash(data) % kFreedSlots]; }

uintptr_t begin_of(const Storage* storage) { return reinterpret_cast<uintptr_t>(storage->data); }
// Behind it; every storage has a place of its own, whatever its bytes.
uintptr_t end_of(const Storage* storage) {
  const bool host = device::is_host(storage->device);
  return begin_of(storage) + (host && storage->bytes != 0 ? storage->bytes : 1);
}
bool before(const Storage* a, const Storage* b) {
  return begin_of(a) != begin_of(b) ? begin_of(a) < begin_of(b) : a->sequence > b->sequence;
}

void measure(Storage* node) {
  node->last = end_of(node);
  for (const Storage* child : {node->left, node->right}) {
    if (child != nullptr && child->last > node->last) node->last = child->last;
  }
}

// The nodes of a tree before a key, and the others.
void split(Storage* tree, const Storage* key, Storage** low, Storage** high) {
  if (tree == nullptr) {
    *low = *high = nullptr;
  } else if (before(tree, key)) {
    split(tree->right, key, &tree->right, high);
    *low = tree;
    measure(tree);
  } else {
    split(tree->left, key, low, &tree->left);
    *high = tree;
    measure(tree);
  }
}

Storage* put(Storage* tree, Storage* storage) {
  if (tree != nullptr && hash(tree) >= hash(storage)) {
    Storage*& side = before(tree, storage) ? tree->right : tree->left;
    side = put(side, storage);
    measure(tree);
    return tree;
  }
  split(tree, storage, &storage->left, &storage->right);
  measure(storage);
  return storage;
}

Storage* join(Storage* low, Storage* high) {
  if (low == nullptr || high == nullptr) return low != nullptr ? low : high;
  Storage* top = hash(low) >= hash(high) ? low : high;
  if (top == low) {
    low->right = join(low->right, high);
  } else {
    high->left = join(low, high->left);
  }
  measure(top);
  return top;
}

Storage* take_out(Storage* tree, const Storage* storage) {
  if (tree == storage) return join(tree->left, tree->right);
  Storage*& side = before(tree, storage) ? tree->right : tree->left;
  side = take_out(side, storage);
  measure(tree);
  return tree;
}

// The first, in the tree's order, of those that have bytes from begin up to end for which
// fits(storage) says so. Under the lock.
template <typename Fits>
Storage* search(Storage* tree, uintptr_t begin, uintptr_t end, const Fits& fits) {
  while (tree != nullptr && tree->last > begin) {
    if (Storage* found = search(tree->left, begin, end, fits)) return found;
    if (begin_of(tree) >= end) return nullptr;
    if (end_of(tree) > begin && fits(tree)) return tree;
    tree = tree->right;
  }
  return nullptr;
}
template <typename Fits>
Storage* search_at(const void* data, const Fits& fits) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return search(g_table.root, begin, begin + 1,
                [&](Storage* storage) { return storage->data == data && fits(storage); });
}

// Takes a reference; one that is on its way out is not brought back.
bool revive(Storage* storage) {
  uint32_t references = storage->references.load(std::memory_order_relaxed);
  while (references != 0) {
    if (storage->references.compare_exchange_weak(references, references + 1,
                                                  std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// Under the lock, as is remove.
void insert(Storage* storage) {
  // What the host does not address is one piece, whose name no other has.
  const bool host = device::is_host(storage->device);
  (void)search(g_table.root, begin_of(storage), end_of(storage), [&](Storage* other) {
    if (device::is_host(other->device) != host) return false;
    if (!host && other->data != storage->data) return false;
    other->shared.store(true, std::memory_order_relaxed);
    storage->shared.store(true, std::memory_order_relaxed);
    return false;
  });
  storage->sequence = ++g_table.sequence;
  g_table.root = put(g_table.root, storage);
  Freed& freed = freed_slot(storage->data);
  if (freed.data == storage->data) freed = {};
}

void remove(Storage* storage) {
  g_table.root = take_out(g_table.root, storage);
  if (storage->was_owned) freed_slot(storage->data) = {storage->data, storage->wrapped};
}

// Large host memory, from the context's cache of freed blocks or its allocator.
Status allocate_large(Storage* storage) {
  Context& context = *storage->context;
  storage->cache = BlockCache::of(context);
  if (storage->cache == nullptr) return out_of_memory(sizeof(BlockCache));
  Block block = storage->cache->get(storage->bytes);
  if (block.data == nullptr) {
    // Whole huge pages where that takes little more: the rest would come by small ones, slowly.
    const size_t huge = align_up(storage->bytes, kHugePage);
    const bool little = huge - storage->bytes <= storage->bytes / 4;
    block.capacity = little ? huge : align_up(storage->bytes, kPage);
    block.alignment = block.capacity >= kHugePage ? kHugePage : kAlignment;
    block.data = context.heap().allocate(block.capacity, block.alignment);
    if (block.data == nullptr) {
      storage->cache->trim();
      block.data = context.heap().allocate(block.capacity, block.alignment);
    }
    if (block.data == nullptr) return out_of_memory(storage->bytes);
    if (block.alignment == kHugePage) madvise(block.data, block.capacity, MADV_HUGEPAGE);
  }
  storage->data = block.data;
  storage->capacity = block.capacity;
  storage->alignment = block.alignment;
  return kOk;
}

void free_memory(Storage* storage) {
  if (storage->cache != nullptr) {
    storage->cache->put({storage->data, storage->capacity, storage->alignment});
  } else if (storage->data != nullptr && storage->home != 0) {
    const aster_ml_backend* backend;
    if (device::backend(&backend, storage->home).ok() && backend != nullptr)
      backend->release(backend->self, device::index(storage->home), storage->data, storage->bytes);
  }
  if (storage->release != nullptr)
    storage->release(storage->release_self, storage->data, storage->bytes);
}

size_t record_alignment(size_t record) {
  return record == sizeof(Storage) ? alignof(Storage) : kAlignment;
}

// A record on a canonical device; data of inline_bytes stands behind it, if any, and then, aligned
// as records are, so many bytes more.
Status make(Storage** out, Context& context, size_t bytes, int32_t device, size_t inline_bytes,
            size_t more = 0) {
  size_t record = inline_bytes == 0 ? sizeof(Storage) : kRecord + inline_bytes;
  if (more != 0) record = align_up(record, alignof(Storage)) + more;
  void* memory = context.heap().allocate(record, record_alignment(record));
  if (memory == nullptr) return out_of_memory(record);
  Storage* storage = ::new (memory) Storage();
  storage->record = record;
  if (inline_bytes != 0) storage->data = static_cast<char*>(memory) + kRecord;
  storage->bytes = bytes;
  storage->device = device;
  storage->kind = device::is_host(device) ? ASTER_ML_MEMORY_NORMAL : ASTER_ML_MEMORY_DEVICE;
  storage->context = &context;
  storage->references.store(1, std::memory_order_relaxed);
  *out = storage;
  return kOk;
}

void destroy(Storage* storage) {
  Heap& heap = storage->context->heap();
  const size_t record = storage->record;
  storage->~Storage();
  heap.release(storage, record, record_alignment(record));
}

Status allocate_on(const aster_ml_backend& backend, Storage* storage) {
  const Heard heard;
  const int32_t code = backend.allocate(backend.self, &storage->data,
                                        device::index(storage->device), storage->bytes);
  storage->home = storage->device;
  if (code == ASTER_ML_OK && storage->data != nullptr) return kOk;
  storage->data = nullptr;
  return backend_failed("allocation", storage->device, storage->bytes, code, heard);
}

const char* kind_name(int32_t kind) {
  return kind == ASTER_ML_MEMORY_PINNED ? "pinned" : "unified";
}

// PINNED or UNIFIED.
Status allocate_kind(const aster_ml_backend& backend, Storage* storage, int32_t home) {
  const Heard heard;
  const int32_t code = backend.allocate_kind(backend.self, &storage->data, device::index(home),
                                             storage->bytes, storage->kind);
  if (code == ASTER_ML_UNSUPPORTED) {
    return ASTER_FAIL(kUNSUPPORTED, "%s makes no %s memory", device::name(home).text,
                      kind_name(storage->kind));
  }
  if (code != ASTER_ML_OK || storage->data == nullptr)
    return backend_failed("allocation", home, storage->bytes, code, heard);
  if (reinterpret_cast<uintptr_t>(storage->data) % kAlignment == 0) return kOk;
  backend.release(backend.self, device::index(home), storage->data, storage->bytes);
  return ASTER_FAIL(kERROR, "%s: its %s memory is not aligned to %zu bytes",
                    device::name(home).text, kind_name(storage->kind), kAlignment);
}

void publish(Storage* storage) {
  storage->context->retain();
  if (storage->data == nullptr) return;
  const MutexLock lock(g_table.mutex);
  insert(storage);
}

// Gives a reference up, under the lock: the last one takes the storage out of the table and puts it
// before the dead, and so on with what it holds.
void give_up(Storage* storage, Storage** dead) {
  while (storage != nullptr && storage->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (storage->data != nullptr) remove(storage);
    Storage* const held = storage->held;
    if (!storage->within) {
      storage->held = *dead;
      *dead = storage;
    }  // else it ends with the memory of what it held, which others may free from here on
    storage = held;
  }
}

// Outside the lock: what ends may call its owner back.
void bury(Storage* dead) {
  while (dead != nullptr) {
    Storage* const next = dead->held;
    Context* const context = dead->context;
    const bool internal = dead->internal;
    free_memory(dead);
    destroy(dead);
    if (!internal) context->release();
    dead = next;
  }
}

struct Copier {
  const aster_ml_backend* backend = nullptr;  // null where the host addresses the memory
  int32_t index = 0;
};

Status copier_of(Copier* out, int32_t device) {
  if (device == kHost) return kOk;
  ASTER_TRY(device::backend(&out->backend, device));
  if (device::is_host(device)) out->backend = nullptr;
  out->index = device::index(device);
  return kOk;
}

// A copy by a backend.
template <typename Call>
Status attempt(const Place& place, size_t bytes, const Call& call) {
  const Heard heard;
  const int32_t code = call();
  return code == ASTER_ML_OK ? kOk : backend_failed("copy", place.device, bytes, code, heard);
}

char* host_at(const Place& place) { return static_cast<char*>(place.data) + place.offset; }

// Between two devices that the host does not address, piece by piece.
Status copy_by_host(const Place& to, const Copier& writer, const Place& from, const Copier& reader,
                    size_t bytes) {
  char piece[16 * 1024];
  // From the end when the ranges overlap and the destination lies behind.
  const bool backward = to.data == from.data && to.offset > from.offset;
  for (size_t done = 0; done < bytes;) {
    const size_t count = bytes - done < sizeof(piece) ? bytes - done : sizeof(piece);
    const size_t at = backward ? bytes - done - count : done;
    ASTER_TRY(attempt(from, count, [&] {
      return reader.backend->copy_out(reader.backend->self, reader.index, piece, from.data,
                                      from.offset + at, count);
    }));
    ASTER_TRY(attempt(to, count, [&] {
      return writer.backend->copy_in(writer.backend->self, writer.index, to.data, to.offset + at,
                                     piece, count);
    }));
    done += count;
  }
  return kOk;
}

}  // namespace

// A storage that the table does not know yet.
static Status create_unpublished(Storage** out, Context& context, size_t bytes, int32_t device,
                                 size_t more = 0) {
  const aster_ml_backend* backend;
  ASTER_TRY(device::canonical(&device, device));
  ASTER_TRY(device::backend(&backend, device));
  if (device::same_type(device, device::kDisk)) {
    return ASTER_FAIL(kUNSUPPORTED, "memory cannot be allocated on %s", device::name(device).text);
  }
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) - kPage)
    return ASTER_FAIL(kRANGE, "%zu bytes", bytes);
  const bool large = bytes >= kCachedFrom;
  Storage* storage;
  const size_t inline_bytes = backend == nullptr && !large ? bytes : 0;
  ASTER_TRY(make(&storage, context, bytes, device, inline_bytes, more));
  Status status;
  if (backend != nullptr && bytes != 0) status = allocate_on(*backend, storage);
  if (backend == nullptr && large) status = allocate_large(storage);
  if (!status.ok()) {
    destroy(storage);
    return status;
  }
  *out = storage;
  return kOk;
}

size_t whole_pages(size_t bytes) { return bytes < kLeastHuge ? bytes : align_up(bytes, kHugePage); }

Status storage_create(Storage** out, Context& context, size_t bytes, int32_t device) {
  *out = nullptr;
  ASTER_TRY(create_unpublished(out, context, bytes, device));
  publish(*out);
  return kOk;
}

Status storage_create_with_axes(Storage** out, Storage** axes, Context& context, size_t bytes,
                                int32_t device, size_t axes_bytes) {
  *out = *axes = nullptr;
  const size_t more = sizeof(Storage) + axes_bytes;
  ASTER_TRY(create_unpublished(out, context, bytes, device, more));
  // The axes hold the memory, so its record, which they stand in, outlives them.
  char* const place = static_cast<char*>(static_cast<void*>(*out)) + (*out)->record - more;
  Storage* const made = ::new (static_cast<void*>(place)) Storage();
  made->data = place + sizeof(Storage);
  made->bytes = axes_bytes;
  made->device = device::kCpu;
  made->kind = ASTER_ML_MEMORY_NORMAL;
  made->within = true;
  made->context = &context;
  made->references.store(1, std::memory_order_relaxed);
  made->held = *out;
  made->owners = 1;
  made->was_owned = true;
  *axes = made;
  context.retain();
  const MutexLock lock(g_table.mutex);
  if ((*out)->data != nullptr) insert(*out);
  insert(made);
  return kOk;
}

Status storage_create_kind(Storage** out, Context& context, size_t bytes, int32_t device,
                           int32_t kind) {
  *out = nullptr;
  const aster_ml_backend* backend;
  ASTER_TRY(device::canonical(&device, device));
  const bool host = device::is_host(device);
  if (kind == (host ? ASTER_ML_MEMORY_NORMAL : ASTER_ML_MEMORY_DEVICE))
    return storage_create(out, context, bytes, device);
  if (kind != ASTER_ML_MEMORY_PINNED && kind != ASTER_ML_MEMORY_UNIFIED)
    return ASTER_FAIL(kARGUMENT, "%d is no kind of memory of %s", kind, device::name(device).text);
  ASTER_TRY(device::backend(&backend, device));
  if (backend == nullptr || backend->allocate_kind == nullptr) {
    return ASTER_FAIL(kUNSUPPORTED, "%s makes no %s memory", device::name(device).text,
                      kind_name(kind));
  }
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) - kPage)
    return ASTER_FAIL(kRANGE, "%zu bytes", bytes);
  Storage* storage;
  ASTER_TRY(make(&storage, context, bytes, device::kCpu, 0));
  storage->kind = static_cast<uint8_t>(kind);
  storage->home = device;
  if (bytes != 0) {
    const Status status = allocate_kind(*backend, storage, device);
    if (!status.ok()) {
      destroy(storage);
      return status;
    }
  }
  publish(storage);
  *out = storage;
  return kOk;
}

Status storage_wrap(Storage** out, Context& context, void* data, size_t bytes, int32_t device,
                    bool read_only, aster_ml_release_function release, void* self) {
  *out = nullptr;
  Storage* storage;
  ASTER_TRY(device::canonical(&device, device));
  ASTER_TRY(make(&storage, context, bytes, device, 0));
  storage->data = data;
  storage->read_only = read_only || device::same_type(storage->device, device::kDisk);
  storage->wrapped = true;
  storage->release = release;
  storage->release_self = self;
  publish(storage);
  *out = storage;
  return kOk;
}

void storage_make_internal(Storage* storage) {
  if (storage == nullptr || storage->internal) return;
  storage->internal = true;
  storage->context->release();
}

void storage_retain(Storage* storage) {
  if (storage == nullptr) return;
  storage->references.fetch_add(1, std::memory_order_relaxed);
}

void storage_release(Storage* storage) {
  if (storage == nullptr) return;
  // All but the last need no lock.
  uint32_t references = storage->references.load(std::memory_order_relaxed);
  while (references > 1) {
    if (storage->references.compare_exchange_weak(references, references - 1,
                                                  std::memory_order_acq_rel))
      return;
  }
  Storage* dead = nullptr;
  {
    const MutexLock lock(g_table.mutex);
    give_up(storage, &dead);
  }
  bury(dead);
}

Storage* storage_find(const void* data) {
  if (data == nullptr) return nullptr;
  const MutexLock lock(g_table.mutex);
  return search_at(data, revive);
}

Storage* storage_around(const void* data, size_t bytes) {
  if (data == nullptr) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const MutexLock lock(g_table.mutex);
  Storage* found = nullptr;
  (void)search(g_table.root, begin, begin + 1, [&](Storage* storage) {
    const bool holds = device::is_host(storage->device) && end_of(storage) - begin >= bytes;
    if (holds && (found == nullptr || storage->sequence > found->sequence)) found = storage;
    return false;
  });
  return found != nullptr && revive(found) ? found : nullptr;
}

Storage* storage_behind(const void* axes) {
  if (axes == nullptr) return nullptr;
  const MutexLock lock(g_table.mutex);
  // What is in the table has not given its memory back yet.
  Storage* found = search_at(axes, [](const Storage* at) { return at->held != nullptr; });
  if (found == nullptr) return nullptr;
  storage_retain(found->held);
  return found->held;
}

bool storage_waits(const void* data, aster_ml_release_function release, const void* self) {
  const MutexLock lock(g_table.mutex);
  return search_at(data, [&](const Storage* at) {
           return at->release == release && at->release_self == self;
         }) != nullptr;
}

void own(Storage* storage) {
  const MutexLock lock(g_table.mutex);
  ++storage->owners;
  storage->was_owned = true;
}

bool storage_is_lent(const Storage& storage) {
  if (storage.wrapped || storage.shared.load(std::memory_order_relaxed) ||
      storage.lent.load(std::memory_order_relaxed))
    return true;
  const MutexLock lock(g_table.mutex);
  return storage.was_owned;
}

Status disown(const void* data, bool* known, bool by_hand) {
  const bool axes = known != nullptr;
  if (known != nullptr) *known = false;
  if (data == nullptr) return kOk;
  Storage *owned = nullptr, *dead = nullptr;
  {
    const MutexLock lock(g_table.mutex);
    const Freed& last = freed_slot(data);
    bool freed = last.data == data && !((axes || by_hand) && last.wrapped);
    owned = search_at(data, [&](const Storage* at) {
      if (axes && at->wrapped) return false;
      freed |= at->was_owned;
      return at->owners > 0;
    });
    if (owned == nullptr) {
      // An address within memory that lives now is lent by its owner, whatever was there before.
      const auto begin = reinterpret_cast<uintptr_t>(data);
      const auto within = [&](const Storage* at) { return at->data != data; };
      freed = freed && search(g_table.root, begin, begin + 1, within) == nullptr;
      return freed ? ASTER_FAIL(kARGUMENT, "the memory at %p was freed already", data) : kOk;
    }
    --owned->owners;
    give_up(owned, &dead);
  }
  bury(dead);
  if (known != nullptr) *known = true;
  return kOk;
}

Status copy(const Place& to, const Place& from, size_t bytes) {
  if (bytes == 0) return kOk;
  Copier writer, reader;
  ASTER_TRY(copier_of(&writer, to.device));
  ASTER_TRY(copier_of(&reader, from.device));
  const aster_ml_backend* into = writer.backend;
  const aster_ml_backend* out_of = reader.backend;
  if (into == nullptr && out_of == nullptr) {
    std::memmove(host_at(to), host_at(from), bytes);
    return kOk;
  }
  bool staged = false;
  if (out_of == nullptr) {
    ASTER_TRY(copy_staged(&staged, to, host_at(from), bytes, true));
    if (staged) return kOk;
    return attempt(to, bytes, [&] {
      return into->copy_in(into->self, writer.index, to.data, to.offset, host_at(from), bytes);
    });
  }
  if (into == nullptr) {
    ASTER_TRY(copy_staged(&staged, from, host_at(to), bytes, false));
    if (staged) return kOk;
    return attempt(from, bytes, [&] {
      return out_of->copy_out(out_of->self, reader.index, host_at(to), from.data, from.offset,
                              bytes);
    });
  }
  if (to.device == from.device && into->copy != nullptr) {
    return attempt(to, bytes, [&] {
      return into->copy(into->self, writer.index, to.data, to.offset, from.data, from.offset,
                        bytes);
    });
  }
  return copy_by_host(to, writer, from, reader, bytes);
}

void trim(Context& context) {
  if (void* state = context.state(Module::kBuffer)) static_cast<BlockCache*>(state)->trim();
}

}  // namespace aster::buffer
