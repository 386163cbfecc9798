#include <algorithm>
#include <ctime>

#include "base/pool.h"
#include "engine/engine.h"
#include "runtime/reference/interpret.h"

namespace aster::engine {
namespace {

// Below this a launch is not worth a second thread.
constexpr double kWorthThreads = 8000;  // nanoseconds
// Parts that each thread takes, so that a busy core does not hold the rest back.
constexpr int64_t kPartsPerThread = 4;

struct Part {
  const Launch* launch;
  void* const* params;
  char* scratch;
  int64_t scratch_stride;
  int64_t parts;
};

void run_part(void* self, int64_t part) {
  const Part& p = *static_cast<const Part*>(self);
  const int64_t tasks = p.launch->tasks;
  const int64_t begin = tasks * part / p.parts, end = tasks * (part + 1) / p.parts;
  if (p.launch->plan != nullptr) {
    library::run(*p.launch->plan, p.params, p.scratch + part * p.scratch_stride, begin, end);
  } else {
    p.launch->function(p.params, begin, end);
  }
}

void launch_one(const Executable& exe, const Launch& item, void* const* pointers, char* arena,
                int threads) {
  void* const* params = pointers + item.first_operand;
  char* scratch = arena + exe.scratch_offset;
  if (threads <= 1 || item.tasks <= 1 || item.nanoseconds < kWorthThreads) {
    if (item.plan != nullptr) {
      library::run(*item.plan, params, scratch, 0, item.tasks);
    } else {
      item.function(params, 0, item.tasks);
    }
    return;
  }
  // Library calls with scratch memory keep some a part, so there they are as many as threads.
  const bool scratched = item.plan != nullptr && item.plan->scratch_bytes > 0;
  Part part{&item, params, scratch, scratched ? exe.scratch_stride : 0,
            std::min<int64_t>(item.tasks, scratched ? threads : threads * kPartsPerThread)};
  pool::run(threads, part.parts, run_part, &part);
}

}  // namespace

void bind(void** pointers, const Executable& exe, void* const* params, void* const* outputs,
          char* arena) {
  for (size_t i = 0; i < exe.operands.size(); ++i) {
    const Slot& slot = exe.slots[exe.operands[i]];
    pointers[i] = slot.kind == SlotKind::kParam    ? params[slot.index]
                  : slot.kind == SlotKind::kOutput ? outputs[slot.index]
                  : slot.kind == SlotKind::kAbsent ? nullptr
                                                   : arena + slot.offset;
  }
}

void Run::tell(const LaunchInfo& info, size_t operands, uint64_t start) const {
  aster_ml_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.replayed = replayed ? 1 : 0;
  launch.nanoseconds = nanoseconds() - start;
  launch.name = info.title;
  launch.operations = info.work.operations;
  launch.bytes = info.work.bytes;
  launch.held_bytes = context.heap().bytes_now();
  launch.device = device;
  launch.operands = static_cast<int32_t>(operands);
  trace.function(trace.self, &launch);
}

uint64_t nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

void launch(const Executable& exe, void* const* pointers, char* arena, int threads,
            const Run& run) {
  if (!run.traced()) {
    for (const Launch& item : exe.launches) launch_one(exe, item, pointers, arena, threads);
    return;
  }
  for (size_t i = 0; i < exe.launches.size(); ++i) {
    const uint64_t start = nanoseconds();
    launch_one(exe, exe.launches[i], pointers, arena, threads);
    run.tell(exe.infos[i], exe.launches[i].operand_count, start);
  }
}

Status interpret(const Executable& exe, void* const* params, void* const* outputs, const Run& run) {
  const uint64_t start = run.traced() ? nanoseconds() : 0;
  Heap& heap = exe.heap_;
  Vec<runtime::reference::Binding> bindings(heap);
  Vec<runtime::reference::Output> results(heap);
  Vec<char> unused(heap);
  for (size_t i = 0; i < exe.params->size(); ++i) {
    ASTER_TRY(bindings.push(runtime::reference::Binding{(*exe.params)[i], params[i]}));
  }
  for (size_t i = 0; i < exe.sink->nsrc; ++i) {
    ASTER_TRY(results.push(runtime::reference::Output{exe.sink->src(i), outputs[i]}));
  }
  ASTER_TRY(runtime::reference::interpret(*exe.graph, heap, {bindings.data(), bindings.size()},
                                          {results.data(), results.size()}));
  if (run.traced()) run.tell({"interpreted", {}}, bindings.size() + results.size(), start);
  return kOk;
}

}  // namespace aster::engine
