// The kernels of a schedule as functions of a device, or of the host.
#pragma once

#include "engine/engine.h"

namespace aster::engine {

// Kernels made for one device.
struct Kernels {
  explicit Kernels(Memory& memory) : numbers(memory), rendered(memory), requests(memory) {}
  Map<uop::Node, uint32_t> numbers;
  Vec<codegen::Rendered> rendered;
  Vec<runtime::Request> requests;  // without a function: beyond the device, refused by its compiler
  const runtime::Device* device = nullptr;

  void* function(uop::Node kernel) const {
    const uint32_t* number = numbers.find(kernel);
    return number != nullptr ? requests[*number].function : nullptr;
  }
};

// Those that `others`, if given, has no function of. What its compiler refuses, or what is beyond
// a device, is left without a function, if the context allows that. scratch_memory: scratch's; its
// failures are no one's refusal.
// Errors: UNSUPPORTED (of the host: the interpreter has to do the whole graph), COMPILE (the
// context refuses to fall back), DEVICE, MEMORY, CANCELLED.
Status make_kernels(Kernels* kernels, Executable* exe, Engine& engine, uop::Graph& scratch,
                    const Schedule& schedule, const runtime::Device& device, const Kernels* others,
                    const Arena& scratch_memory);

// What it amounts to that the host has no machine code: UNSUPPORTED is what the interpreter
// answers.
Status without_code(Executable* exe, const Context& context, Status status);

}  // namespace aster::engine
