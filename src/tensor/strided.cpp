#include "tensor/strided.h"

#include <algorithm>
#include <array>

namespace aster::tensor {
namespace {

constexpr size_t kMost = uop::Dims::kMost;

// An axis that steps through memory, the largest step first.
struct Step {
  size_t axis;
  Word stride;  // its size
  Word count;
  bool back;
};

class Strided {
 public:
  Strided(Build& build, const aster_ml_tensor& tensor, DType dtype)
      : engine_(build.engine()), g_(build.graph()), tensor_(tensor), dtype_(dtype) {}

  // False where the steps do not nest.
  bool find_steps() {
    for (size_t i = 0; i < tensor_.ndim; ++i) {
      const Word stride = tensor_.strides[i];
      if (tensor_.shape[i] == 1 || stride == 0) continue;
      steps_[count_++] = {i, stride < 0 ? -stride : stride, static_cast<Word>(tensor_.shape[i]),
                          stride < 0};
      if (stride < 0) low_ += stride * static_cast<Word>(tensor_.shape[i] - 1);
    }
    std::sort(steps_.begin(), steps_.begin() + count_,
              [](const Step& a, const Step& b) { return a.stride > b.stride; });
    reach_[count_] = 1;
    for (size_t i = count_; i-- > 0;) {
      if (steps_[i].stride < reach_[i + 1]) return false;
      reach_[i] = reach_[i + 1] + (steps_[i].count - 1) * steps_[i].stride;
    }
    return count_ + 1 <= kMost;
  }

  Node build(buffer::Storage* storage, size_t offset, bool to_write) {
    const auto size = static_cast<Word>(dtype::size(dtype_));
    const auto at = static_cast<Word>(offset);
    const Word total = (static_cast<Word>(storage->bytes) - at % size) / size;
    Word begin = at / size + low_, place = 0;
    Word length = reach_[0];
    if (Word within; to_write && count_ > 1 && row_of(0, total, begin, &within)) {
      place = within;
      begin -= place;
      length = steps_[0].count * steps_[0].stride;
    }
    shape_[0] = length;
    Node x = engine::buffer_node(engine_, storage, at % size + begin * size, dtype_, {shape_, 1});
    for (size_t level = 0; level < count_; ++level) x = cut(x, level, &length, &place);
    return ordered(count_ == 0 ? g_.reshape(x, {}) : x);
  }

 private:
  // Whether whole rows of a level fit into an axis of some length; *place: where in them the
  // elements begin, that begin at `at` of the axis.
  bool row_of(size_t level, Word length, Word at, Word* place) const {
    const Step& step = steps_[level];
    *place = std::max<Word>(0, at + step.count * step.stride - length);
    return *place <= std::min(at, step.stride - reach_[level + 1]);
  }

  // The last axis becomes the steps of a level, and what lies between two of them. *place is where
  // its elements begin, before and after.
  Node cut(Node x, size_t level, Word* length, Word* place) {
    const Step& step = steps_[level];
    if (level + 1 == count_) return sliced(x, level, *place, step.stride, step.count);
    const Word rows = step.count * step.stride;
    Word after = 0;
    if (row_of(level, *length, *place, &after)) {
      x = sliced(x, level, *place - after, 1, rows);
    } else {
      return windows(x, level, length, place);
    }
    shape_[level] = step.count;
    shape_[level + 1] = step.stride;
    *length = step.stride;
    *place = after;
    return x == nullptr ? nullptr : g_.reshape(x, {shape_, level + 2});
  }
  Node sliced(Node x, size_t axis, Word start, Word step, Word count) {
    if (x == nullptr || (start == 0 && step == 1 && count == x->dim(axis))) return x;
    Word starts[kMost] = {}, steps[kMost], counts[kMost];
    for (size_t i = 0; i < axis; ++i) counts[i] = x->dim(i);
    std::fill_n(steps, axis, 1);
    starts[axis] = start;
    steps[axis] = step;
    counts[axis] = count;
    shape_[axis] = count;
    const size_t n = axis + 1;
    return g_.slice(x, {starts, n}, {steps, n}, {counts, n});
  }
  // Where the last row is not whole in memory.
  Node windows(Node x, size_t level, Word* length, Word* place) {
    const Word reach = reach_[level + 1];
    x = sliced(x, level, *place, 1, reach_[level]);
    shape_[level] = steps_[level].count;
    shape_[level + 1] = *length = reach;
    *place = 0;
    const auto axis = static_cast<int64_t>(level);
    return x == nullptr ? nullptr : g_.window(x, axis, reach, steps_[level].stride, 1);
  }

  // The steps in the order of the axes and their directions, with the axes that do not step.
  Node ordered(Node x) {
    if (x == nullptr) return nullptr;
    Word back[kMost] = {}, order[kMost], shape[kMost], whole[kMost];
    bool any = false, moved = false;
    size_t next = 0;
    for (size_t i = 0; i < count_; ++i) any |= (back[i] = steps_[i].back ? 1 : 0) != 0;
    if (any) x = g_.flip(x, {back, count_});
    for (size_t axis = 0; axis < tensor_.ndim; ++axis) {
      shape[axis] = 1;
      whole[axis] = static_cast<Word>(tensor_.shape[axis]);
      for (size_t i = 0; i < count_; ++i) {
        if (steps_[i].axis != axis) continue;
        moved |= i != next;
        order[next++] = static_cast<Word>(i);
        shape[axis] = steps_[i].count;
      }
    }
    if (x != nullptr && moved) x = g_.permute(x, {order, count_});
    if (x != nullptr) x = g_.reshape(x, {shape, tensor_.ndim});
    return x == nullptr ? nullptr : g_.expand(x, {whole, tensor_.ndim});
  }

  engine::Engine& engine_;
  Graph& g_;
  const aster_ml_tensor& tensor_;
  DType dtype_;
  std::array<Step, kMost> steps_;
  size_t count_ = 0;
  Word reach_[kMost + 1];  // elements from the first to the last of a level and those below
  Word low_ = 0;           // from the first element to the lowest one
  Word shape_[kMost + 1];
};

}  // namespace

Status strided_node(Node* out, Build& build, buffer::Storage* storage, size_t offset,
                    const aster_ml_tensor& tensor, DType dtype, bool to_write) {
  *out = nullptr;
  Strided strided(build, tensor, dtype);
  if (!strided.find_steps()) return kOk;
  *out = strided.build(storage, offset, to_write);
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace aster::tensor
