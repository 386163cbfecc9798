// Attributes of convolutions and pools.
#pragma once

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

// Lists of one word each for the axes after the second.
struct WindowList {
  size_t rank = 0;
  Dims kernel, stride, dilation, before, after;
  bool ceil = false;
  Word span(size_t i) const { return dilation[i] * (kernel[i] - 1) + 1; }
};
// sizes: of the axes that windows lie on. False after a failure; else no sum of spans, borders and
// strides times sizes overflows. padded: auto_pad is followed; not for transposed convolutions.
bool read_windows(Op& op, WindowList* out, Words kernel, Words sizes, bool padded = true);
Node convolve(Op& op, Node x, Node weight, Node bias, const WindowList& w, int64_t groups);

}  // namespace aster::nn::onnx
