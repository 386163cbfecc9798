// What a public handle holds: the number of a record, not an address. A record names the object and
// counts how often it was reused; its memory is never given back, so that every handle there ever
// was, and any other word, is told from a living one by looking.
//
// A handle is the record's number below its generation. Odd generations are alive; a free makes the
// generation even, the next use odd again. A record whose generations are used up stays unused.
#pragma once

#include <atomic>
#include <bit>

#include "base/memory.h"

namespace aster {
namespace records {

struct Record {
  std::atomic<uint32_t> generation;
  uint32_t next;  // in a list of free records: the number of the next one, kNone at the end
  std::atomic<void*> object;
};
constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kFirst = 1024;  // records of the first chunk; each is twice the one before
constexpr int kChunks = 22;
extern std::atomic<Record*> chunks[kChunks];

// Which chunk a number lies in.
inline int chunk_of(uint32_t number) {
  return std::countl_zero(kFirst) - std::countl_zero(number + kFirst);
}

// Record of a number below 2^32 - kFirst; null where none was ever made.
inline Record* at(uint32_t number) {
  const uint32_t place = number + kFirst;
  if (place < kFirst) return nullptr;
  const int chunk = chunk_of(number);
  Record* first = chunks[chunk].load(std::memory_order_acquire);
  return first == nullptr ? nullptr : first + (place - (kFirst << chunk));
}

struct Name {
  uint32_t number, generation;
};
inline Name name_of(const void* handle) {
  const auto word = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
}

// The object of a living handle; null for any other word. Threads: any.
inline void* find(const void* handle) {
  const Name name = name_of(handle);
  const Record* record = at(name.number);
  if (record == nullptr || (name.generation & 1) == 0) return nullptr;
  if (record->generation.load(std::memory_order_acquire) != name.generation) return nullptr;
  return record->object.load(std::memory_order_relaxed);
}
template <typename T>
T* find_as(const void* handle) {
  return static_cast<T*>(find(handle));
}

// Ends a handle's life. Its object for the first who asks, null for those after. Threads: any.
void* claim(void* handle);

// The free records of a context. One thread at a time.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();  // whose handles are all given back

  // A new handle of object.
  Status take(void** handle, void* object);
  // The record of a handle that was claimed.
  void give_back(const void* handle);

 private:
  Status refill();
  uint32_t free_ = kNone;
};

}  // namespace records
}  // namespace aster
