// The files of a frozen program: texts, and what a compiler makes of them. All is made in a folder
// of its own, and put in place when all of it is there.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/flags.h"
#include "nn/freeze/freeze.h"
#include "runtime/cpu/compiler.h"
#include "runtime/cpu/file.h"
#include "runtime/cpu/module.h"

namespace aster::nn::freeze {
namespace {

namespace cpu = runtime::cpu;
using Bytes = std::span<const uint8_t>;

Bytes bytes_of(std::string_view text) { return cpu::as_bytes(text.data(), text.size()); }

// A folder for what is on its way, removed with the files that were named in it.
class Folder {
 public:
  explicit Folder(Heap& heap) : path_(heap), files_(heap) {}
  ~Folder() {
    for (Text& file : files_) unlink(file.c_str());
    if (made_) rmdir(path_.c_str());
  }
  Status make() {
    const char* const base = flag_text(Flag::kTmpDir);
    path_ << (base != nullptr && base[0] == '/' ? base : "/tmp") << "/aster_freeze_XXXXXX";
    if (path_.c_str() == nullptr) return path_.status();
    // It is written into texts of C and of the assembler.
    if (path_.view().find_first_of("\"\\\n") != std::string_view::npos)
      return ASTER_FAIL(kARGUMENT, "TMPDIR has quotes in it");
    if (mkdtemp(const_cast<char*>(path_.c_str())) == nullptr)
      return file_failed("making a folder", path_.c_str(), errno);
    made_ = true;
    return kOk;
  }
  // The path of a file in it; stays.
  const char* file(std::string_view name) {
    Text path(path_.memory());
    path << path_.view() << '/' << name;
    if (path.c_str() == nullptr || !files_.push(std::move(path)).ok()) return nullptr;
    return files_.back().c_str();
  }
  Status write(const char** out, std::string_view name, Bytes first, Bytes second = {}) {
    *out = file(name);
    if (*out == nullptr) return out_of_memory(name.size());
    const cpu::Descriptor fd(::open(*out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool done =
        fd.valid() && cpu::write_all(fd.get(), first) && cpu::write_all(fd.get(), second);
    return done ? Status(kOk) : file_failed("writing", *out, errno);
  }
  const char* path() { return path_.c_str(); }

 private:
  Text path_;
  Vec<Text> files_;
  bool made_ = false;
};

Status read_whole(Vec<uint8_t>* out, const char* path) {
  const cpu::Descriptor fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return file_failed("opening", path, errno);
  return cpu::read_file(fd.get(), 0, SIZE_MAX, out);
}

// Files that appear together, when all are written.
class Results {
 public:
  explicit Results(Heap& heap) : heap_(heap), all_(heap) {}
  ~Results() {
    for (cpu::Replacement* file : all_) heap_.destroy(file);
  }
  Status add(const char* path, Bytes first, Bytes second = {}) {
    ASTER_TRY(all_.reserve(all_.size() + 1));
    auto* file = heap_.create<cpu::Replacement>(heap_);
    if (file == nullptr) return out_of_memory(sizeof(*file));
    ASTER_TRY(all_.push(file));
    if (!file->open(path) || !file->write(first) || !file->write(second))
      return file_failed("writing", path, errno);
    return kOk;
  }
  Status finish(const char* path) {
    for (cpu::Replacement* file : all_) {
      if (!file->finish()) return file_failed("writing", path, errno);
    }
    return kOk;
  }

 private:
  Heap& heap_;
  Vec<cpu::Replacement*> all_;
};

// The side file: a header of 64 bytes, then the constants.
void fill_side_header(uint8_t (&out)[64], const Model& model) {
  std::memset(out, 0, sizeof(out));
  std::memcpy(out, "ASTERFZ\n", 8);
  const uint64_t numbers[] = {model.constants.size(), model.checksum};
  std::memcpy(out + 8, numbers, sizeof(numbers));
}

// An archive of one object: its symbols in the form that linkers read, then it.
Status write_archive(Vec<uint8_t>* out, const Model& model, Bytes object) {
  Heap& heap = static_cast<Heap&>(out->memory());
  Text names(heap), text(heap);
  constexpr const char* kFunctions[] = {"init", "run", "free", "describe", "kernel"};
  const size_t count = std::size(kFunctions) - (model.kernel ? 0 : 1);
  for (size_t i = 0; i < count; ++i) names << model.name.view() << '_' << kFunctions[i] << '\0';
  if (names.view().size() % 2 != 0) names << '\0';
  const size_t index = 4 * (1 + count) + names.view().size();
  const size_t member = 8 + 60 + index;
  const auto big_endian = [&](size_t value) {
    for (const int shift : {24, 16, 8, 0}) text << static_cast<char>(value >> shift & 255);
  };
  text << "!<arch>\n";
  text.format("%-16s%-12d%-6d%-6d%-8d%-10zu`\n", "/", 0, 0, 0, 0, index);
  big_endian(count);
  for (size_t i = 0; i < count; ++i) big_endian(member);
  text << names.view();
  text.format("%-16s%-12d%-6d%-6d%-8o%-10zu`\n", "model.o/", 0, 0, 0, 0644, object.size());
  ASTER_TRY(names.status());
  ASTER_TRY(text.status());
  ASTER_TRY(out->append(reinterpret_cast<const uint8_t*>(text.view().data()), text.view().size()));
  ASTER_TRY(out->append(object.data(), object.size()));
  return object.size() % 2 == 0 ? Status(kOk) : out->push(uint8_t{'\n'});
}

class Builder {
 public:
  Builder(Context& context, const Model& model, const char* compiler)
      : context_(context),
        heap_(context.heap()),
        m_(model),
        wanted_(compiler),
        folder_(heap_),
        results_(heap_),
        objects_(heap_),
        header_(heap_) {}

  Status run(const char* path, aster_ml_freeze_form form) {
    ASTER_TRY(write_header(header_, m_));
    if (form == ASTER_ML_FREEZE_C) {
      ASTER_TRY(sources(path));
    } else {
      ASTER_TRY(machine_code(path, form));
    }
    if (form != ASTER_ML_FREEZE_EXECUTABLE)
      ASTER_TRY(add_beside(path, ".h", bytes_of(header_.view())));
    if (m_.side_file) {
      uint8_t head[64];
      fill_side_header(head, m_);
      ASTER_TRY(add_beside(path, ".constants", head, {m_.constants.data(), m_.constants.size()}));
    }
    ASTER_TRY(results_.finish(path));
    if (form != ASTER_ML_FREEZE_EXECUTABLE) return kOk;
    struct stat about {};
    const bool runs =
        stat(path, &about) == 0 && chmod(path, about.st_mode | (about.st_mode & 0444) >> 2) == 0;
    return runs ? Status(kOk) : file_failed("making executable", path, errno);
  }

 private:
  static constexpr size_t kMostInText = 64 << 10;

  // NAME and an ending, in the folder of path.
  Status add_beside(const char* path, const char* ending, Bytes first, Bytes second = {}) {
    Text beside(heap_);
    const char* const slash = std::strrchr(path, '/');
    if (slash != nullptr) beside << std::string_view(path, static_cast<size_t>(slash + 1 - path));
    beside << m_.name.view() << ending;
    if (beside.c_str() == nullptr) return beside.status();
    return results_.add(beside.c_str(), first, second);
  }

  Status sources(const char* path) {
    const bool apart = m_.codes.size() > 1;
    const bool included = !m_.side_file && m_.constants.size() > kMostInText;
    Text driver(heap_), name(heap_);
    name << m_.name.view() << ".constants";
    ASTER_TRY(write_driver(driver, m_, included ? name.c_str() : nullptr, apart));
    ASTER_TRY(results_.add(path, bytes_of(driver.view())));
    if (included)
      ASTER_TRY(add_beside(path, ".constants", {m_.constants.data(), m_.constants.size()}));
    for (const Code& code : m_.codes) {
      if (!apart) break;
      Text text(heap_), ending(heap_);
      ending << '_' << code.cpu->suffix << ".c";
      ASTER_TRY(write_kernels(text, m_, code, true));
      if (ending.c_str() == nullptr) return ending.status();
      ASTER_TRY(add_beside(path, ending.c_str(), bytes_of(text.view())));
    }
    return kOk;
  }

  Status machine_code(const char* path, aster_ml_freeze_form form) {
    ASTER_TRY(cpu::find_compiler(&compiler_, wanted_, {}, heap_, patience()));
    ASTER_TRY(folder_.make());
    const char* file = nullptr;
    Text name(heap_);
    name << m_.name.view() << ".h";
    ASTER_TRY(folder_.write(&file, name.view(), bytes_of(header_.view())));
    ASTER_TRY(compile_driver());
    for (const Code& code : m_.codes) ASTER_TRY(compile_kernels(code));
    if (form == ASTER_ML_FREEZE_EXECUTABLE) {
      Text text(heap_);
      ASTER_TRY(write_main(text, m_));
      ASTER_TRY(compile("main", text, nullptr));
    }
    const char* linked = nullptr;
    ASTER_TRY(link(&linked, path, form));
    Vec<uint8_t> bytes(heap_), archive(heap_);
    ASTER_TRY(read_whole(&bytes, linked));
    if (form != ASTER_ML_FREEZE_STATIC) return results_.add(path, {bytes.data(), bytes.size()});
    ASTER_TRY(write_archive(&archive, m_, {bytes.data(), bytes.size()}));
    return results_.add(path, {archive.data(), archive.size()});
  }

  Status compile_driver() {
    Text text(heap_);
    const char* constants = nullptr;
    if (!m_.side_file && m_.constants.size() > kMostInText)
      ASTER_TRY(folder_.write(&constants, "constants", {m_.constants.data(), m_.constants.size()}));
    ASTER_TRY(write_driver(text, m_, constants, true));
    return compile("driver", text, nullptr);
  }
  Status compile_kernels(const Code& code) {
    Text text(heap_);
    ASTER_TRY(write_kernels(text, m_, code, true));
    return compile(code.cpu->suffix, text, &code);
  }

  // A text of C to an object; code: whose kernels it has.
  Status compile(std::string_view name, Text& text, const Code* code) {
    Text source_name(heap_), object_name(heap_), flags(heap_), folder(heap_);
    source_name << name << ".c";
    object_name << name << ".o";
    const char* source = nullptr;
    ASTER_TRY(text.status());
    ASTER_TRY(folder_.write(&source, source_name.view(), bytes_of(text.view())));
    const char* const object = folder_.file(object_name.view());
    if (object == nullptr) return out_of_memory(name.size());
    const bool x86 = m_.codes[0].cpu->x86;
    cpu::write_flags(flags, compiler_,
                     code != nullptr ? features_of(*code->cpu) : cpu::CpuFeatures{});
    // Words of their own.
    Vec<const char*> arguments(heap_);
    ASTER_TRY(begin(&arguments));
    ASTER_TRY(flags.status());
    for (char* word = const_cast<char*>(flags.c_str()); word != nullptr && *word != '\0';) {
      char* const space = std::strchr(word, ' ');
      if (space != nullptr) *space = '\0';
      const bool of_x86 = std::strncmp(word, "-m", 2) == 0 || std::strncmp(word, "-fcf", 4) == 0;
      if (*word != '\0' && (x86 || !of_x86)) ASTER_TRY(arguments.push(word));
      word = space == nullptr ? nullptr : space + 1;
    }
    folder << "-I" << folder_.path();
    for (const char* argument : {folder.c_str(), "-o", object, source})
      ASTER_TRY(arguments.push(argument));
    ASTER_TRY(run_compiler(arguments));
    return objects_.push(object);
  }

  Status begin(Vec<const char*>* arguments) {
    ASTER_TRY(arguments->push(compiler_.path));
    if (compiler_.kind == cpu::CompilerKind::kClang && !m_.codes[0].cpu->x86)
      return arguments->push("--target=aarch64-linux-gnu");
    return kOk;
  }

  Status link(const char** out, const char* path, aster_ml_freeze_form form) {
    Vec<const char*> arguments(heap_);
    ASTER_TRY(begin(&arguments));
    Text name(heap_);
    const bool relocatable = form == ASTER_ML_FREEZE_OBJECT || form == ASTER_ML_FREEZE_STATIC;
    if (relocatable) {
      for (const char* flag : {"-r", "-nostdlib"}) ASTER_TRY(arguments.push(flag));
    } else if (form == ASTER_ML_FREEZE_SHARED) {
      const char* const slash = std::strrchr(path, '/');
      name << "-Wl,-soname," << (slash == nullptr ? path : slash + 1);
      if (name.view().find(',', 12) != std::string_view::npos) name.truncate(0);
      ASTER_TRY(arguments.push("-shared"));
      if (!name.view().empty()) ASTER_TRY(arguments.push(name.c_str()));
    }
    *out = folder_.file("linked");
    if (*out == nullptr) return out_of_memory(8);
    for (const char* argument : {"-o", *out}) ASTER_TRY(arguments.push(argument));
    for (const char* object : objects_) ASTER_TRY(arguments.push(object));
    if (!relocatable && m_.threads > 1) ASTER_TRY(arguments.push("-pthread"));
    if (!relocatable) ASTER_TRY(arguments.push("-Wl,-z,noexecstack"));
    return run_compiler(arguments);
  }

  cpu::Patience patience() {
    return {context_.options().compile_timeout_ms, &context_.interrupt(), nullptr, nullptr};
  }

  Status run_compiler(Vec<const char*>& arguments) {
    Text path(heap_), tmp(heap_);
    path << "PATH=";
    if (const char* given = flag_text(Flag::kPath)) path << given << ':';
    path << "/usr/local/bin:/usr/bin:/bin";
    tmp << "TMPDIR=" << folder_.path();
    const char* const environment[] = {path.c_str(), tmp.c_str(), "LC_ALL=C", nullptr};
    ASTER_TRY(path.status());
    ASTER_TRY(tmp.status());
    ASTER_TRY(arguments.push(nullptr));
    const cpu::Command command{arguments.data(), environment, {}, RLIM_INFINITY};
    cpu::Outcome outcome(heap_);
    ASTER_TRY(cpu::run_commands({&command, 1}, {&outcome, 1}, patience()));
    const bool succeeded =
        outcome.started && !outcome.timed_out && (!outcome.status_known || outcome.exit_code == 0);
    if (succeeded) return kOk;
    if (!outcome.started) return ASTER_FAIL(kUNSUPPORTED, "'%s' does not start", compiler_.path);
    if (outcome.timed_out) return ASTER_FAIL(kCOMPILE, "'%s' takes too long", compiler_.path);
    const std::string_view said = cpu::error_line(
        {reinterpret_cast<const char*>(outcome.error.data()), outcome.error.size()});
    return ASTER_FAIL(kCOMPILE, "'%s' failed: %.*s", compiler_.path,
                      static_cast<int>(std::min<size_t>(said.size(), 200)), said.data());
  }

  Context& context_;
  Heap& heap_;
  const Model& m_;
  const char* wanted_;
  cpu::CompilerInfo compiler_;
  Folder folder_;
  Results results_;
  Vec<const char*> objects_;
  Text header_;
};

}  // namespace

Status build(const char* path, Context& context, const Model& model, aster_ml_freeze_form form,
             const char* compiler) {
  return Builder(context, model, compiler).run(path, form);
}

}  // namespace aster::nn::freeze
