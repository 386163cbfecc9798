// What computations say of themselves: heard by their own run, from whichever thread.
#include "base/faults.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/pool.h"

namespace {

using aster::Code;
using aster::Faults;
using aster::kOk;

std::string message() { return aster::SavedError::message(); }

TEST(Faults, OfSeveralTheLowestPlace) {
  Faults run;
  EXPECT_TRUE(run.outcome(kOk).ok());
  for (const int place : {7, 3, 5, 3}) {
    Faults::say_failure(Code::kNUMERIC, place, "matrix %d", place);
  }
  EXPECT_EQ(run.outcome(kOk).code, ASTER_ML_NUMERIC);
  EXPECT_EQ(message(), "matrix 3");
}

TEST(Faults, WhatAKernelDidWrongGoesBeforeFailures) {
  Faults run;
  Faults::say_failure(Code::kNUMERIC, 0, "a matrix");
  Faults::say("kernel %d wrote outside", 1);
  Faults::say("kernel %d wrote outside", 2);
  EXPECT_EQ(run.outcome(kOk).code, ASTER_ML_ARGUMENT);
  EXPECT_EQ(message(), "kernel 1 wrote outside");
}

TEST(Faults, AFailureOfTheRunGoesFirst) {
  Faults run;
  Faults::say("unheard");
  const aster::Status ran = ASTER_FAIL(kDEVICE, "lost");
  EXPECT_EQ(run.outcome(ran).code, ASTER_ML_DEVICE);
  EXPECT_EQ(message(), "lost");
}

TEST(Faults, OfARunWithinAnother) {
  EXPECT_EQ(Faults::current(), nullptr);
  Faults::say("to nobody");
  Faults outer;
  {
    Faults inner;
    Faults::say("inner");
    EXPECT_EQ(inner.outcome(kOk).code, ASTER_ML_ARGUMENT);
  }
  EXPECT_TRUE(outer.outcome(kOk).ok());
  EXPECT_EQ(Faults::current(), &outer);
}

// Several threads with runs whose tasks the pool's workers take: each hears its own.
TEST(Faults, OfRunsSideBySide) {
  constexpr int kRuns = 4, kRounds = 300;
  constexpr int64_t kTasks = 16;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kRuns; ++number) {
    threads.emplace_back([&wrong, number] {
      struct Work {
        int number;
        bool fails;
      };
      for (int round = 0; round < kRounds; ++round) {
        Work work{number, (round + number) % 3 == 0};
        Faults run;
        aster::pool::run(
            2, kTasks,
            [](void* self, int64_t task) {
              const auto& w = *static_cast<const Work*>(self);
              if (w.fails && task >= 5)
                Faults::say_failure(Code::kNUMERIC, task, "run %d task %d", w.number,
                                    static_cast<int>(task));
            },
            &work);
        const bool failed = !run.outcome(kOk).ok();
        const std::string expected = "run " + std::to_string(number) + " task 5";
        wrong += failed != work.fails || (failed && message() != expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
