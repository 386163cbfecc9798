// Programs rendered as C against the evaluator, bit by bit: the design's two, hand-made ones and
// random ones, by each compiler at each vector width. Widths that the machine lacks are compiled.
#include "codegen/render_c.h"

#include <memory>

#include "codegen/render_cases.h"
#include "codegen/render_launch.h"

namespace aster::codegen::program {
namespace {

using codegen::tests::Aarch64;
using codegen::tests::compilers;
using codegen::tests::Library;
using codegen::tests::target_of;
using codegen::tests::widths;
using tests::Case;
using tests::conv;
using tests::Evaluator;
using tests::Function;
using tests::kConv3x3;
using tests::kRowSum;
using tests::last_error;
using tests::Launch;
using tests::make_params;
using tests::make_special;
using tests::Param;
using tests::Read;
using tests::rename;
using tests::same;

// The same text on another CPU.
void check_on_aarch64(const std::vector<Case>& cases, const std::vector<const RenderedC*>& programs,
                      std::string_view unit, const std::vector<std::vector<Param>>& before,
                      const std::vector<std::vector<Param>>& after) {
  std::vector<std::string> names;
  for (size_t i = 0; i < cases.size(); ++i) names.push_back("case_" + std::to_string(i));
  Aarch64 built(std::string(unit), names);
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<Param> got = before[i];
    std::vector<std::vector<uint8_t>> bytes;
    for (const Param& p : got) bytes.push_back(p.bytes);
    bytes = built.run(names[i], bytes, cases[i].tasks, cases[i].sizes, programs[i]->scratch_bytes);
    for (size_t p = 0; p < got.size(); ++p) got[p].bytes = bytes[p];
    same("aarch64 " + cases[i].text, got, after[i]);
  }
}

// All cases in one text a compiler and width, against the evaluator, in several groupings of tasks.
void check(std::vector<Case> cases, const std::vector<int>& targets, bool by_all) {
  std::vector<std::unique_ptr<Read>> read;
  std::vector<std::vector<Param>> before, after;
  for (size_t i = 0; i < cases.size(); ++i) {
    read.push_back(std::make_unique<Read>(rename(cases[i].text, "case_" + std::to_string(i))));
    ASSERT_TRUE(read[i]->status.ok()) << read[i]->error << cases[i].text;
    ASSERT_TRUE(verify(read[i]->module, {true}).ok()) << last_error() << cases[i].text;
    before.push_back(make_params(read[i]->last(), i + 1, cases[i].sizes));
    if (cases[i].special) make_special(&before.back());
    after.push_back(before.back());
    ASSERT_EQ(Evaluator::run(read[i]->module, after.back(), cases[i].sizes), "") << cases[i].text;
  }
  const std::vector<int> mine = widths();
  for (int width : targets) {
    std::vector<std::unique_ptr<RenderedC>> programs;
    std::vector<const RenderedC*> all;
    for (size_t i = 0; i < cases.size(); ++i) {
      programs.push_back(std::make_unique<RenderedC>(process_heap()));
      all.push_back(programs.back().get());
      ASSERT_TRUE(render_c(*programs.back(), read[i]->module, target_of(width)).ok())
          << last_error() << cases[i].text;
    }
    Text unit(process_heap());
    ASSERT_TRUE(write_unit(unit, all, target_of(width)).ok()) << last_error();
    if (width == 0 && Aarch64::here()) check_on_aarch64(cases, all, unit.view(), before, after);
    for (const std::string& compiler : compilers()) {
      if (!by_all && width != targets.back() && compiler != compilers()[0]) continue;
      Library library(compiler, std::string(unit.view()), width == 0 ? 16 : width);
      if (width > mine.back()) continue;
      for (size_t i = 0; i < cases.size(); ++i) {
        const std::string name = "case_" + std::to_string(i);
        const auto function =
            reinterpret_cast<Function>(reinterpret_cast<void*>(library.find(name.c_str())));
        if (function == nullptr) continue;
        const std::string where = compiler + " " + std::to_string(width) + " " + cases[i].text;
        Launch whole(before[i], true), parts(before[i], false);
        whole.run(function, cases[i].sizes, all[i]->scratch_bytes, 0, cases[i].tasks);
        same(where, whole.take(where), after[i]);
        for (int64_t t = cases[i].tasks; t-- > 0;) {
          parts.run(function, cases[i].sizes, all[i]->scratch_bytes, t, t + 1);
        }
        same("by single tasks: " + where, parts.take(where), after[i]);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(RenderC, TheDesignsProgramsAreExact) {
  check({{kRowSum, {}, 16}, {conv(false), {}, 2}}, {0, 16}, true);
  check({{kRowSum, {}, 16}, {conv(true), {}, 2}}, {32, 64}, true);
}

TEST(RenderC, RandomProgramsAreExact) {
  const bool all = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr;
  for (const bool fused : {false, true}) {
    check(tests::random_cases(fused, all ? 400 : 24),
          fused ? std::vector<int>{32, 64} : std::vector<int>{0, 16}, all);
    if (HasFailure()) return;
  }
}

// Every operation that the tables have on every dtype, one lane and vectors as wide as the
// target's.
TEST(RenderC, EveryRowIsExact) {
  std::vector<Case> cases[2];  // for targets without and with fused multiply-add
  size_t rows[2] = {};
  for (const std::string type : tests::kTypes) {
    const int bytes = static_cast<int>(dtype::size(tests::dtype_of(type)));
    for (int lanes : {1, 16 / bytes, 32 / bytes, 64 / bytes}) {
      for (const int fuses : {0, 1}) {
        if (lanes != 1 && fuses != (lanes * bytes > 16 ? 1 : 0)) continue;
        const auto render = [&](const Module& module) {
          RenderedC out(process_heap());
          return render_c(out, module, target_of(fuses == 1 ? 32 : 0));
        };
        cases[fuses].push_back(tests::row_case(type, lanes, render, &rows[fuses]));
      }
    }
  }
  EXPECT_GT(rows[0], 400u);
  EXPECT_GT(rows[1], rows[0]);
  check(cases[0], {0, 16}, false);
  check(cases[1], {32, 64}, false);
}

TEST(RenderC, PartialOperationsAreExactWhereTheyAreDefined) {
  check(tests::partial_cases(), {0, 16, 32, 64}, false);
}

TEST(RenderC, ScalingIsRoundedOnce) { check(tests::scaling_cases(), {0, 16, 32, 64}, false); }

TEST(RenderC, CastsAreExact) { check(tests::cast_cases(), {0, 16, 32, 64}, false); }

TEST(RenderC, MemoryFunctionsAndSizes) {
  check(tests::memory_cases(), {0, 16, 32, 64}, true);
  check({{tests::kFunctions, {8}, 1}}, {16}, false);
}

TEST(RenderC, WhatTheTargetCannotSayIsUnsupported) {
  const std::pair<const char*, int> cases[] = {
      {"%0 = Const f32 1; %1 = MulAcc f32 %0 %0 %0", 16},
      {"%0 = Const f32 1; %1 = Exp f32 %0", 64},
      {"%0 = Param f16 0 [4]; %1 = Load f16 %0; %2 = Add f16 %1 %1", 64},
      {"%0 = Param f16 0 [4]; %1 = Load f16 %0; %2 = Cast f32 %1", 16},
      {"%0 = Param bf16 0 [4]; %1 = Load bf16 %0; %2 = Cast f32 %1", 64},
      {"%0 = Loop local 0 0 4 1; Barrier local; End", 64},
      {"%0 = Param i32 0 [4] write atomic; %1 = Const i32 1; Atomic:Max %0, %1", 64}};
  for (const auto& [text, width] : cases) {
    Read got("program p\n" + std::string(text));
    ASSERT_TRUE(verify(got.module).ok()) << last_error() << text;
    RenderedC out(process_heap());
    EXPECT_EQ(render_c(out, got.module, target_of(width)).code,
              static_cast<int32_t>(Code::kUNSUPPORTED))
        << text;
    EXPECT_EQ(last_error().rfind("p: no C for ", 0), 0u) << last_error();
  }
}

TEST(RenderC, FunctionsAloneAreNoProgram) {
  for (const char* text : {"", "function f\n%0 = Param f32xn 0\nResult %0"}) {
    Read got(text);
    RenderedC out(process_heap());
    EXPECT_EQ(render_c(out, got.module, target_of(32)).code, static_cast<int32_t>(Code::kARGUMENT));
  }
}

TEST(RenderC, EveryAllocationMayFail) {
  Read got(kConv3x3);
  for (int64_t left = 0;; ++left) {
    tests::FailingMemory memory(left);
    RenderedC out(memory);
    const Status status = render_c(out, got.module, target_of(64));
    if (status.ok()) break;
    ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY));
  }
}

}  // namespace
}  // namespace aster::codegen::program
