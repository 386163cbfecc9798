#include "runtime/cpu/compiler.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "runtime/cpu/elf_loader.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using testing::code;
using testing::in_fork;
using testing::last_error;
using testing::TemporaryFolder;
using testing::WithVariable;

Memory& heap() { return process_heap(); }

std::vector<std::string> present_compilers() {
  std::vector<std::string> out;
  for (const char* name : {"gcc", "clang"}) {
    CompilerInfo info;
    if (find_compiler(&info, name, {}, heap()).ok()) out.push_back(name);
  }
  return out;
}

Status compile_one(const CompilerInfo& compiler, const CpuFeatures& features,
                   std::string_view source, Vec<uint8_t>* object) {
  return compile(compiler, features, {&source, 1}, {object, 1}, heap());
}

// Compiles f and runs it in this process.
bool compiles_and_runs(const CompilerInfo& compiler) {
  Vec<uint8_t> object(heap());
  if (!compile_one(compiler, {}, "int f(int x) { return x * 2 + 1; }", &object).ok()) return false;
  Image image(heap());
  if (!image.load({object.data(), object.size()}).ok()) return false;
  return reinterpret_cast<int (*)(int)>(image.find("f"))(20) == 41;
}

std::string write_script(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body;
  chmod(path.c_str(), 0700);
  return path;
}

TEST(Compiler, FindsWhatIsThere) {
  CompilerInfo info;
  ASSERT_TRUE(find_compiler(&info, nullptr, {}, heap()).ok()) << last_error();
  EXPECT_EQ(info.path[0], '/');
  EXPECT_NE(info.kind, CompilerKind::kNone);
  EXPECT_TRUE(compiles_and_runs(info));
  for (const std::string& name : present_compilers()) {
    ASSERT_TRUE(find_compiler(&info, name.c_str(), {}, heap()).ok());
    EXPECT_EQ(info.kind == CompilerKind::kClang, name == "clang") << info.version;
    EXPECT_NE(std::string(info.version).find(name), std::string::npos);
    CompilerInfo by_path;
    ASSERT_TRUE(find_compiler(&by_path, info.path, {}, heap()).ok());
    EXPECT_STREQ(by_path.path, info.path);
  }
}

TEST(Compiler, RefusesWhatIsNot) {
  CompilerInfo info;
  TemporaryFolder folder;
  std::ofstream(folder / "not_executable") << "x";
  for (const std::string& choice :
       {std::string("none"), std::string("no-such-compiler"), std::string("/nonexistent/cc"),
        folder.path(), folder / "not_executable"}) {
    EXPECT_EQ(find_compiler(&info, choice.c_str(), {}, heap()).code, code(Code::kUNSUPPORTED))
        << choice;
  }
  const std::string silent = write_script(folder / "silent", "exit 1\n");
  EXPECT_EQ(find_compiler(&info, silent.c_str(), {}, heap()).code, code(Code::kUNSUPPORTED));
  EXPECT_EQ(info.kind, CompilerKind::kNone) << "untouched";
}

TEST(Compiler, EmptyMissingAndRelativePath) {
  TemporaryFolder folder;
  write_script(folder / "clang", "echo evil clang\n");
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  ASSERT_EQ(chdir(folder.path().c_str()), 0);
  for (const char* path :
       {static_cast<const char*>(nullptr), "", ":", ".", "::.:", "/nonexistent"}) {
    const WithVariable variable("PATH", path);
    for (const char* name : {static_cast<const char*>(nullptr), "gcc", "clang"}) {
      CompilerInfo info;
      ASSERT_TRUE(find_compiler(&info, name, {}, heap()).ok()) << last_error();
      EXPECT_EQ(std::string(info.version).find("evil"), std::string::npos)
          << "the working directory is no place";
      EXPECT_TRUE(compiles_and_runs(info)) << last_error();
    }
  }
  const WithVariable variable("PATH", folder.path().c_str());
  CompilerInfo info;
  ASSERT_TRUE(find_compiler(&info, nullptr, {}, heap()).ok());
  EXPECT_STREQ(info.version, "evil clang") << "an absolute entry of PATH goes first";
  ASSERT_EQ(chdir(before), 0);
}

TEST(Compiler, IdentitiesAreAskedOnce) {
  struct Remembered {
    int recalled = 0;
    int kept = 0;
    static bool recall(void* self, CompilerInfo*) {
      ++static_cast<Remembered*>(self)->recalled;
      return false;
    }
    static void keep(void* self, const CompilerInfo&) { ++static_cast<Remembered*>(self)->kept; }
  } remembered;
  TemporaryFolder folder;
  const std::string counter = folder / "count";
  const std::string script =
      write_script(folder / "cc", "echo x >> " + counter + "; echo gcc 1.0\n");
  const IdentityMemory memory = {&remembered, Remembered::recall, Remembered::keep};
  CompilerInfo info;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(find_compiler(&info, script.c_str(), memory, heap()).ok());
  EXPECT_EQ(remembered.recalled, 1);
  EXPECT_EQ(remembered.kept, 1);
  EXPECT_EQ(std::filesystem::file_size(counter), 2u) << "run once";
  write_script(folder / "cc", "echo gcc 2.0 # another file\n");
  ASSERT_TRUE(find_compiler(&info, script.c_str(), memory, heap()).ok());
  EXPECT_STREQ(info.version, "gcc 2.0");
}

TEST(Compiler, EveryWidthTurnsItsFeaturesOn) {
  const CpuFeatures all = detect_features();
  for (const std::string& name : present_compilers()) {
    CompilerInfo info;
    ASSERT_TRUE(find_compiler(&info, name.c_str(), {}, heap()).ok());
    for (const int bytes : {16, 32, 64}) {
      if (bytes > all.vector_bytes) continue;
      const std::string_view source =
          bytes == 64   ? "#if !__AVX512F__ || !__AVX512VL__ || !__AVX512DQ__ || !__AVX512BW__ || "
                          "!__FMA__\n#error\n#endif"
          : bytes == 32 ? "#if !__AVX2__ || !__FMA__ || !__F16C__ || __AVX512F__\n#error\n#endif"
                        : "#if __AVX__ || __SSE3__\n#error\n#endif";
      Vec<uint8_t> object(heap());
      EXPECT_TRUE(compile_one(info, narrowed(all, bytes), source, &object).ok()) << last_error();
    }
  }
}

TEST(Compiler, FlagsKeepArithmeticExact) {
  for (const std::string& name : present_compilers()) {
    CompilerInfo info;
    ASSERT_TRUE(find_compiler(&info, name.c_str(), {}, heap()).ok());
    Text text(heap());
    write_flags(text, info, detect_features());
    const std::string flags(text.view());
    for (const char* wanted :
         {"-fwrapv ", "-fno-strict-aliasing ", "-fno-math-errno ", "-ffp-contract=off ", "-O1 "}) {
      EXPECT_NE(flags.find(wanted), std::string::npos) << wanted;
    }
    for (const char* refused :
         {"fast-math", "native", "associative", "finite-math", "reciprocal"}) {
      EXPECT_EQ(flags.find(refused), std::string::npos) << refused;
    }
    // Not contracted: a fused multiply-add of these would give 2^-54 instead of 0.
    Vec<uint8_t> object(heap());
    ASSERT_TRUE(compile_one(info, detect_features(),
                            "double f(double a, double c) { return a * a + c; }", &object)
                    .ok());
    Image image(heap());
    ASSERT_TRUE(image.load({object.data(), object.size()}).ok());
    const double a = 1 + 0x1p-27;
    volatile double square = a * a;
    EXPECT_EQ(reinterpret_cast<double (*)(double, double)>(image.find("f"))(a, -square), 0.0);
  }
}

TEST(Compiler, ErrorsNameTheFirstMessage) {
  for (const std::string& name : present_compilers()) {
    CompilerInfo info;
    ASSERT_TRUE(find_compiler(&info, name.c_str(), {}, heap()).ok());
    const std::string_view sources[] = {"int good;", "int f(void) { return undeclared_thing; }"};
    Vec<uint8_t> objects[] = {Vec<uint8_t>(heap()), Vec<uint8_t>(heap())};
    EXPECT_EQ(compile(info, {}, sources, objects, heap()).code, code(Code::kCOMPILE));
    EXPECT_NE(last_error().find("undeclared_thing"), std::string::npos) << last_error();
    EXPECT_NE(last_error().find("error:"), std::string::npos) << last_error();
    EXPECT_EQ(last_error().find('\n'), std::string::npos);
    EXPECT_TRUE(objects[0].empty() && objects[1].empty()) << "nothing half done";
  }
}

TEST(Compiler, CompilersThatMisbehave) {
  TemporaryFolder folder;
  const std::string version = "[ \"$1\" = --version ] && { echo gcc fake; exit 0; }\n";
  const struct {
    const char* body;
    const char* said;
  } cases[] = {
      {"echo not an object\n", "wrote 14 bytes that are no object file"},
      {"exit 0\n", "wrote nothing"},
      {"echo odd >&2; exit 0\n", "wrote nothing: odd"},
      {"printf '\\177ELF'; exit 1\n", "failed with status 1"},
      {"kill -9 $$\n", "was ended by signal 9 (Killed)"},
      {"cat > /dev/null; echo boom >&2; exit 2\n", "failed with status 2: boom"},
      {"sleep 1000\n", "was ended after 200 ms"},
  };
  int i = 0;
  for (const auto& test : cases) {
    const std::string path =
        write_script(folder / ("cc" + std::to_string(i++)), version + test.body);
    CompilerInfo info;
    ASSERT_TRUE(find_compiler(&info, path.c_str(), {}, heap()).ok());
    Vec<uint8_t> object(heap());
    const std::string_view source = "int x;";
    const bool sleeps = test.said == cases[std::size(cases) - 1].said;
    EXPECT_EQ(compile(info, {}, {&source, 1}, {&object, 1}, heap(), {sleeps ? 200 : 20'000}).code,
              code(Code::kCOMPILE))
        << test.body;
    EXPECT_EQ(last_error(), "'" + path + "' " + test.said);
  }
  // One that is gone when it is needed.
  const std::string gone = write_script(folder / "gone", version);
  CompilerInfo info;
  ASSERT_TRUE(find_compiler(&info, gone.c_str(), {}, heap()).ok());
  unlink(gone.c_str());
  Vec<uint8_t> object(heap());
  EXPECT_EQ(compile_one(info, {}, "int x;", &object).code, code(Code::kCOMPILE));
  EXPECT_EQ(last_error(), "'" + gone + "' cannot be executed (No such file or directory)");
  EXPECT_EQ(compile_one(CompilerInfo(), {}, "int x;", &object).code, code(Code::kUNSUPPORTED));
}

TEST(Compiler, WhyNoneAnswers) {
  TemporaryFolder folder;
  const struct {
    const char* body;
    const char* said;
  } cases[] = {
      {"echo out of luck >&2; exit 3\n", "failed with status 3: out of luck"},
      {"exit 0\n", "wrote nothing"},
      {"kill -11 $$\n", "was ended by signal 11 (Segmentation fault)"},
      {"sleep 1000\n", "was ended after 200 ms"},
  };
  for (const auto& test : cases) {
    for (const char* name : {"clang", "gcc", "cc"}) write_script(folder / name, test.body);
    CompilerInfo info;
    const std::string path = folder / "gcc";
    EXPECT_EQ(find_compiler(&info, path.c_str(), {}, heap(), {200}).code, code(Code::kUNSUPPORTED));
    EXPECT_EQ(last_error(), "'" + path + " --version' " + test.said);
    const WithVariable variable("PATH", folder.path().c_str());
    aster_ml_error_clear();
    EXPECT_EQ(find_compiler(&info, nullptr, {}, heap(), {200}).code, code(Code::kUNSUPPORTED));
    EXPECT_EQ(last_error(), "no C compiler: '" + (folder / "clang") + " --version' " + test.said);
    // A broken one that another stands in for is no failure.
    write_script(folder / "gcc", "echo gcc 1.0\n");
    aster_ml_error_clear();
    EXPECT_TRUE(find_compiler(&info, nullptr, {}, heap(), {200}).ok());
    EXPECT_EQ(last_error(), "");
  }
}

TEST(Compiler, HostileHosts) {
  for (const std::string& name : present_compilers()) {
    CompilerInfo info;
    ASSERT_TRUE(find_compiler(&info, name.c_str(), {}, heap()).ok());
    EXPECT_TRUE(in_fork([&] {
      signal(SIGCHLD, SIG_IGN);
      Vec<uint8_t> object(heap());
      return compiles_and_runs(info) &&
             compile_one(info, {}, "mistake", &object).code == code(Code::kCOMPILE);
    })) << "SIGCHLD ignored";
    EXPECT_TRUE(in_fork([&] {
      close(0);
      close(1);
      close(2);
      return compiles_and_runs(info);
    })) << "closed streams";
    EXPECT_TRUE(in_fork([&] {
      clearenv();
      CompilerInfo found;
      return find_compiler(&found, name.c_str(), {}, heap()).ok() && compiles_and_runs(found);
    })) << "no environment";
    EXPECT_TRUE(in_fork([&] {
      // What would change the code or write files elsewhere does not reach the compiler.
      setenv("CPATH", "/nonexistent", 1);
      setenv("DEPENDENCIES_OUTPUT", "/nonexistent/deps", 1);
      setenv("GCC_EXEC_PREFIX", "/nonexistent", 1);
      setenv("COMPILER_PATH", "/nonexistent", 1);
      setenv("TMPDIR", "/nonexistent", 1);
      setenv("LANG", "de_DE.UTF-8", 1);
      return compiles_and_runs(info);
    })) << "variables";
    const int before = testing::count_descriptors();
    EXPECT_TRUE(compiles_and_runs(info));
    Vec<uint8_t> object(heap());
    EXPECT_FALSE(compile_one(info, {}, "mistake", &object).ok());
    EXPECT_EQ(testing::count_descriptors(), before);
  }
}

TEST(Compiler, EveryAllocationMayFail) {
  CompilerInfo info;
  ASSERT_TRUE(find_compiler(&info, nullptr, {}, heap()).ok());
  for (int64_t n = 0;; ++n) {
    testing::FailingHeap failing(n);
    Vec<uint8_t> object(failing);
    const std::string_view source = "int x;";
    const Status status = compile(info, {}, {&source, 1}, {&object, 1}, failing);
    if (!failing.failed()) {
      EXPECT_TRUE(status.ok()) << last_error();
      break;
    }
    EXPECT_EQ(status.code, code(Code::kMEMORY)) << n;
  }
}

}  // namespace
}  // namespace aster::runtime::cpu
