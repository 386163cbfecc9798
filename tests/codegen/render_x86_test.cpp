// Programs as machine code of our own against the evaluator, bit by bit: those that C is held to.
#include "codegen/render_x86.h"

#include <map>
#include <memory>

#include "codegen/machine_code.h"
#include "codegen/render_c.h"
#include "codegen/render_cases.h"
#include "codegen/render_launch.h"

namespace aster::codegen::program {
namespace {

using codegen::tests::target_of;
using codegen::tests::widths;
using tests::Case;
using tests::conv;
using tests::Evaluator;
using tests::kConv3x3;
using tests::kRowSum;
using tests::last_error;
using tests::Launch;
using tests::MachineCode;
using tests::make_params;
using tests::make_special;
using tests::Param;
using tests::Read;
using tests::same;

// In several groupings of tasks. The number of those that there is code of.
size_t check(const std::vector<Case>& cases, std::map<std::string, int>* refused = nullptr) {
  size_t made = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    Read read(one.text);
    EXPECT_TRUE(read.status.ok()) << read.error << one.text;
    EXPECT_TRUE(verify(read.module, {true}).ok()) << last_error() << one.text;
    std::vector<Param> before = make_params(read.last(), i + 1, one.sizes);
    if (one.special) make_special(&before);
    std::vector<Param> after = before;
    EXPECT_EQ(Evaluator::run(read.module, after, one.sizes), "") << one.text;
    for (const int width : widths()) {
      if (width < 32) continue;
      const std::string where = std::to_string(width) + " " + one.text;
      MachineCode code(read.module, target_of(width));
      if (!code.status().ok()) {
        EXPECT_EQ(code.status().code, static_cast<int32_t>(Code::kUNSUPPORTED)) << last_error();
        if (refused != nullptr) ++(*refused)[std::to_string(width) + ": " + last_error()];
        continue;
      }
      ++made;
      const int64_t scratch = scratch_bytes(read.last());
      Launch whole(before, true), parts(before, false);
      tests::spoil_registers();
      whole.run(code.function(), one.sizes, scratch, 0, one.tasks);
      same(where, whole.take(where), after);
      for (int64_t t = one.tasks; t-- > 0;)
        parts.run(code.function(), one.sizes, scratch, t, t + 1);
      same("by single tasks: " + where, parts.take(where), after);
      if (testing::Test::HasFailure()) return made;
    }
  }
  return made;
}

// What there is no code of, by width and reason; of how many cases: ASTER_TEST_TELL=1 says it.
using Refused = std::map<std::string, int>;
void tell(const Refused& refused) {
  if (std::getenv("ASTER_TEST_TELL") == nullptr) return;
  for (const auto& [what, count] : refused) std::printf("%5d %s\n", count, what.c_str());
}

size_t count_widths() {
  size_t out = 0;
  for (const int width : widths()) out += width >= 32 ? 1 : 0;
  return out;
}

TEST(RenderX86, TheDesignsProgramsAreExact) {
  EXPECT_EQ(check({{kRowSum, {}, 16}, {conv(true), {}, 2}}), 2 * count_widths());
}

TEST(RenderX86, RandomProgramsAreExact) {
  const uint64_t count = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr ? 4000 : 200;
  Refused refused;
  EXPECT_GE(check(tests::random_cases(true, count), &refused), count * count_widths() * 3 / 4);
  tell(refused);
}

TEST(RenderX86, EveryRowIsExact) {
  std::vector<Case> cases;
  size_t rows = 0;
  for (const std::string type : tests::kTypes) {
    const int bytes = static_cast<int>(dtype::size(tests::dtype_of(type)));
    for (int lanes : {1, 8 / bytes, 16 / bytes, 32 / bytes, 64 / bytes}) {
      if (lanes == 0) continue;
      const auto render = [&](const Module& module) {
        RenderedC out(process_heap());
        return render_c(out, module, target_of(32));
      };
      cases.push_back(tests::row_case(type, lanes, render, &rows));
    }
  }
  EXPECT_GT(rows, 800u);
  EXPECT_EQ(check(cases), cases.size() * count_widths());
}

TEST(RenderX86, PartialOperationsAreExactWhereTheyAreDefined) {
  const auto cases = tests::partial_cases();
  EXPECT_EQ(check(cases), cases.size() * count_widths());
}

TEST(RenderX86, ScalingIsRoundedOnce) {
  const auto cases = tests::scaling_cases();
  EXPECT_EQ(check(cases), cases.size() * count_widths());
}

TEST(RenderX86, CastsAreExact) {
  const auto cases = tests::cast_cases();
  EXPECT_EQ(check(cases), cases.size() * count_widths());
}

TEST(RenderX86, MemoryFunctionsAndSizes) {
  Refused refused;
  EXPECT_EQ(check(tests::memory_cases(), &refused), 3 * count_widths());  // but groups
  tell(refused);
  EXPECT_EQ(check({{tests::kFunctions, {8}, 1}}), count_widths());
}

// Sums of bytes in as many lanes as there are bytes in a vector, and what is narrower than that.
TEST(RenderX86, ValuesOfMoreThanARegister) {
  std::vector<Case> cases;
  for (const std::string from : {"i8", "u8", "bool", "u16"}) {
    for (const std::string to : {"i32", "i64", "f32"}) {
      const std::string text =
          "program p\naxis v 2\n%0 = Param " + from + " 0 [256]\n%1 = Param " + to +
          " 1 [2] write\n%2 = Param " + to + " 2 [128] write\n%3 = Loop task 0 2 1\n  %4 = Acc " +
          to + "x32 {v} 0\n  %5 = Loop 0 128 64\n    Each v\n      %6 = Load " + from +
          "x32 {v} %0 + 128*%3 + %5 + 32*v\n      %7 = Cast " + to + "x32 {v} %6\n      %8 = Add " +
          to + "x32 {v} %4 %7\n      Set %4 %8\n    End\n  End\n  %9 = Join:Add " + to +
          "x32 %4 v\n  %10 = Across:Add " + to + " %9\n  %12 = Lane " + to +
          " %9 21\n  %13 = Spread " + to + "x32 %12\n  %14 = CmpLt boolx32 %9 %13\n" +
          "  %15 = Where " + to + "x32 %14 %13 %9\n  %16 = Across:Max " + to +
          " %15\n  %17 = Add " + to + " %10 %16\n  Store %1 + %3, %17\n" +
          "  Store %2 + 64*%3, %15 first 29\n  Store %2 + 64*%3 + 32, %9 mask %14\nEnd\n";
      cases.push_back({text, {}, 2, false});
    }
  }
  Refused refused;
  EXPECT_EQ(check(cases, &refused), cases.size() * count_widths());
  tell(refused);
}

// More values at once than there are registers, of each class.
TEST(RenderX86, ValuesWithoutARegister) {
  std::vector<Case> cases;
  for (const std::string type : {"f32", "f64", "i32", "i64", "u8"}) {
    for (const std::string lanes : {"4", "8", "16", "32"}) {
      const std::string v = type + "x" + lanes;
      cases.push_back(
          {"program p\naxis u 40\n%0 = Param " + type + " 0 [256]\n%1 = Param " + type +
               " 1 [256] write\n%2 = Const " + type + " 3\nEach u\n  %3 = Load " + type +
               " {u} %0 + u\n  %4 = Mul " + type + " {u} %3 %2\n  %5 = Load " + v +
               " {u} %0 + 2*u\n  %6 = CmpLt bool {u} %3 %4\n" + "  %7 = CmpLt boolx" + lanes +
               " {u} %5 %5\n  %16 = Not boolx" + lanes + " {u} %7\n" +
               "End\n%8 = Loop 0 64 32\n  %9 = Acc " + v + " 0\n  %10 = Load " + v +
               " %0 + %8\n  Each u\n    %11 = Spread " + v + " {u} %4\n    %12 = Mul " + v +
               " {u} %11 %10\n    %13 = Where " + v + " {u} %16 %12 %5\n    %14 = Add " + v +
               " {u} %9 %13\n    Set %9 %14\n    %15 = Load " + type +
               " {u} %0 + 100 + u + %8 gate %6\n    Store {u} %1 + 128 + u + %8, %15\n  End\n" +
               "  Store %1 + %8, %9\nEnd\n",
           {},
           1,
           false});
    }
  }
  Refused refused;
  EXPECT_EQ(check(cases, &refused), cases.size() * count_widths());
  tell(refused);
}

TEST(RenderX86, WhatIsNotLoadedIsZeroInAllLanes) {
  std::vector<Case> cases;
  for (const std::string type : {"f32", "i32", "u64", "u8"}) {
    cases.push_back(
        {"program p\n%0 = Param " + type + " 0 [8]\n%1 = Param " + type +
             " 1 [64] write\n%2 = Param bool 2 [8]\n%3 = Loop 0 8 1\n  %4 = Load bool %2 + %3\n" +
             "  %5 = Load " + type + " %0 + %3 gate %4\n  %6 = Spread " + type +
             "x8 %5\n  Store %1 + 8*%3, %6\nEnd\n",
         {},
         1,
         false});
  }
  EXPECT_EQ(check(cases), cases.size() * count_widths());
}

TEST(RenderX86, LanesAreNumbersToo) {
  const Case one = {
      "program p\n%0 = Param i32 0 [2] write\n%1 = Lanes i32x8\n%2 = Across:Add i32 %1\n"
      "%3 = Lane i32 %1 5\nStore %0, %2\nStore %0 + 1, %3\n",
      {},
      1,
      false};
  EXPECT_EQ(check({one}), count_widths());
}

TEST(RenderX86, WhatItDoesNotSayIsUnsupported) {
  const std::pair<const char*, int> cases[] = {
      {"%0 = Const f32 1; %1 = Neg f32 %0", 16},
      {"%0 = Const f32 1; %1 = Exp f32 %0", 64},
      {"%0 = Param f16 0 [4]; %1 = Load f16 %0; %2 = Add f16 %1 %1", 64},
      {"%0 = Param bf16 0 [4]; %1 = Load bf16 %0; %2 = Cast f32 %1", 64},
      {"%0 = Loop local 0 0 4 1; Barrier local; End", 64},
      {"%0 = Param i32 0 [4] write atomic; %1 = Const i32 1; Atomic:Max %0, %1", 64}};
  for (const auto& [text, width] : cases) {
    Read got("program p\n" + std::string(text));
    ASSERT_TRUE(verify(got.module).ok()) << last_error() << text;
    Vec<uint8_t> out(process_heap());
    EXPECT_EQ(render_x86(&out, got.module, target_of(width)).code,
              static_cast<int32_t>(Code::kUNSUPPORTED))
        << text;
    EXPECT_TRUE(out.empty());
  }
}

TEST(RenderX86, FunctionsAloneAreNoProgram) {
  for (const char* text : {"", "function f\n%0 = Param f32xn 0\nResult %0"}) {
    Read got(text);
    Vec<uint8_t> out(process_heap());
    EXPECT_EQ(render_x86(&out, got.module, target_of(32)).code,
              static_cast<int32_t>(Code::kARGUMENT));
  }
}

TEST(RenderX86, EveryAllocationMayFail) {
  Read got(kConv3x3);
  for (int64_t left = 0;; ++left) {
    tests::FailingMemory memory(left);
    Vec<uint8_t> out(memory);
    const Status status = render_x86(&out, got.module, target_of(64));
    if (status.ok()) break;
    ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY)) << last_error();
  }
}

}  // namespace
}  // namespace aster::codegen::program
