#include "base/arena.h"

#include "base/sanitize.h"

namespace aster {
namespace {

constexpr size_t kBlockAlignment = 64;
constexpr size_t kHeader = align_up(sizeof(BlockPool::Block), alignof(std::max_align_t));
constexpr size_t kFreeBlocksKept = 256;

}  // namespace

BlockPool::Block* BlockPool::get(size_t bytes) {
  Block* block = nullptr;
  if (bytes <= block_bytes_ && free_ != nullptr) {
    block = free_;
    free_ = block->next;
    --free_count_;
  } else {
    if (bytes < block_bytes_) bytes = block_bytes_;
    block = static_cast<Block*>(memory_->allocate(bytes, kBlockAlignment));
    if (block == nullptr) return nullptr;
    block->bytes = bytes;
    if (bytes > kHeader) poison(reinterpret_cast<char*>(block) + kHeader, bytes - kHeader);
  }
  block->next = nullptr;
  return block;
}

void BlockPool::put(Block* block) {
  char* payload = reinterpret_cast<char*>(block) + kHeader;
  if (block->bytes != block_bytes_ || free_count_ >= kFreeBlocksKept) {
    unpoison(payload, block->bytes - kHeader);
    memory_->release(block, block->bytes, kBlockAlignment);
    return;
  }
  poison(payload, block->bytes - kHeader);
  block->next = free_;
  free_ = block;
  ++free_count_;
}

void BlockPool::trim() {
  while (Block* block = free_) {
    free_ = block->next;
    unpoison(reinterpret_cast<char*>(block) + kHeader, block->bytes - kHeader);
    memory_->release(block, block->bytes, kBlockAlignment);
  }
  free_count_ = 0;
}

Arena::Arena(BlockPool& pool) : Memory(this, allocate_bump, release_nothing), pool_(&pool) {}

void Arena::reset() {
  while (BlockPool::Block* block = blocks_) {
    blocks_ = block->next;
    pool_->put(block);
  }
  cursor_ = limit_ = nullptr;
  bytes_ = 0;
  failed_ = false;
}

Status Arena::failure() const {
  return ASTER_FAIL(kMEMORY, "an arena of %zu bytes could not grow", bytes_);
}

void* Arena::allocate_bump(void* self, size_t bytes, size_t alignment) {
  Arena& arena = *static_cast<Arena*>(self);
  size_t wanted;  // in the worst case of alignment
  if (!checked_add(bytes, alignment + kRedZone, &wanted) ||
      !checked_add(wanted, kHeader, &wanted)) {
    arena.failed_ = true;
    return nullptr;
  }
  const auto aligned = [alignment](char* at) {
    return at +
           (align_up(reinterpret_cast<uintptr_t>(at), alignment) - reinterpret_cast<uintptr_t>(at));
  };
  if (arena.cursor_ != nullptr) {
    const size_t room = static_cast<size_t>(arena.limit_ - arena.cursor_);
    const size_t skipped = static_cast<size_t>(aligned(arena.cursor_) - arena.cursor_);
    if (skipped <= room && bytes + kRedZone <= room - skipped) {
      char* at = arena.cursor_ + skipped;
      arena.cursor_ = at + bytes + kRedZone;
      arena.bytes_ += bytes;
      unpoison(at, bytes);
      return at;
    }
  }
  BlockPool::Block* block = arena.pool_->get(wanted);
  if (block == nullptr) {
    arena.failed_ = true;
    return nullptr;
  }
  block->next = arena.blocks_;
  arena.blocks_ = block;
  char* start = reinterpret_cast<char*>(block) + kHeader;
  char* limit = reinterpret_cast<char*>(block) + block->bytes;
  char* at = aligned(start);
  char* after = at + bytes + kRedZone;
  // The block with more room left stays the one that requests are cut from; a block made for one
  // request is full.
  const bool alone = block->bytes != arena.pool_->block_bytes();
  if (!alone && (arena.cursor_ == nullptr || limit - after > arena.limit_ - arena.cursor_)) {
    arena.cursor_ = after;
    arena.limit_ = limit;
  }
  arena.bytes_ += bytes;
  unpoison(at, bytes);
  return at;
}

void Arena::release_nothing(void*, void* pointer, size_t bytes, size_t) { poison(pointer, bytes); }

}  // namespace aster
