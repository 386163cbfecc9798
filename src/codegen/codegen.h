// From a kernel of index arithmetic to C text: simplify ranges, vectorise, tile, unroll, split for
// the pool, linearise, render.
//
// A kernel is a Sink of Stores over scalars:
//
//   Store(param, index, value, r0, r1, ..)  for r0 { for r1 { .. param[index] = value } }
//   Load(param, index [, gate])             element of a param; 0, unread, where the gate is false
//   Fold(value, r..; operation)             reduction of value over its ranges, in its dtype
//   Range(id, size)                         loop variable of dtype kWeakInt, from 0
//   Cast(kWeakInt -> dtype)                 an index used as a value
//
// Index arithmetic is kWeakInt and bool. Params carry their slot, dtype and shape [elements].
// Ranges of a kernel are numbered from 0, so equal kernels are equal graphs. Stores of one kernel
// share their leading ranges where those are the same nodes. The ranges that a Fold's value leaves
// free are a prefix of its store's ranges: it is computed once at that depth (a row's maximum,
// say), and loops below read the result. Loads may read a param that a Store of the same kernel
// writes only at the same index and only before the Store in the loop body. Params never overlap
// otherwise.
//
// Fold(Add, a * b) of floats is accumulated with fused multiply-adds where the target has them;
// the order of a Fold is the code's own, the same for every grouping of tasks and every compiler.
// Narrow floats are folded in float32 and rounded once.
#pragma once

#include "base/text.h"
#include "codegen/render_c.h"
#include "uop/uop.h"

namespace aster::codegen {

// A kernel as C: a function, and the types and functions that it uses
// (program::write_declarations). It runs tasks [begin, end) of its outermost loop; tasks are
// independent, write disjoint memory and give the same bits however they are grouped.
struct Rendered {
  explicit Rendered(Memory& memory) : code(memory), module(memory), sizes(memory) {}
  char name[64] = {};   // r_<hash>: of kernel, plan and target; s_<hash>: one that takes sizes
  char title[64] = {};  // what it computes, for people (title.h)
  program::RenderedC code;
  program::Module module;  // what it was written from; empty where that was not made
  bool at_hand = false;    // by its name: there is no code here (SizeClasses)
  Vec<int64_t> sizes;      // that it is to be called with
  int64_t tasks = 1;
  double task_flops = 0;  // estimates: operations and bytes of one task
  double task_bytes = 0;
};

// What copies that which a kernel reads of a param as its plan would: a kernel of its own, to be
// run once where that does not change. Its params: what is copied, and the copy.
struct ConstantCopy {
  explicit ConstantCopy(Memory& memory) : code(memory) {}
  Rendered code;   // c_<hash>: equal ones copy alike
  int source = 0;  // the slot that the kernel has it in
  dtype::DType dtype = dtype::DType::kUInt8;
  int64_t elements = 0;
  bool padded = false;  // has elements that nothing is written to, and something may read
  bool alone = false;   // the kernel itself reads no more of the source
};
// Params of a kernel whose memory does not change, and copies that its plan makes of that: params
// behind the kernel's, in that order.
struct Constants {
  explicit Constants(Memory& memory) : copies(memory) {}
  uint64_t slots = 0;  // those of the first 64
  Vec<ConstantCopy> copies;
};

class SizeClasses;
struct Plan;

// Renders one kernel. graph: scratch graph that holds it, used for further nodes. classes: where
// kernels that differ in sizes become one (sizes.h), or null. plan: null for the planner's.
// constants: null for none; not with classes or a plan from outside. Errors:
// UNSUPPORTED (an operation that programs do not have, too many ranges), ARGUMENT (a plan that is
// none of this kernel's, or whose program is too long), INTERNAL.
Status render(Rendered& out, uop::Graph& graph, uop::Node kernel, const Target& target,
              SizeClasses* classes = nullptr, const Plan* plan = nullptr,
              Constants* constants = nullptr);

// The whole text of one kernel by itself, for those who compile it elsewhere.
Status render_unit(Text& out, const Rendered& kernel, const Target& target);
// The same of several; functions that they share once.
Status render_unit(Text& out, std::span<const program::RenderedC* const> kernels,
                   const Target& target);
// The same of the last program of a module that verify() has passed; code, which may be null: what
// else there is to know of it.
Status render_text(Text& out, const program::Module& module, const Target& target,
                   program::RenderedC* code = nullptr);

}  // namespace aster::codegen
