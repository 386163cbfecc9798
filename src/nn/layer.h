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
  explicit Layer(Heap& heap) : parameters(heap), lists(heap) {}
  // One computation of the layer: y of the node x, nil on a failure. Assignments that it makes go
  // to writes.
  Node (*run)(Layer& layer, engine::Engine& engine, Node x, bool training, Assignments& writes);
  Vec<NamedParameter> parameters;
  aster_ml_conv2d_options conv2d = {};
  aster_ml_conv_options conv = {};  // of conv and conv_transpose; its lists are in lists
  Vec<int64_t> lists;
  aster_ml_batch_norm_options norm = {};
  Word channels = 0, groups = 1;  // of norms
  uop::Dims shape;                // that layer_norm is over
  double eps = 0;

  // The parameter of a name, empty if there is none.
  Shared find(const char* name) const;
};

inline Layer* layer_of(const aster_ml_layer* layer) {
  return layer == nullptr ? nullptr : object_of<Layer>(layer->impl);
}

// What a public function of one tensor makes of x: f gets handles for the result and for x. Nil:
// the failure in the error record.
template <typename F>
Node through_handle(engine::Engine& engine, Node x, F f) {
  engine::Lazy* input;
  if (!engine::lazy_create(&input, engine, x).ok()) return nullptr;
  const aster_ml_lazy in{input->handle};
  aster_ml_lazy out{};
  Node y = nullptr;
  if (f(&out, &in) == 0) y = tensor::node(&out);  // reclaimed by a realize at the earliest
  aster_ml_lazy_free(&out);
  free_handle(input);
  return y;
}

// A second handle on what a parameter names.
Status copy_handle(aster_ml_lazy* out, const Shared& parameter);

}  // namespace aster::nn
