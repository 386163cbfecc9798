/* Neural networks: layers, named tensors (states) with safetensors files, and optimisers.
 *
 * Layers, states and optimisers share the parameters themselves: what an optimiser updates, its
 * layers compute with and its states write. Their handles stay until they are freed; scopes leave
 * them alone. A parameter lives as long as one of them holds it.
 *
 * A training step, uncaptured or captured, is one realize:
 *
 *   aster_ml_layer_run(&y, &layer, &x, 1);
 *   ... loss ...
 *   aster_ml_optimizer_step(&optimizer, &loss);
 *
 * Everything that changes from step to step (rate, moments, powers of the decay rates, running
 * statistics) is a tensor: all steps are one schedule, and a captured step may be replayed.
 *
 * Conventions as in base.h and tensor.h.
 */
#ifndef ASTER_ML_NN_H
#define ASTER_ML_NN_H

#include "aster_ml/layer.h"
#include "aster_ml/optim.h"
#include "aster_ml/state.h"

#endif
