// Memory plan: temporaries by size, largest first, each at the lowest offset free for as long as it
// lives.
#include <algorithm>

#include "engine/schedule.h"

namespace aster::engine {
namespace {

constexpr int64_t kAlignment = 64;

// What has its place: in order of offset, side by side for the walk through all of them.
struct Placed {
  uint32_t first, last;
  int64_t begin, end;
};

int64_t bytes_of(const Slot& slot) { return (slot.bytes() + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

Status place_slots(std::span<Slot> slots, SlotKind kind, Memory& memory, int64_t* arena_bytes) {
  Vec<uint32_t> waiting(memory);
  Vec<Placed> placed(memory);
  for (uint32_t s = 0; s < slots.size(); ++s) {
    if (slots[s].kind == kind && slots[s].first != UINT32_MAX) ASTER_TRY(waiting.push(s));
  }
  std::sort(waiting.begin(), waiting.end(), [&](uint32_t a, uint32_t b) {
    const int64_t x = bytes_of(slots[a]), y = bytes_of(slots[b]);
    return x != y ? x > y : a < b;
  });
  for (uint32_t s : waiting) {
    Slot& slot = slots[s];
    const int64_t bytes = bytes_of(slot);
    int64_t offset = 0;
    for (const Placed& other : placed) {
      if (slot.first > other.last || other.first > slot.last) continue;
      if (offset + bytes <= other.begin) break;
      offset = std::max(offset, other.end);
    }
    slot.offset = offset;
    *arena_bytes = std::max(*arena_bytes, offset + bytes);
    ASTER_TRY(placed.push(Placed{slot.first, slot.last, offset, offset + bytes}));
    Placed* const place =
        std::upper_bound(placed.begin(), placed.end() - 1, offset,
                         [](int64_t at, const Placed& other) { return at < other.begin; });
    std::rotate(place, placed.end() - 1, placed.end());
  }
  return kOk;
}

Status plan_memory(Schedule& schedule) {
  const std::span<Slot> slots{schedule.slots.data(), schedule.slots.size()};
  mark_lives(slots, schedule.operands, schedule.items);
  return place_slots(slots, SlotKind::kTemporary, schedule.slots.memory(), &schedule.arena_bytes);
}

}  // namespace aster::engine
