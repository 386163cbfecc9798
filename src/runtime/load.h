// Kernels made into functions: on the host by its compiler, elsewhere by a backend's build.
#pragma once

#include "codegen/codegen.h"
#include "runtime/cpu/code_pages.h"
#include "runtime/cpu/module.h"
#include "runtime/modules.h"

namespace aster::runtime {

// Keeps the code of functions.
class Loaded {
 public:
  explicit Loaded(Memory& memory) : sets(memory), modules(memory), pages(memory) {}
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  Vec<cpu::KernelSet*> sets;   // of the host
  Vec<Built*> modules;         // of backends, a use each
  Vec<cpu::CodePages*> pages;  // of the host, made at once
};

struct Request {
  const codegen::Rendered* kernel;
  uint32_t operands;
  void* function = nullptr;  // is filled in; null: beyond the device, or being compiled
  // Of the host: whether it may be compiled while others run, and then where its code will be.
  bool may_wait = false;
  const cpu::LaterCode* later = nullptr;
  void* at_once = nullptr;  // machine code of our own (make_at_once)
};

struct LoadCounts {
  uint64_t compiled = 0, found = 0;
};

// The host as a device, with what its kernels are made for. Errors: UNSUPPORTED (no compiler is
// here), MEMORY.
Status host_device(const Device** out, Context& context);
// What code is made for on a CPU with these features, with the caches of this machine or such as it
// may have.
codegen::Target target_of(const cpu::CpuFeatures& features, bool this_machine);
// What kernels of the host are made for; there need be no compiler.
Status host_target(codegen::Target* out, Context& context);

// Code in the form that a device takes, to be filled in.
aster_ml_code code_for(const Device& device);

// Rows of Device::load. Errors: COMPILE with what the compiler said, of all of several kernels;
// UNSUPPORTED (all are beyond the device); CANCELLED, MEMORY, DEVICE.
Status load_on_host(Loaded* held, LoadCounts* counts, const Device& device, Context& context,
                    std::span<Request> kernels);
// Machine code of our own for kernels of the host that have no function yet, where it can be had.
// Errors: MEMORY.
Status make_at_once(Loaded* held, const Device& device, Context& context,
                    std::span<Request> kernels);
// When what is being compiled is done, well or not. Errors: CANCELLED.
Status finish_on_host(Context& context, const cpu::LaterCode* code);
Status load_by_backend(Loaded* held, LoadCounts* counts, const Device& device, Context& context,
                       std::span<Request> kernels);

}  // namespace aster::runtime
