#include "runtime/reference/machine.h"

#include <algorithm>

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Op;
using Kind = Step::Kind;

constexpr size_t kStrip = 512;                   // elements, where memory allows
constexpr size_t kWorkspace = size_t{32} << 20;  // bytes that shorten strips
constexpr int64_t kShortAxis = 16;               // axes up to this are run together
constexpr size_t kExtraStrips = 3;               // scratch of two, accumulator
constexpr size_t kMaxAxes = 256;

size_t bytes_an_element(const Plan& plan) {
  return (plan.value_slots + kExtraStrips + plan.index_slots) * sizeof(uop::Word) +
         plan.index_slots;
}

size_t strip_length(const Plan& plan, int64_t elements) {
  const size_t fits = std::clamp<size_t>(kWorkspace / bytes_an_element(plan), 1, kStrip);
  return static_cast<size_t>(std::clamp<int64_t>(elements, 1, static_cast<int64_t>(fits)));
}

}  // namespace

// A loop over some axes of a domain; strides in elements of the domain and of the result.
struct Machine::Axis {
  int64_t size;
  int64_t stride;
  int64_t out_stride;
};

struct Machine::Axes {
  Axis kept[kMaxAxes];
  Axis reduced[kMaxAxes];
  size_t kept_count = 0;
  size_t reduced_count = 0;
};

// Positions of nested loops, the last axis fastest.
struct Machine::Walk {
  Walk(const Axis* loops, size_t loop_count) : axes(loops), count(loop_count) {}
  bool next() {
    for (size_t i = count; i-- > 0;) {
      position += axes[i].stride;
      out += axes[i].out_stride;
      if (++counters[i] < axes[i].size) return true;
      counters[i] = 0;
      position -= axes[i].size * axes[i].stride;
      out -= axes[i].size * axes[i].out_stride;
    }
    return false;
  }
  const Axis* axes;
  size_t count;
  int64_t counters[kMaxAxes] = {};
  int64_t position = 0;
  int64_t out = 0;
};

Machine::~Machine() { memory_->release(block_, bytes_, 64); }

void Machine::lay_out(const Plan& plan, int64_t elements) {
  strip_ = strip_length(plan, elements);
  first_extra_ = plan.value_slots;
  first_index_ = first_extra_ + kExtraStrips;
  masks_ = reinterpret_cast<uint8_t*>(strip(first_index_ + plan.index_slots));
}

Status Machine::prepare(const Plan& plan, int64_t elements) {
  const size_t bytes = strip_length(plan, elements) * bytes_an_element(plan);
  if (bytes > bytes_) {
    char* block = static_cast<char*>(memory_->allocate(bytes, 64));
    if (block == nullptr) return out_of_memory(bytes);
    memory_->release(block_, bytes_, 64);
    block_ = block;
    bytes_ = bytes;
  }
  return plan.index_slots > positions_.size() ? positions_.resize(plan.index_slots) : kOk;
}

void Machine::run_positions(const Plan& plan, const Step& step, const Index& root, size_t n) {
  if (step.kind == Kind::kRoot) {
    positions_[step.slot] = root;
  } else {
    const Index from = positions_[plan.steps[step.index].slot];
    positions_[step.slot] = move_index(plan.movements[step.movement], plan.rows, from, n,
                                       at(step.slot), mask(step.slot));
  }
}

void Machine::run_value(const Plan& plan, const Step& step, size_t n) {
  void* y = strip(step.slot);
  const void* sources[3] = {};
  for (size_t k = 0; k < 3; ++k) {
    if (step.sources[k] != kNowhere) sources[k] = value_of(plan, step.sources[k]);
  }
  const Index* index = step.index != kNowhere ? &positions_[plan.steps[step.index].slot] : nullptr;
  switch (step.kind) {
    case Kind::kRoot:
    case Kind::kIndex:
      break;
    case Kind::kConst:
      return strip_fill(step.dtype, step.word, n, y);
    case Kind::kLoad:
      return strip_load(step.dtype, step.data, *index, n, y, scratch());
    case Kind::kIota:
      return strip_iota(step.dtype, *index, n, y);
    case Kind::kAlu:
      return strip_alu(step.op, step.from, step.dtype, n, y, sources[0], sources[1], sources[2]);
    case Kind::kCast:
      return strip_cast(step.from, step.dtype, n, y, sources[0]);
    case Kind::kBitcast:
      return strip_bitcast(step.from, step.dtype, n, y, sources[0], scratch());
    case Kind::kBlend:
      return strip_blend(step.dtype, n, y, sources[0], sources[1], index->mask);
  }
}

void Machine::run(const Plan& plan, const Index& root, size_t n) {
  stopped_ = stopped_ || (interrupt_ != nullptr && interrupt_->requested());
  if (stopped_) return;
  for (const Step& step : plan.steps) {
    if (step.kind == Kind::kRoot || step.kind == Kind::kIndex) {
      run_positions(plan, step, root, n);
    } else {
      run_value(plan, step, n);
    }
  }
}

// body(first element, count) for strips of all of node's elements, inside rows unless those are
// short: along one axis most movements keep a constant step.
template <typename Body>
void Machine::for_strips(const Plan& plan, Node node, Body body) {
  const int64_t count = node->count();
  lay_out(plan, count);
  int64_t row = count;
  if (!plan.movements.empty()) {
    row = 1;
    for (size_t i = node->ndim; i-- > 0 && row < kShortAxis;) row *= node->dim(i);
  }
  for (int64_t first = 0; first < count; first += row) {
    for (int64_t done = 0; done < row; done += static_cast<int64_t>(strip_)) {
      const size_t n = std::min(strip_, static_cast<size_t>(row - done));
      body(first + done, n);
    }
  }
}

void Machine::map(const Plan& plan, Node node, void* data) {
  for_strips(plan, node, [&](int64_t first, size_t n) {
    const Index index{first, 1};
    run(plan, index, n);
    strip_store(node->dtype, data, index, n, value_of(plan, plan.result), scratch());
  });
}

void Machine::write(const Plan& plan, Node node, const void* value, void* data) {
  for_strips(plan, node, [&](int64_t first, size_t n) {
    const Index index{first, 1};
    run(plan, index, n);
    if (stopped_) return;  // nothing says where to
    void* const read = accumulator();
    strip_load(node->dtype, value, index, n, read, scratch());
    const Index& target = positions_[plan.steps[plan.target].slot];
    strip_store(node->dtype, data, target, n, read, scratch());
  });
}

// Time of an element in strips along this axis, in some unit: from what its loads do, and the
// steps' share of each strip.
double Machine::cost(const Plan& plan, const Axis& axis) {
  const size_t n = std::min(strip_, static_cast<size_t>(axis.size));
  double loads = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == Kind::kRoot || step.kind == Kind::kIndex) {
      run_positions(plan, step, Index{0, axis.stride}, n);
    } else if (step.kind == Kind::kLoad) {
      const Index& index = positions_[plan.steps[step.index].slot];
      const int64_t stride = std::abs(index.step);
      loads += index.at != nullptr || index.mask != nullptr ? 8
               : stride <= 1                                ? 0.5
               : stride < 8                                 ? 1
                                                            : 4;
    }
  }
  return loads + static_cast<double>(plan.steps.size()) * (1 + 64 / static_cast<double>(n));
}

void Machine::reduce(const Plan& plan, Node node, void* data) {
  const Node source = node->src(0);
  lay_out(plan, source->count());
  Axes axes;
  int64_t stride = 1, out_stride = 1;
  bool previous_reduced = false, merge = false;
  for (size_t i = source->ndim; i-- > 0;) {
    const int64_t size = source->dim(i);
    if (size == 1) continue;
    const bool reduced = std::find(node->arg().begin() + 1, node->arg().end(),
                                   static_cast<int64_t>(i)) != node->arg().end();
    size_t& count = reduced ? axes.reduced_count : axes.kept_count;
    Axis* list = reduced ? axes.reduced : axes.kept;
    if (merge && reduced == previous_reduced && list[count - 1].size < kShortAxis) {
      list[count - 1].size *= size;
    } else {
      list[count++] = Axis{size, stride, reduced ? 0 : out_stride};
    }
    merge = true;
    previous_reduced = reduced;
    stride *= size;
    if (!reduced) out_stride *= size;
  }
  std::reverse(axes.kept, axes.kept + axes.kept_count);
  std::reverse(axes.reduced, axes.reduced + axes.reduced_count);
  const bool along = axes.kept_count == 0 ||
                     (axes.reduced_count != 0 && cost(plan, axes.reduced[axes.reduced_count - 1]) <
                                                     cost(plan, axes.kept[axes.kept_count - 1]));
  if (along) return reduce_along(plan, node, axes, data);
  reduce_each(plan, node, axes, data);
}

// Strips along the last kept axis, a running value for each element.
void Machine::reduce_each(const Plan& plan, Node node, const Axes& axes, void* data) {
  const Op op = static_cast<Op>(node->arg(0));
  const uop::DType dtype = node->dtype;
  const Axis& inner = axes.kept[axes.kept_count - 1];
  Walk outer(axes.kept, axes.kept_count - 1);
  do {
    for (int64_t done = 0; done < inner.size; done += static_cast<int64_t>(strip_)) {
      const size_t n = std::min(strip_, static_cast<size_t>(inner.size - done));
      strip_fill(dtype, fold_identity(op, dtype), n, accumulator());
      Walk loop(axes.reduced, axes.reduced_count);
      const int64_t first = outer.position + done * inner.stride;
      do {
        run(plan, Index{first + loop.position, inner.stride}, n);
        fold_each(op, dtype, n, accumulator(), value_of(plan, plan.result));
      } while (loop.next());
      strip_round(dtype, n, accumulator());
      const Index out{outer.out + done * inner.out_stride, inner.out_stride};
      strip_store(dtype, data, out, n, accumulator(), scratch());
    }
  } while (outer.next());
}

// Strips along the last reduced axis, one element of the result after another.
void Machine::reduce_along(const Plan& plan, Node node, const Axes& axes, void* data) {
  const Op op = static_cast<Op>(node->arg(0));
  const uop::DType dtype = node->dtype;
  const bool single = axes.reduced_count == 0;
  const Axis inner = single ? Axis{1, 0, 0} : axes.reduced[axes.reduced_count - 1];
  Walk outer(axes.kept, axes.kept_count);
  do {
    strip_fill(dtype, fold_identity(op, dtype), 1, accumulator());
    Walk loop(axes.reduced, single ? 0 : axes.reduced_count - 1);
    do {
      for (int64_t done = 0; done < inner.size; done += static_cast<int64_t>(strip_)) {
        const size_t n = std::min(strip_, static_cast<size_t>(inner.size - done));
        run(plan, Index{outer.position + loop.position + done * inner.stride, inner.stride}, n);
        fold_along(op, dtype, n, accumulator(), value_of(plan, plan.result));
      }
    } while (loop.next());
    strip_round(dtype, 1, accumulator());
    strip_store(dtype, data, Index{outer.out, 0}, 1, accumulator(), scratch());
  } while (outer.next());
}

}  // namespace aster::runtime::reference
