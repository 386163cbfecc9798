// Who asks is told of every launch: of realize, of programs, of the interpreter.
#include <thread>

#include "aster.h"

namespace programs {
namespace {

struct Told {
  std::string name;
  aster_ml_launch launch;
};
void note(void* self, const aster_ml_launch* launch) {
  static_cast<std::vector<Told>*>(self)->push_back({launch->name, *launch});
}

struct Traced : Session {
  explicit Traced(aster_ml_context_options options = {}) : Session(options) {
    EXPECT_OK(trace(note, &told));
  }
  std::vector<Told> told;
};

TEST(Trace, EveryLaunchOfARealizeIsTold) {
  Traced s;
  const Tensor x = data({64, 32}), w = data({32, 16}, 2);
  const uint64_t before = s.counters().operations;
  const Tensor y = x.matmul(w).relu(), z = x.exp();
  EXPECT_OK(aster_ml::realize({y, z}));
  const aster_ml_engine_counters counters = s.counters();
  ASSERT_EQ(s.told.size(), counters.last_kernels);
  uint64_t operations = 0;
  const int32_t device = s.device();
  for (const Told& t : s.told) {
    EXPECT_EQ(t.launch.struct_size, sizeof(aster_ml_launch));
    EXPECT_NE(s.schedule().find(t.name), std::string::npos) << t.name;
    EXPECT_GT(t.launch.bytes, 0u);
    EXPECT_GT(t.launch.held_bytes, 0u);
    EXPECT_GE(t.launch.operands, 2);
    EXPECT_EQ(t.launch.device, device);
    EXPECT_EQ(t.launch.replayed, 0);
    operations += t.launch.operations;
  }
  EXPECT_EQ(operations, counters.operations - before);
  EXPECT_NE(s.schedule().find("matmul_relu_64x16_r32"), std::string::npos) << s.schedule();
}

TEST(Trace, EqualKernelsHaveEqualNames) {
  Traced s;
  for (uint32_t seed : {1u, 2u}) EXPECT_OK((data({48}, seed) * 3).sin().realize());
  ASSERT_EQ(s.told.size(), 2u);
  EXPECT_EQ(s.told[0].name, s.told[1].name);
  EXPECT_EQ(s.told[0].name, "mul_sin_48");
}

TEST(Trace, ReplaysAreTold) {
  Traced s;
  const Tensor x = data({100});
  aster_ml::Program program({x}, [&] { return x.cos() + 1; });
  ASSERT_TRUE(program.ok()) << last_error();
  s.told.clear();
  EXPECT_OK(program.run({x}));
  ASSERT_EQ(s.told.size(), program.kernels());
  EXPECT_EQ(s.told[0].launch.replayed, 1);
  EXPECT_EQ(s.told[0].name, "cos_add_100");
  EXPECT_OK(s.trace(nullptr));
  EXPECT_OK(program.run({x}));
  EXPECT_EQ(s.told.size(), program.kernels()) << "nobody asks any more";
}

TEST(Trace, TheInterpreterIsOneLaunch) {
  aster_ml_context_options options{};
  options.compiler = "none";
  Traced s(options);
  EXPECT_OK((data({10}) + 1).realize());
  ASSERT_EQ(s.told.size(), 1u);
  EXPECT_EQ(s.told[0].name, "interpreted");
}

}  // namespace
}  // namespace programs
