#include "engine/sides.h"

#include <algorithm>

namespace aster::engine {

Status Sides::begin(const Leaves& leaves) {
  shared_ = exe_.device->shared;
  for (uint32_t i = 0; i < exe_.slots.size(); ++i) {
    const Slot& slot = exe_.slots[i];
    const bool host =
        slot.kind == SlotKind::kHost ||
        (slot.kind == SlotKind::kParam && leaves.buffers[slot.index]->arg(1) != exe_.device->code);
    const bool filled = slot.kind == SlotKind::kParam;
    State state{host ? kHost : kDevice, {filled && host, filled && !host}, {kNone, kNone}};
    state.place[state.home] = i;
    ASTER_TRY(states_.push(state));
  }
  return kOk;
}

Status Sides::place_on(uint32_t slot, Side side) {
  if (states_[slot].place[side] != kNone) return kOk;
  states_[slot].place[side] = static_cast<uint32_t>(exe_.slots.size());
  Slot mirror = exe_.slots[slot];
  mirror.kind = side == kHost ? SlotKind::kHost : SlotKind::kTemporary;
  return exe_.slots.push(mirror);
}

Status Sides::copy(uint32_t slot, Side to) {
  ASTER_TRY(place_on(slot, to));
  const State& state = states_[slot];
  Launch launch;
  launch.kind = to == kHost ? LaunchKind::kCopyOut : LaunchKind::kCopyIn;
  launch.to = to == kHost ? buffer::kHost : exe_.device->code;
  launch.from = to == kHost ? exe_.device->code : buffer::kHost;
  launch.bytes = exe_.slots[slot].bytes();
  launch.first_operand = static_cast<uint32_t>(exe_.operands.size());
  launch.operand_count = 2;
  launch.tasks = 0;
  launch.writes = exe_.slots[state.place[to]].kind == SlotKind::kParam;
  ASTER_TRY(exe_.operands.push(state.place[to]));
  ASTER_TRY(exe_.operands.push(state.place[other(to)]));
  ASTER_TRY(exe_.launches.push(launch));
  LaunchInfo info;
  std::snprintf(info.title, sizeof(info.title), "copy_%s_%lld", to == kHost ? "out" : "in",
                static_cast<long long>(launch.bytes));
  exe_.copied_bytes += launch.bytes;
  states_[slot].valid[to] = true;
  return exe_.infos.push(info);
}

Status Sides::fetch(uint32_t slot, Side side) {
  const State& state = states_[slot];
  if (state.valid[side] || !state.valid[other(side)]) return place_on(slot, side);
  return exe_.slots[slot].bytes() == 0 ? place_on(slot, side) : copy(slot, side);
}

Status Sides::wrote(uint32_t slot, Side side) {
  State& state = states_[slot];
  state.valid[side] = true;
  state.valid[other(side)] = false;
  if (exe_.slots[slot].kind != SlotKind::kParam) return kOk;
  if (side != state.home) ASTER_TRY(copy(slot, state.home));
  // Params may lie in each other's memory.
  for (uint32_t i = 0; i < states_.size(); ++i) {
    State& param = states_[i];
    if (i != slot && exe_.slots[i].kind == SlotKind::kParam) param.valid[other(param.home)] = false;
  }
  return kOk;
}

Status Sides::add(Launch launch, const LaunchInfo& info, std::span<const uint32_t> slots,
                  std::span<const uint8_t> written, Side side, std::span<const int64_t> shifts) {
  for (const uint32_t slot : slots) {
    if (exe_.slots[slot].kind != SlotKind::kAbsent) ASTER_TRY(fetch(slot, found_on(slot, side)));
  }
  launch.first_operand = static_cast<uint32_t>(exe_.operands.size());
  launch.operand_count = static_cast<uint32_t>(slots.size());
  launch.writes = false;
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool at_home = found_on(slots[i], side) == states_[slots[i]].home;
    launch.writes |= written[i] != 0 && at_home && exe_.slots[slots[i]].kind == SlotKind::kParam;
  }
  for (const uint32_t slot : slots) {
    const bool absent = exe_.slots[slot].kind == SlotKind::kAbsent;
    ASTER_TRY(exe_.operands.push(absent ? slot : states_[slot].place[found_on(slot, side)]));
  }
  if (!shifts.empty()) {
    ASTER_TRY(exe_.shifts.resize(launch.first_operand, 0));
    ASTER_TRY(exe_.shifts.append(shifts.data(), shifts.size()));
  }
  ASTER_TRY(exe_.launches.push(launch));
  ASTER_TRY(exe_.infos.push(info));
  for (size_t i = 0; i < slots.size(); ++i) {
    if (written[i] != 0) ASTER_TRY(wrote(slots[i], found_on(slots[i], side)));
  }
  return kOk;
}

Status Sides::finish(Memory& memory) {
  for (uint32_t i = 0; i < states_.size(); ++i) {
    if (exe_.slots[i].kind == SlotKind::kOutput) ASTER_TRY(fetch(i, states_[i].home));
  }
  const std::span<Slot> slots{exe_.slots.data(), exe_.slots.size()};
  mark_lives(slots, exe_.operands, exe_.launches);
  ASTER_TRY(place_slots(slots, SlotKind::kTemporary, memory, &exe_.device_bytes));
  return place_slots(slots, SlotKind::kHost, memory, &exe_.arena_bytes);
}

}  // namespace aster::engine
