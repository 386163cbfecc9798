#include "base/mutex.h"

#include <sched.h>

namespace aster {

// What a fork does with every mutex that was ever locked.
struct Forks {
  pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
  Mutex* first = nullptr;
  bool handlers = false;

  static void lock_all();
  static void unlock_all();
};

namespace {

constinit Forks g_forks;

}  // namespace

// One may be held by a thread that waits for another, so none is waited for while others are held,
// but the one that was taken at first.
void Forks::lock_all() {
  pthread_mutex_lock(&g_forks.list_mutex);
  Mutex* begin = nullptr;  // where the last round failed
  for (;;) {
    if (begin != nullptr) pthread_mutex_lock(&begin->mutex_);
    Mutex* taken = nullptr;
    bool all = true;
    for (Mutex* m = g_forks.first; m != nullptr; m = m->next_) {
      if (m != begin && pthread_mutex_trylock(&m->mutex_) != 0) {
        for (Mutex* back = taken; back != nullptr; back = back->previous_) {
          if (back != begin) pthread_mutex_unlock(&back->mutex_);
        }
        if (begin != nullptr) pthread_mutex_unlock(&begin->mutex_);
        begin = m;
        all = false;
        break;
      }
      taken = m;
    }
    if (all) return;
    sched_yield();
  }
}

void Forks::unlock_all() {
  for (Mutex* m = g_forks.first; m != nullptr; m = m->next_) pthread_mutex_unlock(&m->mutex_);
  pthread_mutex_unlock(&g_forks.list_mutex);
}

void Mutex::make_known() {
  pthread_mutex_lock(&g_forks.list_mutex);
  if (!known_.load(std::memory_order_relaxed)) {
    if (!g_forks.handlers) {
      g_forks.handlers = pthread_atfork(Forks::lock_all, Forks::unlock_all, Forks::unlock_all) == 0;
    }
    next_ = g_forks.first;
    if (next_ != nullptr) next_->previous_ = this;
    g_forks.first = this;
    known_.store(true, std::memory_order_release);
  }
  pthread_mutex_unlock(&g_forks.list_mutex);
}

void Mutex::forget() {
  if (!known_.load(std::memory_order_acquire)) return;
  pthread_mutex_lock(&g_forks.list_mutex);
  (previous_ != nullptr ? previous_->next_ : g_forks.first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  pthread_mutex_unlock(&g_forks.list_mutex);
}

}  // namespace aster
