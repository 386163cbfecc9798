#include "fuzz/foreign.h"

#include <cstdio>
#include <cstring>

namespace aster::fuzz {
namespace {

using uop::Foreign;

template <typename T>
void larger(const Foreign&, char* dst, ptrdiff_t dst_stride, const char* const* src,
            const ptrdiff_t* src_strides, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<ptrdiff_t>(i);
    T a, b;
    std::memcpy(&a, src[0] + at * src_strides[0], sizeof(a));
    std::memcpy(&b, src[1] + at * src_strides[1], sizeof(b));
    std::memcpy(dst + at * dst_stride, a > b ? &a : &b, sizeof(a));
  }
}

void turn_around(const Foreign&, char* result, const char* const* operands, void*, int64_t count,
                 int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(result + 4 * i, operands[0] + 4 * (count - 1 - i), 4);
}

struct OnElements : Foreign {
  OnElements(const char* own_name, Elements function) {
    std::snprintf(name, sizeof(name), "%s", own_name);
    elements = function;
  }
};
struct OnArrays : Foreign {
  OnArrays(const char* own_name, Arrays function) {
    std::snprintf(name, sizeof(name), "%s", own_name);
    form = uop::ForeignForm::kArrays;
    tasks = 0;
    arrays = function;
  }
};

}  // namespace

const Foreign& larger_of(uop::DType dtype) {
  static const OnElements ints("larger_int", larger<int32_t>);
  static const OnElements floats("larger_float", larger<float>);
  return dtype::is_float(dtype) ? floats : ints;
}

const Foreign& turned_around() {
  static const OnArrays kernel("turned_around", turn_around);
  return kernel;
}

}  // namespace aster::fuzz
