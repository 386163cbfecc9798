// The kernels of a schedule as functions of a device, or of the host.
#pragma once

#include <algorithm>

#include "engine/engine.h"
#include "uop/foreign.h"

namespace aster::engine {

// One that is not ours.
struct ForeignKernel {
  uop::Node node;
  uop::ForeignCode code;
  void* function;
};

// Kernels made for one device.
struct Kernels {
  explicit Kernels(Memory& memory)
      : numbers(memory),
        rendered(memory),
        constants(memory),
        copies(memory),
        requests(memory),
        foreign(memory) {}
  Map<uop::Node, uint32_t> numbers;
  Vec<codegen::Rendered> rendered;    // those of a schedule, then those that make copies for them
  Vec<codegen::Constants> constants;  // of each that is a schedule's
  // Of those that make copies, by the names that constants keep.
  Map<std::string_view, uint32_t, runtime::cpu::NameHash> copies;
  Vec<runtime::Request> requests;  // without a function: beyond the device, refused by its compiler
  Vec<ForeignKernel> foreign;
  const runtime::Device* device = nullptr;

  void* function(uop::Node kernel) const {
    const uint32_t* number = numbers.find(kernel);
    if (number != nullptr) return requests[*number].function;
    const ForeignKernel* other = foreign_of(kernel);
    return other != nullptr ? other->function : nullptr;
  }
  // What makes a copy, by its number; beyond all: by its program alone.
  uint32_t number_of(const codegen::ConstantCopy& copy) const {
    return copies.get(copy.code.name, static_cast<uint32_t>(rendered.size()));
  }
  const ForeignKernel* foreign_of(uop::Node kernel) const {
    const auto at = std::find_if(foreign.begin(), foreign.end(),
                                 [&](const ForeignKernel& one) { return one.node == kernel; });
    return at == foreign.end() ? nullptr : at;
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

// The launches of a schedule whose kernels are made, each where it has a function. graph: that of
// the schedule.
Status assemble(Executable* exe, Engine& engine, const Schedule& schedule, uop::Graph& graph,
                const Kernels& on_device, const Kernels& on_host, const Leaves& leaves);

}  // namespace aster::engine
