// A sparse matrix inside the library: three arrays in counted memory.
#pragma once

#include <utility>

#include "aster_ml/sparse.h"
#include "base/context.h"
#include "base/pool.h"
#include "buffer/storage.h"
#include "sparse/elements.h"

namespace aster::sparse {

// Whether elements at an address may be read as what they are.
bool is_aligned(const void* at, DType dtype);

// Elements in a row, and the memory that they lie in, with a reference if it is known.
class Array {
 public:
  Array() = default;
  Array(const Array& other) : memory_(other.memory_), at_(other.at_), held_(other.held_) {
    retain();
  }
  Array(Array&& other) noexcept
      : memory_(other.memory_), at_(other.at_), held_(std::exchange(other.held_, nullptr)) {}
  Array& operator=(Array other) noexcept {
    memory_ = other.memory_;
    at_ = other.at_;
    std::swap(held_, other.held_);
    return *this;
  }
  ~Array() { buffer::storage_release(held_); }

  // Memory of its own, not initialised. Errors: RANGE, MEMORY.
  Status create(Context& context, DType dtype, int64_t count);
  // That of a descriptor: one axis, row-major, on the host. Errors: ARGUMENT, SHAPE, DTYPE, RANGE,
  // UNSUPPORTED.
  Status borrow(const char* name, const aster_ml_tensor* tensor, DType* dtype, int64_t* count);
  // Memory that its owner keeps for as long as this is used.
  static Array at_address(const aster_ml_buffer& memory, size_t byte_offset) {
    Array made;
    made.memory_ = memory;
    made.at_ = byte_offset;
    return made;
  }
  // The same elements from one on.
  Array from(int64_t begin) const;
  // A descriptor of the first count elements.
  Status describe(aster_ml_tensor* out, Context& context, int64_t count) const;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(static_cast<char*>(memory_.data) + at_);
  }

 private:
  void retain() const { buffer::storage_retain(held_); }
  aster_ml_buffer memory_{};
  size_t at_ = 0;  // in bytes
  buffer::Storage* held_ = nullptr;
};

enum class Format : int32_t {
  kCoo = ASTER_ML_SPARSE_COO,
  kCsr = ASTER_ML_SPARSE_CSR,
  kCsc = ASTER_ML_SPARSE_CSC
};

struct Matrix {
  Format format = Format::kCsr;
  DType dtype = DType::kNone;
  bool wide = false;  // indices are int64
  bool canonical = false;
  int64_t rows = 0, columns = 0;
  int64_t count = 0;
  Array first, second, values;

  // Of CSR and CSC: how many lines there are, and places in each.
  int64_t lines() const { return format == Format::kCsc ? columns : rows; }
  int64_t places() const { return format == Format::kCsc ? rows : columns; }
  DType index_dtype() const { return wide ? DType::kInt64 : DType::kInt32; }
};

// f(int32_t{}) or f(int64_t{}).
template <typename F>
auto with_index(bool wide, F&& f) {
  return wide ? f(int64_t{}) : f(int32_t{});
}

// Checks everything, and finds out whether it is canonical. Errors: FORMAT.
Status check(Matrix* m);

// ---- Functions of matrices; out is another one than the operands ----

Status compress(Matrix* out, Context& context, const Matrix& m, Format format);
Matrix transpose(const Matrix& m);
Status cast(Matrix* out, Context& context, const Matrix& m, DType dtype);
// Elements from one dtype to another, as tensors have it. Errors: UNSUPPORTED.
Status convert(void* to, DType dst, const void* from, DType src, int64_t count);
// With indices of int64.
Status widen(Matrix* out, Context& context, const Matrix& m);
Status slice(Matrix* out, Context& context, const Matrix& m, int64_t begin, int64_t end);
Status from_dense(Matrix* out, Context& context, const aster_ml_tensor& dense, Format format);
Status to_dense(aster_ml_tensor* out, Context& context, const Matrix& m);
Status product_dense(aster_ml_tensor* out, Context& context, const Matrix& m,
                     const aster_ml_tensor& dense);
Status product(Matrix* out, Context& context, const Matrix& a, const Matrix& b);
enum class Elementwise : uint8_t { kAdd, kSub, kMul };
Status elementwise(Matrix* out, Context& context, const Matrix& a, const Matrix& b, Elementwise op);
enum class Reduction : uint8_t { kSum, kMax, kMin };
enum class Axis : uint8_t { kRows, kColumns, kAll };  // what is reduced over
Status reduce(aster_ml_tensor* out, Context& context, const Matrix& m, Reduction op, Axis axis);

// ---- Shared ----

// That of two operands. Errors: DTYPE (they do not promote).
Status common_dtype(DType* out, DType a, DType b);
// That of a product of elements of d: of sticky integers that of sums, as tensors have it.
DType product_dtype(DType d);
// a and b in a format of lines, one dtype, or that of its products, and index dtype, canonical.
Status harmonise(Matrix* x, Matrix* y, Context& context, const Matrix& a, const Matrix& b,
                 Format format, bool product = false);
// The elements of a host's tensor of two axes or one, rows of unit stride, in a dtype: in place, or
// a copy.
Status dense_rows(Array* out, int64_t* stride, Context& context, const aster_ml_tensor& dense,
                  DType dtype);
// A row-major tensor.
Status dense_create(aster_ml_tensor* out, Context& context, DType dtype, size_t ndim,
                    const size_t* shape);

// How the context's wide floats are rounded.
inline flt::Rounding rounding_of(const Context& context) {
  return static_cast<flt::Rounding>(context.options().flt_rounding);
}

// body(task) for tasks [0, tasks) on the context's threads, if told that it is worth it.
template <typename Body>
void in_tasks(Context& context, int64_t tasks, const Body& body);

// Lines [begin(t), begin(t + 1)) with about as much work each.
template <typename Index>
class Parts {
 public:
  // `of_element` and `of_line`: nanoseconds.
  Parts(Context& context, const Index* offsets, int64_t lines, double of_element, double of_line);
  int64_t count() const { return count_; }
  int64_t begin(int64_t part) const;

 private:
  const Index* offsets_;
  int64_t lines_;
  double of_element_, of_line_, each_;
  int64_t count_;
};

namespace detail {
void run_tasks(int threads, int64_t tasks, void (*call)(void*, int64_t), void* body);
}

template <typename Body>
void in_tasks(Context& context, int64_t tasks, const Body& body) {
  const auto one = [&](int64_t task) {
    const flt::RoundingScope scope(rounding_of(context));
    body(task);
  };
  detail::run_tasks(
      pool::threads_of(context), tasks,
      [](void* self, int64_t task) { (*static_cast<const decltype(one)*>(self))(task); },
      const_cast<void*>(static_cast<const void*>(&one)));
}

template <typename Index>
Parts<Index>::Parts(Context& context, const Index* offsets, int64_t lines, double of_element,
                    double of_line)
    : offsets_(offsets), lines_(lines), of_element_(of_element), of_line_(of_line) {
  constexpr double kPartNs = 100'000;
  const double all =
      static_cast<double>(offsets[lines]) * of_element + static_cast<double>(lines) * of_line;
  const bool shared = pool::threads_of(context) > 1 && all > 2 * kPartNs;
  count_ = shared ? static_cast<int64_t>(all / kPartNs) : 1;
  if (count_ > lines) count_ = lines > 0 ? lines : 1;
  each_ = all / static_cast<double>(count_);
}

template <typename Index>
int64_t Parts<Index>::begin(int64_t part) const {
  if (part == 0) return 0;
  if (part >= count_) return lines_;
  const double wanted = each_ * static_cast<double>(part);
  int64_t low = 0, high = lines_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const double work = static_cast<double>(offsets_[middle]) * of_element_ +
                        static_cast<double>(middle) * of_line_;
    if (work < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace aster::sparse
