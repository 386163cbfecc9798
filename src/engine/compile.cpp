// From roots to an executable: key, schedule cache, scheduling, rendering, compiling.
#include <algorithm>
#include <ctime>

#include "base/pool.h"
#include "codegen/title.h"
#include "engine/engine.h"
#include "engine/prepare.h"
#include "engine/rangeify.h"
#include "runtime/cpu/machine.h"
#include "runtime/state.h"
#include "uop/rules_tensor.h"

namespace aster::engine {
namespace {

using runtime::cpu::KernelSource;
namespace machine = runtime::cpu::machine;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;

// Schedules kept before the cache is emptied: a program that never repeats itself must not grow for
// ever.
constexpr size_t kMostCached = 4096;

Work estimate(double operations, double bytes) {
  return Work{1, static_cast<uint64_t>(operations), static_cast<uint64_t>(bytes)};
}

uint64_t hash_words(std::span<const int64_t> words) {
  uint64_t hash = words.size();
  for (int64_t word : words) hash = hash_mix(hash, static_cast<uint64_t>(word));
  return hash;
}

// "  0: matmul_relu_64x512_r784  16 tasks  64x512 ..." for people: loops of each result, sizes of
// the reductions.
Status describe(Text& out, Memory& memory, size_t number, const Item& item, const Launch& launch,
                const char* title) {
  out.format("%3zu: %-36s %4lld tasks  ", number, title, static_cast<long long>(launch.tasks));
  if (item.kind == ItemKind::kLibrary) {
    out.format("%s <-", uop::brief_shape(item.kernel->shape()).text);
    for (Node argument : item.kernel->src().subspan(library::first_argument(item.kernel)))
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
    if (node->op != uop::Op::kFold) continue;
    out.format(" %s", uop::info(static_cast<uop::Op>(node->arg(0))).name);
    for (Node range : node->src().subspan(1))
      out.format(" %lld", static_cast<long long>(range->arg(1)));
  }
  out.format("  (%zu nodes, %u operands)\n", nodes.size(), item.operand_count);
  return out.status();
}

// "Matmul:library_64x512"
template <size_t N>
Status name_call(char (&out)[N], Memory& memory, const char* name, Node result) {
  Text text(memory);
  text << name << '_';
  codegen::write_sizes(text, result->shape());
  ASTER_TRY(text.status());
  std::snprintf(out, N, "%s", text.c_str());
  return kOk;
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = hash_mix(hash, static_cast<uint64_t>(c));
  return hash;
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

// What is computed by compiled C++.
Status prepare_call(Launch* launch, LaunchInfo* info, Heap& heap, const Schedule& schedule,
                    const Item& item) {
  native::Plan* plan = launch->plan = heap.create<native::Plan>(heap);
  if (plan == nullptr) return out_of_memory(sizeof(native::Plan));
  ASTER_TRY(native::prepare(plan, item.kernel,
                            {schedule.words.data() + item.first_word, item.word_count}));
  launch->tasks = plan->tasks;
  // Calls that wait for each other are not worth a second thread.
  const bool together = plan->blas == nullptr || plan->blas->parallel_calls;
  launch->nanoseconds = together ? plan->nanoseconds : 0;
  const double operations = plan->flops > 0 ? plan->flops * static_cast<double>(plan->tasks)
                                            : static_cast<double>(item.kernel->count());
  info->work = estimate(operations, static_cast<double>(schedule.operand_bytes(item)));
  return kOk;
}

// What each launch has to know of the others.
void finish_launches(Executable* exe, const Schedule& schedule) {
  double remaining = 0;
  for (size_t i = exe->launches.size(); i-- > 0;) {
    Launch& launch = exe->launches[i];
    launch.expected = launch.plan != nullptr ? launch.plan->nanoseconds : launch.nanoseconds;
    launch.remaining = remaining += launch.expected;
    launch.writes = writes_in_place(schedule, schedule.items[i]);
    launch.sizes = exe->sizes.data() + launch.first_size;
  }
}

// What a failure to get machine code amounts to: UNSUPPORTED is what the interpreter answers. What
// the system refused now it may grant next time.
Status without_code(Executable* exe, const Context& context, Status status) {
  exe->for_now = status.code == ASTER_ML_DEVICE;
  if (!exe->for_now && status.code != ASTER_ML_UNSUPPORTED && status.code != ASTER_ML_COMPILE)
    return status;
  if (context.options().no_fallback != 0) return ASTER_FAIL(kCOMPILE, "%s", SavedError::message());
  return ASTER_FAIL(kUNSUPPORTED, "%s", SavedError::message());
}

}  // namespace

codegen::Target target_of(const runtime::cpu::KernelLibrary& kernels) {
  const runtime::cpu::CpuFeatures& features = kernels.features();
  codegen::Target target;
  target.vector_bytes = features.vector_bytes;
  target.fma = features.fma;
  target.f16c = features.f16c;
  target.avx512 = features.vector_bytes == 64;
  const auto last_level = static_cast<int64_t>(runtime::cpu::detect_caches().last);
  if (last_level > 0) target.cache_bytes = std::min(last_level, machine::kMostCacheShare);
  return target;
}

double milliseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

void Executable::release() {
  if (--references_ == 0) heap_.destroy(this);
}

Executable::~Executable() {
  for (Launch& launch : launches) heap_.destroy(launch.plan);
  if (kernels != nullptr) kernels->release();
  if (graph != nullptr) heap_.destroy(graph);
  heap_.destroy(params);
}

Status Engine::executable(Executable** out, Nodes roots, Leaves* leaves, bool interpret) {
  const double start = milliseconds();
  Vec<int64_t> key(context.heap());
  const dtype::Defaults defaults = graph.defaults;
  ASTER_TRY(key.push(int64_t{interpret} | static_cast<int64_t>(defaults.real) << 8 |
                     static_cast<int64_t>(defaults.whole) << 16));
  ASTER_TRY(write_key(&key, leaves, *this, roots));
  const uint64_t hash = hash_words({key.data(), key.size()});
  if (context.options().no_schedule_cache == 0) {
    Executable* const* head = cache.find(hash);
    for (Executable* exe = head != nullptr ? *head : nullptr; exe != nullptr; exe = exe->next) {
      if (exe->key.size() == key.size() && std::equal(key.begin(), key.end(), exe->key.begin())) {
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
  Status status = compile(exe, roots, *leaves, interpret);
  if (status.ok() && context.options().no_schedule_cache == 0 && !exe->for_now) {
    if (cache.size() >= kMostCached) {
      for (auto& entry : cache) {
        for (Executable* e = entry.value; e != nullptr;) {
          Executable* next = e->next;
          e->release();
          e = next;
        }
      }
      cache.clear();
    }
    exe->next = cache.get(hash, nullptr);
    exe->hash = hash;
    exe->key = std::move(key);
    status = cache.set(hash, exe);
    if (status.ok()) exe->retain();
  }
  if (!status.ok()) {
    exe->release();
    return status;
  }
  ++counters.schedule_misses;
  *out = exe;
  return kOk;
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
  if (status.code != ASTER_ML_UNSUPPORTED) return status;
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

}  // namespace

Status Engine::prepare_graph(Node* sink, Graph& scratch, Nodes roots, const Leaves& leaves) const {
  const bool library = context.options().no_library == 0;
  scratch.defaults = graph.defaults;
  ASTER_TRY(copy_with_params(sink, scratch, roots, leaves));
  ASTER_TRY(inline_calls(sink, scratch, library));
  ASTER_TRY(expand_scatters(sink, scratch));
  ASTER_TRY(uop::simplify_tensor(sink, scratch, *sink));
  ASTER_TRY(copy_simplified(sink, scratch, roots));
  ASTER_TRY(copy_written_values(sink, scratch));
  ASTER_TRY(expand_scans(sink, scratch));
  ASTER_TRY(sort_values(sink, scratch));
  ASTER_TRY(split_reductions(sink, scratch));
  ASTER_TRY(split_concatenations(sink, scratch));
  ASTER_TRY(split_words(sink, scratch));
  return lay_out_padding(sink, scratch);
}

Status Engine::schedule_and_compile(Executable* exe, Nodes roots, const Leaves& leaves,
                                    Arena& memory) {
  const double start = milliseconds();
  Graph scratch(memory, false);
  Node sink = nullptr;
  Schedule schedule(memory);
  ASTER_TRY(prepare_graph(&sink, scratch, roots, leaves));
  if (context.interrupt().requested()) return Interrupt::stopped("a graph is scheduled");
  ASTER_TRY(
      rangeify(&schedule, memory, scratch, {leaves.regions.data(), leaves.regions.size()}, sink));
  ASTER_TRY(plan_memory(schedule));
  counters.schedule_ms += milliseconds() - start;
  const double compiling = milliseconds();
  Status status = compile_kernels(exe, scratch, schedule, memory);
  counters.compile_ms += milliseconds() - compiling;
  ASTER_TRY(status);
  counters.kernels_scheduled += schedule.items.size();
  counters.planned_bytes += static_cast<uint64_t>(schedule.arena_bytes);
  return kOk;
}

Status Engine::keep_graph(Executable* exe, Nodes roots, const Leaves& leaves) {
  Heap& heap = context.heap();
  exe->graph = heap.create<Graph>(heap);
  exe->params = heap.create<Vec<Node>>(heap);
  if (exe->graph == nullptr || exe->params == nullptr) return out_of_memory(sizeof(Graph));
  exe->graph->defaults = graph.defaults;
  ASTER_TRY(copy_with_params(&exe->sink, *exe->graph, roots, leaves));
  exe->graph->retain(exe->sink);
  for (size_t i = 0; i < leaves.buffers.size(); ++i) {
    const Node memory = leaves.buffers[i];
    Node param = exe->graph->param(static_cast<uop::Word>(i), memory->dtype, memory->shape());
    if (param == nullptr) return last_failure();
    exe->graph->retain(param);
    ASTER_TRY(exe->params->push(param));
  }
  return kOk;
}

Status Engine::compile_kernels(Executable* exe, Graph& scratch, Schedule& schedule,
                               const Arena& scratch_memory) {
  runtime::cpu::KernelLibrary* provider = nullptr;
  ASTER_TRY(runtime::kernel_library(context, &provider));
  const runtime::cpu::CompilerInfo* compiler = nullptr;
  const Status found = provider->compiler(&compiler);
  if (!found.ok()) return without_code(exe, context, found);
  const codegen::Target target = target_of(*provider);
  Memory& memory = scratch.memory();
  Map<Node, uint32_t> numbers(memory);
  Vec<codegen::Rendered> rendered(memory);
  size_classes_.begin_call();
  codegen::SizeClasses* const classes = context.options().no_sizes != 0 ? nullptr : &size_classes_;
  for (const Item& item : schedule.items) {
    if (item.kind != ItemKind::kKernel || numbers.contains(item.kernel)) continue;
    if (context.interrupt().requested()) return Interrupt::stopped("kernels are written");
    ASTER_TRY(numbers.set(item.kernel, static_cast<uint32_t>(rendered.size())));
    codegen::Rendered one(memory);
    ASTER_TRY(codegen::render(one, scratch, item.kernel, target, classes));
    ASTER_TRY(rendered.push(std::move(one)));
  }
  Vec<void*> functions(memory);
  ASTER_TRY(functions.resize(rendered.size(), nullptr));
  if (!rendered.empty()) {
    Vec<const codegen::program::RenderedC*> all(memory);
    Vec<KernelSource> sources(memory);
    Vec<runtime::cpu::Digest> needs(memory);
    ASTER_TRY(needs.reserve(rendered.size()));
    Text declarations(memory);
    for (const codegen::Rendered& one : rendered) {
      ASTER_TRY(all.push(&one.code));
      // The types and functions that it uses, as they are written now, are part of its key.
      declarations.clear();
      ASTER_TRY(codegen::program::write_declarations(declarations, {&all.back(), 1}, target));
      ASTER_TRY(needs.push(runtime::cpu::Sha256().add_text(declarations.view()).finish()));
      const runtime::cpu::Digest& need = needs.back();
      ASTER_TRY(
          sources.push(KernelSource{one.name,
                                    one.code.text.view(),
                                    {reinterpret_cast<const char*>(need.data()), need.size()}}));
    }
    declarations.clear();
    ASTER_TRY(codegen::program::write_declarations(declarations, {all.data(), all.size()}, target));
    if (scratch_memory.failed()) return ASTER_FAIL(kMEMORY, "a kernel's text ran out of memory");
    runtime::cpu::CompileStats stats;
    const Status loaded =
        provider->load(declarations.view(), {sources.data(), sources.size()},
                       {functions.data(), functions.size()}, &exe->kernels, &stats);
    if (!loaded.ok()) return without_code(exe, context, loaded);
    counters.kernels_compiled += static_cast<uint64_t>(stats.compiled);
    counters.kernels_cached += static_cast<uint64_t>(stats.cached + stats.reused);
  }
  ASTER_TRY(exe->slots.append(schedule.slots.data(), schedule.slots.size()));
  ASTER_TRY(exe->operands.append(schedule.operands.data(), schedule.operands.size()));
  ASTER_TRY(exe->roots.append(schedule.roots.data(), schedule.roots.size()));
  for (const Item& item : schedule.items) {
    Launch launch;
    LaunchInfo info;
    launch.first_operand = item.first_operand;
    launch.operand_count = item.operand_count;
    if (item.kind == ItemKind::kKernel) {
      const uint32_t number = numbers.get(item.kernel, 0);
      const codegen::Rendered& one = rendered[number];
      std::memcpy(&launch.function, &functions[number], sizeof(launch.function));
      launch.tasks = one.tasks;
      launch.first_size = static_cast<uint32_t>(exe->sizes.size());
      ASTER_TRY(exe->sizes.append(one.sizes.data(), one.sizes.size()));
      if (!one.sizes.empty()) ++counters.kernels_sized;
      const double tasks = static_cast<double>(one.tasks);
      launch.nanoseconds = tasks * std::max(one.task_flops / machine::kFlopsPerNanosecond,
                                            one.task_bytes / machine::kBytesPerNanosecond);
      info.work = estimate(tasks * one.task_flops, tasks * one.task_bytes);
      std::memcpy(info.title, one.title, sizeof(info.title));
      ASTER_TRY(exe->launches.push(launch));
    } else {
      ASTER_TRY(exe->launches.push(launch));
      ASTER_TRY(prepare_call(&exe->launches.back(), &info, context.heap(), schedule, item));
      ASTER_TRY(name_call(info.title, memory, exe->launches.back().plan->implementation->name,
                          item.kernel));
      exe->scratch_stride = std::max(
          exe->scratch_stride, (exe->launches.back().plan->scratch_bytes + 63) & ~int64_t{63});
    }
    exe->work.add(info.work);
    ASTER_TRY(exe->infos.push(info));
    ASTER_TRY(describe(exe->summary, memory, exe->launches.size() - 1, item, exe->launches.back(),
                       info.title));
  }
  finish_launches(exe, schedule);
  exe->scratch_offset = (schedule.arena_bytes + 63) & ~int64_t{63};
  exe->arena_bytes = exe->scratch_offset + exe->scratch_stride * threads;
  return exe->summary.status();
}

}  // namespace aster::engine
