// DLPack: managed tensors of our memory, and tensors in the memory of managed ones.
#include "aster_ml/dlpack.h"

#include <cstddef>

#include "base/checked.h"
#include "buffer/storage.h"
#include "buffer/strided.h"
#include "buffer/tensor.h"
#include "device/device.h"
#include "device/native.h"
#include "dtype/dtype.h"

namespace aster::buffer {
namespace {

using Managed = aster_ml_dlpack_managed;
using Legacy = aster_ml_dlpack_legacy;
using dtype::DType;
constexpr int32_t kCuda = ASTER_ML_DEVICE_CUDA;

// The layouts of dlpack.h, where pointers have 8 bytes.
static_assert(sizeof(void*) == 8 && sizeof(size_t) == sizeof(int64_t));
static_assert(sizeof(aster_ml_dlpack_tensor) == 48 && sizeof(Legacy) == 64);
static_assert(sizeof(Managed) == 80 && offsetof(Managed, flags) == 24);
static_assert(offsetof(aster_ml_dlpack_tensor, byte_offset) == 40);

struct TypeRow {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeRow kTypes[] = {
    {DType::kBool, 6, 8},      {DType::kInt8, 0, 8},        {DType::kInt16, 0, 16},
    {DType::kInt32, 0, 32},    {DType::kInt64, 0, 64},      {DType::kUInt8, 1, 8},
    {DType::kUInt16, 1, 16},   {DType::kUInt32, 1, 32},     {DType::kUInt64, 1, 64},
    {DType::kFloat16, 2, 16},  {DType::kFloat32, 2, 32},    {DType::kFloat64, 2, 64},
    {DType::kBFloat16, 4, 16}, {DType::kFp8E4M3, 10, 8},    {DType::kFp8E4M3Fnuz, 11, 8},
    {DType::kFp8E5M2, 12, 8},  {DType::kFp8E5M2Fnuz, 13, 8}};

// Types of devices: ours (0: none, UNSUPPORTED by name) and the kind of their memory. The first row
// that fits is exported.
struct DeviceRow {
  int32_t type;
  const char* name;
  int32_t device;
  uint8_t kind;
};
constexpr DeviceRow kDevices[] = {
    {ASTER_ML_DLPACK_CPU, "CPU", device::kCpu, ASTER_ML_MEMORY_NORMAL},
    {ASTER_ML_DLPACK_CUDA_HOST, "CUDAHost", device::kCpu, ASTER_ML_MEMORY_PINNED},
    {ASTER_ML_DLPACK_ROCM_HOST, "ROCMHost", device::kCpu, ASTER_ML_MEMORY_NORMAL},
    {ASTER_ML_DLPACK_CUDA_MANAGED, "CUDAManaged", device::kCpu, ASTER_ML_MEMORY_UNIFIED},
    {ASTER_ML_DLPACK_CUDA, "CUDA", ASTER_ML_DEVICE_CUDA, ASTER_ML_MEMORY_DEVICE},
    {ASTER_ML_DLPACK_OPENCL, "OpenCL", ASTER_ML_DEVICE_OPENCL, ASTER_ML_MEMORY_DEVICE},
    {7, "Vulkan", 0, 0},
    {ASTER_ML_DLPACK_METAL, "Metal", ASTER_ML_DEVICE_METAL, ASTER_ML_MEMORY_DEVICE},
    {9, "VPI", 0, 0},
    {ASTER_ML_DLPACK_ROCM, "ROCM", ASTER_ML_DEVICE_ROCM, ASTER_ML_MEMORY_DEVICE},
    {12, "ExtDev", 0, 0},
    {14, "OneAPI", 0, 0},
    {15, "WebGPU", 0, 0},
    {16, "Hexagon", 0, 0},
    {17, "MAIA", 0, 0},
    {18, "Trn", 0, 0},
};

// ---- Out ----

// What a managed tensor stands in, with its shape and strides behind it.
template <class M>
struct Exported {
  M managed;
  Context* context;
  Storage* storage;  // null for memory that the library does not know
  size_t bytes;      // of this
};

template <class M>
void delete_export(M* managed) {
  if (managed == nullptr) return;
  auto* made = static_cast<Exported<M>*>(managed->manager);
  Context* context = made->context;
  storage_release(made->storage);
  context->heap().release(made, made->bytes, alignof(Exported<M>));
  context->release();
}

Status export_device(aster_ml_dlpack_device* out, int32_t device, int32_t kind) {
  const bool host = device::is_host(device);
  const int32_t type = device::type(host ? device::kCpu : device);
  for (const DeviceRow& row : kDevices) {
    if (device::type(row.device) != type || row.kind != kind) continue;
    *out = {row.type, host ? 0 : device::index(device)};
    return kOk;
  }
  return ASTER_FAIL(kUNSUPPORTED, "DLPack has no type for memory on %s", device::name(device).text);
}

// How others name memory on a device.
Status share(void** handle, int32_t device, void* data) {
  const aster_ml_backend* backend;
  ASTER_TRY(device::backend(&backend, device));
  const device::NativeMemory* native = device::native_memory(backend);
  *handle = data;
  return native == nullptr || data == nullptr ? kOk
                                              : native->share(handle, device::index(device), data);
}

Status describe(aster_ml_dlpack_tensor* out, const aster_ml_tensor& tensor, int32_t kind) {
  int32_t device;
  ASTER_TRY(device::canonical(&device, tensor.storage.device));
  ASTER_TRY(export_device(&out->device, device, kind));
  if (tensor.ndim > static_cast<size_t>(INT32_MAX))
    return ASTER_FAIL(kRANGE, "%zu axes", tensor.ndim);
  out->ndim = static_cast<int32_t>(tensor.ndim);
  for (const TypeRow& row : kTypes) {
    if (static_cast<int32_t>(row.dtype) == tensor.dtype) out->dtype = {row.code, row.bits, 1};
  }
  if (out->dtype.bits == 0) {
    return ASTER_FAIL(kUNSUPPORTED, "DLPack has no type for elements of %s",
                      aster_ml_dtype_name(tensor.dtype));
  }
  // Of addresses the offset is a part: there are users that forget it.
  char* data = static_cast<char*>(tensor.storage.data);
  if (device::is_host(device)) {
    out->data = data != nullptr ? data + tensor.byte_offset : data;
    return kOk;
  }
  out->byte_offset = tensor.byte_offset;
  return share(&out->data, device, data);
}

template <class M>
Status make_export(M** out, Context& context, const aster_ml_tensor& tensor, Storage* storage,
                   const aster_ml_dlpack_tensor& described) {
  const size_t axes = tensor.ndim * sizeof(int64_t);
  const size_t bytes = sizeof(Exported<M>) + 2 * axes;
  void* memory = context.heap().allocate(bytes, alignof(Exported<M>));
  if (memory == nullptr) return out_of_memory(bytes);
  auto* made = ::new (memory) Exported<M>{{}, &context, storage, bytes};
  made->managed.tensor = described;
  auto* shape = static_cast<int64_t*>(static_cast<void*>(made + 1));
  made->managed.tensor.shape = shape;
  made->managed.tensor.strides = shape + tensor.ndim;
  for (size_t i = 0; i < tensor.ndim; ++i) {
    shape[i] = static_cast<int64_t>(tensor.shape[i]);
    shape[tensor.ndim + i] = tensor.strides[i];
  }
  made->managed.manager = made;
  made->managed.deleter = delete_export<M>;
  context.retain();
  *out = &made->managed;
  return kOk;
}

// flags null: of the form that has none.
template <class M>
Status export_tensor(M** out, Context& context, const aster_ml_tensor* tensor, uint64_t* flags) {
  ASTER_TRY(check_tensor(tensor));
  Storage* storage = storage_of(*tensor);
  const bool read_only = storage != nullptr && storage->read_only;
  const bool host = device::is_host(tensor->storage.device);
  aster_ml_dlpack_tensor described{};
  Status status;
  if (read_only && flags == nullptr) {
    status = ASTER_FAIL(kSTATE, "the memory is read-only, which unversioned DLPack cannot tell");
  } else {
    // DLPack knows pinned and unified memory of CUDA alone.
    const bool named = storage != nullptr &&
                       (storage->home == 0 || device::same_type(storage->home, kCuda) || !host);
    const int32_t device_kind = host ? ASTER_ML_MEMORY_NORMAL : ASTER_ML_MEMORY_DEVICE;
    status = describe(&described, *tensor, named ? storage->kind : device_kind);
  }
  if (status.ok()) status = make_export(out, context, *tensor, storage, described);
  if (!status.ok()) storage_release(storage);
  if (read_only && flags != nullptr) *flags |= ASTER_ML_DLPACK_READ_ONLY;
  return status;
}

// ---- In ----

template <class M>
void release_managed(void* self, void*, size_t) {
  auto* managed = static_cast<M*>(self);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

Status import_dtype(DType* out, const aster_ml_dlpack_dtype& type) {
  for (const TypeRow& row : kTypes) {
    if (row.code != type.code || row.bits != type.bits || type.lanes != 1) continue;
    *out = row.dtype;
    return kOk;
  }
  return ASTER_FAIL(kUNSUPPORTED, "no dtype for elements of code %d, %d bits and %d lanes",
                    type.code, type.bits, type.lanes);
}

Status import_device(int32_t* out, uint8_t* kind, const aster_ml_dlpack_device& given) {
  const DeviceRow* row = nullptr;
  for (const DeviceRow& each : kDevices) {
    if (each.type == given.type) row = &each;
  }
  if (row == nullptr) return ASTER_FAIL(kUNSUPPORTED, "%d is no type of devices", given.type);
  if (row->device == 0)
    return ASTER_FAIL(kUNSUPPORTED, "no backend serves memory on %s", row->name);
  *kind = row->kind;
  *out = row->device;
  if (row->device == device::kCpu) return kOk;
  if (given.id < 0 || given.id >= device::kIndices)
    return ASTER_FAIL(kRANGE, "%s: %d is no number of a device", row->name, given.id);
  *out += given.id;
  const aster_ml_backend* backend;
  return device::backend(&backend, *out);
}

Status check_fields(const aster_ml_dlpack_tensor& tensor, bool* empty) {
  if (tensor.ndim < 0) return ASTER_FAIL(kRANGE, "%d axes", tensor.ndim);
  if (tensor.ndim != 0 && tensor.shape == nullptr) return ASTER_FAIL(kARGUMENT, "shape is null");
  *empty = false;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) {
      return ASTER_FAIL(kRANGE, "axis %d has %lld elements", i,
                        static_cast<long long>(tensor.shape[i]));
    }
    *empty |= tensor.shape[i] == 0;
  }
  return kOk;
}

// Memory on a device as its backend knows it; *adopted: which that has to release again.
Status adopt(aster_ml_buffer* memory, const aster_ml_backend** adopted) {
  const aster_ml_backend* backend;
  *adopted = nullptr;
  ASTER_TRY(device::backend(&backend, memory->device));
  const device::NativeMemory* native = device::native_memory(backend);
  if (native == nullptr) return kOk;
  ASTER_TRY(
      native->adopt(&memory->data, device::index(memory->device), memory->data, memory->bytes));
  *adopted = backend;
  return kOk;
}

// The storage of a managed tensor's memory, which is released with it.
template <class M>
Status wrap_managed(Storage** out, Context& context, M* managed, aster_ml_buffer* memory,
                    bool read_only) {
  const aster_ml_backend* adopted;
  ASTER_TRY(adopt(memory, &adopted));
  const auto release = release_managed<M>;
  Status status = storage_waits(memory->data, release, managed)
                      ? ASTER_FAIL(kSTATE, "this managed tensor is imported already")
                      : storage_wrap(out, context, memory->data, memory->bytes, memory->device,
                                     read_only, release, managed);
  if (adopted == nullptr) return status;
  if (status.ok()) {
    (*out)->home = memory->device;
  } else {
    const SavedError why;
    adopted->release(adopted->self, device::index(memory->device), memory->data, memory->bytes);
    why.restore();
  }
  return status;
}

template <class M>
Status import_tensor(aster_ml_tensor* out, Context& context, M* managed, bool read_only) {
  const aster_ml_dlpack_tensor& tensor = managed->tensor;
  bool empty;
  ASTER_TRY(check_fields(tensor, &empty));
  DType dtype;
  ASTER_TRY(import_dtype(&dtype, tensor.dtype));
  Extent extent{};
  aster_ml_buffer memory{nullptr, 0, static_cast<int32_t>(dtype), 0};
  uint8_t kind;
  ASTER_TRY(import_device(&memory.device, &kind, tensor.device));
  const auto ndim = static_cast<size_t>(tensor.ndim);
  const auto* shape = reinterpret_cast<const size_t*>(tensor.shape);
  const size_t size = dtype::size(dtype);
  Storage* storage = nullptr;
  if (!empty) {
    ASTER_TRY(surround(&extent, {tensor.data, tensor.byte_offset, device::is_host(memory.device),
                                 size, ndim, shape, tensor.strides, size}));
    memory.data = extent.data;
    memory.bytes = extent.bytes;
    ASTER_TRY(wrap_managed(&storage, context, managed, &memory, read_only));
    storage->kind = kind;
  }
  const Status status = describe_in(out, context, memory, storage, extent.first, ndim, shape,
                                    empty ? nullptr : tensor.strides);
  if (!status.ok() && storage != nullptr) {
    storage->release = nullptr;  // it is the caller's still
    storage_release(storage);
  }
  if (status.ok() && empty) release_managed<M>(managed, nullptr, 0);
  return status;
}

}  // namespace
}  // namespace aster::buffer

namespace buf = aster::buffer;

extern "C" {

int32_t aster_ml_dlpack_export(aster_ml_dlpack_managed** out, const aster_ml_context* context,
                               const aster_ml_tensor* tensor, uint64_t flags) {
  if (out != nullptr) *out = nullptr;
  aster::Context* impl = aster::context_of(context);
  ASTER_ENTER(impl);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  if ((flags & ~uint64_t{ASTER_ML_DLPACK_READ_ONLY | ASTER_ML_DLPACK_COPIED}) != 0) {
    return ASTER_FAIL(kARGUMENT, "flags %llu: none but READ_ONLY and COPIED are given",
                      static_cast<unsigned long long>(flags));
  }
  ASTER_TRY(buf::export_tensor(out, *impl, tensor, &flags));
  (*out)->version_major = ASTER_ML_DLPACK_MAJOR;
  (*out)->version_minor = ASTER_ML_DLPACK_MINOR;
  (*out)->flags = flags;
  return ASTER_ML_OK;
}

int32_t aster_ml_dlpack_export_legacy(aster_ml_dlpack_legacy** out, const aster_ml_context* context,
                                      const aster_ml_tensor* tensor) {
  if (out != nullptr) *out = nullptr;
  aster::Context* impl = aster::context_of(context);
  ASTER_ENTER(impl);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  return buf::export_tensor(out, *impl, tensor, nullptr);
}

int32_t aster_ml_dlpack_import(aster_ml_tensor* out, const aster_ml_context* context,
                               aster_ml_dlpack_managed* managed) {
  if (out != nullptr) *out = aster_ml_tensor{};
  aster::Context* impl = aster::context_of(context);
  ASTER_ENTER(impl);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  if (managed == nullptr) return ASTER_FAIL(kARGUMENT, "managed is null");
  if (managed->version_major == 0) return ASTER_FAIL(kFORMAT, "no version: is it a legacy one?");
  if (managed->version_major > ASTER_ML_DLPACK_MAJOR) {
    return ASTER_FAIL(kUNSUPPORTED, "version %u.%u of DLPack is newer than %d.%d",
                      managed->version_major, managed->version_minor, ASTER_ML_DLPACK_MAJOR,
                      ASTER_ML_DLPACK_MINOR);
  }
  const bool read_only = (managed->flags & ASTER_ML_DLPACK_READ_ONLY) != 0;
  return buf::import_tensor(out, *impl, managed, read_only);
}

int32_t aster_ml_dlpack_import_legacy(aster_ml_tensor* out, const aster_ml_context* context,
                                      aster_ml_dlpack_legacy* managed) {
  if (out != nullptr) *out = aster_ml_tensor{};
  aster::Context* impl = aster::context_of(context);
  ASTER_ENTER(impl);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  if (managed == nullptr) return ASTER_FAIL(kARGUMENT, "managed is null");
  return buf::import_tensor(out, *impl, managed, false);
}

}  // extern "C"
