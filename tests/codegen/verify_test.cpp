// Each rule of programs, with a program that breaks it.
#include "codegen/program_support.h"

namespace aster::codegen::program {
namespace {

using tests::kConv3x3;
using tests::kRowSum;
using tests::last_error;
using tests::Read;

// In front of the cases; slots of params are 0 to 3, of sizes 0.
const char* const kHead = R"(function half
%0 = Param f32xn 0
%1 = Const f32 0.5
%2 = Spread f32xn %1
%3 = Mul f32xn %0 %2
Result %3
program p
axis u 2, v 4, w 8, x 3
%0 = Param f32 0 [64]
%1 = Param f32 1 [64] write
%2 = Param i32 2 [64] write atomic
%3 = Param i64 0 from 1 to 16 by 4
%4 = Param f32 3 [4*%3]
%5 = Const f32 1
%6 = Const i64 1
%7 = Const i32 1
%8 = CmpLt bool %6 %3
%9 = Spread f32x8 %5
)";

// The error of verify, "" where there is none.
std::string fault_of(const std::string& text, bool vouched = false, Verified* out = nullptr) {
  Read got(text);
  EXPECT_TRUE(got.status.ok()) << got.error << "\n" << text;
  if (!got.status.ok()) return "unread";
  const Status status = verify(got.module, {vouched}, out);
  if (status.ok()) return "";
  EXPECT_EQ(status.code, static_cast<int32_t>(Code::kARGUMENT));
  return last_error();
}

struct Case {
  const char* text;
  const char* says;  // "" where nothing is wrong
};

void check(std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    const std::string said = fault_of(kHead + std::string(one.text));
    if (*one.says == '\0') {
      EXPECT_EQ(said, "") << one.text;
    } else {
      EXPECT_NE(said.find(one.says), std::string::npos) << one.text << "\n-> " << said;
    }
  }
}

TEST(Verify, TakesWhatTheDesignShows) {
  for (const char* text : {kRowSum, kConv3x3}) {
    Verified verified;
    EXPECT_EQ(fault_of(text, false, &verified), "");
    EXPECT_EQ(verified.unproved, 0u);
    EXPECT_GT(verified.steps, 30u);
  }
  EXPECT_EQ(fault_of(kHead), "");
}

TEST(Verify, Types) {
  check({
      {"%10 = Add f32 %5 %5", ""},
      {"%10 = Add f64 %5 %5", "instruction 11 (Add) has not dtypes and lanes that go together"},
      {"%10 = Add f32 %5 %6", "dtypes and lanes"},
      {"%10 = Add f32x8 %9 %5", "dtypes and lanes"},
      {"%10 = Add f32 %0 %5", "dtypes and lanes"},
      {"%10 = And f32 %5 %5", "dtypes and lanes"},
      {"%10 = Sqrt i64 %6", "dtypes and lanes"},
      {"%10 = CmpLt f32 %5 %5", "dtypes and lanes"},
      {"%10 = Where f32 %5 %5 %5", "dtypes and lanes"},
      {"%10 = Where f32 %8 %5 %5", ""},
      {"%10 = Threefry i64 %6 %6", "dtypes and lanes"},
      {"%10 = Quo i64 %6 %6", ""},
      {"%10 = Quo f32 %5 %5", "dtypes and lanes"},
      {"%10 = Spread f32x3 %5", "1, 2, 4, .. 64 lanes"},
      {"%10 = Spread f32x128 %5", "1, 2, 4, .. 64 lanes"},
      {"%10 = Spread f32xn %5", "1, 2, 4, .. 64 lanes"},
      {"%10 = Spread f32x4 %9", "a scalar of its dtype"},
      {"%10 = Spread f64x4 %5", "a scalar of its dtype"},
      {"%10 = Lane f32 %9 8", "one of its operand's lanes"},
      {"%10 = Lane f32x2 %9 1", "one of its operand's lanes"},
      {"%10 = Shuffle f32x4 %9 %9 0 1 2 15", ""},
      {"%10 = Shuffle f32x4 %9 %9 0 1 2 16", "lanes of two operands"},
      {"%10 = Shuffle f32x4 %9 %9 0 1 2", "lanes of two operands"},
      {"%10 = Across:Add f32x8 %9", "an operation on the lanes"},
      {"%10 = Across:Sub f32 %9", "an operation on the lanes"},
      {"%10 = Across:And f32 %9", "an operation on the lanes"},
      {"%10 = Across:Add f32 %5", "an operation on the lanes"},
      {"%10 = Cast i8x8 %9", ""},
      {"%10 = Cast i8 %9", "a value of as many lanes"},
      {"%10 = Bitcast i32x8 %9", ""},
      {"%10 = Bitcast i64x8 %9", "as many lanes and bits"},
      {"%10 = Bitcast bool %7", "as many lanes and bits"},
      {"%10 = ToInt i32 %6", "a float made an integer"},
      {"%10 = Lanes i32", "integer lanes"},
      {"%10 = Lanes f32x8", "integer lanes"},
      {"%10 = Axis f32 {u} u", "an integer along its axis"},
      {"%10 = Axis i32 {v} u", "an integer along its axis"},
      {"%10 = Table i64 [0]", "canonical numbers"},
      {"%10 = Array f32 [0] scratch", "elements, a space"},
      {"%10 = Array f32 [4096] private", ""},
      {"%10 = Array f32 [4097] private", "at most 16 KB"},
      {"%10 = Array f32 [4] global", "elements, a space"},
      {"%10 = Array f32 [4 + %3] private", "a constant number of elements"},
      {"%10 = Param f32x2 4 [64]", "a slot, and elements"},
      {"%10 = Param f32 4 [64] atomic", "a slot, and elements"},
      {"%10 = Param f32 4 [4*%6]", "elements that sizes tell"},
      {"%10 = Param f32 4 [-1]", "elements that sizes tell"},
      {"%10 = Param i64 1 from 4 to 1", "a slot, and elements"},
      {"%10 = Param i32 1 from 0 to 4294967296", "a slot, and elements"},
      {"%10 = Param i64 1 from 0 to 4 by 0", "a slot, and elements"},
      {"%10 = Param f32 0 [64]", "slots from 0 on, each once"},
      {"%10 = Param f32 5 [64]", "slots from 0 on, each once"},
      {"%10 = Param i64 2 from 0 to 4", "slots from 0 on, each once"},
      {"%10 = Param f32 4", "a slot, and elements"},
  });
}

TEST(Verify, BlocksAndRegisters) {
  check({
      {"End", "a block to end"},
      {"If %8", "an End for each block"},
      {"If %5; End", "a scalar condition"},
      {"If %8\n%10 = Neg f32 %5\nEnd\n%11 = Neg f32 %10", "operands in open blocks"},
      {"%10 = Loop 0 4 1\nEnd\n%11 = Neg i64 %10", "operands in open blocks"},
      {"%10 = Loop 0 4 0\nEnd", "integer bounds and a step above 0"},
      {"%10 = Loop i32 0 2147483647 1\nEnd", "integer bounds and a step"},
      {"%10 = Loop i32 0 %3 1\nEnd", "integer bounds and a step"},
      {"%10 = Load f32 %0\n%11 = Cast i64 %10\n%12 = Loop 0 %11 1\nEnd", "room for a step"},
      {"%10 = Loop 0 %3 1\nEnd", ""},
      {"Each u\n%10 = Loop 0 4 1\nEnd\nEnd", "a place outside of Each"},
      {"Each u; Each u; End; End", "an axis that is not gone along already"},
      {"Each u\n%10 = Neg f32 %5\nEnd", "the axes of Each around it"},
      {"%10 = Axis i64 {u} u\nIf %8; End\n%11 = CmpLt bool {u} %10 %6\nIf %11; End",
       "Each for the axes of its condition"},
      {"%10 = Axis i64 {u} u\n%11 = CmpLt bool {u} %10 %6\nEach u; If %11; End; End", ""},
      {"If %8\n%10 = Param f32 4 [64]\nEnd", "a place outside of blocks"},
      {"%10 = Loop 0 4 1\n%11 = Array f32 [4] private\nEnd", "outside of serial loops"},
      {"%10 = Loop task 0 4 1\n%11 = Array f32 [4] private\nEnd", ""},
      {"%10 = Acc f32 %5\nSet %10 %5", ""},
      {"%10 = Acc f32 %6", "a beginning of its type"},
      {"%10 = Acc f32x8 %5", "a beginning of its type"},
      {"%10 = Acc f32 %5\nSet %10 %6", "a register and a value of its type"},
      {"Set %5 %5", "a register and a value of its type"},
      {"%10 = Axis i64 {u} u\n%11 = Acc i64 %10", "a beginning of its type"},
      {"%10 = Acc f32 0\n%11 = Loop task 0 4 1\nSet %10 %5\nEnd", "a register of its own task"},
      {"%10 = Acc f32 0\n%11 = Loop 0 4 1\nSet %10 %5\nEnd", ""},
  });
}

TEST(Verify, Axes) {
  check({
      {"%10 = Load f32 {u} %0 + u", ""},
      {"%10 = Load f32 %0 + u", "the axes of its operands"},
      {"%10 = Load f32 {u v} %0 + u", "the axes of its operands"},
      {"%10 = Load f32 {u} %0 + u\n%11 = Neg f32 %10", "the axes of its operands"},
      {"%10 = Load f32x8 {v} %0 + v\n%11 = Turn f32x8 {w} %10 v->w", ""},
      {"%10 = Load f32x8 {v} %0 + v\n%11 = Turn f32x8 {u} %10 v->u", ""},
      {"%10 = Load f32x2 {u} %0 + u\n%11 = Turn f32x2 {v} %10 u->v", "axes and lanes that it can"},
      {"%10 = Load f32x8 {v} %0 + v\n%11 = Turn f32x8 {u w} %10 v->w",
       "axes and lanes that it can"},
      {"%10 = Load f32x2 {v} %0 + v\n%11 = Turn f32x2 {u} %10 v->u", "axes and lanes that it can"},
      {"%10 = Load f32x8 {u} %0 + u\n%11 = Turn f32x8 {w} %10 v->w", "axes and lanes that it can"},
      {"%10 = Load f32x8 {v} %0 + v\n%11 = Zip f32x8 {v} %10 v->v", "two axes of two values"},
      {"%10 = Load f32x8 {u} %0 + u\n%11 = Zip f32x8 {v} %10 u->v", "two axes of two values"},
      {"%10 = Load f32 {v} %0 + v\n%11 = Zip f32 {v} %10 v->v", "two axes of two values"},
      {"%10 = Load f32 {u v} %0 + u + v\n%11 = Join:Add f32 {u} %10 v", ""},
      {"%10 = Load f32 {u v} %0 + u + v\n%11 = Join:Add f32 {v} %10 v",
       "an operation, and an axis"},
      {"%10 = Load f32 {u} %0 + u\n%11 = Join:Add f32 {u} %10 v", "an operation, and an axis"},
      {"%10 = Load f32 {x} %0 + x\n%11 = Join:Add f32 %10 x", "an operation, and an axis"},
      {"%10 = Load f32 {v} %0 + v\n%11 = Join:Sub f32 %10 v", "an operation, and an axis"},
      {"%10 = Load f32 {u v} %0 + u + v\nEach u\n%11 = Join:Add f32 {v} %10 u\nEnd",
       "all instances before it"},
      {"%10 = Axis i64 {u} u\n%11 = Axis i64 {v} v\n%12 = Add i64 {u v} %10 %11", ""},
  });
}

TEST(Verify, Memory) {
  check({
      {"%10 = Load f32 %0 + 63", ""},
      {"%10 = Load f32 %0 + 64", "its elements inside the memory"},
      {"%10 = Load f32x8 %0 + 57", "its elements inside the memory"},
      {"%10 = Load f32x8 %0 + 57 first 7", ""},
      {"%10 = Load f32x8 %0 step 9", ""},
      {"%10 = Load f32x8 %0 step 10", "its elements inside the memory"},
      {"%10 = Load f32x8 %0 step -1", "its elements inside the memory"},
      {"%10 = Load f32x8 %0 + 7 step -1", ""},
      {"%10 = Load f32x8 %0 first 9", "limits that fit"},
      {"%10 = Load f32x8 %0 first 0", "limits that fit"},
      {"%10 = Load f32x8 %0 step 0", "limits that fit"},
      {"%10 = Load f32 %0 step 2", "limits that fit"},
      {"%10 = Load f32 %0 + %5", "limits that fit"},
      {"%10 = Load f32x8 %0 at %6", "limits that fit"},
      {"%10 = Load f32x8 %0 mask %8", "limits that fit"},
      {"%10 = Load f32 %0 gate %5", "limits that fit"},
      {"%10 = Load f32 %5", "a memory, integer indices"},
      {"%10 = Load f64 %0", "memory of its dtype"},
      {"%10 = Load i32 %2", "memory of its dtype that is not atomic"},
      {"%10 = Load f32 %0 - 1 gate %8", "nothing proves 1 of its accesses"},
      {"%10 = Loop 0 64 1\n%11 = Load f32 %0 + %10\nEnd", ""},
      {"%10 = Loop 0 65 1\n%11 = Load f32 %0 + %10\nEnd", "its elements inside the memory"},
      {"%10 = Loop 0 65 64\n%11 = Load f32 %0 + %10\nEnd", "its elements inside the memory"},
      {"%10 = Loop 0 64 48\n%11 = Load f32x16 %0 + %10\nEnd", ""},
      {"%10 = Loop 0 65 1\nIf %8\n%11 = Load f32 %0 + %10\nEnd\nEnd", "nothing proves 1"},
      {"%10 = Loop 0 8 1\n%11 = Const i64 3\n%12 = Min i64 %10 %11\n%13 = Load f32 %0 + "
       "21*%12\nEnd",
       ""},
      {"%10 = Lanes i32x8\n%11 = Load f32x8 %0 + 56 at %10", ""},
      {"%10 = Lanes i32x8\n%11 = Load f32x8 %0 + 57 at %10", "nothing proves 1"},
      {"%10 = Lanes i32x8\n%11 = Load f32x8 %0 + 64 at %10", "its elements inside the memory"},
      {"Prefetch %0 + 1000000", ""},
      {"%10 = Array f32 [8] scratch slack 8\n%11 = Load f32x16 %10", ""},
      {"%10 = Array f32 [8] scratch slack 8\nStore %10 + 1, %9", "its elements inside the memory"},
      {"%10 = Table f32 [2] 1 2\n%11 = Load f32x2 %10", ""},
      {"%10 = Table f32 [2] 1 2\n%11 = Load f32x4 %10", "its elements inside the memory"},
      {"%10 = Table f32 [2] 1 2\nStore %10, %5", "memory that it may write"},
      {"Store %0, %5", "memory that it may write"},
      {"Store %2, %7", "memory that it may write"},
      {"Store %1, %6", "a value of the memory's dtype"},
      {"Store %1, %1", "a value of the memory's dtype"},
      {"Atomic:Add %2, %7", ""},
      {"Atomic:Mul %2, %7", "an operation on integers"},
      {"Atomic:Add %1, %5", "memory that is atomic"},
  });
}

TEST(Verify, SymbolicSizes) {
  check({
      {"%10 = Loop 0 %3 1\n%11 = Load f32 %4 + 4*%10\nEnd", ""},
      {"%10 = Loop 0 %3 1\n%11 = Load f32x4 %4 + 4*%10\nEnd", ""},
      {"%10 = Loop 0 %3 1\n%11 = Load f32x8 %4 + 4*%10\nEnd", "nothing proves 1"},
      {"%10 = Loop 0 %3 4\n%11 = Load f32x16 %4 + 4*%10\nEnd", ""},
      {"%10 = Loop 0 %3 8\n%11 = Load f32x32 %4 + 4*%10\nEnd", "nothing proves 1"},
      {"%10 = Loop 1 %3 4\n%11 = Load f32x16 %4 + 4*%10\nEnd", "nothing proves 1"},
      {"%10 = Loop 0 %3 1\n%11 = Loop %10 %3 1\n%12 = Load f32 %4 + 4*%11 - 4*%10\nEnd\nEnd", ""},
      {"%10 = Load f32 %4 + 4*%3", "nothing proves 1"},
      {"%10 = Load f32 %4 + 64", "its elements inside the memory"},
      {"%10 = Load f32 %4 + 4*%3 - 1", ""},
  });
}

TEST(Verify, TasksAreApart) {
  check({
      {"%10 = Loop task 0 64 1\nStore %1 + %10, %5\nEnd", ""},
      {"%10 = Loop task 0 64 8\nStore %1 + %10, %9\nEnd", ""},
      {"%10 = Loop task 0 57 4\nStore %1 + %10, %9\nEnd", "nothing proves 1"},
      {"%10 = Loop task 0 8 1\nStore %1, %5\nEnd", "elements of its own for each task"},
      {"%10 = Loop task 0 1 1\nStore %1, %5\nEnd", ""},
      {"%10 = Loop task 0 8 1\n%11 = Loop 0 8 1\nStore %1 + %10 + 8*%11, %5\nEnd\nEnd", ""},
      {"%10 = Loop task 0 8 1\n%11 = Loop 0 8 1\nStore %1 + %10 + 7*%11, %5\nEnd\nEnd",
       "nothing proves 1"},
      {"%10 = Loop task 0 8 1\n%11 = Loop 0 16 1\nStore %1 + 4*%10 + %11, %5\nEnd\nEnd",
       "nothing proves 1"},
      {"%10 = Loop task 0 4 1; %11 = Loop task 0 4 1\nStore %1 + 4*%10 + %11, %5\nEnd; End", ""},
      {"%10 = Loop task 0 4 1; %11 = Loop task 0 4 1\nStore %1 + 3*%10 + %11, %5\nEnd; End",
       "nothing proves 1"},
      {"%10 = Loop task 0 8 1\n%11 = Const i64 6\n%12 = Min i64 %10 %11\nStore %1 + 8*%12, %9\nEnd",
       "nothing proves 1"},
      {"%10 = Loop task 0 8 1\nStore %1 + 2*%10, %5\nStore %1 + 2*%10 + 1, %5\nEnd", ""},
      {"%10 = Loop task 0 8 1\nStore %1 + 2*%10, %5\nStore %1 + 2*%10 + 2, %5\nEnd",
       "nothing proves 1"},
      {"%10 = Loop task 0 4 1\nStore %1 + %10, %5\nEnd\n%11 = Loop task 4 8 1\nStore %1 + %11, "
       "%5\nEnd",
       ""},
      {"%10 = Loop task 0 5 1\nStore %1 + %10, %5\nEnd\n%11 = Loop task 4 8 1\nStore %1 + %11, "
       "%5\nEnd",
       "nothing proves 1"},
      {"%10 = Loop task 0 8 1\n%11 = CmpEq bool %10 %6\nIf %11\nStore %1, %5\nEnd\nEnd",
       "nothing proves 1"},
      {"%10 = Loop task 0 8 1\nAtomic:Add %2, %7\nEnd", ""},
      {"Store %1, %5\n%10 = Loop task 0 8 1\nEnd", "nothing written outside of parallel loops"},
      {"%10 = Loop task 0 8 1\nEnd\nStore %1, %5", "a task that does it"},
      {"%10 = Loop task 0 8 1\nStore %1 + %10, %5\n%11 = Loop task 0 8 1\nEnd\nEnd",
       "the loop around it for itself"},
      {"%10 = Loop task 0 8 1\n%11 = Loop task 0 8 1\nEnd\nStore %1 + %10, %5\nEnd",
       "a task that does it"},
      {"%10 = Loop task 0 8 1\n%11 = Loop task 0 %10 1\nEnd\nEnd", "the same for all tasks"},
      {"%10 = Loop 0 8 1\n%11 = Loop task 0 8 1\nEnd\nEnd", "parallel loops alone around it"},
      {"%10 = Loop local 0 0 8 1\n%11 = Loop group 0 0 8 1\nEnd\nEnd", "its place among tasks"},
      {"%10 = Loop group 0 0 8 1\n%11 = Loop group 0 0 8 1\nEnd\nEnd", "its place among tasks"},
      {"%10 = Loop task 0 8 1\n%11 = Loop local 0 0 8 1\nEnd\nEnd", "its place among tasks"},
      {"%10 = Loop group 0 0 8 1\nEnd\n%11 = Loop group 0 0 8 1\nEnd", "its place among tasks"},
      {"%10 = Loop group 0 0 8 1\n%11 = Loop local 0 0 8 1\nStore %1 + 8*%10 + %11, %5\nEnd\nEnd",
       ""},
  });
}

TEST(Verify, ReadsComeBeforeWrites) {
  check({
      {"%10 = Loop task 0 64 1\n%11 = Load f32 %1 + %10\nStore %1 + %10, %11\nEnd", ""},
      {"%10 = Loop task 0 64 1\nStore %1 + %10, %5\n%11 = Load f32 %1 + %10\nEnd",
       "memory that is not written before it"},
      {"%10 = Loop task 0 63 1\n%11 = Load f32 %1 + %10 + 1\nStore %1 + %10, %11\nEnd",
       "the form at which its memory is read"},
      {"%10 = Load f32 %1\n%11 = Load f32 %1 + 1\nStore %1, %10", "the form at which"},
      {"%10 = Loop 0 4 1\n%11 = Load f32 %1 + %10\nStore %1 + %10, %11\nEnd\n"
       "%12 = Loop 4 8 1\n%13 = Load f32 %1 + %12\nStore %1 + %12, %13\nEnd",
       "nothing proves 1 of its accesses"},
      {"%10 = Loop 0 4 1\n%11 = Load f32 %1\nStore %1, %11\nEnd",
       "an element that is written once"},
      {"%10 = Load f32 %1\n%11 = Loop 0 4 1\nStore %1, %10\nEnd", ""},
      {"%10 = Loop 0 4 1\n%11 = Load f32x8 %1 + 8*%10\nStore %1 + 8*%10, %11\nEnd", ""},
      {"%10 = Loop 0 4 1\n%11 = Load f32x8 %1 + 4*%10\nStore %1 + 4*%10, %11\nEnd",
       "nothing proves 1"},
      {"Each u\n%10 = Load f32 {u} %1 + u\nStore {u} %1 + u, %10\nEnd", ""},
  });
}

TEST(Verify, Groups) {
  check({
      {"%10 = Loop group 0 0 4 1; %11 = Loop local 0 0 8 1\nBarrier local\nEnd; End", ""},
      {"%10 = Loop group 0 0 4 1\nBarrier local\nEnd", "a group of items"},
      {"%10 = Loop local 0 0 8 1\n%11 = CmpLt bool %10 %6\nIf %11\nBarrier local\nEnd\nEnd",
       "all items of the group"},
      {"%10 = Loop local 0 0 8 1\nIf %8\nBarrier local\nEnd\nEnd", ""},
      {"%10 = Loop local 0 0 8 1\n%11 = Loop 0 %10 1\nBarrier local\nEnd\nEnd",
       "all items of the group"},
      {"%10 = Loop local 0 0 8 1\nBarrier private\nEnd", "local or global memory"},
      {"%10 = Loop local 0 0 8 1\nEach u; Barrier local; End\nEnd", "a place outside of Each"},
  });
}

TEST(Verify, Functions) {
  check({
      {"%10 = Call f32x8 half %9", ""},
      {"%10 = Call f32 half %5", ""},
      {"%10 = Call f32x8 half %9 %9", "the function's arguments and result"},
      {"%10 = Call f64x8 half %9", "the function's arguments and result"},
      {"%10 = Call f32x4 half %9", "the function's arguments and result"},
      {"Result %5", "the last place of a function"},
      {"function f", "f has not a Result"},
      {"function f\naxis u 2\n%0 = Param f32xn 0\nResult %0", "f has not a body without axes"},
      {"function f\n%0 = Param f32xn 0\n%1 = Loop 0 4 1\nEnd\nResult %0", "a place in a function"},
      {"function f\n%0 = Param f32xn 0\n%1 = Lane f32 %0 0\nResult %0", "a place in a function"},
      {"function f\n%0 = Param f32 0 [4]\n", "a slot, and elements"},
      {"function f\n%0 = Param f32 0\nResult %0", "the last place of a function, with its value"},
      {"function f\n%0 = Param f32xn 0\n%1 = Across:Add f32 %0\nResult %0", "an operation on the"},
      {"function f\n%0 = Table f32 [2] 1 2\n%1 = Param i32xn 0\n%2 = Const i32 1\n"
       "%3 = Spread i32xn %2\n%4 = And i32xn %1 %3\n%5 = Load f32xn %0 at %4\nResult %5",
       ""},
      {"function f\n%0 = Table f32 [2] 1 2\n%1 = Param i32xn 0\n%2 = Load f32xn %0 at %1\nResult "
       "%2",
       "nothing proves 1"},
      {"function f\n%0 = Table f32 [2] 1 2\n%1 = Load f32xn %0\nResult %1", "limits that fit"},
  });
}

TEST(Verify, Limits) {
  std::string many = kHead;
  for (int i = 10; i < 4100; ++i) many += "%" + std::to_string(i) + " = Neg f32 %5\n";
  EXPECT_NE(fault_of(many).find("4096 instructions, written out"), std::string::npos);
  std::string wide = "program p\naxis u 64, v 64\n%0 = Param f32 0 [64]\n";
  EXPECT_EQ(fault_of(wide + "%1 = Load f32 {u} %0 + u"), "");
  const std::string tile = "%1 = Axis i64 {u} u\n%2 = Axis i64 {v} v\n%3 = Add i64 {u v} %1 %2";
  EXPECT_NE(fault_of(wide + tile).find("4096 instructions"), std::string::npos);
  std::string axes = "program p\naxis ";
  for (int i = 0; i < 17; ++i) axes += (i == 0 ? "a" : ", a") + std::to_string(i) + " 2";
  Read got(axes);
  EXPECT_NE(got.error.find("behind 16 others"), std::string::npos) << got.error;
}

TEST(Verify, VouchedAccessesAreCounted) {
  const std::string text = kHead + std::string("%10 = Load f32 %0 - 1 gate %8\n");
  Verified verified;
  EXPECT_EQ(fault_of(text, true, &verified), "");
  EXPECT_EQ(verified.unproved, 1u);
}

}  // namespace
}  // namespace aster::codegen::program
