// Matrix products of sticky integers: tasks are blocks of rows and columns of the result. Planes of
// a block's columns stay in scratch memory while blocks of the same columns follow; those of its
// rows are cut a few at a time, so that they stay in a cache.
#include <algorithm>

#include "base/pool.h"
#include "runtime/cpu/machine.h"
#include "runtime/cpu/native_sticky.h"
#include "runtime/cpu/native_types.h"
#include "runtime/cpu/sticky_product.h"
#include "uop/wide.h"

namespace aster::runtime::cpu::native {
namespace {

using namespace sticky;  // NOLINT: planes and their loops

// Columns of a task, the bytes that planes of them may take, and the bytes of planes of rows that
// are multiplied with all of them at once: a part of a second-level cache.
constexpr int64_t kTaskColumns = 2048, kColumnBytes = 8 << 20, kRowBytes = 512 << 10;
constexpr int64_t kTaskRows = 2048, kRowsAtOnce = 256;
constexpr double kTaskNs = 100'000;
// Nanoseconds on one core, by the bits of elements: to cut one to a plane, to make one of what a
// plane gives, of a product of two bytes with vectors of 64, 32 and 16 bytes, and of a product of
// elements in generated loops (bench_sticky).
struct Times {
  double cut, finish, generated;
};
constexpr Times kTimes[] = {
    {0.1, 0.05, 0.02}, {0.1, 0.05, 0.04}, {0.35, 0.35, 0.2}, {0.35, 0.35, 0.65}};
constexpr double kByteNs[] = {0.0045, 0.016, 0.06};
constexpr double kCallNs = 500;

constexpr int64_t rounded_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// Numbers of a plan.
struct Head {
  int64_t stored, vector_bytes, element_bytes;  // what elements are, and those of planes
  int64_t m, n, k, left, right;                 // left, right: planes
  int64_t a_first, b_first, a_row, a_column, b_row, b_column;  // in elements
  int64_t rows, columns, down, across;                         // of a task, and tasks
  int64_t rows_at_once;
  Planes planes;

  DType dtype() const { return static_cast<DType>(stored); }
  int64_t lines() const { return (k + kDeep - 1) / kDeep; }
  int64_t panels() const { return rounded_up(columns, kLanes) / kLanes; }
  // Bytes from one row to the next: no power of two, which would be one place of a cache.
  int64_t row_bytes() const { return (rounded_up(k, kLine) * element_bytes / 64 | 1) * 64; }
  int64_t row_plane() const { return rows_at_once * row_bytes(); }
  int64_t panel_bytes() const { return lines() * kLine * element_bytes; }
  int64_t column_plane() const { return panels() * panel_bytes(); }
  int64_t least_bytes() const { return kLine * static_cast<int64_t>(dtype::size(dtype())); }
};

// Scratch memory of a running part.
struct Layout {
  int64_t right = 0, left, columns, leasts, sums, bytes;
  explicit Layout(const Head& h) {
    left = h.planes.right * h.column_plane();
    columns = left + rounded_up(h.planes.left * h.row_plane(), 64);
    leasts = columns + h.panels() * kLanes * static_cast<int64_t>(sizeof(Column));
    sums = leasts + h.panels() * h.least_bytes();
    bytes = sums + h.panels() * kLanes * static_cast<int64_t>(sizeof(uint32_t));
  }
};

// Tasks: as many columns as stay in a cache as planes, which each task cuts again; so no more tasks
// than threads if rows are not many.
void divide(Head* head, int64_t batch, double ns) {
  const int64_t of_column = head->planes.right * rounded_up(head->k, kDeep) * head->element_bytes;
  const int64_t fitting = std::clamp(kColumnBytes / of_column, kLanes, kTaskColumns);
  head->across = (head->n + fitting - 1) / fitting;
  head->columns = rounded_up((head->n + head->across - 1) / head->across, kLanes);
  head->across = (head->n + head->columns - 1) / head->columns;
  const int64_t others = batch * head->across;
  const double most = std::max(1.0, ns / kTaskNs / static_cast<double>(others));
  const int64_t wanted = (pool::hardware_threads() + others - 1) / others;
  const int64_t parts = std::min(wanted, static_cast<int64_t>(most));
  head->rows = std::min(kTaskRows, rounded_up((head->m + parts - 1) / parts, kRows));
  head->down = (head->m + head->rows - 1) / head->rows;
  const int64_t fit = kRowBytes / (head->planes.left * head->row_bytes()) / kAmxRows * kAmxRows;
  head->rows_at_once = std::min(std::clamp(fit, kAmxRows, kRowsAtOnce), head->rows);
}

// ---- A part that runs ----

class Multiplier {
 public:
  Multiplier(const Plan& plan, void* const* operands, void* scratch)
      : head_(get_head<Head>(plan)),
        offsets_(plan.words.data() + sizeof(Head) / sizeof(int64_t)),
        planes_(head_.planes),
        code_(code_for(head_.dtype(), static_cast<int32_t>(head_.vector_bytes))),
        size_(static_cast<int64_t>(dtype::size(head_.dtype()))),
        out_size_(static_cast<int64_t>(dtype::size(summed_in(head_.dtype())))),
        operands_(operands) {
    const Layout at(head_);
    char* const base = static_cast<char*>(scratch);
    right_ = base + at.right;
    left_ = base + at.left;
    columns_ = reinterpret_cast<Column*>(base + at.columns);
    leasts_ = base + at.leasts;
    sums_ = reinterpret_cast<uint32_t*>(base + at.sums);
  }

  void run(int64_t task) {
    const int64_t block = task / head_.down, batch = block / head_.across;
    first_column_ = block % head_.across * head_.columns;
    column_count_ = std::min(head_.columns, head_.n - first_column_);
    batch_ = batch;
    if (block != held_) cut_columns();
    held_ = block;
    const int64_t first = task % head_.down * head_.rows;
    const int64_t last = std::min(head_.m, first + head_.rows);
    for (int64_t row = first; row < last; row += head_.rows_at_once) {
      const int64_t count = std::min(head_.rows_at_once, last - row);
      for (int64_t r = 0; r < rounded_up(count, kRows); ++r) cut_row(r, row + r, r < count);
      multiply(row, count);
    }
  }

 private:
  const char* a(int64_t row, int64_t k) const {
    return static_cast<const char*>(operands_[0]) +
           (head_.a_first + offsets_[2 * batch_] + row * head_.a_row + k * head_.a_column) * size_;
  }
  const char* b(int64_t k, int64_t column) const {
    return static_cast<const char*>(operands_[1]) +
           (head_.b_first + offsets_[2 * batch_ + 1] + k * head_.b_row + column * head_.b_column) *
               size_;
  }

  void cut_line(int64_t line, int64_t panel) {
    const int64_t k = line * kDeep, column = panel * kLanes;
    code_.cut_line(right_ + panel * head_.panel_bytes() + line * kLine * head_.element_bytes,
                   head_.column_plane(), b(k, first_column_ + column), head_.b_row, head_.b_column,
                   std::min(kDeep, head_.k - k), std::min(kLanes, column_count_ - column), planes_,
                   leasts_ + panel * head_.least_bytes(), sums_ + panel * kLanes);
  }
  void cut_columns() {
    const int64_t panels = rounded_up(column_count_, kLanes) / kLanes, lines = head_.lines();
    // No element is above what these bytes are.
    std::memset(leasts_, 0, static_cast<size_t>(panels * head_.least_bytes()));
    std::memset(sums_, 0, static_cast<size_t>(panels * kLanes) * sizeof(uint32_t));
    // Along the axis in which the operand's elements lie beside each other.
    const bool turned = head_.b_row == 1 && head_.b_column != 1;
    for (int64_t i = 0; i < lines * panels; ++i) {
      cut_line(turned ? i % lines : i / panels, turned ? i / lines : i % panels);
    }
    for (int64_t panel = 0; panel < panels; ++panel) {
      code_.end_columns(columns_ + panel * kLanes, leasts_ + panel * head_.least_bytes(),
                        sums_ + panel * kLanes);
    }
  }

  // Row r of those that are held; rows that there are not are 0.
  void cut_row(int64_t r, int64_t row, bool there) {
    rows_[r] = {};
    for (int64_t k = 0; k < head_.k; k += kLine) {
      alignas(64) char line[kLine * sizeof(int64_t)];
      const int64_t count = there ? std::min(kLine, head_.k - k) : 0;
      const void* from = line;
      if (there && count == kLine && head_.a_column == 1) {
        from = a(row, k);
      } else {
        std::memset(line, 0, static_cast<size_t>(kLine * size_));
        copy(line, there ? a(row, k) : nullptr, count);
      }
      code_.cut_row(left_ + r * head_.row_bytes() + k * head_.element_bytes, head_.row_plane(),
                    from, count, planes_, &rows_[r]);
    }
  }
  void copy(char* to, const char* from, int64_t count) const {
    const auto step = [&]<typename T>(T) {
      const T* const x = reinterpret_cast<const T*>(from);
      T* const y = reinterpret_cast<T*>(to);
      for (int64_t i = 0; i < count; ++i) y[i] = x[i * head_.a_column];
    };
    if (size_ == 1) return step(int8_t{});
    if (size_ == 2) return step(int16_t{});
    size_ == 4 ? step(int32_t{}) : step(int64_t{});
  }

  // What a tile is written to, while that is computed.
  void fetch(const char* to, int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t byte = 0; byte < kLanes * out_size_; byte += 64)
        __builtin_prefetch(to + r * head_.n * out_size_ + byte, 1);
    }
  }

  // The rows that are held by all columns that are.
  void multiply(int64_t first, int64_t count) {
    alignas(64) int32_t sums[kMostPlanes * kAmxRows * kLanes];
    const auto step = static_cast<size_t>(head_.row_bytes() / 4);
    const auto groups = static_cast<size_t>(head_.lines() * kDeep * head_.element_bytes / 4);
    const int64_t at_once = code_.rows_at_once(), of_plane = at_once * kLanes;
    char* const out =
        static_cast<char*>(operands_[2]) + (batch_ * head_.m + first) * head_.n * out_size_;
    for (int64_t panel = 0; panel * kLanes < column_count_; ++panel) {
      const char* const right = right_ + panel * head_.panel_bytes();
      const int64_t column = panel * kLanes;
      for (int64_t r = 0; r < count; r += at_once) {
        const char* const left = left_ + r * head_.row_bytes();
        const int64_t rows = std::min(at_once, count - r), tiled = rounded_up(rows, kRows);
        char* const to = out + (r * head_.n + first_column_ + column) * out_size_;
        fetch(to, rows);
        std::fill_n(sums, planes_.count * of_plane, 0);
        for (int64_t p = 0; p < planes_.count; ++p) {
          const bool digits = planes_.left != planes_.count;
          const int64_t l = digits ? p / planes_.right : p, q = digits ? p % planes_.right : p;
          const auto* const x = reinterpret_cast<const int32_t*>(left + l * head_.row_plane());
          const auto* const y = reinterpret_cast<const int32_t*>(right + q * head_.column_plane());
          if (code_.amx != nullptr) {
            code_.amx(sums + p * of_plane, x, step, y, groups, static_cast<size_t>(tiled));
          } else {
            code_.tile(sums + p * of_plane, x, step, y, groups);
          }
        }
        code_.finish(to, head_.n, rows, std::min(kLanes, column_count_ - column), sums, of_plane,
                     planes_, rows_ + r, columns_ + column);
      }
    }
  }

  const Head head_;
  const int64_t* const offsets_;  // of a and b, a matrix of the batch
  const Planes& planes_;
  const Code code_;
  const int64_t size_, out_size_;
  void* const* const operands_;
  char *right_, *left_, *leasts_;
  Column* columns_;
  uint32_t* sums_;
  Row rows_[kRowsAtOnce];
  int64_t held_ = -1, batch_ = 0, first_column_ = 0, column_count_ = 0;
};

const Times& times_of(DType d) { return kTimes[std::bit_width(dtype::bits(d)) - 4]; }

// Nanoseconds of one product.
double time_of(DType d, int64_t m, int64_t k, int64_t n, const Planes& planes, double byte_ns) {
  const Times& times = times_of(d);
  const auto rows = static_cast<double>(rounded_up(m, kRows)),
             columns = static_cast<double>(rounded_up(n, kLanes)),
             terms = static_cast<double>(rounded_up(k, kDeep));
  const double cut = static_cast<double>(planes.left * rounded_up(k, kLine)) * rows +
                     static_cast<double>(planes.right) * terms * columns;
  const double tiles = static_cast<double>(planes.count) * rows * columns;
  return kCallNs + cut * times.cut + tiles * (times.finish + terms * byte_ns);
}

// Where each matrix of the batch begins.
Status put_batch(Plan* out, uop::Words axes, std::span<const int64_t> sa,
                 std::span<const int64_t> sb) {
  int64_t batch = 1;
  for (const int64_t size : axes) batch *= size;
  for (int64_t i = 0; i < batch; ++i) {
    int64_t rest = i, offset_a = 0, offset_b = 0;
    for (size_t axis = axes.size(); axis-- > 0; rest /= axes[axis]) {
      const int64_t at = rest % axes[axis];
      offset_a += at * sa[axis];
      offset_b += at * sb[axis];
    }
    ASTER_TRY(out->words.push(offset_a));
    ASTER_TRY(out->words.push(offset_b));
  }
  return kOk;
}

}  // namespace

bool worth_bytes(Node a, Node b) {
  const int64_t k = a->dim(a->ndim - 1u), n = b->dim(b->ndim - 1u), m = a->dim(a->ndim - 2u);
  if (k == 0 || k > kMostTerms || m == 0 || n == 0) return false;
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return time_of(a->dtype, m, k, n, planes_for(dtype::stored_as(a->dtype), k), kByteNs[0]) <
         products * times_of(a->dtype).generated;
}

bool accepts_sticky_matmul(Node node) { return uop::wide_kind(node) == uop::WideKind::kBytes; }

Status prepare_sticky_matmul(Plan* out, Node node, std::span<const int64_t> views,
                             int vector_bytes) {
  const Node a = node->src(0), b = node->src(1);
  const size_t rank = a->ndim, batch_axes = rank - 2;
  Head head = {};
  const DType stored = dtype::stored_as(a->dtype);
  head.stored = static_cast<int64_t>(stored);
  head.m = a->dim(rank - 2);
  head.k = a->dim(rank - 1);
  head.n = b->dim(rank - 1);
  Vec<int64_t> plain(out->words.memory());
  if (views.empty()) {
    for (const Node x : {a, b}) {
      const size_t first = plain.size();
      ASTER_TRY(plain.resize(first + rank + 2, 0));
      int64_t stride = 1;
      for (size_t i = rank; i-- > 0; stride *= x->dim(i)) plain[first + 1 + i] = stride;
    }
    views = {plain.data(), plain.size()};
  }
  const auto sa = views.subspan(1, rank), sb = views.subspan(rank + 3, rank);
  head.a_first = views[0];
  head.b_first = views[rank + 2];
  head.a_row = sa[rank - 2];
  head.a_column = sa[rank - 1];
  head.b_row = sb[rank - 2];
  head.b_column = sb[rank - 1];
  head.vector_bytes = vector_bytes;
  head.element_bytes = code_for(stored, vector_bytes).bytes;
  head.planes = planes_for(stored, head.k);
  const int64_t batch = node->count() / (head.m * head.n);
  const double byte_ns = kByteNs[head.element_bytes == 1 ? 0 : vector_bytes >= 32 ? 1 : 2];
  out->nanoseconds =
      static_cast<double>(batch) * time_of(stored, head.m, head.k, head.n, head.planes, byte_ns);
  divide(&head, batch, out->nanoseconds);
  ASTER_TRY(put_head(out, head));
  ASTER_TRY(put_batch(out, a->shape().first(batch_axes), sa, sb));
  out->tasks = batch * head.across * head.down;
  out->scratch_bytes = Layout(head).bytes;
  out->dtype = stored;
  return kOk;
}

Status prepare_sticky_matmul(Plan* out, Node node, std::span<const int64_t> views) {
  const int bytes = detect_features().vector_bytes;
  return prepare_sticky_matmul(out, node, views, bytes < 64 ? bytes : kTileBytes);
}

How how_sticky_matmul(const Plan& plan) {
  const Head head = get_head<Head>(plan);
  const Planes& planes = head.planes;
  return {planes.left != planes.count ? "digits" : planes.count > 1 ? "residues" : "bytes", true};
}

void run_sticky_matmul(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                       int64_t end) {
  Multiplier part(plan, operands, scratch);
  for (int64_t task = begin; task < end; ++task) part.run(task);
}

}  // namespace aster::runtime::cpu::native
