// Memory and copies of OpenCL's devices, and the table.
#include "runtime/opencl/backend.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "aster_ml/view.h"
#include "base/context.h"
#include "device/device.h"
#include "device/native.h"
#include "runtime/opencl/devices.h"

namespace aster::runtime::opencl {
namespace {

constinit Mutex g_mutex;
constinit Platforms g_platforms;
constinit aster_ml_backend g_table{};
constinit std::atomic<bool> g_found{false};

constexpr size_t kSpareBytes = size_t{1} << 20;  // of the smallest one that is kept
constinit Mutex g_spare_mutex;

Buffer* take_spare(Device& device, size_t bytes) {
  const MutexLock lock(g_spare_mutex);
  for (Buffer*& one : device.spare) {
    if (one != nullptr && one->bytes == bytes) return std::exchange(one, nullptr);
  }
  return nullptr;
}

// The buffer that is let go in place of this one: null, itself, or one that was kept before.
Buffer* keep_spare(Device& device, Buffer* buffer) {
  if (buffer->mapped || buffer->shared || buffer->bytes < kSpareBytes) return buffer;
  const MutexLock lock(g_spare_mutex);
  size_t held = buffer->bytes;
  for (const Buffer* one : device.spare) held += one != nullptr ? one->bytes : 0;
  if (held > device.info.memory_bytes / 8) return buffer;
  for (Buffer*& one : device.spare) {
    if (one == nullptr) return one = buffer, nullptr;
  }
  return std::exchange(device.spare[0], buffer);
}

// Drivers that compute on the host's memory do not ask for huge pages, without which reading much
// of it takes twice the time and more: what is large is given to them.
constexpr size_t kHugePage = size_t{2} << 20;

void* host_memory(const Device& device, size_t bytes, cl_bitfield flags) {
  const bool shares = device.info.kind == ASTER_ML_DEVICE_KIND_CPU &&
                      (device.info.flags & ASTER_ML_DEVICE_UNIFIED) != 0;
  if (!shares || flags != 0 || bytes < kHugePage || bytes > device.info.allocation_bytes) {
    return nullptr;
  }
  void* const out = process_heap().allocate(align_up(bytes, kHugePage), kHugePage);
  if (out != nullptr) madvise(out, align_up(bytes, kHugePage), MADV_HUGEPAGE);
  return out;
}

// The driver's hold on it went before.
void destroy(Buffer* buffer) {
  if (buffer->host != nullptr) {
    process_heap().release(buffer->host, align_up(buffer->bytes, kHugePage), kHugePage);
  }
  process_heap().destroy(buffer);
}

Status create(void** out, int32_t index, size_t bytes, cl_bitfield flags) {
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  if (flags == 0) {
    if (Buffer* const spare = take_spare(*device, bytes)) return *out = spare, kOk;
  }
  Buffer* const buffer = make_buffer(bytes);
  if (buffer == nullptr) return out_of_memory(sizeof(Buffer));
  buffer->mapped = flags != 0;
  buffer->host = host_memory(*device, bytes, flags);
  if (buffer->host != nullptr) flags |= CL_MEM_USE_HOST_PTR;
  const Api& cl = g_platforms.cl;
  cl_int error = CL_SUCCESS;
  buffer->memory = cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE | flags,
                                     std::max<size_t>(bytes, 1), buffer->host, &error);
  if (error != CL_SUCCESS) {
    destroy(buffer);
    return failed(*device, "clCreateBuffer", error);
  }
  *out = buffer;
  return kOk;
}

int32_t allocate(void*, void** out, int32_t index, size_t bytes) {
  return create(out, index, bytes, 0);
}

// Buffers that the host addresses for as long as they are there.
struct Mapped {
  void* at;
  Buffer* buffer;
};
constinit Mutex g_mapped_mutex;
constinit Vec<Mapped>* g_mapped = nullptr;

// Takes in what was mapped. Errors: MEMORY.
Status remember(const Mapped& one) {
  const MutexLock lock(g_mapped_mutex);
  if (g_mapped == nullptr) g_mapped = process_heap().create<Vec<Mapped>>(process_heap());
  return g_mapped != nullptr ? g_mapped->push(one) : out_of_memory(sizeof(*g_mapped));
}

// The buffer at an address of the host, no longer remembered; null: it is none.
Buffer* forget(const void* at) {
  const MutexLock lock(g_mapped_mutex);
  if (g_mapped == nullptr) return nullptr;
  for (Mapped& one : *g_mapped) {
    if (one.at != at) continue;
    Buffer* const out = one.buffer;
    one = g_mapped->back();
    g_mapped->pop();
    return out;
  }
  return nullptr;
}

Status map(void** out, int32_t index, size_t bytes) {
  void* data = nullptr;
  ASTER_TRY(create(&data, index, bytes, CL_MEM_ALLOC_HOST_PTR));
  Buffer* const buffer = static_cast<Buffer*>(data);
  Device& device = g_platforms.devices[index];
  const Api& cl = g_platforms.cl;
  cl_int error = CL_SUCCESS;
  void* const at = cl.clEnqueueMapBuffer(device.copies, buffer->memory, 1, CL_MAP_READ_WRITE, 0,
                                         std::max<size_t>(bytes, 1), 0, nullptr, nullptr, &error);
  Status status = error == CL_SUCCESS ? Status(kOk) : failed(device, "clEnqueueMapBuffer", error);
  if (status.ok() && reinterpret_cast<uintptr_t>(at) % 64 != 0) {
    status = ASTER_FAIL(kUNSUPPORTED, "OPENCL:%d: mapped memory is not aligned", index);
  }
  if (status.ok()) status = remember({at, buffer});
  if (!status.ok()) {
    if (error == CL_SUCCESS) {
      cl.clEnqueueUnmapMemObject(device.copies, buffer->memory, at, 0, nullptr, nullptr);
    }
    cl.clReleaseMemObject(buffer->memory);
    destroy(buffer);
    return status;
  }
  *out = at;
  return kOk;
}

// Where a device's memory is the host's nothing is gained by pinning some of it.
int32_t allocate_kind(void*, void** out, int32_t index, size_t bytes, int32_t kind) {
  const bool unified = (g_platforms.devices[index].info.flags & ASTER_ML_DEVICE_UNIFIED) != 0;
  if (kind == ASTER_ML_MEMORY_DEVICE) return create(out, index, bytes, 0);
  if (kind == (unified ? ASTER_ML_MEMORY_UNIFIED : ASTER_ML_MEMORY_PINNED)) {
    return map(out, index, bytes);
  }
  return ASTER_FAIL(kUNSUPPORTED, "OPENCL:%d: no memory of kind %d", index, kind);
}

// In the child of a fork the memory is the parent's.
void release(void*, int32_t index, void* data, size_t) {
  if (data == nullptr || g_platforms.process != getpid()) return;
  const Api& cl = g_platforms.cl;
  if (Buffer* const mapped = forget(data)) {
    const cl_queue queue = g_platforms.devices[index].copies;
    cl.clEnqueueUnmapMemObject(queue, mapped->memory, data, 0, nullptr, nullptr);
    cl.clFinish(queue);
    data = mapped;
  }
  if (!let_go(static_cast<Buffer*>(data))) return;
  Buffer* const gone = keep_spare(g_platforms.devices[index], static_cast<Buffer*>(data));
  if (gone == nullptr) return;
  cl.clReleaseMemObject(gone->memory);
  destroy(gone);
}

template <typename Copy>
int32_t copying(int32_t index, size_t bytes, const char* what, Copy copy) {
  if (bytes == 0) return ASTER_ML_OK;
  Device* device = nullptr;
  ASTER_TRY(use(&device, index));
  const cl_int error = copy(*device, g_platforms.cl);
  return error == CL_SUCCESS ? Status(kOk) : failed(*device, what, error);
}

int32_t copy_in(void*, int32_t index, void* data, size_t offset, const void* host, size_t bytes) {
  return copying(index, bytes, "clEnqueueWriteBuffer", [&](Device& device, const Api& cl) {
    return cl.clEnqueueWriteBuffer(device.copies, memory_of(data), 1, offset, bytes, host, 0,
                                   nullptr, nullptr);
  });
}

int32_t copy_out(void*, int32_t index, void* host, const void* data, size_t offset, size_t bytes) {
  return copying(index, bytes, "clEnqueueReadBuffer", [&](Device& device, const Api& cl) {
    return cl.clEnqueueReadBuffer(device.copies, memory_of(data), 1, offset, bytes, host, 0,
                                  nullptr, nullptr);
  });
}

int32_t copy(void*, int32_t index, void* data, size_t offset, const void* source,
             size_t source_offset, size_t bytes) {
  return copying(index, bytes, "clEnqueueCopyBuffer", [&](Device& device, const Api& cl) {
    const cl_int error = cl.clEnqueueCopyBuffer(device.copies, memory_of(source), memory_of(data),
                                                source_offset, offset, bytes, 0, nullptr, nullptr);
    return error == CL_SUCCESS ? cl.clFinish(device.copies) : error;
  });
}

int32_t describe(void*, int32_t index, aster_ml_device_info* out) {
  const aster_ml_device_info& info = g_platforms.devices[index].info;
  const uint32_t size = out->struct_size;
  memcpy(out, &info, std::min<size_t>(size, sizeof(info)));
  out->struct_size = size;
  return ASTER_ML_OK;
}

void fill(aster_ml_backend* table) {
  table->struct_size = sizeof(*table);
  table->count = g_platforms.count;
  table->allocate = allocate;
  table->release = release;
  table->copy_in = copy_in;
  table->copy_out = copy_out;
  table->copy = copy;
  table->describe = describe;
  table->allocate_kind = allocate_kind;
  table->build = build;
  table->unbuild = unbuild;
  table->open = open;
  table->close = close;
  table->submit = submit;
  table->wait = wait;
}

}  // namespace

Platforms& platforms() { return g_platforms; }

const aster_ml_backend* find_backend() {
  if (!g_found.load(std::memory_order_acquire)) {
    const MutexLock lock(g_mutex);
    if (!g_found.load()) {
      find_devices(&g_platforms);
      fill(&g_table);
      g_found.store(true, std::memory_order_release);
    }
  }
  if (g_platforms.count != 0) return &g_table;
  const char* const missing = g_platforms.missing;
  (void)ASTER_FAIL(kUNSUPPORTED, "OPENCL: %s%s", g_platforms.problem,
                   missing != nullptr ? missing : "");
  return nullptr;
}

}  // namespace aster::runtime::opencl

namespace aster::device {

const aster_ml_backend* find_opencl() { return runtime::opencl::find_backend(); }

const NativeMemory* opencl_memory(const aster_ml_backend& table) {
  static constexpr NativeMemory kMemory = {runtime::opencl::share, runtime::opencl::adopt};
  return table.allocate == runtime::opencl::allocate ? &kMemory : nullptr;
}

}  // namespace aster::device
