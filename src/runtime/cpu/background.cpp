#include "runtime/cpu/background.h"

#include <cstdlib>
#include <ctime>

#include <fenv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/threads.h"

namespace aster::runtime::cpu {

// Those of the process, under one lock, which is held for moments only.
struct Backgrounds {
  Mutex mutex;
  Background* first = nullptr;
};

namespace {

constinit Backgrounds all;
// What ends with the process waits for a job no longer than this; what is registered more often
// than that changes nothing any more.
constexpr int kExitWaits = 2000;  // milliseconds
constexpr int kBehind = 10;       // of 19
constexpr uint32_t kMostRegistered = 64;
constinit std::atomic<uint32_t> registered{0};

void sleep_a_moment() {
  const timespec moment{0, 200'000};
  nanosleep(&moment, nullptr);
}

}  // namespace

// In the child of a fork nobody works: what ran in the parent is to be begun again.
void Background::look_for_fork() {
  const int64_t now = getpid();
  if (process_ == now) return;
  process_ = now;
  threads_ = running_ = 0;
  for (Job* job = first_; job != nullptr; job = job->next) job->state = Job::State::kQueued;
}

bool Background::add(Job* job, int threads) {
  const MutexLock lock(all.mutex);
  look_for_fork();
  if (stopped_) return false;
  job->next = nullptr;
  job->state = Job::State::kQueued;
  Job** last = &first_;
  int queued = 1;
  for (; *last != nullptr; last = &(*last)->next) ++queued;
  if (threads_ < threads && threads_ < queued) {
    pthread_t thread;
    if (start_thread(&thread, work, this)) {
      pthread_setname_np(thread, "aster-ml-code");
      ++threads_;
    }
  }
  if (threads_ == 0) {
    job->state = Job::State::kNew;
    return false;
  }
  *last = job;
  if (!known_) {
    known_ = true;
    next_ = all.first;
    previous_ = nullptr;
    if (next_ != nullptr) next_->previous_ = this;
    all.first = this;
  }
  changes_.fetch_add(1);
  futex_wake(&changes_, 1);
  return true;
}

// Under the lock: the first that nobody has begun, or that one if nobody has.
Job* Background::take(Job* wanted) {
  for (Job* job = first_; job != nullptr; job = job->next) {
    if (job->state != Job::State::kQueued || (wanted != nullptr && job != wanted)) continue;
    job->state = Job::State::kRunning;
    ++running_;
    return job;
  }
  return nullptr;
}

void Background::run(Job* job, Interrupt& stop) {
  job->body(*job, stop);
  const MutexLock lock(all.mutex);
  Job** at = &first_;
  while (*at != job) at = &(*at)->next;
  *at = job->next;
  --running_;
  job->state.store(Job::State::kDone, std::memory_order_release);
  changes_.fetch_add(1);
  futex_wake(&changes_, 1 << 20);
}

void* Background::work(void* pointer) {
  Background& self = *static_cast<Background*>(pointer);
  fesetenv(FE_DFL_ENV);  // whatever the modes of the thread that made this one
  // It and the compilers that it starts go behind what the process itself does.
  (void)setpriority(PRIO_PROCESS, 0, kBehind);
  for (;;) {
    const uint32_t seen = self.changes_.load();
    Job* job = nullptr;
    {
      const MutexLock lock(all.mutex);
      if (self.stopped_) {
        --self.threads_;
        return nullptr;
      }
      job = self.take(nullptr);
    }
    if (job != nullptr) {
      Interrupt stop(self.stopping_);
      self.run(job, stop);
    } else {
      futex_wait(&self.changes_, seen);
    }
  }
}

bool Background::finish(Job* job, Interrupt& interrupt) {
  for (;;) {
    if (job->state.load(std::memory_order_acquire) == Job::State::kDone) return true;
    Job* taken = nullptr;
    {
      const MutexLock lock(all.mutex);
      look_for_fork();
      taken = take(job);
    }
    if (taken != nullptr) {
      run(taken, interrupt);
      return true;
    }
    if (interrupt.requested()) return false;
    sleep_a_moment();
  }
}

void Background::stop() {
  for (bool first = true;; first = false) {
    {
      const MutexLock lock(all.mutex);
      look_for_fork();
      stopped_ = true;
      if (first) stopping_.requests.fetch_add(1);
      if (known_) {
        known_ = false;
        (previous_ != nullptr ? previous_->next_ : all.first) = next_;
        if (next_ != nullptr) next_->previous_ = previous_;
      }
      if (threads_ == 0 && running_ == 0) return;
      changes_.fetch_add(1);
      futex_wake(&changes_, 1 << 20);
    }
    sleep_a_moment();
  }
}

void Background::stop_at_exit() {
  // The last registered is the first to be called.
  if (registered.fetch_add(1, std::memory_order_relaxed) >= kMostRegistered) return;
  static_cast<void>(atexit([] {
    for (int waits = 0; waits < kExitWaits * 5; ++waits) {
      bool running = false;
      {
        const MutexLock lock(all.mutex);
        for (Background* one = all.first; one != nullptr; one = one->next_) {
          one->look_for_fork();
          one->stopped_ = true;
          if (waits == 0) one->stopping_.requests.fetch_add(1);
          running = running || one->running_ != 0;
        }
      }
      if (!running) return;
      sleep_a_moment();
    }
  }));
}

}  // namespace aster::runtime::cpu
