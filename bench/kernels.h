// Kernels compiled by themselves, for the benches of generated code.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "../tests/codegen/compilers.h"

namespace aster::bench {

// The widest vectors of this CPU, or ASTER_BENCH_WIDTH.
inline codegen::Target target() {
  const char* const asked = std::getenv("ASTER_BENCH_WIDTH");
  return codegen::tests::target_of(asked != nullptr ? std::atoi(asked)
                                                    : codegen::tests::widths().back());
}

using Function = void (*)(void* const*, const long long*, void*, long long, long long);

// A text as a library, for good; null where it does not compile. ASTER_BENCH_SHOW=1 prints it,
// ASTER_BENCH_KEEP=1 leaves it behind.
inline void* compile(const std::string& text, const std::string& compiler, int vector_bytes) {
  static int count = 0;  // dlopen knows a library by its name
  const std::string path =
      "/tmp/aster_bench_" + std::to_string(getpid()) + "_" + std::to_string(++count);
  std::ofstream(path + ".c") << text;
  if (std::getenv("ASTER_BENCH_SHOW") != nullptr) std::fputs(text.c_str(), stdout);
  const std::string command = compiler + codegen::tests::flags_of(compiler, vector_bytes) +
                              codegen::tests::kShared + path + ".c -o " + path + ".so";
  const int rc = std::system(command.c_str());
  void* handle = rc == 0 ? dlopen((path + ".so").c_str(), RTLD_NOW) : nullptr;
  if (std::getenv("ASTER_BENCH_KEEP") == nullptr) unlink((path + ".c").c_str());
  unlink((path + ".so").c_str());
  return handle;
}
inline Function find(void* handle, const char* name) {
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
}

}  // namespace aster::bench
