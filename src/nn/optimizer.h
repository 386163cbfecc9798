// Optimisers: update rules over parameters, with all that changes kept in tensors.
#pragma once

#include <string_view>

#include "aster_ml/nn.h"
#include "base/text.h"
#include "nn/parameter.h"

namespace aster::nn {

struct Optimizer : HandleObject {
  explicit Optimizer(Heap& heap) : trained(heap), others(heap), scalars(heap) {}

  // One parameter and its moments, of which a rule uses none to two.
  struct Trained {
    Text name;
    Shared w;
    Shared moments[2];
  };
  // Of the whole optimiser: [1] each; the first is the rate.
  struct Scalar {
    const char* name;
    Shared value;
  };
  struct Rule {
    const char* moments[2];  // names; null where there is none
    // The scalars of this step, to be assigned; then one parameter's.
    Status (*begin)(Optimizer& o, Graph& g, Assignments& writes);
    Status (*update)(Optimizer& o, Graph& g, Trained& t, Node gradient, Assignments& writes);
  };
  const Rule* rule = nullptr;
  Vec<Trained> trained;
  Vec<Shared> others;  // realised along with each step
  Vec<Scalar> scalars;
  int32_t device = 0;  // of the parameters and of everything here
  // What the rules read.
  struct Descent {
    double momentum, decay;
    double trust;  // of the layer-wise rate; 0: 1 throughout
    bool nesterov, classic;
    bool decay_after;  // with the rate, after momentum
    int32_t steps;     // of Newton and Schulz; 0: none
    double coefficients[3];
  };
  struct Adaptive {
    double beta1, beta2, eps, decay;
    bool trust;
  };
  Descent descent = {};
  Adaptive adaptive = {};

  // Calls take for everything the optimiser keeps, by name, until it fails.
  using Take = Status (*)(void* self, std::string_view name, const Shared& kept);
  Status each(Take take, void* self) const;
};

inline Optimizer* optimizer_of(const aster_ml_optimizer* optimizer) {
  return optimizer == nullptr ? nullptr : object_of<Optimizer>(optimizer->impl);
}

}  // namespace aster::nn
