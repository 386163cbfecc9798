#include "sparse/matrix.h"

#include "buffer/strided.h"
#include "buffer/tensor.h"
#include "device/device.h"
#include "flt/convert.h"

namespace aster::sparse {

// ---- Arrays ----

Status Array::create(Context& context, DType dtype, int64_t count) {
  size_t bytes;
  if (!checked_mul(static_cast<size_t>(count), dtype::size(dtype), &bytes)) {
    return ASTER_FAIL(kRANGE, "%lld elements of %s", static_cast<long long>(count),
                      dtype::name(dtype));
  }
  Array made;
  ASTER_TRY(buffer::storage_create(&made.held_, context, bytes, 0));
  made.memory_ = {made.held_->data, bytes, static_cast<int32_t>(dtype), made.held_->device};
  *this = std::move(made);
  return kOk;
}

// Wide floats are words.
bool is_aligned(const void* at, DType dtype) {
  const size_t size = dtype::is_wide(dtype) ? alignof(flt::Limb) : dtype::size(dtype);
  return reinterpret_cast<uintptr_t>(at) % size == 0;
}

Status Array::borrow(const char* name, const aster_ml_tensor* tensor, DType* dtype,
                     int64_t* count) {
  if (tensor == nullptr) return ASTER_FAIL(kARGUMENT, "%s is null", name);
  ASTER_TRY(dtype::from_any_storage_code(dtype, tensor->dtype));
  ASTER_TRY(buffer::check_tensor(tensor));
  if (!device::is_host(tensor->storage.device)) {
    return ASTER_FAIL(kUNSUPPORTED, "%s is in the memory of a device", name);
  }
  if (tensor->ndim != 1) {
    return ASTER_FAIL(kSHAPE, "%s has %zu axes; one is wanted", name, tensor->ndim);
  }
  if (aster_ml_tensor_is_contiguous(tensor) == 0) {
    return ASTER_FAIL(kSHAPE, "%s has a stride of %td elements; 1 is wanted", name,
                      tensor->strides[0]);
  }
  if (tensor->shape[0] > static_cast<size_t>(INT64_MAX)) {
    return ASTER_FAIL(kRANGE, "%s has %zu elements", name, tensor->shape[0]);
  }
  Array made;
  made.memory_ = tensor->storage;
  made.at_ = tensor->byte_offset;
  made.held_ = buffer::storage_of(*tensor);
  *count = static_cast<int64_t>(tensor->shape[0]);
  if (*count > 0 && !is_aligned(made.as<char>(), *dtype)) {
    return ASTER_FAIL(kARGUMENT, "%s is not aligned to its elements", name);
  }
  *this = std::move(made);
  return kOk;
}

Array Array::from(int64_t begin) const {
  Array made = *this;
  made.at_ += static_cast<size_t>(begin) * aster_ml_dtype_size(memory_.dtype);
  return made;
}

Status Array::describe(aster_ml_tensor* out, Context& context, int64_t count) const {
  const auto shape = static_cast<size_t>(count);
  retain();
  const Status status = buffer::describe_in(out, context, memory_, held_, at_, 1, &shape, nullptr);
  if (!status.ok()) buffer::storage_release(held_);
  return status;
}

// ---- Checks ----

namespace {

using Long = long long;

template <typename Index>
Status check_indices(const char* name, const Index* indices, int64_t count, int64_t limit) {
  // A negative index is a great one.
  using Natural = std::make_unsigned_t<Index>;
  Natural greatest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<Natural>(indices[i]);
    greatest = index > greatest ? index : greatest;
  }
  if (count == 0 || static_cast<uint64_t>(greatest) < static_cast<uint64_t>(limit)) return kOk;
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] >= 0 && static_cast<int64_t>(indices[i]) < limit) continue;
    return ASTER_FAIL(kFORMAT, "%s[%lld] is %lld, outside [0, %lld)", name, static_cast<Long>(i),
                      static_cast<Long>(indices[i]), static_cast<Long>(limit));
  }
  return kOk;
}

template <typename Index>
Status check_compressed(Matrix* m) {
  const Index* const offsets = m->first.as<Index>();
  const Index* const indices = m->second.as<Index>();
  const int64_t lines = m->lines(), stored = m->count;
  if (offsets[0] != 0) {
    return ASTER_FAIL(kFORMAT, "first[0] is %lld, not 0", static_cast<Long>(offsets[0]));
  }
  for (int64_t i = 0; i < lines; ++i) {
    if (offsets[i + 1] >= offsets[i] && static_cast<int64_t>(offsets[i + 1]) <= stored) continue;
    return ASTER_FAIL(kFORMAT, "first[%lld] is %lld behind %lld, of %lld stored elements",
                      static_cast<Long>(i + 1), static_cast<Long>(offsets[i + 1]),
                      static_cast<Long>(offsets[i]), static_cast<Long>(stored));
  }
  m->count = offsets[lines];
  ASTER_TRY(check_indices("second", indices, m->count, m->places()));
  bool rises = true;
  for (int64_t i = 0; i < lines && rises; ++i) {
    for (int64_t p = offsets[i] + 1; p < offsets[i + 1]; ++p) rises &= indices[p - 1] < indices[p];
  }
  m->canonical = rises;
  return kOk;
}

template <typename Index>
Status check_coordinates(Matrix* m) {
  const Index* const rows = m->first.as<Index>();
  const Index* const columns = m->second.as<Index>();
  ASTER_TRY(check_indices("first", rows, m->count, m->rows));
  ASTER_TRY(check_indices("second", columns, m->count, m->columns));
  bool rises = true;
  for (int64_t p = 1; p < m->count; ++p) {
    rises &= rows[p - 1] < rows[p] || (rows[p - 1] == rows[p] && columns[p - 1] < columns[p]);
  }
  m->canonical = rises;
  return kOk;
}

}  // namespace

Status check(Matrix* m) {
  return with_index(m->wide, [&](auto zero) {
    using Index = decltype(zero);
    return m->format == Format::kCoo ? check_coordinates<Index>(m) : check_compressed<Index>(m);
  });
}

// ---- Shared ----

void detail::run_tasks(int threads, int64_t tasks, void (*call)(void*, int64_t), void* body) {
  if (tasks == 1) return call(body, 0);
  pool::run(threads, tasks, call, body);
}

Status dense_create(aster_ml_tensor* out, Context& context, DType dtype, size_t ndim,
                    const size_t* shape) {
  const aster_ml_context handle = context.inner_handle();
  return Status{aster_ml_tensor_init(out, &handle, static_cast<int32_t>(dtype), 0, ndim, shape)};
}

Status dense_rows(Array* out, int64_t* stride, Context& context, const aster_ml_tensor& dense,
                  DType dtype) {
  const auto from = static_cast<DType>(dense.dtype);
  const size_t rows = dense.ndim > 0 ? dense.shape[0] : 1;
  const size_t columns = dense.ndim > 1 ? dense.shape[1] : 1;
  const size_t row = dense.ndim > 0 ? 0 : dense.ndim;
  const ptrdiff_t down = rows > 1 ? dense.strides[row] : static_cast<ptrdiff_t>(columns);
  const ptrdiff_t across = columns > 1 ? dense.strides[1] : 1;
  const char* const at = static_cast<const char*>(dense.storage.data) + dense.byte_offset;
  *stride = static_cast<int64_t>(columns);
  const size_t count = rows * columns;
  if (from == dtype && across == 1 && is_aligned(at, from)) {
    *stride = down;
    *out = Array::at_address(dense.storage, dense.byte_offset);
    return kOk;
  }
  Array whole;
  ASTER_TRY(whole.create(context, from, static_cast<int64_t>(count)));
  if (!aster_ml_tensor_is_contiguous(&dense)) {
    ASTER_TRY(context.may_copy(count * dtype::size(from), "elements of a row have gaps"));
  }
  ASTER_TRY(buffer::gather(whole.as<char>(), buffer::kHost, dense));
  if (from == dtype) {
    *out = std::move(whole);
    return kOk;
  }
  ASTER_TRY(out->create(context, dtype, static_cast<int64_t>(count)));
  return convert(out->as<char>(), dtype, whole.as<char>(), from, static_cast<int64_t>(count));
}

Status common_dtype(DType* out, DType a, DType b) {
  *out = dtype::least_upper(a, b);
  if (*out != DType::kNone) return kOk;
  return ASTER_FAIL(kDTYPE, "sparse matrices of %s and %s", dtype::name(a), dtype::name(b));
}

DType product_dtype(DType d) { return dtype::is_sticky(d) ? dtype::sum_acc(d) : d; }

Status harmonise(Matrix* x, Matrix* y, Context& context, const Matrix& a, const Matrix& b,
                 Format format, bool product) {
  DType dtype;
  ASTER_TRY(common_dtype(&dtype, a.dtype, b.dtype));
  if (product) dtype = product_dtype(dtype);
  const bool wide = a.wide || b.wide;
  const Matrix* const given[] = {&a, &b};
  Matrix* const made[] = {x, y};
  for (int i = 0; i < 2; ++i) {
    Matrix m;
    ASTER_TRY(compress(&m, context, *given[i], format));
    if (wide && !m.wide) {
      Matrix wider;
      ASTER_TRY(widen(&wider, context, m));
      m = std::move(wider);
    }
    ASTER_TRY(cast(made[i], context, m, dtype));
  }
  return kOk;
}

}  // namespace aster::sparse
