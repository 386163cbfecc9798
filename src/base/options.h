// Structs that callers fill, of this version of the library or of another: struct_size tells.
#pragma once

#include <cstring>

#include "base/status.h"

namespace aster {

// A copy of a struct of any version's size, what it lacks zero. A size that ends within a field is
// no version's: half a pointer would be read. Errors: ARGUMENT.
template <typename T>
Status read_struct(T* out, const T* given, const char* what) {
  const size_t size = given->struct_size;
  *out = T{};
  if (size < sizeof(given->struct_size))
    return ASTER_FAIL(kARGUMENT, "struct_size of %s is not set", what);
  if (size > sizeof(given->struct_size) && size < sizeof(T) && size % alignof(T) != 0)
    return ASTER_FAIL(kARGUMENT, "struct_size %zu of %s ends within a field", size, what);
  std::memcpy(static_cast<void*>(out), given, size < sizeof(T) ? size : sizeof(T));
  return kOk;
}

// Writes as much of a struct as the caller's has room for, and leaves its size.
template <typename T>
void write_struct(T* given, const T& now) {
  const uint32_t size = given->struct_size;
  std::memset(static_cast<void*>(given), 0, size);
  std::memcpy(static_cast<void*>(given), &now, size < sizeof(T) ? size : sizeof(T));
  given->struct_size = size;
}

}  // namespace aster
