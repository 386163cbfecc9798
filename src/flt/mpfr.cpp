#include "flt/mpfr.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/flags.h"

namespace aster::flt {
namespace {

constexpr unsigned kAllFlags = 63;
constexpr int kLocalCache = 1;

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

bool find_all(void* library, Mpfr* out) {
  bool found = find(library, "mpfr_custom_init_set", &out->init_set) &&
               find(library, "mpfr_custom_get_kind", &out->get_kind) &&
               find(library, "mpfr_custom_get_exp", &out->get_exp) &&
               find(library, "mpfr_get_emin", &out->get_emin) &&
               find(library, "mpfr_get_emax", &out->get_emax) &&
               find(library, "mpfr_set_emin", &out->set_emin) &&
               find(library, "mpfr_set_emax", &out->set_emax) &&
               find(library, "mpfr_subnormalize", &out->subnormalize) &&
               find(library, "mpfr_flags_save", &out->flags_save) &&
               find(library, "mpfr_flags_restore", &out->flags_restore) &&
               find(library, "mpfr_free_cache2", &out->free_cache) &&
               find(library, "mpfr_strtofr", &out->strtofr) &&
               find(library, "mpfr_get_str", &out->get_str);
#define FUNCTION(code, Name, NAME, arity, cost, symbol, meaning) \
  found = found && find(library, symbol, &out->Name);
#include "flt/ops.def"
  return found;
}

bool open_library(const char* path, Mpfr* out) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  // Ranges and flags have to be the thread's own, limbs of 64 bits.
  int (*has_own)() = nullptr;
  size_t (*get_size)(long) = nullptr;
  Mpfr opened;
  if (find(library, "mpfr_buildopt_tls_p", &has_own) && has_own() != 0 &&
      find(library, "mpfr_custom_get_size", &get_size) &&
      get_size(Format<kLongest>::kPrecision) == sizeof(Limbs<kLongest>) &&
      find_all(library, &opened)) {
    opened.available = true;
    *out = opened;
    return true;
  }
  dlclose(library);
  return false;
}

Mpfr loaded;
pthread_once_t load_once = PTHREAD_ONCE_INIT;

void load() {
  const char* const choice = flag_text(Flag::kMpfr);
  if (choice == nullptr) {
    open_library("libmpfr.so.6", &loaded);
  } else if (strcmp(choice, "none") != 0) {
    open_library(choice, &loaded);
  }
}

}  // namespace

const Mpfr& mpfr() {
  pthread_once(&load_once, load);
  return loaded;
}

Status mpfr_ready() {
  if (mpfr().available) return kOk;
  return ASTER_FAIL(kUNSUPPORTED,
                    "MPFR is needed: libmpfr.so.6, or the library that ASTER_ML_MPFR names");
}

MpfrRange::MpfrRange(int64_t emin, int64_t emax)
    : emin_(mpfr().get_emin()), emax_(mpfr().get_emax()), flags_(mpfr().flags_save()) {
  mpfr().set_emin(emin);
  mpfr().set_emax(emax);
}

MpfrRange::~MpfrRange() {
  const Mpfr& library = mpfr();
  library.set_emin(emin_);
  library.set_emax(emax_);
  library.flags_restore(flags_, kAllFlags);
  library.free_cache(kLocalCache);  // constants that it keeps for the thread
}

}  // namespace aster::flt
