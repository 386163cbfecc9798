// Memory plan: temporaries by size, largest first, each at the lowest offset free for as long as it
// lives.
#include <algorithm>

#include "engine/schedule.h"

namespace aster::engine {
namespace {

constexpr int64_t kAlignment = 64;

bool alive_together(const Slot& a, const Slot& b) { return a.first <= b.last && b.first <= a.last; }

int64_t bytes_of(const Slot& slot) { return (slot.bytes() + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

Status plan_memory(Schedule& schedule) {
  Memory& memory = schedule.slots.memory();
  for (uint32_t i = 0; i < schedule.items.size(); ++i) {
    const Item& item = schedule.items[i];
    for (uint32_t o = 0; o < item.operand_count; ++o) {
      Slot& slot = schedule.slots[schedule.operands[item.first_operand + o]];
      slot.first = std::min(slot.first, i);
      slot.last = std::max(slot.last, i);
    }
  }
  Vec<uint32_t> waiting(memory), placed(memory), near(memory);
  for (uint32_t s = 0; s < schedule.slots.size(); ++s) {
    const Slot& slot = schedule.slots[s];
    if (slot.kind == SlotKind::kTemporary && slot.first != UINT32_MAX) ASTER_TRY(waiting.push(s));
  }
  std::sort(waiting.begin(), waiting.end(), [&](uint32_t a, uint32_t b) {
    const int64_t x = bytes_of(schedule.slots[a]), y = bytes_of(schedule.slots[b]);
    return x != y ? x > y : a < b;
  });
  for (uint32_t s : waiting) {
    Slot& slot = schedule.slots[s];
    near.clear();
    for (uint32_t other : placed) {  // in order of offset
      if (alive_together(slot, schedule.slots[other])) ASTER_TRY(near.push(other));
    }
    int64_t offset = 0;
    for (uint32_t other : near) {
      if (offset + bytes_of(slot) <= schedule.slots[other].offset) break;
      offset = std::max(offset, schedule.slots[other].offset + bytes_of(schedule.slots[other]));
    }
    slot.offset = offset;
    schedule.arena_bytes = std::max(schedule.arena_bytes, offset + bytes_of(slot));
    ASTER_TRY(placed.push(s));
    for (size_t i = placed.size() - 1; i > 0; --i) {
      if (schedule.slots[placed[i - 1]].offset <= slot.offset) break;
      std::swap(placed[i], placed[i - 1]);
    }
  }
  return kOk;
}

}  // namespace aster::engine
