#include "runtime/opencl/cl.h"

#include <dlfcn.h>

#include "base/flags.h"

namespace aster::runtime::opencl {

bool open_loader(Api* out, const char** missing) {
  const char* path = flag_text(Flag::kOpencl);
  if (path == nullptr) path = "libOpenCL.so.1";
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  *missing = library == nullptr ? "the library" : nullptr;
  if (library == nullptr) return false;
#define CL(name, result, parameters)                                        \
  out->name = reinterpret_cast<decltype(out->name)>(dlsym(library, #name)); \
  if (out->name == nullptr) *missing = #name;
#include "runtime/opencl/cl_api.def"
  return *missing == nullptr;
}

struct Named {
  cl_int code;
  const char* name;
};
constexpr Named kNames[] = {
#define CL_ERROR(code, name) {code, #name},
#include "runtime/opencl/cl_errors.def"
};

const char* error_name(cl_int code) {
  for (const Named& one : kNames) {
    if (one.code == code) return one.name;
  }
  return "an error without a name";
}

}  // namespace aster::runtime::opencl
