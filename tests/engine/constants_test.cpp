// Captures whose memory does not change: copies of it in the order in which kernels read it.
#include "engine/constants.h"

#include "engine/recording.h"
#include "engine/world.h"

namespace aster::engine::testing {
namespace {

// x times the rows of weights.
struct Captured {
  explicit Captured(World& world, Word rows = 64) : w(world) {
    x = w.cell(w.random({rows, 300}, 1));
    weights = w.cell(w.random({96, 300}, 2));
    y = w.hold(w.product(x->node, w.g().permute(weights->node, words({1, 0}))));
    expected = w.interpreted(y);
    context = w.engine().context.inner_handle();
  }
  void begin(bool constant) {
    aster_ml_lazy input{x->handle};
    aster_ml_lazy* const inputs[] = {&input};
    ASSERT_EQ(aster_ml_engine_capture_begin(&context, inputs, 1), 0);
    w.engine().recording->constant = constant;
  }
  int32_t end(Lazy* result) {
    aster_ml_lazy output{result->handle};
    aster_ml_lazy* const outputs[] = {&output};
    return aster_ml_engine_capture_end(&program, &context, outputs, 1);
  }
  // The capture of one product.
  void run(bool constant) {
    ASSERT_NO_FATAL_FAILURE(begin(constant));
    Lazy* const out = w.cell(y);
    w.realize({out});
    const std::vector<float> got = w.read(out);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;
    ASSERT_EQ(end(out), 0);
  }
  World& w;
  Lazy *x, *weights;
  Node y;
  std::vector<float> expected;
  aster_ml_context context;
  aster_ml_program program{};
};

TEST(Constants, OfACaptureAreCopiedOnce) {
  World w;
  Captured first(w);
  ASSERT_NO_FATAL_FAILURE(first.run(false));
  EXPECT_EQ(w.engine().copies.size(), 0u);
  aster_ml_program_free(&first.program);
  Captured second(w);
  second.weights = first.weights;
  ASSERT_NO_FATAL_FAILURE(second.run(true));
  ASSERT_EQ(w.engine().copies.size(), 1u);
  const buffer::Storage* const copy = w.engine().copies[0].copy;
  EXPECT_GE(copy->bytes, 96u * 300 * 4);
  // Another program of the same weights takes the same copy; with the last program it goes.
  Captured third(w);
  third.weights = second.weights;
  third.y = second.y;
  third.x = second.x;
  third.expected = second.expected;
  ASSERT_NO_FATAL_FAILURE(third.run(true));
  ASSERT_EQ(w.engine().copies.size(), 1u);
  EXPECT_EQ(w.engine().copies[0].copy, copy);
  aster_ml_program_free(&second.program);
  EXPECT_EQ(w.engine().copies.size(), 1u);
  aster_ml_program_free(&third.program);
  EXPECT_EQ(w.engine().copies.size(), 0u);
}

// Kernels that differ in what else they do read one copy; a few rows are enough for it.
TEST(Constants, OfSeveralKernelsAreCopiedOnce) {
  for (const Word rows : {Word{64}, Word{8}}) {
    World w;
    Captured one(w, rows);
    const Node weights = w.g().permute(one.weights->node, words({1, 0}));
    const Node turned = w.hold(w.product(w.g().flip(one.x->node, words({1, 0})), weights));
    const std::vector<float> expected = w.interpreted(turned);
    ASSERT_NO_FATAL_FAILURE(one.begin(true));
    Lazy *const first = w.cell(one.y), *const second = w.cell(turned);
    w.realize({first, second});
    const std::vector<float> got = w.read(second);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;
    ASSERT_EQ(one.end(first), 0);
    EXPECT_EQ(w.engine().copies.size(), 1u) << rows;
    aster_ml_program_free(&one.program);
  }
}

// Of one row each panel is read once: its copy is for that order alone.
TEST(Constants, OfOneRowLieInTheOrderOfReading) {
  World w;
  Captured one(w, 1);
  one.weights = w.cell(w.random({300, 100}, 3));
  one.y = w.hold(w.product(one.x->node, one.weights->node));
  one.expected = w.interpreted(one.y);
  ASSERT_NO_FATAL_FAILURE(one.run(true));
  ASSERT_EQ(w.engine().copies.size(), 1u);
  EXPECT_GE(w.engine().copies[0].copy->bytes, 300u * 100 * 4);
  aster_ml_program_free(&one.program);
}

// A schedule that the cache has of the same graph reads no copies.
TEST(Constants, BelongToTheKey) {
  World w;
  Captured one(w);
  ASSERT_NO_FATAL_FAILURE(one.run(true));
  const uint64_t misses = w.engine().counters.schedule_misses;
  const std::vector<float> got = w.compute(one.y);
  EXPECT_EQ(w.engine().counters.schedule_misses, misses + 1);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], one.expected[i], 1e-4) << i;
  aster_ml_program_free(&one.program);
}

TEST(Constants, ThatTheStepWritesAreRefused) {
  World w;
  Captured one(w);
  ASSERT_NO_FATAL_FAILURE(one.begin(true));
  Lazy* const out = w.cell(one.y);
  w.realize({out});
  ASSERT_EQ(assign(w.engine(), *one.weights, w.num(0, one.weights->node)).code, 0);
  w.realize({one.weights});
  EXPECT_EQ(one.end(out), ASTER_ML_ARGUMENT);
  aster_ml_error error{};
  aster_ml_error_last(&error);
  EXPECT_NE(std::string(error.message).find("were to be constant"), std::string::npos)
      << error.message;
  EXPECT_EQ(w.engine().copies.size(), 0u);
}

}  // namespace
}  // namespace aster::engine::testing
