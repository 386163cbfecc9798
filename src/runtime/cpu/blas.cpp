#include "runtime/cpu/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iterator>
#include <span>
#include <string_view>

#include "base/memory.h"
#include "runtime/cpu/features.h"
#include "runtime/flags.h"

namespace aster::runtime::cpu {
namespace {

// Folders of Debian's flavours first, since the plain name is whichever flavour the machine's owner
// chose.
#define DEBIAN_FOLDER "/usr/lib/x86_64-linux-gnu/"
constexpr const char* kSerial[] = {
    DEBIAN_FOLDER "openblas-serial/libopenblas.so.0", "libopenblas.so.0",
    DEBIAN_FOLDER "openblas-pthread/libopenblas.so.0", "libopenblasp.so.0"};
constexpr const char* kThreaded[] = {DEBIAN_FOLDER "openblas-pthread/libopenblas.so.0",
                                     "libopenblasp.so.0", "libopenblas.so.0",
                                     DEBIAN_FOLDER "openblas-serial/libopenblas.so.0"};
#undef DEBIAN_FOLDER

// Kernels of these cores stop at SSE; OpenBLAS falls back to Prescott on models newer than itself.
constexpr std::string_view kOldCores[] = {"Prescott", "Core2", "Penryn",  "Dunnington",
                                          "Nehalem",  "Atom",  "Opteron", "Barcelona",
                                          "Bobcat",   "Nano",  "generic", "Katmai"};

// The serial build keeps its work areas in a table that it changes without a lock (0.3.21: two
// threads in sgemm get the same area and wrong results), so one call at a time.
template <typename Function>
struct Serialised;
template <typename... Arguments>
struct Serialised<void (*)(Arguments...)> {
  static inline void (*raw)(Arguments...) = nullptr;
  static void call(Arguments... arguments);
};
pthread_mutex_t serial_mutex = PTHREAD_MUTEX_INITIALIZER;
template <typename... Arguments>
void Serialised<void (*)(Arguments...)>::call(Arguments... arguments) {
  pthread_mutex_lock(&serial_mutex);
  raw(arguments...);
  pthread_mutex_unlock(&serial_mutex);
}

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

bool is_old(std::string_view core) {
  for (const std::string_view old : kOldCores) {
    if (core == old) return true;
  }
  return false;
}

template <typename Function>
Function serialised(Function raw) {
  Serialised<Function>::raw = raw;
  return Serialised<Function>::call;
}

// Ends the library's own threads: it starts them when it is loaded. With one thread it needs none,
// and one who wants more starts them again.
void quieten(void* library) {
  if (const auto set_threads = symbol<void (*)(int)>(library, "openblas_set_num_threads"))
    set_threads(1);
  if (const auto shutdown = symbol<int (*)()>(library, "blas_thread_shutdown_")) shutdown();
}

bool chose_old_core(void* library) {
  const auto core = symbol<const char* (*)()>(library, "openblas_get_corename");
  return core != nullptr && is_old(core()) && detect_features().vector_bytes > 16;
}

// Loads with OPENBLAS_CORETYPE set for as long as that takes, for CPUs newer than the library,
// which it takes for their oldest ancestors. The host's environment is not changed but stood in for
// by a longer copy: whoever reads variables meanwhile finds the same ones. The copy stays, since a
// reader may still walk it.
void* open_for_this_cpu(const char* path) {
  static char core_wide[] = "OPENBLAS_CORETYPE=SKYLAKEX",
              core_narrow[] = "OPENBLAS_CORETYPE=HASWELL";
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  char** longer = process_heap().array<char*>(count + 2);
  if (longer == nullptr) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  memcpy(longer, environ, count * sizeof(char*));
  longer[count] = detect_features().vector_bytes == 64 ? core_wide : core_narrow;
  longer[count + 1] = nullptr;
  static char** kept[4];  // one a library, where a leak checker finds them
  static size_t kept_count = 0;
  kept[kept_count++ % std::size(kept)] = longer;
  char** before = environ;
  environ = longer;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  environ = before;
  return library;
}

bool open_library(const char* path, Blas* out) {
  // A library that the host has loaded keeps the host's settings.
  void* present = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void* library = present != nullptr ? present : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  if (present == nullptr && chose_old_core(library) &&
      secure_getenv("OPENBLAS_CORETYPE") == nullptr) {
    quieten(library);
    dlclose(library);
    library = open_for_this_cpu(path);
    if (library == nullptr) return false;
  }
  Blas found;
  found.sgemm = symbol<BlasGemm<float>>(library, "cblas_sgemm");
  found.dgemm = symbol<BlasGemm<double>>(library, "cblas_dgemm");
  found.sgemv = symbol<BlasGemv<float>>(library, "cblas_sgemv");
  found.dgemv = symbol<BlasGemv<double>>(library, "cblas_dgemv");
  if (found.sgemm == nullptr || found.dgemm == nullptr || found.sgemv == nullptr ||
      found.dgemv == nullptr) {
    dlclose(library);
    return false;
  }
  if (present == nullptr) quieten(library);
  using TextFn = const char* (*)();
  if (const auto config = symbol<TextFn>(library, "openblas_get_config"))
    keep(found.config, config());
  if (const auto core = symbol<TextFn>(library, "openblas_get_corename")) keep(found.core, core());
  const auto parallel = symbol<int (*)()>(library, "openblas_get_parallel");
  found.parallel_calls = parallel == nullptr || parallel() != 0;
  if (!found.parallel_calls) {
    found.sgemm = serialised(found.sgemm);
    found.dgemm = serialised(found.dgemm);
    found.sgemv = serialised(found.sgemv);
    found.dgemv = serialised(found.dgemv);
  }
  found.outdated = chose_old_core(library);
  keep(found.path, path);
  found.available = true;
  *out = found;
  return true;
}

// [0] for one thread, [1] for several.
struct Slots {
  Blas blas[2];
  pthread_once_t once[2];
};
Slots slots = {{}, {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT}};

// The serial library's table of raw functions is shared by both slots, so they load one after the
// other.
pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;

void load_slot(std::span<const char* const> paths, Blas* out) {
  const char* choice = flag_text(Flag::kBlas);
  pthread_mutex_lock(&load_mutex);
  if (choice != nullptr) {
    if (strcmp(choice, "none") != 0) open_library(choice, out);
  } else {
    for (const char* path : paths) {
      if (open_library(path, out)) break;
    }
  }
  pthread_mutex_unlock(&load_mutex);
}

void load_serial() { load_slot(kSerial, &slots.blas[0]); }
void load_threaded() { load_slot(kThreaded, &slots.blas[1]); }

}  // namespace

const Blas& blas(bool parallel_calls) {
  pthread_once(&slots.once[parallel_calls], parallel_calls ? load_threaded : load_serial);
  return slots.blas[parallel_calls];
}

}  // namespace aster::runtime::cpu
