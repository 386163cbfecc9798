// The launches of an executable.
#include <algorithm>

#include "codegen/title.h"
#include "engine/foreign.h"
#include "engine/kernels.h"
#include "engine/sides.h"
#include "runtime/cpu/machine.h"
#include "runtime/reference/evaluate.h"
#include "runtime/tiers.h"

namespace aster::engine {
namespace {

namespace machine = runtime::cpu::machine;
using uop::Graph;
using uop::Node;

Work estimate(double operations, double bytes) {
  return Work{1, static_cast<uint64_t>(operations), static_cast<uint64_t>(bytes)};
}

// "  0: matmul_relu_64x512_r784  16 tasks  64x512 ..." for people: loops of each result, sizes of
// the reductions.
Status describe(Text& out, Memory& memory, const Schedule& schedule, const Item& item,
                const Launch& launch, const char* title) {
  const auto number = static_cast<size_t>(&item - schedule.items.data());
  out.format("%3zu: %-36s %4lld tasks  ", number, title, static_cast<long long>(launch.tasks));
  if (item.kind == ItemKind::kLibrary) {
    out.format("%s <-", uop::brief_shape(item.kernel->shape()).text);
    for (Node argument : item.kernel->src())
      out.format(" %s", uop::brief_shape(argument->shape()).text);
    out << '\n';
    return out.status();
  }
  for (Node store : item.kernel->src()) {
    for (size_t i = 3; i < store->nsrc; ++i) {
      out.format(i == 3 ? "%lld" : "x%lld", static_cast<long long>(store->src(i)->arg(1)));
    }
    out << ' ';
  }
  Vec<Node> nodes(memory);
  ASTER_TRY(uop::toposort(&nodes, std::array{item.kernel}));
  for (Node node : nodes) {
    const bool carries = node->op == uop::Op::kCarry;
    if (node->op != uop::Op::kFold && !carries) continue;
    out.format(carries ? " Carry:%s" : " %s", uop::info(static_cast<uop::Op>(node->arg(0))).name);
    for (Node range : node->src().subspan(carries ? node->nsrc - 1 : 1))
      out.format(" %lld", static_cast<long long>(range->arg(1)));
  }
  out.format("  (%zu nodes, %u operands)", nodes.size(), item.operand_count);
  if (item.cut[0] != 0) out << "  stored: " << item.cut;
  out << '\n';
  return out.status();
}

// "sort_64x512"
template <size_t N>
Status name_call(char (&out)[N], Memory& memory, const char* name, Node result) {
  Text text(memory);
  text << name << '_';
  codegen::write_sizes(text, result->shape());
  ASTER_TRY(text.status());
  std::snprintf(out, N, "%s", text.c_str());
  return kOk;
}

// Whether an item writes to memory of the schedule's caller: its results are new, so in place.
bool writes_in_place(const Schedule& schedule, const Item& item) {
  const auto in_place = [&](size_t operand) {
    return schedule.slot(item, operand).kind == SlotKind::kParam;
  };
  if (item.kind == ItemKind::kLibrary) return in_place(item.operand_count - 1);
  for (Node store : item.kernel->src()) {
    if (in_place(static_cast<size_t>(store->src(0)->arg(0)))) return true;
  }
  return false;
}

Status new_plan(Launch* launch, Executable* exe, Heap& heap) {
  ASTER_TRY(exe->plans.reserve(exe->plans.size() + 1));
  launch->plan = heap.create<native::Plan>(heap);
  if (launch->plan == nullptr) return out_of_memory(sizeof(native::Plan));
  return exe->plans.push(launch->plan);
}

// What is computed by compiled C++.
Status prepare_call(Launch* launch, LaunchInfo* info, Executable* exe, Heap& heap,
                    const Schedule& schedule, const Item& item) {
  ASTER_TRY(new_plan(launch, exe, heap));
  native::Plan* const plan = launch->plan;
  ASTER_TRY(native::prepare(plan, item.kernel,
                            {schedule.words.data() + item.first_word, item.word_count}));
  launch->tasks = plan->tasks;
  launch->nanoseconds = plan->nanoseconds;
  info->work = estimate(static_cast<double>(item.kernel->count()),
                        static_cast<double>(schedule.operand_bytes(item)));
  return kOk;
}

// A kernel that there is no machine code of.
Status interpret_kernel(Launch* launch, Executable* exe, Heap& heap, Graph& graph, const Item& item,
                        const codegen::Target& target) {
  ASTER_TRY(new_plan(launch, exe, heap));
  ASTER_TRY(runtime::reference::prepare_kernel(launch->plan, graph, item.kernel, target));
  launch->tasks = launch->plan->tasks;
  launch->nanoseconds = launch->plan->nanoseconds;
  return kOk;
}

// A kernel that begins without machine code, or else what it waited for: *function.
Status begin_kernel(Launch* launch, void** function, Executable* exe, Context& context,
                    const runtime::Request& request) {
  const SavedError before;
  ASTER_TRY(new_plan(launch, exe, context.heap()));
  const Status begun = runtime::begin(launch->plan, request);
  if (begun.code != ASTER_ML_UNSUPPORTED) return begun;
  before.restore();
  launch->plan = nullptr;
  context.heap().destroy(exe->plans.back());
  exe->plans.pop();
  ASTER_TRY(runtime::finish_on_host(context, request.later));
  *function = request.later->load(std::memory_order_acquire);
  return kOk;
}

// Temporaries that only the host touches lie in its memory.
void keep_on_host(Executable* exe, const Schedule& schedule, const Kernels& on_device) {
  for (Slot& slot : exe->slots) {
    if (slot.kind == SlotKind::kTemporary) slot.kind = SlotKind::kHost;
  }
  for (const Item& item : schedule.items) {
    if (on_device.function(item.kernel) == nullptr) continue;
    for (uint32_t o = 0; o < item.operand_count; ++o) {
      Slot& slot = exe->slots[schedule.operands[item.first_operand + o]];
      if (slot.kind == SlotKind::kHost) slot.kind = SlotKind::kTemporary;
    }
  }
}

// Puts the launches of a schedule together.
class Assembly {
 public:
  Assembly(Engine& engine, Executable* exe, const Schedule& schedule, Graph& graph)
      : engine_(engine),
        exe_(*exe),
        schedule_(schedule),
        graph_(graph),
        memory_(graph.memory()),
        sides_(*exe, memory_),
        written_(memory_) {}

  Status run(const Kernels& on_device, const Kernels& on_host, const Leaves& leaves) {
    ASTER_TRY(exe_.slots.append(schedule_.slots.data(), schedule_.slots.size()));
    ASTER_TRY(exe_.roots.append(schedule_.roots.data(), schedule_.roots.size()));
    if (exe_.away) {
      keep_on_host(&exe_, schedule_, on_device);
      ASTER_TRY(sides_.begin(leaves));
    }
    for (const Item& item : schedule_.items) {
      const bool away = on_device.function(item.kernel) != nullptr;
      ASTER_TRY(add(item, away ? on_device : on_host, away));
    }
    if (exe_.away) ASTER_TRY(sides_.finish(memory_));
    return exe_.summary.status();
  }

 private:
  Status add(const Item& item, const Kernels& kernels, bool away) {
    Launch launch;
    LaunchInfo info;
    if (!exe_.away) {
      launch.first_operand = static_cast<uint32_t>(exe_.operands.size());
      ASTER_TRY(
          exe_.operands.append(schedule_.operands.data() + item.first_operand, item.operand_count));
    }
    launch.operand_count = item.operand_count;
    launch.writes = writes_in_place(schedule_, item);
    info.cut = item.cut;
    if (item.kind == ItemKind::kKernel) {
      ASTER_TRY(add_kernel(&launch, &info, item, kernels, away));
    } else if (away) {
      ASTER_TRY(add_foreign(&launch, &info, item, kernels));
      exe_.work.add(info.work);
      ASTER_TRY(describe(exe_.summary, memory_, schedule_, item, launch, info.title));
      ForeignOperands operands(memory_);
      ASTER_TRY(operands.take(schedule_, item, kernels.foreign_of(item.kernel)->code));
      return sides_.add(launch, info, {operands.slots.data(), operands.slots.size()},
                        {operands.written.data(), operands.written.size()}, Sides::kDevice,
                        {operands.shifts.data(), operands.shifts.size()});
    } else {
      ASTER_TRY(prepare_call(&launch, &info, &exe_, engine_.context.heap(), schedule_, item));
      ASTER_TRY(name_call(info.title, memory_, launch.plan->name(), item.kernel));
    }
    if (launch.plan != nullptr) need_scratch(&launch, launch.plan->scratch_bytes);
    exe_.work.add(info.work);
    ASTER_TRY(push(item, launch, info, away));
    return describe(exe_.summary, memory_, schedule_, item, launch, info.title);
  }

  void need_scratch(Launch* launch, int64_t bytes) {
    launch->scratched = bytes > 0;
    exe_.scratch_stride = std::max(exe_.scratch_stride, (bytes + 63) & ~int64_t{63});
  }

  Status add_kernel(Launch* launch, LaunchInfo* info, const Item& item, const Kernels& kernels,
                    bool away) {
    const uint32_t number = kernels.numbers.get(item.kernel, 0);
    const codegen::Rendered& one = kernels.rendered[number];
    const double tasks = static_cast<double>(one.tasks);
    info->work = estimate(tasks * one.task_flops, tasks * one.task_bytes);
    std::memcpy(info->title, one.title, sizeof(info->title));
    const runtime::Request& request = kernels.requests[number];
    void* function = request.function;
    if (function == nullptr && request.later != nullptr) {
      ASTER_TRY(begin_kernel(launch, &function, &exe_, engine_.context, request));
      ++(launch->plan != nullptr ? engine_.counters.kernels_begun
                                 : engine_.counters.kernels_waited);
    }
    if (function == nullptr && launch->plan == nullptr) {
      engine_.counters.kernels_interpreted +=
          kernels.device->compiles || request.at_once == nullptr ? 1 : 0;
      function = request.at_once;
    }
    if (function == nullptr && launch->plan == nullptr) {
      return interpret_kernel(launch, &exe_, engine_.context.heap(), graph_, item,
                              kernels.device->target);
    }
    if (away) {
      launch->kind = LaunchKind::kDevice;
      launch->kernel = function;
    } else if (launch->plan == nullptr) {
      launch->function = function_at<runtime::KernelFunction>(function);
      need_scratch(launch, one.code.scratch_bytes);
    }
    ASTER_TRY(add_copies(launch, item, kernels, number));
    launch->tasks = one.tasks;
    const int64_t group = kernels.device->target.group;
    if (away && one.code.locals[0] != 0) {
      info->groups[0] = static_cast<uint32_t>(one.tasks);
      info->locals[0] = static_cast<uint32_t>(one.code.locals[0]);
    } else if (away && group > 0 && one.tasks > 1) {
      info->groups[0] = static_cast<uint32_t>((one.tasks + group - 1) / group);
      info->locals[0] = static_cast<uint32_t>(group);
    }
    launch->first_size = static_cast<uint32_t>(exe_.sizes.size());
    launch->size_count = static_cast<uint32_t>(one.sizes.size());
    ASTER_TRY(exe_.sizes.append(one.sizes.data(), one.sizes.size()));
    if (!one.sizes.empty()) ++engine_.counters.kernels_sized;
    launch->nanoseconds = tasks * std::max(one.task_flops / machine::kFlopsPerNanosecond,
                                           one.task_bytes / machine::kBytesPerNanosecond);
    if (launch->plan != nullptr) launch->plan->nanoseconds = launch->nanoseconds;
    return kOk;
  }

  // Copies of what does not change are operands behind the kernel's.
  Status add_copies(Launch* launch, const Item& item, const Kernels& kernels, uint32_t number) {
    const codegen::Constants& constants = kernels.constants[number];
    launch->operand_count += static_cast<uint32_t>(constants.copies.size());
    return engine::add_copies(&exe_, engine_, schedule_, item, kernels, constants);
  }

  // A kernel that is not ours, by the device.
  Status add_foreign(Launch* launch, LaunchInfo* info, const Item& item, const Kernels& kernels) {
    const uop::Foreign& kernel = uop::foreign_of(item.kernel);
    const uop::ForeignCode& code = kernels.foreign_of(item.kernel)->code;
    launch->kind = LaunchKind::kDevice;
    launch->kernel = kernels.function(item.kernel);
    launch->tasks = code.tasks;
    launch->nanoseconds = kernel.nanoseconds * static_cast<double>(code.tasks);
    launch->first_size = static_cast<uint32_t>(exe_.sizes.size());
    launch->size_count = static_cast<uint32_t>(code.sizes.size());
    ASTER_TRY(exe_.sizes.append(code.sizes.data(), code.sizes.size()));
    std::ranges::copy(code.groups, info->groups);
    std::ranges::copy(code.locals, info->locals);
    info->work = estimate(static_cast<double>(item.kernel->count()),
                          static_cast<double>(schedule_.operand_bytes(item)));
    return name_call(info->title, memory_, kernel.name, item.kernel);
  }

  Status push(const Item& item, Launch& launch, const LaunchInfo& info, bool away) {
    written_.clear();
    ASTER_TRY(written_.resize(item.operand_count, 0));
    if (item.kind == ItemKind::kLibrary) {
      written_.back() = 1;
    } else {
      for (Node store : item.kernel->src())
        written_[static_cast<size_t>(store->src(0)->arg(0))] = 1;
    }
    if (!exe_.away) {
      for (size_t o = 0; o < std::min<size_t>(written_.size(), Launch::kMostOperands); ++o)
        launch.written |= uint64_t{written_[o]} << o;
      ASTER_TRY(exe_.launches.push(launch));
      return exe_.infos.push(info);
    }
    if (!away) ++exe_.on_host;
    return sides_.add(launch, info,
                      {schedule_.operands.data() + item.first_operand, item.operand_count},
                      {written_.data(), written_.size()}, away ? Sides::kDevice : Sides::kHost);
  }

  Engine& engine_;
  Executable& exe_;
  const Schedule& schedule_;
  Graph& graph_;  // that it is of
  Memory& memory_;
  Sides sides_;
  Vec<uint8_t> written_;  // by operand
};

}  // namespace

Status assemble(Executable* exe, Engine& engine, const Schedule& schedule, Graph& graph,
                const Kernels& on_device, const Kernels& on_host, const Leaves& leaves) {
  ASTER_TRY(Assembly(engine, exe, schedule, graph).run(on_device, on_host, leaves));
  finish_launches(exe);
  return kOk;
}

}  // namespace aster::engine
