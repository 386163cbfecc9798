// Values of a strip of elements, and what is done to them.
//
// A strip holds canonical values: doubles for float dtypes, int64 words (uint64 by its bits, bool 0
// or 1) for the others, rounded or wrapped to their dtype. Results may be written over operands.
#pragma once

#include "runtime/reference/index.h"

namespace aster::runtime::reference {

using uop::DType;

// Bytes of an element in memory.
size_t element_bytes(DType dtype);

// y = op(a, b, c); operand: dtype of the last source.
void strip_alu(uop::Op op, DType operand, DType result, size_t n, void* y, const void* a,
               const void* b, const void* c);
void strip_fill(DType dtype, uop::Word word, size_t n, void* y);
void strip_cast(DType from, DType to, size_t n, void* y, const void* x);
// y = mask ? x : otherwise, or x where mask is null.
void strip_blend(DType dtype, size_t n, void* y, const void* x, const void* otherwise,
                 const uint8_t* mask);
// Rounds to the dtype what was computed wider.
void strip_round(DType dtype, size_t n, void* y);

// From and to row-major memory. scratch: room for n words, none of y and x.
void strip_load(DType dtype, const void* data, const Index& index, size_t n, void* y,
                void* scratch);
void strip_store(DType dtype, void* data, const Index& index, size_t n, const void* x,
                 void* scratch);
// The positions themselves, as values.
void strip_iota(DType dtype, const Index& index, size_t n, void* y);
void strip_bitcast(DType from, DType to, size_t n, void* y, const void* x, void* scratch);

// Reductions, unrounded. accumulator[i] = op(accumulator[i], x[i]) for all i, or
// accumulator[0] = op(..op(accumulator[0], x[0]).., x[n - 1]).
uop::Word fold_identity(uop::Op op, DType dtype);
void fold_each(uop::Op op, DType dtype, size_t n, void* accumulator, const void* x);
void fold_along(uop::Op op, DType dtype, size_t n, void* accumulator, const void* x);

}  // namespace aster::runtime::reference
