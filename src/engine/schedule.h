// What scheduling hands to execution: slots of memory, and items (kernels, library calls) in the
// order they run.
#pragma once

#include <algorithm>

#include "base/memory.h"
#include "uop/uop.h"

namespace aster::engine {

using dtype::DType;

enum class SlotKind : uint8_t {
  kParam,      // memory of the caller of the schedule: leaf number `index`
  kOutput,     // result number `index`
  kTemporary,  // lives in the schedule's arena
  kAbsent,     // no memory: an argument that the plan of a library call knows
  kHost,       // lives in the schedule's memory of the host, where that computes for a device
  kCopy,       // copy number `index` of what does not change (constants.h)
};

struct Slot {
  SlotKind kind;
  DType dtype;
  uint32_t index;
  int64_t count;         // elements
  int64_t offset;        // bytes into the arena, for temporaries
  uint32_t first, last;  // items that touch it first and last

  int64_t bytes() const { return count * static_cast<int64_t>(dtype::size(dtype)); }
};

enum class ItemKind : uint8_t { kKernel, kLibrary };

// One launch. Operands are the kernel's params in order: slots[operands[first_operand + i]].
struct Item {
  ItemKind kind;
  uop::Node kernel;  // Sink of the kernel, or the composite's Call; in the schedule's scratch graph
  uint32_t first_operand;
  uint32_t operand_count;
  uint32_t first_word;  // library calls: numbers of the call in `words`
  uint32_t word_count;
  const char* cut = "";  // why what it computes is stored, and not computed in who reads it
};

struct Schedule {
  explicit Schedule(Memory& memory)
      : slots(memory), items(memory), operands(memory), words(memory), roots(memory) {}
  Vec<Slot> slots;
  Vec<Item> items;
  Vec<uint32_t> operands;
  Vec<int64_t> words;
  Vec<uint32_t> roots;  // slot that holds each root of the sink
  int64_t arena_bytes = 0;

  const Slot& slot(const Item& item, size_t operand) const {
    return slots[operands[item.first_operand + operand]];
  }
  // Of the memory that an item is given.
  int64_t operand_bytes(const Item& item) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < item.operand_count; ++i) {
      if (slot(item, i).kind != SlotKind::kAbsent) bytes += slot(item, i).bytes();
    }
    return bytes;
  }
};

// Places the slots of a kind in one arena so that those alive together never overlap; 64-byte
// aligned. Slots that nothing touches have no place.
Status place_slots(std::span<Slot> slots, SlotKind kind, Memory& memory, int64_t* bytes);

// When slots are touched: by which of the steps, items or launches, first and last.
template <typename Steps>
void mark_lives(std::span<Slot> slots, const Vec<uint32_t>& operands, const Steps& steps) {
  for (Slot& slot : slots) slot.first = UINT32_MAX, slot.last = 0;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    for (uint32_t o = 0; o < steps[i].operand_count; ++o) {
      Slot& slot = slots[operands[steps[i].first_operand + o]];
      slot.first = std::min(slot.first, i);
      slot.last = std::max(slot.last, i);
    }
  }
}

// Finds out when slots are touched, and places temporaries.
Status plan_memory(Schedule& schedule);

}  // namespace aster::engine
