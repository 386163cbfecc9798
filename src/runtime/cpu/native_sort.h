// Sorting elements without their positions, with AVX-512.
#pragma once

#include <cstdint>

#include "runtime/cpu/features.h"
#include "runtime/cpu/native.h"

namespace aster::runtime::cpu::native {

// What elements of 1, 2, 4 or 8 bytes are; floats of 2 by the code of their infinity.
struct SortForm {
  int64_t bytes = 0;
  bool is_float = false, is_signed = false, descending = false;
  uint16_t infinity = 0;
};

// Whether such a machine can sort rows of n elements so.
bool sorts_wide(const CpuFeatures& features, int64_t bytes, int64_t n);

// Of a row's result: what is below some pivot, or what is not. Each can be made alone.
enum class Part { kWhole, kLower, kUpper };
constexpr int64_t kLeastParted = 1 << 15;  // elements of a row

// y = rows of n elements of x, each in stable order: NaN last (of descending ones first), -0 is 0.
void sort_wide(const void* x, void* y, int64_t rows, int64_t n, const SortForm& form,
               Part part = Part::kWhole);

// Plans of Sort and Argsort for such a machine.
Status prepare_sort(Plan* out, uop::Node node, const CpuFeatures& features);
Status prepare_argsort(Plan* out, uop::Node node, const CpuFeatures& features);

}  // namespace aster::runtime::cpu::native
