// Arenas over a pool of equal blocks. Requests are released all at once, by reset or destruction.
#pragma once

#include "base/memory.h"

namespace aster {

// Keeps free blocks of one size for the arenas of a context. Not thread-safe.
class BlockPool {
 public:
  BlockPool(Memory& memory, size_t block_bytes) : memory_(&memory), block_bytes_(block_bytes) {}
  ~BlockPool() { trim(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  struct Block {
    Block* next;
    size_t bytes;  // with this header
  };
  // A block of at least bytes (header included); larger requests than the pool's size stand alone.
  Block* get(size_t bytes);
  void put(Block* block);
  void trim();  // gives all free blocks back to the memory below
  size_t block_bytes() const { return block_bytes_; }

 private:
  Memory* memory_;
  size_t block_bytes_;
  Block* free_ = nullptr;
  size_t free_count_ = 0;
};

// Bump allocation; release of a single request is a no-op. ASan sees what is handed out and what is
// free.
class Arena : public Memory {
 public:
  explicit Arena(BlockPool& pool);
  ~Arena() { reset(); }
  void reset();  // returns every block to the pool
  size_t bytes() const { return bytes_; }
  // Whether any request failed since the last reset: what was built may lack something, even where
  // nobody looked.
  bool failed() const { return failed_; }
  void fail() { failed_ = true; }
  Status status() const { return failed_ ? failure() : kOk; }

 private:
  Status failure() const;
  static void* allocate_bump(void* self, size_t bytes, size_t alignment);
  static void release_nothing(void* self, void* pointer, size_t bytes, size_t alignment);
  BlockPool* pool_;
  BlockPool::Block* blocks_ = nullptr;
  char* cursor_ = nullptr;
  char* limit_ = nullptr;
  size_t bytes_ = 0;
  bool failed_ = false;
};

}  // namespace aster
