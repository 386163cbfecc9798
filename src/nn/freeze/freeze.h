// Frozen programs: what a captured program is without an engine, as data, and how that is written
// as C and built. docs/FREEZE.md has the interface of what comes out.
#pragma once

#include "aster_ml/freeze.h"
#include "engine/program.h"
#include "nn/portable.h"

namespace aster::nn::freeze {

using dtype::DType;

// A kind of CPU.
struct Cpu {
  const char* name;    // that callers give
  const char* suffix;  // of names in C
  int vector_bytes;    // 16, 32 or 64; 0: that of this machine
  bool x86;
  const char* compiler;  // where the context's makes no code for it; null: it does
};
// Errors: NOT_FOUND.
Status find_cpu(const Cpu** out, const char* name);
// What this machine has of such a CPU, or what one has at least; its kernels' target.
runtime::cpu::CpuFeatures features_of(const Cpu& cpu);
codegen::Target target_of(const Cpu& cpu);

// Kernels that the engine asks for while it captures, kept as C and never run: a host for other
// machines (Engine::made_for). Functions are numbers from 1 on.
class Collector : public runtime::Device {
 public:
  Collector(Context& owner, const Cpu& cpu);
  // All kernels, the types and functions that they use before them.
  Status write(Text& out) const;
  size_t size() const { return kernels_.size(); }
  const char* name(size_t kernel) const { return kernels_[kernel]->name; }

 private:
  struct Kernel {
    explicit Kernel(Memory& memory) : code(memory) {}
    char name[64] = {};
    codegen::program::RenderedC code;
  };
  static Status take(runtime::Loaded* held, runtime::LoadCounts* counts,
                     const runtime::Device& device, Context& context,
                     std::span<runtime::Request> kernels);
  Status add(void** function, const codegen::Rendered& kernel);
  Heap& heap_;
  Vec<Kernel*> kernels_;

 public:
  ~Collector();
};

// Where a pointer begins: at the memory that a caller gives, at the constants, at an input, or at
// an output, which follow.
enum Base : uint32_t { kAbsent, kMemory, kConstants, kFirstInput };
struct Operand {
  uint32_t base;
  int64_t offset;
};
struct Launch {
  uint32_t kernel;
  int64_t tasks;
  uint32_t first_operand, operands;
  int64_t parts;            // for threads; 1: none
  int64_t scratch, stride;  // into the memory, and of each part
};
// What is copied when all is done.
struct Copy {
  Operand from;
  uint32_t output;
  int64_t bytes;
};
// The program for one kind of CPU.
struct Code {
  explicit Code(Memory& memory) : launches(memory), operands(memory), copies(memory) {}
  const Cpu* cpu = nullptr;
  const Collector* kernels = nullptr;
  Vec<Launch> launches;
  Vec<Operand> operands;
  Vec<Copy> copies;
};
// An input or output.
struct Array {
  Array(Memory& memory) : name(memory), identifier(memory), dims(memory) {}
  Text name, identifier;
  DType dtype = DType::kNone;
  Vec<int64_t> dims;
  int64_t bytes = 0;
  bool written = false;
};
struct Model {
  explicit Model(Memory& memory)
      : name(memory),
        capital(memory),
        inputs(memory),
        outputs(memory),
        constants(memory),
        codes(memory) {}
  Text name, capital;  // before names in C, and macros
  Vec<Array> inputs, outputs;
  Vec<uint8_t> constants;  // then what state begins with
  int64_t state_from = 0, state_bytes = 0;
  int64_t head_bytes = 0;    // of the memory, for the run itself; state follows
  int64_t memory_bytes = 0;  // of all
  uint64_t checksum = 0;     // of the constants
  int threads = 1;
  bool side_file = false;
  bool kernel = false;  // with a function that gives a kernel of the Blaze interface
  Vec<Code> codes;
};

// Fills a model from the program of each of its codes. Errors: UNSUPPORTED (what is computed by
// functions of this library, random numbers, symbolic sizes), MEMORY.
Status flatten(Model& model, std::span<engine::Program* const> programs);

// The texts: NAME.h, the driver, the kernels of a code, and the main of an executable. constants:
// the file with them, where they are not written out; null: they are. apart: kernels are in files
// of their own.
Status write_header(Text& out, const Model& model);
Status write_driver(Text& out, const Model& model, const char* constants, bool apart);
Status write_kernels(Text& out, const Model& model, const Code& code, bool apart);
Status write_main(Text& out, const Model& model);

// Makes the files. Errors: COMPILE, UNSUPPORTED, IO, NOT_FOUND.
Status build(const char* path, Context& context, const Model& model, aster_ml_freeze_form form,
             const char* compiler);

}  // namespace aster::nn::freeze
