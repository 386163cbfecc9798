// Tensors that layers, states and optimisers share.
#pragma once

#include <span>

#include "aster_ml/tensor.h"
#include "engine/lazy.h"
#include "uop/expr.h"

namespace aster::nn {

using dtype::DType;
using uop::Expr;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Word;
using uop::Words;

// One cell for all who share it, so that an assignment that one of them has left pending is seen
// and realised by the others. On the context's thread only.
struct Parameter {
  engine::Lazy* cell;
  uint32_t references;
  bool trained;
};

// A counted reference.
class Shared {
 public:
  Shared() = default;
  Shared(Shared&& other) noexcept : parameter_(std::exchange(other.parameter_, nullptr)) {}
  Shared& operator=(Shared&& other) noexcept {
    std::swap(parameter_, other.parameter_);
    return *this;
  }
  Shared(const Shared& other) : parameter_(other.parameter_) {
    if (parameter_ != nullptr) ++parameter_->references;
  }
  Shared& operator=(const Shared& other) {
    Shared copy(other);
    std::swap(parameter_, copy.parameter_);
    return *this;
  }
  ~Shared();

  // Takes a cell out of its scope; the cell ends with the last reference, or on a failure.
  static Status take(Shared* out, engine::Lazy* cell, bool trained);
  // A new cell naming node; nil: last_failure().
  static Status make(Shared* out, engine::Engine& engine, Node node, bool trained);

  bool empty() const { return parameter_ == nullptr; }
  bool trained() const { return parameter_->trained; }
  engine::Lazy& cell() const { return *parameter_->cell; }
  Node node() const { return parameter_ == nullptr ? nullptr : parameter_->cell->node; }
  aster_ml_lazy handle() const { return {parameter_->cell->handle}; }

 private:
  Parameter* parameter_ = nullptr;
};

// value everywhere, in storage of its own on a device: nothing has to be computed for it.
Status filled(Shared* out, engine::Engine& engine, int32_t device, DType dtype, Words shape,
              double value, bool trained);

// Realises cells together; null pointers are skipped.
Status realize(Heap& heap, std::span<engine::Lazy* const> cells);

// Assignments to realised cells that all happen, or none.
class Assignments {
 public:
  explicit Assignments(engine::Engine& engine) : engine_(engine), done_(memory(engine)) {}
  ~Assignments();
  Assignments(const Assignments&) = delete;
  Assignments& operator=(const Assignments&) = delete;
  // value has the dtype and shape of the cell.
  Status add(engine::Lazy& cell, Node value);
  void keep();

 private:
  static Heap& memory(engine::Engine& engine);
  struct Done {
    engine::Lazy* cell;
    Node before;
  };
  engine::Engine& engine_;
  Vec<Done> done_;
};

}  // namespace aster::nn
