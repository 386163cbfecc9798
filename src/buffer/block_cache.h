// Freed host memory of a context, kept for its next large results: fresh pages cost more than what
// is computed into them.
#pragma once

#include "base/context.h"
#include "base/mutex.h"

namespace aster::buffer {

constexpr size_t kCachedFrom = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

struct Block {
  void* data;
  size_t capacity;
  size_t alignment;
};

// Bounded; get and put from any thread.
class BlockCache {
 public:
  explicit BlockCache(Context& context) : context_(&context) {}
  ~BlockCache() { trim(); }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // The context's own; null if it cannot be made. On the context's thread.
  static BlockCache* of(Context& context);

  // A block of at least bytes, at most a quarter larger; data is null if there is none.
  Block get(size_t bytes);
  // Takes a block, or frees it at once.
  void put(const Block& block);
  void trim();
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kMostBytes = size_t{512} << 20;
  static constexpr int kMostBlocks = 32;
  Block take(int index);
  void free(const Block& block);

  Context* context_;
  OwnedMutex mutex_;
  Block blocks_[kMostBlocks];  // oldest first
  int count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace aster::buffer
