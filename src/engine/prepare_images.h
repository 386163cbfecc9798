// How the images of convolutions lie in memory.
#pragma once

#include "uop/uop.h"

namespace aster::engine {

// Padded elements from which windows read a padded copy, where their loops would have conditions
// that no masked load answers: one pass over memory costs far less.
constexpr int64_t kPaddedFrom = 16384;

// A convolution, or a gradient to its weights, that reads what it needs of the image where that
// lies in memory without conditions: padded, or where no windows overlap and some pixels are left
// out, without these.
Status store_image(uop::Node* call, uop::Graph& graph);

// A convolution over an image with zeros between its pixels, which gradients to images and
// transposed convolutions are: for each place between two pixels the convolution by the weights
// that meet pixels there, and their results side by side. Others stay.
Status split_phases(uop::Node* call, uop::Graph& graph);

// A gradient to weights over such an image, whose pixels and whose results' gradients change their
// roles: the zeros are steps of the windows over the latter. Others stay.
Status exchange_images(uop::Node* call, uop::Graph& graph);

}  // namespace aster::engine
