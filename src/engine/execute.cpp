#include <algorithm>

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

void launch(const Executable& exe, void* const* pointers, char* arena, int threads) {
  char* scratch = arena + exe.scratch_offset;
  for (const Launch& item : exe.launches) {
    void* const* params = pointers + item.first_operand;
    if (threads <= 1 || item.tasks <= 1 || item.nanoseconds < kWorthThreads) {
      if (item.plan != nullptr) {
        library::run(*item.plan, params, scratch, 0, item.tasks);
      } else {
        item.function(params, 0, item.tasks);
      }
      continue;
    }
    // Library calls with scratch memory keep some a part, so there they are as many as threads.
    const bool scratched = item.plan != nullptr && item.plan->scratch_bytes > 0;
    Part part{&item, params, scratch, scratched ? exe.scratch_stride : 0,
              std::min<int64_t>(item.tasks, scratched ? threads : threads * kPartsPerThread)};
    pool::run(threads, part.parts, run_part, &part);
  }
}

Status interpret(const Executable& exe, void* const* params, void* const* outputs) {
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
  return runtime::reference::interpret(*exe.graph, heap, {bindings.data(), bindings.size()},
                                       {results.data(), results.size()});
}

}  // namespace aster::engine
