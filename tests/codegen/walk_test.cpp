// Programs written out and evaluated: the design's two against plain loops, each instruction
// against what the page says, and what no program may do.
#include "codegen/walk.h"

#include "codegen/program_evaluator.h"

namespace aster::codegen::program {
namespace {

using tests::Evaluator;
using tests::kConv3x3;
using tests::kRowSum;
using tests::make_params;
using tests::Param;
using tests::Read;

float as_float(const Param& p, int64_t i) {
  return static_cast<float>(std::bit_cast<double>(p.get(i)));
}

struct Ran {
  std::vector<Param> before, params;
  std::string error;
};
Ran run(const std::string& text, const std::vector<int64_t>& sizes = {}, bool vouched = false) {
  Read got(text);
  EXPECT_TRUE(got.status.ok()) << got.error;
  Ran out;
  if (!got.status.ok()) return out;
  EXPECT_TRUE(verify(got.module, {vouched}).ok()) << tests::last_error() << "\n" << text;
  out.before = make_params(got.last(), 7, sizes);
  out.params = out.before;
  out.error = Evaluator::run(got.module, out.params, sizes);
  return out;
}

TEST(Walk, RowSumIsWhatPlainLoopsAdd) {
  const Ran ran = run(kRowSum);
  ASSERT_EQ(ran.error, "");
  for (int64_t row = 0; row < 64; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < 512; ++i) {
      sum += static_cast<double>(as_float(ran.params[0], row * 512 + i)) *
                 static_cast<double>(as_float(ran.params[1], i)) +
             static_cast<double>(as_float(ran.params[2], i));
    }
    EXPECT_NEAR(as_float(ran.params[3], row), sum, 1e-3) << row;
  }
}

// The order of a row's sum is in the program: lane l of accumulator v adds elements 16 i + 8 v + l.
TEST(Walk, RowSumAddsInTheOrderThatItSays) {
  const Ran ran = run(kRowSum);
  for (int64_t row = 0; row < 64; ++row) {
    float lanes[16] = {};
    for (int64_t i = 0; i < 512; ++i) {
      const float product = as_float(ran.params[0], row * 512 + i) * as_float(ran.params[1], i);
      lanes[i % 16] += product + as_float(ran.params[2], i);
    }
    for (int half = 8; half != 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    EXPECT_EQ(as_float(ran.params[3], row), lanes[0]) << row;
  }
}

// The convolution with so many channels read: 64 take seconds.
std::string conv_of(int channels) {
  std::string text = kConv3x3;
  const std::string loop = "%8 = Loop 0 64 1";
  return text.replace(text.find(loop), loop.size(),
                      "%8 = Loop 0 " + std::to_string(channels) + " 1");
}

TEST(Walk, ConvolutionIsWhatPlainLoopsFuse) {
  constexpr int kChannels = 2;
  const Ran ran = run(conv_of(kChannels));
  ASSERT_EQ(ran.error, "");
  const Param &image = ran.params[0], &weights = ran.params[1], &bias = ran.params[2];
  for (int64_t out = 0; out < 64; ++out) {
    for (int64_t y = 0; y < 56; ++y) {
      for (int64_t x = 0; x < 56; ++x) {
        float sum = 0;
        for (int64_t c = 0; c < kChannels; ++c) {
          for (int64_t k = 0; k < 9; ++k) {
            const float pixel = as_float(image, 3364 * c + 58 * (y + k / 3) + x + k % 3);
            const float weight =
                as_float(weights, 18432 * (out / 32) + 288 * c + 32 * k + out % 32);
            sum = std::fma(pixel, weight, sum);
          }
        }
        sum = std::max(sum + as_float(bias, out), 0.0f);
        ASSERT_EQ(as_float(ran.params[3], 3136 * out + 56 * y + x), sum) << out << " " << y << x;
      }
    }
  }
}

// Programs that store to their first Param: its elements, in order.
struct Case {
  const char* text;  // behind "program p" and %0, an int64 param of 16 that is written
  std::vector<int64_t> expected;
};
void check(const std::string& axes, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    Read got("program p\n" + axes + "\n%0 = Param i64 0 [16] write\n" + one.text);
    ASSERT_TRUE(got.status.ok()) << got.error << one.text;
    EXPECT_TRUE(verify(got.module).ok()) << tests::last_error() << one.text;
    std::vector<Param> params{{DType::kInt64, 16, std::vector<uint8_t>(128)}};
    EXPECT_EQ(Evaluator::run(got.module, params), "") << one.text;
    for (size_t i = 0; i < one.expected.size(); ++i) {
      EXPECT_EQ(params[0].get(static_cast<int64_t>(i)), one.expected[i]) << one.text << "\n" << i;
    }
  }
}

TEST(Walk, InstructionsMeanWhatThePageSays) {
  check("axis u 2, v 4, w 8, x 1, y 3",
        {
            {"%1 = Lanes i64x4; Store %0, %1", {0, 1, 2, 3, 0}},
            {"%1 = Lanes i64x4; Store %0 + 1, %1 first 2", {0, 0, 1, 0}},
            {"%1 = Lanes i64x4; Store %0, %1 step 3", {0, 0, 0, 1, 0, 0, 2, 0, 0, 3}},
            {"%1 = Lanes i64x4; Store %0 + 3, %1 step -1", {3, 2, 1, 0}},
            {"%1 = Lanes i64x4; %2 = Const i64 2; %3 = Spread i64x4 %2; %4 = Mul i64x4 %1 %3\n"
             "Store %0 + 1, %1 at %4",
             {0, 0, 0, 1, 0, 2, 0, 3}},
            {"%1 = Lanes i64x4; %2 = Const i64 2; %3 = Spread i64x4 %2; %4 = CmpLt boolx4 %3 %1\n"
             "Store %0 + 1, %3 mask %4",
             {0, 0, 0, 0, 2, 0}},
            {"%1 = Const i64 5; %2 = Const bool 0; Store %0, %1 gate %2", {0}},
            {"%1 = Axis i64 {y} y; Store {y} %0 + 2*y, %1", {0, 0, 1, 0, 2}},
            {"%1 = Table i64 [4] 5 6 7 8; %2 = Load i64x4 %1 + 3 step -1; Store %0, %2",
             {8, 7, 6, 5}},
            {"%1 = Table i64 [4] 5 6 7 8; %2 = Load i64x4 %1 first 2; Store %0, %2", {5, 6, 0, 0}},
            {"%1 = Lanes i64x4; %2 = Shuffle i64x8 %1 %1 7 0 6 1 5 2 4 3; Store %0, %2",
             {3, 0, 2, 1, 1, 2, 0, 3}},
            {"%1 = Lanes i64x8; %2 = Lane i64 %1 6; Store %0, %2", {6}},
            {"%1 = Lanes i64x8; %2 = Across:Add i64 %1; Store %0, %2", {28}},
            {"%1 = Axis i64 {w} w; %2 = Join:Max i64 %1 w; Store %0, %2", {7}},
            {"%1 = Axis i64 {x} x; %2 = Join:Max i64 %1 x; Store %0, %2", {0}},
            {"%1 = Acc i64 3; %2 = Loop 0 10 4\n%3 = Add i64 %1 %2; Set %1 %3\nEnd\nStore %0, %1",
             {15}},
            {"%1 = Loop 5 5 1\n%2 = Const i64 9; Store %0, %2\nEnd", {0}},
            // A chain: each instance of Set before the next one's read.
            {"%1 = Acc i64 1; %2 = Axis i64 {v} v; %3 = Const i64 3\n"
             "Each v\n%4 = MulAcc i64 {v} %1 %3 %2; Set %1 %4\nEnd\nStore %0, %1",
             {((((1 * 3 + 0) * 3 + 1) * 3) + 2) * 3 + 3}},
            // Without Each all instances read the register first; the last one stays.
            {"%1 = Acc i64 1; %2 = Axis i64 {v} v; %3 = Const i64 3\n"
             "%4 = MulAcc i64 {v} %1 %3 %2; Set %1 %4\nStore %0, %1",
             {6}},
            {"%1 = Axis i64 {v} v; %2 = Const i64 2; %3 = CmpLt bool {v} %1 %2\n"
             "Each v; If %3; Store {v} %0 + v, %2; End; End",
             {2, 2, 0, 0}},
            {"%1 = Array i64 [4] private slack 4; %2 = Lanes i64x4; Store %1, %2\n"
             "%3 = Load i64x8 %1 first 5; %4 = Shuffle i64x4 %3 %3 3 2 1 0; Store %0, %4",
             {3, 2, 1, 0}},
        });
}

TEST(Walk, TurnIsATransposition) {
  for (int n : {2, 4, 8, 16, 32, 64}) {
    for (int rows : {n, n - 1, 1}) {
      for (int columns : {n, n - 1}) {
        const std::string lanes = "x" + std::to_string(n), size = std::to_string(n * n);
        const std::string text = "program p\naxis u " + std::to_string(rows) + ", w " +
                                 std::to_string(columns) + "\n%0 = Param i32 0 [" + size +
                                 "]\n%1 = Param i32 1 [" + size + "] write\n%2 = Load i32" + lanes +
                                 " {u} %0 + " + std::to_string(n) + "*u\n%3 = Turn i32" + lanes +
                                 " {w} %2 u->w\nStore {w} %1 + " + std::to_string(n) + "*w, %3\n";
        const Ran ran = run(text);
        ASSERT_EQ(ran.error, "") << text;
        for (int64_t i = 0; i < columns; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            const Word expected = j < rows ? ran.before[0].get(n * j + i) : 0;
            ASSERT_EQ(ran.params[1].get(n * i + j), expected) << n << " " << rows;
          }
        }
      }
    }
  }
}

TEST(Walk, ZipTakesLanesInTurn) {
  for (int n : {2, 4, 8, 16, 32, 64}) {
    for (const char* dtype : {"f32", "i8", "f64", "bf16"}) {
      const std::string type = std::string(dtype) + "x" + std::to_string(n),
                        half = std::to_string(n), size = std::to_string(2 * n);
      const std::string text =
          "program p\naxis u 2, w 2\n%0 = Param " + std::string(dtype) + " 0 [" + size +
          "]\n%1 = Param " + dtype + " 1 [" + size + "] write\n%2 = Load " + type + " {u} %0 + " +
          half + "*u\n%3 = Zip " + type + " {w} %2 u->w\nStore {w} %1 + " + half + "*w, %3\n";
      const Ran ran = run(text);
      ASSERT_EQ(ran.error, "") << text;
      for (int64_t i = 0; i < 2 * n; ++i)
        ASSERT_EQ(ran.params[1].get(i), ran.before[0].get(i / 2 + i % 2 * n)) << text << i;
    }
  }
}

// Turns beside each other, of one axis into itself, have registers of their own.
TEST(Walk, TurnsOfSeveralSquares) {
  const Ran ran = run(R"(program p
axis v 3, u 4
%0 = Param i32 0 [48]
%1 = Param i32 1 [48] write
%2 = Load i32x4 {v u} %0 + 16*v + 4*u
%3 = Turn i32x4 {v u} %2 u->u
Store {v u} %1 + 16*v + 4*u, %3
)");
  ASSERT_EQ(ran.error, "");
  for (int64_t i = 0; i < 48; ++i) {
    const int64_t from = i / 16 * 16 + i % 4 * 4 + i % 16 / 4;
    EXPECT_EQ(ran.params[1].get(i), ran.before[0].get(from)) << i;
  }
}

TEST(Walk, SizesAndFunctions) {
  const char* const text = R"(function rectify
%0 = Param f32xn 0
%1 = Const f32 0
%2 = Spread f32xn %1
%3 = CmpLt boolxn %0 %2
%4 = Acc f32xn %0
%5 = Across:Or bool %3
If %5
  %6 = Where f32xn %3 %2 %0
  Set %4 %6
End
Result %4
program p
%0 = Param i64 0 from 1 to 100
%1 = Param f32 0 [%0]
%2 = Param f32 1 [%0] write
%3 = Loop task 0 %0 1
  %4 = Load f32 %1 + %3
  %5 = Call f32 rectify %4
  Store %2 + %3, %5
End
)";
  for (int64_t size : {1, 7, 100}) {
    const Ran ran = run(text, {size});
    ASSERT_EQ(ran.error, "");
    for (int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(as_float(ran.params[1], i), std::max(as_float(ran.params[0], i), 0.0f));
    }
  }
  EXPECT_EQ(run(text, {0}).error, "instruction 1 (Param) is given what it does not allow");
}

TEST(Walk, ItemsMeetAtBarriers) {
  const Ran ran = run(tests::kReversed);
  ASSERT_EQ(ran.error, "");
  for (int64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(ran.params[1].get(i), ran.before[0].get(i / 8 * 8 + 7 - i % 8)) << i;
  }
  std::string race = tests::kReversed;
  race.erase(race.find("    Barrier local\n"), 18);
  const std::string error = run(race).error;
  EXPECT_TRUE(error == "instruction 9 (Load) reads what nothing has written" ||
              error.find("another task or item") != std::string::npos)
      << error;
  // What another item wrote before the same barrier is a race, initialised or not.
  std::string early = tests::kReversed;
  early.replace(early.find("%2 - %5 + 7"), 11, "%2 + %5    ");
  early.insert(early.find("    Barrier local"), "    %8 = Load i32 %2\n");
  EXPECT_NE(run(early).error.find("another task or item"), std::string::npos);
}

TEST(Walk, WhatNoProgramMayDoNamesTheInstruction) {
  const std::string head = "program p\n%0 = Param f32 0 [8] write\n%1 = Const f32 1\n";
  const std::pair<const char*, const char*> cases[] = {
      {"%2 = Const bool 1; Store %0 + 8, %1 gate %2", "instruction 4 (Store) leaves its memory"},
      {"%2 = Const bool 1; %3 = Load f32 %0 - 1 gate %2", "instruction 4 (Load) leaves its memory"},
      {"%2 = Array f32 [4] scratch; %3 = Load f32 %2", "reads what nothing has written"},
      {"%2 = Array f32 [4] scratch\n%3 = Loop task 0 2 1\n%4 = Const i64 1\n%5 = CmpLt bool %3 %4\n"
       "If %5\nStore %2, %1\nEnd\n%6 = Load f32 %2\nEnd",
       "instruction 10 (Load) reads what nothing has written"},
      {"%2 = Loop task 0 8 2\n%3 = Const i64 4\n%4 = Min i64 %2 %3\nStore %0 + %4, %1\nEnd",
       "touches an element that another task"},
      {"%2 = Const i32 1; %3 = Const i32 0; %4 = Quo i32 %2 %3", "(Quo) is not defined"},
      {"%2 = Const i32 -2147483648; %3 = Const i32 -1; %4 = Rem i32 %2 %3", "(Rem) is not defined"},
      {"%2 = Const i32 1; %3 = Const i32 32; %4 = Left i32 %2 %3", "(Left) is not defined"},
      {"%2 = Const i32 1; %3 = Const i32 -1; %4 = Right i32 %2 %3", "(Right) is not defined"},
      {"%2 = Const f32 256; %3 = ToInt u8 %2", "(ToInt) is not defined"},
      {"%2 = Const f32 nan; %3 = ToInt i64 %2", "(ToInt) is not defined"},
      {"%2 = Const f64 -0.5; %3 = ToInt u8 %2", ""},
      {"%2 = Const f64 2147483647.5; %3 = ToInt i32 %2", ""},
  };
  for (const auto& [text, says] : cases) {
    const Ran ran = run(head + text, {}, true);
    const bool expected =
        *says == '\0' ? ran.error.empty() : ran.error.find(says) != std::string::npos;
    EXPECT_TRUE(expected) << text << "\n-> " << ran.error;
  }
}

}  // namespace
}  // namespace aster::codegen::program
