// Sorting elements without their positions, with AVX-512.
#pragma once

#include <cstdint>

#include "runtime/cpu/native.h"

namespace aster::runtime::cpu::native {

// What elements of 4 or 8 bytes are.
struct SortForm {
  int64_t bytes;
  bool is_float, is_signed, descending;
};

// Whether this machine can.
bool sorts_wide();

// y = the n elements of x in order; room for as many more. Returns whether there were NaN, which
// come last (first of descending ones) as infinity, or -0, which may come as 0.
bool sort_wide(const void* x, void* y, void* room, int64_t n, const SortForm& form);

// A plan of Sort that uses sort_wide where it can, or never.
Status prepare_sort(Plan* out, uop::Node node, bool wide);

}  // namespace aster::runtime::cpu::native
