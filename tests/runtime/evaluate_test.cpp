// Programs that are interpreted: what their meaning says, in whatever pieces their tasks are run.
#include "runtime/reference/evaluate.h"

#include "codegen/program_evaluator.h"
#include "codegen/random_program.h"

namespace aster::runtime::reference {
namespace {

namespace program = codegen::program;
namespace tests = codegen::program::tests;

struct Made {
  explicit Made(const program::Module& module) {
    status = Evaluated::make(&evaluated, module, process_heap());
  }
  ~Made() { process_heap().destroy(evaluated); }
  void run(std::vector<tests::Param>& params, int64_t begin, int64_t end) const {
    std::vector<void*> memory;
    for (tests::Param& param : params) memory.push_back(param.bytes.data());
    std::vector<char> scratch(evaluated->scratch_bytes() + 64, '\x55');
    evaluated->run(memory.data(), scratch.data(), begin, end);
  }
  Evaluated* evaluated = nullptr;
  Status status;
};

TEST(Evaluate, RandomProgramsGiveWhatTheirMeaningSays) {
  size_t compared = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    tests::Read got(tests::RandomProgram(seed, true).text());
    ASSERT_TRUE(got.status.ok()) << got.error;
    std::vector<tests::Param> want = tests::make_params(got.last(), seed), params = want;
    ASSERT_EQ(tests::Evaluator::run(got.module, want), "") << seed;
    const Made made(got.module);
    ASSERT_TRUE(made.status.ok()) << testing::PrintToString(seed);
    for (const auto& [begin, end] : {std::pair{1, 3}, {3, 1000000}, {0, 1}})
      made.run(params, begin, end);
    for (size_t i = 0; i < params.size(); ++i) {
      EXPECT_EQ(params[i].bytes, want[i].bytes) << "seed " << seed << " param " << i;
      compared += want[i].bytes.size();
    }
  }
  EXPECT_GT(compared, 100000u);
}

TEST(Evaluate, TasksOutsideOfThePieceAreLeftAlone) {
  tests::Read got(R"(program pieces
%0 = Param i32 0 [12] write
%1 = Param i32 1 [12]
%2 = Loop task 0 6 2
  %3 = Loop task 0 2 1
    %4 = Load i32x2 %1 + 2*%2 + 2*%3
    Store %0 + 2*%2 + 2*%3, %4
  End
End
)");
  ASSERT_TRUE(got.status.ok()) << got.error;
  const Made made(got.module);
  ASSERT_TRUE(made.status.ok());
  std::vector<tests::Param> params = tests::make_params(got.last(), 1);
  for (int64_t i = 0; i < 12; ++i) params[0].set(i, -1), params[1].set(i, i);
  made.run(params, 2, 5);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(params[0].get(i), i >= 4 && i < 10 ? i : -1) << i;
}

TEST(Evaluate, GroupsAreRefused) {
  tests::Read got(R"(program groups
%0 = Param i32 0 [64] write
%1 = Const i32 1
%2 = Loop group 0 0 4 1
  %3 = Loop local 0 0 16 1
    Store %0 + 16*%2 + %3, %1
  End
End
)");
  ASSERT_TRUE(got.status.ok()) << got.error;
  EXPECT_EQ(Made(got.module).status.code, ASTER_ML_UNSUPPORTED);
}

TEST(Evaluate, EveryRequestForMemoryMayFail) {
  tests::Read got(tests::RandomProgram(7, true).text());
  for (int64_t left = 0;; ++left) {
    tests::FailingMemory memory(left);
    Evaluated* evaluated = nullptr;
    const Status status = Evaluated::make(&evaluated, got.module, memory);
    memory.destroy(evaluated);
    ASSERT_LT(left, 1000);
    if (status.ok()) break;
    EXPECT_EQ(status.code, ASTER_ML_MEMORY) << left;
    EXPECT_EQ(evaluated, nullptr);
  }
}

}  // namespace
}  // namespace aster::runtime::reference
