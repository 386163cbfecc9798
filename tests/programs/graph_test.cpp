// Graphs for people: what they hold follows from the program, and bad input is refused.
#include <algorithm>

#include "aster.h"

namespace programs {
namespace {

size_t occurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

class GraphTest : public testing::Test {
 protected:
  std::string graph(const Tensor& x, int32_t level, int32_t format = ASTER_ML_GRAPH_JSON) {
    const std::string text = x.graph(level, format);
    EXPECT_NE(text, "") << last_error();
    return text;
  }
  uint64_t realizes() {
    const aster_ml_engine_counters counters = s.counters();
    return counters.realizes + counters.kernels_launched;
  }

  Session s;
};

TEST_F(GraphTest, LevelsOfASoftmax) {
  Tensor y = data({8, 32}).softmax();
  const uint64_t before = realizes();
  EXPECT_EQ(occurrences(graph(y, ASTER_ML_GRAPH_TENSOR), "\"title\""), 2U);  // buffer, call
  const std::string prepared = graph(y, ASTER_ML_GRAPH_PREPARED);
  EXPECT_EQ(occurrences(prepared, "Call:"), 0U);
  EXPECT_EQ(occurrences(prepared, "\"title\": \"Exp\""), 1U);
  EXPECT_EQ(occurrences(prepared, "\"title\": \"Reduce:Max\""), 1U);
  EXPECT_EQ(occurrences(prepared, "\"title\": \"Reduce:Add\""), 1U);
  const std::string schedule = graph(y, ASTER_ML_GRAPH_SCHEDULE);
  EXPECT_EQ(occurrences(schedule, "\"kind\": \"kernel\""), 1U);  // one pass
  EXPECT_EQ(occurrences(schedule, "\"title\": \"Input 0\""), 1U);
  EXPECT_EQ(occurrences(schedule, "\"title\": \"Result 0\""), 1U);
  EXPECT_NE(schedule.find("[[0, 1, \"\"], [1, 2, \"\"]]"), std::string::npos) << schedule;
  EXPECT_NE(schedule.find("\"bytes of operands\": \"2048\""), std::string::npos);  // 2 * 8*32*4
  EXPECT_NE(graph(y, ASTER_ML_GRAPH_KERNEL).find("\"title\": \"Fold:Max\""), std::string::npos);
  EXPECT_NE(graph(y, ASTER_ML_GRAPH_SOURCE).find("void "), std::string::npos);
  EXPECT_NE(graph(y, ASTER_ML_GRAPH_PLAN).find("order r"), std::string::npos);
  EXPECT_NE(graph(y, ASTER_ML_GRAPH_PROGRAM).find(" = Loop "), std::string::npos);
  EXPECT_EQ(realizes(), before);  // looked at, not computed
  EXPECT_FALSE(y.is_realized());
}

TEST_F(GraphTest, DotIsBalanced) {
  Tensor y = data({8, 32}).softmax();
  for (int32_t level = 0; level < 5; ++level) {
    const std::string text = graph(y, level, ASTER_ML_GRAPH_DOT);
    EXPECT_EQ(text.rfind("digraph aster {", 0), 0U);
    // Quotes that nothing escapes come in pairs.
    size_t quotes = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else {
        quotes += text[i] == '"';
      }
    }
    EXPECT_EQ(quotes % 2, 0U) << level;
  }
}

TEST_F(GraphTest, WhatIsThereNeedsNothing) {
  Tensor x = data({3});
  EXPECT_EQ(occurrences(graph(x, ASTER_ML_GRAPH_TENSOR), "\"title\""), 1U);
  EXPECT_EQ(occurrences(graph(x, ASTER_ML_GRAPH_SCHEDULE), "\"title\""), 0U);
}

TEST_F(GraphTest, WritesAreNewStates) {
  Tensor x = data({4});
  EXPECT_OK(x.assign(x + x));
  const std::string schedule = graph(x, ASTER_ML_GRAPH_SCHEDULE);
  EXPECT_EQ(occurrences(schedule, "\"title\": \"Input 0\""), 1U) << schedule;
  EXPECT_EQ(occurrences(schedule, "\"title\": \"Input 0, written\""), 1U) << schedule;
}

TEST_F(GraphTest, NodesByThemselves) {
  const int64_t shape[] = {5}, slot[] = {0};
  aster_ml_uop_options options{};
  options.struct_size = sizeof(options);
  options.op = "Param";
  options.dtype = ASTER_ML_DTYPE_FLOAT32;
  options.shape = shape;
  options.ndim = 1;
  options.arguments = slot;
  options.argument_count = 1;
  const aster_ml_uop *param = nullptr, *root = nullptr;
  EXPECT_OK(aster_ml_uop_init(&param, s.get(), &options));
  const aster_ml_uop* sources[] = {param, param};
  options = {};
  options.struct_size = sizeof(options);
  options.op = "Mul";
  options.sources = sources;
  options.source_count = 2;
  EXPECT_OK(aster_ml_uop_init(&root, s.get(), &options));
  std::string text(1 << 16, ' ');
  size_t length = 0;
  EXPECT_OK(aster_ml_engine_graph_uop(text.data(), &length, text.size(), s.get(), root,
                                      ASTER_ML_GRAPH_SCHEDULE, ASTER_ML_GRAPH_JSON));
  text.resize(length);
  EXPECT_EQ(occurrences(text, "\"kind\": \"kernel\""), 1U);
  EXPECT_EQ(occurrences(text, "\"title\": \"Input"), 1U);
  EXPECT_OK(aster_ml_uop_release(s.get(), root));
  EXPECT_OK(aster_ml_uop_release(s.get(), param));
}

TEST_F(GraphTest, Refusals) {
  Tensor x = data({3});
  Session other;
  Tensor foreign = data({3});
  const aster_ml_lazy *good[] = {x.get()}, *strange[] = {foreign.get()}, *null[] = {nullptr};
  const aster_ml_lazy empty{};
  const aster_ml_lazy* nothing[] = {&empty};
  char text[8];
  size_t length = 1;
  const auto call = [&](const aster_ml_lazy* const* tensors, int32_t level, int32_t format) {
    return aster_ml_engine_graph(nullptr, &length, 0, s.get(), tensors, 1, level, format);
  };
  EXPECT_EQ(call(good, 7, 0), ASTER_ML_RANGE);
  EXPECT_EQ(call(good, -1, 0), ASTER_ML_RANGE);
  EXPECT_EQ(call(good, 0, 2), ASTER_ML_RANGE);
  EXPECT_EQ(call(strange, 0, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(call(nothing, 0, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(call(null, 0, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(call(nullptr, 0, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(length, 0U);
  EXPECT_EQ(aster_ml_engine_graph(text, &length, sizeof(text), s.get(), good, 1, 0, 0),
            ASTER_ML_RANGE);
  EXPECT_EQ(text[0], '\0');
  EXPECT_EQ(aster_ml_engine_graph_uop(text, &length, sizeof(text), s.get(), nullptr, 0, 0),
            ASTER_ML_ARGUMENT);
}

}  // namespace
}  // namespace programs
