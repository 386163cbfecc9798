// Calls that are asked to stop, compilers that fail, and hosts with floating-point modes of their
// own.
#include <fcntl.h>
#include <fenv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "aster.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace programs {
namespace {

using aster_ml::Program;

// A callback that asks to stop at its nth question; 0: never.
struct Stopper {
  std::atomic<int> left{0};
  std::atomic<int> asked{0};
  static int32_t ask(void* self) {
    auto* stopper = static_cast<Stopper*>(self);
    ++stopper->asked;
    return stopper->left > 0 && --stopper->left == 0 ? 1 : 0;
  }
  aster_ml_context_options options(aster_ml_context_options out = {}) {
    out.should_cancel = ask;
    out.should_cancel_self = this;
    return out;
  }
};

int32_t realize(Tensor x) {
  aster_ml_lazy* const handles[] = {x.get()};
  return aster_ml_lazy_realize(handles, 1);
}

// Minutes of work, each kernel short.
Tensor endless(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 4000; ++i) y = y.matmul(x).contiguous();
  return y;
}

// Work of one kernel that takes long on any machine: [n, n] distances of n points.
Tensor one_kernel(int64_t n) {
  const Tensor x = data({n, 1, 64}), y = data({1, n, 64}, 2);
  return (x - y).abs().sqrt().sin().exp().sum({2});
}

// Kernels wait for their compiler: tiers_test.cpp has those that do not.
class Stop : public testing::Test {
 protected:
  void SetUp() override { setenv("ASTER_ML_TIERS", "off", 1); }
  void TearDown() override { unsetenv("ASTER_ML_TIERS"); }
};

class Threads : public Stop, public testing::WithParamInterface<int32_t> {};

TEST_P(Threads, ACallbackStopsAndAllIsAsBefore) {
  Stopper stopper;
  aster_ml_context_options options{};
  options.threads = GetParam();
  Session s(stopper.options(options));
  const Tensor state = data({1000}), x = data({200, 200}, 3);
  const Floats before = read(state), expected = read(x.matmul(x).exp());
  const auto expect_stopped = [&](const Tensor& work, int asked, const char* said) {
    const Tensor changed = state + work;
    stopper.left = asked;
    EXPECT_EQ(realize(changed), ASTER_ML_CANCELLED);
    EXPECT_NE(last_error().find(said), std::string::npos) << last_error();
    EXPECT_FALSE(changed.is_realized());
    EXPECT_EQ(read(state), before);
  };
  expect_stopped(endless(x).sum(), 2, "stopped as asked");
  OK((state + one_kernel(3000).sum()).realize()) << "which leaves nothing to be compiled";
  expect_stopped(one_kernel(3000).sum(), 2, "storages are as before");
  const Tensor again = x.matmul(x).exp();
  stopper.left = 1;
  if (realize(again) == ASTER_ML_CANCELLED) {
    EXPECT_FALSE(again.is_realized());
    OK(again.realize());
  }
  EXPECT_EQ(read(again), expected) << "what was stopped is computed when it is asked for again";
}
INSTANTIATE_TEST_SUITE_P(Stop, Threads, testing::Values(1, 2));

TEST_F(Stop, AnotherThreadCancels) {
  Session s;
  EXPECT_EQ(aster_ml_engine_cancel(nullptr), ASTER_ML_ARGUMENT);
  const aster_ml_context empty{};
  EXPECT_EQ(aster_ml_engine_cancel(&empty), ASTER_ML_ARGUMENT);
  OK(s.cancel());
  const Tensor x = data({200, 200});
  OK(x.matmul(x).realize()) << "nothing ran: nothing is stopped";
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      usleep(1000);
      EXPECT_OK(s.cancel());
    }
  });
  EXPECT_EQ(realize(endless(x)), ASTER_ML_CANCELLED);
  over = true;
  other.join();
  OK(x.matmul(x).realize());
}

TEST_F(Stop, TheInterpreterStops) {
  Stopper stopper;
  aster_ml_context_options options{};
  options.compiler = "none";
  Session s(stopper.options(options));
  Tensor state = data({64}, 5);
  const Floats before = read(state);
  state.assign(state + one_kernel(4000).sum());
  stopper.left = 2;
  EXPECT_EQ(realize(state), ASTER_ML_CANCELLED);
  EXPECT_NE(last_error().find("interpreted"), std::string::npos) << last_error();
  EXPECT_FALSE(state.is_realized()) << "the assignment waits still";
  stopper.left = 0;
  EXPECT_EQ(before.size(), 64u);
}

// A write in place that takes long is stopped in its middle: it counts as done, and is named.
TEST_F(Stop, InTheMiddleOfAnAssignment) {
  Stopper stopper;
  Session s(stopper.options());
  const int64_t n = 4000;
  Tensor state = data({n, n}, 7);
  state.assign(state + one_kernel(n));
  OK(state.realize()) << "which leaves nothing to be compiled";
  state.assign(state + one_kernel(n));
  stopper.left = 2;
  ASSERT_EQ(realize(state), ASTER_ML_CANCELLED) << last_error();
  EXPECT_NE(last_error().find("what was assigned (float32[4000, 4000]) is no longer valid"),
            std::string::npos)
      << last_error();
  EXPECT_TRUE(state.is_realized()) << "nothing assigns again on what is left";
  state.assign(Tensor::zeros({n, n}));
  OK(state.realize());
  EXPECT_EQ(read(state.sum()), Floats{0});
}

// One that takes no time is finished, whenever it is asked.
TEST_F(Stop, ShortAssignmentsAreWhole) {
  Session s;
  Tensor state = Tensor::zeros({1000}).contiguous().realized();
  state.assign(state + 1);  // compiled before: a compilation would be stopped each time
  OK(realize(state));
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) EXPECT_OK(s.cancel());
  });
  int done = 1, stopped = 0;
  for (int i = 0; i < 500; ++i) {
    state.assign(state + 1);
    int32_t status = realize(state);
    EXPECT_TRUE(status == ASTER_ML_OK || status == ASTER_ML_CANCELLED) << last_error();
    while (status == ASTER_ML_CANCELLED) {
      ++stopped;
      EXPECT_EQ(last_error().find("no longer valid"), std::string::npos) << last_error();
      status = realize(state);
    }
    ++done;
  }
  over = true;
  other.join();
  EXPECT_EQ(read(state), Floats(1000, static_cast<float>(done)));
}

TEST_F(Stop, ProgramsStop) {
  Stopper stopper;
  Session s(stopper.options());
  const Tensor x = data({1500, 1500});
  Tensor counter = Tensor::zeros({4}).contiguous().realized();
  Program program({x}, [&] {
    Tensor y = x;
    for (int i = 0; i < 12; ++i) y = y.matmul(x).contiguous();
    counter.assign(counter + 1);
    EXPECT_OK(counter.realize());
    return y;
  });
  OK(program);
  const Floats before = read(counter);
  stopper.left = 2;
  EXPECT_FALSE(program.run({x}));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_CANCELLED) << last_error();
  stopper.left = 0;
  const float count = read(counter)[0];
  EXPECT_TRUE(count == before[0] || count == before[0] + 1) << count;
  OK(program.run({x}));
  EXPECT_EQ(read(counter)[0], count + 1);
}

// ---- Compilers ----

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/aster-stop-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Said {
  std::vector<std::string> lines;
  static void log(void* self, int32_t, const char* message) {
    static_cast<Said*>(self)->lines.push_back(message);
  }
  bool contains(const std::string& part) const {
    for (const std::string& line : lines) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

std::string script(const Folder& folder, const std::string& body) {
  const std::string path = folder / "cc";
  std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --version ] && { echo gcc fake; exit 0; }\n"
                      << body << "\n";
  chmod(path.c_str(), 0700);
  return path;
}

aster_ml_context_options with(const std::string& compiler, Said* said) {
  aster_ml_context_options options{};
  options.compiler = compiler.c_str();
  options.no_disk_cache = 1;
  options.log = Said::log;
  options.log_self = said;
  return options;
}

TEST_F(Stop, CompilersThatFailAreStoodInFor) {
  const struct {
    const char* body;
    const char* said;
  } cases[] = {{"exit 0", "wrote nothing"},
               {"echo rubbish", "wrote 8 bytes that are no object file"},
               {"echo 'a.c:1: error: no' >&2; exit 1", "failed with status 1: a.c:1: error: no"},
               {"sleep 1000", "was ended after 200 ms"}};
  for (const auto& test : cases) {
    Folder folder;
    Said said;
    const std::string compiler = script(folder, test.body);
    aster_ml_context_options options = with(compiler, &said);
    options.compile_timeout_ms = 200;
    {
      Session s(options);
      aster_ml_error_clear();
      const Tensor x({1.f, 4.f, 9.f});
      EXPECT_EQ(read(x + 1), (Floats{2, 5, 10})) << test.body;
      EXPECT_EQ(aster_ml::error().code, 0) << last_error();
      EXPECT_EQ(read(x.exp() * 2).size(), 3u);
      EXPECT_EQ(said.lines.size(), 1u) << test.body;  // once a reason
      EXPECT_TRUE(said.contains("the reference runtime computes")) << test.body;
      EXPECT_TRUE(said.contains(test.said)) << test.body;
    }
    options.no_fallback = 1;
    Session s(options);
    EXPECT_EQ(realize(Tensor({1.f}) + 1), ASTER_ML_COMPILE);
    EXPECT_NE(last_error().find(test.said), std::string::npos) << last_error();
  }
}

// Passes on to a compiler what does not hold a word, and counts how often it was asked.
std::string refusing(const Folder& folder, const std::string& word, const std::string& instead) {
  return script(folder, "echo >> " + folder / "asked" + "\nt=$(cat)\ncase \"$t\" in *" + word +
                            "*) " + instead + ";; esac\nprintf '%s\\n' \"$t\" | gcc \"$@\"");
}
size_t times_asked(const Folder& folder) {
  std::ifstream in(folder / "asked");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}

int32_t realize_all(const std::vector<Tensor>& tensors) {
  std::vector<aster_ml_lazy*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.get());
  return aster_ml_lazy_realize(handles.data(), handles.size());
}

// The others are compiled; it is interpreted, with the same bits, and not asked for again.
TEST_F(Stop, AKernelThatTheCompilerRefusesIsInterpreted) {
  const struct {
    const char* instead;
    const char* said;
  } cases[] = {{"echo 'a.c:1: error: no sine' >&2; exit 1", "a.c:1: error: no sine"},
               {"sleep 1000", "was ended after 3000 ms"}};
  const auto build = [](const Tensor& x) {
    return std::vector<Tensor>{(x * 2).sum({0}), x.sin().sum({1}), x.transpose().contiguous()};
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.instead);
    std::vector<Floats> want;
    {
      Session s;
      for (const Tensor& tensor : build(data({33, 70}, 4))) want.push_back(read(tensor));
    }
    Folder folder;
    Said said;
    const std::string compiler = refusing(folder, "sin_f32", test.instead);
    aster_ml_context_options options = with(compiler, &said);
    options.compile_timeout_ms = 3000;
    {
      Session s(options);
      const Tensor x = data({33, 70}, 4);
      aster_ml_error_clear();
      const std::vector<Tensor> got = build(x);
      ASSERT_EQ(realize_all(got), ASTER_ML_OK) << last_error();
      EXPECT_EQ(aster_ml::error().code, 0) << last_error();
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(read(got[i]), want[i]) << i;
      EXPECT_EQ(s.counters().interpreted, 0u);
      EXPECT_EQ(s.counters().kernels_interpreted, 1u);
      EXPECT_EQ(s.counters().kernels_compiled, 2u);
      EXPECT_EQ(s.counters().kernels_cached, 0u);
      EXPECT_EQ(said.lines.size(), 1u);
      EXPECT_TRUE(said.contains(test.said)) << said.lines[0];
      // In another schedule, with one that is new.
      const size_t asked = times_asked(folder);
      const Tensor y = data({33, 70}, 5);
      const std::vector<Tensor> again{y.sin().sum({1}), (y + 3).sum({0})};
      ASSERT_EQ(realize_all(again), ASTER_ML_OK) << last_error();
      EXPECT_EQ(s.counters().kernels_interpreted, 2u);
      EXPECT_EQ(times_asked(folder), asked + 1);
      EXPECT_EQ(said.lines.size(), 1u);
    }
    options.no_fallback = 1;
    Session s(options);
    EXPECT_EQ(realize_all(build(data({33, 70}, 4))), ASTER_ML_COMPILE);
    EXPECT_NE(last_error().find(test.said), std::string::npos) << last_error();
  }
}

// In a captured program too.
TEST_F(Stop, ProgramsReplayInterpretedKernels) {
  Folder folder;
  Said said;
  const std::string compiler = refusing(folder, "exp_f32", "exit 1");
  Session s(with(compiler, &said));
  const Tensor x = data({40}, 1);
  aster_ml_lazy* const inputs[] = {x.get()};
  OK(aster_ml_engine_capture_begin(s.get(), inputs, 1));
  const Tensor y = x.reshape({8, 5}).exp().sum({1}), z = (x * 2).reshape({8, 5}).sum({0});
  aster_ml_lazy* const outputs[] = {y.get(), z.get()};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, s.get(), outputs, 2));
  EXPECT_EQ(s.counters().kernels_interpreted, 1u);
  EXPECT_EQ(s.counters().interpreted, 0u);
  const Floats values = noise(40, 7);
  const size_t shape[] = {40};
  aster_ml_tensor in{}, out[2] = {};
  OK(aster_ml_tensor_init(&in, s.get(), ASTER_ML_DTYPE_FLOAT32, 0, 1, shape));
  OK(aster_ml_tensor_copy_in(&in, values.data(), 40));
  OK(aster_ml_program_run(&program, nullptr, &in, 1, out, 2));
  Floats rows(8), columns(5);
  OK(aster_ml_tensor_copy_out(rows.data(), &out[0], 8));
  OK(aster_ml_tensor_copy_out(columns.data(), &out[1], 5));
  for (size_t row = 0; row < 8; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 5; ++i) sum += std::exp(static_cast<double>(values[row * 5 + i]));
    EXPECT_NEAR(rows[row], sum, 1e-5);
  }
  for (size_t i = 0; i < 5; ++i) {
    double sum = 0;
    for (size_t row = 0; row < 8; ++row) sum += 2.0 * values[row * 5 + i];
    EXPECT_NEAR(columns[i], sum, 1e-5);
  }
  for (aster_ml_tensor* tensor : {&in, &out[0], &out[1]}) OK(aster_ml_tensor_free(tensor));
  OK(aster_ml_program_free(&program));
}

// Everything but what holds a tanh: as machine code has it, for all dtypes.
TEST_F(Stop, InterpretedKernelsGiveTheBitsOfMachineCode) {
  namespace dtypes = aster_ml::dtypes;
  const auto build = [](const Tensor& x) {
    std::vector<Tensor> out{x.tanh().sum(),
                            x.softmax(1),
                            (x * 3).round().cast(dtypes::int32).mod(5).max({0}),
                            x.pad({1, 2}, {0, 3}).flip({1}).contiguous(),
                            x.reshape({2, 3, 10, 26}).permute({2, 0, 3, 1}).contiguous(),
                            (x > 0).any({1}),
                            x.abs().log().erf().argmax(0),
                            x.cast(dtypes::float64).exp().sum({1}),
                            x.gather(1, (x.abs() * 25).cast(dtypes::int64))};
    for (const aster_ml::Dtype d : {dtypes::float16, dtypes::bfloat16, dtypes::fp8e4m3,
                                    dtypes::uint8, dtypes::int64, dtypes::uint64})
      out.push_back(((x * 40).cast(d) + 1).sum({0}));
    return out;
  };
  const auto run = [&](Session& s) {
    std::vector<std::vector<double>> out;
    const std::vector<Tensor> tensors = build(data({60, 26}, 9));
    EXPECT_EQ(realize_all(tensors), ASTER_ML_OK) << last_error();
    EXPECT_EQ(s.counters().interpreted, 0u);
    for (const Tensor& tensor : tensors) out.push_back(tensor.to_vector<double>());
    return out;
  };
  Session compiled;
  const auto want = run(compiled);
  Folder folder;
  Said said;
  const std::string compiler =
      script(folder,
             "t=$(cat)\ncase \"$t\" in *erf_f32*) exit 1;; *tanh_f32*) ;; *) exit 1;; esac\n"
             "printf '%s\\n' \"$t\" | gcc \"$@\"");
  Session s(with(compiler, &said));
  EXPECT_EQ(run(s), want);
  EXPECT_GE(s.counters().kernels_interpreted, 5u);
}

TEST_F(Stop, NoCompiler) {
  Said said;
  const std::string none = "none";
  aster_ml_context_options options = with(none, &said);
  options.log_level = ASTER_ML_LOG_INFO;
  {
    Session s(options);
    aster_ml_error_clear();
    EXPECT_EQ(read(Tensor({1.f, 2.f}) + 1), (Floats{2, 3}));
    EXPECT_EQ(aster_ml::error().code, 0) << last_error();
    aster_ml_runtime_info info{};
    info.struct_size = sizeof(info);
    OK(aster_ml_runtime_get(&info, s.get()));
    EXPECT_EQ(aster_ml::error().code, 0) << last_error();
    EXPECT_TRUE(said.contains("switched off"));
    options.log_level = ASTER_ML_LOG_WARNING;
    said.lines.clear();
    Session quiet(options);  // what was asked for is no warning
    EXPECT_EQ(read(Tensor({1.f, 2.f}) + 1), (Floats{2, 3}));
    EXPECT_EQ(said.lines.size(), 0u);
  }
  options.no_fallback = 1;
  Session s(options);
  EXPECT_EQ(realize(Tensor({1.f}) + 1), ASTER_ML_COMPILE);
  EXPECT_NE(last_error().find("switched off"), std::string::npos) << last_error();
}

TEST_F(Stop, ACompilerThatHangsIsStopped) {
  Folder folder;
  Said said;
  Stopper stopper;
  const std::string compiler = script(folder, "sleep 1000");
  Session s(stopper.options(with(compiler, &said)));
  const Tensor y = Tensor({1.f}) + 1;
  stopper.left = 2;
  EXPECT_EQ(realize(y), ASTER_ML_CANCELLED) << last_error();
  EXPECT_FALSE(y.is_realized());
}

TEST_F(Stop, OptionsOutOfRange) {
  aster_ml_context context{};
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.compile_timeout_ms = -1;
  EXPECT_EQ(aster_ml_context_init(&context, &options), ASTER_ML_RANGE);
}

TEST_F(Stop, ProblemsOfTheCacheAreSaid) {
  Folder folder;
  std::ofstream(folder / "file") << "x";
  const std::string places[] = {folder / "file", "/proc/nothing/here"};
  for (const std::string& place : places) {
    Said said;
    aster_ml_context_options options{};
    options.cache_dir = place.c_str();
    options.log = Said::log;
    options.log_self = &said;
    Session s(options);
    OK((Tensor({1.f, 2.f}) * 3).realize());
    OK((Tensor({1.f, 2.f}) * 4 + 1).realize());
    EXPECT_EQ(said.lines.size(), 1u) << "once";
    EXPECT_TRUE(said.contains("compiled kernels are not kept in '" + place + "'"));
  }
}

// ---- Floating-point modes ----

#if defined(__x86_64__)
// All that a host may have set: flushing, rounding and traps.
struct Modes {
  const char* name;
  unsigned mxcsr;
};
constexpr Modes kModes[] = {{"flush to zero", 0x1F80 | 0x8040},
                            {"up", 0x1F80 | 0x4000},
                            {"down and traps", (0x1F80 | 0x2000) & ~0x0E80u}};

TEST(FloatModes, NothingComputedDependsOnThem) {
  const Floats tiny(5000, 1e-40f), noisy = noise(5000, 4);
  const auto compute = [&](int32_t threads, bool interpreted) {
    aster_ml_context_options options{};
    options.threads = threads;
    if (interpreted) options.compiler = "none";
    Session s(options);
    const Tensor x(tiny, {5000}), third = Tensor(noisy, {5000}) / 3;
    Floats out;
    const auto add = [&out](const Floats& more) {
      out.insert(out.end(), more.begin(), more.end());
    };
    add(read(x * 0.5f));
    add(read(third / 7 + x));
    add(read((third * third).sum()));
    add(read(third.reshape({50, 100}).matmul(third.reshape({100, 50}))));
    Program program({x}, [&] { return x * 0.25f + third; });
    EXPECT_OK(program.run({x}));
    add(read(program.outputs()[0]));
    aster_ml_tensor a{}, eager{};
    const size_t count = tiny.size();
    EXPECT_OK(
        aster_ml_tensor_from_data(&a, s.get(), tiny.data(), ASTER_ML_DTYPE_FLOAT32, 1, &count));
    EXPECT_OK(aster_ml_tensor_add(&eager, s.get(), &a, &a));
    const auto* sums = static_cast<const float*>(eager.storage.data);
    add(Floats(sums, sums + 5000));
    EXPECT_OK(aster_ml_tensor_free(&eager));
    EXPECT_OK(aster_ml_tensor_free(&a));
    return out;
  };
  for (const bool interpreted : {false, true}) {
    const Floats expected = compute(1, interpreted);
    for (const int32_t threads : {1, 2}) {
      for (const Modes& modes : kModes) {
        const unsigned before = _mm_getcsr();
        _mm_setcsr(modes.mxcsr);
        const Floats got = compute(threads, interpreted);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        EXPECT_EQ(after & 0xFFC0u, modes.mxcsr & 0xFFC0u) << modes.name;
        EXPECT_TRUE(got == expected) << modes.name << ", " << threads << " threads";
      }
    }
  }
}
#endif

}  // namespace
}  // namespace programs
