// Movement composed of the operations of ops.h. Functions absorb nil nodes.
#pragma once

#include "tensor/ops.h"

namespace aster::tensor {

enum class Padding : int32_t { kConstant, kReflect, kReplicate, kCircular };

Node shrink_to(Graph& g, Node x, Words shape);  // -1 keeps
Node pad_to(Graph& g, Node x, Words shape, const Filling& fill);
Node unflatten(Graph& g, Node x, int64_t axis, Words sizes);
Node squeeze_all(Graph& g, Node x);
Node unsqueeze(Graph& g, Node x, int64_t axis);
// Elements begin to end of one axis.
Node cut_axis(Graph& g, Node x, size_t axis, Word begin, Word end);
Node diag(Graph& g, Node x);
Node diagonal(Graph& g, Node x, int64_t offset, int64_t axis0, int64_t axis1);
// Zeros above (below) the diagonal of the last two axes.
Node tril(Graph& g, Node x, int64_t diagonal);
Node triu(Graph& g, Node x, int64_t diagonal);
Node roll(Graph& g, Node x, Words shifts, const int64_t* axes);
Node repeat(Graph& g, Node x, Words repeats);
Node repeat_interleave(Graph& g, Node x, int64_t repeats, int64_t axis);
Node unfold(Graph& g, Node x, int64_t axis, int64_t size, int64_t step);
Node pad_mode(Graph& g, Node x, Words before, Words after, Padding mode);  // not kConstant
// names[i] has sizes[i].
Node rearrange(Graph& g, Node x, const char* formula, size_t count, const char* const* names,
               const int64_t* sizes);
// The bits of strong x as elements of another size: the last axis grows or shrinks.
Node bitcast_resized(Graph& g, Node x, DType dtype);

}  // namespace aster::tensor
