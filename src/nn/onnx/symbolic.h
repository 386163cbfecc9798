// Operators on tensors whose sizes are variables (tensor/sized.h): one graph for many sizes.
//
// A value of integers that are made of sizes carries them as expressions, so that arithmetic on
// shapes stays what it is for every size. An operator without a rule here, or one that looks along
// an axis in a way that its rule does not cover, is UNSUPPORTED: the model is built for each size.
#pragma once

#include "nn/onnx/run.h"
#include "tensor/sized.h"

namespace aster::nn::onnx {

// Whether an operand has symbolic sizes, or elements that are made of some.
bool is_symbolic(const Value& value);

// Builds a node that has such operands.
void build_symbolic(Op& op, const Row& row);

// A tensor of the greatest sizes that a size may be, in memory that is not filled.
Status make_symbolic(Ref* out, engine::Engine& engine, DType dtype, int32_t element,
                     const tensor::Sizes& sizes);

}  // namespace aster::nn::onnx
