// x[...] and its relatives on nodes.
#pragma once

#include "aster_ml/indexing.h"
#include "tensor/api.h"

namespace aster::tensor {

// One item of x[...]; a tensor's node is an integer's by now.
struct IndexItem {
  int32_t kind;
  int64_t start, stop, step;
  Node tensor;    // indices, or flat positions of a mask's elements
  size_t covers;  // axes that it stands for: as many as a mask has
};

// Row-major positions in a shape as coordinates, the last first: each(axis, coordinate).
template <typename Each>
void take_apart(Expr positions, Words shape, Each each) {
  for (size_t i = shape.size(); i-- > 0;) {
    const Expr size = positions.like(static_cast<double>(shape[i]));
    each(i, alu(uop::Op::kCMod, positions, size));
    positions = alu(uop::Op::kCDiv, positions, size);
  }
}

// How x[items] is made: a view, then what tensors name in it.
class Indexing {
 public:
  // Errors: as aster_ml_lazy_index.
  static Status plan(Indexing* out, Graph& g, Node x, std::span<const IndexItem> items);
  explicit Indexing(Memory& memory) : axes_(memory), at_(memory) {}

  bool has_tensors() const { return !at_.empty(); }
  Words shape() const { return shape_; }  // of the result
  Node read(Graph& g, Node x) const;
  // The view alone, for items without tensors.
  Node view(Graph& g, Node x) const;
  // x with value, of this shape, in its place; a new value, x stays.
  Node write(Graph& g, Node x, Node value) const;

 private:
  struct Axis {  // of the view
    Word size;
    Word source;        // first axis of x, or -1 for a new one
    size_t covers = 1;  // axes of x that are one here
    Node tensor = nullptr;
  };
  Status take(Graph& g, Node x, const IndexItem& item);
  Status lay_out();
  Span span(size_t axis) const { return span_of(x_[axis], start_[axis], stop_[axis], step_[axis]); }
  Node spread(Graph& g, Node tensor) const;
  Word axis_in_result(size_t k) const;
  Node place(Graph& g, Node x, Node value) const;
  Node scatter(Graph& g, Node x, Node value) const;

  uop::Dims x_, start_, stop_, step_;  // of every axis of x; integers are slices of one
  Vec<Axis> axes_;                     // of the view
  Vec<size_t> at_;                     // those that tensors index
  uop::Dims broadcast_;                // shape of the tensors together
  size_t front_ = 0;                   // axis of the result where theirs stand
  uop::Dims shape_;
};

// The axis, and whether index fits beside x on all others. RANGE, DTYPE, SHAPE.
Status check_along(const char* what, size_t* at, Node x, int64_t axis, Node index);
// The elements of a mask that are not zero, counted by running its sum. What was built before and
// is held by no handle is gone afterwards.
Status count_true(int64_t* out, Input mask);
// Row-major positions of a mask's first count true elements (int32), true ones first.
Node true_positions(Graph& g, Node mask, int64_t count);
// Coordinates of a Gather or Scatter along one axis by one index.
uop::Dims along(size_t ndim, size_t axis);
Node gather(Graph& g, Node x, int64_t axis, Node index);
Node scatter(Graph& g, Node x, int64_t axis, Node index, Node src, int32_t mode, bool include_self);
Node argsort(Graph& g, Node x, int64_t axis, bool descending);
Status sort(Node* values, Node* indices, Graph& g, Node x, int64_t axis, bool descending,
            int64_t count);  // -1: all

}  // namespace aster::tensor
