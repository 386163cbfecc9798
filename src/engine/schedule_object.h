// What stands behind a handle of a schedule.
#pragma once

#include "aster_ml/schedule.h"
#include "engine/engine.h"

namespace aster::engine {

struct ScheduleObject : HandleObject {
  explicit ScheduleObject(Heap& heap) : operands(heap) {}
  Executable* exe = nullptr;
  int32_t device = 0;
  Vec<aster_ml_schedule_operand> operands;  // of all launches, in the executable's order
};

}  // namespace aster::engine
