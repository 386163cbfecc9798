// Kernels that are not ours on devices that compute by themselves: code of theirs in the place of a
// call of the host's.
#pragma once

#include "engine/kernels.h"
#include "uop/foreign.h"

namespace aster::engine {

// Whether kernels below roots can be computed for a schedule: a kernel runs where it has code for.
// Sets own_kernels. Errors: UNSUPPORTED, with the kernel and the device.
Status check_foreign(Executable* exe, uop::Nodes roots, int32_t device);

// Those of a schedule for its device. Errors: COMPILE, UNSUPPORTED (beyond the device), MEMORY.
Status make_foreign(Kernels* kernels, Executable* exe, Engine& engine, const Schedule& schedule);

// Builds code for a kernel on a device, or finds it; operands: of the node.
Status load_foreign(void** function, runtime::Loaded* held, runtime::LoadCounts* counts,
                    Context& context, const runtime::Device& device, const uop::Foreign& kernel,
                    uop::ForeignCode& code, size_t operands);

// What the launch of one is given: the results, each where it lies in the node's memory, then the
// operands, where their views begin.
struct ForeignOperands {
  explicit ForeignOperands(Memory& memory) : slots(memory), shifts(memory), written(memory) {}
  Status take(const Schedule& schedule, const Item& item, const uop::ForeignCode& code);
  Vec<uint32_t> slots;
  Vec<int64_t> shifts;  // bytes
  Vec<uint8_t> written;
};

}  // namespace aster::engine
