#include "runtime/cpu/compiler.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/flags.h"
#include "base/mutex.h"
#include "runtime/cpu/file.h"
#include "runtime/cpu/process.h"

namespace aster::runtime::cpu {
namespace {

constexpr int32_t kVersionTimeoutMs = 20'000;  // or that of compiling, if it is less
constexpr std::string_view kNames[] = {"clang", "gcc", "cc"};
constexpr std::string_view kUsualFolders[] = {"/usr/local/bin", "/usr/bin", "/bin"};

// Emitted C is explicit vectors with unrolled tiles: these levels give the speed of -O3 at a third
// of its price (bench: the kernels of the compile study). Never anything of -ffast-math.
constexpr const char* kClangFlags[] = {"-O1"};
constexpr const char* kGccFlags[] = {"-O1", "-fexpensive-optimizations", "-fschedule-insns2"};
constexpr const char* kCommonFlags[] = {"-std=gnu11",
                                        "-w",
                                        "-c",
                                        "-fPIC",
                                        "-fwrapv",
                                        "-fno-strict-aliasing",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-fno-unroll-loops",
                                        "-ffp-contract=off",
                                        "-fno-stack-protector",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fno-common",
                                        "-fno-ident"};
constexpr const char* kX86Flags[] = {"-m64", "-fcf-protection=none"};
// Compilers tuned for some CPUs split 64-byte vectors in two otherwise.
constexpr const char* kWideFlag = "-mprefer-vector-width=512";
// Where stdout goes; gas takes no "-", and clang would look for a temporary file beside a path.
constexpr const char* kGccOutput = "/proc/self/fd/1";
constexpr const char* kClangOutput = "-";

// Borrowed arguments, ended with null by done().
class Arguments {
 public:
  explicit Arguments(Memory& memory) : list_(memory) {}
  void add(const char* argument) {
    if (status_.ok()) status_ = list_.push(argument);
  }
  static void take(void* self, const char* argument) {
    static_cast<Arguments*>(self)->add(argument);
  }
  Status done() {
    add(nullptr);
    return status_;
  }
  std::span<const char* const> list() const { return {list_.data(), list_.size()}; }

 private:
  Vec<const char*> list_;
  Status status_;
};

// A small environment of our own: what could change the code, write files of its own or translate
// messages (CPATH, DEPENDENCIES_OUTPUT, LD_PRELOAD, LANG, ...) stays outside.
class Environment {
 public:
  explicit Environment(Memory& memory)
      : path_(memory), home_(memory), tmp_(memory), library_(memory) {}
  Status build() {
    path_ << "PATH=";
    if (const char* path = flag_text(Flag::kPath)) path_ << path << ":";
    path_ << "/usr/local/bin:/usr/bin:/bin";  // gcc looks for its assembler there
    ASTER_TRY(add(path_));
    ASTER_TRY(copy(Flag::kHome, home_));
    ASTER_TRY(copy(Flag::kTmpDir, tmp_));
    ASTER_TRY(copy(Flag::kLibraryPath, library_));
    list_[count_++] = "LC_ALL=C";
    return kOk;
  }
  const char* const* list() const { return list_; }

 private:
  Status copy(Flag flag, Text& text) {
    const char* value = flag_text(flag);
    if (value == nullptr) return kOk;
    text << flag_info(flag).variable << "=" << value;
    return add(text);
  }
  Status add(Text& text) {
    list_[count_] = text.c_str();
    ASTER_TRY(text.status());
    ++count_;
    return kOk;
  }
  Text path_, home_, tmp_, library_;
  const char* list_[8] = {};
  int count_ = 0;
};

// Whether path is a program; fills where it is and which file it leads to.
bool take_program(const char* path, CompilerInfo* out) {
  char absolute[PATH_MAX];
  struct stat info;
  // The resolved name is not what runs: a link's own name may tell the program what to be.
  if (path[0] != '/') {
    if (realpath(path, absolute) == nullptr) return false;
    path = absolute;
  }
  const size_t length = std::strlen(path);
  if (length >= sizeof(out->path)) return false;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || access(path, X_OK) != 0) return false;
  std::memcpy(out->path, path, length + 1);
  out->device = info.st_dev;
  out->inode = info.st_ino;
  out->size = info.st_size;
  out->modified_ns =
      static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  return true;
}

bool take_from_folder(std::string_view folder, std::string_view name, CompilerInfo* out) {
  char path[sizeof(out->path)];
  // Relative and empty entries of PATH mean the working directory: not a place to run programs from
  // unasked.
  if (folder.empty() || folder[0] != '/' || folder.size() + name.size() + 2 > sizeof(path))
    return false;
  std::memcpy(path, folder.data(), folder.size());
  path[folder.size()] = '/';
  std::memcpy(path + folder.size() + 1, name.data(), name.size());
  path[folder.size() + 1 + name.size()] = '\0';
  return take_program(path, out);
}

bool find_by_name(std::string_view name, CompilerInfo* out) {
  std::string_view rest = flag_text(Flag::kPath) != nullptr ? flag_text(Flag::kPath) : "";
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    if (take_from_folder(rest.substr(0, end), name, out)) return true;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  for (const std::string_view folder : kUsualFolders) {
    if (take_from_folder(folder, name, out)) return true;
  }
  return false;
}

std::string_view first_line(std::span<const uint8_t> text) {
  const std::string_view all(reinterpret_cast<const char*>(text.data()), text.size());
  return all.substr(0, all.find('\n'));
}

}  // namespace

std::string_view error_line(std::string_view text) {
  const size_t error = text.find("error:");
  if (error == std::string_view::npos) return text.substr(0, text.find('\n'));
  const size_t start = text.rfind('\n', error);
  if (start != std::string_view::npos) text.remove_prefix(start + 1);
  return text.substr(0, text.find('\n'));
}

namespace {

// How a program that did not do its work ended, as a sentence about it.
void describe_end(Text& out, const Outcome& outcome, int32_t timeout_ms) {
  const std::string_view line =
      error_line({reinterpret_cast<const char*>(outcome.error.data()), outcome.error.size()});
  if (!outcome.started) {
    out << "cannot be executed (" << error_text(outcome.start_error) << ")";
  } else if (outcome.timed_out) {
    out << "was ended after " << timeout_ms << " ms";
  } else if (outcome.status_known && outcome.exit_code > 128) {
    const char* signal = sigdescr_np(outcome.exit_code - 128);
    out << "was ended by signal " << outcome.exit_code - 128 << " ("
        << (signal != nullptr ? signal : "unknown") << ")";
  } else if (outcome.status_known && outcome.exit_code != 0) {
    out << "failed with status " << outcome.exit_code;
  } else if (outcome.output.empty()) {
    out << "wrote nothing";
  } else {
    out << "wrote what was not asked for";
  }
  if (!line.empty()) out << ": " << line.substr(0, 400);
}

// Asks the program for its version, about 2 ms for gcc and 30 for clang.
Status ask_version(CompilerInfo* info, Memory& memory, Patience patience) {
  Environment environment(memory);
  ASTER_TRY(environment.build());
  const char* const arguments[] = {info->path, "--version", nullptr};
  const Command command = {arguments, environment.list(), {}};
  Outcome outcome(memory);
  patience.timeout_ms = std::min(patience.timeout_ms, kVersionTimeoutMs);
  ASTER_TRY(run_commands({&command, 1}, {&outcome, 1}, patience));
  const std::string_view line = first_line({outcome.output.data(), outcome.output.size()});
  if (!outcome.started || outcome.timed_out || line.empty() ||
      (outcome.status_known && outcome.exit_code != 0)) {
    Text end(memory);
    describe_end(end, outcome, patience.timeout_ms);
    end.c_str();
    ASTER_TRY(end.status());
    return ASTER_FAIL(kUNSUPPORTED, "'%s --version' %s", info->path, end.c_str());
  }
  const size_t length =
      line.size() < sizeof(info->version) ? line.size() : sizeof(info->version) - 1;
  std::memcpy(info->version, line.data(), length);
  info->version[length] = '\0';
  info->kind =
      line.find("clang") != std::string_view::npos ? CompilerKind::kClang : CompilerKind::kGcc;
  return kOk;
}

// Identities that this process has asked for; contexts come and go, and asking takes a process each
// time.
struct Known {
  Mutex mutex;
  CompilerInfo entries[4];
  uint32_t next = 0;
};
constinit Known known;

bool same_file(const CompilerInfo& a, const CompilerInfo& b) {
  return a.device == b.device && a.inode == b.inode && a.size == b.size &&
         a.modified_ns == b.modified_ns && std::strcmp(a.path, b.path) == 0;
}

bool recall_known(CompilerInfo* info) {
  const MutexLock lock(known.mutex);
  bool found = false;
  for (const CompilerInfo& entry : known.entries) {
    found = entry.kind != CompilerKind::kNone && same_file(entry, *info);
    if (!found) continue;
    *info = entry;
    break;
  }
  return found;
}

void keep_known(const CompilerInfo& info) {
  const MutexLock lock(known.mutex);
  known.entries[known.next++ % std::size(known.entries)] = info;
}

Status identify(CompilerInfo* info, const IdentityMemory& identities, Memory& memory,
                const Patience& patience) {
  if (recall_known(info)) return kOk;
  if (identities.recall == nullptr || !identities.recall(identities.self, info)) {
    ASTER_TRY(ask_version(info, memory, patience));
    if (identities.keep != nullptr) identities.keep(identities.self, *info);
  }
  keep_known(*info);
  return kOk;
}

// Everything but the program's path and the files.
void each_flag(const CompilerInfo& compiler, const CpuFeatures& features,
               void (*take)(void* self, const char* flag), void* self) {
  if (compiler.kind == CompilerKind::kClang) {
    for (const char* flag : kClangFlags) take(self, flag);
  } else {
    for (const char* flag : kGccFlags) take(self, flag);
  }
  for (const char* flag : kCommonFlags) take(self, flag);
#if defined(__x86_64__)
  for (const char* flag : kX86Flags) take(self, flag);
  each_feature_flag(features, take, self);
  if (features.vector_bytes == 64) take(self, kWideFlag);
#endif
}

Status tell_lines(std::string_view text, Memory& memory, const Patience& patience) {
  Text line(memory);
  while (patience.told != nullptr && !text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    line.clear();
    line << text.substr(0, length);
    const char* const one = line.c_str();
    ASTER_TRY(line.status());
    patience.told(patience.self, one);
    text = text_slice(text, length + 1);
  }
  return kOk;
}

// The status of a compiler run whose output should be an ELF file. With the exit status lost, any
// message means failure: gcc's assembler makes an empty object when its compiler fails.
Status check_outcome(const CompilerInfo& compiler, const Outcome& outcome, Memory& memory,
                     const Patience& patience) {
  const std::string_view magic("\177ELF");
  const std::string_view output(reinterpret_cast<const char*>(outcome.output.data()),
                                outcome.output.size());
  const bool ended = outcome.started && !outcome.timed_out;
  const bool failed = outcome.status_known ? outcome.exit_code != 0 : !outcome.error.empty();
  const bool object = output.substr(0, magic.size()) == magic;
  if (ended && !failed && object) return kOk;
  Text end(memory);
  if (ended && !failed && !output.empty()) {
    end << "wrote " << output.size() << " bytes that are no object file";
  } else {
    describe_end(end, outcome, patience.timeout_ms);
  }
  end.c_str();
  ASTER_TRY(end.status());
  ASTER_TRY(tell_lines({reinterpret_cast<const char*>(outcome.error.data()), outcome.error.size()},
                       memory, patience));
  return ASTER_FAIL(kCOMPILE, "'%s' %s", compiler.path, end.c_str());
}

Status run_compiler(const CompilerInfo& compiler, std::span<const char* const> arguments,
                    std::span<const std::span<const uint8_t>> inputs,
                    std::span<Vec<uint8_t>> outputs, Memory& memory, const Patience& patience) {
  Environment environment(memory);
  ASTER_TRY(environment.build());
  Vec<Command> commands(memory);
  Vec<Outcome> outcomes(memory);
  ASTER_TRY(outcomes.reserve(inputs.size()));
  for (const std::span<const uint8_t> input : inputs) {
    ASTER_TRY(commands.push(Command{arguments.data(), environment.list(), input}));
    ASTER_TRY(outcomes.push(Outcome(memory)));
  }
  ASTER_TRY(run_commands({commands.data(), commands.size()}, {outcomes.data(), outcomes.size()},
                         patience));
  for (const Outcome& outcome : outcomes) {
    ASTER_TRY(check_outcome(compiler, outcome, memory, patience));
  }
  for (size_t i = 0; i < inputs.size(); ++i) outputs[i] = std::move(outcomes[i].output);
  return kOk;
}

}  // namespace

Status find_compiler(CompilerInfo* out, const char* choice, const IdentityMemory& identities,
                     Memory& memory, const Patience& patience) {
  CompilerInfo info;
  const std::string_view wanted = choice != nullptr ? choice : "";
  if (wanted == "none") return ASTER_FAIL(kUNSUPPORTED, "no C compiler: switched off");
  if (wanted == "builtin")
    return ASTER_FAIL(kUNSUPPORTED, "no C compiler: there is machine code of our own");
  if (!wanted.empty()) {
    const bool is_path = wanted.find('/') != std::string_view::npos;
    if (!(is_path ? take_program(choice, &info) : find_by_name(wanted, &info))) {
      return ASTER_FAIL(kUNSUPPORTED, "the C compiler '%s' is not a program", choice);
    }
    ASTER_TRY(identify(&info, identities, memory, patience));
    *out = info;
    return kOk;
  }
  const SavedError before;
  Text broken(memory);
  for (const std::string_view name : kNames) {
    if (!find_by_name(name, &info)) continue;
    const Status status = identify(&info, identities, memory, patience);
    if (status.code == static_cast<int32_t>(Code::kUNSUPPORTED)) {  // the next may work
      if (broken.view().empty()) broken << SavedError::message();
      continue;
    }
    ASTER_TRY(status);
    before.restore();
    *out = info;
    return kOk;
  }
  if (const char* why = broken.c_str(); why != nullptr && why[0] != '\0')
    return ASTER_FAIL(kUNSUPPORTED, "no C compiler: %s", why);
  return ASTER_FAIL(kUNSUPPORTED, "no C compiler: neither clang, gcc nor cc was found");
}

void write_identity(Text& out, const CompilerInfo& compiler) {
  out << compiler.path << " " << compiler.version << " " << compiler.size << " "
      << compiler.modified_ns;
}

void write_flags(Text& out, const CompilerInfo& compiler, const CpuFeatures& features) {
  constexpr auto kTake = [](void* self, const char* flag) {
    *static_cast<Text*>(self) << flag << " ";
  };
  each_flag(compiler, features, kTake, &out);
}

Status compile(const CompilerInfo& compiler, const CpuFeatures& features,
               std::span<const std::string_view> sources, std::span<Vec<uint8_t>> objects,
               Memory& memory, const Patience& patience) {
  if (compiler.kind == CompilerKind::kNone) return ASTER_FAIL(kUNSUPPORTED, "no C compiler");
  if (sources.size() != objects.size()) return ASTER_FAIL(kINTERNAL, "one object a source");
  Arguments arguments(memory);
  arguments.add(compiler.path);
  each_flag(compiler, features, Arguments::take, &arguments);
  const bool clang = compiler.kind == CompilerKind::kClang;
  for (const char* argument : {"-x", "c", "-", "-o", clang ? kClangOutput : kGccOutput})
    arguments.add(argument);
  if (!clang) arguments.add("-pipe");  // no intermediate file
  ASTER_TRY(arguments.done());
  Vec<std::span<const uint8_t>> inputs(memory);
  for (const std::string_view source : sources)
    ASTER_TRY(inputs.push(as_bytes(source.data(), source.size())));
  return run_compiler(compiler, arguments.list(), {inputs.data(), inputs.size()}, objects, memory,
                      patience);
}

Status link_shared(const CompilerInfo& compiler, std::span<const uint8_t> object,
                   Vec<uint8_t>* shared, Memory& memory, const Patience& patience) {
  if (compiler.kind == CompilerKind::kNone) return ASTER_FAIL(kUNSUPPORTED, "no C compiler");
  const char* const arguments[] = {compiler.path,     "-shared",         "-nostdlib", "-o",
                                   "/proc/self/fd/1", "/proc/self/fd/0", nullptr};
  return run_compiler(compiler, arguments, {&object, 1}, {shared, 1}, memory, patience);
}

}  // namespace aster::runtime::cpu
