// Windows on the last axes of a tensor: what convolutions and pools of any rank share. Functions
// absorb nil nodes.
#pragma once

#include "tensor/movement.h"
#include "tensor/sized.h"
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

// ---- Rules for symbolic sizes (sized.h) ----

namespace sized {

// Shows x with a fill beyond the last axes that are variables', whose sizes are numbers of windows
// from here on; up: whether these are rounded up. within, where not null: what is inside these
// axes, nil where all is.
Status windows(Build& build, Input x, const Windows& w, Fill fill, bool up, Node* within = nullptr);
// The same with 0 for a transposed convolution; more: elements after its result.
Status windows_back(Build& build, Input x, const Windows& w, const uop::Dims& more);

}  // namespace sized
}  // namespace aster::tensor
