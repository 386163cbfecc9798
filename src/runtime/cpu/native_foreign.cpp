// Kernels that are not ours: those of elements are called along the longest rows that their
// operands and the result have in common, where they lie; those of arrays on their tasks.
#include <algorithm>

#include "runtime/cpu/native_types.h"
#include "uop/expr.h"
#include "uop/foreign.h"

namespace aster::runtime::cpu::native {
namespace {

using uop::Foreign;
using uop::ForeignForm;

// A call has at most so many elements.
constexpr int64_t kCallElements = 1 << 12;

// The words of a plan: this; the sizes of the outer axes; for the result and every operand the byte
// where it begins, its stride along a row, and along the outer axes. Of arrays: this, and where
// each operand begins.
struct Head {
  int64_t operands, axes, row;
  int64_t calls;  // of a row; of arrays: the node's count
};

// An axis of the result: its size, and the strides of the result and the operands.
struct Axes {
  explicit Axes(Memory& memory) : sizes(memory), strides(memory) {}
  Vec<int64_t> sizes, strides;  // strides: `width` of each axis in turn
  size_t width = 0;

  int64_t* of(size_t axis) { return strides.data() + axis * width; }
  // An axis inside the last one; they become one where all memory allows it.
  Status push(int64_t size, const int64_t* along) {
    if (size == 1) return kOk;
    if (!sizes.empty()) {
      int64_t* const outer = of(sizes.size() - 1);
      bool joins = true;
      for (size_t i = 0; i < width; ++i) joins &= outer[i] == along[i] * size;
      if (joins) {
        sizes.back() *= size;
        std::copy(along, along + width, outer);
        return kOk;
      }
    }
    ASTER_TRY(sizes.push(size));
    return strides.append(along, width);
  }
};

Status join_axes(Axes* axes, Vec<int64_t>* begins, Node node, std::span<const int64_t> views) {
  const size_t ndim = node->ndim;
  axes->width = node->nsrc + 1;
  Vec<int64_t> result(axes->sizes.memory()), along(axes->sizes.memory());
  ASTER_TRY(result.resize(ndim, 0));
  int64_t stride = static_cast<int64_t>(element_bytes(node->dtype));
  for (size_t a = ndim; a-- > 0; stride *= node->dim(a)) result[a] = stride;
  ASTER_TRY(begins->push(0));
  for (size_t i = 0; i < node->nsrc; ++i)
    ASTER_TRY(begins->push(views.empty() ? 0 : views[i * (ndim + 2)]));
  for (size_t i = 0; i < node->nsrc; ++i)
    (*begins)[1 + i] *= static_cast<int64_t>(element_bytes(node->src(i)->dtype));
  for (size_t a = 0; a < ndim; ++a) {
    along.clear();
    ASTER_TRY(along.push(result[a]));
    for (size_t i = 0; i < node->nsrc; ++i) {
      const auto bytes = static_cast<int64_t>(element_bytes(node->src(i)->dtype));
      const int64_t own =
          views.empty() ? result[a] / result[ndim - 1] : views[i * (ndim + 2) + 1 + a];
      ASTER_TRY(along.push(own * bytes));
    }
    ASTER_TRY(axes->push(node->dim(a), along.data()));
  }
  return kOk;
}

Status prepare_elements(Plan* out, Node node, std::span<const int64_t> views) {
  Axes axes(out->words.memory());
  Vec<int64_t> begins(out->words.memory());
  ASTER_TRY(join_axes(&axes, &begins, node, views));
  // Rows are the innermost axis, or the longest one where that is short.
  size_t row = axes.sizes.empty() ? 0 : axes.sizes.size() - 1;
  if (!axes.sizes.empty() && axes.sizes[row] < 16) {
    for (size_t a = 0; a < axes.sizes.size(); ++a) {
      if (axes.sizes[a] > axes.sizes[row]) row = a;
    }
  }
  const bool any = !axes.sizes.empty();
  Head head{static_cast<int64_t>(axes.width), any ? static_cast<int64_t>(axes.sizes.size()) - 1 : 0,
            any ? axes.sizes[row] : 1, 0};
  head.calls = (head.row + kCallElements - 1) / kCallElements;
  ASTER_TRY(put_head(out, head));
  out->tasks = head.calls;
  for (size_t a = 0; a < axes.sizes.size(); ++a) {
    if (a == row) continue;
    out->tasks *= axes.sizes[a];
    ASTER_TRY(out->words.push(axes.sizes[a]));
  }
  for (size_t i = 0; i < axes.width; ++i) {
    ASTER_TRY(out->words.push(begins[i]));
    ASTER_TRY(out->words.push(any ? axes.of(row)[i] : 0));
    for (size_t a = 0; a < axes.sizes.size(); ++a) {
      if (a != row) ASTER_TRY(out->words.push(axes.of(a)[i]));
    }
  }
  return kOk;
}

}  // namespace

// Elements are read wherever they lie, arrays in row-major order.
bool reads_foreign(Node node, size_t argument, std::span<const int64_t> view) {
  if (uop::foreign_of(node).form == ForeignForm::kElements) return true;
  int64_t expected = 1;
  const uop::Words shape = node->src(argument)->shape();
  for (size_t i = shape.size(); i-- > 0; expected *= shape[i]) {
    if (shape[i] != 1 && view[1 + i] != expected) return false;
  }
  return true;
}

Status prepare_foreign(Plan* out, Node node, std::span<const int64_t> views) {
  const Foreign& kernel = uop::foreign_of(node);
  kernel.retain();
  out->foreign = &kernel;
  out->dtype = node->dtype;
  if (kernel.form == ForeignForm::kElements) {
    out->nanoseconds = kernel.nanoseconds * static_cast<double>(node->count());
    return prepare_elements(out, node, views);
  }
  const int64_t tasks = kernel.tasks_of(node->arg(2));
  out->tasks = kernel.alone ? 1 : tasks;
  out->scratch_bytes = kernel.scratch_bytes;
  out->nanoseconds = kernel.nanoseconds * static_cast<double>(tasks);
  ASTER_TRY(put_head(out, Head{static_cast<int64_t>(node->nsrc) + 1, 0, 0, node->arg(2)}));
  size_t at = 0;
  for (Node operand : node->src()) {
    const auto bytes = static_cast<int64_t>(element_bytes(operand->dtype));
    ASTER_TRY(out->words.push(views.empty() ? 0 : views[at] * bytes));
    at += operand->ndim + 2;
  }
  return kOk;
}

namespace {

constexpr size_t kMostOperands = Foreign::kMostOperands + 1;

void run_arrays(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                int64_t end) {
  const Head head = get_head<Head>(plan);
  const auto count = static_cast<size_t>(head.operands) - 1;
  const int64_t* const begins = plan.words.data() + sizeof(Head) / sizeof(int64_t);
  const char* sources[kMostOperands];
  for (size_t i = 0; i < count; ++i) sources[i] = static_cast<const char*>(operands[i]) + begins[i];
  if (plan.foreign->alone) end *= plan.foreign->tasks_of(head.calls);
  plan.foreign->arrays(*plan.foreign, static_cast<char*>(operands[count]), sources, scratch,
                       head.calls, begin, end);
}

// Where a call begins in the result and the operands, from call to call.
class Walk {
 public:
  Walk(const Plan& plan, void* const* operands, int64_t call)
      : head_(get_head<Head>(plan)),
        sizes_(plan.words.data() + sizeof(Head) / sizeof(int64_t)),
        numbers_(sizes_ + head_.axes) {
    const auto width = static_cast<size_t>(head_.operands);
    for (size_t i = 0; i < width; ++i) {
      void* const memory = operands[i == 0 ? width - 1 : i - 1];
      at_[i] = static_cast<char*>(memory) + number(i, 0);
      strides_[i] = number(i, 1);
    }
    part_ = call % head_.calls;
    int64_t outer = call / head_.calls;
    for (size_t a = axes(); a-- > 0; outer /= sizes_[a]) move(a, place_[a] = outer % sizes_[a]);
  }
  void call(const Foreign& kernel) const {
    const int64_t first = part_ * kCallElements;
    const char* src[kMostOperands];
    for (size_t i = 0; i < static_cast<size_t>(head_.operands); ++i)
      src[i] = at_[i] + first * strides_[i];
    kernel.elements(kernel, at_[0] + first * strides_[0], strides_[0], src + 1, strides_ + 1,
                    static_cast<size_t>(std::min(head_.row - first, kCallElements)));
  }
  void next() {
    if (++part_ < head_.calls) return;
    part_ = 0;
    for (size_t a = axes(); a-- > 0;) {
      move(a, 1);
      if (++place_[a] < sizes_[a]) return;
      move(a, -sizes_[a]);
      place_[a] = 0;
    }
  }

 private:
  size_t axes() const { return static_cast<size_t>(head_.axes); }
  int64_t number(size_t operand, size_t which) const {
    return numbers_[operand * (2 + axes()) + which];
  }
  void move(size_t axis, int64_t by) {
    for (size_t i = 0; i < static_cast<size_t>(head_.operands); ++i)
      at_[i] += by * number(i, 2 + axis);
  }
  const Head head_;
  const int64_t *sizes_, *numbers_;
  char* at_[kMostOperands];
  ptrdiff_t strides_[kMostOperands];
  int64_t place_[uop::Dims::kMost];
  int64_t part_;
};

}  // namespace

void run_foreign(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end) {
  if (plan.foreign->form == ForeignForm::kArrays)
    return run_arrays(plan, operands, scratch, begin, end);
  Walk walk(plan, operands, begin);
  for (int64_t call = begin; call < end; ++call, walk.next()) walk.call(*plan.foreign);
}

}  // namespace aster::runtime::cpu::native
