// What is not computed by generated code: composites that go to a library (BLAS), and operations
// that are not loops over affine places (runtime/cpu/native.h); and how their arguments lie in
// memory.
#pragma once

#include "base/memory.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/native.h"
#include "uop/uop.h"

namespace aster::engine::library {

// Whether a Call is worth a library call; false inlines its body.
bool takes(uop::Node call);

// Whether a node of a prepared graph is computed here: what is left of Calls, and native
// operations.
bool computes(uop::Node node);
// The first source that is an argument; a Call's first is its body.
inline size_t first_argument(uop::Node node) { return node->op == uop::Op::kCall ? 1 : 0; }

// The node that has to lie in memory for source i of a call: below its views where the library can
// read those as strides, else the argument itself. Appends the view to words if given: offset in
// elements, a stride for every axis, and of native operations how it is read. Null base: the plan
// holds the argument, which is known.
Status view_base(uop::Node* base, Vec<int64_t>* words, uop::Graph& graph, uop::Node call, size_t i);

// A prepared call: what it needs of shapes and attributes, without the graph.
struct Plan {
  const runtime::cpu::Blas* blas = nullptr;
  int32_t implementation = 0;  // row of the registry
  uop::DType dtype;
  Vec<int64_t> numbers;       // laid out by the composite's own code
  int64_t tasks = 1;          // independent parts for the pool; of shapes alone, as their bits are
  double flops = 0;           // of one task
  double nanoseconds = 0;     // estimate, of all tasks
  int64_t scratch_bytes = 0;  // of each run: what runs at once has its own
  const runtime::cpu::native::Implementation* native = nullptr;  // instead of a row
  runtime::cpu::native::Plan native_plan;
  explicit Plan(Memory& memory) : dtype(uop::DType::kNone), numbers(memory), native_plan(memory) {}
};

// The implementation of a plan, for people.
const char* name(const Plan& plan);

// Prepares the library call of a Call node whose argument views stand in words.
Status prepare(Plan* out, uop::Node call, std::span<const int64_t> words);

// Runs tasks [begin, end) on operands (the arguments' bases, then the result). Never fails.
void run(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);

}  // namespace aster::engine::library
