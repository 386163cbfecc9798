// The public functions on buffers and their parts.
#include <cstddef>

#include "buffer/storage.h"
#include "device/device.h"
#include "dtype/dtype.h"

namespace aster::buffer {
namespace {

Status check_elements(size_t bytes, int32_t code) {
  dtype::DType d;
  ASTER_TRY(dtype::from_any_storage_code(&d, code));
  if (bytes % dtype::size(d) != 0) {
    return ASTER_FAIL(kRANGE, "%zu bytes are no whole number of %s", bytes, dtype::name(d));
  }
  return kOk;
}

Status check_range(const aster_ml_buffer* buffer, const char* what, size_t offset, size_t bytes) {
  if (buffer == nullptr) return ASTER_FAIL(kARGUMENT, "%s is null", what);
  if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
    return ASTER_FAIL(kRANGE, "%zu bytes from %zu on are not inside %s of %zu bytes", bytes, offset,
                      what, buffer->bytes);
  }
  if (bytes != 0 && buffer->data == nullptr) return ASTER_FAIL(kARGUMENT, "%s is empty", what);
  return kOk;
}

Status check_writable(const aster_ml_buffer* buffer) {
  return aster_ml_buffer_is_read_only(buffer) != 0 ? ASTER_FAIL(kARGUMENT, "buffer is read-only")
                                                   : kOk;
}

Place place(const aster_ml_buffer* buffer, size_t offset) {
  return {buffer->data, offset, buffer->device};
}

// Host memory is only read through it where it is a source.
Place host(const void* memory) { return {const_cast<void*>(memory), 0, kHost}; }

void describe(aster_ml_buffer* out, Storage* storage, int32_t dtype) {
  out->data = storage->data;
  out->bytes = storage->bytes;
  out->dtype = dtype;
  out->device = storage->device;
  if (storage->data != nullptr) {
    own(storage);
  } else {
    storage_release(storage);  // nothing that could be found again
  }
}

Status wrap(aster_ml_buffer* out, Context& context, const aster_ml_buffer& foreign, bool read_only,
            aster_ml_release_function release, void* self) {
  ASTER_TRY(check_elements(foreign.bytes, foreign.dtype));
  if (foreign.data == nullptr && foreign.bytes != 0) return ASTER_FAIL(kARGUMENT, "data is null");
  const size_t size = dtype::size(static_cast<dtype::DType>(foreign.dtype));
  if (device::is_host(foreign.device) && reinterpret_cast<uintptr_t>(foreign.data) % size != 0) {
    return ASTER_FAIL(kARGUMENT, "data at %p is not aligned to its elements of %zu bytes",
                      foreign.data, size);
  }
  Storage* storage;
  ASTER_TRY(storage_wrap(&storage, context, foreign.data, foreign.bytes, foreign.device, read_only,
                         release, self));
  describe(out, storage, foreign.dtype);
  return kOk;
}

}  // namespace
}  // namespace aster::buffer

namespace buf = aster::buffer;

extern "C" {

int32_t aster_ml_buffer_init(aster_ml_buffer* out, const aster_ml_context* context, size_t bytes,
                             int32_t dtype, int32_t device) {
  ASTER_API();
  const bool host = aster::device::is_host(device);
  return aster_ml_buffer_init_kind(out, context, bytes, dtype, device,
                                   host ? ASTER_ML_MEMORY_NORMAL : ASTER_ML_MEMORY_DEVICE);
}

int32_t aster_ml_buffer_init_kind(aster_ml_buffer* out, const aster_ml_context* context,
                                  size_t bytes, int32_t dtype, int32_t device, int32_t kind) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = aster_ml_buffer{};
  aster::Context* impl = aster::context_of(context);
  const aster::ContextLock lock(impl);
  ASTER_TRY(lock.status());
  ASTER_TRY(buf::check_elements(bytes, dtype));
  buf::Storage* storage;
  ASTER_TRY(buf::storage_create_kind(&storage, *impl, bytes, device, kind));
  buf::describe(out, storage, dtype);
  return ASTER_ML_OK;
}

int32_t aster_ml_buffer_from_memory(aster_ml_buffer* out, const aster_ml_context* context,
                                    void* data, size_t bytes, int32_t dtype, int32_t device,
                                    int32_t read_only, aster_ml_release_function release,
                                    void* self) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = aster_ml_buffer{};
  aster::Context* impl = aster::context_of(context);
  const aster::ContextLock lock(impl);
  ASTER_TRY(lock.status());
  return buf::wrap(out, *impl, {data, bytes, dtype, device}, read_only != 0, release, self);
}

int32_t aster_ml_buffer_free(aster_ml_buffer* buffer) {
  ASTER_API();
  if (buffer == nullptr) return ASTER_ML_OK;
  const aster::Status status = buf::disown(buffer->data);
  *buffer = aster_ml_buffer{};
  return status;
}

int32_t aster_ml_buffer_is_read_only(const aster_ml_buffer* buffer) {
  if (buffer == nullptr) return 0;
  buf::Storage* storage = buf::storage_find(buffer->data);
  if (storage == nullptr) return 0;
  const bool read_only = storage->read_only;
  buf::storage_release(storage);
  return read_only;
}

int32_t aster_ml_buffer_memory_kind(const aster_ml_buffer* buffer) {
  if (buffer == nullptr) return ASTER_ML_MEMORY_NORMAL;
  const bool host = aster::device::is_host(buffer->device);
  buf::Storage* storage = buf::storage_find(buffer->data);
  const int32_t device = host ? ASTER_ML_MEMORY_NORMAL : ASTER_ML_MEMORY_DEVICE;
  const int32_t kind = storage != nullptr ? storage->kind : device;
  buf::storage_release(storage);
  return kind;
}

int32_t aster_ml_buffer_copy(const aster_ml_buffer* buffer, size_t offset,
                             const aster_ml_buffer* source, size_t source_offset, size_t bytes) {
  ASTER_API();
  ASTER_TRY(buf::check_range(buffer, "buffer", offset, bytes));
  ASTER_TRY(buf::check_range(source, "source", source_offset, bytes));
  ASTER_TRY(buf::check_writable(buffer));
  return buf::copy(buf::place(buffer, offset), buf::place(source, source_offset), bytes);
}

int32_t aster_ml_buffer_copy_in(const aster_ml_buffer* buffer, size_t offset, const void* host,
                                size_t bytes) {
  ASTER_API();
  ASTER_TRY(buf::check_range(buffer, "buffer", offset, bytes));
  if (host == nullptr && bytes != 0) return ASTER_FAIL(kARGUMENT, "host is null");
  ASTER_TRY(buf::check_writable(buffer));
  return buf::copy(buf::place(buffer, offset), buf::host(host), bytes);
}

int32_t aster_ml_buffer_copy_out(void* host, const aster_ml_buffer* buffer, size_t offset,
                                 size_t bytes) {
  ASTER_API();
  ASTER_TRY(buf::check_range(buffer, "buffer", offset, bytes));
  if (host == nullptr && bytes != 0) return ASTER_FAIL(kARGUMENT, "host is null");
  return buf::copy(buf::host(host), buf::place(buffer, offset), bytes);
}

}  // extern "C"
