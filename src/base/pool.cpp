#include "base/pool.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "base/context.h"
#include "base/cpus.h"
#include "base/faults.h"
#include "base/futex.h"
#include "base/threads.h"

namespace aster::pool {
namespace {

constexpr int kMaxWorkers = 255;
// How long an idle worker spins before it sleeps; a wake-up costs 20 to 50 us (study/compile-path,
// section 4).
constexpr int64_t kSpinNs = 50'000;
constexpr int64_t kSessionSpinNs = 1'000'000;
constexpr int kPausesPerClock = 64;
constexpr int kPausesBeforeYield = 20'000;
constexpr int kRunsBeforeRetry = 1000;  // after a thread could not be made

// state: the top 32 bits count jobs, then a bit that says that workers may join, then how many may,
// then how many are at work. One word, so that joining is one compare-and-swap.
constexpr uint64_t kGeneration = uint64_t{1} << 32;
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr int kJoinersShift = 16;
constexpr uint64_t kActive = 0xFFFF;
constexpr uint64_t joiners(uint64_t state) { return (state >> kJoinersShift) & 0x7FFF; }

// What one of the threads of a job takes first, in order: the same part of each job, so that what
// it has written is in its caches when the next job reads it. Then it helps the others.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

struct Pool {
  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<uint32_t> wake{0};  // the futex: moves with every job
  std::atomic<int32_t> sleepers{0};
  // Of the job; written while the state is closed and nobody is active.
  alignas(64) Body body = nullptr;
  void* self = nullptr;
  Faults* faults = nullptr;  // of the run that it is a part of
  int threads_of_job = 1;    // that it is shared among
  Share shares[kMaxWorkers + 1];
  alignas(64) std::atomic<bool> busy{false};  // held by the thread that launches
  std::atomic<int32_t> sessions{0};
  // Under busy.
  int workers = 0;
  int retry_after = 0;
  bool pinned = false;
  bool fork_handler = false;
  pthread_t threads[kMaxWorkers] = {};
};
constinit Pool g_pool;

thread_local bool t_in_task;
thread_local int t_sessions;
thread_local int t_spare = 1;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// As the thread of this number, the launching one being 0.
void take_tasks(int number) {
  const Body body = g_pool.body;
  void* const self = g_pool.self;
  const int threads = g_pool.threads_of_job;
  for (int i = 0; i < threads; ++i) {
    Share& share = g_pool.shares[(number + i) % threads];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const int64_t task = share.next.fetch_add(1, std::memory_order_relaxed);
      if (task < share.end) body(self, task);
    }
  }
}

// Takes part in the job that is open, if there is room.
void join_job(int worker) {
  uint64_t state = g_pool.state.load(std::memory_order_acquire);
  do {
    if ((state & kOpen) == 0 || (state & kActive) >= joiners(state)) return;
  } while (!g_pool.state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
  Faults::exchange(g_pool.faults);
  take_tasks(1 + worker % (g_pool.threads_of_job - 1));
  g_pool.state.fetch_sub(1, std::memory_order_release);
}

// Returns when wake has moved on from seen.
void wait_for_wake(uint32_t seen) {
  const int64_t start = now_ns();
  for (;;) {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (g_pool.wake.load(std::memory_order_acquire) != seen) return;
      pause();
    }
    const bool session = g_pool.sessions.load(std::memory_order_relaxed) > 0;
    if (now_ns() - start > (session ? kSessionSpinNs : kSpinNs)) break;
  }
  g_pool.sleepers.fetch_add(1);
  while (g_pool.wake.load() == seen) futex_wait(&g_pool.wake, seen);
  g_pool.sleepers.fetch_sub(1);
}

void* worker(void* number) {
  fesetenv(FE_DFL_ENV);  // results do not depend on the modes of the thread that made this one
  t_in_task = true;
  uint32_t seen = g_pool.wake.load(std::memory_order_acquire);
  for (;;) {
    join_job(static_cast<int>(reinterpret_cast<intptr_t>(number)));
    wait_for_wake(seen);
    seen = g_pool.wake.load(std::memory_order_acquire);
  }
}

// In the child of a fork no worker exists, and no other thread holds the pool.
void forget_workers() {
  g_pool.state.store(0);
  g_pool.sleepers.store(0);
  g_pool.sessions.store(t_sessions);
  g_pool.busy.store(false);
  g_pool.workers = 0;
  g_pool.retry_after = 0;
}

bool make_worker() {
  pthread_t* thread = &g_pool.threads[g_pool.workers];
  void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(g_pool.workers));
  if (!start_thread(thread, worker, number)) return false;
  pthread_setname_np(*thread, "aster-ml");
  if (g_pool.pinned) cpus::pin(*thread, g_pool.workers + 1);
  ++g_pool.workers;
  return true;
}

// Under busy: as many workers as wanted, or as can be made.
void make_workers(int wanted) {
  if (g_pool.workers >= wanted) return;
  if (g_pool.retry_after > 0) {
    --g_pool.retry_after;
    return;
  }
  if (!g_pool.fork_handler) {
    if (pthread_atfork(nullptr, nullptr, forget_workers) != 0) return;
    g_pool.fork_handler = true;
  }
  while (g_pool.workers < wanted) {
    if (!make_worker()) {
      g_pool.retry_after = kRunsBeforeRetry;
      return;
    }
  }
}

int workers_for(int threads) {
  const int allowed = hardware_threads();
  const int wanted = (threads < allowed ? threads : allowed) - 1;
  return wanted < kMaxWorkers ? wanted : kMaxWorkers;
}

bool acquire() { return !g_pool.busy.exchange(true, std::memory_order_acquire); }
void release() { g_pool.busy.store(false, std::memory_order_release); }

void wake_workers(int count) {
  g_pool.wake.fetch_add(1);
  if (g_pool.sleepers.load() > 0) futex_wake(&g_pool.wake, count);
}

void run_together(int workers, int64_t tasks, Body body, void* self, Wait wait) {
  g_pool.body = body;
  g_pool.self = self;
  g_pool.faults = Faults::current();
  const int threads = workers + 1;
  g_pool.threads_of_job = threads;
  int64_t begin = 0;
  for (int i = 0; i < threads; ++i) {
    Share& share = g_pool.shares[i];
    share.next.store(begin, std::memory_order_relaxed);
    begin = share.end = tasks / threads * (i + 1) + tasks % threads * (i + 1) / threads;
  }
  const uint64_t last = g_pool.state.load(std::memory_order_relaxed) & ~(kGeneration - 1);
  const uint64_t room = static_cast<uint64_t>(workers) << kJoinersShift;
  g_pool.state.store((last + kGeneration) | kOpen | room, std::memory_order_release);
  wake_workers(workers);
  t_in_task = true;
  take_tasks(0);
  t_in_task = false;
  // Closed: whoever wakes late finds nothing to join and is not waited for.
  g_pool.state.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; (g_pool.state.load(std::memory_order_acquire) & kActive) != 0;) {
    pause();
    if (++spins >= kPausesBeforeYield) {
      sched_yield();
      if (wait != nullptr) wait(self);
      spins = 0;
    }
  }
}

}  // namespace

void run(int threads, int64_t tasks, Body body, void* self, Wait wait) {
  if (tasks < threads) threads = static_cast<int>(tasks);
  if (threads > 1 && !t_in_task && acquire()) {
    make_workers(workers_for(threads));
    const int workers = g_pool.workers < threads - 1 ? g_pool.workers : threads - 1;
    if (workers > 0) run_together(workers, tasks, body, self, wait);
    release();
    if (workers > 0) return;
  }
  for (int64_t task = 0; task < tasks; ++task) body(self, task);
}

void session_begin(int threads, bool pin) {
  ++t_sessions;
  g_pool.sessions.fetch_add(1, std::memory_order_relaxed);
  if (threads <= 1 || t_in_task || !acquire()) return;
  if (pin && !g_pool.pinned) {
    g_pool.pinned = true;
    for (int i = 0; i < g_pool.workers; ++i) cpus::pin(g_pool.threads[i], i + 1);
  }
  make_workers(workers_for(threads));
  if (g_pool.workers > 0) wake_workers(workers_for(threads));
  release();
}

void session_end() {
  if (t_sessions == 0) return;
  --t_sessions;
  g_pool.sessions.fetch_sub(1, std::memory_order_relaxed);
}

int spare_threads() { return t_in_task ? 1 : t_spare; }
Spare::Spare(int threads) : before_(t_spare) { t_spare = threads; }
Spare::~Spare() { t_spare = before_; }

int hardware_threads() { return cpus::allowed(); }
int threads_of(const Context& context) {
  const int told = context.options().threads;
  return told > 0 ? told : hardware_threads();
}

}  // namespace aster::pool
