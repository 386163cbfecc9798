// Devices behind registered backends as the engine sees them: what they are, kernels made for them,
// their queues.
#pragma once

#include <span>

#include "base/context.h"
#include "base/heard.h"
#include "base/memory.h"
#include "codegen/sizes.h"
#include "codegen/target.h"
#include "device/device.h"

namespace aster::runtime {

class Loaded;
struct LoadCounts;
struct Request;

// A device; its record stays as long as the context.
struct Device {
  Context* context = nullptr;  // whose record it is
  int32_t code = 0;
  const aster_ml_backend* backend = nullptr;  // null: the host itself
  aster_ml_device_info info = {};
  codegen::Target target;  // what kernels are made for
  bool shared = false;     // the host addresses its memory
  bool at_once = false;    // the host: kernels have machine code of our own before a compiler's
  bool compiles = true;    // the host: there is a compiler
  // Makes kernels into functions (load.h); null: it only stores.
  Status (*load)(Loaded* held, LoadCounts* counts, const Device& device, Context& context,
                 std::span<Request> kernels) = nullptr;
  codegen::AtHand at_hand;  // kernels that need no text any more

  bool computes() const { return load != nullptr; }
  int32_t index() const { return device::index(code); }
  // What a call of the backend failed with, as a status of ours; with what it said of it.
  Status failed(const char* what, int32_t status, const Heard& heard) const;
};

// The device that graphs on `code` run on; null: the host computes them where they are. Errors:
// DEVICE, UNSUPPORTED (no form of code that is known).
Status device_of(const Device** out, Context& context, int32_t code);
// The record of a device that a backend serves, whoever computes on it. Errors: as device_of.
Status record_of(const Device** out, Context& context, int32_t code,
                 const aster_ml_backend& backend);

// Makes kernels ready; functions[i] stays null for what is beyond the device. Errors: UNSUPPORTED
// (all are), COMPILE with the compiler's line of what is wrong (the log has all that it said),
// MEMORY, DEVICE.
Status build(void** module, std::span<void*> functions, const Device& device,
             std::span<const aster_ml_code> codes);

// Queues of devices, one each, opened when first asked for. One thread at a time uses them.
class Queues {
 public:
  explicit Queues(Memory& memory) : all_(memory) {}
  ~Queues();
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;
  Status get(void** out, const Device& device);

 private:
  struct Queue {
    const Device* device;
    void* handle;
  };
  Vec<Queue> all_;
};

}  // namespace aster::runtime
