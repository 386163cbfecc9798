// What a captured step reads of memory that does not change: copies in the order in which kernels
// read it, made once, when it is captured.
#pragma once

#include <span>

#include "codegen/codegen.h"
#include "engine/leaves.h"
#include "engine/schedule.h"

namespace aster::engine {

class Executable;
struct Given;
struct Kernels;

// A copy that was made, which programs hold. way: of the program that made it.
struct KeptCopy {
  buffer::Storage* source;
  const void* address;
  codegen::program::Digest way;
  buffer::Storage* copy;
};

// Bits of the leaves that do not change: those of an open capture whose memory is constant that are
// no inputs, and were not made in it. None where nothing is known.
Status find_constants(Vec<uint64_t>* out, const Engine& engine, const Leaves& leaves);

// The slots of a kernel whose memory does not change, wherever a schedule runs it.
uint64_t constant_slots(const Executable& exe, const Schedule& schedule, uop::Node kernel);

// Notes the copies that a kernel reads, and that they are operands of its launch. kernels: with
// those that make them.
Status add_copies(Executable* exe, Engine& engine, const Schedule& schedule, const Item& item,
                  const Kernels& kernels, const codegen::Constants& constants);

// The copies that an executable reads: made before, or now. The engine holds them.
Status make_copies(Vec<buffer::Storage*>* out, Engine& engine, const Executable& exe,
                   std::span<const Given> params, const Leaves& leaves);

// Gives up the copies that no program holds.
void forget_copies(Engine& engine);

}  // namespace aster::engine
