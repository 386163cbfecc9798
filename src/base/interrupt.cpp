#include "base/interrupt.h"

#include <time.h>

namespace aster {
namespace {

// The address of a thread-local byte names the thread.
const void* this_thread() {
  static thread_local char t_identity;
  return &t_identity;
}

// Cheap, and as exact as the system's tick.
int64_t now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

}  // namespace

void Interrupt::begin(InterruptSource& source) {
  source_ = &source;
  if (source.ask != nullptr) thread_ = this_thread();
  seen_ = source.requests.load(std::memory_order_relaxed);
  answered_.store(false, std::memory_order_relaxed);
}

bool Interrupt::asked() {
  if (answered_.load(std::memory_order_relaxed)) return true;
  if (thread_ != this_thread()) return false;
  const int64_t now = now_ms();
  if (now - source_->asked_ms.load(std::memory_order_relaxed) < kAskMilliseconds) return false;
  source_->asked_ms.store(now, std::memory_order_relaxed);
  if (source_->ask(source_->self) == 0) return false;
  answered_.store(true, std::memory_order_relaxed);
  return true;
}

Status Interrupt::stopped(const char* what) {
  return ASTER_FAIL(kCANCELLED, "stopped as asked while %s", what);
}

}  // namespace aster
