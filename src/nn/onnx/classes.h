// What trees and other classifiers give: scores by a transform, and labels.
#pragma once

#include "nn/onnx/run.h"

namespace aster::nn::onnx {

// Of one row, in place: LOGISTIC, PROBIT, SOFTMAX, SOFTMAX_ZERO; anything else leaves it.
void transform(double* row, size_t count, std::string_view how);

// Result `result` is [rows, targets].
void give_scores(Op& op, size_t result, Vec<double>& scores, size_t targets, std::string_view how,
                 DType dtype);

// Result 0 is the label of each row by its place among names or, where there are none, numbers.
void give_labels(Op& op, Vec<Word>& best, std::span<const std::string_view> names, Words numbers);

}  // namespace aster::nn::onnx
