// Random programs read back as they were printed and run in the evaluator; text that was broken at
// random is read or refused, never more; every allocation fails once.
#include <algorithm>
#include <chrono>

#include "codegen/program_evaluator.h"
#include "codegen/random_program.h"

namespace aster::codegen::program {
namespace {

using tests::last_error;
using tests::RandomProgram;
using tests::Read;

TEST(ProgramFuzz, RandomProgramsReadBackAndRun) {
  size_t steps = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const std::string text = RandomProgram(seed, true).text();
    Read first(text);
    ASSERT_TRUE(first.status.ok()) << first.error << "\nseed " << seed << "\n" << text;
    Verified verified;
    ASSERT_TRUE(verify(first.module, {}, &verified).ok())
        << last_error() << "\nseed " << seed << "\n"
        << tests::print(first.module);
    const std::string printed = tests::print(first.module);
    Read second(printed);
    ASSERT_TRUE(second.status.ok()) << second.error << "\nseed " << seed;
    EXPECT_EQ(tests::print(second.module), printed) << "seed " << seed;
    EXPECT_EQ(second.last().digest(), first.last().digest()) << "seed " << seed;
    if (seed % 4 != 0) continue;
    std::vector<tests::Param> params = tests::make_params(first.last(), seed), again = params;
    EXPECT_EQ(tests::Evaluator::run(first.module, params), "") << "seed " << seed << "\n"
                                                               << printed;
    EXPECT_EQ(tests::Evaluator::run(second.module, again), "");
    for (size_t i = 0; i < params.size(); ++i) EXPECT_EQ(params[i].bytes, again[i].bytes);
    steps += verified.steps;
  }
  EXPECT_GT(steps, 5000u);
}

bool exhaustive() { return std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr; }

// A store, and sometimes a load, at a random form in random loops.
std::string random_accesses(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  const auto number = [&](int n) { return std::to_string(below(n)); };
  const std::vector<int> strides{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
  const int u = 1 + below(4), v = 1 + below(3), lanes = 1 << below(4);
  std::string text = "program p\naxis u " + std::to_string(u) + ", v " + std::to_string(v) +
                     "\n%0 = Param i64 0 from 1 to 8 by " + std::to_string(1 + below(2)) +
                     "\n%1 = Param i32 0 [" + (below(3) == 0 ? "16*%0 + " : "") +
                     std::to_string(40 + below(300)) + "] write\n";
  std::string form, ends;
  int label = 10;
  const int tasks = below(3), serial = below(3);
  for (int i = 0; i < tasks + serial; ++i) {
    const std::string name = "%" + std::to_string(label++);
    text += name + " = Loop " + (i < tasks ? "task " : "") + number(3) + " " +
            (below(4) == 0 ? "%0" : std::to_string(1 + below(9))) + " " +
            std::to_string(1 + below(3)) + "\n";
    std::string term = name;
    if (below(8) == 0) {
      text += "%" + std::to_string(label) + " = Const i64 " + number(6) + "\n%" +
              std::to_string(label + 1) + " = " + (below(2) == 0 ? "Min" : "FloorMod") + " i64 " +
              name + " %" + std::to_string(label) + "\n";
      term = "%" + std::to_string(label + 1);
      label += 2;
    }
    const int stride = strides[static_cast<size_t>(below(11))];
    if (below(8) != 0)
      form += (below(9) == 0 ? " - " : " + ") + std::to_string(stride) + "*" + term;
    ends += "End\n";
  }
  if (below(3) != 0) form += " + " + std::to_string(strides[static_cast<size_t>(below(11))]) + "*u";
  if (below(3) == 0) form += " + " + std::to_string(strides[static_cast<size_t>(below(11))]) + "*v";
  form += (below(6) == 0 ? " - " : " + ") + number(8);
  const std::string axes = std::string(form.find("*u") == std::string::npos ? "" : "u ") +
                           (form.find("*v") == std::string::npos ? "" : "v ");
  const std::string braces = axes.empty() ? "" : " {" + axes + "}";
  const std::string type = lanes == 1 ? "i32" : "i32x" + std::to_string(lanes);
  std::string limits;
  if (lanes > 1 && below(3) == 0) limits += " step " + std::to_string(1 + below(4));
  if (lanes > 1 && below(3) == 0) limits += " first " + std::to_string(1 + below(lanes));
  std::string value = "%7";
  text +=
      "%6 = Const i32 5\n" + (lanes == 1 ? "%7 = Neg i32 %6\n" : "%7 = Spread " + type + " %6\n");
  if (below(4) == 0) {
    text += "%8 = Load " + type + braces + " %1" + form + limits + "\n";
    value = "%8";
  }
  text += "Store" + braces + " %1" + form + ", " + value + limits + "\n";
  if (below(4) == 0) text += "Store" + braces + " %1" + form + " + " + number(40) + ", %7\n";
  return text + ends;
}

// What is proved never happens, and what is refused as certain does.
TEST(ProgramFuzz, ProofsHoldAndFaultsAreReal) {
  std::mt19937_64 random(31);
  size_t proved = 0, refused = 0, unproved = 0;
  for (int i = 0; i < (exhaustive() ? 200000 : 4000); ++i) {
    const std::string text = random_accesses(random);
    Read got(text);
    ASSERT_TRUE(got.status.ok()) << got.error << "\n" << text;
    Verified verified;
    const Status status = verify(got.module, {true}, &verified);
    const std::string said = status.ok() ? "" : last_error();
    // Other rules are not what this is about.
    const bool certain = said.find("inside the memory") != std::string::npos ||
                         said.find("its own for each task") != std::string::npos;
    if (!status.ok() && !certain) continue;
    (certain ? refused : verified.unproved == 0 ? proved : unproved)++;
    if (!certain && verified.unproved != 0) continue;
    const int64_t by = got.last().words(got.last().at(0))[3];
    std::string failed;
    for (int64_t size = by; size <= 8; size += by) {
      std::vector<tests::Param> params = tests::make_params(got.last(), 3, {size});
      const std::string error = tests::Evaluator::run(got.module, params, {size});
      if (!error.empty()) failed = error;
    }
    EXPECT_EQ(failed.empty(), !certain) << said << " / " << failed << "\n" << text;
    if (HasFailure()) return;
  }
  EXPECT_GT(proved, 300u);
  EXPECT_GT(refused, 300u);
  EXPECT_GT(unproved, 300u);
}

// What a mutation leaves of a text: a word of it swapped, doubled, cut, or a byte changed.
std::string mutated(std::string text, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const char* const kWords[] = {"%0",      "%99",      "f32x8",   "{u}",    "{u v}",
                                "End",     "Each u",   "-1",      "[0]",    "9223372036854775807",
                                "first 3", "step -2",  "mask %3", "at %2",  "Loop 0 4 1",
                                "Turn",    "Join:Add", "write",   "boolx8", "; ",
                                "\n"};
  for (size_t count = 1 + below(4); count > 0 && !text.empty(); --count) {
    const size_t at = below(text.size()), length = 1 + below(12);
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(below(text.size()), length));
        break;
      case 2:
        text[at] = static_cast<char>(random());
        break;
      case 3:
        text.insert(at, kWords[below(std::size(kWords))]);
        break;
      case 4:
        text[at] = static_cast<char>('0' + below(10));
        break;
      default: {
        const size_t from = text.find('%', at), to = text.find('%', below(text.size()));
        if (from != std::string::npos && to != std::string::npos) {
          text.replace(from, 2, text.substr(to, 2));
        }
      }
    }
  }
  return text;
}

TEST(ProgramFuzz, BrokenTextIsReadOrRefused) {
  std::mt19937_64 random(20);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  size_t formats = 0, faults = 0, legal = 0;
  for (int i = 0; i < 20000 && std::chrono::steady_clock::now() < end; ++i) {
    const uint64_t which = random() % 40;
    const std::string text = which == 0   ? tests::kRowSum
                             : which == 1 ? tests::kConv3x3
                             : which < 8  ? tests::kEverything
                             : which < 12 ? tests::kReversed
                                          : RandomProgram(which, true).text();
    Read got(mutated(text, random));
    if (!got.status.ok()) {
      EXPECT_EQ(got.status.code, static_cast<int32_t>(Code::kFORMAT)) << got.error;
      EXPECT_TRUE(got.error.starts_with("line ")) << got.error;
      ++formats;
      continue;
    }
    // What was read prints, reads back and is verified, whatever it says.
    Read again(tests::print(got.module));
    ASSERT_TRUE(again.status.ok()) << again.error << "\n" << tests::print(got.module);
    EXPECT_EQ(again.last().digest(), got.last().digest());
    if (verify(got.module).ok()) {
      ++legal;
      continue;
    }
    ++faults;
  }
  EXPECT_GT(formats, 100u);
  EXPECT_GT(faults, 100u);
  EXPECT_GT(legal, 100u);
}

// What the verifier lets through without a vouch runs without touching anything else.
TEST(ProgramFuzz, WhatIsVerifiedStaysInsideItsMemory) {
  std::mt19937_64 random(21);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(exhaustive() ? 600 : 20);
  size_t ran = 0;
  for (int i = 0; i < (exhaustive() ? 200000 : 6000) && std::chrono::steady_clock::now() < end;
       ++i) {
    const uint64_t which = random() % 60;
    const std::string text =
        which < 15 ? tests::kReversed : RandomProgram(100 + which, true).text();
    Read got(mutated(text, random));
    Verified verified;
    if (!got.status.ok() || !verify(got.module, {}, &verified).ok()) continue;
    int64_t work = static_cast<int64_t>(verified.steps), elements = 0;
    for (const Instruction& in : got.last().code()) {
      const Words words = got.last().words(in);
      // Loops that mutation made long, and memory that it made large, are left out.
      if (in.op == Op::kLoop) work = work * std::max<int64_t>(1, words[1] - words[0]) / words[2];
      if (in.op == Op::kParam) elements += in.constant;
      if (work > 100000 || elements > 1000000 || in.is(kSize)) work = INT64_MAX / 100000000;
    }
    if (work > 1000000 || work < 0) continue;
    std::vector<tests::Param> params = tests::make_params(got.last(), 3);
    const std::string error = tests::Evaluator::run(got.module, params);
    // What arrays hold, and who wrote it, is for the evaluator alone to tell.
    const bool array = std::ranges::any_of(
        got.last().code(), [](const Instruction& in) { return in.op == Op::kArray; });
    const bool fine = error.empty() || (array && !error.ends_with("leaves its memory"));
    EXPECT_TRUE(fine) << error << "\n" << tests::print(got.module);
    ++ran;
  }
  EXPECT_GT(ran, 50u);
}

struct Count {
  uint64_t steps = 0;
  Status step(const Step&) { return ++steps, kOk; }
  Status open(const Step&) { return kOk; }
  Status close(const Step&) { return kOk; }
};

// Reading, printing, verifying and walking, all in one memory.
Status everything(Memory& memory, std::string_view text) {
  Module module(memory);
  ASTER_TRY(read(&module, text));
  Text out(memory);
  ASTER_TRY(print(out, module));
  ASTER_TRY(verify(module));
  for (const Program& program : module.programs) {
    Count count;
    ASTER_TRY(Walker<Count>(program, count).run());
  }
  return kOk;
}

TEST(ProgramFuzz, EveryAllocationMayFail) {
  for (const std::string& text : {std::string(tests::kRowSum), std::string(tests::kReversed),
                                  RandomProgram(5, true).text()}) {
    int64_t failures = 0;
    for (;; ++failures) {
      tests::FailingMemory memory(failures);
      const Status status = everything(memory, text);
      if (status.ok()) {
        EXPECT_FALSE(memory.failed())
            << "a failure of allocation " << failures << " was overlooked";
        break;
      }
      ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY)) << last_error();
    }
    EXPECT_GT(failures, 20);
  }
}

}  // namespace
}  // namespace aster::codegen::program
