// Functions by the address of their code, which is what loaders give and tables keep.
#pragma once

#include <bit>

namespace aster {

template <typename Function>
Function function_at(const void* code) {
  return std::bit_cast<Function>(code);
}
template <typename Function>
void* code_of(Function function) {
  return std::bit_cast<void*>(function);
}

}  // namespace aster
