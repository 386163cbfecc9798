#include "base/threads.h"

#include <signal.h>

namespace aster {

bool start_thread(pthread_t* out, void* (*body)(void*), void* self) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // inherited
  const bool made = pthread_create(out, &attributes, body, self) == 0;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

}  // namespace aster
