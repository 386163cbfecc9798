#include "base/faults.h"

#include <cstdio>
#include <utility>

#include "base/mutex.h"

namespace aster {
namespace {

constinit Mutex g_mutex;  // of what every run's computations say
thread_local Faults* t_current;

}  // namespace

Faults* Faults::current() { return t_current; }
Faults* Faults::exchange(Faults* run) { return std::exchange(t_current, run); }

Status Faults::outcome(Status ran) {
  if (!ran.ok() || !said_) return ran;
  return fail_at(code_, ASTER_MODULE, __FILE__, __LINE__, "%s", text_);
}

void Faults::note(Code code, int64_t place, const char* format, va_list arguments) {
  const MutexLock lock(g_mutex);
  if (said_ && place >= place_) return;
  code_ = code;
  place_ = place;
  std::vsnprintf(text_, sizeof(text_), format, arguments);
  said_ = true;
}

void Faults::say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (t_current != nullptr) t_current->note(Code::kARGUMENT, INT64_MIN, format, arguments);
  va_end(arguments);
}

void Faults::say_failure(Code code, int64_t place, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (t_current != nullptr) t_current->note(code, place, format, arguments);
  va_end(arguments);
}

}  // namespace aster
