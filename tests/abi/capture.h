/* The program that the tests of queues run. */
#ifndef ASTER_ML_TESTS_CAPTURE_H
#define ASTER_ML_TESTS_CAPTURE_H

#include <aster_ml/aster_ml.h>

#include "expect.h"

/* y = x + 1. */
static aster_ml_program capture(aster_ml_context *context, int32_t device, int64_t count) {
  static const float zeros[1000];
  aster_ml_lazy x, there, one, y;
  EXPECT(count <= 1000);
  aster_ml_program program = {0};
  EXPECT(aster_ml_lazy_from(&x, context, zeros, ASTER_ML_DTYPE_FLOAT32, 1, &count) == 0);
  EXPECT(aster_ml_lazy_to(&there, &x, device) == 0);
  EXPECT(aster_ml_lazy_number(&one, context, 1) == 0);
  aster_ml_lazy *inputs[] = {&there}, *outputs[] = {&y};
  EXPECT(aster_ml_engine_capture_begin(context, inputs, 1) == 0);
  EXPECT(aster_ml_lazy_add(&y, &there, &one) == 0);
  EXPECT(aster_ml_engine_capture_end(&program, context, outputs, 1) == 0);
  aster_ml_lazy *all[] = {&x, &there, &one, &y};
  for (int i = 0; i < 4; i++) aster_ml_lazy_free(all[i]);
  return program;
}

#endif
