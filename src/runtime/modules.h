// Kernels that backends have built, by device and name: a second schedule with a kernel finds it.
#pragma once

#include <array>

#include "base/hash_map.h"
#include "runtime/device.h"

namespace aster::runtime {

// What one call of a backend's build gave.
struct Built {
  const Device* device = nullptr;
  void* handle = nullptr;
  uint32_t users = 0;  // schedules that hold it
};

// Those of a context, on its thread.
class Modules {
 public:
  explicit Modules(Memory& memory) : all_(memory), kernels_(memory) {}
  ~Modules() { clear(); }
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // functions[i] is of codes[i]; null: beyond the device. What has one is appended to held, a user
  // more each. *found: of them those that were there already.
  // Errors: COMPILE with what the compiler said, of all of several codes; UNSUPPORTED (all are
  // beyond it); MEMORY, DEVICE.
  Status load(Vec<Built*>* held, std::span<void*> functions, size_t* found, const Device& device,
              std::span<const aster_ml_code> codes);
  // Unbuilds all; nobody uses them any more.
  void clear();

 private:
  using Name = std::array<char, 64>;
  struct NameHash {
    uint64_t operator()(const Name& name) const;
  };
  struct Kernel {
    Built* module;
    void* function;
  };
  // More that nobody uses are unbuilt, the oldest first.
  static constexpr size_t kMostUnused = 256;

  static Name name_of(const Device& device, const aster_ml_code& code);
  Status build(std::span<void*> functions, const Device& device,
               std::span<const aster_ml_code> codes);
  Status trim();
  void drop(Built* module);

  Vec<Built*> all_;
  Map<Name, Kernel, NameHash> kernels_;
};

}  // namespace aster::runtime
