// From roots to an executable: key, schedule cache, scheduling, rendering, compiling.
#include <algorithm>
#include <ctime>

#include "engine/device_program.h"
#include "engine/foreign.h"
#include "engine/kept_schedules.h"
#include "engine/kernels.h"
#include "engine/lower_dtypes.h"
#include "engine/lower_wide.h"
#include "engine/prepare.h"
#include "engine/rangeify.h"
#include "engine/sides.h"
#include "runtime/state.h"
#include "uop/rules_tensor.h"

namespace aster::engine {
namespace {

using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;

// Schedules kept before the cache is emptied: a program that never repeats itself must not grow for
// ever.
constexpr size_t kMostPlans = 4096;

uint64_t hash_words(std::span<const int64_t> words) {
  uint64_t hash = words.size();
  for (int64_t word : words) hash = hash_mix(hash, static_cast<uint64_t>(word));
  return hash;
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = hash_mix(hash, static_cast<uint64_t>(c));
  return hash;
}

}  // namespace

double milliseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

void Executable::release() {
  if (--references_ == 0) heap_.destroy(this);
}

Executable::~Executable() {
  for (native::Plan* plan : plans) heap_.destroy(plan);
  if (graph != nullptr) heap_.destroy(graph);
  if (whole != nullptr) heap_.destroy(whole);
  heap_.destroy(params);
}

namespace {

// A Buffer that moves to another device, of which the host addresses not both: a copy and no
// kernel.
bool is_move(Nodes roots, int32_t on) {
  if (roots.size() != 1 || !is_transfer(roots[0]) || roots[0]->src(0)->op != uop::Op::kBuffer)
    return false;
  const auto from = static_cast<int32_t>(roots[0]->src(0)->arg(1));
  return from != on && !(device::is_host(from) && device::is_host(on));
}

Status make_move(Executable* exe, Node root, int32_t on) {
  const auto count = static_cast<int64_t>(root->count());
  exe->away = true;
  Launch launch;
  launch.kind = LaunchKind::kMove;
  launch.operand_count = 2;
  launch.tasks = 0;
  launch.to = on;
  launch.from = static_cast<int32_t>(root->src(0)->arg(1));
  launch.bytes = count * static_cast<int64_t>(dtype::size(root->dtype));
  LaunchInfo info;
  std::snprintf(info.title, sizeof(info.title), "copy_%lld", static_cast<long long>(launch.bytes));
  for (const SlotKind kind : {SlotKind::kOutput, SlotKind::kParam}) {
    ASTER_TRY(exe->operands.push(static_cast<uint32_t>(exe->slots.size())));
    ASTER_TRY(exe->slots.push(Slot{kind, root->dtype, 0, count, 0, 0, 0}));
  }
  ASTER_TRY(exe->roots.push(0u));
  ASTER_TRY(exe->launches.push(launch));
  ASTER_TRY(exe->infos.push(info));
  exe->summary << "  0: " << info.title << '\n';
  return exe->summary.status();
}

}  // namespace

void Plans::clear() {
  for (auto& entry : table_) {
    for (Executable* exe = entry.value; exe != nullptr;) {
      Executable* const next = exe->next;
      exe->release();
      exe = next;
    }
  }
  table_.clear();
  count_ = 0;
}

Status Plans::add(uint64_t hash, Executable* exe) {
  if (table_.size() >= kMostPlans) clear();
  exe->next = table_.get(hash, nullptr);
  exe->hash = hash;
  ASTER_TRY(table_.set(hash, exe));
  exe->retain();
  ++count_;
  return kOk;
}

Status Engine::executable(Executable** out, Nodes roots, Leaves* leaves, int32_t on,
                          Vec<Node>* order) {
  const double start = milliseconds();
  Vec<int64_t> key(context.heap());
  const dtype::Defaults defaults = graph.defaults;
  const runtime::Device* device_of_kernels = nullptr;
  ASTER_TRY(runtime::device_of(&device_of_kernels, context, on));
  const bool interpret = device::same_type(on, device::kReference);
  ASTER_TRY(key.push(int64_t{interpret} | static_cast<int64_t>(defaults.real) << 8 |
                     static_cast<int64_t>(defaults.whole) << 16 |
                     int64_t{context.beam() != 0} << 24 |
                     (device_of_kernels != nullptr ? static_cast<int64_t>(on) << 32 : 0)));
  ASTER_TRY(write_key(&key, leaves, *this, roots, order));
  Vec<uint64_t> constants(context.heap());
  if (device_of_kernels == nullptr) ASTER_TRY(find_constants(&constants, *this, *leaves));
  uint64_t hash = hash_words({key.data(), key.size()});
  for (const uint64_t word : constants) hash = hash_mix(hash, word);
  if (context.options().no_schedule_cache == 0) {
    Executable** at = plans_now->find(hash);
    for (; at != nullptr && *at != nullptr; at = &(*at)->next) {
      if (std::equal(key.begin(), key.end(), (*at)->key.begin(), (*at)->key.end()) &&
          std::equal(constants.begin(), constants.end(), (*at)->constants.begin(),
                     (*at)->constants.end())) {
        ASTER_TRY(specialise(at, roots, *leaves));
        Executable* const exe = *at;
        ++counters.schedule_hits;
        counters.schedule_ms += milliseconds() - start;
        exe->retain();
        *out = exe;
        return kOk;
      }
    }
  }
  Executable* exe = context.heap().create<Executable>(context.heap());
  if (exe == nullptr) return out_of_memory(sizeof(Executable));
  exe->own_sizes = recording != nullptr || folds;
  exe->device = device_of_kernels;
  exe->away = device_of_kernels != nullptr;
  exe->constants = std::move(constants);
  exe->key = std::move(key);  // what saving a captured program reads
  Status status = leaves->foreign ? check_foreign(exe, roots, on) : Status(kOk);
  const bool moves = is_move(roots, on);
  bool kept = false;
  if (status.ok() && !moves && !interpret)
    status = read_schedule(&kept, exe, *this, {hash, roots, *leaves});
  if (status.ok() && !kept)
    status = moves ? make_move(exe, roots[0], on) : compile(exe, roots, *leaves, interpret);
  if (kept) counters.schedule_ms += milliseconds() - start;
  if (status.ok() && context.options().no_schedule_cache == 0 && !exe->for_now) {
    status = plans_now->add(hash, exe);
  }
  if (!status.ok()) {
    exe->release();
    return status;
  }
  ++counters.schedule_misses;
  *out = exe;
  return kOk;
}

bool is_worth_own_sizes(Executable& exe) {
  constexpr double kMuchTime = 1e9;
  if (exe.own_sizes || exe.sizes.empty()) return false;
  exe.spent += exe.launches[0].remaining;
  return exe.spent >= kMuchTime;
}

// A schedule that is captured, or on which much time was spent, is worth the compiler's.
Status Engine::specialise(Executable** at, Nodes roots, const Leaves& leaves) {
  Executable* const shared = *at;
  const bool worth = is_worth_own_sizes(*shared);
  if (shared->own_sizes || shared->sizes.empty() || (!worth && recording == nullptr)) return kOk;
  shared->own_sizes = true;  // not to be tried again
  Executable* own = context.heap().create<Executable>(context.heap());
  if (own == nullptr) return out_of_memory(sizeof(Executable));
  own->own_sizes = true;
  own->own_kernels = shared->own_kernels;
  own->device = shared->device;
  own->away = shared->away;
  Status status = own->constants.append(shared->constants.data(), shared->constants.size());
  if (status.ok()) status = compile(own, roots, leaves, false);
  if (!status.ok() || own->graph != nullptr || own->for_now) {
    own->release();
    return status;
  }
  own->next = shared->next;
  own->hash = shared->hash;
  own->key = std::move(shared->key);
  *at = own;
  shared->release();
  return kOk;
}

Status Engine::say_on_host(int32_t device_of_kernel) {
  const uint64_t reason = hash_text(SavedError::message());
  if (said_reasons_.find(reason) != nullptr) return kOk;
  context.log(ASTER_ML_LOG_WARNING, "the host computes for %s: %s",
              device::name(device_of_kernel).text, SavedError::message());
  return said_reasons_.set(reason, true);
}

// Every reason is said once. What was asked for is no cause for a warning.
Status Engine::say_interpreted() {
  const uint64_t reason = hash_text(SavedError::message());
  if (said_reasons_.find(reason) != nullptr) return kOk;
  const bool wanted = std::string_view(runtime::cpu::compiler_choice(context)) == "none";
  context.log(wanted ? ASTER_ML_LOG_INFO : ASTER_ML_LOG_WARNING,
              "the reference runtime computes, slowly: %s (the option no_fallback, or "
              "ASTER_ML_NO_FALLBACK=1, makes this an error)",
              SavedError::message());
  return said_reasons_.set(reason, true);
}

Status Engine::compile(Executable* exe, Nodes roots, const Leaves& leaves, bool interpret) {
  if (interpret) return keep_graph(exe, roots, leaves);
  const SavedError before;
  Status status;
  {
    Arena memory(context.blocks());
    status = schedule_and_compile(exe, roots, leaves, memory);
    // Rules and texts take a failed request for "does not apply" and "no more": not to be trusted.
    if (memory.failed()) return ASTER_FAIL(kMEMORY, "scheduling ran out of memory");
  }
  if (status.code != ASTER_ML_UNSUPPORTED || exe->own_kernels) return status;
  // No compiler here, one that failed, or a kernel that it cannot be given: the interpreter
  // answers.
  ASTER_TRY(say_interpreted());
  before.restore();
  return keep_graph(exe, roots, leaves);
}

namespace {

// A value that turned out to be what a write leaves behind is a copy of it: the write's own memory
// is its target.
Status copy_simplified(Node* sink, uop::Graph& g, Nodes roots) {
  Vec<Node> made(g.memory());
  bool any = false;
  for (size_t i = 0; i < roots.size(); ++i) {
    Node node = (*sink)->src(i);
    const bool effect = node->op == uop::Op::kAssign || node->op == uop::Op::kAfter;
    if (effect && roots[i]->op != uop::Op::kAssign) {
      node = g.contiguous(node);
      any = true;
    }
    ASTER_TRY(made.push(node));
  }
  if (any) *sink = g.sink({made.data(), made.size()});
  return *sink != nullptr ? kOk : last_failure();
}

// What is done to graphs in which an operation occurs. No pass makes what one behind it looks for.
struct Pass {
  Op op;
  Status (*run)(Node* sink, Graph& graph);
};
constexpr Pass kPasses[] = {
    {Op::kAssign, copy_written_values},  {Op::kScan, copy_turned_scans},
    {Op::kScanPlace, copy_turned_scans}, {Op::kLogScan, copy_turned_scans},
    {Op::kArgsort, sort_values},         {Op::kReduce, split_reductions},
    {Op::kCat, split_concatenations},    {Op::kThreefry, split_words},
    {Op::kWindow, lay_out_padding},
};

Status run_passes(Node* sink, Graph& g) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(walk(&nodes, std::array{*sink}));
  bool occurs[static_cast<size_t>(Op::kCount)] = {};
  for (Node node : nodes) occurs[static_cast<size_t>(node->op)] = true;
  for (const Pass& pass : kPasses) {
    if (occurs[static_cast<size_t>(pass.op)]) ASTER_TRY(pass.run(sink, g));
  }
  return kOk;
}

}  // namespace

bool is_near(const runtime::Device* on) {
  return on == nullptr || !on->computes() || on->info.kind == ASTER_ML_DEVICE_KIND_CPU;
}

bool Engine::dots_bytes(const runtime::Device* on) const {
  if (on == nullptr || !on->computes()) on = made_for;
  if (on == nullptr && !runtime::host_device(&on, context).ok()) return false;
  return on->target.vnni;
}

Status Engine::prepare_graph(Node* sink, Graph& scratch, Nodes roots, const Leaves& leaves,
                             const runtime::Device* on) const {
  const bool near = is_near(on);
  scratch.defaults = graph.defaults;
  scratch.rounding = context.options().flt_rounding;
  ASTER_TRY(copy_with_params(sink, scratch, roots, leaves));
  ASTER_TRY(lower_dtypes(sink, scratch, near && context.options().no_library == 0));
  ASTER_TRY(lower_wide(sink, scratch));
  if (near && context.options().strict_parity == 0) {
    ASTER_TRY(multiply_quantised(sink, scratch, dots_bytes(on)));
    ASTER_TRY(join_products(sink, scratch));
    ASTER_TRY(multiply_rows_together(sink, scratch));
  }
  ASTER_TRY(inline_calls(sink, scratch, near));
  ASTER_TRY(expand_scatters(sink, scratch));
  ASTER_TRY(uop::simplify_tensor(sink, scratch, *sink));
  ASTER_TRY(copy_simplified(sink, scratch, roots));
  return run_passes(sink, scratch);
}

Status Engine::schedule_and_compile(Executable* exe, Nodes roots, const Leaves& leaves,
                                    Arena& memory) {
  const double start = milliseconds();
  Graph scratch(memory, false);
  Node sink = nullptr;
  Schedule schedule(memory);
  ASTER_TRY(prepare_graph(&sink, scratch, roots, leaves, exe->device));
  if (context.interrupt().requested()) return Interrupt::stopped("a graph is scheduled");
  ASTER_TRY(rangeify(&schedule, memory, scratch, {leaves.regions.data(), leaves.regions.size()},
                     sink, !exe->away));
  if (is_near(exe->device)) ASTER_TRY(split_divided(&schedule, scratch));
  ASTER_TRY(plan_memory(schedule));
  counters.schedule_ms += milliseconds() - start;
  const double compiling = milliseconds();
  Status status = compile_kernels(exe, scratch, schedule, leaves, memory);
  counters.compile_ms += milliseconds() - compiling;
  ASTER_TRY(status);
  counters.kernels_scheduled += schedule.items.size();
  counters.planned_bytes += static_cast<uint64_t>(schedule.arena_bytes);
  return kOk;
}

bool written_by_interpreter(const Executable& exe, size_t param) {
  for (Node root : exe.sink->src()) {
    if (root->op != uop::Op::kAssign) continue;
    while (root->nsrc != 0) root = root->src(0);
    if (root == (*exe.params)[param]) return true;
  }
  return false;
}

Status Engine::keep_graph(Executable* exe, Nodes roots, const Leaves& leaves) {
  Heap& heap = context.heap();
  exe->graph = heap.create<Graph>(heap);
  exe->params = heap.create<Vec<Node>>(heap);
  if (exe->graph == nullptr || exe->params == nullptr) return out_of_memory(sizeof(Graph));
  exe->graph->defaults = graph.defaults;
  exe->graph->rounding = context.options().flt_rounding;
  ASTER_TRY(copy_with_params(&exe->sink, *exe->graph, roots, leaves));
  ASTER_TRY(lower_wide(&exe->sink, *exe->graph));
  exe->graph->retain(exe->sink);
  for (size_t i = 0; i < leaves.buffers.size(); ++i) {
    const Node memory = leaves.buffers[i];
    Node param = exe->graph->param(static_cast<uop::Word>(i), memory->dtype, memory->shape());
    ASTER_TRY(lower_wide(&param, *exe->graph));
    if (param == nullptr) return last_failure();
    exe->graph->retain(param);
    ASTER_TRY(exe->params->push(param));
  }
  return exe->away ? keep_graph_away(exe, roots, leaves) : kOk;
}

// Interpreted by the host on copies.
Status Engine::keep_graph_away(Executable* exe, Nodes roots, const Leaves& leaves) {
  Arena memory(context.blocks());
  Vec<uint32_t> slots(memory);
  Vec<uint8_t> written(memory);
  for (size_t i = 0; i < leaves.buffers.size() + roots.size(); ++i) {
    const bool leaf = i < leaves.buffers.size();
    const size_t index = leaf ? i : i - leaves.buffers.size();
    const Node node = leaf ? leaves.buffers[i] : roots[index];
    ASTER_TRY(slots.push(static_cast<uint32_t>(i)));
    ASTER_TRY(written.push(!leaf || written_by_interpreter(*exe, index)));
    if (!leaf) ASTER_TRY(exe->roots.push(static_cast<uint32_t>(i)));
    ASTER_TRY(exe->slots.push(Slot{leaf ? SlotKind::kParam : SlotKind::kOutput,
                                   graph.strong(node->dtype), static_cast<uint32_t>(index),
                                   static_cast<int64_t>(node->count()), 0, 0, 0}));
  }
  Sides sides(*exe, memory);
  ASTER_TRY(sides.begin(leaves));
  Launch launch;
  launch.kind = LaunchKind::kInterpret;
  LaunchInfo info;
  std::snprintf(info.title, sizeof(info.title), "interpreted");
  info.work.kernels = exe->work.kernels = 1;
  ASTER_TRY(sides.add(launch, info, {slots.data(), slots.size()}, {written.data(), written.size()},
                      Sides::kHost));
  ++exe->on_host;
  return sides.finish(memory);
}

namespace {

// Whether the host has to compute a kernel.
bool needs_host(const Schedule& schedule, const Kernels& on_device) {
  return std::ranges::any_of(schedule.items, [&](const Item& item) {
    return item.kind == ItemKind::kKernel && on_device.function(item.kernel) == nullptr;
  });
}

}  // namespace

Status Engine::compile_kernels(Executable* exe, Graph& scratch, Schedule& schedule,
                               const Leaves& leaves, const Arena& scratch_memory) {
  Memory& memory = scratch.memory();
  Kernels on_device(memory), on_host(memory);
  if (exe->away && exe->device->computes())
    ASTER_TRY(make_kernels(&on_device, exe, *this, scratch, schedule, *exe->device, nullptr,
                           scratch_memory));
  if (exe->own_kernels) ASTER_TRY(make_foreign(&on_device, exe, *this, schedule));
  if (!exe->away || needs_host(schedule, on_device)) {
    const runtime::Device* host = made_for;
    const Status found = host != nullptr ? Status(kOk) : runtime::host_device(&host, context);
    if (!found.ok()) return without_code(exe, context, found);
    ASTER_TRY(make_kernels(&on_host, exe, *this, scratch, schedule, *host,
                           exe->away ? &on_device : nullptr, scratch_memory));
  }
  ASTER_TRY(assemble(exe, *this, schedule, scratch, on_device, on_host, leaves));
  if (!exe->away) exe->arena_bytes = schedule.arena_bytes;
  exe->scratch_offset = (exe->arena_bytes + 63) & ~int64_t{63};
  exe->arena_bytes = exe->scratch_offset + exe->scratch_stride * threads;
  return keep_schedule(*exe, *this, on_host, schedule.arena_bytes, leaves);
}

}  // namespace aster::engine
