// Devices of all platforms, found when OPENCL is first named, and what the functions of the table
// share.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "aster_ml/device.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "runtime/opencl/cl.h"

namespace aster::runtime::opencl {

// What allocate gives.
struct Buffer {
  cl_mem memory;
  uint64_t number;  // no other buffer has it, later ones included, whose handle may be the same
  size_t bytes;
  void* host;  // memory of ours that it is; null: the driver's
  bool mapped;
  // Under the lock of shared ones, if it is one: others know its handle (native.cpp).
  bool shared;
  uint32_t holders;  // beside the first one
};

constexpr size_t kSpareMost = 32;
struct Device {
  // Large buffers that were released, for those of their size that come next: a driver takes longer
  // to get new pages than most kernels do to fill them.
  Buffer* spare[kSpareMost] = {};
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  cl_context context = nullptr;  // with `copies` made when the device is first used
  cl_queue copies = nullptr;
  std::atomic<bool> ready{false}, lost{false};
  aster_ml_device_info info = {};
  bool correctly_rounded = false;  // division and square root of float32, if asked for
  bool in_order_only = true;
};

// With a number and nothing else yet; null: no memory.
Buffer* make_buffer(size_t bytes);

inline cl_mem memory_of(const void* data) { return static_cast<const Buffer*>(data)->memory; }
inline uint64_t number_of(const void* data) { return static_cast<const Buffer*>(data)->number; }

constexpr int32_t kDevicesMost = 64;
struct Platforms {
  Api cl;
  Device devices[kDevicesMost];
  int32_t count = 0;
  const char* problem = nullptr;  // why there is none
  const char* missing = nullptr;
  pid_t process =
      0;  // that asked for the devices: drivers have threads, which a fork leaves behind
};

// Fills in platforms and devices, in the order in which the loader names them.
void find_devices(Platforms* out);

// A device with its context, by the index of the table. Errors: DEVICE (it was lost, this is the
// child of a fork, a driver's error), MEMORY.
Status use(Device** out, int32_t index);
// The status of what a driver's function returned; a device that is gone stays so.
Status failed(Device& device, const char* what, cl_int error);

Platforms& platforms();

// The handle of a buffer, for others. Errors: MEMORY.
Status share(void** handle, int32_t index, void* data);
// The buffer of a handle of others. Errors: as adopt of device/native.h.
Status adopt(void** data, int32_t index, void* handle, size_t bytes);
// Whether a buffer that is released has no other holder.
bool let_go(Buffer* buffer);

// ---- Functions of the table (programs.cpp, queues.cpp) ----
int32_t build(void*, void** module, void** functions, int32_t index, const aster_ml_code* codes,
              size_t count, char* log, size_t room);
void unbuild(void*, int32_t index, void* module);
int32_t open(void*, void** queue, int32_t index, uint32_t flags);
void close(void*, int32_t index, void* queue);
int32_t submit(void*, uint64_t* ticket, int32_t index, void* queue,
               const aster_ml_command* commands, size_t count);
int32_t wait(void*, int32_t index, void* queue, uint64_t ticket);

// A kernel of a program. Arguments are the kernel's, so launches of it stand in line.
struct Function {
  cl_kernel kernel = nullptr;
  uint32_t params = UINT32_MAX;  // operands that it takes: the last ones may have become needless
  OwnedMutex lock;
  struct Argument {
    uint64_t bits = 0;
    bool known = false;
  };
  Vec<Argument> arguments;  // as they were set last
  explicit Function(Memory& memory) : arguments(memory) {}
};

}  // namespace aster::runtime::opencl
