// Layers under construction.
#pragma once

#include "nn/layer.h"

namespace aster::nn {

// A layer under construction; freed unless it is given away.
class Making {
 public:
  Making(aster_ml_layer* out, const aster_ml_context* context);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  Status status() const { return status_; }
  Layer& layer() { return *layer_; }
  DType default_float() const { return engine::graph_of(*engine_).defaults.real; }
  // Parameters: uniform in +-bound, or value everywhere.
  Status uniform(const char* name, Words shape, double bound);
  Status constant(const char* name, DType dtype, Words shape, double value, bool trained);
  // weight of ones, and bias of zeros.
  Status affine(Words shape, bool bias);
  Status finish() {
    out_->impl = std::exchange(layer_, nullptr)->handle;
    return kOk;
  }

 private:
  Status add(const char* name, Shared parameter) {
    return layer_->parameters.push(NamedParameter{name, std::move(parameter)});
  }
  aster_ml_layer* out_;
  Context* context_;
  ContextLock lock_;
  engine::Engine* engine_ = nullptr;
  Layer* layer_ = nullptr;
  Status status_;
};

// RANGE where size is not positive.
Status positive(const char* what, int64_t size);

}  // namespace aster::nn
