// The kernels of a schedule as code: of the host, or of a device and, where that has to pass, of
// the host.
#pragma once

#include "engine/engine.h"

namespace aster::engine {

// Kernels made for one target.
struct Kernels {
  explicit Kernels(Memory& memory)
      : numbers(memory), operands(memory), rendered(memory), functions(memory) {}
  Map<uop::Node, uint32_t> numbers;
  Vec<uint32_t> operands;
  Vec<codegen::Rendered> rendered;
  Vec<void*> functions;  // null: beyond the target; on the host: the interpreter's
  codegen::Target target;

  void* function(uop::Node kernel) const {
    const uint32_t* number = numbers.find(kernel);
    return number != nullptr ? functions[*number] : nullptr;
  }
};

// Kernels of the executable's device. Those that are beyond it are left out; so are all of them
// where its compiler fails. Errors: COMPILE (the context refuses to fall back), DEVICE, MEMORY.
Status compile_on_device(Kernels* kernels, Executable* exe, Engine& engine, uop::Graph& scratch,
                         const Schedule& schedule);

// Those that `elsewhere`, if given, has no function of. One that the compiler refuses while it
// takes others is left without a function, if the context allows that. Errors: UNSUPPORTED (the
// interpreter has to do the whole graph), COMPILE, MEMORY, CANCELLED.
Status compile_on_host(Kernels* kernels, Executable* exe, Engine& engine, uop::Graph& scratch,
                       const Schedule& schedule, const Kernels* elsewhere,
                       const Arena& scratch_memory);

}  // namespace aster::engine
