#include "engine/commands.h"

#include <algorithm>
#include <cstdio>

#include "engine/device_program.h"

namespace aster::engine {

void bind_away(void** pointers, size_t* offsets, const Executable& exe,
               std::span<const Given> params, std::span<const Given> outputs, void* arena,
               char* host) {
  const auto memory_of = [&](const Slot& slot) -> Given {
    const auto offset = static_cast<size_t>(slot.offset);
    switch (slot.kind) {
      case SlotKind::kParam:
        return params[slot.index];
      case SlotKind::kOutput:
        return outputs[slot.index];
      case SlotKind::kTemporary:
        return {arena, offset};
      case SlotKind::kHost:
        return {host, offset};
      case SlotKind::kAbsent:
      case SlotKind::kCopy:  // of kernels of the host alone
        break;
    }
    return {nullptr, 0};
  };
  for (const Launch& launch : exe.launches) {
    for (uint32_t i = launch.first_operand; i < launch.first_operand + launch.operand_count; ++i) {
      const Given memory = memory_of(exe.slots[exe.operands[i]]);
      const bool flat = is_of_host(launch.kind);
      pointers[i] = flat ? memory.address() : memory.data;
      offsets[i] = flat ? 0 : memory.offset + static_cast<size_t>(exe.shift(i));
    }
  }
}

Status may_copy(Context& context, const Executable& exe) {
  if (exe.copied_bytes == 0) return kOk;
  char why[80];
  std::snprintf(why, sizeof(why), "the host computes on memory of %s",
                device::name(exe.device->code).text);
  return context.may_copy(static_cast<size_t>(exe.copied_bytes), why);
}

Status Commands::add_command(const Executable& exe, const Launch& launch, void* const* pointers,
                             const size_t* offsets) {
  aster_ml_command command = {};
  command.struct_size = sizeof(command);
  command.kind = launch.kind == LaunchKind::kDevice   ? ASTER_ML_COMMAND_LAUNCH
                 : launch.kind == LaunchKind::kCopyIn ? ASTER_ML_COMMAND_COPY_IN
                                                      : ASTER_ML_COMMAND_COPY_OUT;
  command.function = launch.kernel;
  // Of a copy too, whose places are looked up when it is submitted.
  command.operands = pointers + launch.first_operand;
  command.offsets = offsets + launch.first_operand;
  command.operand_count = launch.operand_count;
  command.sizes = launch.sizes;
  command.size_count = launch.size_count;
  command.tasks = launch.tasks;
  command.nanoseconds = launch.nanoseconds;
  command.bytes = static_cast<size_t>(launch.bytes);
  const LaunchInfo& info = exe.infos[static_cast<size_t>(&launch - exe.launches.data())];
  std::ranges::copy(info.groups, command.groups);
  std::ranges::copy(info.locals, command.locals);
  ASTER_TRY(commands_.push(command));
  return infos_.push(&info);
}

Status Commands::add(const Executable& exe, void* const* pointers, const size_t* offsets,
                     char* scratch, bool writes) {
  if (exe.graph != nullptr && exe.launches.empty())
    return steps_.push(Step{Kind::kInterpret, writes, &exe, 0, 0, pointers, offsets, scratch});
  const bool queued = exe.device != nullptr && exe.device->computes();
  for (uint32_t i = 0; i < exe.launches.size(); ++i) {
    const Launch& launch = exe.launches[i];
    Kind kind = Kind::kHost;
    uint32_t first = i;
    if (launch.kind == LaunchKind::kInterpret) {
      kind = Kind::kInterpret;
    } else if (launch.kind == LaunchKind::kProgram) {
      kind = Kind::kProgram;
    } else if (launch.kind == LaunchKind::kMove || (is_copy(launch.kind) && !queued)) {
      kind = Kind::kCopy;
    } else if (!is_of_host(launch.kind)) {
      kind = Kind::kSubmit;
      first = static_cast<uint32_t>(commands_.size());
      ASTER_TRY(add_command(exe, launch, pointers, offsets));
    }
    // Submits of one device go together, whatever they are part of.
    Step* last = steps_.empty() ? nullptr : &steps_.back();
    const bool joins =
        last != nullptr && last->kind == kind &&
        (kind == Kind::kSubmit ? last->exe->device == exe.device
                               : last->exe == &exe && last->pointers == pointers &&
                                     kind != Kind::kInterpret && kind != Kind::kProgram);
    if (joins) {
      ++last->count;
      last->writes |= launch.writes;
    } else {
      ASTER_TRY(steps_.push(Step{kind, launch.writes, &exe, first, 1, pointers, offsets, scratch}));
    }
  }
  return kOk;
}

Status Commands::Pending::wait() {
  if (device == nullptr) return kOk;
  const aster_ml_backend& backend = *device->backend;
  const Heard heard;
  const int32_t code = backend.wait(backend.self, device->index(), queue, ticket);
  const runtime::Device& of = *device;
  device = nullptr;
  return code == ASTER_ML_OK ? kOk : of.failed("waiting for its queue", code, heard);
}

Status Commands::submit(Pending* pending, const Step& step, runtime::Queues& queues,
                        const Run& run) {
  const runtime::Device& device = *step.exe->device;
  if (pending->device != &device) {
    ASTER_TRY(pending->wait());
    ASTER_TRY(queues.get(&pending->queue, device));
  }
  for (aster_ml_command& command : std::span(commands_.data() + step.first, step.count)) {
    if (command.kind == ASTER_ML_COMMAND_LAUNCH) continue;
    const bool in = command.kind == ASTER_ML_COMMAND_COPY_IN;
    command.to = command.operands[0];
    command.to_offset = command.offsets[0];
    command.from = command.operands[1];
    command.from_offset = command.offsets[1];
    if (in) {
      command.from = static_cast<char*>(command.operands[1]) + command.offsets[1];
      command.from_offset = 0;
    } else {
      command.to = static_cast<char*>(command.operands[0]) + command.offsets[0];
      command.to_offset = 0;
    }
  }
  const aster_ml_backend& backend = *device.backend;
  // One by one where somebody wants to know how long each takes.
  const uint32_t most = run.traced() ? 1 : step.count;
  for (uint32_t at = 0; at < step.count; at += most) {
    const uint64_t start = run.traced() ? nanoseconds() : 0;
    const aster_ml_command* first = commands_.data() + step.first + at;
    const Heard heard;
    const int32_t code =
        backend.submit(backend.self, &pending->ticket, device.index(), pending->queue, first, most);
    if (code != ASTER_ML_OK) return device.failed("submitting kernels", code, heard);
    pending->device = &device;
    if (run.traced()) {
      ASTER_TRY(pending->wait());
      const char* const how = first->kind == ASTER_ML_COMMAND_LAUNCH ? "generated" : "copy";
      run.on(device.code).tell(*infos_[step.first + at], {how, false}, first->operand_count, start);
    }
  }
  return kOk;
}

Status Commands::run_step(Ran* ran, bool* wrote, Pending* pending, const Step& step,
                          runtime::Queues& queues, const Run& run, int threads) {
  if (!*wrote && run.interrupt.requested()) return *ran = Ran::kPart, kOk;
  if (step.kind == Kind::kSubmit) {
    *wrote |= step.writes;
    return submit(pending, step, queues, run);
  }
  ASTER_TRY(pending->wait());
  if (step.kind == Kind::kInterpret) {
    const Executable& exe = *step.exe;
    void* const* operands =
        step.pointers + (exe.launches.empty() ? 0 : exe.launches[step.first].first_operand);
    ASTER_TRY(interpret(exe, operands, operands + exe.params->size(), run.on(device::kCpu)));
    *wrote |= step.writes;
    return kOk;
  }
  if (step.kind == Kind::kProgram) {
    const Executable& exe = *step.exe;
    const Launch& launch = exe.launches[step.first];
    const uint64_t start = run.traced() ? nanoseconds() : 0;
    *wrote |= step.writes;
    ASTER_TRY(exe.whole->execute(run.context.heap(), step.pointers + launch.first_operand,
                                 step.offsets + launch.first_operand));
    if (run.traced())
      run.on(exe.device->code)
          .tell(exe.infos[step.first], how_of(launch), launch.operand_count, start);
    return kOk;
  }
  for (const Launch& launch : std::span(step.exe->launches.data() + step.first, step.count)) {
    void* const* pointers = step.pointers + launch.first_operand;
    const size_t* offsets = step.offsets + launch.first_operand;
    const LaunchInfo& info =
        step.exe->infos[static_cast<size_t>(&launch - step.exe->launches.data())];
    const uint64_t start = run.traced() ? nanoseconds() : 0;
    Interrupt* interrupt = *wrote || launch.writes ? nullptr : &run.interrupt;
    *wrote |= launch.writes;
    if (step.kind == Kind::kCopy) {
      ASTER_TRY(buffer::copy({pointers[0], offsets[0], launch.to},
                             {pointers[1], offsets[1], launch.from},
                             static_cast<size_t>(launch.bytes)));
    } else if (!launch_one(*step.exe, launch, pointers, step.scratch, threads, interrupt)) {
      return *ran = Ran::kPart, kOk;
    }
    const int32_t where = step.kind == Kind::kCopy ? launch.to : device::kCpu;
    if (run.traced()) run.on(where).tell(info, how_of(launch), launch.operand_count, start);
  }
  return kOk;
}

Status Commands::run(Ran* ran, bool* wrote, runtime::Queues& queues, const Run& run, int threads) {
  Pending pending;
  Status status;
  *ran = Ran::kAll;
  for (const Step& step : steps_) {
    status = run_step(ran, wrote, &pending, step, queues, run, threads);
    if (!status.ok() || *ran != Ran::kAll) break;
  }
  if (status.ok()) return pending.wait();
  // Nothing runs any more when this returns.
  const SavedError failure;
  (void)pending.wait();
  failure.restore();
  return status;
}

}  // namespace aster::engine
