// Scatter: blocks of positions are computed first, then values are written or combined there.
#include <algorithm>

#include "runtime/cpu/machine.h"
#include "runtime/cpu/native_scatter.h"
#include "runtime/cpu/native_types.h"
#include "uop/expr.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr int64_t kBlock = 256;      // values at a time
constexpr int64_t kPackedRun = 16;   // runs up to this share blocks
constexpr int64_t kShortestRun = 3;  // written at once where all goes to one place
constexpr int64_t kMostTasks = 64;
// Targets that leave the caches and that no axis splits: every task computes all positions.
constexpr int64_t kRangeElements = 1 << 22;
constexpr int64_t kRangeTasks = 2;
// Runs that no task cuts: they are worth so many bytes each for every task that reads their place.
constexpr int64_t kRunBytes = 256;

struct Head {
  int64_t op;     // kWrite, or a reduction
  int64_t dtype;  // of target and value
  int64_t bytes;  // of an element
  int64_t sources;
  int64_t target_count;
  int64_t fill, value;         // elements of constant sources
  int64_t base, first;         // of the first value: its position but for indices (kOutside: there
                               // is none), and where it lies
  int64_t indices, loops;      // rows of them follow
  int64_t outer, axis, inner;  // the target around the axis that tasks split, or as a whole
  int64_t split;               // the loop along that axis, or -1
  int64_t tasks;
};
// An index in memory: a position gets its elements, `stride` apart.
struct Index {
  int64_t operand, dtype, bound, stride, first;
  int64_t back;  // what negative ones get first
};
constexpr size_t kIndexWords = sizeof(Index) / sizeof(int64_t);
// A loop over values: its size, then the distances from one turn to the next in the target, in the
// value, and in every index.
enum Distance : size_t { kInTarget, kInValue, kInIndices };
constexpr size_t kMostDistances = kInIndices + uop::Dims::kMost;

class Words {
 public:
  Words(const Plan& plan, const Head& head)
      : indices_(plan.words.data() + sizeof(Head) / sizeof(int64_t)),
        loops_(indices_ + static_cast<size_t>(head.indices) * kIndexWords),
        width_(kInIndices + static_cast<size_t>(head.indices)) {}
  Index index(size_t k) const {
    Index out;
    std::memcpy(static_cast<void*>(&out), indices_ + k * kIndexWords, sizeof(Index));
    return out;
  }
  int64_t size(int64_t i) const { return loop(i)[0]; }
  const int64_t* distances(int64_t i) const { return loop(i) + 1; }
  size_t width() const { return width_; }
  void advance(int64_t* at, int64_t i, int64_t turns) const {
    for (size_t k = 0; k < width_; ++k) at[k] += turns * distances(i)[k];
  }

 private:
  const int64_t* loop(int64_t i) const { return loops_ + static_cast<size_t>(i) * (1 + width_); }
  const int64_t* indices_;
  const int64_t* loops_;
  size_t width_;
};

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

// Every task looks at all places; two may take shorter runs.
int64_t parts_of(const Rows& rows) {
  const auto parts = [&](int64_t run) { return rows.size * std::min(rows.inner, run) / run; };
  return std::max(parts(machine::kTaskRun), std::min<int64_t>(parts(machine::kShortestTaskRun), 2));
}

// The axis of the target that tasks split: one whose coordinate is an axis of the value, so that
// tasks write apart. The first that is long enough, else the longest.
size_t choose_axis(Node node, int64_t tasks) {
  size_t best = node->ndim;
  int64_t most = 1;
  for (size_t i = 0; i < node->ndim; ++i) {
    if (node->arg(1 + i) < 0) continue;
    const int64_t parts = parts_of(rows_of(node->shape(), i));
    if (parts <= most) continue;
    best = i;
    most = parts;
    if (parts >= tasks) break;
  }
  return best;
}

// How the sources of a Scatter are read: as told, or row-major.
class Views {
 public:
  Views(Node node, std::span<const int64_t> words) : node_(node), words_(words) {}
  // Source i, not the target: how it is read, from where, and the distance along an axis.
  int64_t how(size_t i) const {
    if (!words_.empty()) return of(i)[1 + axes()];
    return uop::is_const(node_->src(i)) ? kLinear : kPlain;
  }
  int64_t first(size_t i) const {
    if (!words_.empty()) return of(i)[0];
    return how(i) == kLinear ? uop::const_int(node_->src(i)) : 0;
  }
  int64_t distance(size_t i, size_t axis) const {
    if (!words_.empty()) return of(i)[1 + axis];
    return how(i) == kLinear ? 0 : rows_of(node_->src(1)->shape(), axis).inner;
  }

 private:
  size_t axes() const { return node_->src(1)->ndim; }
  const int64_t* of(size_t i) const {
    return words_.data() + (node_->ndim + size_t{2}) + (i - 1) * (axes() + 2);
  }
  const Node node_;
  const std::span<const int64_t> words_;
};

// Distances along the value's axes, a row an axis; fills in the indices and what they begin with.
Status measure(Vec<int64_t>* table, Plan* plan, Head* head, Node node, const Views& views) {
  const Node value = node->src(1);
  for (size_t i = 2; i < node->nsrc; ++i) head->indices += views.how(i) != kLinear;
  const size_t width = kInIndices + static_cast<size_t>(head->indices);
  ASTER_TRY(table->resize(value->ndim * width, 0));
  const auto move = [&](size_t axis, size_t k) -> int64_t& { return (*table)[axis * width + k]; };
  head->first = uop::is_const(value) ? 0 : views.first(1);
  for (size_t a = 0; a < value->ndim; ++a) {
    move(a, kInValue) = uop::is_const(value) ? 0 : views.distance(1, a);
  }
  size_t known = kInIndices;
  int64_t stride = 1;
  for (size_t i = node->ndim; i-- > 0; stride *= node->dim(i)) {
    const int64_t from = node->arg(1 + i), bound = node->dim(i);
    if (from >= 0) {
      move(static_cast<size_t>(from), kInTarget) += stride;
      continue;
    }
    const size_t operand = static_cast<size_t>(1 - from);
    const int64_t first = views.first(operand), how = views.how(operand);
    if (how == kLinear) {
      for (size_t a = 0; a < value->ndim; ++a) {
        move(a, kInTarget) += views.distance(operand, a) * stride;
      }
      // One that varies is known to be inside.
      const bool inside = !uop::is_const(node->src(operand)) || (first >= 0 && first < bound);
      head->base = inside && head->base >= 0 ? head->base + first * stride : kOutside;
      continue;
    }
    const Index index{static_cast<int64_t>(operand),
                      static_cast<int64_t>(node->src(operand)->dtype),
                      bound,
                      stride,
                      first,
                      how == kFromEnd ? bound : 0};
    int64_t words[kIndexWords];
    std::memcpy(words, &index, sizeof(index));
    ASTER_TRY(plan->words.append(words, kIndexWords));
    for (size_t a = 0; a < value->ndim; ++a) move(a, known) = views.distance(operand, a);
    ++known;
  }
  return kOk;
}

// How many values that follow one another go to places that do, whatever the indices.
int64_t run_of(const Vec<int64_t>& table, const Head& head, Node value) {
  const size_t width = kInIndices + static_cast<size_t>(head.indices);
  int64_t run = 1;
  for (size_t i = value->ndim; i-- > 0;) {
    const int64_t* const distances = table.data() + i * width;
    if (value->dim(i) == 1) continue;
    bool follows = distances[kInTarget] == run;
    for (size_t k = kInIndices; k < width; ++k) follows &= distances[k] == 0;
    if (!follows) break;
    run *= value->dim(i);
  }
  return run;
}

// Cuts the work; the axis of the value that tasks share, or SIZE_MAX.
size_t split(Head* head, Node node, int64_t run) {
  const int64_t values = node->src(1)->count(), target = head->target_count;
  const int64_t work = target > INT64_MAX - values ? INT64_MAX : target + values;
  const int64_t tasks = std::clamp<int64_t>(work / machine::kTaskElements, 1, kMostTasks);
  head->outer = head->inner = head->tasks = 1;
  head->axis = target;
  if (tasks == 1) return SIZE_MAX;
  const size_t axis = choose_axis(node, tasks);
  const Rows rows = axis < node->ndim ? rows_of(node->shape(), axis) : Rows();
  const int64_t ranges = std::min(tasks, run / (kRunBytes / head->bytes));
  if (rows.inner < run && ranges > 1) {  // or it would cut the runs
    head->tasks = ranges;
  } else if (axis < node->ndim) {
    head->outer = rows.outer;
    head->axis = rows.size;
    head->inner = rows.inner;
    head->tasks = std::min(tasks, parts_of(rows));
    return static_cast<size_t>(node->arg(1 + axis));
  } else if (values >= kRangeElements && target * head->bytes >= machine::kUncachedBytes) {
    head->tasks = kRangeTasks;
  }
  return SIZE_MAX;
}

// Loops over the value's axes, merged where one loop does; the split axis stays alone.
Status push_loops(Plan* plan, Head* head, Node value, size_t split_axis,
                  const Vec<int64_t>& table) {
  const size_t width = kInIndices + static_cast<size_t>(head->indices);
  int64_t size = 1;       // of the pending loop
  size_t row = SIZE_MAX;  // the axis whose distances are its own
  bool alone = false;     // it stays as it is
  const auto distance = [&](size_t axis, size_t k) { return table[axis * width + k]; };
  const auto push = [&]() -> Status {
    head->split = alone ? head->loops : head->split;
    ++head->loops;
    ASTER_TRY(plan->words.push(size));
    for (size_t k = 0; k < width; ++k) {
      ASTER_TRY(plan->words.push(row == SIZE_MAX ? 0 : distance(row, k)));
    }
    return kOk;
  };
  for (size_t i = 0; i < value->ndim; ++i) {
    const int64_t dim = value->dim(i);
    if (dim == 1 && i != split_axis) continue;
    bool joins = !alone && i != split_axis;
    for (size_t k = 0; k < width && size > 1 && joins; ++k) {
      joins = distance(row, k) == distance(i, k) * dim;
    }
    if (!joins && (size > 1 || alone)) ASTER_TRY(push());
    size = joins ? size * dim : dim;
    row = i;
    alone = i == split_axis;
  }
  return push();
}

// ---- Running ----

// An index while it is read.
struct Stream {
  Index index;
  const char* data;
  int64_t bytes;
  void (*add)(int64_t* at, const void* from, int64_t n, int64_t step, const Index& index);
};

// To n positions, the index elements that lie `step` apart.
template <typename I>
void add_index(int64_t* at, const void* from, int64_t n, int64_t step, const Index& index) {
  const I* const x = static_cast<const I*>(from);
  const auto add = [&](int64_t to, int64_t c) {
    c += c >> 63 & index.back;  // no branch: signs are random
    const bool inside = static_cast<uint64_t>(c) < static_cast<uint64_t>(index.bound);
    return inside ? to + c * index.stride : kOutside;
  };
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) at[i] = add(at[i], static_cast<int64_t>(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) at[i] = add(at[i], static_cast<int64_t>(x[i * step]));
  }
}

void fill(void* y, int64_t bytes, int64_t from, int64_t n, int64_t element) {
  with_bytes(bytes, [&](auto word) {
    std::memcpy(&word, &element, sizeof(word));
    std::fill_n(static_cast<decltype(word)*>(y) + from, n, word);
  });
}
// n elements, `step` apart, one after another.
void pick(void* y, const void* x, int64_t bytes, int64_t n, int64_t step) {
  with_bytes(bytes, [&](auto word) {
    auto* const to = static_cast<decltype(word)*>(y);
    const auto* const from = static_cast<const decltype(word)*>(x);
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  });
}

class Scatter {
 public:
  Scatter(const Plan& plan, void* const* operands)
      : head_(get_head<Head>(plan)),
        words_(plan, head_),
        target_(static_cast<char*>(operands[head_.sources])),
        before_(operands[0]),
        value_(static_cast<const char*>(operands[1])),
        apply_(apply_of(head_.op, static_cast<DType>(head_.dtype), head_.bytes)),
        far_(head_.target_count * head_.bytes >= machine::kFarBytes),
        inner_(words_.distances(head_.loops - 1)),
        rows_(words_.distances(std::max<int64_t>(head_.loops - 2, 0))) {
    if (value_ == nullptr) fill(picked_, head_.bytes, 0, kBlock, head_.value);
    bool uniform = inner_[kInTarget] == 1;
    for (size_t k = 0; k < count_of_streams(); ++k) {
      Stream& stream = streams_[k];
      stream.index = words_.index(k);
      stream.data = static_cast<const char*>(operands[stream.index.operand]);
      with_integer(static_cast<DType>(stream.index.dtype), [&](auto type) {
        stream.bytes = sizeof(type);
        stream.add = add_index<decltype(type)>;
      });
      uniform &= inner_[kInIndices + k] == 0;
    }
    in_runs_ = uniform && words_.size(head_.loops - 1) >= kShortestRun;
    if (head_.indices != 1 || (head_.tasks > 1 && head_.split < 0)) return;
    const DType index = static_cast<DType>(streams_[0].index.dtype);
    if (index == DType::kInt32) line_ = apply_.line32;
    if (index == DType::kInt64) line_ = apply_.line64;
  }
  void run(int64_t task);

 private:
  size_t count_of_streams() const { return static_cast<size_t>(head_.indices); }
  void copy(int64_t from, int64_t n) const;
  void walk(int64_t low, int64_t high);
  void locate(int64_t* to, const int64_t* at, const int64_t* distances, int64_t done,
              int64_t n) const;
  const char* values(int64_t at, int64_t n, int64_t picked);
  void add_row(int64_t position, int64_t value, int64_t n);
  void add_rows(const int64_t* at, int64_t rows, int64_t n);
  void add_line(const int64_t* at, int64_t n);
  void flush_line();
  void add_run(const int64_t* at, int64_t n);
  void flush();

  const Head head_;
  const Words words_;
  char* const target_;
  const void* const before_;
  const char* const value_;
  const Apply apply_;
  const bool far_;
  const int64_t* const inner_;  // distances of the innermost loop
  const int64_t* const rows_;   // and of the one around it, if there is one
  bool in_runs_;                // values of the innermost go to one place and those after it
  void (*line_)(const Line& line) = nullptr;  // or are told their places by one index
  Line waiting_{};
  Stream streams_[uop::Dims::kMost];
  uint64_t low_ = 0,
           size_ = 0;  // positions that are this task's, and maybe others that no value has
  const char* block_values_ = nullptr;
  int64_t count_ = 0, next_ = 0;  // values of the block, and what its next one would be
  uint64_t nowhere_ = 0;
  int64_t at_[kBlock];
  uint64_t picked_[kBlock];  // values that do not lie together
};

// The target's elements as they are before.
void Scatter::copy(int64_t from, int64_t n) const {
  if (before_ == nullptr) {
    fill(target_, head_.bytes, from, n, head_.fill);
  } else if (before_ != target_) {
    std::memcpy(target_ + from * head_.bytes,
                static_cast<const char*>(before_) + from * head_.bytes,
                static_cast<size_t>(n * head_.bytes));
  }
}

// The positions of n turns of a loop, the first of which is turn number `done`.
void Scatter::locate(int64_t* to, const int64_t* at, const int64_t* distances, int64_t done,
                     int64_t n) const {
  const int64_t first = at[kInTarget] + done * distances[kInTarget];
  for (int64_t i = 0; i < n; ++i) to[i] = first + i * distances[kInTarget];
  for (size_t k = 0; k < count_of_streams(); ++k) {
    const Stream& stream = streams_[k];
    const int64_t step = distances[kInIndices + k], from = at[kInIndices + k] + done * step;
    stream.add(to, stream.data + from * stream.bytes, n, step, stream.index);
  }
}

// The n values from `at` on, where they lie or picked up behind so many others.
const char* Scatter::values(int64_t at, int64_t n, int64_t picked) {
  char* const room = reinterpret_cast<char*>(picked_);
  if (value_ == nullptr) return room;
  const char* const from = value_ + at * head_.bytes;
  if (inner_[kInValue] == 1) return from;
  pick(room + picked * head_.bytes, from, head_.bytes, n, inner_[kInValue]);
  return room;
}

// n values that belong at a position and those after it.
void Scatter::add_row(int64_t position, int64_t value, int64_t n) {
  const int64_t low = static_cast<int64_t>(low_), high = low + static_cast<int64_t>(size_);
  const int64_t end = position < 0 ? low : std::min(position + n, high);
  const bool together = value_ != nullptr && inner_[kInValue] == 1;
  for (int64_t to = std::max(position, low); to < end;) {
    const int64_t count = together ? end - to : std::min(end - to, kBlock);
    const int64_t from = value + (to - position) * inner_[kInValue];
    apply_.run(target_ + to * head_.bytes, values(from, count, 0), count);
    to += count;
  }
}

void Scatter::add_rows(const int64_t* at, int64_t rows, int64_t n) {
  for (int64_t done = 0; done < rows; done += kBlock) {
    const int64_t count = std::min(rows - done, kBlock);
    locate(at_, at, rows_, done, count);
    for (int64_t i = 0; i < count; ++i) {
      add_row(at_[i], at[kInValue] + (done + i) * rows_[kInValue], n);
    }
  }
}

void Scatter::flush() {
  if (count_ == 0) return;
  apply_.block(Block{target_, block_values_, at_, count_, low_, size_, far_, &nowhere_});
  count_ = 0;
}

// Runs the line that waits, now that it is known what follows.
void Scatter::add_line(const int64_t* at, int64_t n) {
  const Stream& stream = streams_[0];
  const Index& index = stream.index;
  const bool constant = value_ == nullptr;
  const Line line{
      target_ + at[kInTarget] * head_.bytes,
      constant ? reinterpret_cast<const char*>(picked_) : value_ + at[kInValue] * head_.bytes,
      stream.data + at[kInIndices] * stream.bytes,
      nullptr,
      nullptr,
      n,
      inner_[kInTarget],
      constant ? 0 : inner_[kInValue],
      inner_[kInIndices],
      index.bound,
      index.stride,
      index.back,
      far_,
      &nowhere_};
  if (far_) {
    waiting_.next_target = line.target;
    waiting_.next_index = line.index;
  }
  flush_line();
  waiting_ = line;
}

void Scatter::flush_line() {
  if (waiting_.n > 0) line_(waiting_);
  waiting_.n = 0;
}

void Scatter::add_run(const int64_t* at, int64_t n) {
  if (line_ != nullptr && n >= kAhead) return add_line(at, n);
  const bool together = value_ != nullptr && inner_[kInValue] == 1;
  if (n > kPackedRun || (together && next_ != at[kInValue])) flush();
  for (int64_t done = 0; done < n;) {
    if (count_ == kBlock) flush();
    const int64_t m = std::min(n - done, kBlock - count_);
    locate(at_ + count_, at, inner_, done, m);
    const char* const from = values(at[kInValue] + done * inner_[kInValue], m, count_);
    if (count_ == 0) block_values_ = from;
    count_ += m;
    done += m;
  }
  next_ = at[kInValue] + n;
}

// Values whose coordinate along the split loop, if there is one, is in [low, high).
void Scatter::walk(int64_t low, int64_t high) {
  const int64_t innermost = head_.loops - 1;
  const int64_t around = std::max<int64_t>(innermost - in_runs_, 0);  // loops that are left here
  int64_t counters[uop::Dims::kMost] = {}, at[kMostDistances];
  at[kInTarget] = head_.base;
  at[kInValue] = head_.first;
  for (size_t k = 0; k < count_of_streams(); ++k) at[kInIndices + k] = streams_[k].index.first;
  const auto first = [&](int64_t i) { return i == head_.split ? low : 0; };
  const auto last = [&](int64_t i) {
    return i == head_.split ? std::min(high, words_.size(i)) : words_.size(i);
  };
  for (int64_t i = 0; i <= innermost; ++i) {
    if (first(i) >= last(i)) return;
    counters[i] = first(i);
    words_.advance(at, i, first(i));
  }
  const int64_t n = last(innermost) - first(innermost);
  const int64_t rows = innermost > 0 ? last(innermost - 1) - first(innermost - 1) : 1;
  for (;;) {
    in_runs_ ? add_rows(at, rows, n) : add_run(at, n);
    int64_t i = around;
    while (i-- > 0) {
      words_.advance(at, i, 1);
      if (++counters[i] < last(i)) break;
      words_.advance(at, i, first(i) - last(i));
      counters[i] = first(i);
    }
    if (i < 0) break;
  }
  flush();
  flush_line();
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
  walk(low, high);
}

}  // namespace

Status prepare_scatter(Plan* out, Node node, std::span<const int64_t> views) {
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
  Vec<int64_t> table(out->words.memory());
  ASTER_TRY(measure(&table, out, &head, node, Views(node, views)));
  const size_t split_axis = split(&head, node, run_of(table, head, value));
  ASTER_TRY(push_loops(out, &head, value, split_axis, table));
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
