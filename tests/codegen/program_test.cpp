// Programs as text: what the design shows reads and prints back, what is malformed names its line.
#include "codegen/program.h"

#include "codegen/program_support.h"

namespace aster::codegen::program {
namespace {

using tests::kConv3x3;
using tests::kRowSum;
using tests::last_error;
using tests::Read;

// A text without comments and layout, one instruction a line.
std::string plain(const std::string& text) {
  std::string out;
  bool comment = false;
  for (char c : text) {
    comment = c == '#' || (comment && c != '\n');
    if (comment) continue;
    if (c == ';') c = '\n';
    const bool space = c == ' ' || c == '\n';
    if (space && !out.empty() && out.back() == ' ') out.pop_back();
    if (space && (out.empty() || out.back() == '\n')) continue;
    out += c;
  }
  return out;
}

TEST(Program, ReadsAndPrintsWhatTheDesignShows) {
  for (const char* text : {kRowSum, kConv3x3}) {
    Read first(text);
    ASSERT_TRUE(first.status.ok()) << first.error;
    const std::string printed = tests::print(first.module);
    EXPECT_EQ(plain(printed), plain(text));
    Read second(printed);
    ASSERT_TRUE(second.status.ok()) << second.error;
    EXPECT_EQ(tests::print(second.module), printed);
    EXPECT_EQ(second.last().digest(), first.last().digest());
    Verified verified;
    EXPECT_TRUE(verify(first.module, {}, &verified).ok()) << last_error();
    EXPECT_EQ(verified.unproved, 0u);
  }
}

TEST(Program, PrintsEveryInstructionAsItWasRead) {
  Read first(tests::kEverything);
  ASSERT_TRUE(first.status.ok()) << first.error;
  EXPECT_EQ(tests::print(first.module), tests::kEverything);
}

TEST(Program, DigestsTellProgramsApart) {
  Read first(kRowSum);
  const std::string text = tests::print(first.module);
  const std::pair<const char*, const char*> changes[] = {
      {"u 4", "u 2"},           {"0 64 4", "0 64 8"},   {"512*%4", "256*%4"}, {"Mul", "Sub"},
      {"%10 %8", "%9 %8"},      {"{u v} 0", "{u v} 1"}, {"[64]", "[65]"},     {" write", ""},
      {"Join:Add", "Join:Max"}, {"%5 v", "%5 u"}};
  for (const auto& [from, to] : changes) {
    std::string other = text;
    const size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Read second(other.replace(at, std::string(from).size(), to));
    ASSERT_TRUE(second.status.ok()) << second.error;
    EXPECT_FALSE(second.last().digest() == first.last().digest()) << from;
  }
  Read renamed("program other" + text.substr(text.find('\n')));
  EXPECT_EQ(renamed.last().digest(), first.last().digest());
}

struct Malformed {
  const char* text;
  const char* says;
};
constexpr Malformed kMalformed[] = {
    {"", "line 1: a program expected, not \"the end\""},
    {"Store", "line 1: program or function expected, not \"Store\""},
    {"program", "line 1: a name expected"},
    {"program p q", "line 1: the end of the instruction expected, not \"q\""},
    {"program p\nprogram p", "line 2: a name of its own"},
    {"program p\naxis u", "line 2: an integer expected"},
    {"program p\naxis u 0", "line 2: an axis \"u\" of 0"},
    {"program p\naxis u 9999", "line 2: an axis \"u\" of 9999"},
    {"program p\naxis u 2, u 3", "line 2: a new axis expected, not \"u\""},
    {"program p\naxis longest_name 2", "line 2: an axis \"longest_name\""},
    {"program p\n\n%0 = Nothing f32 1", "line 3: an instruction expected, not \"Nothing\""},
    {"program p\n%0 = Reduce f32 1", "line 2: an instruction expected, not \"Reduce\""},
    {"program p\n%0 Const f32 1", "line 2: = expected, not \"Const\""},
    {"program p\nConst f32 1", "line 2: Const has a value"},
    {"program p\n%0 = End", "line 2: End has no value"},
    {"program p\n%0 = Const f33 1", "line 2: a type expected, not \"f33\""},
    {"program p\n%0 = Const f32x1 1", "line 2: a type expected"},
    {"program p\n%0 = Const f32x999 1", "line 2: a type expected"},
    {"program p\n%0 = Const f32 one", "line 2: a number expected, not \"one\""},
    {"program p\n%0 = Const i8 200", "line 2: a number that the type holds expected"},
    {"program p\n%0 = Const bool 2", "line 2: a number that the type holds expected"},
    {"program p\n%0 = Const i64 9223372036854775808", "line 2: an integer of 64 bits expected"},
    {"program p\n%0 = Const i64 99999999999999999999", "line 2: an integer expected"},
    {"program p\n%0 = Const f32 1 2", "line 2: the end of the instruction expected, not \"2\""},
    {"program p\n%0 = Const f32 1; %0 = Const f32 2", "line 2: %0 is defined twice"},
    {"program p\n%99999999999999999999 = Const f32 1", "line 2: a number of a value is too large"},
    {"program p\n%0 = Neg f32 %1", "line 2: a value that stands before expected, not \"%1\""},
    {"program p\n%0 = Neg f32 {u} %1", "line 2: an axis expected, not \"u\""},
    {"program p\n%0 = Param f32 0 [4", "line 2: ] expected"},
    {"program p\n%0 = Param f32 0 []", "line 2: an axis expected"},
    {"program p\n%0 = Param f32 0 [9223372036854775807 + 1]", "line 2: a smaller form expected"},
    {"program p\n%0 = Param f32 0 [18446744073709551615]", "line 2: an integer of 63 bits"},
    {"program p\n%0 = Param i64 0 from 1", "line 2: to expected"},
    {"program p\n%0 = Array f32 [4] global2", "line 2: private, scratch, local or global expected"},
    {"program p\n%0 = Table f32 [2] 1", "line 2: a number expected"},
    {"program p\n%0 = Table f32 [-1]", "line 2: a smaller table expected"},
    {"program p\n%0 = Table f32 [4097]", "line 2: a smaller table expected"},
    {"program p\n%0 = Loop group 3 0 1 1", "line 2: 0, 1 or 2 expected, not \"3\""},
    {"program p\n%0 = Loop 0 1", "line 2: an integer expected"},
    {"program p\n%0 = Param f32 0 [4]\nStore %0 1", "line 3: , expected, not \"1\""},
    {"program p\n%0 = Param f32 0 [4]\n%1 = Load f32 %0 + 4*4", "line 3: an axis expected"},
    {"program p\n%0 = Param f32 0 [4]\n%1 = Across f32 %0", "line 3: an instruction expected"},
    {"program p\n%0 = Param f32 0 [4]\n%1 = Across:Each2 f32 %0", "line 3: an instruction with"},
    {"program p\n%0 = Const f32 1\n%1 = Call f32 f %0", "line 3: a function that stands before"},
    {"program f\nprogram p\n%0 = Const f32 1\n%1 = Call f32 f %0",
     "line 4: a function that stands before"},
    {"program p\n%0 = Const f32 1\n%1 = Neg f32 %0 @", "line 3: the end of the instruction"},
};

TEST(Program, MalformedTextIsToldWithItsLine) {
  for (const Malformed& row : kMalformed) {
    Read got(row.text);
    EXPECT_EQ(got.status.code, static_cast<int32_t>(Code::kFORMAT)) << row.text;
    EXPECT_NE(got.error.find(row.says), std::string::npos) << row.text << "\n-> " << got.error;
    EXPECT_TRUE(got.module.programs.empty()) << row.text;
  }
}

TEST(Program, BuildersStopAtTheFirstFailure) {
  Program program(process_heap());
  Instruction in;
  in.op = Op::kNeg;
  EXPECT_EQ(program.add(in, std::array<Id, 1>{0}), kNone);  // no such operand
  EXPECT_EQ(program.status().code, static_cast<int32_t>(Code::kARGUMENT));
  in.op = Op::kEnd;
  EXPECT_EQ(program.add(in), kNone);
  EXPECT_TRUE(program.code().empty());
  Program form(process_heap());
  in.op = Op::kPrefetch;
  form.add_axis("u", 2);
  const Term much[] = {{INT64_MAX, 0, true}, {1, 0, true}};
  EXPECT_EQ(form.add(in, {}, {}, much), kNone);
  EXPECT_EQ(form.status().code, static_cast<int32_t>(Code::kRANGE));
}

}  // namespace
}  // namespace aster::codegen::program
