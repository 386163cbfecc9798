#include "buffer/block_cache.h"

#include "base/sanitize.h"
#include "flt/work.h"

namespace aster::buffer {

BlockCache* BlockCache::of(Context& context) {
  if (void* state = context.state(Module::kBuffer)) return static_cast<BlockCache*>(state);
  BlockCache* cache = context.heap().create<BlockCache>(context);
  if (cache == nullptr) return nullptr;
  context.set_state(Module::kBuffer, cache, [](Context& owner, void* state) {
    owner.heap().destroy(static_cast<BlockCache*>(state));
  });
  return cache;
}

Block BlockCache::get(size_t bytes) {
  const MutexLock lock(mutex_);
  int best = -1;
  for (int i = 0; i < count_; ++i) {
    const size_t capacity = blocks_[i].capacity;
    if (capacity < bytes || capacity - bytes > bytes / 4) continue;
    if (best < 0 || capacity < blocks_[best].capacity) best = i;
  }
  if (best < 0) return {};
  const Block block = take(best);
  unpoison(block.data, block.capacity);
  return block;
}

void BlockCache::put(const Block& block) {
  if (block.capacity > kMostBytes) return free(block);
  const MutexLock lock(mutex_);
  while (count_ == kMostBlocks || bytes_ + block.capacity > kMostBytes) free(take(0));
  poison(block.data, block.capacity);
  blocks_[count_++] = block;
  bytes_ += block.capacity;
}

void BlockCache::trim() {
  const MutexLock lock(mutex_);
  while (count_ > 0) free(take(count_ - 1));
  flt::trim_work();
}

Block BlockCache::take(int index) {
  const Block block = blocks_[index];
  bytes_ -= block.capacity;
  --count_;
  for (int i = index; i < count_; ++i) blocks_[i] = blocks_[i + 1];
  return block;
}

void BlockCache::free(const Block& block) {
  unpoison(block.data, block.capacity);
  context_->heap().release(block.data, block.capacity, block.alignment);
}

}  // namespace aster::buffer
