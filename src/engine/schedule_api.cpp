// Schedules as structs.
#include "aster_ml/schedule.h"

#include <algorithm>

#include "base/options.h"
#include "device/device.h"
#include "engine/schedule_object.h"

namespace aster::engine {
namespace {

void free_schedule(HandleObject* object) {
  auto* schedule = static_cast<ScheduleObject*>(object);
  if (schedule->exe != nullptr) schedule->exe->release();
  object->context->heap().destroy(schedule);
}

static_assert(ASTER_ML_SLOT_PARAM == static_cast<int>(SlotKind::kParam) &&
              ASTER_ML_SLOT_OUTPUT == static_cast<int>(SlotKind::kOutput) &&
              ASTER_ML_SLOT_TEMPORARY == static_cast<int>(SlotKind::kTemporary) &&
              ASTER_ML_SLOT_ABSENT == static_cast<int>(SlotKind::kAbsent) &&
              ASTER_ML_SLOT_HOST == static_cast<int>(SlotKind::kHost));

Status fill(ScheduleObject& schedule) {
  const Executable& exe = *schedule.exe;
  for (size_t i = 0; i < exe.operands.size(); ++i) {
    const uint32_t number = exe.operands[i];
    const Slot& slot = exe.slots[number];
    ASTER_TRY(schedule.operands.push(aster_ml_schedule_operand{
        static_cast<int32_t>(slot.kind), static_cast<int32_t>(slot.dtype), slot.index, number,
        slot.count, slot.kind == SlotKind::kTemporary ? slot.offset : 0, exe.shift(i)}));
  }
  return kOk;
}

int32_t kind_of(const Launch& launch) {
  switch (launch.kind) {
    case LaunchKind::kHost:
      return launch.plan != nullptr ? ASTER_ML_ITEM_NATIVE : ASTER_ML_ITEM_KERNEL;
    case LaunchKind::kDevice:
      return ASTER_ML_ITEM_DEVICE;
    case LaunchKind::kInterpret:
      return ASTER_ML_ITEM_INTERPRET;
    default:
      return ASTER_ML_ITEM_COPY;
  }
}

size_t launches_of(const Executable& exe) {
  return exe.graph != nullptr && exe.launches.empty() ? 1 : exe.launches.size();
}

// Where the reference runtime answers there is one launch: the graph.
aster_ml_schedule_item whole_graph(const ScheduleObject& schedule) {
  aster_ml_schedule_item item{};
  item.kind = ASTER_ML_ITEM_INTERPRET;
  item.name = "interpret";
  item.cut = "";
  item.algorithm = "interpreted";
  item.device = schedule.device;
  item.tasks = 1;
  return item;
}

aster_ml_schedule_item item_of(const ScheduleObject& schedule, size_t index) {
  const Executable& exe = *schedule.exe;
  if (exe.launches.empty()) return whole_graph(schedule);
  const Launch& launch = exe.launches[index];
  const LaunchInfo& info = exe.infos[index];
  aster_ml_schedule_item item{};
  item.kind = kind_of(launch);
  item.name = info.title;
  item.device = is_of_host(launch.kind) ? device::kCpu : schedule.device;
  item.in_place = launch.writes;
  item.tasks = launch.tasks;
  std::ranges::copy(info.groups, item.groups);
  std::ranges::copy(info.locals, item.locals);
  item.operations = info.work.operations;
  item.bytes = info.work.bytes;
  item.operands = schedule.operands.data() + launch.first_operand;
  item.operand_count = launch.operand_count;
  item.sizes = launch.sizes;
  item.size_count = launch.size_count;
  item.cut = info.cut;
  const native::How how = how_of(launch);
  item.algorithm = how.algorithm;
  item.is_exact = how.exact ? 1 : 0;
  item.scratch_bytes = launch.scratched ? static_cast<size_t>(exe.scratch_stride) : 0;
  item.function = item.kind == ASTER_ML_ITEM_KERNEL ? launch.function : nullptr;
  return item;
}

}  // namespace
}  // namespace aster::engine

using aster::engine::ScheduleObject;

int32_t aster_ml_schedule_init(aster_ml_schedule* out, const aster_ml_context* context) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER(aster::context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  aster::engine::Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *aster::context_of(context)));
  if (engine->last == nullptr) return ASTER_FAIL(kNOT_FOUND, "nothing was scheduled yet");
  aster::Heap& heap = engine->context.heap();
  auto* schedule = heap.create<ScheduleObject>(heap);
  if (schedule == nullptr) return aster::out_of_memory(sizeof(ScheduleObject));
  schedule->exe = engine->last;
  schedule->exe->retain();
  schedule->device =
      schedule->exe->device != nullptr ? schedule->exe->device->code : aster::device::kCpu;
  aster::Status status = aster::engine::fill(*schedule);
  if (status.ok())
    status = aster::handle_init(schedule, engine->context, aster::engine::free_schedule);
  if (!status.ok()) {
    schedule->exe->release();
    heap.destroy(schedule);
    return status;
  }
  aster::scope_remove(schedule);
  out->impl = schedule->handle;
  return aster::kOk;
}

size_t aster_ml_schedule_count(const aster_ml_schedule* schedule) {
  const auto* s = schedule == nullptr ? nullptr : aster::object_of<ScheduleObject>(schedule->impl);
  return s == nullptr ? 0 : aster::engine::launches_of(*s->exe);
}

int32_t aster_ml_schedule_at(aster_ml_schedule_item* item, const aster_ml_schedule* schedule,
                             size_t index) {
  ASTER_API();
  const auto* s = schedule == nullptr ? nullptr : aster::object_of<ScheduleObject>(schedule->impl);
  if (s == nullptr) return ASTER_FAIL(kARGUMENT, "an empty schedule, or one that was freed");
  if (item == nullptr || item->struct_size < sizeof(item->struct_size))
    return ASTER_FAIL(kARGUMENT, "item is null, or its struct_size is not set");
  const size_t count = aster::engine::launches_of(*s->exe);
  if (index >= count) return ASTER_FAIL(kRANGE, "there is no launch %zu of %zu", index, count);
  aster::write_struct(item, aster::engine::item_of(*s, index));
  return aster::kOk;
}

int32_t aster_ml_schedule_free(aster_ml_schedule* schedule) {
  ASTER_API();
  if (schedule != nullptr) aster::give_up(&schedule->impl);
  return aster::kOk;
}
