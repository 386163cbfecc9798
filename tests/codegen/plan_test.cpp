// Plans as text, as values, and what lowering relies on: each rule by a plan that breaks it.
#include "codegen/planner.h"

#include <set>

#include "codegen/kernel_support.h"
#include "codegen/lowering.h"
#include "codegen/program_evaluator.h"
#include "codegen/sizes.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kF32 = DType::kFloat32;

// Products of a 6 x 10 and a 10 x 20 matrix (r0: rows, r1: columns, r2: terms), added to p3 where
// that is what is written.
Node product(Suite& s, bool in_place = false, int64_t rows = 6) {
  Node i = s.range(0, rows), j = s.range(1, 20), k = s.range(2, 10);
  Node a = s.load(s.param(0, kF32, rows * 10), s.at({{i, 10}, {k, 1}}));
  Node b = s.load(s.param(1, kF32, 200), s.at({{k, 20}, {j, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  Node out = s.param(3, kF32, rows * 20), at = s.at({{i, 20}, {j, 1}});
  if (in_place) sum = s.op(Op::kAdd, sum, s.load(out, at));
  return s.graph.sink(std::array{s.store(out, at, sum, {i, j})});
}

// Rows of 20 less their sums: segment 0 has the rows and the fold, 1 the columns.
Node centred(Suite& s) {
  Node i = s.range(0, 6), j = s.range(1, 20), k = s.range(2, 20);
  Node x = s.param(0, kF32, 120);
  Node sum = s.fold(Op::kAdd, s.load(x, s.at({{i, 20}, {k, 1}})), {k});
  Node here = s.at({{i, 20}, {j, 1}});
  return s.graph.sink(std::array{
      s.store(s.param(1, kF32, 120), here, s.op(Op::kSub, s.load(x, here), sum), {i, j})});
}

std::string checked(Node node, const std::string& text, const Target& target = target_of(32)) {
  Kernel kernel(process_heap());
  EXPECT_TRUE(kernel.analyse(node).ok()) << last_message();
  Plan plan(process_heap());
  EXPECT_TRUE(read(&plan, text).ok()) << last_message() << "\n" << text;
  const Status status = check(plan, kernel, target);
  if (status.ok()) return "";
  EXPECT_EQ(status.code, static_cast<int32_t>(Code::kARGUMENT));
  // What is refused here is refused where kernels are rendered.
  Suite s;
  Rendered out(process_heap());
  EXPECT_EQ(render(out, s.graph, node, target, nullptr, &plan).code, status.code);
  return last_message();
}

TEST(Plan, ReadsAndPrintsEveryField) {
  const std::string text =
      "plan\n"
      "0: vector r1 8 overlap; tile r3 14 scalar, r0 2, r2 6 then 4; order r1/64 r0 r1 r3; tasks "
      "r1/128; "
      "pack p1 p2; ready p1 p2; fetch p2; stream p0 p3; rolled 4; kept; items 64\n"
      "0.0: vector r4 4 mask; tile r4 2; order r4; written r5 r6\n"
      "0.1: order r2\n"
      "1:\n";
  Plan plan(process_heap()), again(process_heap());
  ASSERT_TRUE(read(&plan, text).ok()) << last_message();
  Text out(process_heap());
  ASSERT_TRUE(print(out, plan).ok());
  EXPECT_EQ(out.view(), text);
  ASSERT_TRUE(read(&again, "# a comment\n\nplan # of two segments\n\n" + text.substr(5)).ok());
  EXPECT_TRUE(again == plan);
  EXPECT_EQ(digest(again), digest(plan));
  EXPECT_EQ(plan.at(0).nest.step(0), 2);
  EXPECT_EQ(plan.at(0).folds[0].step(4), 8);
  EXPECT_EQ(plan.at(0).tasks.chunk, 128);
  // Every number and word of it counts.
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"r1 8", "r1 4"},
                                                        {"overlap", "scalar"},
                                                        {"14", "13"},
                                                        {"then 4", "then 3"},
                                                        {"then 4", "overlap"},
                                                        {"kept; ", ""},
                                                        {"r0 2,", "r4 2,"},
                                                        {"/64", "/32"},
                                                        {"/128", "/256"},
                                                        {"p0 p3", "p0 p2"},
                                                        {"pack p1 p2", "pack p1"},
                                                        {"fetch p2", "fetch p1"},
                                                        {"fetch p2; ", ""},
                                                        {"rolled 4", "rolled 2"},
                                                        {"items 64", "items 32"},
                                                        {"r5 r6", "r5 r7"},
                                                        {"order r2", "order r3"},
                                                        {"mask", ""},
                                                        {"\n1:", ""},
                                                        {"; tasks r1/128", ""},
                                                        {"plan", "plan general"}}) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    ASSERT_TRUE(read(&again, other).ok()) << last_message() << "\n" << other;
    EXPECT_FALSE(again == plan) << other;
    EXPECT_NE(digest(again), digest(plan)) << other;
  }
}

TEST(Plan, MalformedTextNamesItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "line 1: plan expected, not \"the end\""},
      {"program p\n", "line 1: plan expected, not \"program\""},
      {"plan 0: order r0", "line 1: the end of the line expected, not \"0\""},
      {"plan\nr0: order r0", "line 2: the number of a segment"},
      {"plan\n1: order r0", "line 2: the next segment"},
      {"plan\n0.0: order r0", "line 2: the next group of folds"},
      {"plan\n0:\n0.1:", "line 3: the next group of folds"},
      {"plan\n0 order r0", "line 2: : expected"},
      {"plan\n0: order", "line 2: a range"},
      {"plan\n0: order r64", "line 2: a range"},
      {"plan\n0: order r0/0", "line 2: a number of elements"},
      {"plan\n0: order r0/-4", "line 2: a number of elements"},
      {"plan\n0: order r0/99999999999999999999", "line 2: a number of elements"},
      {"plan\n0: vector r0", "line 2: a number of lanes"},
      {"plan\n0: vector r0 128", "line 2: a number of lanes"},
      {"plan\n0: tile r0 1000000", "line 2: a number of copies"},
      {"plan\n0: tile r0 2, r1 2, r2 2, r3 2, r4 2", "line 2: no more tiles"},
      {"plan\n0: order r0; vector r0 4", "line 2: vector, tile, order"},
      {"plan\n0: order r0; order r0", "line 2: vector, tile, order"},
      {"plan\n0: order r0; unroll r1", "line 2: vector, tile, order"},
      {"plan\n0: order r0;", "line 2: vector, tile, order"},
      {"plan\n0: order r0 r1; tasks r1", "line 2: the next loop of the order"},
      {"plan\n0: order r0; tasks r0 r0", "line 2: the next loop of the order"},
      {"plan\n0:\n0.0: order r0; tasks r0", "line 3: vector, tile, order"},
      {"plan\n0: order r0; stream p3 p3", "line 2: the next param"},
      {"plan\n0: order r0; pack r1", "line 2: the next param"},
      {"plan\n0: order r0; pack p2 p1", "line 2: the next param"},
      {"plan\n0: order r0; rolled", "line 2: a number of copies"},
      {"plan\n0: vector r0 4 sideways", "line 2: the end of the line"},
      {"plan\n0: tile r0 4 then; order r0", "line 2: a number of copies"},
      {"plan\n0: kept 4", "line 2: the end of the line"},
  };
  for (const auto& [text, error] : cases) {
    Plan plan(process_heap());
    EXPECT_EQ(read(&plan, text).code, static_cast<int32_t>(Code::kFORMAT)) << text;
    EXPECT_TRUE(last_message().starts_with(error)) << text << "\n" << last_message();
    EXPECT_TRUE(plan.segments.empty());
  }
}

TEST(Plan, RulesOfSegments) {
  Suite s;
  const Node node = product(s), again = product(s, true);
  const std::string folds = "\n0.0: order r2\n";
  const auto of = [&](const std::string& line) { return "plan\n0: " + line + folds; };
  EXPECT_EQ(checked(node, of("vector r1 4; tile r0 3; order r0 r1; tasks r0 r1/8; rolled 2")), "");
  EXPECT_EQ(checked(node, of("vector r1 8 overlap; order r1/16 r0 r1; stream p3")), "");
  EXPECT_EQ(checked(again, of("vector r1 8 scalar; tile r0 4 scalar; order r0 r1")), "");
  EXPECT_EQ(checked(node, of("vector r1 8 overlap; tile r0 4 then 2; order r1 r0")), "");
  EXPECT_EQ(checked(again, of("tile r0 4 then 1; order r0 r1; tasks r0/4")), "");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"vector r2 2; order r0 r1", "plan 0: vector: r2 is none of its ranges"},
      {"vector r1 1; order r0 r1", "plan 0: vector: 1 lanes are no power of two"},
      {"vector r1 6 scalar; order r0 r1", "plan 0: vector: 6 lanes are no power of two"},
      {"vector r1 16 scalar; order r0 r1",
       "plan 0: vector: 16 lanes, the target computes this in 8"},
      {"vector r0 8 scalar; order r0 r1", "plan 0: vector: r0 has fewer than 8 elements"},
      {"vector r1 8; order r0 r1", "plan 0: vector: steps of 8 leave a rest of r1"},
      {"vector r1 8 mask; order r0 r1",
       "plan 0: vector: only folds and ranges of less than a vector leave lanes out"},
      {"vector r1 4 scalar; tile r1 2 overlap; order r0 r1",
       "plan 0: vector: the tile of r1 says what is left"},
      {"tile r2 2; order r0 r1", "plan 0: tile: r2 is none of its ranges"},
      {"tile r0 2, r0 3; order r0 r1", "plan 0: tile: r0 is tiled twice"},
      {"tile r0 1; order r0 r1", "plan 0: tile: r0 has no copies"},
      {"tile r0 64 scalar, r1 100 scalar; order r0 r1", "plan 0: tile: more than 4096 copies"},
      {"tile r0 4; order r0 r1", "plan 0: tile: steps of 4 leave a rest of r0"},
      {"tile r0 7 overlap; order r0 r1",
       "plan 0: tile: overlap of r0, which is shorter than a step"},
      {"tile r0 4 then 4; order r0 r1",
       "plan 0: tile: steps of fewer copies do not cover what is left of r0"},
      {"tile r0 3 then 2; order r0 r1",
       "plan 0: tile: steps of fewer copies do not cover what is left of r0"},
      {"tile r1 6 then 4; order r1/6 r0 r1",
       "plan 0: tile: steps of fewer copies do not cover what is left of r1"},
      {"order r0 r1; kept", "plan 0: kept: the folds around compute nothing that is stored here"},
      {"order r0 r1; written r2", "plan 0: written: ranges of folds alone"},
      {"order r0", "plan 0: order: r1 has no loop"},
      {"order r0 r1 r2", "plan 0: order: r2 is none of its ranges"},
      {"order r0 r1 r0", "plan 0: order: r0 is behind its own loop"},
      {"order r0 r1 r1/4", "plan 0: order: r1 is behind its own loop"},
      {"vector r1 4; order r1/6 r0 r1", "plan 0: order: blocks of 6 are no whole steps of r1"},
      {"order r1/40 r0 r1", ""},
      {"order r1/8 r0 r1; tasks r1 r0 r1", "plan 0: tasks: r1 twice"},
      {"tile r0 3; order r0 r1; tasks r0/4", "plan 0: tasks: 4 elements are no whole steps of r0"},
      {"order r0 r1; stream p0", "plan 0: stream: the segment does not write p0"},
      {"vector r1 8 overlap; order r1 r0; pack p1", ""},
      {"order r0 r1; pack p0", ""},
      {"vector r1 8 overlap; order r1 r0; pack p0",
       "plan 0: pack: no fold reads p0 in vectors that the innermost loop shares"},
      {"vector r1 8 overlap; order r0 r1; pack p1",
       "plan 0: pack: no fold reads p1 in vectors that the innermost loop shares"},
      {"order r1 r0; pack p3",
       "plan 0: pack: no fold reads p3 in vectors that the innermost loop shares"},
      {"vector r1 8 overlap; order r1 r0; pack p1; ready p1; fetch p1", ""},
      {"vector r1 8 overlap; order r1 r0; pack p1; fetch p1", "plan 0: fetch: p1 is not ready"},
      {"tile r0 2; order r0 r1; rolled 2", ""},
  };
  for (const auto& [line, error] : cases) EXPECT_EQ(checked(node, of(line)), error) << line;
  EXPECT_EQ(checked(again, of("tile r0 4 overlap; order r0 r1")),
            "plan 0: tile: overlap of r0, and the kernel reads what it writes");
  EXPECT_EQ(checked(again, of("order r0 r1; stream p3")), "plan 0: stream: the kernel reads p3");
  Target plain = target_of(32);
  plain.streaming = false;
  EXPECT_EQ(checked(node, of("order r0 r1; stream p3"), plain),
            "plan 0: stream: the target has no such stores");
}

TEST(Plan, RulesOfFolds) {
  Suite s;
  const Node node = product(s);
  const auto of = [&](const std::string& line) {
    return "plan\n0: order r0 r1\n0.0: " + line + "\n";
  };
  EXPECT_EQ(checked(node, of("vector r2 4 mask; order r2")), "");
  EXPECT_EQ(checked(node, of("vector r2 2; tile r2 2 mask; order r2")), "");
  EXPECT_EQ(checked(node, of("written r2")), "");
  EXPECT_EQ(checked(node, of("order r2/4 r2")), "");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"vector r0 2; order r2", "plan 0.0: vector: r0 is none of its ranges"},
      {"vector r2 16; order r2", "plan 0.0: vector: 16 lanes, the target computes this in 8"},
      {"vector r2 4; order r2", "plan 0.0: vector: steps leave a rest of r2"},
      {"vector r2 4 scalar; order r2", "plan 0.0: vector: folds are even, or leave lanes out"},
      {"vector r2 2 mask; tile r2 2 mask; order r2",
       "plan 0.0: vector: the tile of r2 says what is left"},
      {"tile r2 2; order r2", "plan 0.0: tile: r2 is not what these folds are vectorised along"},
      {"vector r2 2; tile r2 3 mask; order r2", "plan 0.0: tile: 3 copies are no power of two"},
      {"order r2 r1", "plan 0.0: order: r1 is none of its ranges"},
      {"vector r2 2; order r2/4 r2",
       "plan 0.0: order: blocks are of segments, and of what the next folds look for"},
      {"order r2/10 r2", "plan 0.0: order: a block of all terms of r2, or too many sums"},
      {"written r2 r1", "plan 0.0: written: a range that is none of these folds'"},
      {"vector r2 2; written r2", "plan 0.0: written: r2 is vectorised"},
      {"order r2; written r2", "plan 0.0: order: r2 is none of its ranges"},
  };
  for (const auto& [line, error] : cases) EXPECT_EQ(checked(node, of(line)), error) << line;
  EXPECT_EQ(checked(node, "plan\n0: vector r1 4; order r0 r1\n0.0: vector r2 2; order r2\n"),
            "plan 0.0: vector: a segment around is vectorised");
  EXPECT_EQ(checked(node, "plan\n0: order r0 r1\n"), "plan 0: folds: 0 groups, the kernel has 1");
  EXPECT_EQ(checked(node, "plan\n"), "plan: 0 segments, the kernel has 1");
  Node i = s.range(0, 2), k = s.range(1, 5000);
  Node sum = s.fold(Op::kMax, s.load(s.param(0, kF32, 10000), s.at({{k, 2}, {i, 1}})), {k});
  const Node maxima = s.graph.sink(std::array{s.store(s.param(1, kF32, 2), i, sum, {i})});
  EXPECT_EQ(checked(maxima, "plan\n0: order r0\n0.0: written r1\n"),
            "plan 0.0: written: more than 4096 iterations");
}

TEST(Plan, RulesOfSegmentsInSegments) {
  Suite s;
  const Node node = centred(s);
  const std::string root = "plan\n0: order r0; tasks r0\n0.0: vector r2 4; order r2\n";
  EXPECT_EQ(checked(node, root + "1: vector r1 8 overlap; order r1\n"), "");
  EXPECT_EQ(checked(node, root + "1: order r1; tasks r1\n"),
            "plan 1: tasks: the segment is in the loops of another");
  EXPECT_EQ(checked(node, root + "1: tile r1 2; order r1; rolled 1\n"),
            "plan 1: rolled: only a root whose stores follow its folds");
  EXPECT_EQ(
      checked(node, "plan\n0: vector r0 2; order r0\n0.0: order r2\n1: vector r1 4; order r1\n"),
      "plan 1: vector: a segment around is vectorised");
}

// Blocks that the items of a group share.
TEST(Plan, RulesOfBlocks) {
  Suite s;
  Target target = target_of_items();
  target.group_limit = 16;
  const Node node = product(s);
  const auto of = [&](const std::string& line, const char* folds = "order r2") {
    return "plan\n0: " + line + "\n0.0: " + folds + "\n";
  };
  const std::string block = "order r0/2 r1/4 r0 r1; tasks r0 r1; ";
  const auto told = [&](const std::string& text) { return checked(node, text, target); };
  EXPECT_EQ(told(of(block + "items 8")), "");
  EXPECT_EQ(told(of(block + "pack p0 p1; items 8", "order r2/4 r2")), "");
  EXPECT_EQ(told(of(block + "items 16")), "");
  EXPECT_EQ(told(of("vector r1 4; tile r0 2; order r0/8 r1/8 r0 r1; tasks r0 r1; pack p1; "
                    "items 8",
                    "order r2/3 r2")),
            "");
  EXPECT_EQ(told(of("order r0 r1/4 r1; tasks r0 r1; items 4")), "");
  EXPECT_EQ(told(of("order r1/4 r1 r0; tasks r1; items 8", "written r2")),
            "plan 0: items: 8 for 24 steps with folds");
  const std::vector<std::pair<std::string, std::string>> cases{
      {of(block + "items 3"), "plan 0: items: 3 are no group of the target's"},
      {of(block + "items 32"), "plan 0: items: 32 are no group of the target's"},
      {of(block + "items 4"), "plan 0: items: 4 for 8 steps with folds"},
      {of(block + "pack p0; items 16"), "plan 0: items: 16 cannot share 8 steps"},
      {of("order r0/3 r1/2 r0 r1; tasks r0 r1; items 16"),
       "plan 0: items: 16 cannot share 6 steps"},
      {of("tile r0 2; order r0/2 r1/4 r0 r1; tasks r0 r1; items 8"),
       "plan 0: items: 8 cannot share 4 steps"},
      {of("tile r0 4 overlap; order r0/4 r1/8 r0 r1; tasks r0 r1; items 8"),
       "plan 0: tile: blocks of groups leave no rest of r0"},
      {of("tile r0 2; order r0 r1/8 r1; tasks r0 r1; items 8"),
       "plan 0: tasks: r0 goes in steps of 2"},
      {of("order r0/2 r1/4 r0 r1; tasks r0 r1/8; items 8"),
       "plan 0: tasks: a task of a group is one step"},
      {of("order r0/2 r1/4 r0 r1; tasks r0; items 8"),
       "plan 0: order: a block of r1 behind the tasks"},
      {of(block + "rolled 2; items 8"), "plan 0: rolled: copies of a group's items"},
      {of(block + "items 8", "vector r2 2; order r2"), "plan 0.0: vector: items share r2"},
      {of(block + "items 8", "order r2/4 r2"), "plan 0.0: order: blocks are of what is packed"},
      {of(block + "items 16", "written r2"), "plan 0.0: order: no loop that items can share"},
      {of(block + "pack p3; items 8"), "plan 0: pack: no element of p3 that items share"},
      {of("order r0 r1; pack p0"), "plan 0: pack: no items that share a block"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(told(text), error) << text;
  Target small = target;
  small.local_bytes = 100;
  EXPECT_EQ(checked(node, of(block + "pack p0 p1; items 8"), small),
            "plan 0: pack: 288 bytes of local memory, the target has 100");
  EXPECT_EQ(checked(product(s, true), of(block + "items 8"), target),
            "plan 0: items: not a kernel whose loops items can share");
}

std::string planned(Node node, const Target& target) {
  Plan plan(process_heap());
  EXPECT_TRUE(plan_kernel(&plan, node, target, process_heap()).ok()) << last_message();
  Text out(process_heap());
  EXPECT_TRUE(print(out, plan).ok());
  return std::string(out.view());
}

// What is planned for groups: transposes, products, short rows and few columns go through local
// memory, as far as the device has it.
TEST(Plan, GroupsShareBlocks) {
  Suite s;
  Target target = target_of_items();
  target.group = 64;
  target.group_limit = 256;
  Node i = s.range(0, 100), j = s.range(1, 200), k = s.range(2, 300);
  Node x = s.param(0, kF32, 30000), y = s.param(1, kF32, 60000), z = s.param(2, kF32, 20000);
  const Node here = s.at({{i, 200}, {j, 1}});
  const Node turned = s.load(s.param(3, kF32, 20000), s.at({{j, 100}, {i, 1}}));
  const Node transpose = s.graph.sink(std::array{s.store(z, here, turned, {i, j})});
  const Node a = s.load(x, s.at({{i, 300}, {k, 1}})), b = s.load(y, s.at({{k, 200}, {j, 1}}));
  const Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  const Node contraction = s.graph.sink(std::array{s.store(z, here, sum, {i, j})});
  const Node column = s.graph.sink(std::array{s.store(z, j, s.fold(Op::kAdd, b, {k}), {j})});
  Node c = s.range(0, 500), d = s.range(1, 60);
  const Node terms = s.load(x, s.at({{c, 60}, {d, 1}}));
  const Node row = s.graph.sink(std::array{s.store(z, c, s.fold(Op::kMax, terms, {d}), {c})});
  EXPECT_EQ(planned(transpose, target),
            "plan\n0: order r0/32 r1/32 r0 r1; tasks r0 r1; pack p3; items 64\n");
  EXPECT_EQ(planned(contraction, target),
            "plan\n0: vector r1 4; tile r0 4; order r0/32 r1/32 r0 r1; tasks r0 r1; pack p0 "
            "p1; items 64\n0.0: order r2/16 r2\n");
  EXPECT_EQ(planned(column, target),
            "plan\n0: vector r1 4; order r1/64 r1; tasks r1; items 256\n0.0: order r2\n");
  EXPECT_EQ(planned(row, target),
            "plan\n0: order r0/64 r0; tasks r0; pack p0; items 64\n0.0: order r1/32 r1\n");
  target.local_bytes = 1000;
  for (Node node : {transpose, contraction, column, row})
    EXPECT_EQ(planned(node, target).find("items"), std::string::npos) << planned(node, target);
}

// Squares that are turned, and stores that a tile does not move, keep their copies written out.
TEST(Plan, WhatMayBeRolled) {
  Suite s;
  Node i = s.range(0, 16), j = s.range(1, 16), k = s.range(2, 64);
  Node a = s.load(s.param(0, kF32, 1024), s.at({{i, 64}, {k, 1}}));
  Node b = s.load(s.param(1, kF32, 1024), s.at({{k, 16}, {j, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  Node x = s.load(s.param(2, kF32, 256), s.at({{j, 16}, {i, 1}}));
  const Node node = s.graph.sink(std::array{
      s.store(s.param(3, kF32, 256), s.at({{i, 16}, {j, 1}}), s.op(Op::kAdd, sum, x), {i, j})});
  const std::string folds = "\n0.0: order r2\n";
  EXPECT_EQ(checked(node, "plan\n0: vector r1 8; tile r0 4; order r0 r1; rolled 4" + folds), "");
  EXPECT_EQ(checked(node, "plan\n0: vector r1 8; tile r0 8; order r0 r1; rolled 4" + folds),
            "plan 0: rolled: a square of registers is turned");
}

// Too much text is told by the program that comes of a plan.
TEST(Plan, ProgramsThatAreTooLong) {
  Suite s;
  Node i = s.range(0, 48), j = s.range(1, 48), k = s.range(2, 4);
  Node a = s.load(s.param(0, kF32, 192), s.at({{i, 4}, {k, 1}}));
  Node b = s.load(s.param(1, kF32, 192), s.at({{k, 48}, {j, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  const Node node = s.graph.sink(
      std::array{s.store(s.param(2, kF32, 2304), s.at({{i, 48}, {j, 1}}), sum, {i, j})});
  Plan plan(process_heap());
  ASSERT_TRUE(read(&plan, "plan\n0: tile r0 48, r1 48; order r0 r1\n0.0: written r2\n").ok());
  Rendered out(process_heap());
  EXPECT_EQ(render(out, s.graph, node, target_of(32), nullptr, &plan).code,
            static_cast<int32_t>(Code::kARGUMENT));
  EXPECT_NE(last_message().find("4096"), std::string::npos) << last_message();
}

// A kernel's name is of its plan as well.
int copies_of_rows(int64_t rows, bool general) {
  Suite s;
  Kernel kernel(process_heap());
  EXPECT_TRUE(kernel.analyse(product(s, false, rows)).ok()) << last_message();
  Plan plan(process_heap());
  plan.general = general;
  EXPECT_TRUE(make_plan(&plan, kernel, target_of(32), process_heap()).ok()) << last_message();
  return plan.at(0).nest.copies(0);
}

// A number of rows that no tile divides has tiles that overlap.
TEST(Plan, PrimesHaveTiles) {
  EXPECT_EQ(copies_of_rows(6, false), 6);
  EXPECT_EQ(copies_of_rows(12, false), 6);
  for (const int64_t prime : {11, 13, 17, 19, 23, 29, 31, 101, 131, 257, 65537})
    EXPECT_GE(copies_of_rows(prime, false), 4) << prime;
}

// The plan of a product of matrices whose rows are so many elements apart, for vectors of 64 bytes.
std::string plan_of_product(int64_t rows, int64_t terms, int64_t columns, int64_t apart) {
  Suite s;
  Node i = s.range(0, rows), j = s.range(1, columns), k = s.range(2, terms);
  Node a = s.load(s.param(0, kF32, rows * apart), s.at({{i, apart}, {k, 1}}));
  Node b = s.load(s.param(1, kF32, terms * columns), s.at({{k, columns}, {j, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  Node out = s.param(2, kF32, rows * columns), at = s.at({{i, columns}, {j, 1}});
  Node node = s.graph.sink(std::array{s.store(out, at, sum, {i, j})});
  Kernel kernel(process_heap());
  EXPECT_TRUE(kernel.analyse(node).ok()) << last_message();
  Plan plan(process_heap());
  EXPECT_TRUE(make_plan(&plan, kernel, target_of(64), process_heap()).ok()) << last_message();
  EXPECT_TRUE(check(plan, kernel, target_of(64)).ok()) << last_message();
  Text text(process_heap());
  EXPECT_TRUE(print(text, plan).ok());
  return std::string(text.view());
}

// The plan of a correlation of so many filters of 3 x 3 over 32 channels; border: what a condition
// leaves out at one side.
std::string plan_of_correlation(int64_t filters, int64_t out, int64_t border) {
  Suite s;
  const int64_t side = out + 2, size = 32 * side * side;
  Node o = s.range(0, filters), y = s.range(1, out), x = s.range(2, out);
  Node c = s.range(3, 32), ky = s.range(4, 3), kx = s.range(5, 3);
  Node at = s.at({{c, side * side}, {y, side}, {ky, side}, {x, 1}, {kx, 1}});
  Node inside = s.ge(s.at({{x, 1}, {kx, 1}}), border);
  Node image = s.param(0, kF32, size);
  Node a = border > 0 ? s.load(image, at, inside) : s.load(image, at);
  Node w = s.load(s.param(1, kF32, filters * 288), s.at({{o, 288}, {c, 9}, {ky, 3}, {kx, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, w), {c, ky, kx});
  Node to = s.param(2, kF32, filters * out * out);
  return planned(s.graph.sink(std::array{
                     s.store(to, s.at({{o, out * out}, {y, out}, {x, 1}}), sum, {o, y, x})}),
                 target_of(64));
}

// The gradient to so many filters of 3 x 3 over 32 channels: r0 filters, r1 channels, r2 and r3
// taps, r4 and r5 places. In place: added to what is there.
Node gradient_to_filters(Suite& s, int64_t filters, int64_t places, bool in_place = false) {
  const int64_t side = places + 2, all = places * places;
  Node o = s.range(0, filters), c = s.range(1, 32), ky = s.range(2, 3), kx = s.range(3, 3);
  Node y = s.range(4, places), x = s.range(5, places);
  Node a = s.load(s.param(0, kF32, 32 * side * side),
                  s.at({{c, side * side}, {y, side}, {ky, side}, {x, 1}, {kx, 1}}));
  Node b = s.load(s.param(1, kF32, filters * all), s.at({{o, all}, {y, places}, {x, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {y, x});
  Node out = s.param(2, kF32, filters * 288), at = s.at({{o, 288}, {c, 9}, {ky, 3}, {kx, 1}});
  if (in_place) sum = s.op(Op::kAdd, sum, s.load(out, at));
  return s.graph.sink(std::array{s.store(out, at, sum, {o, c, ky, kx})});
}

// 3 x 3 windows over planes of `side` pixels, r0 planes, r1 rows, r2 columns: with weights of each
// plane, or their maximum; border: what a condition leaves out at one side.
std::string plan_of_windows(int64_t side, int64_t window, int64_t border, bool weighted) {
  Suite s;
  const int64_t in = side + window - 1;
  Node p = s.range(0, 64), y = s.range(1, side), x = s.range(2, side);
  Node ky = s.range(3, window), kx = s.range(4, window);
  Node at = s.at({{p, in * in}, {y, in}, {ky, in}, {x, 1}, {kx, 1}});
  Node inside = s.ge(s.at({{x, 1}, {kx, 1}}), border);
  Node image = s.param(0, kF32, 64 * in * in);
  Node value = border > 0 ? s.load(image, at, inside) : s.load(image, at);
  if (weighted) {
    Node w = s.load(s.param(1, kF32, 64 * window * window),
                    s.at({{p, window * window}, {ky, window}, {kx, 1}}));
    value = s.op(Op::kMul, value, w);
  }
  Node fold = s.fold(weighted ? Op::kAdd : Op::kMax, value, {ky, kx});
  Node to = s.param(weighted ? 2 : 1, kF32, 64 * side * side);
  return planned(s.graph.sink(std::array{
                     s.store(to, s.at({{p, side * side}, {y, side}, {x, 1}}), fold, {p, y, x})}),
                 target_of(64));
}

// Rows of four pixels have no vectors: their filters have, and a tile is of pixels of one image.
TEST(Plan, RowsOfFewPixels) {
  Suite s;
  Node b = s.range(0, 16), f = s.range(1, 512), y = s.range(2, 4), x = s.range(3, 4);
  Node c = s.range(4, 256), ky = s.range(5, 4), kx = s.range(6, 4);
  Node image = s.load(s.param(0, kF32, 16 * 256 * 100),
                      s.at({{b, 256 * 100}, {c, 100}, {y, 20}, {ky, 10}, {x, 2}, {kx, 1}}));
  Node filters = s.load(s.param(1, kF32, 512 * 4096), s.at({{f, 4096}, {c, 16}, {ky, 4}, {kx, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, image, filters), {c, ky, kx});
  Node at = s.at({{b, 512 * 16}, {f, 16}, {y, 4}, {x, 1}});
  const std::string plan = planned(
      s.graph.sink(std::array{s.store(s.param(2, kF32, 16 * 512 * 16), at, sum, {b, f, y, x})}),
      target_of(64));
  EXPECT_NE(plan.find("vector r1 16; tile r3 4"), std::string::npos) << plan;
}

// All that shares a copy of turned columns goes by before the next one is made.
TEST(Plan, ColumnsThatMuchShares) {
  Suite s;
  const Node node = gradient_to_filters(s, 64, 14);
  const std::string plan = planned(node, target_of(64));
  EXPECT_EQ(plan,
            "plan\n0: vector r0 16; tile r1 8, r0 2; order r0 r2 r3 r1; tasks r0 r2 r3/3; pack p1\n"
            "0.0: order r4 r5\n");
  // Too few filters for a vector, and sums that are over before their results are stored.
  EXPECT_EQ(planned(gradient_to_filters(s, 8, 14), target_of(64)).find("pack"), std::string::npos);
  EXPECT_EQ(planned(gradient_to_filters(s, 64, 7), target_of(64)).find("vector r0"),
            std::string::npos);
  Kernel kernel(process_heap());
  ASSERT_TRUE(kernel.analyse(node).ok()) << last_message();
  Plan copied(process_heap());
  ASSERT_TRUE(make_plan(&copied, kernel, target_of(64), process_heap()).ok());
  EXPECT_EQ(pack_loop(kernel, copied, 0, false), 1) << "outside the taps";
}

// What a step of training adds to in place has the same tiles, as long as no vector overlaps.
TEST(Plan, ColumnsThatAreAddedTo) {
  Suite s;
  EXPECT_EQ(planned(gradient_to_filters(s, 64, 14, true), target_of(64)),
            planned(gradient_to_filters(s, 64, 14), target_of(64)));
  const std::string uneven = planned(gradient_to_filters(s, 72, 14, true), target_of(64));
  EXPECT_EQ(uneven.find("vector r0"), std::string::npos) << uneven;
  EXPECT_EQ(uneven.find("overlap"), std::string::npos) << uneven;
}

// Rows of windows lie side by side, so that what overlaps is read once; the rows of a window are
// written out, its columns are a loop.
TEST(Plan, WindowsShareRows) {
  const std::string rows =
      "plan\n0: vector r2 16 overlap; tile r1 8; order r0 r1 r2; tasks r0/%\n"
      "0.0: order r4; written r3\n";
  const auto without_tasks = [](std::string plan) {
    const size_t from = plan.find("tasks r0") + 8, to = plan.find('\n', from);
    return plan.replace(from, to - from, "/%");
  };
  for (const int64_t window : {3, 5, 7}) {
    for (const int64_t padding : {0, 1})
      EXPECT_EQ(without_tasks(plan_of_windows(56, window, padding, true)), rows);
  }
  EXPECT_EQ(without_tasks(plan_of_windows(56, 3, 1, false)), rows);
  const std::string short_rows = plan_of_windows(7, 3, 1, true);
  EXPECT_NE(short_rows.find("tile r1 7;"), std::string::npos) << short_rows;
}

// Rows that tasks share and the border leaves out have code of their own; of all rows together a
// compiler knows which.
TEST(Plan, RowsBetweenBordersHaveNoConditions) {
  for (const int64_t planes : {2, 512}) {
    Suite s;
    const int64_t side = 112, in = 114;
    Node p = s.range(0, planes), y = s.range(1, side), x = s.range(2, side);
    Node ky = s.range(3, 3), kx = s.range(4, 3);
    Node at = s.at({{p, in * in}, {y, in}, {ky, in}, {x, 1}, {kx, 1}});
    Node value =
        s.load(s.param(0, kF32, planes * in * in), at, s.ge(s.at({{y, 1}, {ky, 1}}), int64_t{1}));
    Node w = s.load(s.param(1, kF32, planes * 9), s.at({{p, 9}, {ky, 3}, {kx, 1}}));
    Node fold = s.fold(Op::kAdd, s.op(Op::kMul, value, w), {ky, kx});
    Node to = s.param(2, kF32, planes * side * side);
    Node node = s.graph.sink(
        std::array{s.store(to, s.at({{p, side * side}, {y, side}, {x, 1}}), fold, {p, y, x})});
    program::Module module(process_heap());
    ASSERT_TRUE(lower_kernel(&module, "rows", node, target_of(32), process_heap()).ok())
        << last_message();
    const program::Program& made = module.programs.back();
    const auto columns = std::ranges::count_if(made.code(), [&](const program::Instruction& of) {
      return of.op == Op::kLoop && of.is(program::Flag::kImmediateHigh) && made.words(of)[1] == 3;
    });
    EXPECT_EQ(columns, planes == 2 ? 2 : 1);
  }
}

// Results that lie between each other are stored together.
TEST(Plan, PairsOfResults) {
  for (const auto& [between, in_place] :
       {std::pair{int64_t{2}, false}, {int64_t{3}, false}, {int64_t{2}, true}}) {
    Suite s;
    Node i = s.range(0, 100), j = s.range(1, 50), k = s.range(2, between);
    Node x = s.load(s.param(0, kF32, 100 * 50), s.at({{i, 50}, {j, 1}}));
    Node w = s.load(s.param(1, kF32, between), s.at({{k, 1}}));
    Node to = s.param(2, kF32, 100 * 50 * between);
    Node at = s.at({{i, 50 * between}, {j, between}, {k, 1}}), y = s.op(Op::kMul, x, w);
    if (in_place) y = s.op(Op::kAdd, y, s.load(to, at));
    const std::string plan =
        planned(s.graph.sink(std::array{s.store(to, at, y, {i, j, k})}), target_of(64));
    const bool pairs = plan.find("vector r1 16 overlap; tile r2 2;") != std::string::npos;
    EXPECT_EQ(pairs, between == 2 && !in_place) << plan;
  }
}

// A range of less than a vector fills one, whose other lanes are left out.
TEST(Plan, RangesOfLessThanAVector) {
  EXPECT_NE(plan_of_windows(11, 3, 0, true).find("vector r2 16 mask"), std::string::npos);
  EXPECT_NE(plan_of_windows(7, 3, 0, false).find("vector r2 8 mask"), std::string::npos);
  EXPECT_EQ(plan_of_windows(17, 3, 0, false).find("mask"), std::string::npos);
  EXPECT_NE(plan_of_correlation(12, 9, 0).find("vector r0 16 mask"), std::string::npos);
}

// A param that is both operands of a product is packed where it is the second.
TEST(Plan, MatricesByThemselves) {
  Suite s;
  Node i = s.range(0, 256), j = s.range(1, 256), k = s.range(2, 256);
  Node x = s.param(0, kF32, 256 * 256);
  Node sum = s.fold(
      Op::kAdd,
      s.op(Op::kMul, s.load(x, s.at({{i, 256}, {k, 1}})), s.load(x, s.at({{j, 256}, {k, 1}}))),
      {k});
  const Node node = s.graph.sink(
      std::array{s.store(s.param(1, kF32, 256 * 256), s.at({{i, 256}, {j, 1}}), sum, {i, j})});
  EXPECT_NE(planned(node, target_of(64)).find("pack p0"), std::string::npos);
}

// Filters lie in the lanes where an image is read without conditions: rows of 14 lose no lane.
TEST(Plan, FiltersInTheLanes) {
  EXPECT_EQ(plan_of_correlation(64, 14, 0),
            "plan\n0: vector r0 16; tile r2 14, r0 2; order r0 r1 r2; tasks r0 r1/8; pack p1\n"
            "0.0: order r3 r4 r5\n");
  EXPECT_EQ(plan_of_correlation(64, 14, 1).find("vector r0"), std::string::npos);
  // Few filters, or lanes that they would leave empty, beside rows that fill their vectors.
  for (const int64_t filters : {8, 16, 24})
    EXPECT_EQ(plan_of_correlation(filters, 128, 0).find("vector r0"), std::string::npos) << filters;
  EXPECT_NE(plan_of_correlation(16, 14, 0).find("vector r0"), std::string::npos);
}

// Filters that do not change lie in the lanes as soon as pixels would leave lanes empty: no window
// has to share their copy.
TEST(Plan, FewPixelsByConstantFilters) {
  for (const bool constant : {false, true}) {
    Suite s;
    Node f = s.range(0, 160), pixel = s.range(1, 49), c = s.range(2, 192);
    Node filters = s.load(s.param(0, kF32, 160 * 192), s.at({{f, 192}, {c, 1}}));
    Node image = s.load(s.param(1, kF32, 192 * 49), s.at({{c, 49}, {pixel, 1}}));
    Node sum = s.fold(Op::kAdd, s.op(Op::kMul, filters, image), {c});
    const Node node = s.graph.sink(std::array{
        s.store(s.param(2, kF32, 160 * 49), s.at({{f, 49}, {pixel, 1}}), sum, {f, pixel})});
    Plan plan(process_heap());
    ASSERT_TRUE(
        plan_kernel(&plan, node, target_of(64), process_heap(), constant ? 1 << 0 : 0).ok());
    EXPECT_EQ(plan.at(0).nest.vector, constant ? 0 : 1);
  }
}

// Tiles have no more rows than lines of the first-level cache are left for their distance; rows
// that leave the last level go by in blocks, and so do the terms of long sums.
TEST(Plan, ProductsStayInTheCaches) {
  const std::string narrow = plan_of_product(512, 512, 512, 512),
                    apart = plan_of_product(1050, 1024, 1024, 1024),
                    uneven = plan_of_product(1050, 1024, 1024, 1040),
                    large = plan_of_product(4096, 4096, 4096, 4096),
                    deep = plan_of_product(512, 16384, 512, 16384);
  EXPECT_EQ(narrow.find('/'), std::string::npos) << narrow;
  EXPECT_NE(apart.find("tile r0 7,"), std::string::npos) << apart;
  EXPECT_NE(uneven.find("tile r0 14"), std::string::npos) << uneven;
  EXPECT_NE(large.find("order r0/512 r1 r0; tasks r0 r1; pack p1"), std::string::npos) << large;
  EXPECT_NE(deep.find("pack p1\n0.0: order r2/4096 r2"), std::string::npos) << deep;
}

// What a plan's program fetches of copies that were made before, as lines of the first one.
std::set<int64_t> fetched_lines(Node node, const Plan& plan, const Target& target) {
  program::Module module(process_heap());
  EXPECT_TRUE(lower_kernel(&module, "kernel", node, target, process_heap(), &plan).ok());
  Kernel kernel(process_heap());
  EXPECT_TRUE(kernel.analyse(node).ok());
  std::vector<Param> params;
  const auto add = [&](int64_t count) {
    params.push_back({kF32, count, {}});
    params.back().bytes.resize(static_cast<size_t>(count) * 4);
  };
  for (Node param : kernel.params()) add(param->count());
  Vec<ReadyCopy> copies(process_heap());
  EXPECT_TRUE(find_ready(&copies, kernel, plan).ok());
  for (const ReadyCopy& copy : copies) add(copy.elements);
  program::tests::Evaluator::Fetched fetched;
  EXPECT_EQ(program::tests::Evaluator::run(module, params, {}, &fetched), "");
  std::set<int64_t> lines;
  for (const auto& [param, at] : fetched) {
    EXPECT_EQ(param, static_cast<int64_t>(kernel.params().size()));
    lines.insert(at / 16);
  }
  return lines;
}

// While rows go by a copy of some columns that was made before, they fetch the next columns: all of
// what is read, line by line. Copies that stay in a cache are not fetched.
TEST(Plan, CopiesFromMemoryAreFetchedBeforeTheyAreRead) {
  constexpr int64_t kRows = 40, kTerms = 96;
  const auto product = [](Suite& s, int64_t columns) {
    Node i = s.range(0, kRows), j = s.range(1, columns), k = s.range(2, int64_t{kTerms});
    Node a = s.load(s.param(0, kF32, kRows * kTerms), s.at({{i, int64_t{kTerms}}, {k, 1}}));
    Node b = s.load(s.param(1, kF32, kTerms * columns), s.at({{j, int64_t{kTerms}}, {k, 1}}));
    Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
    return s.graph.sink(std::array{
        s.store(s.param(2, kF32, kRows * columns), s.at({{i, columns}, {j, 1}}), sum, {i, j})});
  };
  const uint64_t constants = 1 << 1;
  for (const int width : {32, 64}) {
    const Target target = target_of(width);
    const int64_t columns = 960;
    Suite few, many;
    Plan small(process_heap()), plan(process_heap());
    ASSERT_TRUE(plan_kernel(&small, product(few, 96), target, process_heap(), constants).ok());
    EXPECT_FALSE(small.at(0).ready.empty());
    EXPECT_TRUE(small.at(0).fetched.empty());
    const Node node = product(many, columns);
    ASSERT_TRUE(plan_kernel(&plan, node, target, process_heap(), constants).ok());
    ASSERT_EQ(plan.at(0).fetched.size(), 1u);
    const std::set<int64_t> lines = fetched_lines(node, plan, target);
    // All but those of the first pass, and hardly any that are none.
    const int64_t pass = plan.at(0).nest.step(1) * kTerms / 16, all = columns * kTerms / 16;
    for (int64_t line = pass; line < all; ++line) EXPECT_EQ(lines.count(line), 1u) << line;
    EXPECT_LE(*lines.rbegin(), all + pass / 4);
    EXPECT_GE(*lines.begin(), pass);
  }
}

// Where a pass is so large that the next one would not stay beside it, all its rows go by a block
// of terms before the next block, and fetch that.
TEST(Plan, LargeCopiesGoByInBlocksOfTerms) {
  constexpr int64_t kChannels = 384, kFilters = 64;
  Suite s;
  Node f = s.range(0, int64_t{kFilters}), y = s.range(1, 5), x = s.range(2, 5);
  Node c = s.range(3, int64_t{kChannels}), u = s.range(4, 3), v = s.range(5, 3);
  Node image =
      s.load(s.param(0, kF32, kChannels * 49), s.at({{c, 49}, {y, 7}, {u, 7}, {x, 1}, {v, 1}}));
  Node filters = s.load(s.param(1, kF32, kFilters * kChannels * 9),
                        s.at({{f, kChannels * 9}, {c, 9}, {u, 3}, {v, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, image, filters), {c, u, v});
  const Node node = s.graph.sink(std::array{
      s.store(s.param(2, kF32, kFilters * 25), s.at({{f, 25}, {y, 5}, {x, 1}}), sum, {f, y, x})});
  const Target target = target_of(64);
  Plan plan(process_heap());
  ASSERT_TRUE(plan_kernel(&plan, node, target, process_heap(), 1 << 1).ok());
  Text text(process_heap());
  ASSERT_TRUE(print(text, plan).ok());
  EXPECT_EQ(text.view(),
            "plan\n0: vector r0 16; tile r2 5, r0 2; order r0 r1 r2; tasks r0 r1/5; pack p1; ready "
            "p1; fetch p1\n0.0: order r3/128 r3 r4 r5\n");
  const std::set<int64_t> lines = fetched_lines(node, plan, target);
  const int64_t block = 128 * 9 * 32 / 16, all = kFilters * kChannels * 9 / 16;
  for (int64_t line = block; line < all; ++line) EXPECT_EQ(lines.count(line), 1u) << line;
  EXPECT_LE(*lines.rbegin(), all + block / 4);
}

// A range goes by in blocks or in parts of tasks, not both: each task would do all blocks.
TEST(Plan, BlocksOfRowsAreTasksOnce) {
  const std::string text = plan_of_product(2048, 2048, 64, 2048);
  EXPECT_NE(text.find("order r0/1024 r1 r0; tasks r0 r1;"), std::string::npos) << text;
}

// Products of a row with rows that come from memory take these as they lie there, one behind the
// other; those of a cache lie beside each other.
TEST(Plan, RowsFromMemoryGoByInOrder) {
  const auto plan_of = [](int64_t heads, int64_t keys, int64_t row = 128) {
    Suite s;
    Node h = s.range(0, heads), j = s.range(1, keys), e = s.range(2, row);
    Node q = s.load(s.param(0, kF32, heads * row), s.at({{h, row}, {e, 1}}));
    Node k =
        s.load(s.param(1, kF32, heads * keys * row), s.at({{h, keys * row}, {j, row}, {e, 1}}));
    Node sum = s.fold(Op::kAdd, s.op(Op::kMul, q, k), {e});
    Node out = s.param(2, kF32, heads * keys), at = s.at({{h, keys}, {j, 1}});
    return planned(s.graph.sink(std::array{s.store(out, at, sum, {h, j})}), target_of(64));
  };
  const std::string far = plan_of(12, 4096), near = plan_of(2, 512);
  EXPECT_EQ(far.find("tile r1"), std::string::npos) << far;
  EXPECT_NE(far.find("vector r2 16; tile r2 4;"), std::string::npos) << far;
  EXPECT_NE(near.find("tile r1 4"), std::string::npos) << near;
  // Several long rows are fetched ahead.
  const std::string wide = plan_of(2, 4096, 4096);
  EXPECT_NE(wide.find("tile r1 4"), std::string::npos) << wide;
}

// Few rows of an image that comes from memory at one time, but for windows of many elements.
TEST(Plan, ImagesFromMemoryGoByInFewRows) {
  const auto rows_of = [](int64_t planes, int64_t window) {
    Suite s;
    const int64_t side = 112, in = side + window - 1;
    Node p = s.range(0, planes), y = s.range(1, side), x = s.range(2, side);
    Node ky = s.range(3, window), kx = s.range(4, window);
    Node at = s.at({{p, in * in}, {y, in}, {ky, in}, {x, 1}, {kx, 1}});
    Node sum = s.fold(Op::kMax, s.load(s.param(0, kF32, planes * in * in), at), {ky, kx});
    Node out = s.param(1, kF32, planes * side * side);
    Node to = s.at({{p, side * side}, {y, side}, {x, 1}});
    const std::string plan =
        planned(s.graph.sink(std::array{s.store(out, to, sum, {p, y, x})}), target_of(32));
    const size_t tile = plan.find("tile r1 ");
    return tile == std::string::npos ? 0 : std::stoi(plan.substr(tile + 8));
  };
  EXPECT_EQ(rows_of(8, 3), 8);
  EXPECT_EQ(rows_of(512, 3), 2);
  EXPECT_EQ(rows_of(512, 7), 8);
}

// Heads that lie beside each other come to lie one behind the other: in the order in which they are
// read, past the caches where all is more than these hold.
TEST(Plan, WhatIsMovedGoesByAsItIsRead) {
  const auto plan_of = [](int64_t batch) {
    Suite s;
    const int64_t heads = 12, rows = 512, row = 64;
    Node b = s.range(0, batch), h = s.range(1, heads), r = s.range(2, rows), e = s.range(3, row);
    const int64_t image = heads * rows * row;
    Node value = s.load(s.param(0, kF32, batch * image),
                        s.at({{b, image}, {h, row}, {r, heads * row}, {e, 1}}));
    Node to = s.at({{b, image}, {h, rows * row}, {r, row}, {e, 1}});
    Node store = s.store(s.param(1, kF32, batch * image), to, value, {b, h, r, e});
    Target target = target_of(32);
    target.cache_bytes = 32 << 20;
    return planned(s.graph.sink(std::array{store}), target);
  };
  const std::string large = plan_of(16), middle = plan_of(4), small = plan_of(1);
  EXPECT_NE(large.find("order r0 r2 r1 r3"), std::string::npos) << large;
  EXPECT_NE(large.find("stream p1"), std::string::npos) << large;
  EXPECT_NE(middle.find("order r0 r2 r1 r3"), std::string::npos) << middle;
  EXPECT_EQ(middle.find("stream"), std::string::npos) << middle;
  EXPECT_NE(small.find("order r1 r2 r3"), std::string::npos) << small;
}

// Plans for many sizes are of few kinds.
TEST(Plan, GeneralPlansAreFew) {
  std::map<int, int> kinds;
  for (int64_t rows = 2; rows < 300; ++rows) ++kinds[copies_of_rows(rows, true)];
  EXPECT_LE(kinds.size(), 4u);
}

TEST(Plan, NamesTellPlansApart) {
  Suite s;
  const Node node = product(s);
  Kernel kernel(process_heap());
  ASSERT_TRUE(kernel.analyse(node).ok());
  Plan own(process_heap()), other(process_heap());
  ASSERT_TRUE(make_plan(&own, kernel, target_of(32), process_heap()).ok());
  ASSERT_TRUE(read(&other, "plan\n0: order r0 r1\n0.0: order r2\n").ok());
  Rendered a(process_heap()), b(process_heap()), c(process_heap());
  ASSERT_TRUE(render(a, s.graph, node, target_of(32)).ok());
  ASSERT_TRUE(render(b, s.graph, node, target_of(32), nullptr, &own).ok());
  ASSERT_TRUE(render(c, s.graph, node, target_of(32), nullptr, &other).ok());
  EXPECT_STREQ(a.name, b.name);
  EXPECT_STRNE(a.name, c.name);
}

// Nothing is written of code that is at hand; how much scratch memory it needs is known.
TEST(Plan, KernelsAtHandKnowTheirScratchMemory) {
  Suite s;
  Node i = s.range(0, 96), j = s.range(1, 512), k = s.range(2, 320);
  Node a = s.load(s.param(0, kF32, 96 * 320), s.at({{i, 320}, {k, 1}}));
  Node b = s.load(s.param(1, kF32, 320 * 512), s.at({{k, 512}, {j, 1}}));
  Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {k});
  const Node node = s.graph.sink(
      std::array{s.store(s.param(2, kF32, 96 * 512), s.at({{i, 512}, {j, 1}}), sum, {i, j})});
  Rendered written(process_heap()), known(process_heap());
  ASSERT_TRUE(render(written, s.graph, node, target_of(32), nullptr).ok()) << last_message();
  SizeClasses classes(process_heap());
  classes.begin_call({[](const void*, const char*) { return true; }, nullptr});
  ASSERT_TRUE(render(known, s.graph, node, target_of(32), &classes).ok()) << last_message();
  EXPECT_TRUE(known.at_hand);
  EXPECT_TRUE(known.code.text.view().empty());
  EXPECT_STREQ(known.name, written.name);
  EXPECT_GT(known.code.scratch_bytes, 0);
  EXPECT_EQ(known.code.scratch_bytes, written.code.scratch_bytes);
}

}  // namespace
}  // namespace aster::codegen::tests
