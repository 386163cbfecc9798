// Whether what is being computed shall stop: asked for by aster_ml_engine_cancel, or by the
// callback of the context's options.
#pragma once

#include <atomic>

#include "base/status.h"

namespace aster {

// Of a context: what asks its calls to stop.
struct InterruptSource {
  std::atomic<uint32_t> requests{0};  // calls that began at another number shall stop
  std::atomic<int64_t> asked_ms{0};   // when the callback was asked last
  aster_ml_cancel_function ask = nullptr;
  void* self = nullptr;
};

// Of one call. The callback is asked on the thread that began the call, at most every
// kAskMilliseconds; any thread that works for the call may look.
class Interrupt {
 public:
  static constexpr int kAskMilliseconds = 20;

  Interrupt() = default;  // never stops
  explicit Interrupt(InterruptSource& source) { begin(source); }
  // A new call begins.
  void begin(InterruptSource& source);

  bool requested() {
    if (source_ == nullptr) return false;
    if (source_->requests.load(std::memory_order_relaxed) != seen_) return true;
    return source_->ask != nullptr && asked();
  }
  // The status of a call that stopped, `what` it was doing.
  static Status stopped(const char* what);

 private:
  bool asked();

  InterruptSource* source_ = nullptr;
  const void* thread_ = nullptr;
  uint32_t seen_ = 0;
  std::atomic<bool> answered_{false};  // the callback said so
};

}  // namespace aster
