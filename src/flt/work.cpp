#include "flt/work.h"

#include <sys/mman.h>

#include "base/mutex.h"
#include "base/sanitize.h"

namespace aster::flt {
namespace {

constexpr size_t kPage = 4096, kLargePage = size_t{2} << 20, kKeptFrom = size_t{128} << 10;
constexpr size_t kMostBytes = size_t{384} << 20;
constexpr int kMostBlocks = 32;

// Oldest first.
struct {
  Mutex mutex;
  Work blocks[kMostBlocks];
  int count = 0;
  size_t bytes = 0;
} g_kept;

// Under the lock, as those below.
Work take(int index) {
  const Work work = g_kept.blocks[index];
  g_kept.bytes -= work.capacity;
  --g_kept.count;
  for (int i = index; i < g_kept.count; ++i) g_kept.blocks[i] = g_kept.blocks[i + 1];
  unpoison(work.data, work.capacity);
  return work;
}

void free_oldest() {
  const Work work = take(0);
  process_heap().release(work.data, work.capacity, work.alignment);
}

Work find(size_t bytes) {
  const MutexLock lock(g_kept.mutex);
  int best = -1;
  for (int i = 0; i < g_kept.count; ++i) {
    const size_t capacity = g_kept.blocks[i].capacity;
    if (capacity < bytes || capacity - bytes > bytes / 2) continue;
    if (best < 0 || capacity < g_kept.blocks[best].capacity) best = i;
  }
  return best < 0 ? Work{} : take(best);
}

bool is_kept(Memory& memory, size_t bytes) {
  return &memory == &process_heap() && bytes >= kKeptFrom && bytes <= kMostBytes;
}

}  // namespace

Work take_work(Memory& memory, size_t bytes) {
  const bool kept = is_kept(memory, bytes);
  Work work = kept ? find(bytes) : Work{};
  if (work.data != nullptr) return work;
  work.alignment = bytes >= kLargePage ? kLargePage : bytes >= kKeptFrom ? kPage : 64;
  work.capacity = (bytes + work.alignment - 1) / work.alignment * work.alignment;
  work.data = memory.allocate(work.capacity, work.alignment);
  if (work.data == nullptr && kept && trim_work() > 0)
    work.data = memory.allocate(work.capacity, work.alignment);
#ifdef MADV_HUGEPAGE
  if (work.data != nullptr && work.alignment == kLargePage)
    static_cast<void>(madvise(work.data, work.capacity, MADV_HUGEPAGE));
#endif
  return work;
}

void give_work(Memory& memory, const Work& work) {
  if (work.data == nullptr) return;
  if (!is_kept(memory, work.capacity))
    return memory.release(work.data, work.capacity, work.alignment);
  const MutexLock lock(g_kept.mutex);
  while (g_kept.count == kMostBlocks || g_kept.bytes + work.capacity > kMostBytes) free_oldest();
  poison(work.data, work.capacity);
  g_kept.blocks[g_kept.count++] = work;
  g_kept.bytes += work.capacity;
}

size_t trim_work() {
  const MutexLock lock(g_kept.mutex);
  const size_t bytes = g_kept.bytes;
  while (g_kept.count > 0) free_oldest();
  return bytes;
}

}  // namespace aster::flt
