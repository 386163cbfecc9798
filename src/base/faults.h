// What the computations of a run say of themselves where they have no status to return: that a
// kernel under the checker did wrong, that a result does not exist.
#pragma once

#include <cstdarg>

#include "base/status.h"

namespace aster {

// Of one run, which says begin to end on one thread and lends its threads (pool.h) the place to say
// it. Runs nest: a kernel may run another program, whose faults are that one's.
class Faults {
 public:
  Faults() : outer_(exchange(this)) {}
  ~Faults() { exchange(outer_); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // What the run comes to, when all its threads are done: its status, and where it went well what
  // its computations said.
  Status outcome(Status ran);

  // What a kernel did wrong (ARGUMENT); the first that says so counts, before failures. Threads:
  // those of a run; elsewhere nobody hears it.
  static void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
  // The same of a computation that has no result, with its own code: of several the one at the
  // lowest place, whoever computes it first.
  static void say_failure(Code code, int64_t place, const char* format, ...)
      __attribute__((format(printf, 3, 4)));

  // Of the run that the calling thread works for; null: none.
  static Faults* current();
  // For a thread that works for a run from now on, or no longer.
  static Faults* exchange(Faults* run);

 private:
  void note(Code code, int64_t place, const char* format, va_list arguments);

  Faults* outer_;
  // Under a lock while several threads work for the run.
  bool said_ = false;
  Code code_ = Code::kARGUMENT;
  int64_t place_ = 0;
  char text_[256];
};

}  // namespace aster
