#include "base/records.h"

#include <utility>

namespace aster::records {

static_assert(sizeof(void*) == 8, "a handle has 32 bits of number and 32 of generation");
constinit std::atomic<Record*> chunks[kChunks] = {};

namespace {

constexpr uint32_t kBatch = 64;  // records that a pool takes at once; divides a chunk

constinit std::atomic<uint64_t> g_made{0};      // numbers given to pools so far
constinit std::atomic<uint32_t> g_free{kNone};  // what pools left; taken whole, so that no record
                                                // comes back while somebody looks at it

// The chunk that a number lies in, made if it is the first there.
Status need_chunk(uint32_t number) {
  const int chunk = chunk_of(number);
  if (chunks[chunk].load(std::memory_order_acquire) != nullptr) return kOk;
  const size_t count = size_t{kFirst} << chunk;
  auto* made = process_heap().array<Record>(count);
  if (made == nullptr) return out_of_memory(count * sizeof(Record));
  for (size_t i = 0; i < count; ++i) ::new (made + i) Record{};
  Record* none = nullptr;
  if (!chunks[chunk].compare_exchange_strong(none, made)) {
    process_heap().release(made, count * sizeof(Record), alignof(Record));
  }
  return kOk;
}

// The last record of a list.
Record* last_of(uint32_t list) {
  Record* record = at(list);
  while (record->next != kNone) record = at(record->next);
  return record;
}

// Leaves a list to all pools.
void leave(uint32_t list) {
  while (list != kNone) {
    uint32_t none = kNone;
    if (g_free.compare_exchange_strong(none, list)) return;
    const uint32_t others = g_free.exchange(kNone);
    if (others != kNone) last_of(list)->next = others;
  }
}

}  // namespace

void* claim(void* handle) {
  const Name name = name_of(handle);
  Record* record = at(name.number);
  if (record == nullptr || (name.generation & 1) == 0) return nullptr;
  void* object = record->object.load(std::memory_order_relaxed);
  uint32_t generation = name.generation;
  return record->generation.compare_exchange_strong(generation, generation + 1) ? object : nullptr;
}

Pool::~Pool() { leave(free_); }

Status Pool::refill() {
  free_ = g_free.exchange(kNone);
  if (free_ != kNone) {
    // A batch is enough; what is behind it stays for others.
    Record* last = at(free_);
    for (uint32_t i = 1; i < kBatch && last->next != kNone; ++i) last = at(last->next);
    leave(std::exchange(last->next, kNone));
    return kOk;
  }
  const uint64_t first = g_made.load(std::memory_order_relaxed);
  if (first >= UINT32_MAX - kFirst - kBatch) return ASTER_FAIL(kMEMORY, "too many handles");
  ASTER_TRY(need_chunk(static_cast<uint32_t>(first)));
  const uint64_t got = g_made.fetch_add(kBatch);
  const auto begin = static_cast<uint32_t>(got);
  ASTER_TRY(need_chunk(begin));  // another pool may have been faster
  for (uint32_t i = kBatch; i-- > 0;) {
    at(begin + i)->next = free_;
    free_ = begin + i;
  }
  return kOk;
}

Status Pool::take(void** handle, void* object) {
  if (free_ == kNone) ASTER_TRY(refill());
  const uint32_t number = free_;
  Record& record = *at(number);
  free_ = record.next;
  record.object.store(object, std::memory_order_relaxed);
  const uint32_t generation = record.generation.load(std::memory_order_relaxed) + 1;
  record.generation.store(generation, std::memory_order_release);
  *handle = reinterpret_cast<void*>(uintptr_t{generation} << 32 | number);
  return kOk;
}

void Pool::give_back(const void* handle) {
  const uint32_t number = name_of(handle).number;
  Record& record = *at(number);
  record.object.store(nullptr, std::memory_order_relaxed);
  if (record.generation.load(std::memory_order_relaxed) == 0) return;  // used up
  record.next = free_;
  free_ = number;
}

}  // namespace aster::records
