#include "engine/kept_schedules.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/flags.h"
#include "engine/tracer.h"
#include "runtime/cpu/pack.h"
#include "runtime/state.h"

namespace aster::engine {
namespace {

using runtime::cpu::Digest;
using runtime::cpu::KernelLibrary;
using runtime::cpu::Sha256;

constexpr std::string_view kFolder = "schedules";
constexpr std::string_view kFormat = "aster schedule 2";  // raised when the form of files changes
constexpr uint64_t kMostEntries = 1 << 22;
constexpr int64_t kMostTasks = int64_t{1} << 48;

constinit char g_build_for_tests[32] = {};

// The build id of the object that this function is in.
struct Build {
  uint8_t id[64];
  size_t size;
};
int find_build(dl_phdr_info* info, size_t, void* out) {
  const auto here = reinterpret_cast<uintptr_t>(&find_build);
  const auto headers = std::span(info->dlpi_phdr, info->dlpi_phnum);
  const bool ours = std::ranges::any_of(headers, [&](const auto& header) {
    const uintptr_t from = info->dlpi_addr + header.p_vaddr;
    return header.p_type == PT_LOAD && here >= from && here - from < header.p_memsz;
  });
  if (!ours) return 0;
  Build& build = *static_cast<Build*>(out);
  for (const auto& header : headers) {
    if (header.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const uint8_t*>(info->dlpi_addr + header.p_vaddr);
    size_t left = header.p_memsz;
    while (left >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const size_t name = (size_t{note.n_namesz} + 3) & ~size_t{3};
      const size_t whole = sizeof(note) + name + ((size_t{note.n_descsz} + 3) & ~size_t{3});
      if (whole > left) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= sizeof(build.id)) {
        build.size = note.n_descsz;
        std::memcpy(build.id, at + sizeof(note) + name, build.size);
        return 1;
      }
      at += whole;
      left -= whole;
    }
  }
  return 1;
}

// Whether kernels are the host's own, for the sizes of the schedule alone, whatever came before it.
bool is_for_disk(const Executable& exe, Engine& engine) {
  const auto& options = engine.context.options();
  const char* const no = flag_text(Flag::kNoKeptSchedules);
  return (exe.own_sizes || engine.size_classes() == nullptr) && !exe.away &&
         exe.device == nullptr && engine.made_for == nullptr && !exe.own_kernels &&
         engine.context.beam() == 0 && options.no_schedule_cache == 0 &&
         options.no_disk_cache == 0 && Tracer::of(engine.trace) == nullptr &&
         (no == nullptr || std::string_view(no) != "1") && !exe.key.empty();
}

// What the file is named by; false: nothing is kept here.
Status name_of(bool* known, Digest* out, KernelLibrary** library, Engine& engine, uint64_t hash) {
  *known = false;
  const runtime::Device* host = nullptr;
  const SavedError before;
  const Status found = runtime::host_device(&host, engine.context);
  if (!found.ok()) {
    if (found.code == ASTER_ML_MEMORY || found.code == ASTER_ML_CANCELLED) return found;
    return before.restore(), kOk;
  }
  if (host->target.llvm || !host->compiles) return kOk;
  ASTER_TRY(runtime::kernel_library(engine.context, library));
  Build build = {};
  dl_iterate_phdr(find_build, &build);
  if (build.size == 0 || !(*library)->cache().enabled()) return kOk;
  Digest kernels;
  ASTER_TRY((*library)->identity(&kernels));
  const codegen::Target& target = host->target;
  const int64_t made_for[] = {target.vector_bytes,
                              target.fma,
                              target.f16c,
                              target.avx512,
                              target.vnni,
                              target.streaming,
                              target.cache_bytes,
                              static_cast<int64_t>(target.machine.rows),
                              engine.context.options().no_library,
                              engine.context.options().flt_rounding,
                              engine.context.options().strict_parity,
                              std::bit_cast<int64_t>(hash)};
  *out = Sha256()
             .add_text(kFormat)
             .add_text({reinterpret_cast<const char*>(build.id), build.size})
             .add_text(g_build_for_tests)
             .add(kernels.data(), kernels.size())
             .add(made_for, sizeof(made_for))
             .finish();
  *known = true;
  return kOk;
}

// What an executable is of, its key and which leaves do not change, in few bytes: most words are
// small.
Status pack_key(Vec<uint8_t>* out, const Executable& exe) {
  const auto folded = [](int64_t word) {
    return static_cast<uint64_t>(word) << 1 ^ static_cast<uint64_t>(word >> 63);
  };
  const auto bytes_of = [&](int64_t word) {
    return static_cast<size_t>(std::bit_width(folded(word) | 1) + 6) / 7;
  };
  size_t bytes = bytes_of(static_cast<int64_t>(exe.key.size()));
  for (const int64_t word : exe.key) bytes += bytes_of(word);
  for (const uint64_t word : exe.constants) bytes += bytes_of(std::bit_cast<int64_t>(word));
  ASTER_TRY(out->resize(bytes, 0));
  uint8_t* at = out->data();
  const auto add = [&](int64_t word) {
    uint64_t rest = folded(word);
    for (; rest >= 128; rest >>= 7) *at++ = static_cast<uint8_t>(rest | 128);
    *at++ = static_cast<uint8_t>(rest);
  };
  add(static_cast<int64_t>(exe.key.size()));
  for (const int64_t word : exe.key) add(word);
  for (const uint64_t word : exe.constants) add(std::bit_cast<int64_t>(word));
  return kOk;
}

class Writer {
 public:
  explicit Writer(Vec<uint8_t>& out) : out_(out) {}
  Writer& number(uint64_t value) {
    if (status_.ok()) status_ = runtime::cpu::append_number(&out_, value);
    return *this;
  }
  Writer& number(int64_t value) { return number(std::bit_cast<uint64_t>(value)); }
  Writer& number(double value) { return number(std::bit_cast<uint64_t>(value)); }
  Writer& bytes(const void* data, size_t size) {
    if (status_.ok()) status_ = out_.append(static_cast<const uint8_t*>(data), size);
    return *this;
  }
  Writer& text(std::string_view text) {
    return number(uint64_t{text.size()}).bytes(text.data(), text.size());
  }
  Status status() const { return status_; }

 private:
  Vec<uint8_t>& out_;
  Status status_;
};

// Gives zeros once something is missing; ok() says so.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  uint64_t number() {
    uint64_t out = 0;
    if (ok_) ok_ = runtime::cpu::take_number(&rest_, &out);
    return ok_ ? out : 0;
  }
  int64_t integer() { return std::bit_cast<int64_t>(number()); }
  // A number up to most.
  uint64_t upto(uint64_t most) {
    const uint64_t out = number();
    check(out <= most);
    return ok_ ? out : 0;
  }
  uint32_t index(size_t size) {
    const uint64_t out = number();
    check(out < size);
    return ok_ ? static_cast<uint32_t>(out) : 0;
  }
  double time() {
    const double out = std::bit_cast<double>(number());
    check(std::isfinite(out) && out >= 0);
    return ok_ ? out : 0;
  }
  // How many entries of so many bytes at least follow.
  size_t count(size_t bytes) {
    const uint64_t out = upto(kMostEntries);
    check(out <= rest_.size() / bytes);
    return ok_ ? out : 0;
  }
  std::string_view text() {
    std::span<const uint8_t> out;
    const size_t size = count(1);
    if (ok_) ok_ = runtime::cpu::take(&rest_, size, &out);
    return ok_ ? std::string_view(reinterpret_cast<const char*>(out.data()), out.size()) : "";
  }
  Digest digest() {
    Digest out{};
    if (ok_) ok_ = runtime::cpu::take_digest(&rest_, &out);
    return out;
  }
  void check(bool holds) { ok_ = ok_ && holds; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

// What a launch has that a file keeps: one field more has to be thought of here.
static_assert(sizeof(Launch) == 120 && sizeof(Slot) == 32 && sizeof(LaunchInfo) == 120 &&
                  sizeof(CopyOf) == 56,
              "what is kept of launches, slots and copies");

bool is_kept(const Executable& exe) {
  return exe.graph == nullptr && !exe.for_now && exe.sizes.empty() && exe.shifts.empty() &&
         exe.device_bytes == 0 && exe.whole == nullptr && exe.launches.size() == exe.infos.size() &&
         !exe.launches.empty() &&
         std::ranges::all_of(exe.launches,
                             [](const Launch& launch) {
                               return launch.kind == LaunchKind::kHost && launch.size_count == 0 &&
                                      (launch.plan != nullptr ? launch.plan->code != nullptr
                                                              : launch.function != nullptr);
                             }) &&
         std::ranges::all_of(
             exe.copies,
             [](const CopyOf& copy) { return copy.function != nullptr && copy.plan == nullptr; }) &&
         std::ranges::all_of(exe.slots,
                             [](const Slot& slot) { return slot.kind != SlotKind::kHost; });
}

// The number of a kernel by its function; that of no kernel where it is none.
size_t number_of(const Kernels& kernels, runtime::KernelFunction function) {
  const void* const code = code_of(function);
  const auto made = std::ranges::find_if(kernels.requests, [code](const auto& request) {
    return request.function == code || request.at_once == code;
  });
  return static_cast<size_t>(made - kernels.requests.begin());
}

Status write_launches(Writer& out, const Executable& exe, const Kernels& kernels, bool* whole) {
  out.number(uint64_t{exe.launches.size()});
  for (size_t i = 0; i < exe.launches.size(); ++i) {
    const Launch& launch = exe.launches[i];
    const LaunchInfo& info = exe.infos[i];
    const size_t kernel =
        number_of(kernels, launch.plan != nullptr ? launch.plan->code : launch.function);
    if (kernel == kernels.requests.size()) return *whole = false, kOk;
    out.number(uint64_t{kernel})
        .number(uint64_t{launch.first_operand})
        .number(uint64_t{launch.operand_count})
        .number(launch.tasks)
        .number(launch.nanoseconds)
        .number(uint64_t{launch.writes} | uint64_t{launch.scratched} << 1)
        .number(launch.written)
        .text(info.title)
        .text(info.cut)
        .number(info.work.kernels)
        .number(info.work.operations)
        .number(info.work.bytes);
  }
  return out.status();
}

Status write_copies(Writer& out, const Executable& exe, const Kernels& kernels, bool* whole) {
  out.number(uint64_t{exe.copies.size()});
  for (const CopyOf& copy : exe.copies) {
    const size_t kernel = number_of(kernels, copy.function);
    if (kernel == kernels.requests.size()) return *whole = false, kOk;
    out.number(uint64_t{kernel})
        .number(uint64_t{copy.leaf} << 1 | uint64_t{copy.padded})
        .number(copy.scratch_bytes)
        .number(copy.bytes)
        .number(copy.way.low)
        .number(copy.way.high);
  }
  return out.status();
}

Status write_kernels(Writer& out, const Kernels& kernels, const KernelLibrary& library,
                     bool* whole) {
  out.number(uint64_t{kernels.requests.size()});
  for (const runtime::Request& request : kernels.requests) {
    Digest key;
    if ((request.function == nullptr && request.at_once == nullptr) ||
        !library.key_of(request.kernel->name, &key))
      return *whole = false, kOk;
    out.bytes(key.data(), key.size()).text(request.kernel->name);
  }
  return out.status();
}

// The file: *whole is false where something is not to be kept.
Status write(Vec<uint8_t>* bytes, bool* whole, const Executable& exe, const Kernels& kernels,
             const KernelLibrary& library, int64_t planned) {
  Writer out(*bytes);
  Vec<uint8_t> key(bytes->memory());
  *whole = true;
  ASTER_TRY(pack_key(&key, exe));
  out.text({reinterpret_cast<const char*>(key.data()), key.size()});
  ASTER_TRY(write_kernels(out, kernels, library, whole));
  out.number(uint64_t{exe.slots.size()});
  for (const Slot& slot : exe.slots) {
    out.number(static_cast<uint64_t>(slot.kind) | static_cast<uint64_t>(slot.dtype) << 8 |
               uint64_t{slot.index} << 32)
        .number(slot.count)
        .number(slot.offset)
        .number(uint64_t{slot.first} | uint64_t{slot.last} << 32);
  }
  out.number(uint64_t{exe.operands.size()});
  for (const uint32_t operand : exe.operands) out.number(uint64_t{operand});
  ASTER_TRY(out.status());
  if (*whole) ASTER_TRY(write_launches(out, exe, kernels, whole));
  if (*whole) ASTER_TRY(write_copies(out, exe, kernels, whole));
  out.number(uint64_t{exe.roots.size()});
  for (const uint32_t root : exe.roots) out.number(uint64_t{root});
  const Work& work = exe.work;
  out.text(exe.summary.view()).number(work.kernels).number(work.operations).number(work.bytes);
  out.number(exe.scratch_offset).number(exe.scratch_stride).number(planned);
  return out.status();
}

// An executable out of a file. What does not fit leaves ok() false.
class Taking {
 public:
  Taking(Executable* exe, Engine& engine, const ScheduleRequest& request, Reader& in)
      : exe_(*exe),
        engine_(engine),
        request_(request),
        in_(in),
        keys_(engine.context.heap()),
        sources_(engine.context.heap()),
        functions_(engine.context.heap()) {}

  Status run(KernelLibrary& library, int64_t* planned) {
    Vec<uint8_t> key(keys_.memory());
    ASTER_TRY(pack_key(&key, exe_));
    in_.check(in_.text() ==
              std::string_view(reinterpret_cast<const char*>(key.data()), key.size()));
    if (!in_.ok()) return kOk;
    ASTER_TRY(take_kernels());
    ASTER_TRY(take_slots());
    const size_t operands = in_.count(sizeof(uint64_t));
    for (size_t i = 0; i < operands; ++i)
      ASTER_TRY(exe_.operands.push(in_.index(exe_.slots.size())));
    if (!in_.ok()) return kOk;
    ASTER_TRY(functions_.resize(sources_.size(), nullptr));
    ASTER_TRY(load(library));
    if (!in_.ok()) return kOk;
    ASTER_TRY(take_launches());
    ASTER_TRY(take_copies());
    const size_t roots = in_.count(sizeof(uint64_t));
    in_.check(roots == request_.roots.size());
    for (size_t i = 0; i < roots; ++i) ASTER_TRY(exe_.roots.push(in_.index(exe_.slots.size())));
    exe_.summary << in_.text();
    exe_.work = {in_.number(), in_.number(), in_.number()};
    exe_.scratch_offset = static_cast<int64_t>(in_.upto(INT64_MAX / 4));
    exe_.scratch_stride = static_cast<int64_t>(in_.upto(INT64_MAX / 4096));
    *planned = in_.integer();
    exe_.arena_bytes = exe_.scratch_offset + exe_.scratch_stride * engine_.threads;
    in_.check(in_.at_end());
    check_places();
    finish_launches(&exe_);
    return exe_.summary.status();
  }

 private:
  Status take_kernels() {
    const size_t count = in_.count(sizeof(Digest));
    ASTER_TRY(keys_.reserve(count));
    for (size_t i = 0; i < count && in_.ok(); ++i) {
      ASTER_TRY(keys_.push(in_.digest()));
      ASTER_TRY(sources_.push(runtime::cpu::KernelSource{in_.text(), {}, {}, true}));
      sources_.back().key = &keys_.back();
    }
    return kOk;
  }
  Status take_slots() {
    const size_t count = in_.count(4 * sizeof(uint64_t));
    for (size_t i = 0; i < count && in_.ok(); ++i) {
      const uint64_t head = in_.number();
      Slot slot{};
      in_.check((head & 255) <= static_cast<uint64_t>(SlotKind::kCopy));
      slot.kind = static_cast<SlotKind>(head & 255);
      in_.check(slot.kind != SlotKind::kHost);
      slot.dtype = static_cast<DType>(head >> 8 & 255);
      in_.check(aster_ml_dtype_size(static_cast<int32_t>(slot.dtype)) != 0);
      slot.index = static_cast<uint32_t>(head >> 32);
      slot.count = static_cast<int64_t>(in_.upto(INT64_MAX / 64));
      slot.offset = static_cast<int64_t>(in_.upto(INT64_MAX / 4));
      const uint64_t lives = in_.number();
      slot.first = static_cast<uint32_t>(lives);
      slot.last = static_cast<uint32_t>(lives >> 32);
      if (in_.ok()) ASTER_TRY(exe_.slots.push(slot));
    }
    return kOk;
  }
  Status load(KernelLibrary& library) {
    runtime::cpu::KernelSet* set = nullptr;
    runtime::cpu::CompileStats stats;
    const SavedError before;
    ASTER_TRY(exe_.code.sets.reserve(exe_.code.sets.size() + 1));
    const Status status = library.load({}, {sources_.data(), sources_.size()},
                                       {functions_.data(), functions_.size()}, &set, &stats);
    if (!status.ok()) {
      if (status.code == ASTER_ML_MEMORY || status.code == ASTER_ML_CANCELLED) return status;
      in_.check(false);
      return before.restore(), kOk;
    }
    ASTER_TRY(exe_.code.sets.push(set));
    engine_.counters.kernels_cached += static_cast<uint64_t>(stats.cached + stats.reused);
    return kOk;
  }
  Status take_launches() {
    const size_t count = in_.count(8 * sizeof(uint64_t));
    for (size_t i = 0; i < count && in_.ok(); ++i) {
      Launch launch;
      LaunchInfo info;
      const uint32_t kernel = in_.index(functions_.size());
      if (in_.ok()) launch.function = function_at<runtime::KernelFunction>(functions_[kernel]);
      launch.first_operand = static_cast<uint32_t>(in_.upto(exe_.operands.size()));
      launch.operand_count =
          static_cast<uint32_t>(in_.upto(exe_.operands.size() - launch.first_operand));
      launch.tasks = static_cast<int64_t>(in_.upto(kMostTasks));
      launch.nanoseconds = in_.time();
      const uint64_t flags = in_.upto(3);
      launch.writes = (flags & 1) != 0;
      launch.scratched = (flags & 2) != 0;
      launch.written = in_.number();
      const std::string_view title = in_.text();
      in_.check(title.size() < sizeof(info.title));
      if (in_.ok()) std::memcpy(info.title, title.data(), title.size());
      ASTER_TRY(keep_cut(&info.cut, in_.text()));
      info.work = {in_.number(), in_.number(), in_.number()};
      if (!in_.ok()) break;
      ASTER_TRY(exe_.launches.push(launch));
      ASTER_TRY(exe_.infos.push(info));
    }
    return kOk;
  }
  Status take_copies() {
    const size_t count = in_.count(6 * sizeof(uint64_t));
    for (size_t i = 0; i < count && in_.ok(); ++i) {
      CopyOf copy;
      const uint32_t kernel = in_.index(functions_.size());
      if (in_.ok()) copy.function = function_at<runtime::KernelFunction>(functions_[kernel]);
      const uint64_t of = in_.upto(uint64_t{UINT32_MAX} << 1 | 1);
      copy.leaf = static_cast<uint32_t>(of >> 1);
      copy.padded = (of & 1) != 0;
      copy.scratch_bytes = static_cast<int64_t>(in_.upto(INT64_MAX / 4096));
      copy.bytes = static_cast<int64_t>(in_.upto(INT64_MAX / 4));
      copy.way = {in_.number(), in_.number()};
      in_.check(copy.leaf < request_.leaves.buffers.size() && is_constant(copy.leaf));
      if (in_.ok()) ASTER_TRY(exe_.copies.push(copy));
    }
    return kOk;
  }
  bool is_constant(uint32_t leaf) const {
    return leaf / 64 < exe_.constants.size() && (exe_.constants[leaf / 64] >> leaf % 64 & 1) != 0;
  }
  // Those that told of a launch may have the text longer than its schedule lives.
  Status keep_cut(const char** out, std::string_view text) {
    *out = "";
    if (text.empty()) return kOk;
    for (Text& known : engine_.cuts) {
      if (known.view() == text) return *out = known.c_str(), kOk;
    }
    Text made(engine_.context.heap());
    made << text;
    if (made.c_str() == nullptr) return made.status();
    ASTER_TRY(engine_.cuts.push(std::move(made)));
    *out = engine_.cuts.back().c_str();
    return kOk;
  }
  // That nothing is read or written outside of what runs are given.
  void check_places() {
    for (const Slot& slot : exe_.slots) {
      const auto size = static_cast<int64_t>(dtype::size(slot.dtype));
      if (slot.kind == SlotKind::kTemporary && slot.first != UINT32_MAX) {
        in_.check(slot.count <= exe_.scratch_offset / size &&
                  slot.offset <= exe_.scratch_offset - slot.count * size);
      } else if (slot.kind == SlotKind::kCopy) {
        in_.check(slot.index < exe_.copies.size() &&
                  slot.count * size == exe_.copies[slot.index].bytes);
      } else if (slot.kind == SlotKind::kParam || slot.kind == SlotKind::kOutput) {
        const bool leaf = slot.kind == SlotKind::kParam;
        const size_t most = leaf ? request_.leaves.buffers.size() : request_.roots.size();
        in_.check(slot.index < most);
        if (!in_.ok()) return;
        const uop::Node node =
            leaf ? request_.leaves.buffers[slot.index] : request_.roots[slot.index];
        in_.check(slot.count * size <=
                  static_cast<int64_t>(dtype::size(node->dtype)) * node->count());
      }
    }
  }
  Executable& exe_;
  Engine& engine_;
  const ScheduleRequest& request_;
  Reader& in_;
  Vec<Digest> keys_;
  Vec<runtime::cpu::KernelSource> sources_;
  Vec<void*> functions_;
};

// As before it was read.
void empty(Executable* exe) {
  exe->slots.clear();
  exe->operands.clear();
  exe->launches.clear();
  exe->infos.clear();
  exe->copies.clear();
  exe->roots.clear();
  exe->summary.clear();
  exe->work = {};
  exe->arena_bytes = exe->scratch_offset = exe->scratch_stride = 0;
}

}  // namespace

Status read_schedule(bool* found, Executable* exe, Engine& engine, const ScheduleRequest& request) {
  *found = false;
  if (request.leaves.foreign || !is_for_disk(*exe, engine)) return kOk;
  KernelLibrary* library = nullptr;
  bool known = false;
  Digest name;
  ASTER_TRY(name_of(&known, &name, &library, engine, request.hash));
  if (!known) return kOk;
  Vec<uint8_t> bytes(engine.context.heap());
  if (!library->cache().get(kFolder, name, &bytes)) return kOk;
  Reader in({bytes.data(), bytes.size()});
  int64_t planned = 0;
  ASTER_TRY(Taking(exe, engine, request, in).run(*library, &planned));
  if (!in.ok()) return empty(exe), kOk;
  *found = true;
  ++engine.counters.schedules_read;
  engine.counters.kernels_scheduled += exe->launches.size();
  engine.counters.planned_bytes += static_cast<uint64_t>(planned);
  return kOk;
}

Status keep_schedule(const Executable& exe, Engine& engine, const Kernels& kernels, int64_t planned,
                     const Leaves& leaves) {
  if (leaves.foreign || !is_for_disk(exe, engine) || !is_kept(exe)) return kOk;
  uint64_t hash = exe.key.size();
  for (const int64_t word : exe.key) hash = hash_mix(hash, static_cast<uint64_t>(word));
  for (const uint64_t word : exe.constants) hash = hash_mix(hash, word);
  KernelLibrary* library = nullptr;
  bool known = false, whole = false;
  Digest name;
  ASTER_TRY(name_of(&known, &name, &library, engine, hash));
  if (!known) return kOk;
  Vec<uint8_t> bytes(engine.context.heap());
  ASTER_TRY(write(&bytes, &whole, exe, kernels, *library, planned));
  if (!whole) return kOk;
  library->cache().put(kFolder, name, {bytes.data(), bytes.size()});
  if (library->cache().problem() == nullptr) ++engine.counters.schedules_kept;
  return kOk;
}

void set_build_for_tests(std::string_view name) {
  const size_t size = std::min(name.size(), sizeof(g_build_for_tests) - 1);
  std::memcpy(g_build_for_tests, name.data(), size);
  g_build_for_tests[size] = 0;
}

}  // namespace aster::engine
