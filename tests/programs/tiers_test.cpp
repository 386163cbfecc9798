// Kernels that begin without machine code: what they compute, when and by what it is replaced, and
// what becomes of it when things go wrong meanwhile.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "aster.h"

namespace programs {
namespace {

using aster_ml::Program;
using Clock = std::chrono::steady_clock;

// A compiler that waits for leave to begin, and then does what it is told.
class SlowCompiler {
 public:
  explicit SlowCompiler(const std::string& then = "gcc \"$@\"") {
    char name[] = "/tmp/aster-tiers-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/cc";
    std::ofstream(path_) << "#!/bin/sh\n[ \"$1\" = --version ] && { echo gcc fake; exit 0; }\n"
                         << "while [ ! -e " << folder_ << "/go ]; do sleep 0.02; done\n"
                         << then << "\n";
    chmod(path_.c_str(), 0700);
  }
  ~SlowCompiler() { std::filesystem::remove_all(folder_); }
  void go() const { std::ofstream(folder_ + "/go") << "go"; }
  aster_ml_context_options options() const {
    aster_ml_context_options out{};
    out.compiler = path_.c_str();
    out.no_disk_cache = 1;
    out.log = log;
    out.log_self = const_cast<SlowCompiler*>(this);
    return out;
  }
  std::string said;

 private:
  static void log(void* self, int32_t, const char* message) {
    static_cast<SlowCompiler*>(self)->said += std::string(message) + "\n";
  }
  std::string folder_, path_;
};

class Tiers : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "strips are for x86";
#else
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
      GTEST_SKIP() << "strips are for CPUs with AVX2";
#endif
    if (std::getenv("ASTER_TEST_DEVICE") != nullptr) GTEST_SKIP() << "the host's";
    setenv("ASTER_ML_TIERS", "auto", 1);
  }
  void TearDown() override { unsetenv("ASTER_ML_TIERS"); }
};

// What is computed in most kinds of kernels, on the data of a seed.
std::vector<Tensor> build(const Tensor& x) {
  namespace dtypes = aster_ml::dtypes;
  std::vector<Tensor> out{x.tanh().sum(),
                          x.softmax(1),
                          x.matmul(x.transpose()),
                          (x * 3).round().cast(dtypes::int32).mod(5).max({0}),
                          x.pad({1, 2}, {0, 3}).flip({1}).contiguous(),
                          x.reshape({2, 3, 10, 26}).permute({2, 0, 3, 1}).contiguous(),
                          (x > 0).any({1}),
                          x.abs().log().erf().argmax(0),
                          x.cumsum(1),
                          x.cast(dtypes::float64).exp().sum({1}),
                          x.gather(1, (x.abs() * 25).cast(dtypes::int64))};
  for (const aster_ml::Dtype d : {dtypes::float16, dtypes::bfloat16, dtypes::fp8e4m3, dtypes::uint8,
                                  dtypes::int64, dtypes::uint64})
    out.push_back(((x * 40).cast(d) + 1).sum({0}));
  return out;
}
std::vector<std::vector<double>> values(const std::vector<Tensor>& tensors) {
  std::vector<aster_ml_lazy*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.get());
  EXPECT_EQ(aster_ml_lazy_realize(handles.data(), handles.size()), ASTER_ML_OK) << last_error();
  std::vector<std::vector<double>> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.to_vector<double>());
  return out;
}

// Launches by their tiers.
struct Heard {
  explicit Heard(const Session& s) : session(s) {
    EXPECT_OK(aster_ml_engine_trace(s.get(), hear, this));
  }
  ~Heard() { EXPECT_OK(aster_ml_engine_trace(session.get(), nullptr, nullptr)); }
  static void hear(void* self, const aster_ml_launch* launch) {
    ++static_cast<Heard*>(self)->launches[launch->tier != 0];
  }
  const Session& session;
  int launches[2] = {};
};

TEST_F(Tiers, ResultsComeBeforeTheCompilerHasBegunWithTheBitsOfItsCode) {
  for (const int width : {0, 32}) {
    std::vector<std::vector<double>> want;
    {
      aster_ml_context_options options{};
      options.vector_bytes = width;
      Session compiled(options);  // which may not fall back, so all waits for the compiler
      want = values(build(data({60, 26}, 9)));
      EXPECT_EQ(compiled.counters().kernels_begun, 0u);
    }
    SlowCompiler compiler;
    aster_ml_context_options options = compiler.options();
    options.vector_bytes = width;
    Session s(options);
    EXPECT_EQ(values(build(data({60, 26}, 9))), want);
    EXPECT_GE(s.counters().kernels_begun, 15u);
    EXPECT_EQ(s.counters().kernels_waited, 0u);
    EXPECT_EQ(s.counters().kernels_interpreted, 0u);
    EXPECT_EQ(compiler.said, "");
    // The same schedule goes on by machine code as soon as there is some.
    compiler.go();
    for (int round = 0; round < 2000; ++round) {
      const Heard heard(s);
      EXPECT_EQ(values(build(data({60, 26}, 9))), want);
      if (heard.launches[1] == 0) break;
      ASSERT_LT(round, 1999);
      usleep(10000);
    }
    // So does another one with these kernels, which the compiler is not asked for again.
    const uint64_t compiled = s.counters().kernels_compiled;
    EXPECT_EQ(values({data({60, 26}, 9).softmax(1)})[0], want[1]);
    EXPECT_EQ(s.counters().kernels_compiled, compiled);
  }
}

TEST_F(Tiers, ProgramsThatThreadsRunGoOverToMachineCode) {
  SlowCompiler compiler;
  Session s(compiler.options());
  Tensor x = data({64, 64});
  Program program({x}, [&] { return (x.softmax(1) * x).sum({0}) + x.max({1}); });
  OK(program);
  const Floats want = read((x.softmax(1) * x).sum({0}) + x.max({1}));
  EXPECT_GE(s.counters().kernels_begun, 1u);
  aster_ml::Array in(noise(64 * 64, 1), {64, 64});
  const aster_ml::Workspace workspaces[] = {aster_ml::Workspace(program),
                                            aster_ml::Workspace(program)};
  std::atomic<int> bad{0}, rounds{0}, running{0};
  std::atomic<bool> done{false}, hold{false};
  std::vector<std::thread> threads;
  for (const aster_ml::Workspace& workspace : workspaces) {
    threads.emplace_back([&] {
      while (!done) {
        ++running;
        if (hold) {
          --running;
          std::this_thread::yield();
          continue;
        }
        aster_ml_tensor out{};
        if (!program.run(in.get(), 1, &out, 1, workspace.get())) ++bad;
        const float* const got = static_cast<const float*>(out.storage.data);
        for (size_t k = 0; k < want.size(); ++k) bad += got[k] != want[k];
        aster_ml_tensor_free(&out);
        ++rounds;
        --running;
      }
    });
  }
  while (rounds < 100) usleep(1000);
  compiler.go();
  // Compiled beside the threads, and taken over by them: a schedule of the kernels tells when. A
  // trace begins and ends where no program runs.
  for (int i = 0, by_strips = 1; i < 1000 && by_strips != 0; ++i) {
    usleep(10000);
    hold = true;
    while (running != 0) usleep(100);
    {
      const Heard heard(s);
      EXPECT_EQ(read((x.softmax(1) * x).sum({0}) + x.max({1})), want);
      by_strips = heard.launches[1];
    }
    hold = false;
    EXPECT_LT(i, 999);
  }
  const int now = rounds;
  while (rounds < now + 100) usleep(1000);
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
}

TEST_F(Tiers, WhatTheCompilerRefusesGoesOnWithout) {
  SlowCompiler compiler("echo 'a.c:1: error: not today' >&2; exit 1");
  Session s(compiler.options());
  const Tensor x = data({33, 70}, 4);
  const auto want = values({(x * 2).sum({0}), x.sin().sum({1})});
  EXPECT_GE(s.counters().kernels_begun, 2u);
  compiler.go();
  for (int i = 0; i < 500 && compiler.said.empty(); ++i) {
    usleep(10000);
    EXPECT_EQ(values({(x * 2).sum({0}), x.sin().sum({1})}), want);
    // It is said when kernels are loaded: another one at each turn.
    EXPECT_EQ(values({data({2, 3}, 1) + static_cast<double>(i)}).size(), 1u);
  }
  EXPECT_NE(compiler.said.find("a.c:1: error: not today"), std::string::npos) << compiler.said;
}

TEST_F(Tiers, ContextsEndWhileTheirKernelsAreCompiled) {
  SlowCompiler compiler("sleep 1000");
  const auto start = Clock::now();
  for (int i = 0; i < 3; ++i) {
    Session s(compiler.options());
    const Tensor x = data({20, 20});
    EXPECT_EQ(values({x.exp().sum({1})}).size(), 1u);
    // What another thread frees is no reason to wait.
    Tensor y = x.sin().realized();
    std::thread([other = std::move(y)] {}).join();
    if (i == 1) compiler.go();
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
}

TEST_F(Tiers, ChildrenOfAForkCompileForThemselves) {
  SlowCompiler compiler;
  Session s(compiler.options());
  const Tensor x = data({20, 30});
  const auto want = values({x.exp().sum({1}), x.sin()});
  const pid_t child = fork();
  if (child == 0) {
    const bool same = values({x.exp().sum({1}), x.sin()}) == want;
    compiler.go();
    // Something new, which waits for what ran in the parent.
    const bool more = values({x.cos().sum({0}), x.sin()})[1] == want[1];
    _exit(same && more ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(values({x.exp().sum({1}), x.sin()}), want);
}

TEST_F(Tiers, WithoutACompilerOrAFallbackNothingBegins) {
  aster_ml_context_options options{};
  options.compiler = "none";
  {
    Session s(options);
    EXPECT_EQ(read(Tensor({1.f, 4.f}) + 1), (Floats{2, 5}));
    EXPECT_EQ(s.counters().kernels_begun, 0u);
    EXPECT_EQ(s.counters().interpreted, 1u);
  }
  SlowCompiler compiler("exit 1");
  compiler.go();
  options = compiler.options();
  options.no_fallback = 1;
  Session s(options);
  const Tensor y = Tensor({1.f}) + 1;
  aster_ml_lazy* const handles[] = {y.get()};
  EXPECT_EQ(aster_ml_lazy_realize(handles, 1), ASTER_ML_COMPILE);
}

TEST_F(Tiers, KernelsBeginHoweverMuchTheyDo) {
  Floats want;
  {
    aster_ml_context_options options{};
    options.no_fallback = 1;
    Session compiled(options);
    const Tensor x = data({256, 512});
    want = read(x.matmul(x.transpose()));
  }
  SlowCompiler compiler;
  Session s(compiler.options());
  const Tensor x = data({256, 512});
  EXPECT_EQ(read(x.matmul(x.transpose())), want);
  EXPECT_EQ(s.counters().kernels_begun, 1u);
  EXPECT_EQ(s.counters().kernels_waited, 0u);
}

// Nothing may stand in for machine code here.
TEST_F(Tiers, WithoutACompilerAllHaveMachineCodeOfOurOwn) {
  for (const int width : {0, 32}) {
    aster_ml_context_options options{};
    options.vector_bytes = width;
    options.no_fallback = 1;
    std::vector<std::vector<double>> want;
    {
      Session compiled(options);
      want = values(build(data({60, 26}, 9)));
      EXPECT_GE(compiled.counters().kernels_compiled + compiled.counters().kernels_cached, 15u);
    }
    options.compiler = "builtin";
    Session s(options);
    EXPECT_EQ(values(build(data({60, 26}, 9))), want);
    EXPECT_EQ(s.counters().kernels_compiled, 0u);
    EXPECT_EQ(s.counters().kernels_begun, 0u);
    EXPECT_EQ(s.counters().interpreted, 0u);
    EXPECT_EQ(s.counters().kernels_interpreted, 0u);
    Tensor x = data({64, 64});
    Program program({x}, [&] { return (x.softmax(1) * x).sum({0}) + x.max({1}); });
    OK(program);
    OK(program.run({x}));
    EXPECT_EQ(read(program.outputs()[0]), read((x.softmax(1) * x).sum({0}) + x.max({1})));
  }
}

TEST_F(Tiers, ACompilerThatIsNotThereIsSaid) {
  SlowCompiler compiler;
  aster_ml_context_options options = compiler.options();
  options.compiler = "/nowhere/cc";
  Session s(options);
  EXPECT_EQ(read(Tensor({1.f, 4.f}) + 1), (Floats{2, 5}));
  EXPECT_EQ(s.counters().interpreted, 0u);
  EXPECT_NE(compiler.said.find("/nowhere/cc"), std::string::npos) << compiler.said;
}

}  // namespace
}  // namespace programs
