// What each launch of an executable has to know of the others.
#include <algorithm>

#include "engine/engine.h"
#include "runtime/cpu/machine.h"

namespace aster::engine {
namespace {

namespace machine = runtime::cpu::machine;

constexpr uint32_t kMostBeside = 16;

// Whether threads that shared the launch would not be worth it, and nothing keeps others from going
// on beside it: machine code, or what stands in for it, without memory of its own.
bool goes_beside(const Launch& launch) {
  const bool code = launch.plan == nullptr
                        ? launch.function != nullptr
                        : launch.plan->strips != nullptr || launch.plan->code != nullptr;
  return code && launch.kind == LaunchKind::kHost && !launch.writes && !launch.scratched &&
         launch.operand_count <= Launch::kMostOperands &&
         (launch.tasks == 1 || launch.nanoseconds < machine::kWorthThreads);
}

// Memory of callers is never both read and written here: what is written in place goes alone, and
// results overlap no operands.
bool overlap(const Slot& a, const Slot& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == SlotKind::kTemporary)
    return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
  return a.kind == SlotKind::kOutput && a.index == b.index;
}

bool independent(const Executable& exe, const Launch& a, const Launch& b) {
  for (uint32_t i = 0; i < a.operand_count; ++i) {
    for (uint32_t j = 0; j < b.operand_count; ++j) {
      if (((a.written >> i | b.written >> j) & 1) != 0 &&
          overlap(exe.slots[exe.operands[a.first_operand + i]],
                  exe.slots[exe.operands[b.first_operand + j]]))
        return false;
    }
  }
  return true;
}

// How many launches from one on may run side by side; 1: it alone, or all of them are too little.
uint32_t beside(const Executable& exe, size_t first) {
  const Launch* const launches = exe.launches.data();
  const size_t most = std::min<size_t>(exe.launches.size() - first, kMostBeside);
  double total = 0;
  uint32_t count = 0;
  for (; count < most; ++count) {
    const Launch& next = launches[first + count];
    if (!goes_beside(next)) break;
    const auto apart = [&](const Launch& before) { return independent(exe, before, next); };
    if (!std::all_of(launches + first, launches + first + count, apart)) break;
    total += next.nanoseconds;
  }
  return count >= 2 && total >= machine::kWorthThreads ? count : 1;
}

}  // namespace

void finish_launches(Executable* exe) {
  double remaining = 0;
  for (size_t i = exe->launches.size(); i-- > 0;) {
    Launch& launch = exe->launches[i];
    launch.expected = launch.plan != nullptr ? launch.plan->nanoseconds : launch.nanoseconds;
    launch.remaining = remaining += launch.expected;
    launch.sizes = exe->sizes.data() + launch.first_size;
  }
  if (exe->away) return;
  for (size_t i = 0; i < exe->launches.size(); i += exe->launches[i].beside)
    exe->launches[i].beside = beside(*exe, i);
}

}  // namespace aster::engine
