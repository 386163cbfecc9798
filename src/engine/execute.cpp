#include <algorithm>
#include <atomic>
#include <ctime>

#include "base/pool.h"
#include "engine/engine.h"
#include "engine/tracer.h"
#include "runtime/cpu/machine.h"
#include "runtime/reference/interpret.h"
#include "runtime/tiers.h"

namespace aster::engine {
namespace {

namespace machine = runtime::cpu::machine;

// What is being written in place is finished if that takes no longer.
constexpr double kFinishNs = 2e7;

struct Part {
  const Launch* launch;
  void* const* params;
  char* scratch;
  int64_t scratch_stride;
  int64_t parts;
  int64_t step;          // tasks
  Interrupt* interrupt;  // null: runs to its end
  std::atomic<bool> stopped{false};
};

int64_t step_of(const Launch& launch) {
  if (launch.expected <= kStepNs) return launch.tasks;
  return std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(launch.tasks) * kStepNs / launch.expected));
}

void run_tasks(const Launch& launch, void* const* params, char* scratch, int64_t begin,
               int64_t end) {
  if (launch.plan != nullptr) {
    launch.plan->implementation->run(*launch.plan, params, scratch, begin, end);
  } else {
    launch.function(params, launch.sizes, scratch, begin, end);
  }
}

void run_part(void* self, int64_t part) {
  Part& p = *static_cast<Part*>(self);
  const int64_t tasks = p.launch->tasks;
  const int64_t end = tasks * (part + 1) / p.parts;
  for (int64_t at = tasks * part / p.parts; at < end;) {
    if (p.interrupt != nullptr && p.interrupt->requested()) {
      p.stopped.store(true, std::memory_order_relaxed);
      return;
    }
    const int64_t next = std::min(end, at + p.step);
    run_tasks(*p.launch, p.params, p.scratch + part * p.scratch_stride, at, next);
    at = next;
  }
}

// For the thread that waits for the others' last parts: the callback is asked on no other.
void look(void* self) {
  const Part& p = *static_cast<const Part*>(self);
  if (p.interrupt != nullptr) static_cast<void>(p.interrupt->requested());
}

bool is_alone(const Launch& item, int threads) {
  return threads <= 1 || item.tasks <= 1 || item.nanoseconds < machine::kWorthThreads;
}

[[gnu::noinline]] bool launch_parts(const Executable& exe, const Launch& item, void* const* params,
                                    char* scratch, int threads, Interrupt* interrupt) {
  Part part{&item, params, scratch, 0, 1, step_of(item), interrupt};
  if (is_alone(item, threads)) {
    const pool::Spare spare(threads);  // one task may itself share its work
    run_part(&part, 0);
  } else {
    // What needs scratch memory keeps some a part, so there they are as many as threads.
    part.scratch_stride = item.scratched ? exe.scratch_stride : 0;
    part.parts = std::min<int64_t>(item.tasks,
                                   item.scratched ? threads : threads * machine::kPartsPerThread);
    pool::run(threads, part.parts, run_part, &part, look);
  }
  return !part.stopped.load(std::memory_order_relaxed);
}

// Small launches that do not know of each other, a thread each.
struct Beside {
  const Launch* first;
  void* const* pointers;
  char* scratch;
};

void run_beside(void* self, int64_t index) {
  const Beside& p = *static_cast<const Beside*>(self);
  const Launch& launch = p.first[index];
  run_tasks(launch, p.pointers + launch.first_operand, p.scratch, 0, launch.tasks);
}

[[gnu::noinline]] size_t launch_beside(const Launch& first, void* const* pointers, char* scratch,
                                       int threads) {
  Beside some{&first, pointers, scratch};
  pool::run(threads, first.beside, run_beside, &some);
  return first.beside;
}

}  // namespace

// Apart from launch_parts, so that small kernels cost their call.
bool launch_one(const Executable& exe, const Launch& item, void* const* params, char* scratch,
                int threads, Interrupt* interrupt) {
  if (item.plan != nullptr) item.plan->ran.store(0, std::memory_order_relaxed);
  if (item.expected > kStepNs || (threads > 1 && item.nanoseconds >= machine::kWorthThreads))
    return launch_parts(exe, item, params, scratch, threads, interrupt);
  run_tasks(item, params, scratch, 0, item.tasks);
  return true;
}

void bind(void** pointers, const Executable& exe, const Given* params, const Given* outputs,
          char* arena, buffer::Storage* const* copies) {
  for (size_t i = 0; i < exe.operands.size(); ++i) {
    const Slot& slot = exe.slots[exe.operands[i]];
    pointers[i] = slot.kind == SlotKind::kParam    ? params[slot.index].address()
                  : slot.kind == SlotKind::kOutput ? outputs[slot.index].address()
                  : slot.kind == SlotKind::kAbsent ? nullptr
                  : slot.kind == SlotKind::kCopy   ? copies[slot.index]->data
                                                   : arena + slot.offset;
  }
}

void Replayed::enter(Runs* runs, const Work& work) {
  runs->work = &work;
  runs->next = first_;
  runs->link = &first_;
  if (first_ != nullptr) first_->link = &runs->next;
  first_ = runs;
}

void Replayed::leave(Runs* runs) {
  if (runs->link == nullptr) return;
  *runs->link = runs->next;
  if (runs->next != nullptr) runs->next->link = runs->link;
  gone_.add(runs->sum());
  gone_runs_ += runs->count.load(std::memory_order_relaxed);
}

Work Replayed::work() const {
  Work sum = gone_;
  for (const Runs* runs = first_; runs != nullptr; runs = runs->next) sum.add(runs->sum());
  return sum;
}

uint64_t Replayed::stamp() const {
  uint64_t sum = gone_runs_;
  for (const Runs* runs = first_; runs != nullptr; runs = runs->next)
    sum += runs->count.load(std::memory_order_relaxed);
  return sum;
}

native::How how_of(const Launch& launch) {
  if (launch.plan != nullptr) return launch.plan->how();
  const bool kernel = launch.kind == LaunchKind::kHost || launch.kind == LaunchKind::kDevice ||
                      launch.kind == LaunchKind::kProgram;
  const bool whole = launch.kind == LaunchKind::kInterpret;
  return {kernel ? "generated" : whole ? "interpreted" : "copy", false};
}

void Run::tell(const LaunchInfo& info, native::How how, size_t operands, uint64_t start,
               bool by_strips) const {
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
  launch.tier = by_strips ? 1 : 0;
  launch.scope = trace_scope();
  launch.cut = info.cut;
  launch.algorithm = how.algorithm;
  launch.is_exact = how.exact ? 1 : 0;
  trace.function(trace.self, &launch);
}

uint64_t nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

namespace {

// Looks between launches whether to stop, and tells the trace of them.
[[gnu::noinline]] Ran launch_stoppable(const Executable& exe, void* const* pointers, char* scratch,
                                       int threads, const Run& run, bool wrote) {
  for (size_t i = 0; i < exe.launches.size(); ++i) {
    const Launch& item = exe.launches[i];
    const bool may_stop = !(wrote || item.writes) || item.remaining > kFinishNs;
    if (may_stop && run.interrupt.requested()) return wrote ? Ran::kWriting : Ran::kPart;
    if (item.beside > 1 && threads > 1 && !run.traced()) {
      i += launch_beside(item, pointers, scratch, threads) - 1;
      continue;
    }
    wrote = wrote || item.writes;
    Tracer* const tracer = Tracer::of(run.trace);
    const bool looks = tracer != nullptr && tracer->looks();
    if (looks) tracer->before(exe, i, pointers + item.first_operand);
    const uint64_t start = run.traced() ? nanoseconds() : 0;
    const bool by_strips = item.plan != nullptr && runtime::is_beginning(*item.plan);
    const bool done = launch_one(exe, item, pointers + item.first_operand, scratch, threads,
                                 may_stop ? &run.interrupt : nullptr);
    if (!done) return wrote ? Ran::kWriting : Ran::kPart;
    if (run.traced()) run.tell(exe.infos[i], how_of(item), item.operand_count, start, by_strips);
    if (looks) tracer->after(exe, i, pointers + item.first_operand);
  }
  return Ran::kAll;
}

}  // namespace

void launch_all(const Executable& exe, void* const* pointers, char* arena, int threads) {
  char* scratch = arena + exe.scratch_offset;
  for (size_t i = 0; i < exe.launches.size();) {
    const Launch& item = exe.launches[i];
    if (item.beside > 1 && threads > 1) {
      i += launch_beside(item, pointers, scratch, threads);
    } else {
      launch_one(exe, item, pointers + item.first_operand, scratch, threads, nullptr);
      ++i;
    }
  }
}

Ran launch(const Executable& exe, void* const* pointers, char* arena, int threads, const Run& run,
           bool wrote) {
  char* scratch = arena + exe.scratch_offset;
  if (run.traced() || exe.launches.empty() || exe.launches[0].remaining > kStepNs)
    return launch_stoppable(exe, pointers, scratch, threads, run, wrote);
  if (!(wrote || exe.launches[0].writes) && run.interrupt.requested()) return Ran::kPart;
  launch_all(exe, pointers, arena, threads);
  return Ran::kAll;
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
                                          {results.data(), results.size()}, &run.interrupt));
  if (run.traced())
    run.tell({"interpreted", {}}, {"interpreted", false}, bindings.size() + results.size(), start);
  return kOk;
}

}  // namespace aster::engine
