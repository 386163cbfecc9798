// The C text in front of a module's kernels: vector types and the functions that kernels call, only
// those used, each once, in an order that compiles.
//
//   types      v<element>x<lanes>, elements f32 f64 i8 u8 i16 u16 i32 u32 i64 u64; lanes 1 are
//              scalars. v<element>x<lanes>u is the same aligned to its element, for loads and
//              stores
//   functions  am_<name>_<element>x<lanes>(..), prelude_functions.def
//   casts      am_<from>_to_<to>x<lanes>(a); besides the elements above b8 (bool as u8, 0 or 1),
//   and
//              f16 bf16 e4m3 e4m3z e5m2 e5m2z, whose vectors are u16 and u8
//
// exp exp2 log log2 sin cos tanh erf sqrt pow are within 2.5 ULP for all arguments, special cases
// as in C99 Annex F. Casts from floats to integers: NaN and what int64 cannot hold give 0, the rest
// is truncated and wraps. Nothing traps. Every lane is computed alike, whatever the number of
// lanes; gcc and clang give the same bits, targets with and without FMA do not. Code for
// `-std=gnu11 -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno`, without headers or
// libraries.
#pragma once

#include "base/text.h"
#include "codegen/codegen.h"
#include "dtype/dtype.h"

namespace aster::codegen {

enum class MathFn : uint8_t {
#define FN(Name, name, arity, elements) k##Name,
#include "codegen/prelude_functions.def"
#undef FN
};

// What of the prelude some kernels use.
class PreludeRequest {
 public:
  explicit PreludeRequest(Memory& memory) : uses_(memory) {}
  // Lanes are powers of two. Errors: DTYPE (not a function of that element), RANGE (lanes), MEMORY.
  Status add(MathFn fn, dtype::DType element, int lanes);
  Status add_cast(dtype::DType from, dtype::DType to, int lanes);
  Status add_type(dtype::DType element, int lanes);  // with its unaligned variant
  // Everything that C text names: reads its identifiers, of which am_.. must be ours and v.. may
  // be. Errors: NOT_FOUND (am_.. that the prelude does not have), MEMORY.
  Status add_used(std::string_view text);

  enum class Kind : uint8_t { kFunction, kCast, kType };
  struct Use {
    Kind kind;
    MathFn fn;          // of a function
    dtype::DType from;  // or the element
    dtype::DType to;    // of a cast
    int lanes;
    bool operator==(const Use&) const = default;
  };
  std::span<const Use> uses() const { return {uses_.data(), uses_.size()}; }
  Memory& memory() const { return uses_.memory(); }

 private:
  Status push(const Use& use);
  Vec<Use> uses_;
};

// Appends the text. Errors: MEMORY, RANGE (vectors wider than the target's).
Status emit_prelude(Text& out, const PreludeRequest& request, const Target& target);

// The names above. Narrow floats and bool are their integers in type names.
void write_type_name(Text& out, dtype::DType element, int lanes);
void write_function_name(Text& out, MathFn fn, dtype::DType element, int lanes);
void write_cast_name(Text& out, dtype::DType from, dtype::DType to, int lanes);

// One `typedef` line for a type and one for its unaligned variant.
void emit_vector_type(Text& out, dtype::DType element, int lanes);

}  // namespace aster::codegen
