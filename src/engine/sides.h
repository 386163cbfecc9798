// Where a schedule for a device runs in part on the host: which slots have copies on which side,
// and the copies between.
#pragma once

#include "engine/engine.h"

namespace aster::engine {

// Appends launches to an executable for a device, in order, with the copies that they need.
class Sides {
 public:
  enum Side : uint8_t { kHost, kDevice };

  // exe.slots are there.
  Sides(Executable& exe, Memory& memory) : exe_(exe), states_(memory) {}
  Status begin(const Leaves& leaves);
  // Appends a launch that reads and writes slots on one side. written: a bit for each operand;
  // shifts: bytes for each from where it begins, or none.
  Status add(Launch launch, const LaunchInfo& info, std::span<const uint32_t> slots,
             std::span<const uint8_t> written, Side side, std::span<const int64_t> shifts = {});
  // Copies results to where they belong, and gives every slot its place.
  Status finish(Memory& memory);

 private:
  struct State {
    Side home;
    bool valid[2];
    uint32_t place[2];  // slots; kNone: none yet
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // Where a launch on a side finds a slot: the host addresses the memory of some devices.
  Side found_on(uint32_t slot, Side side) const {
    return shared_ && states_[slot].home == kDevice ? kDevice : side;
  }
  static Side other(Side side) { return side == kHost ? kDevice : kHost; }
  Status place_on(uint32_t slot, Side side);
  Status fetch(uint32_t slot, Side side);
  Status copy(uint32_t slot, Side to);
  Status wrote(uint32_t slot, Side side);

  Executable& exe_;
  Vec<State> states_;
  bool shared_ = false;
};

}  // namespace aster::engine
