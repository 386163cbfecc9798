#include "runtime/cpu/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/mutex.h"
#include "runtime/cpu/blas_core.h"
#include "runtime/cpu/features.h"

namespace aster::runtime::cpu {
namespace {

// Builds that several threads may call at once first: Debian's pthread flavour, Fedora's name of
// it, Debian's OpenMP flavour, whichever flavour the machine's owner chose, the serial one.
#define DEBIAN_FOLDER "/usr/lib/x86_64-linux-gnu/"
constexpr const char* kPaths[] = {
    DEBIAN_FOLDER "openblas-pthread/libopenblas.so.0", "libopenblasp.so.0",
    DEBIAN_FOLDER "openblas-openmp/libopenblas.so.0", "libopenblas.so.0",
    DEBIAN_FOLDER "openblas-serial/libopenblas.so.0"};
#undef DEBIAN_FOLDER

// What openblas_get_parallel answers.
enum Build : int { kSerial = 0, kPthread = 1, kOpenMp = 2 };

// OpenMP's count of threads belongs to the thread that calls.
int (*omp_max_threads)() = nullptr;
void (*omp_set_threads)(int) = nullptr;

constinit Mutex call_mutex;
bool takes_turns = false, sets_threads = false;

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

template <size_t N>
void keep(char (&out)[N], const char* text) {
  if (text == nullptr) return;
  const size_t length = strnlen(text, N - 1);
  memcpy(out, text, length);
  out[length] = '\0';
}

int build_of(void* library) {
  const auto parallel = symbol<int (*)()>(library, "openblas_get_parallel");
  return parallel == nullptr ? kPthread : parallel();
}

// Ends the library's own threads, if it started any. With one thread it needs none, and one who
// wants more starts them again.
void quieten(void* library) {
  if (const auto set_threads = symbol<void (*)(int)>(library, "openblas_set_num_threads"))
    set_threads(1);
  if (const auto shutdown = symbol<int (*)()>(library, "blas_thread_shutdown_")) shutdown();
}

// The pthread build starts a thread for every CPU but one that the thread which loads it may run
// on: that is one CPU meanwhile. (An OpenMP runtime would remember that for the whole process.)
void* open_without_threads(const char* path) {
  const bool own_threads =
      strstr(path, "pthread") != nullptr || strstr(path, "libopenblasp") != nullptr;
  cpu_set_t allowed, here;
  CPU_ZERO(&here);
  const int cpu = sched_getcpu();
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<size_t>(cpu), &here);
  const bool bound = own_threads && sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
                     sched_setaffinity(0, sizeof(here), &here) == 0;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (bound) (void)sched_setaffinity(0, sizeof(allowed), &allowed);
  return library;
}

// How our threads call a library. A serial build keeps its work areas in a table that it changes
// without a lock (Debian builds it without USE_LOCKING: two threads at once get the same area and
// wrong results), so one call at a time; so do calls that start the host's threads.
void guard_calls(Blas* found, void* library, bool hosts_threads) {
  const int build = build_of(library);
  omp_max_threads = symbol<int (*)()>(library, "omp_get_max_threads");
  omp_set_threads = symbol<void (*)(int)>(library, "omp_set_num_threads");
  const bool each = build == kOpenMp && omp_max_threads != nullptr && omp_set_threads != nullptr;
  const bool locked = build == kSerial || (build == kOpenMp ? !each : hosts_threads);
  found->parallel_calls = !locked;
  takes_turns = locked;
  sets_threads = each;
}

bool open_library(const char* path, Blas* out) {
  // A library that the host has loaded keeps the host's settings.
  void* present = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void* library = present != nullptr ? present : open_without_threads(path);
  if (library == nullptr) return false;
  Blas found;
  if (dlsym(library, "dgetrf_") == nullptr) {
    dlclose(library);
    return false;
  }
  if (present == nullptr) {
    if (build_of(library) == kPthread) quieten(library);
    if (secure_getenv("OPENBLAS_CORETYPE") == nullptr) choose_core(library, detect_features());
  }
  using TextFn = const char* (*)();
  if (const auto config = symbol<TextFn>(library, "openblas_get_config"))
    keep(found.config, config());
  if (const auto core = symbol<TextFn>(library, "openblas_get_corename")) keep(found.core, core());
  const auto threads = symbol<int (*)()>(library, "openblas_get_num_threads");
  guard_calls(&found, library, present != nullptr && threads != nullptr && threads() > 1);
  found.library = library;
  keep(found.path, path);
  found.available = true;
  *out = found;
  return true;
}

Blas loaded;
pthread_once_t load_once = PTHREAD_ONCE_INIT;

void load() {
  const char* choice = flag_text(Flag::kBlas);
  if (choice != nullptr) {
    if (strcmp(choice, "none") != 0) open_library(choice, &loaded);
    return;
  }
  for (const char* path : kPaths) {
    if (open_library(path, &loaded)) return;
  }
}

}  // namespace

const Blas& blas() {
  pthread_once(&load_once, load);
  return loaded;
}

BlasCall::BlasCall() {
  if (takes_turns) call_mutex.lock();
  if (!sets_threads) return;
  before_ = omp_max_threads();
  omp_set_threads(1);
}

BlasCall::~BlasCall() {
  if (sets_threads) omp_set_threads(before_);
  if (takes_turns) call_mutex.unlock();
}

}  // namespace aster::runtime::cpu
