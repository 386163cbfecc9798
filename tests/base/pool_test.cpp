// The pool of workers: every task once, whoever runs it; nesting, many callers, forks.
#include "base/pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

// The thread sanitizer would end a child that makes threads.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace {

namespace pool = aster::pool;

struct Counts {
  explicit Counts(size_t tasks) : done(tasks) {}
  std::vector<std::atomic<int>> done;
  static void count(void* self, int64_t task) {
    ++static_cast<Counts*>(self)->done[static_cast<size_t>(task)];
  }
  bool all_once() const {
    for (const auto& n : done) {
      if (n != 1) return false;
    }
    return true;
  }
};

int threads_of_process() {
  FILE* status = std::fopen("/proc/self/status", "r");
  char line[256];
  int threads = -1;
  while (status != nullptr && std::fgets(line, sizeof(line), status) != nullptr) {
    if (std::sscanf(line, "Threads: %d", &threads) == 1) break;
  }
  if (status != nullptr) std::fclose(status);
  return threads;
}

// In a process of its own, in which the pool has made no thread yet. The status it exits with, or
// -1.
template <typename F>
int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Pool, EveryTaskRunsOnce) {
  for (const int threads : {0, 1, 2, 3, 64, 1000}) {
    for (const size_t tasks : {0u, 1u, 2u, 7u, 1000u}) {
      Counts counts(tasks);
      pool::run(threads, static_cast<int64_t>(tasks), Counts::count, &counts);
      EXPECT_TRUE(counts.all_once()) << threads << " threads, " << tasks << " tasks";
    }
  }
  pool::run(2, -5, Counts::count, nullptr);
}

TEST(Pool, ManySmallRuns) {
  pool::session_begin(2, false);
  for (int i = 0; i < 20000; ++i) {
    std::atomic<int> sum{0};
    pool::run(
        2, 3,
        [](void* self, int64_t task) {
          *static_cast<std::atomic<int>*>(self) += static_cast<int>(task) + 1;
        },
        &sum);
    ASSERT_EQ(sum, 6);
  }
  pool::session_end();
}

TEST(Pool, WorkersComeBackFromSleep) {
  for (int i = 0; i < 20; ++i) {
    usleep(2000);
    Counts counts(64);
    pool::run(2, 64, Counts::count, &counts);
    ASSERT_TRUE(counts.all_once());
  }
}

TEST(Pool, WorkIsShared) {
  if (pool::hardware_threads() < 2) GTEST_SKIP() << "one processor";
  struct Seen {
    std::atomic<int> inside{0};
    std::atomic<bool> together{false};
  } seen;
  // Each task waits a while for a second one to be under way.
  pool::run(
      2, 2,
      [](void* self, int64_t) {
        Seen& at = *static_cast<Seen*>(self);
        if (++at.inside == 2) at.together = true;
        for (int i = 0; i < 2000 && !at.together; ++i) usleep(1000);
      },
      &seen);
  EXPECT_TRUE(seen.together);
}

// Each thread begins with its own part, the same one in every run: the tasks of two wait for each
// other, so that neither thread takes both.
TEST(Pool, ThreadsKeepTheirPartOfEachRun) {
  if (pool::hardware_threads() < 2) GTEST_SKIP() << "one processor";
  struct Meeting {
    std::atomic<int> there{0};
    std::thread::id of[2];
    static void meet(void* self, int64_t task) {
      auto& meeting = *static_cast<Meeting*>(self);
      meeting.of[task] = std::this_thread::get_id();
      ++meeting.there;
      for (int i = 0; meeting.there < 2 && i < 100'000; ++i) usleep(i < 100 ? 0 : 100);
    }
  };
  for (int run = 0; run < 200; ++run) {
    Meeting meeting;
    pool::run(2, 2, Meeting::meet, &meeting);
    EXPECT_EQ(meeting.of[0], std::this_thread::get_id());
    EXPECT_NE(meeting.of[1], std::this_thread::get_id());
  }
}

TEST(Pool, NestedRunsStayOnTheirThread) {
  Counts counts(8 * 8);
  struct Outer {
    Counts* counts;
    int64_t first;
  };
  pool::run(
      2, 8,
      [](void* self, int64_t task) {
        Outer inner{static_cast<Counts*>(self), task * 8};
        const std::thread::id here = std::this_thread::get_id();
        struct Both {
          Outer* outer;
          std::thread::id id;
        } both{&inner, here};
        pool::run(
            2, 8,
            [](void* s, int64_t t) {
              Both& b = *static_cast<Both*>(s);
              EXPECT_EQ(std::this_thread::get_id(), b.id);
              Counts::count(b.outer->counts, b.outer->first + t);
            },
            &both);
      },
      &counts);
  EXPECT_TRUE(counts.all_once());
}

TEST(Pool, SpareThreadsAreSaidAndNoneInTasks) {
  EXPECT_EQ(pool::spare_threads(), 1);
  {
    const pool::Spare three(3);
    EXPECT_EQ(pool::spare_threads(), 3);
    {
      const pool::Spare two(2);
      EXPECT_EQ(pool::spare_threads(), 2);
    }
    EXPECT_EQ(pool::spare_threads(), 3);
    std::thread([] { EXPECT_EQ(pool::spare_threads(), 1); }).join();
    if (pool::hardware_threads() > 1)
      pool::run(
          2, 8, [](void*, int64_t) { EXPECT_EQ(pool::spare_threads(), 1); }, nullptr);
  }
  EXPECT_EQ(pool::spare_threads(), 1);
}

TEST(Pool, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> failures{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&failures] {
      for (int i = 0; i < 500; ++i) {
        pool::session_begin(2, false);
        Counts counts(17);
        pool::run(2, 17, Counts::count, &counts);
        if (!counts.all_once()) ++failures;
        pool::session_end();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(Pool, OneThreadMakesNone) {
  EXPECT_EQ(in_child([] {
              const int before = threads_of_process();
              Counts counts(100);
              pool::session_begin(1, false);
              pool::run(1, 100, Counts::count, &counts);
              pool::run(8, 1, Counts::count, &counts);
              pool::session_end();
              return threads_of_process() - before;
            }),
            0);
}

TEST(Pool, NeverMoreThanAllowed) {
  EXPECT_EQ(in_child([] {
              Counts counts(1000);
              pool::run(1000, 1000, Counts::count, &counts);
              return threads_of_process() <= pool::hardware_threads() && counts.all_once() ? 0 : 1;
            }),
            0);
}

TEST(Pool, AChildMakesItsOwnWorkers) {
  Counts before(100);
  pool::run(2, 100, Counts::count, &before);
  EXPECT_EQ(in_child([] {
              for (int i = 0; i < 50; ++i) {
                Counts counts(100);
                pool::session_begin(2, false);
                pool::run(2, 100, Counts::count, &counts);
                pool::session_end();
                if (!counts.all_once()) return 1;
              }
              return threads_of_process() == (pool::hardware_threads() > 1 ? 2 : 1) ? 0 : 2;
            }),
            0);
  Counts after(100);
  pool::run(2, 100, Counts::count, &after);
  EXPECT_TRUE(after.all_once());
}

TEST(Pool, WorkersTakeNoSignals) {
  // The signal is blocked here, so a worker that took it would end the process.
  EXPECT_EQ(in_child([] {
              Counts counts(100);
              pool::run(2, 100, Counts::count, &counts);
              sigset_t set;
              sigemptyset(&set);
              sigaddset(&set, SIGTERM);
              pthread_sigmask(SIG_BLOCK, &set, nullptr);
              kill(getpid(), SIGTERM);
              usleep(20000);
              sigset_t pending;
              sigpending(&pending);
              return sigismember(&pending, SIGTERM) == 1 ? 0 : 1;
            }),
            0);
}

TEST(Pool, PinningIsOptIn) {
  const auto mask_count = [](void* self, int64_t) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    std::atomic<int>& least = *static_cast<std::atomic<int>*>(self);
    const int count = CPU_COUNT(&set);
    for (int seen = least; count < seen && !least.compare_exchange_weak(seen, count);) {
    }
    usleep(2000);  // so that the worker gets some
  };
  if (pool::hardware_threads() < 2) GTEST_SKIP() << "one processor";
  EXPECT_EQ(in_child([mask_count] {
              std::atomic<int> least{1 << 20};
              pool::session_begin(2, false);
              pool::run(2, 20, mask_count, &least);
              pool::session_end();
              return least > 1 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([mask_count] {
              std::atomic<int> least{1 << 20};
              pool::session_begin(2, true);
              pool::run(2, 20, mask_count, &least);
              pool::session_end();
              return least == 1 ? 0 : 1;
            }),
            0);
}

TEST(Pool, SessionsNest) {
  pool::session_end();  // one too many does nothing
  pool::session_begin(2, false);
  pool::session_begin(2, false);
  pool::session_end();
  Counts counts(10);
  pool::run(2, 10, Counts::count, &counts);
  EXPECT_TRUE(counts.all_once());
  pool::session_end();
}

TEST(Pool, HardwareThreadsRespectTheAffinityMask) {
  EXPECT_GE(pool::hardware_threads(), 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_LE(pool::hardware_threads(), CPU_COUNT(&set));
}

}  // namespace
