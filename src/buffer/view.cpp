// Views: descriptors in bytes, their slices and halves.
#include "buffer/view.h"

#include <cstring>

#include "base/options.h"
#include "buffer/strided.h"
#include "buffer/tensor.h"
#include "device/device.h"
#include "dtype/dtype.h"

namespace aster::buffer {
namespace {

constexpr size_t kMostAxes = 1024;

uint32_t flags_of(const Storage& storage, bool shared) {
  uint32_t flags = shared ? ASTER_ML_VIEW_SHARED : 0;
  if (storage.read_only) flags |= ASTER_ML_VIEW_READ_ONLY;
  if (storage.kind == ASTER_ML_MEMORY_PINNED) flags |= ASTER_ML_VIEW_PINNED;
  if (!device::is_host(storage.device)) flags |= ASTER_ML_VIEW_DEVICE;
  return flags;
}

}  // namespace

Status make_view(View* out, Storage* storage, int32_t dtype, size_t byte_offset, size_t ndim,
                 bool shared) {
  if (ndim > kMostAxes) return ASTER_FAIL(kRANGE, "%zu axes", ndim);
  View made{};
  Storage* axes;
  ASTER_TRY(axes_create(&axes, &made.shape, &made.strides, *storage->context, ndim));
  axes->held = storage;
  made.memory = {storage->data, storage->bytes, dtype, storage->device};
  made.byte_offset = byte_offset;
  made.ndim = ndim;
  made.kind = storage->kind;
  made.flags = flags_of(*storage, shared);
  made.owner = storage;
  *out = made;
  return kOk;
}

void fill_axes(View* view, const size_t* shape, const ptrdiff_t* strides, size_t unit) {
  if (view->ndim == 0) return;
  std::memcpy(view->shape, shape, view->ndim * sizeof(size_t));
  if (strides == nullptr) {
    row_major(view->strides, view->ndim, shape);
    strides = view->strides;
    unit = element_of(*view);
  }
  for (size_t i = 0; i < view->ndim; ++i)
    view->strides[i] = strides[i] * static_cast<ptrdiff_t>(unit);
}

bool is_empty(const View& view) {
  for (size_t i = 0; i < view.ndim; ++i) {
    if (view.shape[i] == 0) return true;
  }
  return false;
}

namespace {

// Whether a view has its memory still: its storage, with a reference.
bool lives(Held* held, const View* view) {
  *held->room() = storage_behind(view->shape);
  return held->get() != nullptr && held->get() == view->owner;
}

// The storage of a view that lives, with a reference.
Status check(Held* held, const View* view) {
  if (view == nullptr || view->shape == nullptr) return ASTER_FAIL(kARGUMENT, "an empty view");
  if (lives(held, view)) return kOk;
  return ASTER_FAIL(kARGUMENT, "the view was freed, and who owned its memory is gone");
}

// For predicates, which have no errors to say: a copy of a view that was freed has no axes to read.
bool lives(const View* view) {
  Held held;
  return view != nullptr && lives(&held, view);
}

Status check_strided(Held* held, const View* view) {
  ASTER_TRY(check(held, view));
  if (view->layout == ASTER_ML_LAYOUT_STRIDED) return kOk;
  return ASTER_FAIL(kUNSUPPORTED,
                    "the view is in Morton order, which has no strides: see "
                    "aster_ml_view_to_layout");
}

Status check_axis(const View& view, size_t axis) {
  if (axis < view.ndim) return kOk;
  return ASTER_FAIL(kRANGE, "axis %zu of a view of %zu axes", axis, view.ndim);
}

// A second view of the same storage, with the same axes.
Status again(View* out, const View& view) {
  auto* storage = static_cast<Storage*>(const_cast<void*>(view.owner));
  storage_retain(storage);
  const Status status =
      make_view(out, storage, view.memory.dtype, view.byte_offset, view.ndim, true);
  if (!status.ok()) {
    storage_release(storage);
    return status;
  }
  fill_axes(out, view.shape, view.strides, 1);
  out->layout = view.layout;
  out->flags |= view.flags & ASTER_ML_VIEW_READ_ONLY;
  return kOk;
}

// count elements from start on, every step-th, of an axis.
Status part(View* out, const View& view, size_t axis, int64_t start, size_t count, int64_t step) {
  ASTER_TRY(again(out, view));
  const ptrdiff_t stride = view.strides[axis];
  out->shape[axis] = count;
  if (count > 1) out->strides[axis] = stride * step;
  if (count != 0) out->byte_offset += static_cast<size_t>(stride * start);
  return kOk;
}

// ---- Halves ----

ptrdiff_t size_of_step(ptrdiff_t stride) { return stride < 0 ? -stride : stride; }

// Whether no two elements share a byte, but those along axes of stride 0: each stride is larger
// than all that the smaller ones reach.
bool nested(const View& view) {
  auto reach = static_cast<ptrdiff_t>(element_of(view));
  ptrdiff_t done = 0;  // strides up to here are looked at
  for (;;) {
    ptrdiff_t next = PTRDIFF_MAX, span = 0;
    size_t equal = 0;
    for (size_t i = 0; i < view.ndim; ++i) {
      const ptrdiff_t step = size_of_step(view.strides[i]);
      if (view.shape[i] <= 1 || step <= done || step > next) continue;
      equal = step == next ? equal + 1 : 1;
      next = step;
      span = step * static_cast<ptrdiff_t>(view.shape[i] - 1);
    }
    if (equal == 0) return true;
    if (equal > 1 || next < reach) return false;
    reach += span;
    done = next;
  }
}

// The bytes of a view, as far as its strides go.
void range_of(ptrdiff_t* begin, ptrdiff_t* end, const View& view) {
  *begin = static_cast<ptrdiff_t>(view.byte_offset);
  *end = *begin + static_cast<ptrdiff_t>(element_of(view));
  for (size_t i = 0; i < view.ndim; ++i) {
    const ptrdiff_t reach = view.strides[i] * (static_cast<ptrdiff_t>(view.shape[i]) - 1);
    *(reach < 0 ? begin : end) += reach;
  }
}

bool apart(const View& whole, const View& low, const View& high, size_t axis) {
  if (is_empty(low) || is_empty(high)) return true;
  ptrdiff_t low_begin, low_end, high_begin, high_end;
  range_of(&low_begin, &low_end, low);
  range_of(&high_begin, &high_end, high);
  if (low_end <= high_begin || high_end <= low_begin) return true;
  return whole.strides[axis] != 0 && nested(whole);
}

// ---- In and out ----

Status check_kind(uint8_t* out, const aster_ml_view_options& options) {
  const bool host = device::is_host(options.device);
  *out = host ? ASTER_ML_MEMORY_NORMAL : ASTER_ML_MEMORY_DEVICE;
  const bool told =
      options.kind == ASTER_ML_MEMORY_PINNED || options.kind == ASTER_ML_MEMORY_UNIFIED;
  if (!(host && told) && options.kind != 0 && options.kind != *out)
    return ASTER_FAIL(kARGUMENT, "%d is no kind of memory on this device", options.kind);
  if (told) *out = static_cast<uint8_t>(options.kind);
  if ((options.flags & ~uint32_t{ASTER_ML_VIEW_READ_ONLY}) != 0)
    return ASTER_FAIL(kARGUMENT, "flags %u: READ_ONLY is the one that can be told", options.flags);
  return kOk;
}

Status from_memory(View* out, Context& context, const aster_ml_view_options& options) {
  dtype::DType dtype;
  ASTER_TRY(dtype::from_any_storage_code(&dtype, options.dtype));
  int32_t device;
  ASTER_TRY(device::canonical(&device, options.device));
  const aster_ml_backend* backend;
  ASTER_TRY(device::backend(&backend, device));
  uint8_t kind;
  ASTER_TRY(check_kind(&kind, options));
  if (options.ndim > kMostAxes) return ASTER_FAIL(kRANGE, "%zu axes", options.ndim);
  size_t count, bytes;
  const size_t size = dtype::size(dtype);
  ASTER_TRY(count_elements(&count, &bytes, options.ndim, options.shape, size));
  Extent extent{};
  if (count != 0) {
    ASTER_TRY(
        surround(&extent, {options.data, 0, device::is_host(device), size, options.ndim,
                           options.shape, options.strides, options.strides == nullptr ? size : 1}));
  }
  Storage* storage;
  ASTER_TRY(storage_wrap(&storage, context, extent.data, extent.bytes, device,
                         (options.flags & ASTER_ML_VIEW_READ_ONLY) != 0, options.release,
                         options.self));
  storage->kind = kind;
  const Status status = make_view(out, storage, options.dtype, extent.first, options.ndim, true);
  if (!status.ok()) {
    storage->release = nullptr;  // the memory is the caller's still
    storage_release(storage);
    return status;
  }
  fill_axes(out, options.shape, count != 0 ? options.strides : nullptr, 1);
  return kOk;
}

// In a storage that has first bytes in front of memory; takes it over if it succeeds.
Status in_storage(View* out, Held* storage, const aster_ml_tensor& tensor, size_t first) {
  if (tensor.storage.bytes > storage->get()->bytes - first) {
    return ASTER_FAIL(kRANGE, "%zu bytes of memory that has %zu", tensor.storage.bytes,
                      storage->get()->bytes - first);
  }
  ASTER_TRY(
      make_view(out, storage->get(), tensor.dtype, tensor.byte_offset + first, tensor.ndim, true));
  storage->take();
  fill_axes(out, tensor.shape, tensor.strides, aster_ml_dtype_size(tensor.dtype));
  return kOk;
}

Status from_tensor(View* out, Context& context, const aster_ml_tensor* tensor) {
  ASTER_TRY(check_tensor(tensor));
  Held storage(storage_of(*tensor));
  if (storage.get() == nullptr && tensor->storage.bytes == 0)
    ASTER_TRY(storage_create(storage.room(), context, 0, tensor->storage.device));
  if (storage.get() == nullptr)
    return ASTER_FAIL(kARGUMENT, "the library does not know the memory at %p",
                      tensor->storage.data);
  const size_t first = device::is_host(tensor->storage.device)
                           ? static_cast<size_t>(static_cast<char*>(tensor->storage.data) -
                                                 static_cast<char*>(storage.get()->data))
                           : 0;
  return in_storage(out, &storage, *tensor, first);
}

Status from_buffer(View* out, Context& context, const aster_ml_buffer& buffer, size_t byte_offset,
                   size_t bytes, size_t ndim, const size_t* shape, const ptrdiff_t* strides) {
  dtype::DType dtype;
  ASTER_TRY(dtype::from_any_storage_code(&dtype, buffer.dtype));
  const auto size = static_cast<ptrdiff_t>(dtype::size(dtype));
  if (byte_offset > buffer.bytes || bytes > buffer.bytes - byte_offset) {
    return ASTER_FAIL(kRANGE, "%zu bytes from %zu on are not inside a buffer of %zu bytes", bytes,
                      byte_offset, buffer.bytes);
  }
  if (ndim != 0 && shape == nullptr) return ASTER_FAIL(kARGUMENT, "shape is null");
  Vec<ptrdiff_t> steps(context.heap());
  for (size_t i = 0; i < ndim && strides != nullptr; ++i) {
    if (strides[i] % size != 0)
      return ASTER_FAIL(kARGUMENT, "stride %td is no multiple of a %s", strides[i],
                        dtype::name(dtype));
    ASTER_TRY(steps.push(strides[i] / size));
  }
  // Its elements lie in the part, whose end is that of a buffer here.
  aster_ml_buffer until = buffer;
  until.bytes = byte_offset + bytes;
  aster_ml_tensor tensor;
  Held storage(storage_find(buffer.data));
  ASTER_TRY(describe_in(&tensor, context, until, nullptr, byte_offset, ndim, shape,
                        strides == nullptr ? nullptr : steps.data()));
  ptrdiff_t begin = 0;
  Status status;
  for (size_t i = 0; i < ndim && aster_ml_tensor_count(&tensor) != 0; ++i) {
    const ptrdiff_t reach = tensor.strides[i] * (static_cast<ptrdiff_t>(tensor.shape[i]) - 1);
    begin += reach < 0 ? reach : 0;
  }
  if (begin < 0) status = ASTER_FAIL(kRANGE, "the strides go to before the part");
  if (status.ok() && storage.get() == nullptr)
    status = ASTER_FAIL(kARGUMENT, "the library does not know the memory at %p", buffer.data);
  if (status.ok()) status = in_storage(out, &storage, tensor, 0);
  ASTER_TRY(disown(tensor.shape));
  return status;
}

Status to_tensor(aster_ml_tensor* out, Context& context, const View* view) {
  Held held;
  ASTER_TRY(check_strided(&held, view));
  Vec<ptrdiff_t> strides(context.heap());
  Vec<size_t> shape(context.heap());
  aster_ml_tensor borrowed;
  ASTER_TRY(borrow(&borrowed, &strides, *view, false, &shape));
  ASTER_TRY(describe_in(out, context, view->memory, held.get(), view->byte_offset, view->ndim,
                        shape.data(), strides.data()));
  held.take();
  return kOk;
}

Status slice(View* out, const View* view, size_t axis, int64_t start, int64_t stop, int64_t step) {
  Held held;
  ASTER_TRY(check_strided(&held, view));
  ASTER_TRY(check_axis(*view, axis));
  const auto size = static_cast<int64_t>(view->shape[axis]);
  const bool forward = step > 0 && 0 <= start && start <= stop && stop <= size;
  const bool backward = step < 0 && -1 <= stop && stop <= start && start < size;
  if (!forward && !backward) {
    return ASTER_FAIL(kRANGE, "%lld:%lld:%lld of an axis of %lld", static_cast<long long>(start),
                      static_cast<long long>(stop), static_cast<long long>(step),
                      static_cast<long long>(size));
  }
  const auto span = static_cast<uint64_t>(forward ? stop - start : start - stop);
  const uint64_t stride = forward ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  return part(out, *view, axis, start, span == 0 ? 0 : (span - 1) / stride + 1, step);
}

Status split(View* low, View* high, const View* view, size_t axis, size_t index) {
  Held held;
  ASTER_TRY(check_strided(&held, view));
  ASTER_TRY(check_axis(*view, axis));
  if (index > view->shape[axis])
    return ASTER_FAIL(kRANGE, "index %zu of an axis of %zu", index, view->shape[axis]);
  if ((view->flags & ASTER_ML_VIEW_READ_ONLY) != 0)
    return ASTER_FAIL(kARGUMENT, "the view is read-only: its halves could not be written");
  View first{}, second{};
  ASTER_TRY(part(&first, *view, axis, 0, index, 1));
  Status status =
      part(&second, *view, axis, static_cast<int64_t>(index), view->shape[axis] - index, 1);
  if (status.ok() && !apart(*view, first, second, axis)) {
    status =
        ASTER_FAIL(kSHAPE, "halves along axis %zu may share elements: its strides overlap", axis);
  }
  if (!status.ok()) {
    aster_ml_view_free(&first);
    aster_ml_view_free(&second);
    return status;
  }
  *low = first;
  *high = second;
  return kOk;
}

}  // namespace
}  // namespace aster::buffer

namespace buf = aster::buffer;

// Clears out, and enters the context for the rest of the function.
#define BEGIN_IN(out, context)                                     \
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null"); \
  *out = {};                                                       \
  aster::Context* impl = aster::context_of(context);               \
  const aster::ContextLock lock(impl);                             \
  ASTER_TRY(lock.status())
#define BEGIN(out, view)                                                                      \
  ASTER_API();                                                                                \
  if (out == nullptr || out == view) return ASTER_FAIL(kARGUMENT, "out is null or the view"); \
  *out = {}

extern "C" {

int32_t aster_ml_view_from_memory(aster_ml_buffer_view* out, const aster_ml_context* context,
                                  const aster_ml_view_options* options) {
  ASTER_API();
  BEGIN_IN(out, context);
  if (options == nullptr) return ASTER_FAIL(kARGUMENT, "options is null");
  aster_ml_view_options given;
  ASTER_TRY(aster::read_struct(&given, options, "the options"));
  return buf::from_memory(out, *impl, given);
}

int32_t aster_ml_view_from_buffer(aster_ml_buffer_view* out, const aster_ml_context* context,
                                  const aster_ml_buffer* buffer, size_t byte_offset, size_t bytes,
                                  size_t ndim, const size_t* shape, const ptrdiff_t* strides) {
  ASTER_API();
  BEGIN_IN(out, context);
  if (buffer == nullptr) return ASTER_FAIL(kARGUMENT, "buffer is null");
  return buf::from_buffer(out, *impl, *buffer, byte_offset, bytes, ndim, shape, strides);
}

int32_t aster_ml_view_from_tensor(aster_ml_buffer_view* out, const aster_ml_context* context,
                                  const aster_ml_tensor* tensor) {
  ASTER_API();
  BEGIN_IN(out, context);
  return buf::from_tensor(out, *impl, tensor);
}

int32_t aster_ml_view_to_tensor(aster_ml_tensor* out, const aster_ml_context* context,
                                const aster_ml_buffer_view* view) {
  ASTER_API();
  BEGIN_IN(out, context);
  return buf::to_tensor(out, *impl, view);
}

int32_t aster_ml_view_copy(aster_ml_buffer_view* out, const aster_ml_buffer_view* view) {
  BEGIN(out, view);
  buf::Held held;
  ASTER_TRY(buf::check(&held, view));
  return buf::again(out, *view);
}

int32_t aster_ml_view_free(aster_ml_buffer_view* view) {
  ASTER_API();
  if (view == nullptr) return ASTER_ML_OK;
  bool ours;
  const aster::Status status = buf::disown(view->shape, &ours);
  *view = aster_ml_buffer_view{};
  return status;
}

int32_t aster_ml_view_is_layout(const aster_ml_buffer_view* view, aster_ml_layout layout) {
  if (!buf::lives(view)) return 0;
  if (layout == ASTER_ML_LAYOUT_STRIDED || layout == ASTER_ML_LAYOUT_MORTON)
    return view->layout == layout;
  if (layout != ASTER_ML_LAYOUT_ROW_MAJOR && layout != ASTER_ML_LAYOUT_COLUMN_MAJOR) return 0;
  return buf::is_dense(*view, layout == ASTER_ML_LAYOUT_COLUMN_MAJOR);
}

int32_t aster_ml_view_is_contiguous(const aster_ml_buffer_view* view) {
  return aster_ml_view_is_layout(view, ASTER_ML_LAYOUT_ROW_MAJOR);
}

int32_t aster_ml_view_is_writable(const aster_ml_buffer_view* view) {
  return buf::lives(view) && (view->flags & ASTER_ML_VIEW_READ_ONLY) == 0;
}

int32_t aster_ml_view_is_host(const aster_ml_buffer_view* view) {
  return buf::lives(view) && (view->flags & ASTER_ML_VIEW_DEVICE) == 0;
}

int32_t aster_ml_view_is_device(const aster_ml_buffer_view* view) {
  return buf::lives(view) && (view->flags & ASTER_ML_VIEW_DEVICE) != 0;
}

int32_t aster_ml_view_is_pinned(const aster_ml_buffer_view* view) {
  return buf::lives(view) && (view->flags & ASTER_ML_VIEW_PINNED) != 0;
}

int32_t aster_ml_view_is_shared(const aster_ml_buffer_view* view) {
  return buf::lives(view) && (view->flags & ASTER_ML_VIEW_SHARED) != 0;
}

size_t aster_ml_view_count(const aster_ml_buffer_view* view) {
  if (!buf::lives(view)) return 0;
  size_t count = 1;
  for (size_t i = 0; i < view->ndim; ++i) count *= view->shape[i];
  return count;
}

int32_t aster_ml_view_ensure_contiguous(aster_ml_buffer_view* out, const aster_ml_context* context,
                                        const aster_ml_buffer_view* view) {
  ASTER_API();
  if (aster_ml_view_is_contiguous(view) != 0) return aster_ml_view_copy(out, view);
  return aster_ml_view_to_layout(out, context, view, ASTER_ML_LAYOUT_ROW_MAJOR);
}

int32_t aster_ml_view_to_device(aster_ml_buffer_view* out, const aster_ml_context* context,
                                const aster_ml_buffer_view* view, int32_t device) {
  ASTER_API();
  if (out == view) return ASTER_FAIL(kARGUMENT, "out is null or the view");
  BEGIN_IN(out, context);
  ASTER_TRY(aster::device::canonical(&device, device));
  buf::Held held;
  ASTER_TRY(buf::check(&held, view));
  if (view->memory.device == device) return buf::again(out, *view);
  buf::Held strided, storage;
  ASTER_TRY(buf::check_strided(&strided, view));
  ASTER_TRY(buf::copied(storage.room(), *impl, *view, device, false));
  return buf::dense(out, &storage, *view, false);
}

int32_t aster_ml_view_to_layout(aster_ml_buffer_view* out, const aster_ml_context* context,
                                const aster_ml_buffer_view* view, aster_ml_layout layout) {
  ASTER_API();
  if (out == view) return ASTER_FAIL(kARGUMENT, "out is null or the view");
  BEGIN_IN(out, context);
  buf::Held held;
  ASTER_TRY(buf::check(&held, view));
  return buf::to_layout(out, *impl, *view, layout);
}

int32_t aster_ml_view_slice(aster_ml_buffer_view* out, const aster_ml_buffer_view* view,
                            size_t axis, int64_t start, int64_t stop, int64_t step) {
  BEGIN(out, view);
  return buf::slice(out, view, axis, start, stop, step);
}

int32_t aster_ml_view_flip(aster_ml_buffer_view* out, const aster_ml_buffer_view* view,
                           size_t axis) {
  BEGIN(out, view);
  buf::Held held;
  ASTER_TRY(buf::check(&held, view));
  ASTER_TRY(buf::check_axis(*view, axis));
  return buf::slice(out, view, axis, static_cast<int64_t>(view->shape[axis]) - 1, -1, -1);
}

int32_t aster_ml_view_split_at(aster_ml_buffer_view* low, aster_ml_buffer_view* high,
                               const aster_ml_buffer_view* view, size_t axis, size_t index) {
  ASTER_API();
  for (aster_ml_buffer_view* out : {low, high}) {
    if (out != nullptr && out != view) *out = {};
  }
  if (low == nullptr || high == nullptr || low == high || low == view || high == view)
    return ASTER_FAIL(kARGUMENT, "low and high are null, one or the view");
  return buf::split(low, high, view, axis, index);
}

}  // extern "C"
