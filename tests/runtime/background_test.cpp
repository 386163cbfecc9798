// Jobs that go on beside their owner.
#include "runtime/cpu/background.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "sanitizers.h"

namespace aster::runtime::cpu {
namespace {

struct Counted : Job {
  Counted() { body = run; }
  static void run(Job& job, Interrupt& stop) {
    Counted& self = static_cast<Counted&>(job);
    for (int i = 0; i < self.moments && !stop.requested(); ++i) usleep(1000);
    self.stopped = stop.requested();
    ++self.runs;
  }
  int moments = 0;
  std::atomic<int> runs{0};
  std::atomic<bool> stopped{false};
};

TEST(Background, EveryJobIsDoneOnce) {
  std::vector<Counted> jobs(200);
  Background background;
  for (Counted& job : jobs) ASSERT_TRUE(background.add(&job, 3));
  Interrupt never;
  for (Counted& job : jobs) EXPECT_TRUE(background.finish(&job, never));
  for (Counted& job : jobs) EXPECT_EQ(job.runs, 1);
}

TEST(Background, WhatIsQueuedIsNotBegunOnceItStops) {
  std::vector<Counted> jobs(50);
  for (Counted& job : jobs) job.moments = 10000;
  int begun = 0;
  {
    Background background;
    for (Counted& job : jobs) ASSERT_TRUE(background.add(&job, 2));
    usleep(20000);
  }
  for (Counted& job : jobs) {
    begun += job.runs;
    EXPECT_EQ(job.runs != 0, job.stopped.load());
  }
  EXPECT_LE(begun, 2);
  Background stopped;
  stopped.stop();
  EXPECT_FALSE(stopped.add(&jobs[0], 2));
}

TEST(Background, WhoWaitsMayBeStopped) {
  Counted job;
  job.moments = 100000;
  Background background;
  ASSERT_TRUE(background.add(&job, 1));
  while (job.state != Job::State::kRunning) usleep(100);
  InterruptSource source;
  Interrupt interrupt(source);
  ++source.requests;
  EXPECT_FALSE(background.finish(&job, interrupt));
}

TEST(Background, TheChildOfAForkBeginsAgain) {
#if defined(ASTER_TEST_TSAN)
  GTEST_SKIP() << "TSan ends children of a fork that start threads";
#endif
  Counted first, second;
  first.moments = 200;
  Background background;
  ASSERT_TRUE(background.add(&first, 1));
  ASSERT_TRUE(background.add(&second, 1));
  while (first.state != Job::State::kRunning) usleep(100);
  const pid_t child = fork();
  Interrupt never;
  if (child == 0) {
    first.moments = 1;
    const bool done = background.finish(&second, never) && background.finish(&first, never);
    Counted third;
    const bool more = background.add(&third, 1) && background.finish(&third, never);
    _exit(done && more && first.runs == 1 && second.runs == 1 && third.runs == 1 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(background.finish(&second, never) && background.finish(&first, never));
  EXPECT_EQ(first.runs, 1);
  EXPECT_EQ(second.runs, 1);
}

}  // namespace
}  // namespace aster::runtime::cpu
