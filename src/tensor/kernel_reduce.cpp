// Kernels of reductions: any number of elements any strides apart, of one row or of many. Blocks of
// elements are reduced by programs of the code generator, what comes of them by another, and so on.
#include <algorithm>
#include <bit>
#include <cstring>

#include "buffer/strided.h"
#include "dtype/convert.h"
#include "engine/engine.h"
#include "tensor/kernel_produce.h"
#include "uop/composite.h"
#include "uop/expr.h"

namespace aster::tensor {
namespace {

using uop::Op;

constexpr size_t kBlock = kKernelBlock;
constexpr size_t kFew = 16;               // elements of a small block, and values that are kept
constexpr size_t kRoomBytes = 32 * 1024;  // of the rows that are reduced beside each other
constexpr size_t kMostRows = 64;
constexpr size_t kWide = 128;  // columns of a call (bench_kernel)
constexpr size_t kDeep = 8;    // elements of each that it takes

// What is reduced by which operation, and what stands for it in bool.
struct Row {
  const char* name;
  Op op, logical;
  bool wide;   // accumulates in 32 bits at least
  bool truth;  // of elements that are not 0
  bool mean;   // divided by the number of elements
  bool index;  // where the extremum is
  Node (*find)(Graph& g, Node x, int64_t axis, bool keepdim);
};
constexpr Row kRows[] = {
    {"sum", Op::kAdd, Op::kAdd, true, false, false, false, nullptr},
    {"mean", Op::kAdd, Op::kAdd, true, false, true, false, nullptr},
    {"prod", Op::kMul, Op::kAnd, false, false, false, false, nullptr},
    {"max", Op::kMax, Op::kOr, false, false, false, false, nullptr},
    {"min", Op::kMin, Op::kAnd, false, false, false, false, nullptr},
    {"any", Op::kOr, Op::kOr, false, true, false, false, nullptr},
    {"all", Op::kAnd, Op::kAnd, false, true, false, false, nullptr},
    {"argmax", Op::kMax, Op::kMax, false, false, false, true, argmax},
    {"argmin", Op::kMin, Op::kMin, false, false, false, true, argmin},
};

// How one of them goes on a dtype.
struct Plan {
  const Row* row;
  DType from;      // of the elements
  DType kept;      // of what stands for a block
  DType quotient;  // in which a mean is divided; else kept
  DType to;

  Op op() const { return kept == DType::kBool ? row->logical : row->op; }
};

Plan plan_of(const Row& row, DType dtype, DType real) {
  Plan plan{&row, dtype, dtype, dtype, dtype};
  if (row.wide) plan.kept = dtype::sum_acc(dtype);
  if (row.truth) plan.kept = DType::kBool;
  const bool narrow = dtype::is_narrow_float(dtype);
  plan.quotient = plan.kept;
  plan.to = row.wide && narrow ? dtype : plan.kept;
  if (row.mean && !dtype::is_float(plan.kept))
    plan.quotient = dtype::least_upper(real, DType::kFloat32);
  if (row.mean) plan.to = dtype::is_float(dtype) ? dtype : DType::kFloat32;
  if (row.index) plan.to = DType::kInt64;
  return plan;
}

// The element that changes no result.
uint64_t neutral(const Plan& plan, DType dtype) {
  const Word word =
      uop::neutral_word(dtype == DType::kBool ? plan.row->logical : plan.row->op, dtype);
  uint64_t element = 0;
  if (dtype::is_float(dtype)) {
    dtype::store_double(dtype, &element, std::bit_cast<double>(word));
  } else {
    dtype::store_int(dtype, &element, word);
  }
  return element;
}

// ---- The programs ----

Node build_block(const void* self, Graph& g, const Node* x) {
  const Plan& plan = *static_cast<const Plan*>(self);
  if (plan.row->index) return plan.row->find(g, x[0], 0, true);
  constexpr Word kAxis[] = {0};
  const Expr e{&g, x[0]};
  return reduce(plan.op(), e.dtype() == plan.kept ? e : e.cast(plan.kept), kAxis).n;
}
// Results that lie beside each other, element by element: what was there, and what comes to it.
template <size_t kCount>
Node build_step(const void* self, Graph& g, const Node* x) {
  const Plan& plan = *static_cast<const Plan*>(self);
  Node result = x[0];
  for (size_t i = 1; i <= kCount && result != nullptr; ++i) {
    const Node next = cast(g, x[i], plan.kept);
    result = next == nullptr ? nullptr : g.alu(plan.op(), result, next);
  }
  return result;
}
Node build_end(const void* self, Graph& g, const Node* x) {
  const Plan& plan = *static_cast<const Plan*>(self);
  Expr e{&g, x[0]};
  if (plan.row->mean) e = e.cast(plan.quotient) / Expr{&g, x[1]};
  return e.cast(plan.to).n;
}

enum Part : uint8_t { kWhole, kSmall, kJoin, kEnd, kSteps, kFold };

Status capture(Produced* kernel, Context& context, const Plan& plan, int32_t form) {
  const auto add = [&](Part part, DType dtype, size_t count) {
    const KernelInput input[] = {{dtype, count}};
    return capture_kernel(&kernel->runners[part], context, input, build_block, &plan);
  };
  ASTER_TRY(add(kWhole, plan.from, kBlock));
  ASTER_TRY(add(kSmall, plan.from, kFew));
  ASTER_TRY(add(kJoin, plan.kept, kFew));
  if (form == ASTER_ML_KERNEL_STRIDED && !plan.row->index) {
    KernelInput inputs[1 + kDeep] = {{plan.kept, kWide}, {plan.kept, kWide}};
    ASTER_TRY(capture_kernel(&kernel->runners[kFold], context, std::span(inputs, 2), build_step<1>,
                             &plan));
    for (size_t i = 1; i <= kDeep; ++i) inputs[i] = {plan.from, kWide};
    ASTER_TRY(capture_kernel(&kernel->runners[kSteps], context, inputs, build_step<kDeep>, &plan));
  }
  if (plan.row->index || (plan.to == plan.kept && !plan.row->mean)) return kOk;
  const KernelInput inputs[] = {{plan.kept, 1}, {plan.quotient, 1}};
  const size_t count = plan.row->mean ? 2 : 1;
  return capture_kernel(&kernel->runners[kEnd], context, {inputs, count}, build_end, &plan);
}

// ---- Running them ----

// Elements of rows: where they are, and how far apart.
struct Rows {
  const char* at;
  ptrdiff_t apart, step;  // from row to row, from element to element
};

class Reducing {
 public:
  Reducing(const Produced& kernel, bool index, bool mean)
      : k_(kernel),
        index_(index),
        mean_(mean),
        size_(kernel.runners[kWhole]->input_bytes(0)),
        kept_(kernel.runners[kJoin]->input_bytes(0)) {}

  size_t most_rows() const { return std::min(kMostRows, kRoomBytes / (kBlock * size_)); }

  // rows results, no more than most_rows, of count elements each.
  void run(char* dst, ptrdiff_t dst_stride, const Rows& from, size_t rows, size_t count) {
    rows_ = rows;
    held_ = 0;
    for (size_t done = 0; done < count;) {
      const size_t left = count - done;
      const size_t width = left > 4 * kFew ? kBlock : kFew;
      const size_t part = std::min(left, width);
      reduce(from, done, part, width);
      done += part;
      if (held_ == kFew) join();
    }
    if (held_ > 1) join();
    for (size_t row = 0; row < rows; ++row, dst += dst_stride)
      finish(dst, value(row, 0), row, count);
  }

  // Rows beside each other, no more than kBlock: elements of all of them, kDeep after kDeep.
  void run_columns(char* dst, ptrdiff_t dst_stride, const Rows& from, size_t rows, size_t count) {
    // Each is a sum of sums, as those of blocks are.
    alignas(64) char totals[2][kBlock * kMostElementBytes], parts[2][kBlock * kMostElementBytes];
    const size_t wide = (rows + kWide - 1) / kWide * kWide;
    size_t total = 0, part = 0;
    fill(totals[0], 0, wide, kept_, k_.words[1]);
    for (size_t done = 0; done < count;) {
      const size_t end = std::min(count, done + kBlock);
      fill(parts[part], 0, wide, kept_, k_.words[1]);
      for (; done < end; done += std::min(kDeep, end - done), part ^= 1) {
        for (size_t column = 0; column < wide; column += kWide) {
          const void* inputs[1 + kDeep] = {parts[part] + column * kept_};
          find_columns(inputs + 1, from, column, rows, done, end);
          void* result = parts[part ^ 1] + column * kept_;
          k_.runners[kSteps]->run(&result, inputs);
        }
      }
      for (size_t at = 0; at < wide * kept_; at += kWide * kept_) {
        const void* const inputs[] = {totals[total] + at, parts[part] + at};
        void* result = totals[total ^ 1] + at;
        k_.runners[kFold]->run(&result, inputs);
      }
      total ^= 1;
    }
    const auto size = static_cast<ptrdiff_t>(kept_);
    if (k_.runners[kEnd] == nullptr)
      return buffer::copy_row(dst, dst_stride, totals[total], size, rows, kept_);
    for (size_t row = 0; row < rows; ++row, dst += dst_stride)
      finish(dst, totals[total] + row * kept_, row, count);
  }

 private:
  // Elements of kWide rows from `column` on, kDeep of each from `done` on, where they are or where
  // they are copied to; what is not there changes nothing.
  void find_columns(const void** out, const Rows& from, size_t column, size_t rows, size_t done,
                    size_t end) {
    const size_t width = std::min(kWide, rows - column);
    const char* at = from.at + static_cast<ptrdiff_t>(column) * from.apart +
                     static_cast<ptrdiff_t>(done) * from.step;
    for (size_t i = 0; i < kDeep; ++i, at += from.step) {
      char* own = room_ + i * kWide * size_;
      const bool there = done + i < end;
      if (there && width == kWide && lies_well(at, from.apart, size_)) {
        out[i] = at;
        continue;
      }
      if (there) buffer::copy_row(own, static_cast<ptrdiff_t>(size_), at, from.apart, width, size_);
      fill(own, there ? width : 0, kWide, size_, k_.words[0]);
      out[i] = own;
    }
  }

  // Not a power of two: the rows of a block would share few places of the cache.
  size_t row_bytes(size_t width) const { return width * size_ + 64; }
  char* value(size_t row, size_t i) { return values_ + (row * kFew + i) * kept_; }

  // What stands for `part` elements of every row from `done` on, in a block of width.
  void reduce(const Rows& from, size_t done, size_t part, size_t width) {
    const char* first = from.at + static_cast<ptrdiff_t>(done) * from.step;
    const bool beside = rows_ > 1 && std::abs(from.step) > std::abs(from.apart);
    if (beside) {
      for (size_t i = 0; i < part; ++i) {
        buffer::copy_row(room_ + i * size_, static_cast<ptrdiff_t>(row_bytes(width)),
                         first + static_cast<ptrdiff_t>(i) * from.step, from.apart, rows_, size_);
      }
    }
    for (size_t row = 0; row < rows_; ++row) {
      const char* at = first + static_cast<ptrdiff_t>(row) * from.apart;
      char* own = room_ + (beside ? row : 0) * row_bytes(width);
      const bool there = !beside && part == width && lies_well(at, from.step, size_);
      if (!there && !beside)
        buffer::copy_row(own, static_cast<ptrdiff_t>(size_), at, from.step, part, size_);
      if (!there) fill(own, part, width, size_, k_.words[0]);
      const size_t found = call(width == kBlock ? kWhole : kSmall, there ? at : own, row);
      if (!index_) continue;
      std::memcpy(value(row, held_), at + static_cast<ptrdiff_t>(found) * from.step, size_);
      places_[row][held_] = done + found;
    }
    ++held_;
  }

  // A block of a row; where the extremum is, if that is asked for.
  size_t call(Part part, const char* elements, size_t row) {
    const void* const from = elements;
    int32_t found = 0;
    void* const to = index_ ? static_cast<void*>(&found) : value(row, held_);
    k_.runners[part]->run(&to, &from);
    return static_cast<size_t>(found);
  }

  // The first of the values of each row stands for all of them.
  void join() {
    const size_t held = held_;
    held_ = 0;
    for (size_t row = 0; row < rows_; ++row) {
      alignas(64) char all[kFew * kMostElementBytes];
      std::memcpy(all, value(row, 0), held * kept_);
      fill(all, held, kFew, kept_, k_.words[1]);
      const size_t found = call(kJoin, all, row);
      if (!index_) continue;
      std::memcpy(value(row, 0), all + found * kept_, kept_);
      places_[row][0] = places_[row][found];
    }
    held_ = 1;
  }

  static void fill(char* elements, size_t from, size_t to, size_t size, uint64_t element) {
    if (from == to) return;
    buffer::copy_row(elements + from * size, static_cast<ptrdiff_t>(size),
                     reinterpret_cast<const char*>(&element), 0, to - from, size);
  }

  void finish(char* dst, char* result, size_t row, size_t count) {
    if (index_) {
      const int64_t place = count == 0 ? -1 : static_cast<int64_t>(places_[row][0]);
      std::memcpy(dst, &place, sizeof(place));
      return;
    }
    if (count == 0) std::memcpy(result, &k_.words[1], kept_);
    const Runner* end = k_.runners[kEnd];
    if (end == nullptr) {
      std::memcpy(dst, result, kept_);
      return;
    }
    alignas(8) char number[8], last[8], whole[8];
    std::memcpy(whole, result, kept_);
    const void* const from[] = {whole, number};
    void* const to = last;
    if (mean_) dtype::store_double(end->input_dtype(1), number, static_cast<double>(count));
    k_.runners[kEnd]->run(&to, from);
    std::memcpy(dst, last, end->result_bytes(0));
  }

  const Produced& k_;
  const bool index_, mean_;
  const size_t size_, kept_;
  size_t rows_ = 0, held_ = 0;
  alignas(64) char room_[kRoomBytes + kMostRows * 64];
  alignas(64) char values_[kMostRows * kFew * kMostElementBytes];
  size_t places_[kMostRows][kFew];
};

template <bool kIndex, bool kMean>
void reduce_rows(char* dst, ptrdiff_t dst_stride, const char* src, ptrdiff_t src_stride,
                 size_t rows, ptrdiff_t step, size_t count, Prefix* extra) {
  Reducing reducing(*reinterpret_cast<const Produced*>(extra), kIndex, kMean);
  constexpr size_t kFewRows = 32;
  const bool columns =
      !kIndex && rows >= kFewRows && count > 1 && std::abs(src_stride) < std::abs(step);
  while (rows > 0) {
    const Rows from{src, src_stride, step};
    const size_t part = std::min(rows, columns ? kBlock : reducing.most_rows());
    if (columns) {
      reducing.run_columns(dst, dst_stride, from, part, count);
    } else {
      reducing.run(dst, dst_stride, from, part, count);
    }
    dst += static_cast<ptrdiff_t>(part) * dst_stride;
    src += static_cast<ptrdiff_t>(part) * src_stride;
    rows -= part;
  }
}
template <bool kIndex, bool kMean>
void reduce_one(char* dst, const char* src, ptrdiff_t step, size_t count, Prefix* extra) {
  Reducing(*reinterpret_cast<const Produced*>(extra), kIndex, kMean)
      .run(dst, 0, {src, 0, step}, 1, count);
}

template <bool kIndex, bool kMean>
void* function_of(int32_t form) {
  if (form == ASTER_ML_KERNEL_SINGLE)
    return code_of<aster_ml_reduce_single>(reduce_one<kIndex, kMean>);
  return code_of<aster_ml_reduce_strided>(reduce_rows<kIndex, kMean>);
}

Status get_reduction(aster_ml_dynamic_kernel_instance* out, const aster_ml_context* context,
                     int32_t form, const char* operation, int32_t dtype) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  const ContextLock lock(context_of(context));
  ASTER_TRY(lock.status());
  Context& owner = *context_of(context);
  DType d;
  const Row* row;
  ASTER_TRY(find_operation<Row>(&row, &d, kRows, "reduction", operation, dtype));
  // What comes of blocks is combined as numbers are.
  if (dtype::is_sticky(d))
    return ASTER_FAIL(kDTYPE, "a kernel that reduces %s", aster::dtype::name(d));
  if (form != ASTER_ML_KERNEL_SINGLE && form != ASTER_ML_KERNEL_STRIDED)
    return ASTER_FAIL(kARGUMENT, "%d is no form of a reduction", form);
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, owner));
  const Plan plan = plan_of(*row, d, engine::graph_of(*engine).defaults.real);
  Produced kernel{};
  kernel.base.function = row->index  ? function_of<true, false>(form)
                         : row->mean ? function_of<false, true>(form)
                                     : function_of<false, false>(form);
  kernel.words[0] = neutral(plan, plan.from);
  kernel.words[1] = neutral(plan, plan.kept);
  const Status status = capture(&kernel, owner, plan, form);
  if (!status.ok()) {
    release_all(kernel);
    return status;
  }
  return produce(out, owner, kernel);
}

}  // namespace
}  // namespace aster::tensor

int32_t aster_ml_kernel_get_reduction(aster_ml_dynamic_kernel_instance* out,
                                      const aster_ml_context* context, int32_t form,
                                      const char* operation, int32_t dtype) {
  ASTER_API();
  if (out != nullptr) *out = {};
  return -aster::tensor::get_reduction(out, context, form, operation, dtype).code;
}
