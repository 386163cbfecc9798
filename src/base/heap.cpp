#include <cstdlib>

#include "base/memory.h"
#include "base/sanitize.h"

namespace aster {
namespace {

constinit Heap g_process_heap;

// What the system's allocator has at hand it gives in a tenth of the time that aligned memory
// takes, so small pieces are moved to their alignment within a larger one; the byte before says by
// how much.
constexpr size_t kMostMoved = 896, kMostMove = 64;
bool is_moved(size_t bytes, size_t alignment) {
  return alignment > alignof(std::max_align_t) && alignment <= kMostMove && bytes <= kMostMoved;
}

}  // namespace

Heap& process_heap() { return g_process_heap; }

Heap::Heap(const aster_ml_allocator* table) : Heap() {
  constexpr size_t kNeeded = offsetof(aster_ml_allocator, release) + sizeof(table->release);
  if (table == nullptr || table->struct_size < kNeeded) return;
  if (table->allocate == nullptr || table->release == nullptr) return;
  table_ = *table;
  table_.struct_size = sizeof(table_);
}

void* Heap::allocate_system(void*, size_t bytes, size_t alignment) {
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  void* pointer = nullptr;
  if (!is_moved(bytes, alignment))
    return posix_memalign(&pointer, alignment, bytes) == 0 ? pointer : nullptr;
  pointer = std::malloc(bytes + alignment);
  if (pointer == nullptr) return nullptr;
  char* const first = static_cast<char*>(pointer);
  const size_t moved = alignment - (reinterpret_cast<uintptr_t>(first) & (alignment - 1));
  first[moved - 1] = static_cast<char>(moved);
  return first + moved;
}

void Heap::release_system(void*, void* pointer, size_t bytes, size_t alignment) {
  if (!is_moved(bytes, alignment)) return std::free(pointer);
  char* const first = static_cast<char*>(pointer);
  std::free(first - static_cast<unsigned char>(first[-1]));
}

void* Heap::allocate_counted(void* self, size_t bytes, size_t alignment) {
  Heap& heap = *static_cast<Heap*>(self);
  if (bytes == 0) bytes = 1;
  if (bytes > kMostRequested) return nullptr;
  void* pointer = heap.table_.allocate(heap.table_.self, bytes, alignment);
  if (pointer == nullptr) return nullptr;
  const size_t now = heap.now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  size_t most = heap.most_.load(std::memory_order_relaxed);
  while (most < now && !heap.most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return pointer;
}

void Heap::release_counted(void* self, void* pointer, size_t bytes, size_t alignment) {
  Heap& heap = *static_cast<Heap*>(self);
  if (bytes == 0) bytes = 1;
  heap.now_.fetch_sub(bytes, std::memory_order_relaxed);
  heap.table_.release(heap.table_.self, pointer, bytes, alignment);
}

}  // namespace aster
