// What builders of operators share. A builder reads an Op's operands and attributes and sets its
// results; failures stay in the Op.
#pragma once

#include <array>

#include "nn/onnx/run.h"
#include "tensor/functions.h"
#include "tensor/indexing.h"
#include "tensor/movement.h"

namespace aster::nn::onnx {

// One row of ops.def each.
#define ONNX(domain, name, since, until, builder) void builder(Op& op);
#define CONTROL(domain, name, since, until, builder) void builder(Op& op);
#define SCALED(domain, name, since, until, builder) void builder(Op& op);
namespace build {
#include "nn/onnx/ops.def"
}

using tensor::Axes;
using uop::Expr;

inline Axes axes_of(const Dims& dims) { return {dims.size(), dims.at}; }
inline Words words_of(const Dims& dims) { return dims; }

// ---- cast.cpp ----

// x, of elements `from`, as elements `to`.
Node cast_element(Op& op, Node x, int32_t from, int32_t to, bool saturate,
                  std::string_view round = "up");
// The dtype of an element; kNone and a failure where there is none.
DType dtype_of(Op& op, int32_t element);

// ---- movement ----

// x along an axis at indices of any shape, negative ones from its end: x[:axis] + at + x[axis +
// 1:].
Node take(Op& op, Node x, size_t axis, Node at);
// Indices of an integer dtype, negative ones counted from the end of size elements, as int64.
Node from_front(Op& op, Node at, Word size);
Node permute_last(Op& op, Node x);  // the last two axes swapped
// x [n, ...] as [n, flat].
Node flat_from(Op& op, Node x, size_t axis);
// Operand i, if there is one: a constant of the graph where the model says one number for all.
Node zero_point(Op& op, size_t i);
// A shape from outside; fails where it has more axes than there can be.
Dims shape_from(Op& op, Words given);
// x reshaped so that its axes stand from `axis` on beside ndim axes.
Node along_axis(Op& op, Node x, size_t axis, size_t ndim);
// An axis as -1 where it is not said, else counted from the front.
Node unary_element(Op& op, Node x, const tensor::UnaryOp& f);

// ---- what is computed ----

// Sums and the like over axes in the dtype of x, kept with size 1.
Expr sum_over(Expr x, const Dims& axes);
Expr mean_over(Expr x, const Dims& axes);
Node matmul_as(Op& op, Node a, Node b, DType dtype);

}  // namespace aster::nn::onnx
