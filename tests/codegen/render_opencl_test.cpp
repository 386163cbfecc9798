// Programs rendered as OpenCL C against the evaluator, bit by bit, on this machine's first device:
// what render_c_test.cpp has, groups with local memory, every function. Without a device they are
// rendered, no more.
#include "codegen/render_opencl.h"

#include <memory>

#include "codegen/functions.h"
#include "codegen/opencl_support.h"
#include "codegen/render_cases.h"

namespace aster::codegen::program {
namespace {

using codegen::tests::OpenclDevice;
using tests::Case;
using tests::Evaluator;
using tests::last_error;
using tests::make_params;
using tests::Param;
using tests::Read;

Target target_of(bool fma) {
  Target out;
  out.language = Language::kOpencl;
  out.vector_bytes = 64;
  out.max_lanes = 16;
  out.fma = fma;
  out.f16c = out.avx512 = out.streaming = false;
  return out;
}

// Runs one kernel on memory with known bytes around.
std::vector<Param> launch(OpenclDevice::Program& program, const std::string& name,
                          const RenderedC& rendered, const std::vector<Param>& params,
                          const Case& one, size_t local) {
  constexpr size_t kAround = 64;
  std::vector<std::vector<uint8_t>> memory;
  for (const Param& p : params) {
    memory.emplace_back(kAround, uint8_t{0xAB});
    memory.back().insert(memory.back().end(), p.bytes.begin(), p.bytes.end());
    memory.back().resize(memory.back().size() + kAround, uint8_t{0xAB});
  }
  const bool groups = rendered.groups[0] != 0 || rendered.locals[0] != 0;
  const size_t items = static_cast<size_t>(std::max<int64_t>(rendered.locals[0], 1));
  const size_t count = static_cast<size_t>(std::max<int64_t>(rendered.groups[0], 1)) * items;
  program.run(name, memory, kAround, one.sizes, groups ? count : static_cast<size_t>(one.tasks),
              groups ? items : local);
  std::vector<Param> out = params;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t size = out[i].bytes.size();
    std::copy_n(memory[i].begin() + kAround, size, out[i].bytes.begin());
    for (size_t k = 0; k < kAround; ++k) {
      if (memory[i][k] == 0xAB && memory[i][kAround + size + k] == 0xAB) continue;
      ADD_FAILURE() << one.text << " wrote around param " << i;
      break;
    }
  }
  return out;
}

// All cases in one text, against the evaluator.
void check(const std::vector<Case>& cases, bool fma) {
  std::vector<std::unique_ptr<Read>> read;
  std::vector<std::unique_ptr<RenderedC>> programs;
  std::vector<const RenderedC*> all;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = "case_" + std::to_string(i);
    read.push_back(std::make_unique<Read>(tests::rename(cases[i].text, name)));
    ASSERT_TRUE(read[i]->status.ok()) << read[i]->error << cases[i].text;
    ASSERT_TRUE(verify(read[i]->module, {true}).ok()) << last_error() << cases[i].text;
    programs.push_back(std::make_unique<RenderedC>(process_heap()));
    all.push_back(programs.back().get());
    ASSERT_TRUE(render_opencl(*programs[i], read[i]->module, target_of(fma)).ok())
        << last_error() << cases[i].text;
  }
  Text unit(process_heap());
  ASSERT_TRUE(write_unit(unit, all, target_of(fma)).ok()) << last_error();
  OpenclDevice* const device = OpenclDevice::get();
  if (device == nullptr) return;
  OpenclDevice::Program program(*device, std::string(unit.view()));
  for (size_t i = 0; i < cases.size() && !testing::Test::HasFailure(); ++i) {
    std::vector<Param> params = make_params(read[i]->last(), i + 1, cases[i].sizes);
    if (cases[i].special) tests::make_special(&params);
    const std::vector<Param> before = params;
    ASSERT_EQ(Evaluator::run(read[i]->module, params, cases[i].sizes), "") << cases[i].text;
    const std::string name = "case_" + std::to_string(i);
    const std::string where = cases[i].text + std::string(programs[i]->text.view());
    tests::same(where, launch(program, name, *programs[i], before, cases[i], 1), params);
  }
}

TEST(RenderOpencl, TheDesignsProgramsAreExact) {
  check({{tests::kRowSum, {}, 16}, {tests::conv(false), {}, 2}}, false);
  check({{tests::conv(true), {}, 2}}, true);
}

TEST(RenderOpencl, RandomProgramsAreExact) {
  const bool all = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr;
  for (const bool fused : {false, true}) check(tests::random_cases(fused, all ? 400 : 24), fused);
}

TEST(RenderOpencl, EveryRowIsExact) {
  std::vector<Case> cases;
  size_t rows = 0;
  for (const std::string type : tests::kTypes) {
    for (int lanes : {1, 2, 16}) {
      const auto render = [&](const Module& module) {
        RenderedC out(process_heap());
        return render_opencl(out, module, target_of(true));
      };
      cases.push_back(tests::row_case(type, lanes, render, &rows));
    }
  }
  EXPECT_GT(rows, 600u);
  check(cases, true);
}

TEST(RenderOpencl, PartialOperationsAreExactWhereTheyAreDefined) {
  check(tests::partial_cases(), false);
}
TEST(RenderOpencl, ScalingIsRoundedOnce) { check(tests::scaling_cases(), false); }
TEST(RenderOpencl, CastsAreExact) { check(tests::cast_cases(), false); }
TEST(RenderOpencl, MemoryFunctionsAndSizes) {
  std::vector<Case> cases = tests::memory_cases();
  std::erase_if(cases, [](const Case& one) { return one.text == tests::kGroups; });
  check(cases, false);
}

// Lanes of two vectors, and whole vectors that go past the caches, at addresses that allow it and
// at others.
TEST(RenderOpencl, StreamsAndLanesOfTwoVectors) {
  check({{R"(program turned
%0 = Param f32 0 [128]
%1 = Param f32 1 [160] write
%2 = Param f64 2 [64]
%3 = Param f64 3 [64] write
%4 = Loop task 0 4 1
  %5 = Load f32x16 %0 + 32*%4
  %6 = Load f32x16 %0 + 32*%4 + 16
  %7 = Shuffle f32x16 %5 %6 0 16 2 18 4 20 6 22 31 30 29 28 15 14 13 12
  Store %1 + 40*%4, %7 stream
  Store %1 + 40*%4 + 17, %6 stream
  %8 = Load f64x8 %2 + 16*%4
  %9 = Load f64x8 %2 + 16*%4 + 8
  %10 = Shuffle f64x8 %8 %9 15 0 14 1 13 2 12 3
  Store %3 + 16*%4, %10 stream
  Store %3 + 16*%4 + 8, %8
End
)",
          {},
          4}},
        true);
}

// Sums of 64 numbers in local memory, halves added between barriers; then a second loop of items.
TEST(RenderOpencl, GroupsHaveLocalMemoryAndBarriers) {
  const char* const text = R"(program sums
%0 = Param f32 0 [512]
%1 = Param f32 1 [8] write
%2 = Param f32 2 [512] write
%3 = Loop group 0 0 8 1
  %4 = Array f32 [64] local
  %5 = Loop local 0 0 64 1
    %6 = Load f32 %0 + 64*%3 + %5
    Store %4 + %5, %6
    Barrier local
    %7 = Load f32 %4 + 63 - %5
    Store %2 + 64*%3 + %5, %7
    Barrier local
    %8 = Const i64 32
    %9 = CmpLt bool %5 %8
    If %9
      %10 = Load f32 %4 + %5
      %11 = Load f32 %4 + %5 + 32
      %12 = Add f32 %10 %11
      Store %4 + %5, %12
    End
    Barrier local
    %13 = Const i64 0
    %14 = CmpEq bool %5 %13
    If %14
      %15 = Load f32 %4
      %16 = Load f32 %4 + 31
      %17 = Add f32 %15 %16
      Store %1 + %3, %17
    End
  End
End
)";
  check({{text, {}, 1}}, false);
}

// Nests of tasks, one after another, of sizes given at the launch and none: an item computes which
// turn of each loop is its own. It walks along a loop only where what is in a turn is said later.
TEST(RenderOpencl, ItemsGoToTheirTurns) {
  const std::string nested = R"(program turns
%0 = Param i64 0 from 1 to 8 by 1
%1 = Param f32 0 [512]
%2 = Param f32 1 [512] write
%3 = Loop task 0 3 1
  %4 = Loop task 1 %0 2
    %5 = Loop task 0 4 1
      %6 = Load f32 %1 + 64*%3 + 8*%4 + %5
      Store %2 + 64*%3 + 8*%4 + %5, %6
    End
  End
End
%9 = Loop task 0 5 1
  %10 = Loop task 2 8 3
    %11 = Load f32 %1 + 256 + 16*%9 + %10
    Store %2 + 256 + 16*%9 + %10, %11
  End
End
)";
  const std::string late = R"(program late
%0 = Param f32 0 [64]
%1 = Param f32 1 [64] write
%2 = Loop task 0 5 1
  %3 = Const i64 4
  %4 = Loop task 1 %3 1
    %5 = Load f32 %0 + 8*%2 + %4
    Store %1 + 8*%2 + %4, %5
  End
End
)";
  check({{nested, {8}, 3 * 4 * 6 + 10}, {nested, {1}, 10}, {nested, {2}, 18 + 10}, {late, {}, 15}},
        false);
  for (const std::string& text : {nested, late}) {
    const Read read(text);
    RenderedC out(process_heap());
    ASSERT_TRUE(render_opencl(out, read.module, target_of(false)).ok()) << last_error();
    EXPECT_EQ(out.text.view().find("for (") == std::string_view::npos, text == nested)
        << out.text.view();
  }
}

bool is_basic(DType d) {
  return d == DType::kFloat32 || d == DType::kFloat64 || d == DType::kInt32 || d == DType::kInt64;
}

std::vector<FunctionKey> functions() {
  std::vector<FunctionKey> out;
  const DType kAll[] = {DType::kBool,        DType::kInt8,    DType::kUInt8,       DType::kInt16,
                        DType::kUInt16,      DType::kInt32,   DType::kUInt32,      DType::kInt64,
                        DType::kUInt64,      DType::kFloat16, DType::kBFloat16,    DType::kFp8E4M3,
                        DType::kFp8E4M3Fnuz, DType::kFp8E5M2, DType::kFp8E5M2Fnuz, DType::kFloat32,
                        DType::kFloat64};
  for (size_t o = 0; o < static_cast<size_t>(Op::kCount); ++o) {
    for (DType from : kAll) {
      for (DType to : kAll) {
        const FunctionKey key{static_cast<Op>(o), to, from};
        // Casts between others are made of these.
        const bool basic = is_basic(from) || is_basic(to);
        const bool same = key.op == Op::kCast ? from != to && basic : from == to;
        if (same && has_function(key)) out.push_back(key);
      }
    }
  }
  return out;
}

// Each function at some lanes on 192 numbers, ends of ranges among them.
TEST(RenderOpencl, FunctionsAreExact) {
  const std::vector<FunctionKey> keys = functions();
  EXPECT_GT(keys.size(), 100u);
  for (const bool fma : {false, true}) {
    std::vector<Case> cases;
    for (size_t i = 0; i < keys.size(); ++i) {
      const FunctionKey& key = keys[i];
      const bool fused = key.op == Op::kMulAcc || dtype::is_float(key.operand);
      if (fma && !fused) continue;
      Module module(process_heap());
      size_t place = 0;
      ASSERT_TRUE(add_function(&place, &module, key, fma).ok()) << last_error();
      const int lanes = 1 << (i % 5);
      const std::string x = lanes == 1 ? "" : "x" + std::to_string(lanes);
      const std::string from = type_name(key.operand), to = type_name(key.result);
      std::string text = tests::print(module) + "program p\n", loads, arguments;
      const int arity = key.op == Op::kCast ? 1 : uop::info(key.op).sources;
      for (int k = 0; k < arity; ++k) {
        const std::string n = std::to_string(k);
        text += "%1" + n + " = Param " + from + " " + n + " [192]\n";
        loads += "%2" + n + " = Load " + from + x + " %1" + n + " + %1\n";
        arguments += " %2" + n;
      }
      text += "%30 = Param " + to + " " + std::to_string(arity) +
              " [192] write\n%1 = Loop task 0 192 " + std::to_string(lanes) + "\n" + loads +
              "%2 = Call " + to + x + " " + module.programs[place].name + arguments +
              "\nStore %30 + %1, %2\nEnd\n";
      cases.push_back({text, {}, 192 / lanes, true});
    }
    check(cases, fma);
  }
}

// Compilers may take it that signed integers of the language do not overflow: what is compared with
// what they came from shows it.
TEST(RenderOpencl, SignedIntegersWrap) {
  std::vector<Case> cases;
  for (const char* type : {"i8", "i16", "i32", "i64"}) {
    for (const int lanes : {1, 4}) {
      const std::string x = lanes > 1 ? "x" + std::to_string(lanes) : "", i = type;
      for (const char* operation : {"Add T %5 %6", "Sub T %5 %6", "Mul T %5 %6", "Neg T %5",
                                    "Abs T %5", "MulAcc T %5 %6 %6"}) {
        std::string wraps = operation;
        wraps.replace(wraps.find('T'), 1, i + x);
        cases.push_back({"program p\n%0 = Param " + i + " 0 [192]\n%1 = Param " + i +
                             " 1 [192] write\n%2 = Const " + i + " 3\n%3 = Const " + i +
                             " 7\n%4 = Loop task 0 192 " + std::to_string(lanes) + "\n%5 = Load " +
                             i + x + " %0 + %4\n%6 = Spread " + i + x + " %2\n%7 = Spread " + i +
                             x + " %3\n%8 = " + wraps + "\n%9 = CmpLt bool" + x +
                             " %8 %5\n%10 = Where " + i + x +
                             " %9 %6 %7\nStore %1 + %4, %10\nEnd\n",
                         {},
                         192 / lanes,
                         true});
        if (lanes == 1) {  // no vectors to spread to
          std::string& text = cases.back().text;
          for (const char* line : {"%6 = Spread ", "%7 = Spread "}) {
            const size_t at = text.find(line);
            text.replace(
                at, text.find('\n', at) - at,
                std::string(line, 5) + "Add " + i + (line[1] == '6' ? " %2 %2" : " %3 %3"));
          }
        }
      }
    }
  }
  check(cases, false);
}

TEST(RenderOpencl, WhatADeviceCannotSayIsUnsupported) {
  const std::pair<const char*, bool> cases[] = {
      {"%0 = Const f32 1; %1 = Exp f32 %0", true},
      {"%0 = Const f32 1; %1 = Spread f32x32 %0", true},
      {"%0 = Param f64 0 [4]; %1 = Load f64 %0", false},
      {"%0 = Param i64 0 [4] write atomic; %1 = Const i64 1; Atomic:Add %0, %1", true},
      {"%0 = Array f32 [65536] scratch; %1 = Const f32 1; Store %0, %1", true}};
  for (const auto& [text, fp64] : cases) {
    Read got("program p\n" + std::string(text));
    ASSERT_TRUE(verify(got.module).ok()) << last_error() << text;
    RenderedC out(process_heap());
    Target target = target_of(true);
    target.fp64 = fp64;
    EXPECT_EQ(render_opencl(out, got.module, target).code, static_cast<int32_t>(Code::kUNSUPPORTED))
        << text;
    EXPECT_EQ(last_error().rfind("p: no OpenCL C for ", 0), 0u) << last_error();
  }
  Read none("");
  RenderedC out(process_heap());
  EXPECT_EQ(render_opencl(out, none.module, target_of(true)).code,
            static_cast<int32_t>(Code::kARGUMENT));
  EXPECT_EQ(render_opencl(out, none.module, Target()).code, static_cast<int32_t>(Code::kARGUMENT));
}

TEST(RenderOpencl, EveryAllocationMayFail) {
  Read got(tests::kConv3x3);
  for (int64_t left = 0;; ++left) {
    tests::FailingMemory memory(left);
    RenderedC out(memory);
    const Status status = render_opencl(out, got.module, target_of(true));
    if (status.ok()) break;
    ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY));
  }
}

}  // namespace
}  // namespace aster::codegen::program
