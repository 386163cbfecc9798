#include "runtime/cpu/lapack.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <type_traits>

namespace aster::runtime::cpu {
namespace {

template <typename T>
struct Found {
  Lapack<T> functions;
  bool all = false;

  void look(void* library) {
    all = library != nullptr;
    const char letter = std::is_same_v<T, float> ? 's' : 'd';
    const auto find = [&](auto& function, const char* name) {
      char symbol[16];
      std::snprintf(symbol, sizeof(symbol), "%c%s_", letter, name);
      function = library == nullptr ? nullptr
                                    : reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                                          dlsym(library, symbol));
      all &= function != nullptr;
    };
    find(functions.getrf, "getrf");
    find(functions.getri, "getri");
    find(functions.potrf, "potrf");
    find(functions.geqrf, "geqrf");
    find(functions.larft, "larft");
    find(functions.larfb, "larfb");
    find(functions.gesdd, "gesdd");
    find(functions.syevd, "syevd");
    find(functions.geev, "geev");
    find(functions.trsm, "trsm");
    find(functions.gemm, "gemm");
  }
};

constinit Found<float> of_float;
constinit Found<double> of_double;
pthread_once_t look_once = PTHREAD_ONCE_INIT;

void look() {
  of_float.look(blas().library);
  of_double.look(blas().library);
}

}  // namespace

template <>
const Lapack<float>* lapack<float>() {
  pthread_once(&look_once, look);
  return of_float.all ? &of_float.functions : nullptr;
}
template <>
const Lapack<double>* lapack<double>() {
  pthread_once(&look_once, look);
  return of_double.all ? &of_double.functions : nullptr;
}

}  // namespace aster::runtime::cpu
