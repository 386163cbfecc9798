// The process's pool of workers. One for all contexts; made at the first run that wants more than
// one thread.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace aster {
class Context;
}

namespace aster::pool {

// body(self, task) for every task in [0, tasks), shared among up to `threads` threads, the caller
// being one: each begins with its own part, the same one in every run of as many tasks, and then
// helps the others. Returns when all are done. Tasks must not depend on who runs them.
// threads <= 1 runs on the caller alone and makes no thread; so does a call while another thread is
// using the pool. If no worker can be made, the caller does the work. What tasks say is heard by
// the caller's run (faults.h). While the caller waits for the others' last tasks it calls
// wait(self) now and then, if given.
using Body = void (*)(void* self, int64_t task);
using Wait = void (*)(void* self);
void run(int threads, int64_t tasks, Body body, void* self, Wait wait = nullptr);

// How many threads run may share the calling thread's work among: 1 inside a task, and where nobody
// said that there are more.
int spare_threads();
// Says so of the calling thread, while it lives.
class Spare {
 public:
  explicit Spare(int threads);
  ~Spare();
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

 private:
  int before_;
};

// Keeps workers spinning between the runs of a schedule; nests. end lets them sleep.
void session_begin(int threads, bool pin);
void session_end();

// Threads that affinity and cgroup quota allow, at least 1.
int hardware_threads();
// Those that kernels of a context may use: what its options say, or all of these.
int threads_of(const Context& context);

}  // namespace aster::pool
