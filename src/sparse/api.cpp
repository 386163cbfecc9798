// The public functions on sparse matrices.
#include <algorithm>
#include <cstring>

#include "base/options.h"
#include "buffer/strided.h"
#include "device/device.h"
#include "sparse/matrix.h"

namespace aster::sparse {
namespace {

using Long = long long;

struct Object : HandleObject {
  Matrix matrix;
};

void destroy(HandleObject* object) {
  Object* const o = static_cast<Object*>(object);
  o->context->heap().destroy(o);
}

const Matrix& matrix_of(const aster_ml_sparse* x) { return object_of<Object>(x->impl)->matrix; }

// Operands of a call, in their context, entered.
class Operands {
 public:
  Operands(const aster_ml_sparse* a, const aster_ml_sparse* b)
      : context_(context_of_matrix(a)),
        lock_(context_),
        scope_(context_ == nullptr ? flt::Rounding::kNearest : rounding_of(*context_)) {
    status_ = context_ == nullptr ? ASTER_FAIL(kARGUMENT, "an empty sparse matrix, or one freed")
                                  : lock_.status();
    if (!status_.ok() || b == a) return;
    Context* const other = context_of_matrix(b);
    if (other == nullptr) {
      status_ = ASTER_FAIL(kARGUMENT, "an empty sparse matrix, or one freed");
    } else if (other != context_) {
      status_ = ASTER_FAIL(kARGUMENT, "sparse matrices of two contexts");
    }
  }
  Status status() const { return status_; }
  Context& context() const { return *context_; }

 private:
  static Context* context_of_matrix(const aster_ml_sparse* x) {
    const Object* const o = x == nullptr ? nullptr : object_of<Object>(x->impl);
    return o == nullptr ? nullptr : o->context;
  }
  Context* context_;
  ContextLock lock_;
  flt::RoundingScope scope_;
  Status status_;
};

Status check_out(const void* out, const void* a, const void* b = nullptr) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  if (out == a || out == b) return ASTER_FAIL(kARGUMENT, "out is an operand");
  return kOk;
}

Status give(aster_ml_sparse* out, Context& context, Matrix&& matrix) {
  Object* const made = context.heap().create<Object>();
  if (made == nullptr) return out_of_memory(sizeof(Object));
  made->matrix = std::move(matrix);
  const Status status = handle_init(made, context, destroy);
  if (!status.ok()) {
    context.heap().destroy(made);
    return status;
  }
  scope_remove(made);
  out->impl = made->handle;
  return kOk;
}

// A function that makes a matrix of one or two.
template <typename F>
Status make(aster_ml_sparse* out, const aster_ml_sparse* a, const aster_ml_sparse* b, const F& f) {
  ASTER_TRY(check_out(out, a, b));
  out->impl = nullptr;
  const Operands operands(a, b);
  ASTER_TRY(operands.status());
  Matrix made;
  ASTER_TRY(f(&made, operands.context(), matrix_of(a), matrix_of(b)));
  return give(out, operands.context(), std::move(made));
}
template <typename F>
Status make(aster_ml_sparse* out, const aster_ml_sparse* x, const F& f) {
  return make(out, x, x, [&](Matrix* made, Context& context, const Matrix& m, const Matrix&) {
    return f(made, context, m);
  });
}

// One that makes a matrix of none.
template <typename F>
Status make_new(aster_ml_sparse* out, const aster_ml_context* context, const F& f) {
  ASTER_TRY(check_out(out, nullptr));
  out->impl = nullptr;
  Context* const within = context_of(context);
  const ContextLock lock(within);
  ASTER_TRY(lock.status());
  Matrix made;
  ASTER_TRY(f(&made, *within));
  return give(out, *within, std::move(made));
}

// One that makes a tensor.
template <typename F>
Status make_tensor(aster_ml_tensor* out, const aster_ml_sparse* x, const F& f) {
  ASTER_TRY(check_out(out, nullptr));
  *out = aster_ml_tensor{};
  const Operands operands(x, x);
  ASTER_TRY(operands.status());
  return f(operands.context(), matrix_of(x));
}

Status check_format(int32_t format) {
  if (format >= ASTER_ML_SPARSE_COO && format <= ASTER_ML_SPARSE_CSC) return kOk;
  return ASTER_FAIL(kARGUMENT, "%d is no format of sparse matrices", format);
}

Status init(Matrix* out, int32_t format, int64_t rows, int64_t columns,
            const aster_ml_tensor* first, const aster_ml_tensor* second,
            const aster_ml_tensor* values) {
  ASTER_TRY(check_format(format));
  if (std::min(rows, columns) < 0 || std::max(rows, columns) == INT64_MAX) {
    return ASTER_FAIL(kRANGE, "%lld rows and %lld columns", static_cast<Long>(rows),
                      static_cast<Long>(columns));
  }
  Matrix& m = *out;
  m.format = static_cast<Format>(format);
  m.rows = rows;
  m.columns = columns;
  DType of_first, of_second;
  int64_t counts[3];
  ASTER_TRY(m.first.borrow("first", first, &of_first, &counts[0]));
  ASTER_TRY(m.second.borrow("second", second, &of_second, &counts[1]));
  ASTER_TRY(m.values.borrow("values", values, &m.dtype, &counts[2]));
  if (of_first != of_second || (of_first != DType::kInt32 && of_first != DType::kInt64)) {
    return ASTER_FAIL(kDTYPE, "indices of %s and %s; int32 or int64, both alike, are wanted",
                      dtype::name(of_first), dtype::name(of_second));
  }
  m.wide = of_first == DType::kInt64;
  m.count = counts[1];
  const int64_t wanted = m.format == Format::kCoo ? m.count : m.lines() + 1;
  if (counts[0] != wanted || counts[1] != counts[2]) {
    return ASTER_FAIL(
        kFORMAT, "first, second, values of %lld, %lld, %lld elements, of [%lld, %lld]",
        static_cast<Long>(counts[0]), static_cast<Long>(counts[1]), static_cast<Long>(counts[2]),
        static_cast<Long>(rows), static_cast<Long>(columns));
  }
  return check(&m);
}

// A descriptor of a caller's with one axis or two, on the host.
Status check_dense(const aster_ml_tensor* dense) {
  if (dense == nullptr) return ASTER_FAIL(kARGUMENT, "dense is null");
  DType dtype;
  ASTER_TRY(dtype::from_any_storage_code(&dtype, dense->dtype));
  ASTER_TRY(buffer::check_tensor(dense));
  if (device::is_host(dense->storage.device)) return kOk;
  return ASTER_FAIL(kUNSUPPORTED, "dense is in the memory of a device");
}

Status view(aster_ml_tensor* const* out, Context& context, const Matrix& m) {
  const Array* const arrays[] = {&m.first, &m.second, &m.values};
  const int64_t counts[] = {m.format == Format::kCoo ? m.count : m.lines() + 1, m.count, m.count};
  aster_ml_tensor made[3] = {};
  for (int i = 0; i < 3; ++i) {
    const Status status = arrays[i]->describe(&made[i], context, counts[i]);
    if (status.ok()) continue;
    const SavedError error;
    for (int k = 0; k < i; ++k) aster_ml_tensor_free(&made[k]);
    error.restore();
    return status;
  }
  for (int i = 0; i < 3; ++i) *out[i] = made[i];
  return kOk;
}

Status axis_of(Axis* out, size_t count, const int64_t* axes) {
  bool over[2] = {axes == nullptr, axes == nullptr};
  for (size_t i = 0; i < count && axes != nullptr; ++i) {
    if (axes[i] < -2 || axes[i] > 1) {
      return ASTER_FAIL(kRANGE, "axis %lld of 2", static_cast<Long>(axes[i]));
    }
    bool& one = over[(axes[i] + 2) % 2];
    if (one) return ASTER_FAIL(kRANGE, "axis %lld twice", static_cast<Long>(axes[i]));
    one = true;
  }
  if (!over[0] && !over[1]) return ASTER_FAIL(kRANGE, "no axes; null stands for both");
  *out = over[0] && over[1] ? Axis::kAll : over[0] ? Axis::kRows : Axis::kColumns;
  return kOk;
}

Status reduce_over(aster_ml_tensor* out, const aster_ml_sparse* x, size_t count,
                   const int64_t* axes, Reduction op) {
  return make_tensor(out, x, [&](Context& context, const Matrix& m) -> Status {
    Axis axis;
    ASTER_TRY(axis_of(&axis, count, axes));
    return reduce(out, context, m, op, axis);
  });
}

Status combine(aster_ml_sparse* out, const aster_ml_sparse* a, const aster_ml_sparse* b,
               Elementwise op) {
  return make(out, a, b, [&](Matrix* made, Context& context, const Matrix& x, const Matrix& y) {
    return elementwise(made, context, x, y, op);
  });
}

Status with_values(Matrix* out, const Matrix& m, const aster_ml_tensor* values) {
  Matrix made = m;
  int64_t count;
  ASTER_TRY(made.values.borrow("values", values, &made.dtype, &count));
  if (count != m.count) {
    return ASTER_FAIL(kFORMAT, "%lld values of %lld stored elements", static_cast<Long>(count),
                      static_cast<Long>(m.count));
  }
  *out = std::move(made);
  return kOk;
}

}  // namespace
}  // namespace aster::sparse

namespace sp = aster::sparse;

extern "C" {

int32_t aster_ml_sparse_init(aster_ml_sparse* out, const aster_ml_context* context, int32_t format,
                             int64_t rows, int64_t columns, const aster_ml_tensor* first,
                             const aster_ml_tensor* second, const aster_ml_tensor* values) {
  ASTER_API();
  return sp::make_new(out, context, [&](sp::Matrix* made, aster::Context&) {
    return sp::init(made, format, rows, columns, first, second, values);
  });
}

int32_t aster_ml_sparse_free(aster_ml_sparse* x) {
  ASTER_API();
  if (x != nullptr) aster::give_up(&x->impl);
  return ASTER_ML_OK;
}

int32_t aster_ml_sparse_get(aster_ml_sparse_info* info, const aster_ml_sparse* x) {
  ASTER_API();
  if (info == nullptr) return ASTER_FAIL(kARGUMENT, "info is null");
  const sp::Operands operands(x, x);
  ASTER_TRY(operands.status());
  const sp::Matrix& m = sp::matrix_of(x);
  aster_ml_sparse_info made{};
  made.format = static_cast<int32_t>(m.format);
  made.dtype = static_cast<int32_t>(m.dtype);
  made.index_dtype = static_cast<int32_t>(m.index_dtype());
  made.is_canonical = m.canonical ? 1 : 0;
  made.rows = m.rows;
  made.columns = m.columns;
  made.count = m.count;
  aster::write_struct(info, made);
  return ASTER_ML_OK;
}

int32_t aster_ml_sparse_view(aster_ml_tensor* out_first, aster_ml_tensor* out_second,
                             aster_ml_tensor* out_values, const aster_ml_sparse* x) {
  ASTER_API();
  aster_ml_tensor* const out[] = {out_first, out_second, out_values};
  bool all = true;
  for (aster_ml_tensor* const one : out) {
    all = all && one != nullptr;
    if (one != nullptr) *one = aster_ml_tensor{};
  }
  if (!all) return ASTER_FAIL(kARGUMENT, "out_first, out_second or out_values is null");
  if (out_first == out_second || out_first == out_values || out_second == out_values)
    return ASTER_FAIL(kARGUMENT, "two of out_first, out_second and out_values are one descriptor");
  const sp::Operands operands(x, x);
  ASTER_TRY(operands.status());
  return sp::view(out, operands.context(), sp::matrix_of(x));
}

int32_t aster_ml_sparse_from_dense(aster_ml_sparse* out, const aster_ml_context* context,
                                   const aster_ml_tensor* dense, int32_t format) {
  ASTER_API();
  return sp::make_new(out, context, [&](sp::Matrix* made, aster::Context& within) -> aster::Status {
    ASTER_TRY(sp::check_format(format));
    ASTER_TRY(sp::check_dense(dense));
    if (dense->ndim != 2) return ASTER_FAIL(kSHAPE, "dense has %zu axes, not 2", dense->ndim);
    return sp::from_dense(made, within, *dense, static_cast<sp::Format>(format));
  });
}

int32_t aster_ml_sparse_to_dense(aster_ml_tensor* out, const aster_ml_sparse* x) {
  ASTER_API();
  return sp::make_tensor(out, x, [&](aster::Context& context, const sp::Matrix& m) {
    return sp::to_dense(out, context, m);
  });
}

int32_t aster_ml_sparse_compress(aster_ml_sparse* out, const aster_ml_sparse* x, int32_t format) {
  ASTER_API();
  return sp::make(
      out, x, [&](sp::Matrix* made, aster::Context& context, const sp::Matrix& m) -> aster::Status {
        ASTER_TRY(sp::check_format(format));
        return sp::compress(made, context, m, static_cast<sp::Format>(format));
      });
}

int32_t aster_ml_sparse_transpose(aster_ml_sparse* out, const aster_ml_sparse* x) {
  ASTER_API();
  return sp::make(out, x, [](sp::Matrix* made, aster::Context&, const sp::Matrix& m) {
    *made = sp::transpose(m);
    return aster::kOk;
  });
}

int32_t aster_ml_sparse_with_values(aster_ml_sparse* out, const aster_ml_sparse* x,
                                    const aster_ml_tensor* values) {
  ASTER_API();
  return sp::make(out, x, [&](sp::Matrix* made, aster::Context&, const sp::Matrix& m) {
    return sp::with_values(made, m, values);
  });
}

int32_t aster_ml_sparse_cast(aster_ml_sparse* out, const aster_ml_sparse* x, int32_t dtype) {
  ASTER_API();
  return sp::make(
      out, x, [&](sp::Matrix* made, aster::Context& context, const sp::Matrix& m) -> aster::Status {
        sp::DType to;
        ASTER_TRY(aster::dtype::from_any_storage_code(&to, dtype));
        return sp::cast(made, context, m, to);
      });
}

int32_t aster_ml_sparse_slice(aster_ml_sparse* out, const aster_ml_sparse* x, int64_t begin,
                              int64_t end) {
  ASTER_API();
  return sp::make(out, x, [&](sp::Matrix* made, aster::Context& context, const sp::Matrix& m) {
    return sp::slice(made, context, m, begin, end);
  });
}

int32_t aster_ml_sparse_matmul_dense(aster_ml_tensor* out, const aster_ml_sparse* x,
                                     const aster_ml_tensor* dense) {
  ASTER_API();
  ASTER_TRY(sp::check_out(out, dense));
  return sp::make_tensor(out, x,
                         [&](aster::Context& context, const sp::Matrix& m) -> aster::Status {
                           ASTER_TRY(sp::check_dense(dense));
                           return sp::product_dense(out, context, m, *dense);
                         });
}

int32_t aster_ml_sparse_matmul(aster_ml_sparse* out, const aster_ml_sparse* a,
                               const aster_ml_sparse* b) {
  ASTER_API();
  return sp::make(out, a, b, sp::product);
}

int32_t aster_ml_sparse_add(aster_ml_sparse* out, const aster_ml_sparse* a,
                            const aster_ml_sparse* b) {
  ASTER_API();
  return sp::combine(out, a, b, sp::Elementwise::kAdd);
}

int32_t aster_ml_sparse_sub(aster_ml_sparse* out, const aster_ml_sparse* a,
                            const aster_ml_sparse* b) {
  ASTER_API();
  return sp::combine(out, a, b, sp::Elementwise::kSub);
}

int32_t aster_ml_sparse_mul(aster_ml_sparse* out, const aster_ml_sparse* a,
                            const aster_ml_sparse* b) {
  ASTER_API();
  return sp::combine(out, a, b, sp::Elementwise::kMul);
}

int32_t aster_ml_sparse_sum(aster_ml_tensor* out, const aster_ml_sparse* x, size_t count,
                            const int64_t* axes) {
  ASTER_API();
  return sp::reduce_over(out, x, count, axes, sp::Reduction::kSum);
}

int32_t aster_ml_sparse_max(aster_ml_tensor* out, const aster_ml_sparse* x, size_t count,
                            const int64_t* axes) {
  ASTER_API();
  return sp::reduce_over(out, x, count, axes, sp::Reduction::kMax);
}

int32_t aster_ml_sparse_min(aster_ml_tensor* out, const aster_ml_sparse* x, size_t count,
                            const int64_t* axes) {
  ASTER_API();
  return sp::reduce_over(out, x, count, axes, sp::Reduction::kMin);
}

}  // extern "C"
