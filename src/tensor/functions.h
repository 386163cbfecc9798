// What the public functions of aster_ml/functions.h share.
#pragma once

#include "aster_ml/functions.h"
#include "tensor/api.h"

namespace aster::tensor {

// Narrow floats as float32, other dtypes unchanged.
Expr widened(Expr x);
// x as a float that is not narrow; and back, to the dtype of x made float.
Expr as_wide(Graph& g, Node x);
Node narrowed(Expr y, Node x);

// A call with two results: both handles are made, or neither.
class Pair {
 public:
  Pair(aster_ml_lazy* first, aster_ml_lazy* second, std::initializer_list<Input> inputs);
  Status status() const { return status_; }
  Build& build() { return *build_; }
  Graph& graph() { return build_->graph(); }
  bool strict() const { return build_->strict(); }
  Status finish(Node first, Node second);

 private:
  aster_ml_lazy* out_[2];
  aster_ml_lazy unused_{};
  std::optional<Build> build_;
  Status status_;
};

}  // namespace aster::tensor
