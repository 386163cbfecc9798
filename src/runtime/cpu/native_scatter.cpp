// Scatter: blocks of positions are computed first, then values are written or combined there.
#include <algorithm>

#include "runtime/cpu/native_types.h"
#include "uop/expr.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr int64_t kBlock = 256;          // values at a time
constexpr int64_t kPackedRun = 16;       // runs up to this share blocks
constexpr int64_t kOutside = INT64_MIN;  // a position nowhere; negative whatever is added to it
constexpr int64_t kTaskElements = 1 << 14;
constexpr int64_t kMostTasks = 64;
constexpr int64_t kLineElements = 16;  // two tasks should not share cache lines
// Targets that leave the caches and that no axis splits: every task computes all positions.
constexpr int64_t kRangeElements = 1 << 22;
constexpr int64_t kRangeBytes = int64_t{4} << 20;
constexpr int64_t kRangeTasks = 2;
constexpr int64_t kFarBytes = int64_t{1} << 18;
constexpr int64_t kWrite = -1;

struct Head {
  int64_t op;     // kWrite, or a reduction
  int64_t dtype;  // of target and value
  int64_t bytes;  // of an element
  int64_t sources;
  int64_t target_count;
  int64_t fill, value;         // elements of constant sources
  int64_t base;                // what constant indices add to positions; kOutside: nothing
  int64_t loops, indices;      // rows of them follow
  int64_t outer, axis, inner;  // the target around the axis that tasks split, or as a whole
  int64_t split;               // the loop along that axis, or -1
  int64_t tasks;
};
struct Loop {
  int64_t size, stride, step, unused;  // stride: in the target; step: in the value
};
struct Index {
  int64_t operand, dtype, bound, stride;
};
constexpr size_t kRow = 4;  // words

template <typename Row>
Row row(const Plan& plan, int64_t i) {
  static_assert(sizeof(Row) == kRow * sizeof(int64_t));
  Row out;
  const size_t at = sizeof(Head) / sizeof(int64_t) + static_cast<size_t>(i) * kRow;
  std::memcpy(static_cast<void*>(&out), plan.words.data() + at, sizeof(Row));
  return out;
}
template <typename Row>
Status push_row(Plan* plan, const Row& row) {
  int64_t words[kRow];
  std::memcpy(words, &row, sizeof(words));
  return plan->words.append(words, kRow);
}

// ---- Preparation ----

int64_t element_of(Node constant) {
  int64_t element = 0;
  if (dtype::is_float(constant->dtype)) {
    dtype::store_double(constant->dtype, &element, uop::const_double(constant));
  } else {
    dtype::store_int(constant->dtype, &element, uop::const_int(constant));
  }
  return element;
}

// The axis of the target that tasks split: one whose coordinate is an axis of the value, so that
// tasks write apart. The first that is long enough, else the longest.
size_t choose_axis(Node node, int64_t tasks) {
  size_t best = node->ndim;
  int64_t most = 1;
  for (size_t i = 0; i < node->ndim; ++i) {
    if (node->arg(1 + i) < 0) continue;
    const int64_t inner = rows_of(node->shape(), i).inner;
    const int64_t parts = node->dim(i) * std::min(inner, kLineElements) / kLineElements;
    if (parts <= most) continue;
    best = i;
    most = parts;
    if (parts >= tasks) break;
  }
  return best;
}

void split(Head* head, Node node, size_t* value_axis) {
  const int64_t values = node->src(1)->count(), target = head->target_count;
  const int64_t work = target > INT64_MAX - values ? INT64_MAX : target + values;
  const int64_t tasks = std::clamp<int64_t>(work / kTaskElements, 1, kMostTasks);
  *value_axis = SIZE_MAX;
  head->outer = head->inner = head->tasks = 1;
  head->axis = target;
  if (tasks == 1) return;
  const size_t axis = choose_axis(node, tasks);
  if (axis < node->ndim) {
    const Rows rows = rows_of(node->shape(), axis);
    head->outer = rows.outer;
    head->axis = rows.size;
    head->inner = rows.inner;
    const int64_t parts = rows.size * std::min(rows.inner, kLineElements) / kLineElements;
    head->tasks = std::min(tasks, parts);
    *value_axis = static_cast<size_t>(node->arg(1 + axis));
  } else if (values >= kRangeElements && target * head->bytes >= kRangeBytes) {
    head->tasks = kRangeTasks;
  }
}

// Loops over the value's axes, merged where one loop does; the split axis stays alone.
Status push_loops(Plan* plan, Head* head, Node node, size_t split_axis) {
  const Node value = node->src(1);
  uop::Dims strides(value->ndim, 0);
  int64_t stride = 1;
  for (size_t i = node->ndim; i-- > 0;) {
    const int64_t from = node->arg(1 + i);
    if (from >= 0) strides[static_cast<size_t>(from)] += stride;
    stride *= node->dim(i);
  }
  int64_t step = value->count();
  Loop pending{1, 0, 1, 0};
  bool alone = false;  // pending stays as it is
  const auto push = [&] {
    head->split = alone ? head->loops : head->split;
    ++head->loops;
    return push_row(plan, pending);
  };
  for (size_t i = 0; i < value->ndim; ++i) {
    const int64_t size = value->dim(i);
    step /= size;
    if (size == 1 && i != split_axis) continue;
    const bool joins = pending.size == 1 || pending.stride == strides[i] * size;
    if (joins && !alone && i != split_axis) {
      pending = Loop{pending.size * size, strides[i], step, 0};
      continue;
    }
    if (pending.size > 1 || alone) ASTER_TRY(push());
    pending = Loop{size, strides[i], step, 0};
    alone = i == split_axis;
  }
  return push();
}

Status push_indices(Plan* plan, Head* head, Node node) {
  int64_t stride = 1;
  for (size_t i = node->ndim; i-- > 0; stride *= node->dim(i)) {
    if (node->arg(1 + i) >= 0) continue;
    const size_t operand = static_cast<size_t>(1 - node->arg(1 + i));
    const Node index = node->src(operand);
    if (uop::is_const(index)) {
      const int64_t at = uop::const_int(index);
      const bool inside = at >= 0 && at < node->dim(i);
      head->base = inside && head->base >= 0 ? head->base + at * stride : kOutside;
      continue;
    }
    ASTER_TRY(push_row(plan, Index{static_cast<int64_t>(operand),
                                   static_cast<int64_t>(index->dtype), node->dim(i), stride}));
    ++head->indices;
  }
  return kOk;
}

// ---- Running ----

template <typename I>
void add_index(int64_t* at, const I* index, int64_t n, int64_t bound, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t x = static_cast<int64_t>(index[i]);
    const bool inside = static_cast<uint64_t>(x) < static_cast<uint64_t>(bound);
    at[i] = inside ? at[i] + x * stride : kOutside;
  }
}

// What is done to the n values of a block, at positions within [low, low + size).
struct Block {
  void* target;
  const void* value;
  const int64_t* at;
  int64_t n;
  uint64_t low, size;
  bool far;       // the target leaves the caches
  void* nowhere;  // takes what falls outside
  bool inside(int64_t i) const { return static_cast<uint64_t>(at[i]) - low < size; }
  // Where value i goes; selected without a branch, which positions at random would mispredict.
  template <typename T>
  T* place(T* y, int64_t i) const {
    return inside(i) ? y + at[i] : static_cast<T*>(nowhere);
  }
  // Asks for all lines before the first is written: stores wait for one another, requests do not.
  template <typename T>
  void prefetch(T* y) const {
    if (!far) return;
    for (int64_t i = 0; i < n; ++i) __builtin_prefetch(y + (inside(i) ? at[i] : 0), 1);
  }
  // Whether positions follow one another, all inside.
  bool follows() const {
    if (n < kPackedRun || !inside(0) || !inside(n - 1) || at[n - 1] - at[0] != n - 1) return false;
    int64_t difference = 0;
    for (int64_t i = 0; i < n; ++i) difference |= at[i] ^ (at[0] + i);
    return difference == 0;
  }
};

template <typename T>
void write_values(const Block& block) {
  T* const y = static_cast<T*>(block.target);
  const T* const x = static_cast<const T*>(block.value);
  if (block.follows()) {
    std::memcpy(y + block.at[0], x, static_cast<size_t>(block.n) * sizeof(T));
    return;
  }
  block.prefetch(y);
  for (int64_t i = 0; i < block.n; ++i) *block.place(y, i) = x[i];
}

template <typename E, typename Combine>
void combine_values(const Block& block) {
  using Stored = typename E::Stored;
  constexpr Combine combine{};
  Stored* const y = static_cast<Stored*>(block.target);
  const Stored* const x = static_cast<const Stored*>(block.value);
  if (block.follows()) {
    Stored* const into = y + block.at[0];
    for (int64_t i = 0; i < block.n; ++i) {
      into[i] = E::store(combine(E::load(into[i]), E::load(x[i])));
    }
    return;
  }
  block.prefetch(y);
  for (int64_t i = 0; i < block.n; ++i) {
    Stored& into = *block.place(y, i);
    into = E::store(combine(E::load(into), E::load(x[i])));
  }
}

using Apply = void (*)(const Block& block);

Apply apply_of(const Head& head) {
  if (head.op == kWrite) {
    return head.bytes == 1   ? write_values<uint8_t>
           : head.bytes == 2 ? write_values<uint16_t>
           : head.bytes == 4 ? write_values<uint32_t>
                             : write_values<uint64_t>;
  }
  Apply apply = nullptr;
  with_element(static_cast<DType>(head.dtype), [&](auto element) {
    using E = decltype(element);
    with_reduction<typename E::Value>(static_cast<Op>(head.op), [&](auto combine) {
      apply = combine_values<E, decltype(combine)>;
    });
  });
  return apply;
}

template <typename T>
void fill(void* y, int64_t from, int64_t n, int64_t element) {
  T value;
  std::memcpy(&value, &element, sizeof(T));
  std::fill_n(static_cast<T*>(y) + from, n, value);
}
void fill(void* y, int64_t bytes, int64_t from, int64_t n, int64_t element) {
  if (bytes == 1) return fill<uint8_t>(y, from, n, element);
  if (bytes == 2) return fill<uint16_t>(y, from, n, element);
  if (bytes == 4) return fill<uint32_t>(y, from, n, element);
  fill<uint64_t>(y, from, n, element);
}

class Scatter {
 public:
  Scatter(const Plan& plan, void* const* operands)
      : plan_(plan),
        head_(get_head<Head>(plan)),
        operands_(operands),
        target_(operands[head_.sources]),
        value_(static_cast<const char*>(operands[1])),
        apply_(apply_of(head_)),
        far_(head_.target_count * head_.bytes >= kFarBytes) {
    if (value_ == nullptr) fill(constant_, head_.bytes, 0, kBlock, head_.value);
  }
  void run(int64_t task);

 private:
  void copy(int64_t from, int64_t n) const;
  void walk(Loop inner, int64_t low, int64_t high);
  void add_run(int64_t at, int64_t step, int64_t n, const Loop& inner);
  void flush();

  const Plan& plan_;
  const Head head_;
  void* const* const operands_;
  void* const target_;
  const char* const value_;
  const Apply apply_;
  const bool far_;
  uint64_t low_ = 0,
           size_ = 0;  // positions that are this task's, and maybe others that no value has
  int64_t first_ = 0, count_ = 0;  // the block's values
  uint64_t nowhere_ = 0;
  int64_t at_[kBlock];
  uint64_t constant_[kBlock];
};

// The target's elements as they are before.
void Scatter::copy(int64_t from, int64_t n) const {
  const void* const source = operands_[0];
  if (source == nullptr) {
    fill(target_, head_.bytes, from, n, head_.fill);
  } else if (source != target_) {
    std::memcpy(static_cast<char*>(target_) + from * head_.bytes,
                static_cast<const char*>(source) + from * head_.bytes,
                static_cast<size_t>(n * head_.bytes));
  }
}

void Scatter::flush() {
  if (count_ == 0) return;
  for (int64_t k = 0; k < head_.indices; ++k) {
    const Index index = row<Index>(plan_, head_.loops + k);
    with_integer(static_cast<DType>(index.dtype), [&](auto type) {
      const auto* const from = static_cast<const decltype(type)*>(operands_[index.operand]);
      add_index(at_, from + first_, count_, index.bound, index.stride);
    });
  }
  const void* const value = value_ != nullptr ? value_ + first_ * head_.bytes : nullptr;
  apply_(Block{target_, value != nullptr ? value : constant_, at_, count_, low_, size_, far_,
               &nowhere_});
  count_ = 0;
}

// n values from step on, of a run along the inner loop that is at position `at`.
void Scatter::add_run(int64_t at, int64_t step, int64_t n, const Loop& inner) {
  if (count_ != 0 && (first_ + count_ != step || inner.size > kPackedRun)) flush();
  while (n > 0) {
    if (count_ == kBlock) flush();
    if (count_ == 0) first_ = step;
    const int64_t m = std::min(n, kBlock - count_);
    for (int64_t i = 0; i < m; ++i) at_[count_ + i] = at + i * inner.stride;
    count_ += m;
    at += m * inner.stride;
    step += m;
    n -= m;
  }
}

// Values whose coordinate along the split loop, if there is one, is in [low, high).
void Scatter::walk(Loop inner, int64_t low, int64_t high) {
  const int64_t outer = head_.loops - 1;
  int64_t counters[uop::Dims::kMost] = {};
  int64_t at = head_.base, step = 0;
  const auto first = [&](int64_t i) { return i == head_.split ? low : 0; };
  const auto last = [&](int64_t i, int64_t size) {
    return i == head_.split ? std::min(high, size) : size;
  };
  for (int64_t i = 0; i < outer; ++i) {
    const Loop loop = row<Loop>(plan_, i);
    if (first(i) >= last(i, loop.size)) return;
    counters[i] = first(i);
    at += first(i) * loop.stride;
    step += first(i) * loop.step;
  }
  const int64_t begin = first(outer), n = last(outer, inner.size) - begin;
  if (n <= 0) return;
  for (;;) {
    add_run(at + begin * inner.stride, step + begin * inner.step, n, inner);
    int64_t i = outer;
    while (i-- > 0) {
      const Loop loop = row<Loop>(plan_, i);
      const int64_t end = last(i, loop.size);
      at += loop.stride;
      step += loop.step;
      if (++counters[i] < end) break;
      at -= (end - first(i)) * loop.stride;
      step -= (end - first(i)) * loop.step;
      counters[i] = first(i);
    }
    if (i < 0) break;
  }
  flush();
}

void Scatter::run(int64_t task) {
  const int64_t low = task * head_.axis / head_.tasks, high = (task + 1) * head_.axis / head_.tasks;
  for (int64_t i = 0; i < head_.outer; ++i) {
    copy((i * head_.axis + low) * head_.inner, (high - low) * head_.inner);
  }
  if (head_.base < 0) return;  // a constant index lies outside
  const bool whole = head_.split >= 0;
  low_ = static_cast<uint64_t>(whole ? 0 : low);
  size_ = static_cast<uint64_t>(whole ? head_.target_count : high - low);
  walk(row<Loop>(plan_, head_.loops - 1), low, high);
}

}  // namespace

Status prepare_scatter(Plan* out, Node node) {
  const Node target = node->src(0), value = node->src(1);
  Head head = {};
  head.op = node->arg(0);
  head.dtype = static_cast<int64_t>(node->dtype);
  head.bytes = static_cast<int64_t>(element_bytes(node->dtype));
  head.sources = node->nsrc;
  head.target_count = node->count();
  if (uop::is_const(target)) head.fill = element_of(target);
  if (uop::is_const(value)) head.value = element_of(value);
  head.split = -1;
  ASTER_TRY(put_head(out, head));
  size_t split_axis;
  split(&head, node, &split_axis);
  ASTER_TRY(push_loops(out, &head, node, split_axis));
  ASTER_TRY(push_indices(out, &head, node));
  std::memcpy(static_cast<void*>(out->words.data()), &head, sizeof(head));
  out->tasks = head.tasks;
  const double values = static_cast<double>(value->count());
  out->nanoseconds = 0.1 * static_cast<double>(node->count() * head.bytes) +
                     values * (1.5 + 0.7 * static_cast<double>(head.indices));
  return kOk;
}

void run_scatter(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  Scatter scatter(plan, operands);
  for (int64_t task = begin; task < end; ++task) scatter.run(task);
}

}  // namespace aster::runtime::cpu::native
