#include "buffer/strided.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/checked.h"
#include "buffer/storage.h"
#include "device/device.h"
#include "dtype/dtype.h"

namespace aster::buffer {
namespace {

// Adds the reach of one axis, in elements, to the end that its stride points to.
bool reach(int64_t* low, int64_t* high, size_t dimension, ptrdiff_t stride) {
  int64_t span;
  if (dimension > static_cast<size_t>(INT64_MAX)) return false;
  if (!checked_mul(static_cast<int64_t>(dimension) - 1, int64_t{stride}, &span)) return false;
  int64_t* end = span < 0 ? low : high;
  return checked_add(*end, span, end);
}

// "[3, 4] with strides [4, -1]", as much as there is room for.
struct Axes {
  char text[160];
};
Axes axes_of(const aster_ml_tensor& tensor) {
  Axes out{};
  size_t used = 0;
  const auto add = [&](const char* format, auto value) {
    const int more = std::snprintf(out.text + used, sizeof(out.text) - used, format, value);
    if (more > 0) used = std::min(used + static_cast<size_t>(more), sizeof(out.text) - 1);
  };
  for (size_t i = 0; i < tensor.ndim; ++i) add(i == 0 ? "[%zu" : ", %zu", tensor.shape[i]);
  for (size_t i = 0; i < tensor.ndim; ++i)
    add(i == 0 ? "] with strides [%td" : ", %td", tensor.strides[i]);
  add("%s", "]");
  return out;
}

Status check_extent(const aster_ml_tensor& tensor, size_t size) {
  int64_t low = 0, high = 0;
  bool fits = true;
  for (size_t i = 0; i < tensor.ndim && fits; ++i) {
    fits = reach(&low, &high, tensor.shape[i], tensor.strides[i]);
  }
  int64_t first, last;
  const int64_t element = static_cast<int64_t>(size);
  fits = fits && checked_mul(low, element, &first) && checked_mul(high, element, &last) &&
         checked_add(last, element, &last) &&
         tensor.byte_offset <= static_cast<size_t>(INT64_MAX) &&
         checked_add(last, static_cast<int64_t>(tensor.byte_offset), &last) &&
         checked_add(first, static_cast<int64_t>(tensor.byte_offset), &first) && first >= 0 &&
         static_cast<size_t>(last) <= tensor.storage.bytes;
  if (fits) return kOk;
  return ASTER_FAIL(kRANGE, "%s%s from byte %zu on reaches outside its buffer of %zu bytes",
                    aster_ml_dtype_name(tensor.dtype), axes_of(tensor).text, tensor.byte_offset,
                    tensor.storage.bytes);
}

// A tensor as rows: the trailing axes that lie row-major make one run, the axis before it is
// stepped through.
struct Rows {
  size_t outer;        // axes in front
  size_t count = 1;    // rows
  size_t length = 1;   // elements of a row
  ptrdiff_t step = 1;  // between elements of a row
};

Rows rows_of(const aster_ml_tensor& tensor) {
  Rows rows{tensor.ndim};
  while (rows.outer > 0) {
    const size_t axis = rows.outer - 1;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != static_cast<ptrdiff_t>(rows.length))
      break;
    rows.length *= tensor.shape[axis];
    --rows.outer;
  }
  if (rows.length == 1 && rows.outer > 0) {
    --rows.outer;
    rows.length = tensor.shape[rows.outer];
    rows.step = tensor.strides[rows.outer];
  }
  for (size_t i = 0; i < rows.outer; ++i) rows.count *= tensor.shape[i];
  return rows;
}

// Elements from the first one to the start of a row.
ptrdiff_t row_start(const aster_ml_tensor& tensor, const Rows& rows, size_t row) {
  ptrdiff_t start = 0;
  for (size_t axis = rows.outer; axis-- > 0;) {
    start += static_cast<ptrdiff_t>(row % tensor.shape[axis]) * tensor.strides[axis];
    row /= tensor.shape[axis];
  }
  return start;
}

// An element that lies anywhere.
template <typename T>
struct [[gnu::packed, gnu::may_alias]] Anywhere {
  T value;
};

// An element of a wide float.
template <size_t kWords>
struct Words {
  uint64_t w[kWords];
};

// From the last one on, two at a time: compilers take one after another.
void copy_backwards(char* to, const char* from, ptrdiff_t n) {
  typedef uint64_t Two __attribute__((vector_size(16)));
  for (; n > 1; n -= 2, to += sizeof(Two), from -= sizeof(Two)) {
    Two two;
    std::memcpy(&two, from - sizeof(uint64_t), sizeof(two));
    two = Two{two[1], two[0]};
    std::memcpy(to, &two, sizeof(two));
  }
  if (n != 0) std::memcpy(to, from, sizeof(uint64_t));
}

template <typename T>
void copy_steps(char* to, ptrdiff_t to_step, const char* from, ptrdiff_t from_step, size_t count) {
  constexpr ptrdiff_t kSize = sizeof(T);
  const auto n = static_cast<ptrdiff_t>(count);
  auto* dst = reinterpret_cast<Anywhere<T>*>(to);
  const auto* src = reinterpret_cast<const Anywhere<T>*>(from);
  // The commonest ones, which compilers turn into vectors.
  if (to_step == kSize && from_step == kSize) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (to_step == kSize && from_step == 2 * kSize) {
    for (ptrdiff_t i = 0; i < n; ++i) dst[i].value = src[2 * i].value;
  } else if (kSize == 8 && to_step == kSize && from_step == -kSize) {
    copy_backwards(to, from, n);
  } else if (to_step == kSize && from_step == -kSize) {
    for (ptrdiff_t i = 0; i < n; ++i) dst[i].value = src[-i].value;
  } else if (to_step == kSize) {
    for (ptrdiff_t i = 0; i < n; ++i, from += from_step) std::memcpy(dst + i, from, sizeof(T));
  } else {
    for (ptrdiff_t i = 0; i < n; ++i, to += to_step, from += from_step)
      std::memcpy(to, from, sizeof(T));
  }
}

// Elements between a tensor and row-major memory, one way or the other.
Status exchange(const aster_ml_tensor& tensor, const Place& memory, bool out_of_tensor) {
  const size_t size = aster_ml_dtype_size(tensor.dtype);
  const Rows rows = rows_of(tensor);
  if (aster_ml_tensor_count(&tensor) == 0) return kOk;
  const bool on_host = device::is_host(tensor.storage.device) &&
                       (memory.device == kHost || device::is_host(memory.device));
  const ptrdiff_t stride = rows.step * static_cast<ptrdiff_t>(size);
  for (size_t row = 0; row < rows.count; ++row) {
    const ptrdiff_t first = static_cast<ptrdiff_t>(tensor.byte_offset) +
                            row_start(tensor, rows, row) * static_cast<ptrdiff_t>(size);
    const size_t at = row * rows.length * size;
    if (on_host && rows.step != 1) {
      char* ours = static_cast<char*>(tensor.storage.data) + first;
      char* theirs = static_cast<char*>(memory.data) + memory.offset + at;
      if (out_of_tensor) {
        copy_row(theirs, static_cast<ptrdiff_t>(size), ours, stride, rows.length, size);
      } else {
        copy_row(ours, stride, theirs, static_cast<ptrdiff_t>(size), rows.length, size);
      }
      continue;
    }
    const size_t pieces = rows.step == 1 ? 1 : rows.length;
    const size_t bytes = rows.length / pieces * size;
    for (size_t i = 0; i < pieces; ++i) {
      const Place ours{tensor.storage.data,
                       static_cast<size_t>(first + static_cast<ptrdiff_t>(i) * stride),
                       tensor.storage.device};
      const Place theirs{memory.data, memory.offset + at + i * bytes, memory.device};
      ASTER_TRY(out_of_tensor ? copy(theirs, ours, bytes) : copy(ours, theirs, bytes));
    }
  }
  return kOk;
}

}  // namespace

void copy_row(char* to, ptrdiff_t to_step, const char* from, ptrdiff_t from_step, size_t count,
              size_t size) {
  switch (size) {
    case 1:
      return copy_steps<uint8_t>(to, to_step, from, from_step, count);
    case 2:
      return copy_steps<uint16_t>(to, to_step, from, from_step, count);
    case 4:
      return copy_steps<uint32_t>(to, to_step, from, from_step, count);
    case 8:
      return copy_steps<uint64_t>(to, to_step, from, from_step, count);
    case sizeof(Words<4>):
      return copy_steps<Words<4>>(to, to_step, from, from_step, count);
    default:
      return copy_steps<Words<8>>(to, to_step, from, from_step, count);
  }
}

Status count_elements(size_t* count, size_t* bytes, size_t ndim, const size_t* shape, size_t size) {
  *count = 1;
  *bytes = 0;
  if (ndim != 0 && shape == nullptr) return ASTER_FAIL(kARGUMENT, "shape is null");
  if (ndim > SIZE_MAX / (4 * sizeof(size_t))) return ASTER_FAIL(kRANGE, "%zu axes", ndim);
  // Strides of a shape with a 0 count its other dimensions, so those are checked too.
  size_t product = 1;
  bool empty = false;
  for (size_t i = 0; i < ndim; ++i) {
    empty |= shape[i] == 0;
    if (shape[i] != 0 && !checked_mul(product, shape[i], &product)) product = SIZE_MAX;
    if (product > static_cast<size_t>(PTRDIFF_MAX) / size) {
      return ASTER_FAIL(kRANGE, "a shape of %zu axes overflows at axis %zu of size %zu", ndim, i,
                        shape[i]);
    }
  }
  *count = empty ? 0 : product;
  *bytes = *count * size;
  return kOk;
}

void row_major(ptrdiff_t* strides, size_t ndim, const size_t* shape) {
  ptrdiff_t step = 1;
  for (size_t i = ndim; i-- > 0;) {
    strides[i] = step;
    step *= shape[i] != 0 ? static_cast<ptrdiff_t>(shape[i]) : 1;
  }
}

bool is_row_major(size_t ndim, const size_t* shape, const ptrdiff_t* strides) {
  for (size_t i = 0; i < ndim; ++i) {
    if (shape[i] == 0) return true;
  }
  size_t step = 1;
  for (size_t i = ndim; i-- > 0;) {
    if (shape[i] != 1 && strides[i] != static_cast<ptrdiff_t>(step)) return false;
    step *= shape[i];
  }
  return true;
}

Status check_tensor(const aster_ml_tensor* tensor) {
  if (tensor == nullptr) return ASTER_FAIL(kARGUMENT, "tensor is null");
  dtype::DType d;
  ASTER_TRY(dtype::from_any_storage_code(&d, tensor->dtype));
  int32_t device;
  ASTER_TRY(device::canonical(&device, tensor->storage.device));
  if (tensor->ndim != 0 && tensor->strides == nullptr) {
    return ASTER_FAIL(kARGUMENT, "strides is null");
  }
  size_t count, bytes;
  ASTER_TRY(count_elements(&count, &bytes, tensor->ndim, tensor->shape, 1));
  if (tensor->byte_offset % dtype::size(d) != 0) {
    return ASTER_FAIL(kARGUMENT, "byte_offset %zu is no multiple of a %s", tensor->byte_offset,
                      dtype::name(d));
  }
  if (count == 0) return kOk;
  if (tensor->storage.data == nullptr) return ASTER_FAIL(kARGUMENT, "the tensor has no memory");
  return check_extent(*tensor, dtype::size(d));
}

namespace {

// Where elements lie around the one at index 0, ..., 0, in bytes: from low up to high.
Status span_of(int64_t* low, int64_t* high, const Elements& given) {
  size_t count, bytes;
  ASTER_TRY(count_elements(&count, &bytes, given.ndim, given.shape, given.size));
  *low = 0;
  *high = static_cast<int64_t>(given.strides == nullptr ? bytes : given.size);
  bool fits = true;
  for (size_t i = 0; i < given.ndim && fits && given.strides != nullptr; ++i) {
    int64_t reach;
    fits =
        checked_mul(int64_t{given.strides[i]}, static_cast<int64_t>(given.shape[i]) - 1, &reach) &&
        checked_mul(reach, static_cast<int64_t>(given.unit), &reach);
    int64_t* end = fits && reach < 0 ? low : high;
    fits = fits && checked_add(*end, reach, end);
  }
  return fits ? kOk : ASTER_FAIL(kRANGE, "the strides leave the address space");
}

}  // namespace

Status surround(Extent* out, const Elements& given) {
  int64_t low, high;
  ASTER_TRY(span_of(&low, &high, given));
  if (given.data == nullptr) return ASTER_FAIL(kARGUMENT, "data is null");
  const uint64_t base = given.host ? reinterpret_cast<uintptr_t>(given.data) : 0;
  uint64_t begin, end, first;
  if (!checked_add(base, uint64_t{given.offset}, &first) ||
      __builtin_add_overflow(first, low, &begin) || __builtin_add_overflow(first, high, &end)) {
    return ASTER_FAIL(kRANGE, "the strides and offset leave the address space");
  }
  bool aligned = first % given.size == 0;
  for (size_t i = 0; i < given.ndim && given.strides != nullptr; ++i) {
    const size_t step = static_cast<size_t>(given.strides[i]) * given.unit;
    aligned &= given.shape[i] <= 1 || step % given.size == 0;
  }
  if (!aligned) {
    return ASTER_FAIL(kARGUMENT, "the elements of %zu bytes are not aligned to their size",
                      given.size);
  }
  const auto back = static_cast<ptrdiff_t>(begin - base);  // to what lies first
  out->data = given.host ? static_cast<char*>(given.data) + back : given.data;
  out->bytes = given.host ? end - begin : end;
  out->first = given.host ? first - begin : first;
  return kOk;
}

Status gather(void* memory, int32_t device, const aster_ml_tensor& tensor) {
  return exchange(tensor, {memory, 0, device}, true);
}

Status scatter(const aster_ml_tensor& tensor, const void* host) {
  return exchange(tensor, {const_cast<void*>(host), 0, kHost}, false);
}

}  // namespace aster::buffer
