#include "engine/tracer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/faults.h"
#include "base/flags.h"
#include "base/json.h"
#include "base/options.h"
#include "base/pool.h"
#include "codegen/lowering.h"
#include "device/device.h"
#include "dtype/convert.h"
#include "engine/dry_run.h"
#include "runtime/cpu/file.h"
#include "runtime/cpu/limits.h"
#include "runtime/reference/evaluate.h"
#include "runtime/state.h"
#include "uop/print.h"

namespace aster::engine {

using runtime::cpu::as_bytes;
using uop::Nodes;

// The kernels of a schedule, to be computed a second time.
struct Tracer::Witness {
  explicit Witness(Engine& engine) : run(engine) {}
  const Executable* exe = nullptr;  // retained
  DryRun run;
};

namespace {

constexpr const char* kModes[] = {"none", "tensors", "nan", "compare"};

Status cannot_write(const char* path) {
  const int error = errno;
  return ASTER_FAIL(kIO, "%s cannot be written: %s", path, runtime::cpu::error_text(error));
}

Status make_directory(const char* path) {
  struct stat found {};
  if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &found) == 0 &&
                                 S_ISDIR(found.st_mode) && access(path, W_OK | X_OK) == 0))
    return kOk;
  return cannot_write(path);
}

Status write_file(Memory& memory, const char* path, std::string_view text) {
  runtime::cpu::Replacement file(memory);
  if (!file.open(path) || !file.write(as_bytes(text.data(), text.size())) || !file.finish())
    return cannot_write(path);
  return kOk;
}

// FOLDER/NAME
Status write_in(const Text& folder, std::string_view name, const Text& text) {
  ASTER_TRY(text.status());
  Text path(folder.memory());
  path << folder.view() << '/' << name;
  ASTER_TRY(path.status());
  return write_file(folder.memory(), path.c_str(), text.view());
}

uint64_t hash_of(const void* memory, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(memory);
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 1099511628211u;
  return hash;
}

size_t bytes_of(const Slot& slot) {
  return slot.kind == SlotKind::kAbsent ? 0 : static_cast<size_t>(slot.bytes());
}

bool is_number(DType dtype) { return dtype::is_float(dtype) && !dtype::is_wide(dtype); }

double number_at(const Slot& slot, const void* memory, int64_t i) {
  const auto* at =
      static_cast<const char*>(memory) + i * static_cast<int64_t>(dtype::size(slot.dtype));
  return is_number(slot.dtype) ? dtype::load_double(slot.dtype, at)
                               : static_cast<double>(dtype::load_int(slot.dtype, at));
}

// The value behind "name=" among parts with commas between; false where there is none.
bool part_of(std::string_view* out, std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view part = text_slice(text, 0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (!part.starts_with(name) || part.size() <= name.size() || part[name.size()] != '=') continue;
    *out = text_slice(part, name.size() + 1);
    return true;
  }
  return false;
}

}  // namespace

Tracer::Tracer(Context& context)
    : context_(context),
      directory_(context.heap()),
      profile_(context.heap()),
      records_(context.heap()),
      hashes_(context.heap()),
      seen_(context.heap()),
      witnesses_(context.heap()),
      copies_(context.heap()) {}

Tracer::~Tracer() {
  for (Vec<char>* copy : copies_) context_.heap().destroy(copy);
  for (Witness* witness : witnesses_) {
    const_cast<Executable*>(witness->exe)->release();
    context_.heap().destroy(witness);
  }
}

Status Tracer::begin(const aster_ml_trace_config& config) {
  if (config.debug < ASTER_ML_DEBUG_NONE || config.debug > ASTER_ML_DEBUG_COMPARE)
    return ASTER_FAIL(kARGUMENT, "%d is no mode of debug", config.debug);
  debug_ = config.debug;
  began_ = nanoseconds();
  if (config.profile != nullptr) profile_ << config.profile;
  if (config.dump_programs != nullptr) directory_ << config.dump_programs;
  ASTER_TRY(profile_.status());
  ASTER_TRY(directory_.status());
  return directory_.view().empty() ? kOk : make_directory(directory_.c_str());
}

Status Tracer::configure(Engine& engine, const aster_ml_trace_config* config) {
  Heap& heap = engine.context.heap();
  Tracer* made = nullptr;
  if (config != nullptr) {
    aster_ml_trace_config read;
    ASTER_TRY(read_struct(&read, config, "the trace"));
    made = heap.create<Tracer>(engine.context);
    if (made == nullptr) return out_of_memory(sizeof(Tracer));
    if (const Status begun = made->begin(read); !begun.ok()) {
      heap.destroy(made);
      return begun;
    }
  }
  Status written;
  Tracer* before = of(engine.trace);
  const Trace others = before != nullptr ? before->next : engine.trace;
  if (before != nullptr) {
    written = before->write_profile();
    heap.destroy(before);
  }
  engine.trace = others;
  if (made != nullptr) {
    made->next = others;
    engine.trace = {told, made};
  }
  return written;
}

void Tracer::end(Engine& engine) {
  const SavedError before;
  if (of(engine.trace) == nullptr) return;
  if (!configure(engine, nullptr).ok())
    engine.context.log(ASTER_ML_LOG_ERROR, "the trace: %s", SavedError::message());
  before.restore();
}

Status Tracer::from_environment(Engine& engine) {
  const char* said = flag_text(Flag::kTrace);
  if (said == nullptr) return kOk;
  std::string_view dump, profile, debug;
  const bool dumps = part_of(&dump, said, "dump"), keeps = part_of(&profile, said, "profile"),
             looks = part_of(&debug, said, "debug");
  size_t parts = 1, mode = 0;
  for (const char* at = said; *at != '\0'; ++at) parts += *at == ',';
  while (looks && mode < std::size(kModes) && debug != kModes[mode]) ++mode;
  const size_t known = size_t{dumps} + size_t{keeps} + size_t{looks};
  if (known != parts || mode == std::size(kModes)) {
    return ASTER_FAIL(kFORMAT,
                      "%s is \"%s\": dump=DIR, profile=FILE and debug=tensors, nan or compare, "
                      "with commas between, are expected",
                      flag_info(Flag::kTrace).variable, said);
  }
  Text directory(engine.context.heap()), file(engine.context.heap());
  directory << dump;
  file << profile;
  aster_ml_trace_config config{};
  config.struct_size = sizeof(config);
  config.debug = static_cast<int32_t>(mode);
  if (dumps) config.dump_programs = directory.c_str();
  if (keeps) config.profile = file.c_str();
  ASTER_TRY(directory.status());
  ASTER_TRY(file.status());
  return configure(engine, &config);
}

// ---- Launches ----

void Tracer::told(void* self, const aster_ml_launch* launch) {
  auto& tracer = *static_cast<Tracer*>(self);
  if (!tracer.profile_.view().empty()) {
    Record record{};
    std::snprintf(record.name, sizeof(record.name), "%s", launch->name);
    std::snprintf(record.scope, sizeof(record.scope), "%s", launch->scope);
    record.start = nanoseconds() - launch->nanoseconds - tracer.began_;
    record.ns = launch->nanoseconds;
    record.operations = launch->operations;
    record.bytes = launch->bytes;
    record.held = launch->held_bytes;
    record.device = launch->device;
    record.cut = launch->cut;
    std::snprintf(record.algorithm, sizeof(record.algorithm), "%s", launch->algorithm);
    record.is_exact = launch->is_exact;
    record.replayed = launch->replayed;
    if (!tracer.records_.push(record).ok()) tracer.profile_.clear();  // and no more of them
  }
  if (tracer.next.function != nullptr) tracer.next.function(tracer.next.self, launch);
}

Status Tracer::write_profile() {
  if (profile_.view().empty() || records_.empty()) return kOk;
  Text text(context_.heap());
  if (profile_.view().ends_with(".json")) {
    text << "{\"traceEvents\": [";
    for (const Record& r : records_) {
      text << (&r == records_.begin() ? "\n" : ",\n") << "{\"name\": ";
      write_json_string(text, r.name);
      text.format(
          ", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"pid\": 1, \"tid\": \"%s\", \"args\": "
          "{\"operations\": %llu, \"bytes\": %llu, \"held\": %llu, \"replayed\": %s",
          static_cast<double>(r.start) / 1e3, static_cast<double>(r.ns) / 1e3,
          device::name(r.device).text, static_cast<unsigned long long>(r.operations),
          static_cast<unsigned long long>(r.bytes), static_cast<unsigned long long>(r.held),
          r.replayed != 0 ? "true" : "false");
      if (r.scope[0] != 0) {
        text << ", \"scope\": ";
        write_json_string(text, r.scope);
      }
      text << ", \"algorithm\": ";
      write_json_string(text, r.algorithm);
      text << ", \"exact\": " << (r.is_exact != 0 ? "true" : "false");
      if (r.cut[0] != 0) text << ", \"stored\": \"" << r.cut << '"';
      text << "}}";
    }
    text << "]}\n";
  } else {
    std::ranges::sort(records_, [](const Record& a, const Record& b) {
      const int order = std::string_view(a.name).compare(b.name);
      return order != 0 ? order < 0 : a.start < b.start;
    });
    runtime::cpu::Limits limits;
    const int threads = pool::threads_of(context_);
    ASTER_TRY(runtime::cpu::limits_of(&limits, context_, threads));
    text.format("%-44s %7s %10s %9s %8s %7s  stored\n", "kernel", "calls", "ms", "GFLOP/s", "GB/s",
                "% limit");
    for (size_t i = 0; i < records_.size();) {
      const size_t first = i;
      Record sum{};
      for (; i < records_.size() && std::string_view(records_[i].name) == records_[first].name;
           ++i) {
        sum.ns += records_[i].ns;
        sum.operations += records_[i].operations;
        sum.bytes += records_[i].bytes;
      }
      const double ns = std::max(static_cast<double>(sum.ns), 1.0);
      const double rate = static_cast<double>(sum.operations) / ns;
      const double bytes = static_cast<double>(sum.bytes) / ns;
      text.format("%-44s %7zu %10.3f %9.1f %8.1f %7.1f  %s\n", records_[first].name, i - first,
                  ns / 1e6, rate, bytes,
                  100 * std::max(rate / limits.gflops, bytes / limits.gbytes), records_[first].cut);
    }
    text.format("limits with %d threads: %.1f GFLOP/s (float32), %.1f GB/s\n", threads,
                limits.gflops, limits.gbytes);
  }
  ASTER_TRY(text.status());
  return write_file(context_.heap(), profile_.c_str(), text.view());
}

// ---- Schedules ----

Status Tracer::scheduled(Engine& engine, const Executable& exe, Nodes roots, bool fresh) {
  if (fresh && !directory_.view().empty()) ASTER_TRY(dump(engine, exe, roots));
  if (debug_ != ASTER_ML_DEBUG_COMPARE || exe.away || exe.graph != nullptr) return kOk;
  for (const Witness* witness : witnesses_) {
    if (witness->exe == &exe) return kOk;
  }
  ASTER_TRY(witnesses_.reserve(witnesses_.size() + 1));
  auto* witness = context_.heap().create<Witness>(engine);
  if (witness == nullptr) return out_of_memory(sizeof(Witness));
  Status status = witness->run.prepare(roots);
  if (status.ok()) status = witness->run.schedule();
  if (!status.ok()) {
    context_.heap().destroy(witness);
    return status;
  }
  witness->exe = &exe;
  const_cast<Executable&>(exe).retain();
  return witnesses_.push(witness);
}

// The machine code of a launch, where the disk cache has it.
Status Tracer::write_object(Text& out, const Launch& launch) {
  runtime::cpu::KernelLibrary* library = nullptr;
  Vec<uint8_t> object(context_.heap());
  ASTER_TRY(runtime::kernel_library(context_, &library));
  if (library->object_of(code_of(launch.function), &object))
    out << std::string_view(reinterpret_cast<const char*>(object.data()), object.size());
  return out.status();
}

Status Tracer::dump(Engine& engine, const Executable& exe, Nodes roots) {
  const auto largest = std::ranges::max_element(
      exe.infos, {}, [](const LaunchInfo& info) { return info.work.operations + info.work.bytes; });
  Text folder(context_.heap()), text(context_.heap());
  folder << directory_.view();
  folder.format("/%04llu_%s", static_cast<unsigned long long>(dumped_++),
                largest == exe.infos.end() ? "interpreted" : largest->title);
  ASTER_TRY(folder.status());
  ASTER_TRY(make_directory(folder.c_str()));
  constexpr struct {
    int32_t level;
    const char* name;
  } kGraphs[] = {{ASTER_ML_GRAPH_TENSOR, "tensor.dot"},
                 {ASTER_ML_GRAPH_PREPARED, "prepared.dot"},
                 {ASTER_ML_GRAPH_SCHEDULE, "schedule.dot"}};
  for (const auto& graph : kGraphs) {
    if (exe.graph != nullptr && graph.level == ASTER_ML_GRAPH_SCHEDULE) return kOk;  // no kernels
    text.clear();
    ASTER_TRY(write_graph_text(text, engine, graph.level, ASTER_ML_GRAPH_DOT, roots));
    ASTER_TRY(write_in(folder, graph.name, text));
  }
  text.clear();
  text << exe.summary.view();
  ASTER_TRY(write_in(folder, "schedule.txt", text));
  DryRun run(engine);
  ASTER_TRY(run.prepare(roots));
  ASTER_TRY(run.schedule());
  codegen::Target target;
  ASTER_TRY(runtime::host_target(&target, context_));
  for (size_t i = 0; i < run.made().items.size(); ++i) {
    const Item& item = run.made().items[i];
    if (item.kind != ItemKind::kKernel) continue;
    Memory& memory = run.memory();
    codegen::Rendered made(memory);
    codegen::Plan plan(memory);
    codegen::program::Module module(memory);
    codegen::Constants constants(memory);
    constants.slots = constant_slots(exe, run.made(), item.kernel);
    ASTER_TRY(
        codegen::render(made, run.graph(), item.kernel, target, nullptr, nullptr, &constants));
    ASTER_TRY(codegen::plan_kernel(&plan, item.kernel, target, memory, constants.slots));
    ASTER_TRY(codegen::lower_kernel(&module, made.name, item.kernel, target, memory, &plan));
    const auto write = [&](const char* ending) {
      Text name(memory);
      name.format("%03zu_%s%s", i, made.title, ending);
      return name.status().ok() ? write_in(folder, name.view(), text) : name.status();
    };
    text.clear();
    text << made.code.text.view();
    ASTER_TRY(write(".c"));
    text.clear();
    ASTER_TRY(codegen::print(text, plan));
    ASTER_TRY(write(".plan"));
    text.clear();
    ASTER_TRY(codegen::program::print(text, module));
    ASTER_TRY(write(".program"));
    const bool same = run.made().items.size() == exe.launches.size();
    if (same && exe.launches[i].function != nullptr) {
      text.clear();
      ASTER_TRY(write_object(text, exe.launches[i]));
      if (!text.view().empty()) ASTER_TRY(write(".o"));
    }
  }
  return kOk;
}

// ---- Values ----

void Tracer::before(const Executable& exe, size_t launch, void* const* pointers) {
  const Launch& item = exe.launches[launch];
  if (launch == 0) seen_.clear();
  if (!seen_.resize(exe.slots.size(), false).ok()) return;
  hashes_.clear();
  for (size_t i = 0; i < item.operand_count; ++i) {
    const Slot& slot = exe.slots[exe.operands[item.first_operand + i]];
    if (!hashes_.push(hash_of(pointers[i], bytes_of(slot))).ok()) return;
  }
  if (debug_ == ASTER_ML_DEBUG_COMPARE) compare(exe, launch, pointers);
}

// Computes a launch a second time, on copies of its operands.
void Tracer::compare(const Executable& exe, size_t launch, void* const* pointers) {
  for (Vec<char>* copy : copies_) context_.heap().destroy(copy);
  copies_.clear();
  const auto found = std::ranges::find(witnesses_, &exe, &Witness::exe);
  if (found == witnesses_.end()) return;
  DryRun& run = (*found)->run;
  const Launch& item = exe.launches[launch];
  if (run.made().items.size() != exe.launches.size()) return;
  const Item& kernel = run.made().items[launch];
  if (kernel.kind != ItemKind::kKernel || kernel.operand_count != item.operand_count) return;
  Heap& heap = context_.heap();
  codegen::Target target;
  native::Plan plan(heap);
  Vec<void*> params(heap);
  Vec<char> scratch(heap);
  const SavedError before;
  Status status = runtime::host_target(&target, context_);
  if (status.ok())
    status = runtime::reference::prepare_kernel(&plan, run.graph(), kernel.kernel, target);
  for (size_t i = 0; i < item.operand_count && status.ok(); ++i) {
    const Slot& slot = exe.slots[exe.operands[item.first_operand + i]];
    auto* copy = heap.create<Vec<char>>(heap);
    status = copy == nullptr ? out_of_memory(sizeof(Vec<char>)) : copies_.push(copy);
    // What overlaps is one memory, of which operands are parts: only the same part is known.
    for (size_t j = 0; j < i && status.ok(); ++j) {
      if (pointers[j] == pointers[i]) status = params.push(params[j]);
      if (params.size() > i) break;
    }
    if (!status.ok() || params.size() > i) continue;
    status = copy->append(static_cast<const char*>(pointers[i]), bytes_of(slot));
    if (status.ok()) status = params.push(copy->data());
  }
  if (status.ok()) status = scratch.resize(static_cast<size_t>(plan.scratch_bytes), 0);
  if (status.ok()) {
    plan.implementation->run(plan, params.data(), scratch.data(), 0, plan.tasks);
    return;
  }
  for (Vec<char>* copy : copies_) heap.destroy(copy);
  copies_.clear();
  before.restore();
}

void Tracer::after(const Executable& exe, size_t launch, void* const* pointers) {
  const Launch& item = exe.launches[launch];
  if (hashes_.size() != item.operand_count) return;
  for (size_t i = 0; i < item.operand_count; ++i) {
    const uint32_t number = exe.operands[item.first_operand + i];
    const Slot& slot = exe.slots[number];
    const bool fresh =
        !seen_[number] && (slot.kind == SlotKind::kOutput || slot.kind == SlotKind::kTemporary);
    seen_[number] = true;
    if (bytes_of(slot) == 0) continue;
    if (fresh || hashes_[i] != hash_of(pointers[i], bytes_of(slot)))
      look_at_values(exe, launch, i, pointers[i]);
  }
}

void Tracer::look_at_values(const Executable& exe, size_t launch, size_t operand, void* memory) {
  const Launch& item = exe.launches[launch];
  const Slot& slot = exe.slots[exe.operands[item.first_operand + operand]];
  const char* title = exe.infos[launch].title;
  const auto count = static_cast<long long>(slot.count);
  const auto place = static_cast<int64_t>(launch);
  if (debug_ == ASTER_ML_DEBUG_COMPARE) {
    if (operand >= copies_.size() || copies_[operand]->size() != bytes_of(slot)) return;
    const char* expected = copies_[operand]->data();
    const auto* now = static_cast<const char*>(memory);
    const size_t size = dtype::size(slot.dtype);
    for (int64_t i = 0; i < slot.count; ++i) {
      const size_t at = static_cast<size_t>(i) * size;
      if (std::memcmp(expected + at, now + at, size) == 0) continue;
      const double is = number_at(slot, now, i), should = number_at(slot, expected, i);
      if (std::isnan(is) && std::isnan(should)) continue;
      Faults::say_failure(Code::kNUMERIC, place,
                          "kernel %s differs from the reference runtime: element %lld of %s[%lld], "
                          "operand %zu, is %.9g, not %.9g",
                          title, static_cast<long long>(i), dtype::name(slot.dtype), count, operand,
                          is, should);
      return;
    }
    return;
  }
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t nans = 0, first = -1;
  for (int64_t i = 0; i < slot.count; ++i) {
    if (dtype::is_wide(slot.dtype)) break;
    const double x = number_at(slot, memory, i);
    if (std::isnan(x)) {
      if (nans++ == 0) first = i;
      continue;
    }
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
  }
  if (debug_ == ASTER_ML_DEBUG_NAN) {
    if (nans == 0) return;
    Faults::say_failure(Code::kNUMERIC, place,
                        "kernel %s wrote NaN: element %lld of %s[%lld], operand %zu, %lld in all",
                        title, static_cast<long long>(first), dtype::name(slot.dtype), count,
                        operand, static_cast<long long>(nans));
    return;
  }
  char line[320];
  std::snprintf(
      line, sizeof(line), "%s: operand %zu %s[%lld] from %.6g to %.6g, mean %.6g, %lld NaN", title,
      operand, dtype::name(slot.dtype), count, least, most,
      sum / std::max(1.0, static_cast<double>(slot.count - nans)), static_cast<long long>(nans));
  context_.log(ASTER_ML_LOG_INFO, "%s", line);
  if (directory_.view().empty()) return;
  Text path(context_.heap()), text(context_.heap());
  path << directory_.view() << "/values.txt";
  text << line << '\n';
  if (!path.status().ok() || !text.status().ok()) return;
  const runtime::cpu::Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.valid())
    (void)runtime::cpu::write_all(file.get(), as_bytes(text.view().data(), text.view().size()));
}

}  // namespace aster::engine

int32_t aster_ml_trace_configure(const aster_ml_context* context,
                                 const aster_ml_trace_config* config) {
  ASTER_ENTER(aster::context_of(context));
  aster::engine::Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *aster::context_of(context)));
  return aster::engine::Tracer::configure(*engine, config);
}
