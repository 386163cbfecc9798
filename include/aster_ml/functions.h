/* Lazy functions of elements and along axes: activations, losses, statistics, cumulative sums.
 *
 * Conventions of handles, shapes, dtypes and errors are those of tensor.h.
 */
#ifndef ASTER_ML_FUNCTIONS_H
#define ASTER_ML_FUNCTIONS_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
