// The public functions on dense strided descriptors.
#include <cstring>

#include "buffer/storage.h"
#include "buffer/strided.h"
#include "buffer/tensor.h"
#include "device/device.h"
#include "dtype/dtype.h"

namespace aster::buffer {
namespace {

// *out is null for 0 axes.
Status make_axes(Storage** out, aster_ml_tensor* tensor, Context& context, size_t ndim,
                 const size_t* shape, const ptrdiff_t* strides) {
  *out = nullptr;
  tensor->ndim = ndim;
  if (ndim == 0) return kOk;
  ASTER_TRY(axes_create(out, &tensor->shape, &tensor->strides, context, ndim));
  std::memcpy(tensor->shape, shape, ndim * sizeof(size_t));
  if (strides != nullptr) {
    std::memcpy(tensor->strides, strides, ndim * sizeof(ptrdiff_t));
  } else {
    row_major(tensor->strides, ndim, shape);
  }
  return kOk;
}

// A tensor's reference of its memory ends with its axes, whose address is no other tensor's;
// without axes the memory's own address has to do.
void hold(Storage* axes, Storage* storage) {
  if (axes != nullptr) {
    axes->held = storage;
  } else if (storage != nullptr && storage->data != nullptr) {
    own(storage);
  } else {
    storage_release(storage);
  }
}

void set_storage(aster_ml_tensor* tensor, const aster_ml_buffer& storage, size_t byte_offset) {
  tensor->storage = storage;
  tensor->byte_offset = byte_offset;
  tensor->dtype = storage.dtype;
  tensor->device = storage.device;
}

Status init(aster_ml_tensor* out, Context& context, int32_t dtype, int32_t device, size_t ndim,
            const size_t* shape) {
  dtype::DType d;
  ASTER_TRY(dtype::from_any_storage_code(&d, dtype));
  size_t count, bytes;
  ASTER_TRY(count_elements(&count, &bytes, ndim, shape, dtype::size(d)));
  ASTER_TRY(create(out, context, d, device, bytes, ndim, shape));
  out->dtype = out->storage.dtype = dtype;
  return kOk;
}

Status check_elements(const aster_ml_tensor* tensor, const void* host, size_t count) {
  ASTER_TRY(check_tensor(tensor));
  const size_t has = aster_ml_tensor_count(tensor);
  if (has != count) return ASTER_FAIL(kRANGE, "%zu elements for a tensor of %zu", count, has);
  if (host == nullptr && count != 0) return ASTER_FAIL(kARGUMENT, "host is null");
  return kOk;
}

}  // namespace

Status create(aster_ml_tensor* out, Context& context, dtype::DType dtype, int32_t device,
              size_t bytes, size_t ndim, const size_t* shape) {
  aster_ml_tensor made{};
  Storage *storage, *axes;
  if (ndim == 0) {
    ASTER_TRY(storage_create(&storage, context, bytes, device));
    hold(nullptr, storage);
  } else {
    ASTER_TRY(storage_create_with_axes(&storage, &axes, context, bytes, device,
                                       ndim * (sizeof(size_t) + sizeof(ptrdiff_t))));
    made.ndim = ndim;
    made.shape = static_cast<size_t*>(axes->data);
    made.strides = static_cast<ptrdiff_t*>(static_cast<void*>(made.shape + ndim));
    std::memcpy(made.shape, shape, ndim * sizeof(size_t));
    row_major(made.strides, ndim, shape);
  }
  set_storage(&made, {storage->data, bytes, static_cast<int32_t>(dtype), storage->device}, 0);
  *out = made;
  return kOk;
}

Status describe(aster_ml_tensor* out, Context& context, void* data, dtype::DType dtype,
                int32_t device, std::span<const int64_t> shape, size_t byte_offset) {
  Vec<size_t> dims(context.heap());
  size_t bytes = dtype::size(dtype);
  for (int64_t dim : shape) {
    ASTER_TRY(dims.push(static_cast<size_t>(dim)));
    bytes *= static_cast<size_t>(dim);
  }
  aster_ml_tensor made{};
  Storage* axes;
  ASTER_TRY(make_axes(&axes, &made, context, dims.size(), dims.data(), nullptr));
  set_storage(&made, {data, bytes + byte_offset, static_cast<int32_t>(dtype), device}, byte_offset);
  *out = made;
  return kOk;
}

Status axes_create(Storage** axes, size_t** shape, ptrdiff_t** strides, Context& context,
                   size_t ndim) {
  const size_t room = ndim != 0 ? ndim : 1;
  ASTER_TRY(storage_create(axes, context, room * (sizeof(size_t) + sizeof(ptrdiff_t)), 0));
  own(*axes);
  *shape = static_cast<size_t*>((*axes)->data);
  *strides = static_cast<ptrdiff_t*>(static_cast<void*>(*shape + room));
  return kOk;
}

Storage* storage_of(const aster_ml_tensor& tensor) {
  const aster_ml_buffer& memory = tensor.storage;
  Storage* storage = storage_behind(tensor.shape);
  if (storage != nullptr && storage->data == memory.data) return storage;
  storage_release(storage);
  return device::is_host(memory.device) ? storage_around(memory.data, memory.bytes)
                                        : storage_find(memory.data);
}

Status describe_in(aster_ml_tensor* out, Context& context, const aster_ml_buffer& memory,
                   Storage* storage, size_t byte_offset, size_t ndim, const size_t* shape,
                   const ptrdiff_t* strides) {
  size_t count, bytes;
  ASTER_TRY(count_elements(&count, &bytes, ndim, shape, 1));
  aster_ml_tensor made{};
  Storage* axes;
  ASTER_TRY(make_axes(&axes, &made, context, ndim, shape, strides));
  set_storage(&made, memory, byte_offset);
  if (const Status status = check_tensor(&made); !status.ok()) {
    ASTER_TRY(disown(made.shape));
    return status;
  }
  hold(axes, storage);
  *out = made;
  return kOk;
}

}  // namespace aster::buffer

namespace buf = aster::buffer;

extern "C" {

int32_t aster_ml_tensor_init(aster_ml_tensor* out, const aster_ml_context* context, int32_t dtype,
                             int32_t device, size_t ndim, const size_t* shape) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = aster_ml_tensor{};
  aster::Context* impl = aster::context_of(context);
  const aster::ContextLock lock(impl);
  ASTER_TRY(lock.status());
  return buf::init(out, *impl, dtype, device, ndim, shape);
}

int32_t aster_ml_tensor_from_data(aster_ml_tensor* out, const aster_ml_context* context,
                                  const void* data, int32_t dtype, size_t ndim,
                                  const size_t* shape) {
  ASTER_API();
  ASTER_TRY((aster::Status{aster_ml_tensor_init(out, context, dtype, 0, ndim, shape)}));
  if (out->storage.bytes == 0) return ASTER_ML_OK;
  if (data == nullptr) {
    aster_ml_tensor_free(out);
    return ASTER_FAIL(kARGUMENT, "data is null");
  }
  std::memcpy(out->storage.data, data, out->storage.bytes);
  return ASTER_ML_OK;
}

int32_t aster_ml_tensor_from_buffer(aster_ml_tensor* out, const aster_ml_context* context,
                                    const aster_ml_buffer* buffer, size_t byte_offset, size_t ndim,
                                    const size_t* shape, const ptrdiff_t* strides) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = aster_ml_tensor{};
  if (buffer == nullptr) return ASTER_FAIL(kARGUMENT, "buffer is null");
  aster::Context* impl = aster::context_of(context);
  const aster::ContextLock lock(impl);
  ASTER_TRY(lock.status());
  buf::Storage* storage = buf::storage_find(buffer->data);
  const aster::Status status =
      buf::describe_in(out, *impl, *buffer, storage, byte_offset, ndim, shape, strides);
  if (!status.ok()) buf::storage_release(storage);
  return status;
}

int32_t aster_ml_tensor_free(aster_ml_tensor* tensor) {
  ASTER_API();
  if (tensor == nullptr) return ASTER_ML_OK;
  bool ours;
  aster::Status status = buf::disown(tensor->shape, &ours);
  // 0-d, or axes of the caller's own
  if (status.ok() && !ours) status = buf::disown(tensor->storage.data, nullptr, tensor->ndim != 0);
  *tensor = aster_ml_tensor{};
  return status;
}

size_t aster_ml_tensor_count(const aster_ml_tensor* tensor) {
  if (tensor == nullptr || (tensor->ndim != 0 && tensor->shape == nullptr)) return 0;
  size_t count = 1;
  for (size_t i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

int32_t aster_ml_tensor_is_contiguous(const aster_ml_tensor* tensor) {
  if (tensor == nullptr) return 0;
  if (tensor->ndim != 0 && (tensor->shape == nullptr || tensor->strides == nullptr)) return 0;
  return buf::is_row_major(tensor->ndim, tensor->shape, tensor->strides);
}

int32_t aster_ml_tensor_contiguous(aster_ml_tensor* out, const aster_ml_context* context,
                                   const aster_ml_tensor* source) {
  ASTER_API();
  if (out == nullptr || out == source) return ASTER_FAIL(kARGUMENT, "out is null or the source");
  *out = aster_ml_tensor{};
  ASTER_TRY(buf::check_tensor(source));
  aster_ml_tensor made;
  ASTER_TRY((aster::Status{aster_ml_tensor_init(
      &made, context, source->dtype, source->storage.device, source->ndim, source->shape)}));
  const aster::Status status = buf::gather(made.storage.data, made.storage.device, *source);
  if (!status.ok()) {
    aster_ml_tensor_free(&made);
    return status;
  }
  *out = made;
  return ASTER_ML_OK;
}

int32_t aster_ml_tensor_copy_in(const aster_ml_tensor* tensor, const void* host, size_t count) {
  ASTER_API();
  ASTER_TRY(buf::check_elements(tensor, host, count));
  if (aster_ml_buffer_is_read_only(&tensor->storage) != 0) {
    return ASTER_FAIL(kARGUMENT, "the tensor is read-only");
  }
  return buf::scatter(*tensor, host);
}

int32_t aster_ml_tensor_copy_out(void* host, const aster_ml_tensor* tensor, size_t count) {
  ASTER_API();
  ASTER_TRY(buf::check_elements(tensor, host, count));
  return buf::gather(host, buf::kHost, *tensor);
}

}  // extern "C"
