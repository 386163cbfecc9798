#include "uop/foreign.h"

#include <algorithm>

namespace aster::uop {

static std::atomic<uint64_t> made{0};

Foreign::Foreign() : serial(made.fetch_add(1, std::memory_order_relaxed)) {}

Node Graph::foreign(const Foreign& kernel, DType dtype, Words shape, Word count, Nodes operands) {
  for (Node operand : operands) {
    if (operand == nullptr) return nullptr;
    if (kernel.form == ForeignForm::kArrays || std::ranges::equal(operand->shape(), shape))
      continue;
    return (void)ASTER_FAIL(kSHAPE, "kernel \"%s\" for elements of %s on %s", kernel.name,
                            brief_shape(shape).text, brief(operand).text),
           nullptr;
  }
  const std::array<Word, 3> arg{static_cast<Word>(reinterpret_cast<uintptr_t>(&kernel)),
                                static_cast<Word>(kernel.serial), count};
  return make(Op::kForeign, dtype, operands, arg, shape);
}

}  // namespace aster::uop
