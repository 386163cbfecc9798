// Windows on the last axes of a tensor: what convolutions and pools of any rank share. Functions
// absorb nil nodes.
#pragma once

#include "tensor/movement.h"
#include "uop/composite.h"

namespace aster::tensor {

// Along the last `rank` axes; lists have one word each.
struct Windows {
  const char* what;  // the function, for messages
  size_t rank;
  uop::Dims kernel, stride, dilation, before, after;

  // Elements that a window reaches over.
  Word span(size_t i) const { return dilation[i] * (kernel[i] - 1) + 1; }
};
// Lists from outside, of rank words each; null lists are 1, padding 0, the stride default_stride.
struct WindowLists {
  const int64_t *stride, *dilation, *before, *after;
};
Status plan_windows(Windows* w, const WindowLists& lists, Words default_stride);

// Negative padding cut off x; none of w's is negative then.
Node cut_padding(Graph& g, Node x, Windows* w);
// Rounds the numbers of windows up: padding added after, windows that begin beyond x left out.
void round_up(Windows* w, Node x);
// SHAPE unless each axis of x holds a window.
Status check_windows(const Windows& w, Node x);
// [.., n, m, ..] padded and cut into windows: [.., o, k, p, l, ..].
Node cut_windows(Graph& g, Node x, const Windows& w, Word fill);

// The axes of the kernel in what cut_windows gives.
uop::Dims kernel_axes(size_t ndim, size_t rank);

// Operands of one dtype, padding not negative. x [N, groups * C, ...], weight [O, C, kernel...].
Node conv(Graph& g, Node x, Node weight, const Windows& w, Word groups);

}  // namespace aster::tensor
