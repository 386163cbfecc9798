// Work that goes on beside the threads that asked for it: kernels are compiled while others run.
#pragma once

#include "base/interrupt.h"
#include "base/mutex.h"

namespace aster::runtime::cpu {

// A piece of it. It writes nothing that others read before its body returns, so that the child of a
// fork, which has no thread that works, may begin it again.
struct Job {
  enum class State : uint32_t { kNew, kQueued, kRunning, kDone };
  void (*body)(Job& self, Interrupt& stop) = nullptr;
  Job* next = nullptr;
  std::atomic<State> state{State::kNew};
};

// Jobs in order, by threads of its own. Belongs to one thread, its owner.
class Background {
 public:
  Background() = default;
  ~Background() { stop(); }  // of what is queued nothing is begun any more; waits for the others
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Queues a job; false, and it is not taken: it has been stopped, or there is no thread.
  bool add(Job* job, int threads);
  // When it is done, which the caller sees to where nobody has begun it. False: the interrupt was
  // requested before.
  bool finish(Job* job, Interrupt& interrupt);
  void stop();

  // Has all of them stopped where the process exits, before what was registered for that until now
  // is done: a library that jobs use ends then.
  static void stop_at_exit();

 private:
  friend struct Backgrounds;
  static void* work(void* self);
  void look_for_fork();
  Job* take(Job* wanted);
  void run(Job* job, Interrupt& stop);

  Job* first_ = nullptr;  // queued or running, in order
  InterruptSource stopping_;
  std::atomic<uint32_t> changes_{0};  // a futex: moves with every job that is queued or done
  int threads_ = 0;                   // that work
  int running_ = 0;                   // jobs, by any thread
  int64_t process_ = 0;
  bool stopped_ = false, known_ = false;
  Background *previous_ = nullptr, *next_ = nullptr;  // of those with threads
};

}  // namespace aster::runtime::cpu
