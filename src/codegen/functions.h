// Mathematics as programs: functions that compute what targets have no instruction for, at any
// lanes (functions.def lists them). Results are within 2.5 ULP for all arguments, with the special
// cases of C99 Annex F; casts from floats to integers give 0 for NaN and what int64 cannot hold,
// else are truncated and wrap; nothing traps. Every lane is computed alike, whatever the number of
// lanes; targets with and without fused multiply-add do not give the same bits.
#pragma once

#include "codegen/program.h"

namespace aster::codegen::program {

// What a function computes. operand: dtype of the first operand (of a Cast: that it is from).
struct FunctionKey {
  Op op;
  DType result;
  DType operand;
  bool operator==(const FunctionKey&) const = default;
};

// Whether functions.def has it.
bool has_function(const FunctionKey& key);

// The place in `module` of the function that computes key; appended, behind those that it calls,
// unless it is there already: call this before the program that calls it is added. Arguments are
// the operation's operands, of `xn`. fma: whether the target has fused multiply-adds, roundings and
// casts of f16 (is_native). Names are unique: "exp_f32", "cast_f32_f16" (from f32 to f16),
// "floordiv_i32"; those whose text differs without FMA are then "exp_f32_nofma". Errors:
// UNSUPPORTED (no such function), MEMORY.
Status add_function(size_t* place, Module* module, const FunctionKey& key, bool fma);

}  // namespace aster::codegen::program
