// Mutexes across forks: whoever holds them in the parent, the child can take them.
#include "base/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

// The thread sanitizer would end a child that makes threads.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();

namespace {

using aster::Mutex;
using aster::MutexLock;
using aster::OwnedMutex;

constinit Mutex g_first, g_second;

template <typename F>
bool in_child(F f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    f();
    _exit(42);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

TEST(Mutex, FreeInTheChildWhoeverHoldsIt) {
  OwnedMutex owned;
  std::atomic<bool> over{false};
  int guarded[3] = {};  // two equal numbers and their sum, under all three
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!over) {
        const MutexLock a(t == 0 ? g_first : g_second);
        if (t == 2) continue;
        const MutexLock b(owned);
        if (t == 0) {
          ++guarded[0];
          ++guarded[1];
          guarded[2] += 2;
        }
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    const bool fine = in_child([&] {
      const MutexLock a(g_first), b(g_second), c(owned);
      if (guarded[0] != guarded[1] || guarded[2] != 2 * guarded[0]) _exit(1);
      OwnedMutex made;  // the list of the child works
      const MutexLock d(made);
    });
    ASSERT_TRUE(fine) << i;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Mutex, ComeAndGo) {
  for (int i = 0; i < 100; ++i) {
    OwnedMutex mutexes[5];
    for (int k : {0, 3, 1}) {
      const MutexLock lock(mutexes[k]);
    }
    if (i % 25 == 0) {
      EXPECT_TRUE(in_child([&] {
        for (OwnedMutex& mutex : mutexes) const MutexLock lock(mutex);
      }));
    }
  }
}

}  // namespace
