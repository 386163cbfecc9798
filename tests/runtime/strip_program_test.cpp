// Programs by loops over strips: what their meaning says, in whatever pieces their tasks are run.
#include "runtime/reference/strip_program.h"

#include "codegen/program_evaluator.h"
#include "codegen/random_kernel.h"
#include "codegen/random_plan.h"
#include "codegen/random_program.h"
#include "codegen/render_cases.h"

namespace aster::runtime::reference {
namespace {

namespace program = codegen::program;
namespace tests = codegen::program::tests;
using codegen::Target;
using codegen::tests::Param;

#define SKIP_WITHOUT_STRIPS() \
  if (!runs_strip_loops()) GTEST_SKIP() << "the loops are for CPUs with AVX2"

struct Made {
  explicit Made(const program::Module& module) {
    status = StripProgram::make(&strips, module, process_heap());
    if (!status.ok()) error = tests::last_error();
  }
  ~Made() { process_heap().destroy(strips); }
  Made(const Made&) = delete;
  void run(std::vector<Param>& params, const std::vector<std::pair<int64_t, int64_t>>& parts,
           const std::vector<int64_t>& sizes = {}) const {
    std::vector<void*> memory;
    for (Param& param : params) memory.push_back(param.bytes.data());
    std::vector<char> scratch(strips->scratch_bytes() + 64, '\x55');
    char* const at = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
    for (const auto& [begin, end] : parts) strips->run(memory.data(), sizes.data(), at, begin, end);
  }
  StripProgram* strips = nullptr;
  Status status;
  std::string error;
};

const std::vector<std::pair<int64_t, int64_t>> kPieces = {{1, 3}, {3, 1000000}, {0, 1}};

TEST(StripProgram, RandomProgramsGiveWhatTheirMeaningSays) {
  SKIP_WITHOUT_STRIPS();
  size_t compared = 0, beyond = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    tests::Read got(tests::RandomProgram(seed, true).text());
    ASSERT_TRUE(got.status.ok()) << got.error;
    std::vector<Param> want = tests::make_params(got.last(), seed), params = want;
    ASSERT_EQ(tests::Evaluator::run(got.module, want), "") << seed;
    const Made made(got.module);
    beyond += made.status.code == ASTER_ML_UNSUPPORTED;
    if (made.status.code == ASTER_ML_UNSUPPORTED) continue;
    ASSERT_TRUE(made.status.ok()) << made.error;
    made.run(params, kPieces);
    tests::same("seed " + std::to_string(seed), params, want);
    if (HasFailure()) FAIL() << tests::print(got.module);
    ++compared;
  }
  std::printf("%zu compared, %zu beyond\n", compared, beyond);
  EXPECT_GT(compared, beyond);
}

// Random kernels by the planner's plans and by random ones.
class Kernels : public codegen::tests::Suite {
 public:
  void run_all(int width, uint64_t seed, bool own_plans) {
    const Target target = codegen::tests::target_of(width);
    for (size_t i = 0; i < cases_.size(); ++i) {
      codegen::Kernel kernel(process_heap());
      ASSERT_TRUE(kernel.analyse(cases_[i].kernel).ok());
      const codegen::Plan plan = codegen::tests::RandomPlan(kernel, target, seed + i).make();
      program::Module module(process_heap());
      const Status lowered = codegen::lower_kernel(&module, "kernel", cases_[i].kernel, target,
                                                   process_heap(), own_plans ? nullptr : &plan);
      if (!lowered.ok() && !own_plans) continue;  // longer than a program may be
      ASSERT_TRUE(lowered.ok()) << tests::last_error();
      const Made made(module);
      beyond += made.status.code == ASTER_ML_UNSUPPORTED;
      if (made.status.code == ASTER_ML_UNSUPPORTED) {
        reasons[made.error]++;
        continue;
      }
      ASSERT_TRUE(made.status.ok()) << made.error;
      std::vector<Param> want = cases_[i].params, got = want;
      ASSERT_EQ(tests::Evaluator::run(module, want), "");
      const bool tasks = std::ranges::any_of(module.programs.back().code(), [](const auto& in) {
        return in.op == uop::Op::kLoop && in.kind == 1;
      });
      made.run(got, tasks ? kPieces : std::vector<std::pair<int64_t, int64_t>>{{0, 1}});
      tests::same(cases_[i].name, got, want);
      if (::testing::Test::HasFailure()) FAIL() << tests::print(module);
      ++compared;
    }
  }
  size_t compared = 0, beyond = 0;
  std::map<std::string, int> reasons;
};

TEST(StripProgram, RandomKernelsGiveWhatTheirProgramsSay) {
  SKIP_WITHOUT_STRIPS();
  const char* const chosen = std::getenv("ASTER_TEST_SEED");
  const uint64_t first = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  const bool exhaustive = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr;
  std::printf("seed %llu\n", static_cast<unsigned long long>(first));
  size_t compared = 0, beyond = 0;
  for (uint64_t batch = 0; batch < (exhaustive ? 40u : 2u); ++batch) {
    for (const int width : codegen::tests::widths()) {
      for (const bool own_plans : {true, false}) {
        Kernels s;
        const uint64_t seed = (first * 977 + batch) * 1009 + static_cast<uint64_t>(width);
        for (uint64_t i = 0; i < 40; ++i)
          codegen::tests::RandomKernel(s, seed + i).add("random" + std::to_string(seed + i));
        s.run_all(width, seed, own_plans);
        if (HasFailure()) return;
        compared += s.compared, beyond += s.beyond;
        for (const auto& [why, count] : s.reasons) std::printf("%d: %s\n", count, why.c_str());
      }
    }
  }
  std::printf("%zu compared, %zu beyond\n", compared, beyond);
  EXPECT_GT(compared, 20 * beyond);
}

TEST(StripProgram, ProgramsThatTakeSizesReadThem) {
  SKIP_WITHOUT_STRIPS();
  tests::Read got(R"(program sized
%0 = Param i64 0 from 1 to 100 by 1
%1 = Param i32 0 [100] write
%2 = Param i32 1 [100]
%3 = Loop task 0 %0 1
  %4 = Load i32 %2 + %3
  %5 = Add i32 %4 %4
  Store %1 + %3, %5
End
)");
  ASSERT_TRUE(got.status.ok()) << got.error;
  const Made made(got.module);
  ASSERT_TRUE(made.status.ok()) << made.error;
  std::vector<Param> params = tests::make_params(got.last(), 1);
  for (int64_t i = 0; i < 100; ++i) params[0].set(i, -1), params[1].set(i, i);
  made.run(params, {{2, 30}}, {17});
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(params[0].get(i), i >= 2 && i < 17 ? 2 * i : -1) << i;
}

TEST(StripProgram, EveryRequestForMemoryMayFail) {
  SKIP_WITHOUT_STRIPS();
  tests::Read got(R"(program folds
%0 = Param f32 0 [64] write
%1 = Param f32 1 [4096]
%2 = Loop task 0 64 1
  %3 = Acc f32x8 0
  %4 = Loop 0 64 8
    %5 = Load f32x8 %1 + 64*%2 + %4
    %6 = Add f32x8 %3 %5
    Set %3 %6
  End
  %7 = Across:Add f32 %3
  Store %0 + %2, %7
End
)");
  ASSERT_TRUE(got.status.ok()) << got.error;
  for (int64_t left = 0;; ++left) {
    tests::FailingMemory memory(left);
    StripProgram* strips = nullptr;
    const Status status = StripProgram::make(&strips, got.module, memory);
    memory.destroy(strips);
    ASSERT_LT(left, 1000);
    if (status.ok()) break;
    EXPECT_EQ(status.code, ASTER_ML_MEMORY) << left;
    EXPECT_EQ(strips, nullptr);
  }
}

}  // namespace
}  // namespace aster::runtime::reference
