/* Every public header of the library. */
#ifndef ASTER_ML_H
#define ASTER_ML_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"
#include "aster_ml/codegen.h"
#include "aster_ml/device.h"
#include "aster_ml/dlpack.h"
#include "aster_ml/dtype.h"
#include "aster_ml/eager.h"
#include "aster_ml/engine.h"
#include "aster_ml/flt.h"
#include "aster_ml/functions.h"
#include "aster_ml/gradient.h"
#include "aster_ml/indexing.h"
#include "aster_ml/kernel.h"
#include "aster_ml/layer.h"
#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "aster_ml/nn.h"
#include "aster_ml/optim.h"
#include "aster_ml/queue.h"
#include "aster_ml/random.h"
#include "aster_ml/runtime.h"
#include "aster_ml/spatial.h"
#include "aster_ml/state.h"
#include "aster_ml/symbolic.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"
#include "aster_ml/view.h"

#endif
