// What stands for something that is not done: events of queues, of other threads and of drivers.
#pragma once

#include <atomic>
#include <utility>

#include "aster_ml/queue.h"
#include "base/context.h"
#include "base/futex.h"
#include "base/mutex.h"

namespace aster::engine {

// Done, or not yet. Counted: handles hold it, and what waits for it in queues.
class Event {
 public:
  struct Follower {
    Follower* next;
    void (*call)(Follower* self, int32_t status);
  };
  static Event* create(Context& context) {
    auto* event = context.heap().create<Event>();
    if (event == nullptr) return nullptr;
    event->context_ = &context;
    context.retain();
    return event;
  }
  void retain() { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Context& context = *context_;
    context.heap().destroy(this);
    context.release();
  }

  // False where it is done already.
  bool finish(int32_t status);
  // Calls the follower when it is done, on the thread that finishes it, or now.
  void follow(Follower* follower);
  bool done() const { return state_.load() != kPending; }
  int32_t wait() {
    while (state_.load() == kPending) futex_wait(&state_, kPending);
    return static_cast<int32_t>(state_.load() - kDone);
  }

 private:
  static constexpr uint32_t kPending = 0, kDone = 1;
  Context* context_ = nullptr;
  std::atomic<uint32_t> count_{1};
  std::atomic<uint32_t> state_{kPending};
  OwnedMutex mutex_;
  Follower* followers_ = nullptr;
};

struct EventHandle : HandleObject {
  Event* event;
  bool open;  // to be signalled by its owner
};
Status event_handle(aster_ml_event* out, Context& context, Event* event, bool open);
// Null where there is none.
EventHandle* event_of(const aster_ml_event* event);
Status no_event();

}  // namespace aster::engine
