// Layers: parameters, and how they compute.
#pragma once

#include "aster_ml/nn.h"
#include "nn/parameter.h"
#include "tensor/api.h"

namespace aster::nn {

struct NamedParameter {
  const char* name;  // static text
  Shared parameter;
};

struct Layer : HandleObject {
  explicit Layer(Heap& heap) : parameters(heap) {}
  // One computation of the layer: y of the node x, nil on a failure. Assignments that it makes go
  // to writes.
  Node (*run)(Layer& layer, engine::Engine& engine, Node x, bool training, Assignments& writes);
  Vec<NamedParameter> parameters;
  aster_ml_conv2d_options conv2d = {};
  aster_ml_batch_norm_options norm = {};
  Word channels = 0, groups = 1;  // of norms
  uop::Dims shape;                // that layer_norm is over
  double eps = 0;

  // The parameter of a name, empty if there is none.
  Shared find(const char* name) const;
};

inline Layer* layer_of(const aster_ml_layer* layer) {
  return layer == nullptr ? nullptr : static_cast<Layer*>(layer->impl);
}

// A second handle on what a parameter names.
Status copy_handle(aster_ml_lazy* out, const Shared& parameter);

}  // namespace aster::nn
