// Programs as OpenCL C 1.2 (target_opencl.def, target_c.def): the same walk and the same tables as
// C, in the words of the other language. The text computes what the program says to the bit where
// the device's division and square root are correctly rounded, numbers below the normal ones are
// kept and, where the target says fma, fused multiply-adds are.
#pragma once

#include "codegen/render_c.h"

namespace aster::codegen::program {

// Renders the last program of a module that verify() has passed:
//   __kernel void NAME(__global uchar *p0, ulong o0, .., long s0, ..)
// with memory and a byte offset for every slot, then the sizes. A work-item is a task, and there
// are exactly as many as tasks, or more where the target has groups; with loops of groups and items
// it is an item of a group of out.locals, of out.groups. Errors: UNSUPPORTED (vectors of more than
// 16 lanes, doubles without fp64, atomics but of 32 bits, an array that no item has room for), and
// those of render_c.
Status render_opencl(RenderedC& out, const Module& module, const Target& target);

// What a text begins with.
void write_opencl_options(Text& out, const UsedTypes& used);

}  // namespace aster::codegen::program
