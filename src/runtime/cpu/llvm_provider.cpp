#include "runtime/cpu/llvm_provider.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/flags.h"
#include "base/mutex.h"
#include "base/pool.h"

namespace aster::runtime::cpu {
namespace {

// As distributions name them.
constexpr const char* kNames[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM.so.18.1",
                                  "libLLVM-18.so.1", "libLLVM-17.so",   "libLLVM-17.so.1",
                                  "libLLVM-16.so.1", "libLLVM-16.so",   "libLLVM-15.so.1",
                                  "libLLVM-15.so",   "libLLVM-14.so.1", "libLLVM-14.so"};
constexpr const char kTriple[] = "x86_64-unknown-linux-gnu";
// Features say what instructions there are; a CPU's name would add to them.
constexpr const char kCpu[] = "x86-64";
// Programs have explicit vectors, and each value where it belongs: registers become values, calls
// their bodies, what is written twice is computed once, gates that no turn of a loop closes are
// not asked (three quarters of the time of max pools), and those that are equal once (a third of
// the time of convolutions by channel). Codegen takes four fifths (bench/cold.py).
// From 18 on LLVM ends the process where one pass over a function leaves something to simplify,
// unless it is told not to look, which older ones do not understand.
#define PASSES(instcombine)                               \
  "always-inline,function(mem2reg,early-cse," instcombine \
  ",loop-mssa(loop-rotate,licm),loop(indvars),simplifycfg,jump-threading)"
constexpr const char* kPasses[] = {PASSES("instcombine<no-verify-fixpoint>"),
                                   PASSES("instcombine")};
#undef PASSES
// Some twenty kernels, a fifth of a second: each unit has the functions that its kernels call,
// which many small ones would compile again and again.
constexpr size_t kUnitBytes = size_t{256} << 10;
// Some five, so that the first are soon there.
constexpr size_t kLaterBytes = size_t{64} << 10;
enum : int { kLevel = 2, kPic = 2, kSmallCode = 3, kObjectFile = 1, kReturnStatus = 2 };

constinit Mutex init_mutex;
constinit Mutex open_mutex;  // of a library that several threads may be the first to use
constinit std::atomic<bool> has_compiled{false};

bool take_functions(Llvm* out, void* library) {
  bool all = true;
#define LLVM_FUNCTION(result, name, ...)                                        \
  out->name = reinterpret_cast<result (*)(__VA_ARGS__)>(dlsym(library, #name)); \
  all = all && out->name != nullptr;
#include "runtime/cpu/llvm_functions.def"
#undef LLVM_FUNCTION
  return all;
}

int64_t modified_ns(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// Which file it is, for keys.
bool identify_file(Llvm* out) {
  Dl_info where;
  struct stat info;
  if (dladdr(reinterpret_cast<void*>(out->LLVMContextCreate), &where) == 0 ||
      strlen(where.dli_fname) >= sizeof(out->path) || stat(where.dli_fname, &info) != 0)
    return false;
  memcpy(out->path, where.dli_fname, strlen(where.dli_fname) + 1);
  out->size = info.st_size;
  out->modified_ns = modified_ns(info);
  return true;
}

Status open_library(Llvm* out, const char* name) {
  Llvm found;
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return ASTER_FAIL(kUNSUPPORTED, "no LLVM: %s", reason != nullptr ? reason : name);
  }
  if (!take_functions(&found, library) || !identify_file(&found)) {
    dlclose(library);
    return ASTER_FAIL(kUNSUPPORTED, "no LLVM: '%s' is none of 14 to 19", name);
  }
  const MutexLock lock(init_mutex);
  found.LLVMInitializeX86TargetInfo();
  found.LLVMInitializeX86Target();
  found.LLVMInitializeX86TargetMC();
  found.LLVMInitializeX86AsmPrinter();
  found.is_open = true;
  *out = found;
  return kOk;
}

// One that find_llvm knew of.
Status open_known(Llvm* llvm) {
  Llvm found;
  ASTER_TRY(open_library(&found, llvm->path));
  if (found.size != llvm->size || found.modified_ns != llvm->modified_ns)
    return ASTER_FAIL(kUNSUPPORTED, "no LLVM: '%s' has changed", llvm->path);
  *llvm = found;
  return kOk;
}

// Of all that decides which file the loader finds.
Digest identity_key(const char* choice) {
  struct stat cache = {};
  if (stat("/etc/ld.so.cache", &cache) != 0) cache = {};
  const char* const folders = flag_text(Flag::kLibraryPath);
  const int64_t numbers[] = {static_cast<int64_t>(cache.st_size), modified_ns(cache)};
  return Sha256()
      .add_text("LLVM")
      .add_text(choice != nullptr ? choice : "")
      .add_text(folders != nullptr ? folders : "")
      .add(numbers, sizeof(numbers))
      .finish();
}

bool recall(Llvm* out, const Digest& key, Cache& cache, Memory& memory) {
  Vec<uint8_t> bytes(memory);
  int64_t numbers[2];
  struct stat info;
  if (!cache.get(kIdentityTarget, key, &bytes) || bytes.size() <= sizeof(numbers) ||
      bytes.size() >= sizeof(numbers) + sizeof(out->path))
    return false;
  Llvm found;
  memcpy(numbers, bytes.data(), sizeof(numbers));
  memcpy(found.path, bytes.data() + sizeof(numbers), bytes.size() - sizeof(numbers));
  found.size = numbers[0];
  found.modified_ns = numbers[1];
  if (stat(found.path, &info) != 0 || info.st_size != found.size ||
      modified_ns(info) != found.modified_ns)
    return false;
  *out = found;
  return true;
}

void keep(const Llvm& llvm, const Digest& key, Cache& cache) {
  const int64_t numbers[2] = {llvm.size, llvm.modified_ns};
  uint8_t bytes[sizeof(numbers) + sizeof(llvm.path)];
  const size_t length = strlen(llvm.path);
  memcpy(bytes, numbers, sizeof(numbers));
  memcpy(bytes + sizeof(numbers), llvm.path, length);
  cache.put(kIdentityTarget, key, {bytes, sizeof(numbers) + length});
}

// "+avx,+f16c,..": what the compiler's flags turn on.
void write_llvm_features(Text& out, const CpuFeatures& features) {
  each_feature_flag(
      features,
      [](void* self, const char* flag) {
        Text& text = *static_cast<Text*>(self);
        text << (text.view().empty() ? "+" : ",+") << flag + 2;  // behind "-m"
      },
      &out);
}

// One text on its way to an object. Runs on any thread, with LLVM's memory alone.
class Job {
 public:
  const Llvm* llvm = nullptr;
  const char* features = nullptr;
  Interrupt* interrupt = nullptr;
  std::string_view text;
  void* object = nullptr;  // a buffer of LLVM's
  bool stopped = false;
  char error[400] = {};

  void run() {
    if (interrupt != nullptr && interrupt->requested()) {
      stopped = true;
      return;
    }
    void* const context = llvm->LLVMContextCreate();
    llvm->LLVMContextSetDiagnosticHandler(context, hear, this);
    void* module = nullptr;
    void* const buffer =
        llvm->LLVMCreateMemoryBufferWithMemoryRangeCopy(text.data(), text.size(), "kernels");
    char* message = nullptr;
    if (llvm->LLVMParseIRInContext(context, buffer, &module, &message) != 0) {
      module = nullptr;
      take(message);
    } else {
      build(module);
    }
    if (module != nullptr) llvm->LLVMDisposeModule(module);
    llvm->LLVMContextDispose(context);
  }

 private:
  void build(void* module) {
    char* message = nullptr;
    void* target = nullptr;
    if (llvm->LLVMGetTargetFromTriple(kTriple, &target, &message) != 0) return take(message);
    void* const machine =
        llvm->LLVMCreateTargetMachine(target, kTriple, kCpu, features, kLevel, kPic, kSmallCode);
    if (machine == nullptr) return say("LLVM has no machine for this CPU");
    void* const layout = llvm->LLVMCreateTargetDataLayout(machine);
    llvm->LLVMSetModuleDataLayout(module, layout);
    llvm->LLVMDisposeTargetData(layout);
    const bool broken = llvm->LLVMVerifyModule(module, kReturnStatus, &message) != 0;
    if (broken) {
      take(message);
    } else {
      llvm->LLVMDisposeMessage(message);
      emit(module, machine);
    }
    llvm->LLVMDisposeTargetMachine(machine);
  }
  // What is not understood has changed nothing.
  bool simplify(void* module, void* machine) {
    void* const options = llvm->LLVMCreatePassBuilderOptions();
    void* failure = nullptr;
    for (const char* const passes : kPasses) {
      if (failure != nullptr) llvm->LLVMDisposeErrorMessage(llvm->LLVMGetErrorMessage(failure));
      failure = llvm->LLVMRunPasses(module, passes, machine, options);
      if (failure == nullptr) break;
    }
    llvm->LLVMDisposePassBuilderOptions(options);
    if (failure == nullptr) return true;
    char* const why = llvm->LLVMGetErrorMessage(failure);
    say(why);
    llvm->LLVMDisposeErrorMessage(why);
    return false;
  }
  void emit(void* module, void* machine) {
    if (!simplify(module, machine)) return;
    char* message = nullptr;
    void* made = nullptr;
    if (llvm->LLVMTargetMachineEmitToMemoryBuffer(machine, module, kObjectFile, &message, &made) !=
        0)
      return take(message);
    object = made;
  }

  // The first thing that was said counts.
  void say(const char* message) {
    if (error[0] != '\0') return;
    const std::string_view line =
        error_line(message != nullptr ? message : "LLVM failed and did not say why");
    const size_t length = std::min(line.size(), sizeof(error) - 1);
    memcpy(error, line.data(), length);
    error[length] = '\0';
  }
  void take(char* message) {
    say(message);
    if (message != nullptr) llvm->LLVMDisposeMessage(message);
  }
  // Without a handler LLVM would print and end the process.
  static void hear(void* diagnostic, void* self) {
    Job& job = *static_cast<Job*>(self);
    if (job.llvm->LLVMGetDiagInfoSeverity(diagnostic) != 0) return;  // no error
    job.take(job.llvm->LLVMGetDiagInfoDescription(diagnostic));
  }
};

Status llvm_identify(void* self, const CpuFeatures& features, Text& out) {
  const Llvm& llvm = *static_cast<const Llvm*>(self);
  out << llvm.path << ' ' << llvm.size << ' ' << llvm.modified_ns << '\n'
      << kPasses[0] << ' ' << int32_t{kLevel} << ' ' << kCpu << ' ';
  write_llvm_features(out, features);
  return out.status();
}

Status finish(const Job& job, Vec<uint8_t>* object) {
  if (job.stopped) return Interrupt::stopped("kernels are compiled");
  if (job.error[0] != '\0' || job.object == nullptr)
    return ASTER_FAIL(kCOMPILE, "LLVM: %s", job.error);
  const auto* const bytes =
      reinterpret_cast<const uint8_t*>(job.llvm->LLVMGetBufferStart(job.object));
  object->clear();
  return object->append(bytes, job.llvm->LLVMGetBufferSize(job.object));
}

Status llvm_compile(void* self, const CpuFeatures& features,
                    std::span<const std::string_view> sources, std::span<Vec<uint8_t>> objects,
                    Memory& memory, const Patience& patience) {
  Llvm& llvm = *static_cast<Llvm*>(self);
  {
    const MutexLock lock(open_mutex);
    if (!llvm.is_open) ASTER_TRY(open_known(&llvm));
  }
  Text names(memory);
  write_llvm_features(names, features);
  const char* const feature_text = names.c_str();
  ASTER_TRY(names.status());
  Vec<Job> jobs(memory);
  ASTER_TRY(jobs.reserve(sources.size()));
  for (const std::string_view source : sources) {
    Job job;
    job.llvm = &llvm;
    job.features = feature_text;
    job.interrupt = patience.interrupt;
    job.text = source;
    ASTER_TRY(jobs.push(job));
  }
  const auto run = [](void* all, int64_t task) { static_cast<Job*>(all)[task].run(); };
  pool::run(static_cast<int>(jobs.size()), static_cast<int64_t>(jobs.size()), run, jobs.data());
  has_compiled.store(true, std::memory_order_release);
  Status status;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (status.ok()) status = finish(jobs[i], &objects[i]);
    if (jobs[i].object != nullptr) llvm.LLVMDisposeMemoryBuffer(jobs[i].object);
  }
  return status;
}

// LLVM makes objects that end with the process where it first needs them, and by then nobody may
// use it any more. What compiles once has most of them, so it is used beside the context's thread
// only after that, and never while the process exits.
bool llvm_may_wait(void*) {
  if (!has_compiled.load(std::memory_order_acquire)) return false;
  Background::stop_at_exit();
  return true;
}

}  // namespace

Status open_llvm(Llvm* out, const char* choice) {
  const std::string_view wanted = choice != nullptr ? choice : "";
  if (wanted == "none") return ASTER_FAIL(kUNSUPPORTED, "no LLVM: switched off");
#if defined(__x86_64__)
  if (!wanted.empty()) return open_library(out, choice);
  const SavedError before;
  for (const char* const name : kNames) {
    if (!open_library(out, name).ok()) continue;
    before.restore();
    return kOk;
  }
  return ASTER_FAIL(kUNSUPPORTED, "no LLVM: none of 14 to 19 was found");
#else
  (void)out;
  return ASTER_FAIL(kUNSUPPORTED, "no LLVM: kernels are for x86-64 there");
#endif
}

Status find_llvm(Llvm* out, const char* choice, Cache& cache, Memory& memory) {
  const Digest key = identity_key(choice);
  if (recall(out, key, cache, memory)) return kOk;
  ASTER_TRY(open_llvm(out, choice));
  keep(*out, key, cache);
  return kOk;
}

Provider llvm_provider(Llvm* llvm) {
  return {"LLVM",  llvm,       llvm_identify, llvm_compile,
          nullptr, kUnitBytes, kLaterBytes,   llvm_may_wait};
}

}  // namespace aster::runtime::cpu
