// Mutexes that need no construction at run time and are free in the child of a fork, whoever held
// them in its parent.
#pragma once

#include <pthread.h>

#include <atomic>

namespace aster {

// A fork waits until nobody holds any of them, so what they guard is whole in the child. Global
// (and then not locked for the first time under another one), or else an OwnedMutex.
class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() {
    if (!known_.load(std::memory_order_acquire)) make_known();
    pthread_mutex_lock(&mutex_);
  }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 protected:
  void make_known();
  void forget();

 private:
  friend struct Forks;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> known_{false};
  Mutex* previous_ = nullptr;  // of the list that a fork locks
  Mutex* next_ = nullptr;
};

// One that ends with an object.
class OwnedMutex : public Mutex {
 public:
  OwnedMutex() { make_known(); }
  ~OwnedMutex() { forget(); }
};

class MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace aster
