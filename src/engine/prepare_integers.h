// Products of quantised tensors as sums of products of integers.
#pragma once

#include "uop/uop.h"

namespace aster::engine {

// A product of matrices or convolution of two tensors that are (q - z) s, q of int8 or uint8 and s
// the same for all terms of a sum, or of two q - z: the exact sum of integer products, two terms a
// 32-bit word (PairDot), times both scales as float32. Others stay: sums that may leave int32, and
// what is too small to gain by it.
// quads: four terms a word (QuadDot) where z is the same for all terms of a sum, which pays where
// an instruction does that.
// constant: operands of which words are made only once.
struct Constant {
  bool first = false, second = false;
};
Status multiply_integers(uop::Node* call, uop::Graph& graph, bool quads, Constant constant = {});

}  // namespace aster::engine
