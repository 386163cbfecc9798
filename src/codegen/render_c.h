// Programs as C with vector extensions, for gcc and clang, with rows of instructions for x86
// (target_c.def, target_x86.def). The text computes what the program says to the bit, by
// `-std=gnu11 -O1 -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno`, without headers
// or libraries.
#pragma once

#include "codegen/program.h"
#include "codegen/target.h"

namespace aster::codegen::program {

// Vector types, selections between two of them and vectors of lanes of two that a text names: by
// dtype and log2 of lanes.
struct UsedTypes {
  static constexpr int kLogs = 7;  // 1, 2, .. 64 lanes
  bool types[dtype::kDTypeLimit * kLogs] = {};
  bool selects[dtype::kDTypeLimit * kLogs] = {};
  bool mixes[dtype::kDTypeLimit * kLogs] = {};
};

// A function at some number of lanes.
struct RenderedFunction {
  explicit RenderedFunction(Memory& memory) : text(memory) {}
  char name[kMaxName + 16] = {};  // "exp_f32_x16"
  Text text;
};

// One program of a unit.
struct RenderedC {
  explicit RenderedC(Memory& memory) : text(memory), functions(memory) {}
  // void NAME(void *const *params, const long long *sizes, void *scratch,
  //           long long begin, long long end)
  // which runs tasks [begin, end), of those that there are; a program without task loops is one
  // task. sizes: by slot.
  Text text;
  Vec<RenderedFunction> functions;  // that it calls, and that these call
  UsedTypes types;
  bool streams = false;                    // has stores that go past the caches
  bool llvm = false;                       // the texts are LLVM IR (render_llvm.h)
  int64_t scratch_bytes = 0;               // that scratch points to, aligned to 64 bytes
  int64_t groups[3] = {}, locals[3] = {};  // of OpenCL C: how many, and of how many items; or 0
};

// Renders the last program of a module that verify() has passed. Vectors may be wider than the
// target's. A vector_bytes of 0 is C for any CPU. Errors: UNSUPPORTED (what the target cannot say:
// an operation, MulAcc of floats without FMA, barriers), ARGUMENT (the last one is a function),
// MEMORY.
Status render_c(RenderedC& out, const Module& module, const Target& target);

// The types and functions that programs use, each once. Errors: as write_unit.
Status write_declarations(Text& out, std::span<const RenderedC* const> programs,
                          const Target& target);

// Programs as one C text: types and functions that they use, each once, then each of them.
// Functions of one name at as many lanes are taken for one. Errors: ARGUMENT (two functions of one
// name differ), MEMORY.
Status write_unit(Text& out, std::span<const RenderedC* const> programs, const Target& target);

// Whether the target has an operation (result and operand: dtypes of the result and of the last
// operand) at these lanes, other than lane by lane. What is not native may be a function
// (functions.h).
bool is_native(const Target& target, Op op, DType result, DType operand, int lanes);
// Whether it loads so many elements under a mask in one instruction.
bool loads_under_mask(const Target& target, DType storage, int lanes);

}  // namespace aster::codegen::program
